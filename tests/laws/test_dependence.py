"""Ranks that depend on each other: against closed forms, the Gaussian copula's correlations, and Monte Carlo."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats

from simulator.checks import InputError
from simulator.laws import Dependent, Deterministic, EmpiricalBlocks, Law, Normal, dependent
from simulator.simulation.draws import Draws, Effects
from simulator.simulation.events import Events
from simulator.simulation.runner import run
from simulator.simulation.vector import Vector
from simulator.workload.training import DataParallel, TensorParallel
from tests.conftest import paper_job, paper_law

NORMAL = Normal(mean=1.0, cv=0.1)
# Offsets of four A100, from the measured steps: -1, -0.55, 1.16 and 0.40 in units of the standard deviation within a
# step (ddof 1), whose square is 4/3 of the variance of their times.
STRAGGLAR = [sqrt(4 / 3) * z for z in (-1.0, -0.55, 1.16, 0.40)]


def scores(law: Law, n: int = 8, iterations: int = 400, layers: int = 4, seed: int = 0) -> np.ndarray:
    """Standardised times of a normal law in a run, shape (blocks of the run, n): Y itself."""
    program = TensorParallel(layers=layers, bytes=0.0, forward=1, backward=0).program(n, law)
    draws = Draws(program, seed, range(iterations), Effects(program, seed, iterations))
    times = np.stack([draws.one(i) for i in program.computes], axis=1)
    return (times.reshape(-1, n) - 1.0) / 0.1


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Of two variates of mean 0 and variance 1."""
    return float((x * y).mean())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("law", [paper_law(), paper_law("frechet"), NORMAL], ids=lambda law: law.name)
def test_a_single_time_keeps_its_law(law) -> None:
    ours = dependent(law=law, common=0.2, node=0.2, rank=0.2, ranks_per_node=2)
    times = np.array([ours.sample(np.random.default_rng(seed), (1, 2))[0, 1] for seed in range(4000)])
    assert stats.kstest(times, law.cdf).pvalue > 0.01


@pytest.mark.slow
def test_parts_correlate_as_their_shares_say() -> None:
    law = dependent(law=NORMAL, common=0.1, node=0.2, rank=0.3, ranks_per_node=4)
    y = np.stack([scores(law, iterations=8, layers=1, seed=seed) for seed in range(4000)])  # runs, blocks, ranks
    assert y.var() == pytest.approx(1, abs=0.02)
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7)]
    same_node = np.mean([correlation(y[..., i], y[..., j]) for i, j in pairs])
    other_node = np.mean([correlation(y[..., i], y[..., j + 4]) for i, j in pairs[:2]])
    assert same_node == pytest.approx(0.1 + 0.2, abs=0.01)
    assert other_node == pytest.approx(0.1, abs=0.01)
    assert correlation(y[:, :-1], y[:, 1:]) == pytest.approx(0.3, abs=0.01)  # a rank, from block to block
    assert correlation(y[:, :-1, ::2], y[:, 1:, 1::2]) == pytest.approx(0.0, abs=0.01)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("memory", [0.8, -0.5])
def test_memory_goes_through_blocks_and_iterations_alike(memory: float, layers: int) -> None:
    y = scores(dependent(law=NORMAL, memory=memory), n=64, iterations=4000 // layers, layers=layers)
    for lag in (1, 2, 5, 7):
        assert correlation(y[:-lag], y[lag:]) == pytest.approx(memory**lag, abs=0.012)
    assert stats.kstest(y[::50].ravel(), stats.norm.cdf).pvalue > 0.01


def test_two_ranks_with_known_offsets_have_a_closed_form() -> None:
    # E[max] of N(-d, s^2) and N(d, s^2) is d*(2*Phi(t) - 1) + sqrt(2)*s*phi(t), t = sqrt(2)*d/s (Clark 1961).
    d, s = 0.6, 0.8
    law = dependent(law=NORMAL, offsets=[-d, d])
    t = sqrt(2) * d / s
    closed = d * (2 * stats.norm.cdf(t) - 1) + sqrt(2) * s * stats.norm.pdf(t)
    assert law.wait(2) == pytest.approx(0.1 * closed, rel=1e-6)
    assert law.mean == pytest.approx(1.0, rel=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", [2, 8, 512])
def test_what_ranks_share_does_not_wait(n: int) -> None:
    alone = NORMAL.wait(n)
    assert dependent(law=NORMAL, common=0.75).wait(n) == pytest.approx(alone / 2, rel=1e-5)
    assert dependent(law=NORMAL, node=0.75, ranks_per_node=n).wait(n) == pytest.approx(alone / 2, rel=1e-5)
    assert dependent(law=NORMAL, node=0.75, ranks_per_node=1).wait(n) == pytest.approx(alone, rel=1e-5)
    assert dependent(law=NORMAL, rank=0.75).wait(n) == pytest.approx(alone, rel=1e-5)  # over all runs


def test_two_nodes_of_two_have_a_closed_form() -> None:
    # Without own noise a node is one variate: E[max] of two is sqrt(node/pi).
    law = dependent(law=NORMAL, node=1 - 1e-9, ranks_per_node=2)
    assert law.wait(4) == pytest.approx(0.1 / sqrt(pi), rel=1e-3)  # the quadrature's finest steps are 0.05


@pytest.mark.slow
@pytest.mark.parametrize("parts", [
    {"common": 0.2, "node": 0.3, "rank": 0.1, "ranks_per_node": 4}, {"offsets": STRAGGLAR, "common": 0.05},
    {"offsets": [0.0, 0.5], "spreads": [1.0, 2.0], "node": 0.2, "ranks_per_node": 3}, {"memory": 0.9, "common": 0.3},
])  # fmt: skip
@pytest.mark.parametrize("law", [paper_law(), NORMAL], ids=lambda law: law.name)
def test_expected_max_is_what_many_runs_give(law, parts: dict[str, Any]) -> None:
    ours = dependent(law=law, **parts)
    drawn = np.array([ours.sample(np.random.default_rng(seed), (2, 16)) for seed in range(20_000)])
    tax = (drawn.max(axis=2) - drawn.mean(axis=2)).mean(axis=1)
    assert tax.mean() == pytest.approx(ours.wait(16), abs=4 * tax.std() / sqrt(len(tax)))
    assert drawn.mean() == pytest.approx(ours.mean, rel=2e-3)


PERSISTENT = dependent(law=paper_law(), common=0.1, node=0.2, rank=0.4, memory=0.7, ranks_per_node=2)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("engine", [
    Events(), Vector(threads=2, iterations_per_chunk=1), Vector(threads=1, iterations_per_chunk=3)
], ids=["events", "vector 1", "vector 3"])  # fmt: skip
@pytest.mark.parametrize("workload", [
    TensorParallel(layers=2, bytes=2**20), DataParallel(bytes=2**30, buckets=3)
], ids=["one stream", "overlap"])  # fmt: skip
def test_the_same_numbers_on_any_engine_and_chunk(engine, workload) -> None:
    settings: dict[str, Any] = {"compute": PERSISTENT, "workload": workload, "iterations": 7}
    whole = run(paper_job(engine=Vector(threads=1), **settings))
    other = run(paper_job(engine=engine, **settings))
    assert other.collectives.equals(whole.collectives)
    assert other.iterations.equals(whole.iterations)


@pytest.mark.slow
def test_a_straggler_is_one_in_the_forward_and_in_the_backward_pass() -> None:
    job = paper_job(compute=dependent(law=NORMAL, rank=0.999), workload=DataParallel(bytes=0, buckets=2), iterations=20)
    assert run(job).collectives["straggler"].nunique() == 1
    others = {
        int(run(paper_job(compute=job.compute, seed=seed)).collectives["straggler"].mode()[0]) for seed in range(9)
    }
    assert len(others) > 2


def test_known_offsets_repeat_the_measured_straggler() -> None:
    job = paper_job(n=4, compute=dependent(law=Normal(mean=4.5, cv=0.0032), offsets=STRAGGLAR, memory=0.76),
                    workload=TensorParallel(layers=1, bytes=0, forward=1, backward=0), iterations=49)  # fmt: skip
    assert (run(job).collectives["straggler"] == 2).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 3])
def test_standard_errors_allow_for_memory(layers: int) -> None:
    job = {"compute": dependent(law=NORMAL, memory=0.8), "workload": TensorParallel(layers=layers, bytes=0)}
    rows = [run(paper_job(**job, iterations=200, seed=seed)).summary.iloc[0] for seed in range(100)]
    found = np.std([row["iteration_time"] for row in rows], ddof=1)
    said = np.mean([row["iteration_time_se"] for row in rows])
    assert found < 1.15 * said  # an upper bound
    assert found > 0.4 * said


def test_nothing_given_is_the_law_itself() -> None:
    assert dependent(law=NORMAL) is NORMAL
    assert dependent(law=NORMAL, rank=1e-12).wait(8) == pytest.approx(NORMAL.wait(8), rel=1e-6)


def test_a_longer_block_has_the_same_dependence() -> None:
    law = dependent(law=paper_law(), rank=0.5)
    assert isinstance(law, Dependent)
    assert law.scaled(2.0).wait(8) == pytest.approx(2 * law.wait(8), rel=1e-12)
    assert law.scaled(2.0).dependence is law.dependence


@pytest.mark.parametrize(("settings", "sentence"), [
    ({"rank": 1.0}, "rank must be a finite number, at least 0, below 1; got 1.0"),
    ({"memory": 1.0}, "memory must be a finite number, above -1, below 1; got 1.0"),
    ({"common": 0.5, "rank": 0.5}, "common, node, rank and the mean square of offsets must add up to less than 1"),
    ({"offsets": [-1.0, 1.0]}, "common, node, rank and the mean square of offsets must add up to less than 1"),
    ({"offsets": [-0.1, 0.1], "rank": 0.1}, "rank must be 0 where offsets are given"),
    ({"offsets": [-0.1, 0.1], "spreads": [1.0]}, "spreads must be as many as offsets (2); got 1"),
    ({"offsets": [0.0, float("nan")]}, "offsets[1] must be a finite number"),
    ({"offsets": [0.0, 99.0]}, "offsets must be from -37 to 37"),
    ({"offsets": "high"}, "offsets must be a list of numbers; got 'high'"),
    ({"spreads": [1.0, 0.0]}, "spreads must be above 0"),
    ({"spreads": [1e200, 1.0]}, "spreads must be above 0, and the largest at most 1000 times the smallest"),
    ({"ranks_per_node": 0}, "ranks_per_node must be a whole number, at least 1; got 0"),
    ({"law": EmpiricalBlocks(steps=np.ones((2, 4)))}, "law must be one of independent ranks"),
    ({"law": 3, "rank": 0.1}, "law must be a Law; got 3"),
])  # fmt: skip
def test_refusals_are_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        dependent(**{"law": NORMAL, "rank": 0.0 if "offsets" in settings else 0.1, **settings})
    assert str(error.value).startswith(sentence)


def test_ranks_must_fit_the_pattern() -> None:
    with pytest.raises(InputError, match=r"^n must be a multiple of the 4 ranks whose offsets"):
        paper_job(n=6, compute=dependent(law=NORMAL, offsets=STRAGGLAR))


def test_one_program_has_one_dependence() -> None:
    from simulator.workload.program import Compute, Program

    laws = [dependent(law=NORMAL, rank=share) for share in (0.1, 0.2)]
    program = Program(mesh={"tp": 2}, operations=[Compute(name=str(i), law=law) for i, law in enumerate(laws)])
    with pytest.raises(InputError, match=r"^compute: all laws of a program must have one dependence"):
        Effects(program, 0, 1)


def test_spreads_are_relative_whatever_their_size() -> None:
    one, other = (dependent(law=NORMAL, spreads=[size, 2 * size]) for size in (1.0, 1e-200))
    assert one == other


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ranks_per_node", [8, 9, 2**62])
def test_a_node_may_have_more_ranks_than_there_are(ranks_per_node: int) -> None:
    law = dependent(law=NORMAL, node=0.75, ranks_per_node=ranks_per_node)
    assert law.wait(8) == pytest.approx(NORMAL.wait(8) / 2, rel=1e-5)
    assert law.sample(np.random.default_rng(0), (3, 8)).shape == (3, 8)


def test_a_law_without_spread_stays_one() -> None:
    law = dependent(law=Deterministic(mean=1.0), rank=0.5)
    assert law.wait(8) == 0
    assert (law.sample(np.random.default_rng(0), (3, 8)) == 1.0).all()
