"""The seed paper's way from blocks to a law (section 5): Gumbel and GEV laws of maxima, their tests, and a proposal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simulator.checks import InputError
from simulator.statistics.bootstrap import Bootstrap, cluster_bootstrap
from simulator.statistics.components import LEVEL, pooled
from simulator.statistics.goodness import Stability, anderson_darling, gumbel_or_gev, max_stability
from simulator.statistics.resample import LEAST_CLUSTERS, Centring
from simulator.statistics.sample import LEAST_MAXIMA, Family, checked_family
from simulator.tasks.fit.maxima.fitted import MEANINGFUL, MaximaFit
from simulator.tasks.fit.maxima.law import propose
from simulator.tasks.fit.maxima.sample import Sample, sample_of
from simulator.tasks.fit.prediction import Prediction
from simulator.tasks.fit.steps import Steps
from simulator.traces.summary import Summary


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How maxima are taken and fitted.

    Attributes:
        measure, group, block, relative, m, per_iteration: as in ``sample_of``; each kind of block is standardised among
            its own, and iterations are resampled whole.
        family: of the proposed law.
        sizes: n for which the tax is extrapolated.
        centring: the mean that maxima are measured from.
        split: whether the ranks of a maximum lie apart (the paper's odd and even ones) or follow each other; None takes
            the latter for parent zero_sum, whose blocks are such, else the paper's.
        parent: how maxima become times of single ranks.
        ranks_per_node: consecutive ranks that share a node; None for no such part.
        level: of all intervals.
        replicates: resamples of iterations behind them, and samples behind the Anderson-Darling test.
        seed: of those.
    """

    measure: Literal["busy", "gap"]
    group: str | Sequence[str] | None
    block: str | None
    relative: bool
    family: Family
    sizes: Sequence[int]
    m: int | None
    per_iteration: int
    centring: Centring
    split: Literal["strided", "consecutive"] | None
    parent: str
    ranks_per_node: int | None
    level: float
    replicates: int
    seed: int

    def fit(
        self,
        summary: Summary,
        origin: str,
        doubts: Sequence[str] = (),
        done: Callable[[int], None] = lambda _: None,
    ) -> MaximaFit:
        """Fit the law of maxima to the blocks of a summary.

        Args:
            summary: of a trace report.
            origin: the traces or summary, in words.
            doubts: what makes the times doubtful, in sentences.
            done: called when the laws are fitted (1) and tested (2).

        Raises:
            InputError: where there are too few blocks, or none that could be fitted.
        """
        sample = self.sample(summary)
        clusters = sample.iterations
        maxima, iterations = len(clusters), int(clusters.max()) + 1
        if maxima < LEAST_MAXIMA or iterations < LEAST_CLUSTERS:
            raise InputError(
                "blocks",
                f"must give at least {LEAST_MAXIMA} maxima of m = {sample.m} ranks, of {LEAST_CLUSTERS} "
                f"iterations; those of {origin} give {maxima} of {iterations}",
            )
        z = checked_family(sample.z(), "gumbel")
        parts = pooled(sample.scores, self.ranks_per_node)
        run = _run(parts.memory, iterations)
        clusters //= run
        laws, no_gev = self._laws(sample, clusters)
        done(1)
        distance = {name: anderson_darling(z, name, self.replicates, self.seed) for name in laws}
        done(2)
        family = self.family
        if family not in laws:
            raise InputError("family", f"must be gumbel, since there is no GEV fit: {no_gev}")
        proposal = propose(sample, laws[family].fit, parts, self.parent, self.ranks_per_node)
        for doubt in doubts:
            proposal = proposal.because(doubt)
        return MaximaFit(
            origin=origin, sample=sample, laws=laws, no_gev=no_gev, distance=distance,
            ratio=gumbel_or_gev(z) if "gev" in laws else None, stability=self._stability(sample, clusters),
            family=family, proposal=proposal, sizes=self.sizes, level=self.level, run=run, parts=parts,
            doubled=_doubled(sample), prediction=self._of_one_kind(sample),
        )  # fmt: skip

    @property
    def _strided(self) -> bool:
        return self.split == "strided" if self.split is not None else self.parent != "zero_sum"

    def sample(self, summary: Summary) -> Sample:
        """The blocks that are fitted."""
        found = sample_of(
            summary, measure=self.measure, group=self.group, block=self.block,
            per_iteration=self.per_iteration,
            m=self.m, strided=self._strided, by_instance=self.centring == "instance", relative=self.relative,
        )  # fmt: skip
        per_node = self.ranks_per_node
        if per_node is not None and (per_node < 2 or found.n % per_node or per_node == found.n):
            raise InputError(
                "ranks_per_node", f"must be at least 2 and make several whole nodes of {found.n} ranks; got {per_node}"
            )
        small = [n for n in self.sizes if n < found.m]
        if small:
            raise InputError("sizes", f"must be at least m = {found.m}, the ranks of one maximum; got {small[0]}")
        return found

    def _of_one_kind(self, sample: Sample) -> Prediction | None:
        """What the times themselves tell, where they are of one kind of block and group."""
        if len(sample.kinds) > 1:
            return None
        (kind,) = sample.kinds
        steps = Steps(kind.group, kind.name, sample.ranks or (), sample.scaled(kind), kind.empty)
        return Prediction(steps, self.replicates, self.seed, self.level)

    def _laws(self, sample: Sample, clusters: NDArray[np.int64]) -> tuple[dict[Family, Bootstrap], str]:
        """Fits of both families, and why there is no GEV."""

        def fitted(family: Family) -> Bootstrap:
            return cluster_bootstrap(sample.rows, clusters, family, self.centring, self.replicates, self.seed)

        laws: dict[Family, Bootstrap] = {"gumbel": fitted("gumbel")}
        try:
            laws["gev"] = fitted("gev")
        except InputError as error:
            return laws, str(error)
        return laws, ""

    def _stability(self, sample: Sample, clusters: NDArray[np.int64]) -> Stability | None:
        """From maxima of m ranks to those of 2m; where no more than m were measured, from m/2 to m."""
        few, many = _doubled(sample)
        if few < MEANINGFUL or 2 * few != many:
            return None
        rows = sample.rows
        if many > sample.m:
            rows, clusters = rows.reshape(-1, many), clusters[::2]
        try:
            return max_stability(rows, clusters, "gumbel", self.centring, self.replicates, self.seed, 1 - LEVEL)
        except InputError:  # ranks of half a block that never differ
            return None


def _doubled(sample: Sample) -> tuple[int, int]:
    """Ranks of the maxima whose locations are compared: m and 2m, or m/2 and m where no more were measured."""
    return (sample.m, 2 * sample.m) if sample.n // sample.m % 2 == 0 else (sample.m // 2, sample.m)


def _run(memory: float, iterations: int) -> int:
    """How many consecutive iterations to resample together: about as long as ranks' noise remembers (Davison, Hinkley,
    Bootstrap Methods, 1997, section 8.2.3), as far as enough runs are left."""
    if memory <= 0:
        return 1
    return max(1, min(ceil((1 + memory) / (1 - memory)), iterations // LEAST_CLUSTERS))
