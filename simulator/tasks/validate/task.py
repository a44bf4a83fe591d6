"""``+experiment=validate``: simulates a measured job and says how well simulation and measurement agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from simulator.checks import InputError, Reads, Rule
from simulator.files.tables import write_csv
from simulator.laws import EmpiricalBlocks, Law
from simulator.lazy import pd
from simulator.pictures.draw import undrawn, write_pictures
from simulator.statistics.resample import check_level
from simulator.task import Outcome, Progress, Task
from simulator.tasks.fit.fitted import Fitted
from simulator.tasks.fit.source import check_source, measured
from simulator.tasks.fit.task import FitLaw
from simulator.tasks.validate.compare import Comparison
from simulator.tasks.validate.job import Job, jobs_of, left_out
from simulator.tasks.validate.pictures import pictures
from simulator.tasks.validate.simulate import simulated_runs
from simulator.tasks.validate.words import text_of
from simulator.traces.files import Traces
from simulator.traces.summary import Summary

OF_DATA = ("blocks ", "z ", "measure ", "clusters ", "times ", "n ", "offsets ")  # of a fit that the data do not allow


@dataclass(frozen=True, kw_only=True)
class Validate(Task):
    """Simulates the measured job of a trace summary under several laws, and compares.

    The laws: ``fitted``, with what ranks were found to share; ``independent``, the same with ranks that know nothing of
    each other; ``resampled``, whole measured steps drawn again, which shows what compute explains under any law.

    Attributes:
        name: name of the experiment.
        fit: how laws are fitted, for each process group by itself.
        traces: a folder, a file, a pattern or a list of these; or
        summary: a ``trace_summary.json`` of a trace report.
        measure: what counts as compute: ``busy`` (GPU work) or ``gap`` (all time between collectives).
        group, operation: which ones; None takes all.
        runs: simulated runs, each as long as the measured one.
        seed: of those.
        level: of all intervals: so many of the simulated runs are in them.
    """

    name: str
    fit: FitLaw
    traces: Traces | None = None
    summary: Annotated[str, Reads()] | None = None
    measure: Literal["busy", "gap"] = "busy"
    group: str | None = None
    operation: str | None = None
    runs: Annotated[int, Rule(least=20, most=100_000)] = 200
    seed: Annotated[int, Rule(least=0)] = 0
    level: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("traces", "summary", "group", "measure", "level", "sizes"):
            given = getattr(self.fit, name)
            if (tuple(given) if name == "sizes" else given) != getattr(FitLaw, name):
                raise InputError(f"fit.{name}", f"must be left out; {name} is the key of a validation")
        check_level(self.level, "runs", self.runs)

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        """Leaves ``validation.csv`` and the pictures ``validation`` and ``prediction``."""
        check_source(self.traces, self.summary)
        summary, origin = measured(self.traces, self.summary, self.fit.report, None)
        found = self.compare(summary, origin, progress)
        write_csv(pd.concat([comparison.table for comparison in found], ignore_index=True), folder / "validation.csv")
        wrong = undrawn(lambda: write_pictures(pictures(found), folder))
        text = text_of(found, origin, self.measure, list(left_out(summary)))
        return Outcome(f"{self.name}: {text}").lacking(wrong)

    def compare(self, summary: Summary, origin: str, progress: Progress | None = None) -> list[Comparison]:
        """Simulate every job of a summary.

        Raises:
            InputError: where there is none.
        """
        jobs = jobs_of(summary, measure=self.measure, group=self.group, operation=self.operation)
        done, total = 0, len(jobs) * (1 + 3 * self.runs)  # a fit and up to three laws each

        def step() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(done, total)

        laws = []
        for job in jobs:
            laws.append(self._laws(summary, job, origin))
            step()
        total = len(jobs) + sum(len(own) for own, *_ in laws) * self.runs
        return [
            self._comparison(job, own, fitted, why, step) for job, (own, fitted, why) in zip(jobs, laws, strict=True)
        ]

    def _comparison(
        self, job: Job, laws: dict[str, Law], fitted: Fitted | None, why: str, step: Callable[[], None]
    ) -> Comparison:
        whole = replace(job, blocks=[("compute", float(job.compute.mean()), 1)])  # as measured steps are drawn
        runs = {
            name: simulated_runs(whole if name == "resampled" else job, law, self.runs, self.seed, step)
            for name, law in laws.items()
        }
        return Comparison(job, runs, fitted, why, self.level)

    def _laws(self, summary: Summary, job: Job, origin: str) -> tuple[dict[str, Law], Fitted | None, str]:
        """The laws to simulate a job with, the fit that they are from, and why there is none."""
        resampled: Law = EmpiricalBlocks(steps=job.compute)
        try:
            fit = replace(self.fit, measure=self.measure, group=job.group, sizes=(), level=self.level)
            found = fit.fit(summary, origin)
            alone = {"independent": independent(found)} if found.proposal.dependence else {}
            laws = {"fitted": found.proposal.law, **alone, "resampled": resampled}
            for law in laws.values():
                law.check_ranks(len(job.ranks))
        except InputError as error:
            if not str(error).startswith(OF_DATA):
                raise InputError(f"fit.{error}") from None
            return {"resampled": resampled}, None, str(error)
        return laws, found, ""


def independent(found: Fitted) -> Law:
    """What one would simulate who takes ranks as independent: the spread is that between the ranks of a block."""
    return found.proposal.kind(**found.proposal.base | {"cv": found.sample.cv})
