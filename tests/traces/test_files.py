"""Which file is which rank: several GPUs in a file, several files of a rank, files of no rank, names of all kinds."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from simulator.checks import InputError
from simulator.command.app import main
from simulator.tasks.trace_report.words import text
from simulator.traces import events, files
from tests.mutations import as_tree, changed_bytes, mutated
from tests.recorded import DATA, Trace, analyse, job, kernel, parsed

FILES = DATA / "files"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GPUS, NAMES, BESIDE = "trace_several_gpus_in_a_file", "trace_order_of_names", "trace_other_files_beside"

Right = tuple[str, dict[str, Any], int, float, int, int]
RIGHT: dict[str, Right] = {  # folder, further keys, ranks, mean tax in us, the rank that is last in all, collectives
    "two files of 4 GPUs": (f"{GPUS}/two_files_of_4_gpus", {}, 8, 332.4, 6, 12),
    "one file of 4 GPUs": (f"{GPUS}/one_file_of_4_gpus", {}, 4, 319.9, 2, 12),
    "one process": (f"{GPUS}/one_process_4_gpus", {}, 4, 319.9, 2, 12),
    "one process, rank given": (f"{GPUS}/one_process_4_gpus", {"ranks": [4]}, 4, 319.9, 6, 12),
    "events without cat": (f"{GPUS}/events_without_cat", {"ranks": [0]}, 4, 319.9, 2, 12),
    "TP-10": (f"{NAMES}/tensor_ranks", {}, 12, 337.5, 10, 6),
    "TP-10, ranks given": (f"{NAMES}/tensor_ranks", {"ranks": list(range(12))}, 12, 337.5, 10, 6),
    "rank folders": (f"{NAMES}/rank_folders", {}, 12, 337.5, 10, 6),
    "rank folders, given": (f"{NAMES}/rank_folders/*/*.json.gz", {"ranks": list(range(12))}, 12, 337.5, 10, 6),
    "merged file beside": (f"{BESIDE}/merged_file", {}, 4, 319.9, 2, 12),
    "front end beside": (f"{BESIDE}/front_end", {}, 4, 319.9, 2, 12),
    "first window": ("trace_several_windows", {"window": 1}, 4, 319.9, 2, 12),
    "second window": ("trace_several_windows", {"window": 2}, 4, 321.8, 2, 12),
    "lost compute kernels": ("trace_zero_times/zero_compute", {}, 4, 319.9, 2, 12),
    "folder of a number": ("trace_folder_names/20240131", {}, 4, 319.9, 2, 12),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", RIGHT)
def test_every_gpu_is_a_rank_of_its_own(case: str) -> None:
    folder, settings, ranks, tax, straggler, collectives = RIGHT[case]
    findings = analyse(FILES / folder, **settings)
    (row,) = findings.summary.to_dict("records")
    assert (row["status"], row["ranks"], row["collectives"]) == ("ok", ranks, collectives)
    assert row["tax_fastest_mean"] * 1e6 == pytest.approx(tax, abs=0.06)
    assert (row["straggler"], row["straggler_repeat_rate"]) == (straggler, 1)
    assert findings.explanation["cause"].tolist() == ["compute"]
    assert findings.ranks["span"].max() < 0.03


def test_given_ranks_are_printed_with_their_files() -> None:
    said = text(analyse(FILES / NAMES / "tensor_ranks", ranks=list(range(12))))
    assert "; 2 = 1769071195.66-TP-2.trace.json.gz; " in said
    assert "; 10 = 1769071195.66-TP-10.trace.json.gz; " in said


def test_files_of_no_rank_are_left_out_with_the_reason() -> None:
    merged, front = (text(analyse(FILES / BESIDE / name)) for name in ("merged_file", "front_end"))
    assert (
        "left out merged-1769071195.66.trace.json.gz: holds the kernels of 4 GPUs whose ranks have files of" in merged
    )
    assert "left out host7_4242.async_llm.1769071195661.pt.trace.json.gz: has no GPU kernels and says no rank" in front


def test_all_profiling_windows_are_measured_apart() -> None:
    findings = analyse(FILES / "trace_several_windows")
    found = findings.summary.set_index("group")
    assert found["status"].tolist() == ["ok", "ok"]
    assert (found["tax_fastest_mean"] * 1e6).round(1).to_dict() == {
        "window 1, stream 20": 319.9, "window 2, stream 20": 321.8,
    }  # fmt: skip
    assert found["straggler"].tolist() == [2, 2]
    assert "traces of 4 of 4 ranks" in text(findings)
    with pytest.raises(InputError, match="window must be a whole number, at least 1 and at most 2; got 3"):
        analyse(FILES / "trace_several_windows", window=3)


def test_folders_of_iterations_are_windows_but_folders_of_nodes_are_not(tmp_path: Path) -> None:
    source = FILES / "trace_folder_names" / "20240131"
    for name in ("iteration_2", "iteration_10", "node0", "node1"):
        shutil.copytree(source, tmp_path / name)
    assert len(analyse(tmp_path / "iteration_*" / "*.json.gz").summary) == 2
    with pytest.raises(InputError, match=r"rank 0 is claimed by rank0_trace\.json\.gz and"):
        analyse(tmp_path / "node*" / "*.json.gz")


@pytest.mark.parametrize(("folder", "left"), [("zero_compute", 9), ("zero_coll", 8)])
def test_kernels_without_a_time_are_counted_and_their_blocks_not_compared(folder: str, left: int) -> None:
    findings = analyse(FILES / "trace_zero_times" / folder)
    assert findings.dropped == {"kernels without a time": 2}
    assert findings.ranks["span"].between(0.028, 0.030).all()
    assert findings.explanation[["collectives", "cause"]].values.tolist() == [[left, "compute"]]
    assert "dropped 2 kernels without a time" in text(findings)


def test_a_time_a_day_from_all_others_is_none(tmp_path: Path) -> None:
    times = [1.7e15, 1.7e15 + 1000, 1.7e15 + 2000, 1.7e15 - 9e10, 5.0]
    data = json.dumps({"traceEvents": [kernel(NCCL, time, 50) for time in times]})
    (tmp_path / "rank0.json").write_text(data)
    trace = parsed(tmp_path / "rank0.json")
    assert (trace.kernels, trace.dropped, trace.span) == (3, {"kernels without a time": 2}, 2_050_000)


def test_a_kernel_without_a_duration_leaves_out_the_block_in_which_it_began(tmp_path: Path) -> None:
    def events_of(rank: int) -> list[Trace]:
        own = [kernel(NCCL, 1000 * k + 100 * rank, 500 - 100 * rank) for k in range(6)]
        return [*own, *(kernel("gemm", 1000 * k + 600, 20) for k in range(5)), kernel("gemm", 2700, -1)][::-1]

    findings = analyse(job(tmp_path, {rank: events_of(rank) for rank in range(2)}))
    assert findings.blocks["collective"].tolist() == [1, 2, 4, 5] * 2
    assert findings.dropped == {"negative duration": 2}


def test_a_relative_time_of_zero_is_one(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": [kernel(NCCL, 0, 50), kernel(NCCL, 100, 50)]}))
    assert parsed(tmp_path / "rank0.json").kernels == 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ("20240131", 0, "traces of 4 of 4 ranks"),
        ("2024_02_01", 1, "got 20240201, and that may be 2024_0201 or 2024_02_01"),
        ('"2024_02_01"', 0, "traces of 4 of 4 ranks"),
        ("007", 0, "traces of 4 of 4 ranks"),
        ("[007]", 0, "traces of 4 of 4 ranks"),
        ("1_0", 0, "traces of 4 of 4 ranks"),
        ("1e3", 0, "traces of 4 of 4 ranks"),
        ("1.50", 0, "traces of 4 of 4 ranks"),
        ("true", 0, "traces of 4 of 4 ranks"),
        ("false", 1, "traces must be quoted where the name is a number: 'traces=\"NAME\"'; got False"),
        ("null", 1, "traces must be a folder, a file, a pattern such as 'run/*.json.gz', or a list of these; got None"),
        ("profile_traces", 1, "its folder iteration_10 does: traces=profile_traces/iteration_10"),
        ("20240132", 1, "traces must be quoted where the name is a number: 'traces=\"NAME\"'; got 20240132"),
    ],
)
def test_folders_called_by_numbers_and_folders_of_folders(
    given: str, status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    shutil.copytree(FILES / "trace_folder_names", tmp_path, dirs_exist_ok=True)
    for name in ("007", "2024_0201", "2024_02_01", "1_0", "1e3", "1.50", "true"):
        (tmp_path / name).symlink_to(tmp_path / "20240131")
    monkeypatch.setattr("simulator.tasks.trace_report.task.pictures", lambda *args: [])
    monkeypatch.chdir(tmp_path)
    assert main(["+experiment=trace_report", f"traces={given}", "hydra.run.dir=out"]) == status
    out, err = capsys.readouterr()
    assert said in out + err


def ranked(folder: Path, name: str, late: float, **more: Any) -> None:
    """A file of one GPU that enters six collectives ``late`` us late."""
    own = [kernel(NCCL, 1000 * k + late, 500 - late) for k in range(6)]
    (folder / name).write_text(json.dumps({"traceEvents": own, **more}))


NAMED: dict[str, tuple[list[str], list[int]]] = {  # names of files, the ranks in them
    "device": (["x-DEVICE-3.json", "x-DEVICE-10.json"], [3, 10]),
    "one dimension tells all apart": (["TP-1-DP-0-EP-1.json", "TP-3-DP-0-EP-3.json"], [1, 3]),
    "two dimensions": (["DP-1-EP-0.json", "DP-0-EP-3.json", "DP-1-EP-3.json", "DP-0-EP-0.json"], [2, 1, 3, 0]),
    "pipeline stages are slowest": (["TP-0-PP-1.json", "TP-1-PP-0.json", "TP-0-PP-0.json", "TP-1-PP-1.json"],
                                    [2, 1, 0, 3]),
    "rank goes first": (["dp0_pp0_tp0_rank4.json", "dp0_pp0_tp1_rank5.json"], [4, 5]),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMED)
def test_ranks_are_found_in_names(case: str, tmp_path: Path) -> None:
    names, ranks = NAMED[case]
    for name, rank in zip(names, ranks, strict=True):
        ranked(tmp_path, name, 10.0 * rank)
    found = analyse(tmp_path).ranks
    assert dict(zip(found["file"], found["rank"], strict=True)) == dict(zip(names, ranks, strict=True))


def test_processes_of_two_gpus_are_counted_through(tmp_path: Path) -> None:
    """distributedInfo counts processes here: ranks 0 and 1 of 2, with GPUs 0 and 1 each."""
    for rank in range(2):
        own = [{**kernel(NCCL, 1000 * k, 500, device=gpu), "pid": gpu} for gpu in range(2) for k in range(6)]
        about = {"rank": rank, "world_size": 2}
        (tmp_path / f"host{rank}.json").write_text(json.dumps({"distributedInfo": about, "traceEvents": own}))
    findings = analyse(tmp_path)
    assert findings.ranks[["rank", "world"]].values.tolist() == [[0, 4], [1, 4], [2, 4], [3, 4]]
    assert findings.summary["status"].tolist() == ["ok"]


def test_kernels_on_a_gpu_without_collectives_are_no_rank(tmp_path: Path) -> None:
    """A process opens a context on GPU 0 by mistake."""
    own = [{**kernel(NCCL, 1000 * k, 500, device=3), "pid": 3} for k in range(6)]
    own.append({**kernel("fill", 10, 5, device=0), "pid": 0})
    trace = parsed(next(job(tmp_path, {3: own}, world=4).iterdir()))
    assert (trace.rank, trace.kernels, trace.notes) == (3, 6, ("1 kernels on GPUs without collectives left out",))


def test_what_no_trace_has_so_many_of_is_refused(tmp_path: Path) -> None:
    """Each would take time: a damaged file must not take minutes."""
    for what, place in (("512 GPUs; got 600", "pid"), ("256 process groups or streams; got 600", "tid")):
        own = [{"ph": "X", "cat": "kernel", "name": NCCL, "ts": k, "dur": 1, "pid": 0, place: k} for k in range(600)]
        (tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": own}))
        with pytest.raises(InputError, match=f"must have collectives of at most {what}"):
            parsed(tmp_path / "rank0.json")


def test_gloo_is_measured_where_asked(tmp_path: Path) -> None:
    def annotations(rank: int) -> list[Trace]:
        return [{"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 70 + rank, "tid": 9 + k % 2,
                 "ts": 1000 * k + 100 * rank, "dur": 500 - 100 * rank} for k in range(6)]  # fmt: skip

    job(tmp_path, {rank: annotations(rank) for rank in range(3)})
    without = analyse(tmp_path)
    assert not without.usable
    assert "profiled without CUDA activity; gloo=true measures its 6 gloo collectives" in text(without)
    (row,) = analyse(tmp_path, gloo=True).summary.to_dict("records")
    assert (row["group"], row["operation"], row["status"], row["straggler"]) == ("gloo", "all_reduce", "ok", 2)
    assert row["tax_fastest_mean"] * 1e6 == pytest.approx(200)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BATCH", 700)
    monkeypatch.setattr(files, "PIECE", 97)


ODD = [kernel(NCCL, 100 + 1000 * k, 50, shapes=[{"a": 1}, {"b": {"c": "}, {"}}]) for k in range(30)]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("bare", [False, True])
def test_a_file_reads_the_same_in_batches(
    indent: int | None, bare: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole = {"a": {"traceEvents": [{}, {}]}, "traceEvents": ODD, "distributedInfo": {"rank": 0, "world_size": 2}}
    path = tmp_path / "rank0.json"
    path.write_text("\ufeff" + json.dumps(ODD if bare else whole, indent=indent), encoding="utf-8")
    expected = parsed(path)
    request.getfixturevalue("small_batches")
    found = parsed(path)
    assert found.collectives.equals(expected.collectives)
    assert (found.kernels, found.rank, found.world, found.groups) == (30, 0, None if bare else 2, expected.groups)


PLAIN = json.dumps({"traceEvents": [kernel(NCCL, 100 + 1000 * k, 50) for k in range(30)]}).encode()
STORED = gzip.compress(PLAIN, 0)[:2733]  # stored as it is behind a header of 10 and 5 bytes
BROKEN: dict[
    str, tuple[bytes, int | None]
] = {  # a broken file, and how many of its 30 events are whole before the fault
    "trailing comma": (PLAIN.replace(b"}}]}", b"}},]}"), 30),
    "cut": (PLAIN[: len(PLAIN) // 2], PLAIN[: len(PLAIN) // 2].count(b"}}")),
    "bad byte": (PLAIN[:3000] + b"\1" + PLAIN[3000:], PLAIN[:3000].count(b"}}")),
    "gzip cut": (STORED, PLAIN[: 2733 - 15].count(b"}}")),
    "second list": (PLAIN[:-1] + b', "traceEvents": []}', None),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.usefixtures("small_batches")
def test_a_fault_is_found_at_its_place_in_batches(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, kept = BROKEN[case]
    path = tmp_path / "rank0.json"
    path.write_bytes(data)
    said = []
    for batch in (700, 10**6 if kept is not None else 800):
        monkeypatch.setattr(events, "BATCH", batch)
        with pytest.raises(InputError) as caught:
            parsed(path)
        said.append(str(caught.value))
        if kept is not None:
            trace = parsed(path, keep=True)
            said.append(f"{trace.kernels} {trace.notes}")
    half = len(said) // 2
    assert said[:half] == said[half:]
    assert said[-1].startswith(f"{kept} ") if kept is not None else "has traceEvents twice" in said[0]


def survives(seed: int, folder: Path) -> str:
    """What becomes of one job with changes: ``result`` or ``sentence``."""
    source = random.Random(seed)
    home = source.choice(sorted({path.parent for path in FILES.rglob("*.json.gz")}))
    for i, path in enumerate(sorted(home.glob("*.gz"))[:8]):
        data = gzip.decompress(path.read_bytes())
        (folder / (path.name if source.random() < 0.9 else f"{i}.json")).write_bytes(
            mutated(source, data, as_tree, as_tree, changed_bytes) if source.random() < 0.5 else data
        )
    try:
        findings = analyse(folder, broken=source.choice(["stop", "skip", "keep"]))
    except InputError as error:
        return "sentence" if "\n" not in str(error) else str(error)
    assert findings.tax["tax_fastest"].between(0, 100).all()
    assert text(findings)
    return "result"


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("first", [0, *(pytest.param(100 * k, marks=pytest.mark.slow) for k in range(1, 6))])
def test_mutated_jobs_give_a_result_or_a_sentence(first: int, tmp_path: Path) -> None:
    seen = set()
    for seed in range(first, first + (100 if first else 12)):
        (tmp_path / str(seed)).mkdir()
        seen.add(survives(seed, tmp_path / str(seed)))
    assert seen == {"result", "sentence"}
