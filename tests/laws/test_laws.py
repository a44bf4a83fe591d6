"""One contract over all laws, and the closed forms of each."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext
from math import inf, pi, sqrt

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from simulator import empirical
from simulator.checks import InputError
from simulator.command.flags import config_dir
from simulator.laws import (
    Deterministic,
    Empirical,
    EmpiricalBlocks,
    IndependentLaw,
    Law,
    LogNormal,
    Normal,
    block_maxima,
)
from simulator.laws.gev import box_cox, gev_mean, inverse_box_cox
from tests.conftest import PAPER, built, paper_law

MEASURED = {
    "table": "stragglar_4xa100_llama3.2-3b_steps.csv", "columns": ["forward_ms", "backward_ms"],
    "unit": 1e-3, "skip": 1,
}  # fmt: skip
WEIBULL = {"mean": 16e-3, "cv": 0.02, "mu": 0.75, "sigma": 0.45, "xi": -0.15}

LAWS: dict[str, Law] = {
    **{f"{name}-{parent}": paper_law(name, parent) for name in PAPER for parent in ("spliced", "zero_sum", "root")},
    **{f"weibull-{parent}": block_maxima(**WEIBULL, parent=parent) for parent in ("spliced", "zero_sum", "root")},
    "no-spread": paper_law(cv=0.0),
    "normal": Normal(mean=2.0, cv=0.1),
    "lognormal": LogNormal(mean=2.0, cv=0.3),
    "deterministic": Deterministic(mean=0.016),
    "empirical-values": empirical(**MEASURED, resample="values"),
    "empirical-steps": empirical(**MEASURED),
}
KNOWN = {"block_maxima", "dependent", "empirical", *(type(law).__name__ for law in LAWS.values())}
for path in sorted((config_dir() / "compute").glob("*.yaml")):  # those of conf/ that are of another class
    if re.search(r"^_target_: [\w.]*?(\w+)$", path.read_text(encoding="utf-8"), re.M)[1] not in KNOWN:
        LAWS[path.stem] = built(None, f"compute={path.stem}").compute
INDEPENDENT = {name: law for name, law in LAWS.items() if isinstance(law, IndependentLaw)}
CONTINUOUS = {k: v for k, v in INDEPENDENT.items() if k not in ("deterministic", "no-spread", "empirical-values")}

# Laws whose blocks are independent; of others (offsets drawn once in a run, blocks that remember), one run is one draw.
SEPARATE = {name: law for name, law in LAWS.items() if law.dependence is None}

every_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
every_law_of_separate_blocks = pytest.mark.parametrize("law", SEPARATE.values(), ids=SEPARATE)
every_independent_law = pytest.mark.parametrize("law", INDEPENDENT.values(), ids=INDEPENDENT)
every_continuous_law = pytest.mark.parametrize("law", CONTINUOUS.values(), ids=CONTINUOUS)


def rng() -> np.random.Generator:
    return np.random.default_rng(20)


# --- every law ---


@every_law
def test_samples_have_the_shape_asked_for_and_are_times(law):
    times = law.sample(rng(), (5, 3, 8))
    assert times.shape == (5, 3, 8)
    assert np.isfinite(times).all()
    assert (times >= 0).all()


@every_law_of_separate_blocks
def test_samples_do_not_depend_on_how_many_are_drawn_at_once(law):
    together = law.sample(rng(), (37, 12))
    source = rng()
    apart = np.concatenate([law.sample(source, (rows, 12)) for rows in (1, 7, 2, 27)])
    assert together.tobytes() == apart.tobytes()


@pytest.mark.sampled(3)
@every_law_of_separate_blocks
@pytest.mark.parametrize("n", [4, 64])
def test_mean_and_expected_maximum_agree_with_samples(law, n):
    times = law.sample(rng(), (40_000, n))
    means, slowest = times.mean(axis=1), times.max(axis=1)
    for values, expected in ((means, law.mean), (slowest, law.expected_max(n))):
        error = values.std() / sqrt(len(values))
        assert abs(values.mean() - expected) <= 4 * error + 1e-12 * expected


@pytest.mark.sampled(2)
@every_law
def test_a_block_twice_as_long_has_twice_the_mean_and_the_maximum(law):
    double = law.scaled(2.0)
    assert double.mean == pytest.approx(2 * law.mean, rel=1e-12)
    assert double.expected_max(16) == pytest.approx(2 * law.expected_max(16), rel=1e-12)
    assert double.sample(rng(), (3, 8)) == pytest.approx(2 * law.sample(rng(), (3, 8)), rel=1e-12)


@every_law
def test_the_tax_grows_with_the_domain_and_a_lone_rank_waits_for_nobody(law):
    assert law.wait(1) == 0.0
    taxes = [law.wait(n) for n in (4, 8, 16, 64, 512, 4096)]
    assert (np.diff(taxes) >= -1e-15).all()
    assert taxes[0] >= 0


# --- independent laws ---


@every_continuous_law
def test_cdf_and_ppf_are_inverse(law):
    p = np.array([1e-9, 1e-4, 0.02, 0.3, 0.5, 0.7, 0.72, 0.9, 0.999, 1 - 1e-9])
    assert law.cdf(law.ppf(p)) == pytest.approx(p, rel=1e-7)
    assert (np.diff(law.ppf(p)) > 0).all()


@every_independent_law
def test_mean_and_variance_are_those_of_the_quantile_function(law):
    def moment(j: int) -> float:
        value, _ = quad(lambda y: (float(law.quantile(np.exp(y))) - law.mean) ** j * np.exp(y - np.exp(y)), -200, 6,
                        limit=2000, points=[-30, -10, -3, -2, -1, 0, 1, 2, 3])  # fmt: skip
        return value

    if isinstance(law, Empirical):  # a step function: exact sums instead of quadrature
        assert law.mean == pytest.approx(float(np.mean(law.values)), rel=1e-14)
        assert law.var == pytest.approx(float(np.var(law.values)), rel=1e-12)
        return
    assert moment(1) == pytest.approx(0.0, abs=1e-8 * law.mean)
    assert moment(2) == pytest.approx(law.var, rel=1e-6, abs=1e-20)


@every_continuous_law
def test_samples_follow_the_cdf(law):
    times = law.sample(rng(), 20_000)
    assert stats.kstest(times, law.cdf).pvalue > 0.001


@every_independent_law
def test_a_lone_rank_takes_the_mean(law):
    assert law.expected_max(1) == pytest.approx(law.mean, rel=1e-9)


@pytest.mark.sampled(12)
@every_continuous_law
@pytest.mark.parametrize("n", [2, 8, 512])
def test_maximum_and_range_follow_their_closed_forms(law, n):
    times = law.sample(rng(), (4000, n))
    slowest = times.max(axis=1)
    assert stats.kstest(slowest, lambda x: law.max_cdf(x, n)).pvalue > 0.001
    assert stats.kstest(slowest - times.min(axis=1), lambda w: law.range_cdf(w, n)).pvalue > 0.001


def test_range_of_two_gumbel_ranks_is_that_of_a_logistic_difference():
    law = paper_law(parent="root")
    scale = 320e-6 * 0.4085
    w = np.array([1e-5, 1e-4, 5e-4, 2e-3])
    assert law.range_cdf(w, 2) == pytest.approx(np.tanh(w / (2 * scale)), rel=1e-6)


def test_range_of_measured_values_counts_every_pair():
    law = Empirical(values=np.array([1.0, 2.0, 2.0, 5.0]))
    pairs = np.abs(np.subtract.outer(law.values, law.values)).ravel()
    for w in (0.0, 0.5, 1.0, 3.0, 3.5, 4.0):
        assert law.range_cdf(w, 2) == pytest.approx(np.mean(pairs <= w), rel=1e-12)


# --- block maxima: the paper's tau(n) and the three constructions ---


def test_splice_of_the_default_parameters():
    splice = paper_law().splice
    assert splice == pytest.approx((0.704127, 0.350796, 0.567423, 1.164493, -0.172910), abs=2e-6)


@pytest.mark.parametrize("name", PAPER)
@pytest.mark.parametrize("parent", ["spliced", "zero_sum", "root"])
def test_distance_from_the_papers_tau(name, parent):
    """Spliced is 2.3 % off at n = 4, 0.15 % at 8 and 0.002 % from 16 on (Frechet 3.0, .22, .0044 %)."""
    law = paper_law(name, parent)
    limits = {
        "spliced": {4: 0.031, 8: 0.0023, 16: 5e-5, 72: 1e-9, 4096: 1e-9},
        "zero_sum": {4: 0.0039, 8: 0.0017, 16: 0.0012, 72: 8e-4, 4096: 4e-4},
        "root": dict.fromkeys((4, 8, 16, 72, 4096), 1e-12),
    }[parent]
    for n, limit in limits.items():
        slowest = (law.expected_max(n) - law.centre) / law.gev_tax(n)
        assert slowest == pytest.approx(1.0, abs=limit)


@pytest.mark.parametrize(
    ("n", "gumbel", "frechet"),
    [(8, 391.9, 406.0), (16, 482.5, 516.1), (64, 663.7, 773.6), (72, 679.1, 798.0), (128, 754.4, 923.8),
     (256, 845.0, 1090.6), (512, 935.6, 1275.6), (1024, 1026.2, 1480.9), (4096, 1207.4, 1961.4)],
)  # fmt: skip
def test_tau_of_the_paper(n, gumbel, frechet):
    assert paper_law("gumbel").gev_tax(n) * 1e6 == pytest.approx(gumbel, abs=0.05)
    assert paper_law("frechet").gev_tax(n) * 1e6 == pytest.approx(frechet, abs=0.05)


def test_the_root_law_waits_sigma_ln_n():
    law = paper_law(parent="root")
    for n in (2, 8, 4096):
        assert law.wait(n) == pytest.approx(320e-6 * 0.4085 * np.log(n), rel=1e-12)
    assert law.var == pytest.approx((320e-6 * 0.4085 * pi) ** 2 / 6, rel=1e-12)


def test_frechet_root_law_is_scipys():
    law = paper_law("frechet", "root")
    peer = stats.genextreme(c=-0.15, loc=0.67313, scale=0.38128)  # c = -xi
    x = 16e-3 + 320e-6 * np.array([0.0, 0.5, 1.0, 3.0, 10.0])
    assert law.cdf(x) ** 4 == pytest.approx(peer.cdf((x - 16e-3) / 320e-6), rel=1e-10)
    assert law.max_cdf(x, 4) == pytest.approx(peer.cdf((x - 16e-3) / 320e-6), rel=1e-10)
    assert law.gev_tax(4) / 320e-6 == pytest.approx(peer.mean(), rel=1e-10)


@pytest.mark.parametrize("name", PAPER)
def test_zero_sum_blocks(name):
    law = paper_law(name, "zero_sum")
    z = ((law.sample(rng(), (500_000, 4)) - law.mean) / 320e-6).reshape(-1, 4)
    assert np.abs(z.sum(axis=1)).max() < 1e-10
    pooled = z.var(axis=1, ddof=1)
    assert abs(pooled.mean() - 1) < 4 * pooled.std() / sqrt(len(pooled))
    assert np.bincount(z.argmax(axis=1)) / len(z) == pytest.approx(0.25, abs=4 * sqrt(0.25 * 0.75 / len(z)))
    cdf = law.max_cdf(law.mean + 320e-6 * np.sort(z.max(axis=1)[:20_000]), 4)
    assert np.abs(cdf - np.arange(20_000) / 20_000).max() < 1.95 / sqrt(20_000)  # Kolmogorov-Smirnov, p = 0.001


def test_refitting_zero_sum_blocks_as_the_paper_does_returns_the_parameters():
    z = (paper_law(parent="zero_sum").sample(rng(), (40_000, 4)) / 16e-3 - 1) / 0.02
    centred = z.max(axis=1) - z.mean(axis=1)
    pooled = sqrt(z.var(axis=1, ddof=1).mean())
    mu, sigma = stats.gumbel_r.fit(centred / pooled)
    assert mu == pytest.approx(0.7058, rel=0.02)
    assert sigma == pytest.approx(0.4085, rel=0.02)


@pytest.mark.parametrize("n", [1, 6, 4095])
def test_zero_sum_needs_whole_blocks(n):
    with pytest.raises(InputError, match=f"n must be a multiple of 4 .* got {n}"):
        paper_law(parent="zero_sum").expected_max(n)


@pytest.mark.parametrize("xi", [0.0, *(s * 10.0**-e for e in (300, 16, 12, 9, 6, 3) for s in (1, -1))])
def test_gev_quantile_near_shape_zero(xi):
    """LAW-01: 1e-13 against 50 digits, and monotone through 0; the textbook form is 100 % off at 1e-300."""
    for p in (1e-6, 0.3, 0.9, 1 - 1e-6):
        y = -np.log(p)
        with localcontext() as context:
            context.prec = 360
            log = Decimal(float(y)).ln()
            shape = Decimal(xi)
            exact = ((-shape * log).exp() - 1) / shape if xi else -log
        assert float(box_cox(-np.log(y), xi)) == pytest.approx(float(exact), rel=1e-13)
        assert float(inverse_box_cox(box_cox(-np.log(y), xi), xi)) == pytest.approx(-np.log(y), rel=1e-12)


def test_sampling_and_quantiles_are_continuous_through_shape_zero():
    shapes = [-1e-6, -1e-12, -1e-19, -1e-21, 0.0, 1e-300, 1e-21, 1e-19, 1e-12, 1e-6]
    draws = [block_maxima(**{**PAPER["gumbel"], "xi": xi}, parent="root").sample(rng(), 100) for xi in shapes]
    for xi, times in zip(shapes, draws, strict=True):
        assert times == pytest.approx(draws[4], rel=1e-12 + 100 * abs(xi))
    means = [gev_mean(0.7, 0.4, xi, 1024) for xi in (-1e-7, -1e-9, 0.0, 1e-9, 1e-7)]
    assert (np.diff(means) >= 0).all()
    assert np.array(means) == pytest.approx(means[2], rel=1e-5)


def test_bounded_law_never_exceeds_its_bound():
    law = block_maxima(**{**WEIBULL, "xi": -0.5, "mu": 0.7, "sigma": 0.4}, parent="root")
    bound = 16e-3 + 320e-6 * (0.7 + 0.4 / 0.5)
    assert law.sample(rng(), 1_000_000).max() <= bound * (1 + 1e-15)


def test_moments_that_do_not_exist_are_infinite():
    assert block_maxima(**{**PAPER["frechet"], "xi": 0.6, "cv": 1e-4}, parent="root").var == inf


def test_laws_say_where_standard_errors_are_no_guide():
    assert "infinite variance" in block_maxima(**{**PAPER["frechet"], "xi": 0.6, "cv": 1e-4}, parent="root").note
    assert "rare draws" in LogNormal(mean=1.0, cv=11).note
    for law in (paper_law(), paper_law("frechet", "root"), LogNormal(mean=1.0, cv=1.0), Deterministic(mean=1.0)):
        assert law.note == ""


@pytest.mark.parametrize("cv", [0.3, 10.0, 1000.0])
@pytest.mark.parametrize("n", [1, 8, 2**24])
def test_lognormal_maxima_up_to_the_largest_spread(cv, n):
    z = np.linspace(-40.0, 40.0, 400_001)
    shape = np.sqrt(np.log1p(cv**2))
    density = np.exp(np.log(n) + shape * z - shape**2 / 2 + stats.norm.logpdf(z) + (n - 1) * stats.norm.logcdf(z))
    assert LogNormal(mean=1.0, cv=cv).expected_max(n) == pytest.approx(np.trapezoid(density, z), rel=1e-10)


@pytest.mark.parametrize("cv", [0.0, -0.0, 1e-300])
def test_a_law_without_spread_is_the_deterministic_law(cv):
    law = paper_law(cv=cv)
    assert law.sample(rng(), (10, 8)) == pytest.approx(16e-3, rel=1e-12)
    assert law.expected_max(512) == pytest.approx(16e-3, rel=1e-12)


# --- textbook and measured laws ---


def test_normal_order_statistics():
    """E[max of n] of a standard normal: 1/sqrt(pi), 3/(2 sqrt(pi)), and tables (n = 10: 1.53875, n = 100: 2.50759)."""
    law = Normal(mean=1.0, cv=0.1)
    for n, expected in ((2, 1 / sqrt(pi)), (3, 1.5 / sqrt(pi)), (10, 1.5387527), (100, 2.5075936)):
        assert law.wait(n) == pytest.approx(0.1 * expected, rel=1e-6)


def test_lognormal_is_scipys():
    law = LogNormal(mean=2.0, cv=0.3)
    peer = stats.lognorm(s=np.sqrt(np.log1p(0.09)), scale=2.0 / np.sqrt(1.09))
    assert peer.mean() == pytest.approx(2.0)
    assert law.ppf(np.array([0.01, 0.5, 0.999])) == pytest.approx(peer.ppf([0.01, 0.5, 0.999]), rel=1e-10)
    assert law.cdf(np.array([-1.0, 0.0, 1.0, 3.0])) == pytest.approx(peer.cdf([-1.0, 0.0, 1.0, 3.0]), rel=1e-10)


def test_normal_refuses_negative_times():
    with pytest.raises(InputError, match="cv must be smaller"):
        Normal(mean=1.0, cv=0.5)


def test_measured_steps_give_the_measured_tax():
    """Compute in, tax out: the mean spread of 27.5 ms, mean block 4.5214 s; rank 2 slowest in 49 of 49 steps."""
    law = empirical(**MEASURED)
    assert isinstance(law, EmpiricalBlocks)
    assert law.steps.shape == (49, 4)
    assert law.mean == pytest.approx(4.521401734693877, rel=1e-12)
    assert np.ptp(law.steps, axis=1).mean() == pytest.approx(27.538979591836734e-3, rel=1e-9)
    times = law.sample(rng(), (1000, 8))
    assert set(times.reshape(-1, 4).argmax(axis=1)) == {2}
    assert law.wait(4) == pytest.approx((law.steps.max(axis=1) - law.steps.mean(axis=1)).mean(), rel=1e-9)
