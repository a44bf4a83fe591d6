"""The real command in a process of its own, which never outlives its test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
PATIENCE = 300  # seconds after which a test gives up; none needs a hundredth of them on an idle machine


@contextmanager
def command(*args: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """``python -m simulator`` with the source in this checkout; ``more`` are environment variables.

    Signals do what they do at a terminal, also where those who started the tests ignore them (``nohup pytest &``).
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "simulator", *args], env={**os.environ, "PYTHONPATH": str(ROOT), **more}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_hear_signals,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()  # nothing, where it has ended


def _hear_signals() -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def wait_until(happened: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait for an event, however slow the machine, as long as the process that brings it about is there."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert process.poll() is None, process.communicate(timeout=PATIENCE)
        assert time.monotonic() < deadline
        time.sleep(0.02)
