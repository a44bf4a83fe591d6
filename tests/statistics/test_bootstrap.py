"""Intervals of fitted laws, against brute force, plain resampling, SciPy and repeated samples of known laws."""

from __future__ import annotations

from functools import cache
from math import inf

import numpy as np
import pytest
from scipy import stats

from simulator import statistics as fits
from simulator.checks import InputError
from simulator.laws import block_maxima
from simulator.statistics import (
    Gev,
    Interval,
    cluster_bootstrap,
    fit_gev,
    fit_gumbel,
    instance_centred,
)
from simulator.statistics.resample import Draws, interval_of
from tests.conftest import scipy_rng


def test_maxima_needed() -> None:
    assert fits.maxima_needed(Interval(0.9, 1.1), 1.0, 500) == 500
    assert fits.maxima_needed(Interval(0.8, 1.2), 1.0, 500, relative=0.05) == 8000  # 4 times narrower: 16 times as many
    assert fits.maxima_needed(Interval(0.8, inf), 1.0, 500) == inf


# The bootstrap of whole iterations


@cache
def paper(parent: str = "zero_sum"):
    return block_maxima(mean=16e-3, cv=0.02, mu=0.7058, sigma=0.4085, parent=parent)


def blocks(seed: int, size: int) -> np.ndarray:
    """Blocks of 4 ranks from iterations of n = 8 ranks: two a cluster."""
    return paper().sample(np.random.default_rng(seed), (size // 2, 8)).reshape(size, 4)


@pytest.mark.parametrize("centring", [instance_centred, fits.block_centred])
@pytest.mark.parametrize("fit", [fit_gumbel, fit_gev])
def test_a_replicate_is_the_whole_recipe_on_the_drawn_iterations(centring, fit) -> None:
    x, clusters = blocks(1, 120), np.array(list("abcdefghijkl"))[np.arange(120) % 12]
    clusters[:5] = "a"  # clusters of unequal size
    found = cluster_bootstrap(x, clusters, fit.__name__[4:], centring.__name__[:-8], replicates=100, seed=3)
    for row in (0, 1, 57, 100, 101, 112):  # all, drawn, and two with one cluster left out
        times = found.draws.counts[row].astype(int)
        drawn = np.repeat(x, times[found.draws.cluster], axis=0)
        law = Gev(*(column[row] for column in found.laws[:3]))
        assert law == pytest.approx(fit(centring(drawn)), abs=1e-7)
        spread = np.sqrt(drawn.var(axis=1, ddof=1).mean()) if centring is instance_centred else drawn.std(ddof=1)
        assert found.laws.b[row] == pytest.approx(spread, rel=1e-9)
        assert found.laws.quantity("tau", 16)[row] == pytest.approx(spread * law.expected_max(16), rel=1e-9)
    counts = found.draws.counts
    assert (counts[0] == 1).all()
    assert (counts[1:101].sum(axis=1) == 12).all()
    assert (counts[101:] == 1 - np.eye(12)).all()


def test_the_same_seed_gives_the_same_bytes() -> None:
    x, clusters = blocks(2, 100), np.arange(100) // 2
    runs = [cluster_bootstrap(x, clusters, seed=seed).laws for seed in (1, 1, 2)]
    same, other = (np.array(runs[0]).tobytes() == np.array(run).tobytes() for run in runs[1:])
    assert same
    assert not other


def test_blocks_that_repeat_each_other_count_once() -> None:
    x = blocks(3, 200)
    once = cluster_bootstrap(x, np.arange(200), seed=1)
    twice = cluster_bootstrap(np.repeat(x, 2, axis=0), np.repeat(np.arange(200), 2), seed=1)
    blind = cluster_bootstrap(np.repeat(x, 2, axis=0), np.arange(400), seed=1)
    assert twice.interval("tau", 16) == pytest.approx(once.interval("tau", 16), rel=1e-9)
    widths = [np.subtract(*found.interval("tau", 16)) for found in (blind, once)]
    assert widths[0] / widths[1] == pytest.approx(0.5**0.5, abs=0.08)


def test_corrected_intervals_are_scipys() -> None:
    x = np.random.default_rng(4).lognormal(size=40)
    draws = Draws.of(np.arange(40), 40, 20_000, np.random.default_rng(5))
    values = np.average(np.tile(x, (len(draws.counts), 1)), axis=1, weights=draws.counts)
    for method, name in (("corrected", "BCa"), ("percentile", "percentile"), ("basic", "basic")):
        theirs = stats.bootstrap((x,), np.mean, n_resamples=20_000, method=name, **scipy_rng(6))
        assert interval_of(values, draws, 0.95, method) == pytest.approx(theirs.confidence_interval, rel=0.015)


def test_a_resample_without_mean_has_no_upper_end() -> None:
    rng = np.random.default_rng(0)
    found = cluster_bootstrap(rng.pareto(1.2, (60, 4)), np.arange(60), "gev", replicates=100)
    assert found.laws.xi.max() > 1
    assert found.interval("tau", 8).high == inf


def test_flags_of_the_bootstrap() -> None:
    def flags(size: int, clusters: int) -> tuple[str, ...]:
        return cluster_bootstrap(blocks(5, size), np.arange(size) % clusters, replicates=100).flags

    assert flags(200, 100) == ()
    assert flags(200, 20) == ("few clusters",)
    assert flags(40, 20) == ("few maxima", "few clusters")
    bounded = np.random.default_rng(3).random((30, 8))  # their largest is all but uniform: xi about -1
    assert "no maximum" in cluster_bootstrap(bounded, np.arange(30), "gev", "block", replicates=100, seed=2).flags


BAD_BOOTSTRAPS = [
    ({"clusters": np.arange(40) % 7}, r"^clusters must be at least 8 different ones to be resampled; got 7"),
    ({"clusters": np.arange(39)}, r"^clusters must be one label per instance, shape \(40,\)"),
    ({"replicates": 99}, r"^replicates must be a whole number, at least 100; got 99"),
    ({"seed": -1}, r"^seed must be a whole number, at least 0; got -1"),
    ({"family": "normal"}, r"^family must be "),
    ({"centring": "global"}, r"^centring must be "),
    ({"blocks": np.ones((40, 4))}, r"^blocks must have times that vary"),
    ({"blocks": np.ones(40)}, r"^blocks must be finite times of shape"),
    ({"blocks": blocks(0, 8), "clusters": np.arange(8)}, r"^z must be at least 10 finite values"),
]


@pytest.mark.parametrize(("change", "sentence"), BAD_BOOTSTRAPS, ids=lambda x: str(x)[:40])
def test_bad_bootstraps_are_one_sentence(change, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        cluster_bootstrap(**{"blocks": blocks(0, 40), "clusters": np.arange(40), **change})


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        ({"name": "xi"}, r"^name must be another than xi"),
        ({"name": "median"}, r"^name must be "),
        ({"name": "tau", "k": 0}, r"^k must be "),
        ({"name": "mu", "level": 0}, r"^level must be "),
        ({"name": "mu", "method": "normal"}, r"^method must be "),
    ],
)
def test_bad_questions_to_a_bootstrap_are_one_sentence(ask, sentence: str) -> None:
    found = cluster_bootstrap(blocks(0, 40), np.arange(40), replicates=100)
    with pytest.raises(InputError, match=sentence):
        found.interval(**ask)


# How often intervals hold the truth, in repeated samples of known laws

SAMPLES = 500  # so that a coverage of 95 % is known to 1 point, and one of 80 % to 1.8


@cache
def limit() -> fits.Bootstrap:
    """What the recipe finds in 400,000 maxima: their condition M >= 0 makes sigma 1.7 % smaller than in the law."""
    x = paper().sample(np.random.default_rng(7), (400, 4000)).reshape(-1, 4)
    return cluster_bootstrap(x, np.arange(len(x)) % 8, replicates=100)


@pytest.mark.slow
@pytest.mark.parametrize("size", [250, 1000])
def test_coverage_of_bootstrap_intervals_of_the_papers_recipe(size: int) -> None:
    clusters = np.arange(size) // 2
    hits: dict[tuple[str, float], list[bool]] = {}
    for seed in range(SAMPLES):
        found = cluster_bootstrap(blocks(1000 + seed, size), clusters, replicates=200, seed=seed)
        for name in ("mu", "sigma", "b", "tau"):
            truths = {"limit": limit().estimate(name, 128)}
            if size == 250:  # small enough that the limit is as good as the law
                truths["law"] = {"mu": 0.7058, "sigma": 0.4085, "b": 320e-6, "tau": 935.6e-6}[name]
            low, high = found.interval(name, 128)
            for kind, truth in truths.items():
                hits.setdefault((name, kind), []).append(low <= truth <= high)
    for what, held in hits.items():
        assert np.mean(held) == pytest.approx(0.95, abs=0.03), what


@pytest.mark.slow
def test_refitted_parameters_are_within_two_standard_errors_of_the_law() -> None:
    found = [cluster_bootstrap(blocks(seed, 2000), np.arange(2000) // 2, seed=seed) for seed in range(20)]
    for name, truth in (("mu", 0.7058), ("sigma", 0.4085), ("b", 320e-6)):
        errors = [(one.estimate(name) - truth) / one.replicates.quantity(name).std(ddof=1) for one in found]
        assert np.mean(np.abs(errors)) < 2, name
