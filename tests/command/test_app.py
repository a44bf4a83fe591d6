"""The command: what it prints and writes, and one sentence for everything that is wrong."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.command.app import main
from simulator.command.flags import config_dir
from tests.process import PATIENCE, ROOT, command, wait_until

TOPOLOGIES = ", ".join(sorted(path.stem for path in (config_dir() / "topology").glob("*.yaml")))
QUICK = ["iterations=2", "workload.layers=2", "plots=false"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SIMULATOR_TRACEBACK", raising=False)


BAD = [
    # arguments (| between them), what the sentence says
    ("topology=rign", f"topology must be one of {TOPOLOGIES}; got 'rign' (did you mean ring?)"),
    ("+experiment=torus_51", "experiment must be one of", "torus_512", "(did you mean torus_512?)"),
    ("experiment=torus_512", "write +experiment=torus_512"),
    ("compute=gumbell", "compute must be one of", "(did you mean gumbel?)"),
    ("engine=vectr", "engine must be one of events, vector; got 'vectr' (did you mean vector?)"),
    ("compute=7", "compute must be one of", "got 7"),
    ("compute=[gumbel,frechet]", "compute must be one of", "got ['gumbel', 'frechet']"),
    ("compute.sigam=1", "compute.sigam is not a key of compute=gumbel; did you mean compute.sigma?", "compute.xi"),
    ("+compute.sigam=1", "compute.sigam is not a key of compute=gumbel; did you mean compute.sigma?", "compute.xi"),
    ("topolgy=ring", "topolgy is not a key; did you mean topology?"),
    ("sigma=1", "sigma is not a key; did you mean compute.sigma?"),
    ("+nn=3", "nn is not a key of task=simulate; did you mean n?"),
    ("n.x=3", "n.x is not a key: n is a single value"),
    ("hydra.run.dri=x", "hydra.run.dri is not a key", "did you mean hydra.run.dir?"),
    # an unknown key is compared with the keys of what is chosen beside it
    ("compute=normal|compute.sigma=1", "compute.sigma is not a key of compute=normal. Known keys: compute.mean"),
    ("compute=normal|compute.mean=1|compute.sgima=3", "compute.sgima is not a key of compute=normal. Known keys"),
    ("compute=empirical|compute.table=t.csv|compute.cv=1", "compute.cv is not a key of compute=empirical", ".columns"),
    ("topology=ring|topology.dims=[2,2,2]", "topology.dims is not a key of topology=ring. Known keys: topology.alpha"),
    ("topology=torus3d|topology.dims=[2,2,2]|topology.alhpa=1", "key of topology=torus3d; did you mean topology.alpha"),
    ("+experiment=torus_512|topology=ring|topology.dims=[2,2,2]", "topology.dims is not a key of topology=ring."),
    ("+experiment=torus_512|topology.dism=[8,8,8]", "key of topology=torus3d; did you mean topology.dims?"),
    ("engine=events|engine.threads=2", "engine.threads is not a key of engine=events. Known keys: none"),
    ("workload=llama3_3b_ddp|workload.layers=3", "workload.layers is not a key of workload=llama3_3b_ddp"),
    ("workload=tp_dp_overlap|workload.mesh.tp=4|workload.layers=2", "key of workload=tp_dp_overlap", "workload.mesh"),
    ("~task|iterations=2", "task must be given", "simulate"),
    ("-m|foo=1,2", "foo is not a key. Known keys: "),
    ("-m|n=interval(1,2)", "n must list its values, n=A,B,C or n=range(A,B); got interval(1,2)"),
    ("-m|n=range(8,1e9)", "the sweep must have at most 100000 points"),
    ("-m|n=range(1,1000)|seed=range(1,1000)", "the sweep must have at most 100000 points"),
    ("n = 8", "must have no spaces around its =: write n=8"),
    ('name="${"', "name=", "cannot apply"),
    ("topology@foo=ring", "topology@foo must be one of the groups compute, engine"),
    # values of another kind than the constructor takes
    *((f"name={x}", "name must be text; got") for x in ["nan", "null", "[a]", "{a: 1}", "true", "5"]),
    ("machine.name=5", "machine.name must be text; got 5"),
    ("topology.algorithm=[ring]", "topology.algorithm must be ", "; got ['ring']"),
    *((f"compute=empirical|compute.table={x}", "compute.table must be") for x in ["null", "5", "[t.csv]", "{a: 1}"]),
    ("compute=empirical|compute.columns=[[t]]", "compute.columns must be a list of text; got [['t']]"),
    ("compute=empirical|compute.rank=[rank]", "compute.rank must be text; got ['rank']"),
    *((f'name="a{c}b"', "name must not have control characters; got 'a\\") for c in "\0\n\x1b\x7f\x9b\udce9"),
    *((f'hydra.run.dir="a{c}b"', "hydra.run.dir must not have control characters") for c in "\0\n\x1b\udce9"),
    ("\x1b[31m=1", "override '\\x1b[31m=1' cannot be read"),
    ("topology.dims=[2,2,2]", "topology.dims is not a key of topology=nvswitch"),
    ("+n=4", "n has a value already: write n=4 without a plus"),
    ("+topology=ring", "write topology=ring without a plus"),
    ("n=1|n=2", "n must be given once; got 'n=1' and 'n=2'"),
    ("topology=ring|topology=torus3d", "topology must be given once"),
    ("~n", "n must be given"),
    ("~topology", "topology must be given"),
    ("n", "override 'n' must be KEY=VALUE"),
    ("compute.cv=" + "[" * 3000, "override 'compute.cv=[[[", "must be nested at most 50 deep"),
    ("compute.cv=" + "{a:" * 51 + "1" + "}" * 51, "must be nested at most 50 deep"),
    ("compute.cv=" + "[" * 50 + "]" * 50, "compute.cv must be a finite number, at least 0; got [[[["),
    ("-m|n=range(1,9,0)", "n must be a range that can be counted", "got range(1,9,0)"),
    ("timeout=1e10", "timeout must be a finite number, above 0, at most 1e+09; got 1"),
    ("=n", "override '=n' must be KEY=VALUE"),
    ("hydra.run.dir=t_ü", "cannot be read", """'hydra.run.dir="t_ü"'"""),
    ("name=a=b", "cannot be read", """'name="a=b"'"""),
    ("name=a,b", "add -m", """'name="a,b"'"""),
    ("n=8,64", "n must have one value without -m; got 8,64"),
    ("--foo", "flag --foo does not exist", "--config-dir"),
    ("--multirn|n=3", "flag --multirn does not exist (did you mean --multirun?)"),
    ("--cfg|foo", "--cfg", "'foo'", "'job'"),
    ("--resolve", "--resolve must go with --cfg job"),
    ("--package|n", "--package must go with --cfg job"),
    ("--cfg|job|--package|nope", "--package must be a key of the config; got 'nope'"),
    ("--config-dir|nowhere", "--config-dir must be a folder; got 'nowhere'"),
    ("name=${b}", "name cannot be resolved", "'b' not found"),
    ("topology.alpha=${topology.alpha}", "topology.alpha cannot be resolved", "Recursive"),
    *(
        (f"n={x}", "n must be a whole number, at least 1; got")
        for x in ["0", "-1", "1.5", "abc", "nan", "1e400", "0x10", "017", "true", "null"]
    ),
    *(
        (f"topology.alpha={x}", "topology.alpha must be a finite number, at least 0; got")
        for x in ["-1", "nan", "inf", "-inf", "1e400", "0x10", "017", "true", "abc", "null"]
    ),
    *(
        (f"topology.bandwidth={x}", "topology.bandwidth must be a number, above 0; got")
        for x in ["0", "-1", "nan", "-inf", "true"]
    ),
    *((f"workload.bytes={x}", "workload.bytes must be a finite number, at least 0") for x in ["-1", "nan", "inf"]),
    *((f"seed={x}", "seed must be a whole number, at least 0") for x in ["-1", "abc", "1.5", "9223372036854775808"]),
    ("iterations=0", "iterations must be a whole number, at least 1; got 0"),
    ("timeline=yes", "timeline must be true or false; got 'yes'"),
    ("topology=torus3d|topology.dims=[2,2,3]", "topology.dims must multiply to n = 8; got 2x2x3 = 12"),
    ("topology=torus3d|topology.dims=[2,4]", "topology.dims must be three whole numbers"),
    ("topology.algorithm=rign", "topology.algorithm must be one of all_pairs, ring; got 'rign' (did you mean ring?)"),
    ("compute.xi=1", "compute.xi must be below 1"),
    ("compute.sigma=0", "compute.sigma must be a finite number, above 0; got 0"),
    ("compute.cv=10", "compute.cv must be smaller"),
    (
        "compute.parent=splice",
        "compute.parent must be one of spliced, zero_sum, root; got 'splice' (did you mean spliced?)",
    ),
    ("compute.parent=zero_sum|n=6", "n must be a multiple of 4"),
    ("compute=empirical|compute.table=nope.csv", "compute.table must be an existing file or one of"),
    ("workload.kind=all_redcue", "workload.kind must be one of", "(did you mean all_reduce?)"),
    ("workload=tp_dp_overlap|n=9", "workload.mesh must have sizes that multiply to n = 9"),
    ("workload=tp_dp_overlap|workload.operations.1.group=tpp", "group of 'forward_sum' must be", "(did you mean tp?)"),
    ("workload=tp_dp_overlap|workload.operations.4.after=[later]", "after of 'gradients'", "'later' is unknown"),
    ("workload=tp_dp_overlap|workload.operations.4.after=[next_backward]", "'next_backward' is a later operation"),
    ("compute.mean=1e9", "must take less than 8192 s"),
    ("hydra.run.dir=/dev/null/x", "output folder /dev/null/x cannot be written"),
    ("hydra.run.dir=", "hydra.run.dir must be the path of a folder"),
    ("hydra.run.dir=null", "hydra.run.dir", "not Optional"),
    ("hydra.run.dir=${foo}", "hydra.run.dir cannot be resolved: Interpolation key 'foo' not found"),
    (f"hydra.run.dir={'x' * 300}", "output folder", "cannot be written: File name too long"),
    ("traces=true", "traces is export_traces since version 0.2: write export_traces=..."),
    ("+traces=true", "traces is export_traces since version 0.2: write export_traces=..."),
    ("-m|n=8,16|hydra.run.dir=x", "hydra.run.dir must be left out with -m: hydra.sweep.dir=FOLDER names the folder"),
    ("hydra.sweep.dir=x", "hydra.sweep.dir must go with -m"),
    ("hydra/launcher=basic", "hydra/launcher must go with -m"),
    ("-m|hydra.sweep.dir=", "hydra.sweep.dir must be the path of a folder"),
    ("-m|hydra.sweep.dir=${foo}", "hydra.sweep.dir cannot be resolved"),
    ("-m|hydra.sweep.dir=/dev/null", "output folder /dev/null cannot be written"),
    (
        "topology._target_=os.system",
        "topology._target_ must name something in simulator, topologies",
        "got 'os.system'",
    ),
    ("topology._target_=simulator.files.manifest.commit", "topology._target_ must name a Topology"),
    ("+topology._partial_=true", "topology._partial_ is not a key"),
    ("plugins=[nope]", "plugins 'nope' does not exist"),
    ("plugins=nope", "plugins must be a list of module names"),
    # of Hydra itself, only where results go and how a sweep is launched
    *(
        (f"{key}={value}", f"{key.lstrip('+')} is not a key of hydra that can be set", "hydra.launcher.KEY")
        for key, value in {
            "hydra": "null",
            "hydra.foo": "1",
            "hydra.run": "{dir: x}",
            "hydra.mode": "MULTIRUN",
            "hydra.verbose": "true",
            "hydra.job.name": "../../x",
            "hydra.job.chdir": "true",
            "hydra.job.env_set": "{A: b}",
            "hydra.output_subdir": ".hydra",
            "hydra.searchpath": "[pkg://os]",
            "hydra/job_logging": "default",
            "+hydra.callbacks.x._target_": "os.system",
            "hydra.overrides.task": "[x]",
            "hydra.sweep.subdir": "x",
            "hydra.sweeper.params": "{n: 3}",
            "hydra.sweeper.max_batch_size": "0",
            "hydra/sweeper": "basic",
            "hydra.launcher._target_": "os.system",
            "+hydra.launcher.x._target_": "os.system",
        }.items()
    ),
    ("+hydra.launcher.x={_target_: os.system}", "hydra.launcher.x._target_ is not allowed; got 'os.system'"),
    ("+hydra.launcher.x=${compute}", "hydra.launcher.x._target_ is not allowed"),
    ("+compute@hydra.launcher=normal", "compute/normal.yaml must not say anything about hydra"),
    ("-m|hydra.launcher.x=1", "hydra.launcher.x is not a key"),
    ("-m|hydra.launcher.n_jobs=0|hydra/launcher=processes", "hydra/launcher=processes cannot start: ", "n_jobs"),
    ("-m|topology=ring,rign", "topology must be one of", "'rign'"),
]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("case", BAD, ids=lambda case: case[0])
def test_bad_input_is_one_sentence(case: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments, *said = case
    assert main(arguments.split("|")) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for words in said:
        assert words in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_suggested_quoting_works(capsys: pytest.CaptureFixture[str]) -> None:
    for value in ("t_ü", "a=b", 'a "b", c', "x\\y=z\\"):
        assert main([f"name={value}"]) == 1
        suggestion = capsys.readouterr().err.rpartition("config, ")[2].strip()
        printf = ["bash", "-c", f"printf %s {suggestion}"]
        typed = subprocess.run(printf, capture_output=True, text=True, check=True, timeout=PATIENCE)
        assert main([typed.stdout, *QUICK, f"hydra.run.dir=out{len(value)}{value[0]}"]) == 0
        assert capsys.readouterr().out.startswith(f"{value}: nvswitch, n = 8\n")


def test_a_run_prints_and_writes_what_it_should(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["+experiment=torus_512", *QUICK, "timeline=true", "per_rank=true", "hydra.run.dir=out"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert "…" not in out
    for words in (
        *("torus_512: torus3d 8x8x8, n = 512", "gumbel law (spliced), compute blocks of 16.00 ms ± 2 %"),
        *("machine NVIDIA H200 SXM, engine vector, seed 0, 2 iterations", "weak scaling"),
        *(
            "algorithm bucket",
            "6 links of a rank, 2.700 TB/s in all",
            "tax of the fastest rank",
            "tax of the median rank",
        ),
        *("tax of the mean rank", "935.6", "210.0", "1,190.7", "B* at elasticity -0.5", "B* at elasticity -0.1"),
        *("elasticity as simulated", "Written to out"),
    ):
        assert words in out
    folder = tmp_path / "out"
    assert {"summary.csv", "iterations.parquet", "collectives.parquet", "manifest.json", "timeline.json"} <= {
        path.name for path in folder.iterdir()
    }
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["config"]["n"], manifest["config"]["topology"]["bandwidth"]) == (512, 450e9)
    with (folder / "summary.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["experiment"], row["n"], row["status"]) == ("torus_512", "512", "ok")


def test_an_output_folder_is_never_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert main([*QUICK, "hydra.run.dir=out"]) == 0
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    assert main([*QUICK, "hydra.run.dir=out"]) == 1
    assert "already holds files" in capsys.readouterr().err
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before


@pytest.mark.slow
def test_a_failing_job_of_a_sweep_does_not_lose_the_others(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["n=8,0,16", *QUICK, "-m", "hydra.sweep.dir=sweep"]) == 1
    out, err = capsys.readouterr()
    assert err.startswith("#1 n=0")
    assert err.endswith(": error: n must be a whole number, at least 1; got 0\n")
    assert "#0 n=8" in out
    assert "#2 n=16" in out
    assert len(list((tmp_path / "sweep").glob("*/summary.csv"))) == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", [".", "link", "gone", "here"])
def test_an_empty_folder_is_filled_whatever_it_is(place: str, tmp_path: Path) -> None:
    """The current folder and a link could not be replaced by another folder; a link may lead to nothing yet."""
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "link").symlink_to(here)
    (tmp_path / "gone").symlink_to(tmp_path / "later")
    os.chdir(here)
    assert main([*QUICK, f"hydra.run.dir={place if place == '.' else tmp_path / place}"]) == 0
    assert "manifest.json" in {path.name for path in (tmp_path / place if place != "." else here).iterdir()}
    assert os.getcwd() == str(here)
    assert not list(tmp_path.glob("**/.*partial*"))


def test_a_current_folder_that_was_removed_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    os.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    assert main(QUICK) == 1
    assert capsys.readouterr().err == "error: the current folder must exist; it was removed: go to another one\n"
    assert main(["--help"]) == 0


def test_the_folder_of_config_dir_comes_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A topology and an experiment that our own configs have too, and the primary config."""
    for name, text in {
        "topology/nvswitch": "_target_: topologies.Ring\nalpha: 1e-6\nbandwidth: 1e9\n",
        "experiment/torus_512": "# @package _global_\nname: mine\nn: 6\n",
        "other/config": "defaults: [task: simulate, _self_]\nplugins: []\nn: 5\n",
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.yaml").write_text(text)
    assert main(["--config-dir", ".", "+experiment=torus_512", *QUICK, "hydra.run.dir=out"]) == 0
    assert capsys.readouterr().out.startswith("mine: ring, n = 6\n")
    assert main(["--config-dir", "other", *QUICK, "hydra.run.dir=out2"]) == 0
    assert capsys.readouterr().out.startswith("simulation: nvswitch, n = 5\n")
    (tmp_path / "other" / "config.yaml").write_text("n: 5\n")
    assert main(["--config-dir", "other", *QUICK]) == 1
    assert "task must be given, in config.yaml or as task=NAME" in capsys.readouterr().err


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "statement", ["raise SystemExit(0)", "import sys; sys.exit()", "class E(BaseException): 0\nraise E"]
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_plugin_cannot_end_the_command_silently(
    statement: str, inside: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = statement.splitlines()
    text = (
        "\n".join(["def star(*, alpha: float) -> Topology:", *(f"    {line}" for line in lines)])
        if inside
        else statement
    )
    (tmp_path / "ending.py").write_text(f"from simulator import Topology\n{text}\n")
    (tmp_path / "topology").mkdir()
    (tmp_path / "topology" / "star.yaml").write_text("_target_: ending.star\nalpha: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    for extra in ([], ["-m"]):
        assert main([*extra, "--config-dir", ".", "topology=star", "plugins=[ending]", *QUICK]) == 1
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "ending" in err
        assert "SystemExit" in err or "E:" in err
        sys.modules.pop("ending", None)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["basic", "processes"])
def test_a_terminal_that_knows_few_characters_shows_question_marks(launcher: str) -> None:
    for asked in (["hydra.run.dir=out"], ["--cfg", "job"], ["-m", f"hydra/launcher={launcher}"]):
        with command(*QUICK, 'name="ü"', *asked, PYTHONIOENCODING="ascii") as process:
            out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, "")
        assert "?" in out


def test_a_topology_of_ones_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_module.py").write_text(
        "from dataclasses import dataclass\n"
        "from simulator import ring\n"
        "from simulator import Topology\n\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Mine(Topology):\n"
        "    hops: int = 1\n\n"
        "    def algorithms(self, kind, n):\n"
        "        return (ring(kind, n),)\n"
    )
    (tmp_path / "topology").mkdir()
    (tmp_path / "topology" / "mine.yaml").write_text(
        "_target_: my_module.Mine\nalpha: ${machine.alpha}\nbandwidth: ${machine.bandwidth}\n"
    )
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    asked = ["--config-dir", ".", "topology=mine", *QUICK, "hydra.run.dir=out"]
    assert main(asked) == 1
    assert "plugins=[my_module]" in capsys.readouterr().err
    assert main([*asked, "plugins=[my_module]", "+topology.hpos=2"]) == 1
    assert "topology.hpos is not a key of topology=mine; did you mean topology.hops?" in capsys.readouterr().err
    assert main([*asked, "plugins=[my_module]"]) == 0
    assert "mine, n = 8" in capsys.readouterr().out


def test_cfg_prints_the_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--cfg", "job", "--resolve", "--package", "topology", "machine=b200"]) == 0
    assert "bandwidth: 900000000000.0" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_bug_is_told_apart_from_a_mistake(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.tasks.simulate.words.WIDTH", "oops")
    assert main([*QUICK]) == 1
    err = capsys.readouterr().err
    assert "internal error: " in err
    assert "SIMULATOR_TRACEBACK=1" in err
    assert err.count("\n") == 1
    monkeypatch.setenv("SIMULATOR_TRACEBACK", "1")
    assert main([*QUICK]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("extra", [[], ["-m"]])
def test_an_interruption_is_told_whatever_a_library_makes_of_it(
    extra: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(*args: object, **more: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise AttributeError("of a half-made object")

    monkeypatch.setattr("simulator.command.app._perform", stopped)
    assert main([*extra, *QUICK]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_help_teaches_without_importing_anything_heavy() -> None:
    code = (
        "import sys; from simulator.command.app import main; status = main(['--help']); "
        "heavy = {'numpy', 'hydra', 'pandas', 'rich', 'scipy', 'matplotlib'} & set(sys.modules); "
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    asked = [sys.executable, "-c", code]
    done = subprocess.run(asked, env=env, text=True, capture_output=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "torus_512",
        TOPOLOGIES,
        "gumbel",
        "synchronization tax",
        "outputs/",
        "--cfg job",
        "-m",
    ):
        assert words in done.stdout
    assert done.stdout.count("python -m simulator") >= 6
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.slow
def test_the_real_command_runs_from_another_folder(tmp_path: Path) -> None:
    with command(*QUICK, "hydra.run.dir=out") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("simulation: nvswitch, n = 8\n")
    assert (tmp_path / "out" / "summary.csv").exists()


@pytest.mark.slow
def test_the_real_command_fails_with_one_sentence(tmp_path: Path) -> None:
    with command("--nope") as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err.count("\n")) == (1, "", 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_stop_it_cleanly(name: str, status: int, tmp_path: Path) -> None:
    with command("n=4096", "iterations=1000000", "plots=false") as process:
        wait_until(lambda: list(tmp_path.glob("outputs/*/.*partial*")), process)
        process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=PATIENCE)  # the run itself would take longer
    assert (process.returncode, out, err.count("\n")) == (status, "", 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_sweep_stopped_in_its_first_point_leaves_nothing(name: str, status: int, tmp_path: Path) -> None:
    with command("-m", "n=4096,2048", "iterations=1000000", "plots=false") as process:
        wait_until(lambda: list(tmp_path.glob("multirun/*/.*partial*")), process)
        process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=PATIENCE)  # its first point would take longer
    assert (process.returncode, out) == (status, "")
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_full_disk_is_told_with_how_much_was_too_much(tmp_path: Path) -> None:
    """Stood in for by a limit on file size; nothing half-written stays."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000));"
        "from simulator.command.app import main; sys.exit(main(sys.argv[1:]))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", code, "iterations=40", "plots=false", "hydra.run.dir=out"]
    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=PATIENCE)
    assert done.returncode == 1
    assert re.fullmatch(r"error: output folder .*out must have room for more than \d+ bytes: .*\n", done.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
@pytest.mark.slow
def test_a_result_that_cannot_be_printed_is_kept_and_named(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "simulator", *QUICK, "hydra.run.dir=out"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, env=env, timeout=PATIENCE)
    assert done.returncode == 1
    assert done.stderr == "error: the result cannot be printed: No space left on device; it is in out\n"
    assert (tmp_path / "out" / "manifest.json").is_file()
