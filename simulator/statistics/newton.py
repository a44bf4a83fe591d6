"""Newton's method for many small minimisations at once, damped so that no step goes uphill."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Array

SMALL = 1e-9  # a gradient at which a search ends, in units where the curvature is about 1


class Slopes(NamedTuple):
    """What a cost is at some points: value (rows,), gradient (rows, p) and Hessian (rows, p, p)."""

    value: Array
    gradient: Array
    hessian: Array


class Minimum(NamedTuple):
    """Where each search ended, shape (rows, p), its value, and whether the gradient there is small."""

    at: Array
    value: Array
    converged: NDArray[np.bool_]


def minimise(cost: Callable[[Array, NDArray[np.intp]], Slopes], start: Array, limit: int = 200) -> Minimum:
    """Minimise a cost for every row of ``start`` by Newton steps, each halved until it leads down.

    Where the Hessian is not positive definite its eigenvalues count by their size, so every step is one of descent
    (Nocedal, Wright, Numerical Optimization, 2006, section 3.4). A cost may be infinite, which bounds the search.

    Args:
        cost: takes points, shape (some rows, p), and which rows they belong to; returns their ``Slopes``.
        start: where the searches begin, shape (rows, p), at a finite cost.
        limit: steps, counting those that were too long.

    >>> def bowl(x, rows):
    ...     return Slopes((x**4 + x**2)[:, 0], 4 * x**3 + 2 * x, (12 * x**2 + 2)[:, :, None])
    >>> found = minimise(bowl, np.array([[1.0], [-3.0]]))
    >>> found.converged, abs(found.at).max() < 1e-9
    (array([ True,  True]), np.True_)
    """
    at = np.array(start, dtype=float)
    rows = np.arange(len(at))
    value, gradient, hessian = (np.array(part) for part in cost(at, rows))
    length = np.ones(len(at))
    for _ in range(limit):
        size = np.abs(gradient).max(axis=1)
        rows = np.flatnonzero((size > SMALL) & (length > 1e-12))
        if len(rows) == 0:
            break
        step = length[rows, None] * _downhill(gradient[rows], hessian[rows])
        trial = cost(at[rows] + step, rows)
        promised = (gradient[rows] * step).sum(axis=1)
        rounding = 1e-13 * (1 + np.abs(value[rows]))  # sums of many terms are no better
        better = trial.value <= value[rows] + np.where(-promised < rounding, rounding, 1e-4 * promised)
        kept, failed = rows[better], rows[~better]
        at[kept] += step[better]
        value[kept], gradient[kept], hessian[kept] = trial.value[better], trial.gradient[better], trial.hessian[better]
        length[kept] = np.minimum(1.0, 4 * length[kept])
        length[failed] /= 4
    return Minimum(at, value, np.abs(gradient).max(axis=1) <= SMALL)


def _downhill(gradient: Array, hessian: Array) -> Array:
    sizes, axes = np.linalg.eigh(hessian)
    sizes = np.maximum(np.abs(sizes), 1e-8 * np.abs(sizes).max(axis=1, keepdims=True) + 1e-300)
    along = np.einsum("rij,ri->rj", axes, gradient) / sizes
    return np.asarray(-np.einsum("rij,rj->ri", axes, along))
