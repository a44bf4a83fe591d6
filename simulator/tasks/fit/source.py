"""Where a fit or a validation takes its measured times from: traces, a table, or a trace summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simulator.checks import InputError, shown, text
from simulator.task import Progress
from simulator.tasks.trace_report.task import TraceReport
from simulator.traces.files import TABLES, Traces, find
from simulator.traces.summary import Summary, read_summary, summarise
from simulator.traces.tables import Columns
from simulator.traces.times_table import summary_of_times


def check_source(traces: Traces | None, summary: str | None) -> None:
    """Raise InputError unless one of the two is given."""
    if (traces is None) == (summary is None):
        both = "not both" if traces is not None else "neither is given"
        raise InputError("traces", f"(a folder) or summary (a trace_summary.json) must be given, one of them; {both}")
    if summary is not None:
        text("summary", summary)


def measured(
    traces: Traces | None,
    summary: str | None,
    report: TraceReport,
    progress: Progress | None,
) -> tuple[Summary, str]:
    """The summary of what was measured, and in words where it is from.

    Raises:
        InputError: for traces and summaries that cannot be used.
    """
    if summary is not None:
        path = Path(summary)
        return read_summary(path), _of(path.name)
    assert traces is not None
    report = replace(report, traces=traces)
    table = table_of_times(report)
    if table is None:
        found = summarise(report.find(progress))
    else:
        report.check_table()
        found = summary_of_times(table, report.table or Columns())
    given = list(traces) if isinstance(traces, list | tuple) else [traces]
    return found, f"{len(given)} files" if len(given) > 1 else _of(Path(str(given[0])).name)


def table_of_times(report: TraceReport) -> Path | None:
    """The one table that is given, where nothing says which of its columns are collectives; else None."""
    if report.table is not None and report.table.collectives:
        return None
    paths = find(report.traces)
    return paths[0] if len(paths) == 1 and paths[0].name.lower().endswith(TABLES) else None


def _of(name: str) -> str:
    """A file's name as it stands in text and YAML comments: on one line, without what could steer a terminal."""
    return shown(name)[1:-1]
