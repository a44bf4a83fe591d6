"""What the steps of one process group tell: the tax of n ranks, what their dependence does to it, and drift."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any

import numpy as np

from simulator.checks import InputError
from simulator.statistics.bootstrap import Bootstrap, cluster_bootstrap
from simulator.statistics.components import LEVEL
from simulator.statistics.resample import LEAST_CLUSTERS
from simulator.statistics.sample import LEAST_MAXIMA
from simulator.statistics.shuffling import Drift, Shuffled, drift, shuffled
from simulator.statistics.tax_estimate import Estimate, Measured
from simulator.tasks.fit.maxima.sample import Blocks, Sample, usual_m
from simulator.tasks.fit.steps import Steps
from simulator.text import duration

TAXES = (  # columns of tau.csv, behind those of a group and a kind of block
    "n", "estimator", "tau", "low", "high", "status", "measured", "tau_paper", "tau_paper_low", "tau_paper_high",
    "tau_law", "conditional_low", "conditional_high", "steps_needed", "reason",
)  # fmt: skip
MATTERS = 0.02  # change of the tax, relative, from which on a finding says NO
MOST_RESAMPLED = 2e7  # maxima in all resamples of the paper's recipe, where it stands beside another estimate
LEAST_RESAMPLES = 100
OUTLIER = 5.0  # times the tax of the largest other step, above which the first step is named


@dataclass(frozen=True, eq=False)
class Prediction:
    """The tax of n ranks from measured steps.

    Attributes:
        steps: what was measured.
        replicates, seed, level: of the intervals of the paper's recipe.
    """

    steps: Steps
    replicates: int
    seed: int
    level: float

    @cached_property
    def measured(self) -> Measured:
        """The times, for estimates."""
        return Measured(self.steps.times)

    @cached_property
    def _known(self) -> dict[int, Estimate]:
        return {}

    def estimate(self, n: int) -> Estimate:
        """The tax of n ranks, seconds."""
        if n not in self._known:
            self._known[n] = self.measured.estimate(n)
        return self._known[n]

    @cached_property
    def shuffled(self) -> Shuffled | None:
        """The tax with ranks and steps shuffled; None where there is too little of it."""
        try:
            return shuffled(self.steps.times)
        except InputError:
            return None

    @cached_property
    def drift(self) -> Drift | None:
        """Changes over the run; None where it is too short."""
        return drift_of(self.steps)

    @property
    def drifts(self) -> str:
        """What changes over the run, in words; empty where nothing does."""
        return drift_in_words(self.steps)

    @property
    def first_is_an_outlier(self) -> bool:
        """Whether the first step's tax is beyond all others', as that of a profiler's start."""
        taxes = self.steps.times.max(axis=1) - self.steps.times.mean(axis=1)
        return len(taxes) > LEAST_CLUSTERS and bool(taxes[0] > OUTLIER * taxes[1:].max() > 0)

    @cached_property
    def paper(self) -> Bootstrap | None:
        """The seed paper's recipe: a Gumbel law of maxima centred on their instances; None where it cannot be had."""
        times = self.steps.times
        blocks = Blocks(self.steps.block, times, np.arange(len(times)), 0)
        sample = Sample([blocks], self.steps.ranks, usual_m(self.steps.n), True, True, False)
        try:
            rows, clusters = sample.rows, sample.iterations
            if len(rows) < LEAST_MAXIMA or len(times) < LEAST_CLUSTERS:
                return None
            resamples = min(self.replicates, max(LEAST_RESAMPLES, int(MOST_RESAMPLED / len(rows))))
            return cluster_bootstrap(rows, clusters, "gumbel", "instance", resamples, self.seed)
        except InputError:
            return None

    def paper_tax(self, n: int) -> tuple[float, float, float]:
        """That of the paper's recipe with its interval, seconds; NaN where it says nothing."""
        m = usual_m(self.steps.n)
        if self.paper is None or n < m:
            return nan, nan, nan
        mean = float(self.steps.times.mean())
        low, high = self.paper.interval("tau", n / m, self.level)
        return mean * self.paper.estimate("tau", n / m), mean * low, mean * high

    def row(self, n: int) -> dict[str, Any]:
        """One row of ``tau.csv``, but for what the law says."""
        found = self.estimate(n)
        paper, low, high = self.paper_tax(n)
        return {
            "group": self.steps.group, "block": self.steps.block, "n": n, "estimator": found.estimator,
            "tau": found.tau, "low": found.low, "high": found.high,
            "status": found.status, "measured": self.steps.tax if n == self.steps.n else nan,
            "tau_paper": paper, "tau_paper_low": low, "tau_paper_high": high,
            "conditional_low": found.conditional_low, "conditional_high": found.conditional_high,
            "steps_needed": found.blocks_needed, "reason": found.reason,
        }  # fmt: skip

    def ranks_are_alike(self) -> bool | None:
        """Whether shuffling ranks would not move the tax; None where that cannot be told."""
        parts, found = self.measured.components, self.shuffled
        if parts is None or found is None:
            return None
        lasting = (1 + found.independent) / (1 + found.persistent) - 1  # what is lost when ranks are made alike
        return not (parts.p_rank < LEVEL and abs(lasting) > MATTERS)


def drift_of(steps: Steps) -> Drift | None:
    """Changes over a run; None where it is too short."""
    try:
        return drift(steps.times)
    except InputError:
        return None


def drift_in_words(steps: Steps) -> str:
    """What changes over a run: the tax of its halves, and the rank that changes most; empty where nothing does."""
    found = drift_of(steps)
    if found is None or not found.found:
        return ""
    said = (
        f"the tax goes from {duration(found.first)} in the first half of the steps to {duration(found.second)} in the "
        "second"
    )
    sure = [i for i, p in enumerate(found.p_trends) if p < LEVEL]
    if not sure:
        return said
    place = max(sure, key=lambda i: abs(found.trends[i]))
    change = found.trends[place]
    way = "slower" if change > 0 else "faster"
    return f"{said}, and rank {steps.ranks[place]} gets {duration(abs(change))} {way} beside the others"
