"""Compute-time laws: how long a rank's block takes, and how long the slowest of n takes.

A law is a frozen dataclass; a YAML file in ``conf/compute`` names it. Independent laws know their distribution
function; a law of whole blocks of ranks knows its mean and its expected maximum.
"""

from simulator.laws.base import IndependentLaw, Law
from simulator.laws.block_maxima import block_maxima
from simulator.laws.dependence import Dependence
from simulator.laws.dependent import Dependent, dependent
from simulator.laws.empirical import Empirical, EmpiricalBlocks
from simulator.laws.gev import BlockMaxima
from simulator.laws.root import Root
from simulator.laws.simple import Deterministic, LogNormal, Normal
from simulator.laws.spliced import Spliced
from simulator.laws.tail import Tail
from simulator.laws.zero_sum import ZeroSum

__all__ = [
    "BlockMaxima", "Dependence", "Dependent", "Deterministic", "Empirical", "EmpiricalBlocks", "IndependentLaw", "Law",
    "LogNormal", "Normal", "Root", "Spliced", "Tail", "ZeroSum", "block_maxima", "dependent",
]  # fmt: skip
