"""The SimPy engine: one process per rank and stream. The readable truth that the vector engine must equal.

An event exists only where somebody waits for it: an operation gets one when another stream of the rank runs after it,
and a collective gets one per group instance, which its ranks wait for.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import simpy

from simulator.engine import Durations, Step
from simulator.program import Collective, Program


@dataclass(frozen=True, kw_only=True)
class Events:
    """Event-driven engine, for programs and topologies that need real events."""

    name: ClassVar[str] = "events"
    workers: ClassVar[int] = 1

    def chunk(self, n: int, iterations: int) -> int:
        return 1

    def steps(self, program: Program, times: Sequence[float], durations: Durations, chunk: int) -> Iterator[Step]:
        drawn = {i: durations(i) for i in program.computes}
        runs = [_Iteration(program, times, {i: rows[c].tolist() for i, rows in drawn.items()}) for c in range(chunk)]
        for run in runs:
            run.environment.run()
        for i in range(len(program.operations)):
            yield Step(i, *(np.array([table[i] for table in tables]) for tables in zip(*(
                (run.ready, run.start, run.end) for run in runs), strict=True)))  # fmt: skip


class _Barrier:
    """One group instance of one collective: counts arrivals, and knows the event its ranks wait for."""

    __slots__ = ("done", "missing")

    def __init__(self, environment: simpy.Environment, ranks: int):
        self.missing = ranks
        self.done = environment.event()


class _Iteration:
    """The processes of one iteration, and what they record: ready, start and end of each operation on each rank."""

    def __init__(self, program: Program, times: Sequence[float], drawn: dict[int, list[float]]):
        self.environment = simpy.Environment()
        n, operations = program.n, program.operations
        self.ready, self.start, self.end = ([[0.0] * n for _ in operations] for _ in range(3))
        self._times, self._drawn = times, drawn
        self._barriers = {i: self._groups(program, i) for i in program.collectives}
        stream_of = [op.stream for op in operations]
        self._across = [
            tuple(j for j in before if stream_of[j] != stream_of[i]) for i, before in enumerate(program.predecessors)
        ]
        awaited = {j for before in self._across for j in before}
        for rank in range(n):
            events = {j: self.environment.event() for j in awaited}
            for stream in program.streams.values():
                self.environment.process(self._run(rank, stream, events))

    def _groups(self, program: Program, index: int) -> list[_Barrier]:
        """The barrier of every rank; ranks of one group instance share it."""
        operation = program.operations[index]
        assert isinstance(operation, Collective)
        a, g, b = program.blocks(operation.group)
        lines = [[_Barrier(self.environment, g) for _ in range(b)] for _ in range(a)]
        return [lines[i][k] for i in range(a) for _ in range(g) for k in range(b)]

    def _run(self, rank: int, stream: tuple[int, ...], events: dict[int, simpy.Event]) -> Generator[Any, Any, None]:
        environment, timeout = self.environment, self.environment.timeout
        for i in stream:
            for j in self._across[i]:
                yield events[j]
            self.ready[i][rank] = environment.now
            if i in self._drawn:
                self.start[i][rank] = environment.now
                yield timeout(self._drawn[i][rank])
            else:
                barrier = self._barriers[i][rank]
                barrier.missing -= 1
                if barrier.missing:
                    yield barrier.done
                else:
                    yield timeout(self._times[i])
                    barrier.done.succeed()
                self.start[i][rank] = environment.now - self._times[i]
            self.end[i][rank] = environment.now
            if i in events:
                events[i].succeed()
