"""The tax beyond measured ranks against laws whose tax is known: numbers, intervals, refusals."""

from __future__ import annotations

import time
import zlib
from itertools import product
from math import inf, isnan, log, sqrt
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.statistics.lasting import louder, with_offsets
from simulator.statistics.pooling import Pooling, centred_effect, scale_effect, without_common
from simulator.statistics.tail import Tail, pareto_shape
from simulator.statistics.tax_estimate import Estimate, Measured, estimate, estimates
from tests.statistics.samples import (
    DEPENDENT,
    NINE,
    TWO_MORE,
    Source,
    bimodal_tax,
    expected_max,
    known_gumbel,
    normal_tax,
    recorded_times,
)

FIGURES = ("tau", "low", "high", "conditional_low", "conditional_high", "blocks_needed")


def test_tax_of_the_known_gumbel_ranks() -> None:
    eight, many = estimates(known_gumbel(), [8, 512])
    assert (eight.estimator, eight.status) == ("subsets", "ok")
    assert eight.tau * 1e6 == pytest.approx(520.2087, abs=5e-5)  # computed elsewhere
    assert eight.low < 518.8e-6 < eight.high
    assert (many.estimator, many.status) == ("tail", "ok")
    assert many.tau == pytest.approx(1556e-6, rel=0.1)
    assert many.low < 1556e-6 < many.high


def test_what_two_halves_of_the_ranks_say_of_all() -> None:
    for ranks in (slice(0, 4), slice(4, 8)):
        found = estimate(known_gumbel()[:, ranks], 8)
        assert found.estimator == "tail"
        assert found.low < 520.2e-6 < found.high
        assert found.tau == pytest.approx(518.8e-6, rel=0.06)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["gumbel", "rank offsets", "rank scales", "common shock", "block scales"])
@pytest.mark.parametrize("unit", [1e3, 1e6, 1e9])
def test_units_do_not_matter(name: str, unit: float) -> None:
    x = 0.016 + 0.0003 * {**NINE, **DEPENDENT}[name].draw(np.random.default_rng(3), 200, 8)
    x = np.round(x, 9)  # what a clock tells
    for ours, theirs in zip(estimates(x, [4, 8, 12, 64, 512]), estimates(x * unit, [4, 8, 12, 64, 512]), strict=True):
        scaled = [getattr(ours, name) * (1 if name == "blocks_needed" else unit) for name in FIGURES]
        assert scaled == pytest.approx([getattr(theirs, name) for name in FIGURES], rel=1e-12, nan_ok=True)
        assert ours.status == theirs.status


def test_the_same_times_give_the_same_figures() -> None:
    x = DEPENDENT["common shock"].draw(np.random.default_rng(1), 200, 8)
    assert repr(estimates(x, [8, 64])) == repr(estimates(x, [8, 64]))


def test_what_a_block_shares_cancels() -> None:
    x = NINE["normal"].draw(np.random.default_rng(4), 400, 8)
    shock = np.random.default_rng(5).normal(size=(400, 1)) * 30
    assert estimate(x + shock, 8).tau == pytest.approx(estimate(x, 8).tau, rel=1e-12)
    assert estimate(x + shock, 64).tau == pytest.approx(normal_tax(64), rel=0.1)
    assert estimate(x + shock, 64).high < 2 * normal_tax(64)


# The parts


@pytest.mark.parametrize(("n", "xi"), [(16, 0.0), (512, 0.0), (4096, 0.3), (4096, -0.3), (100_000, 0.1)])
def test_tail_law_has_the_expected_maxima_of_its_quantiles(n: int, xi: float) -> None:
    law = Tail(body=np.arange(1.0, 101.0), above=10, excess=20.0, shape=xi)
    share = 10 / 110

    def isf(p: Array) -> Array:
        above = 100 + law.excesses(-np.log(np.minimum(p / share, 1)))
        return np.where(p < share, above, np.minimum(np.floor((1 - p) * 110) + 1, 100))

    mean = (5050 + 10 * 120) / 110
    assert law.tax([n])[0] == pytest.approx(expected_max(isf, n) - mean, rel=1e-3)


@pytest.mark.parametrize("xi", [-0.3, 0.0, 0.3])
def test_shape_of_pareto_samples(xi: float) -> None:
    rng = np.random.default_rng(6)
    found = [pareto_shape(np.sort(stats.genpareto(xi).rvs(size=500, random_state=rng))) for _ in range(50)]
    assert np.mean(found) == pytest.approx(xi, abs=0.03)
    assert np.std(found) == pytest.approx((1 + xi) / sqrt(500), rel=0.4)  # Smith 1987


def test_ticks_of_a_clock_leave_a_shape() -> None:
    x = np.round(NINE["gumbel"].draw(np.random.default_rng(7), 500, 8) / 0.8) * 0.8
    assert estimate(x, 64).tau == pytest.approx(NINE["gumbel"].tax(64), rel=0.15)


def test_scales_of_blocks_are_told_from_chance_and_from_skewed_times_beside_a_common_part() -> None:
    rng = np.random.default_rng(8)
    normal = rng.normal(size=(2000, 8))
    assert centred_effect(normal) == pytest.approx(1 + 2 / 49, abs=0.01)
    loud = rng.permutation(np.repeat([[1.0], [3.0]], 1000, axis=0))
    assert scale_effect(normal * loud)[0] == pytest.approx(41 / 25, rel=0.1)
    heavy = np.random.default_rng(9).standard_t(5, size=(2000, 8))
    assert scale_effect(without_common(heavy))[1] > 5  # one large time moves the mean that is taken off
    assert not Pooling.of(heavy + rng.normal(size=(2000, 1)), True).scale
    assert Pooling.of(normal * loud + rng.normal(size=(2000, 1)), True).scale


def test_normal_offsets_and_normal_noise_are_normal() -> None:
    own = Tail.of(stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000))
    for n in (8, 64, 512):
        assert with_offsets(own, 2.0, n) == pytest.approx(sqrt(5) * normal_tax(n), rel=0.01)


# What the data can carry


def test_information_rule_of_independent_times() -> None:
    x = NINE["normal"].draw(np.random.default_rng(10), 100, 8)
    assert [found.status for found in estimates(x, [8, 400, 401, 8000, 8001])] == [
        "ok", "ok", "interval", "interval", "no claim",
    ]  # fmt: skip


def test_information_rule_of_times_with_memory() -> None:
    measured = Measured(DEPENDENT["ar1"].draw(np.random.default_rng(11), 1000, 8))
    assert measured.independent_times == pytest.approx(8000 * (1 - 0.64) / (1 + 0.64), rel=0.15)


def test_ranks_that_differ_lastingly_are_few_draws() -> None:
    x = np.random.default_rng(12).normal(size=(500, 8)) + 3 * stats.norm.ppf((np.arange(8) + 0.5) / 8)
    eight, more = estimates(x, [8, 64])
    assert eight.status == "ok"
    assert more.status == "no claim"
    assert "stays with them: what 64 ranks pay depends on ranks that nobody measured" in more.reason
    assert isnan(more.tau)
    assert isnan(more.low)
    sd = sqrt(1 + 9 * np.var(stats.norm.ppf((np.arange(8) + 0.5) / 8), ddof=1))
    assert more.conditional_low < sd * normal_tax(64) < more.conditional_high
    chi2 = 7 / stats.chi2(7).ppf([0.975, 0.025])
    assert more.conditional_high / more.conditional_low > 0.9 * sqrt(chi2[1] / chi2[0])


def test_few_lasting_differences_widen_the_interval_and_no_blocks_narrow_it() -> None:
    offsets = 0.6 * stats.norm.ppf((np.arange(8) + 0.5) / 8)
    x = np.random.default_rng(13).normal(size=(2000, 8))
    plain, unlike = estimate(x, 32), estimate(x + offsets, 32)
    assert unlike.high / unlike.low > plain.high / plain.low
    assert Measured(x + offsets).independent_times < 600
    assert plain.blocks_needed < 2000
    assert estimate(x + 1.3 * offsets, 12).blocks_needed == inf


def test_spreads_that_differ_are_said_to_be_the_weak_case() -> None:
    x = np.random.default_rng(17).normal(size=(500, 8))
    plain, unlike = estimate(x, 64), estimate(x * np.array([0.5, 0.5, 0.7, 0.7, 1, 1, 1.5, 2]), 64)
    assert plain.reason == ""
    assert unlike.reason == "the spreads of ranks differ: those of others are guessed from 8: the weak case"
    assert unlike.high / unlike.tau > 1.3 > plain.high / plain.tau


@pytest.mark.slow
def test_loudest_of_many_log_normal_ranks() -> None:
    """Against a simulation of 4096 ranks with the spreads' law, and of as many with one of the given spreads."""
    spreads, rng = np.array([0.5, 1.0, 2.0]), np.random.default_rng(18)
    others = np.exp(rng.normal(size=(1500, 4096)) * log(2)) * rng.normal(size=(1500, 4096))
    ours = rng.choice(spreads, size=(1500, 4096)) * rng.normal(size=(1500, 4096))
    rms = (np.exp(log(2) ** 2), sqrt((spreads**2).mean()))
    expected = others.max(axis=1).mean() / rms[0] / (ours.max(axis=1).mean() / rms[1])
    assert louder(spreads.tolist(), 4096) == pytest.approx(expected, rel=0.02)


def test_as_many_blocks_as_needed_narrow_the_interval() -> None:
    rng = np.random.default_rng(14)
    few = estimate(NINE["gumbel"].draw(rng, 60, 8), 4096)
    assert few.high > 1.2 * few.tau
    enough = estimate(NINE["gumbel"].draw(rng, int(1.5 * few.blocks_needed), 8), 4096)
    assert enough.high < 1.2 * enough.tau


def test_the_four_a100_say_nothing_of_more_ranks() -> None:
    for times in recorded_times():
        assert estimate(times, 4).status == "ok"
        assert estimate(times, 4).tau == pytest.approx(times.max(axis=1).mean() - times.mean())
        assert {found.status for found in estimates(times, [5, 8, 64, 4096])} == {"no claim"}


# Bad input, and what can be said


def test_one_block_has_a_tax_and_no_interval() -> None:
    found = estimate([[1.0, 2.0, 6.0]], 3)
    assert (found.tau, found.reason) == (3.0, "one block gives no interval")
    assert isnan(found.low)
    assert estimate([[1.0, 2.0, 6.0]], 4).status == "no claim"


def test_times_that_do_not_vary() -> None:
    for x in (np.full((50, 4), 0.1), np.linspace(0.1, 0.3, 50)[:, None].repeat(4, axis=1)):
        assert (estimate(x, 4).tau, estimate(x, 4).low, estimate(x, 4).high) == (0.0, 0.0, 0.0)
        assert estimate(x, 8).status == "no claim"
        assert "do not vary" in estimate(x, 8).reason
    fixed = np.full((50, 4), [0.1, 0.1, 0.1, 0.2])
    assert estimate(fixed, 4).tau == pytest.approx(0.075)
    assert estimate(fixed, 8).status == "no claim"


def test_two_ranks_and_few_blocks() -> None:
    x = np.random.default_rng(15).normal(size=(500, 2))
    assert estimate(x, 2).tau == pytest.approx(1 / sqrt(np.pi), rel=0.1)
    assert estimate(x, 4).reason == "two ranks show how they differ, not how more than the 2 measured ranks would"
    assert estimate(np.random.default_rng(16).normal(size=(7, 4)), 8).reason == (
        "more than the 4 measured ranks need at least 10 blocks and 40 times; got 7 blocks, 28 times"
    )


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        ([[1.0, 2.0], [1.0, np.nan]], r"times\[1, 1\] must be a finite number; got nan"),
        ([[1.0, 2.0], [np.inf, 1.0]], r"times\[1, 0\] must be a finite number; got inf"),
        ([[1.0], [2.0]], r"times must be of shape \(blocks, ranks\), at least 2 ranks; got \(2, 1\)"),
        ([1.0, 2.0], r"times must be of shape \(blocks, ranks\), at least 2 ranks; got \(2,\)"),
        (np.empty((0, 4)), r"times must be of shape \(blocks, ranks\), at least 2 ranks; got \(0, 4\)"),
    ],
)
def test_what_are_no_times_is_refused(x: Array, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        estimate(x, 8)


def test_size_is_checked() -> None:
    with pytest.raises(InputError, match="n must be a whole number, at least 1; got 0"):
        estimate([[1.0, 2.0]], 0)


# Errors and intervals over many samples


class Score(NamedTuple):
    """Root-mean-square error and coverage of the 95 % interval, parts of 1, for each n."""

    error: Array
    cover: Array


def score(name: str, ranks: int, blocks: int, sizes: list[int], samples: int, seed: int) -> Score:
    """Of so many samples, whatever they can carry."""
    source: Source = {**NINE, **TWO_MORE, **DEPENDENT}[name]
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), ranks, blocks])
    truth = np.array([source.tax(n) for n in sizes])
    found: list[list[Estimate]] = []
    for _ in range(samples):
        measured = Measured(source.draw(rng, blocks, ranks))
        found.append([measured.by_tail(n) for n in sizes])
    tau, low, high = (np.array([[getattr(one, key) for one in row] for row in found]) for key in ("tau", "low", "high"))
    return Score(np.sqrt(((tau / truth - 1) ** 2).mean(axis=0)), ((low <= truth) & (truth <= high)).mean(axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NINE, "ar1", "common shock"])
def test_error_and_interval_of_some_samples(name: str) -> None:
    """Looser than the benchmark by what 40 samples leave to chance."""
    found = score(name, 8, 200, [16, 64, 512, 4096], samples=40, seed=1)
    assert (found.error <= 1.25 * np.array([0.07, 0.10, 0.20, 0.30])).all()
    assert found.cover.mean() >= 0.82
    assert found.cover.min() >= 0.65


@pytest.mark.benchmark
def test_root_mean_square_errors_and_intervals() -> None:
    """Prints the tables; N = 8, 200 samples a cell, with seeds that nothing else uses."""
    sizes = [16, 64, 512, 4096]
    names = [*NINE, *TWO_MORE, *DEPENDENT]
    scores = {
        (name, blocks): score(name, 8, blocks, sizes, 200, seed=20) for name, blocks in product(names, (200, 1000))
    }
    for (name, blocks), found in scores.items():
        print(f"{name:16s} {blocks:5d} error {(100 * found.error).round(1)} cover {(100 * found.cover).round(1)}")
    for blocks, mean, worst in ((200, (7, 12, 18), (10, 20, 30)), (1000, (4, 6, 10), (6, 13, 20))):
        errors = 100 * np.array([scores[name, blocks].error[1:] for name in NINE])
        print(f"T = {blocks}: mean {errors.mean(axis=0).round(1)}, worst {errors.max(axis=0).round(1)} %")
        assert (errors.mean(axis=0) <= mean).all()
        assert (errors.max(axis=0) <= worst).all()
    covers = {name: 100 * np.array([scores[name, blocks].cover for blocks in (200, 1000)]) for name in names}
    for name, cover in covers.items():
        print(f"{name:16s} covers {cover.mean():.1f} % on average, least {cover.min():.1f} %")
    for name in ("normal", "gumbel", "lognormal", "spliced frechet", "bimodal", "ar1", "common shock", "t4"):
        assert covers[name].mean() >= (86 if name == "t4" else 91), name
        assert covers[name].min() >= 75, name
    assert covers["rank scales"].mean() >= 80


@pytest.mark.benchmark
def test_root_mean_square_errors_of_64_ranks() -> None:
    errors = 100 * np.array([score(name, 64, 200, [512, 4096], 200, seed=21).error for name in NINE])
    print(f"N = 64, T = 200: mean {errors.mean(axis=0).round(1)}, worst {errors.max(axis=0).round(1)} %")
    assert (errors.mean(axis=0) <= (6, 10)).all()


@pytest.mark.benchmark
def test_time_of_an_estimate() -> None:
    for shape, least in (((1000, 8), 0.2), ((10_000, 64), 30.0)):
        x = np.random.default_rng(22).gumbel(size=shape)
        begin = time.perf_counter()
        estimates(x, [shape[1], 512, 4096])
        taken = time.perf_counter() - begin
        print(f"{shape}: {taken:.3f} s")
        assert taken < least


def test_known_taxes_of_the_samples() -> None:
    """The references of this file themselves, against textbook values and simulation."""
    assert normal_tax(2) == pytest.approx(1 / sqrt(np.pi), rel=1e-6)
    assert TWO_MORE["exponential"].tax(4) == pytest.approx(1 / 2 + 1 / 3 + 1 / 4, rel=1e-6)
    assert TWO_MORE["uniform"].tax(9) == pytest.approx((0.9 - 0.5) * sqrt(12), rel=1e-6)
    assert NINE["gumbel"].tax(8) == pytest.approx(log(8) * sqrt(6) / np.pi)
    x = NINE["bimodal"].draw(np.random.default_rng(23), 20_000, 64)
    assert x.max(axis=1).mean() == pytest.approx(bimodal_tax(64), rel=0.005)


@pytest.mark.parametrize("times", [[["a", "b"]], [[1.0, 2.0], [3.0]], [[None, 1.0]], [[10**400, 1]]])
def test_what_is_no_table_of_numbers_is_one_sentence(times: object) -> None:
    with pytest.raises(InputError, match=r"^times(\[0, 0\])? must be "):
        estimate(times, 2)  # type: ignore[arg-type]


def test_one_spike_in_constant_times_is_no_tail() -> None:
    x = np.full((1000, 8), 0.016)
    x[5, 2] = 1.0
    within, beyond = estimates(x, [8, 64])
    assert within.tau == pytest.approx((1.0 - 0.016) * 7 / 8 / 1000)  # paid by seven of eight, in one of 1000
    assert isnan(within.low)
    assert "arises in one run of blocks alone" in within.reason
    assert (beyond.status, isnan(beyond.tau)) == ("no claim", True)
    x[505, 2] = 1.0  # a second one
    assert estimate(x, 8).low > 0
