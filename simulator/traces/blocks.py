"""Compute blocks: what a rank's GPU did between two collectives of a process group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Times
from simulator.lazy import pd
from simulator.traces.align import Group
from simulator.traces.trace import RankTrace

BETWEEN = "between collectives"
COLUMNS = ("group", "block", "instance", "collective", "rank", "gap", "busy", "kernels", "gemm", "aligned")


def between_collectives(group: Group, traces: Mapping[int, RankTrace]) -> pd.DataFrame:
    """The blocks before each collective of a group but the first: one row per block and rank, seconds.

    ``gap`` is the time from the end of one collective to the start of the next, ``busy`` the part of it in which the
    GPU ran other kernels (the union of their intervals), ``kernels`` the sum of the durations of those that began in
    it, ``gemm`` the same for matrix multiplications. Where ranks were matched, a block is one whose two collectives
    follow each other on every rank (``aligned``); elsewhere each rank's own blocks are counted from its first kernel.
    Blocks to which a kernel without a time may belong are left out.
    """
    parts = list(_aligned(group, traces) if len(group.places) else _own(group, traces))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))


def _aligned(group: Group, traces: Mapping[int, RankTrace]) -> Iterator[pd.DataFrame]:
    follows = (np.diff(group.places, axis=0) == 1).all(axis=1)
    for i, rank in enumerate(group.ranks):
        follows &= _whole(group.kernels[rank], traces[rank], group.places[1:, i])
    for i, rank in enumerate(group.ranks):
        yield _rows(group, traces[rank], group.places[1:, i][follows], group.label[1:][follows], aligned=True)


def _own(group: Group, traces: Mapping[int, RankTrace]) -> Iterator[pd.DataFrame]:
    for rank, kernels in group.kernels.items():
        places = np.arange(1, len(kernels))
        places = places[_whole(kernels, traces[rank], places)]
        yield _rows(group, traces[rank], places, places, aligned=False)


def _whole(own: pd.DataFrame, trace: RankTrace, places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the blocks that end at the kernels in ``places`` have all their kernels, as far as one knows."""
    starts = own["start"].to_numpy(np.int64)
    begin, until = (starts + own["duration"].to_numpy(np.int64))[places - 1], starts[places]
    # As many of them begin before the block's end as end before its begin: none overlaps it.
    low, high = np.sort(trace.lost, axis=0).T
    return np.searchsorted(low, until) == np.searchsorted(high, begin, side="right")


def _rows(
    group: Group, trace: RankTrace, places: NDArray[np.int64], label: NDArray[np.int64], aligned: bool
) -> pd.DataFrame:  # fmt: skip
    """The blocks that end at the kernels in ``places`` of the group on one rank."""
    own = group.kernels[trace.rank]
    starts = own["start"].to_numpy(np.int64)
    begin = (starts + own["duration"].to_numpy(np.int64))[places - 1]
    until = np.maximum(begin, starts[places])
    columns: dict[str, Any] = {
        "group": group.name, "block": BETWEEN, "instance": label, "collective": label, "rank": trace.rank,
        "gap": until - begin,
        "busy": _covered(trace.start, trace.duration, begin, until),
        "kernels": _started(trace.start, trace.duration, begin, until),
        "gemm": _started(trace.start, trace.duration * trace.gemm, begin, until),
    }  # fmt: skip
    table = pd.DataFrame(columns, index=range(len(places)))
    table[["gap", "busy", "kernels", "gemm"]] /= 1e9
    return table.assign(aligned=aligned)


def _covered(start: Times, duration: Times, begin: Times, until: Times) -> Times:
    """How much of each window intervals cover; the intervals are sorted by start and may overlap."""
    if not len(start):
        return np.zeros(len(begin), np.int64)
    end = np.maximum.accumulate(start + duration)
    fresh = np.concatenate([[True], start[1:] > end[:-1]])  # begins a stretch without a pause
    low = start[fresh]
    high = end[np.append(np.flatnonzero(fresh)[1:] - 1, len(end) - 1)]
    before = np.concatenate([[0], np.cumsum(high - low)])

    def up_to(time: Times) -> Times:
        index = np.searchsorted(low, time, side="right")
        inside = np.clip(time - low[index - 1], 0, high[index - 1] - low[index - 1])
        return np.where(index > 0, before[index - 1] + inside, 0)

    return up_to(until) - up_to(begin)


def _started(start: Times, duration: Times, begin: Times, until: Times) -> Times:
    """Sum of the durations of the intervals that start in each window."""
    before = np.concatenate([[0], np.cumsum(duration)])
    return before[np.searchsorted(start, until)] - before[np.searchsorted(start, begin)]
