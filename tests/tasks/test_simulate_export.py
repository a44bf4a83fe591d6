"""Exported traces: what a reader of real traces measures in them is what was simulated."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from simulator import Experiment, run, trace
from simulator.checks import InputError
from simulator.command.app import main
from simulator.network.collectives import Kind
from simulator.simulation.events import Events
from simulator.tasks.simulate import export
from simulator.workload.training import DataParallel, Operations, TensorParallel
from tests.conftest import paper_job
from tests.recorded import Trace, analyse
from topologies import Ring, Torus3D

CONF = Path(__file__).parents[2] / "conf"
NANOSECONDS = 2e-9  # two ends of a duration, each rounded to the grid


def tp_dp_overlap() -> Operations:
    written = yaml.safe_load((CONF / "workload" / "tp_dp_overlap.yaml").read_text(encoding="utf-8"))
    return Operations(mesh=written["mesh"], operations=written["operations"])


BULK = paper_job(workload=TensorParallel(layers=3, bytes=2**28), iterations=4, traces_iterations=3)
JOBS = {
    "switch": BULK,
    "ring": replace(BULK, topology=Ring(alpha=1e-6, bandwidth=100e9)),
    "torus": replace(BULK, topology=Torus3D(alpha=1e-6, bandwidth=100e9)),
    "buckets": replace(BULK, workload=DataParallel(bytes=2**32, buckets=4)),
    "mesh": replace(BULK, n=32, workload=tp_dp_overlap()),
    "kinds": replace(BULK, n=12, workload=Operations(mesh={"a": 2, "b": 3, "c": 2}, operations=[
        entry for axis, kind in zip(cycle("abc"), Kind)
        for entry in ({"compute": f"before {kind}"}, {"collective": kind, "kind": kind, "bytes": 6e6, "group": axis})
    ])),
}  # fmt: skip
EVERY = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)


def exported(job: Experiment, folder: Path) -> Path:
    export.write(job, folder, job.traces_iterations)
    return folder / "traces"


def events(folder: Path, rank: int) -> list[Trace]:
    return json.loads((folder / f"rank-{rank}.json").read_text(encoding="utf-8"))["traceEvents"]


def numbers(job: Experiment) -> dict[tuple[str, int], str]:
    """By axis and instance the name that a report gives the process group."""
    sizes = {axis: job.n // job.program.blocks(axis)[1] for axis in ("all", *job.program.mesh)}
    pairs = [(axis, instance) for axis, count in sizes.items() for instance in range(count)]
    return {(axis, instance): f"{number} ({axis})" for number, (axis, instance) in enumerate(pairs)}


def simulated(job: Experiment) -> pd.DataFrame:
    """The simulator's own table with the names of groups, in the order in which each group's kernels begin."""
    table = run(job).collectives
    table = table[table["iteration"] < job.traces_iterations]
    names = numbers(job)
    table["name"] = [names[key] for key in zip(table["group"], table["instance"], strict=True)]
    return table.sort_values(["name", "iteration", "start"], kind="stable").reset_index(drop=True)


@pytest.mark.sampled(3)
@EVERY
def test_the_tax_of_the_traces_is_the_simulator_s(job: Experiment, tmp_path: Path) -> None:
    check_tax(job, tmp_path)


def check_tax(job: Experiment, tmp_path: Path) -> pd.DataFrame:
    """The tax that a report finds, by collective."""
    findings = analyse(exported(job, tmp_path))
    assert set(findings.summary["status"]) == {"ok"}
    assert set(findings.summary["reason"]) == {""}
    assert set(findings.ranks["steps"]) == {3}
    assert set(findings.ranks["steps_without_kernels"]) == {0}
    ours = simulated(job)
    theirs = findings.tax.sort_values(["group", "collective"], kind="stable").reset_index(drop=True)
    assert theirs["group"].tolist() == ours["name"].tolist()
    assert theirs["bytes"].tolist() == ours["bytes"].round().tolist()
    for found, known in (("tax_fastest", "wait_fastest"), ("tax_median", "wait_median"), ("tax_mean", "wait_mean")):
        np.testing.assert_allclose(theirs[found], ours[known], rtol=0, atol=NANOSECONDS)
    np.testing.assert_allclose(theirs["duration_min"], ours["end"] - ours["start"], rtol=0, atol=NANOSECONDS)
    assert (theirs["end_spread"] == 0).all()
    assert theirs["straggler"].tolist() == ours["straggler"].tolist()
    return theirs


ELEMENTS = {  # in and out, of a size S over 4 ranks; as PyTorch has them, on every rank
    Kind.REDUCE_SCATTER: (4000, 1000), Kind.ALL_GATHER: (1000, 4000), Kind.GATHER: (1000, 4000),
    Kind.SCATTER: (4000, 1000),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_exported_and_read_back(kind: Kind, tmp_path: Path) -> None:
    """A kind that the exporter or the reader does not know fails here."""
    entry = {"collective": "exchange", "kind": kind.value, "bytes": 4000}
    job = replace(BULK, n=4, workload=Operations(mesh={"tp": 4}, operations=[{"compute": "block"}, entry]))
    found = check_tax(job, tmp_path)
    assert set(found["operation"]) == {"send_recv" if kind is Kind.SEND else kind.value}
    for rank in range(4):
        own = [e for e in events(tmp_path / "traces", rank) if e.get("cat") == "kernel" and "Seq" in e["args"]]
        sizes = {(e["args"]["In msg nelems"], e["args"]["Out msg nelems"]) for e in own}
        assert sizes == {ELEMENTS.get(kind, (4000, 4000))}


def kernels(job: Experiment) -> pd.DataFrame:
    """All kernels from the engine: operation, rank, begin and end in seconds; iterations one after another."""
    rows: list[dict[str, Any]] = []
    origin = 0.0
    for i in range(job.traces_iterations):
        records = list(trace(job, range(i, i + 1)))
        for record in records:
            begin, end = (np.broadcast_to(x[0], job.n) + origin for x in (record.ready, record.end))
            rows += [{"operation": record.operation, "rank": r, "begin": begin[r], "end": end[r]} for r in range(job.n)]
        origin += max(float(record.end.max()) for record in records)
    return pd.DataFrame(rows)


def blocks_of(job: Experiment, group: str, rank: int, all_kernels: pd.DataFrame) -> list[tuple[float, float]]:
    """For each collective of a group but the first, on one rank: the gap before it, and the compute time in it."""
    axis = group.split("(")[1].removesuffix(")")
    own = all_kernels[all_kernels["rank"] == rank].sort_values("begin", kind="stable")
    operations = [i for i in job.program.collectives if job.program.operations[i].group == axis]  # type: ignore[union-attr]
    collectives = own[own["operation"].isin(operations)].to_dict("records")
    computes = own[own["operation"].isin(job.program.computes)].to_dict("records")
    found = []
    for before, after in pairwise(collectives):
        low, high = before["end"], after["begin"]
        inside = sum(max(0.0, min(c["end"], high) - max(c["begin"], low)) for c in computes)
        found.append((high - low, inside))
    return found


@pytest.mark.sampled(3)
@EVERY
def test_the_blocks_of_the_traces_are_the_simulated_compute_blocks(job: Experiment, tmp_path: Path) -> None:
    """The first collective of a group has no block before it; those of later iterations do."""
    blocks, expected = analyse(exported(job, tmp_path)).blocks, kernels(job)
    for (group, rank), own in blocks.groupby(["group", "rank"]):
        wanted = np.array(blocks_of(job, group, rank, expected))
        np.testing.assert_allclose(own[["gap", "busy"]], wanted, rtol=0, atol=1e-8)
        np.testing.assert_array_equal(own["gemm"], own["kernels"])


def test_a_job_of_blocks_and_barriers_gives_back_every_drawn_time(tmp_path: Path) -> None:
    blocks = analyse(exported(BULK, tmp_path)).blocks
    drawn = np.concatenate([
        [record.end[0] - record.start[0] for record in trace(BULK, range(i, i + 1))
         if record.operation in BULK.program.computes] for i in range(3)
    ])  # fmt: skip
    found = blocks.pivot(index="collective", columns="rank", values="busy")
    assert drawn.shape == (36, 8)
    np.testing.assert_allclose(found, drawn[1:], rtol=0, atol=NANOSECONDS)
    np.testing.assert_allclose(blocks["gemm"], blocks["busy"], rtol=0, atol=1e-12)


def test_compute_explains_the_wait_of_a_simulation(tmp_path: Path) -> None:
    (cause,) = analyse(exported(BULK, tmp_path)).explanation.to_dict("records")
    assert cause["cause"] == "compute"
    assert cause["busy_correlation"] > 0.999999


@pytest.mark.slow
def test_long_lists_of_ranks_are_shortened_and_read_back_whole(tmp_path: Path) -> None:
    folder = exported(replace(BULK, n=64), tmp_path)
    kernel = next(e for e in events(folder, 9) if e["name"].startswith("nccl"))
    assert kernel["args"]["Process Group Ranks"].endswith("27, 28, ..., 63]")
    assert (analyse(folder).summary["status"] == "ok").all()
    (folder / "rank-40.json").unlink()
    assert "63 of its 64 ranks (rank 40 missing)" in analyse(folder).summary["reason"][0]


def test_groups_of_one_rank_are_left_out(tmp_path: Path) -> None:
    job = replace(BULK, n=8, workload=tp_dp_overlap())  # dp = 1
    summary = analyse(exported(job, tmp_path)).summary
    assert summary["group"].tolist() == ["9 (tp)"]
    (tmp_path / "one").mkdir()
    alone = exported(replace(BULK, n=1), tmp_path / "one")
    assert {e["name"] for e in events(alone, 0) if e.get("cat") == "kernel"} == {"simulated_gemm"}


@EVERY
def test_events_are_what_kineto_writes(job: Experiment, tmp_path: Path) -> None:
    folder = exported(job, tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"rank-{rank}.json" for rank in range(job.n))
    for rank in (0, job.n - 1):
        found = events(folder, rank)
        launches = {e["args"]["correlation"]: e for e in found if e.get("cat") == "cuda_runtime"}
        own = [e for e in found if e.get("cat") == "kernel"]
        steps = [e for e in found if e.get("cat") == "user_annotation"]
        assert [step["name"] for step in steps] == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
        assert len(own) == len(launches) == 3 * len(job.program.operations)
        for kernel in own:
            launch = launches[kernel["args"]["correlation"]]
            (step,) = (s for s in steps if s["ts"] <= launch["ts"] < s["ts"] + s["dur"])
            assert step["ts"] <= kernel["ts"]
            assert kernel["ts"] + kernel["dur"] <= step["ts"] + step["dur"] + 1e-6
            assert (kernel["pid"], kernel["tid"]) == (kernel["args"]["device"], kernel["args"]["stream"])
            assert kernel["pid"] == rank != launch["pid"]
        named = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
        assert {(kernel["pid"], kernel["tid"]) for kernel in own} <= set(named)


@EVERY
def test_slices_of_a_thread_never_overlap(job: Experiment, tmp_path: Path) -> None:
    """Perfetto drops slices that do."""
    spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in events(exported(job, tmp_path), 0):
        if event.get("cat") == "kernel":
            begin = round(event["ts"] * 1000)
            spans.setdefault((event["pid"], event["tid"]), []).append((begin, begin + round(event["dur"] * 1000)))
    assert len(spans) == len(job.program.streams)
    for own in spans.values():
        assert all(end <= begin for (_, end), (begin, _) in pairwise(sorted(own)))


def test_numbers_of_a_group_s_collectives_are_the_same_on_every_rank(tmp_path: Path) -> None:
    folder = exported(JOBS["mesh"], tmp_path)
    seen: dict[tuple[str, int], set[str]] = {}
    for rank in range(32):
        for event in events(folder, rank):
            args = event.get("args", {})
            if "Seq" in args:
                key = (args["Process Group Name"], args["Seq"])
                seen.setdefault(key, set()).add(f"{args['operation']} {args['Process Group Ranks']}")
    assert all(len(what) == 1 for what in seen.values())
    assert len(seen) == 3 * (3 * 4 + 8)  # iterations x (3 collectives of 4 tensor-parallel groups + 8 data-parallel)


def test_names_and_ranks_are_where_others_look_for_them(tmp_path: Path) -> None:
    """HolisticTraceAnalysis reads lines until one holds the rank, with a space before the number."""
    name = 'a "quoted" </script>\n'
    job = replace(BULK, workload=Operations(mesh={"tp": 8}, operations=[{"compute": name}]))
    folder = exported(job, tmp_path)
    first = (folder / "rank-5.json").read_text(encoding="utf-8").splitlines()[0]
    assert re.findall(r'"rank":\s+(\d+)', first) == ["5"]
    assert {e["args"]["operation"] for e in events(folder, 5) if e.get("cat") == "kernel"} == {name}


@pytest.mark.parametrize("name", ["switch", "mesh"])
def test_same_bytes_from_both_engines(name: str, tmp_path: Path) -> None:
    found = []
    for place, engine in (("vector", JOBS[name].engine), ("events", Events())):
        (tmp_path / place).mkdir()
        folder = exported(replace(JOBS[name], engine=engine), tmp_path / place)
        found.append([path.read_bytes() for path in sorted(folder.iterdir())])
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_command_writes_traces_that_the_command_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["workload.layers=2", "iterations=3", "plots=false"]
    assert main(["+experiment=nvswitch_8", "export_traces=true", *few, "hydra.run.dir=out"]) == 0
    assert main(["+experiment=trace_report", "traces=out/traces", "hydra.run.dir=report"]) == 0
    assert "traces of 8 of 8 ranks, 256 GPU kernels; 16 collectives measured" in capsys.readouterr().out
    waits = pd.read_parquet("out/collectives.parquet")["wait_fastest"][:16]
    np.testing.assert_allclose(pd.read_parquet("report/tax.parquet")["tax_fastest"], waits, atol=NANOSECONDS, rtol=0)
    assert main(["+experiment=nvswitch_8", "traces=out"]) == 1
    assert capsys.readouterr().err == "error: traces is export_traces since version 0.2: write export_traces=...\n"


@pytest.mark.slow
def test_a_run_that_fails_leaves_no_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(export, "_metadata", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert main(["+experiment=nvswitch_8", "export_traces=true", "workload.layers=1", "hydra.run.dir=out"]) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"export_traces": 1}, "export_traces must be true or false; got 1"),
        ({"traces_iterations": 0}, "traces_iterations must be a whole number"),
        ({"n": 2**17, "export_traces": True}, "export_traces must give at most 100000 files, one per rank; got 131072"),
        ({"n": 4096, "export_traces": True, "traces_iterations": 4},
         r"traces_iterations must give at most 10000000 kernels \(ranks x iterations x operations\); got 10485760"),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_said_before_the_run(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=f"^{words}"):
        paper_job(**changes).check()
