"""The tax of n ranks as a mean over subsets, against enumeration and expected maxima known in closed form."""

from __future__ import annotations

from itertools import combinations
from math import pi, sqrt

import numpy as np
import pytest

from simulator.checks import InputError
from simulator.tax import largest_of_subset, subset_tax
from tests.statistics.samples import known_gumbel


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_it_is_the_mean_over_all_subsets(n: int) -> None:
    x = np.random.default_rng(1).gamma(2.0, size=(7, 5))
    x[0, :3] = 1.0  # ties
    subsets = [list(chosen) for chosen in combinations(range(5), n)]
    for block, tax in zip(x, subset_tax(x, n), strict=True):
        assert tax == pytest.approx(np.mean([block[chosen].max() for chosen in subsets]) - block.mean(), abs=1e-14)


def test_tax_of_the_known_gumbel_ranks() -> None:
    assert subset_tax(known_gumbel(), 8).mean() * 1e6 == pytest.approx(520.2087, abs=5e-5)  # computed elsewhere


def test_of_two_normal_ranks_it_is_one_over_root_pi() -> None:
    x = np.random.default_rng(2).normal(size=(20_000, 4)) + np.random.default_rng(3).normal(size=(20_000, 1))
    tax = subset_tax(x, 2)  # what a block's ranks share cancels
    assert tax.mean() == pytest.approx(1 / sqrt(pi), abs=4 * tax.std() / sqrt(len(x)))


def test_weights_of_many_ranks_neither_overflow_nor_lose_their_sum() -> None:
    weights = largest_of_subset(500_000, 4096)
    assert weights.sum() == pytest.approx(1, rel=1e-10)
    assert weights[-1] == 4096 / 500_000


def test_n_beyond_the_ranks_is_refused() -> None:
    with pytest.raises(InputError, match="n must be a whole number, at least 1 and at most 3; got 4"):
        subset_tax([[1.0, 2.0, 3.0]], 4)
