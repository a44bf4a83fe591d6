"""Signals in a row, and while threads are in the middle of a chunk that takes minutes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.process import PATIENCE, ROOT, command, wait_until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("gap", [0.0, 0.02, 0.2])
def test_signals_in_a_row_are_one(gap: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with command("-m", "n=64,65", "iterations=100000") as process:
        wait_until(lambda: list(tmp_path.glob("multirun/*/.*")), process)
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(gap)
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert error.splitlines()[-1] == "interrupted; no partial results are left"
    assert not list(tmp_path.glob("multirun/*/*"))


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="counts threads in /proc")
def test_a_chunk_of_many_ranks_hears_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with command("n=4000000", "iterations=2", "engine.threads=2") as process:
        wait_until(
            lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 2 and list(tmp_path.glob("outputs/*/.*")), process
        )
        time.sleep(1)
        sent = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, error
    assert time.monotonic() - sent < 30  # the chunk takes minutes


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="looks for workers in /proc")
def test_a_killed_worker_is_one_sentence_and_the_sweep_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ("-m", "n=8,16,4096", "iterations=3000", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    with command(*settings) as process:
        wait_until(lambda: len(list(tmp_path.glob("multirun/*/[!.]*/manifest.json"))) == 2, process)
        for worker in workers_of(process.pid):
            os.kill(worker, signal.SIGKILL)
        _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "error: hydra/launcher=joblib lost a worker, which was killed or ran out of memory; finished points" in error
    assert error.count("\n") < 4
    assert len(list(tmp_path.glob("multirun/*/[!.]*/manifest.json"))) == 2
    assert not list(tmp_path.glob("multirun/*/.*"))


WORKERS = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]


@pytest.mark.parametrize("launcher", [[], WORKERS], ids=["alone", "workers"])
def test_a_sweep_that_nobody_reads_on_ends(
    launcher: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before ``| head -1``: what is printed once the first line was read finds nobody."""
    monkeypatch.chdir(tmp_path)
    points = ",".join(str(n) for n in range(4, 60))
    with command("-m", f"n={points}", "iterations=2", "workload.layers=1", "plots=false", *launcher) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert ": done in " in process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait(PATIENCE) == 128 + signal.SIGPIPE
    assert error.splitlines() == [
        "finished points are kept: the same command goes on with the others",
        "stopped by SIGPIPE; no partial results are left",
    ]
    assert 1 <= len(list(tmp_path.glob("multirun/*/*/manifest.json"))) < 40
    assert not list(tmp_path.glob("multirun/*/.*"))


def test_ctrl_c_while_the_package_is_imported_has_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Hook:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'simulator.names':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Hook())\n"
    )
    with command("n=0", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}") as process:
        out, error = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, error) == (-signal.SIGINT, "", "")


def workers_of(parent: int) -> list[int]:
    """Processes that a process started to run points in."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        words = path.read_text().rpartition(")")[2].split()
        if int(words[1]) == parent and b"popen_loky" in (path.parent / "cmdline").read_bytes():
            found.append(int(path.parent.name))
    return found
