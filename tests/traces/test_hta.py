"""HolisticTraceAnalysis, another reader of profiler traces, finds in exported traces what was simulated.

It has no tax; what it has are kernel durations, and how long a GPU computes, communicates, does both or neither.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simulator import Experiment
from simulator.workload.training import DataParallel, TensorParallel
from tests.conftest import paper_job
from tests.recorded import DLRM, Trace, analyse, collectives_of, dlrm
from tests.tasks.test_simulate_export import exported, kernels, tp_dp_overlap

pytestmark = [pytest.mark.hta, pytest.mark.filterwarnings("ignore")]
EXACT = 5e-3  # us: two ends of a duration on the grid of nanoseconds, and sums of doubles
BULK = paper_job(workload=TensorParallel(layers=10, bytes=2**28), iterations=3, traces_iterations=2)
JOBS = {
    "bulk": BULK,
    "buckets": replace(BULK, workload=DataParallel(bytes=2**34, buckets=8)),
    "mesh": replace(BULK, n=16, workload=tp_dp_overlap()),
}
EVERY = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)


def opened(folder: Path, *, rounding: bool = False) -> Any:
    """Traces in HolisticTraceAnalysis, with all their steps; by default it leaves out the last.

    Args:
        folder: one file per rank.
        rounding: whether it may move the ends of kernels to whole microseconds inside them, as it does by default.
    """
    pytest.importorskip("hta")
    from hta.configs.env_options import HTAEnvOptions
    from hta.trace_analysis import TraceAnalysis

    HTAEnvOptions.instance().set_disable_ns_rounding(not rounding)
    return TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=True)


def covered(spans: pd.DataFrame) -> list[tuple[float, float]]:
    """The union of intervals, us."""
    union: list[tuple[float, float]] = []
    for begin, end in sorted(zip(spans["begin"] * 1e6, spans["end"] * 1e6, strict=True)):
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((begin, end))
    return union


def length(union: list[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in union)


def simulated(job: Experiment) -> pd.DataFrame:
    """Per rank, us: time in which the GPU computes, communicates only, is idle; and both at once over communicating."""
    rows = []
    for rank, own in kernels(job).groupby("rank"):
        computes = own["operation"].isin(job.program.computes)
        compute, communication, either = covered(own[computes]), covered(own[~computes]), covered(own)
        span = either[-1][1] - either[0][0]
        both = length(compute) + length(communication) - length(either)
        rows.append({
            "rank": rank, "idle_time(us)": span - length(either), "compute_time(us)": length(compute),
            "non_compute_time(us)": length(either) - length(compute), "kernel_time(us)": span,
            "overlap": 100 * both / length(communication),
        })  # fmt: skip
    return pd.DataFrame(rows)


@EVERY
def test_its_temporal_breakdown_is_what_was_simulated(job: Experiment, tmp_path: Path) -> None:
    found = opened(exported(job, tmp_path)).get_temporal_breakdown(visualize=False).sort_values("rank")
    expected = simulated(job)
    for column in expected.columns.drop("overlap"):
        np.testing.assert_allclose(found[column], expected[column], rtol=0, atol=EXACT * len(job.program.operations))


@EVERY
def test_its_overlap_is_what_was_simulated(job: Experiment, tmp_path: Path) -> None:
    found = opened(exported(job, tmp_path)).get_comm_comp_overlap(visualize=False).sort_values("rank")
    expected = simulated(job)["overlap"]
    np.testing.assert_allclose(found["comp_comm_overlap_pctg"], expected, rtol=0, atol=0.00501)  # it rounds to 0.01 %
    assert (expected.max() > 5) == (job is JOBS["buckets"])


@EVERY
def test_its_kernels_are_ours(job: Experiment, tmp_path: Path) -> None:
    analysis, expected = opened(exported(job, tmp_path)), kernels(job)
    for rank in range(job.n):
        trace = analysis.t.get_trace(rank)
        own = trace[trace["stream"] >= 0].sort_values("correlation")
        ours = expected[expected["rank"] == rank].reset_index(drop=True)
        ours["place"] = ours.groupby("operation").cumcount()  # the iteration
        ours = ours.sort_values(["place", "operation"])
        assert len(own) == 2 * len(job.program.operations)
        np.testing.assert_allclose(own["dur"], (ours["end"] - ours["begin"]) * 1e6, rtol=0, atol=EXACT)
        assert sorted(own["iteration"].unique()) == [0, 1]


def test_its_communication_time_is_that_of_our_tables(tmp_path: Path) -> None:
    """Bulk-synchronous: time in collectives from our report's taxes, compute from its blocks and the first block."""
    folder = exported(BULK, tmp_path)
    findings, analysis = analyse(folder), opened(folder)
    _, by_kernel = analysis.get_gpu_kernel_breakdown(visualize=False)
    communication = by_kernel[by_kernel["kernel_type"] == "COMMUNICATION"]["sum (us)"].sum()
    tax = findings.tax
    assert communication == pytest.approx((8 * (tax["duration_min"] + tax["tax_mean"])).sum() * 1e6, abs=EXACT)
    compute = by_kernel[by_kernel["kernel_type"] == "COMPUTATION"].set_index("rank")["sum (us)"]
    first = kernels(BULK).groupby("rank")["end"].min() * 1e6
    ours = findings.blocks.groupby("rank")["busy"].sum() * 1e6 + first
    np.testing.assert_allclose(compute.sort_index(), ours, rtol=0, atol=EXACT)


def test_with_its_own_rounding_kernels_lose_less_than_two_microseconds(tmp_path: Path) -> None:
    folder = exported(BULK, tmp_path)
    rounded, exact = opened(folder, rounding=True), opened(folder)
    for rank in range(8):
        lost = exact.t.get_trace(rank)["dur"] - rounded.t.get_trace(rank)["dur"]
        assert lost.between(0, 2, inclusive="left").all()
    found = rounded.get_temporal_breakdown(visualize=False)
    expected = simulated(BULK)
    operations = 2 * len(BULK.program.operations)
    np.testing.assert_allclose(found["compute_time(us)"], expected["compute_time(us)"], rtol=0, atol=operations)


def renamed(rank: int, trace: Trace) -> Trace:
    for event in collectives_of(trace):
        event["name"] = event["name"].replace("ncclKernel_", "ncclDevKernel_")
    return trace


def test_kernels_of_newer_libraries_have_a_straggler_here_and_none_there(tmp_path: Path) -> None:
    """Its straggler analysis knows collectives by ``ncclKernel`` alone; newer NCCL says ``ncclDevKernel``."""
    (tmp_path / "renamed").mkdir()
    newer = dlrm(tmp_path / "renamed", renamed)
    assert opened(DLRM).get_potential_stragglers() == [2, 6]
    with pytest.raises(ValueError, match="argmax of an empty sequence"):
        opened(newer).get_potential_stragglers()
    pd.testing.assert_frame_equal(analyse(newer).summary, analyse(DLRM).summary)


def test_both_find_the_same_time_in_real_collectives() -> None:
    _, by_kernel = opened(DLRM).get_gpu_kernel_breakdown(visualize=False)
    tax = analyse(DLRM).tax
    for operation, part in (("all_reduce", "AllReduce"), ("send_recv", "SendRecv")):
        own = tax[tax["operation"] == operation]
        theirs = by_kernel[by_kernel["name"].str.contains(part)]["sum (us)"].sum()
        assert theirs == pytest.approx((4 * (own["duration_min"] + own["tax_mean"])).sum() * 1e6, abs=1e-6)
