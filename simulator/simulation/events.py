"""The SimPy engine: one process per rank and stream. The readable truth that the vector engine must equal.

An event exists only where somebody waits for it: an operation gets one when another stream of the rank runs after it,
and a collective gets one per group instance, which its ranks wait for.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import simpy

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.simulation.draws import Draws, Step
from simulator.workload.program import Collective, Program

MAX_PROCESSES = 2**16
MAX_OPERATIONS = 2**24


@dataclass(frozen=True, kw_only=True)
class Events:
    """Event-driven engine, for programs and topologies that need real events."""

    name: ClassVar[str] = "events"
    workers: ClassVar[int] = 1

    def check(self, program: Program) -> None:
        """Refuse what would not fit into a few GB."""
        processes, operations = program.n * len(program.streams), program.n * len(program.operations)
        for found, most, what in (
            (processes, MAX_PROCESSES, "ranks x streams"),
            (operations, MAX_OPERATIONS, "ranks x operations of one iteration"),
        ):
            if found > most:
                raise InputError(
                    f"engine events takes at most {most} {what}; got {found}: engine=vector gives the same numbers"
                )

    def chunk(self, program: Program, iterations: int) -> int:
        """One iteration at a time."""
        return 1

    def steps(self, program: Program, times: Sequence[float], draws: Draws) -> Iterator[Step]:
        drawn = {i: draws.one(i) for i in program.computes}
        runs = [_Iteration(program, times, {i: x[c] for i, x in drawn.items()}) for c in range(len(draws.compute))]
        for i in range(len(program.operations)):
            ready, start, end = (
                np.stack(times)[:, None] for times in zip(*(run.record(i) for run in runs), strict=True)
            )
            yield Step((i,), ready, start, end)


class _Barrier:
    """One group instance of one collective: counts arrivals, and knows the event its ranks wait for."""

    __slots__ = ("done", "end", "missing", "start")

    def __init__(self, environment: simpy.Environment, ranks: int):
        self.missing = ranks
        self.done = environment.event()
        self.start = self.end = 0.0


class _Operation(NamedTuple):
    """What the processes need to know of one operation; lists and arrays are over ranks."""

    across: tuple[int, ...]  # operations of other streams that it runs after
    drawn: list[float]  # seconds, of a compute
    barriers: list[_Barrier]  # of a collective; ranks of one group instance share one
    transfer: float  # seconds from its start to its end, of a collective
    ready: array[float]
    ended: dict[int, simpy.Event]  # by rank; empty when no other stream waits for it


class _Iteration:
    """One iteration, run to its end."""

    def __init__(self, program: Program, times: Sequence[float], drawn: dict[int, Array]):
        self._environment = simpy.Environment()
        self._program, self._drawn = program, drawn
        self._ended: dict[str, Array] = {}  # of each stream, when the last recorded operation ended
        stream_of = [op.stream for op in program.operations]
        across = [
            tuple(j for j in before if stream_of[j] != stream_of[i]) for i, before in enumerate(program.predecessors)
        ]
        awaited = {j for before in across for j in before}
        ranks = range(program.n)
        self._operations = [
            _Operation(
                across[i],
                drawn[i].tolist() if i in drawn else [],
                [] if i in drawn else self._barriers(i),
                times[i],
                array("d", bytes(8 * program.n)),
                {rank: self._environment.event() for rank in ranks} if i in awaited else {},
            )
            for i in range(len(program.operations))
        ]
        for stream in program.streams.values():
            operations = [self._operations[i] for i in stream]
            for rank in ranks:
                self._environment.process(self._run(rank, operations))
        self._environment.run()

    def record(self, index: int) -> tuple[Array, Array, Array]:
        """Ready, start and end of an operation on every rank, each of shape (n,); to be asked for in issue order."""
        operation, stream = self._operations[index], self._program.operations[index].stream
        ready = np.frombuffer(operation.ready)
        if index in self._drawn:
            if not operation.across:
                ready = self._ended.get(stream, ready)
            self._ended[stream] = end = ready + self._drawn[index]
            return ready, ready, end
        a, g, b = self._program.blocks(_group(self._program, index))
        lines = [operation.barriers[i * g * b : i * g * b + b] for i in range(a)]  # the first rank of each group
        start, end = (
            np.broadcast_to(np.array([[getattr(x, what) for x in line] for line in lines])[:, None], (a, g, b)).ravel()
            for what in ("start", "end")
        )
        self._ended[stream] = end
        return ready, start, end

    def _barriers(self, index: int) -> list[_Barrier]:
        """The barrier of each rank; ranks of one group instance share it."""
        a, g, b = self._program.blocks(_group(self._program, index))
        lines = [[_Barrier(self._environment, g) for _ in range(b)] for _ in range(a)]
        return [lines[i][k] for i in range(a) for _ in range(g) for k in range(b)]

    def _run(self, rank: int, operations: list[_Operation]) -> Generator[Any, Any, None]:
        environment, timeout = self._environment, self._environment.timeout
        for across, drawn, barriers, transfer, ready, ended in operations:
            for j in across:
                yield self._operations[j].ended[rank]
            if across or not drawn:  # else it is ready when the operation before it ended, which is on record
                ready[rank] = environment.now
            if drawn:
                yield timeout(drawn[rank])
            else:
                barrier = barriers[rank]
                barrier.missing -= 1
                if barrier.missing:
                    yield barrier.done
                else:
                    barrier.start = environment.now
                    yield timeout(transfer)
                    barrier.end = environment.now
                    barrier.done.succeed()
            if ended:
                ended[rank].succeed()


def _group(program: Program, index: int) -> str:
    operation = program.operations[index]
    assert isinstance(operation, Collective)
    return operation.group
