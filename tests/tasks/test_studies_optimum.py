"""The search for the best bandwidth and size, and all studies in one run."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

import pandas as pd
import pytest

from simulator import OptimalBandwidth, Reproduce, TaxAgainstSize
from simulator.checks import InputError
from simulator.command.app import main
from simulator.laws import Deterministic
from simulator.network.collectives import Kind
from simulator.workload.training import DataParallel, TensorParallel
from tests.conftest import paper_law
from topologies import NVSwitch

SWITCH = NVSwitch(alpha=5e-6, bandwidth=450e9)


def search(**changes: Any) -> OptimalBandwidth:
    settings: dict[str, Any] = {
        "name": "optimum", "sizes": [8, 64, 512], "lowest": 1e9, "highest": 1e14, "topology": SWITCH,
        "workload": TensorParallel(layers=10, bytes=2**28, scaling="strong"), "compute": paper_law(), "iterations": 20,
        "cost_per_rank": 1.0, "cost_per_gbs": 0.001, "cost_fixed": 100.0,
    }  # fmt: skip
    return OptimalBandwidth(**{**settings, **changes})


def by_hand(n: int) -> float:
    """Minimum of (A + Q/B)*(c + n*(r + g*B)): B = sqrt(Q*(c + n*r)/(A*n*g))."""
    law = paper_law().scaled(8 / n)
    floor = 40 * (law.mean + law.wait(n) + 2 * 5e-6)
    volume = 40 * 2 * (n - 1) / n * 2**28
    return sqrt(volume * (100 + n) / (floor * n * 0.001e-9))


def test_the_best_bandwidth_is_the_one_of_calculus():
    table = search().find().tables["optimum"]
    for row in table.itertuples():
        assert row.bandwidth == pytest.approx(by_hand(row.n), rel=1e-5)
        assert row.objective == pytest.approx(row.iteration_time * row.cost, rel=1e-12)
    assert table.objective.idxmin() == 1  # 64 ranks: neither the smallest nor the largest domain


def test_the_optimum_is_checked_by_simulation():
    table = search().find().tables["optimum"]
    checked = table.dropna(subset="iteration_time_simulated")
    assert list(checked.n) == [64]
    off = checked.iteration_time_simulated - checked.iteration_time
    assert (off.abs() < 4 * checked.iteration_time_se).all()
    assert (checked.iteration_time_se > 0).all()


def test_it_says_when_the_optimum_is_only_a_bound():
    free = search(cost_per_gbs=0.0, cost_fixed=0.0, cost_per_rank=0.0).find()
    assert "highest bandwidth allowed, since bandwidth costs nothing" in free.text
    assert "largest size allowed, n = 512" in free.text
    assert free.tables["optimum"].bandwidth.tolist() == pytest.approx([1e14] * 3)
    low = search(highest=10e9, sizes=[64]).find()
    assert "the optimum is a bound of the bandwidth, 10 GB/s" in low.text
    assert "bound" not in search().find().text
    assert "allowed" not in search().find().text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sizes": []}, "sizes must have at least one entry"),
        ({"sizes": [8, 0]}, r"sizes\[1\] must be a whole number"),
        ({"cost_per_rank": -1}, "cost_per_rank must be a finite number, at least 0; got -1"),
        ({"lowest": 0}, "lowest must be a finite number, above 0"),
        ({"highest": 1e9}, "highest must be above lowest"),
        ({"workload": DataParallel(bytes=1e9, buckets=4)}, "workload must have a closed form.*2 streams"),
    ],
)
def test_bad_input(changes, words):
    with pytest.raises(InputError, match=words):
        search(**changes).find()


@pytest.mark.slow
def test_reproduce_puts_the_claims_of_all_studies_together(tmp_path):
    tax = TaxAgainstSize(
        name="t", sizes=[4, 8], laws={"gumbel": paper_law()}, topology=SWITCH, iterations=2, relative_error=0.5,
        workload=TensorParallel(layers=2, bytes=1.0),
    )  # fmt: skip
    steps = []
    outcome = Reproduce(name="r", studies={"one": tax, "two": replace(tax, seed=1)}).execute(
        tmp_path, lambda *step: steps.append(step)
    )
    assert outcome.ok
    assert steps == [(0, 2), (1, 2)]
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "claims.csv"}
    assert (tmp_path / "one" / "tax.csv").exists()
    assert outcome.text.count("standard errors") == 2
    with pytest.raises(InputError, match="studies must have at least one entry"):
        Reproduce(name="r", studies={})


@pytest.mark.slow
def test_every_result_of_the_paper_is_met_by_the_command(tmp_path, monkeypatch, capsys):
    """From closed form and from simulation, by the command that reruns all experiments; figures up to n = 4096."""
    monkeypatch.chdir(tmp_path)
    assert main(["+experiment=reproduce", "hydra.run.dir=out"]) == 0
    claims = pd.read_csv("out/claims.csv").set_index("id")
    reported = claims[claims.within != "no reference"]
    assert len(reported) == 6
    assert set(reported.within) == {"yes"}
    assert (reported.error <= 0.005 * reported.simulated.abs()).all()
    assert claims.loc["ring_reduction_128", "reported"] == 37.26
    assert "no verdict" in capsys.readouterr().out


def test_a_law_without_spread_needs_no_more_than_its_cost():
    """No tax: the optimum is that of the Hockney model."""
    table = search(compute=Deterministic(mean=16e-3), sizes=[64]).find().tables["optimum"]
    floor, volume = 40 * (2e-3 + 1e-5), 40 * SWITCH.cost(Kind.ALL_REDUCE, 2**28, 64).volume
    assert table.bandwidth[0] == pytest.approx(sqrt(volume * 164 / (floor * 64 * 0.001e-9)), rel=1e-5)
