"""The NumPy engine: max-plus algebra over all ranks of several iterations at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np

from simulator.arrays import Array
from simulator.checks import Checked, Rule
from simulator.simulation.draws import BATCH, Draws, Step, compute_batches
from simulator.workload.program import Collective, Program

# glibc hands freed arrays back to the system until it has seen a larger one freed, and then keeps them for reuse.
# Without this, page faults cost a third of the time.
np.empty(31 * 2**20, dtype=np.uint8)


@dataclass(frozen=True, kw_only=True)
class Vector(Checked):
    """Fast engine; the default.

    Attributes:
        threads: worker threads; None uses every processor this process may run on.
        iterations_per_chunk: iterations run at once; None chooses for the cache. Neither changes a number.
    """

    threads: Annotated[int, Rule(least=1, most=4096)] | None = None
    iterations_per_chunk: Annotated[int, Rule(least=1)] | None = None
    name: ClassVar[str] = "vector"

    def check(self, program: Program) -> None:
        """Any program fits."""

    @property
    def workers(self) -> int:
        """Threads to run chunks in."""
        if self.threads is not None:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def chunk(self, program: Program, iterations: int) -> int:
        """So many iterations that a batch of draws has about 262,144 times (2 MiB), and all threads have work.

        ``iterations_per_chunk`` is followed as far as the times fit into 256 MiB.
        """
        wide = max(min(BATCH, program.n * len(program.computes)) + 1, program.barriers, program.n)
        if self.iterations_per_chunk is not None:
            return max(1, min(self.iterations_per_chunk, iterations, 2**25 // wide))
        return max(1, min(262_144 // wide, -(-iterations // (4 * self.workers))))

    def steps(self, program: Program, times: Sequence[float], draws: Draws) -> Iterator[Step]:
        needed = last_use(program)
        batches = {batch[0]: batch for batch in compute_batches(program) if is_synchronous(program, needed, batch)}
        ends: dict[int, Array] = {}
        origin = np.zeros((len(draws.compute), 1))
        i = 0
        while i < len(program.operations):
            before = program.predecessors[i]
            ready = reduce(np.maximum, [ends[j] for j in before]) if before else origin
            ends = {j: end for j, end in ends.items() if needed[j] > i}
            if i in batches and ready.shape[1] == 1:
                computes, collectives = _blocks(batches[i], ready, draws.many(batches[i]), times)
                yield computes
                yield collectives
                i = collectives.operations[-1]
                ends[i] = collectives.end[:, -1]
            else:
                step = _operation(program, i, ready, times, draws)
                yield step
                ends[i] = step.end[:, 0]
            i += 1


def _operation(program: Program, i: int, ready: Array, times: Sequence[float], draws: Draws) -> Step:
    """One operation, by itself."""
    operation = program.operations[i]
    if isinstance(operation, Collective):
        start = latest(program, operation.group, ready)
        end = start + times[i]
    else:
        start = ready
        end = ready + draws.one(i)
    return Step((i,), ready[:, None], start[:, None], end[:, None])


def _blocks(computes: Sequence[int], begin: Array, drawn: Array, times: Sequence[float]) -> tuple[Step, Step]:
    """A run of (compute, collective of all ranks) pairs at once.

    Each block begins for all ranks together, so its slowest rank alone decides when the next one begins: the clock
    is a running sum of maxima, exact because all are whole ticks.
    """
    collectives = [i + 1 for i in computes]
    slowest = drawn.max(axis=2)
    transfer = np.array([times[i] for i in collectives])
    end = begin + np.cumsum(slowest + transfer, axis=1)
    begin = np.concatenate([begin, end[:, :-1]], axis=1)
    start = begin + slowest
    drawn += begin[..., None]
    return (
        Step(computes, begin[..., None], begin[..., None], drawn),
        Step(collectives, drawn, start[..., None], end[..., None]),
    )


def is_synchronous(program: Program, needed: Sequence[int], computes: Sequence[int]) -> bool:
    """Whether each compute is followed by a collective of all ranks that alone waits for it and ends the block."""

    def ends_block(i: int) -> bool:
        after = program.operations[i + 1] if i + 1 < len(program.operations) else None
        return (
            isinstance(after, Collective)
            and program.blocks(after.group)[1] == program.n
            and program.predecessors[i + 1] == (i,)
            and needed[i] == i + 1
        )

    return all(ends_block(i) for i in computes) and all(
        i == previous + 2 and program.predecessors[i] == (previous + 1,) and needed[previous + 1] == i
        for previous, i in pairwise(computes)
    )


def latest(program: Program, group: str, ready: Array) -> Array:
    """The last arrival of each rank's group, shape (c, n); (c, 1) where the group is all ranks or all agree."""
    if ready.shape[1] == 1:
        return ready
    a, g, b = program.blocks(group)
    if g == program.n:
        return np.asarray(ready.max(axis=1, keepdims=True))
    top = ready.reshape(-1, a, g, b).max(axis=2, keepdims=True)
    return np.broadcast_to(top, (len(ready), a, g, b)).reshape(len(ready), -1)


def last_use(program: Program) -> list[int]:
    """For each operation, the index of the last one that waits for it (its own where none does)."""
    last = list(range(len(program.operations)))
    for i, before in enumerate(program.predecessors):
        for j in before:
            last[j] = i
    return last
