"""Laws of ranks whose tax is known: those of SciPy, and two ways in which times are no such thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, sqrt
from typing import Annotated, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import Checked, Finite, InputError, Positive, Rule, count, nearest
from simulator.laws import IndependentLaw


class KnownLaw(Protocol):
    """What a study needs of a law: samples, and their true tax."""

    @property
    def sd(self) -> float:
        """Standard deviation of a rank's time, seconds."""

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
        """Times of shape (blocks, ranks), seconds."""

    def wait(self, n: int) -> float:
        """E[max of n] - mean of ranks drawn anew, seconds."""


@dataclass(frozen=True, kw_only=True)
class ScipyLaw(IndependentLaw):
    """A distribution of ``scipy.stats``, shifted and scaled to a mean and a standard deviation.

    Attributes:
        distribution: name of a continuous distribution, such as ``norm`` or ``t``.
        shapes: its shape parameters, in scipy's order.
        mean, sd: mean and standard deviation of a draw.

    >>> round(ScipyLaw(distribution="norm").expected_max(2), 6)  # 1/sqrt(pi)
    0.56419
    """

    distribution: str
    shapes: Sequence[float] = ()
    mean: Finite = 0.0
    sd: Positive = 1.0

    def __post_init__(self) -> None:
        from scipy import stats

        super().__post_init__()
        known = [name for name, kind in vars(stats).items() if isinstance(kind, stats.rv_continuous)]
        if self.distribution not in known:
            raise InputError(
                "distribution",
                f"must be a continuous distribution of scipy.stats; got {self.distribution!r}"
                f"{nearest(self.distribution, known)}",
            )
        try:
            moments = [float(x) for x in self._parent.stats("mv")]
        except TypeError:
            moments = []
        if not moments or not np.isfinite(moments).all():
            raise InputError(
                "shapes",
                f"must be those of {self.distribution} in scipy.stats, with a finite mean and variance",
                self.shapes,
            )

    @property
    def name(self) -> str:
        return self.distribution

    @property
    def var(self) -> float:
        return self.sd**2

    @cached_property
    def _parent(self) -> Any:
        from scipy import stats

        return getattr(stats, self.distribution)(*self.shapes)

    def scaled(self, factor: float) -> Self:
        return replace(self, mean=self.mean * factor, sd=self.sd * factor)

    def quantile(self, t: ArrayLike) -> Array:
        t = np.asarray(t, dtype=float)
        upper = t < np.log(2)  # there 1 - F keeps its digits, below F does
        parent = self._parent
        x = np.where(upper, parent.isf(-np.expm1(-np.where(upper, t, 1.0))), parent.ppf(np.exp(-t)))
        return self._moved(x)

    def exponent(self, x: ArrayLike) -> Array:
        parent = self._parent
        return np.asarray(-parent.logcdf(parent.mean() + (np.asarray(x) - self.mean) / self.sd * parent.std()))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
        return self._moved(self._parent.rvs(size=size, random_state=rng))

    def _moved(self, x: Array) -> Array:
        parent = self._parent
        return np.asarray(self.mean + self.sd * (x - parent.mean()) / parent.std())


@dataclass(frozen=True, kw_only=True)
class SlowMode(Checked):
    """Times of two modes: some of a law's times, taken by chance, are longer by a fixed amount.

    Attributes:
        law: the times without it, of independent ranks.
        share: probability that a time is one of the longer ones.
        by: how much longer, in standard deviations of ``law``.

    >>> law = SlowMode(law=ScipyLaw(distribution="norm"), share=0.5, by=2.0)
    >>> print(round(law.sd, 6), round(law.wait(2), 6))  # the difference of two: 0, 2 or -2 and sqrt(2) times a normal
    1.414214 0.807222
    """

    law: IndependentLaw
    share: Annotated[float, Rule(above=0, below=1)]
    by: Positive

    @property
    def sd(self) -> float:
        return self.law.sd * sqrt(1 + self.by**2 * self.share * (1 - self.share))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
        slow = rng.random(size) < self.share
        return self.law.sample(rng, size) + self.by * self.law.sd * slow

    def wait(self, n: int) -> float:
        """The integral of 1 - F^n over x, less the mean: by Gauss-Legendre between quantiles of both modes."""
        later = self.by * self.law.sd
        ends = self.law.quantile(np.geomspace(40.0, 1e-15, 400))
        edges = np.unique(np.concatenate([ends, ends + later]))
        nodes, weights = np.polynomial.legendre.leggauss(8)
        half = np.diff(edges)[:, None] / 2
        x = edges[:-1, None] + half * (nodes + 1)
        above = -(1 - self.share) * np.expm1(-self.law.exponent(x)) - self.share * np.expm1(
            -self.law.exponent(x - later)
        )
        with np.errstate(divide="ignore"):  # where all are above
            some_above = -np.expm1(count("n", n) * np.log1p(-above))
        return float(edges[0] + np.sum(some_above * weights * half)) - self.law.mean - self.share * later


@dataclass(frozen=True, kw_only=True)
class BlockScales(Checked):
    """Loud and quiet blocks: ranks share a scale exp(spread*g - spread^2), g normal by block; its mean square is 1.

    Attributes:
        law: the times without it, of independent ranks; the scale multiplies their distance from the mean.
        spread: standard deviation of the logarithm of the scale.

    >>> law = BlockScales(law=ScipyLaw(distribution="norm"), spread=0.5)
    >>> print(law.sd, round(law.wait(2), 4))  # exp(-1/8) of 1/sqrt(pi)
    1.0 0.4979
    """

    law: IndependentLaw
    spread: Annotated[float, Rule(least=0)]

    @property
    def sd(self) -> float:
        return self.law.sd

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
        x = self.law.sample(rng, size)
        scale = np.exp(self.spread * rng.standard_normal((*x.shape[:-1], 1)) - self.spread**2)
        return np.asarray(self.law.mean + scale * (x - self.law.mean))

    def wait(self, n: int) -> float:
        """That of ``law`` times the mean scale, exp(-spread^2/2)."""
        return self.law.wait(n) * exp(-(self.spread**2) / 2)
