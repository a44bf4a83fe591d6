"""The public names of the package and where they live; modules and keys of version 0.1 that have another name now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# public name -> module; what a config, a plug-in or a script may name is in simulator itself
HOMES = {
    "arrays": ["Array"],
    "checks": ["InputError"],
    "files.tables": ["write_csv"],
    "laws": [
        "BlockMaxima", "Dependence", "Dependent", "Deterministic", "Empirical", "EmpiricalBlocks", "IndependentLaw",
        "Law", "LogNormal", "Normal", "Root", "Spliced", "Tail", "ZeroSum", "block_maxima", "dependent",
    ],
    "network.collectives": ["Algorithm", "Kind", "all_pairs", "bucket", "ring"],
    "network.topology": ["Cost", "Machine", "Topology"],
    "pictures.draw": ["write_pictures"],
    "pictures.panels": ["Panel", "Picture"],
    "simulation.draws": ["Engine"],
    "simulation.events": ["Events"],
    "simulation.experiment": ["Experiment"],
    "simulation.results": ["GLOSSARY", "Result"],
    "simulation.runner": ["run", "trace"],
    "simulation.vector": ["Vector"],
    "task": ["Outcome", "Progress", "Task"],
    "tasks.calibrate.task": ["Calibrate"],
    "tasks.collect.task": ["Collect"],
    "tasks.fit.task": ["FitLaw"],
    "tasks.record_help.task": ["RecordHelp"],
    "tasks.simulate.task": ["Simulate"],
    "tasks.studies.elasticity_against_bandwidth": ["ElasticityAgainstBandwidth"],
    "tasks.studies.flops_scaling": ["FlopsScaling"],
    "tasks.studies.iteration_time": ["IterationTime"],
    "tasks.studies.known_laws": ["BlockScales", "ScipyLaw", "SlowMode"],
    "tasks.studies.optimal_bandwidth": ["OptimalBandwidth"],
    "tasks.studies.optimal_bandwidth_figure": ["OptimalBandwidthFigure"],
    "tasks.studies.plugin_bias": ["PluginBias"],
    "tasks.studies.reproduce": ["Reproduce"],
    "tasks.studies.sensitivity": ["Sensitivity"],
    "tasks.studies.tax_against_size": ["TaxAgainstSize"],
    "tasks.trace_report.task": ["TraceReport"],
    "tasks.validate.task": ["Validate"],
    "traces.measured_law": ["empirical"],
    "traces.tables": ["Columns"],
    "workload.program": ["Collective", "Compute", "Program"],
    "workload.training": ["DataParallel", "Operations", "TensorParallel", "Workload"],
}  # fmt: skip
HOME = {name: module for module, names in HOMES.items() for name in names}

# key of version 0.1 -> key
RENAMED = {"traces": "export_traces"}

# old module -> new one; modules below it went along
MOVED = {
    "app": "command.app", "build": "command.build", "calibrate": "tasks.calibrate",
    "collectives": "network.collectives",
    "configs": "command.compose", "engine": "simulation.draws", "engine_events": "simulation.events",
    "engine_vector": "simulation.vector", "experiment": "simulation.experiment", "figures": "tasks.simulate.pictures",
    "fit": "statistics", "fitting": "tasks.fit", "flags": "command.flags", "folders": "files.folders",
    "hockney": "tasks.calibrate.hockney", "loader": "command.loader", "measure": "simulation.measure",
    "model": "simulation.closed_forms", "nccl_tests": "tasks.calibrate.nccl_tests", "plots": "pictures",
    "program": "workload.program", "provenance": "files.manifest", "report": "tasks.simulate.words",
    "results": "simulation.results", "studies": "tasks.studies", "sweeps": "tasks.collect",
    "timeline": "tasks.simulate.timeline", "topology": "network.topology", "traces.export": "tasks.simulate.export",
    "traces.page": "tasks.trace_report.page", "traces.pictures": "tasks.trace_report.pictures",
    "traces.report": "tasks.trace_report.task", "traces.words": "tasks.trace_report.words",
    "validation": "tasks.validate", "workloads": "workload.training", "yaml_files": "command.yaml_files",
}  # fmt: skip


def where(module: str, name: str = "") -> str | None:
    """The sentence about a module of version 0.1, and what it had under ``name``; None for other modules.

    >>> where("simulator.workloads", "TensorParallel")
    'simulator.workloads.TensorParallel is simulator.TensorParallel since version 0.2'
    >>> where("simulator.topology")
    'simulator.topology is gone since version 0.2: write from simulator import Cost, Machine, Topology'
    >>> where("simulator.figures")
    'simulator.figures is simulator.tasks.simulate.pictures since version 0.2'
    """
    old = module.removeprefix("simulator.")
    part = next((part for part in (old, old.rpartition(".")[0]) if part in MOVED), None)
    if part is None or not module.startswith("simulator."):
        return None
    if name in HOME:
        return f"{module}.{name} is simulator.{name} since version 0.2"
    new = f"{MOVED[part]}{old.removeprefix(part)}"
    public = [name for name, home in HOME.items() if f"{home}.".startswith(f"{new}.")]
    if public:
        return f"{module} is gone since version 0.2: write from simulator import {', '.join(public)}"
    return f"{module} is simulator.{new} since version 0.2"


class Moved:
    """Asked last when a module is imported: refuses one of version 0.1 with the new name."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for a module that has moved; leave others to their own error."""
        if sentence := where(name):
            raise ModuleNotFoundError(sentence, name=name)


def refuse(package: str) -> Callable[[str], Any]:
    """A ``__getattr__`` for a package that was a module: its public names are refused with where they are."""

    def look_up(name: str) -> Any:
        if name in HOME:
            raise ImportError(f"{package}.{name} is simulator.{name} since version 0.2")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return look_up
