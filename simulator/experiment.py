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

from simulator.checks import MAX_RANKS, InputError, count, flag, instance, keep, shown, text
from simulator.collectives import Kind
from simulator.engine import HORIZON, TICK, Draws, Effects, Engine, to_ticks
from simulator.engine_vector import Vector
from simulator.laws import Law
from simulator.laws.base import Array
from simulator.measure import Measured, measure
from simulator.program import Collective, Compute, Program
from simulator.task import Progress
from simulator.topology import Cost, Machine, Topology
from simulator.workloads import Workload

if TYPE_CHECKING:
    from simulator.results import Result

MAX_SEED = 2**63 - 1
MAX_ITERATIONS = 10_000_000  # iterations.parquet holds a row for each, 0.1 kB in memory
MAX_BARRIERS = 10_000_000  # of one iteration, 0.4 kB each
MAX_ROWS = 20_000_000  # of what is written for single ranks, 0.1 kB each
MAX_KERNELS = 10_000_000  # in exported traces, 0.5 kB each
MAX_FILES = 100_000  # of exported traces, as many as are read
FINE = 1000 * TICK  # shorter durations lose a thousandth or more to rounding


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A simulation: n ranks on a topology run a workload whose block times follow a law.

    Attributes:
        n: ranks in the scale-up domain, up to 16,777,216.
        topology: how they are wired, with alpha and bandwidth.
        compute: law of the compute-block times.
        workload: writes the program of one iteration.
        machine: the machine whose link the topology took; recorded, not used.
        engine: vector or events; both give the same numbers.
        iterations: independent iterations to simulate, up to 10,000,000.
        seed: whole number from 0 to 2^63 - 1; None draws one, which the manifest records.
        name: the experiment's name in tables.
        timeline: also write a Chrome trace of the first iterations.
        timeline_iterations: how many of them.
        timeline_ranks: how many ranks of each, from rank 0 on.
        per_rank: also write one row per rank and collective.
        traces: also write a profiler trace of every rank.
        traces_iterations: how many iterations of it.
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
    traces: bool = False
    traces_iterations: int = 2
    plots: bool = True

    def __post_init__(self) -> None:
        n, iterations = count("n", self.n, most=MAX_RANKS), count("iterations", self.iterations, most=MAX_ITERATIONS)
        seed = secrets.randbelow(MAX_SEED) if self.seed is None else count("seed", self.seed, least=0, most=MAX_SEED)
        keep(self, n=n, iterations=iterations, seed=seed, name=text("name", self.name))
        for field_name, kind in (
            ("topology", Topology), ("compute", Law), ("workload", Workload), ("engine", Engine), ("machine", Machine),
        ):  # fmt: skip
            if field_name != "machine" or self.machine is not None:
                instance(field_name, getattr(self, field_name), kind)
        for switch in ("timeline", "per_rank", "traces", "plots"):
            flag(switch, getattr(self, switch))
        for size in ("timeline_iterations", "timeline_ranks", "traces_iterations"):
            keep(self, **{size: count(size, getattr(self, size))})
        self.topology.check(self.n)
        self.compute.check_ranks(self.n)

    @cached_property
    def program(self) -> Program:
        """The operations of one iteration.

        Raises:
            InputError: when the workload writes no program for n ranks, or one too large to run.
        """
        program = self.workload.program(self.n, self.compute)
        if not isinstance(program, Program) or program.n != self.n:
            other = f"one for {program.n}" if isinstance(program, Program) else shown(program)
            raise InputError(f"workload must write a Program for n = {self.n} ranks; got {other}")
        rows = self.per_rank * self.n * len(program.collectives)
        slices = self.timeline * min(self.timeline_ranks, self.n) * len(program.operations)
        kernels = self.traces * self.n * min(self.traces_iterations, self.iterations) * len(program.operations)
        for place, found, most, what in (
            ("workload", program.barriers, MAX_BARRIERS, "barriers (collectives x groups of ranks) in one iteration"),
            ("per_rank", rows, MAX_ROWS, "rows (collectives x ranks) of one iteration"),
            ("per_rank", rows * self.iterations, 50 * MAX_ROWS, "rows (iterations x collectives x ranks)"),
            ("timeline_ranks", slices * min(self.timeline_iterations, self.iterations), MAX_ROWS,
             "slices (ranks x iterations x operations)"),
            ("traces", self.traces * self.n, MAX_FILES, "files, one per rank"),
            ("traces_iterations", kernels, MAX_KERNELS, "kernels (ranks x iterations x operations)"),
        ):  # fmt: skip
            if found > most:
                raise InputError(f"{place} must give at most {most} {what}; got {found}")
        self.engine.check(program)
        return program

    @cached_property
    def costs(self) -> tuple[Cost | None, ...]:
        """For each operation of the program its cost on the topology; None for computes."""
        program = self.program
        known: dict[tuple[Kind, float, str], Cost] = {}
        for op in program.operations:
            if isinstance(op, Collective) and (op.kind, op.nbytes, op.group) not in known:
                cost = self.topology.cost(op.kind, op.nbytes, program.blocks(op.group)[1])
                known[op.kind, op.nbytes, op.group] = cost
        return tuple(
            known[op.kind, op.nbytes, op.group] if isinstance(op, Collective) else None for op in program.operations
        )

    @cached_property
    def effects(self) -> Effects:
        """What crosses the iterations of the run, where the law says that anything does."""
        return Effects(self.program, self.seed or 0, self.iterations)

    @cached_property
    def notes(self) -> list[str]:
        """What a reader of the results must know."""
        notes = [self.topology.note(self.n), self.compute.note]
        laws = {id(op.law): op.law for op in self.program.operations if isinstance(op, Compute)}.values()
        durations = {
            "compute: the mean of a block's times": [law.mean for law in laws],
            "compute: how far ranks are apart in a block": [law.spread for law in laws],
            "topology: the time of a collective": [cost.time for cost in self.costs if cost is not None],
        }
        for what, seconds in durations.items():
            fine = [x for x in seconds if 0 < x < FINE]
            if fine:
                notes.append(
                    f"{what} is {min(fine):.2g} s, near the clock's tick of {TICK:.2g} s: simulated times are rounded "
                    f"to ticks, closed forms are not"
                )
        return [note for note in notes if note]


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
    if not iterations:
        return
    count("iterations", min(iterations), least=0)
    effects = experiment.effects if max(iterations) < experiment.iterations else None
    draws = Draws(experiment.program, experiment.seed or 0, iterations, effects)
    for step in experiment.engine.steps(experiment.program, _times(experiment), draws):
        for k, i in enumerate(step.operations):
            yield Record(i, step.ready[:, k], step.start[:, k], step.end[:, k])


def _chunks(experiment: Experiment) -> Iterator[Measured]:
    """The measures of all iterations, in order; computed by as many threads as the engine wants."""
    times = _times(experiment)
    size = experiment.engine.chunk(experiment.program, experiment.iterations)
    starts = range(0, experiment.iterations, size)
    effects = experiment.effects
    parts = (range(i, min(i + size, experiment.iterations)) for i in starts)

    def work(part: range) -> Measured:
        draws = Draws(experiment.program, experiment.seed or 0, part, effects)
        with np.errstate(over="ignore", invalid="ignore"):  # only times beyond the clock, which are refused below
            measured = measure(experiment.program, experiment.engine.steps(experiment.program, times, draws), draws)
        if not (measured.iteration_time < HORIZON).all():
            longest = int(np.argmax(~(measured.iteration_time < HORIZON)))
            found, compute = measured.iteration_time[longest], measured.compute[longest]
            longer = "workload" if compute < HORIZON / 2 else "compute"
            raise InputError(
                f"{longer} must be shorter: an iteration must take less than {HORIZON:g} s, the range of the clock; "
                f"got {found:g} s, of which {compute:g} s are compute"
            )
        return measured

    workers = min(experiment.engine.workers, len(starts))
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
        cost = experiment.costs[i]
        latent = cost is not None and cost.latency > cost.transfer
        raise InputError(
            f"{'alpha must be lower' if latent else 'bytes must be lower, or bandwidth higher'}: collective "
            f"{experiment.program.operations[i].name!r} must take less than {HORIZON:g} s, the range of the clock; got "
            f"{times[i]:g} s"
        )
    to_ticks(times)
    return [float(x) for x in times]
