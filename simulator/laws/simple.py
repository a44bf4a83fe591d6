"""Textbook laws of compute-block times: deterministic, normal and lognormal."""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, log1p, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.laws.base import (
    IndependentLaw,
    Noise,
    Time,
    Variation,
    refuse_negative,
    rescale,
    standardise,
)


@dataclass(frozen=True, kw_only=True)
class Deterministic(IndependentLaw):
    """Every block takes ``mean`` seconds on every rank: no synchronization tax.

    >>> Deterministic(mean=0.016).wait(4096)
    0.0
    """

    mean: Time
    noise: ClassVar[Noise] = "none"

    @property
    def var(self) -> float:
        return 0.0

    def quantile(self, t: ArrayLike) -> Array:
        return np.full_like(np.asarray(t, dtype=float), self.mean)

    def exponent(self, x: ArrayLike) -> Array:
        return np.where(np.asarray(x) < self.mean, np.inf, 0.0)

    def transform(self, x: Array) -> None:
        x[...] = self.mean

    def expected_max(self, n: int) -> float:
        return self.mean


@dataclass(frozen=True, kw_only=True)
class Normal(IndependentLaw):
    """Normal block times of mean ``mean`` (s) and coefficient of variation ``cv``.

    >>> round(Normal(mean=1.0, cv=0.1).wait(2), 6)  # sd / sqrt(pi)
    0.056419
    """

    mean: Time
    cv: Variation
    noise: ClassVar[Noise] = "normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_negative(float(self.cdf(0.0)) if self.cv * self.mean > 0 else 0.0, self.cv)

    @property
    def var(self) -> float:
        return (self.cv * self.mean) ** 2

    def quantile(self, t: ArrayLike) -> Array:
        from scipy.special import ndtri_exp

        return rescale(ndtri_exp(-np.asarray(t, dtype=float)), self.mean, self.cv * self.mean)

    def exponent(self, x: ArrayLike) -> Array:
        from scipy.special import log_ndtr

        return np.asarray(0.0 - log_ndtr(standardise(x, self.mean, self.cv * self.mean)))

    def transform(self, x: Array) -> None:
        x *= self.cv * self.mean
        x += self.mean


@dataclass(frozen=True, kw_only=True)
class LogNormal(IndependentLaw):
    """Lognormal block times of mean ``mean`` (s) and coefficient of variation ``cv``, up to 1000; never below 0."""

    mean: Time
    cv: Variation
    noise: ClassVar[Noise] = "normal"

    @property
    def shape(self) -> float:
        """Standard deviation of ln(time): sqrt(ln(1 + cv^2))."""
        return sqrt(log1p(self.cv**2))

    @property
    def note(self) -> str:
        rare = "compute: lognormal times of cv > 10 hang on rare draws, so that standard errors are no guide"
        return rare if self.cv > 10 else ""

    @property
    def var(self) -> float:
        return self.mean**2 * expm1(self.shape**2)

    def quantile(self, t: ArrayLike) -> Array:
        from scipy.special import ndtri_exp

        z = ndtri_exp(-np.asarray(t, dtype=float))
        if self.shape * self.mean == 0:
            return np.full_like(z, self.mean)
        return np.asarray(self.mean * np.exp(self.shape * z - self.shape**2 / 2))

    def exponent(self, x: ArrayLike) -> Array:
        from scipy.special import log_ndtr

        if self.shape * self.mean == 0:
            return np.asarray(0.0 - log_ndtr(standardise(x, self.mean, 0.0)))
        with np.errstate(divide="ignore", over="ignore"):
            ratio = np.log(np.maximum(np.asarray(x, dtype=float), 0.0) / self.mean)
            return np.asarray(-log_ndtr((ratio + self.shape**2 / 2) / self.shape))

    def transform(self, x: Array) -> None:
        x *= self.shape
        x -= self.shape**2 / 2
        np.exp(x, out=x)
        x *= self.mean
