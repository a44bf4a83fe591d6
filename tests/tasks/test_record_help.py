"""How to record: the file it leaves, and, where PyTorch is installed, what its profiler makes of it."""

from __future__ import annotations

import ast
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from simulator.command.app import main
from simulator.tasks.record_help.task import RECORDER


def test_the_recorder_is_left_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["+experiment=record_help", "hydra.run.dir=out"]) == 0
    assert Path("out/record_traces.py").read_bytes() == RECORDER.read_bytes()
    assert "copy out/record_traces.py" in capsys.readouterr().out
    module = ast.parse(RECORDER.read_text())
    assert sum(len(ast.unparse(part).splitlines()) for part in module.body[1:]) <= 20


@pytest.mark.torch
def test_pytorch_writes_the_steps_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = pytest.importorskip("torch")
    module: dict[str, Any] = {}
    exec(RECORDER.read_text(), module)
    monkeypatch.setenv("RANK", "3")
    with module["recorder"](str(tmp_path / "traces"), skip=1, warmup=1, steps=4) as profiler:
        for _ in range(8):
            torch.ones(64, 64) @ torch.ones(64, 64)
            profiler.step()
    (path,) = (tmp_path / "traces").iterdir()
    assert path.name == "rank3.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    steps = {event["name"] for event in events if str(event.get("name", "")).startswith("ProfilerStep#")}
    assert steps == {f"ProfilerStep#{i}" for i in range(2, 6)}
