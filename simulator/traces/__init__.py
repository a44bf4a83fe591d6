"""Profiler traces: reading, matching across ranks, and the synchronization tax. The only place that knows Kineto."""

from simulator.traces.report import TraceReport
from simulator.traces.tables import Columns

__all__ = ["Columns", "TraceReport"]
