"""Which kernel of one rank belongs to which of another: by index, checked by where they end.

All ranks leave a collective at about the same time, so kernels of the same collective end together (seed paper,
section 3). Their durations need no common clock, but this check does: a rank's clock may be off by a constant, which is
found as the offset under which most ends agree, and it may drift, which is found as the line through the differences of
ends that most of them are near to. A profiler that lost kernels shifts the index; so do windows that were cut
independently. Both show as ends that agree under another shift of the index.
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
LEAST_DRIFT = 8  # before it is said to drift
MOST_DRIFT = 500e-6  # crystals are within 100 ppm, and this is how far ntpd and adjtime slew a clock on purpose
SLOPES_FROM = 64  # ends
NOISE = 5000  # ns, of ends
TRIED = 4  # drifting clocks
LOST = 0.02  # of the kernels of a rank: more are not taken for lost where they may be sends and receives
CLEARLY = 3.0  # standard deviations by which a new clock must pair more than the common one
NEARER = 3  # or times nearer that its pairs must end
BY_CHANCE = 1e-3  # likelihood below which a clock is said to be off, or to drift
NEIGHBOURS = 9  # ends whose median is by how much an irregular clock is ahead, where numbers tell the pairs
PARTS = (1, 2, 4, 8)  # of a sequence, through whose ends lines are drawn


@dataclass(frozen=True)
class Clock:
    """How far ahead of another rank's clock one is: by ``offset`` ns at ``origin`` ns, and ``rate`` ns more each ns.

    Where neither tells it, ``course`` has times and by how much it is ahead then, and ``offset`` is their median.
    """

    offset: int = 0
    rate: float = 0.0
    origin: int = 0
    course: tuple[tuple[int, int], ...] = ()

    def ahead(self, time: Times) -> Times:
        """By how much, ns, at each time of this clock.

        >>> Clock(5, 20e-6, 1000).ahead(np.array([1000, 101_000])).tolist()
        [5, 7]
        >>> Clock(5, course=((1000, 5), (1010, 15))).ahead(np.array([1000, 1006])).tolist()
        [5, 11]
        """
        if self.course:
            times, ahead = np.array(self.course, np.int64).T
            further = np.interp((time - times[0]).astype(float), (times - times[0]).astype(float), ahead - ahead[0])
            return np.rint(further).astype(np.int64) + ahead[0]
        return self.offset + np.rint(self.rate * (time - self.origin)).astype(np.int64)

    @classmethod
    def drifting(cls, time: Times, ahead: Times) -> Clock:
        """The line through differences of ends, which may be wrong for a third of them (Theil 1950, Sen 1968).

        >>> time = np.arange(0, 10**9, 10**7)
        >>> clock = Clock.drifting(time, 300 + time // 50_000)
        >>> clock.offset, round(clock.rate * 1e6, 6)
        (300, 20.0)
        """
        origin, middle = int(time[0]), int(np.median(ahead))
        x, y = (time - origin).astype(float), (ahead - middle).astype(float)
        few = np.unique(np.linspace(0, len(x) - 1, SLOPES_FROM).astype(int))
        before, after = np.triu_indices(len(few), 1)
        run = x[few[after]] - x[few[before]]
        slopes = (y[few[after]] - y[few[before]])[run > 0] / run[run > 0]
        rate = float(np.median(slopes)) if len(slopes) else 0.0
        return cls(middle + round(float(np.median(y - rate * x))), rate, origin)


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
    """For each kernel of a reference rank the place of the other rank's kernel, or -1, and that rank's clock."""

    place: Places
    clock: Clock

    @property
    def count(self) -> int:
        """How many kernels have a partner."""
        return int((self.place >= 0).sum())


def unequal(counts: Sequence[int]) -> bool:
    """Whether ranks have so unequally many kernels that these are of pairs of ranks, more than a profiler loses.

    The first and the last stage of a pipeline have half as many sends and receives as the others, or, where each rank
    has several stages, one in twice the number of stages fewer.

    >>> unequal([16, 32, 32, 16]), unequal([360, 384, 384, 360]), unequal([5, 5, 4, 5])
    (True, True, False)
    """
    return max(counts) - min(counts) > max(1, LOST * max(counts))


def pair(reference: Kernels, other: Kernels, tolerance: int, known: Iterable[Clock] = ()) -> Pairing:
    """Pair the kernels of two ranks whose labels are the same and whose ends agree within ``tolerance`` (ns).

    A common clock, and clocks that are ``known`` already, are preferred to a new offset, unless that pairs at least two
    kernels and a tenth more, and clearly so (``_clearly``); it needs ``LEAST`` pairs and half of the shorter sequence.
    A clock that drifts needs ``LEAST_DRIFT`` pairs, two kernels more, and ends that move with time (``_moves``).
    Sequence numbers come first where both have them, and ends that agree confirm them.
    """
    shorter = min(len(reference), len(other))
    if not shorter:
        return Pairing(np.full(len(reference), -1), Clock())
    if len(reference.number) and len(other.number):
        numbered = _by_number(reference, other, tolerance)
        if 2 * numbered.count >= shorter:
            return numbered
    clocks = list(dict.fromkeys([Clock(), *known]))
    best = max((pair_at(reference, other, clock, tolerance) for clock in clocks), key=lambda found: found.count)
    if best.count < shorter:
        free = _best(reference, other, _offsets(reference, other), tolerance, best)
        more = free.count >= max(LEAST, shorter / 2, best.count + 2, 1.1 * best.count)
        best = free if more and _clearly(reference, other, free, best) else best
    if best.count < shorter:
        free = _best(reference, other, _drifts(reference, other, tolerance), tolerance, best)
        more = free.count >= max(LEAST_DRIFT, shorter / 2, best.count + 2)
        drifts = more and _moves(*_apart(reference, other, free))
        best = free if drifts and _clearly(reference, other, free, best) else best
    return _refined(reference, other, best, tolerance)


def _best(
    reference: Kernels, other: Kernels, clocks: Iterable[Clock], tolerance: int, default: Pairing
) -> Pairing:  # fmt: skip
    tried = (pair_at(reference, other, clock, tolerance) for clock in clocks)
    found = [pairing for pairing in tried if _related(reference, other, pairing)]
    return max(found, key=lambda pairing: (pairing.count, -abs(pairing.clock.offset)), default=default)


def _apart(reference: Kernels, other: Kernels, found: Pairing) -> tuple[Times, Times]:
    """Ends of the other rank's kernels that have a partner, and by how much they are later, both on its own clock."""
    ours = np.flatnonzero(found.place >= 0)
    end = other.end[found.place[ours]]
    return end, end - reference.end[ours]


def _clearly(reference: Kernels, other: Kernels, found: Pairing, before: Pairing) -> bool:
    """Whether one of two clocks pairs more kernels than chance makes of many clocks tried, or much nearer ones.

    Of the kernels that only one of them pairs, each would be as likely to have paired as many (McNemar 1947).
    """
    if before.count < LEAST:
        return True
    differ = int(((found.place >= 0) != (before.place >= 0)).sum())
    if found.count - before.count >= CLEARLY * np.sqrt(max(differ, 1)):
        return True
    far = [float(np.median(np.abs(apart - pairing.clock.ahead(end))))
           for pairing in (found, before) for end, apart in [_apart(reference, other, pairing)]]  # fmt: skip
    return NEARER * far[0] <= far[1]


def _moves(time: Times, apart: Times) -> bool:
    """Whether differences of ends go up or down with time, which chance does not do to them (Kendall's tau)."""
    from scipy.stats import kendalltau

    return bool(kendalltau(time, apart).pvalue < BY_CHANCE)


def _off(apart: Times) -> bool:
    """Whether differences of ends are of one sign, which chance does not do to them."""
    from scipy.stats import binomtest

    ahead, behind = int((apart > 0).sum()), int((apart < 0).sum())
    return bool(ahead + behind and binomtest(ahead, ahead + behind).pvalue < BY_CHANCE)


def _related(reference: Kernels, other: Kernels, found: Pairing) -> bool:
    """Whether pairs under a new clock, or of one number, can be the same collectives: their ends must vary together.

    A periodic job fits another window of itself under some clock. The time from one end to the next then differs
    between the ranks by as much as it varies on one of them, or more; that of the same collectives by next to nothing.
    """
    ours = np.flatnonzero(found.place >= 0)
    if len(ours) < LEAST:
        return True  # too few to say
    end = other.end[found.place[ours]]
    gap, theirs = np.diff(reference.end[ours]), np.diff(end - found.clock.ahead(end))
    varies = float(np.median(np.abs(gap - np.median(gap))))
    return varies <= NOISE or float(np.median(np.abs(theirs - gap))) <= varies / 2


def _refined(reference: Kernels, other: Kernels, found: Pairing, tolerance: int) -> Pairing:
    """The pairs under the offset, or the line, of all ends found to be pairs, where it is clearly nearer to them."""
    if found.count < LEAST_DRIFT:
        return found
    end, apart = _apart(reference, other, found)
    line = Clock.drifting(end, apart) if _moves(end, apart) else Clock(int(np.median(apart)))
    if not line.rate and not _off(apart - found.clock.ahead(end)):
        return found
    now, then = (float(np.median(np.abs(apart - clock.ahead(end)))) for clock in (found.clock, line))
    if not found.clock.rate and (now <= tolerance / 10 or then > now / 2):
        return found
    again = pair_at(reference, other, line, tolerance) if abs(line.rate) <= MOST_DRIFT else found
    return again if again.count >= found.count else found


def _by_number(reference: Kernels, other: Kernels, tolerance: int) -> Pairing:
    """The pairs that numbers tell, where their ends agree under a common clock or vary together under another."""
    _, ours, theirs = np.intersect1d(reference.number, other.number, return_indices=True)
    same = reference.label[ours] == other.label[theirs]
    order = np.argsort(other.end[theirs[same]], kind="stable")
    ours, theirs = ours[same][order], theirs[same][order]
    end = other.end[theirs]
    apart = end - reference.end[ours]
    clocks = [Clock()]
    if len(apart) >= LEAST and np.median(np.abs(apart)) > tolerance:
        clocks = [Clock(int(np.median(apart)))]
    if len(apart) >= LEAST_DRIFT:
        line = Clock.drifting(end, apart)
        clocks += [line] if abs(line.rate) <= MOST_DRIFT and _moves(end, apart) else []
    if len(apart) >= LEAST_DRIFT and 2 * np.median(np.abs(np.diff(apart))) <= np.median(
        np.abs(apart - np.median(apart))
    ):
        around = np.lib.stride_tricks.sliding_window_view(np.pad(apart, NEIGHBOURS // 2, mode="edge"), NEIGHBOURS)
        course = np.median(around, axis=1).astype(np.int64)
        points = tuple(zip(end.tolist(), course.tolist(), strict=True))
        clocks.append(Clock(int(np.median(course)), course=points))
    best = Pairing(np.full(len(reference), -1), Clock())
    for clock in clocks:  # the simplest first
        close = np.abs(apart - clock.ahead(end)) <= tolerance
        found = Pairing(np.full(len(reference), -1), clock)
        found.place[ours[close]] = theirs[close]
        better = found.count >= max(best.count + 2, 1.1 * best.count) or (clock is clocks[0] and close.any())
        better = better and (clock is clocks[0] or _clearly(reference, other, found, best))
        if better and (clock == Clock() or _related(reference, other, found)):
            best = found
    return best


def _offsets(reference: Kernels, other: Kernels) -> list[Clock]:
    """Clock offsets worth trying: what the ends differ by, in the median, under each shift of the index."""
    found = []
    for shift in _near_shifts(reference, other):
        ours, theirs = _shifted(reference, other, shift)
        if len(ours) >= LEAST:
            found.append(Clock(int(np.median(other.end[theirs] - reference.end[ours]))))
    return found


def _drifts(reference: Kernels, other: Kernels, tolerance: int) -> list[Clock]:
    """Drifting clocks worth trying: lines through what the ends differ by, under each shift of the index.

    Lost kernels change the shift on the way, so that parts are tried, too; those lines near most ends are returned.
    """
    found: list[tuple[int, Clock]] = []
    for shift in _near_shifts(reference, other):
        ours, theirs = _shifted(reference, other, shift)
        end = other.end[theirs]
        apart = end - reference.end[ours]
        for parts in PARTS:
            for part in np.array_split(np.arange(len(ours)), parts):
                if len(part) >= LEAST_DRIFT:
                    clock = Clock.drifting(end[part], apart[part])
                    found.append((int((np.abs(apart - clock.ahead(end)) <= tolerance).sum()), clock))
    found = [(count, clock) for count, clock in found if abs(clock.rate) <= MOST_DRIFT]
    return [clock for _, clock in sorted(found, key=lambda entry: -entry[0])[:TRIED]]


def pair_at(reference: Kernels, other: Kernels, clock: Clock, tolerance: int) -> Pairing:
    """The pairs under one clock of the other rank.

    First come those under the shift of the index that pairs most, then others where it leaves gaps. Among shifts that
    pair as many, the one whose ends are closest comes first: kernels may be shorter than the tolerance.
    """
    found = []
    end = other.end - clock.ahead(other.end)
    for shift in dict.fromkeys([*_near_shifts(reference, other), *_frequent_shifts(reference.end, end)]):
        ours, theirs = _shifted(reference, other, shift)
        apart = np.abs(end[theirs] - reference.end[ours])
        close = apart <= tolerance
        if close.any():
            found.append((-int(close.sum()), float(np.median(apart[close])), abs(shift), ours[close], theirs[close]))
    place = np.full(len(reference), -1)
    taken = np.zeros(len(other), bool)
    for _, _, _, ours, theirs in sorted(found, key=lambda entry: entry[:3]):
        free = (place[ours] < 0) & ~taken[theirs]
        place[ours[free]] = theirs[free]
        taken[theirs[free]] = True
    return Pairing(place, clock)


def _near_shifts(reference: Kernels, other: Kernels) -> list[int]:
    more = len(other) - len(reference)
    shifts = sorted({0, more, *range(-NEAR, NEAR + 1)}, key=abs)
    return [shift for shift in shifts if -len(reference) < shift < len(other)]


def _frequent_shifts(reference: Times, other: Times) -> list[int]:
    order = np.argsort(other, kind="stable")
    nearest = np.searchsorted(other[order], reference)
    nearest = order[np.clip(nearest, 0, len(other) - 1)]
    common = Counter((nearest - np.arange(len(reference))).tolist()).most_common(FREQUENT)
    shifts = (int(shift) + step for shift, _ in common for step in (0, -1))
    return [shift for shift in shifts if -len(reference) < shift < len(other)]


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
    for i, (other, pairing) in enumerate(zip(others, pairings, strict=True), 1):
        end = other.end[places[:, i]]
        ends.append(end - pairing.clock.ahead(end))
    spread = np.ptp(np.column_stack(ends), axis=1) if len(places) else np.zeros(0)
    return places[spread <= tolerance]
