"""``+experiment=trace_report``: from the traces of a job to the tax of its collectives, and what may be said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.checks import InputError, count, instance, number, one_of, texts
from simulator.report import duration, percent
from simulator.results import write_csv
from simulator.task import Outcome, Progress, Task
from simulator.traces import measure, tables
from simulator.traces.align import Group, align
from simulator.traces.blocks import COLUMNS, between_collectives
from simulator.traces.files import TABLES, find
from simulator.traces.reader import LeftOut, read_job
from simulator.traces.trace import RankTrace

if TYPE_CHECKING:
    import pandas as pd

MOST_NOTES = 20


@dataclass(frozen=True)
class Findings:
    """What the traces of a job show: tables in seconds, one file each.

    Attributes:
        summary: one row per process group and operation (``measure.SUMMARY``).
        tax: one row per collective.
        blocks: one row per compute block and rank.
        block_summary: one row per group and kind of block.
        explanation: whether compute explains the wait, one row per group and operation.
        apart: tax and spread of compute of each collective that has a block before it.
        ranks: one row per file; empty for a table of operations.
        left_out: files that were not used.
    """

    summary: pd.DataFrame
    tax: pd.DataFrame
    blocks: pd.DataFrame
    block_summary: pd.DataFrame
    explanation: pd.DataFrame
    apart: pd.DataFrame
    ranks: pd.DataFrame
    left_out: Sequence[LeftOut] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        """Whether any tax was measured."""
        return bool(self.summary["status"].isin(["ok", "partial"]).any())

    def write(self, folder: Path) -> None:
        """Write all tables into an existing folder."""
        write_csv(self.summary, folder / "tax_summary.csv")
        self.tax.to_parquet(folder / "tax.parquet", index=False)
        self.blocks.to_parquet(folder / "blocks.parquet", index=False)
        write_csv(self.block_summary, folder / "block_summary.csv")
        write_csv(self.explanation, folder / "explanation.csv")
        if len(self.ranks):
            write_csv(self.ranks, folder / "ranks.csv")


@dataclass(frozen=True, kw_only=True)
class TraceReport(Task):
    """Measures the synchronization tax in profiler traces, one file per rank, or in a table of operations.

    Attributes:
        name: name of the experiment.
        traces: a folder, a file, a pattern, or a list of these.
        table: what the columns mean, where ``traces`` is a table.
        ranks: the rank of each file in the order of their names, where the files do not say.
        broken: what to do about a broken file and a rank that is claimed twice: ``stop``, ``skip`` the file, or
            ``keep`` its whole events.
        tolerance: how far the ends of one collective may lie apart after clock offsets, seconds.
        collective_kernels: parts of the names of further kernels that move data between ranks.
        most_bytes: size of an unpacked file above which it is broken.
        workers: processes that read; None takes one for each processor.
    """

    name: str
    traces: str | Sequence[str]
    table: tables.Columns | None = None
    ranks: Sequence[int] | None = None
    broken: str = "stop"
    tolerance: float = 100e-6
    collective_kernels: Sequence[str] = ()
    most_bytes: int = 2**32
    workers: int | None = None

    def __post_init__(self) -> None:
        one_of("broken", self.broken, ["stop", "skip", "keep"])
        number("tolerance", self.tolerance, least=0, below=1e3)
        texts("collective_kernels", self.collective_kernels)
        count("most_bytes", self.most_bytes)
        if self.table is not None:
            instance("table", self.table, tables.Columns)
        if self.workers is not None:
            count("workers", self.workers)
        for rank in [] if self.ranks is None else self.ranks:
            count("ranks", rank, least=0)

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
                    "traces must be one table, with table.collectives={all_reduce: COLUMN} and the other keys of "
                    "table, or traces ending in .json or .json.gz"
                )
            groups, blocks = tables.read(paths[0], self.table, tolerance)
            return _findings(groups, blocks)
        traces, left_out = read_job(
            paths, ranks=self.ranks, more=self.collective_kernels, broken=self.broken, most_bytes=self.most_bytes,
            workers=self.workers, progress=progress,
        )  # fmt: skip
        if not traces:
            raise InputError(f"traces hold no file that can be used; {left_out[0].reason}")
        groups = align(traces, tolerance)
        return _findings(groups, _blocks(groups, traces), traces, left_out)

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        findings = self.find(progress)
        findings.write(folder)
        return Outcome(f"{self.name}: {text(findings)}", findings.usable)


def _blocks(groups: Sequence[Group], traces: Sequence[RankTrace]) -> pd.DataFrame:
    import pandas as pd

    by_rank = {trace.rank: trace for trace in traces}
    parts = [part for group in groups if len(part := between_collectives(group, by_rank))]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))


def _findings(
    groups: Sequence[Group], blocks: pd.DataFrame, traces: Sequence[RankTrace] = (), left_out: Sequence[LeftOut] = ()
) -> Findings:
    import pandas as pd

    tax = measure.tax_table(groups)
    apart = measure.spreads(tax, blocks)
    return Findings(
        summary=measure.summary_table(groups, tax),
        tax=tax,
        blocks=blocks,
        block_summary=measure.block_table(blocks),
        explanation=measure.explanation_table(apart),
        apart=apart,
        ranks=pd.DataFrame([_rank_row(trace) for trace in traces]),
        left_out=left_out,
    )


def _rank_row(trace: RankTrace) -> dict[str, Any]:
    dropped = "; ".join(f"{times} {reason}" for reason, times in sorted(trace.dropped.items()))
    steps, silent = trace.steps
    return {
        "rank": trace.rank, "file": trace.path.name, "world": trace.world, "kernels": trace.kernels,
        "collectives": len(trace.collectives), "span": trace.span / 1e9, "steps": steps,
        "steps_without_kernels": silent, "dropped": dropped, "notes": "; ".join(trace.notes),
    }  # fmt: skip


def text(findings: Findings) -> str:
    """The findings to print, 80 columns wide where names are short."""
    lines = [_origin(findings)]
    if findings.usable:
        lines += ["", *_grid(_tax_rows(findings.summary))]
        lines += ["", *_stragglers(findings.summary)]
    if len(findings.explanation):
        lines += ["", *_grid(_explanation_rows(findings.explanation))]
    if len(findings.block_summary):
        lines += ["", *_grid(_block_rows(findings.block_summary))]
    notes = list(_notes(findings))
    more = [f"and {len(notes) - MOST_NOTES} more in the tables"] if len(notes) > MOST_NOTES else []
    whole = "\n".join([*lines, "", *notes[:MOST_NOTES], *more]).rstrip()
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in whole)  # a file's name may hold anything


def _origin(findings: Findings) -> str:
    summary, ranks = findings.summary, findings.ranks
    measured = int(summary["collectives"].sum())
    groups = summary["group"].nunique()
    what = f"{measured:,} collectives measured, in {groups} process group{'s' * (groups != 1)}"
    if not findings.usable:
        what = "no tax can be given" if len(summary) else "no collectives, so no tax"
    if not len(ranks):
        return what
    world = ranks["world"].dropna()
    of = f" of {int(world.iloc[0])}" if len(world) else ""
    kernels = int(ranks["kernels"].sum())
    return f"traces of {len(ranks)}{of} rank{'s' * (len(ranks) > 1 or bool(of))}, {kernels:,} GPU kernels; {what}"


def _tax_rows(summary: pd.DataFrame) -> Iterator[Sequence[str]]:
    yield "group", "operation", "ranks", "count", "tax: fastest", "p99", "median rank", "share", "status"
    for row in summary[summary["status"] != "refused"].to_dict("records"):
        yield (
            row["group"], row["operation"], str(row["ranks"]), f"{row['collectives']:,}",
            duration(row["tax_fastest_mean"]), duration(row["tax_fastest_p99"]), duration(row["tax_median_mean"]),
            percent(row["tax_share"]), row["status"],
        )  # fmt: skip


def _stragglers(summary: pd.DataFrame) -> Iterator[str]:
    for row in summary[summary["status"] != "refused"].to_dict("records"):
        repeats = round(row["straggler_repeat_rate"] * row["collectives"])
        chance = measure.persistence(repeats, row["collectives"], row["ranks"])
        verdict = "persistent" if chance < 0.01 else "no more than chance would have it"
        yield (
            f"{row['group']}, {row['operation']}: rank {row['straggler']} is last in {repeats:,} of "
            f"{row['collectives']:,} ({verdict}, p {'<' if chance < 1e-4 else '='} {max(chance, 1e-4):.2g})"
        )


def _explanation_rows(explanation: pd.DataFrame) -> Iterator[Sequence[str]]:
    yield "does compute explain the wait?", "tax", "GPU work apart", "corr.", "gap apart", "corr.", "cause"
    for row in explanation.to_dict("records"):
        yield (
            f"{row['group']}, {row['operation']}", duration(row["tax_fastest_mean"]),
            *_apart(row, "busy"), *_apart(row, "gap"), row["cause"],
        )  # fmt: skip


def _apart(row: Mapping[str, Any], what: str) -> tuple[str, str]:
    spread, correlation = row[f"{what}_spread"], row[f"{what}_correlation"]
    return "" if isnan(spread) else duration(spread), "" if isnan(correlation) else f"{correlation:.2f}"


def _block_rows(blocks: pd.DataFrame) -> Iterator[Sequence[str]]:
    yield "compute blocks", "ranks", "blocks", "gap", "GPU busy", "GEMM", "variation over ranks"
    for row in blocks.to_dict("records"):
        means = [
            "" if isnan(row[f"{name}_mean"]) else duration(row[f"{name}_mean"]) for name in ("gap", "busy", "gemm")
        ]
        variation = "" if isnan(row["busy_cv"]) else percent(row["busy_cv"])
        yield f"{row['group']}, {row['block']}", str(row["ranks"]), f"{row['blocks']:,}", *means, variation


def _notes(findings: Findings) -> Iterator[str]:
    """What a reader must know: what was refused, left out or dropped."""
    for row in findings.summary[findings.summary["reason"] != ""].to_dict("records"):
        yield f"{row['group']}, {row['operation']}: {row['status']}: {row['reason']}"
    for left_out in findings.left_out:
        yield f"left out {left_out.path.name}: {left_out.reason}"
    for row in findings.ranks.to_dict("records"):
        said = [row["notes"]] if row["notes"] else []
        said += [f"dropped {row['dropped']}"] if row["dropped"] else []
        if not row["kernels"]:
            said.append("no GPU kernels")
        elif not row["collectives"]:
            said.append(f"{row['kernels']:,} GPU kernels, none of them a known collective (collective_kernels=[PART])")
        if row["kernels"] and row["steps_without_kernels"] > 0:
            said.append(f"{row['steps_without_kernels']} of {row['steps']} profiler steps hold no kernel")
        if said:
            yield f"rank {row['rank']} ({row['file']}): {'; '.join(said)}"


def _grid(rows: Iterator[Sequence[str]]) -> list[str]:
    """Rows of text as lines, columns aligned: the first to the left, others to the right."""
    cells = [list(row) for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return [
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                  for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in cells
    ]  # fmt: skip
