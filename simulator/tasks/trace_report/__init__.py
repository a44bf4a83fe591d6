"""``+experiment=trace_report``: the synchronization tax in profiler traces."""
