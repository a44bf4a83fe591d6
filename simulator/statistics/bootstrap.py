"""How far a fitted law would move with other iterations: all steps of the estimate repeated on resampled data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError, count, number, one_of
from simulator.statistics.likelihood import Gev
from simulator.statistics.resample import (
    Centring,
    Draws,
    Interval,
    Laws,
    Method,
    Quantity,
    interval_of,
    refit,
    standardisation,
)
from simulator.statistics.sample import Family, checked_family, describe
from simulator.statistics.standardise import checked_blocks

FEW_CLUSTERS = 50  # below, 95 % intervals of b hold it in about 91 % of samples


@dataclass(frozen=True)
class Bootstrap:
    """A law fitted to blocks, with what resampling whole clusters does to it.

    Attributes:
        family: gumbel or gev.
        fit: the law of the z-scores.
        b: standard deviation of a rank's time, in the unit of the blocks.
        maxima: number of z-scores.
        flags: what to know before believing an interval: "few maxima", "ties", "few clusters", and "no maximum" where
            more than 1 in 20 resamples has a GEV likelihood without one.
        laws: of all resamples, the fit itself first.
        draws: the resamples.
    """

    family: Family
    fit: Gev
    b: float
    maxima: int
    flags: tuple[str, ...]
    laws: Laws
    draws: Draws

    @property
    def replicates(self) -> Laws:
        """Laws of the resamples drawn with replacement."""
        return Laws(*(column[1 : self.draws.drawn + 1] for column in self.laws))

    def estimate(self, name: Quantity, k: float = 1.0) -> float:
        """The quantity under the fitted law; see ``interval``."""
        return float(self._values(name, k)[0])

    def interval(self, name: Quantity, k: float = 1.0, level: float = 0.95, method: Method = "corrected") -> Interval:
        """Confidence interval of a quantity.

        Args:
            name: mu, sigma, xi (of family gev), b, expected_max (in z) or tau (in time).
            k: blocks whose largest maximum is meant: n/m for n ranks.
            level: chance that the interval holds the truth.
            method: percentile, basic or corrected, as in ``resample.interval_of``.

        Raises:
            InputError: for xi of a Gumbel law, and numbers or names out of range.
        """
        return interval_of(self._values(name, k), self.draws, level, method)

    def _values(self, name: Quantity, k: float) -> Array:
        if name == "xi" and self.family == "gumbel":
            raise InputError("name", "must be another than xi for family gumbel, whose xi is 0 by definition; got 'xi'")
        return self.laws.quantity(name, number("k", k, above=0))


def cluster_bootstrap(
    blocks: ArrayLike, clusters: ArrayLike, family: Family = "gumbel", centring: Centring = "instance",
    replicates: int = 400, seed: int = 0,
) -> Bootstrap:  # fmt: skip
    """Fit a law to the maxima of blocks, and again to resamples of whole clusters, standardised anew each time.

    Blocks of one iteration share what slows it, and the standard deviation that makes z-scores is estimated from the
    same times as the maxima: both are repeated with every resample (Davison, Hinkley, Bootstrap Methods, 1997, section
    3.8), which no interval from the likelihood of the z-scores does.

    Args:
        blocks: times of one compute block, shape (instances, m), at least 10 instances.
        clusters: the iteration of each instance, shape (instances,): numbers or text, at least 8 different ones.
        family: gumbel or gev.
        centring: ``instance`` or ``block``, as ``instance_centred`` and ``block_centred``.
        replicates: resamples, at least 100.
        seed: the same seed gives the same replicates, byte for byte.

    Raises:
        InputError: for arguments out of range, blocks without spread, maxima that cannot carry such a law.

    >>> times = np.random.default_rng(1).gumbel(size=(200, 4))
    >>> found = cluster_bootstrap(times, np.arange(200) // 2)
    >>> low, high = found.interval("tau", k=16)
    >>> low < found.estimate("tau", k=16) < high, found.flags
    (True, ())
    """
    x = checked_blocks(blocks)
    one_of("centring", centring, get_args(Centring))
    rng = np.random.default_rng(count("seed", seed, least=0))
    draws = Draws.of(clusters, len(x), count("replicates", replicates, least=100), rng)
    top, centre, b = standardisation(x, draws, centring)
    sample = describe(checked_family(top, family))
    (mu, sigma, xi), converged = refit(top, draws, draws.cluster, family)
    laws = Laws((mu - centre) / b, sigma / b, xi, b)
    known = {
        "few clusters": draws.counts.shape[1] < FEW_CLUSTERS,
        "no maximum": converged[1 : draws.drawn + 1].mean() < 0.95,
    }
    flags = sample.flags + tuple(flag for flag, raised in known.items() if raised)
    fit = Gev(*(float(column[0]) for column in laws[:3]))
    return Bootstrap(family, fit, float(b[0]), sample.size, flags, laws, draws)
