"""Discrete-event simulator of GPU scale-up domains.

>>> from simulator import Experiment, run

What a config, a plug-in or a script of yours may name is here, whatever file it lives in: these names stay.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from simulator.names import HOME, Moved

if TYPE_CHECKING:
    from simulator.arrays import Array as Array
    from simulator.checks import InputError as InputError
    from simulator.files.tables import write_csv as write_csv
    from simulator.laws import BlockMaxima as BlockMaxima
    from simulator.laws import Dependence as Dependence
    from simulator.laws import Dependent as Dependent
    from simulator.laws import Deterministic as Deterministic
    from simulator.laws import Empirical as Empirical
    from simulator.laws import EmpiricalBlocks as EmpiricalBlocks
    from simulator.laws import IndependentLaw as IndependentLaw
    from simulator.laws import Law as Law
    from simulator.laws import LogNormal as LogNormal
    from simulator.laws import Normal as Normal
    from simulator.laws import Root as Root
    from simulator.laws import Spliced as Spliced
    from simulator.laws import ZeroSum as ZeroSum
    from simulator.laws import block_maxima as block_maxima
    from simulator.laws import dependent as dependent
    from simulator.laws import empirical as empirical
    from simulator.network.collectives import Algorithm as Algorithm
    from simulator.network.collectives import Kind as Kind
    from simulator.network.collectives import all_pairs as all_pairs
    from simulator.network.collectives import bucket as bucket
    from simulator.network.collectives import ring as ring
    from simulator.network.topology import Cost as Cost
    from simulator.network.topology import Machine as Machine
    from simulator.network.topology import Topology as Topology
    from simulator.pictures.draw import write_pictures as write_pictures
    from simulator.pictures.panels import Panel as Panel
    from simulator.pictures.panels import Picture as Picture
    from simulator.simulation.draws import Engine as Engine
    from simulator.simulation.events import Events as Events
    from simulator.simulation.experiment import Experiment as Experiment
    from simulator.simulation.results import GLOSSARY as GLOSSARY
    from simulator.simulation.results import Result as Result
    from simulator.simulation.runner import run as run
    from simulator.simulation.runner import trace as trace
    from simulator.simulation.vector import Vector as Vector
    from simulator.task import Outcome as Outcome
    from simulator.task import Progress as Progress
    from simulator.task import Task as Task
    from simulator.tasks.calibrate.task import Calibrate as Calibrate
    from simulator.tasks.collect.task import Collect as Collect
    from simulator.tasks.fit.task import FitLaw as FitLaw
    from simulator.tasks.simulate.task import Simulate as Simulate
    from simulator.tasks.studies.elasticity_against_bandwidth import (
        ElasticityAgainstBandwidth as ElasticityAgainstBandwidth,
    )
    from simulator.tasks.studies.flops_scaling import FlopsScaling as FlopsScaling
    from simulator.tasks.studies.iteration_time import IterationTime as IterationTime
    from simulator.tasks.studies.optimal_bandwidth import OptimalBandwidth as OptimalBandwidth
    from simulator.tasks.studies.optimal_bandwidth_figure import OptimalBandwidthFigure as OptimalBandwidthFigure
    from simulator.tasks.studies.plugin_bias import PluginBias as PluginBias
    from simulator.tasks.studies.plugin_bias import ScipyLaw as ScipyLaw
    from simulator.tasks.studies.reproduce import Reproduce as Reproduce
    from simulator.tasks.studies.sensitivity import Sensitivity as Sensitivity
    from simulator.tasks.studies.tax_against_size import TaxAgainstSize as TaxAgainstSize
    from simulator.tasks.trace_report.task import TraceReport as TraceReport
    from simulator.tasks.validate.task import Validate as Validate
    from simulator.traces.tables import Columns as Columns
    from simulator.workload.program import Collective as Collective
    from simulator.workload.program import Compute as Compute
    from simulator.workload.program import Program as Program
    from simulator.workload.training import DataParallel as DataParallel
    from simulator.workload.training import Operations as Operations
    from simulator.workload.training import TensorParallel as TensorParallel
    from simulator.workload.training import Workload as Workload

__all__ = sorted(HOME)

if not any(isinstance(finder, Moved) for finder in sys.meta_path):
    sys.meta_path.append(Moved())


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that ``--help`` does not wait for NumPy."""
    from importlib import import_module

    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *HOME})
