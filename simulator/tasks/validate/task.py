"""``+experiment=validate``: simulates a measured job and says how well simulation and measurement agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from simulator.checks import InputError, Reads, Rule
from simulator.files.tables import write_csv
from simulator.laws import EmpiricalBlocks, Law
from simulator.lazy import pd
from simulator.pictures.draw import undrawn, write_pictures
from simulator.statistics import estimate
from simulator.statistics.resample import check_level
from simulator.task import Outcome, Progress, Task
from simulator.tasks.fit.fitted import Fitted
from simulator.tasks.fit.maxima.fitted import MaximaFit
from simulator.tasks.fit.maxima.sample import relative_to_own_mean
from simulator.tasks.fit.source import check_source, measured
from simulator.tasks.fit.steps import STEP, Steps
from simulator.tasks.fit.tail import independent as independent_steps
from simulator.tasks.fit.task import FitLaw
from simulator.tasks.validate.compare import Comparison
from simulator.tasks.validate.job import LEAST_STEPS, Job, jobs_of, left_out
from simulator.tasks.validate.pictures import pictures
from simulator.tasks.validate.simulate import STATISTICS, simulated_runs
from simulator.tasks.validate.words import text_of
from simulator.traces.files import Traces
from simulator.traces.summary import Summary

LEAST_HELD_OUT = 40  # steps from which on laws are held against others than they were fitted to
OF_DATA = ("blocks ", "z ", "measure ", "clusters ", "times ", "n ", "offsets ")  # of a fit that the data do not allow


class Parts(NamedTuple):
    """What laws of a job are fitted to, and what they are held against."""

    holdout: str
    fitted: Job
    held: Job

    @property
    def refused(self) -> str:
        """Why nothing is claimed of more ranks than laws are fitted to; empty where something is."""
        if self.holdout != "ranks":
            return ""
        found = estimate(self.fitted.compute, len(self.held.ranks))
        return found.reason if found.status == "no claim" else ""


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
        holdout: what laws are not fitted to but must predict: ``time`` (the second half of the steps), ``ranks`` (more
            ranks, from the first half of them), or ``none``: agreement is then in the sample. None takes time where
            there are at least 40 steps.
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
    holdout: Literal["time", "ranks", "none"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("traces", "summary", "group", "measure", "level", "sizes"):
            given = getattr(self.fit, name)
            if (tuple(given) if name == "sizes" else given) != getattr(FitLaw, name):
                raise InputError(f"fit.{name}", f"must be left out; {name} is the key of a validation")
        if self.fit.family != "tail" and self.holdout not in (None, "none"):
            raise InputError("holdout", f"must be none for fit.family={self.fit.family}", self.holdout)
        if self.fit.family == "tail" and self.fit.block is not None:
            raise InputError(
                "fit.block", "must be left out: all that lies between two barriers is one draw", self.fit.block
            )
        check_level(self.level, "runs", self.runs)

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        """Leaves ``validation.csv``, ``summary.csv`` and the pictures ``validation`` and ``prediction``."""
        check_source(self.traces, self.summary)
        summary, origin = measured(self.traces, self.summary, self.fit.report, None)
        found = self.compare(summary, origin, progress)
        write_csv(pd.concat([comparison.table for comparison in found], ignore_index=True), folder / "validation.csv")
        write_csv(summary_of(found), folder / "summary.csv")
        wrong = undrawn(lambda: write_pictures(pictures(found), folder))
        text = text_of(found, origin, self.measure, [*left_out(summary), *self.refused(summary)])
        return Outcome(f"{self.name}: {text}").lacking(wrong)

    def compare(self, summary: Summary, origin: str, progress: Progress | None = None) -> list[Comparison]:
        """Simulate every job of a summary.

        Raises:
            InputError: where there is none.
        """
        jobs = jobs_of(summary, measure=self.measure, group=self.group, operation=self.operation)
        done, total = 0, 0  # a fit and up to three laws of each job

        def step() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(done, total)

        parts = [part for part in map(self._parts, jobs) if not part.refused]
        if not parts:
            raise InputError("holdout", f"must be time or none: {self._parts(jobs[0]).refused}", self.holdout)
        total = len(parts) * (1 + 3 * self.runs)
        laws = []
        for part in parts:
            laws.append(self._laws(summary, part, origin))
            step()
        total = len(parts) + sum(len(own) for own, *_ in laws) * self.runs
        return [self._comparison(part, *own, step) for part, own in zip(parts, laws, strict=True)]

    def refused(self, summary: Summary) -> list[str]:
        """Jobs of which nothing can be predicted, and why."""
        jobs = jobs_of(summary, measure=self.measure, group=self.group, operation=self.operation)
        return [f"{job.name} ({why})" for job in jobs if (why := self._parts(job).refused)]

    def _parts(self, job: Job) -> Parts:
        """What a job's laws are fitted to, and what they are held against."""
        apart = job.steps >= LEAST_HELD_OUT and self.fit.family == "tail"
        holdout = self.holdout or ("time" if apart else "none")
        if holdout == "time":
            if job.steps < 2 * LEAST_STEPS:
                rule = f"must be none or ranks for {job.steps} steps, too few to be parted"
                raise InputError("holdout", rule, "time")
            half = job.steps // 2
            return Parts(holdout, job.part(slice(0, half)), job.part(slice(half, None)))
        if holdout == "ranks":
            if len(job.ranks) < 4:
                raise InputError("holdout", f"must be none or time for {len(job.ranks)} ranks", "ranks")
            return Parts(holdout, job.part(ranks=slice(0, len(job.ranks) // 2)), job)
        return Parts(holdout, job, job)

    def _comparison(
        self, parts: Parts, laws: dict[str, Law], fitted: Fitted | MaximaFit | None, why: str, step: Callable[[], None]
    ) -> Comparison:
        of_blocks = isinstance(fitted, MaximaFit)
        runs = {
            name: simulated_runs(
                parts.held if of_blocks and name != "resampled" else parts.held.whole, law, self.runs, self.seed, step
            )
            for name, law in laws.items()
        }
        return Comparison(parts.held, runs, fitted, why, self.level, parts.holdout, parts.fitted)

    def _laws(
        self, summary: Summary, parts: Parts, origin: str
    ) -> tuple[dict[str, Law], Fitted | MaximaFit | None, str]:
        """The laws to simulate a job with, the fit that they are from, and why there is none."""
        job, ranks = parts.fitted, len(parts.held.ranks)
        laws: dict[str, Law] = {}
        found: Fitted | MaximaFit | None = None
        why = ""
        try:
            fit = replace(self.fit, measure=self.measure, group=job.group, sizes=(), level=self.level)
            if fit.family == "tail":
                found = fit.of_steps([self._steps(job)], origin)
                again = isinstance(found.proposal.law, EmpiricalBlocks)
                laws = {} if again else {"fitted": found.proposal.law, "independent": independent_steps(job.compute)}
            else:
                found = fit.recipe.fit(summary, origin)
                laws = {"fitted": found.proposal.law}
                if found.proposal.dependence:
                    laws["independent"] = independent(found)
            for law in laws.values():
                law.check_ranks(ranks)
        except InputError as error:
            if not str(error).startswith(OF_DATA):
                raise InputError(f"fit.{error}") from None
            laws, found, why = {}, None, str(error)
        resampled = EmpiricalBlocks(steps=job.compute)
        return laws | ({"resampled": resampled} if ranks % len(job.ranks) == 0 else {}), found, why

    def _steps(self, job: Job) -> Steps:
        compute = relative_to_own_mean(job.compute, float(job.compute.mean())) if self.fit.relative else job.compute
        return Steps(job.group, STEP, job.ranks, compute)


def summary_of(found: Sequence[Comparison]) -> pd.DataFrame:
    """One row, for a sweep: the tax of the mean rank of the job that waits most, measured and simulated."""
    most = max(found, key=lambda comparison: float(comparison.job.waits.mean()))
    rows = most.table[most.table["law"] == most.main]
    row = rows[rows["statistic"] == "tax_mean_mean"].iloc[0].to_dict()
    told = {
        name: row[name] for name in ("group", "operation", "measured", "simulated", "low", "high", "relative_error")
    }
    agreed = rows[rows["statistic"].isin(STATISTICS)]["agrees"]
    return pd.DataFrame(
        [told | {"fitted": most.main, "holdout": most.holdout, "agreed": int(agreed.sum()), "of": len(agreed)}]
    )


def independent(found: MaximaFit) -> Law:
    """What one would simulate who takes ranks as independent: the spread is that between the ranks of a block."""
    return found.proposal.kind(**found.proposal.base | {"cv": found.sample.cv})
