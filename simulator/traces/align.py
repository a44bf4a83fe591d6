"""Process groups across ranks: which kernels are the same collective, and how far to trust that."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Times
from simulator.checks import InputError
from simulator.lazy import pd
from simulator.traces.kernels import LOOSE, PAIRED, SYMMETRIC
from simulator.traces.match import LEAST, Clock, Kernels, Places, pair, together, unequal
from simulator.traces.trace import ProcessGroup, RankTrace

Status = Literal["ok", "partial", "refused"]
OF_TAX = 0.01  # how far ends may lie apart, of the tax, where nothing else could be meant
NEAR_TAX = "ends differ by up to 1 % of the tax: durations need no clocks"
MOST_NAMED = 8  # ranks in a sentence
LEAST_SAID = 1e-6  # of a clock's drift
OTHERS = "other kernels may be collectives, too"
EITHER = "may be a send and its receive, where one waits for the other, not an exchange"


@dataclass(frozen=True)
class Verdict:
    """What may be said of an operation of a group: ``ok``, ``partial`` (something is missing), ``refused`` (no tax)."""

    operation: str
    status: Status
    reason: str = ""


@dataclass(frozen=True)
class Group:
    """A process group whose collectives were matched across ranks.

    Attributes:
        name: as in the traces.
        ranks: those that are present, in order.
        verdicts: one per operation.
        operation: of each matched collective.
        bytes: size of each, -1 where unknown.
        start, duration: ns, one row per matched collective, one column per rank; start after clock offsets, and empty
            where the data have none.
        places: place of each kernel among all of the group's kernels on its rank; empty without start times.
        label: what each collective is called: its step, or its place on the first rank.
        kernels: of each rank all of the group's kernels, matched or not; empty where there are no start times.
        clocks: of ranks, against the first one's, where they are known to differ.
        leading: operations that come before the compute of their step, which then cannot be what they wait for.
    """

    name: str
    ranks: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    operation: NDArray[np.str_]
    bytes: NDArray[np.int64]
    start: Times
    duration: Times
    places: Places
    label: NDArray[np.int64]
    kernels: Mapping[int, pd.DataFrame] = field(default_factory=dict)
    clocks: Mapping[int, Clock] = field(default_factory=dict)
    leading: frozenset[str] = frozenset()

    @property
    def timed(self) -> bool:
        """Whether there are start times."""
        return self.start.size > 0

    @property
    def end(self) -> Times:
        """Ends after clock offsets, ns."""
        return self.start + self.duration


def align(traces: Sequence[RankTrace], tolerance: int, doubtful: bool = False) -> list[Group]:
    """Match the collectives of all process groups.

    Args:
        traces: one per rank.
        tolerance: how far the ends of a collective may lie apart, ns, after clock offsets and drifts.
        doubtful: whether other kernels may hide a straggler; kernels that look like collectives say so in any case.

    Raises:
        InputError: for a rank that two files claim, and for files of different jobs.
    """
    check_one_job(traces)
    gathered = _gather(traces)
    inferred = {rank for group, own in gathered.items() if group.inferred or doubtful for rank in own}
    return [_match(group, own, traces, tolerance, inferred) for group, own in gathered.items()]


def clocks_of(groups: Sequence[Group]) -> dict[tuple[int, int], Clock]:
    """The clocks that matched collectives tell: of the second of two ranks against the first."""
    return {
        (group.ranks[0], rank): group.clocks.get(rank, Clock())
        for group in groups if len(group.duration) >= LEAST for rank in group.ranks[1:]
    }  # fmt: skip


def check_one_job(traces: Sequence[RankTrace]) -> None:
    """Refuse two traces of one rank, and traces of jobs of different sizes."""
    by_rank: dict[int, RankTrace] = {}
    for trace in traces:
        other = by_rank.setdefault(trace.rank, trace)
        if other is not trace:
            raise InputError(
                "traces",
                f"must have one file for each rank; rank {trace.rank} is claimed by {other.path.name} and "
                f"{trace.path.name}; broken=skip goes on without both",
            )
    worlds = {trace.world: trace for trace in traces if trace.world is not None}
    if len(worlds) > 1:
        said = " and ".join(f"{world} ranks ({worlds[world].path.name})" for world in sorted(worlds)[:2])
        raise InputError("traces", f"must be of one job; got files of jobs of {said}")


def _gather(traces: Sequence[RankTrace]) -> dict[ProcessGroup, dict[int, pd.DataFrame]]:
    """For each process group the kernels of each rank; groups that the trace does not name are streams."""
    found: dict[ProcessGroup, dict[int, pd.DataFrame]] = {}
    streams = _streams(traces)
    for trace in sorted(traces, key=lambda trace: trace.rank):
        for place, group in enumerate(trace.groups):
            key = streams.get(trace.rank, group) if _is_stream(group) else group
            own = trace.collectives[trace.collectives["group"] == place]
            found.setdefault(key, {})[trace.rank] = own.reset_index(drop=True)
    return dict(sorted(found.items(), key=lambda item: (_is_stream(item[0]), _natural(item[0].name))))


def _is_stream(group: ProcessGroup) -> bool:
    return group.name.startswith("stream ")


def _natural(name: str) -> tuple[int, str]:
    digits = "".join(character for character in name if character.isdigit())
    return (int(digits[:9]) if digits else -1, name)


def _streams(traces: Sequence[RankTrace]) -> dict[int, ProcessGroup]:
    """Where every rank has collectives on one stream alone, but not the same one, these are one group."""
    own = {trace.rank: [group for group in trace.groups if _is_stream(group)] for trace in traces}
    named = {groups[0].name for groups in own.values() if len(groups) == 1}
    if len(named) < 2 or any(len(groups) > 1 for groups in own.values()):
        return {}
    numbers = ", ".join(sorted((name.removeprefix("stream ") for name in named), key=_natural)[:MOST_NAMED])
    return {rank: ProcessGroup(f"stream {numbers}") for rank, groups in own.items() if groups}


def _match(
    group: ProcessGroup, own: Mapping[int, pd.DataFrame], traces: Sequence[RankTrace], tolerance: int,
    inferred: Container[int],
) -> Group:  # fmt: skip
    absent = _absent(group, own, traces)
    operations = list(dict.fromkeys(name for kernels in own.values() for name in kernels["operation"]))
    # Most frequent first: what it says about clocks helps where there are few to say it. What may be exchanged by pairs
    # of ranks is matched last: a periodic pipeline matches itself under a shift, which reads as a clock.
    operations.sort(key=lambda name: -max(int((kernels["operation"] == name).sum()) for kernels in own.values()))
    clocks: dict[int, Clock] = {}
    matched = {
        name: _match_operation(name, own, clocks, tolerance, absent)
        for name in sorted(operations, key=lambda name: name == "send_recv")
    }
    parts = [matched[name] for name in operations]
    ranks = tuple(own)
    doubt = "it is not known to be a collective, but its ends agree where its starts do not" if group.inferred else ""
    if not group.inferred and any(rank in inferred for rank in ranks):
        doubt = OTHERS
    pair_of_ranks = len(own) == 2 and _is_stream(group)  # a trace that names groups says which are sends
    places = np.concatenate([found for _, found in parts])
    places = places[np.argsort(places[:, 0], kind="stable")]
    first = own[ranks[0]]
    middle, said = _said_of_clocks(ranks, clocks, tolerance)
    columns = [(rank, own[rank].iloc[places[:, i]]) for i, rank in enumerate(ranks)]
    return Group(
        name=_label(group, traces),
        ranks=ranks,
        verdicts=tuple(
            _and_said(verdict, said, doubt or EITHER * (pair_of_ranks and verdict.operation == "send_recv"))
            for verdict, _ in parts
        ),
        operation=first["operation"].to_numpy(str)[places[:, 0]],
        bytes=first["bytes"].to_numpy(np.int64)[places[:, 0]],
        start=np.column_stack([_on_common_clock(kernels, clocks.get(rank), middle) for rank, kernels in columns]),
        duration=np.column_stack([kernels["duration"].to_numpy(np.int64) for _, kernels in columns]),
        places=places,
        label=places[:, 0],
        kernels=own,
        clocks=clocks,
    )


def _match_operation(
    operation: str, own: Mapping[int, pd.DataFrame], clocks: dict[int, Clock], tolerance: int, absent: str
) -> tuple[Verdict, Places]:  # fmt: skip
    """Match one operation of a group; ``clocks`` are against the first rank's and learn new ones."""
    places = {rank: np.flatnonzero(kernels["operation"] == operation) for rank, kernels in own.items()}
    counts = {rank: len(found) for rank, found in places.items()}
    nothing = np.zeros((0, len(own)), np.int64)
    silent = [rank for rank, count in counts.items() if not count]
    if operation in PAIRED:
        return Verdict(operation, "refused", _why_paired(operation, counts)), nothing
    if len(own) < 2:
        return Verdict(
            operation, "refused", f"a tax needs two ranks, and only {named(list(own))} has a trace{absent}"
        ), nothing
    if silent:
        return Verdict(operation, "refused", f"{named(silent)} ran none of them{absent}"), nothing
    least, most = min(counts.values()), max(counts.values())
    if operation == "send_recv" and unequal(list(counts.values())):
        return Verdict(operation, "refused", _why_paired(operation, counts)), nothing
    labels = _labels(operation, own, places)
    sequences = {rank: _kernels(own[rank], places[rank], labels[rank]) for rank in own}
    first, *rest = own
    pairings = {
        rank: pair(sequences[first], sequences[rank], tolerance, [clocks[rank]] if rank in clocks else [])
        for rank in rest
    }  # fmt: skip
    others = [sequences[rank] for rank in rest]
    shifted = [found for rank, found in pairings.items() if found.clock not in (Clock(), clocks.get(rank))]
    if operation == "send_recv" and not all(np.array_equal(found.place, np.arange(most)) for found in shifted):
        return Verdict(operation, "refused", _why_refused(operation, sequences, 0, tolerance)), nothing
    matched = together(sequences[first], others, list(pairings.values()), tolerance)
    near = ""
    if len(matched) < most == least:
        length = np.column_stack([own[rank]["duration"].to_numpy(np.int64)[places[rank]] for rank in own])
        wide = _within_tax(np.column_stack([kernels.end for kernels in sequences.values()]), length)
        same = [np.array_equal(labels[first], label) for label in labels.values()]
        if all(same) and len(wide) > len(matched):
            matched, pairings = np.tile(wide[:, None], len(own)), {}
            near = NEAR_TAX
    if len(matched) < max(1, least / 2):
        return Verdict(operation, "refused", _why_refused(operation, sequences, len(matched), tolerance)), nothing
    for rank, pairing in pairings.items():
        if pairing.count >= LEAST:
            clocks.setdefault(rank, pairing.clock)
    reasons = [_lost(counts, matched, most), near, absent.removeprefix("; ")]
    status: Status = "partial" if len(matched) < most or absent else "ok"
    matched = np.column_stack([places[rank][matched[:, i]] for i, rank in enumerate(own)])
    return Verdict(operation, status, "; ".join(filter(None, reasons))), matched


def typical_wait(length: Times) -> float:
    """Of so many collectives the median tax of the fastest rank, ns: one long pause makes no clock better."""
    return float(np.median(np.ptp(length, axis=1)))


def _within_tax(ends: Times, length: Times) -> NDArray[np.intp]:
    """Which collectives end on all ranks within ``OF_TAX`` of the typical tax, where no other of them could be meant.

    Args:
        ends, length: ns, one row per collective, one column per rank; rows were matched by their index.
    """
    waits = typical_wait(length)
    spacing = float(np.diff(np.sort(ends, axis=0), axis=0).min(initial=0 if len(ends) < 2 else 2**62))
    return np.flatnonzero(np.ptp(ends, axis=1) <= min(OF_TAX * waits, spacing / 2))


def _labels(
    operation: str, own: Mapping[int, pd.DataFrame], places: Mapping[int, Places]
) -> dict[int, NDArray[np.int64]]:
    """What kernels that are the same collective agree in, besides the operation: the size, where all ranks know it."""
    sizes = {rank: own[rank]["bytes"].to_numpy(np.int64)[places[rank]] for rank in own}
    told = operation in SYMMETRIC and all((found >= 0).all() for found in sizes.values())
    return sizes if told else {rank: np.zeros(len(found), np.int64) for rank, found in sizes.items()}


def _kernels(own: pd.DataFrame, places: Places, label: NDArray[np.int64]) -> Kernels:
    rows = own.iloc[places]
    number = rows["sequence"].to_numpy(np.int64)
    unique = len(number) > 0 and bool((number >= 0).all()) and len(np.unique(number)) == len(number)
    end = (rows["start"] + rows["duration"]).to_numpy(np.int64)
    return Kernels(end, label, number if unique else np.zeros(0, np.int64))


def _absent(group: ProcessGroup, own: Mapping[int, pd.DataFrame], traces: Sequence[RankTrace]) -> str:
    """What to say of ranks without a trace; nothing where none is missing."""
    if group.ranks is not None:
        missing = [rank for rank in group.ranks if rank not in own]
        return f"; {len(own)} of its {len(group.ranks)} ranks ({named(missing)} missing)" if missing else ""
    if group.size is not None:
        return f"; {len(own)} of its {group.size} ranks" if len(own) < group.size else ""
    world = next((trace.world for trace in traces if trace.world is not None), None)
    if len(own) < len(traces) and len(traces) == (world or len(traces)):
        silent = [trace.rank for trace in traces if trace.rank not in own]
        return f"; {len(own)} of {len(traces)} ranks: {named(silent)} ran none of its collectives"
    if world is None or len(own) >= world:
        return ""
    return f"; {len(own)} of the job's {world} ranks, and the trace does not say which belong to the group"


def _label(group: ProcessGroup, traces: Sequence[RankTrace]) -> str:
    """The group's name; with its ranks where groups of other ranks have the same name."""
    same = {other for trace in traces for other in trace.groups if other.name == group.name}
    return f"{group.name} of {named(group.ranks)}" if len(same) > 1 and group.ranks else group.name


def named(ranks: Sequence[int]) -> str:
    """Ranks in a sentence.

    >>> named([3]), named([0, 1, 2]), named(range(100))
    ('rank 3', 'ranks 0, 1, 2', 'ranks 0, 1, 2, 3, 4, 5, 6, 7 and 92 more')
    """
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(str(rank) for rank in ranks[:MOST_NAMED])}{more}"


def _on_common_clock(kernels: pd.DataFrame, clock: Clock | None, middle: int) -> Times:
    """Starts as the clock of most ranks has them: what a clock is ahead at the end of a kernel it is at its start."""
    start = kernels["start"].to_numpy(np.int64)
    return start - ((clock or Clock()).ahead(start + kernels["duration"].to_numpy(np.int64)) - middle)


def _said_of_clocks(ranks: Sequence[int], clocks: Mapping[int, Clock], tolerance: int) -> tuple[int, str]:
    """The offset that most ranks agree on (the median), and what to say of clocks that are off from it, or drift."""
    own = {rank: clocks.get(rank, Clock()) for rank in ranks}
    middle = sorted(clock.offset for clock in own.values())[len(ranks) // 2] if clocks else 0
    rate = sorted(clock.rate for clock in own.values())[len(ranks) // 2] if clocks else 0.0
    drifts = {rank: clock.rate - rate for rank, clock in own.items() if not clock.course}
    drift = [f"{rank} drifts by {ppm * 1e6:.3g} ppm" for rank, ppm in drifts.items() if abs(ppm) > LEAST_SAID]
    uneven = [f"{rank} ({duration(int(np.ptp([ahead for _, ahead in clock.course])))})"
              for rank, clock in own.items() if clock.course]  # fmt: skip
    least = tolerance if drift or uneven else 0
    off = [
        f"{rank} ({duration(abs(clock.offset - middle))} {'ahead' if clock.offset > middle else 'behind'})"
        for rank, clock in own.items()
        if abs(clock.offset - middle) > least and not clock.course
    ]
    said = [f"clock set right of rank {', '.join(off[:MOST_NAMED])}"] if off else []
    said += [f"clock of rank {', of rank '.join(drift[:MOST_NAMED])}"] if drift else []
    said += [f"clock unsteady of rank {', '.join(uneven[:MOST_NAMED])}"] if uneven else []
    return middle, "; ".join(said)


def _and_said(verdict: Verdict, clocks: str, doubt: str) -> Verdict:
    """What clocks and doubt add to the verdict on an operation that has a tax."""
    if verdict.status == "refused":
        return verdict
    reason = "; ".join(filter(None, [verdict.reason, clocks, doubt]))
    return replace(verdict, status="partial" if doubt else verdict.status, reason=reason)


def _lost(counts: Mapping[int, int], matched: Places, most: int) -> str:
    """What to say where not every kernel found its partners."""
    if len(matched) == most:
        return ""
    fewer = [f"rank {rank} has {count}" for rank, count in counts.items() if count < most]
    shifted = bool((matched != matched[:, :1]).any())
    how = "matched by end time" if shifted else "matched"
    apart = min(counts.values()) - len(matched)
    reasons = [f"{len(matched)} of {most} {how}"]
    reasons += [", ".join(fewer[:MOST_NAMED])] if fewer else []
    reasons += [f"{apart} set apart: no common end"] if apart > 0 else []
    return "; ".join(reasons)


def _why_paired(operation: str, counts: Mapping[int, int]) -> str:
    """What to say of kernels that have two ranks each."""
    least, most = min(counts.values()), max(counts.values())
    few = "" if operation in PAIRED else f"ranks have from {least} to {most} of them: "
    return f"{few}each is between two ranks, so that no tax over the group can be given"


def _why_refused(operation: str, sequences: Mapping[int, Kernels], matched: int, tolerance: int) -> str:
    """Why a group has no tax: the counts, and how far the ends of the same index lie apart."""
    counts = sorted({len(kernels) for kernels in sequences.values()})
    ends = np.column_stack([kernels.end[: counts[0]] for kernels in sequences.values()])
    apart = int(np.ptp(ends, axis=1).max())
    said = f"ends do not agree: they differ by up to {duration(apart)} (tolerance {duration(tolerance)})"
    if apart <= tolerance:
        said = "sizes or sequence numbers do not agree"
    if counts[-1] > counts[0]:
        said += f"; ranks have from {counts[0]} to {counts[-1]} of them"
    if matched:
        said += f"; {matched} of {counts[-1]} end together"
    return said + ("; it need not end on all ranks at once" if operation in LOOSE else "")


def duration(ns: int) -> str:
    """Nanoseconds for people.

    >>> duration(5_000_000), duration(134_153_000), duration(2_500)
    ('5 ms', '134 ms', '2.5 us')
    """
    unit, name = next(((size, name) for size, name in ((10**9, "s"), (10**6, "ms"), (10**3, "us")) if ns >= size),
                      (1, "ns"))  # fmt: skip
    return f"{ns / unit:.3g} {name}"
