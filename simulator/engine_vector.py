"""The NumPy engine: max-plus algebra over all ranks of several iterations at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from simulator.checks import count
from simulator.engine import Durations, Step
from simulator.laws.base import Array
from simulator.program import Collective, Program


@dataclass(frozen=True, kw_only=True)
class Vector:
    """Fast engine; the default.

    Attributes:
        threads: worker threads; None uses every processor this process may run on.
        iterations_per_chunk: iterations run at once; None chooses for the cache. Neither changes a number.
    """

    threads: int | None = None
    iterations_per_chunk: int | None = None
    name: ClassVar[str] = "vector"

    def __post_init__(self) -> None:
        if self.threads is not None:
            count("threads", self.threads, most=4096)
        if self.iterations_per_chunk is not None:
            count("iterations_per_chunk", self.iterations_per_chunk)

    @property
    def workers(self) -> int:
        return self.threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def chunk(self, n: int, iterations: int) -> int:
        """About 32,768 times (256 KiB) per array, and enough chunks to keep all threads busy."""
        return self.iterations_per_chunk or max(1, min(32_768 // n, -(-iterations // (4 * self.workers))))

    def steps(self, program: Program, times: Sequence[float], durations: Durations, chunk: int) -> Iterator[Step]:
        needed = last_use(program)
        ends: dict[int, Array] = {}
        origin = np.zeros((chunk, 1))
        for i, operation in enumerate(program.operations):
            before = program.predecessors[i]
            ready = reduce(np.maximum, [ends[j] for j in before]) if before else origin
            if isinstance(operation, Collective):
                start = latest(program, operation.group, ready)
                end = start + times[i]
            else:
                start = ready
                end = ready + durations(i)
            for j in before:
                if needed[j] == i:
                    del ends[j]
            if needed[i] > i:
                ends[i] = end
            yield Step(i, ready, start, end)


def latest(program: Program, group: str, ready: Array) -> Array:
    """The last arrival of each rank's group, shape (c, n); (c, 1) where the group is all ranks or all agree."""
    if ready.shape[1] == 1:
        return ready
    a, g, b = program.blocks(group)
    if g == program.n:
        return ready.max(axis=1, keepdims=True)
    top = ready.reshape(-1, a, g, b).max(axis=2, keepdims=True)
    return np.broadcast_to(top, (len(ready), a, g, b)).reshape(len(ready), -1)


def last_use(program: Program) -> list[int]:
    """For each operation, the index of the last one that waits for it (its own where none does)."""
    last = list(range(len(program.operations)))
    for i, before in enumerate(program.predecessors):
        for j in before:
            last[j] = i
    return last
