"""Measured against simulated: statistics with intervals, distances of distributions, and which assumption fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import hypot, isnan, log
from typing import Any

import numpy as np

from simulator.arrays import Array
from simulator.lazy import pd
from simulator.statistics import Estimate, estimate
from simulator.statistics.components import LEVEL, Components
from simulator.tasks.fit.fitted import Fitted
from simulator.tasks.fit.maxima.fitted import MaximaFit
from simulator.tasks.fit.prediction import drift_in_words
from simulator.tasks.fit.steps import STEP, Steps
from simulator.tasks.validate.job import Job
from simulator.tasks.validate.simulate import STATISTICS, Run, measured_run
from simulator.tax import persistence
from simulator.text import duration, percent

COLUMNS = (
    "group", "operation", "law", "statistic", "measured", "simulated", "low", "high", "relative_error", "agrees",
)  # fmt: skip
PREDICTED = "tax_of_compute"  # of what was held out
DISTANCE = "tax_fastest_ks"  # Kolmogorov-Smirnov, of the tax of the fastest rank
TICK = 1e-6  # relative: means of rounded times are no closer
FEW_STEPS = 10
STEADY = 0.2  # coefficient of variation of the collective's own time above which it is no constant
EXPLAINS = 0.5  # correlation of tax and compute below which compute does not explain the tax


@dataclass(frozen=True, eq=False)
class Comparison:
    """One job, measured and simulated under several laws.

    Attributes:
        job: what was measured.
        runs: name of a law -> its simulated runs.
        fitted: what the fitted law is from; None where none could be fitted.
        why: why there is none.
        level: of the intervals.
        holdout: ``time`` or ``ranks`` where the job is not what the laws were fitted to, else ``none``.
        trained: what they were fitted to.
    """

    job: Job
    runs: Mapping[str, Sequence[Run]]
    fitted: Fitted | MaximaFit | None
    why: str
    level: float
    holdout: str = "none"
    trained: Job | None = None

    @cached_property
    def parts(self) -> Components | None:
        """Parts of the variance of what the law was fitted to."""
        if isinstance(self.fitted, MaximaFit):
            return self.fitted.parts
        return self.fitted.main.measured.components if self.fitted is not None else None

    @cached_property
    def predicted(self) -> Estimate | None:
        """The tax of compute of what was held out, estimated from the rest; None where nothing was held out."""
        if self.holdout == "none" or self.trained is None:
            return None
        return estimate(self.trained.compute, len(self.job.ranks))

    @property
    def main(self) -> str:
        """The law that is judged: the fitted one, or measured steps where there is none."""
        return next(iter(self.runs))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per law and statistic, columns as in ``COLUMNS``: the interval holds ``level`` of simulated runs."""
        measured = measured_run(self.job).statistics(self.job.transfer)
        rows = []
        for law, runs in self.runs.items():
            found = [run.statistics(self.job.transfer) for run in runs]
            for name in STATISTICS:
                values = np.array([statistics[name] for statistics in found])
                rows.append(self._row(law, name, measured[name], float(values.mean()), *self._interval(values)))
            distance, low, high = self.distance(law)
            row = self._row(law, DISTANCE, distance, float(np.mean([low, high])), low, high)
            rows.append(row | {"simulated": np.nan, "relative_error": np.nan, "agrees": bool(distance <= high)})
        if self.predicted is not None:
            rows.append(self._of_the_estimate(self.predicted))
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def _of_the_estimate(self, predicted: Estimate) -> dict[str, Any]:
        """The tax of compute that was held out, and its estimate from the rest: they agree where their intervals, both
        of 95 %, allow for the difference."""
        seen = estimate(self.job.compute, len(self.job.ranks))
        row = self._row("estimate", PREDICTED, seen.tau, predicted.tau, predicted.low, predicted.high)
        if seen.tau > 0 and predicted.tau > 0 and not isnan(seen.low) and not isnan(predicted.low):
            below, above = log(predicted.tau / predicted.low), log(predicted.high / predicted.tau)
            own = log(seen.tau / seen.low), log(seen.high / seen.tau)
            off = log(seen.tau / predicted.tau)
            row["agrees"] = bool(-hypot(below, own[1]) <= off <= hypot(above, own[0]))
        return row

    def _row(self, law: str, name: str, measured: float, simulated: float, low: float, high: float) -> dict[str, Any]:
        return {
            "group": self.job.group, "operation": self.job.operation, "law": law, "statistic": name,
            "measured": measured, "simulated": simulated, "low": low, "high": high,
            "relative_error": simulated / measured - 1 if measured else np.nan,
            "agrees": bool(low - TICK * abs(low) <= measured <= high + TICK * abs(high)),
        }  # fmt: skip

    def _interval(self, values: Array) -> tuple[float, float]:
        low, high = np.quantile(values, [(1 - self.level) / 2, (1 + self.level) / 2])
        return float(low), float(high)

    def distance(self, law: str) -> tuple[float, float, float]:
        """Kolmogorov-Smirnov distance of the tax of the fastest rank from all simulated steps, and the interval that
        simulated runs of the same length have: their steps may depend on each other, as the law says."""
        runs = self.runs[law]
        pooled = np.sort(np.concatenate([run.fastest for run in runs]))
        among = np.array([_ks(run.fastest, pooled) for run in runs])
        low, high = self._interval(among)
        return _ks(measured_run(self.job).fastest, pooled), low, high

    def findings(self) -> Iterator[str]:
        """Which assumption of a simulation with independent ranks fails, a sentence each."""
        job, parts = self.job, self.parts
        yield from self.unexplained()
        if self.why:
            yield f"no law could be fitted, so that measured steps are resampled: {self.why}"
        if self.fitted is not None:
            yield from self.fitted.proposal.reasons
        if isinstance(self.fitted, MaximaFit):
            yield from self._of_the_fit(self.fitted)
        if changes := self._drifts():
            yield f"the run drifts: {changes}"
        if parts is not None and parts.p_rank < LEVEL and parts.offsets:
            ranks = (self.trained or job).ranks
            slow = ranks[int(np.argmax(parts.offsets))]
            kept = percent(parts.rank_share)
            yield f"ranks are not alike: {kept} of the variance between them stays, rank {slow} is the slowest"
        if parts is not None and parts.p_memory < LEVEL:
            yield f"blocks are not independent: a rank's noise goes on with correlation {parts.memory:.2f}"
        if parts is not None and parts.p_spreads < LEVEL:
            least, most = min(parts.spreads), max(parts.spreads)
            yield f"ranks do not vary alike: from {least:.2f} to {most:.2f} of the typical noise"
        if job.transfer_cv > STEADY:
            varies = percent(job.transfer_cv)
            yield f"the collective itself takes no constant time: its shortest kernel varies by {varies}"
        yield from self._of_the_straggler()
        if job.steps < FEW_STEPS:
            yield f"{job.steps} steps are too few to tell laws apart"
        yield from job.notes

    def _drifts(self) -> str:
        """What changes over the whole run, with the steps that laws were fitted to."""
        times = [self.trained.compute] if self.holdout == "time" and self.trained is not None else []
        whole = np.concatenate([*times, self.job.compute])
        return drift_in_words(Steps(self.job.group, STEP, self.job.ranks, whole))

    def unexplained(self) -> Iterator[str]:
        """That compute does not explain the wait, where it does not: agreement with it is then accidental."""
        job = self.job
        apart, tax = float(np.ptp(job.compute, axis=1).mean()), float(np.ptp(job.duration, axis=1).mean())
        if tax > 0 and (job.explained < EXPLAINS or not tax / 2 <= apart <= 2 * tax):
            yield (
                f"compute does not explain the wait: ranks are {duration(apart)} apart in it and wait {duration(tax)}, "
                + ("" if isnan(job.explained) else f"with correlation {job.explained:.2f} over ranks and steps, ")
                + "so that agreement of the two would be an accident"
            )

    def _of_the_fit(self, fitted: MaximaFit) -> Iterator[str]:
        """What another fit would take up."""
        if fitted.parts.p_cancel < LEVEL and fitted.proposal.base.get("parent") not in (None, "zero_sum"):
            yield ("the times of a block cancel more than independent ranks' would: fit.parent=zero_sum takes them so")
        if fitted.family == "gumbel" and fitted.ratio is not None and fitted.ratio.p_value < LEVEL:
            yield f"maxima have a shape, xi = {fitted.ratio.gev.xi:.3f}: fit.family=gev takes it up"

    def _of_the_straggler(self) -> Iterator[str]:
        """Whether the rank that is last most often is the same."""
        job = self.job
        measured, simulated = (
            np.bincount(np.concatenate([run.last for run in runs]).astype(np.intp), minlength=len(job.ranks))
            for runs in ([measured_run(job)], self.runs[self.main])
        )
        last, instead = int(measured.argmax()), int(simulated.argmax())
        if last != instead and persistence(int(measured[last]), job.steps, len(job.ranks)) < LEVEL:
            yield (
                f"rank {job.ranks[last]} is last in {measured[last]} of {job.steps} steps; simulated is rank "
                f"{job.ranks[instead]} most often"
            )


def _ks(values: Array, ordered: Array) -> float:
    """Largest distance of the distribution function of ``values`` from that of a large ordered sample."""
    x = np.sort(values)
    below, upto = (np.searchsorted(ordered, x, side=side) / len(ordered) for side in ("left", "right"))
    place = np.arange(len(x) + 1) / len(x)
    return float(max((upto - place[:-1]).max(), (place[1:] - below).max()))
