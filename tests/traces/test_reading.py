"""Reading traces: all forms that profilers write, and one sentence for every file that is broken."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator.checks import InputError
from simulator.traces import files
from tests.process import PATIENCE
from tests.recorded import DATA, DLRM, analyse, kernel, parsed, reference

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
EVENTS = [kernel(NCCL, 100 + 1000 * i, 50) for i in range(4)] + [kernel("gemm", 200, 600)]
WHOLE = json.dumps({"distributedInfo": {"rank": 3, "world_size": 8}, "traceEvents": EVENTS}).encode()


def write(folder: Path, data: bytes, name: str = "rank3.json") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


SINGLE = [
    "hta_single/nccl_data.json.gz",
    "hta_single/negative_queue_rank0.json.gz",
    "tracelens/b200_eager_trace.json.gz",
]
NAMES = {"nccl_data.json.gz": "nccl_parser_config_nccl_data.json.gz",
         "negative_queue_rank0.json.gz": "negative_queue_length_values_check_rank0.json.gz"}  # fmt: skip


@pytest.mark.parametrize("name", SINGLE)
def test_single_ranks_have_the_reference_kernels(name: str) -> None:
    path = DATA / name
    expected = reference("single_rank_reference.json")[NAMES.get(path.name, path.name)]
    trace = parsed(path)
    own = trace.collectives
    assert (trace.rank, trace.world) == (expected["dist"]["rank"], expected["dist"]["world_size"])
    assert trace.kernels == expected["kernels"]
    assert trace.span / 1e3 == pytest.approx(expected["span_us"], rel=1e-6)
    assert trace.dropped == {}
    for key, group in expected["groups"].items():
        kind, wanted = key.strip("()").split(", ")
        label = wanted if kind == "'stream'" else wanted.strip("'")
        place = next(
            i
            for i, known in enumerate(trace.groups)
            if known.name.split(" (")[0] == (f"stream {label}" if kind == "'stream'" else label)
        )
        times = own[own["group"] == place]
        times = times[times["operation"] != "all_reduce"] if "b200" in name and kind != "'pg'" else times
        assert len(times) == group["n"]
        assert times["duration"].sum() / 1e3 == pytest.approx(group["dur_us"]["sum"], rel=1e-3)


@pytest.mark.parametrize("name", SINGLE[:2])
def test_blocks_of_single_ranks_are_the_reference(name: str) -> None:
    expected = reference("single_rank_reference.json")[NAMES[Path(name).name]]
    findings = analyse(DATA / name)
    assert not findings.usable
    assert findings.summary["reason"].str.contains("a tax needs two ranks").all()
    wanted = [group["block_sum_us (kernels starting in [end_j-1,start_j))"] for group in expected["groups"].values()]
    found = findings.blocks.groupby("group", sort=False)["kernels"]
    zeros = sorted(int((own == 0).sum()) for _, own in found)
    assert sorted(own.mean() * 1e6 for _, own in found) == pytest.approx(sorted(w["mean"] for w in wanted), rel=1e-3)
    assert zeros == sorted(w["zero_blocks"] for w in wanted)


def test_metadata_of_process_groups_is_read() -> None:
    trace = parsed(DATA / "hta_single" / "nccl_data.json.gz")
    (group,) = trace.groups
    assert (group.name, group.ranks, group.size) == ("0 (default_pg)", (0, 1), 2)
    assert trace.collectives["bytes"].iloc[5] == 6637568 * 4
    assert trace.collectives["operation"].value_counts().to_dict() == {"all_reduce": 15, "broadcast": 6}


def test_all_reduce_kernels_without_nccl_in_their_name_are_found() -> None:
    trace = parsed(DATA / "tracelens" / "b200_eager_trace.json.gz")
    streams = {group.name: int((trace.collectives["group"] == i).sum()) for i, group in enumerate(trace.groups)}
    assert streams == {"stream 7": 73, "3": 1}


@pytest.mark.parametrize("operation", ["gather", "scatter"])
@pytest.mark.parametrize("sizes", [(1000, 4000), (4000, 1000)])
def test_gather_and_scatter_have_their_whole_size_in_either_order(
    operation: str, sizes: tuple[int, int], tmp_path: Path
) -> None:
    """ProcessGroupNCCL::scatter has recorded the part as what goes in, ProcessGroupXCCL::scatter the whole."""
    about = {"Collective name": operation, "In msg nelems": sizes[0], "Out msg nelems": sizes[1], "dtype": "Float"}
    events = [kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 100, 50, **about)]
    found = parsed(write(tmp_path, json.dumps({"traceEvents": events}).encode())).collectives
    assert (found["operation"][0], found["bytes"][0]) == (operation, 16_000)


def test_a_users_own_collective_kernel_is_found_by_a_part_of_its_name(tmp_path: Path) -> None:
    events = [kernel("my_exchange<float>", 100, 50)]
    path = write(tmp_path, json.dumps({"traceEvents": events}).encode())
    assert len(parsed(path).collectives) == 0
    assert len(parsed(path, more=["My_Exchange"]).collectives) == 1


FORMS: dict[str, bytes] = {
    "object": WHOLE,
    "bare list": json.dumps(EVENTS).encode(),
    "byte order mark": b"\xef\xbb\xbf" + WHOLE,
    "spaces": json.dumps(json.loads(WHOLE), indent=4).encode(),
    "gzip named json": gzip.compress(WHOLE),
    "two gzip members": gzip.compress(WHOLE[:100]) + gzip.compress(WHOLE[100:]),
    "string pids, capital category": WHOLE.replace(b'"pid": 0', b'"pid": "0"').replace(b'"kernel"', b'"Kernel"'),
    "last event empty": WHOLE.replace(b"}]}", b"}, {}]}"),
    "float times": WHOLE.replace(b'"dur": 50', b'"dur": 50.000'),
    "duplicate key": WHOLE.replace(b'"dur": 50', b'"dur": 7, "dur": 50'),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_the_same(form: str, tmp_path: Path) -> None:
    trace = parsed(write(tmp_path, FORMS[form]))
    assert trace.rank == 3
    assert trace.collectives["start"].tolist() == [100_000, 1_100_000, 2_100_000, 3_100_000]
    assert trace.collectives["duration"].tolist() == [50_000] * 4
    assert (trace.start.tolist(), trace.duration.tolist(), trace.gemm.tolist()) == ([200_000], [600_000], [True])


def test_plain_json_named_gz_reads(tmp_path: Path) -> None:
    assert parsed(write(tmp_path, WHOLE, "a.json.gz")).rank == 3


@pytest.mark.parametrize("base", [0, 1_700_000_000_000_000_000])
def test_times_at_epoch_scale_are_exact_to_the_nanosecond(base: int, tmp_path: Path) -> None:
    text = re.sub(rb'"ts": (\d+),', rb'"ts": 170000000000\g<1>.123,', WHOLE).replace(b'"dur": 50', b'"dur": 50.001')
    text = text.replace(b'"ts": 170000000000100.123', b'"ts": 1700000000009100.123')
    text = text.replace(b"{", b'{"baseTimeNanoseconds": %d, ' % base, 1)
    own = parsed(write(tmp_path, text)).collectives
    assert own["start"].max() == 1_700_000_000_009_100_123 + base
    assert own["duration"].tolist() == [50_001] * 4


@pytest.mark.parametrize("base", [None, 0, 1_700_000_000_000_000_000])
def test_the_tax_at_epoch_scale_is_exact_to_the_nanosecond(base: int | None, tmp_path: Path) -> None:
    """Doubles in microseconds step by 0.25 there: 250 times what is asked for."""
    more = {} if base is None else {"baseTimeNanoseconds": base}
    for rank, late in enumerate([0, 1]):  # ns; rank 1 enters a nanosecond later
        lines = [
            f'{{"ph": "X", "cat": "kernel", "name": "{NCCL}", "args": {{"stream": 7}}, '
            f'"ts": {1_700_000_000_000_000 + 100 * k}.{123 + late}, "dur": 50.{100 - late:03d}}}'
            for k in range(5)
        ]
        head = json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, **more})[:-1]
        write(tmp_path, f'{head}, "traceEvents": [{", ".join(lines)}]}}'.encode(), f"rank{rank}.json")
    findings = analyse(tmp_path)
    assert findings.summary["status"].tolist() == ["ok"]
    assert (findings.tax["tax_fastest"] * 1e9).tolist() == pytest.approx([1] * 5, abs=1e-6)
    assert (findings.tax["end_spread"] == 0).all()
    assert (findings.blocks["gap"] * 1e9).round(6).tolist() == [49_900] * 4 + [49_901] * 4


VALUES = {  # what stands for a time -> why the kernel is dropped
    b'"ts": "100"': "no valid start time", b'"ts": true': "no valid start time", b'"ts": 1e400': "no valid start time",
    b'"ts": null': "no valid start time", b'"ts": 99999999999999999999': "no valid start time",
    b'"ts": ' + b"1" * 5000: "no valid start time", b'"x": 1': "no valid start time",
    b'"ts": 100, "dur": -1': "no valid", b'"ts": 100, "name": "\\ud83d\\ude00", "name": "\xff"': "event not readable",
    b'"ts": 100, "name": 5': "event not readable", b'"ts": 100, "args": 5': "event not readable",
}  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_a_value_that_is_no_number_is_dropped_and_counted(value: bytes, tmp_path: Path) -> None:
    line = b'{"ph": "X", "cat": "kernel", "name": "nccl", "dur": 5, %s}' % value
    trace = parsed(write(tmp_path, WHOLE.replace(b"}]}", b"}, " + line + b"]}")))
    assert trace.kernels == 5
    ((reason, times),) = trace.dropped.items()
    assert times == 1
    assert VALUES[value] in reason or reason == "negative duration"


NO_NUMBERS = [b"NaN", b"Infinity", b"1e400", b'"7"', b"true", b"false", b"null", b"9" * 5000, b"9223372036854775808",
              b"-5", b"1.5", b"[]", b"{}", b'"\\ud800"', b'"\xff"']  # fmt: skip
PLACES = [
    "ts",
    "dur",
    "tid",
    "stream",
    "Seq",
    "In msg nelems",
    "Group size",
    "Global rank start",
    "Process Group Ranks",
]


@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_number_never_becomes_one(place: str, tmp_path: Path) -> None:
    """The kernel is dropped and counted, or used without what the value says; or the file is refused with the place."""
    about = {"Process Group Name": "0", "dtype": "Float", "Seq": 1, "In msg nelems": 4, "Group size": 8,
             "Global rank start": 0, "Global rank stride": 1, "Process Group Ranks": "..."}  # fmt: skip
    for value in NO_NUMBERS:
        event = kernel(NCCL, 9000, 50, **about)
        home = event if place in event else event["args"]
        home[place] = "VALUE"
        line = json.dumps(event).encode().replace(b'"VALUE"', value)
        path = write(tmp_path, WHOLE.replace(b"}]}", b"}, " + line + b"]}"))
        if value in (b"NaN", b"Infinity", b'"\\ud800"'):
            with pytest.raises(InputError, match=r"(is not valid JSON: .* at|is cut off: it ends at) byte [\d,]+"):
                parsed(path)
            continue
        trace = parsed(path)
        assert trace.kernels + sum(trace.dropped.values()) == 6
        own = trace.collectives
        assert own["duration"].isin([50_000, 1_500]).all()
        assert own["bytes"].isin([-1, 16]).all()
        assert own["sequence"].isin([-1, 1]).all()
        assert {group.size for group in trace.groups} <= {None, 8}
        assert {group.ranks for group in trace.groups} <= {None, tuple(range(8))}


def test_a_base_time_that_is_no_number_is_said(tmp_path: Path) -> None:
    for value in (b'"7"', b"1e400", b"-5", b"true", b"9" * 5000):
        trace = parsed(write(tmp_path, WHOLE.replace(b"{", b'{"baseTimeNanoseconds": %s, ' % value, 1)))
        assert trace.notes == ("baseTimeNanoseconds is no whole number of nanoseconds, taken as 0",)
        assert trace.collectives["start"].min() == 100_000


CUT = WHOLE[: WHOLE.rindex(b"gemm")]
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty: 0 bytes"),
    "empty gzip": (gzip.compress(b""), "is empty: a gzip file of 0 bytes"),
    "gzip cut off": (gzip.compress(random.Random(1).randbytes(5000))[:-900], r"is cut off: gzip fails by byte [\d,]+"),
    "gzip checksum": (gzip.compress(WHOLE)[:-8] + b"12345678", r"is damaged: gzip fails by byte [\d,]+"),
    "gzip body": (gzip.compress(WHOLE)[:40] + b"\xff" * 40 + gzip.compress(WHOLE)[80:], "is damaged: gzip fails"),
    "cut in an event": (CUT, rf"is cut off: it ends at byte {len(CUT):,} in the middle of JSON"),
    "missing bracket": (WHOLE[:-2], "is cut off: it ends at byte"),
    "trailing comma": (WHOLE.replace(b"}]}", b"},]}"), r"not valid JSON: trailing comma in array at byte [\d,]+"),
    "NaN": (WHOLE.replace(b'"ts": 100,', b'"ts": NaN,'), r"not valid JSON: invalid character at byte [\d,]+"),
    "Infinity": (WHOLE.replace(b'"ts": 100,', b'"ts": Infinity,'), r"not valid JSON: invalid character at byte"),
    "control character": (
        WHOLE.replace(b"gemm", b"ge\nmm"),
        r"not valid JSON: invalid character at byte [\d,]+ \(line",
    ),
    "bad escape": (WHOLE.replace(b"gemm", b"ge\\qmm"), r"not valid JSON: invalid escaped character at byte [\d,]+"),
    "unescaped quote": (WHOLE.replace(b"gemm", b'ge"mm'), "not valid JSON: expected"),
    "lone surrogate": (WHOLE.replace(b"gemm", b"\\ud800"), r"not valid JSON: unexpected end of hex escape at byte"),
    "deep": (b'{"traceEvents": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "nested too deep"),
    "no events": (b'{"x": 1}', "no trace of events: Object missing required field `traceEvents`"),
    "events are null": (b'{"traceEvents": null}', "no trace of events: Expected `array`, got `null`"),
    "a number": (b"5", "no trace of events"),
    "binary": (b"\x00\x01\x02", "not valid JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_file_is_one_sentence_with_the_place(name: str, tmp_path: Path) -> None:
    data, sentence = BAD[name]
    with pytest.raises(InputError, match=sentence) as caught:
        analyse(write(tmp_path, data))
    assert "rank3.json" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "broken=skip goes on" in str(caught.value)


SECOND = WHOLE.index(b'{"ph"', WHOLE.index(b'{"ph"') + 1)
KEPT: dict[str, tuple[bytes, int, str]] = {  # of five events: how many are kept, and what is said of the others
    "cut in an event": (CUT, 4, "kept 4 whole events, cut 1 and whatever followed"),
    "cut after an event": (WHOLE[:-2], 5, "kept 5 whole events, cut 0 and whatever followed"),
    "cut at the begin of an event": (WHOLE[: SECOND + 1], 1, "kept 1 whole events, cut 1 and whatever followed"),
    "trailing comma": (BAD["trailing comma"][0], 5, "kept 5 whole events, cut 0"),
    "control character": (BAD["control character"][0], 4, "kept 4 whole events, cut 1"),
    "early fault": (WHOLE[:SECOND] + b"\1" + WHOLE[SECOND:], 1, "kept 1 whole events, cut 4"),
}


@pytest.mark.parametrize("name", KEPT)
def test_whole_events_of_a_broken_file_are_kept_only_when_told_to(name: str, tmp_path: Path) -> None:
    data, kept, said = KEPT[name]
    path = write(tmp_path, data)
    with pytest.raises(InputError, match="broken=skip goes on"):
        analyse(path)
    trace = parsed(path, keep=True)
    assert trace.kernels == kept
    assert trace.notes[0].endswith(said)
    assert trace.rank == 3


def test_a_cut_gzip_file_is_kept_up_to_the_cut(tmp_path: Path) -> None:
    path = next(DLRM.glob("worker4*"))
    whole = parsed(path)
    trace = parsed(write(tmp_path, path.read_bytes()[:-4000], "worker4.json.gz"), keep=True)
    assert 0 < trace.kernels < whole.kernels
    assert "is cut off: gzip fails by byte" in trace.notes[0]


@pytest.mark.slow
def test_a_bomb_costs_little_memory(tmp_path: Path) -> None:
    """1 GB of spaces in 1 MB; 10 GB in 10 MB peaks at the same 0.15 GB."""
    with gzip.open(tmp_path / "rank0.json.gz", "wb", 9) as file:
        for _ in range(64):
            file.write(b" " * 2**24)
    # The child's own children are the measure: its own peak would begin at that of the process it was forked from.
    program = (
        "import resource, subprocess, sys\n"
        "command = [sys.executable, '-m', 'simulator', '+experiment=trace_report', 'traces=.']\n"
        f"found = subprocess.run(command, capture_output=True, text=True, timeout={PATIENCE})\n"
        "print(found.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, found.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    out = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True)
    status, peak, said = out.stdout.split(" ", 2)
    assert status == "1"
    assert "unpacks to more than 500 times its size" in said
    assert int(peak) * (1 if sys.platform == "darwin" else 1024) < 2**29  # half of what is allowed


@pytest.mark.slow
def test_a_bomb_is_stopped(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(b" " * (files.SMALL + 10_000), 9), "rank0.json.gz")
    with pytest.raises(InputError, match="unpacks to more than 500 times its size"):
        analyse(path)
    with pytest.raises(InputError, match="unpacks to more than most_bytes = 1,000 bytes"):
        analyse(path, most_bytes=1000)


RANKS: dict[str, tuple[str, Any, str]] = {  # name of the file, its rank, what is said
    "unknown": ("trace.json", None, r"ranks must be given: trace\.json says its rank neither in"),
    "word": ("trace.json", '"x"', r"^traces: the rank of trace\.json must be a whole number, at least 0"),
    "negative": ("trace.json", -1, "must be a whole number, at least 0; got -1"),
    "beyond the job": ("trace.json", 8, "at most 7; got 8"),
    "huge": ("trace.json", 10**9, "at most 7; got 1000000000"),
    "true": ("trace.json", "true", "must be a whole number"),
}


@pytest.mark.parametrize("name", RANKS)
def test_a_rank_that_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    file, rank, sentence = RANKS[name]
    text = WHOLE.replace(b'"rank": 3, ', b"" if rank is None else b'"rank": %s, ' % str(rank).encode())
    with pytest.raises(InputError, match=sentence):
        analyse(write(tmp_path, text, file))


def test_the_rank_comes_from_the_file_or_its_name_or_the_user(tmp_path: Path) -> None:
    nameless = WHOLE.replace(b'"rank": 3, ', b"")
    assert parsed(write(tmp_path, WHOLE, "rank5.json")).rank == 3
    assert parsed(write(tmp_path, nameless, "x_rank-5.Mar_25.pt.trace.json")).rank == 5
    assert parsed(write(tmp_path, nameless, "worker6_step_12.1694.json")).rank == 6
    assert parsed(write(tmp_path, nameless, "trace.json"), rank=7).rank == 7


CORNER = {  # file: rank to give, what is printed of it
    "HIST_409ef9_rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz": (None, "only rank 70 has a trace"),
    "HIST_b2a719_step_based_trace_2543932.json.gz": (None, "130 GPU kernels, none of them a known collective"),
    "amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz": (0, "14 GPU kernels, none of them a known collective"),
    "cpu_only_rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz": (None, "no GPU kernels"),
    "distributed_info_unavailable_distributed_info_not_found.json.gz": (0, "no GPU kernels"),
    "rank_non_gpu_rank_non_gpu.json.gz": (None, "no GPU kernels"),
    "rank_unavailable_rank_not_found.json.gz": (0, "no GPU kernels"),
    "triton_example_triton_example.json.gz": (0, "1 GPU kernels, none of them a known collective"),
}


def test_every_corner_file_has_its_sentence() -> None:
    assert {path.name for path in (DATA / "hta_corner").glob("*.json.gz")} == set(CORNER)


@pytest.mark.parametrize("name", CORNER)
def test_a_corner_file_is_refused_with_the_right_sentence(name: str, tmp_path: Path) -> None:
    from simulator import TraceReport

    rank, sentence = CORNER[name]
    path = str(DATA / "hta_corner" / name)
    if rank is not None:
        with pytest.raises(InputError, match=r"^ranks must be given"):
            analyse(path)
    report = TraceReport(name="test", traces=path, ranks=None if rank is None else [rank])
    outcome = report.execute(tmp_path)
    assert not outcome.ok
    assert sentence in outcome.text


@pytest.mark.parametrize(
    ("given", "sentence"),
    [("nowhere", "does not exist"), ("*.json", "matches no trace file"), (".", "holds no trace"), ("", "must be a")],
)
def test_traces_that_are_none(given: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match=sentence):
        analyse(given) if given else files.find(given)


def test_a_folder_a_pattern_and_a_list_name_the_same_files() -> None:
    whole = files.find(str(DLRM))
    assert [path.name[:7] for path in whole] == ["worker0", "worker2", "worker4", "worker6"]
    assert files.find(f"{DLRM}/worker*.json.gz") == whole
    assert files.find([str(path) for path in reversed(whole)]) == whole
