"""The root construction: every rank follows the m-th root of the fitted distribution of block maxima."""

from __future__ import annotations

from dataclasses import dataclass
from math import gamma, pi
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.laws.base import IndependentLaw, refuse_negative, rescale, standardise
from simulator.laws.gev import TINY, BlockMaxima, box_cox, finish_tail, tail_exponent


@dataclass(frozen=True, kw_only=True)
class Root(BlockMaxima, IndependentLaw):
    """Each rank ~ G^(1/m): the maximum of m ranks is exactly G, and of n ranks exactly G^(n/m).

    Its mean is not ``centre``: the simulated wait is sigma*ln n in the Gumbel case, well short of tau(n). Kept
    because it has closed forms for everything.
    """

    parent: ClassVar[str] = "root"

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_negative(float(self.cdf(0.0)) if self.sd > 0 else 0.0, self.cv)

    @property
    def mean(self) -> float:  # type: ignore[override]
        return self.centre + self.gev_tax(1)

    @property
    def var(self) -> float:
        if abs(self.xi) < 1e-5:  # the general form cancels; the next term is of relative order xi
            return (self.sd * self.sigma * pi) ** 2 / 6
        if self.xi >= 0.5:
            return float("inf")
        g1, g2 = gamma(1 - self.xi), gamma(1 - 2 * self.xi)
        return (self.sd * self.sigma / self.xi * self.m**-self.xi) ** 2 * (g2 - g1 * g1)

    def quantile(self, t: ArrayLike) -> Array:
        with np.errstate(divide="ignore"):
            z = self.mu + self.sigma * box_cox(-np.log(self.m * np.asarray(t, dtype=float)), self.xi)
        return rescale(z, self.centre, self.sd)

    def exponent(self, x: ArrayLike) -> Array:
        return tail_exponent(self, standardise(x, self.centre, self.sd))

    def transform(self, x: Array) -> None:
        np.maximum(x, TINY, out=x)
        np.log(x, out=x)
        finish_tail(self, x)

    def expected_max(self, n: int) -> float:
        return self.centre + self.gev_tax(n)
