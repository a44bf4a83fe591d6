"""What the traces of a job show: all tables of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.files.tables import write_csv
from simulator.lazy import pd
from simulator.traces import measure
from simulator.traces.align import Group
from simulator.traces.pairs import pair_table
from simulator.traces.ranks import LeftOut
from simulator.traces.trace import RankTrace
from simulator.traces.waiting import Waiting


@dataclass(frozen=True)
class Findings:
    """What the traces of a job show: tables in seconds, one file each.

    Attributes:
        summary: one row per process group and operation (``measure.SUMMARY``).
        stragglers: what each rank costs the others (``measure.straggler_table``).
        tax: one row per collective.
        blocks: one row per compute block and rank.
        block_summary: one row per group and kind of block.
        explanation: whether compute explains the wait, one row per group and operation.
        apart: tax and spread of compute of each collective that has a block before it.
        pairs: waits of sends and receives, one row per sender and receiver (``pairs.pair_table``).
        ranks: one row per file; empty for a table of operations.
        groups: process groups with the durations of their collectives by rank.
        dropped: kernels that could not be used, by reason.
        left_out: files that were not used.
        notes: how files were taken for ranks and windows.
        waiting: kernels that no name says are collectives, but that behave like some, or hint at it.
    """

    summary: pd.DataFrame
    stragglers: pd.DataFrame
    tax: pd.DataFrame
    blocks: pd.DataFrame
    block_summary: pd.DataFrame
    explanation: pd.DataFrame
    apart: pd.DataFrame
    pairs: pd.DataFrame
    ranks: pd.DataFrame
    groups: Sequence[Group] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()
    notes: Sequence[str] = ()
    waiting: Sequence[Waiting] = ()

    @property
    def usable(self) -> bool:
        """Whether any tax was measured, or waits of pairs of ranks."""
        return bool(self.summary["status"].isin(["ok", "partial"]).any()) or len(self.pairs) > 0

    def write(self, folder: Path) -> None:
        """Write all tables into an existing folder."""
        write_csv(self.summary, folder / "tax_summary.csv")
        write_csv(measure.overall(self.summary, self.tax, len(self.pairs)), folder / "summary.csv")
        write_csv(self.stragglers, folder / "stragglers.csv")
        self.tax.to_parquet(folder / "tax.parquet", index=False)
        self.blocks.to_parquet(folder / "blocks.parquet", index=False)
        write_csv(self.block_summary, folder / "block_summary.csv")
        write_csv(self.explanation, folder / "explanation.csv")
        if len(self.pairs):
            write_csv(self.pairs, folder / "pairs.csv")
        if len(self.ranks):
            write_csv(self.ranks, folder / "ranks.csv")


def findings_of(
    groups: Sequence[Group], blocks: pd.DataFrame, tolerance: int, traces: Sequence[RankTrace] = (),
    left_out: Sequence[LeftOut] = (), notes: Sequence[str] = (), waiting: Sequence[Waiting] = (),
) -> Findings:  # fmt: skip
    tax, stragglers = measure.tax_table(groups), measure.straggler_table(groups)
    leading = {(group.name, operation) for group in groups for operation in group.leading}
    after = [key not in leading for key in zip(tax["group"], tax["operation"], strict=True)]
    apart = measure.ranges(tax[after], blocks)
    return Findings(
        summary=measure.summary_table(groups, tax, stragglers),
        stragglers=stragglers,
        tax=tax,
        blocks=blocks,
        block_summary=measure.block_table(blocks),
        explanation=measure.explanation_table(apart, certain=not any(one.hides for one in waiting)),
        apart=apart,
        pairs=pair_table([group for group in groups if group.kernels], tolerance),
        ranks=pd.DataFrame([_rank_row(trace) for trace in traces]),
        groups=groups,
        dropped=sum((Counter(trace.dropped) for trace in traces), Counter()),
        left_out=left_out,
        notes=notes,
        waiting=waiting,
    )


def _rank_row(trace: RankTrace) -> dict[str, Any]:
    dropped = "; ".join(f"{times} {reason}" for reason, times in sorted(trace.dropped.items()))
    steps, silent = trace.steps
    return {
        "rank": trace.rank, "file": trace.file, "world": trace.world, "kernels": trace.kernels,
        "collectives": len(trace.collectives), "span": trace.span / 1e9, "steps": steps,
        "steps_without_kernels": silent, "dropped": dropped, "notes": "; ".join(trace.notes),
    }  # fmt: skip
