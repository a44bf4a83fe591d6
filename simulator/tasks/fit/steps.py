"""What ranks do between two barriers, from a trace summary: the times that the slowest rank is the slowest of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.tasks.fit.maxima.sample import check_choice, relative_to_own_mean
from simulator.traces.summary import Block, Collectives, Summary

STEP = "step"  # name of all blocks between two barriers together
Measure = Literal["busy", "gap", "arrival"]


@dataclass(frozen=True, eq=False)
class Steps:
    """What the ranks of a process group do before a barrier, as often as it was measured; seconds.

    Attributes:
        group: process group.
        block: kind of compute block; ``step`` for all blocks between two barriers together, which ranks wait for.
        ranks: global ranks, in the order of columns.
        times: shape (steps, ranks), in the order of time.
        empty: steps that were left out since some rank did nothing in them.
        whole: whether times are of all that ranks do; else only of how late they come, as compute is not known.
    """

    group: str
    block: str
    ranks: tuple[int, ...]
    times: Array
    empty: int = 0
    whole: bool = True

    @property
    def name(self) -> str:
        """As it is called where there are several."""
        return f"{self.group}, {self.block}"

    @property
    def n(self) -> int:
        """Ranks."""
        return self.times.shape[1]

    @property
    def tax(self) -> float:
        """Mean wait of a rank for the slowest of all ``n``, seconds."""
        return float((self.times.max(axis=1) - self.times.mean(axis=1)).mean())


def steps_of(
    summary: Summary, *, measure: Measure, group: str | Sequence[str] | None, block: str | None, relative: bool
) -> list[Steps]:
    """What every process group of a summary does between barriers: first all of it, then its kinds of blocks.

    Args:
        summary: of a trace report.
        measure: ``busy`` (GPU work), ``gap`` (all time between collectives) or ``arrival`` (when ranks come to the
            collective, by how long its kernels take: the rank that waits longest came first).
        group, block: which ones; None takes all. One block is taken alone, where a step has several.
        relative: whether each step is divided by its mean, for steps of different lengths.

    Raises:
        InputError: where there are none.
    """
    groups = (group,) if isinstance(group, str) else group
    if groups is not None and not groups:
        raise InputError("group", "must name at least one")
    chosen = [own for own in summary.blocks if (groups is None or own.group in groups) and block in (None, own.block)]
    if measure == "arrival":
        if block is not None:
            raise InputError("block", "must be left out for measure=arrival, which is of collectives", block)
        found = list(_arrivals(summary, groups))
    else:
        check_choice(summary, chosen, groups, block)
        if measure == "gap" and not all(own.gap for own in chosen):
            raise InputError(
                "measure",
                "must be busy or arrival for a table of operations without start times: nothing says what was between",
            )
        together: dict[tuple[str, tuple[int, ...]], list[Block]] = {}
        for own in chosen:
            together.setdefault((own.group, tuple(own.ranks)), []).append(own)
        found = [steps for blocks in together.values() for steps in _of_group(blocks, measure)]
    found = [steps for steps in found if len(steps.times)]
    if not found:
        _refuse_empty(summary, chosen, measure)
    wide = [steps for steps in found if steps.n > 1]
    if not wide:
        raise InputError("blocks", "must be on at least 2 ranks; these are on 1")
    if not relative:
        return wide
    return [replace(own, times=relative_to_own_mean(own.times, own.times.mean())) for own in wide]


def _refuse_empty(summary: Summary, chosen: Sequence[Block], measure: Measure) -> None:
    """Say why there is no step."""
    if measure == "arrival":
        why = next((own.reason for own in summary.collectives if own.status == "refused"), "")
        raise InputError("measure", f"arrival needs collectives that were matched; there are none{why and f': {why}'}")
    ranks = [
        rank for own in chosen if own.busy for i, rank in enumerate(own.ranks) if not any(row[i] for row in own.busy)
    ]
    who = f"rank {ranks[0]} has 0 in each" if ranks else "in each some rank did nothing"
    other = "; measure=gap takes all time" if measure == "busy" and all(own.gap for own in chosen) else ""
    raise InputError("measure", f"{measure} leaves no block: {who}{other}")


def _of_group(blocks: Sequence[Block], measure: Measure) -> Iterator[Steps]:
    blocks = [own for own in blocks if own.busy]
    kinds = [_times(own, measure) for own in blocks]
    labels = [list(own.collective) for own in blocks]
    if len(blocks) > 1 or any(len(set(own)) < len(own) for own in labels):
        yield _together(blocks[0], kinds, labels)
    for own, times in zip(blocks, kinds, strict=True):
        yield _without_empty(own.group, own.block, own.ranks, times)


def _together(own: Block, kinds: Sequence[Array], labels: Sequence[Sequence[int]]) -> Steps:
    """The sum of all blocks before a collective, where it has as many of each kind as most have."""
    counts = [Counter(own) for own in labels]
    usual = [Counter(each.values()).most_common(1)[0][0] for each in counts]
    whole = [label for label in counts[0] if all(each[label] == often for each, often in zip(counts, usual))]  # noqa: B905
    place = {label: i for i, label in enumerate(whole)}
    sums = np.zeros((len(whole), len(own.ranks)))
    for times, label in zip(kinds, labels, strict=True):
        kept = np.array([place.get(one, -1) for one in label])
        np.add.at(sums, kept[kept >= 0], times[kept >= 0])
    return _without_empty(own.group, STEP, own.ranks, sums)


def _times(own: Block, measure: Measure) -> Array:
    rows = own.gap if measure == "gap" else own.busy
    return np.array(rows, dtype=float).reshape(-1, len(own.ranks)) / 1e9


def _without_empty(group: str, block: str, ranks: Sequence[int], times: Array) -> Steps:
    whole = (times > 0).all(axis=1)
    return Steps(group, block, tuple(ranks), times[whole], int((~whole).sum()))


def _arrivals(summary: Summary, groups: Sequence[str] | None) -> Iterator[Steps]:
    """When ranks come to each collective, after what they compute on average."""
    known = list(dict.fromkeys(own.group for own in summary.collectives))
    for name in groups or ():
        if name not in known:
            raise InputError("group", f"must be one of {', '.join(known) or 'none at all'}", name)
    for own in summary.collectives:
        if (groups is None or own.group in groups) and own.duration:
            yield _arrival(own, summary)


def _arrival(own: Collectives, summary: Summary) -> Steps:
    duration = np.array(own.duration, dtype=float).reshape(-1, len(own.ranks)) / 1e9
    late = duration.max(axis=1, keepdims=True) - duration
    blocks = [block for block in summary.blocks if block.group == own.group and block.ranks == own.ranks]
    before = sum(_per_collective(block) for block in blocks)
    times = late + max(before - float(late.mean()), 0.0)
    return Steps(own.group, own.operation, tuple(own.ranks), times, whole=bool(blocks))


def _per_collective(block: Block) -> float:
    """Mean time of a block's kind before one collective, seconds."""
    times = np.array(block.gap or block.busy, dtype=float)
    return float(times.mean()) / 1e9 * len(times) / max(1, len(set(block.collective))) if times.size else 0.0
