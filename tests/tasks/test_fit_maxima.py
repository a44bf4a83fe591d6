"""From measured blocks to a law of their maxima: reference sets, known parameters, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import FitLaw, TraceReport
from simulator.checks import InputError
from simulator.laws import Law, LogNormal, Normal, dependent
from simulator.statistics import fit_gev, fit_gumbel, instance_centred
from simulator.statistics.bootstrap import cluster_bootstrap
from simulator.statistics.components import components, effective
from simulator.statistics.resample import Quantity
from simulator.statistics.sample import Family
from simulator.tasks.fit.maxima.fitted import MaximaFit
from simulator.tasks.fit.maxima.sample import Blocks, Sample, sample_of
from simulator.tasks.fit.maxima.yaml import law_yaml
from simulator.tasks.simulate import export
from simulator.traces.summary import Summary, summarise
from simulator.workload.training import TensorParallel
from tests.conftest import built, paper_job, paper_law
from tests.recorded import analyse, byte_dance, reference, stragglar, summary_of

NORMAL = Normal(mean=16e-3, cv=0.02)


def task(**settings: Any) -> FitLaw:
    return FitLaw(
        name="fit", report=TraceReport(name="report", traces=[]), **{"replicates": 200, "family": "gumbel", **settings}
    )


def fitted(summary: Summary, **settings: Any) -> MaximaFit:
    found = task(**settings).fit(summary, "a test")
    assert isinstance(found, MaximaFit)
    return found


def drawn(law: Law, steps: int = 250, n: int = 8, seed: int = 0) -> Summary:
    """The summary of a job whose ranks follow a law."""
    return summary_of(law.sample(np.random.default_rng(seed), (steps, n)))


# Reference sets


def test_stragglar_is_its_reference() -> None:
    whole = reference("stragglar_reference.json")
    found = fitted(summarise(stragglar()))
    assert found.fit.mu == pytest.approx(whole["max4_B"]["gumbel_loc"], rel=1e-6)
    assert found.fit.sigma == pytest.approx(whole["max4_B"]["gumbel_scale"], rel=1e-6)
    assert found.laws["gev"].fit == pytest.approx(
        (whole["max4_B"]["gev_loc"], whole["max4_B"]["gev_scale"], whole["max4_B"]["gev_xi"]), abs=2e-4
    )
    assert found.z.mean() == pytest.approx(whole["max4_B"]["mean"], rel=1e-9)
    assert found.sample.mean == pytest.approx(whole["compute_mean_us"] / 1e6)


def test_stragglar_has_a_persistent_straggler_that_repeats_as_measured() -> None:
    found = fitted(summarise(stragglar()))
    offsets = found.ranks()["offset"]
    assert offsets.tolist() == pytest.approx([-1.0, -0.55, 1.16, 0.40], abs=0.03)  # of the data's own analysis
    assert found.parts.rank_share == pytest.approx(0.94, abs=0.02)
    assert found.parts.memory == pytest.approx(0.76, abs=0.08)
    assert found.parts.p_rank < 1e-6
    assert found.proposal.law.name == "dependent normal"
    times = found.proposal.law.sample(np.random.default_rng(0), (49, 4))
    assert (times.argmax(axis=1) == 2).mean() > 0.8


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("block", "name"), [("forward", "forward-compute"), ("backward", "backward-compute")])
def test_byte_dance_maxima_are_their_reference(block: str, name: str) -> None:
    whole = reference("bytedance_ST_reference.json")["ST"]["ops"][name]
    blocks = [own for own in summarise(byte_dance()).blocks if own.block == block]
    times = np.concatenate([own.busy for own in blocks]) / 1e9
    assert times.var(axis=1, ddof=1).mean() ** 0.5 == pytest.approx(whole["pooled_sd_us"] / 1e6, rel=1e-6)
    z = instance_centred(times)
    assert fit_gumbel(z)[:2] == pytest.approx(
        (whole["max2_B"]["gumbel_loc"], whole["max2_B"]["gumbel_scale"]), rel=1e-5
    )
    # The reference's own search stopped earlier: ours is the likelier.
    assert fit_gev(z).xi == pytest.approx(whole["max2_B"]["gev_xi"], abs=0.02)


# Known parameters


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gumbel", "frechet"])
def test_parameters_come_back_from_zero_sum_blocks(name: str) -> None:
    law = paper_law(name, parent="zero_sum")
    family: Family = "gumbel" if name == "gumbel" else "gev"
    names: tuple[Quantity, ...] = ("mu", "sigma") if name == "gumbel" else ("mu", "sigma", "xi")
    off = []
    for seed in range(20):
        sample = task(split="consecutive").recipe.sample(drawn(law, 1000, seed=seed))  # 2,000 maxima
        found = cluster_bootstrap(sample.rows, sample.iterations, family, "instance", 200)
        for parameter in names:
            low, high = found.interval(parameter, level=0.6827)
            off.append((found.estimate(parameter) - getattr(law, parameter)) / ((high - low) / 2))
    errors = np.array(off).reshape(20, -1)
    assert (np.abs(errors.mean(axis=0)) < 2).all()  # in standard errors
    assert (errors.std(axis=0) < 1.6).all()


@pytest.mark.slow
def test_parameters_come_back_from_exported_traces(tmp_path: Path) -> None:
    law = paper_law(parent="zero_sum")
    job = paper_job(compute=law, workload=TensorParallel(layers=50, bytes=2**28), iterations=2, seed=0)
    export.write(job, tmp_path, 2)
    found = fitted(summarise(analyse(tmp_path / "traces")), split="consecutive", level=0.99, sizes=[512])
    assert len(found.z) == 2 * (2 * 50 * 4 - 1)
    rows = found.parameters.set_index(["family", "parameter"])
    for family, name, truth in (("gumbel", "mu", 0.7058), ("gumbel", "sigma", 0.4085), ("any", "cv", 0.02)):
        assert rows.loc[(family, name), "low"] < truth < rows.loc[(family, name), "high"]
    assert rows.loc[("any", "mean"), "estimate"] == pytest.approx(16e-3, rel=1e-3)
    taxes = found.taxes.set_index("n")
    assert taxes["tau_paper_low"][512] < 935.6e-6 < taxes["tau_paper_high"][512]
    assert taxes["tau_paper_low"][8] < taxes["measured"][8] < taxes["tau_paper_high"][8]


@pytest.mark.slow
def test_independent_ranks_give_their_law_back() -> None:
    found = fitted(drawn(paper_law(), 500), centring="block")
    law = found.proposal.law
    assert found.proposal.dependence == {}
    assert law.name == "gumbel"
    assert law.mean == pytest.approx(16e-3, rel=1e-3)
    assert law.sd == pytest.approx(320e-6, rel=0.03)
    assert law.wait(8) == pytest.approx(paper_law().wait(8), rel=0.15)  # the estimator is biased at m = 4
    assert [warning for warning in found.warnings() if "alike" in warning or "follow" in warning] == []


@pytest.mark.sampled(14)
@pytest.mark.parametrize(("parts", "names"), [
    ({"common": 0.5}, {"common"}),
    ({"rank": 0.2}, {"offsets"}),
    ({"memory": 0.6}, {"memory"}),
    ({"node": 0.4, "ranks_per_node": 4}, {"node", "ranks_per_node"}),
    ({"spreads": [1.0] * 7 + [2.5]}, {"spreads"}),
])  # fmt: skip
@pytest.mark.parametrize("base", [paper_law(), NORMAL], ids=lambda law: law.name)
def test_a_dependence_is_found_and_nothing_else(base: Law, parts: dict[str, Any], names: set[str]) -> None:
    law = dependent(law=base, **parts)
    proposal = fitted(drawn(law, 600, seed=5), ranks_per_node=4).proposal
    # Offsets under a law of maxima that is itself estimated make ranks vary a little unalike.
    assert set(proposal.dependence) - ({"spreads"} if "offsets" in names else set()) == names
    for name in names & {"common", "memory", "node"}:
        assert proposal.dependence[name] == pytest.approx(parts[name], abs=0.08)
    assert proposal.law.wait(8) == pytest.approx(law.wait(8), rel=0.12)


@pytest.mark.slow
def test_a_persistent_rank_makes_the_law_normal_about_each() -> None:
    law = dependent(law=paper_law(), offsets=[-0.4, -0.3, -0.3, -0.2, -0.3, -0.2, -0.3, 2.0])
    found = fitted(drawn(law, 200))
    assert found.proposal.law.name == "dependent normal"
    assert "one rank's times and no extremes" in " ".join(found.warnings())
    assert np.argmax(found.proposal.dependence["offsets"]) == 7


def test_times_that_vary_widely_are_lognormal() -> None:
    law = LogNormal(mean=1e-3, cv=0.6)
    found = fitted(drawn(law, 300), parent="spliced").proposal
    assert found.law.name == "lognormal"
    assert found.law.mean == pytest.approx(1e-3, rel=0.05)
    assert "block maxima of this shape make no" in " ".join(found.reasons)


@pytest.mark.slow
def test_extrapolated_tax_is_tau() -> None:
    found = fitted(drawn(paper_law(parent="zero_sum"), 1000), split="consecutive", sizes=[8, 4096])
    taxes = found.taxes.set_index("n")
    for n, tau in ((8, 391.9e-6), (4096, 1207.4e-6)):  # the design's table of the paper's law
        assert taxes.loc[n, "tau_paper_low"] < tau < taxes.loc[n, "tau_paper_high"]
        mu, sigma, _ = found.fit
        own = found.sample.mean * found.sample.cv * (mu + sigma * (np.log(n / 4) + np.euler_gamma))
        assert taxes.loc[n, "tau_paper"] == pytest.approx(own, rel=1e-6)


@pytest.mark.slow
def test_few_maxima_say_how_many_would_do() -> None:
    found = fitted(drawn(paper_law(parent="zero_sum"), 12), split="consecutive")
    said = " ".join(found.warnings())
    assert "24 maxima leave tau(4096) uncertain by more than 10.0 %: about" in said
    assert "maxima are few" in said
    enough = fitted(drawn(paper_law(parent="zero_sum"), 2000), split="consecutive")
    assert "uncertain" not in " ".join(enough.warnings())


# Variance components


def test_components_by_hand() -> None:
    # Rows 1,3 / 2,4 / 3,8: rank means 2 and 5, block means 2, 3, 5.5, mean 3.5; own noise ±.5, ±.5, ∓1.
    found = components([[1.0, 3.0], [2.0, 4.0], [3.0, 8.0]])
    assert found.offsets == pytest.approx((-1.5, 1.5))
    assert found.own == pytest.approx(2 * (0.25 + 0.25 + 1) / (2 * 1))
    assert found.rank == pytest.approx(2 * 1.5**2 - found.own / 3)
    assert found.common == pytest.approx((1.5**2 + 0.5**2 + 2**2) / 2 - found.own / 2)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [
    {"common": 0.3}, {"memory": 0.7}, {"node": 0.3, "common": 0.2, "ranks_per_node": 4},
    {"offsets": [-0.5, 0.5] * 4}, {"common": 0.2, "rank": 0.3, "memory": 0.6}, {"rank": 1e-9},
])  # fmt: skip
def test_components_are_unbiased_and_their_tests_keep_their_level(parts: dict[str, Any]) -> None:
    law = dependent(law=Normal(mean=1.0, cv=0.1), **parts)
    found = [components(law.sample(np.random.default_rng(i), (200, 8)), 4) for i in range(200)]
    offsets = parts.get("offsets", [0.0])
    true = {"common": parts.get("common", 0.0), "node": parts.get("node", 0.0),
            "rank": parts.get("rank", 0.0) + np.square(offsets).sum() / max(1, len(offsets) - 1)}  # fmt: skip
    for name, value in true.items():
        estimates = np.array([getattr(own, name) for own in found]) * 100
        assert estimates.mean() == pytest.approx(value, abs=0.03)
        if value > 0.1:
            assert np.mean([getattr(own, f"p_{name}") < 0.01 for own in found]) > 0.9
        elif not parts.get("memory"):
            assert np.mean([getattr(own, f"p_{name}") < 0.01 for own in found]) < 0.05
    assert np.mean([own.memory for own in found]) == pytest.approx(parts.get("memory", 0.0), abs=0.02)


@pytest.mark.slow
def test_what_a_node_shares_does_not_hide_memory() -> None:
    law = dependent(law=Normal(mean=1.0, cv=0.1), node=0.4, memory=0.8, ranks_per_node=4)
    found = [components(law.sample(np.random.default_rng(i), (200, 8)), 4) for i in range(150)]
    assert np.mean([own.memory for own in found]) == pytest.approx(0.8, abs=0.02)
    assert np.mean([own.p_rank < 0.01 for own in found]) < 0.05


@pytest.mark.slow
def test_memory_of_either_sign_is_not_taken_for_a_common_part() -> None:
    for memory in (-0.7, 0.7):
        law = dependent(law=Normal(mean=1.0, cv=0.1), memory=memory)
        found = [components(law.sample(np.random.default_rng(i), (100, 4))) for i in range(300)]
        assert np.mean([own.p_common < 0.01 for own in found]) < 0.04


@pytest.mark.slow
def test_ranks_that_cancel_are_told() -> None:
    law = paper_law(parent="zero_sum")
    said = " ".join(fitted(drawn(law, 100)).warnings())
    assert "cancel more than independent ranks' would: parent=zero_sum takes them so" in said
    assert fitted(drawn(law, 100), parent="zero_sum").sample.strided is False
    assert "cancel" not in " ".join(fitted(drawn(law, 100), parent="zero_sum").warnings())


def test_memory_makes_fewer_independent_blocks() -> None:
    assert effective(300, 0.5) == pytest.approx(100)
    assert effective(4, 0.9) == 2


# Samples


def sample(times: Any, **settings: Any) -> Sample:
    x = np.asarray(times, dtype=float)
    blocks = Blocks("compute", x, np.arange(len(x)), 0)
    return Sample(**{"kinds": [blocks], "ranks": None, "m": 4, "strided": True, "by_instance": True, "relative": False,
                     **settings})  # fmt: skip


def test_odd_and_even_ranks_are_the_papers_split() -> None:
    times = np.arange(16.0).reshape(2, 8)
    assert sample(times).split(times).tolist() == [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]
    assert sample(times, strided=False).split(times)[0].tolist() == [0, 1, 2, 3]


def test_cv_is_pooled_within_maxima() -> None:
    times = np.random.default_rng(0).normal(10, 1, (50, 8)) + np.arange(50)[:, None]
    pooled = sample(times).split(times).var(axis=1, ddof=1).mean() ** 0.5
    assert sample(times).cv == pytest.approx(pooled / times.mean())
    assert sample(times, by_instance=False).cv == pytest.approx(times.std(ddof=1) / times.mean())


def test_rows_have_the_z_of_their_kinds() -> None:
    rng = np.random.default_rng(0)
    kinds = [
        Blocks(str(i), rng.normal(10.0**i, 10.0 ** (i - 2) * (1 + i), (200, 8)), np.arange(200), 0) for i in range(3)
    ]
    both = sample([[1.0]], kinds=kinds)
    assert instance_centred(both.rows) == pytest.approx(both.z(), rel=1e-9)
    assert both.iterations.tolist() == np.repeat(np.tile(np.arange(200), 3), 2).tolist()


@pytest.mark.slow
def test_kinds_by_their_place_in_an_iteration() -> None:
    times = np.tile([1.0, 5.0], 30)[:, None] * np.random.default_rng(0).normal(1, 0.01, (60, 4))
    settings: dict[str, Any] = {"measure": "busy", "group": None, "block": None, "m": None, "strided": True,
                                "by_instance": True, "relative": False}  # fmt: skip
    found = sample_of(summary_of(times), per_iteration=2, **settings)
    assert [kind.mean for kind in found.kinds] == pytest.approx([1, 5], rel=0.01)
    assert found.cv == pytest.approx(0.01, rel=0.2)
    mixed = sample_of(summary_of(times), per_iteration=1, **settings)
    assert mixed.kinds[0].unevenness > 0.5
    said = " ".join(fitted(summary_of(times)).warnings())
    assert "blocks 'compute' are of different lengths" in said


def test_the_tax_of_unlike_kinds_is_the_mean_of_theirs() -> None:
    """Kinds of 55 and 130 % that follow one law of z: a root mean square of their spreads would be 45 % too large."""
    rng = np.random.default_rng(0)
    z = rng.gumbel(size=(2, 4000, 4))
    kinds = [Blocks("long", 100 + 0.55 * z[0], np.arange(4000), 0), Blocks("short", 1 + 1.3 * z[1], np.arange(4000), 0)]
    both = sample([[1.0]], kinds=kinds)
    each = [sample([[1.0]], kinds=[kind]) for kind in kinds]
    assert both.tax == pytest.approx(np.mean([own.tax for own in each]))
    told = both.mean * both.cv * both.uneven * both.z().mean()
    assert told == pytest.approx(np.mean([own.mean * own.cv * own.z().mean() for own in each]), rel=0.01)


@pytest.mark.slow
def test_empty_blocks_are_left_out_and_counted() -> None:
    times = NORMAL.sample(np.random.default_rng(0), (40, 4))
    times[3, 1] = 0.0
    found = fitted(summary_of(times))
    assert found.sample.instances == 39
    assert "1 of 40 blocks 'compute' are empty on some rank and left out" in list(found.warnings())


@pytest.mark.parametrize(("ranks", "m"), [(4, 4), (8, 4), (6, 6), (2, 2), (10, 5), (12, 4), (7, 7)])
def test_m_is_four_or_the_next_divisor(ranks: int, m: int) -> None:
    assert task(sizes=()).recipe.sample(drawn(NORMAL, 20, ranks)).m == m


# Units and the written law


@pytest.mark.parametrize("unit", [1e-1, 1e3])
def test_a_fit_scales_with_the_unit(unit: float) -> None:
    times = paper_law().sample(np.random.default_rng(0), (100, 8))
    one, other = fitted(summary_of(times)), fitted(summary_of(times * unit))
    assert tuple(other.laws["gev"].fit) == pytest.approx(tuple(one.laws["gev"].fit), abs=1e-4)  # whole nanoseconds
    assert other.sample.mean == pytest.approx(one.sample.mean * unit, rel=1e-6)


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize("law", [
    paper_law(), dependent(law=NORMAL, common=0.3, memory=0.6), dependent(law=paper_law(), offsets=[-0.5, 0.5] * 4),
    LogNormal(mean=1e-3, cv=0.6), dependent(law=NORMAL, node=0.5, ranks_per_node=4),
], ids=lambda law: law.name)  # fmt: skip
def test_the_written_law_is_the_proposed_one(law: Law, tmp_path: Path) -> None:
    found = fitted(drawn(law, 400), ranks_per_node=4)
    (tmp_path / "compute").mkdir()
    text = law_yaml(found)
    (tmp_path / "compute" / "fitted.yaml").write_text(text)
    experiment = built(tmp_path, "compute=fitted", "n=8")
    assert experiment.compute == found.proposal.law
    if found.proposal.dependence:  # as a note of the fit proposes for other n
        anew = [
            "compute.offsets=null",
            "compute.spreads=null",
            "compute.rank=0.3",
            "compute.common=0",
            "compute.node=0",
        ]
        assert built(tmp_path, "compute=fitted", "n=64", *anew).compute.dependence.rank == 0.3
    assert all("# " in line for line in text.splitlines() if ":" in line and not line.strip().startswith(("_", "law")))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_fit() -> None:
    summary = drawn(paper_law(), 60)
    one, other = fitted(summary), fitted(summary)
    assert one.parameters.equals(other.parameters)
    assert one.taxes.equals(other.taxes)
    assert not one.taxes.equals(fitted(summary, seed=1).taxes)


def test_everything_is_left_in_the_folder(tmp_path: Path) -> None:
    from simulator.traces.summary import write_summary

    write_summary(drawn(paper_law(), 60), tmp_path / "s.json")
    out = tmp_path / "out"
    out.mkdir()
    outcome = replace(task(), summary=str(tmp_path / "s.json")).execute(out)
    assert {path.name for path in out.iterdir()} == {
        "summary.csv", "parameters.csv", "tau.csv", "tests.csv", "ranks.csv", "fit.png", "fit.svg", "compute"
    }  # fmt: skip
    assert "gumbel law from s.json" in outcome.text
    assert max(map(len, outcome.text.splitlines())) <= 140


# Refusals


@pytest.mark.parametrize(("times", "settings", "sentence"), [
    (np.ones((40, 4)), {}, "blocks 'compute' must have times that vary between ranks"),
    (np.repeat(np.arange(1.0, 41)[:, None], 4, 1), {}, "blocks 'compute' must have times that vary between ranks"),
    (np.random.default_rng(0).random((9, 4)), {}, "blocks must give at least 10 maxima of m = 4 ranks, of 8"),
    (np.random.default_rng(0).random((7, 8)), {}, "blocks must give at least 10 maxima of m = 4 ranks, of 8"),
    (np.random.default_rng(0).random((40, 1)), {}, "blocks must be on at least 2 ranks; these are on 1"),
    (np.random.default_rng(0).random((40, 6)), {"m": 4}, "m must be at least 2 and divide the 6 ranks of a block"),
    (np.random.default_rng(0).random((40, 8)), {"sizes": [2]}, "sizes must be at least m = 4"),
    (np.random.default_rng(0).random((40, 4)), {"group": "x"}, "group must be one of group 0; got 'x'"),
    (np.random.default_rng(0).random((40, 4)), {"block": "comput"}, "block must be one of compute; got 'comput' (did"),
    (np.zeros((40, 4)), {}, "measure busy leaves no block"),
    (np.random.default_rng(0).random((40, 4)), {"blocks_per_iteration": 41}, "blocks_per_iteration must be at most"),
    (np.random.default_rng(0).random((40, 4)), {"ranks_per_node": 3}, "ranks_per_node must be at least 2 and"),
    (np.random.default_rng(0).random((40, 4)), {"level": 0.4}, "level must be a finite number, at least 0.5, below 1"),
    (np.random.default_rng(0).random((40, 4)), {"level": 0.999}, "replicates must be at least 2000 for level 0.999"),
    (np.random.default_rng(0).random((40, 4)), {"sizes": [2**25]}, "sizes[0] must be a whole number"),
    (np.random.default_rng(0).random((40, 4)), {"law_name": "a" * 101}, "law_name must be up to 100 letters"),
    (np.array([[1.0, 1.0, 1.0, 2.0]] * 40), {"family": "gev"}, "z must have"),
])  # fmt: skip
def test_what_cannot_be_fitted_is_one_sentence(times: Any, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        fitted(summary_of(times), **settings)
    assert str(error.value).startswith(sentence)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[], [8, 8], [4]])
def test_any_sizes_make_a_picture_and_a_table(sizes: list[int], tmp_path: Path) -> None:
    from simulator.traces.summary import write_summary

    write_summary(drawn(paper_law(), 60, 4), tmp_path / "s.json")
    out = tmp_path / "out"
    out.mkdir()
    assert "n = 4 " in replace(task(sizes=sizes), summary=str(tmp_path / "s.json")).execute(out).text


def test_ties_refuse_a_gev_and_keep_a_gumbel() -> None:
    times = np.round(NORMAL.sample(np.random.default_rng(0), (200, 4)), 3)  # to the millisecond: about one value
    times[:, 0] += np.tile([0.001, 0.002], 100)
    found = fitted(summary_of(times))
    assert list(found.laws) == ["gumbel"]
    assert "there is no GEV fit: z must have" in " ".join(found.warnings())
    with pytest.raises(InputError, match="family must be gumbel, since there is no GEV fit"):
        fitted(summary_of(times), family="gev")


def test_groups_of_different_sizes_are_told_to_choose() -> None:
    one, other = drawn(NORMAL, 20, 4), drawn(NORMAL, 20, 8)
    other.blocks[0].group = "group 1"
    one.blocks.append(other.blocks[0])
    with pytest.raises(
        InputError,
        match=r"^group must be one or a list of those with .* of 4 ranks: group 0; of 8",
    ):
        fitted(one)
    assert fitted(one, group="group 1").sample.n == 8
    third = drawn(NORMAL, 20, 4, seed=1).blocks[0]
    third.group = "group 2"
    one.blocks.append(third)
    both = fitted(one, group=["group 0", "group 2"]).sample
    assert (both.n, both.instances, both.ranks) == (4, 40, None)


def test_groups_are_pooled_without_taking_them_for_one_chain_of_ranks() -> None:
    law = dependent(law=NORMAL, rank=0.3)
    one, other = drawn(law, 100, 4, seed=1), drawn(law, 100, 4, seed=2)
    other.blocks[0].group = "group 1"
    one.blocks.append(other.blocks[0])
    both = fitted(one)
    each = [fitted(one, group=f"group {i}").parts for i in (0, 1)]
    assert both.parts.rank_share == pytest.approx(np.mean([own.rank_share for own in each]), abs=0.02)
    assert both.parts.p_memory > 0.01
    assert set(both.proposal.dependence) == {"rank"}
    assert both.ranks()["offset"].isna().all()


@pytest.mark.parametrize("noise", [1e-3, 1e-7])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_groups_of_nearly_identical_blocks_have_a_law_of_ranks_that_differ(ranks: int, noise: float) -> None:
    """Ranks differ by 1 % and hardly vary: another rank is drawn with the variance between ranks (ddof 1)."""
    groups = []
    for group in range(4):
        rng = np.random.default_rng(group)
        times = 16e-3 * (1 + 0.01 * rng.normal(size=ranks) + noise * rng.normal(size=(20, ranks)))
        groups.append(summary_of(times))
        groups[-1].blocks[0].group = f"group {group}"
    groups[0].blocks += [own.blocks[0] for own in groups[1:]]
    found = fitted(groups[0]).proposal
    times = np.array([np.mean(own.blocks[0].busy, axis=0) for own in groups]) / 1e9
    assert 0.8 < found.dependence["rank"] < 1
    assert found.law.sd == pytest.approx(np.sqrt(times.var(axis=1, ddof=1).mean()), rel=0.05)


@pytest.mark.slow
def test_a_law_that_is_far_from_the_blocks_is_told() -> None:
    times = NORMAL.sample(np.random.default_rng(0), (100, 8))
    times[:, 3] *= 1 + np.random.default_rng(1).pareto(1.5, 100)  # one rank with a tail of its own
    said = " ".join(fitted(summary_of(times)).warnings())
    assert "it does not describe them" in said
    good = fitted(drawn(paper_law(parent="zero_sum"), 400), parent="zero_sum")
    assert "it does not describe them" not in " ".join(good.warnings())


def test_waiting_that_may_count_as_compute_is_told() -> None:
    summary = drawn(NORMAL, 100)
    assert "may be collectives" not in " ".join(fitted(summary).warnings())
    summary.collectives[0].reason = "4 of 8 ranks; other kernels may be collectives, too"
    assert "other kernels may be collectives, too: what ranks wait in them" in " ".join(fitted(summary).warnings())


@pytest.mark.slow
def test_one_straggler_of_many_ranks_has_a_law() -> None:
    law = dependent(law=NORMAL, offsets=[11.0 * (i == 5) for i in range(128)])
    found = fitted(drawn(law, 60, 128), m=4)
    assert np.argmax(found.proposal.dependence["offsets"]) == 5
    assert found.proposal.law.wait(128) == pytest.approx(found.sample.tax, rel=0.05)


def test_a_rank_that_never_varies_has_a_law() -> None:
    times = NORMAL.sample(np.random.default_rng(1), (300, 8))
    times[:, 3] = NORMAL.mean
    found = fitted(summary_of(times))
    drawn_again = found.proposal.law.sample(np.random.default_rng(2), (300, 8))
    assert drawn_again[:, 3].std() < 0.01 * drawn_again[:, 4].std()


@pytest.mark.parametrize("settings", [{}, {"traces": "a", "summary": "b"}])
def test_one_source_must_be_given(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^traces \(a folder\) or summary \(a trace_summary.json\) must be given"):
        replace(task(), **settings).execute(tmp_path)


@pytest.mark.parametrize("share", [1e-9, 1e-20])
def test_what_ranks_share_is_never_rounded_to_all(share: float) -> None:
    """Steps of 1000 s and ranks that differ by little: their own part of the variance stays, or is said to be lost."""
    rng = np.random.default_rng(0)
    scale = np.sqrt(share) * 100  # seconds
    times = 1000 + 100 * rng.standard_normal((200, 1)) + scale * rng.standard_normal((200, 8))
    if share < 1e-12:
        with pytest.raises(InputError, match=r"^blocks must have ranks that differ"):
            fitted(summary_of(times))
        return
    law = fitted(summary_of(times)).proposal.law
    drawn = law.sample(np.random.default_rng(1), (400, 8))
    assert drawn.std(axis=1, ddof=1).mean() == pytest.approx(scale, rel=0.1)
