"""Sends and receives between two ranks: which belong together, and how long either waits for the other.

A send and its receive end together, as the kernels of a collective do. Where the trace names the rank at the other end,
they are matched in their order; elsewhere by their ends, beginning with the two ranks whose kernels agree best.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.lazy import pd
from simulator.traces.align import Group

COLUMNS = ("group", "sender", "receiver", "transfers", "receiver_wait_mean", "receiver_wait_p99", "sender_wait_mean",
           "receiver_wait_share")  # fmt: skip
NEAREST = 8  # sends looked at to both sides of a receive's end
LEAST_SHARE = 0.5  # of the kernels of the rank that has fewer, which must end together before two ranks are partners


def pair_table(groups: Sequence[Group], tolerance: int) -> pd.DataFrame:
    """One row per process group, sender and receiver, waits in seconds.

    The receiver waits for as long as its kernel is longer than that of the sender, which ends with it, and the other
    way round: durations need no common clock. ``receiver_wait_share`` is what part of its kernels the receiver waits.

    Args:
        groups: process groups with all their kernels.
        tolerance: how far a send and its receive may end apart, ns.
    """
    rows = [row for group in groups for row in _of(group, tolerance)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of(group: Group, tolerance: int) -> Iterator[tuple[object, ...]]:
    sends, receives = (_kernels(group, operation) for operation in ("send", "recv"))
    if sends.empty or receives.empty:
        return
    named = bool((sends["peer"] >= 0).all() and (receives["peer"] >= 0).all())
    found = _by_name(sends, receives) if named else np.zeros((0, 2), np.int64)
    if not len(found):
        found = _by_end(sends, receives, tolerance)
    send, receive = sends.iloc[found[:, 0]], receives.iloc[found[:, 1]]
    longer = (receive["duration"].to_numpy() - send["duration"].to_numpy()) / 1e9
    table = pd.DataFrame({
        "sender": send["rank"].to_numpy(), "receiver": receive["rank"].to_numpy(), "longer": longer,
        "inside": receive["duration"].to_numpy() / 1e9,
    })  # fmt: skip
    for (sender, receiver), own in table.groupby(["sender", "receiver"]):
        waits, inside = own["longer"].clip(lower=0), own["inside"].sum()
        yield (
            group.name, sender, receiver, len(own), waits.mean(), waits.quantile(0.99),
            (-own["longer"]).clip(lower=0).mean(), waits.sum() / inside if inside > 0 else 0.0,
        )  # fmt: skip


def _kernels(group: Group, operation: str) -> pd.DataFrame:
    """Kernels of one operation on all ranks, by their end on the first rank's clock."""
    parts = []
    for rank, kernels in group.kernels.items():
        own = kernels[kernels["operation"] == operation]
        end = (own["start"] + own["duration"]).to_numpy(np.int64)
        ahead = group.clocks[rank].ahead(end) if rank in group.clocks else 0
        parts.append(own.assign(rank=rank, end=end - ahead))
    return pd.concat(parts).sort_values("end", kind="stable", ignore_index=True)


def _by_name(sends: pd.DataFrame, receives: pd.DataFrame) -> NDArray[np.int64]:
    """Places of sends and receives in the order of each pair of ranks, which has as many of both; else nothing."""
    found = []
    theirs = {key: own.index.to_numpy() for key, own in receives.groupby(["peer", "rank"])}
    for key, own in sends.groupby(["rank", "peer"]):
        other = theirs.get(key, np.zeros(0, np.int64))
        if len(other) != len(own) and key[1] in set(receives["rank"]):
            return np.zeros((0, 2), np.int64)
        found.append(np.column_stack([own.index.to_numpy()[: len(other)], other]))
    return np.concatenate(found)


def _by_end(sends: pd.DataFrame, receives: pd.DataFrame, tolerance: int) -> NDArray[np.int64]:
    """Places of sends and receives that end together, of partners: first those between which most of them do."""
    left = {rank: own.index.to_numpy() for rank, own in sends.groupby("rank")}
    open_ = {rank: own.index.to_numpy() for rank, own in receives.groupby("rank")}

    def match(sender: int, receiver: int) -> tuple[tuple[float, int, float], NDArray[np.int64]]:
        ours, theirs = left[sender], open_[receiver]
        found, apart = _nearest(sends.iloc[ours], receives.iloc[theirs], tolerance)
        share = len(found) / max(1, min(len(ours), len(theirs)))
        return (-share, -len(found), apart), np.column_stack([ours[found[:, 0]], theirs[found[:, 1]]])

    queue = [(match(i, j)[0], i, j) for i in left for j in open_ if i != j]
    heapq.heapify(queue)
    parts = [np.zeros((0, 2), np.int64)]
    while queue:
        before, sender, receiver = heapq.heappop(queue)
        score, found = match(sender, receiver)
        if -score[0] < LEAST_SHARE:
            continue
        if score > before:  # others took some of its kernels since
            heapq.heappush(queue, (score, sender, receiver))
            continue
        parts.append(found)
        left[sender] = np.setdiff1d(left[sender], found[:, 0])
        open_[receiver] = np.setdiff1d(open_[receiver], found[:, 1])
    return np.concatenate(parts)


def _nearest(sends: pd.DataFrame, receives: pd.DataFrame, tolerance: int) -> tuple[NDArray[np.int64], float]:
    """Places of the sends and receives of two ranks that are of one size and end together, each with the nearest."""
    end, theirs = sends["end"].to_numpy(np.int64), receives["end"].to_numpy(np.int64)
    size, wanted = sends["bytes"].to_numpy(np.int64), receives["bytes"].to_numpy(np.int64)
    if not len(end) or not len(theirs):
        return np.zeros((0, 2), np.int64), 0.0
    place = np.clip(np.searchsorted(end, theirs)[:, None] + np.arange(-NEAREST, NEAREST), 0, len(end) - 1)
    apart = np.abs(end[place] - theirs[:, None])
    row, column = np.nonzero((apart <= tolerance) & (size[place] == wanted[:, None]))
    order = np.argsort(apart[row, column], kind="stable")
    sent, received = np.zeros(len(end), bool), np.zeros(len(theirs), bool)
    found = []
    for receive, send in zip(row[order], place[row[order], column[order]], strict=True):
        if not (sent[send] or received[receive]):
            sent[send] = received[receive] = True
            found.append((send, receive))
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return pairs, float(np.median(np.abs(end[pairs[:, 0]] - theirs[pairs[:, 1]]))) if found else 0.0
