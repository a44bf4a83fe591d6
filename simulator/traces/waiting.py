"""Kernels that wait for other ranks though no name says so: found by how they behave.

A kernel that waits ends when the last rank arrives: over ranks its ends agree while its starts do not, and its duration
is explained by how early it started. Work that is equal on all ranks ends as far apart as it started, and unequal work
further. So of the squares by which starts lie apart over ranks, a kernel that waits leaves next to nothing in its ends
(``explained`` near 1), any other kernel leaves all (0 or less).

A rank that is always late by as much looks like one whose clock is off and whose kernel is shorter; therefore what
varies from one instance to the next must be explained, too, which needs no common clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Array, Times
from simulator.lazy import pd
from simulator.traces import kernels
from simulator.traces.match import LEAST_DRIFT, MOST_DRIFT, Clock, Kernels, Pairing, pair_at, together, unequal
from simulator.traces.trace import ProcessGroup, RankTrace

WAITS = 0.9  # explained of all by which starts lie apart
VARIES = 0.5  # explained of what varies between instances, which noise of clocks is part of
NOISE = 2e3  # ns; starts that vary by less say nothing: many traces have whole microseconds
LEAST = 8  # instances x (ranks - 1)
FEW, MANY = 3, 24  # the same, for a doubt: where all is explained, and where half is
MATCHED = 0.8  # of the kernels of the rank that has fewer
SHARE = 1e-3  # of the time of all kernels, by which ranks must differ to hold a straggler
HIDES = 0.1  # of the time waited at known collectives: in what differs by less over ranks no straggler is hidden
MOST = 50  # kernels tried, those first by which ranks differ most
MOST_TIMES = 2_000_000  # of a kernel on all ranks, that are looked at to find which ranks to compare
MOST_UNSEEN = 1000  # pairs of ranks compared of which that does not tell, as they have not equally many of a kernel
SURE = "sure"
BY_NAME, SELDOM = "by its name", "by where it ends, but too seldom to be sure"
IN_PART = "by where it ends, which is only in part where the others do"


@dataclass(frozen=True)
class Waiting:
    """Kernels of one name that wait for other ranks, or may.

    Attributes:
        name: of the kernel; with ``#`` for its digits where ranks, or calls, differ in these alone.
        ranks: which wait for each other; empty where that is not sure.
        share: of the time of all GPU kernels of all ranks; of one profiling window, where there are several.
        doubt: why it may wait for other ranks, where that is not sure.
        hides: whether there is a doubt, and ranks differ so much in it that it may hide a straggler.
        paired: whether some of these have so many more of them that it cannot be a collective.
        where: the profiling window, where there are several, as it stands before names of process groups.
        names: as the traces have it.
    """

    name: str
    ranks: tuple[int, ...]
    share: float
    doubt: str = ""
    hides: bool = False
    paired: bool = False
    where: str = ""
    names: frozenset[str] = field(default=frozenset(), repr=False, compare=False)


def unnamed(
    traces: Sequence[RankTrace], tolerance: int, known: Mapping[tuple[int, int], Clock] | None = None, waited: int = 0
) -> list[Waiting]:  # fmt: skip
    """Kernels that are not known to be collectives, but behave like them, or have a name that hints at one.

    Args:
        traces: one per rank.
        tolerance: how far ends of a collective may lie apart, ns, after clock offsets and drifts.
        known: clocks, of the second rank against the first; others are found from the kernels themselves.
        waited: how long ranks wait at known collectives, ns, summed over ranks.
    """
    whole = sum(int(t.duration.sum()) + int(t.collectives["duration"].sum()) for t in traces)
    if not whole:
        return []
    called = _called(traces)
    candidates = _by_name(traces, called)
    names: dict[str, set[str]] = {}
    for name, own in called.items():
        names.setdefault(own, set()).add(name)
    differs = {name: _differs(ranks) for name, ranks in candidates.items()}
    tested = {name for name in sorted(differs, key=lambda name: -differs[name])[:MOST] if differs[name] > SHARE * whole}
    found = []
    for name, ranks in candidates.items():
        share = sum(int(length.sum()) for _, length in ranks.values()) / whole
        as_called = frozenset(names[name])
        groups, doubt = _groups(ranks, tolerance, known or {}) if name in tested else ([], "")
        if groups and _paired(ranks, groups):
            found.append(Waiting(name, tuple(ranks), share, paired=True, names=as_called))
        elif groups:
            found += [Waiting(name, members, share, names=as_called) for members, _ in groups]
        elif share >= SHARE and (doubt or kernels.HINT.search(kernels.short(name))):
            hides = bool(doubt) or differs[name] > max(SHARE * whole, HIDES * waited)
            found.append(Waiting(name, (), share, doubt or BY_NAME, hides, names=as_called))
    return sorted(found, key=lambda waiting: -waiting.share)


def _called(traces: Sequence[RankTrace]) -> dict[str, str]:
    """What each name is taken as: without its digits where it is on one rank alone, or too seldom to say anything.

    Compilers number kernels, and number them otherwise on each rank.
    """
    counts: dict[str, list[int]] = {}
    for trace in traces:
        own: dict[str, int] = {}
        for name, times in zip(trace.names, np.bincount(trace.name, minlength=len(trace.names)), strict=True):
            own[name] = own.get(name, 0) + int(times)
        for name, times in own.items():
            if times:
                counts.setdefault(name, []).append(times)
    return {name: name if len(own) > 1 and min(own) >= FEW else re.sub(r"\d+", "#", name)
            for name, own in counts.items()}  # fmt: skip


Ranks = Mapping[int, tuple[Times, Times]]


def _by_name(traces: Sequence[RankTrace], called: Mapping[str, str]) -> dict[str, dict[int, tuple[Times, Times]]]:
    """For each name, as it is taken, and rank starts and durations, by start."""
    found: dict[str, dict[int, tuple[Times, Times]]] = {}
    for trace in traces:
        own_names = [called.get(name, name) for name in trace.names]
        places = {name: place for place, name in reversed(list(enumerate(own_names)))}  # the first of equal ones
        name = np.array([places[known] for known in own_names], np.int64)[trace.name]
        order = np.argsort(name, kind="stable")
        present, first = np.unique(name[order], return_index=True)
        for place, own in zip(present, np.split(order, first[1:]), strict=False):
            found.setdefault(own_names[place], {})[trace.rank] = trace.start[own], trace.duration[own]
    return found


def _differs(ranks: Ranks) -> float:
    """Bounds from above how long a kernel waits: how much longer it is in all than were each as its shortest one."""
    lengths = [length for _, length in ranks.values() if len(length)]
    if len(lengths) < 2:
        return 0.0
    least = min(int(length.min()) for length in lengths)
    return float(sum(int(length.sum()) - least * len(length) for length in lengths))


def _paired(ranks: Ranks, groups: Sequence[tuple[tuple[int, ...], bool]]) -> bool:
    """Whether ranks that wait for each other have unequally many kernels, as the stages of a pipeline do.

    Stages that have equally many may seem to end together under a clock that nothing else tells of; then all count.
    """
    alone = not set(ranks) <= {rank for members, _ in groups for rank in members}
    every = [list(ranks)] if alone or any(shifted for _, shifted in groups) else []
    parts = [*(members for members, _ in groups), *every]
    return any(unequal([len(ranks[rank][0]) for rank in members]) for members in parts)


def _groups(
    ranks: Ranks, tolerance: int, known: Mapping[tuple[int, int], Clock]
) -> tuple[list[tuple[tuple[int, ...], bool]], str]:  # fmt: skip
    """Ranks that wait for each other in kernels of one name: all whose ends agree, or some of those; else a doubt.

    With each such group comes whether its ends agree under a clock alone that is found from these kernels.
    """
    left, groups, doubt, every = sorted(ranks), [], "", len(ranks) - 1
    even = _Even(ranks, tolerance)
    while len(left) > 1:
        first, *others = left
        instances = len(ranks[first][0])
        few = instances < by_chance(10 * len(ranks))
        partners = even.partners(first, others)
        partners = [] if few and len(partners) < every else partners
        pairings = {rank: _pair(ranks[first], ranks[rank], tolerance, known.get((first, rank))) for rank in partners}
        near = [rank for rank in partners
                if pairings[rank].count >= MATCHED * min(instances, len(ranks[rank][0]))]  # fmt: skip

        def sure(members: Sequence[int]) -> str:
            return behaviour(ranks, first, members, pairings, tolerance)  # noqa: B023, used in this turn alone

        members, seen = near, sure(near)
        if seen != SURE:
            doubt = seen if len(near) == every else doubt
            members = [] if few else [rank for rank in near if sure([rank]) == SURE]
            members = members if sure(members) == SURE else []
        if members and len(members) < every:  # some of many ranks agree by chance
            shown, tries = instances * len(members), 100 * len(ranks) ** 2
            if few or shown < by_chance(tries * MOST):
                doubt = SELDOM if not few and shown >= by_chance(tries) else doubt
                members = []
        if members:
            shifted = any(pairings[rank].clock not in (Clock(), known.get((first, rank))) for rank in members)
            groups.append(((first, *members), shifted))
        left = [rank for rank in others if rank not in members]
    return groups, doubt


def by_chance(tries: float) -> float:
    """So many instances it takes before one of as many tries is not likely to look like waiting by chance.

    Of kernels whose durations have nothing to do with their starts, n explain a part of 1 - e of each other with a
    likelihood of about e to the power of (n - 2) / 2 (the distribution of a correlation of 0). Some ranks chosen out of
    many are many tries.

    >>> round(by_chance(1)), round(by_chance(100)), round(by_chance(1e6))
    (2, 6, 14)
    """
    return float(2 + 2 * np.log(tries) / -np.log(1 - WAITS))


class _Even:
    """Which ranks are worth comparing: to compare every rank with every other takes long, and most cannot wait.

    Of ranks with equally many kernels the k-th are taken for the same one. From one to the next, ends of ranks that
    wait for each other move alike, whatever their clocks, and starts do not; or else all move alike, but starts lie
    further apart than ends.
    """

    def __init__(self, ranks: Ranks, tolerance: int):
        self.far = 2.0 * tolerance  # between two ends that may be off by the tolerance; further is as far
        self.count = {rank: len(start) for rank, (start, _) in ranks.items()}
        self.unseen = MOST_UNSEEN
        self.column: dict[int, int] = {}
        self.times: dict[int, tuple[Array, Array]] = {}  # number of kernels -> their ends and starts
        origin = min((int(start[0]) for start, _ in ranks.values() if len(start)), default=0)
        for count in set(self.count.values()):
            own = [rank for rank in sorted(ranks) if self.count[rank] == count]
            self.column |= {rank: i for i, rank in enumerate(own)}
            step = 1 + count * len(own) // MOST_TIMES
            start = np.column_stack([ranks[rank][0][::step] - origin for rank in own]).astype(float)
            self.times[count] = start + np.column_stack([ranks[rank][1][::step] for rank in own]), start

    def partners(self, first: int, others: Sequence[int]) -> list[int]:
        """Those of the others that may wait together with the first."""
        count = self.count[first]
        same = [rank for rank in others if self.count[rank] == count and count > 1]
        rest = [rank for rank in others if self.count[rank] != count or count < 2][: self.unseen]
        self.unseen -= len(rest)
        if not same:
            return rest
        columns, own = [self.column[rank] for rank in same], self.column[first]
        apart, late = (times[:, columns] - times[:, [own]] for times in self.times[count])
        moved, moved_late = np.diff(apart, axis=0), np.diff(late, axis=0)
        near = (np.abs(moved) <= self.far).mean(axis=0) >= 2 * MATCHED - 1
        left, whole = self._squares(moved), self._squares(moved_late)
        steady = (whole <= (3 * NOISE) ** 2 * len(moved)) & (self._squares(apart) <= 0.5 * self._squares(late))
        tells = near & ((left <= 0.75 * whole) | steady)
        same = [rank for rank, kept in zip(same, near, strict=True) if kept] if tells.any() else []
        return sorted([*same, *rest])

    def _squares(self, times: Array) -> Array:
        return (np.clip(times, -self.far, self.far) ** 2).sum(axis=0)


def _pair(
    reference: tuple[Times, Times], other: tuple[Times, Times], tolerance: int, known: Clock | None
) -> Pairing:  # fmt: skip
    """Pairs under the clock that is known or common; under another one, kernels must match in their order.

    Any work of a periodic job matches itself under a shift of the index and of the clock.
    """
    ours, theirs = _kernels(reference), _kernels(other)
    shorter = min(len(ours), len(theirs))
    found = pair_at(ours, theirs, known or Clock(), tolerance)
    if known is not None or found.count >= MATCHED * shorter:
        return found
    end = theirs.end[:shorter]
    apart = end - ours.end[:shorter]
    clocks = [Clock(int(np.median(apart)))] + ([Clock.drifting(end, apart)] if shorter >= LEAST_DRIFT else [])
    for clock in clocks:
        close = np.abs(apart - clock.ahead(end)) <= tolerance
        if abs(clock.rate) <= MOST_DRIFT and close.sum() >= MATCHED * shorter:
            return pair_at(ours, theirs, clock, tolerance)
    return found


def _kernels(rank: tuple[Times, Times]) -> Kernels:
    start, length = rank
    return Kernels(start + length, np.zeros(len(start), np.int64), np.zeros(0, np.int64))


def behaviour(
    ranks: Ranks, first: int, others: Sequence[int], pairings: Mapping[int, Pairing], tolerance: int
) -> str:  # fmt: skip
    """Whether ends agree over these ranks while starts do not: ``SURE``, a doubt in words, or nothing.

    It must hold in all and in what varies between instances, of which it takes ``LEAST``, times ranks but one: fewer
    agree by chance.
    """
    if not others:
        return ""
    chosen = [pairings[rank] for rank in others]
    places = together(_kernels(ranks[first]), [_kernels(ranks[rank]) for rank in others], chosen, tolerance)
    if len(places) * len(others) < FEW:
        return ""
    ends, starts = [], []
    for i, rank in enumerate([first, *others]):
        start, length = (times[places[:, i]] for times in ranks[rank])
        ahead = pairings[rank].clock.ahead(start + length) if i else 0
        ends.append(start + length - ahead)
        starts.append(start - ahead)
    end, start = np.column_stack(ends), np.column_stack(starts)
    origin = start[:, :1]
    time = (origin[:, 0] - origin[0, 0]).astype(float)
    apart, late = _centred((end - origin).astype(float)), _centred((start - origin).astype(float))
    varying, varied = _without_trend(time, apart), _without_trend(time, late)
    steady = np.sqrt(np.mean(varied**2)) < NOISE and all(not found.clock.offset for found in chosen)
    if not steady and explained(varying, varied) < VARIES:
        return ""
    if explained(apart, late) >= WAITS:
        return SURE if len(places) * len(others) >= LEAST else SELDOM
    return IN_PART if explained(apart, late) >= VARIES and len(places) * len(others) >= MANY else ""


def explained(apart: Array, late: Array) -> float:
    """What part of the squares by which starts lie apart does not return in the ends.

    >>> explained(np.array([0.0, 0.0]), np.array([-5.0, 5.0])), explained(np.array([-5.0, 5.0]), np.array([-5.0, 5.0]))
    (1.0, 0.0)
    """
    squares = float((late**2).sum())
    return 1 - float((apart**2).sum()) / squares if squares > 0 else 0.0


def _centred(times: Array) -> Array:
    return times - times.mean(axis=1, keepdims=True)


def _without_trend(time: Array, values: Array) -> Array:
    """Each column without its mean and its line over time, which a clock can be off by."""
    basis = np.column_stack([np.ones_like(time), time - time.mean()])
    return values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0]


def as_collectives(traces: Sequence[RankTrace], found: Sequence[Waiting]) -> list[RankTrace]:
    """The traces with the kernels that wait among their collectives, a process group for each name and its ranks."""
    for waiting in found:
        everyone = len(waiting.ranks) == len(traces)
        group = ProcessGroup(kernels.short(waiting.name), None if everyone else waiting.ranks, inferred=True)
        operation = "send_recv" if waiting.paired else kernels.operation(kernels.short(waiting.name))
        if waiting.ranks:
            traces = [_moved(t, waiting, group, operation) if t.rank in waiting.ranks else t for t in traces]
    return list(traces)


def _moved(trace: RankTrace, waiting: Waiting, group: ProcessGroup, operation: str) -> RankTrace:
    groups = trace.groups if group in trace.groups else (*trace.groups, group)
    own: NDArray[np.bool_] = np.isin(trace.name, [i for i, name in enumerate(trace.names) if name in waiting.names])
    rows: dict[str, Any] = {
        "start": trace.start[own], "duration": trace.duration[own], "group": groups.index(group),
        "operation": operation, "bytes": -1, "sequence": -1, "peer": -1,
    }  # fmt: skip
    parts = [part for part in (trace.collectives, pd.DataFrame(rows)) if len(part)]
    collectives = pd.concat(parts, ignore_index=True).sort_values("start", kind="stable", ignore_index=True)
    return replace(
        trace, groups=groups, collectives=collectives.astype({"operation": object}),
        start=trace.start[~own], duration=trace.duration[~own], gemm=trace.gemm[~own], name=trace.name[~own],
    )  # fmt: skip
