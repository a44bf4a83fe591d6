"""The law of measured ranks: offsets, what blocks share, and the rest with its tail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator.checks import InputError
from simulator.laws import Tail
from simulator.simulation.events import Events
from simulator.simulation.runner import run
from simulator.simulation.vector import Vector
from tests.conftest import paper_job

EXPONENTIAL: dict[str, Any] = {"block_mean": 1.0, "quantiles": [0.0, 0.1 * np.log(2)], "above": 0.5, "excess": 0.1}
OFFSETS = [0.0, 0.0, 0.1, -0.1, 0.0, 0.05, 0.0, 0.0]


def test_the_tax_of_exponential_ranks_is_a_sum_of_reciprocals() -> None:
    law = Tail(**EXPONENTIAL)
    for n in (2, 8, 64, 4096):
        assert law.wait(n) == pytest.approx(0.1 * sum(1 / k for k in range(2, n + 1)), rel=1e-4)
    assert law.sd == pytest.approx(0.1, rel=1e-3)
    assert law.scaled(3).wait(8) == pytest.approx(3 * law.wait(8))
    assert law.scaled(3).mean == 3.0


def test_a_pareto_tail_is_its_own() -> None:
    # One piece far down and the tail above: P(X > x) = (1 + shape*x/scale)^(-1/shape), so E[max of 2] is known.
    shape, scale = 0.25, 0.06
    law = Tail(block_mean=1.0, quantiles=[0.0, 1e-12], above=1 - 1e-9, excess=scale / (1 - shape), shape=shape)
    largest = 2 * scale / (1 - shape) - scale / (2 - shape)  # E[max] = 2 E[X] - E[min], the min of shape/2, scale/2
    assert law.wait(2) == pytest.approx(largest - scale / (1 - shape), rel=1e-4)
    assert not replace(law, shape=0.5).has_variance


@pytest.mark.parametrize(("n", "draws"), [(8, 1), (16, 400)])
def test_samples_have_the_tax_of_the_closed_form(n: int, draws: int) -> None:
    law = Tail(**EXPONENTIAL, shape=0.2, common=[-0.1, 0.0, 0.2], offsets=OFFSETS, offsets_sd=0.06)
    runs = []
    for seed in range(draws):
        x = law.sample(np.random.default_rng(seed), (100_000 // draws, n))
        assert x.min() >= 0
        runs.append(x.max(axis=1) - x.mean(axis=1))
    waits = np.array(runs)
    error = (waits if draws == 1 else waits.mean(axis=1)).std() / (waits.size if draws == 1 else draws) ** 0.5
    assert abs(waits.mean() - law.wait(n)) < 3.5 * error


def test_measured_ranks_keep_their_offsets_and_others_draw_theirs() -> None:
    law = Tail(**EXPONENTIAL, offsets=OFFSETS, offsets_sd=0.06)
    means = law.sample(np.random.default_rng(0), (20_000, 8)).mean(axis=0)
    assert means - means.mean() == pytest.approx(np.array(OFFSETS) - np.mean(OFFSETS), abs=0.005)
    others = [law.sample(np.random.default_rng(seed), (2_000, 100)).mean(axis=0) for seed in (1, 2)]
    assert np.std(others) == pytest.approx(0.06, rel=0.15)
    assert abs(np.corrcoef(others)[0, 1]) < 0.3
    assert "are drawn from a normal law" in law.note


def test_offsets_are_added_as_they_are() -> None:
    """A rank that is 0.2 s slower waits for none; the others take as long as before."""
    alike, slow = (Tail(**{**EXPONENTIAL, "offsets": offsets}) for offsets in ([0.0] * 4, [0, 0, 0, 0.2]))
    one, other = (law.sample(np.random.default_rng(0), (1000, 4)) for law in (alike, slow))
    assert other[:, :3] == pytest.approx(one[:, :3], rel=1e-12)
    assert other[:, 3] == pytest.approx(one[:, 3] + 0.2, rel=1e-12)
    assert slow.mean == pytest.approx(alike.mean + 0.05)
    later = (other.max(axis=1) - one.max(axis=1)).mean()
    error = (other.max(axis=1) - one.max(axis=1)).std() / np.sqrt(1000)
    assert slow.expected_max(4) - alike.expected_max(4) == pytest.approx(later, abs=4 * error)


@pytest.mark.parametrize(("change", "sentence"), [
    ({"offsets_sd": -1.0}, "offsets_sd must be a finite number, at least 0; got -1.0"),
    ({"offsets": [1e300, 0.0]}, "offsets[0] must be a finite number"),
    ({"offsets": [-10.0, 0.0]}, "offsets must be larger, so that at most 0.001 of the times are below 0"),
])  # fmt: skip
def test_offsets_are_named_where_they_are_the_cause(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        Tail(**{**EXPONENTIAL, **change})
    assert str(error.value).startswith(sentence)


def test_what_a_block_shares_is_paid_by_no_rank() -> None:
    alone, together = (Tail(**EXPONENTIAL, common=common) for common in (None, [-0.5, -0.1, 0.8]))
    assert together.wait(8) == pytest.approx(alone.wait(8))
    x = together.sample(np.random.default_rng(0), (50_000, 2))
    shared = np.interp(np.linspace(0, 1, 9_999), [0, 0.5, 1], [-0.5, -0.1, 0.8])
    assert np.cov(x.T)[0, 1] == pytest.approx(shared.var(), rel=0.05)


@pytest.mark.parametrize("n", [8, 12])
def test_both_engines_draw_the_same(n: int) -> None:
    law = Tail(**EXPONENTIAL, shape=0.1, common=[-0.1, 0.1], offsets=OFFSETS, offsets_sd=0.06)
    one, other = (run(paper_job(n=n, compute=law, engine=engine, iterations=3)) for engine in (Vector(), Events()))
    assert one.iterations.equals(other.iterations)


@pytest.mark.parametrize(("change", "sentence"), [
    ({"quantiles": [1.0]}, "quantiles must be at least 2 numbers in ascending order"),
    ({"quantiles": [1.0, 0.5]}, "quantiles must be at least 2 numbers in ascending order"),
    ({"above": 0.0}, "above must be"), ({"shape": 1.0}, "shape must be"), ({"offsets": ["a"]}, "offsets"),
    ({"common": [0.1]}, "common must be at least 2"), ({"common": [0.1, 0.0]}, "common must be at least 2"),
    ({"block_mean": 0.05, "quantiles": [-1.0, 0.5]}, "block_mean must be larger, so that at most 0.001"),
])  # fmt: skip
def test_what_is_no_law_is_one_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        Tail(**{**EXPONENTIAL, **change})
    assert str(error.value).startswith(sentence)
