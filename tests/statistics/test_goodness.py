"""Goodness of fit, against SciPy, published critical values, textbook data and laws whose maxima are known."""

from __future__ import annotations

import warnings
from functools import cache
from math import log

import numpy as np
import pytest
from scipy import stats

from simulator.checks import InputError
from simulator.laws import block_maxima
from simulator.statistics import anderson_darling, describe, fit_gev, fit_gumbel, gumbel_or_gev, max_stability
from tests.conftest import scipy_rng
from tests.statistics.test_estimators import PORT_PIRIE, sample


@pytest.mark.parametrize("size", [10, 50, 300])
def test_distance_of_a_gumbel_fit_is_scipys(size: int) -> None:
    z = sample(0.1, size, 2)
    ours = anderson_darling(z, replicates=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # SciPy asks for a method of p-values, which older ones have not
        theirs = stats.anderson(z, "gumbel_r").statistic
    assert ours.statistic == pytest.approx(theirs, rel=1e-6)
    assert ours.law == pytest.approx(fit_gumbel(z))


@pytest.mark.parametrize("xi", [-0.3, 0.2])
def test_distance_of_a_gev_fit_by_its_formula(xi: float) -> None:
    z = np.sort(sample(xi, 60, 2))
    law = fit_gev(z)
    f = stats.genextreme(-law.xi, law.mu, law.sigma).cdf(z)
    i = np.arange(1, 61)
    assert anderson_darling(z, "gev", replicates=100).statistic == pytest.approx(
        -60 - np.sum((2 * i - 1) / 60 * (np.log(f) + np.log(1 - f[::-1]))), rel=1e-6
    )


@cache
def table() -> tuple[np.ndarray, np.ndarray]:
    """Modified statistics of samples further and further from Gumbel, and their p-values."""
    found = sorted(anderson_darling(sample(xi, 100, 3), replicates=10_000) for xi in np.linspace(-0.2, 0.6, 33))
    return np.array([one.statistic * 1.02 for one in found]), np.array([one.p_value for one in found])


@pytest.mark.slow
@pytest.mark.parametrize(("modified", "share"), [(0.637, 0.10), (0.757, 0.05), (1.038, 0.01)])
def test_p_values_are_those_of_the_published_table(modified: float, share: float) -> None:
    # D'Agostino and Stephens 1986, section 4.11, both parameters estimated: points of A^2*(1 + 0.2/sqrt(n)), n = 100.
    statistics, p_values = table()
    assert statistics[0] < modified < statistics[-1]
    assert np.exp(np.interp(modified, statistics, np.log(p_values))) == pytest.approx(share, rel=0.2)


def test_p_value_is_that_of_scipys_monte_carlo() -> None:
    z = sample(0.15, 80, 11)
    theirs = stats.goodness_of_fit(stats.gumbel_r, z, statistic="ad", n_mc_samples=500, **scipy_rng(1))
    assert anderson_darling(z, replicates=2000).p_value == pytest.approx(theirs.pvalue, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gumbel", "gev"])
def test_p_values_of_the_right_law_are_uniform(family) -> None:
    xi = 0.0 if family == "gumbel" else 0.1
    p = [anderson_darling(sample(xi, 50, seed), family, 100, seed).p_value for seed in range(200)]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_a_wrong_law_is_told() -> None:
    z = np.random.default_rng(0).exponential(size=300)
    assert anderson_darling(z).p_value < 0.005
    assert anderson_darling(-sample(0.0, 300), "gumbel").p_value < 0.005


def test_the_same_seed_gives_the_same_p_value_in_any_unit() -> None:
    z = sample(0.1, 60)
    assert anderson_darling(z, seed=4)[:2] == anderson_darling(z, seed=4)[:2]
    moved = anderson_darling(z * 1e6 + 50, seed=4)
    assert moved[:2] == pytest.approx(anderson_darling(z, seed=4)[:2], rel=1e-9)
    assert moved.law.sigma == pytest.approx(anderson_darling(z).law.sigma * 1e6)


def test_likelihood_ratio_of_the_textbook() -> None:
    # Coles 2001, section 3.4.1: log-likelihoods 4.34 and 4.22, a statistic of 0.24.
    found = gumbel_or_gev(PORT_PIRIE)
    assert found.statistic == pytest.approx(0.24, abs=0.005)
    assert found.p_value == pytest.approx(stats.chi2.sf(found.statistic, 1))
    assert found.gumbel == pytest.approx(fit_gumbel(PORT_PIRIE))
    assert found.gev == pytest.approx(fit_gev(PORT_PIRIE))


@pytest.mark.slow
def test_a_free_shape_is_never_less_likely_and_seldom_called_for_in_vain() -> None:
    found = [gumbel_or_gev(sample(0.0, 100, seed)) for seed in range(250)]
    assert min(one.statistic for one in found) >= 0
    assert np.mean([one.p_value < 0.05 for one in found]) == pytest.approx(0.05, abs=0.03)
    assert np.mean([gumbel_or_gev(sample(0.3, 200, seed)).p_value < 0.05 for seed in range(40)]) > 0.9


def test_stability_of_one_sample_by_hand() -> None:
    x = np.random.default_rng(2).normal(size=(60, 8))
    top, middle = x.max(axis=1), x.mean(axis=1)
    spread = np.sqrt(x.reshape(120, 4).var(axis=1, ddof=1).mean())
    whole = (top - middle) / spread
    halves = np.concatenate([x[:, :4].max(axis=1) - middle, x[:, 4:].max(axis=1) - middle]) / spread
    found = max_stability(x, np.arange(60))
    small, large = fit_gumbel(halves), fit_gumbel(whole)
    assert found.measured == pytest.approx(large.mu - small.mu, rel=1e-9)
    assert found.expected == pytest.approx(small.sigma * log(2), rel=1e-9)
    small, large = fit_gev(halves), fit_gev(whole)
    found = max_stability(x, np.arange(60), "gev")
    assert found.measured == pytest.approx(large.mu - small.mu, rel=1e-6)
    assert found.expected == pytest.approx(small.sigma * (2**small.xi - 1) / small.xi, rel=1e-6)


@pytest.mark.slow
def test_stability_holds_where_it_should_and_as_often_as_it_says() -> None:
    law = block_maxima(mean=16e-3, cv=0.02, mu=0.7058, sigma=0.4085, parent="zero_sum")
    found = [
        max_stability(law.sample(np.random.default_rng(seed), (250, 8)), np.arange(250), replicates=100, seed=seed)
        for seed in range(300)
    ]
    assert np.mean([one.holds for one in found]) == pytest.approx(0.95, abs=0.03)
    for step in ("measured", "expected"):
        assert np.mean([getattr(one, step) for one in found]) == pytest.approx(0.4085 * log(2), rel=0.03)


def test_stability_fails_where_ranks_are_not_exchangeable_draws_of_such_a_law() -> None:
    rng = np.random.default_rng(0)
    half = rng.gumbel(size=(300, 4))
    twin = max_stability(np.concatenate([half, half], axis=1), np.arange(300), centring="block")
    assert twin.measured == pytest.approx(0.0, abs=1e-9)  # more ranks, and no larger maximum
    assert not twin.holds
    assert not max_stability(rng.normal(size=(3000, 8)), np.arange(3000)).holds


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [((40, 7), "an even number of ranks, at least 4"), ((40, 2), "an even number of ranks, at least 4")],
)
def test_blocks_that_have_no_halves_are_refused(shape, sentence: str) -> None:
    with pytest.raises(InputError, match=f"^blocks must have {sentence}"):
        max_stability(np.random.default_rng(0).normal(size=shape), np.arange(40))


def test_what_a_sample_can_carry() -> None:
    assert describe(sample(0.0, 100)) == (100, 100, 0.01, ())
    assert describe([1.0, 2.0] * 50) == (100, 2, 0.5, ("ties",))
    assert describe([5.0] * 3) == (3, 1, 1.0, ("few maxima", "ties"))
    assert describe([5.0]) == (1, 1, 1.0, ("few maxima",))
    with pytest.raises(InputError, match=r"^z must be at least 1 finite values; got shape \(0,\)"):
        describe([])


@pytest.mark.parametrize(
    ("z", "sentence"),
    [
        ([3.0] * 50, r"z must have values that differ \(use compute law deterministic\); all are 3"),
        ([1.0, 2.0] * 50, r"z must have 10 different values for a GEV fit \(use compute law empirical\); got 2 in 100"),
        (
            np.round(sample(0.0, 200) * 2) / 2,
            r"z must have 10 different values for a GEV fit",
        ),  # a coarse clock
        (np.append(sample(0.0, 50), [0.7] * 20), r"z must have no ties of more than 25% of all .* one value makes 29%"),
    ],
    ids=["all equal", "two values", "coarse clock", "one value stands out"],
)
def test_a_shape_is_not_read_from_ties(z, sentence: str) -> None:
    for fit in (fit_gev, gumbel_or_gev, lambda z: anderson_darling(z, "gev")):
        with pytest.raises(InputError, match=f"^{sentence}"):
            fit(z)


def test_a_clock_of_a_microsecond_leaves_enough() -> None:
    # The paper's scale is 0.4085*320 us = 131 us: rounding to 1 us is no matter.
    z = sample(0.1, 500) * 320e-6
    assert fit_gev(np.round(z, 6)) == pytest.approx(fit_gev(z), rel=0.02)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"replicates": 99}, r"^replicates must be a whole number, at least 100; got 99"),
        ({"seed": -1}, r"^seed must be "),
        ({"family": "normal"}, r"^family must be "),
        ({"z": [1.0, 2.0]}, r"^z must be at least 10 finite values"),
    ],
)
def test_bad_tests_are_one_sentence(change, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        anderson_darling(**{"z": sample(0.0, 50), **change})
