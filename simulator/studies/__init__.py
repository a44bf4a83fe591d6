"""Studies: each reproduces one claim or figure of the seed paper, from closed form and from simulation."""

from simulator.studies.tax_against_size import TaxAgainstSize

__all__ = ["TaxAgainstSize"]
