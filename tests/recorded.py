"""What the tests of traces share: the real ones, and copies of them with changes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simulator import Columns, TraceReport
from simulator.traces.findings import Findings
from simulator.traces.reader import read_job
from simulator.traces.summary import FORMAT, VERSION, Block, Collectives, Source, Summary
from simulator.traces.trace import RankTrace

DATA = Path(__file__).parent / "data" / "traces"
DLRM = DATA / "param_dlrm_v100_r0246"
MADE = DATA / "made"
SLOW = Path(__file__).parent / "data" / "known_slow_rank_8x500.csv"
STEPS = Path(__file__).parent.parent / "simulator" / "data" / "stragglar_4xa100_llama3.2-3b_steps.csv"
Trace = dict[str, Any]


def reference(name: str) -> Any:
    """A file of reference values."""
    return json.loads((DATA / "reference" / name).read_text())


def analyse(traces: Any, **settings: Any) -> Findings:
    """The findings of a trace report."""
    return TraceReport(name="test", traces=str(traces), **settings).find()


def parsed(path: Path, **settings: Any) -> RankTrace:
    """One file of one rank, read."""
    broken = "keep" if settings.pop("keep", False) else "stop"
    rank = settings.pop("rank", None)
    settings = {"more": (), "most_bytes": 2**32, "workers": 1, **settings}
    ((trace,),) = read_job([path], ranks=None if rank is None else [rank], broken=broken, **settings).windows
    return trace


def byte_dance() -> Findings:
    """The ByteDance set: 2 data-parallel ranks of 4 pipeline stages, 32 steps."""
    columns = Columns(
        rank="dp_rank", step="step", operation="optype", start="start_ts", duration="duration", group=["stage"],
        instance=["mc", "mb_id"],
        collectives={"reduce_scatter": "grads-reduce-scatter", "all_gather": "params-all-gather"},
        computes={"forward": "forward-compute", "backward": "backward-compute"},
    )  # fmt: skip
    return analyse(DATA / "bytedance_straggler" / "trace-ST.parquet", table=columns)


def stragglar() -> Findings:
    """The durations of 49 steps of 4 data-parallel ranks."""
    computes = {"compute": ["forward_ms", "backward_ms"]}
    columns = Columns(unit=1e-3, skip=1, collectives={"all_reduce": "allreduce_ms"}, computes=computes)
    return analyse(STEPS, table=columns)


def is_collective(event: Trace) -> bool:
    return event.get("cat") == "kernel" and "nccl" in event["name"]


def dlrm(folder: Path, change: Callable[[int, Trace], Trace | None]) -> Path:
    """A copy of the DLRM traces in ``folder``, each changed; those for which ``change`` returns None are left out."""
    for path in DLRM.glob("*.json.gz"):
        trace = json.loads(gzip.decompress(path.read_bytes()))
        changed = change(trace["distributedInfo"]["rank"], trace)
        if changed is not None:
            (folder / path.name.removesuffix(".gz")).write_text(json.dumps(changed))
    return folder


def collectives_of(trace: Trace) -> list[Trace]:
    return sorted((event for event in trace["traceEvents"] if is_collective(event)), key=lambda event: event["ts"])


def job(folder: Path, ranks: dict[int, list[Trace]], world: int | None = None, **more: Any) -> Path:
    """One file per rank with the given events."""
    for rank, events in ranks.items():
        about = {"rank": rank, "world_size": world if world is not None else len(ranks)}
        (folder / f"rank{rank}.json").write_text(
            json.dumps({"distributedInfo": about, "traceEvents": events, **more})
        )  # fmt: skip
    return folder


def kernel(name: str, start: float, duration: float, stream: int = 7, **args: Any) -> Trace:
    """A GPU kernel; microseconds."""
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": duration,
            "args": {"stream": stream, **args}}  # fmt: skip


def summary_of(compute: Any, transfer: float = 1e-3, **blocks: Any) -> Summary:
    """The summary of a job that computes so long, shape (steps, ranks) in seconds, before each all_reduce."""
    x = np.asarray(compute, dtype=float)
    ranks = list(range(x.shape[1]))
    waits = x.max(axis=1, keepdims=True) - x
    part = {"ranks": ranks, "group": "group 0", "moments": {}}
    label = list(range(1, len(x) + 1))
    n = len(ranks)
    source = Source(simulator="test", kind="profiler traces", files=n, ranks=ranks, world=n, kernels=0, dropped={},
                    left_out=0)  # fmt: skip
    block = Block(**{"block": "compute", "instances": len(x), "collective": [*label], "busy": _ns(x), "gap": _ns(x),
                     **part, **blocks})  # fmt: skip
    collectives = Collectives(
        operation="all_reduce", status="ok", reason="", count=len(x), bytes=None, label=label,
        duration=_ns(waits + transfer), leading=False, stragglers={}, **part,
    )  # fmt: skip
    return Summary(format=FORMAT, version=VERSION, note="", source=source, blocks=[block], collectives=[collectives])


def _ns(seconds: Any) -> list[list[int]]:
    return np.rint(np.asarray(seconds) * 1e9).astype(np.int64).tolist()
