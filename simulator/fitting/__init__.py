"""From measured compute blocks to a law of compute times: ``+experiment=fit``."""

from simulator.fitting.task import FitLaw

__all__ = ["FitLaw"]
