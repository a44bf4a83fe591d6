"""Ranks that differ lastingly: what other ranks would pay if the offsets of ranks are normal."""

from __future__ import annotations

from math import asinh, sqrt

import numpy as np

from simulator.arrays import Array
from simulator.statistics.tail import Tail

ATOMS = 100  # of the body, and as many of the tail, by which a law of times is stood for
POINTS = 600  # of the integral


def with_offsets(law: Tail, sd: float, n: int) -> float:
    """E[max of n] - mean of (normal offset of standard deviation sd) + (a value of the law), all independent.

    The offset of each rank is drawn once, but a rank has one time in a block: for the largest of n ranks it is noise
    like any other. P(sum <= x) is a mean over atoms of the law; E[max] - c = integral of P(max > x) over x > c minus
    that of P(max <= x) over x < c, by trapezoids that are narrow near the mean c.

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
    return float(np.trapezoid(np.where(x > 0, 1 - largest, -largest), x))


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
