"""What the model stands on: compute scaling, sensitivity and estimator bias, at reduced size, each against a table of
values worked out here."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import log
from pathlib import Path

import pandas as pd
import pytest

from simulator.checks import InputError
from tests.conftest import study

# The paper's numbers (seconds, bytes, bytes/s), typed here a second time.
A, SD, ALPHA, SIZE, LINK = 16e-3, 320e-6, 5e-6, 2**28, 450e9
QUICK = ["iterations=2", "relative_error=0.02"]


def tau(n: int) -> float:
    return SD * (0.7058 + 0.4085 * (log(n / 4) + 0.5772156649))


# Compute scaling


def expected_bandwidth(definition: str, taxed: bool, n: int, f: float) -> float:
    """B* written out: (1/|eps| - 1) times the volume over what does not shrink with bandwidth."""
    volume, today = 2 * (n - 1) / n * SIZE, 2 * 7 / 8 * SIZE / LINK
    if definition == "share":
        return volume / ((2 * ALPHA + volume / LINK) / f - 2 * ALPHA)
    block = A if definition.startswith("iteration") else 0.0
    tax_today = {"with_tax": 1.0, "without": 0.0, "own": float(taxed)}.get(definition.partition("_")[2], 0.0) * tau(8)
    factor = 1.0 if definition == "communication_fixed" else (2 * ALPHA + tax_today + block) / today
    return factor * volume / (2 * ALPHA + (tau(n) * taxed + block) / f)


@pytest.fixture(scope="module")
def scaled() -> pd.DataFrame:
    findings = study("flops_scaling", *QUICK, "factors=[1,32]").find()
    assert [claim.verdict for claim in findings.claims] == ["no reference"] * 7
    assert {claim.reported for claim in findings.claims} == {11.7}
    return findings.tables["flops_scaling"].set_index(["definition", "n", "factor"])


@pytest.mark.slow
def test_bandwidth_as_compute_scales(scaled: pd.DataFrame) -> None:
    assert len(scaled) == 7 * 2 * 2
    for point, row in scaled.iterrows():
        assert row["bandwidth_optimal"] == pytest.approx(expected_bandwidth(point[0], True, *point[1:]), rel=1e-9)
        assert row["bandwidth_optimal_hockney"] == pytest.approx(
            expected_bandwidth(point[0], False, *point[1:]), rel=1e-9
        )
        assert row["bandwidth_optimal_simulated"] == pytest.approx(row["bandwidth_optimal"], rel=0.03)


@pytest.mark.slow
def test_bandwidth_today_is_the_papers(scaled: pd.DataFrame) -> None:
    assert scaled.loc[("communication_fixed", 256, 1), "bandwidth_optimal"] == pytest.approx(625.5e9, abs=5e7)
    assert scaled.loc[("communication_fixed", 4096, 1), "bandwidth_optimal"] == pytest.approx(440.9e9, abs=5e7)


def test_the_share_of_communication_is_kept(scaled: pd.DataFrame) -> None:
    for n, f in product((256, 4096), (1, 32)):
        row = scaled.loc[("share", n, f)]
        transfer = 2 * (n - 1) / n * SIZE / row["bandwidth_optimal"]
        time, before = 2 * ALPHA + tau(n) / f + transfer, 2 * ALPHA + tau(n) + 2 * (n - 1) / n * SIZE / LINK
        assert time * f == pytest.approx(before, rel=1e-9)
        assert row["elasticity"] == pytest.approx(-transfer / time, rel=1e-9)
        assert row["reduction"] == 0


@pytest.mark.slow
def test_no_bandwidth_keeps_the_share_where_latency_is_too_long() -> None:
    table = study("flops_scaling", *QUICK, "topology=ring", "factors=[1,4]").find().tables["flops_scaling"]
    row = table[(table["definition"] == "share") & (table["n"] == 4096) & (table["factor"] == 4)].iloc[0]
    assert row["bandwidth_optimal"] == row["bandwidth_optimal_hockney"] == float("inf")


# Sensitivity

# input: tax at both ends (us), B* at both ends (GB/s). From tables made apart from this code: 935.57 us and
# 566.7 GB/s at the base point, 845.0 us at n = 256, 1275.6 us and 417 GB/s for the Frechet law. The rest is proportion.
TORNADO = {
    "cv": (467.8, 2338.9, 1121.4, 228.1),
    "mu": (320 * 0.0042 + 935.57, 320 * 0.0942 + 935.57, 565.9, 549.2),
    "sigma": (320 * (0.7058 + 0.40 * 5.42925), 320 * (0.7058 + 0.49 * 5.42925), 575.7, 492.9),
    "xi": (935.57, 1275.6, 566.7, 416.8),
    "m": (935.57, 845.0, 566.7, 626.7),
    "alpha": (935.57, 935.57, 566.7 * 945.57 / 941.57, 566.7 * 945.57 / 955.57),
    "bytes": (935.57, 935.57, 566.7 / 4, 566.7 * 4),
}


@pytest.mark.slow
def test_tornado() -> None:
    findings = study("sensitivity", *QUICK).find()
    table = findings.tables["tornado"].set_index("input")
    assert set(table.index) == set(TORNADO)
    for name, (tax_low, tax_high, low, high) in TORNADO.items():
        row = table.loc[name]
        assert [row["tax_low"] * 1e6, row["tax_high"] * 1e6] == pytest.approx([tax_low, tax_high], rel=2e-4)
        assert [row["bandwidth_low"] / 1e9, row["bandwidth_high"] / 1e9] == pytest.approx([low, high], rel=3e-4)
    checks = findings.tables["checks"].set_index("point")
    assert checks["tau"].tolist() == pytest.approx([935.57e-6, 467.8e-6, 2338.9e-6], rel=1e-4)
    assert list(checks.index) == ["base", "cv low", "cv high"]
    assert (checks["wait_mean"] / checks["tau"]).tolist() == pytest.approx([1, 1, 1], rel=0.03)
    assert "the tax depends most on cv, B* on bytes" in findings.text


@pytest.mark.slow
def test_tornado_of_another_topology() -> None:
    table = study("sensitivity", *QUICK, "topology=torus3d").find().tables["tornado"].set_index("input")
    # 42 rounds instead of 2
    volume = 2 * 511 / 512 * SIZE
    assert table.loc["xi", "bandwidth_low"] == pytest.approx(volume / 1145.57e-6, rel=1e-5)
    assert table.loc["alpha", "bandwidth_high"] == pytest.approx(volume / 1355.57e-6, rel=1e-5)


# What all three leave, and what they refuse

FILES = {
    "flops_scaling": {"flops_scaling.csv", "flops_scaling.png", "flops_scaling.svg", "claims.csv"},
    "sensitivity": {"tornado.csv", "checks.csv", "tornado.png", "tornado.svg"},
    "plugin_bias": {"bias.csv", "fits.csv", "rmse.png", "rmse.svg"},
}
SMALL = {"plugin_bias": ["blocks=200", "iterations=2", "relative_error=1"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_same_bytes_on_every_run(name: str, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        outcome = study(name, *SMALL.get(name, QUICK)).execute(folder, lambda done, total: seen.append((done, total)))
        assert outcome.ok
        assert outcome.text.startswith(f"{name}: ")
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert set(first) == FILES[name]
    assert first == second
    assert all(done < total for done, total in seen)
    assert len(seen) >= 6


BAD = [
    ("flops_scaling", "sizes=[]", r"^sizes must have at least one entry; got none"),
    ("flops_scaling", "factors=[]", r"^factors must have at least one entry; got none"),
    ("flops_scaling", "factors=[0]", r"^factors\[0\] must be a finite number, above 0; got 0$"),
    ("flops_scaling", "target=-1", r"^target must be a finite number, above -1, below 0; got -1"),
    ("flops_scaling", "reference_n=1", r"^reference_n must be a whole number, at least 2; got 1"),
    ("flops_scaling", "flops=0", r"^flops must be"),
    ("flops_scaling", "workload=tp_dp_overlap", r"^workload"),
    ("sensitivity", "compute=normal", r"^compute must be a law of block maxima.* got normal"),
    ("sensitivity", "workload.scaling=strong", r"^workload must run blocks of the law as it is"),
    ("sensitivity", "n=2", r"^n must be a whole number, at least 4; got 2"),
    ("sensitivity", "inputs.cv.low.cv=-1", r"^inputs\.cv\.low\.cv must be a finite number, at least 0; got -1"),
    ("sensitivity", "inputs.xi.high.xi=1", r"^inputs\.xi\.high\.xi must be a finite number, below 1; got 1"),
    ("sensitivity", "inputs.m.high.m=1.5", r"^inputs\.m\.high\.m must be a whole number"),
    ("sensitivity", "inputs.m.high.m=1024", r"^inputs\.m\.high\.m must be a whole number.* at most 512"),
    ("sensitivity", "+inputs.cv.low.sigam=1", r"^inputs\.cv\.low must be one of .*did you mean sigma"),
    ("sensitivity", "inputs.cv.low=0.01", r"^inputs\.cv\.low must be a mapping from names to values; got 0\.01"),
    ("sensitivity", "~inputs.cv.high", r"^inputs\.cv must have the keys low and high"),
    ("plugin_bias", "sizes=[4]", r"^sizes must reach the 8 ranks of a block; got \[4\]"),
    ("plugin_bias", "block_sizes=[4,3]", r"^block_sizes\[1\] must divide the 8 ranks of a block; got 3"),
    ("plugin_bias", "ranks=2", r"^ranks must be a whole number, at least 3; got 2"),
    ("plugin_bias", "+laws.normal.sd=0", r"^laws\.normal\.sd must be a finite number, above 0; got 0"),
    ("plugin_bias", "laws.bounded.cv=0", r"^laws\.bounded must have a known standard deviation, above 0 and finite"),
    ("plugin_bias", "laws.bimodal.share=1", r"^laws\.bimodal\.share must be a finite number, above 0, below 1; got 1"),
    ("plugin_bias", "laws.block_scales.spread=-1", r"^laws\.block_scales\.spread must be .* at least 0; got -1"),
    ("plugin_bias", "laws.persistent_ranks.rank=1", r"^laws\.persistent_ranks\.rank must be .* below 1; got 1"),
    ("plugin_bias", "block_sizes=[1]", r"^block_sizes\[0\] must be a whole number, at least 2; got 1"),
    ("plugin_bias", "blocks=3", r"^blocks must be a whole number, at least 100; got 3"),
    ("plugin_bias", "iterations=1", r"^iterations must be a whole number, at least 2; got 1"),
    ("plugin_bias", "laws.normal.distribution=nrom", r"^laws\.normal\.distribution must be .* \(did you mean norm\?\)"),
    (
        "plugin_bias",
        "laws.student_t4.shapes=[2]",
        r"^laws\.student_t4\.shapes must be those of t .*finite mean and var",
    ),
    ("plugin_bias", "laws.student_t4.shapes=[1,2,3,4]", r"^laws\.student_t4\.shapes must be those of t"),
    ("plugin_bias", "laws.student_t4.shapes=4", r"^laws\.student_t4\.shapes must be a list of numbers; got 4$"),
]


@pytest.mark.sampled(15)
@pytest.mark.parametrize(("name", "override", "sentence"), BAD, ids=[f"{name}-{text}" for name, text, _ in BAD])
def test_bad_input_is_one_sentence(name: str, override: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        study(name, override)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "field"), [("sensitivity", "inputs"), ("plugin_bias", "laws")])
def test_nothing_to_do_is_one_sentence(name: str, field: str) -> None:
    with pytest.raises(InputError, match=f"^{field} must have at least one entry; got none"):
        replace(study(name), **{field: {}})


def test_an_end_that_no_rank_can_follow_is_said() -> None:
    with pytest.raises(
        InputError, match=r"^inputs: sigma high cannot be simulated: parent spliced has no per-rank law"
    ):
        study("sensitivity", *QUICK, "inputs.sigma.high.sigma=3").find()
