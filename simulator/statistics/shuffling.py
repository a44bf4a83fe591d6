"""What the dependence between ranks and blocks does to the tax: the same times, shuffled; and drift over the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.statistics.components import components
from simulator.statistics.tax_estimate import checked_times
from simulator.statistics.uncertainty import RUNS, from_one_run, jackknife, runs_of
from simulator.tax import subset_tax

HALVES = RUNS // 2  # runs of either half, and of a straight line
RARE = 0.01  # how often a test of drift may be wrong


class Shuffled(NamedTuple):
    """The tax of the measured ranks, in the unit of the times, and by what part it changes where times are shuffled.

    Attributes:
        tax: as measured, max - mean.
        independent: change where times are shuffled over ranks and blocks: below 0, what hangs together (slow ranks)
            makes the tax larger; above 0, what the ranks of a block share is paid by none of them.
        persistent: change where the times of each rank are shuffled over blocks, and ranks keep what they are. Near 0
            while ``independent`` is not: lasting differences of ranks explain it all.
        independent_z, persistent_z: these changes in standard deviations of chance (jackknife over runs of blocks).
    """

    tax: float
    independent: float
    persistent: float
    independent_z: float
    persistent_z: float


def shuffled(x: ArrayLike) -> Shuffled:
    """The tax as measured, of independent ranks, and of persistent ranks.

    Both are exact means over all shuffles, so that no seed matters.

    Args:
        x: finite times in the order of their blocks, shape (blocks, ranks), in any unit.

    Raises:
        InputError: for fewer than 2 blocks or ranks, times that are not finite, or ranks that differ in one run
            of blocks alone, or nowhere.

    >>> found = shuffled([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])  # 9 of 15 pairs are unlike, not all
    >>> print(f"{found.independent:.2f} {abs(found.persistent):.2f}")
    -0.40 0.00
    """
    times = checked_times(x)
    if len(times) < 2:
        raise InputError("times", "must be of at least 2 blocks to be shuffled", times.shape)
    if not (np.ptp(times, axis=1) > 0).any():
        raise InputError("times", "must differ between the ranks of a block; all are equal")
    if from_one_run(subset_tax(times, times.shape[1])):
        raise InputError("times", "must differ between ranks in more than one run of blocks; they differ in one alone")

    def changes(x: Array) -> Array:
        tax = subset_tax(x, x.shape[1]).mean()
        return np.array([independent_tax(x), persistent_tax(x)]) / tax - 1

    seen, spread = over_runs(times, changes, RUNS)
    z = np.divide(seen, spread, out=np.zeros(2), where=spread > 1e-12)
    tax = float(subset_tax(times, times.shape[1]).mean())
    return Shuffled(tax, *seen.tolist(), *z.tolist())


def independent_tax(x: Array) -> float:
    """Mean of max - mean where N of all times, drawn without replacement, make a block."""
    return float(subset_tax(x.reshape(1, -1), x.shape[1])[0])


def persistent_tax(x: Array) -> float:
    """Mean of max - mean where each rank has one of its own times, independently of the others.

    P(max <= v) is the product over ranks of the part of their times that is at most v. It is followed through the
    sorted times: at each, the factor of one rank grows from (c - 1)/blocks to c/blocks.

    >>> persistent_tax(np.array([[0.0, 0.0], [2.0, 2.0]]))  # one of 2, 2, 2 and 0, each a quarter, and the mean is 1
    0.5
    """
    blocks, ranks = x.shape
    own_place = np.argsort(np.argsort(x, axis=0, kind="stable"), axis=0).ravel()  # c - 1: of a time among its rank's
    order = np.argsort(x, axis=None, kind="stable")
    place = own_place[order]
    started = np.cumsum(place == 0) == ranks  # before, some rank has no time as small
    growth = np.log1p(1 / np.maximum(place, 1)) * (place > 0)
    chance = np.where(started, np.exp(np.cumsum(growth) - ranks * np.log(blocks)), 0.0)
    ascending = x.ravel()[order]
    largest = np.diff(chance, prepend=0.0)
    return float((ascending - ascending[0]) @ largest - (ascending - ascending[0]).mean())


class Drift(NamedTuple):
    """How the tax and the ranks change over a run, in the unit of the times.

    Attributes:
        first, second: tax of the measured ranks in the first and the second half of the blocks.
        p: how likely the halves would be as unlike without drift.
        trends: of each rank, what its straight line changes by from the first to the last block, beside the mean of
            the ranks.
        p_trends: how likely each would be as large without drift, allowing for the number of ranks (Bonferroni).
    """

    first: float
    second: float
    p: float
    trends: tuple[float, ...]
    p_trends: tuple[float, ...]

    @property
    def found(self) -> bool:
        """Whether anything drifts, at the 1 % level."""
        return min(self.p, *self.p_trends) < RARE


def drift(x: ArrayLike) -> Drift:
    """Tests of drift: first half against second half, and a straight line through the times of each rank.

    Standard errors are of ten runs of consecutive blocks left out one by one, widened by what the memory of ranks (an
    AR(1) chain beside their straight lines) carries from run to run; Student's t with 9 degrees.

    Args:
        x: finite times in the order of their blocks, shape (blocks, ranks), in any unit.

    Raises:
        InputError: for fewer than 20 blocks or 2 ranks, or times that are not finite.

    >>> x = np.random.default_rng(0).normal(size=(100, 4))
    >>> drift(x).found, drift(x + np.outer(np.linspace(0, 2, 100), [0, 0, 0, 1])).found
    (False, True)
    """
    times = checked_times(x)
    if len(times) < 2 * HALVES:
        raise InputError("times", f"must be of at least {2 * HALVES} blocks to tell a drift", times.shape)
    tax = subset_tax(times, times.shape[1])
    middle = len(times) // 2
    first, second = (over_runs(half, lambda y: y.mean(keepdims=True), HALVES) for half in (tax[:middle], tax[middle:]))
    time = np.linspace(-0.5, 0.5, len(times))
    own = times - times.mean(axis=1, keepdims=True)
    lines, spread = over_runs(np.column_stack([time, own]), slopes, HALVES)
    memory = memory_of(times - time[:, None] * slopes(np.column_stack([time, times])))
    halves = np.sqrt(first[1] ** 2 + second[1] ** 2) * widening(memory**2, middle / HALVES)
    apart = (second[0] - first[0]) / np.sqrt(halves**2 + tiny(tax))
    p = chance(lines / np.sqrt((spread * widening(memory, len(times) / HALVES)) ** 2 + tiny(own)))
    return Drift(
        first=float(first[0][0]), second=float(second[0][0]), p=float(chance(apart)[0]),
        trends=tuple(lines.tolist()), p_trends=tuple(np.minimum(1, p * len(p)).tolist()),
    )  # fmt: skip


def over_runs(x: Array, statistic: Callable[[Array], Array], runs: int) -> tuple[Array, Array]:
    """A statistic of blocks, and its standard deviation by the jackknife over so many runs of consecutive blocks."""
    left_out = [statistic(np.delete(x, run, axis=0)) for run in runs_of(len(x), runs)]
    return statistic(x), jackknife(left_out)


def memory_of(x: Array) -> float:
    """Correlation of ranks' own noise from block to block, where there is any."""
    try:
        return max(0.0, components(x).memory)
    except InputError:  # nothing varies
        return 0.0


def widening(memory: float, length: float) -> float:
    """How much wider a mean over many runs varies than means of runs of so many blocks say, under an AR(1) memory.

    Of a mean of L blocks the variance is 1 - 2*rho*(1 - rho^L)/(L*(1 - rho^2)) of what it would be, were runs without
    memory of each other (Kelton and Law, 1984, on batch means).

    >>> widening(0.0, 5), round(widening(0.5, 1), 6)  # of single blocks: the root of (1 + rho)/(1 - rho)
    (1.0, 1.732051)
    """
    return float(1 / np.sqrt(1 - 2 * memory * (1 - memory**length) / (length * (1 - memory**2))))


def slopes(table: Array) -> Array:
    """Least-squares slopes of the other columns over the first."""
    time = table[:, 0] - table[:, 0].mean()
    return np.asarray(time @ table[:, 1:] / (time @ time))


def chance(deviations: Array) -> Array:
    """How likely a deviation would be as large, by Student's t of ten runs."""
    from scipy.special import stdtr

    return np.asarray(2 * stdtr(HALVES - 1, -np.abs(deviations)))


def tiny(x: Array) -> float:
    """A variance that rounding alone makes."""
    return float(np.abs(x).max() * 1e-13) ** 2 or 1.0
