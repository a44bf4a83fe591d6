"""From measured blocks to a fitted law: z-scores of block maxima, Gumbel and GEV fits, intervals, goodness of fit.

A block is one instance of a compute block on m ranks. The seed paper (section 5) turns the largest of the m times into
a z-score and fits a Gumbel law to all of them by maximum likelihood. Functions take and return plain arrays and
numbers; z is in standard deviations of a rank's time.

The tax of more ranks than were measured needs no such law: ``estimate`` carries it on from the times and says
how far they can carry; ``shuffled`` says what the dependence of ranks and blocks does to it, and ``drift`` whether it
changes over the run.
"""

from simulator.statistics.bootstrap import Bootstrap, cluster_bootstrap
from simulator.statistics.estimators import fit_gev, fit_gumbel, fit_gumbel_lmoments
from simulator.statistics.goodness import (
    Distance,
    LikelihoodRatio,
    Stability,
    anderson_darling,
    gumbel_or_gev,
    max_stability,
)
from simulator.statistics.likelihood import Gev
from simulator.statistics.resample import Interval, Laws, maxima_needed
from simulator.statistics.sample import Counts, describe
from simulator.statistics.shuffling import Drift, Shuffled, drift, shuffled
from simulator.statistics.standardise import block_centred, instance_centred
from simulator.statistics.tax_estimate import Estimate, estimate, estimates

__all__ = [
    "Bootstrap", "Counts", "Distance", "Drift", "Estimate", "Gev", "Interval", "Laws", "LikelihoodRatio", "Shuffled",
    "Stability", "anderson_darling", "block_centred", "cluster_bootstrap", "describe", "drift", "estimate", "estimates",
    "fit_gev", "fit_gumbel", "fit_gumbel_lmoments", "gumbel_or_gev", "instance_centred", "max_stability",
    "maxima_needed", "shuffled",
]  # fmt: skip
