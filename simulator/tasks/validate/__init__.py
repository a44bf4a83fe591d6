"""Simulated against measured: ``+experiment=validate``."""
