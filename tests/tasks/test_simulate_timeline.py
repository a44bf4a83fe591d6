"""The timeline and the per-rank rows hold the times that the tables were reduced from."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from simulator import Experiment, run, trace
from simulator.laws import Deterministic
from simulator.simulation.events import Events
from simulator.tasks.simulate import timeline
from simulator.workload.training import DataParallel, Operations, TensorParallel
from tests.conftest import paper_job
from topologies import Ring

BULK = paper_job(workload=TensorParallel(layers=3, bytes=2**28), iterations=5, timeline_iterations=2)
OVERLAP = replace(BULK, workload=DataParallel(bytes=2**32, buckets=4))
MESH = replace(
    BULK, n=6, workload=Operations(mesh={"dp": 2, "tp": 3}, operations=[
        {"compute": 'a "quoted" </script>\n'},
        {"collective": "b", "kind": "all_gather", "bytes": 1e6, "group": "dp"},
        {"collective": "c", "kind": "reduce_scatter", "bytes": 1e6, "group": "tp"},
        {"compute": "d", "scale": 0.5},
    ]),
)  # fmt: skip
EXPERIMENTS = pytest.mark.parametrize("experiment", [BULK, OVERLAP, MESH], ids=["bulk", "overlap", "mesh"])


def events(experiment: Experiment, folder: Path) -> list[dict[str, Any]]:
    timeline.write(experiment, folder, experiment.timeline_iterations, experiment.timeline_ranks)
    return json.loads((folder / "timeline.json").read_text(encoding="utf-8"))["traceEvents"]


def slices(experiment: Experiment, folder: Path) -> list[dict[str, Any]]:
    return [event for event in events(experiment, folder) if event["ph"] == "X"]


def nanoseconds(event: dict[str, Any]) -> tuple[int, int]:
    """Begin and end of a slice; both must lie on the grid."""
    points = np.array([event["ts"], event["dur"]]) * 1e3
    whole = np.rint(points)
    np.testing.assert_allclose(points, whole, rtol=1e-14)
    return int(whole[0]), int(whole[0] + whole[1])


def expected_waits(experiment: Experiment, iterations: int) -> dict[tuple[int, str], np.ndarray]:
    """From the engine: the wait of every rank, by iteration and collective."""
    operations, waits = experiment.program.operations, {}
    for i in range(iterations):
        for record in trace(experiment, range(i, i + 1)):
            if record.operation in experiment.program.collectives:
                wait = np.broadcast_to(record.start - record.ready, (1, experiment.n))[0]
                waits[i, operations[record.operation].name] = wait
    return waits


@EXPERIMENTS
def test_kernels_hold_the_engine_s_waits(tmp_path: Path, experiment: Experiment) -> None:
    expected = expected_waits(experiment, 2)
    seen = defaultdict(dict)
    for event in slices(replace(experiment, timeline_ranks=5), tmp_path):
        if event["name"].startswith("ncclDevKernel_"):
            seen[event["args"]["iteration"], event["args"]["operation"]][event["pid"] - 1] = event["args"]["wait_us"]
    assert seen.keys() == expected.keys()
    for key, waits in expected.items():
        assert seen[key] == dict(enumerate((waits[:5] * 1e6).tolist()))


def test_kernels_give_the_waits_of_the_table(tmp_path: Path) -> None:
    """As a profiler trace is read: the wait of a rank is how much longer its kernel is than the shortest."""
    table = run(BULK).collectives.set_index(["iteration", "collective"])
    lengths = defaultdict(list)
    for event in slices(BULK, tmp_path):
        if event["name"] == "ncclDevKernel_AllReduce":
            lengths[event["args"]["iteration"], event["args"]["operation"]].append(event["dur"] * 1e-6)
    assert len(lengths) == 2 * 12
    for key, kernels in lengths.items():
        assert len(kernels) == 8
        row, kernels = table.loc[key], np.array(kernels)
        assert (kernels - kernels.min()).mean() == pytest.approx(row["wait_mean"], abs=1.1e-9)
        assert np.ptp(kernels) == pytest.approx(row["wait_fastest"], abs=1.1e-9)
        assert kernels.min() == pytest.approx(row["end"] - row["start"], abs=1.1e-9)


@EXPERIMENTS
def test_slices_nest_and_never_overlap(tmp_path: Path, experiment: Experiment) -> None:
    threads = defaultdict(list)
    for event in slices(experiment, tmp_path):
        threads[event["cat"], event["pid"], event["tid"]].append(nanoseconds(event))
    for (category, rank, thread), spans in threads.items():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
        if category == "phase":
            kernels = threads["kernel", rank, thread]
            assert all(any(a <= start and end <= b for a, b in kernels) for start, end in spans)


def test_wait_and_transfer_fill_the_kernel(tmp_path: Path) -> None:
    threads = defaultdict(list)
    for event in slices(BULK, tmp_path):
        threads[event["pid"]].append((event["name"], *nanoseconds(event)))
    for spans in threads.values():
        kernels = {span[1:] for span in spans if span[0].startswith("nccl")}
        waits = {start: end for name, start, end in spans if name == "wait"}
        transfers = {start: end for name, start, end in spans if name == "transfer"}
        for start, end in kernels:
            assert transfers[waits.get(start, start)] == end
        assert len(kernels) == len(transfers) == 24


def test_iterations_follow_each_other(tmp_path: Path) -> None:
    times = run(BULK).iterations["iteration_time"]
    first = [nanoseconds(e)[0] for e in slices(BULK, tmp_path) if e["cat"] == "kernel" and e["args"]["iteration"] == 1]
    assert min(first) == round(times[0] * 1e9)
    ends = [nanoseconds(e)[1] for e in slices(BULK, tmp_path)]
    assert max(ends) == round((times[0] + times[1]) * 1e9)


def test_computes_keep_their_names_and_times(tmp_path: Path) -> None:
    name = 'a "quoted" </script>\n'
    blocks = [e for e in slices(MESH, tmp_path) if e["name"] == name and e["args"]["iteration"] == 0]
    record = next(trace(MESH, range(1)))
    np.testing.assert_allclose([e["dur"] for e in blocks], record.end[0] * 1e6, atol=1.1e-3)


def test_streams_are_threads_and_ranks_processes(tmp_path: Path) -> None:
    shown = events(replace(OVERLAP, timeline_ranks=3, timeline_iterations=99), tmp_path)
    named = {(e["pid"], e.get("tid")): e["args"]["name"] for e in shown if e["name"] in ("process_name", "thread_name")}
    assert {named[rank + 1, None] for rank in range(3)} == {"rank 0", "rank 1", "rank 2"}
    for event in shown:
        if event["ph"] == "X":
            on = "main" if event["name"].startswith(("forward", "backward")) else "communication"
            assert named[event["pid"], event["tid"]] == on
    assert {e["pid"] for e in shown} == {1, 2, 3}
    assert {e["args"]["iteration"] for e in shown if "iteration" in e.get("args", {})} == set(range(5))


def test_metadata_says_how_much_is_included(tmp_path: Path) -> None:
    (included,) = [
        e["args"] for e in events(replace(BULK, timeline_ranks=3), tmp_path) if e["name"] == "process_labels"
    ]
    assert included["labels"] == "ranks 0 to 2 of 8, iterations 0 to 1 of 5"
    assert [included[key] for key in ("ranks", "of_ranks", "iterations", "of_iterations")] == [3, 8, 2, 5]


def test_kernel_says_what_it_communicates(tmp_path: Path) -> None:
    kernel = next(e for e in slices(replace(MESH, topology=Ring(alpha=1e-6, bandwidth=1e9)), tmp_path)
                  if e["name"] == "ncclDevKernel_ReduceScatter")  # fmt: skip
    assert kernel["cat"] == "kernel"
    about = {key: kernel["args"][key] for key in ("operation", "kind", "bytes", "group", "algorithm", "iteration")}
    assert about == {"operation": "c", "kind": "reduce_scatter", "bytes": 1e6, "group": "tp", "algorithm": "ring",
                     "iteration": 0}  # fmt: skip


@pytest.mark.parametrize("n", [1, 4])
def test_no_wait_is_no_slice(tmp_path: Path, n: int) -> None:
    shown = slices(replace(BULK, n=n, compute=Deterministic(mean=1e-3)), tmp_path)
    assert "wait" not in {event["name"] for event in shown}
    assert len([event for event in shown if event["name"].startswith("nccl")]) == 2 * 12 * n


# Per-rank rows


def ranks(experiment: Experiment, folder: Path) -> pd.DataFrame:
    timeline.per_rank(experiment, folder)
    return pd.read_parquet(folder / "ranks.parquet")


@EXPERIMENTS
def test_rows_are_the_engine_s_numbers(tmp_path: Path, experiment: Experiment) -> None:
    table = ranks(experiment, tmp_path)
    assert list(table) == ["iteration", "collective", "rank", "ready", "start", "end", "wait"]
    expected = expected_waits(experiment, 5)
    assert len(table) == len(expected) * experiment.n
    groups = table.groupby(["iteration", "collective"], observed=True, sort=False)
    assert [key for key, _ in groups] == list(expected)
    for key, rows in groups:
        assert list(rows["rank"]) == list(range(experiment.n))
        assert list(rows["wait"]) == expected[key].tolist()
        assert (rows["ready"] + rows["wait"] == rows["start"]).all()


def test_rows_reduce_to_the_collectives_table(tmp_path: Path) -> None:
    table = run(BULK).collectives
    groups = ranks(BULK, tmp_path).groupby(["iteration", "collective"], observed=True, sort=False)
    np.testing.assert_allclose(groups["wait"].mean(), table["wait_mean"], rtol=1e-13)
    np.testing.assert_array_equal(groups["wait"].median(), table["wait_median"])
    np.testing.assert_array_equal(groups["wait"].max(), table["wait_fastest"])
    np.testing.assert_array_equal(groups["end"].max(), table["end"])
    last = groups["ready"].idxmax()
    np.testing.assert_array_equal(ranks(BULK, tmp_path)["rank"][last], table["straggler"])


def test_a_row_group_is_an_iteration(tmp_path: Path) -> None:
    timeline.per_rank(BULK, tmp_path)
    file = pq.ParquetFile(tmp_path / "ranks.parquet")
    assert file.num_row_groups == 5
    assert set(file.read_row_group(3)["iteration"].to_pylist()) == {3}


def test_no_collectives_no_rows(tmp_path: Path) -> None:
    only = Operations(mesh={"dp": -1}, operations=[{"compute": "only"}])
    assert ranks(replace(BULK, workload=only), tmp_path).empty


@EXPERIMENTS
def test_same_bytes_from_both_engines(tmp_path: Path, experiment: Experiment) -> None:
    found = []
    for name, engine in (("vector", experiment.engine), ("events", Events())):
        folder = tmp_path / name
        folder.mkdir()
        timeline.per_rank(replace(experiment, engine=engine), folder)
        events(replace(experiment, engine=engine), folder)
        lines = (folder / "timeline.json").read_text(encoding="utf-8").replace("]}", "").split(",\n")
        found.append(((folder / "ranks.parquet").read_bytes(), sorted(line.strip() for line in lines)))
    assert found[0] == found[1]
