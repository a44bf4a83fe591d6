"""Calibration: what is read from tables of nccl-tests, what is fitted to them, and the machine that comes out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simulator.checks import InputError
from simulator.command.app import main
from simulator.network.collectives import Kind
from simulator.network.topology import Topology
from simulator.tasks.calibrate.calibration import Calibration
from simulator.tasks.calibrate.hockney import fit_line, fit_model, held_out_error, relative_errors
from simulator.tasks.calibrate.nccl_tests import Measurements, read_measurements
from simulator.tasks.calibrate.task import Calibrate
from simulator.tasks.calibrate.words import machine_yaml, text_of
from tests.command.test_config import numbers_without_source
from topologies import NVSwitch, Ring, Torus3D

DATA = Path(__file__).parents[1] / "data" / "nccl_tests"
H100 = DATA / "h100_x4_allreduce_wh8_quiet.csv"
SIZES = 2.0 ** np.arange(3, 34)


def calibrate(path: Path, topology: Topology | None = None, **changes: Any) -> Calibration:
    unknown = topology or NVSwitch(alpha=0.0, bandwidth=float("inf"))
    return Calibrate(name="c", nccl_tests=str(path), topology=unknown, **changes).find()


# Fits

YARDSTICK = [  # two-parameter fits made for this project by others: a in us, b in GB/s, median error in %
    ("h100_x4_allreduce_wh8_quiet", {"time_column": "inplace_time_us"}, 23.7, 233, 3.3),
    ("gh200_x4_allreduce_alps_base_v1130", {"time_column": "inplace_time_us"}, 9.3, 205, 8.5),
    ("a100_x8_allreduce_vtrain", {"time_column": "inplace_time_us"}, 77, 130, 1.3),
    ("h100_x8_allreduce_azure", {"smallest": 2**15}, 39.7, 254, 6),
]


@pytest.mark.parametrize(("name", "part", "latency", "rate", "error"), YARDSTICK)
def test_measured_tables_are_fitted_as_well_as_by_others(
    name: str, part: dict[str, Any], latency: float, rate: float, error: float
) -> None:
    found = calibrate(DATA / f"{name}.csv", **part)
    last_digit = 0.1 if latency % 1 else 1.0
    assert found.line.latency * 1e6 == pytest.approx(latency, abs=last_digit / 2)
    assert 1e-9 / found.line.slope == pytest.approx(rate, abs=0.5)
    median = 100 * np.median(np.abs(found.points().relative_error))
    assert round(median, 1 if error % 1 else 0) <= error
    assert found.bandwidth == pytest.approx(found.bus / found.line.slope)  # B is the bus bandwidth here


@pytest.mark.slow
@pytest.mark.parametrize(("name", "part", "latency", "rate", "error"), YARDSTICK)
def test_segments_are_better_also_where_they_were_not_fitted(
    name: str, part: dict[str, Any], latency: float, rate: float, error: float
) -> None:
    measured = read_measurements(DATA / f"{name}.csv", **part)
    one = np.median(np.abs(relative_errors(fit_model(measured.sizes, measured.times), measured.sizes, measured.times)))
    for segments in (2, 3):
        model = fit_model(measured.sizes, measured.times, segments)
        assert len(model.lines) == segments
        assert min(line.points for line in model.lines) >= 3
        assert sum(line.points for line in model.lines) == len(measured.sizes)
        assert np.median(np.abs(relative_errors(model, measured.sizes, measured.times))) < one
        assert held_out_error(measured.sizes, measured.times, segments) < one


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("topology", [Ring, Torus3D, NVSwitch])
def test_times_of_the_cost_model_are_fitted_back(topology: Any, kind: Kind, tmp_path: Path) -> None:
    truth = topology(alpha=3.7e-6, bandwidth=412e9)
    times = [truth.cost(kind, nbytes, 8).time for nbytes in SIZES]
    path = tmp_path / "table.csv"
    rows = [f"{nbytes:.0f},{float(time * 1e6)!r}" for nbytes, time in zip(SIZES, times, strict=True)]
    path.write_text("\n".join([f"# collective: {kind.value}", "# nranks: 8", "size_bytes,time_us", *rows]))
    found = calibrate(path, topology(alpha=0.0, bandwidth=float("inf")), segments=3)
    assert found.alpha == pytest.approx(3.7e-6, rel=1e-9)
    assert found.bandwidth == pytest.approx(412e9, rel=1e-9)
    assert found.points().relative_error.abs().max() < 1e-9


def test_borders_between_segments_are_found() -> None:
    """Three protocols: 2 us and 20 GB/s below 64 KiB, 5 us and 120 GB/s below 4 MiB, 20 us and 300 GB/s above."""
    truth = [(2e-6, 20e9), (5e-6, 120e9), (20e-6, 300e9)]
    which = np.searchsorted([2.0**16, 2.0**22], SIZES, side="right")
    times = np.array([truth[i][0] + nbytes / truth[i][1] for i, nbytes in zip(which, SIZES, strict=True)])
    model = fit_model(SIZES, times, 3)
    assert [line.first for line in model.lines] == [8, 2**16, 2**22]
    assert [line.latency for line in model.lines] == pytest.approx([a for a, _ in truth], rel=1e-6)
    assert [1 / line.slope for line in model.lines] == pytest.approx([b for _, b in truth], rel=1e-6)
    assert model.time(np.array([2.0**15.4, 2.0**15.6])) == pytest.approx(
        [2e-6 + 2**15.4 / 20e9, 5e-6 + 2**15.6 / 120e9]
    )


def test_standard_errors_are_the_scatter_of_repeated_measurements() -> None:
    noise = np.random.default_rng(1).normal(1, 0.03, (400, len(SIZES)))
    lines = [fit_line(SIZES, (20e-6 + SIZES / 250e9) * row) for row in noise]
    for name in ("latency", "slope"):
        scatter = np.std([getattr(line, name) for line in lines])
        claimed = np.sqrt(np.mean([getattr(line, f"{name}_se") ** 2 for line in lines]))
        assert claimed == pytest.approx(scatter, rel=0.2)


@pytest.mark.slow
def test_a_third_segment_that_only_follows_noise_is_worse_where_left_out() -> None:
    noise = np.random.default_rng(2).normal(1, 0.05, (20, 12))
    sizes = 2.0 ** np.arange(10, 34, 2)
    tables = [(20e-6 + sizes / 250e9) * row for row in noise]
    error = {k: np.mean([held_out_error(sizes, times, k) for times in tables]) for k in (1, 3)}
    assert error[3] > error[1]
    assert np.isnan(held_out_error(sizes[:9], tables[0][:9], 3))


# The text of nccl-tests

DEVICES = [f"#  Rank {i:2d} Group  0 Pid  4711 on node-1 device {i:2d} [0000:0{i}:00] NVIDIA H100" for i in range(4)]
NEW = ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong"]
OLD = ["size", "count", "type", "redop", "time", "algbw", "busbw", "error", "time", "algbw", "busbw", "error"]
VALUES = {"type": "float", "redop": "sum", "op": "sum", "root": "-1", "#wrong": "0", "error": "5e-07", "res": "2e-06"}
BUS = {  # bus factors of 4 ranks: doc/PERFORMANCE.md of nccl-tests
    "all_reduce_perf": 1.5, "all_gather_perf": 0.75, "reduce_scatter_perf": 0.75, "alltoall_perf": 0.75,
    "gather_perf": 0.75, "scatter_perf": 0.75,
}  # fmt: skip


def printed(columns: Sequence[str], test: str = "all_reduce_perf", sizes: Sequence[int] = (1024, 65536, 2**22)) -> str:
    """What nccl-tests prints: 10 us + S/100 GB/s out-of-place, half of it in-place."""
    lines = [f"# Collective test starting: {test}", "# nThread 1 nGpus 4 minBytes 1024 maxBytes 4194304",
             "#", "# Using devices", *DEVICES, "NCCL version 2.29.2+cuda13.1", "#",
             f"# {'':>50} out-of-place                       in-place          ",
             "# " + "  ".join(f"{name:>8}" for name in columns),
             "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"]  # fmt: skip
    unit = 1e-3 if columns[0] == "bytes" else 1.0
    for nbytes in sizes:
        time = 10 + nbytes / 100e3
        halves = iter([time, time / 2])
        half, values = time, []
        for name in columns:
            half = next(halves) if "time" in name else half
            rate = nbytes / half / 1e3
            known = {
                **dict.fromkeys(("size", "bytes"), f"{nbytes}"), **dict.fromkeys(("count", "N"), f"{nbytes // 4}"),
                "time": f"{half * unit:.8f}", "cputime": f"{half / 3:.5f}", "algbw": f"{rate:.2f}",
                "busbw": f"{BUS.get(test, 1.0) * rate:.2f}", **VALUES,
            }  # fmt: skip
            values.append(known.get(name, "1.0"))
        lines.append("  ".join(f"{value:>8}" for value in values))
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 100.1 ", "#", ""])


def read(tmp_path: Path, content: str, **more: Any) -> Measurements:
    path = tmp_path / "out.txt"
    path.write_text(content, encoding="utf-8")
    return read_measurements(path, **more)


@pytest.mark.parametrize(
    "columns",
    [
        NEW,
        OLD,
        [name for name in OLD if name != "redop"],  # AllGather before 2.11
        ["size", "count", "type", "time", "algbw", "busbw"],
        ["bytes", "N", "type", "op", "time", "algbw", "busbw", "res", "time", "algbw", "busbw", "res"],  # 2017
        [*NEW[:6], "algbw", "busbw", "#wrong", "i_min", "i_max", *NEW[9:], "i_min", "i_max"],  # iterations reported
    ],
)
def test_every_version_of_the_table_is_read(columns: list[str], tmp_path: Path) -> None:
    measured = read(tmp_path, printed(columns))
    assert measured.sizes.tolist() == [1024, 65536, 2**22]
    assert measured.times == pytest.approx([10.01024e-6, 10.65536e-6, 51.94304e-6])
    assert (measured.kind, measured.ranks, measured.hardware) == (Kind.ALL_REDUCE, 4, "NVIDIA H100")
    assert measured.notes == ()
    if columns.count("time") == 2:
        assert read(tmp_path, printed(columns), time_column="inplace_time_us").times[0] == pytest.approx(5.00512e-6)


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ("all_reduce_perf", "all_reduce"), ("all_gather_perf", "all_gather"), ("alltoall_perf", "all_to_all"),
        ("reduce_scatter_perf", "reduce_scatter"), ("broadcast_perf", "broadcast"), ("sendrecv_perf", "send"),
        ("reduce_perf", "reduce"), ("gather_perf", "gather"), ("scatter_perf", "scatter"),
    ],
)  # fmt: skip
def test_every_collective_is_known(test: str, kind: str, tmp_path: Path) -> None:
    assert read(tmp_path, printed(NEW, test)).kind == kind
    named_by_its_command = printed(NEW, test).replace(f"# Collective test starting: {test}", f"$ ./build/{test} -g 4")
    assert read(tmp_path, named_by_its_command).kind == kind


def test_what_logs_put_around_and_into_a_table_does_no_harm(tmp_path: Path) -> None:
    plain = printed(NEW)
    lines = plain.splitlines()
    noisy = [
        line for row in lines for line in (row, "node-1:815:815 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P")
    ]
    labelled = [line for row in lines for line in (f" 0: {row}", " 1: NCCL version 2.29.2+cuda13.1")]
    indented = [f"    {line}" for line in lines]
    stamped = [f"{row}  2026-01-01 12:00:00" if row.strip()[:1].isdigit() else row for row in lines]
    bare = [line.removeprefix("#") for line in lines]
    absent = plain.replace("       0  ", "     N/A  ")
    for variant in (
        noisy,
        labelled,
        indented,
        stamped,
        bare,
        [absent],
        [plain.replace("\n", "\r\n")],
        ["\ufeff", plain],
    ):
        measured = read(tmp_path, "\n".join(variant))
        assert measured.times == pytest.approx([10.01024e-6, 10.65536e-6, 51.94304e-6])
        assert (measured.kind, measured.ranks) == (Kind.ALL_REDUCE, 4)


def test_sizes_in_any_order_repeated_or_empty(tmp_path: Path) -> None:
    measured = read(tmp_path, printed(NEW, sizes=[2**22, 0, 0, 1024, 65536, 1024]))
    assert measured.sizes.tolist() == [1024, 65536, 2**22]
    assert measured.notes == (
        "2 rows of size 0 left out: nothing is sent",
        "1 sizes measured more than once: their mean",
    )
    part = read(tmp_path, printed(NEW, sizes=[1024, 2048, 4096, 8192]), smallest=2048, largest=4096)
    assert part.sizes.tolist() == [2048, 4096]
    assert part.notes == ("2 rows left out by smallest and largest",)
    wrong = printed(NEW).replace("       0  ", "       7  ", 1)
    assert read(tmp_path, wrong).notes == ("1 rows with wrong results, as the file says",)
    assert read(tmp_path, wrong, time_column="inplace_time_us").notes == ()


def test_times_that_were_not_measured_are_left_out() -> None:
    with pytest.raises(InputError, match="at least 3 different sizes to fit; got 0"):
        calibrate(DATA / "h100_x8_allreduce_azure.csv", time_column="inplace_time_us")
    gathered = read_measurements(DATA / "h100_x4_allgather_wh8_quiet.csv")
    assert gathered.kind == Kind.ALL_GATHER
    assert gathered.notes == ("3 rows of size 0 left out: nothing is sent",)


# Tables with other columns


def test_a_sweep_over_algorithms_is_read_by_its_columns() -> None:
    sweep = DATA / "h100_x4_allreduce_wh8_algosweep.csv"
    mapping: dict[str, Any] = {"ranks": 4, "time_column": "oop_time_us"}
    with pytest.raises(
        InputError, match=r"^select must choose one algo .*Ring, Tree, NVLS\): 'select=\{algo: Ring\}'$"
    ):
        calibrate(sweep, **mapping)
    tree, nvls = (calibrate(sweep, select={"algo": name}, **mapping) for name in ("Tree", "NVLS"))
    assert tree.bandwidth == pytest.approx(1.5 * 174e9, rel=0.02)  # its busbw column goes to 259.39
    assert nvls.bandwidth > 1.4 * tree.bandwidth


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"time_column": "time"}, r"^time_column must be a column of .*; 'time' is none \(did you mean \w+\?\); it h"),
        ({"size_column": "bytes"}, "^size_column must be a column of"),
        ({"select": {"algo": "ring"}}, "^select must be a algo of .*, one of Ring, Tree, NVLS; got 'ring'"),
        ({"select": {"algorithm": "Ring"}}, "^select must be one of algo, size_bytes"),
        ({"select": {"size_bytes": 268435456, "algo": "Ring"}}, r"at least 3 different sizes to fit; got 1 \("),
    ],
)  # fmt: skip
def test_a_wrong_mapping_names_the_right_one(more: dict[str, Any], words: str) -> None:
    mapping = {"ranks": 4, "time_column": "oop_time_us", **more}
    with pytest.raises(InputError, match=words):
        calibrate(DATA / "h100_x4_allreduce_wh8_algosweep.csv", **mapping)


# Bad input

CSV = "# collective: all_reduce\n# nranks: 4\nsize_bytes,time_us\n"
BAD = {
    "empty": ("", "nccl_tests must have a table of sizes and times; t is empty"),
    "blank": (" \n\n", "t is empty"),
    "text": ("hello\nworld\n", "t has no line of column names"),
    "no table": ("# Collective test starting: all_reduce_perf\n", "t has no line of column names"),
    "no rows": (printed(NEW, sizes=[]), "must have one table; t has no whole row of one"),
    "two tables": (printed(NEW) * 2, "nccl_tests must have one table; t holds 2"),
    "cut off": (printed(NEW, sizes=[1024]).split("#       (B)")[0].split("float")[0], "t has no whole row of one"),
    "times of the host": (printed(["cputime" if c == "time" else c for c in NEW]), "t has those of the host's calls"),
    "other CSV": ("hardware,busbw\nH200,363.3\n", "size_column must be a column of t; 'size_bytes' is none; it"),
    "no time": (CSV.replace("time_us", "ms") + "1,2\n", "time_column must be a column of t; 'time_us' is none"),
    "column twice": (CSV.replace("time_us", "time_us,time_us") + "1,2,3\n", "must name each column once; t has"),
    "no size": (CSV, "must have at least 3 different sizes to fit; got 0"),
    "one size": (CSV + "8,1\n8,2\n8,3\n", "must have at least 3 different sizes to fit; got 1 (8 bytes)"),
    "zero time": (CSV + "8,1\n16,0\n", "must have finite times above 0 in column time_us; got 0 at size 16"),
    "negative time": (CSV + "8,-1\n", "must have finite times above 0 in column time_us; got -1 at size 8"),
    "NaN": (CSV + "8,nan\n", "must have finite times above 0 in column time_us; got nan at size 8"),
    "infinite": (CSV + "8,1e999\n", "must have finite times above 0 in column time_us; got 1e999 at size 8"),
    "words": (CSV + "8,fast\n", "must have numbers in column time_us; got 'fast' at size 8"),
    "size in words": (CSV + "1K,8\n", "must have numbers in column size_bytes; got '1K'"),
    "negative size": (CSV + "-8,1\n", "must have whole numbers of bytes in column size_bytes; got -8"),
    "ragged": (CSV + "8,1\n16\n", "must have 2 values in each row of its table; that of '16' in t has 1"),
    "does not grow": (CSV + "8,30\n80000000,20\n160000000,10\n", "must have times that grow with the size; those of t"),
    "no ranks": (CSV.replace("nranks", "x") + "8,1\n", "ranks must be given: t does not say over how many"),
    "one rank": (CSV.replace("4", "1") + "8,1\n", "ranks must be a whole number, at least 2; got 1"),
    "ranks in words": (CSV.replace("4", "four") + "8,1\n", "ranks must be a whole number, at least 2; t says 'four'"),
    "no collective": (CSV.replace("collective", "x") + "8,1\n", "collective must be given, one of all_reduce, all_g"),
    "unknown collective": (printed(NEW, "hypercube_perf"), "collective must be one of all_reduce, all_gather"),
    "processes apart": (re.sub(r"Rank  \d", "Rank  0", printed(NEW)), "t lists rank 0 twice: each process measured"),
    "two types": (printed(NEW) + "  1024 512 half sum -1 9 1 1 0 9 1 1 0\n", "select must choose one type of t"),
}  # fmt: skip


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content, words = BAD[name]
    monkeypatch.chdir(tmp_path)
    Path("t").write_text(content, encoding="utf-8")
    assert main(["+experiment=calibrate", "nccl_tests=t"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: ")
    assert words in err
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("ranks=8", "ranks must be the 4 that h100_x4_allreduce_wh8_quiet.csv was measured over; got 8"),
        ("ranks=1", "ranks must be a whole number, at least 2; got 1"),
        ("collective=all_gather", "collective must be that of h100_x4_allreduce_wh8_quiet.csv, all_reduce; got"),
        ("collective=hypercube", "collective must be one of all_reduce, all_gather"),
        ("segments=0", "segments must be a whole number, at least 1; got 0"),
        ("segments=4", "segments must be a whole number, at least 1 and at most 3; got 4"),
        ("smallest=4294967296", "must have at least 3 different sizes to fit; got 2 (4294967296, 8589934592 bytes)"),
        ("machine_name=../x", "machine_name must be letters, digits and underscores, a letter first; got '../x'"),
        ("topology.alpha=5e-6", "topology must be without alpha and bandwidth, which are fitted"),
        ("topology.algorithm=tree", "algorithm must be one of all_pairs, ring; got 'tree'"),
        ("nccl_tests=nowhere", "nccl_tests must be an existing file; got 'nowhere'"),
        ("n=8", "n is not a key"),
    ],
)  # fmt: skip
def test_a_bad_key_is_one_sentence(
    override: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [] if override.startswith("nccl_tests") else [f"nccl_tests={H100}"]
    assert main(["+experiment=calibrate", *given, override]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_too_few_sizes_for_the_segments() -> None:
    with pytest.raises(InputError, match="segments must leave at least 3 sizes to each; 8 sizes do not make 3"):
        calibrate(H100, segments=3, smallest=2**26)


# The command


@pytest.mark.slow
def test_the_command_leaves_a_machine_that_simulates_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = [
        "+experiment=calibrate",
        f"nccl_tests={H100}",
        "machine_name=mine",
        "topology.algorithm=ring",
        "segments=2",
    ]
    assert main([*asked, "hydra.run.dir=out"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for words in ("all_reduce over 4 ranks, 31 sizes from 8 B to 8 GiB", "ring: p = 6, q = 1.5", "as all_pairs (p = 2",
                  "2.9 % in the median, 8.3 % at most", "2 segments: ", "machine=mine"):  # fmt: skip
        assert words in out
    folder = tmp_path / "out"
    assert {path.name for path in folder.iterdir()} == {
        *("calibration.csv", "fits.csv", "summary.csv", "busbw.png", "busbw.svg", "manifest.json", "machine")
    }
    points = pd.read_csv(folder / "calibration.csv")
    assert list(points) == ["size_bytes", "measured", "fitted", "relative_error"]
    assert points.measured[0] == pytest.approx(23.3e-6)
    assert np.allclose(points.relative_error, points.fitted / points.measured - 1)
    fits = pd.read_csv(folder / "fits.csv")
    assert fits.fit.tolist() == ["two parameters", "segment 1", "segment 2"]
    yaml = (folder / "machine" / "mine.yaml").read_text()
    assert numbers_without_source(yaml) == []
    for words in (H100.name, "all_reduce over 4 ranks", "ring: p = 6", "2.9 % in the median"):
        assert words in yaml

    simulation = [
        "--config-dir",
        "out",
        "machine=mine",
        "n=4",
        "topology.algorithm=ring",
        "iterations=2",
        "plots=false",
    ]
    assert main([*simulation, "hydra.run.dir=run"]) == 0
    row = pd.read_csv(tmp_path / "run" / "summary.csv").iloc[0]
    assert row["latency"] + row["transfer"] == pytest.approx(1191e-6, rel=0.05)  # the file: 1,191 us at 256 MiB
    assert row["bandwidth"] == pytest.approx(fits.bandwidth[0], rel=1e-8)


def test_the_file_names_the_machine(tmp_path: Path) -> None:
    for name, machine in (
        ("4 x H100, quiet.csv", "machine_4_x_H100_quiet"),
        ("h100.csv", "h100"),
        ("ü.csv", "machine__"),
    ):
        (tmp_path / name).write_bytes(H100.read_bytes())
        assert calibrate(tmp_path / name).machine_name == machine


def test_hostile_words_of_a_file_stay_comments(tmp_path: Path) -> None:
    path = tmp_path / "a\nalpha: 7.csv"
    path.write_text(H100.read_text().replace("4 of 8x", "\x1b[31m\x85alpha: 8"))
    found = calibrate(path)
    lines = [line for line in machine_yaml(found).splitlines() if not line.startswith("#")]
    assert [line.partition(":")[0] for line in lines] == ["_target_", "name", "alpha", "bandwidth"]
    assert "\x1b" not in text_of(found)
