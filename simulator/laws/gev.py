"""The generalised extreme value distribution of block maxima, and what the three per-rank constructions share.

The seed paper fits the maximum of m = 4 ranks, in units of z = (time - mean)/sd: z_max ~ G, a GEV(mu, sigma, xi).
The exponent of a rank's distribution function is t = -ln F, and the upper tail of G^(1/m) is t = -ln(G)/m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1, log
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import MAX_RANKS, Finite, InputError, Rule
from simulator.laws.base import Law, Time, Variation

TINY = float(np.finfo(float).tiny)
NO_SHAPE = 1e-20  # below this |xi|, expm1(xi*L)/xi and L are the same double for every L a draw can reach


def box_cox(log_ratio: ArrayLike, xi: float) -> Array:
    """(e^(xi*L) - 1)/xi, and L at xi = 0: the Box-Cox step of every GEV formula, without loss of digits.

    >>> print(box_cox(-2.0, 0.0), box_cox(-2.0, 1e-300), box_cox(-2.0, 1e-15).round(13))
    -2.0 -2.0 -2.0
    """
    from scipy.special import exprel

    ratio = np.asarray(log_ratio, dtype=float)
    if xi == 0:
        return ratio
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(xi * ratio == -np.inf, -1 / xi, ratio * exprel(xi * ratio)))


def inverse_box_cox(value: ArrayLike, xi: float) -> Array:
    """ln(1 + xi*v)/xi, and v at xi = 0: the inverse of ``box_cox``; -inf or inf outside the support."""
    v = np.asarray(value, dtype=float)
    if abs(xi) < NO_SHAPE:
        return v
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(np.maximum(xi * v, -1.0)) / xi)


def gev_mean(mu: float, sigma: float, xi: float, k: float) -> float:
    """Mean of the largest of k maxima that each follow GEV(mu, sigma, xi), in z.

    mu + sigma*(k^xi * Gamma(1-xi) - 1)/xi, in its expm1 form; mu + sigma*(ln k + gamma) at xi = 0.

    >>> round(gev_mean(0.7058, 0.4085, 0.0, 128), 4)
    2.9236
    """
    from scipy.special import gammaln

    if abs(xi) < 1e-8:  # lgamma(1-xi) = gamma*xi + O(xi^2) leaves fewer digits than this series
        return mu + sigma * float(box_cox(log(k), xi)) + sigma * np.euler_gamma
    return mu + sigma * expm1(xi * log(k) + float(gammaln(1 - xi))) / xi


def over_exponent(f: Callable[[float], float], top: float, growth: float = 0.0) -> float:
    """Integral of f(ln y) e^-y dy for y from 0 to ``top``, where f grows at most like y^-growth as y goes to 0."""
    from scipy.integrate import quad

    high = log(min(top, 745.0))
    growth = max(growth, 0.0)
    low = -min(80.0 / (1.0 - growth), 600.0)  # beyond, f may overflow
    value, _ = quad(
        lambda lny: f(lny) * exp(lny - exp(lny)), low, high, limit=500,
        epsabs=1e-12, epsrel=1e-10, points=[p for p in (-30.0, -10.0, -3.0, 0.0) if p < high],
    )  # fmt: skip
    return float(value)


@dataclass(frozen=True, kw_only=True)
class BlockMaxima(Law):
    """What the three constructions share: the fitted GEV and the scale of time.

    ``centre`` is the a and ``cv`` the r = b/a with which times are standardised.
    """

    centre: Time
    cv: Variation
    mu: Finite
    sigma: Annotated[float, Rule(above=0)]
    xi: Finite
    m: Annotated[int, Rule(least=2, most=MAX_RANKS)]

    parent: ClassVar[str]
    scale_field: ClassVar[str] = "centre"

    def __post_init__(self) -> None:
        super().__post_init__()
        mu, sigma, xi = self.mu, self.sigma, self.xi
        if xi >= 1:
            raise InputError("xi", "must be below 1, since a law with xi >= 1 has no mean", xi)
        if xi < -1:
            raise InputError("xi", "must be at least -1, below which no fit has a maximum likelihood", xi)
        for name, value, low, high in (("sigma", sigma, 1e-9, 1e9), ("mu", abs(mu), 0.0, 1e6 * sigma)):
            if not low <= value <= high:
                raise InputError(
                    name,
                    f"must be of ordinary size (sigma 1e-9 to 1e9, |mu| up to 1e6*sigma), since precision would "
                    f"be lost; got mu = {mu:g}, sigma = {sigma:g}",
                )

    @property
    def name(self) -> str:
        return "gumbel" if self.xi == 0 else "frechet" if self.xi > 0 else "weibull"

    @property
    def sd(self) -> float:
        """b = r*a: the standard deviation that z-scores are measured in, seconds."""
        return self.cv * self.centre

    def gev_tax(self, n: int) -> float:
        """tau(n) = b*(mu + sigma*(ln k + Euler's gamma)), k = n/m, and its form for xi != 0: the paper's equation."""
        return self.sd * gev_mean(self.mu, self.sigma, self.xi, n / self.m)


def tail_exponent(law: BlockMaxima, z: ArrayLike) -> Array:
    """-ln G(z)/m."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-inverse_box_cox((np.asarray(z, dtype=float) - law.mu) / law.sigma, law.xi)) / law.m)


def finish_tail(law: BlockMaxima, x: Array) -> None:
    """From ln t to centre + sd*z, z = mu + sigma*((m t)^-xi - 1)/xi, in place."""
    if abs(law.xi) < NO_SHAPE:
        x *= -law.sd * law.sigma
        x += law.centre + law.sd * (law.mu - law.sigma * log(law.m))
        return
    x *= -law.xi
    x += -law.xi * log(law.m)
    np.expm1(x, out=x)
    x *= law.sd * law.sigma / law.xi
    x += law.centre + law.sd * law.mu
