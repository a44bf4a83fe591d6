"""What a profiler would report of each collective: how long its ranks waited, and for whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Array
from simulator.simulation.draws import Draws, Step
from simulator.tax import of_waits
from simulator.workload.program import Collective, Program


@dataclass(frozen=True)
class Measured:
    """Measures of ``c`` consecutive iterations; seconds.

    Per iteration (shape c): ``iteration_time``, and ``compute``, the mean over ranks of the time spent computing.
    Per iteration and barrier (shape c x barriers; a barrier is one group instance of one collective): the wait of
    the mean, median and fastest rank, the start and end of the transfer, and the rank that arrived last.
    """

    iteration_time: Array
    compute: Array
    wait_mean: Array
    wait_median: Array
    wait_fastest: Array
    start: Array
    end: Array
    straggler: NDArray[np.int32]


def barriers(program: Program) -> list[tuple[int, int]]:
    """(operation index, group instance) of every barrier, in the order of the columns of ``Measured``."""
    rows = []
    for i in program.collectives:
        a, _, b = _blocks(program, i)
        rows += [(i, instance) for instance in range(a * b)]
    return rows


def measure(program: Program, steps: Iterable[Step], draws: Draws) -> Measured:
    """Reduce the steps of the iterations that ``draws`` draws for to their measures.

    The wait of a rank is the last arrival of its group minus its own. Fastest is the longest wait of a group (the
    paper's max - min of kernel durations), median the paper's median - min.
    """
    chunk = len(draws.compute)
    shape = (chunk, len(barriers(program)))
    iteration_time = np.zeros(chunk)
    mean, median, fastest, start, end = (np.empty(shape) for _ in range(5))
    straggler = np.empty(shape, np.int32)
    column = 0
    for step in steps:
        for k in {k for k, i in enumerate(step.operations) if i in program.sinks}:
            np.maximum(iteration_time, step.end[:, k].max(axis=1), out=iteration_time)
        if not isinstance(program.operations[step.operations[0]], Collective):
            continue
        a, g, b = _blocks(program, step.operations[0])
        at = slice(column, column + len(step.operations) * a * b)
        column = at.stop
        ready = _by_group(step.ready, a, g, b)
        start[:, at] = _one_of_group(step.start, a, g, b)
        end[:, at] = _one_of_group(step.end, a, g, b)
        first_rank = (np.arange(a)[:, None] * g * b + np.arange(b)).ravel()
        straggler[:, at] = np.tile(first_rank, len(step.operations)) + ready.argmax(axis=2) * b
        fastest[:, at], median[:, at], mean[:, at] = of_waits(start[:, at, None] - ready)
    return Measured(iteration_time, draws.compute, mean, median, fastest, start, end, straggler)


def _blocks(program: Program, index: int) -> tuple[int, int, int]:
    operation = program.operations[index]
    assert isinstance(operation, Collective)
    return program.blocks(operation.group)


def _by_group(x: Array, a: int, g: int, b: int) -> Array:
    """From (c, k, n) or (c, k, 1) to (c, k*a*b group instances, g ranks)."""
    c, k, ranks = x.shape
    if ranks != a * g * b:
        x = np.broadcast_to(x, (c, k, a * g * b))
    if b > 1:
        x = x.reshape(c, k, a, g, b).swapaxes(3, 4)
    return x.reshape(c, k * a * b, g)


def _one_of_group(x: Array, a: int, g: int, b: int) -> Array:
    """The value that the ranks of each group instance share: from (c, k, n) or (c, k, 1) to (c, k*a*b)."""
    c, k, ranks = x.shape
    if ranks != a * g * b:
        return np.broadcast_to(x, (c, k, a * b)).reshape(c, k * a * b)
    return x.reshape(c, k, a, g, b)[:, :, :, 0].reshape(c, k * a * b)
