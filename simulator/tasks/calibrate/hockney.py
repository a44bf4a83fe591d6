"""Hockney's model fitted to measured times: a line T = latency + slope*S, or a line for each range of sizes.

The fits minimise relative errors, since times span decades and each is measured to about the same share of itself. In
several segments each range of sizes (a protocol or an algorithm of its own) has its own line. The lines may jump where
they meet, as times do where NCCL switches.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf, nan, sqrt

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.simulation.results import LEAST_VALUES

LEAST = 3  # sizes that a line of two parameters needs
CUTS = 32  # places of a border, where sizes are many: so many by number and by logarithm
FOLDS = 10  # parts of the points that are left out in turn


@dataclass(frozen=True)
class Line:
    """T = latency + slope*S, fitted to ``points`` sizes from ``first`` to ``last`` bytes.

    Attributes:
        latency: intercept, seconds.
        slope: seconds per byte.
        latency_se: standard error of the latency.
        slope_se: standard error of the slope.
        first: smallest size, bytes.
        last: largest size, bytes.
        points: number of sizes.
    """

    latency: float
    slope: float
    latency_se: float
    slope_se: float
    first: float
    last: float
    points: int

    def time(self, sizes: Array) -> Array:
        """Fitted times, seconds."""
        return self.latency + self.slope * sizes


def fit_line(sizes: Array, times: Array) -> Line:
    """The line that minimises the sum of ((fitted - measured)/measured)^2, with latency and slope of at least 0.

    Standard errors are those of a jackknife that leaves out ten stretches of neighbouring sizes in turn: neighbours
    are off in the same direction, as no line is true everywhere, so that errors of single points would be
    too small. They are NaN for fewer than 8 sizes.

    Args:
        sizes: bytes, ascending.
        times: seconds, above 0.

    Raises:
        InputError: for fewer than 3 sizes.

    >>> line = fit_line(np.array([1e3, 1e6, 1e9]), 5e-6 + np.array([1e3, 1e6, 1e9]) / 200e9)
    >>> print(f"{line.latency:.3g} s, {1 / line.slope:.3g} bytes/s")
    5e-06 s, 2e+11 bytes/s
    """
    n = len(sizes)
    if n < LEAST:
        got = f" ({', '.join(f'{nbytes:.0f}' for nbytes in sizes)} bytes)" if n else ""
        raise InputError("nccl_tests", f"must have at least {LEAST} different sizes to fit; got {n}{got}")
    latency, slope = _solve(sizes, times)[0]
    stretches = np.array_split(np.arange(n), min(FOLDS, n))
    without = np.array([_solve(np.delete(sizes, out), np.delete(times, out))[0] for out in stretches])
    few = nan if len(stretches) < LEAST_VALUES else 1.0
    latency_se, slope_se = few * np.sqrt((len(stretches) - 1) * without.var(axis=0))
    ends = float(sizes[0]), float(sizes[-1])
    return Line(float(latency), float(slope), float(latency_se), float(slope_se), *ends, n)


def _solve(sizes: Array, times: Array) -> tuple[Array, float]:
    """Latency and slope of the best line, and its sum of squared relative errors."""
    from scipy.optimize import nnls

    columns = np.stack([1 / times, sizes / times], axis=1)  # relative: each row divided by its time
    scale = np.sqrt((columns**2).sum(axis=0))
    scaled = columns / scale
    parameters, _ = nnls(scaled, np.ones(len(times)))
    return parameters / scale, float(((scaled @ parameters - 1) ** 2).sum())


@dataclass(frozen=True)
class Model:
    """Lines one after another, each for its range of sizes; between two ranges the border is their geometric mean."""

    lines: tuple[Line, ...]

    @property
    def borders(self) -> list[float]:
        """Sizes, bytes, at which the second line and each after it begins."""
        return [sqrt(before.last * after.first) for before, after in pairwise(self.lines)]

    def time(self, sizes: Array) -> Array:
        """Fitted times, seconds."""
        which = np.searchsorted(self.borders, sizes, side="right")
        return np.choose(which, [line.time(sizes) for line in self.lines])


def fit_model(sizes: Array, times: Array, segments: int = 1) -> Model:
    """The ``segments`` lines with the smallest sum of squared relative errors, each of at least 3 sizes.

    All borders between sizes are tried; of many sizes only 64, evenly by number and by logarithm.

    Raises:
        InputError: for fewer than 3 sizes in each segment.
    """
    n = len(sizes)
    if n < LEAST * segments:
        raise InputError("segments", f"must leave at least {LEAST} sizes to each; {n} sizes do not make {segments}")
    inner = np.arange(LEAST, n - LEAST + 1)
    if len(inner) > 2 * CUTS:
        places = np.searchsorted(sizes, np.geomspace(sizes[0], sizes[-1], CUTS))
        inner = np.union1d(np.intersect1d(inner, places), inner[np.linspace(0, len(inner) - 1, CUTS).astype(np.intp)])
    costs: dict[tuple[int, int], float] = {}

    def cost(cuts: tuple[int, ...]) -> float:
        total = 0.0
        for begin, end in pairwise([0, *cuts, n]):
            if end - begin < LEAST:
                return inf
            if (begin, end) not in costs:
                costs[begin, end] = _solve(sizes[begin:end], times[begin:end])[1]
            total += costs[begin, end]
        return total

    best = min(combinations(inner.tolist(), segments - 1), key=cost)
    return Model(tuple(fit_line(sizes[begin:end], times[begin:end]) for begin, end in pairwise([0, *best, n])))


def relative_errors(model: Model, sizes: Array, times: Array) -> Array:
    """(fitted - measured)/measured."""
    return model.time(sizes) / times - 1


def held_out_error(sizes: Array, times: Array, segments: int) -> float:
    """Median relative error of points that were left out of the fit, every tenth in turn; NaN where too few are left.

    An error of the fit itself always falls with more segments; this one rises where they only follow the noise.
    """
    folds = min(FOLDS, len(sizes))
    place = np.arange(len(sizes)) % folds
    if (len(sizes) - np.bincount(place).max()) < LEAST * segments:
        return nan
    errors = []
    for fold in range(folds):
        kept, out = place != fold, place == fold
        errors.append(relative_errors(fit_model(sizes[kept], times[kept], segments), sizes[out], times[out]))
    return float(np.median(np.abs(np.concatenate(errors))))
