"""Kernels that wait: known by name, found by how they behave, or between two ranks; and clocks that drift."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simulator import Columns
from simulator.tasks.trace_report import words
from simulator.traces.kernels import is_collective, operation
from tests.recorded import DLRM, MADE, Trace, analyse, collectives_of, dlrm, is_collective as is_nccl, job, kernel

ENGINE = MADE / "engine_collectives"
NAMES = sorted(path.name for path in (ENGINE / "names").iterdir())
SEND = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def events(folder: Path) -> dict[int, list[Trace]]:
    """The kernels of each rank."""
    traces = [json.loads(gzip.decompress(path.read_bytes())) for path in sorted(folder.glob("*.json.gz"))]
    return {trace["distributedInfo"]["rank"]: trace["traceEvents"] for trace in traces}


def renamed(source: Path, folder: Path, change: Callable[[int, Trace], None] = lambda rank, event: None) -> Path:
    """A copy in which all but the matrix multiplications is called k_17, k_18, ..., and says nothing of groups."""
    ranks, names = events(source), {}
    for rank, own in ranks.items():
        for event in own:
            if "gemm" not in event["name"]:
                event["name"] = names.setdefault(event["name"], f"k_{17 + len(names)}")
            event["args"] = {"stream": event["args"]["stream"]}
            change(rank, event)
    folder.mkdir(exist_ok=True)
    return job(folder, ranks)


def row_of(report: Any, **wanted: Any) -> dict[str, Any]:
    table = report.summary
    for name, value in wanted.items():
        table = table[table[name] == value]
    (row,) = table.to_dict("records")
    return row


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_kernels_of_engines_are_known(name: str) -> None:
    """Rank 2 is 300 us late before each of 12 kernels."""
    report = analyse(ENGINE / "names" / name)
    (row,) = report.summary.to_dict("records")
    assert row["tax_fastest_mean"] * 1e6 == pytest.approx(303.5, abs=0.05)
    assert (row["straggler"], row["straggler_repeat_rate"], row["collectives"], row["status"]) == (2, 1, 12, "ok")
    assert not report.waiting


@pytest.mark.parametrize(("folder", "what"), [("engine_allreduce", "all_reduce"), ("expert_dispatch", "all_to_all")])
def test_kernels_of_an_engine_beside_nccl_hold_the_straggler(folder: str, what: str) -> None:
    report = analyse(ENGINE / folder)
    row, gather = row_of(report, operation=what), row_of(report, operation="all_gather")
    assert row["tax_fastest_mean"] * 1e6 == pytest.approx(301.7, abs=0.05)
    assert (row["straggler"], row["straggler_repeat_rate"], row["collectives"], row["status"]) == (2, 1, 18, "ok")
    assert gather["tax_fastest_mean"] * 1e6 == pytest.approx(9.41, abs=0.005)


@pytest.mark.parametrize("beside", [True, False])
def test_what_waits_under_an_unknown_name_is_found_and_measured(beside: bool, tmp_path: Path) -> None:
    """The same kernels, called k_17; beside NCCL's, or alone."""
    source = ENGINE / "engine_allreduce"

    def keep_nccl(rank: int, event: Trace) -> None:
        event["name"] = "ncclDevKernel_AllGather_RING_LL()" if beside and event["name"] == "k_18" else event["name"]

    report = analyse(renamed(source, tmp_path / "a", keep_nccl))
    row = row_of(report, group="k_17")
    assert row["tax_fastest_mean"] * 1e6 == pytest.approx(301.7, abs=0.05)
    assert (row["straggler"], row["straggler_repeat_rate"], row["collectives"]) == (2, 1, 18)
    assert set(report.summary["status"]) == {"partial"}
    (found,) = report.waiting
    whole = [event for own in events(source).values() for event in own]
    share = sum(e["dur"] for e in whole if "Allreduce" in e["name"]) / sum(e["dur"] for e in whole)
    assert (found.name, found.ranks, found.share) == ("k_17", (0, 1, 2, 3), pytest.approx(share))
    said = f"k_17 looks like a collective: on 4 ranks it ends together where it starts apart; {100 * share:.1f} % of"
    assert said in words.text(report)
    assert "rank 2 is last in 18 of 18" in words.text(report)
    known = analyse(tmp_path / "a", collective_kernels=["k_17"])
    assert set(known.summary["status"]) == {"ok"}
    assert not known.waiting


@pytest.mark.sampled(2)
@pytest.mark.parametrize("source", [ENGINE / "expert_dispatch", ENGINE / "names" / "oneccl", MADE / "one_long_pause",
                                    MADE / "clock_drift" / "plain"])  # fmt: skip
def test_under_an_unknown_name_nobody_else_is_blamed(source: Path, tmp_path: Path) -> None:
    known, report = analyse(source), analyse(renamed(source, tmp_path / "a"))
    row = row_of(report, group="k_17")
    for name in ("tax_fastest_mean", "straggler", "straggler_repeat_rate", "costliest", "costliest_caused"):
        assert row[name] == pytest.approx(known.summary[name][0])
    assert set(report.summary["status"]) == {"partial"}
    assert [found.name for found in report.waiting] == ["k_17"]


@pytest.mark.slow
def test_collectives_of_a_real_job_are_found_without_their_names(tmp_path: Path) -> None:
    """Two kinds of collectives, of 5 and 3 kernels, among 988 kernels of 4 ranks: these, and nothing else."""

    def rename(rank: int, trace: Trace) -> Trace:
        for event in collectives_of(trace):
            event["name"] = "k_17" if "SendRecv" in event["name"] else "k_18"
        return trace

    report, known = analyse(dlrm(tmp_path, rename)), analyse(DLRM)
    assert [found.name for found in report.waiting] == ["k_17", "k_18"]
    assert not known.waiting
    same = ["tax_fastest", "tax_median", "straggler", "start"]
    ours = report.tax.sort_values("start", ignore_index=True)[same]
    pd.testing.assert_frame_equal(ours, known.tax[same])
    assert any(is_nccl(event) for own in events(DLRM).values() for event in own)


def steps(wait: str, ranks: int = 4, count: int = 40, late: float = 0.0, equal: bool = True, clock: Any = None,
          seed: int = 0) -> dict[int, list[Trace]]:  # fmt: skip
    """Work of about 1 ms, of which rank 1 has ``late`` us more, then a kernel that ends on all ranks at once."""
    generator, found, clock = np.random.default_rng(seed), {rank: [] for rank in range(ranks)}, clock or {}
    begin = np.zeros(ranks)
    for _ in range(count):
        gemm = 1000 + (10 if equal else 200) * generator.random(ranks)
        extra = 400 + late * (np.arange(ranks) == 1) + generator.random(ranks)
        arrival = begin + gemm + extra
        end = arrival.max() + 30 + generator.random(ranks)
        for rank, own in found.items():
            at = begin[rank] + clock.get(rank, 0.0)
            own.append(kernel("sm90_gemm", at, gemm[rank]))
            own.append(kernel("rms_norm", at + gemm[rank], extra[rank]))
            own.append(kernel(wait, at + gemm[rank] + extra[rank], end[rank] - arrival[rank]))
        begin = end + 1
    return found


@pytest.mark.sampled(12)
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("late", [0.0, 30.0, 300.0])
@pytest.mark.parametrize("clock", [{}, {0: 5e5, 2: -7e4}])
def test_work_is_never_taken_for_waiting(equal: bool, late: float, clock: Any, tmp_path: Path) -> None:
    """Equal or not, and with a rank that is always later in it: it ends as far apart as it starts, or further."""
    for seed in range(3):
        report = analyse(job(tmp_path, steps("k_17", late=late, equal=equal, clock=clock, seed=seed)))
        assert [(found.name, found.ranks) for found in report.waiting] == [("k_17", (0, 1, 2, 3))]
        if late == 300 or (late and equal):
            assert report.summary["straggler"].tolist() == [1]


def test_groups_of_ranks_that_wait_for_each_other_are_told_apart(tmp_path: Path) -> None:
    first, second = steps("k_17", ranks=2, late=200), steps("k_17", ranks=2, late=200, seed=1)
    report = analyse(job(tmp_path, {**first, **{rank + 2: own for rank, own in second.items()}}))
    assert sorted(found.ranks for found in report.waiting) == [(0, 1), (2, 3)]
    assert report.summary["group"].tolist() == ["k_17 of ranks 0, 1", "k_17 of ranks 2, 3"]
    assert report.summary["straggler"].tolist() == [1, 3]


def test_each_window_says_what_waits_in_it(tmp_path: Path) -> None:
    """The same kernel in two windows, in the second beside as much work again: half the share of the time."""
    paths = []
    for window, more in enumerate((0, 1)):
        for rank, own in steps("k_17", ranks=2, late=300, seed=window).items():
            extra = [kernel("sm90_gemm", event["ts"], event["dur"], stream=8) for event in own] * more
            about = {"rank": rank, "world_size": 2}
            paths.append(tmp_path / f"rank{rank}_step{window}.json")
            paths[-1].write_text(json.dumps({"distributedInfo": about, "traceEvents": own + extra}))
    report = analyse(tmp_path)
    assert [(found.where, found.name) for found in report.waiting] == [("window 1, ", "k_17"), ("window 2, ", "k_17")]
    first, second = (found.share for found in report.waiting)
    assert second == pytest.approx(first / 2, rel=0.2)
    said = words.text(report)
    looks = "k_17 looks like a collective: on 2 ranks it ends together where it starts apart"
    assert f"window 1, {looks}; {100 * first:.1f} % of the GPU time" in said
    assert f"window 2, {looks}; {100 * second:.1f} % of the GPU time" in said


def test_too_few_kernels_to_be_sure_are_said(tmp_path: Path) -> None:
    report = analyse(job(tmp_path, steps("k_17", ranks=2, count=4, late=300)))
    assert report.summary.empty
    assert "k_17 may wait for other ranks, by where it ends, but too seldom to be sure" in words.text(report)


def test_a_kernel_that_waits_in_part_is_a_doubt_and_no_straggler_is_certain(tmp_path: Path) -> None:
    """The standard deviation of starts is 60 us, of ends 29 us: three quarters of the squares are explained."""
    generator, ranks = np.random.default_rng(0), {rank: [] for rank in range(4)}
    for k in range(100):
        late, apart = 60 * generator.standard_normal(4), 50 * generator.uniform(-1, 1, 4)
        for rank, own in ranks.items():
            start, end = 3000 * k + late[rank], 3000 * k + 1000 + apart[rank]
            own.append(kernel("k_17", round(start, 3), round(end - start, 3)))
            own.append(kernel("ncclDevKernel_AllReduce()", 3000 * k + 2000 + rank, 100 - rank))
    report = analyse(job(tmp_path, ranks))
    assert [(found.name, found.ranks) for found in report.waiting] == [("k_17", ())]
    assert "k_17 may wait for other ranks, by where it ends, which is only in part" in words.text(report)
    assert report.summary["status"].tolist() == ["partial"]
    assert report.summary["reason"].tolist() == ["other kernels may be collectives, too"]


def test_a_name_that_hints_at_waiting_is_said_with_its_share(tmp_path: Path) -> None:
    ranks = {rank: [kernel(SEND.replace("SendRecv", "AllReduce"), 1000 * k, 100) for k in range(8)] for rank in (0, 1)}
    for rank, own in ranks.items():
        own += [kernel("void my::token_dispatch<4>(int)", 1000 * k + 300 + rank, 300) for k in range(8)]
    report = analyse(job(tmp_path, ranks))
    said = "my::token_dispatch may wait for other ranks, by its name; 75.0 % of the GPU time, counted as compute"
    assert said in words.text(report)
    assert report.summary["status"].tolist() == ["ok"]
    assert not any(found.hides for found in report.waiting)


def test_a_name_that_hints_at_waiting_takes_the_certainty_from_what_it_may_hide(tmp_path: Path) -> None:
    """Rank 1 is 400 us late at two dispatches, too few to see that they wait; AllReduces after them know nothing."""
    ranks = steps("my::token_dispatch", ranks=2, count=2, late=400)
    for rank, own in ranks.items():
        for k in range(8):
            own += [kernel("sm90_gemm", 5000 + 1000 * k, 500 - rank * k),
                    kernel("ncclDevKernel_AllReduce()", 5500 + 1000 * k - rank * k, 100 + rank * k)]  # fmt: skip
    report = analyse(job(tmp_path, ranks))
    assert [(found.name, found.ranks, found.hides) for found in report.waiting] == [("my::token_dispatch", (), True)]
    assert report.summary["status"].tolist() == ["partial"]
    assert report.summary["reason"].tolist() == ["other kernels may be collectives, too"]
    assert "compute" not in report.explanation["cause"].tolist()
    assert "counted as compute, so that it may hide a straggler" in words.text(report)


@pytest.mark.parametrize("name", [
    "triton_poi_fused_all_reduce_wait_tensor_3", "void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*)",
    "void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<int>>(int)", "sm90_xmma_gemm_bf16",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)", "flash_fwd_splitkv_combine_kernel",
])  # fmt: skip
def test_local_kernels_are_no_collectives(name: str) -> None:
    assert not is_collective(name)


def test_what_a_kernel_is_said_to_do_counts_more_than_its_name(tmp_path: Path) -> None:
    about = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": 2}
    ranks = {rank: [kernel("my_kernel", 1000 * k, 100 + rank, **about) for k in range(4)] for rank in (0, 1)}
    (row,) = analyse(job(tmp_path, ranks)).summary.to_dict("records")
    assert (row["operation"], row["collectives"], row["status"]) == ("all_reduce", 4, "ok")


@pytest.mark.parametrize(("folder", "neighbours"), [
    ("pipeline", [(0, 1), (1, 2), (2, 3)]),
    ("pipeline_1f1b", [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]),
])  # fmt: skip
def test_a_pipeline_has_no_tax_but_waits_of_its_pairs(folder: str, neighbours: list[tuple[int, int]]) -> None:
    report = analyse(MADE / "pipeline" / folder)
    assert report.summary["status"].tolist() == ["refused", "refused"]
    assert report.tax.empty
    assert list(zip(report.pairs["sender"], report.pairs["receiver"], strict=True)) == neighbours
    assert report.pairs["transfers"].tolist() == [16] * len(neighbours)
    said = words.text(report)
    assert "is last" not in said
    assert "clock" not in said
    assert f"no tax can be given; waits of {len(neighbours)} pairs of ranks" in said


def test_the_waits_of_a_pair_are_how_much_longer_its_kernels_are() -> None:
    """In forward passes the k-th send of a stage is the k-th receive of the next."""
    report = analyse(MADE / "pipeline" / "pipeline").pairs.set_index(["sender", "receiver"])
    ranks = events(MADE / "pipeline" / "pipeline")
    for stage in range(3):
        sends = [e["dur"] for e in ranks[stage] if e["args"].get("Collective name") == "send"]
        receives = [e["dur"] for e in ranks[stage + 1] if e["args"].get("Collective name") == "recv"]
        longer = np.subtract(receives, sends)
        row = report.loc[stage, stage + 1]
        assert row["receiver_wait_mean"] * 1e6 == pytest.approx(np.maximum(longer, 0).mean())
        assert row["sender_wait_mean"] * 1e6 == pytest.approx(np.maximum(-longer, 0).mean())


def test_pairs_that_the_trace_names_need_no_common_clock(tmp_path: Path) -> None:
    def transfer(what: str, k: int, start: float, length: float, peer: int) -> Trace:
        about = {"Collective name": what, "Process Group Name": "pp", "Group size": 2, "Src Rank": 0, "Dst Rank": 1}
        assert peer in (0, 1)
        return kernel(SEND, 1000 * k + start, length, stream=20, **about)

    ranks = {0: [transfer("send", k, 300, 40, 1) for k in range(4)],
             1: [transfer("recv", k, 7e6 + 10 * k, 90, 0) for k in range(4)]}  # fmt: skip
    (row,) = analyse(job(tmp_path, ranks)).pairs.to_dict("records")
    assert (row["sender"], row["receiver"], row["transfers"]) == (0, 1, 4)
    assert row["receiver_wait_mean"] == pytest.approx(50e-6)


def test_a_pipeline_whose_kernels_do_not_say_what_they_do_is_no_collective(tmp_path: Path) -> None:
    """Stages in the middle have twice as many; a periodic pipeline matches itself under a shift of the clock."""

    def keep(rank: int, event: Trace) -> None:
        event["name"] = SEND if event["name"] == "k_17" else event["name"]

    report = analyse(renamed(MADE / "pipeline" / "pipeline", tmp_path / "a", keep))
    (row,) = report.summary.to_dict("records")
    assert (row["operation"], row["status"]) == ("send_recv", "refused")
    assert "ranks have from 16 to 32 of them" in row["reason"]
    unknown = analyse(renamed(MADE / "pipeline" / "pipeline", tmp_path / "b"))
    assert "k_17 looks like communication between ranks" in words.text(unknown)
    assert set(unknown.summary["status"]) == {"refused"}


def test_sends_and_receives_are_told_from_exchanges() -> None:
    assert [operation(name) for name in ("send", "recv", "sendrecv", SEND)] == ["send", "recv", *2 * ["send_recv"]]


DRIFTS = [MADE / "clock_drift" / name for name in ("plain", "with_sequence_numbers")]


@pytest.mark.parametrize("folder", DRIFTS)
def test_a_clock_that_drifts_is_said_and_costs_nothing(folder: Path) -> None:
    """Rank 3 gains 20 ppm over 200 collectives in 20 s; rank 2 is late in all."""
    report = analyse(folder)
    (row,) = report.summary.to_dict("records")
    assert (row["collectives"], row["status"]) == (200, "ok")
    assert row["tax_fastest_mean"] * 1e3 == pytest.approx(3.293, abs=5e-4)
    assert (row["straggler"], row["straggler_repeat_rate"]) == (2, 1)
    assert row["reason"] == "clock of rank 3 drifts by 20 ppm"
    assert row["end_spread_max"] < 10e-6


@pytest.mark.sampled(4)
@pytest.mark.parametrize("folder", DRIFTS)
@pytest.mark.parametrize("drifting", [0, 3])
def test_a_clock_that_drifts_and_lost_kernels_together(folder: Path, drifting: int, tmp_path: Path) -> None:
    """Whichever rank's clock it is, the first one's too, whose clock the others are held against."""
    ranks = {(3 - other if drifting == 0 else other): own for other, own in events(folder).items()}
    late = 1 if drifting == 0 else 2
    nccl = [event for event in ranks[1] if "nccl" in event["name"]]
    gone = {id(event) for event in nccl[90:95]}
    ranks[1] = [event for event in ranks[1] if id(event) not in gone]
    (row,) = analyse(job(tmp_path, ranks)).summary.to_dict("records")
    assert (row["collectives"], row["status"], row["straggler"]) == (195, "partial", late)
    assert f"clock of rank {drifting} drifts by 20 ppm" in row["reason"]
    assert row["straggler_repeat_rate"] == 1


@pytest.mark.parametrize("drift", [0.0, 60e-6])
def test_different_windows_of_a_periodic_job_are_not_matched_under_some_clock(drift: float, tmp_path: Path) -> None:
    """Steps of 1 ms that vary by 20 us: of two windows most ends agree within 100 us, under some clock."""
    generator = np.random.default_rng(0)
    ranks = {}
    for rank in range(2):
        ends = np.cumsum(1000 + 20 * generator.standard_normal(200)) * (1 + drift * rank) + 1e6 * rank
        ranks[rank] = [kernel("ncclDevKernel_AllReduce()", round(end - 50, 3), 50) for end in ends]
    (row,) = analyse(job(tmp_path, ranks)).summary.to_dict("records")
    assert (row["status"], row["collectives"]) == ("refused", 0)


def test_a_clock_that_drifts_in_a_table_is_said(tmp_path: Path) -> None:
    """The same collectives as a table of starts and durations."""
    rows = []
    for rank, own in events(DRIFTS[0]).items():
        nccl = [event for event in own if "nccl" in event["name"]]
        rows += [(rank, step, "ar", event["ts"] - 1.7e15, event["dur"]) for step, event in enumerate(nccl)]
    columns = ["rank", "step", "op", "start", "duration"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "t.csv", index=False)
    table = Columns(operation="op", start="start", unit=1e-6, collectives={"all_reduce": ["ar"]})
    (row,) = analyse(tmp_path / "t.csv", table=table).summary.to_dict("records")
    assert (row["collectives"], row["status"]) == (200, "ok")
    assert row["tax_fastest_mean"] * 1e3 == pytest.approx(3.293, abs=5e-4)
    assert row["reason"] == "clock of rank 3 drifts by 20 ppm"


def test_where_numbers_tell_the_pairs_a_clock_may_be_unsteady(tmp_path: Path) -> None:
    """Rank 3's clock is set back by 5 ms in the middle, and gains 100 ppm from there on, beside its 20 ppm."""
    ranks = events(MADE / "clock_drift" / "with_sequence_numbers")
    middle = sorted(event["ts"] for event in ranks[3])[800 // 4]
    for event in ranks[3]:
        event["ts"] += (event["ts"] > middle) * (100e-6 * (event["ts"] - middle) - 5000)
    (row,) = analyse(job(tmp_path, ranks)).summary.to_dict("records")
    assert (row["collectives"], row["status"], row["straggler"]) == (200, "ok", 2)
    assert row["tax_fastest_mean"] * 1e3 == pytest.approx(3.293, abs=5e-4)
    assert row["reason"].startswith("clock unsteady of rank 3 (")


def test_numbers_that_are_off_by_some_are_not_believed(tmp_path: Path) -> None:
    """Rank 1 counts three more collectives than the others."""
    generator = np.random.default_rng(0)
    ends = np.cumsum(1000 + 30 * generator.standard_normal(200)).round(3)
    ranks = {rank: [collective(end, rank, k + 3 * rank) for k, end in enumerate(ends)] for rank in range(2)}
    (row,) = analyse(job(tmp_path, ranks)).summary.to_dict("records")
    assert (row["collectives"], row["status"]) == (200, "ok")
    assert row["tax_fastest_mean"] == pytest.approx(10e-6)


def collective(end: float, rank: int, number: int) -> Trace:
    about = {"Process Group Name": "0", "Group size": 2, "Seq": number}
    return kernel("ncclDevKernel_AllReduce()", round(end - 50 - 10 * rank, 3), 50 + 10 * rank, **about)


@pytest.mark.parametrize("apart", ["calls", "ranks"])
def test_kernels_numbered_otherwise_are_taken_for_one(apart: str, tmp_path: Path) -> None:
    """Each call, or each rank, has a number of its own in the name: k_31, k_87, ..."""
    ranks = events(ENGINE / "names" / "oneccl")
    for rank, own in ranks.items():
        waiting = [event for event in sorted(own, key=lambda event: event["ts"]) if "gemm" not in event["name"]]
        for call, event in enumerate(waiting):
            event["name"] = f"k_{100 * rank + 7 if apart == 'ranks' else 31 * call % 53}"
            event["args"] = {"stream": event["args"]["stream"]}
    report = analyse(job(tmp_path, ranks))
    (row,) = report.summary.to_dict("records")
    assert (row["group"], row["collectives"], row["straggler"], row["status"]) == ("k_#", 12, 2, "partial")
    assert row["tax_fastest_mean"] * 1e6 == pytest.approx(303.5, abs=0.05)
    assert len(report.blocks) == 11 * 4
    assert "k_# looks like a collective" in words.text(report)


def many(ranks: int, names: int, count: int, group: int, seed: int = 0) -> dict[int, list[Trace]]:
    """Unequal work of many names, each a wait of its own, then a kernel that groups of ranks leave together."""
    generator, begin, found = np.random.default_rng(seed), np.zeros(ranks), {rank: [] for rank in range(ranks)}
    for _ in range(count):
        for name in range(names):
            length = 100 * generator.gamma(4, 0.25, ranks)
            for rank, own in found.items():
                own.append(kernel(f"work_{'abcdefghij'[name]}", begin[rank], length[rank]))
            begin = begin + length + 1
        end = np.repeat(begin.reshape(-1, group).max(axis=1), group) + 20 + generator.random(ranks)
        for rank, own in found.items():
            own.append(kernel("k_17", begin[rank], end[rank] - begin[rank]))
        begin = end + 1
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("count", "group"), [(3, 32), (12, 32), (20, 4)])
def test_of_many_ranks_none_are_found_by_chance(count: int, group: int, tmp_path: Path) -> None:
    """Out of 32 ranks some always look alike in a few kernels; each rank has as much to do in the mean."""
    found = analyse(job(tmp_path, many(32, 10, count, group))).waiting
    assert {one.name for one in found} == {"k_17"}
    assert [one.ranks for one in found] == [tuple(range(at, at + group)) for at in range(0, 32, group)]


def test_a_pipeline_under_clocks_that_are_off_has_no_tax(tmp_path: Path) -> None:
    """Its stages have 16 and 32 kernels; those with equally many seem to end together under some clock."""

    def shift(rank: int, event: Trace) -> None:
        event["ts"] += [0, 5e3, -3e3, 1e6][rank]

    report = analyse(renamed(MADE / "pipeline" / "pipeline", tmp_path / "a", shift))
    assert set(report.summary["status"]) == {"refused"}
    assert "looks like communication between ranks" in words.text(report)


def stages(ranks: int, chunks: int, batches: int, clock: Any = None) -> dict[int, list[Trace]]:
    """A pipeline in which each rank has ``chunks`` stages of 500 us, and kernels do not say whether they send."""
    found: dict[int, list[Trace]] = {rank: [] for rank in range(ranks)}
    clock, free, ready = clock or [0.0] * ranks, [0.0] * ranks, {}
    order = sorted(
        ((batch // ranks * chunks + stage // ranks) * ranks + batch % ranks + stage % ranks, batch, stage)
        for batch in range(batches)
        for stage in range(ranks * chunks)
    )
    generator = np.random.default_rng(0)
    for _, batch, stage in order:
        rank, before = stage % ranks, (stage - 1) % ranks
        if stage:
            sent = ready[stage - 1, batch]
            end = max(free[rank], sent) + 40
            found[rank].append(kernel(SEND, free[rank] + clock[rank], end - free[rank], stream=20))
            found[before].append(kernel(SEND, sent + clock[before], end - sent + generator.random(), stream=20))
            free[rank] = end
        length = 500 + 5 * generator.standard_normal()
        found[rank].append(kernel("sm90_gemm", free[rank] + clock[rank], length))
        free[rank] = ready[stage, batch] = free[rank] + length
    return found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("clock", [None, [0, 5e3, -3e3, 1e6]])
@pytest.mark.parametrize("name", [SEND, "k_17"])
@pytest.mark.parametrize("chunks", [2, 4, 8])
def test_a_pipeline_of_several_stages_for_each_rank_is_no_collective(
    chunks: int, name: str, clock: Any, tmp_path: Path
) -> None:
    """The first and the last rank have one send, or receive, in twice the number of chunks fewer."""
    ranks = stages(4, chunks, 24, clock)
    for event in (event for own in ranks.values() for event in own if event["name"] == SEND):
        event["name"] = name
    report = analyse(job(tmp_path, ranks))
    assert set(report.summary["status"]) <= {"refused"}
    assert "is last" not in words.text(report)


def test_of_two_ranks_a_send_cannot_be_told_from_an_exchange(tmp_path: Path) -> None:
    (row,) = analyse(job(tmp_path, stages(2, 1, 64))).summary.to_dict("records")
    assert row["status"] == "partial"
    assert row["reason"] == "may be a send and its receive, where one waits for the other, not an exchange"
