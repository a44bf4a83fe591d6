"""What a compute-time law is, and what independent ranks add to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from math import isinf, nan, sqrt
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import Checked, InputError, Rule, count, number
from simulator.laws.dependence import Dependence

Noise = Literal["exponential", "uniform", "normal", "none"]

_DRAW = {"exponential": "standard_exponential", "uniform": "random", "normal": "standard_normal"}


LONGEST = 1e9  # s, of a block: 30 years. Sums and powers of longer ones may leave the range of doubles
MAX_CV = 1000.0
MAX_RISK = 1e-11  # the paper's own Frechet parameters, as zero_sum blocks, put 1.1e-12 below 0


Time = Annotated[float, Rule(least=0, most=LONGEST)]
Variation = Annotated[float, Rule(least=0, most=MAX_CV)]


def refuse_negative(risk: float, cv: float) -> None:
    """Refuse a law under which a time below 0 has a probability ``risk`` above 1e-11."""
    if not risk <= MAX_RISK:
        raise InputError(
            "cv",
            f"must be smaller, so that times below 0 have a probability of at most {MAX_RISK:g}; "
            f"{cv:g} gives {risk:.2g}",
        )


def fill(noise: Noise, rng: np.random.Generator, out: Array) -> None:
    """Fill ``out`` (C-contiguous) with base variates of one kind, one after another from the stream of ``rng``."""
    if noise != "none":
        getattr(rng, _DRAW[noise])(out=out)


class Law(Checked, ABC):
    """A distribution of compute-block times, seconds.

    A law turns base variates into times, one variate per rank, so that a run's times depend on its random stream
    alone and never on how many are drawn at once. Subclasses are frozen dataclasses.

    Attributes:
        mean: mean time of one rank, seconds.
        noise: kind of the base variates.
        scale_field: name of the field that a block of twice the length has twice of.
        dependence: how ranks and blocks hang together before ``transform``; None where they do not.
    """

    mean: float
    dependence: Dependence | None = None
    noise: ClassVar[Noise] = "exponential"
    scale_field: ClassVar[str] = "mean"

    @property
    def name(self) -> str:
        """Name in tables and titles."""
        return type(self).__name__.lower()

    @property
    def note(self) -> str:
        """What a reader of results must know of the law: where it is from, what it does not allow; or nothing."""
        return ""

    @property
    def sd(self) -> float:
        """How far ranks typically are from the mean, seconds: 0 where all agree, NaN where the law does not say."""
        return nan

    @property
    def has_variance(self) -> bool:
        """Whether the variance of a time is finite: a mean of times that have none has no standard error."""
        return True

    @abstractmethod
    def transform(self, x: Array) -> None:
        """Turn base variates into times, in place. Shape (..., n); each entry (or block of ranks) on its own."""

    @abstractmethod
    def expected_max(self, n: int) -> float:
        """Expected time of the slowest of ``n`` ranks, seconds; infinite when the law has no mean."""

    def scaled(self, factor: float) -> Self:
        """The law of ``factor`` times as long a block: mean and standard deviation both times ``factor``."""
        scale = getattr(self, self.scale_field) * number("factor", factor, above=0)
        changes: dict[str, Any] = {self.scale_field: scale}
        return replace(self, **changes)  # type: ignore[type-var]  # every law is a dataclass

    def check_ranks(self, n: int) -> None:
        """Raise InputError when ``n`` ranks cannot draw from this law."""
        count("n", n)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
        """Draw times: an array of shape ``size`` whose last axis is the ranks, seconds."""
        x = np.empty(size)
        self.check_ranks(x.shape[-1] if x.ndim else 1)
        fill(self.noise, rng, x)
        self.transform(x)
        return x

    def wait(self, n: int) -> float:
        """Expected wait of one rank at a barrier of ``n``: the synchronization tax, seconds (0 at n = 1)."""
        return max(0.0, self.expected_max(n) - self.mean) if count("n", n) > 1 else 0.0  # not less by rounding

    def max_cdf(self, x: ArrayLike, n: int) -> Array | None:
        """P(slowest of ``n`` ranks <= x), or None where the law has no closed form for it."""
        return None

    def range_cdf(self, w: ArrayLike, n: int) -> Array | None:
        """P(slowest - fastest of ``n`` ranks <= w), or None where the law has no closed form for it."""
        return None


class IndependentLaw(Law):
    """A law under which ranks draw independently of each other.

    It is described by t = -ln F(x), the exponent of its distribution function. If t is a standard exponential
    variate, ``quantile(t)`` is a draw; the largest of n draws is the quantile of the smallest of n exponentials,
    and no digit is lost in the upper tail, where t goes to 0.
    """

    @abstractmethod
    def quantile(self, t: ArrayLike) -> Array:
        """The time x at which -ln F(x) = t, for t > 0; decreasing in t."""

    @abstractmethod
    def exponent(self, x: ArrayLike) -> Array:
        """-ln F(x): infinite below the support, 0 above it."""

    @property
    @abstractmethod
    def var(self) -> float:
        """Variance of one rank's time, seconds^2; infinite where it does not exist."""

    @property
    def note(self) -> str:
        infinite = "no ±: the block times have an infinite variance, and so has a mean of them"
        return "" if self.has_variance else infinite

    @property
    def has_variance(self) -> bool:
        return not isinf(self.var)

    @property
    def sd(self) -> float:
        return sqrt(self.var)

    def transform(self, x: Array) -> None:
        x[...] = self.quantile(np.maximum(x, np.finfo(float).tiny))

    def cdf(self, x: ArrayLike) -> Array:
        """F(x), the probability that a rank takes at most ``x`` seconds."""
        return np.exp(-self.exponent(x))

    def ppf(self, p: ArrayLike) -> Array:
        """The time that a rank stays below with probability ``p``, in (0, 1)."""
        p = np.asarray(p, dtype=float)
        if not ((p > 0) & (p < 1)).all():
            raise InputError("p", "must be probabilities above 0 and below 1", p.tolist())
        return self.quantile(-np.log(p))

    def expected_max(self, n: int) -> float:
        """Integral of quantile(y/n) e^-y over y > 0, by quadrature in ln y."""
        from scipy.integrate import quad

        def integrand(lny: float) -> float:
            y = np.exp(lny)
            return float(self.quantile(y / n)) * y * float(np.exp(-y))

        value, _ = quad(integrand, -80.0, np.log(750.0), limit=500, epsabs=0.0, epsrel=1e-12, points=[0.0])
        return float(value)

    def max_cdf(self, x: ArrayLike, n: int) -> Array:
        return np.exp(-n * self.exponent(x))

    def range_cdf(self, w: ArrayLike, n: int) -> Array:
        """n * integral of (F(x + w) - F(x))^(n-1) dF(x), by quadrature in the exponent of F."""
        nodes, weights = _exponential_nodes(n)
        below = np.exp(-nodes)
        above = np.exp(-self.exponent(self.quantile(nodes) + np.asarray(w)[..., None]))
        return n * np.sum(weights * np.maximum(above - below, 0.0) ** (n - 1), axis=-1)


def standardise(x: ArrayLike, centre: float, sd: float) -> Array:
    """z = (x - centre)/sd; without sd it jumps from -inf to +inf at the centre."""
    x = np.asarray(x, dtype=float)
    if sd == 0:
        return np.where(x < centre, -np.inf, np.inf)
    with np.errstate(over="ignore"):
        return np.asarray((x - centre) / sd)


def rescale(z: Array, centre: float, sd: float) -> Array:
    """centre + sd*z, the inverse of ``standardise``; without sd the centre, also where z is infinite."""
    return np.asarray(centre + sd * z) if sd > 0 else np.full_like(z, centre)


def _exponential_nodes(n: int) -> tuple[Array, Array]:
    """Nodes t and weights for integrals over e^-t dt: Gauss-Legendre in ln t, split finely enough for n ranks."""
    edges = np.linspace(np.log(1e-9 / n), np.log(40.0), 65)
    x, v = np.polynomial.legendre.leggauss(8)
    half = np.diff(edges)[:, None] / 2
    t = np.exp(edges[:-1, None] + half * (x + 1)).ravel()
    return t, (half * v).ravel() * t * np.exp(-t)
