"""What an engine is, the clock it keeps, and the random times it is given.

Randomness and rounding live here, outside the engines, so that every engine works on the same numbers. Each drawn
or computed duration is rounded once to a tick of 2^-40 s (0.9 ps); sums of ticks are exact in float64 below 8,192 s,
so no result depends on the order of additions, and engines can be compared bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.laws.base import Law, fill
from simulator.laws.dependence import Dependence
from simulator.workload.program import Compute, Program

TICK = 2.0**-40  # seconds
HORIZON = 8192.0  # seconds: 2^13, above which a double no longer resolves a tick
_ROUNDER = 0.75 * HORIZON  # in [2^12, 2^13), where the spacing of doubles is exactly one tick


def to_ticks(x: Array) -> None:
    """Round durations (s) to whole ticks of 2^-40 s, in place.

    >>> x = np.array([0.016]); to_ticks(x); float(x[0]) * 2**40
    17592186044.0
    """
    x += _ROUNDER
    x -= _ROUNDER


class Step(NamedTuple):
    """``k`` operations of one kind and group, over ``c`` iterations; seconds.

    Arrays of shape (c, k, n), or (c, k, 1) where all ranks agree.
    """

    operations: Sequence[int]
    ready: Array
    start: Array
    end: Array


class Engine(Protocol):
    """Runs a program: a pure function of the drawn durations and the collectives' times."""

    @property
    def name(self) -> str: ...

    @property
    def workers(self) -> int:
        """Threads to run chunks in."""
        ...

    def check(self, program: Program) -> None:
        """Raise InputError when the program is too large for this engine."""
        ...

    def chunk(self, program: Program, iterations: int) -> int:
        """How many iterations to run at once."""
        ...

    def steps(self, program: Program, times: Sequence[float], draws: Draws) -> Iterator[Step]:
        """Run the iterations that ``draws`` draws for, each from clock 0.

        Args:
            program: the operations.
            times: for each operation, seconds from the start to the end of the collective (ticks; 0 for computes).
            draws: the compute times.

        Yields:
            every operation, the collectives in issue order.
        """
        ...


def _stream(seed: int, *key: int) -> np.random.Generator:
    """A stream of random numbers of its own: (i,) of the ranks in iteration i, (i, 1) of what they share there, (0, 2)
    of the ranks' effects in the run, (0, 3) of the state of their noise between iterations."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


MAX_STATES = 2**26  # of ranks between iterations: 512 MiB


class Effects:
    """State carried between the iterations of a run where its law has any: effects of ranks, and of their AR(1) noise.

    Attributes:
        dependence: that of the program's laws; None where blocks are independent of each other.
        rank: a standard normal variate of each rank, shape (n,); empty where ranks keep no drawn effect.
        states: each rank's own noise at the end of every iteration, shape (iterations + 1, n), the first entry where
            iteration 0 begins; empty where it is not autocorrelated.
    """

    def __init__(self, program: Program, seed: int, iterations: int):
        found = {compute_law(program, i).dependence for i in program.computes}
        if len(found) > 1:
            raise InputError("compute: all laws of a program must have one dependence between ranks, or none")
        self.dependence: Dependence | None = found.pop() if found else None
        self.rank = self.states = np.empty(0)
        if self.dependence is not None and self.dependence.drawn:
            self.rank = _stream(seed, 0, 2).standard_normal(program.n)
        if self.dependence is not None and self.dependence.memory:
            if (iterations + 1) * program.n > MAX_STATES:
                raise InputError(
                    "iterations",
                    f"must be fewer, since AR(1) noise carries a number for each rank between them, at "
                    f"most {MAX_STATES}; got {iterations} iterations of {program.n} ranks",
                )
            noise = _stream(seed, 0, 3).standard_normal((iterations + 1, program.n))
            self.states = self.dependence.chain(noise, len(program.computes))


class Draws:
    """The compute times of some iterations, drawn in issue order, each iteration from a stream of its own.

    Iteration i draws from child i of ``SeedSequence(seed)``, so its times depend on seed and i alone. Consecutive
    computes of one law are drawn together; as each time takes one variate of the stream, the numbers are the same
    however many are drawn at once.

    Args:
        program: whose computes they are.
        seed: of the run.
        iterations: which of its iterations.
        effects: state carried between them; made for as many iterations as needed where it is not given.

    Attributes:
        compute: time spent computing by the operations drawn so far, mean over ranks, shape (iterations,), seconds.
    """

    def __init__(self, program: Program, seed: int, iterations: range, effects: Effects | None = None):
        self.compute = np.zeros(len(iterations))
        self._program = program
        self._batch = {i: batch for batch in compute_batches(program) for i in batch}
        self._drawn: tuple[Sequence[int], Array] = ((), np.empty(0))
        self._streams = [_stream(seed, i) for i in iterations]
        self._effects = effects or Effects(program, seed, max(iterations, default=-1) + 1)
        if self._effects.dependence is not None:
            self._shared = [_stream(seed, i, 1) for i in iterations]
            self._left = len(program.computes)  # computes of an iteration not drawn yet
        if self._effects.states.size:
            self._noise = self._effects.states[iterations.start : iterations.stop]
            self._end = self._effects.states[iterations.start + 1 : iterations.stop + 1]

    def one(self, index: int) -> Array:
        """Times of compute ``index``, shape (iterations, n), whole ticks. Computes are asked for in issue order."""
        if index not in self._drawn[0]:
            batch = self._batch[index]
            self._drawn = batch, self.many(batch)
        computes, times = self._drawn
        return times[:, computes.index(index)]

    def many(self, computes: Sequence[int]) -> Array:
        """Times of the next ``computes``, which have one law: shape (iterations, len(computes), n), whole ticks.

        Raises:
            InputError: when a law draws a time that is negative or not a number.
        """
        law, n = compute_law(self._program, computes[0]), self._program.n
        x = np.empty((len(self._streams), len(computes), n))
        for stream, row in zip(self._streams, x, strict=True):
            fill(law.noise, stream, row)
        if self._effects.dependence is not None:
            self._depend(self._effects.dependence, x)
        law.transform(x)
        if not x.min() >= 0.0:  # a time beyond the clock makes the iteration too long, which is refused there
            name = self._program.operations[computes[0]].name
            raise InputError(
                f"compute: the {law.name} law drew a block time of {x[~(x >= 0.0)][0]:g} s for {name!r} or a block "
                f"after it; times must be at least 0"
            )
        to_ticks(x)
        self.compute += (np.add.reduce(x, axis=2) / n).sum(axis=1)
        return x

    def _depend(self, dependence: Dependence, x: Array) -> None:
        """Turn independent noise into what ranks share and keep, with AR(1) noise, in place."""
        blocks = x.shape[1]
        if self._effects.states.size:
            for k in range(blocks):
                x[:, k] = self._noise = dependence.bridge(self._noise, self._end, x[:, k], self._left - k - 1)
        self._left -= blocks
        shared = np.empty((len(x), blocks, dependence.shared(self._program.n)))
        for stream, row in zip(self._shared, shared, strict=True):
            fill("normal", stream, row)
        dependence.combine(x, shared, self._effects.rank)


BATCH = 65_536  # variates per stream and call: large calls keep threads out of each other's way


def compute_batches(program: Program) -> list[Sequence[int]]:
    """The program's computes, in issue order, split into runs of one law that are drawn together."""
    most = max(1, BATCH // program.n)
    batches: list[list[int]] = []
    for i in program.computes:
        last = batches[-1] if batches else []
        if last and len(last) < most and compute_law(program, i) is compute_law(program, last[0]):
            last.append(i)
        else:
            batches.append([i])
    return list(batches)


def compute_law(program: Program, index: int) -> Law:
    """The law of a compute operation."""
    operation = program.operations[index]
    assert isinstance(operation, Compute)
    return operation.law
