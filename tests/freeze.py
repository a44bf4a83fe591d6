"""Whether two versions of the code leave the same outputs: what a refactoring must not change, is compared by hashes.

``python -m tests.freeze COMMIT`` runs every command below with the code of a commit (by default HEAD) and with that of
this checkout, in one environment, and names each file and each printed text that differs. ``pytest -m freeze`` does
the same; the variable ``FREEZE`` names another commit. ``--keep FOLDER`` keeps both sides for a look with diff.

Left out: what a manifest says of commit, versions, time, memory and machine; the classes that configs name; the names
of sweep points, which hash the code; seconds that a point took. Parquet is compared by its contents.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gzip
import hashlib
import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
STEPS = "stragglar.csv"
FEW = ["iterations=2", "relative_error=1"]  # a study's
TABLE = [f"traces={STEPS}", "{}table.unit=1e-3", "{}table.skip=1", "{}table.collectives={{all_reduce: allreduce_ms}}",
         "{}table.computes={{compute: [forward_ms, backward_ms]}}"]  # fmt: skip
BYTEDANCE = ["traces=data/traces/bytedance_straggler/trace-ST.parquet", "table.rank=dp_rank", "table.operation=optype",
             "table.start=start_ts", "table.group=[stage]", "table.instance=[mc,mb_id]",
             "table.collectives={reduce_scatter: grads-reduce-scatter, all_gather: params-all-gather}",
             "table.computes={forward: forward-compute, backward: backward-compute}"]  # fmt: skip
SUMMARIES = "data/summaries"
NCCL = "nccl_tests=data/nccl_tests"
DLRM = "data/traces/param_dlrm_v100_r0246"


def cases() -> dict[str, list[str]]:
    """Name -> the words of a command line."""
    experiments = sorted(path.stem for path in (ROOT / "conf" / "experiment").glob("*.yaml"))
    studies = ["elasticity_against_bandwidth", "flops_scaling", "iteration_time", "optimal_bandwidth_figure",
               "sensitivity", "tax_against_size"]  # fmt: skip
    simulations = ["nvswitch_4096", "nvswitch_72", "nvswitch_8", "ring_128", "straggler_4xa100", "torus_512"]
    bias = ["blocks=512", "sizes=[8,72]", "block_sizes=[4,8]"]
    reproduce = [f"studies.{name}.{few}" for name in [*studies, "plugin_bias"] for few in FEW]
    reproduce += [f"studies.plugin_bias.{few}" for few in bias]
    plain = [text.format("") for text in TABLE]
    nested = {key: [text.format(key) for text in TABLE] for key in ("report.", "fit.report.")}
    tiny = ["workload.layers=2", "iterations=3", "n=8"]
    found: dict[str, list[str]] = {
        "help": ["--help"],
        **{f"cfg {name}": ["--cfg", "job", f"+experiment={name}"] for name in experiments},
        "cfg hydra": ["--cfg", "hydra", "-m"],
        "cfg resolved": ["--cfg", "job", "--resolve", "--package", "topology"],
        "no arguments": [],
        **{name: [f"+experiment={name}", "iterations=4"] for name in simulations},
        **{name: [f"+experiment={name}", *FEW] for name in studies},
        "plugin_bias": ["+experiment=plugin_bias", *FEW, *bias],
        "reproduce": ["+experiment=reproduce", *reproduce],
        "optimal_bandwidth": ["+experiment=optimal_bandwidth", "iterations=2"],
        "calibrate": ["+experiment=calibrate", f"{NCCL}/h100_x4_allreduce_wh8_quiet.csv", "segments=2"],
        "calibrate ring": ["+experiment=calibrate", f"{NCCL}/h100_x4_allgather_wh8_quiet.csv", "topology=ring"],
        "timeline": [*tiny, "timeline=true", "per_rank=true", "topology=torus3d"],
        "overlap": ["workload=tp_dp_overlap", "n=16", "iterations=5", "timeline=true", "per_rank=true"],
        "traces of groups": ["workload=tp_dp_overlap", "n=16", "iterations=3", "export_traces=true", "plots=false"],
        "traces of a torus": [*tiny, "topology=torus3d", "export_traces=true", "plots=false"],
        "ddp": ["workload=llama3_3b_ddp", "workload.buckets=7", "compute=lognormal", "n=6", "iterations=5"],
        "events": [*tiny, "engine=events", "compute=frechet", "topology=ring"],
        "dependent": [*tiny, "compute=dependent", "compute.memory=0.5", "compute.common=0.1"],
        "offsets": [*tiny, "compute=dependent", "compute.rank=0", "compute.offsets=[0,0,0,0,0,0,0,2]"],
        "empirical": [*tiny, "compute=empirical", "compute.resample=values", "workload.scaling=strong"],
        "zero_sum": [*tiny, "compute.parent=zero_sum"],
        "deterministic": [*tiny, "compute=deterministic", "topology.bandwidth=inf"],
        "weibull one rank": ["compute=weibull", "n=1", "iterations=2", "plots=false"],
        "sweep": ["-m", "topology=ring,nvswitch,torus3d", "n=8,64,512", "iterations=2", "workload.layers=2"],
        "sweep of laws": ["-m", "compute=gumbel,normal,frechet", "n=8,64", "iterations=2", "plots=false"],
        "sweep with failures": ["-m", "n=8,0,12,16", "compute.parent=zero_sum,spliced", "iterations=2",
                                "topology=torus3d", "topology.dims=[2,2,2]", "plots=false"],
        "sweep of fits": ["-m", "+experiment=fit", "m=2,4", f"summary={SUMMARIES}/llama3.2-3b_4xa100.json",
                          "replicates=100"],
        "collect": ["+experiment=collect", "folders=[{sweep},{sweep of laws}]"],
        "report of a table": ["+experiment=trace_report", *plain],
        "report of DLRM": ["+experiment=trace_report", f"traces={DLRM}"],
        "report of ByteDance": ["+experiment=trace_report", *BYTEDANCE],
        "report of sampled": ["+experiment=trace_report", "traces=data/traces/hta_sampled_2of128", "workers=1"],
        "report of broken": ["+experiment=trace_report", "traces=data/traces/hta_corner", "broken=skip"],
        "fit of a table": ["+experiment=fit", *nested["report."], "replicates=100"],
        "fit of DLRM": ["+experiment=fit", f"traces={DLRM}"],
        "fit gev": ["+experiment=fit", f"summary={SUMMARIES}/llama3.2-3b_4xa100.json", "family=gev", "replicates=100"],
        "fit of ByteDance": ["+experiment=fit", f"summary={SUMMARIES}/bytedance_ST.json", "m=2", "replicates=100"],
        "validate a table": ["+experiment=validate", *nested["fit.report."], "runs=40", "fit.replicates=100"],
        "validate DLRM": ["+experiment=validate", f"summary={SUMMARIES}/param_dlrm_v100_r0246.json", "runs=40"],
        "validate ByteDance": ["+experiment=validate", f"summary={SUMMARIES}/bytedance_ST.json", "runs=40",
                               "fit.replicates=100"],
    }  # fmt: skip
    from tests.command.test_app import BAD

    bad = [case for case in BAD if "_target_=simulator" not in case[0]]  # where a module lives may change
    found |= {f"bad {i} {case[0][:60]!r}": case[0].split("|") for i, case in enumerate(bad)}
    return found


def run_all(out: Path) -> None:
    """Run every case with the code that is on the path, each in a folder of its own below ``out``."""
    for name, words in json.loads((out / "cases.json").read_text()).items():
        home = out / "runs" / re.sub(r"\W+", "_", name)[:80]
        home.mkdir(parents=True)
        (home / "data").symlink_to(DATA)
        shutil.copy(ROOT / "simulator" / "data" / "stragglar_4xa100_llama3.2-3b_steps.csv", home / STEPS)
        for other in re.findall(r"\{(sweep[\w ]*)\}", " ".join(words)):
            place = f"../{other.replace(' ', '_')}/multirun"
            words = [word.replace(f"{{{other}}}", _only(home / place)) for word in words]
        printed, told = io.StringIO(), io.StringIO()
        os.chdir(home)
        sys.argv = ["simulator", *words]
        if "--cfg" not in words and "--help" not in words and not any("hydra.run.dir" in word for word in words):
            sys.argv += [] if "-m" in words else ["hydra.run.dir=out"]
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
            try:
                runpy.run_module("simulator", run_name="__main__")
                status: object = None
            except SystemExit as end:
                status = end.code
        os.chdir(out)
        (home / "data").unlink()
        (home / STEPS).unlink()
        (home / "printed.txt").write_text(f"{printed.getvalue()}\n{told.getvalue()}\nstatus {status}\n")
        print(f"{name}: {status}", file=sys.stderr, flush=True)


def _only(folder: Path) -> str:
    (path,) = folder.resolve().iterdir()
    return os.path.relpath(path, folder.parent.parent / "collect")


def normal(out: Path) -> dict[str, bytes]:
    """What was left below ``out``, by path, without what differs from run to run."""
    files = sorted(path for path in (out / "runs").rglob("*") if path.is_file())
    points = {path.parent.name: _overrides(path) for path in files if path.name == "manifest.json"}
    points = {key: overrides for key, overrides in points.items() if re.fullmatch("[0-9a-f]{16}", key)}
    found = {}
    for path in files:
        name = str(path.relative_to(out / "runs"))
        text = "\n".join(_contents(path, points))
        for key, overrides in points.items():
            name, text = name.replace(key, f"<{overrides}>"), text.replace(key, f"<{overrides}>")
        text = re.sub(r"'(simulator|topologies)[\w.]*\.(\w+)'", r"'\2'", text)
        text = re.sub(r"[0-9a-f]{16}\.failed", "failed", text).replace(str(out), "OUT")
        text = text.replace(str(out.parent / "source"), "SOURCE").replace(str(ROOT), "SOURCE")
        text = re.sub(r"\b\d+\.\d s$", "TIME", text, flags=re.M)
        name = re.sub(r"[0-9a-f]{16}\.failed", hashlib.sha256(text.encode()).hexdigest()[:8], name)
        found[name] = text.encode()
    return found


def _overrides(manifest: Path) -> str:
    return " ".join(json.loads(manifest.read_text())["overrides"])


def _contents(path: Path, points: dict[str, str]) -> Iterator[str]:
    if path.name == "manifest.json":
        record = json.loads(path.read_text())
        for key in ("commit", "source", "versions", "wall_time", "peak_memory", "platform", "cpu_features"):
            record.pop(key, None)
        yield json.dumps(_untargeted(record), indent=1)
    elif path.name == "sweep.csv":
        yield from (re.sub(r",[0-9a-f]{16}$", "", line) for line in path.read_text().splitlines())
    elif path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        yield str(table.schema.remove_metadata())
        for column in table.column_names:
            yield f"{column} {table[column].to_pylist()!r}"
    elif path.suffix in (".png", ".gz"):
        data = path.read_bytes()
        yield hashlib.sha256(gzip.decompress(data) if path.suffix == ".gz" else data).hexdigest()
    else:
        yield from (line for line in path.read_text().splitlines() if "_target_:" not in line)


def _untargeted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _untargeted(inner) for key, inner in value.items() if key != "_target_"}
    return [_untargeted(inner) for inner in value] if isinstance(value, list) else value


def compare(commit: str, keep: Path | None = None, only: str = "") -> list[str]:
    """Run all cases with both versions side by side; a line or more for each output that differs."""
    chosen = {name: words for name, words in cases().items() if re.search(only, name)}
    with tempfile.TemporaryDirectory() as scratch:
        work = keep or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        source = work / "source"
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(source)], check=True)
        subprocess.run(["git", "-C", str(source), "checkout", "--quiet", commit], check=True)
        running = []
        for side, tree in (("before", source), ("after", ROOT)):
            (work / side).mkdir()
            (work / side / "cases.json").write_text(json.dumps(chosen))
            words = [sys.executable, __file__, "--run", str(work / side)]
            env = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "80", "MPLBACKEND": "agg"}
            with (work / f"{side}.log").open("w") as log:
                running.append(subprocess.Popen(words, env=env, cwd=work, stderr=log))
        assert [process.wait() for process in running] == [0, 0], (work / "after.log").read_text()[-2000:]
        before, after = normal(work / "before"), normal(work / "after")
    print(f"{len(before)} outputs of {len(chosen)} commands before, {len(after)} after")
    return [line for name in sorted({*before, *after}) for line in _difference(name, before.get(name), after.get(name))]


def _difference(name: str, before: bytes | None, after: bytes | None) -> list[str]:
    if before is None or after is None:
        return [f"{name}: only {'after' if before is None else 'before'}"]
    if hashlib.sha256(before).digest() == hashlib.sha256(after).digest():
        return []
    texts = before.decode(), after.decode()
    lines = list(difflib.unified_diff(*(text[:200_000].splitlines() for text in texts), lineterm="", n=0))[2:10]
    return [f"{name}: differs", *(f"    {line[:200]}" for line in lines)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only", default="", help="pattern of the names of commands")
    parser.add_argument(
        "--run", type=Path, help="run the commands listed in FOLDER/cases.json, with the code on the path"
    )
    asked = parser.parse_args()
    if asked.run:
        sys.path.remove(str(Path(__file__).parent))
        run_all(asked.run)
        sys.exit(0)
    differences = compare(asked.commit, asked.keep, asked.only)
    print("\n".join(differences) or "all the same")
    sys.exit(1 if differences else 0)
