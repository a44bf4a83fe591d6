"""The paper's curves: each experiment at reduced size against formulas written out here, and the printed numbers."""

from __future__ import annotations

import csv
from math import cbrt, gamma, log
from pathlib import Path

import pandas as pd
import pytest

from simulator.checks import InputError
from simulator.network.collectives import Kind
from simulator.tasks.studies.base import Findings, Tax, carry
from tests.conftest import study
from topologies import Torus3D
from topologies.fractional_torus import FractionalTorus3D

# The paper's numbers (seconds, bytes, bytes/s), typed here a second time.
A, SD, ALPHA, SIZE, LINK, BARRIERS = 16e-3, 320e-6, 5e-6, 2**28, 450e9, 320
QUICK = ["iterations=5", "relative_error=0.02"]


def gumbel_tax(n: int) -> float:
    return SD * (0.7058 + 0.4085 * (log(n / 4) + 0.5772156649))


def frechet_tax(n: int) -> float:
    return SD * (0.67313 + 0.38128 * ((n / 4) ** 0.15 * gamma(0.85) - 1) / 0.15)


def rounds(topology: str, n: int) -> float:
    whole = {8: 6, 64: 18, 72: 20, 128: 26, 512: 42, 4096: 90}  # 2*(X + Y + Z - 3), sides by hand
    return {
        "ring": 2 * (n - 1), "nvswitch": 2, "torus3d": whole[n], "torus3d_fractional": 6 * (cbrt(n) - 1)
    }[topology]  # fmt: skip


def volume(n: int) -> float:
    return 2 * (n - 1) / n * SIZE


def best(topology: str, n: int, target: float, tax: float) -> float:
    return volume(n) * (1 + target) / (-target * (rounds(topology, n) * ALPHA + tax))


def near(table: pd.DataFrame, column: str, expected: list[float], law: float = 0.002) -> None:
    """Simulated values are within 3 standard errors of what is expected, and of how far a law may be from tau(n)."""
    off = (table[column] - expected).abs()
    assert (off <= 3 * table[f"{column}_se"] + law * table[column].abs()).all(), table.assign(expected=expected)
    assert (table[f"{column}_se"] > 0).all()


# Each experiment at reduced size


@pytest.mark.slow
def test_tax_against_size() -> None:
    table = study("tax_against_size", "sizes=[8,72,512]", *QUICK).find().tables["tax"]
    expected = [tax(n) for tax in (gumbel_tax, frechet_tax) for n in (8, 72, 512)]
    assert list(table["tau"]) == pytest.approx(expected, rel=1e-9)
    assert list(table["wait_model"]) == pytest.approx(expected, rel=2.5e-3)  # DESIGN: 0.15 % and 0.22 % at n = 8
    near(table, "wait_mean", expected)
    assert (table["wait_mean_se"] <= 0.02 * table["wait_mean"]).all()


@pytest.mark.slow
def test_iteration_time() -> None:
    sizes = [8, 64, 512]
    found = study("iteration_time", f"sizes={sizes}", *QUICK).find()
    table = found.tables["iteration_time"]
    assert len(table) == 2 * 3 * len(sizes)
    shrink = [8 / n if workload == "strong" else 1.0 for workload, n in zip(table["workload"], table["n"], strict=True)]
    compute = [BARRIERS * A * s for s in shrink]
    wait = [BARRIERS * gumbel_tax(n) * s for n, s in zip(table["n"], shrink, strict=True)]
    latency = [BARRIERS * ALPHA * rounds(t, n) for t, n in zip(table["topology"], table["n"], strict=True)]
    transfer = [BARRIERS * volume(n) / LINK for n in table["n"]]
    total = [sum(parts) for parts in zip(compute, wait, latency, transfer, strict=True)]
    assert list(table["latency"]) == pytest.approx(latency, rel=1e-9)
    assert list(table["transfer"]) == pytest.approx(transfer, rel=1e-9)
    assert list(table["compute"]) == pytest.approx(compute, rel=1e-3)
    assert list(table["iteration_time_model"]) == pytest.approx(total, rel=1e-4)
    near(table, "wait", wait)
    near(table, "iteration_time", total, law=1e-4)
    assert "n = 64 (ring), 512 (3D torus of whole sides), 512 (NVSwitch)" in found.pictures[0].title
    parts = table["compute"] + table["wait"] + table["latency"] + table["transfer"]
    assert list(parts) == pytest.approx(list(table["iteration_time"]), rel=1e-9)


@pytest.mark.slow
def test_iteration_time_of_each_topology_is_that_of_its_own_simulation() -> None:
    from simulator.simulation.runner import run

    built = study("iteration_time", "sizes=[8]", "iterations=8", "relative_error=1")
    table = built.find().tables["iteration_time"].set_index(["workload", "topology"])
    for (workload, topology), row in table.iterrows():
        job = built.job(
            n=8, topology=built.topologies[topology], compute=built.compute, workload=built.workloads[workload]
        )  # fmt: skip
        alone = run(job).summary["iteration_time"][0]
        assert row["iteration_time"] == pytest.approx(alone, rel=0, abs=BARRIERS * 2**-40)  # a tick each


def test_optimal_bandwidth_figure() -> None:
    sizes = [8, 72, 128]
    table = study("optimal_bandwidth_figure", f"sizes={sizes}", *QUICK).find().tables["optimal_bandwidth"]
    assert set(table["topology"]) == {"ring", "torus3d", "torus3d_fractional", "nvswitch"}
    points = list(zip(table["topology"], table["n"], table["elasticity"], strict=True))
    expected = [best(*point, gumbel_tax(point[1])) for point in points]
    assert list(table["bandwidth_optimal_tau"]) == pytest.approx(expected, rel=1e-9)
    assert list(table["bandwidth_optimal_hockney"]) == pytest.approx([best(*p, 0.0) for p in points], rel=1e-9)
    near(table, "bandwidth_optimal", expected)
    lower = [1 - best(*point, gumbel_tax(point[1])) / best(*point, 0.0) for point in points]
    near(table, "bandwidth_reduction", lower)


@pytest.mark.slow
def test_elasticity_against_bandwidth() -> None:
    sizes, links = [8, 4096], [450e9, 3600e9]
    built = study("elasticity_against_bandwidth", f"sizes={sizes}", "links=[450e9,3600e9]", *QUICK)
    table = built.find().tables["elasticity"]
    transfer = [volume(n) / link for n in sizes for link in links]
    floor = [2 * ALPHA + gumbel_tax(n) for n in sizes for _ in links]
    expected = [-t / (t + rest) for t, rest in zip(transfer, floor, strict=True)]
    hockney = [-t / (t + 2 * ALPHA) for t in transfer]
    assert list(table["elasticity_tau"]) == pytest.approx(expected, rel=1e-9)
    assert list(table["elasticity_hockney"]) == pytest.approx(hockney, rel=1e-9)
    near(table, "elasticity", expected)


# What the paper prints, at full tolerance


@pytest.fixture(scope="module")
def figure() -> Findings:
    return study("optimal_bandwidth_figure", "sizes=[8,128,512,4096]").find()


def printed() -> list[dict[str, str]]:
    with (Path(__file__).parents[1] / "data" / "paper_reported.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["kind"] == "result"]


@pytest.mark.slow
@pytest.mark.parametrize("row", printed(), ids=lambda row: row["id"])
def test_every_printed_result_is_met_by_formula_and_simulation(row: dict[str, str], figure: Findings) -> None:
    (claim,) = [claim for claim in figure.claims if claim.id == row["id"]]
    assert (claim.reported, claim.tolerance) == (float(row["reported"]), float(row["tolerance"]))
    assert claim.verdict == "yes"
    for value, slack in ((claim.closed_form, 0.0), (claim.simulated, 3 * claim.error)):
        low = 0.0 if claim.upper_bound else claim.reported - claim.tolerance - slack
        assert low <= value <= claim.reported + claim.tolerance + slack
    assert claim.error < 0.005 * claim.simulated


def test_only_claims_whose_points_were_run_are_made() -> None:
    claims = study("optimal_bandwidth_figure", "sizes=[8,128]", *QUICK).find().claims
    assert {claim.id for claim in claims} == {"ring_reduction_128", "fc_reduction_128"}


def test_another_link_breaks_the_claims_it_should() -> None:
    found = study("optimal_bandwidth_figure", "sizes=[128]", "machine.alpha=10e-6", *QUICK).find()
    assert [claim.verdict for claim in found.claims] == ["no", "no"]


# How errors are carried, files, progress, and what cannot be


def test_errors_are_carried_by_the_delta_method() -> None:
    one, other = Tax(2.0, 2.0, 2.0, 1e-4, 1), Tax(5.0, 5.0, 5.0, 3e-4, 1)
    value, error = carry(lambda x, y: x**2 / y, one, other)
    assert value == pytest.approx(0.8)
    assert error == pytest.approx(((4 / 5 * 1e-4) ** 2 + (4 / 25 * 3e-4) ** 2) ** 0.5, rel=1e-6)


REDUCED = {
    "tax_against_size": ["sizes=[8,64]", *QUICK],
    "iteration_time": ["sizes=[8,64]", *QUICK],
    "optimal_bandwidth_figure": ["sizes=[8,64]", *QUICK],
    "elasticity_against_bandwidth": ["sizes=[8,64]", *QUICK],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REDUCED)
def test_files_are_the_same_bytes_on_every_run(name: str, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    contents = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        outcome = study(name, *REDUCED[name]).execute(folder, lambda *step: steps.append(step))
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert contents[0] == contents[1]
    assert {Path(file).suffix for file in contents[0]} == {".csv", ".png", ".svg"}
    assert outcome.ok
    assert steps[: len(steps) // 2] == [(i, len(steps) // 2) for i in range(len(steps) // 2)]
    assert all(len(line) <= 100 for line in outcome.text.splitlines())


@pytest.mark.parametrize("name", REDUCED)
def test_the_experiment_is_documented_with_its_picture(name: str) -> None:
    folder = Path(__file__).parents[2] / "experiments" / name
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert f"python -m simulator +experiment={name}" in text
    assert [path.name for path in folder.glob("*.png") if f"({path.name})" in text]


BAD = [
    ("tax_against_size", "sizes=[]", r"^sizes must have at least one entry; got none"),
    ("tax_against_size", "sizes=8", r"^sizes must be a list of whole numbers; got 8"),
    ("tax_against_size", "sizes=[8,64,8]", r"^sizes must have each entry once; got \[8, 64, 8\]$"),
    ("tax_against_size", "sizes=[8,0]", r"^sizes\[1\] must be a whole number, at least 1; got 0"),
    ("tax_against_size", "sizes=[6] laws.gumbel.parent=zero_sum", r"^sizes must suit laws\.gumbel: n must be a mult"),
    ("iteration_time", "sizes=[]", r"^sizes must have at least one entry"),
    ("iteration_time", "sizes=[6] compute.parent=zero_sum", r"^sizes must suit compute: n must be a multiple of 4"),
    ("iteration_time", "topologies.torus3d.dims=[2,2,2]", r"^sizes must suit topologies\.torus3d: dims must multiply"),
    ("iteration_time", "workload@workloads.weak=llama3_3b_ddp", r"^workloads\.weak must be bulk-synchronous"),
    ("iteration_time", "relative_error=0", r"^relative_error must be a finite number, above 0; got 0"),
    ("optimal_bandwidth_figure", "sizes=[1]", r"^sizes\[0\] must be a whole number, at least 2; got 1"),
    ("optimal_bandwidth_figure", "sizes=[]", r"^sizes must have at least one entry"),
    ("optimal_bandwidth_figure", "targets=[]", r"^targets must have at least one entry; got none"),
    (
        "optimal_bandwidth_figure",
        "targets=[0.5]",
        r"^targets\[0\] must be a finite number, above -1, below 0; got 0\.5",
    ),
    ("elasticity_against_bandwidth", "links=[]", r"^links must have at least one entry; got none"),
    ("elasticity_against_bandwidth", "links=[0]", r"^links\[0\] must be a finite number, above 0; got 0"),
    ("elasticity_against_bandwidth", "highest=1e9", r"^highest must be a finite number, above 5e\+10"),
    ("elasticity_against_bandwidth", "topology=torus3d topology.dims=[2,2,2]", r"^sizes must suit topology: dims"),
    ("elasticity_against_bandwidth", "workload=tp_dp_overlap", r"^workload must be bulk-synchronous"),
]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("name", "overrides", "sentence"), BAD, ids=lambda value: value[:40])
def test_bad_input_is_one_sentence(name: str, overrides: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        study(name, *overrides.split())
    assert "\n" not in str(caught.value)


def test_fractional_sides_are_whole_on_cubes_and_never_worse() -> None:
    fractional, whole = (kind(alpha=ALPHA, bandwidth=LINK) for kind in (FractionalTorus3D, Torus3D))
    for n in (1, 8, 64, 512, 4096):
        ours, theirs = (t.cost(Kind.ALL_REDUCE, SIZE, n) for t in (fractional, whole))
        assert (ours.latency, ours.transfer) == pytest.approx((theirs.latency, theirs.transfer), rel=1e-12)
    for n in (4, 16, 32, 72, 128, 256, 1024, 2048):
        assert fractional.cost(Kind.ALL_REDUCE, SIZE, n).latency < whole.cost(Kind.ALL_REDUCE, SIZE, n).latency
        assert fractional.cost(Kind.ALL_REDUCE, SIZE, n).volume == pytest.approx(volume(n), rel=1e-12)
    assert (fractional.links(1), fractional.links(8)) == (0, 6)
