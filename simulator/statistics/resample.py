"""Whole clusters of instances drawn again and again, and the laws that are fitted to each such resample."""

from __future__ import annotations

from math import ceil, inf, isfinite, log
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.arrays import Array
from simulator.checks import InputError, count, number, one_of
from simulator.statistics.estimators import gev_parameters, standard
from simulator.statistics.likelihood import Gev, gev_maxima, gumbel_maxima
from simulator.statistics.sample import Family
from simulator.statistics.standardise import spread

LEAST_CLUSTERS = 8  # fewer give too few different resamples to speak of 95 %
GROUPS = 100  # left out one by one for the acceleration of an interval
AT_ONCE = 2**18  # weights of resamples and values in work together: a few MB each

Centring = Literal["instance", "block"]
Quantity = Literal["mu", "sigma", "xi", "b", "expected_max", "tau"]
Method = Literal["percentile", "basic", "corrected"]


class Interval(NamedTuple):
    """Ends of a confidence interval; infinite on a side that the data do not bound."""

    low: float
    high: float


def maxima_needed(interval: Interval, estimate: float, maxima: int, relative: float = 0.1) -> float:
    """How many maxima would narrow an interval to an estimate +- a share of it, as widths fall like 1/sqrt(maxima).

    Args:
        interval: what ``maxima`` maxima give, such as that of tau.
        estimate: of the same quantity.
        maxima: how many there are.
        relative: half-width wanted, as a share of the estimate.

    Returns:
        a whole number, or infinity where the interval or the ratio has no bound.

    >>> maxima_needed(Interval(0.6, 1.4), 1.0, 100)  # from 40 % to 10 %: 16 times as many
    1600
    """
    count("maxima", maxima)
    estimate = number("estimate", estimate, infinite=True)
    wanted = number("relative", relative, above=0) * abs(estimate)
    width = (interval.high - interval.low) / 2
    needed = maxima * (width / wanted) ** 2 if 0 < wanted < inf and isfinite(width) else inf
    return ceil(needed * (1 - 1e-9)) if isfinite(needed) else inf  # a whole number must not round up to the next


class Laws(NamedTuple):
    """Fitted laws, one per resample: GEV parameters in z, and the standard deviation b of a rank's time in its unit."""

    mu: Array
    sigma: Array
    xi: Array
    b: Array

    def quantity(self, name: Quantity, k: float = 1.0) -> Array:
        """One number per law; ``expected_max`` is E[max of k maxima] in z, and ``tau`` the same in time, b*E.

        >>> Laws(*np.array([[0.0], [1.0], [1.0], [2.0]])).quantity("tau", 4)  # no mean from xi = 1 on
        array([inf])
        """
        if one_of("name", name, get_args(Quantity)) not in ("expected_max", "tau"):
            return np.asarray(getattr(self, name))
        if self.xi.any():
            parameters = zip(self.mu, self.sigma, self.xi, strict=True)
            z = np.array([Gev(*map(float, law)).expected_max(k) for law in parameters])
        else:
            z = self.mu + self.sigma * (log(k) + np.euler_gamma)
        return z * self.b if name == "tau" else z


class Draws(NamedTuple):
    """Which cluster each instance belongs to, and how often each counts in each resample.

    Rows of ``counts``, shape (resamples, clusters): all once; then those drawn with replacement; then those with one
    group of clusters after another left out. ``drawn`` is the number of the second kind.
    """

    cluster: NDArray[np.intp]
    counts: Array
    drawn: int

    @classmethod
    def of(cls, clusters: ArrayLike, instances: int, drawn: int, rng: np.random.Generator) -> Draws:
        """Draws for the given cluster of each instance.

        Raises:
            InputError: for another shape, or fewer than 8 different clusters.

        >>> Draws.of("aabbccddeeffgghh", 16, 1, np.random.default_rng(0)).counts.sum(axis=1)
        Traceback (most recent call last):
        simulator.checks.InputError: clusters must be one label per instance, shape (16,); got shape ()
        >>> Draws.of(list("aabbccddeeffgghh"), 16, 1, np.random.default_rng(0)).counts.sum(axis=1)
        array([8., 8., 7., 7., 7., 7., 7., 7., 7., 7.])
        """
        labels = np.asarray(clusters)
        if labels.shape != (instances,):
            raise InputError(
                "clusters", f"must be one label per instance, shape ({instances},); got shape {labels.shape}"
            )
        different, cluster = np.unique(labels, return_inverse=True)
        n = len(different)
        if n < LEAST_CLUSTERS:
            raise InputError("clusters", f"must be at least {LEAST_CLUSTERS} different ones to be resampled; got {n}")
        group = np.arange(n) * min(n, GROUPS) // n
        left = np.arange(min(n, GROUPS))[:, None] != group
        counts = np.concatenate([np.ones((1, n)), rng.multinomial(n, np.full(n, 1 / n), size=drawn), left])
        return cls(cluster, counts, drawn)

    def total(self, value: Array) -> Array:
        """Sum of a value of each instance, one per resample."""
        return np.asarray(np.einsum("rc,c->r", self.counts, np.bincount(self.cluster, value, self.counts.shape[1])))


def standardisation(x: Array, draws: Draws, centring: Centring) -> tuple[Array, Array, Array]:
    """What each resample is standardised by.

    Args:
        x: times, shape (instances, m).

    Returns:
        the largest time of each instance less an origin, shape (instances,): the mean of the instance, or of all;
        each resample's centre from that origin, and standard deviation b of a rank's time, shape (resamples,).
    """
    x = x - (x.min(axis=1, keepdims=True) if centring == "instance" else x.min())
    x = x - (x.mean(axis=1, keepdims=True) if centring == "instance" else x.mean())
    m = x.shape[1]
    instances = draws.total(np.ones(len(x)))
    squares = draws.total((x**2).sum(axis=1))
    if centring == "instance":
        centre, variance = np.zeros(len(instances)), squares / (instances * (m - 1))
    else:
        centre = draws.total(x.sum(axis=1)) / (instances * m)
        variance = (squares - instances * m * centre**2) / (instances * m - 1)
    spread(float(variance.min()))
    return x.max(axis=1), centre, np.sqrt(variance)


def refit(values: Array, draws: Draws, cluster: NDArray[np.intp], family: Family) -> tuple[Array, NDArray[np.bool_]]:
    """Maximum-likelihood laws of all resamples.

    A change of centre and unit moves a law with its values, so that z-scores need not be formed anew per resample.

    Args:
        values: maxima, shape (n,).
        cluster: of each value, shape (n,).

    Returns:
        mu, sigma and xi, shape (3, resamples), and whether each has a likelihood with a maximum (always for Gumbel).

    Raises:
        InputError: where the maxima in a resample are all equal, or all of them have a GEV likelihood without maximum.
    """
    x, centre, unit = standard(values)
    parts = []
    start = gev_parameters(x) if family == "gev" else None
    for counts in np.array_split(draws.counts, -(-len(draws.counts) * len(x) // AT_ONCE)):
        weights = counts[:, cluster]
        if start is None:
            mu, sigma = gumbel_maxima(x, weights)
            parts.append(np.stack([mu, sigma, 0 * mu, 1 + 0 * mu]))
        else:
            weights /= weights.sum(axis=1, keepdims=True)
            found = gev_maxima(x, np.tile(start, (len(weights), 1)), weights)
            mu, log_sigma, xi = found.at.T
            parts.append(np.stack([mu, np.exp(log_sigma), xi, found.converged]))
    mu, sigma, xi, converged = np.concatenate(parts, axis=1)
    if not np.isfinite([mu, sigma, xi]).all():
        raise InputError(
            "blocks", "must have maxima that differ in every resample of the clusters; in some all are equal"
        )
    return np.stack([centre + unit * mu, unit * sigma, xi]), converged > 0


def check_level(level: float, name: str, drawn: int) -> None:
    """Refuse an interval of a level whose ends lie beyond all of ``drawn`` draws.

    Args:
        level: chance that the interval holds, from 0.5 on.
        name: field that says how many are drawn.
        drawn: how many.

    >>> check_level(0.999, "runs", 200)
    Traceback (most recent call last):
    simulator.checks.InputError: runs must be at least 2000 for level 0.999; got 200
    """
    number("level", level, least=0.5, below=1)
    if 2 / (1 - level) > drawn * (1 + 1e-9):
        raise InputError(name, f"must be at least {ceil(2 / (1 - level) - 1e-6)} for level {level:g}; got {drawn}")


def interval_of(values: Array, draws: Draws, level: float, method: Method) -> Interval:
    """Confidence interval of a quantity from its value in every resample, in the order of ``Draws``.

    Args:
        values: shape (resamples,), the estimate first.
        level: chance that the interval holds the truth.
        method: ``percentile``: quantiles of those drawn; ``basic``: the same, mirrored at the estimate; ``corrected``:
            quantiles at levels that allow for bias and for a spread that changes with the truth (BCa: Efron, Better
            bootstrap confidence intervals, JASA 82, 1987).
    """
    from scipy.special import ndtr, ndtri

    one_of("method", method, get_args(Method))
    level = number("level", level, above=0, below=1)
    estimate, drawn, left = float(values[0]), np.sort(values[1 : draws.drawn + 1]), values[draws.drawn + 1 :]
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if method == "corrected":
        below = (np.mean(drawn < estimate) + np.mean(drawn <= estimate)) / 2
        bias = ndtri(np.clip(below, 0.5 / len(drawn), 1 - 0.5 / len(drawn)))
        pull = left.mean() - left if np.isfinite(left).all() else np.zeros(1)
        squares = float(np.sum(pull**2))
        acceleration = float(np.sum(pull**3)) / (6 * squares**1.5) if squares > 0 else 0.0
        shifted = bias + ndtri(tails)
        tails = ndtr(bias + shifted / np.maximum(1 - acceleration * shifted, 0.1))
    places = tails * (len(drawn) - 1)
    low, high = float(drawn[int(places[0])]), float(drawn[int(np.ceil(places[1]))])
    if method == "basic" and np.isfinite(estimate):
        return Interval(2 * estimate - high, 2 * estimate - low)
    return Interval(low, high)
