"""Files that came from others, configs and whatever lies in the current folder: they run nothing and fill nothing."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from simulator.command.app import main
from tests.process import PATIENCE

HEAD = "# @package _global_\n"
REPEATED = "".join(f"  a{i}: ${{.a{i - 1}}}${{.a{i - 1}}}${{.a{i - 1}}}${{.a{i - 1}}}\n" for i in range(1, 14))
NODES = "".join(f'b{i}: {{x: "${{b{i - 1}}}", y: "${{b{i - 1}}}"}}\n' for i in range(1, 30))
FILES = {
    "text": (f"name: x\nw:\n  a0: xxxxxxxxxx\n{REPEATED}", "w.a8 must be at most 1000000 characters with its"),
    "nodes": (f"name: x\nb0: {{x: 1}}\n{NODES}", "must be at most 1000000 characters with its"),
    "environment": ("name: ${oc.env:HOME}\n", "mine.yaml:2: a file must not copy environment variables"),
    "escaped": ('name: "${oc.decode:\\"${oc.\\u0065nv:HOME}\\"}"\n', "mine.yaml:2: a file must not copy environment"),
    "nested": ("q: oc.env\nname: ${${q}:HOME}\n", "name must not have an interpolation within an interpolation"),
    "long": (f"name: {'x' * 2_000_000}\n", "mine.yaml must be at most 1,000,000 bytes"),
    "keys": ("w:\n" + "".join(f"  k{i}: 1\n" for i in range(10**5)), "mine.yaml must be at most 1,000,000 bytes"),
    "lookups": ("name: x\n" + "".join(f"k{i}: ${{name}}\n" for i in range(10_001)), "must look up at most 10000 keys"),
    "chains": (
        "".join(f"c{j}_{i}: {f'${{c{j}_{i - 1}}}' if i else 'x'}\n" for j in range(20) for i in range(40)),
        "must look up at most 10000 keys",
    ),
    "chain": ("name: ${k3000}\nk0: x\n" + "".join(f"k{i}: ${{k{i - 1}}}\n" for i in range(1, 3001)), "in a cycle"),
    "no group": ('defaults: [{"": ring}]\n', "defaults must have a group and an option in each entry of their list"),
    "cycle": ("name: ${q}\nq: ${name}\n", "name cannot be resolved: Recursive interpolation"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FILES)
def test_a_config_of_others_is_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, sentence = FILES[name]
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(HEAD + text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "must-not-be-shown")
    assert main(["--config-dir", ".", "+experiment=mine", "n=8", "iterations=2"]) == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert "must-not-be-shown" not in error


def test_a_shown_config_steers_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(f"{HEAD}name: a\u202eb\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["--config-dir", ".", "+experiment=mine", "--cfg", "job"]) == 0
    out = capsys.readouterr().out
    assert 'name: "a\\u202Eb"\n' in out
    assert yaml.safe_load(out)["name"] == "a\u202eb"
    assert next(iter(yaml.safe_load(out))) == "machine"


def test_interpolations_in_bounds_and_a_typed_environment_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JOB", "job_17")
    assert main(["name=${oc.env:JOB}_${n}", "n=8", "iterations=2", "plots=false"]) == 0
    assert capsys.readouterr().out.startswith("job_17_8: ")


def test_a_warning_of_hydra_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as outside of tests
        assert main(["name=${oc.deprecated:n}", "n=8"]) == 1
    warning, error, end = capsys.readouterr().err.split("\n")
    assert warning.startswith("warning: 'name' is deprecated")
    assert (error, end) == ("error: name must be text; got 8", "")


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [[], ["-m", "hydra/launcher=joblib"]], ids=["alone", "workers"])
def test_nothing_in_the_current_folder_is_run(launcher: list[str], tmp_path: Path) -> None:
    """Modules that shadow what we import, a package of Hydra plug-ins, and settings of matplotlib."""
    (tmp_path / "hydra_plugins" / "theirs").mkdir(parents=True)
    for name in ("numpy", "yaml", "rich", "pandas", "omegaconf", "hydra_plugins/theirs/__init__"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('their code was run')\n")
    (tmp_path / "matplotlibrc").write_bytes(b"\xff\xfe\x00")
    argv = [sys.executable, "-m", "simulator", *launcher, "n=8", "iterations=2"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "their code" not in done.stdout + done.stderr
    assert done.stderr == ""
    assert list(tmp_path.glob("*/**/*.png"))
