"""``run``, which turns an experiment into a result, and ``trace``, which tells every operation of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError, count
from simulator.files.manifest import manifest
from simulator.simulation.draws import HORIZON, Draws, Step, to_ticks
from simulator.simulation.experiment import Experiment
from simulator.simulation.measure import Measured, measure
from simulator.simulation.results import Result, Tables
from simulator.task import Progress


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

    >>> from simulator import Deterministic
    >>> from simulator import TensorParallel
    >>> from topologies import NVSwitch
    >>> result = run(Experiment(n=8, topology=NVSwitch(alpha=5e-6, bandwidth=450e9), compute=Deterministic(mean=0.016),
    ...                         workload=TensorParallel(layers=80, bytes=2**28), iterations=1))
    >>> print(round(float(result.summary.iteration_time[0]), 6))  # 320 * (16 ms + 10 us + 1.75 * 2^28 B / 450 GB/s)
    5.457253
    """
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
    stopped = Event()

    def work(part: range) -> Measured:
        draws = Draws(experiment.program, experiment.seed or 0, part, effects)
        with np.errstate(over="ignore", invalid="ignore"):  # only times beyond the clock, which are refused below
            steps = experiment.engine.steps(experiment.program, times, draws)
            measured = measure(experiment.program, _until(stopped, steps), draws)
        if not (measured.iteration_time < HORIZON).all():
            longest = int(np.argmax(~(measured.iteration_time < HORIZON)))
            found, compute = measured.iteration_time[longest], measured.compute[longest]
            longer = "workload" if compute < HORIZON / 2 else "compute"
            raise InputError(
                longer,
                f"must be shorter: an iteration must take less than {HORIZON:g} s, the range of the clock; "
                f"got {found:g} s, of which {compute:g} s are compute",
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
            stopped.set()  # of many ranks a chunk takes minutes
            pool.shutdown(wait=True, cancel_futures=True)


def _until(stopped: Event, steps: Iterator[Step]) -> Iterator[Step]:
    for step in steps:
        if stopped.is_set():
            raise CancelledError
        yield step


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
