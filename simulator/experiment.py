"""An experiment: everything a simulation depends on, checked; and ``run``, which turns it into a result."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simulator.checks import InputError, count, flag
from simulator.engine import HORIZON, Draws, Engine, to_ticks
from simulator.engine_vector import Vector
from simulator.laws import Law
from simulator.laws.base import Array
from simulator.measure import Measured, measure
from simulator.program import Collective, Program
from simulator.task import Progress
from simulator.topology import Cost, Machine, Topology
from simulator.workloads import Workload

if TYPE_CHECKING:
    from simulator.results import Result

MAX_SEED = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A simulation: n ranks on a topology run a workload whose block times follow a law.

    Attributes:
        n: ranks in the scale-up domain.
        topology: how they are wired, with alpha and bandwidth.
        compute: law of the compute-block times.
        workload: writes the program of one iteration.
        machine: the machine whose link the topology took; recorded, not used.
        engine: vector or events; both give the same numbers.
        iterations: independent iterations to simulate.
        seed: whole number from 0 to 2^63 - 1; None draws one, which the manifest records.
        name: the experiment's name in tables.
        timeline: also write a Chrome trace of the first iterations.
        timeline_iterations: how many of them.
        timeline_ranks: how many ranks of each, from rank 0 on.
        per_rank: also write one row per rank and collective.
        plots: also draw the two pictures.
    """

    n: int
    topology: Topology
    compute: Law
    workload: Workload
    machine: Machine | None = None
    engine: Engine = field(default_factory=Vector)
    iterations: int = 40
    seed: int | None = 0
    name: str = "simulation"
    timeline: bool = False
    timeline_iterations: int = 2
    timeline_ranks: int = 64
    per_rank: bool = False
    plots: bool = True

    def __post_init__(self) -> None:
        count("n", self.n)
        count("iterations", self.iterations)
        if self.seed is None:
            object.__setattr__(self, "seed", secrets.randbelow(MAX_SEED))
        count("seed", self.seed, least=0, most=MAX_SEED)
        for switch in ("timeline", "per_rank", "plots"):
            flag(switch, getattr(self, switch))
        count("timeline_iterations", self.timeline_iterations)
        count("timeline_ranks", self.timeline_ranks)
        self.topology.check(self.n)
        self.compute.check_ranks(self.n)

    @cached_property
    def program(self) -> Program:
        """The operations of one iteration."""
        return self.workload.program(self.n, self.compute)

    @cached_property
    def costs(self) -> tuple[Cost | None, ...]:
        """For each operation of the program its cost on the topology; None for computes."""
        program = self.program
        return tuple(
            self.topology.cost(op.kind, op.nbytes, program.blocks(op.group)[1]) if isinstance(op, Collective) else None
            for op in program.operations
        )

    @cached_property
    def notes(self) -> list[str]:
        """What a reader of the results must know."""
        return [note for note in (self.topology.note(self.n), self.compute.note) if note]


def run(experiment: Experiment, *, progress: Progress | None = None, config: Any = None) -> Result:
    """Simulate an experiment.

    Args:
        experiment: what to run.
        progress: called with (iterations done, iterations in all) as they end.
        config: what the manifest records as the configuration; the experiment's own text by default.

    Returns:
        the tables and the manifest; the same bytes in every table for the same experiment, whatever engine, threads
        and chunks.

    Raises:
        InputError: when a drawn time is negative or an iteration is longer than the clock.

    >>> from simulator.laws import Deterministic
    >>> from simulator.workloads import TensorParallel
    >>> from topologies import NVSwitch
    >>> result = run(Experiment(n=8, topology=NVSwitch(alpha=5e-6, bandwidth=450e9), compute=Deterministic(mean=0.016),
    ...                         workload=TensorParallel(layers=80, bytes=2**28), iterations=1))
    >>> print(round(float(result.summary.iteration_time[0]), 6))  # 320 * (16 ms + 10 us + 1.75 * 2^28 B / 450 GB/s)
    5.457253
    """
    from simulator.provenance import manifest
    from simulator.results import Tables

    began = time.perf_counter()
    tables = Tables(experiment, experiment.costs)
    done = 0
    for measured in _chunks(experiment):
        tables.add(measured)
        done += len(measured.iteration_time)
        if progress is not None:
            progress(done, experiment.iterations)
    record = manifest(experiment.seed, config if config is not None else repr(experiment), experiment.notes)
    record["wall_time"] = time.perf_counter() - began
    return tables.result(record)


class Record(NamedTuple):
    """One operation of ``c`` iterations: arrays of shape (c, n), or (c, 1) where all ranks agree; seconds."""

    operation: int
    ready: Array
    start: Array
    end: Array


def trace(experiment: Experiment, iterations: range) -> Iterator[Record]:
    """Every operation of ``iterations`` on every rank, as the engine gives it: the same numbers ``run`` reduces.

    The collectives come in issue order, each after the computes it waits for.
    """
    draws = Draws(experiment.program, experiment.seed or 0, iterations)
    for step in experiment.engine.steps(experiment.program, _times(experiment), draws):
        for k, i in enumerate(step.operations):
            yield Record(i, step.ready[:, k], step.start[:, k], step.end[:, k])


def _chunks(experiment: Experiment) -> Iterator[Measured]:
    """The measures of all iterations, in order; computed by as many threads as the engine wants."""
    times = _times(experiment)
    size = experiment.engine.chunk(experiment.program, experiment.iterations)
    parts = [range(i, min(i + size, experiment.iterations)) for i in range(0, experiment.iterations, size)]

    def work(part: range) -> Measured:
        draws = Draws(experiment.program, experiment.seed or 0, part)
        measured = measure(experiment.program, experiment.engine.steps(experiment.program, times, draws), draws)
        if not (measured.iteration_time < HORIZON).all():
            raise InputError(
                f"an iteration must take less than {HORIZON:g} s, the range of the clock; got "
                f"{measured.iteration_time.max():g} s"
            )
        return measured

    workers = min(experiment.engine.workers, len(parts))
    if workers == 1:
        yield from map(work, parts)
        return
    with ThreadPoolExecutor(workers) as pool:
        try:
            waiting: deque[Future[Measured]] = deque()
            for part in parts:
                waiting.append(pool.submit(work, part))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _times(experiment: Experiment) -> list[float]:
    """Seconds that each collective takes once it started, in ticks."""
    times = np.array([cost.time if cost is not None else 0.0 for cost in experiment.costs])
    for i in np.flatnonzero(~(times < HORIZON)).tolist():
        name = experiment.program.operations[i].name
        raise InputError(
            f"collective {name!r} must take less than {HORIZON:g} s, the range of the clock; got {times[i]:g} s"
        )
    to_ticks(times)
    return [float(x) for x in times]
