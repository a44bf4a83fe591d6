"""Speed and memory, as ratios measured side by side: ``python -m pytest -m benchmark -s``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import perf_counter

import numpy as np
import pytest
import simpy

from simulator.simulation.draws import Draws
from simulator.simulation.events import Events
from simulator.simulation.experiment import Experiment
from simulator.simulation.runner import run
from simulator.simulation.vector import Vector
from simulator.workload.training import TensorParallel
from tests.conftest import paper_job

pytestmark = pytest.mark.benchmark

N, COLLECTIVES, ITERATIONS = 4096, 320, 100
RANK_BARRIERS = N * COLLECTIVES * ITERATIONS
LARGE = paper_job(n=N, iterations=ITERATIONS)


def side_by_side(*actions: Callable[[], object], runs: int = 5) -> list[float]:
    """Median seconds of each action, run in turn so that a change of the machine's speed hits all of them."""
    times: list[list[float]] = [[] for _ in actions]
    for i in range(runs + 1):  # the first is warm-up
        for action, seconds in zip(actions, times, strict=True):
            began = perf_counter()
            action()
            if i:
                seconds.append(perf_counter() - began)
    return [median(seconds) for seconds in times]


def draw_exponentials() -> None:
    """What the engine cannot do without: the same number of standard exponentials, in cache-sized pieces."""
    rng = np.random.Generator(np.random.SFC64(0))
    piece = np.empty(65_536)
    for _ in range(RANK_BARRIERS // piece.size):
        rng.standard_exponential(out=piece)


def test_vector_engine_against_drawing_alone():
    one = replace(LARGE, engine=Vector(threads=1))
    two = replace(LARGE, engine=Vector(threads=2))
    draw, single, double = side_by_side(draw_exponentials, lambda: run(one), lambda: run(two))
    print(
        f"\nvector engine, n = {N}, {COLLECTIVES} collectives x {ITERATIONS} iterations: "
        f"{RANK_BARRIERS / single / 1e6:.0f} M rank-barriers/s on one thread, {draw / single:.3f} of drawing alone "
        f"({RANK_BARRIERS / draw / 1e6:.0f} M/s); {single / double:.2f} times that on two threads"
    )
    assert draw / single >= 0.3
    assert single / double >= 1.6


def test_vector_engine_memory():
    """Peak memory of a process that runs it, and that it does not grow with iterations."""
    code = (
        "import resource, sys; from tests.conftest import paper_job; from simulator import run;"
        f"run(paper_job(n={N}, iterations=int(sys.argv[1])));"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    few, many = (
        float(subprocess.run([sys.executable, "-c", code, str(i)], capture_output=True, text=True, check=True).stdout)
        for i in (ITERATIONS // 4, ITERATIONS)
    )
    print(f"\npeak memory: {few:.0f} MB for {ITERATIONS // 4} iterations, {many:.0f} MB for {ITERATIONS}")
    assert many < 400
    assert many - few < 30  # the tables of 75 x 320 collectives are 3 MB


def bare_simpy(job: Experiment) -> None:
    """The same processes, times and barriers in SimPy, with nothing recorded."""
    draws = Draws(job.program, 0, range(job.iterations))
    drawn = {i: draws.one(i) for i in job.program.computes}
    transfer = 0.001

    def rank(env: simpy.Environment, r: int, barriers: list[list], durations: list[list[float]]) -> object:
        timeout = env.timeout
        for barrier, times in zip(barriers, durations, strict=True):
            yield timeout(times[r])
            barrier[0] -= 1
            if barrier[0]:
                yield barrier[1]
            else:
                yield timeout(transfer)
                barrier[1].succeed()

    for c in range(job.iterations):
        durations = [drawn[i][c].tolist() for i in job.program.computes]
        env = simpy.Environment()
        barriers = [[job.n, env.event()] for _ in job.program.collectives]
        for r in range(job.n):
            env.process(rank(env, r, barriers, durations))
        env.run()


def test_event_engine_against_bare_simpy():
    job = paper_job(n=N, iterations=1, workload=TensorParallel(layers=10, bytes=2**28), engine=Events())
    bare, ours = side_by_side(lambda: bare_simpy(job), lambda: run(job))
    total = N * len(job.program.collectives)
    print(f"\nevent engine: {total / ours / 1e6:.3f} M rank-barriers/s, {bare / ours:.2f} of bare SimPy's rate")
    assert bare / ours >= 0.85


def test_the_command():
    """``+experiment=torus_512`` at most 4 s, ``--help`` at most 1 s: whole processes, imports included."""

    def command(*words: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-m", "simulator", *words], capture_output=True, check=True)

    simulate, teach = side_by_side(command("+experiment=torus_512"), command("--help"), runs=3)
    print(f"\n+experiment=torus_512: {simulate:.2f} s; --help: {teach:.2f} s")
    assert simulate <= 4.0
    assert teach <= 1.0
