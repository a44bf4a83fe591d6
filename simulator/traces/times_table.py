"""Compute times alone, as a table: what a fit takes where there is no trace."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.lazy import pd
from simulator.traces.summary import FORMAT, VERSION, Block, Source, Summary, plain
from simulator.traces.table_files import read_table, seconds, whole_numbers
from simulator.traces.tables import Columns, joined

LEAST_TIME = 1e-6  # s: they are kept in whole nanoseconds
MOST_RANK = 10**6  # what is larger in a header is no rank, but a time of a table without header
SHOWN = 8  # columns in a sentence


def summary_of_times(path: Path, columns: Columns) -> Summary:
    """The summary of a table of compute times (CSV, Parquet), whose steps end at a barrier.

    A wide table has a row for each step and a column for each rank, called by its number, and may have a column of
    steps. A long one has the columns ``rank`` and ``step``, and ``duration`` or what ``computes`` names.

    Args:
        path: the table.
        columns: what its columns mean: ``rank``, ``step``, ``duration``, ``computes``, ``group``, ``instance`` (of a
            long table), ``unit`` and ``skip``.

    Raises:
        InputError: for a table that cannot be read, or has not a time for each step and rank.
    """
    from simulator.files.manifest import version_of

    for name in ("operation", "start"):
        if getattr(columns, name):
            raise InputError(
                f"table.{name}", "must be left out where table.collectives is: this is a table of compute times",
                getattr(columns, name),
            )  # fmt: skip
    frame = read_table(path, [])
    long = columns.rank in frame and columns.step in frame
    parts = _long(frame, columns, path) if long else [("group 0", *_wide(frame, columns, path))]
    if not parts:
        raise InputError("table", f"{path.name} must have rows; there is only a header")
    blocks = [_block(name, times[columns.skip :], ranks, columns, path) for name, times, ranks in parts]
    known = sorted({rank for block in blocks for rank in block.ranks})
    source = Source(
        simulator=version_of("scaleup-simulator") or "unknown", kind="table of compute times", files=1, ranks=known,
        world=None, kernels=0, dropped={}, left_out=0,
    )  # fmt: skip
    return Summary(
        format=FORMAT, version=VERSION, note="durations in ns by rank", source=source, blocks=blocks, collectives=[]
    )


def _block(group: str, times: Array, ranks: list[int], columns: Columns, path: Path) -> Block:
    if times.shape[1] < 2 or not len(times) or np.isnan(times).any():
        raise InputError(
            "table",
            f"{path.name} must have a time for each step and rank, at least 2 ranks, after skip = {columns.skip}; "
            f"it has {times.shape[0]} steps, {times.shape[1]} ranks and {int(np.isnan(times).sum())} missing times",
        )
    if times.max() < LEAST_TIME:
        raise InputError(
            "table",
            f"{path.name} must have times of {LEAST_TIME:g} s and more; the longest is {times.max():g} s: is "
            f"table.unit = {columns.unit:g} its unit, in seconds?",
        )
    whole = np.rint(times * 1e9).astype(np.int64).tolist()
    return Block(
        group=plain(group), block="compute", ranks=ranks, instances=len(whole), collective=list(range(len(whole))),
        busy=whole, gap=[], moments={},
    )  # fmt: skip


def _wide(frame: pd.DataFrame, columns: Columns, path: Path) -> tuple[Array, list[int]]:
    """Times by step and rank, and the ranks."""
    for key in ("group", "instance", "computes"):
        if getattr(columns, key):
            raise InputError(f"table.{key}", f"must be left out for a table with a column for each rank: {path.name}")
    names = [str(name) for name in frame.columns if name != columns.step]
    numbers = [[int(number[:10]) for number in re.findall(r"\d+", name)] for name in names]  # more digits are no rank
    forms = {re.sub(r"\d+", "#", name) for name in names}
    called = len(forms) == 1 and all(numbers) and not forms & {"#.#", "-#", "-#.#"}
    if not called or max(map(max, numbers)) >= MOST_RANK:
        have = ", ".join(repr(plain(name)) for name in names[:SHOWN]) + ", ..." * (len(names) > SHOWN)
        raise InputError(
            "table",
            f"{path.name} must have a header with a column for each rank, called alike but for its number (rank0, "
            f"rank1, ...), beside one of steps (table.step=COLUMN) if any; or columns {columns.rank!r} and "
            f"{columns.step!r} (table.rank=COLUMN, table.step=COLUMN); it has {have or 'no columns'}",
        )
    last = [own[-1] for own in numbers]
    order = sorted(range(len(names)), key=numbers.__getitem__)
    ranks = last if len(set(last)) == len(last) else [order.index(i) for i in range(len(names))]
    times = np.column_stack([seconds(frame[name], columns.unit, path) for name in frame if name != columns.step])
    if columns.step in frame:
        step = whole_numbers(frame[columns.step], path)
        if step.duplicated().any():
            again = step[step.duplicated()].iloc[0]
            raise InputError(
                "table",
                f"{path.name} must have one row per {columns.step}; {again} is there again: leave the column out "
                "where rows are in the order of time",
            )
        times = times[np.argsort(step.to_numpy(), kind="stable")]
    by_rank = np.argsort(ranks, kind="stable")
    return times[:, by_rank], [ranks[i] for i in by_rank]


def _long(frame: pd.DataFrame, columns: Columns, path: Path) -> list[tuple[str, Array, list[int]]]:
    """Of each process group its name, times by step and rank, and its ranks."""
    parts = [part for parts in (columns.computes or {}).values() for part in parts] or [columns.duration]
    for part in (*parts, *columns.group, *columns.instance):
        if part not in frame:
            have = ", ".join(plain(str(name)) for name in frame)
            raise InputError(
                "table",
                f"{path.name} has no column {part!r}; it has {have}: table.duration=COLUMN or "
                "table.computes={compute: [COLUMN, COLUMN]} says which are times",
            )
    keys = ["step", *(f"instance {i}" for i in range(len(columns.instance)))]
    table = pd.DataFrame({
        "rank": whole_numbers(frame[columns.rank], path), "step": whole_numbers(frame[columns.step], path),
        **dict(zip(keys[1:], (frame[name] for name in columns.instance), strict=True)),
        "group": joined(frame, columns.group) if columns.group else "group 0",
        "time": np.sum([seconds(frame[part], columns.unit, path) for part in parts], axis=0),
    })  # fmt: skip
    twice = table[table.duplicated(["group", "rank", *keys])]
    if len(twice):
        raise InputError(
            "table",
            f"{path.name} must have one row per {columns.step} and {columns.rank}; {twice['step'].iloc[0]} and "
            f"{twice['rank'].iloc[0]} are there again: table.group and table.instance name the columns that tell them "
            "apart",
        )
    found = []
    for name, own in table.groupby("group", sort=True):
        wide = own.pivot(index=keys, columns="rank", values="time").sort_index()
        found.append((str(name), wide.to_numpy(float), [int(rank) for rank in wide.columns]))
    return found
