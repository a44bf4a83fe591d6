"""Simulated against measured: ``+experiment=validate``."""

from simulator.validation.task import Validate

__all__ = ["Validate"]
