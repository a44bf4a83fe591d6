"""Whatever a file or a command line says: a result or one sentence, soon and in little memory, and nothing half done.

``INPUTS=10000 pytest -m slow -rP tests/test_mutated_inputs.py`` tries so many and prints a line for each hundred.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

from simulator.command import compose
from simulator.command.app import main
from simulator.command.flags import config_dir
from simulator.pictures.panels import Picture
from simulator.simulation.results import GLOSSARY
from simulator.tasks.collect.table import MEASURED
from tests.mutations import (
    ODD,
    as_lines,
    as_tree,
    as_values,
    as_yaml,
    changed_bytes,
    changed_lines,
    changed_table,
    chosen,
    mutated,
)

DATA = Path(__file__).parent / "data"
TRACES = sorted({path.parent for part in ("made", "files") for path in (DATA / "traces" / part).rglob("*.gz")})
NCCL = sorted(path for part in ("nccl_outputs", "nccl_tests") for path in (DATA / part).iterdir())
SUMMARIES = sorted((DATA / "summaries").glob("*.json"))
CONFIGS = sorted(config_dir().rglob("*.yaml"))
STEPS = Path(__file__).parent.parent / "simulator" / "data" / "stragglar_4xa100_llama3.2-3b_steps.csv"
WORDS = ("error: ", "warning: ")
MOST_SECONDS, MOST_BYTES = 10.0, 1e9  # of processor time, and of memory in all
HANG = 100  # seconds after which an input is given up, however slow the machine
QUICK = ["iterations=1", "workload.layers=1", "plots=false"]

Kind = Callable[[Random], list[str]]  # writes files into the current folder, and returns the command's arguments


def traces(dice: Random) -> list[str]:
    """Profiler traces of up to four ranks, most of them changed."""
    home = dice.choice(TRACES)
    Path("in").mkdir()
    for path in sorted(home.glob("*.gz"))[: dice.randint(1, 4)]:
        data = gzip.decompress(path.read_bytes())
        if dice.random() < 0.6:
            data = mutated(dice, data, as_tree, as_tree, changed_bytes)
        name = path.name.removesuffix(".gz") if dice.random() < 0.5 else path.name
        other = dice.choice(["x.json", "rank1.json", "rank-1.json", "x\x1b.json"])
        Path("in", name if dice.random() < 0.95 else other).write_bytes(data)
    asked = chosen(
        dice, ["broken=stop", "broken=skip", "broken=keep"], ["", "", "gloo=true", "window=1", "tolerance=0"]
    )
    return ["+experiment=trace_report", "traces=in", "workers=1", *asked]


LONG = ["table.operation=operation", "table.collectives={all_reduce: wait}", "table.computes={block: compute}"]
WIDE = ["table.collectives={all_reduce: allreduce_ms}", "table.computes={block: [forward_ms, backward_ms]}"]


def tables(dice: Random) -> list[str]:
    """A table of operations or of times, CSV or Parquet, for a report or a law of compute times."""
    csv = dice.random() < 0.4
    table = pd.read_csv(STEPS, comment="#").iloc[: dice.choice([0, 1, 40, 100])]
    long = dice.random() < 0.4
    if long:
        table = pd.DataFrame({
            "rank": [i % 4 for i in range(160)], "step": [i // 8 for i in range(160)],
            "operation": ["compute" if i // 4 % 2 == 0 else "wait" for i in range(160)],
            "start": [i // 4 * 1000 + 10 * (i % 4) for i in range(160)],
            "duration": [900 - 10 * (i % 4) for i in range(160)],
        })  # fmt: skip
    if dice.random() < 0.9:
        table = changed_table(dice, table, csv)
    data = io.BytesIO()
    if csv:
        data.write(table.to_csv(index=False).encode("utf-8", "surrogatepass"))
    else:
        with contextlib.suppress(Exception):  # what pyarrow cannot write
            table.to_parquet(data)
    whole = data.getvalue()
    if dice.random() < (0.4 if csv else 0.1):
        whole = mutated(dice, whole, as_lines, changed_bytes) if csv else changed_bytes(dice, whole)
    name = "t.csv" if csv else "t.parquet"
    name = name if dice.random() < 0.95 else dice.choice(["t.csv", "t.parquet", "t.csv.gz", "t.json", "t.txt"])
    Path(name).write_bytes(whole)
    if not long and dice.random() < 0.4:
        asked = chosen(dice, ["compute.resample=steps", "compute.resample=values"])
        return ["n=4", "compute=empirical", f"compute.table={name}", *asked, *QUICK]
    asked = [*LONG, *chosen(dice, ["", "table.start=start"])] if long else WIDE
    more = chosen(dice, ["table.unit=1", "table.unit=1e-3"], ["", "table.instance=[step]", "table.group=[rank]"])
    return ["+experiment=trace_report", f"traces={name}", "workers=1", *asked, *more]


def nccl_tests(dice: Random) -> list[str]:
    """What nccl-tests and rccl-tests printed or wrote."""
    path = dice.choice(NCCL)
    data = path.read_bytes()[: dice.choice([10**6, 4000])]
    name = path.name if dice.random() < 0.9 else dice.choice(["t.txt", "t.csv", "t.json", "t.jsonl", "t.csv.gz", "t"])
    Path(name).write_bytes(mutated(dice, data, as_lines, as_lines, as_tree))
    asked = chosen(dice, ["", "", "collective=all_reduce"], ["", "", "ranks=8"], ["", "", "segments=2", "segments=3"])
    return ["+experiment=calibrate", f"nccl_tests={name}", *asked]


def summaries(dice: Random) -> list[str]:
    """A trace summary, for a fit or a validation."""
    data = dice.choice(SUMMARIES).read_bytes()
    tree = json.loads(data)
    least = dice.choice([0, 1, 12, 60, 10**4])  # instances, all of them often
    for part in (*tree["blocks"], *tree["collectives"]):
        for name in {"busy", "gap", "duration", "collective", "label"} & part.keys():
            part[name] = part[name][:least]
    data = json.dumps(tree).encode()
    data = as_values(dice, data) if dice.random() < 0.6 else mutated(dice, data, as_tree, as_values, changed_bytes)
    Path("s.json").write_bytes(data)
    if dice.random() < 0.3:
        return ["+experiment=validate", "summary=s.json", "runs=20", "level=0.8", "fit.replicates=100"]
    asked = chosen(
        dice, ["", "parent=zero_sum", "parent=root"], ["", "family=gev"], ["", "measure=gap", "relative=true"]
    )
    return ["+experiment=fit", "summary=s.json", "replicates=100", "level=0.9", *asked]


def sweeps(dice: Random) -> list[str]:
    """Folders of sweeps."""
    given = ["n=8", "topology=ring", "workload.layers=1", "+compute.cv=0.02"]
    found = {name: 0.25 * len(name) for name in GLOSSARY if GLOSSARY[name].endswith(", s") or name in MEASURED}
    found |= {"experiment": "x", "topology": "ring", "law": "gumbel", "status": "ok"}
    for i in range(dice.randint(1, 5)):
        home = Path("in", f"{i:016x}")
        home.mkdir(parents=True)
        values = [f"n={8 << i}", *given[1 : dice.randint(1, 4)]]
        if dice.random() < 0.3:
            record = json.dumps({"overrides": values, "error": "n must be less"}).encode()
            Path("in", f"{i:016x}.failed.json").write_bytes(mutated(dice, record, as_tree))
        manifest = json.dumps({"overrides": values, "config": {"n": 8}, "seed": 0}).encode()
        summary = pd.DataFrame([{**found, "n": 8 << i, "wait_mean": 1e-3 * (i + 1)}])
        if dice.random() < 0.4:
            manifest = mutated(dice, manifest, as_tree)
        if dice.random() < 0.4:
            summary = changed_table(dice, summary, csv=True)
        table = summary.to_csv(index=False).encode("utf-8", "surrogatepass")
        if dice.random() < 0.3:
            table = mutated(dice, table, as_lines)
        (home / "manifest.json").write_bytes(manifest)
        (home / "summary.csv").write_bytes(table)
        if dice.random() < 0.1:
            lost = dice.choice(["manifest.json", "summary.csv"])
            (home / lost).unlink()
            if dice.random() < 0.5:
                (home / lost).mkdir()
    return ["+experiment=collect", *chosen(dice, ["folders=[in]", "folders=[in]", "folders=[in,in]", "folders=in"])]


def configs(dice: Random) -> list[str]:
    """Config files of one's own, run or shown."""
    path = dice.choice([path for path in CONFIGS if "hydra" not in path.parts])
    own = Path("conf", path.relative_to(config_dir()))
    own.parent.mkdir(parents=True)
    own.write_bytes(mutated(dice, path.read_bytes(), as_yaml, as_yaml, as_lines))
    group, name = own.parts[1], own.stem
    ask = {"experiment": [f"+experiment={name}"], "task": [f"task={name}"], "config.yaml": []}.get(group)
    ask = [f"{group}={name}"] if ask is None else ask
    shown = dice.random() < 0.7 or group in ("experiment", "task")
    return ["--config-dir", "conf", *ask, *(["--cfg", "job", "--resolve"] if shown else [*QUICK, "timeout=9"])]


GOOD = (
    "n=4", "n=64", "seed=3", "topology=ring", "topology=torus3d", "topology.algorithm=ring", "compute=frechet",
    "compute=normal", "compute=empirical", "compute=dependent", "compute.cv=0.05", "compute.parent=zero_sum",
    "engine=events", "machine=gb200_nvl72", "workload=tp_dp_overlap", "workload=llama3_3b_ddp", "workload.bytes=1e6",
    "workload.scaling=weak", "timeline=true", "per_rank=true", "export_traces=true", "topology.alpha=0", "name=a_${n}",
    "topology.bandwidth=.inf", "compute.cv=0", "+experiment=torus_512", "+experiment=ring_128", "plots=true",
)  # fmt: skip
KEYS = (
    *(word.partition("=")[0] for word in GOOD), "iterations", "topology.dims", "compute.mean", "compute.xi",
    "compute.m",
    "workload.mesh", "plugins", "task", "+x", "~n", "~topology", "+compute.x", "_target_", "topology._target_", "hydra",
    "timeout", "hydra.run.dir", "hydra.sweep.dir", "hydra/launcher", "compute.table", "", "n.x", "n[0]", "topology@x",
    "\x1b[31m", "timeline_ranks", "timeline_iterations", "engine.threads", "engine.iterations_per_chunk",
)  # fmt: skip
VALUES = (
    "8", "64", "1", "ring", "nvswitch", "torus3d", "gumbel", "normal", "empirical", "dependent", "events", "h200",
    "[2,2,2]",
    "[a,b]", "{a: 1}", "1,2", "range(1,4)", "choice(1,2)", "${n}", "${oc.env:HOME}", "${oc.decode:1}", "${now:%Y}",
    "${x}",
    "os.system", "simulator.Normal", "glob(*)", "'a b'", '"', "'", "\\", "a=b", "a b", "collect", "fit", "calibrate",
    "basic",
    "interval(1,2)", "shuffle(1,2)", "sort(2,1)", "int(3.5)", "../x", "x/y", ".", "1e-3", "0.1", ".inf", "1_0", "0o17",
)  # fmt: skip
FLAGS = ("-m", "--cfg", "job", "--resolve", "--package", "n", "--help", "--version", "--config-dir", ".", "-x", "--",
         "-")  # fmt: skip


def lines(dice: Random) -> list[str]:
    """Command lines: keys that are right, and mostly one that is not."""
    words = {word.partition("=")[0]: word for word in (*QUICK[: dice.choice([1, 3, 3])], "timeout=9")}
    for word in dice.sample(GOOD, dice.randint(0, 3)):
        words[word.partition("=")[0]] = word
    if dice.random() < 0.8:
        odd = str(dice.choice([value for value in ODD if value != 10**400]))[:2000]
        key = dice.choice(KEYS)
        word = f"{key}={dice.choice(VALUES) if dice.random() < 0.6 else odd}"
        words[key] = word if dice.random() < 0.9 else changed_lines(dice, word, 1)
    argv = [word.replace("\0", "") for word in words.values()]  # no system passes a NUL
    while dice.random() < 0.2:
        argv.insert(dice.randrange(len(argv) + 1), dice.choice(FLAGS))
    return argv


KINDS: dict[str, tuple[Kind, float]] = {  # and which part of all inputs they are
    "traces": (traces, 0.26), "tables": (tables, 0.18), "nccl_tests": (nccl_tests, 0.18), "summaries": (summaries,
    0.12),
    "sweeps": (sweeps, 0.08), "configs": (configs, 0.1), "lines": (lines, 0.08),
}  # fmt: skip
INPUTS = int(os.environ.get("INPUTS", "150"))
BLOCK = 100  # inputs of one test
CASES = [(kind, k, min(BLOCK, round(INPUTS * part) - k)) for kind, (_, part) in KINDS.items()
         for k in range(0, round(INPUTS * part), BLOCK)]  # fmt: skip


class Hang(BaseException):
    """An input took ``HANG`` seconds."""


def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the same arguments say is composed once: that takes longer than all the rest."""
    known: dict[tuple[str, ...], compose.Job] = {}
    loader = compose.open_loader(None)
    whole = compose.current_job, compose.enter_run

    class Once:
        def load_configuration(self, name: str, overrides: list[str], mode: compose.RunMode) -> Any:
            if tuple(overrides) not in known:
                job, run = whole
                known[tuple(overrides)] = job(run(loader.load_configuration(name, overrides, mode)))
            return tuple(overrides)

    def job(key: Any) -> compose.Job:
        return replace(known[key], folder=Path("out").absolute())

    monkeypatch.setattr(compose, "open_loader", lambda extra: Once())
    monkeypatch.setattr(compose, "enter_run", lambda config: config)
    monkeypatch.setattr(compose, "current_job", job)


def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty pictures."""

    def touch(pictures: Iterable[Picture], folder: Path) -> None:
        for picture in pictures:
            (folder / f"{picture.name}.png").touch()

    for task in ("calibrate.task", "collect.task", "fit.task", "trace_report.task", "validate.task"):
        monkeypatch.setattr(f"simulator.tasks.{task}.write_pictures", touch)


def peak() -> float:
    """The most memory that this process has had, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@contextlib.contextmanager
def given_up() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fault(argv: list[str], status: int, out: str, error: str) -> str:
    """What is wrong with how an input ended; nothing where it is a result or a sentence."""
    said = error.splitlines()
    if "internal error" in error or "Traceback" in error or "error in " in error or "Hang" in error:
        return "no sentence of ours"
    if status not in (0, 1):
        return f"status {status}"
    if not all(c.isprintable() for c in (out + error).replace("\n", "")):
        return "steers the terminal"
    if "pictures left out" in out and "timeout must be longer" not in out:
        return "pictures left out"
    if "-m" in argv or "--multirun" in argv:
        return "" if out or said else "silent"
    sentences = [line for line in said if line.startswith("error: ")]
    if len(sentences) != (0 if "Written to" in out or status == 0 else 1):
        return f"{len(sentences)} sentences"
    if not all(line.startswith(WORDS) for line in said):
        return "words on stderr"
    if sentences and len(sentences[0]) > 2000:
        return "a long sentence"
    if sentences and (Path("out").exists() or list(Path.cwd().rglob("*.partial-*"))):
        return "something is left behind"
    return ""


def run(argv: list[str]) -> tuple[int, str, str]:
    """Status, output and errors of the command, as a terminal gets them."""
    with (
        io.BytesIO() as out,
        io.BytesIO() as error,
        contextlib.redirect_stdout(io.TextIOWrapper(out, "utf-8")) as o,
        contextlib.redirect_stderr(io.TextIOWrapper(error, "utf-8")) as e,
    ):
        status = main(argv)
        o.flush()
        e.flush()
        return status, out.getvalue().decode(), error.getvalue().decode()


@pytest.mark.slow
@pytest.mark.filterwarnings("default:In '.*'. Defaults list is missing:UserWarning")  # which is told in a line
@pytest.mark.parametrize(("kind", "first", "count"), CASES)
def test_the_end_is_a_result_or_a_sentence(
    kind: str, first: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: Counter[str] = Counter()
    slowest, faults = (0.0, ""), []
    monkeypatch.delenv("SIMULATOR_TRACEBACK", raising=False)
    if kind not in ("configs", "lines"):  # whose arguments or files of config are what is changed
        read_once(monkeypatch)
    for seed in range(first, first + count):
        dice = Random(f"{kind} {seed}")
        home = tmp_path / str(seed) / "here"
        home.mkdir(parents=True)
        monkeypatch.chdir(home)
        argv = KINDS[kind][0](dice)
        if "-m" not in argv and not any("hydra.run.dir" in word for word in argv):
            argv.append("hydra.run.dir=out")
        draw = dice.random() < 0.1  # whole pictures take most of the time
        before, began = peak(), time.process_time()
        with given_up(), monkeypatch.context() as patch:
            if not draw:
                undrawn(patch)
            status, out, error = run(argv)
        took, memory = time.process_time() - began, peak()
        wrong = fault(argv, status, out, error)
        wrong = wrong or (f"{took:.1f} s" if took > MOST_SECONDS else "")
        wrong = wrong or (f"{memory / 1e6:.0f} MB" if memory > max(MOST_BYTES, before) else "")
        ends["fault" if wrong else "sentence" if status and "Written to" not in out else "result"] += 1
        slowest = max(slowest, (took, f"{kind} {seed}"))
        if wrong:
            faults.append(f"{kind} {seed}: {wrong}: {argv}: {(error or out)[-300:]!r}")
        else:
            monkeypatch.chdir(tmp_path)
            shutil.rmtree(home.parent)
    print(f"\n{kind} {first}: {dict(ends)}, slowest {slowest[0]:.1f} s ({slowest[1]}), peak {peak() / 1e6:.0f} MB")
    assert not faults, "\n".join(faults)
