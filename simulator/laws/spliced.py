"""The spliced construction: independent ranks of mean 0 and variance 1 with the fitted upper tail; the default."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import exp, log, nan
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.laws.base import IndependentLaw, refuse_negative, rescale, standardise
from simulator.laws.gev import (
    NO_SHAPE,
    TINY,
    BlockMaxima,
    box_cox,
    finish_tail,
    inverse_box_cox,
    over_exponent,
    tail_exponent,
)


class Splice(NamedTuple):
    """Where a rank's law leaves the upper tail of G^(1/m), and the shape of what lies below."""

    weight: float  # w: probability of the part below
    exponent: float  # T = -ln w
    joint: float  # u: z at the splice
    scale: float  # s
    shape: float  # zeta


@dataclass(frozen=True, kw_only=True)
class Spliced(BlockMaxima, IndependentLaw):
    """Ranks independent, z of mean 0 and variance 1, and the upper tail exactly that of G^(1/m).

    Below a splice at z = u a generalised-Pareto-like body takes over, which meets mean, variance and a continuous
    density. E[max of n] equals tau(n) within 0.2 % from n = 8 on for the paper's parameters.

    Raises:
        InputError: where no such body exists (xi above about 0.42, sigma above about 1.1 at mu = 0.7, mu far from
            1.7*sigma).
    """

    parent: ClassVar[str] = "spliced"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.splice  # noqa: B018 - solve now, so that what cannot be met is refused here
        refuse_negative(float(self.cdf(0.0)) if self.sd > 0 else 0.0, self.cv)

    @property
    def mean(self) -> float:  # type: ignore[override]
        return self.centre

    @property
    def var(self) -> float:
        return self.sd**2

    @cached_property
    def splice(self) -> Splice:
        """The solved splice."""
        return _splice(self.mu, self.sigma, self.xi, self.m)

    def quantile(self, t: ArrayLike) -> Array:
        _, cut, joint, scale, shape = self.splice
        t = np.asarray(t, dtype=float)
        with np.errstate(divide="ignore"):
            upper = self.mu + self.sigma * box_cox(-np.log(self.m * np.minimum(t, cut)), self.xi)
        lower = joint - scale * box_cox(np.maximum(t - cut, 0.0), shape)
        return rescale(np.where(t <= cut, upper, lower), self.centre, self.sd)

    def exponent(self, x: ArrayLike) -> Array:
        _, cut, joint, scale, shape = self.splice
        z = standardise(x, self.centre, self.sd)
        with np.errstate(over="ignore"):
            body = cut + inverse_box_cox((joint - np.minimum(z, joint)) / scale, shape)
        return np.asarray(np.where(z >= joint, tail_exponent(self, np.maximum(z, joint)), body))

    def transform(self, x: Array) -> None:
        """tail(min(t, T)) + body(max(t, T)) - u: one of the two is constant for every draw, so no branch is needed."""
        _, cut, _, scale, shape = self.splice
        tail = np.clip(x, TINY, cut)
        np.log(tail, out=tail)
        finish_tail(self, tail)
        np.clip(x, cut, np.inf, out=x)  # three times as fast as maximum with a scalar
        x -= cut
        if abs(shape) < NO_SHAPE:
            x *= -self.sd * scale
        else:
            x *= shape
            np.expm1(x, out=x)
            x *= -self.sd * scale / shape
        x += tail

    def expected_max(self, n: int) -> float:
        """Split at the splice: the largest of n lies below it with probability e^(-nT), where the mean is closed."""
        _, cut, joint, scale, shape = self.splice

        def tail(lny: float) -> float:  # y = n*t, the exponent of the maximum
            return self.mu + self.sigma * float(box_cox(log(n / self.m) - lny, self.xi))

        upper = over_exponent(tail, n * cut, self.xi)
        lower = exp(-n * cut) * (joint - scale / (n - shape))
        return self.centre + self.sd * (upper + lower)


@lru_cache(maxsize=64)
def _splice(mu: float, sigma: float, xi: float, m: int) -> Splice:
    """Solve for the weight w at which the body meets mean 0, variance 1 and a continuous density."""
    from scipy.optimize import brentq

    refusal = InputError(
        f"parent spliced has no per-rank law of mean 0 and variance 1 for mu = {mu:g}, sigma = {sigma:g}, xi = {xi:g}, "
        f"m = {m}; try parent zero_sum (blocks of 4 ranks) or root (exact maxima, other mean)"
    )

    def z(logt: float) -> float:
        return mu + sigma * float(box_cox(-log(m) - logt, xi))

    def moment(j: int, cut: float) -> float:
        return over_exponent(lambda logt: z(logt) ** j, cut, j * xi)

    def body(w: float) -> tuple[float, float, float, float] | None:
        """(u, s, zeta, mismatch of the density at u), or None where mean and variance cannot be met."""
        cut = -log(w)
        first, second = moment(1, cut), moment(2, cut)
        centre = -first / w
        spare = (1 - second) / w - centre * centre
        joint = z(log(cut))
        gap = joint - centre
        if not (spare > 0 and gap > 0):
            return None
        shape = (1 - gap * gap / spare) / 2
        scale = gap * (1 - shape)
        return joint, scale, shape, log(scale) + (1 + xi) * log(cut) - log(sigma) + xi * log(m)

    if 2 * xi >= 1:
        raise refusal

    def mismatch(solved: tuple[float, float, float, float] | None) -> float:
        return solved[3] if solved is not None else nan

    grid = np.linspace(0.01, 0.99, 99)  # a body of more than 99 % leaves nothing of the fitted tail
    found = [(float(w), body(float(w))) for w in grid]
    roots = [
        brentq(lambda w: mismatch(body(w)), w0, w1, xtol=1e-15, rtol=1e-14)
        for (w0, b0), (w1, b1) in pairwise(found)
        if b0 is not None and b1 is not None and b0[3] * b1[3] <= 0
    ]
    if not roots:
        raise refusal
    weight = min(roots)  # the smallest body that will do: it keeps most of the fitted tail
    joint, scale, shape, _ = body(weight) or (nan, nan, nan, nan)
    return Splice(weight, -log(weight), joint, scale, shape)
