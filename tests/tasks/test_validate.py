"""Simulated against measured: the three real sets, jobs whose law is known, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simulator import FitLaw, TraceReport, Validate
from simulator.checks import InputError
from simulator.laws import Law, Normal, dependent
from simulator.tasks.validate.compare import DISTANCE, Comparison
from simulator.tasks.validate.job import jobs_of
from simulator.tasks.validate.simulate import STATISTICS, measured_run
from simulator.traces.findings import Findings
from simulator.traces.summary import Summary, read_summary, summarise, write_summary
from tests.recorded import DLRM, analyse, byte_dance, reference, stragglar, summary_of

NORMAL = Normal(mean=16e-3, cv=0.02)


def compare(summary: Summary, fit: dict[str, Any] | None = None, **settings: Any) -> list[Comparison]:
    report = TraceReport(name="report", traces=[])
    law = FitLaw(name="fit", report=report, **{"replicates": 100, **(fit or {})})
    settings = {"holdout": "none", **settings}
    return Validate(name="validate", fit=law, **{"runs": 100, **settings}).compare(summary, "a test")


def table(found: list[Comparison], law: str) -> pd.DataFrame:
    rows = pd.concat([comparison.table for comparison in found])
    return rows[rows["law"] == law].set_index("statistic")


# The three real sets: what their simulation must give, and where it cannot

SUMMARIES = Path(__file__).parents[1] / "data" / "summaries"
SETS: dict[str, Callable[[], Findings]] = {
    "param_dlrm_v100_r0246": lambda: analyse(DLRM), "bytedance_ST": byte_dance, "llama3.2-3b_4xa100": stragglar,
}  # fmt: skip


def real(name: str) -> Summary:
    return read_summary(SUMMARIES / f"{name}.json")


@pytest.mark.parametrize("name", SETS)
def test_a_summary_stands_for_its_traces(name: str) -> None:
    kept, now = real(name), summarise(SETS[name]())
    assert kept.blocks == now.blocks
    assert kept.collectives == now.collectives


@pytest.mark.slow
def test_stragglar_is_simulated_as_measured_and_not_with_independent_ranks() -> None:
    found = compare(real("llama3.2-3b_4xa100"))
    whole = reference("stragglar_reference.json")
    fitted, alone = table(found, "fitted"), table(found, "independent")
    assert fitted["measured"]["tax_fastest_mean"] == pytest.approx(whole["tax_maxmin_us"]["mean"] / 1e6)
    assert fitted["measured"]["tax_median_mean"] == pytest.approx(whole["tax_medmin_us"]["mean"] / 1e6)
    assert fitted["agrees"][list(STATISTICS)].all()
    assert fitted["relative_error"][["tax_fastest_mean", "tax_median_mean", "tax_mean_mean"]].abs().max() < 0.03
    assert abs(fitted["relative_error"]["iteration_time"]) < 1e-3
    assert fitted["low"]["repeat_rate"] > 0.7  # rank 2 is last in 49 of 49
    assert not alone["agrees"][["repeat_rate", "tax_fastest_mean", DISTANCE]].any()
    said = " ".join(found[0].findings())
    assert "ranks are not alike" in said
    assert "rank 2 is the slowest" in said
    assert "a rank's noise goes on with correlation 0.8" in said
    assert "compute does not explain" not in said


def test_dlrm_waits_for_hosts_and_not_for_gpus() -> None:
    summary = real("param_dlrm_v100_r0246")
    busy, gap = compare(summary, operation="all_reduce"), compare(summary, operation="all_reduce", measure="gap")
    rows = table(busy, "resampled")
    assert rows["simulated"]["tax_fastest_mean"] < 0.25 * rows["measured"]["tax_fastest_mean"]
    assert "compute does not explain the wait" in " ".join(busy[0].findings())
    assert "the law draws the measured steps again" in " ".join(busy[0].findings())
    assert list(busy[0].runs) == ["resampled"]
    rows = table(gap, "resampled")
    assert rows["agrees"][list(STATISTICS)].all()
    assert abs(rows["relative_error"]["tax_fastest_mean"]) < 0.1
    assert "compute does not explain the wait" not in " ".join(gap[0].findings())


@pytest.mark.slow
def test_byte_dance_waits_as_simulated_where_all_time_between_collectives_counts() -> None:
    """Its start times say when ranks came, so that the waits of pipeline stages for each other are in the gaps."""
    found = compare(real("bytedance_ST"), measure="gap", operation="reduce_scatter", runs=60)
    for law in ("fitted", "resampled"):
        rows = table(found, law)
        assert (rows["relative_error"]["iteration_time"].abs() < 0.005).all()
        assert (rows["relative_error"]["tax_mean_mean"].abs() < 0.03).all()


@pytest.mark.slow
def test_byte_dance_computes_for_less_time_than_it_takes_and_waits_longer() -> None:
    """The stages of a pipeline also wait for each other, which the compute of one stage does not show."""
    found = compare(real("bytedance_ST"), operation="reduce_scatter", runs=60)
    assert len(found) == 4
    for law in ("fitted", "resampled"):
        rows = table(found, law)
        assert (rows["relative_error"]["iteration_time"] < -0.3).all()
        ratio = rows["simulated"]["tax_mean_mean"] / rows["measured"]["tax_mean_mean"]
        assert ((ratio > 0.35) & (ratio < 0.9)).all()
    assert ["compute does not explain" in " ".join(comparison.findings()) for comparison in found] == [
        True,
        True,
        True,
        False,
    ]
    for comparison in found:
        job = comparison.job
        more, wait = job.compute[:, 0] - job.compute[:, 1], job.duration[:, 1] - job.duration[:, 0]
        centred = np.r_[more, -more], np.r_[wait, -wait]
        assert job.explained == pytest.approx(np.corrcoef(*centred)[0, 1], rel=1e-9)


def test_a_collective_before_the_compute_of_its_step_is_not_simulated() -> None:
    summary = real("bytedance_ST")
    assert {(own.operation, own.leading) for own in summary.collectives} == {
        ("all_gather", True), ("reduce_scatter", False)
    }  # fmt: skip
    assert {job.operation for job in jobs_of(summary, measure="busy", group=None, operation=None)} == {"reduce_scatter"}


# Jobs whose law is known


@pytest.mark.slow
@pytest.mark.parametrize("law", [
    NORMAL, dependent(law=NORMAL, common=0.3, memory=0.5), dependent(law=NORMAL, offsets=[-0.6, -0.2, 0.0, 0.8]),
], ids=["independent", "memory", "offsets"])  # fmt: skip
def test_a_job_of_known_law_is_found_to_agree(law: Law) -> None:
    agreed = []
    for seed in range(6):
        times = law.sample(np.random.default_rng(seed), (100, 4))
        agreed.append(table(compare(summary_of(times), runs=60), "fitted")["agrees"].mean())
    assert np.mean(agreed) > 0.9  # of intervals of 95 %, with a law that was itself estimated


@pytest.mark.slow
def test_a_wrong_law_is_found_to_disagree() -> None:
    times = dependent(law=NORMAL, offsets=[-0.3, -0.3, -0.3, 0.9]).sample(np.random.default_rng(0), (200, 4))
    rows = table(compare(summary_of(times)), "independent")
    assert not rows["agrees"]["repeat_rate"]


def test_statistics_by_hand() -> None:
    summary = summary_of([[1.0, 2.0, 4.0], [5.0, 3.0, 3.0], [1.0, 1.0, 2.0]], transfer=0.5)
    (job,) = jobs_of(summary, measure="busy", group=None, operation=None)
    assert (job.steps, job.ranks, job.transfer) == (3, (0, 1, 2), pytest.approx(0.5))
    measured = measured_run(job).statistics(job.transfer)
    assert measured == pytest.approx({
        "tax_fastest_mean": (3 + 2 + 1) / 3, "tax_fastest_p50": 2, "tax_fastest_p99": 2.98,
        "tax_median_mean": (2 + 2 + 1) / 3, "tax_mean_mean": (5 + 4 + 2) / 9,
        "tax_share": (5 + 4 + 2) / 3 / ((5 + 4 + 2) / 3 + 1.5), "iteration_time": (4.5 + 5.5 + 2.5) / 3,
        "repeat_rate": 2 / 3,
    })  # fmt: skip


@pytest.mark.slow
def test_a_step_of_several_blocks_is_simulated_block_by_block() -> None:
    times = NORMAL.sample(np.random.default_rng(0), (300, 4))
    summary = summary_of(times.reshape(100, 3, 4).sum(axis=1))
    block = summary.blocks[0]
    block.busy = np.rint(times * 1e9).astype(int).tolist()
    block.collective = np.repeat(np.arange(1, 101), 3).tolist()
    block.gap = []
    (job,) = jobs_of(summary, measure="busy", group=None, operation=None)
    assert [(name, count) for name, _, count in job.blocks] == [("compute", 3)]
    assert len(job.program(4, NORMAL).operations) == 4
    rows = table(compare(summary), "fitted")
    # Three independent blocks: the spread of their sum, and so the tax, is sqrt(3) times that of one.
    assert rows["simulated"]["tax_mean_mean"] == pytest.approx(3**0.5 * NORMAL.wait(4), rel=0.1)
    assert rows["agrees"]["tax_mean_mean"]


def test_a_job_that_is_simulated_exactly_agrees() -> None:
    (found,) = compare(summary_of([[1e-3, 2e-3, 4e-3, 3e-3]] * 30))
    assert table([found], found.main)["agrees"].all()
    assert "correlation" not in " ".join(found.findings())


@pytest.mark.parametrize("times", [np.ones((2, 4)), np.ones((40, 1))], ids=["2 steps", "1 rank"])
def test_too_little_to_compare_with_is_refused(times: Any) -> None:
    with pytest.raises(InputError, match=r"^collectives must have a compute block before them on the same ranks"):
        compare(summary_of(times))


@pytest.mark.parametrize(("fit", "sentence"), [
    ({"block": "nope", "family": "gumbel"}, "fit.block must be one of compute; got 'nope'"),
    ({"block": "compute"}, "fit.block must be left out: all that lies between two barriers is one draw"),
    ({"m": 3}, "m must be left out for family=tail; it is of maxima"),
    ({"m": 3, "family": "gumbel"}, "fit.m must be at least 2 and divide the 4 ranks of a block; got 3"),
    ({"group": "group 0"}, "fit.group must be left out; group is the key of a validation"),
    ({"level": 0.5}, "fit.level must be left out"),
    ({"sizes": [8]}, "fit.sizes must be left out"),
    ({"summary": "x"}, "fit.summary must be left out"),
])  # fmt: skip
def test_keys_of_the_fit_are_checked(fit: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        compare(summary_of(NORMAL.sample(np.random.default_rng(0), (40, 4))), fit)
    assert str(error.value).startswith(sentence)


def test_steps_with_other_numbers_of_blocks_are_told() -> None:
    summary = summary_of(NORMAL.sample(np.random.default_rng(0), (30, 4)))
    summary.blocks[0].collective[1] = 1
    (job,) = jobs_of(summary, measure="busy", group=None, operation=None)
    assert job.steps == 29
    assert list(job.notes) == ["steps have from 1 to 2 blocks 'compute'; 1 are simulated"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_comparison(tmp_path: Path) -> None:
    summary = summary_of(NORMAL.sample(np.random.default_rng(0), (40, 4)))
    one, same, other = (compare(summary, seed=seed)[0].table for seed in (0, 0, 1))
    assert one.equals(same)
    assert not one.equals(other)


@pytest.mark.slow
def test_everything_is_left_in_the_folder(tmp_path: Path) -> None:
    write_summary(summary_of(NORMAL.sample(np.random.default_rng(0), (40, 4))), tmp_path / "s.json")
    out = tmp_path / "out"
    out.mkdir()
    steps: list[tuple[int, int]] = []
    law = FitLaw(name="fit", report=TraceReport(name="report", traces=[]), replicates=100)
    task = Validate(name="validate", fit=law, summary=str(tmp_path / "s.json"), runs=40)
    outcome = task.execute(out, lambda *step: steps.append(step))
    assert {path.name for path in out.iterdir()} == {
        "summary.csv", "validation.csv", "validation.png", "validation.svg", "prediction.png", "prediction.svg"
    }  # fmt: skip
    assert steps[-1] == (121, 121)
    assert "s.json against simulation; compute is GPU work" in outcome.text
    assert max(map(len, outcome.text.splitlines())) <= 120


@pytest.mark.parametrize(("settings", "sentence"), [
    ({"group": "x"}, "group must be one of group 0; got 'x'"),
    ({"operation": "x"}, "operation must be one of all_reduce; got 'x'"),
])  # fmt: skip
def test_refusals_are_one_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        compare(summary_of(NORMAL.sample(np.random.default_rng(0), (40, 4))), **settings)
    assert str(error.value).startswith(sentence)


def test_a_table_has_no_gaps() -> None:
    with pytest.raises(InputError, match=r"^measure must be busy for a table of operations"):
        compare(real("llama3.2-3b_4xa100"), measure="gap")


def test_collectives_without_compute_cannot_be_simulated() -> None:
    summary = summary_of(NORMAL.sample(np.random.default_rng(0), (40, 4)))
    summary.blocks.clear()
    with pytest.raises(InputError, match=r"^collectives must have a compute block before them"):
        compare(summary)
