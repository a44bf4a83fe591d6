"""What an engine is, the clock it keeps, and the random times it is given.

Randomness and rounding live here, outside the engines, so that every engine works on the same numbers. Each drawn
or computed duration is rounded once to a tick of 2^-40 s (0.9 ps); sums of ticks are exact in float64 below 8,192 s,
so no result depends on the order of additions, and engines can be compared bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from simulator.checks import InputError
from simulator.laws.base import Array, Law, fill
from simulator.program import Compute, Program

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
    """One operation of ``c`` iterations: arrays of shape (c, n), or (c, 1) where all ranks agree; seconds."""

    operation: int
    ready: Array
    start: Array
    end: Array


Durations = Callable[[int], Array]  # operation index -> drawn times (c, n); called once each, in issue order


class Engine(Protocol):
    """Runs a program: a pure function of the drawn durations and the collectives' times."""

    @property
    def name(self) -> str: ...

    @property
    def workers(self) -> int:
        """Threads to run chunks in."""
        ...

    def chunk(self, n: int, iterations: int) -> int:
        """How many iterations to run at once."""
        ...

    def steps(self, program: Program, times: Sequence[float], durations: Durations, chunk: int) -> Iterator[Step]:
        """Run ``chunk`` iterations from clock 0.

        Args:
            program: the operations.
            times: for each operation, seconds from the start to the end of the collective (ticks; 0 for computes).
            durations: the drawn times of each compute.
            chunk: number of iterations c.

        Yields:
            every operation, in issue order.
        """
        ...


class Draws:
    """The compute times of some iterations, drawn in issue order, each iteration from a stream of its own.

    Iteration i draws from child i of ``SeedSequence(seed)``, so its times depend on seed and i alone. Consecutive
    computes of one law are drawn together where the domain is small; as each time takes one variate of the stream,
    the numbers are the same however many are drawn at once.
    """

    BATCH = 4096  # variates per stream and call, enough to amortise the call

    def __init__(self, program: Program, seed: int, iterations: range):
        self._program = program
        self._streams = [
            np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(i,)))) for i in iterations
        ]
        self._ahead: dict[int, Array] = {}

    def __call__(self, index: int) -> Array:
        """Times of compute ``index``, shape (iterations, n), whole ticks.

        Raises:
            InputError: when a law draws a time that is negative, not a number, or beyond the clock.
        """
        if index not in self._ahead:
            self._draw(index)
        return self._ahead.pop(index)

    def _draw(self, index: int) -> None:
        program, n = self._program, self._program.n
        place = program.computes.index(index)
        law = _law(program, index)
        most = max(1, self.BATCH // n)
        batch = [index]
        for other in program.computes[place + 1 : place + most]:
            if _law(program, other) is not law:
                break
            batch.append(other)
        x = np.empty((len(self._streams), len(batch), n))
        for stream, row in zip(self._streams, x, strict=True):
            fill(law.noise, stream, row)
        law.transform(x)
        if not (x.min() >= 0.0 and x.max() < HORIZON):
            bad = x[~((x >= 0.0) & (x < HORIZON))][0]
            raise InputError(
                f"compute: the {law.name} law drew a block time of {bad:g} s for {program.operations[index].name!r}; "
                f"times must be at least 0 and below {HORIZON:g} s"
            )
        to_ticks(x)
        for j, other in enumerate(batch):
            self._ahead[other] = x[:, j]


def _law(program: Program, index: int) -> Law:
    operation = program.operations[index]
    assert isinstance(operation, Compute)
    return operation.law
