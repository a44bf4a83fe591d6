"""Discrete-event simulator of GPU scale-up domains.

>>> from simulator import Experiment, run
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.checks import InputError
    from simulator.experiment import Experiment
    from simulator.results import Result
    from simulator.simulation import run, trace

__all__ = ["Experiment", "InputError", "Result", "run", "trace"]

_HOME = {
    "Experiment": "experiment",
    "run": "simulation",
    "trace": "simulation",
    "Result": "results",
    "InputError": "checks",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that ``--help`` does not wait for NumPy."""
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
