"""What a tax is uncertain by: half-widths of 95 % intervals of its logarithm."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.arrays import Array

RUNS = 20  # of consecutive blocks, left out one by one


class Parts(NamedTuple):
    """What ln tau is uncertain by.

    Attributes:
        runs: standard deviation by the jackknife over runs of blocks.
        shape: half-widths downwards and upwards by the tail's shape.
        ranks: the same by the ranks, which no more blocks lessen.
    """

    runs: float
    shape: tuple[float, float] = (0.0, 0.0)
    ranks: tuple[float, float] = (0.0, 0.0)

    def half_widths(self, more: float, shape: float, degrees: int) -> tuple[float, float]:
        """Of a 95 % interval with so many times the blocks, where the shape's part becomes so much of itself."""
        runs = student(degrees) ** 2 * self.runs**2 / more
        below, above = (
            sqrt(runs + (shape * own) ** 2 + ranks**2) for own, ranks in zip(self.shape, self.ranks, strict=True)
        )
        return below, above


def runs_of(blocks: int, runs: int = RUNS) -> list[NDArray[np.intp]]:
    """Indices of consecutive blocks, in so many runs or as many as there are blocks.

    >>> [run.tolist() for run in runs_of(5, 2)]
    [[0, 1, 2], [3, 4]]
    """
    return np.array_split(np.arange(blocks), min(runs, blocks))


def from_one_run(taxes: Array) -> bool:
    """Whether one run alone has all of the tax of the blocks: nothing then tells how often there is such a run.

    >>> from_one_run(np.array([0.0, 3.0, 0.0])), from_one_run(np.array([1.0, 3.0, 0.0]))
    (True, False)
    """
    return sum(bool((taxes[run] > 0).any()) for run in runs_of(len(taxes))) == 1


def jackknife(left_out: ArrayLike) -> Array:
    """Standard deviation of statistics, from their values with one of as many groups left out, along the first axis.

    The delete-a-group jackknife (Shao and Tu, 1995, section 2.3).

    >>> x = np.array([1.0, 2.0, 3.0])  # of a mean it is the root of var/3
    >>> print(f"{jackknife((x.sum() - x) / 2):.6f} {np.sqrt(x.var(ddof=1) / 3):.6f}")
    0.577350 0.577350
    """
    values = np.asarray(left_out)
    return np.asarray(np.sqrt((len(values) - 1) * values.var(axis=0)))


def rank_effects(share: float, ranks: int) -> tuple[float, float]:
    """Half-widths of ln tau, downwards and upwards, where ``share`` of the variance is that of N drawn rank effects."""
    below, above = (abs(log(1 + share * (factor - 1))) / 2 for factor in variance_factors(ranks - 1))
    return below, above


def variance_factors(degrees: int) -> tuple[float, float]:
    """Ends of the 95 % interval of a normal variance over its estimate: degrees/chi-squared quantiles."""
    from scipy.special import chdtri

    return degrees / float(chdtri(degrees, 0.025)), degrees / float(chdtri(degrees, 0.975))


def alike_ranks(spreads: Sequence[float]) -> float:
    """So many ranks of like variance would tell it as well as these; at least 2 (Satterthwaite, 1946).

    >>> alike_ranks([1.0, 1.0, 1.0, 1.0]), alike_ranks([1.0, 1.0, 1.0, 3.0])
    (4.0, 2.0)
    """
    variances = np.square(spreads)
    return max(2.0, float(variances.sum() ** 2 / (variances**2).sum()))


def student(degrees: float) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975))
