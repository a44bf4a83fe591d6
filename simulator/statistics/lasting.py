"""Ranks that differ lastingly: what others would pay if offsets of ranks are normal, and spreads log-normal; what one
more slow rank costs."""

from __future__ import annotations

from collections.abc import Sequence
from math import asinh, sqrt

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.statistics.tail import Tail

ATOMS = 60  # of the body, and as many of the tail, by which a law of times is stood for
POINTS = 300  # of the integral


def with_offsets(law: Tail, sd: float, n: int) -> float:
    """E[max of n] - mean of (normal offset of standard deviation sd) + (a value of the law), all independent.

    The offset of each rank is drawn once, but a rank has one time in a block: for the largest of n ranks it is noise
    like any other. P(sum <= x) is a mean over atoms of the law; E[max] - c = end - integral of P(max - c <= x) up to
    an end that no value exceeds, by trapezoids that are narrow near the mean c.

    >>> from scipy.stats import norm
    >>> own = Tail.of(norm.ppf((np.arange(4000) + 0.5) / 4000) * 0.6)
    >>> print(f"{with_offsets(own, 0.8, 64):.1f}")  # that of 64 normal values of variance 1: 2.34
    2.3
    """
    from scipy.special import ndtr

    values, weights = atoms(law, n)
    mean = float(values @ weights)
    unit = sqrt(sd**2 + float(weights @ (values - mean) ** 2))
    ends = (values[0] - mean - 9 * sd) / unit, (values[-1] - mean + 9 * sd) / unit
    x = np.sinh(np.linspace(asinh(ends[0]), asinh(ends[1]), POINTS)) * unit
    below = ndtr((x[:, None] - (values - mean)) / sd) @ weights
    largest = np.clip(below, 0, 1) ** n
    return float(x[-1] - np.trapezoid(largest, x))


def slow_rank(x: ArrayLike, offset: float) -> float:
    """How much later a barrier comes, in the mean, where one more rank is slower than the mean of these by ``offset``.

    Its time in a block is the mean of the block's ranks, the offset, and what some rank in some block was off from its
    own mean and the block's, each as likely: E[(offset + own - (largest - mean of the block))+], exactly, over all
    pairs.

    Args:
        x: times, shape (blocks, ranks), in the unit of the offset.

    >>> slow_rank([[1.0, 3.0], [1.0, 3.0]], 2.0)  # it comes 1 after the slowest, which is 1 above the mean
    1.0
    """
    times = np.asarray(x, dtype=float)
    mean = times.mean(axis=1, keepdims=True)
    late = np.sort(times.max(axis=1) - mean[:, 0])
    own = (times - mean - (times - mean).mean(axis=0)).ravel() + offset
    before = np.searchsorted(late, own)
    return float((before * own - np.concatenate([[0.0], np.cumsum(late)])[before]).sum() / len(late) / len(own))


def atoms(law: Tail, n: int) -> tuple[Array, Array]:
    """Values and weights that stand for the law up to what one in 1000*n values exceeds.

    >>> values, weights = atoms(Tail.of(np.arange(400.0)), 8)
    >>> print(f"{weights.sum():.6f} {values @ weights:.1f}")
    1.000000 199.5
    """
    parts = np.array_split(law.body, min(ATOMS, len(law.body)))
    share = law.above / law.size
    y = np.linspace(0, np.log(1000 * n * max(share, 1e-3)) + 5, ATOMS + 1)
    tail = share * -np.diff(np.exp(-y))
    tail[-1] += share * np.exp(-y[-1])
    values = np.concatenate([[part.mean() for part in parts], law.body[-1] + law.excesses((y[1:] + y[:-1]) / 2)])
    return values, np.concatenate([[len(part) / law.size for part in parts], tail])


def louder(spreads: Sequence[float], n: int) -> float:
    """Tax of n ranks of log-normal spreads over that of n ranks of the given spreads, of normal noise; at least 1.

    The loudest of n ranks is louder than the loudest of those measured, which no resampling of these can show. The
    logarithms have the variance of the given ones, without those of ranks that never vary.

    >>> round(louder([1.0, 1.0, 1.0], 512), 3), louder([0.5, 1.0, 2.0], 4096) > 1.2
    (1.0, True)
    """
    ours = np.asarray(spreads)[np.asarray(spreads) > 0]
    if len(ours) < 2:
        return 1.0
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    logs = np.log(ours)
    others = np.exp(logs.mean() + nodes * logs.std(ddof=1))
    return max(1.0, mixed(others, weights / weights.sum(), n) / mixed(ours, np.full(len(ours), 1 / len(ours)), n))


def mixed(spreads: Array, weights: Array, n: int) -> float:
    """E[max of n] of normal values with a spread drawn for each, over the root of their mean square.

    By trapezoids, as ``with_offsets``.

    >>> round(mixed(np.ones(1), np.ones(1), 2), 3)  # 1/sqrt(pi)
    0.564
    """
    from scipy.special import ndtr

    unit = sqrt(float(weights @ spreads**2))
    x = np.sinh(np.linspace(-3, 6, POINTS)) * unit
    largest = np.clip(ndtr(x[:, None] / spreads) @ weights, 0, 1) ** n
    return float(x[-1] - np.trapezoid(largest, x)) / unit
