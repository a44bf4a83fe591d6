"""Profiler traces: reading, matching across ranks, and the synchronization tax. The only place that knows Kineto."""

from simulator.names import refuse

__getattr__ = refuse(__name__)
