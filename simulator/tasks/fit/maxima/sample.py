"""From a trace summary to what is fitted: times of compute blocks, kind by kind, and maxima of m ranks as z-scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Array
from simulator.checks import InputError, nearest, shown
from simulator.statistics import block_centred, instance_centred
from simulator.traces.summary import Block, Summary

LEAST_GROUP = 4  # m of the paper, its smallest group
UNEVEN = 0.1  # coefficient of variation of the lengths of a kind's blocks above which they are of several kinds


@dataclass(frozen=True)
class Blocks:
    """One kind of compute block, seconds.

    Attributes:
        name: what it is called.
        times: shape (instances, ranks), in the order of time.
        iteration: of each instance; instances of one iteration belong together.
        empty: instances that were left out since some rank did not work in them.
        group: of its ranks.
    """

    name: str
    times: Array
    iteration: NDArray[np.int64]
    empty: int
    group: str = ""

    @property
    def mean(self) -> float:
        """Of all instances and ranks, seconds."""
        return float(self.times.mean())

    @property
    def unevenness(self) -> float:
        """Coefficient of variation over instances of the mean over ranks: large where they are not of one kind."""
        means = self.times.mean(axis=1)
        return float(means.std() / means.mean())


@dataclass(frozen=True)
class Sample:
    """The blocks that a law is fitted to.

    Attributes:
        kinds: kinds of blocks, all on the same number of ranks.
        ranks: global ranks of each kind's columns; the same for all kinds or None.
        m: ranks of one maximum.
        strided: whether the ranks of a maximum lie apart (odd and even ones), or follow each other.
        by_instance: whether a maximum is centred on the mean of its own instance (the paper's recipe) or of all.
        relative: whether each instance was divided by its mean, for blocks of different lengths.
    """

    kinds: Sequence[Blocks]
    ranks: tuple[int, ...] | None
    m: int
    strided: bool
    by_instance: bool
    relative: bool

    @property
    def n(self) -> int:
        """Ranks of a block."""
        return self.kinds[0].times.shape[1]

    @property
    def mean(self) -> float:
        """Mean block time a over all kinds, instances and ranks, seconds."""
        return float(np.average([kind.mean for kind in self.kinds], weights=self._weights))

    @property
    def instances(self) -> int:
        """Of all kinds."""
        return sum(len(kind.times) for kind in self.kinds)

    @property
    def tax(self) -> float:
        """Mean wait of a rank for the slowest of all ``n``, as far as compute goes, seconds."""
        times = [self.scaled(kind) for kind in self.kinds]
        taxes = [float((x.max(axis=1) - x.mean(axis=1)).mean()) for x in times]
        return float(np.average(taxes, weights=self._weights))

    @property
    def _weights(self) -> list[int]:
        return [len(kind.times) for kind in self.kinds]

    @cached_property
    def cv(self) -> float:
        """r = b/a, b the standard deviation within a maximum's ranks, pooled; over kinds their root mean square."""
        shares = [self.spread(kind) / kind.mean for kind in self.kinds]
        return sqrt(float(np.average(np.square(shares), weights=self._weights)))

    @property
    def uneven(self) -> float:
        """The mean of b over kinds, as which the tax of a mean block goes, over a*r: not 1 where kinds vary unalike."""
        spreads = [self.spread(kind) for kind in self.kinds]
        return float(np.average(spreads, weights=self._weights)) / (self.mean * self.cv)

    @property
    def total_cv(self) -> float:
        """Coefficient of variation over all instances and ranks; over kinds their root mean square."""
        shares = [float(self.scaled(kind).std()) / kind.mean for kind in self.kinds]
        return sqrt(float(np.average(np.square(shares), weights=self._weights)))

    def spread(self, kind: Blocks) -> float:
        """b of one kind, seconds: of ranks within an instance, pooled (ddof 1), or of all times.

        Raises:
            InputError: where ranks do not differ.
        """
        x = self.maxima_of(kind)
        b = sqrt(float(x.var(axis=1, ddof=1).mean())) if self.by_instance else float(x.std(ddof=1))
        if not b > 1e-12 * kind.mean:
            raise InputError(
                "blocks", f"{kind.name!r} must have times that vary between ranks; use compute=deterministic"
            )
        return b

    def maxima_of(self, kind: Blocks) -> Array:
        """Times of one kind with a row for each maximum: shape (instances*ranks/m, m)."""
        return self.split(self.scaled(kind))

    def split(self, times: Array) -> Array:
        """From (instances, ranks) to (instances*ranks/m, m), the parts of an instance one after another."""
        instances, ranks = times.shape
        parts = ranks // self.m
        if self.strided:
            times = times.reshape(instances, self.m, parts).swapaxes(1, 2)
        return times.reshape(instances * parts, self.m)

    def scaled(self, kind: Blocks) -> Array:
        """Times of one kind; where lengths differ, as if all instances took their mean."""
        return relative_to_own_mean(kind.times, kind.mean) if self.relative else kind.times

    @cached_property
    def rows(self) -> Array:
        """Times of all maxima's ranks, kind after kind, with mean 1 and coefficient of variation ``cv`` in each kind:
        shape (maxima, m). Kinds differ in length and spread; what is fitted is what they have in common."""
        return np.concatenate([
            1 + (self.maxima_of(kind) / kind.mean - 1) * (self.cv * kind.mean / self.spread(kind))
            for kind in self.kinds
        ])  # fmt: skip

    def z(self) -> Array:
        """z-scores of all maxima, kind after kind."""
        for kind in self.kinds:
            self.spread(kind)  # refuses kinds in which ranks do not differ, by name
        centred = instance_centred if self.by_instance else block_centred
        return np.concatenate([centred(self.maxima_of(kind)) for kind in self.kinds])

    @property
    def iterations(self) -> NDArray[np.int64]:
        """The iteration of each maximum of ``z``, numbered from 0."""
        parts = self.n // self.m
        labels = np.concatenate([np.repeat(kind.iteration, parts) for kind in self.kinds])
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)

    @property
    def scores(self) -> list[Array]:
        """(time - mean)/standard deviation of each kind, a table by iteration for each group: shape (instances, n)."""
        tables = []
        for group in dict.fromkeys(kind.group for kind in self.kinds):
            kinds = [kind for kind in self.kinds if kind.group == group]
            parts = [(self.scaled(kind) - kind.mean) / self.scaled(kind).std() for kind in kinds]
            order = np.argsort(np.concatenate([kind.iteration for kind in kinds]), kind="stable")
            tables.append(np.concatenate(parts)[order])
        return tables


def usual_m(n: int) -> int:
    """Ranks of one maximum: 4 where that divides the ranks, else the smallest divisor above.

    >>> [usual_m(n) for n in (2, 4, 6, 8, 10)]
    [2, 4, 6, 4, 5]
    """
    return next((size for size in range(LEAST_GROUP, n) if n % size == 0), n)


def relative_to_own_mean(times: Array, mean: float) -> Array:
    """Times of shape (instances, ranks) as if every instance took the same ``mean``."""
    return np.asarray(times / times.mean(axis=1, keepdims=True) * mean)


def sample_of(
    summary: Summary, *, measure: str, group: str | Sequence[str] | None, block: str | None, per_iteration: int,
    m: int | None, strided: bool, by_instance: bool, relative: bool,
) -> Sample:  # fmt: skip
    """The blocks of a summary that a law is to be fitted to.

    Args:
        summary: of a trace report.
        measure: ``busy`` (GPU work, the paper's choice) or ``gap`` (all time between collectives).
        group, block: which ones; None takes all.
        per_iteration: blocks of one name in an iteration, which are kinds of their own: layers differ.
        m: ranks of one maximum; None takes 4 where that divides the ranks, else the smallest divisor above.
        strided, by_instance, relative: as in ``Sample``.

    Raises:
        InputError: where there are no such blocks, or they are not on the same number of ranks.
    """
    groups = (group,) if isinstance(group, str) else group
    if groups is not None and not groups:
        raise InputError("group", "must name at least one")
    chosen = [own for own in summary.blocks if (groups is None or own.group in groups) and block in (None, own.block)]
    check_choice(summary, chosen, groups, block)
    kinds = [kind for own in chosen for kind in _kinds(own, measure, per_iteration, many=len(chosen) > 1)]
    kinds = [kind for kind in kinds if len(kind.times)]
    if not kinds:
        raise InputError(
            "measure", f"{measure} leaves no block: in each some rank's GPU did nothing; measure=gap takes all time"
        )
    sizes = sorted({kind.times.shape[1] for kind in kinds})
    if len(sizes) > 1:
        by_size = {n: list(dict.fromkeys(own.group for own in chosen if len(own.ranks) == n)) for n in sizes}
        said = "; ".join(f"of {n} ranks: {_few(names)}" for n, names in by_size.items())
        raise InputError("group", f"must be one or a list of those with the same number of ranks, {said}")
    n = sizes[0]
    if n < 2:
        raise InputError("blocks", "must be on at least 2 ranks; these are on 1")
    if m is None:
        m = usual_m(n)
    if n % m or m < 2:
        raise InputError("m", f"must be at least 2 and divide the {n} ranks of a block; got {m}")
    ranks = {(own.group, tuple(own.ranks)) for own in chosen}
    return Sample(kinds, ranks.pop()[1] if len(ranks) == 1 else None, m, strided, by_instance, relative)


def check_choice(summary: Summary, chosen: Sequence[Block], groups: Sequence[str] | None, block: str | None) -> None:
    """Raise InputError where a summary has no blocks, or not those that were asked for."""
    if not summary.blocks:
        raise InputError("blocks", "must be of matched ranks; there are none")
    for field, values in (("group", groups or ()), ("block", () if block is None else (block,))):
        known = list(dict.fromkeys(getattr(own, field) for own in summary.blocks))
        for value in values:
            if value not in known:
                raise InputError(field, f"must be one of {_few(known)}; got {shown(value)}{nearest(value, known)}")
    if not chosen:
        raise InputError(f"block {shown(block)} is not one of group {', '.join(groups or ())}")


def _few(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _kinds(own: Block, measure: str, per_iteration: int, many: bool) -> list[Blocks]:
    if measure == "gap" and not own.gap:
        raise InputError(
            "measure", "must be busy for a table of operations without start times: nothing says what was between"
        )
    if per_iteration > max(1, len(own.busy)):
        raise InputError(
            "blocks_per_iteration", f"must be at most the {len(own.busy)} blocks there are; got {per_iteration}"
        )
    times = np.array(own.gap if measure == "gap" else own.busy, dtype=float).reshape(-1, len(own.ranks)) / 1e9
    label = np.array(own.collective, dtype=np.int64)
    name = f"{own.group}, {own.block}" if many else own.block
    if per_iteration == 1:
        return [_nonempty(name, times, label, own.group)]
    place = np.arange(len(times))
    of_kind = [place[place % per_iteration == i] for i in range(per_iteration)]
    return [_nonempty(f"{name} {i}", times[rows], rows // per_iteration, own.group) for i, rows in enumerate(of_kind)]


def _nonempty(name: str, times: Array, iteration: NDArray[np.int64], group: str) -> Blocks:
    whole = (times > 0).all(axis=1)
    return Blocks(name, times[whole], iteration[whole], int((~whole).sum()), group)
