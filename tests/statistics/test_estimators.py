"""Fits of block maxima, against SciPy, closed forms and pencil and paper."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from scipy import stats

from simulator.checks import InputError
from simulator.statistics import Gev, block_centred, fit_gev, fit_gumbel, fit_gumbel_lmoments, instance_centred

FITS = [fit_gumbel, fit_gumbel_lmoments, fit_gev]
CENTRINGS = [instance_centred, block_centred]


def sample(xi: float, size: int, seed: int = 0) -> np.ndarray:
    return stats.genextreme(-xi, loc=0.7, scale=0.4).rvs(size=size, random_state=np.random.default_rng(seed))


def test_instance_centred_by_hand() -> None:
    # Means 2 and 6, maxima 1 and 2 above them; variances (ddof 1) 1 and 4, pooled sd sqrt(2.5).
    assert instance_centred([[1, 2, 3], [4, 6, 8]]) == pytest.approx([1 / 2.5**0.5, 2 / 2.5**0.5])


def test_block_centred_by_hand() -> None:
    # Mean 4, squares 9+4+1+0+4+16 = 34, sd sqrt(34/5).
    assert block_centred([[1, 2, 3], [4, 6, 8]]) == pytest.approx([-1 / 6.8**0.5, 4 / 6.8**0.5])


@pytest.mark.parametrize("centring", CENTRINGS)
def test_z_scores_have_no_unit(centring) -> None:
    x = np.random.default_rng(1).normal(16e-3, 3e-4, (50, 4))
    assert centring(x * 1e6 + 5) == pytest.approx(centring(x), rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_gumbel_is_scipys(seed: int) -> None:
    z = sample(0.1, 5 + 40 * seed, seed)
    location, scale = stats.gumbel_r.fit(z)
    assert fit_gumbel(z) == pytest.approx(Gev(location, scale), rel=1e-6)


def test_gumbel_of_two_values_by_hand() -> None:
    # z = 0, 1 with w = exp(-1/s): s = 1/2 - w/(1 + w), whose root is the scale.
    fit = fit_gumbel([0.0, 1.0])
    w = exp(-1 / fit.sigma)
    assert fit.sigma == pytest.approx(0.5 - w / (1 + w), rel=1e-10)
    assert fit.mu == pytest.approx(-fit.sigma * log((1 + w) / 2), rel=1e-10)


def test_lmoments_are_half_the_mean_difference() -> None:
    z = sample(0.0, 60)
    l2 = np.abs(z[:, None] - z[None, :]).sum() / (60 * 59) / 2
    fit = fit_gumbel_lmoments(z)
    assert fit.sigma == pytest.approx(l2 / log(2), rel=1e-12)
    assert fit.mu + np.euler_gamma * fit.sigma == pytest.approx(z.mean(), rel=1e-12)


@pytest.mark.parametrize("xi", [-0.3, 0.0, 0.15, 0.5])
def test_gev_is_no_less_likely_than_scipys(xi: float) -> None:
    z = sample(xi, 800, 3)
    ours = fit_gev(z)
    theirs = stats.genextreme.fit(z, -xi, loc=0.7, scale=0.4)  # started at the truth, where its search is safe
    assert ours == pytest.approx((theirs[1], theirs[2], -theirs[0]), abs=2e-3)
    assert stats.genextreme.nnlf((-ours.xi, ours.mu, ours.sigma), z) <= stats.genextreme.nnlf(theirs, z) + 1e-4


@pytest.mark.parametrize("fit", FITS)
def test_the_truth_is_found_in_a_large_sample(fit) -> None:
    assert fit(sample(0.0, 200_000)) == pytest.approx(Gev(0.7, 0.4), abs=5e-3)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
def test_a_fit_scales_with_its_unit(fit, unit: float) -> None:
    z = sample(0.15, 300)
    fitted, moved = fit(z), fit((z - 2) * unit)
    assert moved.mu == pytest.approx((fitted.mu - 2) * unit, rel=1e-4)
    assert moved.sigma == pytest.approx(fitted.sigma * unit, rel=1e-4)
    assert moved.xi == pytest.approx(fitted.xi, abs=1e-4)


@pytest.mark.parametrize("fit", [fit_gumbel, fit_gumbel_lmoments])
@pytest.mark.parametrize("seed", range(10))
def test_small_samples_give_finite_laws(fit, seed: int) -> None:
    assert np.isfinite(fit(sample(0.4, 3 + seed, seed))).all()


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("to_unit", [1e3, 1e6, 1e9], ids=["ms", "us", "ns"])
def test_a_fit_is_the_same_in_seconds_and_in_nanoseconds(fit, to_unit: float) -> None:
    z = sample(0.07, 300) * 1e-3
    seconds, other = fit(z), fit(z * to_unit)
    assert other.xi == pytest.approx(seconds.xi, abs=1e-9)
    assert other[:2] == pytest.approx([seconds.mu * to_unit, seconds.sigma * to_unit], rel=1e-9)


@pytest.mark.parametrize("fit", FITS)
def test_a_fit_is_the_same_at_the_epoch(fit) -> None:
    ticks = np.round(sample(0.07, 300) * 4e5) / 4  # quarters of a nanosecond: what is left at 1.7e15
    now, then = fit(ticks + 1.7e15), fit(ticks)
    assert (now.sigma, now.xi) == (then.sigma, then.xi)
    assert now.mu - 1.7e15 == pytest.approx(then.mu, abs=0.25)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("size", [50, 20, 12, 10])
@pytest.mark.parametrize("xi", [-0.3, 0.0, 0.4])
def test_gev_is_an_optimum_or_refused(xi: float, size: int) -> None:
    for seed in range(15):
        z = sample(xi, size, seed)
        try:
            fit = fit_gev(z)
        except InputError:
            assert size < 50
            with pytest.raises(InputError, match=r"^z must have a GEV likelihood with a maximum above xi = -1"):
                fit_gev(z)
            continue
        best = stats.genextreme.nnlf((-fit.xi, fit.mu, fit.sigma), z)
        for start in (fit_gumbel(z), fit_gumbel_lmoments(z)):
            assert best <= stats.genextreme.nnlf((0.0, start.mu, start.sigma), z) + 1e-9
        for change in np.vstack([np.eye(3), -np.eye(3)]) * 1e-3 * fit.sigma:
            assert best <= stats.genextreme.nnlf(np.add((-fit.xi, fit.mu, fit.sigma), change), z)


PORT_PIRIE = [
    4.03, 3.83, 3.65, 3.88, 4.01, 4.08, 4.18, 3.80, 4.36, 3.96, 3.98, 4.69, 3.85, 3.96, 3.85, 3.93, 3.75, 3.63, 3.57,
    4.25, 3.97, 4.05, 4.24, 4.22, 3.73, 4.37, 4.06, 3.71, 3.96, 4.06, 4.55, 3.79, 3.89, 4.11, 3.85, 3.86, 3.86, 4.21,
    4.01, 4.11, 4.24, 3.96, 4.21, 3.74, 3.85, 3.88, 3.66, 4.11, 3.71, 4.18, 3.90, 3.78, 3.91, 3.72, 4.00, 3.66, 3.62,
    4.33, 4.55, 3.75, 4.08, 3.90, 3.88, 3.94, 4.33,
]  # fmt: skip


def test_sea_levels_of_the_textbook() -> None:
    # Coles, An Introduction to Statistical Modeling of Extreme Values, 2001, section 3.4.1: maxima of Port Pirie.
    assert fit_gev(PORT_PIRIE) == pytest.approx((3.87, 0.198, -0.050), abs=6e-3)
    assert fit_gumbel(PORT_PIRIE)[:2] == pytest.approx((3.87, 0.195), abs=6e-3)


def test_expected_max() -> None:
    # 320 us times these are tau(512) and tau(4096) of the paper's Gumbel and Frechet laws.
    assert 320 * Gev(0.7058, 0.4085).expected_max(128) == pytest.approx(935.6, abs=0.05)
    assert 320 * Gev(0.67313, 0.38128, 0.15).expected_max(1024) == pytest.approx(1961.4, abs=0.05)
    assert Gev(0.0, 1.0, 1.0).expected_max(2) == float("inf")


@pytest.mark.parametrize("centring", CENTRINGS)
@pytest.mark.parametrize("blocks", [[], [1.0, 2.0], [[1.0]], [[1.0, float("nan")]], [[2.0, 2.0], [2.0, 2.0]]], ids=repr)
def test_bad_blocks_are_one_sentence(centring, blocks) -> None:
    with pytest.raises(InputError, match=r"^blocks must "):
        centring(blocks)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("z", [[], [1.0], [[1.0, 2.0]], [1.0, float("inf")], [3.0, 3.0, 3.0]], ids=repr)
def test_bad_samples_are_one_sentence(fit, z) -> None:
    with pytest.raises(InputError, match=r"^z must "):
        fit(z)
