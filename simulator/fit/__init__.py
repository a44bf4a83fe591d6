"""From measured blocks to a fitted law: z-scores of block maxima, Gumbel and GEV fits, intervals, goodness of fit.

A block is one instance of a compute block on m ranks. The seed paper (section 5) turns the largest of the m times into
a z-score and fits a Gumbel law to all of them by maximum likelihood. Functions take and return plain arrays and
numbers; z is in standard deviations of a rank's time.
"""

from simulator.fit.bootstrap import Bootstrap, cluster_bootstrap
from simulator.fit.estimators import fit_gev, fit_gumbel, fit_gumbel_lmoments
from simulator.fit.goodness import Distance, LikelihoodRatio, Stability, anderson_darling, gumbel_or_gev, max_stability
from simulator.fit.intervals import maxima_needed, profile, profile_deviance
from simulator.fit.likelihood import Gev
from simulator.fit.resample import Interval, Laws
from simulator.fit.sample import Counts, describe
from simulator.fit.standardise import block_centred, instance_centred

__all__ = [
    "Bootstrap", "Counts", "Distance", "Gev", "Interval", "Laws", "LikelihoodRatio", "Stability",
    "anderson_darling", "block_centred", "cluster_bootstrap", "describe", "fit_gev", "fit_gumbel",
    "fit_gumbel_lmoments", "gumbel_or_gev", "instance_centred", "max_stability", "maxima_needed",
    "profile", "profile_deviance",
]  # fmt: skip
