"""The tax of n ranks from blocks of N >= n measured ones: the mean over all subsets of n ranks, a U-statistic."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError, count


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
