"""The zero-sum construction: blocks of 4 ranks whose z sum to 0, as the paper's estimator sees them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp, expm1, isfinite, log, log1p, pi, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError, count
from simulator.laws.base import Noise, refuse_negative, standardise
from simulator.laws.gev import TINY, BlockMaxima, box_cox, inverse_box_cox, over_exponent, tail_exponent


@dataclass(frozen=True, kw_only=True)
class ZeroSum(BlockMaxima):
    """Blocks of m = 4 ranks whose z sum to 0: the seed paper's own estimator, centred on the mean of each instance.

    The maximum M of a block follows G given M >= 0; the others are -M/3 + rho*d, with d the corners of a triangle
    at a uniform angle and rho Rayleigh, truncated so that none exceeds M. The pooled variance within a block is 1.
    Ranks of a block depend on each other, so there is no distribution function of one rank, and n is a multiple of 4.
    """

    parent: ClassVar[str] = "zero_sum"
    noise: ClassVar[Noise] = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.m != 4:
            raise InputError("m", "must be 4 for parent zero_sum", self.m)
        self.radius  # noqa: B018 - solve now, so that what cannot be met is refused here
        refuse_negative(self.below(-1 / self.cv) if self.sd > 0 else 0.0, self.cv)

    @property
    def mean(self) -> float:  # type: ignore[override]
        return self.centre

    @cached_property
    def radius(self) -> float:
        """Scale s of the Rayleigh radius that makes the pooled variance within a block 1."""
        return _radius(self.mu, self.sigma, self.xi)

    @cached_property
    def at_zero(self) -> float:
        """-ln G(0)."""
        return _at_zero(self.mu, self.sigma, self.xi)

    def check_ranks(self, n: int) -> None:
        if count("n", n) % 4:
            raise InputError("n", f"must be a multiple of 4 for parent zero_sum, whose blocks are 4 ranks; got {n}")

    def transform(self, x: Array) -> None:
        quads = x.reshape(*x.shape[:-1], -1, 4)
        u = 1.0 - quads  # in (0, 1]
        exponent = -np.log1p(-u[..., 0] * -expm1(-self.at_zero)) if isfinite(self.at_zero) else -np.log(u[..., 0])
        top = self.mu + self.sigma * box_cox(-np.log(np.maximum(exponent, TINY)), self.xi)
        top = np.maximum(top, 0.0)
        angle = 2 * pi * quads[..., 1]
        corner = sqrt(2 / 3) * np.cos(angle[..., None] + 2 * pi / 3 * np.arange(3))
        reach = (4 / 3) * top / corner.max(axis=-1)
        room = -np.expm1(-0.5 * (reach / self.radius) ** 2)
        rho = self.radius * np.sqrt(-2 * np.log1p(-quads[..., 2] * room))
        place = (quads[..., 3] * 4).astype(np.intp)
        z = np.empty_like(quads)
        z[..., 0] = top
        z[..., 1:] = -top[..., None] / 3 + rho[..., None] * corner
        order = (np.arange(4) - place[..., None]) % 4
        z = np.take_along_axis(z, order, axis=-1)
        x[...] = (self.centre + self.sd * z).reshape(x.shape)

    def expected_max(self, n: int) -> float:
        """Mean of the largest of n/4 block maxima, each G given M >= 0: the integral of 1 - F^k over x >= 0."""
        from scipy.integrate import quad

        self.check_ranks(n)
        k, inside, top = n // 4, -expm1(-self.at_zero), min(self.at_zero, 700.0)
        low, high = -80.0 / (1.0 - max(self.xi, 0.0)), log(top)

        def beyond(lny: float) -> float:  # (1 - F(x)^k) |dx/d(ln y)|, with y the exponent of G at x
            y = exp(lny)
            above = exp(-self.at_zero) * expm1(y) / inside  # F = e^-y * (1 - above), without loss of digits
            share = -expm1(k * (log1p(-above) - y)) if above < 1 else 1.0
            return share * self.sigma * exp(-self.xi * lny)

        points = [p for p in (-30.0, -log(k), -3.0, 0.0) if p < high]
        certain = max(self.mu + self.sigma * float(box_cox(-high, self.xi)), 0.0)  # below it F is 0
        value, _ = quad(beyond, low, high, limit=500, epsabs=1e-12, epsrel=1e-10, points=points)
        return self.centre + self.sd * (certain + float(value))

    def max_cdf(self, x: ArrayLike, n: int) -> Array:
        self.check_ranks(n)
        z = np.maximum(standardise(x, self.centre, self.sd), 0.0)
        y = self.m * tail_exponent(self, z)
        cdf = (np.exp(-y) - exp(-self.at_zero)) / -expm1(-self.at_zero)
        return np.asarray(np.clip(cdf, 0.0, 1.0) ** (n // 4))

    def below(self, z: float) -> float:
        """P(a rank's standardised time < z) for z < 0, not counting the truncation of rho (so never too small)."""
        angles = pi * (np.arange(64) + 0.5) / 64
        corner = sqrt(2 / 3) * np.cos(angles)
        lny = np.linspace(-80.0 / (1 - max(self.xi, 0.0)), log(min(self.at_zero, 745.0)), 40_001)
        y = np.exp(lny)
        gap = (-z - np.maximum(self.mu + self.sigma * box_cox(-lny, self.xi), 0.0) / 3)[:, None]  # rho*corner < -gap
        tail = np.exp(-0.5 * (gap / corner / self.radius) ** 2)
        chance = np.where(corner < 0, np.where(gap <= 0, 1.0, tail), np.where(gap < 0, 1.0 - tail, 0.0)).mean(axis=1)
        return float(0.75 * np.trapezoid(chance * y * np.exp(-y), lny) / -expm1(-self.at_zero))


@lru_cache(maxsize=64)
def _radius(mu: float, sigma: float, xi: float) -> float:
    """Solve E[(4/3)M^2 + rho^2] = 3 for the scale of the truncated Rayleigh radius rho."""
    from scipy.optimize import brentq

    refusal = (
        f"parent zero_sum has no blocks of 4 ranks with pooled variance 1 for mu = {mu:g}, sigma = {sigma:g}, "
        f"xi = {xi:g}; try parent root (exact maxima, other mean)"
    )
    if xi >= 0.5:
        raise InputError(refusal)
    at_zero = _at_zero(mu, sigma, xi)
    if at_zero == 0:
        raise InputError(refusal)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    corner = sqrt(2 / 3) * np.cos(pi / 6 * (nodes + 1))  # largest corner over the angles 0 to pi/3; by symmetry, all

    def mean(f: Callable[[float], float]) -> float:
        """Mean of f(M), M ~ G given M >= 0."""
        total = over_exponent(lambda lny: f(max(mu + sigma * float(box_cox(-lny, xi)), 0.0)), at_zero, 2 * xi)
        return total / -expm1(-at_zero)

    def excess(s: float) -> float:
        def squares(top: float) -> float:
            h = 0.5 * np.minimum((4 / 3) * top / corner / s, 37.0) ** 2  # e^-h beyond is 0
            series = h / 2 - h**2 / 12 + h**4 / 720  # of 1 - h/expm1(h), which cancels where h is small
            kept = np.where(h < 0.01, series, 1.0 - h / np.expm1(np.maximum(h, 0.01)))
            return 4 / 3 * top * top + s * s * float(np.sum(weights * kept))

        return mean(squares) - 3.0

    if excess(1e-6) >= 0 or excess(1e4) <= 0:
        raise InputError(refusal)
    return float(brentq(excess, 1e-6, 1e4, xtol=1e-14, rtol=1e-13))


def _at_zero(mu: float, sigma: float, xi: float) -> float:
    """-ln G(0); infinite where no maximum is below 0."""
    with np.errstate(over="ignore"):
        return float(np.exp(-inverse_box_cox(-mu / sigma, xi)))
