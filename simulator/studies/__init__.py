"""Studies: each reproduces one claim or figure of the seed paper, from closed form and from simulation."""

from simulator.studies.elasticity_against_bandwidth import ElasticityAgainstBandwidth
from simulator.studies.flops_scaling import FlopsScaling
from simulator.studies.iteration_time import IterationTime
from simulator.studies.optimal_bandwidth import OptimalBandwidth
from simulator.studies.optimal_bandwidth_figure import OptimalBandwidthFigure
from simulator.studies.plugin_bias import PluginBias, ScipyLaw
from simulator.studies.reproduce import Reproduce
from simulator.studies.sensitivity import Sensitivity
from simulator.studies.tax_against_size import TaxAgainstSize

__all__ = [
    "ElasticityAgainstBandwidth",
    "FlopsScaling",
    "IterationTime",
    "OptimalBandwidth",
    "OptimalBandwidthFigure",
    "PluginBias",
    "Reproduce",
    "ScipyLaw",
    "Sensitivity",
    "TaxAgainstSize",
]
