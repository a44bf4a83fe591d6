"""Tables of operations with start times: what was between collectives, ends that differ a little, and small reports.

The tables are made by hand, so that every value below is a sum of a few of their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simulator import Columns
from simulator.checks import InputError
from simulator.tasks.fit.steps import steps_of
from simulator.tasks.fit.task import doubts
from simulator.tasks.trace_report import words
from simulator.tasks.trace_report.sizes import tax_by_size
from simulator.traces.findings import Findings
from simulator.traces.summary import summarise
from tests.recorded import analyse, job, kernel

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
Row = tuple[int, int, str, float, float]  # rank, step, operation, start, duration; ms


def report(folder: Path, rows: Sequence[Row], **columns: Any) -> Findings:
    """Of a table in milliseconds, of an all_reduce after two kinds of compute."""
    table = pd.DataFrame(rows, columns=["rank", "step", "what", "start", "duration"])
    table.sample(frac=1, random_state=0).to_csv(folder / "t.csv", index=False)  # the order of rows says nothing
    known = {
        "operation": "what", "start": "start", "unit": 1e-3, "collectives": {"all_reduce": ["wait"]},
        "computes": {"forward": ["fwd"], "backward": ["bwd"]},
    }  # fmt: skip
    return analyse(folder / "t.csv", table=Columns(**{**known, **columns}))


def iteration(step: int, begin: float) -> list[Row]:
    """Rank 0 computes for 3 + 5 ms with pauses of 1 and 2 ms, rank 1 for 4 + 6 ms with pauses of 2 and 3 ms."""
    return [
        (0, step, "fwd", begin + 0, 3), (0, step, "bwd", begin + 4, 5), (0, step, "wait", begin + 11, 9),
        (1, step, "fwd", begin + 0, 4), (1, step, "bwd", begin + 6, 6), (1, step, "wait", begin + 15, 5),
    ]  # fmt: skip


@pytest.mark.parametrize("again", [False, True], ids=["one clock", "times begin anew with each step"])
def test_gaps_are_the_time_between_collectives(again: bool, tmp_path: Path) -> None:
    found = report(tmp_path, [row for step in range(4) for row in iteration(step, 0 if again else 22 * step)])
    gap = found.blocks.set_index(["block", "instance", "rank"])["gap"].unstack() * 1e3
    idle = 0 if again else 2  # each collective ends at 20, and the next step begins at 22
    assert gap.loc[("forward", 0)].tolist() == pytest.approx([3, 4])
    assert gap.loc[("forward", 2)].tolist() == pytest.approx([3 + idle, 4 + idle])
    assert gap.loc[("backward", 2)].tolist() == pytest.approx([1 + 5 + 2, 2 + 6 + 3])  # up to the collective's start
    between = steps_of(summarise(found), measure="gap", group=None, block=None, relative=False)[0]
    assert between.times[2] * 1e3 == pytest.approx([11 + idle, 15 + idle])
    busy = steps_of(summarise(found), measure="busy", group=None, block=None, relative=False)[0]
    assert busy.times[2] * 1e3 == pytest.approx([8, 10])
    (row,) = found.explanation.to_dict("records")
    assert (row["busy_spread"] * 1e3, row["idle_spread"] * 1e3) == pytest.approx((2, 2))  # 4 ms of tax: 2 are work


def test_compute_that_overlaps_counts_once(tmp_path: Path) -> None:
    rows = [(rank, 0, what, start, length) for rank in (0, 1)
            for what, start, length in [("fwd", 0, 8), ("bwd", 2, 4), ("wait", 10, 5)]]  # fmt: skip
    gap = report(tmp_path, rows).blocks.groupby("rank")["gap"].sum() * 1e3
    assert gap.tolist() == pytest.approx([10, 10])


def test_what_lies_between_compute_and_the_collective_is_said(tmp_path: Path) -> None:
    """Ranks wait 4 ms in the collective that is named, and come to it 40 ms after their compute."""
    rows = [
        (rank, step, what, 100 * step + start, length)
        for step in range(3) for rank in (0, 1)
        for what, start, length in [("fwd", 0, 10), ("bwd", 10, 10), ("wait", 60 + 4 * rank, 9 - 4 * rank)]
    ]  # fmt: skip
    (row,) = report(tmp_path, rows).summary.to_dict("records")
    assert row["status"] == "ok"
    assert row["reason"] == "ranks come to it 42 ms after the end of their compute, and may wait in between"
    assert report(tmp_path, [r for s in range(3) for r in iteration(s, 22 * s)]).summary["reason"].tolist() == [""]


# Ends that differ by part of the tax


APART = (1, -0.6, 0.3, -0.9, 0.5, -1, 0.7, -0.2, 0.8, -0.4)  # no clock is off like that


def late(off: float) -> list[list[tuple[float, float]]]:
    """Starts and ends by collective and rank, ms: rank 1 is 50 ms late, and leaves up to ``off`` before or after."""
    return [
        [(200.0 * k, 200.0 * k + 70), (200.0 * k + 50, 200.0 * k + 70 + off * apart)] for k, apart in enumerate(APART)
    ]


@pytest.mark.parametrize(("off", "status"), [(0.05, "ok"), (0.4, "ok"), (2.5, "refused")])
def test_ends_may_differ_by_a_hundredth_of_the_tax(off: float, status: str, tmp_path: Path) -> None:
    said = "ends differ by up to 1 % of the tax: durations need no clocks"
    rows = [(rank, step, "wait", start, end - start)
            for step, own in enumerate(late(off)) for rank, (start, end) in enumerate(own)]  # fmt: skip
    events = {rank: [kernel(ALL_REDUCE, 1e3 * own[rank][0], 1e3 * (own[rank][1] - own[rank][0]))
                     for own in late(off)] for rank in (0, 1)}  # fmt: skip
    for found in (report(tmp_path, rows, computes=None), analyse(job(tmp_path, events))):
        (row,) = found.summary.to_dict("records")
        assert row["status"] == status
        if status == "ok":
            assert (row["collectives"], row["straggler"], row["straggler_repeat_rate"]) == (10, 1, 1.0)
            assert row["tax_fastest_mean"] * 1e3 == pytest.approx(50 - off * np.mean(APART))
            assert row["reason"] == (said if off > 0.1 else "")
        else:
            assert "ends do not agree" in row["reason"]


def test_kernels_close_to_each_other_are_not_taken_for_one_another(tmp_path: Path) -> None:
    """Ends differ by 0.4 ms, 1 % of the tax, but another kernel ends 0.5 ms later: 0.2 may be told apart."""
    events = {rank: [event for own in late(0.4) for start, end in [own[rank]]
                     for event in (kernel(ALL_REDUCE, 1e3 * start, 1e3 * (end - start)),
                                   kernel(ALL_REDUCE, 1e3 * end + 100, 400))] for rank in (0, 1)}  # fmt: skip
    found = analyse(job(tmp_path, events))
    assert found.summary["status"].item() == "partial"
    assert found.tax["end_spread"].max() < 0.25e-3
    long = found.tax["duration_max"] > 1e-3
    assert (found.tax["duration_min"][long] > 1e-3).all()


def test_one_long_pause_makes_no_end_agree(tmp_path: Path) -> None:
    """Ends that differ by 5 % of the tax are refused, also where one of ten taxes is 20 s."""
    ends = late(2.5)
    ends[3] = [(start - 20e3 * (rank == 0), end) for rank, (start, end) in enumerate(ends[3])]
    rows = [(rank, step, "wait", start, end - start)
            for step, own in enumerate(ends) for rank, (start, end) in enumerate(own)]  # fmt: skip
    events = {rank: [kernel(ALL_REDUCE, 1e3 * (2e4 + own[rank][0]), 1e3 * (own[rank][1] - own[rank][0]))
                     for own in ends]
              for rank in (0, 1)}  # fmt: skip
    for found in (report(tmp_path, rows, computes=None), analyse(job(tmp_path, events))):
        assert found.summary["status"].tolist() == ["refused"]


def test_starts_since_1970_in_nanoseconds_are_exact(tmp_path: Path) -> None:
    base = 1_764_590_400_123_456_789
    rows = [(rank, step, what, base + 10**6 * start, 10**6 * length) for step in range(3)
            for rank, _, what, start, length in map(whole, iteration(step, 22 * step))]  # fmt: skip
    (row,) = report(tmp_path, rows, unit=1e-9).summary.to_dict("records")
    assert (row["end_spread_max"], row["status"]) == (0.0, "ok")


def whole(row: Row) -> tuple[int, int, str, int, int]:
    return row[0], row[1], row[2], int(row[3]), int(row[4])


# Several barriers in a step, and rows that are missing


def layers(folder: Path, names: bool = False, **columns: Any) -> Findings:
    """Thirty steps of 2 layers: rank 1 is 1 ms late in the first, rank 0 by 3 ms in the second, and more by and by."""
    rows = [
        (rank, step, f"{what}{layer}" if names else what, layer, length)
        for step in range(30) for layer in (0, 1) for rank in (0, 1)
        for what, length in [("fwd", 8 + (1 + 2 * layer + step / 100) * (rank != layer)),
                             ("wait", 1 + (1 + 2 * layer + step / 100) * (rank == layer))]
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["rank", "step", "what", "layer", "duration"])
    table.to_csv(folder / "t.csv", index=False)
    known = {"operation": "what", "unit": 1e-3, "collectives": {"all_reduce": ["wait"]}, "computes": {"f": ["fwd"]}}
    return analyse(folder / "t.csv", table=Columns(**{**known, **columns}))


def test_blocks_go_with_the_barrier_of_their_instance(tmp_path: Path) -> None:
    found = layers(tmp_path, instance="layer")
    (row,) = found.explanation.to_dict("records")
    assert row["busy_correlation"] == pytest.approx(1)
    assert row["cause"] == "compute"
    for measure in ("busy", "arrival"):
        (steps,) = steps_of(summarise(found), measure=measure, group=None, block=None, relative=False)
        assert steps.times.shape == (60, 2)
        assert steps.times.mean() * 1e3 == pytest.approx(8 + (2 + 0.145) / 2)  # of one layer
        assert steps.tax * 1e3 == pytest.approx((2 + 0.145) / 2)


def test_barriers_that_blocks_cannot_be_told_to_are_said(tmp_path: Path) -> None:
    ways = {"collectives": {"a": ["wait0"], "b": ["wait1"]}, "computes": {"f": ["fwd0"], "g": ["fwd1"]}}
    summary = summarise(layers(tmp_path, names=True, **ways))
    assert "all ranks has 2 barriers in a step".replace("all ranks", "group 0") in " ".join(doubts(summary))
    assert list(doubts(summarise(layers(tmp_path, instance="layer")))) == []


@pytest.mark.parametrize(("lost", "status", "reason", "blocks"), [
    (lambda row: row[0] == 1 and row[2] == "wait", "refused", "rank 1 of the table: no row of it", 0),
    (lambda row: row[0] == 1 and row[2] != "wait", "partial", "16 compute blocks are left out", 0),
    (lambda row: row[:3] == (1, 3, "wait"), "partial", "7 of 8 are on every rank; 4 compute blocks are left out", 6),
    (lambda row: row[:3] == (0, 3, "fwd"), "partial", "4 compute blocks are left out: rows of some rank", 6),
])  # fmt: skip
def test_rows_that_are_missing_make_no_gap(lost: Any, status: str, reason: str, blocks: int, tmp_path: Path) -> None:
    found = report(tmp_path, [row for step in range(8) for row in iteration(step, 22 * step) if not lost(row)])
    (row,) = found.summary.to_dict("records")
    assert row["status"] == status
    assert row["reason"].startswith(reason)
    assert found.blocks["instance"].nunique() == blocks
    if blocks:
        gap = found.blocks.groupby(["block", "rank"])["gap"].max() * 1e3
        assert gap.max() == pytest.approx(2 + 6 + 3)


@pytest.mark.parametrize("key", [{"ranks": [0]}, {"window": 1}, {"gloo": True}, {"collective_kernels": ["k"]}], ids=str)
def test_a_key_of_traces_is_refused_for_a_table(key: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("rank,step,wait\n")
    with pytest.raises(InputError, match=f"^{next(iter(key))} must be left out for a table"):
        analyse(tmp_path / "t.csv", table=Columns(collectives={"a": "wait"}), **key)


# Fewer ranks, and a first instance that stands alone


def waits(folder: Path, late: Sequence[Sequence[float]]) -> Findings:
    """Of collectives to which ranks come so many ms late."""
    rows = [(rank, step, "wait", 0.0, max(own) - x + 1) for step, own in enumerate(late) for rank, x in enumerate(own)]
    return report(folder, rows, start=None, computes=None)


def test_what_fewer_ranks_would_pay_is_the_mean_over_subsets(tmp_path: Path) -> None:
    """Ranks come at 1, 2 and 6 ms: two of them wait until 2, 6 or 6, three until 6; they come at 3 in the mean."""
    found = waits(tmp_path, [[1, 2, 6]])
    sizes = tax_by_size(found.groups)
    assert sizes["n"].tolist() == [2, 3]
    assert (sizes["tau"] * 1e3).tolist() == pytest.approx([14 / 3 - 3, 6 - 3])
    assert "mean wait, were there fewer ranks     n = 2     n = 3" in words.text(found)
    pairs = waits(tmp_path, [[1, 2]])
    assert (tax_by_size(pairs.groups)["tau"] * 1e3).tolist() == pytest.approx([0.5])
    assert "were there fewer ranks" not in words.text(pairs)


def test_what_fewer_ranks_would_pay_has_an_interval(tmp_path: Path) -> None:
    """Arrivals of exponential laws of mean 1 ms: two of them wait 1/2, eight 1 + ... + 1/8 - 1 = 1.718 ms."""
    found = tax_by_size(waits(tmp_path, np.random.default_rng(5).exponential(size=(300, 8)).tolist()).groups)
    table = found.set_index("n")
    for n, truth in ((2, 0.5e-3), (4, (1 / 2 + 1 / 3 + 1 / 4) * 1e-3), (8, 1.717857e-3)):
        assert table.loc[n, "low"] < truth < table.loc[n, "high"]
        assert table.loc[n, "high"] - table.loc[n, "low"] < 0.25 * truth


def test_a_first_instance_that_stands_alone_is_named_and_medians_stand_beside_means(tmp_path: Path) -> None:
    rows = [(rank, step, what, 0.0, length) for step in range(9) for rank in (0, 1)
            for what, length in [("fwd", 91 if step == 0 else 1 + step / 100), ("wait", 2 + rank)]]  # fmt: skip
    found = report(tmp_path, rows, start=None, computes={"forward": ["fwd"]})
    said = words.text(found)
    assert "forward: the first of 9 takes 91.00 ms, the median of the others 1.045 ms" in said
    assert "all_reduce: the first of" not in said
    (block,) = found.block_summary.to_dict("records")
    assert block["busy_p50"] * 1e3 == pytest.approx(1.05)
    assert block["busy_mean"] * 1e3 == pytest.approx(np.mean([91, *(1 + np.arange(1, 9) / 100)]))
