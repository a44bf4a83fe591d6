"""Whether the columns of a table agree: size/time must be algbw, and busbw/algbw says over how many ranks.

So do all tests of nccl-tests (``GetBw`` in src/*.cu; doc/PERFORMANCE.md): algbw is S/T, and busbw is algbw times the
bus factor of the collective, 2(n-1)/n for AllReduce, (n-1)/n for AllGather, ReduceScatter, AllToAll, Gather and
Scatter, 1 for the others. Until June 2020 AllGather and ReduceScatter printed algbw with the bus factor in it. Values
are known to half a unit of the last digit printed, so rows of small messages, where algbw is 0.00, say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from simulator.arrays import Array
from simulator.checks import MAX_RANKS, InputError
from simulator.network.collectives import Kind, all_pairs
from simulator.tasks.calibrate.table import rounding

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
UNITS = {1e-6: "microseconds", 1e-3: "milliseconds", 1.0: "seconds", 1e-9: "nanoseconds"}
SLACK = 1e-6  # of a value, where all its digits are printed
OLD = (Kind.ALL_GATHER, Kind.REDUCE_SCATTER)  # whose algbw once had the bus factor in it


@dataclass(frozen=True)
class Span:
    """Values of a column, each between two ends."""

    low: Array
    high: Array

    def over(self, other: Span) -> Span:
        """The quotients; without an upper end where the divisor may be 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            high = np.where(other.low > 0, self.high / other.low, np.inf)
            low = np.where(other.high > 0, self.low / other.high, 0.0)
        return Span(np.where(np.isnan(low), 0.0, low), np.where(np.isnan(high), np.inf, high))

    def meets(self, other: Span) -> Mask:
        """Where the two have a value in common."""
        return (self.low <= other.high) & (other.low <= self.high)


def spans(texts: Sequence[str]) -> Span:
    """What printed numbers may have been before they were rounded; anything where there is no number, or below 0.

    >>> spans(["0.57", "N/A"])
    Span(low=array([0.5649..., 0.        ]), high=array([0.5750...,        inf]))
    """
    half = np.array([rounding(text) for text in texts])
    values = np.array([float(text) if known else 0.0 for text, known in zip(texts, np.isfinite(half), strict=True)])
    with np.errstate(invalid="ignore", over="ignore"):
        wide = half + SLACK * np.abs(values)
        good = np.isfinite(values) & np.isfinite(wide) & (values >= 0)
        return Span(np.where(good, np.maximum(values - wide, 0.0), 0.0), np.where(good, values + wide, np.inf))


@dataclass(frozen=True, kw_only=True)
class Half:
    """The out-of-place or the in-place half of a table, a value for each row: bytes, the unit of the table, GB/s."""

    name: str
    sizes: Array
    times: Span
    algbw: Span | None
    busbw: Span | None

    def rate(self, unit: float) -> Span:
        """size/time in GB/s."""
        with np.errstate(over="ignore"):  # a broken digit can make a time endless
            times = Span(self.times.low * unit * 1e9, self.times.high * unit * 1e9)
        return Span(self.sizes, self.sizes).over(times)

    def agrees(self, kind: Kind, unit: float) -> Mask:
        """Whether size/time is algbw in each row."""
        rate, algbw = self.rate(unit), self.algbw
        assert algbw is not None
        good = rate.meets(algbw)
        if kind in OLD and self.busbw is not None:
            good |= self.busbw.meets(algbw) & algbw.meets(Span(rate.low / 2, rate.high))
        return good


def check_unit(half: Half, kind: Kind, unit: float) -> Mask:
    """Hold size/time against algbw.

    Args:
        half: of a table.
        kind: of the collective.
        unit: of its times, seconds.

    Returns:
        the rows that do not contradict themselves: most of those that say something, or all.

    Raises:
        InputError: where half of the rows that say something contradict themselves or more.
    """
    if half.algbw is None:
        return np.ones(len(half.sizes), bool)
    tells = (half.algbw.low > 0) & np.isfinite(half.times.high)
    good = half.agrees(kind, unit) | ~tells
    if 2 * (~good).sum() < max(tells.sum(), 1):
        return good
    first = int(np.flatnonzero(~good)[-1])
    for other, named in UNITS.items():
        if half.agrees(kind, other)[tells].all():
            raise InputError(
                "nccl_tests", f"must have times in {UNITS[unit]}; size/time is algbw in {half.name} if they are {named}"
            )
    raise InputError(
        "nccl_tests",
        f"must have columns that agree; at size {half.sizes[first]:.0f} of {half.name} size/time is "
        f"{_middle(half.rate(unit), first):.4g} GB/s and algbw {_middle(half.algbw, first):.4g}",
    )


def check_ranks(half: Half, kind: Kind, unit: float, ranks: int | None) -> tuple[int, Mask]:
    """Hold busbw/algbw against the number of ranks, or find the number from it.

    Args:
        half: of a table.
        kind: of the collective.
        unit: of its times, seconds.
        ranks: how many, where that is known.

    Returns:
        how many, and the rows that do not contradict it: most of those that say something, or all.

    Raises:
        InputError: for columns that say another number, no number, 1, or none that is unique where it is not known.
    """
    factor = _factor(half, kind, unit)
    spread, tells = _ranks(factor, kind)
    first, last = _most(spread, tells)

    def fits(n: int) -> Mask:
        return (spread.low <= n) & (n <= spread.high) | ~tells

    def holds(n: int) -> bool:
        return 2 * int((~fits(n)).sum()) < max(int(tells.sum()), 1)

    if not holds(first):
        i = int(np.flatnonzero(~fits(first))[-1])
        raise InputError(
            "nccl_tests",
            f"must have columns that agree; at size {half.sizes[i]:.0f} of {half.name} busbw/algbw is "
            f"{_middle(factor, i):.4g}, that of no number of ranks in {kind.value}",
        )
    if last == 1:
        raise InputError(
            "nccl_tests",
            f"must be measured over at least 2 ranks; busbw in {half.name} is that of 1: each process "
            f"measured itself, as programs built without MPI do (make MPI=1)",
        )
    said = f"{first}" if first == last else f"{first} to {last}" if last < MAX_RANKS else f"at least {first}"
    if ranks is None and first < last:
        more = f"; busbw/algbw is that of {said}" if first > 1 else ""
        raise InputError("ranks", f"must be given: {half.name} does not say over how many ranks it was measured{more}")
    known = first if ranks is None else ranks
    if not holds(known):
        raise InputError("ranks", f"must be {said}, as busbw/algbw in {half.name} says; got {known}")
    return known, fits(known)


def _factor(half: Half, kind: Kind, unit: float) -> Span:
    """The bus factor in each row: busbw/algbw where it is exact, or busbw/(size/time).

    Where algbw has the factor in it, or is size/time of times that were rounded before, it is not.
    """
    if half.busbw is None:
        return Span(np.zeros(len(half.sizes)), np.full(len(half.sizes), np.inf))
    factor = half.busbw.over(half.rate(unit))
    if half.algbw is None:
        return factor
    exact = half.busbw.over(half.algbw)
    both = Span(np.maximum(factor.low, exact.low), np.minimum(factor.high, exact.high))
    spread, tells = _ranks(both, kind)
    n, _ = _most(spread, tells)
    return both if bool(((spread.low <= n) & (n <= spread.high) | ~tells).all()) else factor


def _ranks(factor: Span, kind: Kind) -> tuple[Span, Mask]:
    """The numbers of ranks that have such a bus factor, and the rows that say something of it."""
    limit = round(all_pairs(kind, MAX_RANKS).volume)  # of the factor, for many ranks
    if all_pairs(kind, 2).volume == limit:  # it is always 1
        never = (factor.low > 1) | (factor.high < 1)
        return Span(np.where(never, np.inf, 1.0), np.full(len(never), np.inf)), np.isfinite(factor.high)
    with np.errstate(divide="ignore"):
        low, high = (np.where(end < limit, limit / (limit - end), np.inf) for end in (factor.low, factor.high))
    return Span(low, high), np.isfinite(high) | (low > 1)


def _most(spread: Span, tells: Mask) -> tuple[int, int]:
    """The whole numbers, from 1 to ``MAX_RANKS``, that lie in the most of the spans that say something."""
    first = np.ceil(np.maximum(spread.low[tells], 1))
    last = np.floor(np.minimum(spread.high[tells], MAX_RANKS))
    some = first <= last
    first, last = np.sort(first[some]), np.sort(last[some])
    if not len(first):
        return 1, MAX_RANKS
    votes = np.searchsorted(first, first, side="right") - np.searchsorted(last, first, side="left")
    best = first[np.argmax(votes)]
    return int(best), int(last[np.searchsorted(last, best, side="left")])


def _middle(values: Span, i: int) -> float:
    return float(values.low[i] + values.high[i]) / 2 if isfinite(values.high[i]) else float(values.low[i])
