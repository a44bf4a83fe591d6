"""Whether a fitted law describes its maxima: distance from the data, the need of a shape, and stability over sizes."""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError, count, one_of
from simulator.laws.gev import box_cox
from simulator.statistics.estimators import gev_parameters, standard
from simulator.statistics.likelihood import Gev, gev_cost, gev_maxima, gumbel_maxima
from simulator.statistics.resample import (
    AT_ONCE,
    Centring,
    Draws,
    Interval,
    Method,
    interval_of,
    refit,
    standardisation,
)
from simulator.statistics.sample import Family, checked_family
from simulator.statistics.standardise import checked_blocks


class Distance(NamedTuple):
    """A statistic of the distance between data and fitted law, and the chance of a larger one under such a law."""

    statistic: float
    p_value: float
    law: Gev


class LikelihoodRatio(NamedTuple):
    """Twice the gain of log-likelihood from a free shape, the chance of a larger gain without one, and both laws."""

    statistic: float
    p_value: float
    gumbel: Gev
    gev: Gev


class Stability(NamedTuple):
    """How far the location of maxima moves when the ranks double, what a max-stable law expects, and the difference."""

    measured: float
    expected: float
    difference: Interval

    @property
    def holds(self) -> bool:
        """Whether the interval of measured - expected contains 0."""
        return self.difference.low <= 0 <= self.difference.high


def anderson_darling(z: ArrayLike, family: Family = "gumbel", replicates: int = 1000, seed: int = 0) -> Distance:
    """Anderson-Darling test of a law whose parameters are fitted to the same values.

    A^2 = -n - sum over i of (2i - 1)/n*(ln F(z_i) + ln(1 - F(z_(n+1-i)))), which weighs both tails. A fitted law is
    nearer to its data than the true one, so tables for known parameters would pass nearly everything; the p-value is
    the share of samples drawn from the fitted law, and fitted themselves, with at least this distance (parametric
    bootstrap: Stute, Gonzalez Manteiga, Presedo Quindimil, Bootstrap based goodness-of-fit tests, Metrika 40, 1993).
    For Gumbel it agrees with the table of D'Agostino, Stephens, Goodness-of-fit Techniques, 1986, section 4.11.

    Args:
        z: independent maxima, shape (n,), n >= 10; for a GEV law at least 10 different ones.
        family: gumbel or gev.
        replicates: samples drawn, at least 100: the p-value is no smaller than 1/(replicates + 1).
        seed: of those samples.

    Raises:
        InputError: for fewer values, ties, a likelihood without maximum, and arguments out of range.

    >>> rng = np.random.default_rng(0)
    >>> anderson_darling(rng.gumbel(size=200)).p_value > 0.05, anderson_darling(rng.random(200)).p_value < 0.01
    (True, True)
    """
    x, centre, unit = standard(checked_family(z, family))
    rng = np.random.default_rng(count("seed", seed, least=0))
    asked = count("replicates", replicates, least=100)
    best = _maxima(x[None], family, None)
    statistic = float(_distance(x[None], best)[0])
    mu, s, xi = (float(p) for p in best[0])
    further = 0
    for rows in np.array_split(np.arange(asked), -(-asked * len(x) // AT_ONCE)):
        drawn = mu + np.exp(s) * box_cox(-np.log(rng.standard_exponential((len(rows), len(x)))), xi)
        further += int(np.sum(_distance(drawn, _maxima(drawn, family, best)) >= statistic))
    law = Gev(centre + unit * mu, unit * float(np.exp(s)), xi)
    return Distance(statistic, (further + 1) / (asked + 1), law)


def gumbel_or_gev(z: ArrayLike) -> LikelihoodRatio:
    """Likelihood-ratio test of a Gumbel law against a GEV law, whose shape is free.

    Without a shape the statistic follows chi-squared with 1 degree of freedom in large samples (Coles, An Introduction
    to Statistical Modeling of Extreme Values, 2001, section 2.7), and in samples of 50 a little more widely.

    Args:
        z: independent maxima, at least 10 different ones.

    Raises:
        InputError: for fewer values, ties, and a likelihood without maximum.

    >>> found = gumbel_or_gev(np.random.default_rng(0).gumbel(size=200))
    >>> found.p_value > 0.05
    True
    """
    from scipy.special import chdtrc

    x, centre, unit = standard(checked_family(z, "gev"))
    laws = [_maxima(x[None], "gumbel", None), gev_parameters(x)[None]]
    costs = [float(gev_cost(x, law).value[0]) for law in laws]
    statistic = max(2 * len(x) * (costs[0] - costs[1]), 0.0)
    fitted = [Gev(centre + unit * float(mu), unit * float(np.exp(s)), float(xi)) for ((mu, s, xi),) in laws]
    return LikelihoodRatio(statistic, float(chdtrc(1, statistic)), *fitted)


def max_stability(
    blocks: ArrayLike, clusters: ArrayLike, family: Family = "gumbel", centring: Centring = "instance",
    replicates: int = 400, seed: int = 0, level: float = 0.95, method: Method = "corrected",
) -> Stability:  # fmt: skip
    """Whether maxima over twice as many ranks lie where the law of the smaller maxima puts them.

    The tax at n ranks is extrapolated from blocks of m by mu + sigma*ln(n/m). The one step of it that blocks of 2m
    ranks show is mu_2m - mu_m = sigma_m*ln 2, or sigma_m*(2^xi - 1)/xi. Maxima over 2m and over either half
    have the same centre, that of the whole, and the same unit, the standard deviation b that blocks of m ranks have.

    Args:
        blocks: times of one compute block, shape (instances, 2m): the first m columns are one block, the rest another.
        clusters: the iteration of each instance, shape (instances,), at least 8 different ones.
        family, centring, replicates, seed: as for ``cluster_bootstrap``.
        level, method: of the interval of measured - expected, as for ``Bootstrap.interval``.

    Raises:
        InputError: for an odd number of ranks or fewer than 4, and as ``cluster_bootstrap``.

    >>> ranks = np.random.default_rng(0).gumbel(size=(400, 8))
    >>> max_stability(ranks, np.arange(400), centring="block").holds
    True
    """
    x = checked_blocks(blocks)
    instances, ranks = x.shape
    if ranks % 2 or ranks < 4:
        raise InputError("blocks", f"must have an even number of ranks, at least 4, to be halved; got {ranks}")
    one_of("centring", centring, get_args(Centring))
    rng = np.random.default_rng(count("seed", seed, least=0))
    draws = Draws.of(clusters, instances, count("replicates", replicates, least=100), rng)
    top, _, _ = standardisation(x, draws, centring)
    halves = x.reshape(instances, 2, -1)
    twice = draws._replace(cluster=np.repeat(draws.cluster, 2))
    _, _, b = standardisation(halves.reshape(2 * instances, -1), twice, centring)
    small = (halves.max(axis=2) - x.max(axis=1, keepdims=True) + top[:, None]).reshape(-1)
    (mu, sigma, xi), _ = refit(checked_family(small, family), draws, twice.cluster, family)
    (mu_double, _, _), _ = refit(checked_family(top, family), draws, draws.cluster, family)
    measured = (mu_double - mu) / b
    expected = sigma * [float(box_cox(np.log(2), shape)) for shape in xi] / b
    return Stability(float(measured[0]), float(expected[0]), interval_of(measured - expected, draws, level, method))


def _maxima(x: Array, family: Family, start: Array | None) -> Array:
    """(mu, ln sigma, xi) of maximum likelihood for samples in rows, shape (rows, 3)."""
    if family == "gev":
        if start is None:
            return gev_parameters(x[0])[None]
        # Drawn values may lie outside the support of the law that leads the search; the Gumbel fit has no bounds.
        return gev_maxima(x, _maxima(x, "gumbel", None)).at
    mu, sigma = gumbel_maxima(x)
    return np.stack([mu, np.log(sigma), 0 * mu], axis=1)


def _distance(x: Array, laws: Array) -> Array:
    """A^2 of samples in rows, shape (rows, n), under the laws (mu, ln sigma, xi) in rows."""
    mu, s, xi = (laws[:, i, None] for i in range(3))
    shape = np.where(np.abs(xi) < 1e-20, 1e-20, xi)
    v = (np.sort(x, axis=1) - mu) / np.exp(s)
    with np.errstate(divide="ignore", over="ignore"):  # outside the support F is 0 or 1
        exponent = np.clip(np.exp(-np.log1p(np.maximum(shape * v, -1.0)) / shape), 0.0, 1e300)  # -ln F
    n = x.shape[1]
    weight = (2 * np.arange(1, n + 1) - 1) / n
    upper = np.log(-np.expm1(-np.maximum(exponent, 1e-300)))
    return np.asarray(-n + (weight * (exponent - upper[:, ::-1])).sum(axis=1))
