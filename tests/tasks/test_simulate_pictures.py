"""The pictures: the numbers they show, and that they are drawn, whatever the result and the user's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from math import log, sqrt
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from simulator import Result, empirical, run
from simulator.laws import Deterministic, Law, LogNormal
from simulator.tasks.simulate import pictures
from simulator.text import time_label
from simulator.workload.training import DataParallel, Operations, TensorParallel, Workload
from tests.conftest import paper_job, paper_law
from tests.process import PATIENCE

JOB = TensorParallel(layers=80, bytes=2**28)
PICTURES = ["tax_distribution.png", "tax_distribution.svg", "time_breakdown.png", "time_breakdown.svg"]


def simulate(n: int, law: Law, workload: Workload = JOB, iterations: int = 40, name: str = "test") -> Result:
    return run(paper_job(n=n, compute=law, workload=workload, iterations=iterations, name=name, seed=7))


def program(*operations: dict[str, object], **mesh: int) -> Operations:
    return Operations(mesh=mesh or {"tp": -1}, operations=operations)


def measured(resample: str) -> Law:
    return empirical(
        table="stragglar_4xa100_llama3.2-3b_steps.csv", columns=["forward_ms", "backward_ms"], unit=1e-3, skip=1,
        resample=resample,
    )  # fmt: skip


@pytest.fixture(scope="module")
def default() -> Result:
    return simulate(8, paper_law())


def curve(result: Result, rank: str, source: str) -> tuple[np.ndarray, np.ndarray]:
    table = pictures.tax_cdf(result)
    rows = table[(table["rank"] == rank) & (table["source"] == source)]
    return rows["wait"].to_numpy(), rows["share"].to_numpy()


def texts(folder: Path, name: str) -> str:
    """What an SVG says; matplotlib keeps the text of each outlined string in a comment."""
    return (folder / f"{name}.svg").read_text(encoding="utf-8")


# What is drawn


def test_parts_add_up_to_the_iteration(default: Result) -> None:
    parts = pictures.iteration_parts(default).set_index("part")
    assert list(parts.index) == ["compute", "wait", "latency", "transfer"]
    assert parts["simulated"].sum() == pytest.approx(default.summary["iteration_time"][0], rel=1e-9)
    assert parts["model"].sum() == pytest.approx(default.summary["iteration_time_model"][0], rel=1e-9)
    assert parts["model"]["compute"] == pytest.approx(320 * 16e-3)
    assert parts["simulated"]["latency"] == pytest.approx(320 * 2 * 5e-6)
    assert parts["simulated"]["transfer"] == pytest.approx(320 * 1.75 * 2**28 / 450e9)


def test_parts_of_a_collective(default: Result) -> None:
    parts = pictures.communication_parts(default).set_index("part")
    assert parts["simulated"]["wait"] == default.summary["wait_mean"][0]
    assert parts["model"]["wait"] == default.summary["wait_model"][0]
    for source in ("simulated", "model"):
        assert parts[source]["latency"] == pytest.approx(10e-6)
        assert parts[source]["transfer"] == pytest.approx(1.75 * 2**28 / 450e9)


def test_ranks_that_finish_early_are_idle() -> None:
    result = simulate(8, paper_law(), program({"compute": "only"}))
    parts = pictures.iteration_parts(result).set_index("part")
    assert parts["simulated"].sum() == pytest.approx(result.summary["iteration_time"][0], rel=1e-12)
    assert parts["model"]["idle"] == pytest.approx(result.experiment.compute.wait(8), rel=1e-9)


def test_overlapping_parts_are_said_to_overlap() -> None:
    result = simulate(8, paper_law(), DataParallel(bytes=2**32, buckets=8))
    assert pictures.iteration_parts(result)["simulated"].sum() > result.summary["iteration_time"][0]
    assert pictures.iteration_parts(result)["model"].isna().all()
    assert "overlap" in pictures.iteration_label(result)
    assert not set(pictures.tax_cdf(result)["source"]) - {"simulated"}


def test_simulated_curve_is_the_empirical_distribution(default: Result) -> None:
    waits = default.collectives["wait_mean"].to_numpy()
    wait, share = curve(default, "mean rank", "simulated")
    assert len(wait) <= pictures.POINTS
    assert (wait[0], share[0], wait[-1], share[-1]) == (waits.min(), 0.0, waits.max(), 1.0)
    for x, p in zip(wait[1:], share[1:], strict=True):
        assert np.mean(waits <= x) == pytest.approx(p, abs=1e-12)


def test_few_barriers_are_all_drawn() -> None:
    result = simulate(4, paper_law(), DataParallel(bytes=1e9), iterations=5)
    wait, share = curve(result, "fastest rank", "simulated")
    assert list(wait[1:]) == sorted(result.collectives["wait_fastest"])
    assert list(share) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]


def test_closed_form_of_two_gumbel_ranks_is_the_logistic_difference() -> None:
    result = simulate(2, paper_law(parent="root"), iterations=2)
    wait, share = curve(result, "fastest rank", "model")
    scale = 0.4085 * 0.02 * 16e-3
    np.testing.assert_allclose(share, np.tanh(wait / (2 * scale)), atol=2e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("n", "parent", "xi", "rank"),
    [(8, "spliced", 0.0, "fastest rank"), (72, "root", 0.0, "fastest rank"), (256, "spliced", 0.0, "mean rank"),
     (8, "zero_sum", 0.0, "mean rank"), (64, "zero_sum", 0.1, "mean rank")],
)  # fmt: skip
def test_simulated_curve_follows_the_closed_form(n: int, parent: str, xi: float, rank: str) -> None:
    result = simulate(n, paper_law(xi=xi, parent=parent))
    bound = sqrt(log(2 / 1e-6) / (2 * len(result.collectives)))  # Dvoretzky, Kiefer, Wolfowitz: 1 in 10^6
    bound += 0.01 if parent != "zero_sum" and rank == "mean rank" else 0.0  # what MANY allows
    wait, share = curve(result, rank, "simulated")
    model = np.interp(wait, *curve(result, rank, "model"))
    assert np.abs(share - model)[1:].max() < bound
    later = np.interp(1.1 * wait, *curve(result, rank, "model"))
    assert np.abs(share - later)[1:].max() > bound  # a tax 10 % off would be seen


def test_blocks_of_several_lengths_are_mixed() -> None:
    steps = [({"compute": f"c{i}", "scale": 1.0 + i}, {"collective": f"s{i}", "kind": "all_reduce", "bytes": 1.0})
             for i in range(2)]  # fmt: skip
    twice = {"collective": "again", "kind": "all_reduce", "bytes": 1.0}
    result = simulate(2, paper_law(parent="root"), program(*steps[0], *steps[1], twice), iterations=3)
    wait, share = curve(result, "fastest rank", "model")
    scale = 0.4085 * 0.02 * 16e-3
    expected = (np.tanh(wait / (2 * scale)) + np.tanh(wait / (4 * scale)) + 1) / 3
    np.testing.assert_allclose(share, expected, atol=2e-9)


def test_closed_form_uses_the_block_at_its_scaled_size() -> None:
    job = TensorParallel(layers=1, bytes=1.0, scaling="strong", reference_ranks=8)
    result = simulate(2, paper_law(parent="root"), job)
    wait, share = curve(result, "fastest rank", "model")
    np.testing.assert_allclose(share, np.tanh(wait / (2 * 4 * 0.4085 * 0.02 * 16e-3)), atol=2e-9)


def test_few_independent_ranks_have_no_closed_form_of_the_mean_rank() -> None:
    table = pictures.tax_cdf(simulate(72, paper_law(), iterations=2))
    assert list(table[table["source"] == "model"]["rank"].unique()) == ["fastest rank"]


def test_strided_groups_hold_no_whole_blocks() -> None:
    workload = program(
        {"compute": "c"}, {"collective": "s", "kind": "all_reduce", "bytes": 1.0, "group": "a"}, a=4, b=2
    )
    result = simulate(8, paper_law(parent="zero_sum"), workload)
    assert "model" not in set(pictures.tax_cdf(result)["source"])


def test_means_over_iterations_are_said_to_be_means(default: Result) -> None:
    from dataclasses import replace

    short = replace(default, collectives=default.collectives.drop(columns="iteration"))
    assert "mean over 40 iterations" in pictures.tax_label(short)
    assert "model" not in set(pictures.tax_cdf(short)["source"])
    assert "mean over" not in pictures.tax_label(default)


def test_titles_state_the_numbers(default: Result) -> None:
    row = default.summary.iloc[0]
    total = row["wait_mean"] + 10e-6 + 1.75 * 2**28 / 450e9
    assert pictures.breakdown_title(default) == (
        f"Waiting takes {100 * row['wait_mean'] / total:.0f} % of communication:\n"
        f"{row['wait_mean'] * 1e6:.0f} µs of {total * 1e3:.2f} ms per AllReduce"
    )
    assert pictures.tax_title(default) == (
        f"The fastest rank waits {row['wait_fastest'] * 1e6:.0f} µs per AllReduce,\n"
        f"the mean rank {row['wait_mean'] * 1e6:.0f} µs (closed form {row['wait_model'] * 1e6:.0f} µs)"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(9.994e-6, "9.99 µs"), (9.996e-6, "10.0 µs"), (99.96e-6, "100 µs"), (999.4e-6, "999 µs"), (999.6e-6, "1.00 ms"),
     (4e-13, "0.00 ns"), (59.96, "60.0 s"), (8191.0, "8191 s"), (float("inf"), "inf s")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert time_label(seconds) == text


# That it is drawn


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("buckets", [1, 8])
def test_same_bytes_twice(tmp_path: Path, buckets: int) -> None:
    result = simulate(8, paper_law(), DataParallel(bytes=2**32, buckets=buckets))
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        pictures.write(result, tmp_path / folder)
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == PICTURES
    for name in PICTURES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


MESH = [{"compute": "a"}, {"collective": "b", "kind": "all_reduce", "bytes": 2**20, "group": "tp"},
        {"compute": "c"}, {"collective": "d", "kind": "all_gather", "bytes": 2**20, "group": "dp"}]  # fmt: skip


@pytest.mark.sampled(11)
@pytest.mark.parametrize(
    ("n", "law", "workload", "says"),
    [
        (1, paper_law(), JOB, ["no rank waits", "no communication"]),
        (64, Deterministic(mean=16e-3), JOB, ["no rank waits"]),
        (8, paper_law(), program({"compute": "only"}), ["no rank waits", "no communication", "idle"]),
        (8, Deterministic(mean=0.0), program({"compute": "only"}), ["no rank waits", "no communication"]),
        (8, paper_law(), DataParallel(bytes=0), ["closed form"]),
        (8, LogNormal(mean=1.0, cv=0.9), TensorParallel(layers=1, bytes=1), ["closed form", "&lt; 0.01 %"]),
        (4, measured("steps"), DataParallel(bytes=2**32), ["closed form"]),
        (8, measured("values"), DataParallel(bytes=2**32), ["closed form"]),
        (16, paper_law(), program(*MESH, dp=4, tp=4), ["per collective"]),
        (8, paper_law(), DataParallel(bytes=2**32, buckets=4), ["overlap"]),
    ],
    ids=[
        "n1",
        "deterministic",
        "no_collectives",
        "nothing",
        "no_bytes",
        "waiting",
        "steps",
        "values",
        "mesh",
        "overlap",
    ],
)
@pytest.mark.parametrize("iterations", [1, 3])
def test_every_result_can_be_drawn(
    tmp_path: Path, n: int, law: Law, workload: Workload, says: list[str], iterations: int
) -> None:
    pictures.write(simulate(n, law, workload, iterations), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == PICTURES
    drawn = texts(tmp_path, "time_breakdown") + texts(tmp_path, "tax_distribution")
    for text in says:
        assert f"{text}" in drawn


@pytest.mark.slow
def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    pictures.write(simulate(4, paper_law(), iterations=1, name="$\\frac$ -- 日本\n<b>"), tmp_path)
    for picture in tmp_path.glob("*.svg"):
        ElementTree.parse(picture)
        assert "$\\frac$" in picture.read_text(encoding="utf-8")  # as mathematics it would be an error


@pytest.mark.slow
def test_a_long_run_makes_a_small_file(tmp_path: Path) -> None:
    result = simulate(4, paper_law(), iterations=300)
    assert len(result.collectives) == 96_000
    pictures.write(result, tmp_path)
    assert max(p.stat().st_size for p in tmp_path.iterdir()) < 200_000


SCRIPT = """
import sys
from pathlib import Path
from simulator import DataParallel, Experiment, block_maxima, run
from simulator.tasks.simulate import pictures
from topologies import NVSwitch
law = block_maxima(mean=16e-3, cv=0.02, mu=0.7058, sigma=0.4085)
assert "matplotlib" not in sys.modules
pictures.write(run(Experiment(n=4, topology=NVSwitch(alpha=0.0, bandwidth=1e9), compute=law,
                           workload=DataParallel(bytes=1e6), iterations=3)), Path(sys.argv[1]))
assert "matplotlib.pyplot" not in sys.modules
"""


SETTINGS = [
    {"MPLBACKEND": "TkAgg", "MATPLOTLIBRC": "rc"},
    {"MPLBACKEND": "no_such_backend", "MPLCONFIGDIR": os.devnull + "/nowhere"},
]


@pytest.mark.slow
def test_user_settings_play_no_part(tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("axes.facecolor: black\nfont.size: 30\nno.such.key: 1\n", encoding="utf-8")
    clean = {key: value for key, value in os.environ.items() if key not in ("MPLBACKEND", "DISPLAY")}
    clean["PYTHONPATH"] = str(Path(pictures.__file__).parents[2])
    for i, setting in enumerate([{}, *SETTINGS]):
        folder = tmp_path / str(i)
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(folder)],
            env=clean | setting,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        for name in PICTURES:
            assert (folder / name).read_bytes() == (tmp_path / "0" / name).read_bytes()
