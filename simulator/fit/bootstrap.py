"""How far a fitted law would move with other iterations: all steps of the estimate repeated on resampled data."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from simulator.checks import InputError, count, number, one_of
from simulator.fit.estimators import gev_parameters, standard
from simulator.fit.likelihood import Gev, gev_maxima, gumbel_maxima
from simulator.fit.sample import Family, checked_family, describe
from simulator.fit.standardise import checked_blocks, spread
from simulator.laws.base import Array

LEAST_CLUSTERS = 8  # fewer give too few different resamples to speak of 95 %
FEW_CLUSTERS = 30
GROUPS = 100  # left out one by one for the acceleration of an interval
AT_ONCE = 2**20  # weights of replicates and instances held in memory together

Centring = Literal["instance", "block"]
Quantity = Literal["mu", "sigma", "xi", "b", "expected_max", "tau"]
Method = Literal["percentile", "basic", "corrected"]


class Interval(NamedTuple):
    """Ends of a confidence interval; infinite on a side that the data do not bound."""

    low: float
    high: float


class Laws(NamedTuple):
    """Fitted laws, one per resample: GEV parameters in z, and the standard deviation b of a rank's time in its unit."""

    mu: Array
    sigma: Array
    xi: Array
    b: Array

    def quantity(self, name: Quantity, k: float = 1.0) -> Array:
        """One number per law; ``expected_max`` is E[max of k maxima] in z, and ``tau`` the same in time, b*E."""
        if name in ("expected_max", "tau"):
            if self.xi.any():
                z = np.array([Gev(*law).expected_max(k) for law in zip(self.mu, self.sigma, self.xi, strict=True)])
            else:
                z = self.mu + self.sigma * (log(k) + np.euler_gamma)
            return z * self.b if name == "tau" else z
        return np.asarray(getattr(self, name))


@dataclass(frozen=True)
class Bootstrap:
    """A law fitted to blocks, with what resampling whole clusters does to it.

    Attributes:
        family: gumbel or gev.
        fit: the law of the z-scores.
        b: standard deviation of a rank's time, in the unit of the blocks.
        maxima: number of z-scores.
        flags: what to know before believing an interval: "few maxima", "ties", "few clusters", "no maximum" where
            more than 1 in 20 resamples has a GEV likelihood without one.
        replicates: laws of the resamples, shape (replicates,).
        jackknife: laws with one group of clusters after another left out.
    """

    family: Family
    fit: Gev
    b: float
    maxima: int
    flags: tuple[str, ...]
    replicates: Laws
    jackknife: Laws

    def estimate(self, name: Quantity, k: float = 1.0) -> float:
        """The quantity under the fitted law, of k blocks where it has a size."""
        return float(_one(self.fit, self.b).quantity(_named(name), number("k", k, above=0))[0])

    def interval(self, name: Quantity, k: float = 1.0, level: float = 0.95, method: Method = "corrected") -> Interval:
        """Confidence interval of a quantity.

        Args:
            name: mu, sigma, xi (family gev), b, expected_max (in z) or tau (in time).
            k: blocks whose largest maximum is meant: n/m for n ranks.
            level: chance that the interval holds the truth.
            method: ``percentile``: quantiles of the replicates; ``basic``: the same, mirrored at the estimate;
                ``corrected``: quantiles at levels that allow for bias and for a spread that changes with the truth
                (BCa: Efron, Better bootstrap confidence intervals, JASA 82, 1987).

        Raises:
            InputError: for xi of a Gumbel law, and numbers or names out of range.
        """
        from scipy.special import ndtr, ndtri

        _named(name)
        k, level = number("k", k, above=0), number("level", level, above=0, below=1)
        if name == "xi" and self.family == "gumbel":
            raise InputError("name must be another than xi for family gumbel, whose xi is 0 by definition; got 'xi'")
        values, estimate = np.sort(self.replicates.quantity(name, k)), self.estimate(name, k)
        tails = np.array([(1 - level) / 2, (1 + level) / 2])
        if one_of("method", method, get_args(Method)) == "corrected":
            below = (np.mean(values < estimate) + np.mean(values <= estimate)) / 2
            bias = ndtri(np.clip(below, 0.5 / len(values), 1 - 0.5 / len(values)))
            left = self.jackknife.quantity(name, k)
            pull = np.mean(left) - left if np.isfinite(left).all() else np.zeros(1)
            squares = float(np.sum(pull**2))
            acceleration = float(np.sum(pull**3)) / (6 * squares**1.5) if squares > 0 else 0.0
            shifted = bias + ndtri(tails)
            tails = ndtr(bias + shifted / np.maximum(1 - acceleration * shifted, 0.1))
        places = tails * (len(values) - 1)
        low, high = float(values[int(places[0])]), float(values[int(np.ceil(places[1]))])
        if method == "basic" and np.isfinite(estimate):
            return Interval(2 * estimate - high, 2 * estimate - low)
        return Interval(low, high)


def cluster_bootstrap(
    blocks: ArrayLike, clusters: ArrayLike, family: Family = "gumbel", centring: Centring = "instance",
    replicates: int = 400, seed: int = 0,
) -> Bootstrap:  # fmt: skip
    """Fit a law to the maxima of blocks, and again to resamples of whole clusters, standardised anew each time.

    Blocks of one iteration share what slows it, and the standard deviation that makes z-scores is estimated from the
    same times as the maxima: both are repeated with every resample (Davison, Hinkley, Bootstrap Methods, 1997, section
    3.8), which no interval from the likelihood of the z-scores does. A change of centre and unit moves a fit with its
    values, so the maxima are refitted once and every replicate's own centre and unit applied to the outcome.

    Args:
        blocks: times of one compute block, shape (instances, m), at least 10 instances.
        clusters: the iteration of each instance, shape (instances,): numbers or text, at least 8 different ones.
        family: gumbel or gev.
        centring: ``instance`` or ``block``, as ``instance_centred`` and ``block_centred``.
        replicates: resamples, at least 100.
        seed: the same seed gives the same replicates, byte for byte.

    Raises:
        InputError: for arguments out of range, blocks without spread, maxima that cannot carry such a law.

    >>> rng = np.random.default_rng(1)
    >>> found = cluster_bootstrap(rng.gumbel(size=(200, 4)), np.arange(200) // 2)
    >>> low, high = found.interval("tau", k=16)
    >>> low < found.estimate("tau", k=16) < high, found.flags
    (True, ())
    """
    rng = np.random.default_rng(count("seed", seed, least=0))
    maxima = Maxima.of(blocks, clusters, one_of("centring", centring, get_args(Centring)))
    checked_family(maxima.top, family)
    fit, b, _ = maxima.refit(family, np.ones((1, len(maxima.sizes))))
    laws, ends = Laws(*fit), []
    drawn = rng.multinomial(n := len(maxima.sizes), np.full(n, 1 / n), size=count("replicates", replicates, least=100))
    found, converged = maxima.refit_all(family, drawn, laws)
    raise NotImplementedError
