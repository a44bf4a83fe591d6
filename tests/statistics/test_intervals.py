"""Intervals of fitted laws, against brute force, plain resampling, SciPy and repeated samples of known laws."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import inf, log

import numpy as np
import pytest
from scipy import optimize, special, stats

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
    profile,
    profile_deviance,
)
from simulator.statistics.resample import Draws, interval_of
from tests.conftest import scipy_rng
from tests.statistics.test_estimators import PORT_PIRIE, sample

QUESTIONS = [*product(["mu", "sigma", "expected_max"], ["gumbel", "gev"]), ("xi", "gev")]
CRITICAL = {0.8: 1.6424, 0.95: 3.8415}  # quantiles of chi-squared with 1 degree of freedom


def loss(law: Gev, z: np.ndarray) -> float:
    return stats.genextreme.nnlf((-law.xi, law.mu, law.sigma), z)


def constrained(z: np.ndarray, quantity: str, value: float, family: str, k: float) -> float:
    """Least -ln likelihood given a quantity, by a search without slopes from several starts."""

    def law(p: np.ndarray) -> Gev | None:
        if quantity == "xi":
            return Gev(p[0], np.exp(p[1]), value)
        xi = p[1] if family == "gev" else 0.0
        if quantity == "sigma":
            return Gev(p[0], value, xi)
        if quantity == "mu":
            return Gev(value, np.exp(p[0]), xi)
        if xi >= 1:
            return None
        lift = (k**xi * special.gamma(1 - xi) - 1) / xi if abs(xi) > 1e-6 else log(k) + np.euler_gamma
        return Gev(value - np.exp(p[0]) * lift, np.exp(p[0]), xi)

    def cost(p: np.ndarray) -> float:
        tried = law(p)
        return loss(tried, z) if tried is not None and -0.99 <= tried.xi <= 2 else inf

    first = [np.median(z)] if quantity in ("sigma", "xi") else [log(z.std() * c) for c in (0.5, 1, 4)]
    if quantity == "xi":
        second: list[list[float]] = [[log(z.std() * c)] for c in (0.5, 1, 4)]
    else:
        second = [[0.0], [0.3], [-0.3], [0.9]] if family == "gev" else [[]]
    with np.errstate(all="ignore"):
        found = [
            optimize.minimize(cost, [a, *b], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}).fun
            for a in first
            for b in second
        ]
    return float(min(found))


@pytest.mark.slow
@pytest.mark.sampled(8)
@pytest.mark.parametrize("xi", [-0.2, 0.0, 0.3])
@pytest.mark.parametrize("size", [15, 50])
@pytest.mark.parametrize(("quantity", "family"), QUESTIONS)
def test_ends_of_a_profile_interval_are_where_the_likelihood_has_fallen(quantity, family, size: int, xi: float) -> None:
    z = sample(xi, size, size)
    best = loss(fit_gev(z) if family == "gev" else fit_gumbel(z), z)
    ends = profile(z, quantity, family, k=16)
    assert ends.low < ends.high
    for end in ends:
        if np.isfinite(end):
            assert 2 * (constrained(z, quantity, end, family, 16) - best) == pytest.approx(CRITICAL[0.95], abs=2e-3)


@pytest.mark.slow
def test_profile_intervals_are_shadows_of_the_region_of_likely_laws() -> None:
    # All Gumbel laws on a grid finer than the tolerance, with a log-likelihood within half the quantile of the largest.
    z = sample(0.0, 40, 2)
    mu, sigma = np.meshgrid(np.linspace(0.45, 0.95, 501), np.linspace(0.22, 0.62, 401), indexing="ij")
    y = (z - mu[..., None]) / sigma[..., None]
    level = np.log(sigma) * len(z) + (y + np.exp(-y)).sum(axis=-1)
    likely = 2 * (level - loss(fit_gumbel(z), z)) <= CRITICAL[0.95]
    for quantity, values in (("mu", mu), ("sigma", sigma), ("expected_max", mu + sigma * (log(128) + np.euler_gamma))):
        shadow = values[likely].min(), values[likely].max()
        assert profile(z, quantity, k=128) == pytest.approx(shadow, abs=4e-3)


def test_sea_levels_of_the_textbook() -> None:
    # Coles 2001, section 3.4.1, from the curvature of the likelihood: mu 3.87 +- 0.055, sigma 0.198 +- 0.040, xi -0.050
    # +- 0.192. Intervals from the likelihood itself are a little further up for scale and shape.
    for quantity, end in (("mu", (3.82, 3.93)), ("sigma", (0.158, 0.238)), ("xi", (-0.242, 0.142))):
        assert profile(PORT_PIRIE, quantity, "gev") == pytest.approx(end, abs=0.03)


@pytest.mark.parametrize(("quantity", "family"), QUESTIONS)
def test_profile_intervals_have_no_unit(quantity: str, family: str) -> None:
    z = sample(0.1, 60)
    plain, moved = profile(z, quantity, family, k=4), profile(z * 1e-9 + 3, quantity, family, k=4)
    scale, shift = {"xi": (1.0, 0.0), "sigma": (1e-9, 0.0)}.get(quantity, (1e-9, 3.0))
    assert [(end - shift) / scale for end in moved] == pytest.approx(plain, rel=2e-6)  # 3 + 1e-9*z has 6 digits of z


@pytest.mark.slow
def test_what_the_data_do_not_exclude_has_no_end() -> None:
    z = sample(0.8, 30)
    assert profile(z, "xi", "gev").high > 1
    assert profile(z, "expected_max", "gev", k=16).high == inf  # a law without a mean is among the likely ones
    assert np.isfinite(profile(z, "expected_max", "gev", k=16).low)
    assert np.isfinite(profile(z, "expected_max", "gumbel", k=16)).all()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("family", ["gumbel", "gev"])
def test_too_few_maxima_are_refused(size: int, family) -> None:
    with pytest.raises(InputError, match=rf"^z must be at least 10 finite values; got shape \({size},\)"):
        profile(sample(0.0, size), "sigma", family)


@pytest.mark.parametrize("size", [10, 20])
def test_few_maxima_have_wide_intervals_and_a_flag(size: int) -> None:
    z = sample(0.0, size, 1)
    assert fits.describe(z).flags == ("few maxima",)
    low, high = profile(z, "sigma")
    fitted = fit_gumbel(z)
    assert low < fitted.sigma < high
    assert (high - low) / fitted.sigma > 0.6
    assert fits.describe(sample(0.0, 50)).flags == ()


BAD_PROFILES = [
    ({"quantity": "xi"}, r"^quantity must be another than xi for family gumbel"),
    ({"quantity": "b"}, r"^quantity must be "),
    ({"quantity": "mu", "family": "normal"}, r"^family must be "),
    ({"quantity": "mu", "level": 1.0}, r"^level must be "),
    ({"quantity": "expected_max", "k": 0}, r"^k must be "),
    ({"quantity": "mu", "z": [1.0] * 20}, r"^z must have values that differ \(use compute law deterministic\)"),
    ({"quantity": "mu", "family": "gev", "z": [1.0, 2.0] * 20}, r"^z must have 10 different values for a GEV fit"),
]


@pytest.mark.parametrize(("change", "sentence"), BAD_PROFILES, ids=lambda x: str(x)[:40])
def test_bad_profiles_are_one_sentence(change, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        profile(**{"z": sample(0.0, 20), **change})


def test_maxima_needed() -> None:
    assert fits.maxima_needed(Interval(0.9, 1.1), 1.0, 500) == 500
    assert fits.maxima_needed(Interval(0.8, 1.2), 1.0, 500, relative=0.05) == 8000  # 4 times narrower: 16 times as many
    assert fits.maxima_needed(Interval(0.8, inf), 1.0, 500) == inf
    z = sample(0.0, 200, 5)
    needed = fits.maxima_needed(profile(z, "sigma"), fit_gumbel(z).sigma, 200, relative=0.05)
    longer = sample(0.0, int(needed), 6)
    low, high = profile(longer, "sigma")
    assert (high - low) / 2 / fit_gumbel(longer).sigma == pytest.approx(0.05, rel=0.1)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "xi", "size"),
    [("gumbel", 0.0, 20), ("gumbel", 0.0, 250), ("gev", 0.0, 50), ("gev", 0.15, 250), ("gev", -0.15, 100)],
)
def test_coverage_of_profile_intervals(family, xi: float, size: int) -> None:
    truth = Gev(0.7, 0.4, xi)
    values = {"mu": truth.mu, "sigma": truth.sigma, "expected_max": truth.expected_max(16)}
    if family == "gev":
        values = {"xi": xi, **{name: values[name] for name in ("sigma", "expected_max")}}
    draws = [sample(xi, size, seed) for seed in range(SAMPLES)]
    for quantity, value in values.items():
        deviances = np.array([profile_deviance(z, quantity, value, family, 16) for z in draws])
        for level, critical in CRITICAL.items():
            assert np.mean(deviances <= critical) == pytest.approx(level, abs=0.03), quantity


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
def test_intervals_from_the_likelihood_of_z_scores_are_too_wide() -> None:
    # The standard deviation they are divided by grows with the maxima, which steadies them: 98 to 99 % instead of 95.
    values = {"mu": limit().estimate("mu"), "sigma": limit().estimate("sigma")}
    z = [instance_centred(blocks(1000 + seed, 250)) for seed in range(SAMPLES)]
    for quantity, value in values.items():
        assert np.mean([profile_deviance(x, quantity, value) <= CRITICAL[0.95] for x in z]) > 0.97


@pytest.mark.slow
def test_refitted_parameters_are_within_two_standard_errors_of_the_law() -> None:
    found = [cluster_bootstrap(blocks(seed, 2000), np.arange(2000) // 2, seed=seed) for seed in range(20)]
    for name, truth in (("mu", 0.7058), ("sigma", 0.4085), ("b", 320e-6)):
        errors = [(one.estimate(name) - truth) / one.replicates.quantity(name).std(ddof=1) for one in found]
        assert np.mean(np.abs(errors)) < 2, name
