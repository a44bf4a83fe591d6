"""Intervals from the likelihood of a sample: all values of a quantity that make the data not much less likely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import ceil, inf, isfinite, log, sqrt
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.arrays import Array
from simulator.checks import InputError, count, number, one_of
from simulator.laws.gev import gev_mean
from simulator.statistics.estimators import gev_parameters, standard
from simulator.statistics.likelihood import Gev, gev_cost, gumbel_maxima
from simulator.statistics.newton import Slopes, minimise
from simulator.statistics.resample import Interval
from simulator.statistics.sample import Family, checked_family

Parameter = Literal["mu", "sigma", "xi", "expected_max"]

COORDINATE = {"mu": 0, "expected_max": 0, "sigma": 1, "xi": 2}
MEANLESS = 1.0  # xi from which a law has no mean
SHAPES = (-0.99, 2.0)  # of laws that count as possible: outside, the density of one value can outweigh all others
OUTSIDE = Slopes(np.array([inf]), np.ones((1, 3)), np.eye(3)[None])
STEPS = 60  # each half as long again as the last, so that the last is 10^10 standard errors


def profile(
    z: ArrayLike, quantity: Parameter, family: Family = "gumbel", level: float = 0.95, k: float = 1.0
) -> Interval:
    """Profile-likelihood interval: every value whose ``profile_deviance`` stays below the quantile of chi-squared(1).

    Right where the values are independent draws of such a law. z-scores of measured blocks share the standard deviation
    they are divided by, and blocks of one iteration depend on each other: use ``cluster_bootstrap`` for those.

    Args:
        z: at least 10 values, shape (n,); for a GEV law at least 10 different ones.
        quantity: mu, sigma, xi (of family gev), or expected_max, the mean of the largest of k such maxima.
        family: gumbel or gev.
        level: chance that the interval holds the truth.
        k: number of maxima, for expected_max; at least 1.

    Returns:
        the interval in the unit of z, infinite on a side on which the data exclude nothing: expected_max has no upper
        end where xi = 1 is not excluded, and xi none where -0.99 or 2 is not.

    Raises:
        InputError: for fewer values, ties, a likelihood without maximum, and names or numbers out of range.

    >>> profile([1.0, 2.0, 3.0], "mu")
    Traceback (most recent call last):
    simulator.checks.InputError: z must be at least 10 finite values; got shape (3,)
    """
    from scipy.stats import chi2

    likelihood = _Profile.of(checked_family(z, family), quantity, family, k)
    threshold = float(chi2.ppf(number("level", level, above=0, below=1), 1))
    low, high = (likelihood.end(side, threshold) for side in (-1, 1))
    return Interval(likelihood.outside(low), likelihood.outside(high))


def profile_deviance(
    z: ArrayLike, quantity: Parameter, value: float, family: Family = "gumbel", k: float = 1.0
) -> float:
    """Twice the loss of log-likelihood where a quantity has a given value and the rest is as likely as it can be.

    Under the true value it follows chi-squared with 1 degree of freedom in large samples (Coles, An Introduction to
    Statistical Modeling of Extreme Values, 2001, section 2.6.6).

    Where no such law makes the values possible it is infinite. Args and errors as ``profile``.

    >>> z = np.random.default_rng(0).gumbel(size=100)
    >>> print(f"{profile_deviance(z, 'sigma', profile(z, 'sigma').high):.3f}")  # the 95 % quantile of chi-squared
    3.841
    """
    likelihood = _Profile.of(checked_family(z, family), quantity, family, k)
    return likelihood.deviance(likelihood.inside(number("value", value)))


def maxima_needed(interval: Interval, estimate: float, maxima: int, relative: float = 0.1) -> float:
    """How many maxima would narrow an interval to an estimate +- a share of it, as widths fall like 1/sqrt(maxima).

    Args:
        interval: what ``maxima`` maxima give, such as that of tau.
        estimate: of the same quantity.
        maxima: how many there are.
        relative: half-width wanted, as a share of the estimate.

    Returns:
        a whole number, or infinity where the interval or the ratio has no bound.

    >>> maxima_needed(Interval(0.6, 1.4), 1.0, 100)  # from 40 % to 10 %: 16 times as many
    1600
    """
    count("maxima", maxima)
    estimate = number("estimate", estimate, infinite=True)
    wanted = number("relative", relative, above=0) * abs(estimate)
    width = (interval.high - interval.low) / 2
    needed = maxima * (width / wanted) ** 2 if 0 < wanted < inf and isfinite(width) else inf
    return ceil(needed * (1 - 1e-9)) if isfinite(needed) else inf  # a whole number must not round up to the next


@dataclass(frozen=True)
class _Profile:
    """The likelihood of one sample in coordinates of which one, ``fixed``, is the quantity of interest.

    Coordinates are (mu, ln sigma, xi); where E[max of k] is of interest, (E[max of k], mu, xi). The sample is shifted
    and scaled to ordinary size: z = centre + unit*x.
    """

    x: Array
    centre: float
    unit: float
    fixed: int
    k: float | None
    best: Array
    free: tuple[int, ...]

    @classmethod
    def of(cls, z: Array, quantity: Parameter, family: Family, k: float) -> _Profile:
        fixed = COORDINATE[one_of("quantity", quantity, get_args(Parameter))]
        if quantity == "xi" and family == "gumbel":
            raise InputError("quantity", "must be another than xi for family gumbel, whose xi is 0; got 'xi'")
        x, centre, unit = standard(z)
        mu, sigma = gumbel_maxima(x)
        gumbel = np.array([mu[0], np.log(sigma[0]), 0.0])
        best = gumbel if family == "gumbel" else gev_parameters(x)
        if not SHAPES[0] < best[2] < SHAPES[1]:
            raise InputError("z", f"must have a most likely xi between {SHAPES[0]} and {SHAPES[1]}; got {best[2]:.2f}")
        free = tuple(i for i in range(2 if family == "gumbel" else 3) if i != fixed)
        size = number("k", k, least=1) if quantity == "expected_max" else None
        return cls(x, centre, unit, fixed, size, best, free)

    @property
    def law(self) -> Gev:
        mu, s, xi = (float(p) for p in self.best)
        return Gev(self.centre + self.unit * mu, self.unit * float(np.exp(s)), xi)

    def inside(self, value: float) -> float:
        """A value of the quantity as a coordinate."""
        if self.fixed == 0:
            return (value - self.centre) / self.unit
        if self.fixed == 1:
            return log(number("value", value, above=0) / self.unit)
        return number("value", value, least=SHAPES[0], below=SHAPES[1])

    def outside(self, at: float) -> float:
        """The quantity at a coordinate."""
        if self.fixed == 0:
            return self.centre + self.unit * at
        return self.unit * float(np.exp(at)) if self.fixed == 1 else at

    def slopes(self, at: Array) -> Slopes:
        """Cost at one point of the coordinates, shape (1, 3), by the chain rule from (mu, ln sigma, xi)."""
        if not SHAPES[0] <= at[0, 2] <= SHAPES[1]:
            return OUTSIDE
        if self.k is None:
            return gev_cost(self.x, at)
        above, xi = float(at[0, 0] - at[0, 1]), float(at[0, 2])
        if above <= 0 or xi >= MEANLESS:
            return OUTSIDE
        h = 1e-4 * min(1.0, 1 - xi)  # Newton's method asks for no better slopes than differences give
        low, lift, high = (log(gev_mean(0.0, 1.0, xi + step, self.k)) for step in (-h, 0.0, h))
        value, gradient, hessian = gev_cost(self.x, np.array([[at[0, 1], log(above) - lift, xi]]))
        if not isfinite(value[0]):
            return OUTSIDE
        move = np.array([[0.0, 1.0, 0.0], [1 / above, -1 / above, -(high - low) / (2 * h)], [0.0, 0.0, 1.0]])
        bend = np.array([[-1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 0.0]]) / above**2
        bend[2, 2] = -(high - 2 * lift + low) / h**2
        with np.errstate(all="ignore"):  # where one is infinite the step is refused
            return Slopes(value, gradient @ move, move.T @ hessian @ move + gradient[:, 1:2, None] * bend)

    @cached_property
    def least(self) -> float:
        return float(gev_cost(self.x, self.best[None]).value[0])

    @cached_property
    def origin(self) -> Array:
        """The best law in these coordinates; where it has no mean, the best one with a mean."""
        at = self.best.copy()
        if self.k is not None:
            if at[2] >= 0.95:
                at = self._with_shape(0.95)
            mu, log_sigma, xi = (float(p) for p in at)
            at = np.array([gev_mean(mu, np.exp(log_sigma), xi, self.k), mu, xi])
        return at

    def _with_shape(self, xi: float) -> Array:
        """The best (mu, ln sigma, xi) of a given shape."""
        shape = _Profile(self.x, 0.0, 1.0, 2, None, self.best, (0, 1))
        return shape.maximum(xi, self.best)[0]

    def maximum(self, value: float, start: Array) -> tuple[Array, float]:
        """Where the likelihood is largest given the quantity, sought from a point nearby; and the cost there."""
        at = start.copy()
        at[self.fixed] = value
        at, cost, converged = self._search(at, self.free)
        if converged or 2 not in self.free:
            return at, cost
        slow, slow_cost = self._over_shapes(at)
        return (slow, slow_cost) if slow_cost < cost else (at, cost)

    def _over_shapes(self, start: Array) -> tuple[Array, float]:
        """As ``maximum``, shape after shape: for likelihoods that bend much, or grow to an end of the shapes."""
        from scipy.optimize import minimize_scalar

        rest = tuple(i for i in self.free if i != 2)
        with_mean = self.k is not None
        bounds = (log(1e-6), log(1 - SHAPES[0])) if with_mean else SHAPES  # of ln(1 - xi), or of xi

        def at_shape(place: float) -> tuple[Array, float, bool]:
            at = start.copy()
            at[2] = 1 - np.exp(place) if with_mean else place
            if with_mean:
                at[1] = self.best[0]
            return self._search(at, rest)

        inner = minimize_scalar(
            lambda place: at_shape(place)[1], bounds=bounds, method="bounded", options={"xatol": 1e-5}
        )
        return min((at_shape(place)[:2] for place in (*bounds, float(inner.x))), key=lambda one: one[1])

    def _search(self, start: Array, free: tuple[int, ...]) -> tuple[Array, float, bool]:
        """A point of least cost with some coordinates free, the cost, and whether its slopes vanish."""
        at = start.copy()
        for _ in range(30):
            if isfinite(self.slopes(at[None]).value[0]):
                break
            if 1 in free:  # a law wide enough makes every value possible
                at[1] += 0.5 if self.k is None else -0.5
            elif 2 in free:  # as does a law without bounds
                at[2] = 0.0
            else:
                at[0] += 0.5 * np.exp(at[1]) * (-1 if at[2] > 0 else 1)

        def cost(points: Array, rows: NDArray[np.intp]) -> Slopes:
            full = at[None].copy()
            full[:, free] = points
            value, gradient, hessian = self.slopes(full)
            return Slopes(value, gradient[:, free], hessian[:, free][:, :, free])

        if not isfinite(self.slopes(at[None]).value[0]):
            return at, inf, False
        found = minimise(cost, at[None, free], limit=60)
        at[list(free)] = found.at[0]
        return at, float(found.value[0]), bool(found.converged[0])

    def deviance(self, value: float) -> float:
        """Twice the loss of log-likelihood at a value of the fixed coordinate."""
        return max(2 * len(self.x) * (self.maximum(value, self.origin)[1] - self.least), 0.0)

    def end(self, side: int, threshold: float) -> float:
        """The coordinate on one side of the best at which the deviance reaches a threshold, or infinity."""
        from scipy.optimize import brentq

        at, free = self.origin, sorted({*self.free, self.fixed})
        n = len(self.x)
        if self.k is not None and side > 0 and 2 in self.free:
            mean = _Profile(self.x, 0.0, 1.0, 2, None, self.best, (0, 1))
            if self.best[2] >= MEANLESS or mean.deviance(MEANLESS) <= threshold:
                return inf
        known = np.linalg.pinv(self.slopes(at[None]).hessian[0][np.ix_(free, free)])
        step = sqrt(threshold * max(float(known[free.index(self.fixed), free.index(self.fixed)]), 1e-12) / n)

        @cache
        def excess(value: float) -> float:
            nonlocal at
            at, cost = self.maximum(value, at)
            return 2 * n * (cost - self.least) - threshold

        inner = float(at[self.fixed])
        if excess(inner) > 0:  # only where the best law has no mean: the end is further up, so this one is safe
            return inner
        for _ in range(STEPS):
            outer = inner + side * step
            if self.fixed == 2:
                outer = min(max(outer, SHAPES[0]), SHAPES[1])
            if excess(outer) > 0:
                return float(brentq(excess, inner, outer, xtol=1e-8, rtol=1e-10))
            if self.fixed == 2 and outer in SHAPES:
                break
            inner, step = outer, 1.5 * step
        return side * inf
