"""Speed and memory of reading traces as large as real ones: ``python -m pytest -m benchmark -s``."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
RANKS, COLLECTIVES, KERNELS, OTHERS = 8, 970, 50, 436  # 473,000 events a rank
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16> >(int)"

pytestmark = pytest.mark.benchmark


def write_rank(folder: Path, rank: int) -> int:
    """A trace with the events of a tensor-parallel rank; returns its size in bytes."""
    source = random.Random(rank)
    group = {"Collective name": "allreduce", "In msg nelems": 2**26, "dtype": "BFloat16", "Group size": RANKS,
             "Process Group Name": "1", "Process Group Description": "tp",
             "Process Group Ranks": str(list(range(RANKS)))}  # fmt: skip
    launch = {"queued": 0, "device": rank, "context": 1, "registers per thread": 96, "shared memory": 41760,
              "blocks per SM": 0.1, "warps per SM": 2, "grid": [8, 1, 1], "block": [640, 1, 1],
              "est. achieved occupancy %": 3}  # fmt: skip
    shapes = {"Input Dims": [[1, 4096, 8192], [8192, 1024], []], "Input type": ["c10::BFloat16", "c10::BFloat16", ""],
              "Module": "model.layers.attention.wq", "Record function id": 0, "Sequence number": 5,
              "Fwd thread id": 0, "Input Strides": [[33554432, 8192, 1], [1024, 1], []]}  # fmt: skip

    def event(cat: str, name: str, ts: float, dur: float, tid: int, **args: object) -> str:
        return json.dumps({"ph": "X", "cat": cat, "name": name, "pid": rank, "tid": tid, "ts": round(ts, 3),
                           "dur": round(dur, 3), "args": args})  # fmt: skip

    path = folder / f"rank{rank}.json"
    with path.open("w") as file:
        file.write(json.dumps({"distributedInfo": {"rank": rank, "world_size": RANKS}})[:-1] + ', "traceEvents": [{}')
        for k in range(COLLECTIVES):
            end = 1.7e15 + 5000 * k
            length = 300 + source.expovariate(1 / 200)
            lines = [
                event("kernel", ALL_REDUCE, end - length + source.random(), length, 20, stream=20, **launch, **group)
            ]
            for j in range(KERNELS):
                name = ADD if j % 3 else "nvjet_tst_64x64_64x16_2x1_2cta_v_bz_bias_TNT"
                lines.append(event("kernel", name, end + 80 * j, 60 + 10 * source.random(), 7, stream=7, **launch))
            for j in range(OTHERS):
                kind = ("cpu_op", "aten::as_strided") if j % 2 else ("python_function", "torch/nn/modules/module.py(1)")
                lines.append(event(*kind, end + 9 * j, 3.5, 1234, **{"External id": j}, **shapes))
            file.write("".join(",\n" + line for line in lines))
        file.write("]}")
    return path.stat().st_size


def test_eight_ranks_in_half_a_minute_and_little_memory(tmp_path: Path) -> None:
    size = sum(write_rank(tmp_path, rank) for rank in range(RANKS))
    command = [sys.executable, "-m", "simulator", "+experiment=trace_report", f"traces={tmp_path}", "workers=2",
               f"hydra.run.dir={tmp_path / 'out'}"]  # fmt: skip
    began = time.perf_counter()
    running = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path)
    peak = 0
    while running.poll() is None:
        peak = max(peak, memory(running.pid))
        time.sleep(0.05)
    took = time.perf_counter() - began
    print(f"\n{RANKS} ranks, {size / 1e6:,.0f} MB: {took:.1f} s, {peak / 1e6:,.0f} MB in all processes")
    assert running.returncode == 0
    assert len(pd.read_parquet(tmp_path / "out" / "tax.parquet")) == COLLECTIVES
    assert took < 33
    assert peak < 0.6e9


def memory(process: int) -> int:
    """Resident bytes of a process and its children; 0 once they are gone."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in listing.splitlines()]
    family = {process}
    for pid, parent, _ in sorted(rows):
        family |= {pid} if parent in family else set()
    return 1024 * sum(rss for pid, _, rss in rows if pid in family)
