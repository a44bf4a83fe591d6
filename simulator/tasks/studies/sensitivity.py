"""Which input matters most: the tax and the optimal bandwidth as each goes from its low to its high end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from simulator.checks import InputError, Rule, count, number, one_of
from simulator.laws import BlockMaxima, Law
from simulator.laws.gev import gev_mean
from simulator.lazy import pd
from simulator.network.topology import Topology
from simulator.pictures.panels import Panel, Picture
from simulator.simulation.closed_forms import optimal_bandwidth
from simulator.simulation.experiment import Experiment
from simulator.task import Progress
from simulator.tasks.studies.base import (
    Elasticity,
    Findings,
    Study,
    check_points,
    mean_cost,
    pretty,
    simulate_taxes,
)
from simulator.workload.program import Collective, Compute
from simulator.workload.training import Workload

Values = Mapping[str, int | float]

LAW = {"mean": "centre", "cv": "cv", "mu": "mu", "sigma": "sigma", "xi": "xi", "m": "m"}  # input -> field of the law
LABELS = {  # input -> symbol, unit, and the unit in SI
    "mean": ("a", " ms", 1e-3), "cv": ("r", "", 1.0), "mu": ("µ", "", 1.0), "sigma": ("σ", "", 1.0),
    "xi": ("ξ", "", 1.0), "m": ("m", "", 1.0), "alpha": ("α", " µs", 1e-6), "bytes": ("S", " MiB", 2.0**20),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Sensitivity(Study):
    """Moves one input at a time; closed form, with a simulated check where the tax moves most.

    Its fields are the keys of ``conf/task/sensitivity.yaml``, which says what each means.
    """

    n: int
    compute: Law
    topology: Topology
    workload: Workload
    inputs: Annotated[Mapping[str, Mapping[str, Values]], Rule(filled=True)]
    target: Elasticity = -0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.compute, BlockMaxima):
            raise InputError(
                "compute", f"must be a law of block maxima: gumbel, frechet or weibull; got {self.compute.name}"
            )
        count("n", self.n, least=self.compute.m)
        check_points([self.n], self.compute, {"topology": self.topology}, {"workload": self.workload})
        if any(op.law != self.compute for op in self._job.program.operations if isinstance(op, Compute)):
            raise InputError("workload", "must run blocks of the law as it is: scaling weak, and no scale")
        for name, ends in self.inputs.items():
            self._check_input(name, ends)

    def _check_input(self, name: str, ends: Mapping[str, Values]) -> None:
        if set(ends) != {"low", "high"}:
            raise InputError(f"inputs.{name}", "must have the keys low and high", ends)
        for end, values in ends.items():
            place = f"inputs.{name}.{end}"
            if name not in values:
                raise InputError(place, f"must give {name}", values)
            for key in values:
                one_of(place, key, LABELS)
            self._refuse(place, {**self._base, **values})

    def _refuse(self, place: str, values: Values) -> None:
        """Refuse values that no job can have."""
        for key in ("mean", "cv", "alpha"):
            number(f"{place}.{key}", values[key], least=0)
        for key in ("sigma", "bytes"):
            number(f"{place}.{key}", values[key], above=0)
        number(f"{place}.xi", values["xi"], below=1)
        count(f"{place}.m", values["m"], least=2, most=self.n)

    @cached_property
    def _job(self) -> Experiment:
        return self.job(n=self.n, topology=self.topology, compute=self.compute, workload=self.workload)

    @cached_property
    def _base(self) -> dict[str, float]:
        """Every input at the base point."""
        sizes = [op.nbytes for op in self._job.program.operations if isinstance(op, Collective)]
        law = {name: getattr(self.compute, field) for name, field in LAW.items()}
        return {**law, "alpha": self.topology.alpha, "bytes": sum(sizes) / len(sizes)}

    def _tax(self, moved: Values) -> float:
        """tau(n) with some inputs moved, seconds."""
        v = {**self._base, **moved}
        return v["cv"] * v["mean"] * gev_mean(v["mu"], v["sigma"], v["xi"], self.n / v["m"])

    def _bandwidth(self, moved: Values, tax: float | None = None) -> float:
        """B* with some inputs moved, bytes/s; with a tax other than the closed form's where one is given."""
        v = {**self._base, **moved}
        cost = mean_cost(replace(self._job, topology=replace(self.topology, alpha=v["alpha"])))
        volume = cost.volume * v["bytes"] / self._base["bytes"]
        return optimal_bandwidth(volume, self._tax(moved) if tax is None else tax, cost.latency, self.target) or 0.0

    def find(self, progress: Progress | None = None) -> Findings:
        table = pd.DataFrame([
            {
                "input": name, "low": low[name], "high": high[name],
                "tax_low": self._tax(low), "tax_high": self._tax(high),
                "bandwidth_low": self._bandwidth(low), "bandwidth_high": self._bandwidth(high),
            }
            for name, low, high in ((name, ends["low"], ends["high"]) for name, ends in self.inputs.items())
        ])  # fmt: skip
        checks = self._checks(most(table, "tax"), progress)
        return Findings(
            tables={"tornado": table, "checks": checks}, pictures=[self._picture(table)], text=self._text(table, checks)
        )

    def _checks(self, name: str, progress: Progress | None) -> pd.DataFrame:
        """Simulates the base point and both ends of one input."""
        points: dict[str, Values] = {"base": {}} | {f"{name} {end}": self.inputs[name][end] for end in ("low", "high")}
        jobs = [replace(self._job, compute=self._law(point, moved)) for point, moved in points.items()]
        taxes = simulate_taxes(jobs, self.relative_error, progress)
        return pd.DataFrame([
            {
                "point": point, "tau": self._tax(moved), "wait_mean": tax.simulated, "wait_mean_se": tax.error,
                "bandwidth_optimal": self._bandwidth(moved),
                "bandwidth_optimal_simulated": self._bandwidth(moved, tax.simulated),
            }
            for (point, moved), tax in zip(points.items(), taxes, strict=True)
        ])  # fmt: skip

    def _law(self, point: str, moved: Values) -> Law:
        assert isinstance(self.compute, BlockMaxima)
        changes: dict[str, Any] = {LAW[key]: value for key, value in moved.items() if key in LAW}
        try:
            return replace(self.compute, **changes)
        except InputError as error:
            raise InputError(f"inputs: {point} cannot be simulated: {error}") from error

    def _picture(self, table: pd.DataFrame) -> Picture:
        return Picture(
            name="tornado",
            title=f"At n = {self.n} the tax depends most on {_symbol(most(table, 'tax'))},\n"
            f"the optimal bandwidth on {_symbol(most(table, 'bandwidth'))}",
            subtitle=f"{pretty(self.topology.name)}; one input at a time, from its low to its high end",
            panels=[
                self._panel(table, "tax", "synchronization tax, µs", self._tax({}), 1e-6),
                self._panel(table, "bandwidth", "optimal bandwidth, GB/s", self._bandwidth({}), 1e9),
            ],
        )  # fmt: skip

    def _panel(self, table: pd.DataFrame, figure: str, axis: str, base: float, unit: float) -> Panel:
        """The bars of one figure, the longest at the top."""
        order = swing(table, figure).sort_values(ascending=False, kind="stable").index
        bars = pd.DataFrame({
            "label": [_label(row.input, row.low, row.high) for row in table.loc[order].itertuples()],
            "low": table.loc[order, f"{figure}_low"] / unit, "high": table.loc[order, f"{figure}_high"] / unit,
        })  # fmt: skip
        return Panel(kind="tornado", table=bars, x=axis, y="", base=base / unit, title=f"base point {base / unit:,.1f}")

    def _text(self, table: pd.DataFrame, checks: pd.DataFrame) -> str:
        lines = [
            f"n = {self.n} on {pretty(self.topology.name)}: tax {self._tax({}) * 1e6:.1f} us, "
            f"B* {self._bandwidth({}) / 1e9:.1f} GB/s; the tax depends most on {most(table, 'tax')}, "
            f"B* on {most(table, 'bandwidth')}",
            f"  {'input':<8}{'low':>12}{'high':>12}   {'tax, us':>17}   {'B*, GB/s':>17}",
        ]
        lines += [
            f"  {row.input:<8}{row.low:>12g}{row.high:>12g}   {row.tax_low * 1e6:8.1f} {row.tax_high * 1e6:8.1f}   "
            f"{row.bandwidth_low / 1e9:8.1f} {row.bandwidth_high / 1e9:8.1f}"
            for row in table.itertuples()
        ]
        lines += [
            f"  simulated, {row.point:<12} {row.wait_mean * 1e6:8.1f} ± {row.wait_mean_se * 1e6:.1f} us "
            f"(formula {row.tau * 1e6:.1f})   B* {row.bandwidth_optimal_simulated / 1e9:.1f} GB/s"
            for row in checks.itertuples()
        ]
        return "\n".join(lines)


def swing(table: pd.DataFrame, figure: str) -> pd.Series:
    """How far each input moves a figure from its one end to the other."""
    return (table[f"{figure}_high"] - table[f"{figure}_low"]).abs()


def most(table: pd.DataFrame, figure: str) -> str:
    """The input that moves a figure most."""
    return str(table["input"][swing(table, figure).idxmax()])


def _symbol(name: str) -> str:
    return LABELS[name][0]


def _label(name: str, low: float, high: float) -> str:
    symbol, unit, size = LABELS[name]
    return f"{symbol}: {low / size:.4g} – {high / size:.4g}{unit}"
