"""A law made of what was measured: offsets of ranks, a part that all ranks share, and the rest with its tail.

    time of rank i in block j = block_mean + offset_i + common_j + rest_ij        (seconds)

The rest is independent from rank to rank; from block to block it may have a memory. It is a table of quantiles up to a
threshold u, and above it a generalised Pareto law, P(rest > u + y) = above*(1 + shape*y/scale)^(-1/shape) with the
scale excess*(1 - shape).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import Checked, Finite, InputError, Positive, Rule, keep, number
from simulator.laws.base import LONGEST, Law, Noise, Time
from simulator.laws.dependence import Dependence

MOST_BELOW_ZERO = 1e-3  # of the times, which are then taken as 0: their mean moves by less
STEP = 0.02  # of a grid in ln(-ln F)


@dataclass(frozen=True, kw_only=True)
class Rest(Checked):
    """What is each rank's own in each block, seconds; its mean is taken off.

    Attributes:
        quantiles: ascending, at equal steps of -ln(1 - p), from p = 0 to p = 1 - above.
        above: probability of more than the last of them.
        excess: mean of (rest - last quantile) where it is more.
        shape: of the generalised Pareto law of these.
    """

    quantiles: Sequence[Finite]
    above: Annotated[float, Rule(above=0, below=1)]
    excess: Annotated[float, Rule(least=0, most=LONGEST)]
    shape: Annotated[float, Rule(least=-100, below=1)] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        table = np.array(self.quantiles, dtype=float)
        if len(table) < 2 or (np.diff(table) < 0).any():
            raise InputError("quantiles", "must be at least 2 numbers in ascending order", self.quantiles)
        if not np.abs(table).max() <= LONGEST:
            raise InputError("quantiles", f"must be from -{LONGEST:g} to {LONGEST:g} s", self.quantiles)
        keep(self, quantiles=tuple(table.tolist()))

    @cached_property
    def table(self) -> tuple[Array, Array]:
        """-ln(1 - p) and quantiles less the mean, seconds."""
        y = np.linspace(0, -log(self.above), len(self.quantiles))
        x = np.array(self.quantiles)
        # On a straight piece the mean of a quantile over exp(-y) dy is by parts: its ends, and its slope.
        inside = -np.diff(x * np.exp(-y)) + np.diff(x) / np.diff(y) * -np.diff(np.exp(-y))
        mean = float(inside.sum()) + self.above * (x[-1] + self.excess)
        return y, x - mean

    def at(self, y: ArrayLike) -> Array:
        """The value that is exceeded with probability exp(-y)."""
        grid, x = self.table
        exponent = np.asarray(y, dtype=float)
        beyond = np.maximum(exponent - grid[-1], 0.0)
        scale = self.excess * (1 - self.shape)
        with np.errstate(over="ignore"):
            tail = scale * (np.expm1(self.shape * beyond) / self.shape if self.shape else beyond)
        return np.asarray(np.interp(exponent, grid, x) + tail)

    def survival_exponent(self, x: ArrayLike) -> Array:
        """-ln P(rest > x): infinite where nothing is more, 0 where all is."""
        grid, known = self.table
        value = np.asarray(x, dtype=float)
        place = np.clip(np.searchsorted(known, value, side="right"), 1, len(known) - 1)
        low, high = known[place - 1], known[place]
        part = np.divide(value - low, high - low, out=np.ones_like(value), where=high > low)
        inside = grid[place - 1] + np.clip(part, 0.0, 1.0) * (grid[place] - grid[place - 1])
        scale = self.excess * (1 - self.shape)
        over = np.maximum(value - known[-1], 0.0) / scale if scale > 0 else np.where(value >= known[-1], np.inf, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            grown = np.log1p(np.maximum(self.shape * over, -1.0)) / self.shape if self.shape else over
        found = np.where(value >= known[-1], grid[-1] + grown, inside)
        return np.where(value < known[0], 0.0, found)

    def exponent(self, x: ArrayLike) -> Array:
        """-ln P(rest <= x)."""
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(-np.expm1(-self.survival_exponent(x))))


@dataclass(frozen=True, kw_only=True)
class Added(Dependence):
    """What a law adds to each rank's rest, in seconds, in the place of a Gaussian copula.

    Attributes:
        rest: of each rank and block.
        of_blocks: quantiles of what all ranks of a block share, at equal steps of probability; none for nothing.
        of_ranks_measured: offset of each measured rank.
        of_ranks_sd: standard deviation of the normal law of the offsets of other ranks.
    """

    rest: Rest
    of_blocks: Sequence[Finite] = ()
    of_ranks_measured: Sequence[Finite] = ()
    of_ranks_sd: Annotated[float, Rule(least=0, most=LONGEST)] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        blocks, ranks = np.array(self.of_blocks), np.array(self.of_ranks_measured)
        if len(blocks) == 1 or (np.diff(blocks) < 0).any():
            raise InputError("common", "must be at least 2 numbers in ascending order, or none", self.of_blocks)
        keep(self, of_blocks=tuple((blocks - _middles(blocks).mean()).tolist()))
        keep(self, of_ranks_measured=tuple((ranks - ranks.mean()).tolist()) if len(ranks) else ())

    @property
    def drawn(self) -> bool:
        return self.of_ranks_sd > 0

    def shared(self, n: int) -> int:
        return int(len(self.of_blocks) > 0)

    def check_ranks(self, n: int) -> None:
        pass

    def offsets_of(self, n: int, rank: Array) -> Array:
        """Offsets of ``n`` ranks, seconds: those that were measured, or others from standard normal variates."""
        if n == len(self.of_ranks_measured):
            return np.array(self.of_ranks_measured)
        return self.of_ranks_sd * rank if self.drawn else np.zeros(n)

    def combine(self, own: Array, shared: Array, rank: Array) -> None:
        """From standard normal ``own`` to times beside the mean, in place."""
        from scipy.special import log_ndtr

        own[...] = self.rest.at(-log_ndtr(-own))
        own += self.offsets_of(own.shape[-1], rank)
        if self.of_blocks:
            from scipy.special import ndtr

            own += np.interp(ndtr(shared[..., :1]), np.linspace(0, 1, len(self.of_blocks)), self.of_blocks)


@dataclass(frozen=True, kw_only=True)
class Tail(Law):
    """Offsets of ranks, a common part of blocks, and a rest with a generalised Pareto tail; seconds.

    Where n is as many as there are ``offsets``, ranks have these; any other ranks draw theirs, once in a run, from a
    normal law. What all ranks of a block share is drawn once for each block: no rank waits for it.

    Attributes:
        block_mean: mean time where offsets are 0.
        quantiles, above, excess, shape: of the rest, as in ``Rest``; its mean is taken off.
        common: quantiles of what all ranks of a block share, at equal steps of probability; none for nothing.
        offsets: of each measured rank; a fit writes those whose mean is 0.
        offsets_sd: standard deviation of the offsets of other ranks, whose mean is that of ``offsets``.
        memory: lag-1 autocorrelation of the normal scores of a rank's rest, from block to block.
        factor: what all of these are multiplied by.
        origin: where it is from, in words.

    >>> law = Tail(block_mean=1.0, quantiles=[0.0, 0.0693147], above=0.5, excess=0.1)  # an exponential law of mean 0.1
    >>> print(f"{law.wait(2):.3f} {law.wait(4):.3f}")  # 0.1*(1/2), 0.1*(1/2 + 1/3 + 1/4)
    0.050 0.108
    """

    block_mean: Time
    quantiles: Sequence[Finite]
    above: float
    excess: float
    shape: float = 0.0
    common: Sequence[Finite] | None = None
    offsets: Sequence[Finite] | None = None
    offsets_sd: float = 0.0
    memory: float = 0.0
    factor: Positive = 1.0
    origin: str = ""
    noise: ClassVar[Noise] = "normal"
    scale_field: ClassVar[str] = "factor"

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, **{name: tuple(getattr(self, name) or ()) for name in ("quantiles", "common", "offsets")})
        number("offsets_sd", self.offsets_sd, least=0, most=LONGEST)
        for i, offset in enumerate(self.offsets or ()):
            number(f"offsets[{i}]", offset, least=-LONGEST, most=LONGEST)
        number("factor", self.factor, most=LONGEST / max(self.block_mean, 1.0))
        risk = self.below_zero
        if not risk <= MOST_BELOW_ZERO:
            raise InputError(
                "offsets" if self.offsets and min(self.offsets) < -self.block_mean else "block_mean",
                f"must be larger, so that at most {MOST_BELOW_ZERO:g} of the times are below 0; it gives {risk:.2g}",
            )

    @property
    def mean(self) -> float:  # type: ignore[override]
        """Mean time of a rank, seconds."""
        return self.centre * self.factor

    @cached_property
    def centre(self) -> float:
        """Mean time without the factor, of the measured ranks and of others."""
        return self.block_mean + (float(np.mean(self.offsets)) if self.offsets else 0.0)

    @cached_property
    def dependence(self) -> Added:  # type: ignore[override]
        """What is added, the same for all factors."""
        rest = Rest(quantiles=self.quantiles, above=self.above, excess=self.excess, shape=self.shape)
        return Added(
            rest=rest,
            of_blocks=self.common or (),
            of_ranks_measured=self.offsets or (),
            of_ranks_sd=self.offsets_sd,
            memory=self.memory,
        )

    @property
    def note(self) -> str:
        known = len(self.offsets or ())
        if not known:
            return self.origin
        said = (
            f"compute: {known} ranks are those that were measured; the offsets of any other number are drawn from a "
            "normal law, other ones for each seed"
        )
        return "; ".join(filter(None, (self.origin, said)))

    @property
    def has_variance(self) -> bool:
        return self.shape < 0.5

    @cached_property
    def sd(self) -> float:
        """Standard deviation of a time, over ranks and blocks, seconds."""
        y = (np.arange(20_000) + 0.5) * (40 / 20_000)
        rest = float((self.dependence.rest.at(y) ** 2 * np.exp(-y)).sum() * 40 / 20_000)
        known = np.array(self.dependence.of_ranks_measured)
        ranks = float(known.var()) if len(known) else self.offsets_sd**2
        return sqrt(rest + ranks + float(np.mean(np.square(_middles(self.dependence.of_blocks))))) * self.factor

    @cached_property
    def below_zero(self) -> float:
        """How likely a time would be below 0; it is then taken as 0."""
        shifts = _middles(self.dependence.of_blocks)
        return float(np.mean([-np.expm1(-self._exponent(-self.centre - shift, 0)) for shift in shifts]))

    def _exponent(self, x: ArrayLike, n: int) -> Array:
        """-ln of how likely the offset and rest of a rank taken at random are above x where n is 0; else -ln of how
        likely those of all ``n`` ranks are at most x."""
        added = self.dependence
        value = np.asarray(x, dtype=float)
        known = n in (0, len(added.of_ranks_measured)) and len(added.of_ranks_measured) > 0
        if known and n:
            return np.asarray(sum(added.rest.exponent(value - offset) for offset in added.of_ranks_measured))
        if known:
            shifts, weights = np.array(added.of_ranks_measured), np.full(len(added.of_ranks_measured), 1.0)
        elif added.drawn:
            shifts = np.linspace(-8, 8, 81)
            weights = np.exp(-(shifts**2) / 2)
            shifts = shifts * added.of_ranks_sd
        else:
            shifts, weights = np.zeros(1), np.ones(1)
        weights = weights / weights.sum()
        moved = value[..., None] - shifts
        with np.errstate(divide="ignore"):
            if n:
                return np.asarray(-n * np.log1p(-np.exp(-added.rest.survival_exponent(moved)) @ weights))
            return np.asarray(-np.log1p(-np.exp(-added.rest.exponent(moved)) @ weights))

    def expected_max(self, n: int) -> float:
        """Expected time of the slowest of ``n`` ranks, over blocks and, where they are drawn, over ranks; seconds."""
        self.check_ranks(n)
        added = self.dependence
        far = -50 - log(n)  # ln(-ln F): so far up only a heavy tail has anything
        measured = n == len(added.of_ranks_measured)
        step = STEP if measured or not added.drawn else 5 * STEP  # offsets that are drawn make it smooth
        t = np.exp(np.concatenate([np.arange(-650.0, far, 0.5), np.arange(far, 6.6, step)]))
        x = added.rest.at(-np.log(-np.expm1(-t)))
        if measured:
            shifts = np.quantile(added.of_ranks_measured, [0.0, 0.5, 1.0])
        else:
            shifts = added.of_ranks_sd * np.linspace(-5, 5, 5 if added.drawn else 1)
        edges = np.unique((x + shifts[:, None]).ravel())
        chance = np.exp(-self._exponent(edges, n))
        steps = np.diff(chance, prepend=0.0)
        middles = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2])
        return (self.centre + float(steps @ middles)) * self.factor

    def transform(self, x: Array) -> None:
        x += self.centre
        np.maximum(x, 0.0, out=x)
        x *= self.factor

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
        """Draw the times of one run: the last axis is the ranks, the one before it, where there is one, the blocks."""
        x = rng.standard_normal(size)
        n = x.shape[-1] if x.ndim else 1
        self.check_ranks(n)
        blocks = x.reshape(-1, n)
        if self.memory:
            blocks[:] = self.dependence.chain(blocks, 1)
        shared = rng.standard_normal((len(blocks), self.dependence.shared(n)))
        self.dependence.combine(blocks, shared, rng.standard_normal(n))
        self.transform(x)
        return x


def _middles(quantiles: Sequence[float] | Array) -> Array:
    """Values that stand for a table of quantiles at equal steps of probability, each as likely; 0 for none."""
    table = np.asarray(quantiles)
    return (table[1:] + table[:-1]) / 2 if len(table) > 1 else np.zeros(1)
