"""What n ranks would pay: the tax E[max of n] - mean from blocks of N measured ranks, its interval, and its limits.

Up to N it is a mean over subsets of ranks (``subsets``). Beyond, it is carried on by a law of the pooled times with a
generalised Pareto tail (``tail``), anchored at what was measured:

    tau(n) = U(N) + f*(G(n) - G(N)),    f = (U(N) - U(h)) / (G(N) - G(h)),    h = N//2,

with U(n) the tax by subsets and G(n) that of n values of the pooled law. Without the anchor, whatever makes the ranks
of a block more alike than values of different blocks would be carried on as noise of ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import exp, hypot, inf, log, nan, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.arrays import Array
from simulator.checks import MAX_RANKS, InputError, count
from simulator.statistics.components import LEVEL, Components, components
from simulator.statistics.pooling import Pooling
from simulator.statistics.tail import WEIGHT_OF_ZERO, Tail, threshold_rank
from simulator.statistics.uncertainty import (
    RUNS,
    Parts,
    alike_ranks,
    from_one_run,
    jackknife,
    rank_effects,
    runs_of,
    student,
    variance_factors,
)  # fmt: skip
from simulator.tax import subset_tax
from simulator.text import percent

LEAST_BLOCKS = 10  # from which more ranks than measured are spoken of
LEAST_TIMES = 40  # two times what the tail takes at least
KNOWN = 0.5  # n/(independent times) up to which the error is 20 % for the worst of many laws
GUESSED = 10.0  # ... and 50 %
ANCHOR = (0.3, 1.5)  # ends of f: what lies outside is chance
SHAPE_ERROR = 0.15  # standard deviation of an unshrunk shape that laws of compute times differ by
NARROW = 0.2  # the interval that ``blocks_needed`` asks for: tau +- 20 %

Status = Literal["ok", "interval", "no claim"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The tax of n ranks, in the unit of the times.

    Attributes:
        n: ranks.
        tau: estimate of E[max of n] - mean; NaN where nothing is claimed.
        low, high: 95 % confidence interval; NaN where nothing is claimed, or one block was measured.
        estimator: ``subsets`` up to the measured ranks, ``tail`` beyond.
        status: ``ok``; ``interval`` where the number itself says little; or ``no claim``.
        reason: one sentence on why it is not ``ok``, has no interval or one to doubt; else empty.
        conditional_low, conditional_high: where ranks differ lastingly and n is beyond those measured: the interval
            if the offsets of ranks are normal; else NaN.
        blocks_needed: so many blocks would narrow the interval to +-20 %; inf where no number of blocks would; NaN
            where nothing is claimed.
    """

    n: int
    tau: float
    low: float
    high: float
    estimator: Literal["subsets", "tail"]
    status: Status
    reason: str = ""
    conditional_low: float = nan
    conditional_high: float = nan
    blocks_needed: float = nan


def estimate(x: ArrayLike, n: int) -> Estimate:
    """The tax of n ranks; see ``estimates``.

    >>> rng = np.random.default_rng(1)
    >>> found = estimate(rng.exponential(size=(500, 8)), 64)  # 1/2 + 1/3 + ... + 1/64 = 3.74
    >>> print(f"{found.tau:.2f} [{found.low:.2f}, {found.high:.2f}] {found.estimator} {found.status}")
    3.77 [3.51, 4.05] tail ok
    """
    return estimates(x, [n])[0]


def estimates(x: ArrayLike, sizes: Sequence[int]) -> list[Estimate]:
    """The tax of each n of ``sizes``, from one kind of block.

    Args:
        x: finite times in the order of their blocks, shape (blocks, ranks), in any unit.
        sizes: numbers of ranks, each at least 1.

    Raises:
        InputError: for another shape, fewer than 2 ranks, times that are not finite, or a size that is no such number.
    """
    measured = Measured(checked_times(x))
    return [measured.estimate(count("n", n, most=MAX_RANKS)) for n in sizes]


def checked_times(x: ArrayLike) -> Array:
    """Times of shape (blocks, ranks); refused in one sentence where they are no such thing."""
    try:
        times = np.asarray(x, dtype=float)
    except (TypeError, ValueError, OverflowError):  # text, or rows of unlike lengths
        raise InputError("times", "must be numbers, of shape (blocks, ranks)", x) from None
    if times.ndim != 2 or not len(times) or times.shape[1] < 2:
        raise InputError("times", "must be of shape (blocks, ranks), at least 2 ranks", times.shape)
    finite = np.isfinite(times)
    if not finite.all():
        block, rank = (int(index) for index in np.argwhere(~finite)[0])
        raise InputError(f"times[{block}, {rank}]", "must be a finite number", float(times[block, rank]))
    return times


Indices = NDArray[np.intp]


class Anchored(NamedTuple):
    """Measured taxes of N and h ranks, and a law that carries them on."""

    ranks: int
    whole: float
    half: float
    law: Tail

    @classmethod
    def of(cls, x: Array, law: Tail) -> Anchored:
        """Of times, shape (blocks, ranks), and a law of them."""
        whole, half = (float(subset_tax(x, n).mean()) for n in (x.shape[1], half_of(x.shape[1])))
        return cls(x.shape[1], whole, half, law)

    def tax(self, n: int, gain: float = 1.0, shape: float | None = None) -> float:
        """tau(n), its rise beyond N times a gain, with the law's shape or another."""
        law = self.law if shape is None else self.law.with_shape(shape)
        wanted, whole, half = law.tax([n, self.ranks, half_of(self.ranks)])
        measured = (self.whole - self.half) / (whole - half) if whole > half else 1.0  # a law that is all one value
        factor = min(max(measured, ANCHOR[0]), ANCHOR[1])
        return float(self.whole + gain * factor * (wanted - whole))


class Measured:
    """Blocks of N ranks, and what is the same for every n."""

    def __init__(self, x: Array):
        self.x = x
        self.blocks, self.ranks = x.shape

    def estimate(self, n: int) -> Estimate:
        """The tax of n ranks."""
        return self.within(n) if n <= self.ranks else self.beyond(n)

    def within(self, n: int) -> Estimate:
        """By subsets of the measured ranks."""
        taxes = subset_tax(self.x, n)
        tau = float(taxes.mean())
        shared = partial(Estimate, n=n, tau=tau, estimator="subsets", status="ok")
        if not tau > 0:
            return shared(low=tau, high=tau, blocks_needed=1)
        if self.blocks == 1 or from_one_run(taxes):
            what = "one block gives" if self.blocks == 1 else "a tax that arises in one run of blocks alone has"
            return shared(low=nan, high=nan, reason=f"{what} no interval", blocks_needed=nan)
        left_out = [float(np.delete(taxes, run).mean()) for run in self.runs]
        parts = Parts(float(jackknife(np.log(left_out))))
        low, high = self.interval(tau, parts)
        return shared(low=low, high=high, blocks_needed=self.blocks_needed(parts))

    def beyond(self, n: int) -> Estimate:
        """By the law of the pooled times, as far as the data can carry it."""
        nothing = Estimate(n=n, tau=nan, low=nan, high=nan, estimator="tail", status="no claim")
        if sentence := self.too_little():
            return replace(nothing, reason=sentence)
        if self.share > 0.5 or n > GUESSED * self.independent_times:
            found = replace(nothing, reason=self.why_nothing(n))
        elif n > KNOWN * self.independent_times:
            found = replace(self.by_tail(n), status="interval", reason=self.why_interval(n))
        else:
            found = self.by_tail(n)
        if not self.ranks_differ or n > GUESSED * self.own_times:
            return found
        low, high = self.conditional(n)
        return replace(found, conditional_low=low, conditional_high=high)

    def by_tail(self, n: int) -> Estimate:
        """By the law of the pooled times, whatever they can carry."""
        gain = self.gain(n)
        tau, parts = self.anchored.tax(n, gain), self.parts(n, gain)
        low, high = self.interval(tau, parts)
        needed = self.blocks_needed(parts)
        doubt = f"the spreads of ranks differ: those of others are guessed from {self.ranks}: the weak case"
        return Estimate(
            n=n, tau=tau, low=low, high=high, estimator="tail", status="ok", blocks_needed=needed,
            reason=doubt if self.spreads_differ else "",
        )  # fmt: skip

    # What the data can carry

    @cached_property
    def components(self) -> Components | None:
        """Parts of the variance; None where there is nothing to part."""
        try:
            return components(self.x)
        except InputError:
            return None

    def too_little(self) -> str:
        """Why nothing is said of more ranks than were measured; empty where something is."""
        beyond = f"more than the {self.ranks} measured ranks"
        if self.ranks == 2:
            return f"two ranks show how they differ, not how {beyond} would"
        if self.blocks < LEAST_BLOCKS or self.x.size < LEAST_TIMES:
            few = f"at least {LEAST_BLOCKS} blocks and {LEAST_TIMES} times"
            return f"{beyond} need {few}; got {self.blocks} blocks, {self.x.size} times"
        if from_one_run(subset_tax(self.x, self.ranks)):
            return f"the tax arises in one run of blocks alone: nothing tells of {beyond}"
        if self.components is None:
            return (
                f"the times do not vary from block to block in ways that ranks do not share: nothing tells of {beyond}"
            )
        return ""

    @property
    def found(self) -> Components:
        """Parts of the variance, where there is enough to say something of more ranks."""
        assert self.components is not None
        return self.components

    @property
    def ranks_differ(self) -> bool:
        """Whether some ranks are slower than others in every block."""
        return self.found.p_rank < LEVEL

    @property
    def spreads_differ(self) -> bool:
        """Whether the times of some ranks vary more than those of others (Levene's test)."""
        return self.found.p_spreads < LEVEL

    @property
    def share(self) -> float:
        """Part of the variance between ranks that stays with them, where it is believed."""
        return self.found.rank_share if self.ranks_differ else 0.0

    @property
    def own_times(self) -> float:
        """So many independent times of a rank's own noise would tell its variance as well.

        Squares of an AR(1) chain are correlated by memory^2 (Bartlett 1946).
        """
        memory = self.found.memory**2
        return self.x.size * (1 - memory) / (1 + memory)

    @property
    def independent_times(self) -> float:
        """So many independent times would tell the variance between ranks as well (Satterthwaite 1946).

        What stays with ranks was drawn N times, however many blocks there are.
        """
        lasting, own = self.share, 1 - self.share
        return 1 / (lasting**2 / (self.ranks - 1) + own**2 / self.own_times)

    @property
    def worth(self) -> str:
        """How much was measured, in words."""
        independent = f"{self.independent_times:.0f} independent times"
        alike = round(self.independent_times) >= self.x.size
        return independent if alike else f"the {independent} that the {self.x.size} measured ones are worth"

    def why_interval(self, n: int) -> str:
        """The sentence where only an interval is claimed of n ranks."""
        return f"{n} ranks are more than half of {self.worth}"

    def why_nothing(self, n: int) -> str:
        """The sentence where nothing is claimed of n ranks."""
        if self.share > 0.5:
            return (
                f"{percent(self.share)} of the variance between ranks stays with them: what {n} ranks pay depends on "
                "ranks that nobody measured"
            )
        return f"{n} ranks are more than {GUESSED:.0f} times {self.worth}"

    # The estimate

    @cached_property
    def pooling(self) -> Pooling:
        """What the ranks of a block share."""
        return Pooling.of(self.x, self.found.p_common < LEVEL)

    @cached_property
    def pooled(self) -> Array:
        """Times without what the ranks of a block share, shape (blocks, ranks)."""
        return self.pooling.values(self.x)

    @cached_property
    def dealt(self) -> list[Tail]:
        """Laws of the pooled times dealt into new blocks and pooled again, where something is taken off."""
        if not any(self.pooling):
            return []
        return [Tail.of(np.sort(values, axis=None)) for values in self.pooling.dealt(self.x)]

    def gain(self, n: int) -> float:
        """By how much pooling once more flattens the rise of the tax from N to n against that from h to N.

        What is taken off a block has some of the ranks' own noise: each time is blurred by the others, which makes
        skewed laws less skewed. What a second pooling does to the pooled law, the first did to that of the ranks (a
        bias corrected by the bootstrap: Efron and Tibshirani, 1993, chapter 10).
        """
        if not self.dealt:
            return 1.0
        again = np.log([rise(law, n, self.ranks) for law in self.dealt])
        return exp(log(rise(self.anchored.law, n, self.ranks)) - float(again.mean()))

    @cached_property
    def anchored(self) -> Anchored:
        """U(N), U(h) and the pooled law."""
        return Anchored.of(self.x, Tail.of(np.sort(self.pooled, axis=None)))

    @cached_property
    def without_runs(self) -> list[Anchored]:
        """The same with one run of blocks after another left out."""
        return [
            Anchored.of(np.delete(self.x, run, axis=0), law)
            for run, law in zip(self.runs, self.laws_without_runs(self.pooled), strict=True)
        ]

    def laws_without_runs(self, values: Array) -> Iterator[Tail]:
        """The law of values of shape (blocks, ranks), one run after another left out."""
        order = np.argsort(values, axis=None)
        ascending, block = values.ravel()[order], order // self.ranks
        return (Tail.of(ascending[(block < run[0]) | (block > run[-1])]) for run in self.runs)

    @cached_property
    def without_ranks(self) -> list[Anchored]:
        """The same with one rank after another left out."""
        order = np.argsort(self.pooled, axis=None)
        ascending, rank = self.pooled.ravel()[order], order % self.ranks
        return [
            Anchored.of(np.delete(self.x, chosen, axis=1), Tail.of(ascending[rank != chosen]))
            for chosen in range(self.ranks)
        ]

    # The interval

    @cached_property
    def runs(self) -> list[Indices]:
        """Indices of consecutive blocks, 20 runs or as many as there are blocks."""
        return runs_of(self.blocks)

    def parts(self, n: int, gain: float) -> Parts:
        """What the tax of n > N ranks is uncertain by."""
        ranks = rank_effects(self.share, self.ranks)
        if self.spreads_differ:
            from simulator.statistics.lasting import louder

            spreads = self.found.spreads
            left_out = jackknife(np.log([fit.tax(n, gain) for fit in self.without_ranks]))
            unlike = student(alike_ranks(spreads) - 1) * float(left_out)
            ranks = hypot(ranks[0], unlike), hypot(ranks[1], unlike) + log(louder(spreads, n))  # a bias, no chance
        error = student(RUNS - 1) * SHAPE_ERROR * shape_weight(self.x.size)
        return Parts(
            runs=float(jackknife(np.log([fit.tax(n, gain) for fit in self.without_runs]))),
            shape=shape_effects(self.anchored, n, gain, error),
            ranks=ranks,
        )

    def interval(self, tau: float, parts: Parts) -> tuple[float, float]:
        """Ends of the 95 % interval."""
        below, above = parts.half_widths(1.0, 1.0, len(self.runs) - 1)
        return tau * exp(-below), tau * exp(above)

    def blocks_needed(self, parts: Parts) -> float:
        """The least number of blocks with an interval inside tau +- 20 %, by bisection; inf where there is none."""

        def narrow(blocks: int) -> bool:
            shape = shape_weight(blocks * self.ranks) / shape_weight(self.x.size)
            below, above = parts.half_widths(blocks / self.blocks, shape, RUNS - 1)
            return exp(above) <= 1 + NARROW and exp(-below) >= 1 - NARROW

        few, many = 1, 2**40
        if not narrow(many):
            return inf
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if narrow(middle) else (middle, many)
        return many

    def conditional(self, n: int) -> tuple[float, float]:
        """The interval of the tax of n ranks if the offsets of ranks are normal: of their variance, N - 1 degrees of
        freedom, and of the noise, by the jackknife."""
        from simulator.statistics.lasting import with_offsets

        own = self.pooled - self.pooled.mean(axis=0)
        law, sd = Tail.of(np.sort(own, axis=None)), sqrt(self.found.rank)
        tau = with_offsets(law, sd, n)
        runs = [with_offsets(left, sd, n) for left in self.laws_without_runs(own)]
        below, above = (
            log(with_offsets(law, sd * sqrt(factor), n) / tau) for factor in variance_factors(self.ranks - 1)
        )
        noise = student(len(self.runs) - 1) * float(jackknife(np.log(runs)))
        return tau * exp(-sqrt(below**2 + noise**2)), tau * exp(sqrt(above**2 + noise**2))


def rise(law: Tail, n: int, ranks: int) -> float:
    """(G(n) - G(N)) / (G(N) - G(h))."""
    wanted, whole, half = law.tax([n, ranks, half_of(ranks)])
    return float((wanted - whole) / (whole - half))


def half_of(ranks: int) -> int:
    """h: the smaller number of ranks at which a law is held against the measured tax."""
    return max(1, ranks // 2)


def shape_weight(times: float) -> float:
    """What part of the shape's error is left where it is shrunk to that of an exponential tail."""
    return WEIGHT_OF_ZERO / (threshold_rank(int(min(times, 2**62))) + WEIGHT_OF_ZERO)


def shape_effects(fit: Anchored, n: int, gain: float, error: float) -> tuple[float, float]:
    """How far ln tau goes down and up where the shape is off by so much; further up, as a heavier tail tells more."""
    below, above = (abs(log(fit.tax(n, gain, fit.law.shape + step) / fit.tax(n, gain))) for step in (-error, error))
    return below, above
