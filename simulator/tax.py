"""The measures of the synchronization tax, defined once: of waits, and of kernel durations (seed paper, section 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.arrays import Array
from simulator.checks import InputError, count


class Tax(NamedTuple):
    """How long ranks wait at collectives, seconds; each of the shape of the collectives.

    ``fastest`` is the wait of the rank that waits longest (max - min of durations), ``median`` that of the median rank
    (median - min), ``mean`` the mean over ranks.
    """

    fastest: Array
    median: Array
    mean: Array


def of_waits(waits: Array) -> Tax:
    """The tax of waits (last arrival - own arrival) whose last axis is the ranks; ``waits`` is reordered.

    >>> [float(x) for x in of_waits(np.array([0.0, 1.0, 5.0]))]
    [5.0, 1.0, 2.0]
    """
    fastest, mean = waits.max(axis=-1), np.add.reduce(waits, axis=-1) / waits.shape[-1]
    return Tax(fastest, middle(waits), mean)


def of_durations(durations: Array) -> Tax:
    """The tax of kernel durations whose last axis is the ranks, which all leave a collective together.

    >>> [float(x) for x in of_durations(np.array([7.0, 8.0, 12.0]))]
    [5.0, 1.0, 2.0]
    """
    least = durations.min(axis=-1)
    return Tax(durations.max(axis=-1) - least, np.median(durations, axis=-1) - least, durations.mean(axis=-1) - least)


def middle(x: Array) -> Array:
    """Median over the last axis; ``x`` is reordered. One selection, then the largest of the lower half.

    >>> float(middle(np.array([4.0, 1.0, 3.0, 2.0])))
    2.5
    """
    half = x.shape[-1] // 2
    x.partition(half, axis=-1)
    upper: Array = x[..., half]
    return upper if x.shape[-1] % 2 else (x[..., :half].max(axis=-1) + upper) / 2


def subset_tax(x: ArrayLike, n: int) -> Array:
    """Mean over all subsets of n ranks of (largest - mean of all ranks), for each block.

    Its mean over blocks is U(n), the estimate of E[max of n] - mean of n ranks taken at random from those measured. It
    is unbiased under any law and any dependence, and what all ranks of a block share cancels. (Hoeffding, 1948.)

    Args:
        x: finite times, shape (blocks, ranks), in any unit.
        n: ranks of a subset, at most those of a block.

    Returns:
        Array of shape (blocks,), in the unit of x.

    Raises:
        InputError: for another shape or n.

    >>> subset_tax([[1.0, 2.0, 6.0]], 2)  # the largest of {1, 2}, {1, 6}, {2, 6}: 14/3 on average, and the mean is 3
    array([1.66666667])
    """
    times = np.asarray(x, dtype=float)
    if times.ndim != 2 or not times.size:
        raise InputError("times", "must be of shape (blocks, ranks)", times.shape)
    weights = largest_of_subset(times.shape[1], count("n", n, most=times.shape[1]))
    above = np.sort(times - times.min(axis=1, keepdims=True), axis=1)  # exact, so that equal times pay exactly nothing
    return np.asarray(above @ weights - above.mean(axis=1))


def largest_of_subset(size: int, n: int) -> Array:
    """How likely the j-th smallest of ``size`` values is the largest of n drawn without replacement.

    C(j-1, n-1)/C(size, n), by the ratio of neighbours from j = size down, where it is n/size.

    >>> largest_of_subset(4, 2) * 6
    array([0., 1., 2., 3.])
    """
    j = np.arange(size, 1, -1, dtype=float)
    down = np.cumprod(np.concatenate([[n / size], np.maximum(j - n, 0) / (j - 1)]))
    return np.asarray(down[::-1])


def share(waited: float, inside: float) -> float:
    """What part of the time inside collectives ranks wait; 0 of no time."""
    return waited / inside if inside > 0 else 0.0


def most_frequent(stragglers: NDArray[np.integer]) -> tuple[int, float]:
    """The rank that is most often the last (the first of several), and at what share of the collectives it is.

    >>> most_frequent(np.array([2, 0, 2, 1]))
    (2, 0.5)
    """
    ranks, counts = np.unique(stragglers, return_counts=True)
    return int(ranks[counts.argmax()]), float(counts.max() / len(stragglers))


class Cost(NamedTuple):
    """What each rank costs the others by being last, arrays over the ranks.

    ``last`` counts the collectives at which it is the last to arrive; ``caused`` is what share of the tax of the
    fastest rank, summed over collectives, arises at those; ``saved`` is how much earlier a collective would begin, in
    the mean over all of them, seconds, were the rank not waited for; ``without`` the mean wait of the others then.
    """

    last: NDArray[np.int64]
    caused: Array
    saved: Array
    without: Array


def costs(waits: Array) -> Cost:
    """What each rank costs, from waits (last arrival - own arrival), shape (collectives, at least 2 ranks).

    Without the last rank the others wait for the second last instead, so each of them waits less by the second
    shortest wait: this is exact where the other ranks arrive as they did.

    >>> cost = costs(np.array([[4.0, 0.0, 3.0], [0.0, 2.0, 4.0]]))
    >>> cost.last.tolist(), cost.caused.tolist(), cost.saved.tolist(), cost.without.tolist()
    ([1, 1, 0], [0.5, 0.5, 0.0], [1.0, 1.5, 0.0], [1.25, 1.25, 1.5])
    """
    collectives, ranks = waits.shape
    last, second = waits.argmin(axis=1), np.partition(waits, 1, axis=1)[:, 1]

    def by_rank(values: Array) -> Array:
        return np.bincount(last, values, minlength=ranks).astype(float)

    fastest = waits.max(axis=1)
    saved = by_rank(second - waits.min(axis=1)) / collectives
    others = waits.sum(axis=1, keepdims=True) - waits
    others[np.arange(collectives), last] -= (ranks - 1) * second
    without = np.maximum(others, 0.0).mean(axis=0) / (ranks - 1)
    whole = fastest.sum()
    return Cost(np.bincount(last, minlength=ranks), by_rank(fastest) / (whole if whole > 0 else 1.0), saved, without)


def persistence(repeats: int, collectives: int, ranks: int) -> float:
    """How likely it is that some rank is last in ``repeats`` or more of the collectives, were all equally often last.

    An upper bound (Bonferroni over ranks of the binomial tail), for collectives independent of each other.

    >>> persistence(49, 49, 4) < 1e-20, round(persistence(15, 49, 4), 2)
    (True, 0.9)
    """
    from scipy.stats import binom

    return min(1.0, ranks * float(binom.sf(repeats - 1, collectives, 1 / ranks)))
