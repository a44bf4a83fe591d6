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
from simulator.traces.tables import Columns


def summary_of_times(path: Path, columns: Columns) -> Summary:
    """The summary of a table of compute times (CSV, Parquet), whose steps end at a barrier.

    A wide table has a row for each step and a column for each rank, and may have a column of steps. A long one has the
    columns ``rank`` and ``step``, and ``duration`` or what ``computes`` names.

    Args:
        path: the table.
        columns: what its columns mean: ``rank``, ``step``, ``duration``, ``computes``, ``unit`` and ``skip``.

    Raises:
        InputError: for a table that cannot be read, or has not a time for each step and rank.
    """
    from simulator.files.manifest import version_of

    frame = read_table(path, [])
    long = columns.rank in frame and columns.step in frame
    times, ranks = _long(frame, columns, path) if long else _wide(frame, columns, path)
    times = times[columns.skip :]
    if times.shape[1] < 2 or not len(times) or np.isnan(times).any():
        raise InputError(
            "table",
            f"{path.name} must have a time for each step and rank, at least 2 ranks, after skip = {columns.skip}; "
            f"it has {times.shape[0]} steps, {times.shape[1]} ranks and {int(np.isnan(times).sum())} missing times",
        )
    whole = np.rint(times * 1e9).astype(np.int64).tolist()
    block = Block(
        group="group 0", block="compute", ranks=ranks, instances=len(whole), collective=list(range(len(whole))),
        busy=whole, gap=[], moments={},
    )  # fmt: skip
    source = Source(
        simulator=version_of("scaleup-simulator") or "unknown", kind="table of compute times", files=1, ranks=ranks,
        world=None, kernels=0, dropped={}, left_out=0,
    )  # fmt: skip
    return Summary(
        format=FORMAT, version=VERSION, note="durations in ns by rank", source=source, blocks=[block], collectives=[]
    )


def _wide(frame: pd.DataFrame, columns: Columns, path: Path) -> tuple[Array, list[int]]:
    names = [str(name) for name in frame.columns if name != columns.step]
    for name in names:
        if frame[name].dtype.kind not in "iufm":
            raise InputError(
                "table",
                f"{path.name} must have a column of times for each rank, and one of steps called {columns.step!r} "
                f"if any, or columns {columns.rank!r} and {columns.step!r}; column {plain(name)!r} holds no numbers",
            )
    numbers = [re.findall(r"\d+", name) for name in names]
    found = [int(own[-1]) if own and len(own[-1]) < 10 else -1 for own in numbers]
    ranks = found if len(set(found)) == len(found) and min(found, default=-1) >= 0 else list(range(len(names)))
    times = np.column_stack([seconds(frame[name], columns.unit, path) for name in names]) if names else np.empty((0, 0))
    order = np.argsort(ranks, kind="stable")
    return times[:, order], [ranks[i] for i in order]


def _long(frame: pd.DataFrame, columns: Columns, path: Path) -> tuple[Array, list[int]]:
    parts = [part for parts in (columns.computes or {}).values() for part in parts] or [columns.duration]
    for part in parts:
        if part not in frame:
            have = ", ".join(plain(str(name)) for name in frame)
            raise InputError(
                "table",
                f"{path.name} has no column {part!r}; it has {have}: table.duration=COLUMN or "
                "table.computes={compute: [COLUMN, COLUMN]} says which are times",
            )
    table = pd.DataFrame({
        "rank": whole_numbers(frame[columns.rank], path), "step": whole_numbers(frame[columns.step], path),
        "time": np.sum([seconds(frame[part], columns.unit, path) for part in parts], axis=0),
    })  # fmt: skip
    if table.duplicated(["rank", "step"]).any():
        raise InputError("table", f"{path.name} must have one row per {columns.step} and {columns.rank}")
    wide = table.pivot(index="step", columns="rank", values="time")
    return wide.to_numpy(float), [int(rank) for rank in wide.columns]
