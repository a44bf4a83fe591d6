"""``+experiment=trace_report``: from the traces of a job to the tax of its collectives, and what may be said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from simulator.checks import InputError, Rule, count
from simulator.files.tables import write_csv
from simulator.lazy import pd
from simulator.pictures.draw import undrawn, write_pictures
from simulator.task import Outcome, Progress, Task
from simulator.tasks.trace_report import words
from simulator.tasks.trace_report.page import page
from simulator.tasks.trace_report.pictures import pictures
from simulator.tasks.trace_report.sizes import tax_by_size
from simulator.traces import tables
from simulator.traces.align import Group, align, clocks_of
from simulator.traces.blocks import COLUMNS, between_collectives
from simulator.traces.files import TABLES, Traces, find
from simulator.traces.findings import Findings, findings_of
from simulator.traces.ranks import Job
from simulator.traces.reader import read_job
from simulator.traces.summary import summarise, write_summary
from simulator.traces.trace import RankTrace
from simulator.traces.waiting import Waiting, as_collectives, unnamed


@dataclass(frozen=True, kw_only=True)
class TraceReport(Task):
    """Measures the synchronization tax in profiler traces, one file per rank, or in a table of operations.

    Its fields are the keys of ``conf/task/trace_report.yaml``, which says what each means.
    """

    name: str
    traces: Traces
    table: tables.Columns | None = None
    ranks: Sequence[Annotated[int, Rule(least=0)]] | None = None
    broken: Literal["stop", "skip", "keep"] = "stop"
    tolerance: Annotated[float, Rule(least=0, below=1e3)] = 100e-6
    collective_kernels: Sequence[str] = ()
    most_bytes: Annotated[int, Rule(least=1)] = 2**32
    workers: Annotated[int, Rule(least=1)] | None = None
    names_in_summary: bool = False
    window: Annotated[int, Rule(least=1)] | None = None
    gloo: bool = False

    def find(self, progress: Progress | None = None) -> Findings:
        """Read, match and measure.

        Raises:
            InputError: for files that are missing, broken, of different jobs or that claim a rank twice.
        """
        paths = find(self.traces)
        tolerance = round(self.tolerance * 1e9)
        if any(path.name.lower().endswith(TABLES) for path in paths):
            if len(paths) > 1 or self.table is None or not self.table.collectives:
                raise InputError(
                    "traces",
                    "must be one table, with table.collectives={all_reduce: COLUMN} and the other keys of "
                    "table, or traces ending in .json or .json.gz",
                )
            self.check_table()
            return findings_of(*tables.read(paths[0], self.table, tolerance), tolerance)
        job = read_job(
            paths, ranks=self.ranks, more=self.collective_kernels, broken=self.broken, most_bytes=self.most_bytes,
            workers=self.workers, gloo=self.gloo, progress=progress,
        )  # fmt: skip
        if not any(job.windows):
            raise InputError("traces", f"hold no file that can be used; {job.left_out[0].reason}")
        chosen, notes = self._chosen(job)
        groups: list[Group] = []
        blocks: list[pd.DataFrame] = []
        traces: list[RankTrace] = []
        waiting: list[Waiting] = []
        for name, window in chosen:
            own, measured, found = _matched(window, tolerance)
            own = [replace(group, name=f"{name}{group.name}") for group in own]
            groups += own
            blocks.append(_blocks(own, measured))
            traces += measured
            waiting += [replace(one, where=name) for one in found]
        table = pd.concat([part for part in blocks if len(part)] or blocks[:1], ignore_index=True)
        return findings_of(groups, table, tolerance, traces, job.left_out, notes, waiting)

    def check_table(self) -> None:
        """Raise InputError for a key that is of profiler traces alone."""
        for name in ("ranks", "window", "gloo", "collective_kernels"):
            if getattr(self, name):
                raise InputError(name, "must be left out for a table; it is of profiler traces", getattr(self, name))

    def _chosen(self, job: Job) -> tuple[list[tuple[str, Sequence[RankTrace]]], list[str]]:
        """The windows to measure, with what goes before the names of their process groups; and notes."""
        several = len(job.windows) > 1
        windows = [(f"window {i}, ", window) for i, window in enumerate(job.windows, 1)]
        which = "each measured; window=1 measures the first alone"
        if self.window is not None:
            place = count("window", self.window, most=len(windows)) - 1
            windows, which = [("", windows[place][1])], f"window {self.window} alone"
        elif not several:
            windows = [("", job.windows[0])]
        told = f"{len(job.windows)} profiling windows, in the order of the files' names: {which}"
        return windows, [*job.notes, *([told] if several else [])]

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        findings = self.find(progress)
        findings.write(folder)
        write_csv(tax_by_size(findings.groups), folder / "tax_by_size.csv")
        write_summary(summarise(findings, self.names_in_summary), folder / "trace_summary.json")
        names: list[str] = []

        def draw() -> None:
            shown = pictures(findings)
            write_pictures(shown, folder)
            names.extend(picture.name for picture in shown)

        wrong = undrawn(draw)
        images = [folder / f"{name}.png" for name in names]
        whole = page(
            f"Synchronization tax: {self.name}",
            words.lead(findings),
            words.tables(findings),
            words.lines(findings),
            images,
        )
        (folder / "report.html").write_text(whole, encoding="utf-8")
        return Outcome(f"{self.name}: {words.text(findings)}", findings.usable).lacking(wrong)


def _matched(traces: Sequence[RankTrace], tolerance: int) -> tuple[list[Group], Sequence[RankTrace], list[Waiting]]:
    """Process groups, traces and kernels that wait; those that behave like collectives are among the traces' own."""
    groups = align(traces, tolerance)
    waited = sum(
        int(own.duration.sum() - own.duration.min(axis=1).sum() * len(own.ranks)) for own in groups if own.timed
    )
    waiting = unnamed(traces, tolerance, clocks_of(groups), waited)
    behaving = [found for found in waiting if found.ranks or found.hides]
    if behaving:
        traces = as_collectives(traces, behaving)
        groups = align(traces, tolerance, doubtful=any(found.hides for found in behaving))
    return groups, traces, waiting


def _blocks(groups: Sequence[Group], traces: Sequence[RankTrace]) -> pd.DataFrame:
    by_rank = {trace.rank: trace for trace in traces}
    parts = [part for group in groups if len(part := between_collectives(group, by_rank))]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))
