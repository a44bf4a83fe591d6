"""The trace summary: what it holds against reference values, what it must not hold, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import TraceReport
from simulator.checks import InputError
from simulator.traces.summary import MOST_KEPT, QUANTILES, Summary, read_summary, summarise, write_summary
from tests.recorded import DLRM, analyse, byte_dance, job, kernel, reference, stragglar


@pytest.fixture(scope="module")
def dlrm() -> Summary:
    return summarise(analyse(DLRM))


def test_dlrm_is_its_reference(dlrm) -> None:
    whole = reference("param_dlrm_v100_r0246_summary.json")["groups"]["('stream', 84)"]
    assert (dlrm.source.kind, dlrm.source.ranks, dlrm.source.world) == ("profiler traces", [0, 2, 4, 6], 8)
    durations = np.concatenate([own.duration for own in dlrm.collectives]) / 1e3
    assert np.ptp(durations, axis=1).mean() == pytest.approx(whole["tax_maxmin_us"]["mean"])
    assert durations.min(axis=1).mean() == pytest.approx(whole["min_dur_us"]["mean"])
    assert dlrm.blocks[0].busy[0] == [184000, 185000, 189000, 183000]
    weighted = sum(own.count * own.moments["tax_fastest"].mean for own in dlrm.collectives) / 8
    assert weighted == pytest.approx(whole["tax_maxmin_us"]["mean"] / 1e6)


def test_stragglar_is_its_reference() -> None:
    whole = reference("stragglar_reference.json")
    summary = summarise(stragglar())
    (collectives,), (block,) = summary.collectives, summary.blocks
    assert collectives.stragglers == {"2": 49}
    assert collectives.moments["tax_fastest"].mean == pytest.approx(whole["tax_maxmin_us"]["mean"] / 1e6)
    p99 = collectives.moments["tax_median"].quantiles[QUANTILES.index(0.99)]
    assert p99 == pytest.approx(whole["tax_medmin_us"]["p99"] / 1e6)
    assert block.moments["busy"].mean == pytest.approx(whole["compute_mean_us"] / 1e6)
    assert block.gap == []


def test_byte_dance_has_every_stage_and_its_blocks() -> None:
    summary = summarise(byte_dance())
    assert [(own.group, own.operation, own.count) for own in summary.collectives] == [
        (f"group {stage}", operation, 32) for stage in range(4) for operation in ("reduce_scatter", "all_gather")
    ]
    assert [(block.block, block.instances) for block in summary.blocks] == [("forward", 128), ("backward", 128)] * 4


def test_a_written_summary_is_read_back(dlrm, tmp_path: Path) -> None:
    write_summary(dlrm, tmp_path / "a.json")
    assert read_summary(tmp_path / "a.json") == dlrm
    write_summary(read_summary(tmp_path / "a.json"), tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def secret(folder: Path) -> TraceReport:
    about = {"Process Group Name": "secret_group", "Group size": 2}
    names = ("ncclDevKernel_AllReduce_secret", "secret_gemm")
    events = {
        rank: [kernel(name, 1000 * k + 100 * i, 50 + rank * (1 - i), **(about if i == 0 else {}))
               for k in range(4) for i, name in enumerate(names)]
        for rank in range(2)
    }  # fmt: skip
    job(folder, events)
    for path in folder.glob("*.json"):
        path.rename(folder / f"secret_{path.name}")
    return TraceReport(name="test", traces=str(folder))


def test_nothing_private_is_in_a_summary_unless_asked_for(tmp_path: Path) -> None:
    found = secret(tmp_path).find()
    write_summary(summarise(found), tmp_path / "plain.json")
    assert "secret" not in (tmp_path / "plain.json").read_text()
    write_summary(summarise(found, names=True), tmp_path / "named.json")
    text = (tmp_path / "named.json").read_text()
    assert "secret_group" in text
    assert "gemm" not in text
    assert "Kernel" not in text


def test_single_times_of_a_long_job_are_cut_but_moments_are_of_all(tmp_path: Path) -> None:
    count = MOST_KEPT + 100
    job(tmp_path, {rank: [kernel("ncclKernel_AllReduce", 100 * k, 10 + rank + (k >= MOST_KEPT)) for k in range(count)]
                   for rank in range(2)})  # fmt: skip
    (own,) = summarise(analyse(tmp_path)).collectives
    assert (own.count, len(own.duration), len(own.label)) == (count, MOST_KEPT, MOST_KEPT)
    assert own.moments["shortest"].mean == pytest.approx((10 + 100 / count) / 1e6)


@pytest.mark.slow
def test_the_report_leaves_one(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    secret(tmp_path / "traces").execute(tmp_path)
    assert read_summary(tmp_path / "trace_summary.json").collectives[0].count == 4


@pytest.mark.parametrize(("change", "sentence"), [
    (lambda d: d.update(version=2), "must be a 'scaleup-simulator trace summary' of version 1; got"),
    (lambda d: d.update(format="x"), "must be a 'scaleup-simulator trace summary' of version 1; got 'x'"),
    (lambda d: d.pop("blocks"), "must be a trace_summary.json of a trace report: Object missing required field"),
    (lambda d: d.update(more=1), "must be a trace_summary.json of a trace report: Object contains unknown field"),
    (lambda d: d["blocks"][0]["busy"][0].pop(), "must have a row for each instance and in it a number for each rank"),
    (lambda d: d["blocks"][0]["busy"].pop(), "must have a row for each instance and in it a number for each rank"),
    (lambda d: d["blocks"][0]["gap"].pop(), "must have a row for each instance and in it a number for each rank"),
    (lambda d: d["collectives"][0]["duration"].pop(), "must have a row for each instance"),
    (lambda d: d["blocks"][0].update(ranks=[0, 0, 4, 6]), "must have a row for each instance"),
    (lambda d: d["collectives"][0]["label"].__setitem__(0, 2**63), "must be a trace_summary.json of a trace report"),
    (lambda d: d["blocks"][0].update(ranks=[], busy=[[]] * 7, gap=[[]] * 7), "must have a row for each instance"),
    (lambda d: d["blocks"][0]["busy"][0].__setitem__(0, -1), "must be a trace_summary.json of a trace report"),
    (lambda d: d["blocks"][0]["busy"][0].__setitem__(0, 1.5), "must be a trace_summary.json of a trace report"),
])  # fmt: skip
def test_a_summary_that_does_not_fit_together_is_refused(change: Any, sentence: str, dlrm, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    write_summary(dlrm, path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as error:
        read_summary(path)
    assert str(error.value).startswith(f"summary s.json {sentence}")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, b"\xff\xfe", b"NaN", b"null"])
def test_what_is_no_summary_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(content)
    with pytest.raises(InputError, match=r"^summary s.json must be a trace_summary.json of a trace report: "):
        read_summary(tmp_path / "s.json")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(InputError, match=r"^summary .* must be a file"):
            read_summary(path)


def test_names_can_do_nothing_in_text_and_pictures(dlrm, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    write_summary(dlrm, path)
    content = json.loads(path.read_text())
    name = "a\nb\x1b[31m\u202e\x00" + "x" * 5000
    for part in (*content["blocks"], *content["collectives"]):
        part["group"] = name
    path.write_text(json.dumps(content))
    for part in (*read_summary(path).blocks, *read_summary(path).collectives):
        assert part.group.isprintable()
        assert len(part.group) <= 60


def test_a_group_named_by_a_digit_changes_no_other_digit(tmp_path: Path) -> None:
    about = {"Process Group Name": "0", "Group size": 2}
    names = [kernel("ncclKernel_AllReduce", 1000 * k, 50, **about) for k in range(101)]
    job(tmp_path, {0: names, 1: names[:100]})
    (own,) = summarise(analyse(tmp_path)).collectives
    assert own.reason.startswith("100 of 101 matched")


def test_a_summary_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"^summary none.json cannot be read: No such file"):
        read_summary(Path("none.json"))
