"""Latency and bandwidth of a link, fitted to measured collectives: from a table of nccl-tests to a machine's YAML.

A collective takes T = p*alpha + q*S/B (network/collectives.py). What is fitted (hockney.py) is the line T = a + c*S,
and then alpha = a/p and B = q/c for the algorithm that the topology would run. NCCL may run another one: alpha belongs
to the algorithm named, while a, c and the bus bandwidth do not depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, log2
from pathlib import Path
from typing import Any

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError, count, shown, text
from simulator.files.tables import write_csv
from simulator.lazy import pd
from simulator.network.collectives import Algorithm, all_pairs
from simulator.network.topology import Topology
from simulator.pictures.panels import Panel, Picture
from simulator.task import FOLDER, Outcome, Progress, Task
from simulator.tasks.calibrate.hockney import Line, Model, fit_line, fit_model, held_out_error, relative_errors
from simulator.tasks.calibrate.nccl_tests import Measurements, read_measurements
from simulator.text import duration, percent, rate, size, within

POINTS = 400  # of a drawn curve
TICKS = 7  # of its axis


@dataclass(frozen=True, kw_only=True)
class Calibrate(Task):
    """Fits latency and bandwidth to a table of nccl-tests and writes them as a machine.

    Its fields are the keys of ``conf/task/calibrate.yaml``, which says what each means.
    """

    name: str
    nccl_tests: str
    topology: Topology
    collective: str | None = None
    ranks: int | None = None
    size_column: str = "size_bytes"
    time_column: str = "time_us"
    select: Mapping[str, Any] | None = None
    smallest: float = 0.0
    largest: float | None = None
    segments: int = 1
    machine_name: str | None = None

    def __post_init__(self) -> None:
        text("nccl_tests", self.nccl_tests)
        for column in ("size_column", "time_column"):
            text(column, getattr(self, column))
        count("segments", self.segments, most=3)
        if self.ranks is not None:
            count("ranks", self.ranks, least=2)
        if self.topology.alpha != 0 or self.topology.bandwidth != inf:
            raise InputError("topology must be without alpha and bandwidth, which are fitted; leave them out")
        if self.machine_name is not None and not re.fullmatch(r"[A-Za-z]\w*", str(self.machine_name), re.ASCII):
            got = shown(self.machine_name)
            raise InputError(f"machine_name must be letters, digits and underscores, a letter first; got {got}")

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        """Leaves ``calibration.csv``, ``fits.csv``, the picture ``busbw`` and ``machine/NAME.yaml``."""
        from simulator.pictures.draw import write_pictures

        found = self.find()
        write_csv(found.points(), folder / "calibration.csv")
        write_csv(found.fits(), folder / "fits.csv")
        write_pictures([found.picture()], folder)
        (folder / "machine").mkdir()
        (folder / "machine" / f"{found.machine_name}.yaml").write_text(found.machine(), encoding="utf-8")
        return Outcome(f"{self.name}: {found.text()}")

    def find(self) -> Calibration:
        """Read the file and fit it.

        Raises:
            InputError: as ``read_measurements`` and ``fit_model``, and for times that do not grow with the size.
        """
        path = Path(self.nccl_tests)
        measured = read_measurements(
            path, collective=self.collective, ranks=self.ranks, size_column=self.size_column,
            time_column=self.time_column, select=self.select, smallest=self.smallest, largest=self.largest,
        )  # fmt: skip
        self.topology.check(measured.ranks)
        line = fit_line(measured.sizes, measured.times)
        if line.slope <= 0:
            raise InputError(f"nccl_tests must have times that grow with the size; those of {path.name} do not")
        stem = re.sub(r"\W+", "_", path.stem, flags=re.ASCII)
        return Calibration(
            measured=measured,
            origin=shown(path.name)[1:-1] + self._part(),
            algorithm=self.topology.cost(measured.kind, 0.0, measured.ranks).algorithm,
            others=self.topology.algorithms(measured.kind, measured.ranks),
            topology=self.topology.name,
            line=line,
            model=fit_model(measured.sizes, measured.times, self.segments),
            machine_name=self.machine_name or (stem if stem[0].isalpha() else f"machine_{stem}"),
        )

    def _part(self) -> str:
        """Which part of the file was taken."""
        chosen = [self.time_column, *(f"{name} {value}" for name, value in (self.select or {}).items())]
        return f" ({', '.join(chosen)})"


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a calibration found.

    Attributes:
        measured: the measured times.
        origin: the file, and which part of it.
        algorithm: whose p and q turn the line into alpha and B.
        others: all algorithms that the topology offers.
        topology: name of the topology.
        line: the two-parameter fit.
        model: the fit in segments; the same line where there is one.
        machine_name: name of the machine.
    """

    measured: Measurements
    origin: str
    algorithm: Algorithm
    others: Sequence[Algorithm]
    topology: str
    line: Line
    model: Model
    machine_name: str

    @property
    def alpha(self) -> float:
        """Latency of one round, seconds."""
        return self.line.latency / self.algorithm.rounds

    @property
    def bandwidth(self) -> float:
        """Bandwidth of one rank into the collective, bytes/s per direction."""
        return self.algorithm.volume / self.line.slope

    @property
    def bus(self) -> float:
        """Bus bandwidth of nccl-tests in units of size/time: what every algorithm must at least move."""
        return all_pairs(self.measured.kind, self.measured.ranks).volume

    def points(self) -> pd.DataFrame:
        """One row per size: ``size_bytes``, ``measured`` and ``fitted`` (s) by the model, its ``relative_error``."""
        sizes, times = self.measured.sizes, self.measured.times
        errors = relative_errors(self.model, sizes, times)
        fitted = self.model.time(sizes)
        return pd.DataFrame(
            {"size_bytes": sizes.astype(np.int64), "measured": times, "fitted": fitted, "relative_error": errors}
        )

    def fits(self) -> pd.DataFrame:
        """One row per fit, the two-parameter one first, then the segments; seconds, bytes/s and standard errors."""
        segments = self.model.lines if len(self.model.lines) > 1 else ()
        fits = {"two parameters": self.line, **{f"segment {i + 1}": line for i, line in enumerate(segments)}}
        return pd.DataFrame([{"fit": name, **self._row(line)} for name, line in fits.items()])

    def _row(self, line: Line) -> dict[str, Any]:
        p, q = self.algorithm.rounds, self.algorithm.volume
        sizes = self.measured.sizes
        part = (sizes >= line.first) & (sizes <= line.last)
        errors = np.abs(relative_errors(Model((line,)), sizes[part], self.measured.times[part]))
        return {
            "first_bytes": line.first, "last_bytes": line.last, "points": line.points,
            "latency": line.latency, "latency_se": line.latency_se, "alpha": line.latency / p,
            "alpha_se": line.latency_se / p, "bandwidth": q / line.slope if line.slope else inf,
            "bandwidth_se": q * line.slope_se / line.slope**2 if line.slope else inf,
            "bus_bandwidth": self.bus / line.slope if line.slope else inf,
            "median_error": float(np.median(errors)), "largest_error": float(errors.max()),
        }  # fmt: skip

    def text(self) -> str:
        """The finding, in lines of at most 80 characters."""
        m, line, fits = self.measured, self.line, self.fits()
        whole, segments = fits.iloc[0], fits.iloc[1:]
        held_out = held_out_error(m.sizes, m.times, 1)
        lines = [
            f"{m.kind.value} over {m.ranks} ranks, {len(m.sizes)} sizes from {size(line.first)} to {size(line.last)}",
            f"from {self.origin}",
            *([_short(f"measured on {m.hardware}", 80)] if m.hardware else []),
            "",
            "two parameters: T = a + S/b, relative least squares, ± standard error",
            f"  a       {duration(line.latency)}{within(line.latency_se, duration)}",
            f"  b       {rate(1 / line.slope)}{within(line.slope_se / line.slope**2, rate)}: bus bandwidth "
            f"{rate(whole['bus_bandwidth'])} for large messages",
            f"  alpha   {duration(self.alpha)}{within(whole['alpha_se'], duration)} per round; {self._assumed()}",
            f"  B       {rate(self.bandwidth)}{within(whole['bandwidth_se'], rate)} per rank and direction",
            f"  error   {_errors(whole)}{_left_out(held_out)}",
            *self._others(),
        ]
        if len(segments):
            lines += ["", *self._segments(segments)]
        if m.notes:
            lines += ["", *(f"Note: {note}." for note in m.notes)]
        use = f"  python -m simulator --config-dir {FOLDER} machine={self.machine_name}"
        return "\n".join([*lines, "", "The two-parameter fit is a machine now:", use])

    def _assumed(self) -> str:
        p, q = self.algorithm.rounds, self.algorithm.volume
        return f"{self.algorithm.name}: p = {p:g}, q = {q:.4g}"

    def _others(self) -> list[str]:
        """What the same latency would be per round of the other algorithms that the topology offers."""
        return [
            f"  as {other.name} (p = {other.rounds:g}, q = {other.volume:.4g}): alpha "
            f"{duration(self.line.latency / other.rounds)}, B {rate(other.volume / self.line.slope)}"
            for other in self.others
            if other != self.algorithm
        ]

    def _segments(self, table: pd.DataFrame) -> list[str]:
        m = self.measured
        errors = np.abs(relative_errors(self.model, m.sizes, m.times))
        whole = {"median_error": np.median(errors), "largest_error": errors.max()}
        held_out = held_out_error(m.sizes, m.times, len(table))
        rows = [
            f"  {size(row.first_bytes):>9} to {size(row.last_bytes):<9}{row.points:>5}{duration(row.latency):>12}"
            f"{rate(row.bandwidth) if isfinite(row.bandwidth) else '-':>14}{percent(row.median_error):>10}"
            for row in table.itertuples()
        ]
        return [
            f"{len(table)} segments: {_errors(whole)}{_left_out(held_out)}",
            f"  {'sizes':<22}{'':>5}{'a':>12}{'B':>14}{'median':>10}",
            *rows,
        ]

    def machine(self) -> str:
        """The YAML of a machine: alpha and B of the two-parameter fit, and where they are from."""
        m, whole = self.measured, self.fits().iloc[0]
        alpha, bandwidth = (within(whole[name], "{:.1g}".format) for name in ("alpha_se", "bandwidth_se"))
        hardware = f" on {m.hardware}" if m.hardware else ""
        sizes = f"{len(m.sizes)} sizes from {size(self.line.first)} to {size(self.line.last)}"
        return f"""\
# A measured link, as +experiment=calibrate fitted it.
# source: {self.origin}: {m.kind.value} over {m.ranks} ranks{hardware}, {sizes}
# source: relative least squares of p*alpha + q*S/B, {self._assumed()} ({self.topology});
# error {_errors(whole)}
_target_: simulator.Machine
name: {self.machine_name}
alpha: {self.alpha:.9g} # s. source: the fit above{alpha}
bandwidth: {self.bandwidth:.9g} # bytes/s per direction. source: the fit above{bandwidth}
"""

    def picture(self) -> Picture:
        """Bus bandwidth against size: measured, the two-parameter fit, and the segments."""
        m = self.measured
        grid = np.geomspace(m.sizes[0], m.sizes[-1], POINTS)
        curves = [self._curve("points", m.sizes, m.times), self._curve("dashed", grid, self.line.time(grid))]
        styles = {"points": "measured", "dashed": "two parameters"}
        if len(self.model.lines) > 1:
            styles["line"] = f"{len(self.model.lines)} segments"
            curves += [self._curve("line", *_broken(self.model, grid))]
        jumps = [self._misfit("line", self.model)] if len(self.model.lines) > 1 else []
        asymptote = self.bus / self.line.slope / 1e9
        value, unit = size(self.line.latency / self.line.slope).split()
        ticks = _ticks(grid)
        bandwidth = Panel(
            table=pd.concat(curves), x="message size", y="bus bandwidth, GB/s", log_x=True, styles=styles, ticks=ticks,
            levels={asymptote: "fitted asymptote"}, marks=dict.fromkeys(self.model.borders, ""),
        )  # fmt: skip
        errors = Panel(
            table=pd.concat([self._misfit("dashed", Model((self.line,))), *jumps]),
            x="message size", y="fitted - measured, %", log_x=True, styles=styles, ticks=ticks, levels={0.0: ""},
        )  # fmt: skip
        return Picture(
            name="busbw",
            title=f"{m.kind.label} over {m.ranks} ranks reaches half of its {asymptote:,.0f} GB/s at "
            f"{round(float(value), 1):g} {unit}",
            subtitle=_short(f"off by {_errors(self.fits().iloc[0])}: {m.hardware or self.origin}"),
            panels=[bandwidth, errors],
        )

    def _curve(self, style: str, sizes: Array, times: Array) -> pd.DataFrame:
        return pd.DataFrame({"series": "", "style": style, "x": sizes, "y": self.bus * sizes / times / 1e9})

    def _misfit(self, style: str, model: Model) -> pd.DataFrame:
        sizes = self.measured.sizes
        errors = 100 * relative_errors(model, sizes, self.measured.times)
        return pd.DataFrame({"series": "", "style": style, "x": sizes, "y": errors})


def _errors(fit: Mapping[str, Any] | pd.Series[Any]) -> str:
    return f"{percent(fit['median_error'])} in the median, {percent(fit['largest_error'])} at most"


def _left_out(error: float) -> str:
    return f"; {percent(error)} where left out of the fit" if isfinite(error) else ""


def _short(line: str, most: int = 66) -> str:
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _broken(model: Model, grid: Array) -> tuple[Array, Array]:
    """The curve of a model, with a gap at each border, where it may jump."""
    sizes = np.sort(np.concatenate([grid, model.borders]))
    times = model.time(sizes)
    times[np.isin(sizes, model.borders)] = np.nan
    return sizes, times


def _ticks(sizes: Array) -> dict[float, str]:
    """Whole powers of 2 on an axis of bytes, labelled, as many as fit."""
    first, last = ceil(log2(sizes[0])), floor(log2(sizes[-1]))
    powers = next(
        p for step in (1, 2, 5, 10) if len(p := [i for i in range(first, last + 1) if i % step == 0]) <= TICKS
    )
    return {2.0**power: size(2.0**power) for power in powers}
