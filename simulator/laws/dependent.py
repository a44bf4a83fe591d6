"""A law of independent ranks with a dependence between them: the Gaussian copula of ``Dependence``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import lcm, sqrt
from typing import ClassVar, Self

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.laws.base import IndependentLaw, Law, Noise
from simulator.laws.dependence import Dependence


def dependent(
    *, law: Law, common: float = 0.0, node: float = 0.0, rank: float = 0.0, offsets: Sequence[float] | None = None,
    spreads: Sequence[float] | None = None, memory: float = 0.0, ranks_per_node: int = 8,
) -> Law:  # fmt: skip
    """``law`` with ranks that depend on each other as ``Dependence`` says; ``law`` itself where nothing is given.

    Raises:
        InputError: for values out of range, or a law of whole blocks of ranks, whose ranks depend already.

    >>> from simulator.laws import Normal
    >>> law = dependent(law=Normal(mean=1.0, cv=0.1), common=0.75)
    >>> print(round(law.wait(2), 6))  # sd/sqrt(pi) of the quarter that ranks do not share
    0.028209
    """
    found = Dependence(
        common=common, node=node, rank=rank, offsets=[] if offsets is None else offsets,
        spreads=[] if spreads is None else spreads, memory=memory, ranks_per_node=ranks_per_node,
    )  # fmt: skip
    return law if found.none else Dependent(law=law, dependence=found)


@dataclass(frozen=True, kw_only=True)
class Dependent(Law):
    """An independent law whose ranks depend on each other.

    Without offsets and spreads a single time follows ``law`` exactly; with them that holds for a rank taken at
    random as far as the mixture of its ranks is Gaussian, in mean and variance of Y.
    """

    law: Law
    dependence: Dependence
    noise: ClassVar[Noise] = "normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.law, IndependentLaw):
            raise InputError("law", "must be one of independent ranks, which the dependence is added to", self.law)

    @property
    def name(self) -> str:
        return f"dependent {self.law.name}"

    @property
    def parent(self) -> str | None:
        """How block maxima become times of single ranks, where the law is made of such."""
        return getattr(self.law, "parent", None)

    @property
    def cv(self) -> float | None:
        """Coefficient of variation of ``law``."""
        return getattr(self.law, "cv", None)

    @property
    def note(self) -> str:
        run = (
            "compute: ranks keep their effects through the run, so that standard errors are over the iterations of "
            "these ranks, and closed forms over all that might be drawn: other seeds draw others"
        )
        known = {name: len(getattr(self.dependence, name)) for name in ("offsets", "spreads")}
        repeat = " and ".join(f"{name} of {count} ranks" for name, count in known.items() if count)
        said = [
            self.law.note, run if self.dependence.rank > 0 else "",
            f"compute: more ranks repeat the {repeat}" if repeat else "",
        ]  # fmt: skip
        return "; ".join(filter(None, said))

    @property
    def sd(self) -> float:
        return self.law.sd

    @property
    def has_variance(self) -> bool:
        return self.law.has_variance

    @cached_property
    def mean(self) -> float:  # type: ignore[override]
        """Mean over ranks, seconds: that of ``law``, but for offsets and spreads."""
        d = self.dependence
        if not (d.offsets or d.spreads):
            return self.law.mean
        pattern = max(len(d.offsets), len(d.spreads))
        sd = np.sqrt(d.own * d.of_ranks(d.spreads, pattern, 1.0) ** 2 + d.common + d.node)
        y, weights = _normal_nodes(101)
        times = self.at(d.of_ranks(d.offsets, pattern, 0.0)[:, None] + sd[:, None] * y)
        return float((times * weights).sum(axis=1).mean())

    def scaled(self, factor: float) -> Self:
        return replace(self, law=self.law.scaled(factor))

    def check_ranks(self, n: int) -> None:
        self.law.check_ranks(n)
        self.dependence.check_ranks(n)

    def at(self, y: Array) -> Array:
        """Times at Y: the quantile of the law at Phi(Y)."""
        x = np.array(y, dtype=float)
        self.transform(x)
        return x

    def transform(self, x: Array) -> None:
        """From Y to times, in place."""
        from scipy.special import log_ndtr

        if self.law.noise != "normal":  # a law that starts from normal variates takes Y as it is
            np.negative(log_ndtr(x), out=x)
        self.law.transform(x)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
        """Draw the times of one run: the last axis is the ranks, the one before it, where there is one, the blocks."""
        x = rng.standard_normal(size)
        n = x.shape[-1] if x.ndim else 1
        self.check_ranks(n)
        blocks = x.reshape(-1, n)
        d = self.dependence
        if d.memory:
            blocks[:] = d.chain(blocks, 1)
        d.combine(blocks, rng.standard_normal((len(blocks), d.shared(n))), rng.standard_normal(n))
        self.transform(x)
        return x

    def expected_max(self, n: int) -> float:
        """Expected time of the slowest of ``n`` ranks in a block, over all runs, seconds: by quadrature over Y."""
        self.check_ranks(n)
        edges, chances = _largest(self.dependence, n)
        middle, weights = (edges[1:] + edges[:-1]) / 2, np.diff(chances)
        if self.dependence.common == 0:
            return float(weights @ self.at(middle))
        shift, share = _normal_nodes(61)
        times = self.at(middle + sqrt(self.dependence.common) * shift[:, None])
        return float(share @ times @ weights)


@lru_cache(maxsize=64)
def _largest(d: Dependence, n: int) -> tuple[Array, Array]:
    """Distribution function of the largest Y of ``n`` ranks, without the common part: edges, and chances below them."""
    reach = max(map(abs, d.offsets), default=0.0) + 9
    edges = np.linspace(-reach, reach, 12_001)
    # Ranks repeat: a pattern of offsets on a pattern of nodes, and what is left at the end.
    period = lcm(max(len(d.offsets), len(d.spreads), 1), d.ranks_per_node if d.node else 1)
    parts = [(period, n // period), (n % period, 1)]
    return edges, np.exp(sum(times * _log_chance(d, size, edges) for size, times in parts if size and times))


def _log_chance(d: Dependence, n: int, edges: Array) -> Array:
    """ln P(the first ``n`` ranks are all below each edge)."""
    from scipy.special import log_ndtr

    offsets, spreads = (
        np.resize(values, n) if values else np.full(n, otherwise)
        for values, otherwise in ((d.offsets, 0.0), (d.spreads, 1.0))
    )
    kinds = np.column_stack([offsets, np.sqrt(d.own * spreads**2 + d.rank)])

    def below(ranks: Array) -> Callable[[Array], Array]:
        kind, times = np.unique(ranks, axis=0, return_counts=True)

        def chance(at: Array) -> Array:
            parts = (many * log_ndtr((at - offset) / sd) for (offset, sd), many in zip(kind, times, strict=True))
            return np.asarray(sum(parts))

        return chance

    if d.node == 0:
        return below(kinds)(edges)
    shift, share = _normal_nodes(401)
    total = np.zeros_like(edges)
    for i in range(0, n, d.ranks_per_node):
        ranks = below(kinds[i : i + d.ranks_per_node])
        given = [np.exp(ranks(edges - sqrt(d.node) * v)) for v in shift]
        with np.errstate(divide="ignore"):
            total += np.log(share @ np.array(given))
    return total


def _normal_nodes(size: int) -> tuple[Array, Array]:
    """Nodes and weights of the trapezoidal rule for means over a standard normal variate; exact beyond its tails."""
    nodes = np.linspace(-9.0, 9.0, size)
    weights = np.exp(-nodes * nodes / 2)
    return nodes, weights / weights.sum()
