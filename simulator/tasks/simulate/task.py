"""The default task: simulate an experiment, and leave its tables, pictures and what else is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from simulator.checks import InputError, Rule
from simulator.pictures.draw import undrawn
from simulator.simulation.experiment import Experiment
from simulator.simulation.runner import run
from simulator.task import Outcome, Progress, Task
from simulator.tasks.simulate import export, pictures, timeline
from simulator.tasks.simulate.words import report

MAX_ROWS = 20_000_000  # of what is written for single ranks, 0.1 kB each
MAX_KERNELS = 10_000_000  # in exported traces, 0.5 kB each
MAX_FILES = 100_000  # of exported traces, as many as are read


Some = Annotated[int, Rule(least=1)]


@dataclass(frozen=True, kw_only=True)
class Simulate(Experiment, Task):
    """An experiment, and what its folder holds besides the tables.

    Its fields are the keys of ``conf/task/simulate.yaml``, which says what each means.
    """

    timeline: bool = False
    timeline_iterations: Some = 2
    timeline_ranks: Some = 64
    per_rank: bool = False
    export_traces: bool = False
    traces_iterations: Some = 2
    plots: bool = True
    steps: ClassVar[str] = "iterations"

    def __post_init__(self) -> None:
        super().__post_init__()

    def check(self) -> None:
        """Write the program and price it: what is wrong with it is said before a run.

        Raises:
            InputError: also for more output than a folder should hold.
        """
        operations, collectives = len(self.program.operations), len(self.program.collectives)
        rows = self.per_rank * self.n * collectives
        slices = self.timeline * min(self.timeline_ranks, self.n) * operations
        kernels = self.export_traces * self.n * min(self.traces_iterations, self.iterations) * operations
        for key, found, most, what in (
            ("per_rank", rows, MAX_ROWS, "rows (collectives x ranks) of one iteration"),
            ("per_rank", rows * self.iterations, 50 * MAX_ROWS, "rows (iterations x collectives x ranks)"),
            ("timeline_ranks", slices * min(self.timeline_iterations, self.iterations), MAX_ROWS,
             "slices (ranks x iterations x operations)"),
            ("export_traces", self.export_traces * self.n, MAX_FILES, "files, one per rank"),
            ("traces_iterations", kernels, MAX_KERNELS, "kernels (ranks x iterations x operations)"),
        ):  # fmt: skip
            if found > most:
                raise InputError(key, f"must give at most {most} {what}; got {found}")
        self.costs  # noqa: B018

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        """Leaves ``summary.csv``, ``iterations.parquet``, ``collectives.parquet``, ``manifest.json``, and as asked two
        pictures, ``timeline.json``, ``ranks.parquet`` and ``traces/``."""
        self.check()
        result = run(self, progress=progress)
        result.write(folder)
        wrong = undrawn(lambda: pictures.write(result, folder)) if self.plots else []
        if self.timeline:
            timeline.write(self, folder, self.timeline_iterations, self.timeline_ranks)
        if self.per_rank:
            timeline.per_rank(self, folder)
        if self.export_traces:
            export.write(self, folder, self.traces_iterations)
        return Outcome(report(result), manifest=result.manifest).lacking(wrong)
