"""The likelihood of GEV laws with its slopes, for many samples at once, and where it is largest.

Everything here is in the units of the values; values of ordinary size (mean and standard deviation about 1) are what
the searches are made for, and ``estimators`` brings them there.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Array
from simulator.laws.gev import gev_mean
from simulator.statistics.newton import Minimum, Slopes, minimise

LEAST_SHAPE = -1.0  # below, the likelihood has no maximum
_TERMS = range(8)  # enough for 15 digits below 0.1
_G = np.array([(-1) ** k / factorial(k + 2) for k in _TERMS])
_H = np.array([(-1) ** k * (2.0 ** (k + 3) - 4) / factorial(k + 3) for k in _TERMS])


class Gev(NamedTuple):
    """A fitted GEV law of block maxima: location, scale and shape xi (0: Gumbel; scipy's c is -xi)."""

    mu: float
    sigma: float
    xi: float = 0.0

    def expected_max(self, k: float) -> float:
        """Mean of the largest of k such maxima: mu + sigma*(ln k + gamma) at xi = 0; infinite from xi = 1 on.

        >>> round(Gev(0.7058, 0.4085).expected_max(512 / 4), 4)
        2.9236
        """
        return gev_mean(self.mu, self.sigma, self.xi, k) if self.xi < 1 else float("inf")


def gumbel_maxima(x: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Location and scale of the Gumbel laws of maximum likelihood, one per row of ``x`` or of ``weights``.

    The inverse scale minimises -ln(r) + r*mean(x) + ln(mean(exp(-r*x))), which is convex, so Newton's method finds it;
    then mu = -ln(mean(exp(-r*x)))/r (Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions 2, chapter 22).

    Args:
        x: values, shape (n,) or (rows, n), not all equal in any row.
        weights: how often each value counts, shape (rows, n); None: once.

    Returns:
        mu and sigma, each of shape (rows,).

    >>> mu, sigma = gumbel_maxima(np.array([0.0, 1.0]), np.array([[2.0, 1.0], [4.0, 2.0]]))
    >>> bool(mu[0] == mu[1]), bool(sigma[0] == sigma[1])
    (True, True)
    """
    least = x.min(axis=-1, keepdims=True)
    above = x - least  # keeps every exponential within range
    w = np.ones((1, 1)) if weights is None else weights
    total = np.broadcast_to(w, (len(w), x.shape[-1])).sum(axis=1)

    powers = (np.ones_like(above), above, above**2)

    def means(f: Array) -> list[Array]:
        """Means of f, f*x and f*x^2 over each row; not by BLAS, whose threads may change the last digits."""
        return [np.einsum("rn,n->r" if x.ndim == 1 else "rn,rn->r", f, power) / total for power in powers]

    with np.errstate(all="ignore"):  # a sample that does not vary, next to others, ends as NaN
        return _gumbel_maxima(least, above, w, means, np.broadcast_to(w, (len(w), x.shape[-1])))


def _gumbel_maxima(
    least: Array, above: Array, w: Array, means: Callable[[Array], list[Array]], ones: Array
) -> tuple[Array, Array]:
    """Newton's method of ``gumbel_maxima`` on values above the least."""
    _, mean, square = means(ones)
    rate = np.pi / np.sqrt(6 * (square - mean**2))
    for _ in range(100):
        m0, m1, m2 = means(w * np.exp(-rate[:, None] * above))
        tilted = m1 / m0
        step = (1 / rate - mean + tilted) / (1 / rate**2 + m2 / m0 - tilted**2)
        following = np.maximum(rate + step, rate / 4)
        done = bool((np.abs(following - rate) <= 1e-8 * rate).all())  # the next step would be 1e-16
        rate = following
        if done:
            break
    m0, _, _ = means(w * np.exp(-rate[:, None] * above))
    return least.reshape(-1) - np.log(m0) / rate, 1 / rate


def gev_cost(x: Array, parameters: Array, weights: Array | None = None) -> Slopes:
    """Mean of -ln density of GEV laws, and its slopes in (mu, ln sigma, xi).

    With v = (x - mu)/sigma and y = ln(1 + xi*v)/xi, -ln density = ln sigma + (1 + xi)*y + e^-y. The slopes of y in xi
    are -y^2*g(u) and y^3*h(u) with u = xi*y, g = (u + e^-u - 1)/u^2, p = (1 - e^-u)/u and h = (2g - p^2)/u; both have
    series at u = 0, so nothing is special about the Gumbel law. Infinite outside the support and from xi = -1 down.

    Args:
        x: values, shape (n,) or (rows, n).
        parameters: (mu, ln sigma, xi), shape (rows, 3).
        weights: of the values, shape (rows, n), each row with sum 1; None: all the same.

    >>> slopes = gev_cost(np.array([0.0]), np.array([[0.0, 0.0, 0.0]]))
    >>> slopes.value, abs(slopes.gradient[0, 0])  # 1/e is the Gumbel density at its mode
    (array([1.]), np.float64(0.0))
    """
    mu, s, xi = (parameters[:, i, None] for i in range(3))
    shape = np.where(np.abs(xi) < 1e-20, 1e-20, xi)
    with np.errstate(all="ignore"):  # outside the support all is NaN
        rate = np.exp(-s)
        v = (x - mu) * rate
        y = np.log1p(shape * v) / shape
        u = shape * y
        small = np.abs(u) < 0.1
        bent = -np.expm1(-u)
        p = np.where(u == 0, 1.0, bent / np.where(u == 0, 1.0, u))
        safe = np.where(small, 1.0, u)
        near = np.where(small, u, 0.0)
        g = np.where(small, np.polynomial.polynomial.polyval(near, _G), (u - bent) / safe**2)
        h = np.where(small, np.polynomial.polynomial.polyval(near, _H), (2 * g - p**2) / safe)
        a = 1 - bent  # dy/dv
        e = np.exp(-y)
        c = 1 + xi - e  # slope of the cost in y
        dy, ddy = -(y**2) * g, y**3 * h
        by_v, by_vv = c * a, a**2 * (e - c * xi)
        by_vx, by_x = a * (e * dy + 1 - c * v * a), y + c * dy
        by_xx = 2 * dy + e * dy**2 + c * ddy
        terms = [y + xi * y + e, by_v, by_v * v, by_x, by_vv, by_vv * v, by_vv * v**2, by_vx, by_vx * v, by_xx]
        if weights is None:
            sums = [np.add.reduce(term, axis=1) / x.shape[-1] for term in terms]
        else:
            sums = [np.einsum("rn,rn->r", weights, term) for term in terms]
        y_, v_, vv_, x_, vv2, vvv, vvvv, vx, vxv, xx = sums
        r = rate[:, 0]
        value = parameters[:, 1] + y_
        gradient = np.stack([-r * v_, 1 - vv_, x_], axis=1)
        rows = [r**2 * vv2, r * (vvv + v_), -r * vx, vvvv + vv_, -vxv, xx]
        hessian = np.stack(rows, axis=1)[:, [0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(-1, 3, 3)
    outside = ~np.isfinite(value) | (parameters[:, 2] <= LEAST_SHAPE) | ~np.isfinite(gradient).all(axis=1)
    return Slopes(np.where(outside, np.inf, value), gradient, hessian)


def gev_maxima(x: Array, start: Array, weights: Array | None = None) -> Minimum:
    """The parameters (mu, ln sigma, xi) of maximum likelihood, one row per row of ``start``.

    No row ends less likely than its start. ``converged`` tells where the slopes vanish; a small sample's likelihood may
    grow all the way to xi = -1, and then has no maximum.

    Args:
        x: values of ordinary size, shape (n,) or (rows, n).
        start: (mu, ln sigma, xi), shape (rows, 3), of laws under which every value is possible.
        weights: as in ``gev_cost``.
    """
    if weights is not None:  # a value that does not count must not bound the support: put it where others are
        x = np.where(weights > 0, x, np.einsum("rn,n->r", weights, x)[:, None])

    def cost(parameters: Array, rows: NDArray[np.intp]) -> Slopes:
        return gev_cost(x if x.ndim == 1 else x[rows], parameters, None if weights is None else weights[rows])

    return minimise(cost, start)
