"""Latency and bandwidth of a link, fitted to measured collectives: from a table of nccl-tests to a machine's YAML.

A collective takes T = p*alpha + q*S/B (network/collectives.py). What is fitted (hockney.py) is the line T = a + c*S,
and then alpha = a/p and B = q/c for the algorithm that the topology would run. NCCL may run another one: alpha belongs
to the algorithm named, while a, c and the bus bandwidth do not depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated, Any

from simulator.checks import InputError, Reads, Rule, shown
from simulator.files.tables import write_csv
from simulator.network.topology import Topology
from simulator.pictures.draw import undrawn, write_pictures
from simulator.task import Outcome, Progress, Task
from simulator.tasks.calibrate.calibration import Calibration
from simulator.tasks.calibrate.hockney import fit_line, fit_model
from simulator.tasks.calibrate.nccl_tests import read_measurements
from simulator.tasks.calibrate.pictures import picture
from simulator.tasks.calibrate.words import machine_yaml, text_of


@dataclass(frozen=True, kw_only=True)
class Calibrate(Task):
    """Fits latency and bandwidth to a table of nccl-tests and writes them as a machine.

    Its fields are the keys of ``conf/task/calibrate.yaml``, which says what each means.
    """

    name: str
    nccl_tests: Annotated[str, Reads()]
    topology: Topology
    collective: str | None = None
    ranks: Annotated[int, Rule(least=2)] | None = None
    size_column: str = "size_bytes"
    time_column: str = "time_us"
    select: Mapping[str, Any] | None = None
    smallest: float = 0.0
    largest: float | None = None
    segments: Annotated[int, Rule(least=1, most=3)] = 1
    machine_name: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.topology.alpha != 0 or self.topology.bandwidth != inf:
            raise InputError("topology", "must be without alpha and bandwidth, which are fitted; leave them out")
        if self.machine_name is not None and not re.fullmatch(r"[A-Za-z]\w*", str(self.machine_name), re.ASCII):
            got = shown(self.machine_name)
            raise InputError("machine_name", f"must be letters, digits and underscores, a letter first; got {got}")

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        """Leaves ``calibration.csv``, ``fits.csv``, ``summary.csv``, the picture ``busbw``, ``machine/NAME.yaml``."""
        found = self.find()
        write_csv(found.points(), folder / "calibration.csv")
        write_csv(found.fits(), folder / "fits.csv")
        write_csv(found.summary(), folder / "summary.csv")
        wrong = undrawn(lambda: write_pictures([picture(found)], folder))
        (folder / "machine").mkdir()
        (folder / "machine" / f"{found.machine_name}.yaml").write_text(machine_yaml(found), encoding="utf-8")
        return Outcome(f"{self.name}: {text_of(found)}").lacking(wrong)

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
            raise InputError("nccl_tests", f"must have times that grow with the size; those of {path.name} do not")
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
