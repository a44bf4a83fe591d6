"""A law: a block takes at least so long, and an exponential time more."""

from dataclasses import dataclass

import numpy as np

from simulator import IndependentLaw, checks


@dataclass(frozen=True, kw_only=True)
class ExponentialTail(IndependentLaw):
    """Times of mean ``mean`` (s) and standard deviation ``cv`` * mean: mean * (1 - cv + cv * Exp(1))."""

    mean: float
    cv: float

    def __post_init__(self):
        checks.keep(self, mean=checks.number("mean", self.mean, above=0))
        checks.keep(self, cv=checks.number("cv", self.cv, above=0, most=1))  # below 0 no block can end

    @property
    def var(self):
        return (self.cv * self.mean) ** 2

    def quantile(self, t):
        """The time x at which -ln F(x) = t, where 1 - F = exp(-excess)."""
        return self.mean * (1 - self.cv - self.cv * np.log(-np.expm1(-np.asarray(t, dtype=float))))

    def exponent(self, x):
        """-ln F(x): infinite below the shortest time."""
        excess = np.maximum((np.asarray(x, dtype=float) / self.mean - 1 + self.cv) / self.cv, 0.0)
        with np.errstate(divide="ignore"):
            return -np.log(-np.expm1(-excess))
