"""From measured blocks to a fitted law: z-scores of block maxima, and Gumbel and GEV fits of them.

A block is one instance of a compute block on m ranks. The seed paper (section 5) turns the largest of the m times into
a z-score and fits a Gumbel law to all of them by maximum likelihood. Every function takes and returns plain arrays and
numbers; z is in standard deviations of a rank's time.
"""

from simulator.fit.estimators import fit_gev, fit_gumbel, fit_gumbel_lmoments
from simulator.fit.likelihood import Gev
from simulator.fit.sample import Sample, describe
from simulator.fit.standardise import block_centred, instance_centred

__all__ = [
    "Gev", "Sample", "block_centred", "describe", "fit_gev", "fit_gumbel", "fit_gumbel_lmoments", "instance_centred",
]  # fmt: skip
