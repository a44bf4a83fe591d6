"""The tax in traces: reference values of real sets, and what goes wrong in them said plainly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simulator import Columns, TraceReport
from simulator.checks import InputError
from simulator.command.app import main
from simulator.tasks.trace_report import words
from simulator.traces.measure import SUMMARY
from tests.recorded import (
    DATA,
    DLRM,
    MADE,
    SLOW,
    STEPS,
    Trace,
    analyse,
    byte_dance,
    collectives_of,
    dlrm,
    is_collective,
    job,
    kernel,
    reference,
    stragglar,
)

NEAR = 1e-3  # 0.1 %, the tolerance asked for
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SAME = ["tax_fastest", "tax_median", "straggler", "duration_min", "duration_max"]


def moments(values: Any, expected: dict[str, float]) -> None:
    """Microseconds as in the reference."""
    found = {"mean": np.mean(values), "p50": np.quantile(values, 0.5), "p90": np.quantile(values, 0.9),
             "p99": np.quantile(values, 0.99), "max": np.max(values), "min": np.min(values)}  # fmt: skip
    for name, value in found.items():
        assert value * 1e6 == pytest.approx(expected[name], rel=NEAR, abs=1e-3), name


def test_dlrm_has_the_reference_tax() -> None:
    findings = analyse(DLRM)
    expected = reference("param_dlrm_v100_r0246_summary.json")["groups"]["('stream', 84)"]
    tax = findings.tax
    assert len(tax) == expected["n_aligned"]
    moments(tax["tax_fastest"], expected["tax_maxmin_us"])
    moments(tax["tax_median"], expected["tax_medmin_us"])
    moments(tax["end_spread"], expected["end_spread_us"])
    moments(tax["duration_min"], expected["min_dur_us"])
    moments(tax["duration_max"], expected["max_dur_us"])
    assert tax["share_fastest"].mean() != pytest.approx(0)
    spent = (tax["duration_min"] + tax["tax_mean"]).sum()
    assert tax["tax_mean"].sum() / spent == pytest.approx(expected["waiting_share"], rel=NEAR)
    assert 1 - tax["duration_min"].sum() / tax["duration_max"].sum() == pytest.approx(
        expected["maxmin_share_of_max"], rel=NEAR
    )
    assert tax["straggler"].value_counts().to_dict() == {
        int(rank): count for rank, count in expected["straggler_counts"].items()
    }


def test_dlrm_has_the_reference_blocks() -> None:
    findings = analyse(DLRM)
    expected = reference("param_dlrm_v100_r0246_summary.json")["groups"]["('stream', 84)"]["blocks"]
    (row,) = findings.block_summary.to_dict("records")
    for ours, theirs in {"busy": "busy_all", "kernels": "sum_all", "gemm": "sum_gemm", "gap": "gap"}.items():
        assert row["blocks"] == expected[theirs]["n"]
        assert row[f"{ours}_mean"] * 1e6 == pytest.approx(expected[theirs]["mean_us"], rel=NEAR)
        assert row[f"{ours}_cv"] == pytest.approx(expected[theirs]["cv_mean"], rel=NEAR)
        assert row[f"{ours}_sd"] * 1e6 == pytest.approx(expected[theirs]["pooled_sd_us"], rel=NEAR)
        ranks = findings.blocks.groupby("rank")[ours].mean() * 1e6
        assert {str(rank): mean for rank, mean in ranks.items()} == pytest.approx(
            expected[theirs]["rank_mean_us"], rel=NEAR
        )
        blocks = findings.blocks.groupby("collective")[ours].mean() * 1e6
        assert blocks.tolist() == pytest.approx(expected[theirs]["per_block_mean_us"], rel=NEAR)


def test_dlrm_waits_for_idle_gpus_and_is_partial() -> None:
    findings = analyse(DLRM)
    assert findings.summary["status"].tolist() == ["partial", "partial"]
    assert findings.summary["reason"].str.contains("4 of the job's 8 ranks").all()
    assert set(findings.explanation["cause"]) == {"idle"}


@pytest.mark.parametrize("operation", ["reduce_scatter", "all_gather"])
def test_byte_dance_has_the_reference_tax(operation: str) -> None:
    findings = byte_dance()
    name = {"reduce_scatter": "grads-reduce-scatter", "all_gather": "params-all-gather"}[operation]
    expected = reference("bytedance_ST_reference.json")["ST"]["ops"][name]
    tax = findings.tax[findings.tax["operation"] == operation]
    assert len(tax) == expected["keys"]
    moments(tax["tax_fastest"], expected["tax_maxmin_us"])
    moments(tax["tax_median"], expected["tax_medmin_us"])
    moments(tax["end_spread"], expected["end_spread_us"])
    assert tax["share_fastest"].mean() == pytest.approx(expected["share_of_max_mean"], rel=NEAR)
    assert tax["straggler"].value_counts().to_dict() == {
        int(rank): count for rank, count in expected["last_arriver_counts"].items()
    }
    assert set(findings.summary["status"]) == {"ok"}
    assert set(findings.summary["group"]) == {"stage 0", "stage 1", "stage 2", "stage 3"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("block", ["forward", "backward"])
def test_byte_dance_has_the_reference_blocks(block: str) -> None:
    expected = reference("bytedance_ST_reference.json")["ST"]["ops"][f"{block}-compute"]
    blocks = byte_dance().blocks
    wide = blocks[blocks["block"] == block].pivot(index=["group", "instance"], columns="rank", values="busy")
    cv = wide.std(axis=1, ddof=1) / wide.mean(axis=1)
    assert len(wide) == expected["keys"]
    assert wide.to_numpy().mean() * 1e6 == pytest.approx(expected["mean_us"], rel=NEAR)
    for name, value in {"mean": cv.mean(), "p50": cv.median(), "p99": cv.quantile(0.99), "max": cv.max()}.items():
        assert value == pytest.approx(expected["cross_rank_cv"][name], rel=NEAR)
    assert np.sqrt(wide.var(axis=1).mean()) * 1e6 == pytest.approx(expected["pooled_sd_us"], rel=NEAR)


def test_stragglar_has_the_reference_tax_and_its_cause() -> None:
    findings = stragglar()
    expected = reference("stragglar_reference.json")
    moments(findings.tax["tax_fastest"], expected["tax_maxmin_us"])
    moments(findings.tax["tax_median"], expected["tax_medmin_us"])
    assert findings.tax["share_fastest"].mean() == pytest.approx(expected["share_of_max_mean"], rel=NEAR)
    (row,) = findings.summary.to_dict("records")
    assert (row["straggler"], row["straggler_repeat_rate"], row["status"]) == (2, 1.0, "ok")
    assert "ends not checked" in row["reason"]
    assert np.isnan(row["end_spread_max"])
    (cause,) = findings.explanation.to_dict("records")
    assert cause["busy_correlation"] == pytest.approx(expected["corr(compute maxmin, AR tax)"], rel=NEAR)
    assert cause["busy_spread"] * 1e6 == pytest.approx(expected["compute_maxmin_us"]["mean"], rel=NEAR)
    assert cause["cause"] == "compute"
    (block,) = findings.block_summary.to_dict("records")
    assert block["busy_cv"] == pytest.approx(expected["compute_cross_rank_cv"]["mean"], rel=NEAR)
    assert block["busy_mean"] * 1e6 == pytest.approx(expected["compute_mean_us"], rel=NEAR)


def test_windows_that_were_cut_independently_are_refused() -> None:
    findings = analyse(DATA / "hta_sampled_2of128")
    assert not findings.usable
    assert findings.summary["collectives"].tolist() == [0, 0]
    assert findings.summary["status"].tolist() == ["refused", "refused"]
    assert findings.summary["reason"].iloc[0].startswith("ends do not agree: they differ by up to 134 ms")
    assert findings.summary["reason"].iloc[1].startswith("ends do not agree: they differ by up to 332 us")
    assert findings.tax.empty
    assert len(findings.blocks) == 2 * 8


def test_other_names_of_the_same_kernels_change_nothing(tmp_path: Path) -> None:
    def rename(rank: int, trace: Trace) -> Trace:
        for event in collectives_of(trace):
            event["name"] = event["name"].replace("ncclKernel_", "ncclDevKernel_")
        return trace

    pd.testing.assert_frame_equal(analyse(dlrm(tmp_path, rename)).tax, analyse(DLRM).tax)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("rank", [0, 4, 6])
@pytest.mark.parametrize("lost", [0, 3, 7])
def test_a_lost_kernel_costs_its_collective_and_no_other(lost: int, rank: int, tmp_path: Path) -> None:
    def lose(at: int, trace: Trace) -> Trace:
        gone = collectives_of(trace)[lost] if at == rank else None
        return {**trace, "traceEvents": [event for event in trace["traceEvents"] if event is not gone]}

    whole, findings = analyse(DLRM), analyse(dlrm(tmp_path, lose))
    rest = whole.tax[whole.tax.index != lost].reset_index(drop=True)
    pd.testing.assert_frame_equal(findings.tax[SAME], rest[SAME])
    operation = whole.tax["operation"][lost]
    reason = findings.summary.set_index("operation")["reason"][operation]
    count = int((whole.tax["operation"] == operation).sum())
    assert f"{count - 1} of {count} matched" in reason
    assert f"rank {rank} has {count - 1}" in reason


@pytest.mark.sampled(9)
@pytest.mark.parametrize("rank", [0, 4, 6])
@pytest.mark.parametrize("microseconds", [5000, -5000, 10**9])
def test_a_clock_that_is_off_is_set_right_and_blames_nobody(rank: int, microseconds: int, tmp_path: Path) -> None:
    def shift(at: int, trace: Trace) -> Trace:
        for event in trace["traceEvents"]:
            event["ts"] += microseconds if at == rank else 0
        return trace

    whole, findings = analyse(DLRM), analyse(dlrm(tmp_path, shift))
    pd.testing.assert_frame_equal(findings.tax[SAME], whole.tax[SAME])
    assert findings.tax["end_spread"].max() < 20e-6
    where = "ahead" if microseconds > 0 else "behind"
    far = {5000: "5 ms", 10**9: "1e+03 s"}[abs(microseconds)]
    assert findings.summary["reason"].str.contains(f"clock set right of rank {rank} ({far} {where})", regex=False).all()


@pytest.mark.slow
def test_a_lost_kernel_and_a_clock_that_is_off_together(tmp_path: Path) -> None:
    def both(at: int, trace: Trace) -> Trace:
        gone = collectives_of(trace)[0] if at == 2 else None
        events = [event for event in trace["traceEvents"] if event is not gone]
        for event in events:
            event["ts"] += 5000 if at == 2 else 0
        return {**trace, "traceEvents": events}

    findings = analyse(dlrm(tmp_path, both))
    pd.testing.assert_frame_equal(findings.tax[SAME], analyse(DLRM).tax[1:].reset_index(drop=True)[SAME])


@pytest.mark.slow
def test_files_in_another_order_change_nothing(tmp_path: Path) -> None:
    names = {0: "d", 2: "b", 4: "a", 6: "c"}

    def same(rank: int, trace: Trace) -> None:
        (tmp_path / f"{names[rank]}.json").write_text(json.dumps(trace))

    dlrm(tmp_path, same)
    pd.testing.assert_frame_equal(analyse(tmp_path).tax, analyse(DLRM).tax)


def test_a_missing_rank_is_said(tmp_path: Path) -> None:
    findings = analyse(dlrm(tmp_path, lambda rank, trace: trace if rank != 2 else None))
    assert findings.usable
    assert findings.summary["ranks"].tolist() == [3, 3]
    assert findings.summary["reason"].str.contains("3 of the job's 8 ranks").all()


@pytest.mark.slow
def test_a_broken_file_stops_unless_told_otherwise(tmp_path: Path) -> None:
    dlrm(tmp_path, lambda rank, trace: trace)
    path = next(tmp_path.glob("worker4*"))
    path.write_bytes(path.read_bytes()[:400_000])
    with pytest.raises(InputError, match=r"worker4.*is cut off: it ends at byte 400,000"):
        analyse(tmp_path)
    skipped = TraceReport(name="test", traces=str(tmp_path), broken="skip")
    findings = skipped.find()
    assert findings.ranks["rank"].tolist() == [0, 2, 6]
    (tmp_path / "out").mkdir()
    assert "left out worker4" in skipped.execute(tmp_path / "out").text
    kept = analyse(tmp_path, broken="keep")
    assert kept.ranks["rank"].tolist() == [0, 2, 4, 6]
    assert "whole events" in kept.ranks["notes"][2]


def test_a_rank_that_is_claimed_twice_is_never_chosen_silently(tmp_path: Path) -> None:
    dlrm(tmp_path, lambda rank, trace: trace)
    path = next(tmp_path.glob("worker4*"))
    (tmp_path / "again.json").write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=r"rank 4 is claimed by again\.json and worker4.*; broken=skip goes on"):
        analyse(tmp_path)
    findings = analyse(tmp_path, broken="skip")
    assert findings.ranks["rank"].tolist() == [0, 2, 6]
    assert len(findings.left_out) == 2


def test_files_of_different_jobs_are_refused(tmp_path: Path) -> None:
    job(tmp_path, {0: [], 1: []}, world=8)
    job(tmp_path, {2: []}, world=16)
    with pytest.raises(InputError, match=r"traces must be of one job; got files of jobs of 8 ranks \(.*\) and 16"):
        analyse(tmp_path)


def collective(start: float, duration: float, **args: Any) -> Trace:
    return kernel(ALL_REDUCE, start, duration, stream=20, **args)


def two_groups(folder: Path, count: int = 40) -> Path:
    """Four ranks in two tensor-parallel groups; rank 1 is always last in its group, rank 3 in half of its own's."""
    ranks: dict[int, list[Trace]] = {rank: [] for rank in range(4)}
    for k in range(count):
        for rank in range(4):
            late = 300 if rank == 1 or ((rank == 3) == bool(k % 2) and rank > 1) else 100
            about = {"Process Group Name": f"tp{rank // 2}", "Group size": 2, "dtype": "Float", "In msg nelems": 1024,
                     "Process Group Ranks": f"[{rank // 2 * 2}, {rank // 2 * 2 + 1}]"}  # fmt: skip
            ranks[rank].append(collective(1000 * k + late + 7 * (rank // 2), 500 - late, **about))
    return job(folder, ranks)


def test_process_groups_are_never_pooled(tmp_path: Path) -> None:
    summary = analyse(two_groups(tmp_path)).summary.set_index("group")
    assert summary["status"].tolist() == ["ok", "ok"]
    assert (summary["straggler"]["tp0"], summary["straggler_repeat_rate"]["tp0"]) == (1, 1.0)
    assert summary["straggler_repeat_rate"]["tp1"] == 0.5
    assert summary["tax_fastest_mean"].tolist() == pytest.approx([200e-6, 200e-6])


def test_groups_of_one_name_but_other_ranks_are_two(tmp_path: Path) -> None:
    two_groups(tmp_path)
    for path in tmp_path.glob("*.json"):
        path.write_text(path.read_text().replace('"tp1"', '"tp0"'))
    assert analyse(tmp_path).summary["group"].tolist() == ["tp0 of ranks 0, 1", "tp0 of ranks 2, 3"]


def test_a_missing_member_of_a_group_is_named(tmp_path: Path) -> None:
    two_groups(tmp_path)
    (tmp_path / "rank2.json").unlink()
    summary = analyse(tmp_path).summary.set_index("group")
    assert summary["status"].to_dict() == {"tp0": "ok", "tp1": "refused"}
    assert "1 of its 2 ranks (rank 2 missing)" in summary["reason"]["tp1"]


def test_collectives_of_other_sizes_are_not_matched(tmp_path: Path) -> None:
    about = {"Process Group Name": "0", "Group size": 2, "dtype": "Float"}
    ranks = {rank: [collective(1000 * k, 50, **about, **{"In msg nelems": 8 * (k + 1) + rank}) for k in range(4)]
             for rank in range(2)}  # fmt: skip
    (row,) = analyse(job(tmp_path, ranks)).summary.to_dict("records")
    assert (row["status"], row["reason"]) == ("refused", "sizes or sequence numbers do not agree")


def test_sequence_numbers_match_where_there_are_some(tmp_path: Path) -> None:
    """Rank 1 lost its first three kernels of a strictly periodic sequence: only numbers say which ones."""
    ranks = {
        rank: [collective(1000 * k - 1000 * 3 * rank, 50 + 10 * rank, Seq=k) for k in range(10)] for rank in range(2)
    }
    ranks[1] = ranks[1][3:]
    findings = analyse(job(tmp_path, ranks))
    assert findings.tax["collective"].tolist() == list(range(3, 10))
    assert "clock set right" in findings.summary["reason"][0]


def test_without_numbers_a_common_clock_is_preferred_to_a_shifted_one(tmp_path: Path) -> None:
    """Each rank lost one of nine periodic kernels, at other ends: by index all match under a clock that is off."""
    ranks = {rank: [collective(1000 * k + 5 * k * k, 50) for k in range(9)] for rank in range(2)}
    ranks[0], ranks[1] = ranks[0][1:], ranks[1][:-1]
    findings = analyse(job(tmp_path, ranks))
    assert len(findings.tax) == 7
    assert "7 of 8 matched by end time" in findings.summary["reason"][0]


def test_numbers_that_ranks_do_not_share_are_not_used(tmp_path: Path) -> None:
    ranks = {rank: [collective(1000 * k + 3 * k * k, 50, Seq=k + 100 * rank) for k in range(10)] for rank in range(2)}
    findings = analyse(job(tmp_path, ranks))
    assert findings.tax["collective"].tolist() == list(range(10))
    assert findings.tax["tax_fastest"].max() == 0


def test_a_rank_without_collectives_is_said(tmp_path: Path) -> None:
    ranks = {rank: [collective(1000 * k, 50) for k in range(4)] for rank in range(2)}
    (row,) = analyse(job(tmp_path, {**ranks, 2: [kernel("gemm", 0, 5)]})).summary.to_dict("records")
    assert (row["status"], row["reason"]) == ("partial", "2 of 3 ranks: rank 2 ran none of its collectives")


def test_a_gap_in_the_middle_is_bridged(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    times = np.cumsum(generator.uniform(500, 3000, 200)).round(3)
    ranks = {rank: [collective(float(time), 100 + rank) for time in times] for rank in range(3)}
    del ranks[1][90:110]
    findings = analyse(job(tmp_path, ranks))
    assert len(findings.tax) == 180
    assert findings.tax["tax_fastest"].to_numpy() == pytest.approx(2e-6)


def test_point_to_point_that_does_not_end_together_is_set_apart_from_the_rest(tmp_path: Path) -> None:
    send = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    ranks = {rank: [collective(1000 * k, 50) for k in range(6)] for rank in range(2)}
    for rank in range(2):
        ranks[rank] += [kernel(send, 1000 * k + 300 + 250 * rank * (k % 3), 40, stream=20) for k in range(6)]
    summary = analyse(job(tmp_path, ranks)).summary.set_index("operation")
    assert summary["status"].to_dict() == {"all_reduce": "ok", "send_recv": "refused"}
    assert "need not end on all ranks at once" in summary["reason"]["send_recv"]


@pytest.mark.slow
def test_steps_without_a_kernel_are_counted(tmp_path: Path) -> None:
    steps = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "ts": 1000 * k, "dur": 990} for k in range(5)
    ]
    ranks = {rank: [*steps, *(collective(1000 * k + 10, 50) for k in range(2 * rank, 5))] for rank in range(2)}
    report = TraceReport(name="test", traces=str(job(tmp_path, ranks)))
    findings = report.find()
    assert findings.ranks["steps_without_kernels"].tolist() == [0, 2]
    assert "3 of 5 matched by end time; rank 1 has 3" in findings.summary["reason"][0]
    (tmp_path / "out").mkdir()
    assert "2 of 5 profiler steps hold no kernel, left out" in report.execute(tmp_path / "out").text


def test_where_no_step_holds_a_kernel_that_is_said(tmp_path: Path) -> None:
    steps = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "ts": 1000 * k, "dur": 990} for k in range(5)
    ]
    report = TraceReport(name="test", traces=str(job(tmp_path, {0: steps, 1: steps})))
    (tmp_path / "out").mkdir()
    outcome = report.execute(tmp_path / "out")
    assert not outcome.ok
    assert outcome.text.count("no GPU kernels in any of its 5 profiler steps") == 2
    assert "no collectives, so no tax" in outcome.text


@pytest.mark.slow
def test_where_all_arrive_at_once_nobody_is_last(tmp_path: Path) -> None:
    ranks = {rank: [collective(1000 * k, 50) for k in range(6)] for rank in range(3)}
    report = TraceReport(name="test", traces=str(job(tmp_path, ranks)))
    (tmp_path / "out").mkdir()
    assert "is last" not in report.execute(tmp_path / "out").text


def test_the_command_leaves_its_tables_and_says_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["+experiment=trace_report", f"traces={DLRM}", "hydra.run.dir=out"]) == 0
    text = capsys.readouterr().out
    assert "traces of 4 of 8 ranks, 988 GPU kernels; 8 collectives measured, in 1 process group" in text
    assert "rank 4 is last in 3 of 3" in text
    summary = pd.read_csv("out/tax_summary.csv")
    assert tuple(summary.columns) == SUMMARY
    assert len(pd.read_parquet("out/tax.parquet")) == 8
    assert len(pd.read_parquet("out/blocks.parquet")) == 28
    assert json.loads(Path("out/manifest.json").read_text())["config"]["traces"] == str(DLRM)


def test_the_command_fails_where_there_is_no_tax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["+experiment=trace_report", f"traces={DATA / 'hta_sampled_2of128'}", "hydra.run.dir=out"]) == 1
    assert "no tax can be given" in capsys.readouterr().out
    assert (pd.read_csv("out/tax_summary.csv")["collectives"] == 0).all()
    assert main(["+experiment=trace_report", f"traces={DATA / 'hta_corner'}"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_the_command_reads_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = ["table.unit=1e-3", "table.skip=1", "table.collectives={all_reduce: allreduce_ms}",
            "table.computes={compute: [forward_ms, backward_ms]}"]  # fmt: skip
    assert main(["+experiment=trace_report", f"traces={STEPS}", *keys]) == 0
    assert "rank 2 is last in 49 of 49 (persistent, p < 0.0001)" in capsys.readouterr().out


BAD_TABLES: dict[str, tuple[dict[str, Any], str]] = {
    "no keys": ({}, r"traces must be one table, with table\.collectives"),
    "column": (
        {"collectives": {"all_reduce": "allreduce_m"}},
        r"no column 'allreduce_m' \(did you mean allreduce_ms\?\)",
    ),
    "rank": ({"rank": "forward_ms", "collectives": {"all_reduce": "allreduce_ms"}}, "must hold whole numbers alone"),
    "step": ({"step": "epoch_occurrence", "collectives": {"a": "allreduce_ms"}}, "more than once at step 0 of rank 0"),
    "skip": ({"skip": 50, "collectives": {"a": "allreduce_ms"}}, "has no row of a"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_table_that_does_not_fit_is_one_sentence(name: str) -> None:
    settings, sentence = BAD_TABLES[name]
    with pytest.raises(InputError, match=sentence):
        analyse(STEPS, table=Columns(**settings))


def test_incomplete_steps_of_a_table_are_left_out_and_said(tmp_path: Path) -> None:
    table = pd.read_csv(STEPS, comment="#").drop(index=[17])
    table.to_parquet(tmp_path / "t.parquet")
    (row,) = analyse(
        tmp_path / "t.parquet", table=Columns(unit=1e-3, collectives={"a": "allreduce_ms"})
    ).summary.to_dict("records")
    assert (row["status"], row["collectives"]) == ("partial", 49)
    assert "49 of 50 are on every rank" in row["reason"]


def test_the_helper_finds_the_collectives() -> None:
    assert is_collective(collective(0, 1))


def test_who_costs_most_is_named_beside_who_is_last_most_often() -> None:
    """Rank 1 is 50 us late in 40 collectives, and rank 3 pauses for 30 ms before one of them."""
    report = analyse(MADE / "one_long_pause")
    (row,) = report.summary.to_dict("records")
    assert (row["straggler"], row["straggler_repeat_rate"]) == (1, 39 / 40)
    assert (row["costliest"], row["costliest_last"]) == (3, 1)
    assert row["costliest_caused"] == pytest.approx(0.93, abs=5e-3)
    assert row["tax_fastest_mean"] * 1e6 == pytest.approx(802.1, abs=0.05)
    assert row["tax_fastest_p50"] * 1e6 == pytest.approx(54.3, abs=0.05)
    said = words.text(report)
    assert "rank 1 is last in 39 of 40 (persistent" in said
    assert "rank 3 costs most: last in 1 of 40, it causes 93.5 % of the tax" in said


def test_what_a_slow_rank_costs_is_computed_from_the_data(tmp_path: Path) -> None:
    """Eight ranks of independent times, of which rank 5 is 900 us late: what is left is the tax of the other seven."""
    times = pd.read_csv(SLOW, comment="#")
    table = times.rename(columns=lambda name: int(name.removeprefix("rank"))).rename_axis("step").reset_index()
    table = table.melt("step", var_name="rank", value_name="compute")
    table["all_reduce"] = table.groupby("step")["compute"].transform("max") - table["compute"] + 1e-3
    table.to_csv(tmp_path / "t.csv", index=False)
    report = analyse(tmp_path / "t.csv", table=Columns(collectives={"all_reduce": "all_reduce"}))
    (row,) = report.summary.to_dict("records")
    assert (row["straggler"], row["straggler_repeat_rate"], row["costliest"]) == (5, 0.828, 5)
    assert row["tax_mean_mean"] * 1e6 == pytest.approx(830.4, abs=0.05)
    assert row["costliest_without"] * 1e6 == pytest.approx(491.5, abs=0.05)
    assert row["costliest_saved"] * 1e6 == pytest.approx(450.3, abs=0.05)
    others = times.drop(columns="rank5")
    left = others.max(axis=1).mean() - others.to_numpy().mean()
    assert row["costliest_without"] == pytest.approx(left, abs=1e-9)
    said = words.text(report)
    assert "without it a collective begins 450.3 us earlier, and the mean rank waits 491.5 us instead of 830.4" in said
    assert report.stragglers["last"].sum() == 500
    assert report.stragglers["caused"].sum() == pytest.approx(1)


def test_the_rank_that_costs_most_is_the_one_that_saves_most_to_mend(tmp_path: Path) -> None:
    """Ranks 1 and 2 are 1 ms late in 99 of 100, rank 1 by 10 us more: to mend one alone saves 10 us. Rank 3 once takes
    5 ms: without it that collective begins 5 - 1.01 ms earlier."""
    compute = np.full((100, 4), 2e-3)
    compute[:, 1] += 1.01e-3
    compute[:, 2] += 1e-3
    compute[50, 3] += 5e-3
    step, rank = np.indices(compute.shape)
    times = {"step": step.ravel(), "rank": rank.ravel(), "compute": compute.ravel()}
    times["all_reduce"] = (compute.max(axis=1, keepdims=True) - compute + 1e-3).ravel()
    pd.DataFrame(times).to_csv(tmp_path / "t.csv", index=False)
    report = analyse(tmp_path / "t.csv", table=Columns(collectives={"all_reduce": "all_reduce"}))
    (row,) = report.summary.to_dict("records")
    assert (row["straggler"], row["costliest"], row["costliest_last"]) == (1, 3, 1)
    assert row["costliest_saved"] == pytest.approx(3.99e-3 / 100)
    assert report.stragglers["saved"].tolist() == pytest.approx([0, 99e-5 / 100, 0, 3.99e-3 / 100])
    assert report.stragglers["caused"].idxmax() == 1
    said = words.text(report)
    assert (
        "rank 3 costs most: last in 1 of 100, it causes 4.8 % of the tax; without it a collective begins 39.9" in said
    )
    assert "rank 1 is last in 99 of 100 (persistent, p < 0.0001)\n" in said
