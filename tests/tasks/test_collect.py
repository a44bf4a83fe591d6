"""Sweeps: one table, whatever fails, stops, runs twice or runs elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simulator.command.app import main
from simulator.command.build import files_read
from simulator.files.folders import partial_name, tidy
from simulator.files.points import sweep_name
from simulator.tasks.collect.table import Point, _value
from simulator.tasks.collect.task import sweep_pictures, sweep_table
from tests.process import PATIENCE, ROOT, command, wait_until

QUICK = ["iterations=2", "plots=false", "workload.layers=1"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def unpainted(monkeypatch):
    """Sweeps without their picture, where a test looks at their table alone."""
    monkeypatch.setattr("simulator.tasks.collect.task.write_pictures", lambda *args: None)


def sweep(*overrides: str) -> int:
    return main(["-m", *QUICK, *overrides])


def the_table() -> Path:
    (path,) = Path("multirun").glob("*/sweep.csv")
    return path


def test_all_combinations_in_one_tidy_table(capsys):
    assert sweep("topology=ring,nvswitch", "n=4,8") == 0
    table = pd.read_csv(the_table())
    assert list(zip(table.topology, table.n, strict=True)) == [
        ("nvswitch", 4),
        ("nvswitch", 8),
        ("ring", 4),
        ("ring", 8),
    ]
    assert set(table.status) == {"ok"}
    assert {"wait_mean", "wait_mean_se", "wait_model", "iteration_time_model", "error", "point"} <= set(table.columns)
    by_n = table.groupby("n").wait_mean.nunique()
    assert (by_n == 1).all()  # points with the same n share their draws
    main(["topology=ring", "n=8", *QUICK, "hydra.run.dir=one"])
    alone = pd.read_csv("one/summary.csv")
    assert table.loc[3, list(alone.columns)].equals(alone.iloc[0].rename(3))
    assert {path.name for path in the_table().parent.iterdir()} >= {"sweep.csv", "sweep.png", "sweep.svg"}
    assert "#3 " in capsys.readouterr().out


@pytest.mark.slow
def test_what_was_set_to_a_number_beyond_64_bits_stays_text(unpainted):
    assert sweep("n=4", f"seed=1,{'9' * 400}") == 1
    table = pd.read_csv(the_table(), dtype=str)
    assert dict(zip(table.status, table.seed, strict=True)) == {"ok": "1", "failed": "9" * 400}


def test_a_name_that_is_no_utf_8_is_a_failed_point_with_its_escape(unpainted):
    assert sweep("n=4", 'name="a\udce9b",c') == 1
    table = pd.read_csv(the_table())
    assert table.status.tolist() == ["failed", "ok"]
    assert table["name"][0] == r'"a\udce9b"'
    assert "must not have control characters" in table.error[0]


@pytest.mark.slow
def test_rows_are_in_the_order_of_what_was_swept(unpainted):
    assert sweep("topology=torus3d", "n=8,64,512,4096") == 0
    table = pd.read_csv(the_table())
    assert table.n.tolist() == [8, 64, 512, 4096]
    assert table["shape"].tolist() == ["2x2x2", "4x4x4", "8x8x8", "16x16x16"]


@pytest.mark.slow
def test_a_sweep_over_measurements_has_the_fit_of_each(monkeypatch, capsys):
    """25 us + size / 250 GB/s over 8 ranks: AllReduce has p = 2 and q = 1.75, AllToAll p = 1 and q = 0.875."""
    monkeypatch.setattr("simulator.tasks.calibrate.task.write_pictures", lambda *args: None)
    data = ROOT / "tests" / "data" / "nccl_outputs"
    names = ["alltoall.txt", "mpi_tag.txt", "no_mpi.txt"]
    asked = f"nccl_tests={','.join(str(data / name) for name in names)}"
    assert main(["-m", "+experiment=calibrate", asked]) == 1
    table = pd.read_csv(the_table())
    assert [Path(name).name for name in table.nccl_tests] == names
    assert table.status.tolist() == ["ok", "ok", "failed"]
    assert table.collective.tolist()[:2] == ["all_to_all", "all_reduce"]
    assert table.ranks.tolist()[:2] == [8, 8]
    assert table.latency.tolist()[:2] == pytest.approx([25e-6, 25e-6], rel=1e-3)
    assert table.alpha.tolist()[:2] == pytest.approx([25e-6, 12.5e-6], rel=1e-3)
    assert table.bandwidth.tolist()[:2] == pytest.approx([0.875 * 250e9, 1.75 * 250e9], rel=1e-3)
    assert "lists rank 0 twice" in table.error[2]
    out = capsys.readouterr().out
    assert re.search(r"^nccl_tests +ranks +sizes +latency +alpha +bandwidth", out, re.MULTILINE)
    assert max(map(len, out[out.index("3 points") : out.index("failed:")].splitlines())) <= 80


def test_a_sweep_over_traces_has_the_tax_of_each(monkeypatch, capsys):
    """Made traces, whose tax follows from how they were made; a pipeline has none over its group, only pairs' waits."""
    monkeypatch.setattr("simulator.tasks.trace_report.task.pictures", lambda *args: [])
    data = ROOT / "tests" / "data" / "traces"
    names = ["files/trace_several_windows", "hta_sampled_2of128", "made/one_long_pause", "made/pipeline/pipeline"]
    asked = f"traces={','.join(str(data / name) for name in names)}"
    assert main(["-m", "+experiment=trace_report", "workers=1", asked]) == 1
    table = pd.read_csv(the_table())
    assert table.traces.tolist() == [str(data / name) for name in names]
    assert table.status.tolist() == ["ok", "refused", "ok", "partial"]
    window, refused, pause, pipeline = (row for _, row in table.iterrows())
    assert (window.group, window.operation, window.measured) == ("window 1, stream 20", "all_reduce", 2)
    assert window.tax_fastest_mean == pytest.approx(319.9e-6, abs=5e-8)
    assert (pause.ranks, pause.collectives, pause.straggler, pause.costliest) == (4, 40, 1, 3)
    assert pause.tax_fastest_mean == pytest.approx(802.1e-6, abs=5e-8)
    assert pause.waited == pytest.approx(4 * 40 * pause.tax_mean_mean)
    assert pause.waited_share == pytest.approx(pause.tax_share)
    assert "differ by up to 134 ms" in refused.error
    assert "between two ranks" in pipeline.reason
    out = capsys.readouterr().out
    assert re.search(r"^traces +tax_fastest_mean +tax_share +costliest", out, re.MULTILINE)
    assert f"failed: experiment=trace_report workers=1 traces={data / names[1]}: ends do not agree" in out


@pytest.mark.slow
def test_parameters_without_a_column_of_their_own_get_one(unpainted):
    assert sweep("n=4", "compute.cv=0.01,0.02", "workload.scaling=weak,strong") == 0
    table = pd.read_csv(the_table())
    assert list(table["compute.cv"]) == [0.01, 0.01, 0.02, 0.02]
    assert list(table["workload.scaling"]) == ["strong", "weak", "strong", "weak"]


def test_the_same_sweep_again_runs_only_what_is_missing_or_changed(unpainted, capsys):
    assert sweep("n=4,8") == 0
    first = the_table().read_bytes()
    capsys.readouterr()
    assert sweep("n=4,8") == 0
    assert capsys.readouterr().out.count("done before, skipped") == 2
    assert the_table().read_bytes() == first
    # other overrides are another sweep, in a folder of its own
    assert sweep("n=4,8,16") == 0
    assert len(list(Path("multirun").iterdir())) == 2
    # given a folder, only the new point runs
    capsys.readouterr()
    assert sweep("n=4,8", f"hydra.sweep.dir={the_table_of('n=4,8,16')}") == 0
    assert capsys.readouterr().out.count("done before, skipped") == 2


def the_table_of(*overrides: str) -> Path:
    return Path("multirun") / sweep_name([*QUICK, *overrides])


def _times(latency: float) -> str:
    """A table of a link of 250 GB/s: 8 ranks, AllReduce."""
    rows = [f"{size},{1e6 * (latency + size / 250e9):.6e}" for size in 2 ** np.arange(20, 30)]
    return "\n".join(["# collective: all_reduce", "# ranks: 8", "size_bytes,time_us", *rows, ""])


def test_a_file_that_was_measured_again_is_read_again(monkeypatch, capsys):
    monkeypatch.setattr("simulator.tasks.calibrate.task.write_pictures", lambda *args: None)
    asked = ["-m", "+experiment=calibrate", "nccl_tests=a.csv,b.csv", "collective=all_reduce", "ranks=8"]
    Path("a.csv").write_text(_times(25e-6))
    Path("b.csv").write_text(_times(50e-6))
    age = os.stat("b.csv")
    assert main(asked) == 0
    assert pd.read_csv(the_table()).latency.tolist() == pytest.approx([25e-6, 50e-6], rel=1e-3)
    assert main(asked) == 0
    assert capsys.readouterr().out.count("done before, skipped") == 2
    Path("b.csv").write_text(_times(75e-6))  # as long, and of the same time
    os.utime("b.csv", ns=(age.st_atime_ns, age.st_mtime_ns))
    assert os.stat("b.csv").st_size == age.st_size
    assert main(asked) == 0
    assert capsys.readouterr().out.count("done before, skipped") == 1
    assert pd.read_csv(the_table()).latency.tolist() == pytest.approx([25e-6, 75e-6], rel=1e-3)
    manifests = [json.loads(path.read_text()) for path in the_table().parent.glob("*/manifest.json")]
    hashed = hashlib.sha256(Path("b.csv").read_bytes()).hexdigest()
    assert {"b.csv": hashed} in [manifest["inputs"] for manifest in manifests]


def test_what_a_config_reads_is_told_by_the_hints_of_what_it_constructs(tmp_path):
    """Folders of traces by their files, lists, tables of laws, nested anywhere; what does not exist is left out."""
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank1").mkdir()
    for name in ("rank0/t.json", "rank1/t.json", "s.json", "t.csv"):
        (tmp_path / name).write_text("{}")

    def named(**tree: Any) -> list[str]:
        return [path.relative_to(tmp_path).as_posix() for path in files_read(tree)]

    traces = {"_target_": "simulator.TraceReport", "name": "x", "table": {"_target_": "simulator.Columns"}}
    assert named(**traces, traces=str(tmp_path)) == ["s.json"]
    (tmp_path / "s.json").rename(tmp_path / "s.txt")
    assert named(**traces, traces=str(tmp_path)) == ["rank0/t.json", "rank1/t.json"]
    assert named(**traces, traces=[str(tmp_path / "rank1"), str(tmp_path / "t.csv")]) == ["rank1/t.json", "t.csv"]
    fit = {"_target_": "simulator.FitLaw", "report": {**traces, "traces": []}}
    assert named(**fit, summary=str(tmp_path / "s.txt"), traces=None) == ["s.txt"]
    assert named(**fit, summary=None, traces=str(tmp_path / "none")) == []
    law = {"_target_": "simulator.empirical", "table": str(tmp_path / "t.csv")}
    assert named(_target_="simulator.Simulate", n=8, compute=law) == ["t.csv"]
    assert named(_target_="simulator.Simulate", compute={"_target_": "simulator.Nothing", "table": "t.csv"}) == []


@pytest.mark.slow
def test_changed_code_is_run_again(unpainted, monkeypatch, capsys):
    assert sweep("n=4,8") == 0
    monkeypatch.setattr("simulator.files.points.code_version", lambda modules: "other")
    capsys.readouterr()
    assert sweep("n=4,8") == 0
    assert "skipped" not in capsys.readouterr().out
    assert len(pd.read_csv(the_table())) == 2


def test_a_failing_point_loses_no_other_and_says_why(unpainted, capsys):
    assert sweep("topology=torus3d", "topology.dims=[2,2,2]", "n=8,100") == 1
    table = pd.read_csv(the_table())
    assert list(table.status) == ["ok", "failed"]
    assert table.error[1] == "topology.dims must multiply to n = 100; got 2x2x2 = 8"
    captured = capsys.readouterr()
    assert "gumbel" not in captured.out  # the printed table has only columns that differ between finished points
    assert "n=100" in captured.err
    assert "failed: " in captured.out
    assert "Traceback" not in captured.err


@pytest.mark.slow
@pytest.mark.slow
def test_laws_with_and_without_a_construction_make_one_table_and_one_picture(capsys):
    """A value that one law has and another has not, in the rows, the order, the printed table and the legend."""
    assert sweep("compute=gumbel,normal", "n=4,8") == 0
    table = pd.read_csv(the_table())
    assert sorted(zip(table.law, table.parent.fillna("none"), table.n, strict=True)) == [
        ("gumbel", "spliced", 4), ("gumbel", "spliced", 8), ("normal", "none", 4), ("normal", "none", 8),
    ]  # fmt: skip
    (picture,) = sweep_pictures(table)
    assert set(picture.panels[0].table.series) == {"gumbel, spliced", "normal"}
    assert "nan" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_picture_that_cannot_be_drawn_loses_no_table(monkeypatch, capsys):
    def broken(*args: object) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr("simulator.pictures.draw.save", broken)
    monkeypatch.setattr("simulator.tasks.simulate.pictures.save", broken)
    assert sweep("n=4,8") == 1
    assert len(pd.read_csv(the_table())) == 2
    assert "pictures left out: RuntimeError: no ink" in capsys.readouterr().out
    data = ROOT / "tests" / "data"
    steps = f"summary={data}/summaries/llama3.2-3b_4xa100.json"
    for asked, table in (
        (["iterations=2"], "summary"),
        (["+experiment=tax_against_size", "sizes=[4]"], "tax"),
        (["+experiment=fit", steps, "replicates=100"], "tau"),
        (["+experiment=validate", steps, "runs=40", "fit.replicates=100"], "validation"),
        (["+experiment=trace_report", f"traces={data}/traces/param_dlrm_v100_r0246"], "tax_summary"),
        (["+experiment=calibrate", f"nccl_tests={data}/nccl_tests/h100_x4_allreduce_wh8_quiet.csv"], "fits"),
    ):
        assert main([*asked, f"hydra.run.dir={table}"]) == 1
        assert Path(table, f"{table}.csv").is_file()
        assert "pictures left out: RuntimeError: no ink" in capsys.readouterr().out


@pytest.mark.slow
def test_a_point_that_has_no_config_loses_no_other(unpainted):
    assert sweep("n=4", "compute=gumbel,normal", "compute.mu=0.7") == 1
    table = pd.read_csv(the_table())
    assert sorted(table.status) == ["failed", "ok"]
    assert "compute.mu is not a key" in table.error[table.status == "failed"].iloc[0]


@pytest.mark.slow
def test_a_failed_point_is_tried_again(unpainted, monkeypatch):
    def broken(*args: object) -> None:
        raise RuntimeError("no luck")

    with monkeypatch.context() as patch:
        patch.setattr("simulator.command.app._perform", broken)
        assert sweep("n=4") == 1
    assert "no luck" in the_table().read_text()
    assert sweep("n=4") == 0
    assert not list(the_table().parent.glob("*.failed.json"))
    assert list(pd.read_csv(the_table()).status) == ["ok"]


ENDLESS = """
import signal, time
from topologies import Ring

class Endless(Ring):
    def algorithms(self, kind, n):
        left, again = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left <= 1000 and again == 1
        if self.bandwidth == 2e9:
            signal.setitimer(signal.ITIMER_REAL, 0.01, 1)  # the rest of the time is over at once
            while True:
                time.sleep(1)
        return super().algorithms(kind, n)
"""


@pytest.mark.slow
def test_a_point_that_takes_too_long_loses_no_other(unpainted, monkeypatch, capsys, tmp_path):
    Path("endless.py").write_text(ENDLESS)
    Path("topology").mkdir()
    Path("topology/endless.yaml").write_text("_target_: endless.Endless\nalpha: 0.0\nbandwidth: 1e9\n")
    monkeypatch.syspath_prepend(tmp_path)
    asked = ["timeout=1000", "topology.bandwidth=1e9,2e9,3e9", "topology=endless", "plugins=[endless]"]
    assert main(["-m", "--config-dir", ".", *QUICK, *asked]) == 1
    table = pd.read_csv(the_table())
    assert list(table.status) == ["ok", "failed", "ok"]
    assert table.error[1] == "timeout must be longer: the point was not done after 1000 s"
    assert "timeout" not in table.columns


@pytest.mark.parametrize(
    ("override", "words"),
    [("n=choice()", "n=choice()"), ("topology=glob(x*)", "topology=glob(x*)"), ("n=range(8,8)", "n=range(8,8)")],
)
def test_an_empty_sweep_is_said_plainly(override, words, capsys):
    assert sweep(override) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert words in error
    assert not Path("multirun").exists()


@pytest.mark.slow
def test_collect_puts_folders_together_to_the_same_bytes():
    assert sweep("topology=ring,nvswitch", "n=4,8") == 0
    whole = the_table().read_bytes()
    pictures = [(the_table().parent / f"sweep.{kind}").read_bytes() for kind in ("png", "svg")]
    assert sweep("topology=ring", "n=4,8", "hydra.sweep.dir=a") == 0
    assert sweep("topology=nvswitch", "n=4,8", "hydra.sweep.dir=b") == 0
    assert main(["+experiment=collect", "folders=[b,a]", "hydra.run.dir=both"]) == 0
    assert Path("both/sweep.csv").read_bytes() == whole
    assert [Path(f"both/sweep.{kind}").read_bytes() for kind in ("png", "svg")] == pictures


def test_what_cannot_be_collected_is_one_sentence(capsys):
    assert main(["+experiment=collect", "folders=[nowhere]"]) == 1
    assert "folders must be folders of finished jobs; 'nowhere' is none" in capsys.readouterr().err
    Path("empty").mkdir()
    assert main(["+experiment=collect", "folders=[empty]"]) == 1
    assert "folders must hold finished jobs" in capsys.readouterr().err
    assert main(["+experiment=collect"]) == 1
    assert "folders must be given" in capsys.readouterr().err


def test_names_that_look_like_numbers_stay_as_they_are():
    names = ["007", "2024_01_31", "-03", "run1"]
    assert [_value(name) for name in names] == names
    assert [_value(text) for text in ("0", "7", "-7", "0.5", "1e-6", "20240131")] == [0, 7, -7, 0.5, 1e-6, 20240131]


def test_a_table_of_nothing_and_of_failures_only():
    assert sweep_table([]).empty
    failed = sweep_table([Point(name="p", given={"n": 8}, status="failed", error="x")])
    assert sweep_pictures(failed) == []


def test_what_killed_processes_left_is_removed_and_what_others_write_is_not(tmp_path):
    mine = tmp_path / partial_name("x")
    dead = tmp_path / partial_name("x").replace(f"-{os.getpid()}-", "-999999999-")
    other = tmp_path / ".x.partial-anotherhost-999999999-0"
    for path in (mine, dead, other):
        path.mkdir()
    tidy(tmp_path)
    assert mine.exists()
    assert other.exists()
    assert not dead.exists()


POINTS = ["topology=ring,nvswitch", "n=4,8"]


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["processes", "submitit_local"])
def test_any_launcher_gives_the_same_bytes(launcher):
    assert sweep(*POINTS, "hydra.sweep.dir=here") == 0
    with command("-m", *QUICK, *POINTS, f"hydra/launcher={launcher}", "hydra.sweep.dir=there") as process:
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error
    for name in ("sweep.csv", "sweep.png", "sweep.svg"):
        assert Path("here", name).read_bytes() == Path("there", name).read_bytes()


@pytest.mark.ray
def test_a_ray_cluster_of_two_nodes_gives_the_same_bytes(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # what installing the package does on the nodes of a real cluster
    from ray.cluster_utils import Cluster

    assert sweep(*POINTS, "hydra.sweep.dir=here") == 0
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        address = f"hydra.launcher.ray.init.address={cluster.address}"
        with command("-m", *QUICK, *POINTS, "hydra/launcher=ray_cluster", address, "hydra.sweep.dir=there") as process:
            _, error = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, error
    finally:
        cluster.shutdown()
    assert Path("here/sweep.csv").read_bytes() == Path("there/sweep.csv").read_bytes()


@pytest.mark.slow
def test_killed_again_and_again_the_table_is_that_of_an_unbroken_run():
    assert sweep(*POINTS, "hydra.sweep.dir=unbroken") == 0
    dice = random.Random(4)
    for _ in range(6):
        with command("-m", *QUICK, *POINTS, "hydra.sweep.dir=broken") as process:
            time.sleep(dice.uniform(0.1, 1.5))
            process.kill()
            process.wait()
    with command("-m", *QUICK, *POINTS, "hydra.sweep.dir=broken") as process:
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error
    assert Path("broken/sweep.csv").read_bytes() == Path("unbroken/sweep.csv").read_bytes()
    assert not list(Path("broken").glob(".*.partial*"))
    points = [json.loads(path.read_text())["overrides"] for path in Path("broken").glob("[!.]*/manifest.json")]
    assert len(points) == 4


@pytest.mark.slow
def test_an_interrupted_sweep_keeps_what_is_finished():
    with command("-m", "n=4,4096", "iterations=4,1000000", "plots=false") as process:  # the second never ends
        wait_until(lambda: list(Path().glob("multirun/*/[!.]*/manifest.json")), process)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert "the same command goes on" in error
    assert "Traceback" not in error
    assert list(Path().glob("multirun/*/[!.]*/manifest.json"))
    assert not list(Path().glob("multirun/*/.*.partial*"))


@pytest.mark.slow
def test_two_sweeps_at_the_same_moment_do_not_mix():
    """The same sweep twice, and another one beside them."""
    with (
        command("-m", *QUICK, *POINTS) as one,
        command("-m", *QUICK, *POINTS) as two,
        command("-m", *QUICK, "n=16,32") as three,
    ):
        for process in (one, two, three):
            _, error = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, error
    tables = [pd.read_csv(path) for path in Path("multirun").glob("*/sweep.csv")]
    assert sorted(len(table) for table in tables) == [2, 4]
    assert all((table.status == "ok").all() for table in tables)


@pytest.mark.parametrize("damage", [
    lambda home: (home / "manifest.json").write_text("[]"),
    lambda home: (home / "manifest.json").write_text('{"overrides": null}'),
    lambda home: (home / "summary.csv").write_text(""),
    lambda home: (home / "manifest.json").write_text("[" * 100_000),
    lambda home: (home.parent / "x.failed.json").write_text("{"),
    lambda home: (home.parent / "x.failed.json").write_bytes(b"\xff"),
    lambda home: (home.parent / "x.failed.json").write_text("[]"),
    lambda home: (home.parent / "x.failed.json").mkdir(),
])  # fmt: skip
def test_damaged_points_are_failed_ones(damage, tmp_path, capsys):
    home = tmp_path / "sweep" / "a"
    home.mkdir(parents=True)
    (home / "manifest.json").write_text('{"overrides": []}')
    (home / "summary.csv").write_text("n,status\n8,ok\n")
    damage(home)
    assert main(["+experiment=collect", "folders=[sweep]"]) == 1
    shown = capsys.readouterr()
    assert re.search(
        r"^failed: .*: (a|x.failed.json) cannot be read \(.*\): remove it and run the point again$", shown.out, re.M
    )
    assert "\x1b" not in shown.out + shown.err
    assert len(list(Path("outputs").glob("*/*/sweep.csv"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("manifest", ["[]", "null", "", "[" * 100_000, '{"overrides": 5}', '{"overrides": [1]}'])
def test_a_damaged_point_of_a_sweep_is_run_again(manifest, capsys):
    assert sweep("n=4,8") == 0
    table = the_table()
    whole = table.read_bytes()
    home = sorted(table.parent.glob("*/summary.csv"))[0].parent
    (home / "manifest.json").write_text(manifest)
    capsys.readouterr()
    assert sweep("n=4,8") == 0
    out = capsys.readouterr().out
    assert out.count("done before, but its files are damaged: it is run again") == 1
    assert out.count("done before, skipped") == 1
    assert table.read_bytes() == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-9])], ids=["lost", "cut"]
)
def test_a_point_that_lost_a_file_is_run_again(damage, capsys):
    assert sweep("n=4,8") == 0
    table = the_table()
    whole = table.read_bytes()
    damage(sorted(table.parent.glob("*/summary.csv"))[0])
    capsys.readouterr()
    assert sweep("n=4,8") == 0
    out = capsys.readouterr().out
    assert out.count("done before, but its files are damaged: it is run again") == 1
    assert out.count("done before, skipped") == 1
    assert table.read_bytes() == whole


def test_a_sweep_into_the_folder_of_a_single_run_is_refused_before_it_begins(capsys):
    assert main(["n=4", "iterations=2", "plots=false", "hydra.run.dir=one"]) == 0
    capsys.readouterr()
    assert sweep("n=4,8", "hydra.sweep.dir=one") == 1
    shown = capsys.readouterr()
    assert shown.err == "error: hydra.sweep.dir must be a folder of sweeps; one holds a single run\n"
    assert shown.out == ""


def test_what_failed_cannot_steer_the_terminal(tmp_path, capsys):
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "x.failed.json").write_text(
        json.dumps({"overrides": ["name=\x1b[2J"], "error": "\x1b[31mred"})
    )
    assert main(["+experiment=collect", "folders=[sweep]"]) == 1
    assert "failed: name=?[2J: ?[31mred" in capsys.readouterr().out


def test_points_that_are_not_there_are_refused(tmp_path, capsys):
    (tmp_path / "sweep" / "a").mkdir(parents=True)
    (tmp_path / "sweep" / "a" / "manifest.json").write_text('{"overrides": []}')
    for points, said in (("[nope]", "'nope' is none"), ("[]", "points must have at least one entry; got none")):
        assert main(["+experiment=collect", "folders=[sweep]", f"+points={points}"]) == 1
        assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_code_of_a_plugin_counts_from_the_first_point_on(tmp_path, monkeypatch, capsys):
    """Also where the current folder is not on the path, as for an installed command."""
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    Path("mylaw.py").write_text("import simulator\n")
    assert sweep("n=2,4", "plugins=[mylaw]") == 0
    Path("mylaw.py").write_text("import simulator  # edited\n")
    capsys.readouterr()
    assert sweep("n=2,4", "plugins=[mylaw]") == 0
    assert "skipped" not in capsys.readouterr().out
    for module in ("os.path", "no.such"):
        sweep("n=2", f"plugins=[{module}]")
        assert "frozen" not in capsys.readouterr().err
