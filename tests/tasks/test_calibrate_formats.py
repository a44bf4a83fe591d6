"""Outputs of nccl-tests and rccl-tests as people have them: what is read, what is refused, and that nothing breaks."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.checks import InputError
from simulator.network.collectives import Kind
from simulator.network.topology import Topology
from simulator.tasks.calibrate.calibration import Calibration
from simulator.tasks.calibrate.nccl_tests import MOST_BYTES, read_measurements
from simulator.tasks.calibrate.pictures import picture
from simulator.tasks.calibrate.task import Calibrate
from simulator.tasks.calibrate.words import machine_yaml, text_of
from tests.mutations import as_lines
from topologies import NVSwitch

DATA = Path(__file__).parents[1] / "data" / "nccl_outputs"
ALL = sorted(path.name for path in DATA.iterdir())
SECRET = "must-not-be-shown"
SIZES = 2.0 ** np.arange(13, 30, 2)


def calibrate(path: Path, **changes: Any) -> Calibration:
    unknown: Topology = NVSwitch(alpha=0.0, bandwidth=float("inf"))
    return Calibrate(name="c", nccl_tests=str(path), topology=unknown, **changes).find()


def written(tmp_path: Path, text: str, name: str = "t.txt") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def text(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


# What is read

WHOLE = {
    "all_reduce_perf_mpi.txt": {}, "hydra_label.txt": {}, "kubectl_ts.txt": {}, "mpi5_tag.txt": {}, "mpi_tag.txt": {},
    "mpi_time_tag.txt": {}, "quoted.txt": {}, "midrow.txt": {}, "json_J.json": {}, "json_J_g8.json": {}, "rccl.csv": {},
    "rccl.jsonl": {}, "rccl_list.json": {}, "split.txt": {}, "v1_ms.txt": {"collective": "all_reduce", "ranks": 8},
    "alltoall.txt": {}, "no_devices.txt": {},
}  # fmt: skip
KINDS = {"alltoall.txt": Kind.ALL_TO_ALL}
RANKS = {"no_devices.txt": 32}


@pytest.mark.parametrize("name", WHOLE)
def test_the_line_that_was_measured_is_found(name: str) -> None:
    found = calibrate(DATA / name, **WHOLE[name])
    digits = 0.02 if name == "v1_ms.txt" else 2e-4  # version 1 prints whole microseconds, the others four digits
    assert found.line.latency == pytest.approx(25e-6, rel=digits)
    assert 1 / found.line.slope == pytest.approx(250e9, rel=digits)
    assert found.measured.sizes.tolist() == SIZES.tolist()
    assert (found.measured.kind, found.measured.ranks) == (KINDS.get(name, Kind.ALL_REDUCE), RANKS.get(name, 8))


@pytest.mark.parametrize("name", [name for name in WHOLE if name not in ("v1_ms.txt", "alltoall.txt")])
def test_in_place_is_a_measurement_of_its_own(name: str) -> None:
    found = calibrate(DATA / name, time_column="inplace_time_us", **WHOLE[name])
    assert found.line.latency == pytest.approx(0.99 * 25e-6, rel=2e-4)
    assert 1 / found.line.slope == pytest.approx(250e9 / 0.99, rel=2e-4)


def test_the_hardware_is_named_where_the_file_names_it() -> None:
    for name in ("json_J.json", "mpi_tag.txt", "split.txt"):
        assert read_measurements(DATA / name).hardware == "NVIDIA H100 80GB HBM3"
    assert read_measurements(DATA / "v1_ms.txt", collective="all_reduce").hardware == "Tesla V100-SXM2-16GB"


@pytest.mark.parametrize(
    "label",
    [
        "[1,{rank}]<stdout>:",
        "{rank}: ",
        "[{rank}] ",
        "[rank{rank}]: ",
        "[{rank}@node-1] ",
        "[host-7@1,{rank}]<stdout>: ",
    ],
)
def test_lines_of_other_ranks_and_of_stderr_are_no_rows(label: str, tmp_path: Path) -> None:
    other = "     1048576        262144     float     sum      -1" + "     1.00    1.00    1.00      0" * 2
    lines = []
    for line in text("all_reduce_perf_mpi.txt").splitlines():
        lines += [label.format(rank=0) + line, label.format(rank=1) + other]
        lines += [f"[1,0]<stderr>:{other}"] if "<stdout>" in label else []
    found = calibrate(written(tmp_path, "\n".join(lines)))
    assert found.measured.sizes.tolist() == SIZES.tolist()
    assert found.measured.notes == ()


@pytest.mark.parametrize(
    "before",
    ["2026-03-04 05:06:07,123 INFO ", "[2026-03-04 05:06:07] ", "05:06:07 ", "worker-0  | ", "[pod/x-launcher/main] ",
     "\t",      "(head, rank=0, pid=3808) ", "(main pid=3808, ip=10.0.0.7) ",
     "Mar  4 05:06:07 node7 nccl[77]: ", "\x1b[32m", "2026-03-04T05:06:07+01:00 stdout F "],
)  # fmt: skip
def test_what_collectors_of_logs_put_before_a_line_does_no_harm(before: str, tmp_path: Path) -> None:
    lines = [before + line for line in text("all_reduce_perf_mpi.txt").splitlines()]
    found = calibrate(written(tmp_path, "\n".join(lines)))
    assert (found.measured.sizes.tolist(), found.measured.ranks) == (SIZES.tolist(), 8)


def test_numbers_of_lines_are_not_taken_for_ranks(tmp_path: Path) -> None:
    """grep -n puts before each line what srun --label does."""
    lines = [f"{i}:{line}" for i, line in enumerate(text("all_reduce_perf_mpi.txt").splitlines(), start=1)]
    assert calibrate(written(tmp_path, "\n".join(lines))).measured.sizes.tolist() == SIZES.tolist()


def test_the_command_line_names_the_collective(tmp_path: Path) -> None:
    asked = "$ ./all_reduce_perf_mpi -b 8K -e 512M > all_reduce_perf_results.log\n"
    rest = text("all_reduce_perf_mpi.txt").partition("\n")[2]
    assert calibrate(written(tmp_path, asked + rest)).measured.kind == Kind.ALL_REDUCE


def test_of_several_runs_in_a_log_one_is_chosen_by_its_collective(tmp_path: Path) -> None:
    """Devices are listed once for each run, and a run that died after the one asked for is none of its notes."""
    path = written(tmp_path, text("all_reduce_perf_mpi.txt") + text("alltoall.txt").partition("# Out of")[0])
    with pytest.raises(InputError, match=r"t.txt holds one of each of all_reduce, all_to_all: choose by collective$"):
        calibrate(path)
    for kind, notes in (("all_reduce", 0), ("alltoall_perf", 0)):
        found = calibrate(path, collective=kind).measured
        assert (found.sizes.tolist(), found.ranks, len(found.notes)) == (SIZES.tolist(), 8, notes)
    path = written(tmp_path, text("died.txt") + text("died.txt"))
    with pytest.raises(InputError, match=r"t.txt holds 2: put each in a file of its own$"):
        calibrate(path)


def test_windows_writes_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text("all_reduce_perf_mpi.txt"), encoding="utf-16")
    assert calibrate(path).measured.sizes.tolist() == SIZES.tolist()


def test_a_blank_operation_shifts_no_column(tmp_path: Path) -> None:
    """From 2.11 to 2.13 the column redop was blank where nothing is reduced."""
    blank = re.sub(r"float    none", "float        ", text("alltoall.txt"))
    assert blank != text("alltoall.txt")
    assert calibrate(written(tmp_path, blank)).line.latency == pytest.approx(25e-6, rel=2e-4)


def test_rows_are_put_together_wherever_they_are_cut(tmp_path: Path) -> None:
    """A row is printed in three pieces; what others print comes between them, with and without a label."""
    log = "node0:1:2 [0] NCCL INFO 8192 Bytes -> Algo 1\nnode0:1:2 [0] NCCL INFO more\n"
    plain = text("all_reduce_perf_mpi.txt").splitlines()
    for row in (r"^(.* -1)( .*)$", r"^(.*? -1 +\S+ +\S+ +\S+ +0)( .*)$", r"^(.*)()$"):
        cut = [re.sub(row, rf"\1{log}\2", line) if line.strip()[:1].isdigit() else line for line in plain]
        labelled = [f"[1,0]<stdout>:{line}" for line in "\n".join(cut).splitlines()]
        for lines in (cut, labelled):
            found = calibrate(written(tmp_path, "\n".join(lines)))
            assert found.measured.notes == ()
            assert found.line.latency == pytest.approx(25e-6, rel=2e-4)
            assert found.measured.sizes.tolist() == SIZES.tolist()


def test_a_row_that_stays_cut_is_left_out_and_counted(tmp_path: Path) -> None:
    lines = [
        line[:90] if " 2097152 " in line[:13] + " " else line for line in text("all_reduce_perf_mpi.txt").splitlines()
    ]
    found = calibrate(written(tmp_path, "\n".join(lines)))
    assert found.measured.sizes.tolist() == [size for size in SIZES if size != 2**21]
    assert found.measured.notes == ("1 rows left out: they were cut off",)


def test_a_row_that_contradicts_itself_is_left_out_and_counted(tmp_path: Path) -> None:
    wrong = text("all_reduce_perf_mpi.txt").replace(" 58.55 ", " 85.55 ", 1)
    found = calibrate(written(tmp_path, wrong))
    assert found.measured.sizes.tolist() == [size for size in SIZES if size != 2**23]
    assert found.measured.notes == ("1 rows left out: their columns contradict each other",)


# How a run ended

DIED = "the run ended in an error at 512 KiB of 512 MiB, so bandwidth is extrapolated"


@pytest.mark.parametrize(("name", "cut"), [("died.txt", 0), ("died_midrow.txt", 1)])
def test_a_run_that_died_is_used_and_says_so(name: str, cut: int) -> None:
    found = calibrate(DATA / name)
    assert found.measured.sizes.tolist() == SIZES[:4].tolist()
    notes = (*(["1 rows left out: they were cut off"] * cut), DIED)
    assert found.measured.notes == notes
    for note in notes:
        assert f"Note: {note}." in text_of(found)
        assert f"# note: {note}\n" in machine_yaml(found)


def test_an_asymptote_far_off_is_not_drawn() -> None:
    """The run that died reached 34 of 436 GB/s: the line would be far above the picture."""
    assert not picture(calibrate(DATA / "died.txt")).panels[0].levels
    assert list(picture(calibrate(DATA / "json_J.json")).panels[0].levels) == pytest.approx([437.5], rel=1e-3)


def test_output_that_breaks_off_says_so(tmp_path: Path) -> None:
    whole = text("all_reduce_perf_mpi.txt")
    (note,) = calibrate(written(tmp_path, whole[: whole.index("   134217728")])).measured.notes
    assert note == "the run or its output broke off at 32 MiB of 512 MiB, so bandwidth is extrapolated"
    complete = whole[: whole.index("# Out of bounds")]  # every size is there
    assert calibrate(written(tmp_path, complete)).measured.notes == ()
    reduced = "# Reducing maxBytes to 33554432 due to memory limitation\n"
    assert calibrate(written(tmp_path, reduced + whole[: whole.index("   134217728")])).measured.notes == ()


def test_json_that_breaks_off_says_so(tmp_path: Path) -> None:
    whole = text("json_J.json")
    found = calibrate(written(tmp_path, whole[: whole.index('"size": 33554432') + 50]))
    assert found.measured.sizes.tolist() == SIZES[:6].tolist()
    assert (found.measured.ranks, found.measured.kind) == (8, Kind.ALL_REDUCE)
    assert found.measured.notes == (
        "1 rows left out: they were cut off",
        "the run or its output broke off at 8 MiB of 512 MiB, so bandwidth is extrapolated",
    )


# Columns that contradict each other

ALONE = "each process measured itself, as programs built without MPI do"
REFUSED: dict[str, tuple[str, Callable[[str], str], dict[str, Any], str]] = {
    "no MPI": ("no_mpi.txt", str, {"ranks": 2}, "lists rank 0 twice: " + ALONE),
    "no MPI, 8 each": ("no_mpi_2x8.txt", str, {"ranks": 16}, "lists rank 0 twice: " + ALONE),
    "no MPI, no list": ("no_mpi.txt", lambda t: re.sub("#  Rank.*\n", "", t), {"ranks": 2}, "is that of 1: " + ALONE),
    "no MPI, no list, 8 each": (
        "no_mpi_2x8.txt", lambda t: re.sub("#  Rank.*\n", "", t), {"ranks": 16, "collective": "all_reduce"},
        "ranks must be 8, as busbw/algbw in t.txt says; got 16",
    ),
    "other ranks": ("no_devices.txt", str, {"ranks": 8}, "ranks must be 32, as busbw/algbw in t.txt says; got 8"),
    "groups": ("split.txt", str, {"ranks": 16}, "ranks must be the 8 that t.txt was measured over; got 16"),
    "list": (
        "no_devices.txt",
        lambda t: "".join(f"#  Rank {i} Group 0 Pid 1 on n device {i} [0x1] H\n" for i in range(4)) + t,
        {}, "ranks must be 32, as busbw/algbw in t.txt says; got 4",
    ),
    "other collective": (
        "no_devices.txt", lambda t: t.replace("Collective test starting: all_reduce_perf", ""),
        {"collective": "all_gather"},
        "at size 536870912 of t.txt busbw/algbw is 1.938, that of no number of ranks in all_gather",
    ),
    "busbw is not algbw": (
        "no_devices.txt", lambda t: t.replace("all_reduce", "broadcast"), {"ranks": 32},
        "busbw/algbw is 1.938, that of no number of ranks in broadcast",
    ),
    "unit": (
        "v1_ms.txt", lambda t: t.replace("bytes             N", " size         count"),
        {"collective": "all_reduce", "ranks": 8},
        "must have times in microseconds; size/time is algbw in t.txt if they are milliseconds",
    ),
    "no unit": (
        "v1_ms.txt", lambda t: re.sub(r"sum    0\.", "sum    3.", t), {"collective": "all_reduce", "ranks": 8},
        "must have columns that agree; at size 134217728 of t.txt size/time is",
    ),
    "version 1 says no collective": ("v1_ms.txt", str, {"ranks": 8}, "collective must be given, one of all_reduce"),
    "unknown collective": (
        "all_reduce_perf_mpi.txt", lambda t: t.replace("all_reduce_perf", "all_reduces_perf"), {},
        "got 'all_reduces_perf_mpi' in t.txt (did you mean all_reduce?)",
    ),
    "time of the host": ("json_J.json", lambda t: t.replace('"time"', '"cpu_time"'), {}, "of the host's calls (-C 1)"),
    "other JSON": ("json_J.json", lambda t: t.replace('"results"', '"x"'), {}, "t.txt is JSON of another kind"),
    "in place 2": ("rccl.csv", lambda t: t.replace("sum,1", "sum,2"), {}, "must say 0 or 1 in column inPlace"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_columns_contradict_is_refused(case: str, tmp_path: Path) -> None:
    name, change, given, words = REFUSED[case]
    assert change is str or change(text(name)) != text(name)
    with pytest.raises(InputError) as caught:
        calibrate(written(tmp_path, change(text(name))), **given)
    assert words in str(caught.value)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("n", [2, 3, 8, 64, 512])
def test_ranks_follow_from_the_bus_factor(kind: Kind, n: int, tmp_path: Path) -> None:
    """Bus factors of doc/PERFORMANCE.md; of 512 ranks two decimals leave some numbers open."""
    part = (n - 1) / n
    says = kind not in (Kind.BROADCAST, Kind.REDUCE, Kind.SEND)
    factor = (2 * part if kind == Kind.ALL_REDUCE else part) if says else 1.0
    times = 25 + SIZES / 250e3
    rows = [f"{size:.0f},{time:.2f},{size / time / 1e3:.2f},{factor * size / time / 1e3:.2f}"
            for size, time in zip(SIZES, times, strict=True)]  # fmt: skip
    content = "\n".join([f"# collective: {kind}", "size_bytes,time_us,algbw,busbw", *rows])
    path = written(tmp_path, content)
    assert read_measurements(path, ranks=n).ranks == n
    if n == 512 or not says:
        with pytest.raises(InputError, match="ranks must be given"):
            read_measurements(path)
    else:
        assert read_measurements(path).ranks == n
    if says:
        with pytest.raises(InputError, match=r"^ranks must be .*, as busbw/algbw in t.txt says; got "):
            read_measurements(path, ranks=2 * n)


def test_algbw_that_has_the_bus_factor_in_it_is_known(tmp_path: Path) -> None:
    """AllGather and ReduceScatter until June 2020: algbw = busbw = (n-1)/n of size/time."""
    times = 25 + SIZES / 250e3
    rates = [f"{0.875 * size / time / 1e3:.2f}" for size, time in zip(SIZES, times, strict=True)]
    rows = [f"{size:.0f} {size / 4:.0f} float {time:.2f} {rate} {rate} 0"
            for size, time, rate in zip(SIZES, times, rates, strict=True)]  # fmt: skip
    path = written(tmp_path, "\n".join(["# all_gather_perf", "# size count type time algbw busbw error", *rows]))
    assert read_measurements(path).ranks == 8
    with pytest.raises(InputError, match=r"ranks must be 8, as busbw/algbw"):
        read_measurements(path, ranks=16)


def test_a_group_is_the_size_of_its_list_and_says_so() -> None:
    (note,) = read_measurements(DATA / "split.txt").notes
    assert note == "2 groups of ranks ran side by side: the times are of one, beside the others"


def test_rccl_tests_may_measure_one_place_alone(tmp_path: Path) -> None:
    lines = text("rccl.csv").splitlines()
    out = "\n".join(line for line in lines if ",sum,1," not in line)
    within = "\n".join(line for line in lines if ",sum,0," not in line)
    assert calibrate(written(tmp_path, out)).line.latency == pytest.approx(25e-6, rel=1e-4)
    found = calibrate(written(tmp_path, within), time_column="inplace_time_us")
    assert found.line.latency == pytest.approx(24.75e-6, rel=1e-4)
    for content, column in ((out, "inplace_time_us"), (within, "time_us")):
        with pytest.raises(InputError, match="at least 3 different sizes to fit; got 0"):
            calibrate(written(tmp_path, content), time_column=column)


def test_processes_with_several_gpus_are_as_many_ranks(tmp_path: Path) -> None:
    rows = text("rccl.csv").replace(",8,8,1,", ",2,2,4,")
    assert calibrate(written(tmp_path, rows)).measured.ranks == 8
    older = re.sub(r",1,8,8,1,", ",8,", text("rccl.csv")).replace("nodes,ranks,ranksPerNode,gpusPerRank", "gpus")
    older = older.replace("name", "collective").replace("inPlace", "inplace").replace("algBw,busBw", "algbw,busbw")
    assert calibrate(written(tmp_path, older)).measured.ranks == 8


# What is never shown, and what never breaks


@pytest.mark.parametrize("damage", [
    lambda t: t[:200], lambda t: t[:-1], lambda t: t.replace("[", "{"), lambda t: t.replace(":", ","),
    lambda t: t.replace('"size"', '"sizes"'), lambda t: t.replace('"alg_bw": 0', '"alg_bw": "x'),
    lambda t: t.replace('"results": [', '"results": 7, "old": ['), lambda t: t.replace('"ngpus": 1', '"ngpus": 7'),
    lambda t: t.lstrip("{"), lambda t: f"# {t}", lambda t: f"x, {t}",
    lambda t: t.replace('"time": ', '"time": "x", "t": '),
    lambda t: json.dumps(json.loads(t)["env"]), lambda t: t.replace(", ", "\n"), lambda t: json.dumps([json.loads(t)]),
])  # fmt: skip
def test_the_environment_of_a_run_is_never_shown(damage: Callable[[str], str], tmp_path: Path) -> None:
    path = written(tmp_path, damage(text("json_J.json")))
    try:
        said = text_of(found := calibrate(path)) + machine_yaml(found)
    except InputError as error:
        said = str(error)
    assert SECRET not in said
    assert "EXAMPLE_TOKEN" not in said
    assert len(said) < 4000


def test_a_file_of_junk_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    with path.open("wb") as file:
        file.truncate(100 * 2**20)
    with pytest.raises(InputError, match=r"at most 64 MiB; t.txt has 100 MiB: keep the table"):
        calibrate(path)
    assert MOST_BYTES == 64 * 2**20
    written(tmp_path, "size_bytes,time_us\n" + "8,1\n" * 100_001)
    with pytest.raises(InputError, match=r"must have at most 100000 rows; t.txt has more"):
        calibrate(path)


@pytest.mark.parametrize("junk", [
    "{" * 10**5, '{"results":[' * 10**4, "[{" * 10**5, '{"a":' + "9" * 10**5 + "}", "1 " * 10**5, "> " * 10**5,
    "," * 10**5,     "Rank 1 on " + "a" * 10**5, "size count type time " * 10**4, "\0" * 1000, "a_" * 10**5,
    '{"results": [7, null, [], {}]}',
    '{"results": [{"size": {}, "out_of_place": []}]}', '[{"size": [], "time": null, "inPlace": 0}]',
    "size_bytes,time_us\n²,1_0\n", "[[[{}]]]", "{}", "[{}]",
])  # fmt: skip
def test_junk_is_one_sentence(junk: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        calibrate(written(tmp_path, junk), collective="all_reduce", ranks=8)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def survives(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    path = tmp_path / "t.txt"
    path.write_bytes(as_lines(dice, (DATA / dice.choice(ALL)).read_bytes()))
    given = {"collective": "all_reduce", "ranks": 8} if dice.random() < 0.3 else {}
    try:
        found = calibrate(path, **given)
        said = text_of(found)
        assert np.isfinite(found.bandwidth)
        assert found.line.latency >= 0
        lines = [line for line in machine_yaml(found).splitlines() if not line.startswith("#")]
        assert [line.partition(":")[0] for line in lines] == ["_target_", "name", "alpha", "bandwidth"]
    except InputError as error:
        said = str(error)
        assert "\n" not in said
        assert len(said) < 600
    assert SECRET not in said


def test_changed_texts_are_read_or_refused(tmp_path: Path) -> None:
    for seed in range(60):
        survives(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_changed_texts_are_read_or_refused(block: int, tmp_path: Path) -> None:
    for seed in range(1000 + 300 * block, 1300 + 300 * block):
        survives(seed, tmp_path)
