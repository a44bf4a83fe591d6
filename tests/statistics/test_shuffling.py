"""Dependence by shuffling, and drift, against brute force, closed forms and the times of four A100."""

from __future__ import annotations

from itertools import combinations, product
from math import sqrt

import numpy as np
import pytest

from simulator.checks import InputError
from simulator.statistics.shuffling import drift, independent_tax, persistent_tax, shuffled
from tests.statistics.samples import DEPENDENT, NINE, known_gumbel, normal_tax, recorded_times


def test_shuffles_are_means_over_all_of_them() -> None:
    x = np.random.default_rng(1).gamma(2.0, size=(4, 3))
    x[0] = x[1, 0]  # ties
    drawn = [max(chosen) for chosen in combinations(x.ravel(), 3)]
    assert independent_tax(x) == pytest.approx(np.mean(drawn) - x.mean())
    kept = [max(chosen) for chosen in product(*x.T)]
    assert persistent_tax(x) == pytest.approx(np.mean(kept) - x.mean())


def test_persistence_of_many_ranks_and_blocks_keeps_its_digits() -> None:
    x = np.random.default_rng(2).exponential(size=(4000, 32))
    assert persistent_tax(x) == pytest.approx(independent_tax(x), rel=2e-3)
    assert persistent_tax(x * 1e9) == pytest.approx(persistent_tax(x) * 1e9, rel=1e-12)


def test_of_the_four_a100_only_lasting_ranks_explain_the_tax() -> None:
    for times in recorded_times():
        found = shuffled(times)
        assert -0.215 <= found.independent <= -0.195  # -20 to -21 %, computed elsewhere
        assert found.persistent == pytest.approx(0, abs=0.005)
        assert found.independent_z < -5
        assert abs(found.persistent_z) < 2


def test_of_independent_ranks_nothing_changes() -> None:
    found = shuffled(known_gumbel())
    assert abs(found.independent) < 0.025
    assert abs(found.persistent) < 0.025
    assert abs(found.independent_z) < 3


def test_what_blocks_share_is_paid_by_none_but_would_be_if_shuffled() -> None:
    found = shuffled(DEPENDENT["common shock"].draw(np.random.default_rng(3), 4000, 8))
    both = NINE["gumbel"].draw(np.random.default_rng(4), 400_000, 8) + np.random.default_rng(5).normal(
        size=(400_000, 8)
    )
    expected = both.max(axis=1).mean() * sqrt(0.5) / DEPENDENT["common shock"].tax(8) - 1
    assert found.independent == pytest.approx(expected, abs=0.04)
    assert found.persistent == pytest.approx(expected, abs=0.04)


def test_lasting_offsets_are_kept_by_one_shuffle_and_lost_by_the_other() -> None:
    x = np.random.default_rng(6).normal(size=(3000, 4)) + np.array([0, 0, 0, 4])
    found = shuffled(x)
    assert found.persistent == pytest.approx(0, abs=0.01)
    pool = np.random.default_rng(7).normal(size=(200_000, 4)) + 4 * (
        np.random.default_rng(8).random((200_000, 4)) < 0.25
    )
    assert found.independent == pytest.approx((pool.max(axis=1).mean() - 1) / found.tax - 1, abs=0.02)


def test_the_four_a100_drift() -> None:
    compute, all_reduce = (drift(times) for times in recorded_times())
    assert compute.found
    assert all_reduce.found
    assert (compute.first * 1e3, compute.second * 1e3) == pytest.approx((16.3, 13.2), abs=0.05)  # computed elsewhere
    assert compute.p < 0.01
    assert np.argmax(compute.trends) == 3  # from +1.7 to +8.4 ms between the halves
    assert compute.p_trends[3] < 0.01


def test_a_straight_line_of_one_rank_is_found_and_measured() -> None:
    x = np.random.default_rng(9).normal(size=(400, 8))
    x[:, 2] += np.linspace(0, 2, 400)
    found = drift(x)
    assert found.found
    assert found.trends[2] == pytest.approx(2 * 7 / 8, abs=0.4)  # beside the mean of all, which it moves
    assert found.p_trends[2] < 0.01
    assert min(found.p_trends[:2]) > 0.01


def test_a_tax_that_halves_is_found_though_no_rank_drifts() -> None:
    x = np.random.default_rng(10).normal(size=(400, 8)) * np.where(np.arange(400) < 200, 2, 1)[:, None]
    found = drift(x)
    assert (found.first, found.second) == pytest.approx((2 * normal_tax(8), normal_tax(8)), rel=0.05)
    assert found.p < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(("blocks", "memory"), [(40, False), (49, True), (200, True)])
def test_drift_is_seldom_found_where_there_is_none(blocks: int, memory: bool) -> None:
    rng = np.random.default_rng(11)
    source = (DEPENDENT["ar1"] if memory else NINE["normal"]).draw
    found = [drift(source(rng, blocks, 8)).found for _ in range(150)]
    assert np.mean(found) < 0.09  # two tests at 1 %, and what 150 samples leave to chance


def test_times_that_cannot_be_shuffled_or_drift() -> None:
    with pytest.raises(InputError, match="times must be of at least 2 blocks to be shuffled"):
        shuffled([[1.0, 2.0]])
    with pytest.raises(InputError, match="times must differ between the ranks of a block; all are equal"):
        shuffled([[1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(InputError, match="times must be of at least 20 blocks to tell a drift"):
        drift(np.ones((19, 4)))
    with pytest.raises(InputError, match=r"times\[1, 0\] must be a finite number; got nan"):
        shuffled([[1.0, 1.0], [np.nan, 2.0]])
    assert not drift(np.ones((30, 4))).found


def test_ranks_that_differ_once_are_not_shuffled() -> None:
    x = np.full((1000, 8), 0.016)
    x[5, 2] = 1.0
    with pytest.raises(InputError, match=r"^times must differ between ranks in more than one run of blocks"):
        shuffled(x)
