"""Which kernel of one rank belongs to which of another: by index, checked by where they end.

All ranks leave a collective at about the same time, so kernels of the same collective end together (seed paper,
section 3). Their durations need no common clock, but this check does: a rank's clock may be off by a constant, which is
found as the offset under which most ends agree. A profiler that lost kernels shifts the index; so do windows that were
cut independently. Both show as ends that agree under another shift of the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Times

Places = NDArray[np.int64]
NEAR = 8  # shifts of the index tried to both sides
FREQUENT = 16  # further shifts, those at which most nearest ends lie
LEAST = 3  # ends that must agree before a clock is said to be off


@dataclass(frozen=True)
class Kernels:
    """Kernels of one rank in the order of their start: where they end (ns), what they are, and their numbers.

    Attributes:
        end: ends, ns.
        label: equal for kernels that may be the same collective: operation and size.
        number: sequence numbers of the process group; empty where the trace has none.
    """

    end: Times
    label: Places
    number: Places

    def __len__(self) -> int:
        return len(self.end)


@dataclass(frozen=True)
class Pairing:
    """For each kernel of a reference rank the place of the other rank's kernel, or -1, and that rank's clock offset."""

    place: Places
    offset: int

    @property
    def count(self) -> int:
        """How many kernels have a partner."""
        return int((self.place >= 0).sum())


def pair(reference: Kernels, other: Kernels, tolerance: int, known: Iterable[int] = ()) -> Pairing:
    """Pair the kernels of two ranks whose labels are the same and whose ends agree within ``tolerance`` (ns).

    A common clock, and clock offsets that are ``known`` already, are preferred to a new offset, unless that pairs at
    least two kernels and a tenth more; a new offset needs ``LEAST`` pairs and half of the shorter sequence. Sequence
    numbers come first where both have them, and ends that agree confirm them.
    """
    if not len(reference) or not len(other):
        return Pairing(np.full(len(reference), -1), 0)
    if len(reference.number) and len(other.number):
        numbered = _by_number(reference, other, tolerance)
        if 2 * numbered.count >= min(len(reference), len(other)):
            return numbered
    offsets = list(dict.fromkeys([0, *known]))
    on_known = max((_at(reference, other, offset, tolerance) for offset in offsets), key=lambda found: found.count)
    if on_known.count == min(len(reference), len(other)):
        return on_known
    free = max((_at(reference, other, offset, tolerance) for offset in _offsets(reference, other)),
               key=lambda found: (found.count, -abs(found.offset)), default=on_known)  # fmt: skip
    needed = max(LEAST, min(len(reference), len(other)) / 2, on_known.count + 2, 1.1 * on_known.count)
    return free if free.count >= needed else on_known


def _by_number(reference: Kernels, other: Kernels, tolerance: int) -> Pairing:
    _, ours, theirs = np.intersect1d(reference.number, other.number, return_indices=True)
    same = reference.label[ours] == other.label[theirs]
    ours, theirs = ours[same], theirs[same]
    place = np.full(len(reference), -1)
    if not len(ours):
        return Pairing(place, 0)
    apart = other.end[theirs] - reference.end[ours]
    offset = int(np.median(apart)) if len(apart) >= LEAST and np.median(np.abs(apart)) > tolerance else 0
    close = np.abs(apart - offset) <= tolerance
    place[ours[close]] = theirs[close]
    return Pairing(place, offset)


def _offsets(reference: Kernels, other: Kernels) -> list[int]:
    """Clock offsets worth trying: what the ends differ by, in the median, under each shift of the index."""
    found = []
    for shift in _near_shifts(reference, other):
        ours, theirs = _shifted(reference, other, shift)
        if len(ours) >= LEAST:
            found.append(int(np.median(other.end[theirs] - reference.end[ours])))
    return found


def _at(reference: Kernels, other: Kernels, offset: int, tolerance: int) -> Pairing:
    """The pairs under one clock offset: under the shift of the index that pairs most, and others where it leaves gaps.

    Among shifts that pair as many, the one whose ends are closest comes first: kernels may be shorter than the
    tolerance.
    """
    found = []
    for shift in dict.fromkeys([*_near_shifts(reference, other), *_frequent_shifts(reference, other, offset)]):
        ours, theirs = _shifted(reference, other, shift)
        apart = np.abs(other.end[theirs] - reference.end[ours] - offset)
        close = apart <= tolerance
        if close.any():
            found.append((-int(close.sum()), float(np.median(apart[close])), abs(shift), ours[close], theirs[close]))
    place = np.full(len(reference), -1)
    taken = np.zeros(len(other), bool)
    for _, _, _, ours, theirs in sorted(found, key=lambda entry: entry[:3]):
        free = (place[ours] < 0) & ~taken[theirs]
        place[ours[free]] = theirs[free]
        taken[theirs[free]] = True
    return Pairing(place, offset)


def _near_shifts(reference: Kernels, other: Kernels) -> list[int]:
    more = len(other) - len(reference)
    shifts = sorted({0, more, *range(-NEAR, NEAR + 1)}, key=abs)
    return [shift for shift in shifts if -len(reference) < shift < len(other)]


def _frequent_shifts(reference: Kernels, other: Kernels, offset: int) -> list[int]:
    order = np.argsort(other.end, kind="stable")
    nearest = np.searchsorted(other.end[order], reference.end + offset)
    nearest = order[np.clip(nearest, 0, len(other) - 1)]
    common = Counter((nearest - np.arange(len(reference))).tolist()).most_common(FREQUENT)
    return [int(shift) + step for shift, _ in common for step in (0, -1)]


def _shifted(reference: Kernels, other: Kernels, shift: int) -> tuple[Places, Places]:
    """Places on both sides that face each other under a shift and have the same label."""
    ours = np.arange(max(0, -shift), min(len(reference), len(other) - shift))
    theirs = ours + shift
    same = reference.label[ours] == other.label[theirs]
    return ours[same], theirs[same]


def together(reference: Kernels, others: Sequence[Kernels], pairings: Sequence[Pairing], tolerance: int) -> Places:
    """Places of the collectives that all ranks have and leave within ``tolerance`` of each other.

    Returns:
        one row per collective, one column per rank, the reference first.
    """
    places = np.column_stack([np.arange(len(reference)), *(pairing.place for pairing in pairings)])
    places = places[(places >= 0).all(axis=1)]
    ends = [reference.end[places[:, 0]]]
    ends += [other.end[places[:, i + 1]] - pairings[i].offset for i, other in enumerate(others)]
    spread = np.ptp(np.column_stack(ends), axis=1) if len(places) else np.zeros(0)
    return places[spread <= tolerance]
