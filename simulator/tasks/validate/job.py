"""The measured job, as it can be simulated: what ranks compute in a step, and the collective that ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.laws import Law
from simulator.network.collectives import Kind
from simulator.tasks.fit.steps import STEP, steps_of
from simulator.traces.summary import Block, Collectives, Summary
from simulator.workload.program import Collective, Compute, Operation, Program

LEAST_STEPS = 3  # to compare with


@dataclass(frozen=True, kw_only=True)
class Job:
    """One operation of a process group, with the compute before it; seconds. A step is a collective and that compute.

    Attributes:
        group, operation: which one.
        ranks: global ranks, in the order of columns.
        blocks: kinds of compute blocks of a step, in order: name, mean seconds, how many in a step.
        compute: of each step and rank, all its blocks together, shape (steps, ranks).
        duration: of the collective's kernels, shape (steps, ranks).
        elapsed: of each step and rank from the end of the collective before to the end of its own, shape (steps,
            ranks); where the source does not say, its compute and its kernel.
        notes: what is not as it was measured.
    """

    group: str
    operation: str
    ranks: tuple[int, ...]
    blocks: Sequence[tuple[str, float, int]]
    compute: Array
    duration: Array
    elapsed: Array
    notes: Sequence[str]

    def part(self, steps: slice = slice(None), ranks: slice = slice(None)) -> Job:
        """Some of its steps or ranks."""
        return replace(
            self, ranks=self.ranks[ranks], compute=self.compute[steps, ranks], duration=self.duration[steps, ranks],
            elapsed=self.elapsed[steps, ranks],
        )  # fmt: skip

    @property
    def whole(self) -> Job:
        """The same, where all blocks of a step are one draw."""
        return replace(self, blocks=[("compute", float(self.compute.mean()), 1)])

    @property
    def name(self) -> str:
        """As it is called in tables."""
        return f"{self.group}, {self.operation}"

    @property
    def steps(self) -> int:
        """How many were measured."""
        return len(self.duration)

    @property
    def waits(self) -> Array:
        """How long each rank waits for the last one, shape (steps, ranks): its kernel beyond the shortest."""
        return self.duration - self.duration.min(axis=1, keepdims=True)

    @property
    def transfer(self) -> float:
        """Mean over steps of the shortest kernel: the collective itself."""
        return float(self.duration.min(axis=1).mean())

    @property
    def transfer_cv(self) -> float:
        """How much the shortest kernel varies: its coefficient of variation over steps."""
        shortest = self.duration.min(axis=1)
        return float(shortest.std() / shortest.mean()) if shortest.mean() > 0 else 0.0

    @property
    def explained(self) -> float:
        """Correlation over steps and ranks of how long a rank waits and how much less it computes than the others; NaN
        where one never differs."""
        waits = (self.waits - self.waits.mean(axis=1, keepdims=True)).ravel()
        less = (self.compute.mean(axis=1, keepdims=True) - self.compute).ravel()
        return float(np.corrcoef(waits, less)[0, 1]) if waits.std() > 0 and less.std() > 0 else nan

    def program(self, n: int, law: Law) -> Program:
        """One step, on as many ranks as were measured: the workload of the simulation.

        Args:
            n: ranks.
            law: of a block as long as the mean over all blocks.
        """
        total = sum(mean * times for _, mean, times in self.blocks)
        mean = total / sum(times for *_, times in self.blocks)
        operations: list[Operation] = [
            Compute(name=f"{name} {i}", law=law.scaled(length / mean))
            for name, length, times in self.blocks
            for i in range(times)
        ]
        kinds = {kind.value for kind in Kind}
        kind = Kind(self.operation if self.operation in kinds else "all_reduce")
        return Program(mesh={"rank": n}, operations=[*operations, Collective(name="collective", kind=kind, nbytes=0.0)])


def jobs_of(summary: Summary, *, measure: str, group: str | None, operation: str | None) -> list[Job]:
    """The jobs of a summary that can be simulated.

    Args:
        summary: of a trace report.
        measure: ``busy`` or ``gap``: what counts as compute.
        group, operation: which ones; None takes all.

    Raises:
        InputError: where there are none.
    """
    if not summary.collectives and summary.blocks:
        return _of_compute_alone(summary, group)
    known = [(own.group, own.operation) for own in summary.collectives]
    for field, value, names in (
        ("group", group, {g for g, _ in known}),
        ("operation", operation, {o for _, o in known}),
    ):
        if value is not None and value not in names:
            raise InputError(field, f"must be one of {', '.join(sorted(names)) or 'none at all'}", value)
    if measure == "gap" and not any(block.gap for block in summary.blocks):
        raise InputError(
            "measure", "must be busy for a table of operations without start times: nothing says what was between"
        )
    found = []
    for own in summary.collectives:
        if group in (None, own.group) and operation in (None, own.operation) and not own.leading:
            blocks = [block for block in summary.blocks if block.group == own.group and block.ranks == own.ranks]
            found += list(_job(own, blocks, measure))
    if not found:
        raise InputError(
            "collectives",
            f"must have a compute block before them on the same ranks, at least 2, in {LEAST_STEPS} steps "
            "or more; none has",
        )
    return found


def _of_compute_alone(summary: Summary, group: str | None) -> list[Job]:
    """Jobs of a source without collectives, which says only what ranks compute: a barrier ends each step at once."""
    found: list[Job] = []
    for own in steps_of(summary, measure="busy", group=group, block=None, relative=False):
        if own.block == STEP or not any(job.group == own.group for job in found):
            waits = own.times.max(axis=1, keepdims=True) - own.times
            found.append(Job(
                group=own.group, operation="barrier", ranks=own.ranks,
                blocks=[("compute", float(own.times.mean()), 1)], compute=own.times, duration=waits,
                elapsed=own.times + waits,
                notes=["there is no collective: what ranks wait is taken from compute alone"],
            ))  # fmt: skip
    return found


def left_out(summary: Summary) -> Iterator[str]:
    """Collectives of a summary that cannot be simulated, and why."""
    for own in summary.collectives:
        blocks = [block for block in summary.blocks if block.group == own.group]
        why = ""
        if own.leading:
            why = "comes before the compute of its step"
        elif len(set(own.label)) < len(own.label):
            why = "several in a step"
        elif not own.duration:
            why = own.reason or "none was matched"
        elif not any(block.ranks == own.ranks for block in blocks):
            why = "no compute block on the same ranks in the same order"
        if why:
            yield f"{own.group}, {own.operation} ({why})"


def _job(own: Collectives, blocks: Sequence[Block], measure: str) -> Iterator[Job]:
    times = [_by_step(block, block.gap if measure == "gap" else block.busy) for block in blocks]
    gaps = [_by_step(block, block.gap) for block in blocks]
    if not times or not own.duration or len(set(own.label)) < len(own.label):
        return
    steps = [label for label in own.label if all(label in table for table in times)]
    if len(steps) < LEAST_STEPS or len(own.ranks) < 2:
        return
    row = {label: i for i, label in enumerate(own.label)}
    duration = np.array(own.duration, dtype=float)[[row[label] for label in steps]] / 1e9
    compute = np.array([sum(table[label].sum(axis=0) for table in times) for label in steps])
    timed = all(block.gap for block in blocks)
    between = np.array([sum(table[label].sum(axis=0) for table in gaps) for label in steps]) if timed else compute
    if not compute.mean() > 0:
        return
    kinds, notes = [], []
    for block, table in zip(blocks, times, strict=True):
        counts = Counter(len(table[label]) for label in steps)
        often = counts.most_common(1)[0][0]
        if len(counts) > 1:
            notes.append(
                f"steps have from {min(counts)} to {max(counts)} blocks {block.block!r}; {often} are simulated"
            )
        kinds.append((block.block, float(np.concatenate([table[label] for label in steps]).mean()), often))
    yield Job(
        group=own.group, operation=own.operation, ranks=tuple(own.ranks),
        blocks=[kind for kind in kinds if kind[1] > 0], compute=compute, duration=duration,
        elapsed=between + duration, notes=notes,
    )  # fmt: skip


def _by_step(block: Block, times: Sequence[Sequence[int]]) -> dict[int, Array]:
    """Label of the collective that follows -> the blocks before it, shape (blocks, ranks), seconds."""
    rows: dict[int, list[Sequence[int]]] = {}
    for label, row in zip(block.collective, times, strict=False):
        rows.setdefault(label, []).append(row)
    return {label: np.array(own, dtype=float) / 1e9 for label, own in rows.items()}
