"""Discrete-event simulator of GPU scale-up domains.

>>> from simulator import Experiment, run

What a config, a plug-in or a script of yours may name is here, whatever file it lives in: these names stay.
"""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and "simulator" in sys.orig_argv:  # the command, which attends to Ctrl-C only later
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is written yet: it ends without a traceback

from typing import TYPE_CHECKING, Any

from simulator.names import HOME, Moved

if TYPE_CHECKING:
    from simulator.arrays import Array as Array
    from simulator.checks import InputError as InputError
    from simulator.files.tables import write_csv as write_csv
    from simulator.laws import (
        BlockMaxima as BlockMaxima,
        Dependence as Dependence,
        Dependent as Dependent,
        Deterministic as Deterministic,
        Empirical as Empirical,
        EmpiricalBlocks as EmpiricalBlocks,
        IndependentLaw as IndependentLaw,
        Law as Law,
        LogNormal as LogNormal,
        Normal as Normal,
        Root as Root,
        Spliced as Spliced,
        Tail as Tail,
        ZeroSum as ZeroSum,
        block_maxima as block_maxima,
        dependent as dependent,
    )
    from simulator.network.collectives import (
        Algorithm as Algorithm,
        Kind as Kind,
        all_pairs as all_pairs,
        bucket as bucket,
        ring as ring,
    )
    from simulator.network.topology import Cost as Cost, Machine as Machine, Topology as Topology
    from simulator.pictures.draw import write_pictures as write_pictures
    from simulator.pictures.panels import Panel as Panel, Picture as Picture
    from simulator.simulation.draws import Engine as Engine
    from simulator.simulation.events import Events as Events
    from simulator.simulation.experiment import Experiment as Experiment
    from simulator.simulation.results import GLOSSARY as GLOSSARY, Result as Result
    from simulator.simulation.runner import run as run, trace as trace
    from simulator.simulation.vector import Vector as Vector
    from simulator.task import Outcome as Outcome, Progress as Progress, Task as Task
    from simulator.tasks.calibrate.task import Calibrate as Calibrate
    from simulator.tasks.collect.task import Collect as Collect
    from simulator.tasks.fit.task import FitLaw as FitLaw
    from simulator.tasks.record_help.task import RecordHelp as RecordHelp
    from simulator.tasks.simulate.task import Simulate as Simulate
    from simulator.tasks.studies.elasticity_against_bandwidth import (
        ElasticityAgainstBandwidth as ElasticityAgainstBandwidth,
    )
    from simulator.tasks.studies.flops_scaling import FlopsScaling as FlopsScaling
    from simulator.tasks.studies.iteration_time import IterationTime as IterationTime
    from simulator.tasks.studies.known_laws import (
        BlockScales as BlockScales,
        ScipyLaw as ScipyLaw,
        SlowMode as SlowMode,
    )
    from simulator.tasks.studies.optimal_bandwidth import OptimalBandwidth as OptimalBandwidth
    from simulator.tasks.studies.optimal_bandwidth_figure import OptimalBandwidthFigure as OptimalBandwidthFigure
    from simulator.tasks.studies.plugin_bias import PluginBias as PluginBias
    from simulator.tasks.studies.reproduce import Reproduce as Reproduce
    from simulator.tasks.studies.sensitivity import Sensitivity as Sensitivity
    from simulator.tasks.studies.tax_against_size import TaxAgainstSize as TaxAgainstSize
    from simulator.tasks.trace_report.task import TraceReport as TraceReport
    from simulator.tasks.validate.task import Validate as Validate
    from simulator.traces.measured_law import empirical as empirical
    from simulator.traces.tables import Columns as Columns
    from simulator.workload.program import Collective as Collective, Compute as Compute, Program as Program
    from simulator.workload.training import (
        DataParallel as DataParallel,
        Operations as Operations,
        TensorParallel as TensorParallel,
        Workload as Workload,
    )

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
