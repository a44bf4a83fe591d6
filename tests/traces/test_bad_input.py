"""Bad input on the command line: one sentence each, and what can still be analysed is."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from simulator.command.app import main
from tests.recorded import Trace, job, kernel


def events(count: int = 5, name: str = "ncclDevKernel_AllReduce", late: int = 0) -> list[Trace]:
    """Collectives that end together, entered ``late`` us later, each after a block of computation."""
    parts = [[kernel("gemm", 1000 * k, 400), kernel(name, 1000 * k + 500 + late, 100 - late)] for k in range(count)]
    return [event for part in parts for event in part]


def ranks(folder: Path, which: range = range(4), world: int = 4) -> None:
    job(folder, {rank: events(late=10 * rank) for rank in which}, world=world)


def truncated(folder: Path) -> None:
    ranks(folder)
    whole = gzip.compress((folder / "rank2.json").read_bytes(), 0)  # stored, so that any library cuts the same event
    (folder / "rank2.json.gz").write_bytes(whole[:-70])
    (folder / "rank2.json").unlink()


def claimed_twice(folder: Path) -> None:
    ranks(folder)
    (folder / "again.json").write_bytes((folder / "rank2.json").read_bytes())


def other_counts(folder: Path) -> None:
    job(folder, {0: events(5), 1: events(3, late=20)})


def windows_without_kernels(folder: Path) -> None:
    steps = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{k}", "ts": 1000 * k, "dur": 990}
             for k in range(5)]  # fmt: skip
    job(folder, {rank: [*steps, *events(late=20 * rank)[4 * rank :]] for rank in range(2)})


Case = tuple[Callable[[Path], object], list[str], int, list[str], int]
CASES: dict[str, Case] = {  # how the folder is made, further keys, exit status, what is said, collectives measured
    "empty folder": (
        lambda folder: None, [], 1,
        ["error: traces folder in holds no trace: no file there ends in .json"], 0,
    ),
    "one rank": (
        lambda folder: ranks(folder, range(1)), [], 1,
        ["no tax can be given", "a tax needs two ranks, and only rank 0 has a trace"], 0,
    ),
    "ranks missing": (
        lambda folder: ranks(folder, range(3)), [], 0,
        ["traces of 3 of 4 ranks", "partial: 3 of the job's 4 ranks"], 5,
    ),
    "truncated": (
        truncated, [], 1,
        ["error: traces file in/rank2.json.gz is cut off: gzip fails by byte"], 0,
    ),
    "truncated, skipped": (
        truncated, ["broken=skip"], 0,
        ["left out rank2.json.gz: ", "partial: 3 of the job's 4 ranks"], 5,
    ),
    "truncated, kept": (
        truncated, ["broken=keep"], 0,
        ["rank2.json.gz): is cut off: ", "cut 1 and whatever followed", "partial: 4 of 5 matched; rank 2 has 4"], 4,
    ),
    "claimed twice": (
        claimed_twice, [], 1,
        ["error: traces must have one file for each rank; rank 2 is claimed by again.json and rank2.json"], 0,
    ),
    "claimed twice, skipped": (
        claimed_twice, ["broken=skip"], 0,
        ["left out again.json: rank 2 is claimed by several", "left out rank2.json: rank 2 is claimed by several"], 5,
    ),
    "no collectives": (
        lambda folder: job(folder, {0: events(name="gemm"), 1: events(name="gemm")}), [], 1,
        ["no collectives, so no tax", "10 GPU kernels, none of them a known collective"], 0,
    ),
    "other counts": (
        other_counts, [], 0,
        ["partial: 3 of 5 matched; rank 1 has 3"], 3,
    ),
    "windows without kernels": (
        windows_without_kernels, [], 0,
        ["2 of 5 profiler steps hold no kernel, left out", "3 of 5 matched"], 3,
    ),
    "negative rank": (
        lambda folder: job(folder, {-1: events()}, world=4), [], 1,
        ["error: traces: the rank of rank-1.json must be a whole number, at least 0; got -1"], 0,
    ),
    "huge rank": (
        lambda folder: job(folder, {10**9: events()}, world=4), [], 1,
        ["at least 0 and at most 3; got 1000000000"], 0,
    ),
}  # fmt: skip


@pytest.mark.sampled(30)
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_a_sentence_and_what_can_be_analysed_is(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make, keys, status, said, measured = CASES[case]
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    make(Path("in"))
    assert main(["+experiment=trace_report", "traces=in", *keys, "hydra.run.dir=out"]) == status
    out, err = capsys.readouterr()
    for words in said:
        assert words in out + err
    assert "Traceback" not in err
    assert (err.count("\n"), Path("out").exists()) == ((1, False) if err else (0, True))
    if not err:
        tax = pd.read_parquet("out/tax.parquet")
        assert len(tax) == measured
        assert len(pd.read_parquet("out/blocks.parquet")) > 0 or case == "no collectives"
