"""Plain tables of operations (CSV, Parquet): what was not recorded as a profiler trace, by naming its columns.

A long table has a row per operation, with a column that says which; a wide one a row per rank and step, with a column
of durations for each operation. Which rows belong to the same collective is said by the table itself, so nothing has to
be matched; where there are start times, ends are checked as in traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from simulator.arrays import Times
from simulator.checks import Checked, InputError, Positive, Rule, keep, mapping, texts
from simulator.lazy import pd
from simulator.traces.align import (
    LEAST_SAID,
    MOST_NAMED,
    NEAR_TAX,
    OF_TAX,
    Group,
    Status,
    Verdict,
    duration,
    named,
    typical_wait,
)
from simulator.traces.match import LEAST, LEAST_DRIFT, MOST_DRIFT, Clock
from simulator.traces.table_blocks import blocks_of
from simulator.traces.table_files import moments, read_table, seconds, whole_numbers


@dataclass(frozen=True, kw_only=True)
class Columns(Checked):
    """What the columns of a table mean.

    Attributes:
        rank: column with the rank.
        step: column with the step (iteration).
        operation: column that says which operation a row is; None for a wide table.
        start: column with start times; None where there are none, and ends cannot be checked.
        duration: column with durations, of a long table.
        group: columns that tell process groups apart; none for a single group.
        instance: columns that tell operations of one step apart; empty for one of each per step.
        unit: seconds per unit of start and duration.
        skip: leading steps to leave out (warm-up).
        collectives: name -> operations (columns of a wide table) that are this collective.
        computes: name -> operations (columns) whose durations add up to this compute block; all blocks of a step are
            held against each of its collectives.
    """

    rank: str = "rank"
    step: str = "step"
    operation: str | None = None
    start: str | None = None
    duration: str = "duration"
    group: str | Sequence[str] = ()
    instance: str | Sequence[str] = ()
    unit: Positive = 1.0
    skip: Annotated[int, Rule(least=0)] = 0
    collectives: Mapping[str, Any] | None = None
    computes: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, group=texts("group", self.group), instance=texts("instance", self.instance))
        for name in ("collectives", "computes"):
            given = mapping(name, getattr(self, name) or {})
            keep(self, **{name: {what: texts(f"{name}.{what}", parts) for what, parts in given.items()}})

    @property
    def operations(self) -> dict[str, tuple[str, ...]]:
        """Collectives and computes: name -> operations of the table, or its columns."""
        return {**(self.collectives or {}), **(self.computes or {})}


def read(path: Path, columns: Columns, tolerance: int) -> tuple[list[Group], pd.DataFrame]:
    """The process groups of a table, and its compute blocks in the columns of ``blocks.COLUMNS``.

    Args:
        path: CSV (also gzip) or Parquet.
        columns: what its columns mean.
        tolerance: how far the ends of a collective may lie apart, ns, after clock offsets.

    Raises:
        InputError: for a table that cannot be read, that lacks a column, or whose rows are not told apart.
    """
    table = _long(read_table(path, _needed(columns)), columns, path)
    table["label"] = _labels(table, columns)
    ranks = {name: tuple(sorted(own.unique().tolist())) for name, own in table.groupby("group")["rank"]}
    groups = [
        _group(name, operations, ranks[name], columns, tolerance, path)
        for name, operations in table[table["what"].isin(columns.collectives or {})].groupby("group", sort=True)
    ]  # fmt: skip
    if not groups:
        raise InputError("table", f"{path.name} has no row of {', '.join(columns.collectives or {})}")
    if columns.start is not None:
        table["end"] = table["start"] + table["duration"]
        groups = [_placed(group, table[table["group"] == group.name], columns) for group in groups]
    timed = columns.start is not None and columns.operation is not None
    blocks, left_out = blocks_of(table, table["what"].isin(columns.computes or {}), ranks, timed)
    return [_and_left_out(group, left_out.get(group.name, 0)) for group in groups], blocks


def _placed(group: Group, rows: pd.DataFrame, columns: Columns) -> Group:
    """The group with what start times say of its collectives and the compute of their step.

    Those that begin before it, in most steps and on most ranks, lead. To others ranks come when it is over; where this
    is longer ago than they wait, something else between may be what they wait in, and the verdict says so.
    """
    own = rows[rows["what"].isin(columns.computes or {})].groupby(["step", "rank"])
    if not len(own):
        return group
    begin, end = own["start"].min(), own["end"].max()
    leading, verdicts = set(), []
    for verdict in group.verdicts:
        start = rows[rows["what"] == verdict.operation].groupby(["step", "rank"])["start"].min()
        later = (start - end).dropna().median()
        waits = np.ptp(group.duration[group.operation == verdict.operation], axis=1)
        if (begin - start).dropna().gt(0).mean() > 0.5:
            leading.add(verdict.operation)
        elif len(waits) and later > waits.mean():
            told = f"ranks come to it {duration(int(later))} after the end of their compute, and may wait in between"
            verdict = replace(verdict, reason="; ".join(filter(None, [verdict.reason, told])))
        verdicts.append(verdict)
    return replace(group, leading=frozenset(leading), verdicts=tuple(verdicts))


def _labels(table: pd.DataFrame, columns: Columns) -> pd.Series:
    """What collectives and the blocks before them are called: their step, or a number for each instance of both."""
    own = table["what"].isin(columns.collectives or {})
    keys = pd.Series(list(zip(table["group"], table["key"], strict=True)), index=table.index)
    if columns.instance and set(keys[own]) <= set(keys[~own]):
        return pd.Series(pd.factorize(table["key"])[0], index=table.index)
    return table["step"]


def _needed(columns: Columns) -> list[str]:
    parts = [part for parts in columns.operations.values() for part in parts]
    needed = [columns.rank, columns.step, *columns.group, *columns.instance]
    needed += parts if columns.operation is None else [columns.operation, columns.duration]
    return needed + ([] if columns.start is None else [columns.start])


def _long(frame: pd.DataFrame, columns: Columns, path: Path) -> pd.DataFrame:
    """Rows of rank, step, group, what, key (of step and instance), start and duration in ns."""
    rank, step = (whole_numbers(frame[name], path) for name in (columns.rank, columns.step))
    shared = pd.DataFrame({
        "rank": rank, "step": step,
        "group": joined(frame, columns.group),
        "key": list(zip(frame[columns.step], *(frame[name] for name in columns.instance), strict=True)),
    })  # fmt: skip
    start = None if columns.start is None else moments(frame[columns.start], columns.unit, path)
    parts = []
    for what, names in columns.operations.items():
        if columns.operation is None:
            times = sum(_ns(frame[name], columns, path) for name in names)
            parts.append(shared.assign(what=what, duration=times, start=0 if start is None else start))
            continue
        rows = frame[columns.operation].astype(str).isin(names).to_numpy()
        times = _ns(frame[columns.duration][rows], columns, path)
        parts.append(shared[rows].assign(what=what, duration=times, start=0 if start is None else start[rows]))
    table = pd.concat(parts, ignore_index=True)
    skipped = np.sort(table["step"].unique())[: columns.skip]
    return table[~table["step"].isin(skipped)].sort_values(["step", "start"], kind="stable", ignore_index=True)


def joined(frame: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """What process groups are called, from the columns that tell them apart."""
    parts = [name + " " + frame[name].astype(str) for name in names]
    joined = parts[0] if parts else pd.Series("all ranks", index=frame.index)
    for part in parts[1:]:
        joined = joined + ", " + part
    return joined


def _ns(values: pd.Series, columns: Columns, path: Path) -> Times:
    return np.rint(seconds(values, columns.unit, path) * 1e9).astype(np.int64)


def _group(
    name: str, rows: pd.DataFrame, ranks: tuple[int, ...], columns: Columns, tolerance: int, path: Path
) -> Group:  # fmt: skip
    parts = [
        _collective(what, rows[rows["what"] == what], ranks, columns, tolerance, path)
        for what in columns.collectives or {} if (rows["what"] == what).any()
    ]  # fmt: skip
    timed = columns.start is not None
    lengths = [len(length) for _, _, length, _ in parts]
    return Group(
        name=name,
        ranks=ranks,
        verdicts=tuple(verdict for verdict, *_ in parts),
        operation=np.repeat([verdict.operation for verdict, *_ in parts], lengths),
        bytes=np.full(sum(lengths), -1),
        start=np.concatenate([start for _, start, _, _ in parts]) if timed else np.zeros((0, len(ranks)), np.int64),
        duration=np.concatenate([length for _, _, length, _ in parts]),
        places=np.zeros((0, len(ranks)), np.int64),
        label=np.concatenate([label for *_, label in parts]),
    )


def _collective(
    what: str, rows: pd.DataFrame, ranks: Sequence[int], columns: Columns, tolerance: int, path: Path
) -> tuple[Verdict, Times, Times, Times]:
    """Verdict, starts, durations and steps of one operation of a group; rows are collectives, columns ranks."""
    lengths, starts = (_wide(rows, name, path) for name in ("duration", "start"))
    whole = lengths.notna().all(axis=1).to_numpy() & (lengths.shape[1] == len(ranks))
    length = lengths[whole].to_numpy(np.int64).reshape(-1, lengths.shape[1])
    start = starts[whole].to_numpy(np.int64).reshape(length.shape)
    known = dict(zip(rows["key"], rows["label"], strict=True))
    label = np.array([known[key] for key in lengths.index[whole]], np.int64)
    nothing = np.zeros((0, len(ranks)), np.int64), np.zeros((0, len(ranks)), np.int64), np.zeros(0, np.int64)
    if len(ranks) < 2:
        return Verdict(what, "refused", f"only rank {ranks[0]} is in the table; a tax needs two"), *nothing
    silent = [rank for rank in ranks if rank not in lengths]
    if silent:
        return Verdict(what, "refused", f"{named(silent)} of the table: no row of it"), *nothing
    if not whole.any():
        return Verdict(what, "refused", "no step has it on every rank"), *nothing
    together = np.ones(len(length), bool)
    reasons = ["no start times: ends not checked"]
    if columns.start is not None:
        start, together, reasons = _checked(start, length, ranks, tolerance)
    if 2 * together.sum() < len(together):
        return Verdict(what, "refused", "; ".join(reasons)), *nothing
    if not whole.all():
        reasons.insert(0, f"{int(whole.sum())} of {len(whole)} are on every rank")
    status: Status = "ok" if whole.all() and together.all() else "partial"
    return Verdict(what, status, "; ".join(reasons)), start[together], length[together], label[together]


def _wide(rows: pd.DataFrame, value: str, path: Path) -> pd.DataFrame:
    """One row per instance, one column per rank."""
    try:
        return rows.pivot(index="key", columns="rank", values=value)
    except ValueError:
        twice = rows[rows.duplicated(["key", "rank"])].iloc[0]
        raise InputError(
            "table",
            f"{path.name} has {twice['what']} more than once at step {twice['step']} of rank {twice['rank']}; "
            f"table.group and table.instance name the columns that tell them apart",
        ) from None


def _checked(start: Times, length: Times, ranks: Sequence[int], tolerance: int) -> tuple[Times, Any, list[str]]:
    """Starts after clock offsets, which collectives end together, and what to say."""
    ends = start + length
    apart = ends - np.rint(np.median(ends, axis=1, keepdims=True)).astype(np.int64)
    offsets = np.rint(np.median(apart, axis=0)).astype(np.int64)
    if len(ends) < LEAST or np.ptp(offsets) <= tolerance:
        offsets = np.zeros_like(offsets)
    clocks = [Clock(int(offset)) for offset in offsets]
    ahead = np.zeros_like(ends) + offsets
    if (np.ptp(ends - ahead, axis=1) > tolerance).any() and len(ends) >= LEAST_DRIFT:
        order = np.argsort(ends[:, 0], kind="stable")
        lines = [Clock.drifting(*columns) for columns in zip(ends[order].T, apart[order].T, strict=True)]
        drifted = np.column_stack([line.ahead(end) for line, end in zip(lines, ends.T, strict=True)])
        near, nearer = (int((np.ptp(ends - by, axis=1) <= tolerance).sum()) for by in (ahead, drifted))
        if nearer >= near + 2 and all(abs(line.rate) <= MOST_DRIFT for line in lines):
            clocks, ahead = lines, drifted
    spread = np.ptp(ends - ahead, axis=1)
    wide = int(OF_TAX * typical_wait(length))
    limit = wide if (spread <= wide).sum() > (spread <= tolerance).sum() else tolerance
    together = spread <= limit
    reasons = [NEAR_TAX] if limit > tolerance else []
    of_clocks = [
        f"clock set right of rank {rank} ({duration(abs(clock.offset))} {'ahead' if clock.offset > 0 else 'behind'})"
        for rank, clock in zip(ranks, clocks, strict=True)
        if abs(clock.offset) > limit
    ]
    of_clocks += [
        f"clock of rank {rank} drifts by {clock.rate * 1e6:.3g} ppm"
        for rank, clock in zip(ranks, clocks, strict=True)
        if abs(clock.rate) > LEAST_SAID
    ]
    more = len(of_clocks) - MOST_NAMED
    reasons += [*of_clocks[:MOST_NAMED], *([f"and {more} more of clocks"] if more > 0 else [])]
    if not together.all():
        reasons.insert(0, f"{int((~together).sum())} of {len(together)} ends do not agree: they differ by up to "
                          f"{duration(int(spread.max()))} (tolerance {duration(limit)})")  # fmt: skip
    return start - ahead, together, reasons


def _and_left_out(group: Group, left_out: int) -> Group:
    """The group with how many compute blocks it lacks."""
    if not left_out:
        return group
    told = f"{left_out} compute blocks are left out: rows of some rank are missing"
    verdicts = [
        verdict if verdict.status == "refused"
        else replace(verdict, status="partial", reason="; ".join(filter(None, [verdict.reason, told])))
        for verdict in group.verdicts
    ]  # fmt: skip
    return replace(group, verdicts=tuple(verdicts))
