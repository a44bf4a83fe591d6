"""CONTRIBUTING can be followed to the letter: each example is a file of at most 40 lines, run outside the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import integrate

from simulator import InputError, Kind, Panel
from simulator.command.app import main
from tests.process import PATIENCE, ROOT, command

EXAMPLES = ROOT / "tests" / "examples"
FILES = sorted(path for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".yaml"))
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples that is the current folder, as a user's own would be."""
    shutil.copytree(EXAMPLES, tmp_path / "mine", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def run_words(*words: str) -> str:
    with command(*words) as process:
        out, error = process.communicate(timeout=PATIENCE)
    assert (process.returncode, error) == (0, "")
    return out


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_examples_are_short_and_named(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40
    assert path.suffix == ".yaml" or f"tests/examples/{path.name}" in TEXT


@pytest.mark.slow
def test_a_topology_a_law_and_a_workload_in_one_run(folder: Path) -> None:
    asked = re.search(r"python -m simulator (--config-dir \. topology=star.*)", TEXT)
    assert asked is not None
    out = run_words(*asked[1].rstrip("`").replace("'", "").split(), "iterations=20", "plots=false", "hydra.run.dir=out")
    assert out.startswith("simulation: star, n = 8\n")
    row = pd.read_csv("out/summary.csv").iloc[0]
    # E[max of n] of mean - b + b*Exp(1) is mean - b + b*H(n), H(n) = 1 + 1/2 + ... + 1/n; means of blocks 1 and 2
    harmonic = sum(1 / k for k in range(1, 9))
    assert row.wait_model == pytest.approx(1.5 * 0.02 * 16e-3 * (harmonic - 1), rel=1e-9)
    assert row.wait_mean == pytest.approx(row.wait_model, abs=4 * row.wait_mean_se)
    assert (row.algorithm, row.collectives, row.latency) == ("star", 8, 2 * 5e-6)
    assert row.transfer == pytest.approx(8 * 2**26 / 450e9)


def test_the_law_is_a_law(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    from exponential_tail import ExponentialTail  # type: ignore[import-not-found]

    law = ExponentialTail(mean=2.0, cv=0.3)
    t = np.array([1e-9, 0.1, 1.0, 10.0])
    assert law.exponent(law.quantile(t)) == pytest.approx(t, rel=1e-6)
    mean, square = (integrate.quad(lambda t, j=j: law.quantile(t) ** j * np.exp(-t), 0, 40)[0] for j in (1, 2))
    assert (mean, square - mean**2) == pytest.approx((2.0, law.var), rel=1e-6)


@pytest.mark.slow
def test_a_task(folder: Path) -> None:
    out = run_words("--config-dir", ".", "+experiment=seeds", "plugins=[seeds]", "seeds=3", "hydra.run.dir=out")
    assert re.match(r"seeds: the tax is \d+\.\d to \d+\.\d us for 3 seeds\n", out)
    assert {path.name for path in Path("out").iterdir()} == {"seeds.csv", "manifest.json"}
    said = run_words("--config-dir", ".", "--help", "+experiment=seeds")
    assert "Keys of seeds" in said
    assert re.search(r"^  seeds +how many$", said, re.M)


@pytest.mark.slow
def test_a_picture(folder: Path) -> None:
    run_words("-m", "n=8,64", "compute=gumbel,frechet", "iterations=8", "plots=false", "hydra.sweep.dir=sweep")
    words = [sys.executable, "sweep_picture.py", "sweep"]
    subprocess.run(words, check=True, env={"PYTHONPATH": str(ROOT)}, timeout=PATIENCE)
    assert {"my_tax.png", "my_tax.svg"} <= {path.name for path in Path("sweep").iterdir()}


def test_the_topology_meets_the_contract(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    from star import Star  # type: ignore[import-not-found]

    star = Star(alpha=1e-6, bandwidth=1e9)
    assert star.cost(Kind.ALL_REDUCE, 1e6, 1).time == 0
    assert star.cost(Kind.ALL_REDUCE, 1e6, 4).time == pytest.approx(2e-6 + 4e-3)


def test_a_panel_says_what_its_table_lacks() -> None:
    lacks = "^table of a Panel of curves must have columns series, style, x, y; it lacks style"
    with pytest.raises(InputError, match=lacks):
        Panel(table=pd.DataFrame({"series": [], "x": [], "y": []}), x="", y="")


@pytest.mark.parametrize("returned", ["None", "'text'", "Outcome(None)"])
def test_a_task_that_returns_no_outcome_is_told(returned: str, folder: Path, capsys: pytest.CaptureFixture[str],
                                                monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.syspath_prepend(folder)
    text = (
        "from simulator import Outcome, Task\nclass Bad(Task):\n    def __init__(self, name: str): self.name = name\n"
    )
    (folder / "bad.py").write_text(text + f"    def execute(self, folder, progress=None): return {returned}\n")
    (folder / "task" / "bad.yaml").write_text("# @package _global_\n_target_: bad.Bad\nname: bad\n")
    sys.modules.pop("bad", None)
    assert main(["--config-dir", ".", "task=bad", "plugins=[bad]", "hydra.run.dir=out"]) == 1
    assert "execute of Bad must return an Outcome with a text; got" in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.parametrize(("raises", "sentence"), [
    ("open('nowhere.csv')", "error in {file}:8: FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.csv'"),
    ("raise OSError(111, 'Connection refused')", "error in {file}:8: ConnectionRefusedError: [Errno 111]"),
    ("raise OSError(28, 'No space left on device')", "error: output folder {out} must have room for more than 4 bytes"),
    ("open(folder / 'no' / 'x', 'w')", "error: output folder {out} cannot be written: No such file or directory"),
])  # fmt: skip
def test_an_error_of_the_system_in_a_task_is_told_where_it_arose(
    raises: str, sentence: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output folder is to blame for what is written into it alone."""
    name = f"mine_{len(raises)}"
    lines = ["from simulator import Task", "class Mine(Task):", "    def __init__(self, name):", "        pass"]
    lines += ["    def execute(self, folder, progress=None):", "        (folder / 'a').write_text('half')", ""]
    (folder / f"{name}.py").write_text("\n".join([*lines, f"        {raises}"]))
    (folder / "task" / "mine.yaml").write_text(f"# @package _global_\n_target_: {name}.Mine\nname: x\n")
    monkeypatch.syspath_prepend(folder)
    assert main(["--config-dir", ".", "task=mine", f"plugins=[{name}]", "hydra.run.dir=out"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(sentence.format(file=folder / f"{name}.py", out=folder / "out"))
    assert error.count("\n") == 1
    assert not list(folder.glob("*out*"))
