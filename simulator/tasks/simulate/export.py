"""``traces=true``: a simulated run as profiler traces, one file per rank, in the format of PyTorch's profiler (Kineto).

What reads real traces reads these: ``+experiment=trace_report``, Perfetto, HolisticTraceAnalysis.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Times
from simulator.network.collectives import Kind
from simulator.simulation.runner import Record, trace
from simulator.tasks.simulate.task import Simulate
from simulator.workload.program import ALL, Collective, Operation

FOLDER = "traces"
FIRST_STREAM = 7  # the number that the profiler gives PyTorch's own stream
MOST_LISTED = 30  # ranks that the profiler writes out; of longer lists it leaves out the middle
COMPUTE = "simulated_gemm"
NAMES = {  # the kernel, and the collective as PyTorch names it
    Kind.ALL_REDUCE: ("ncclDevKernel_AllReduce", "allreduce"),
    Kind.REDUCE_SCATTER: ("ncclDevKernel_ReduceScatter", "_reduce_scatter_base"),
    Kind.ALL_GATHER: ("ncclDevKernel_AllGather", "_allgather_base"),
    Kind.ALL_TO_ALL: ("ncclDevKernel_SendRecv", "all_to_all"),
    Kind.BROADCAST: ("ncclDevKernel_Broadcast", "broadcast"),
    Kind.SEND: ("ncclDevKernel_SendRecv", "send"),
}


@dataclass(frozen=True)
class _Simulated:
    """What was simulated, in whole nanoseconds from the start of the first iteration.

    Attributes:
        origin: start of each iteration, and the end of the last; shape (iterations + 1,).
        begin, end: of each kernel, shape (iterations, operations, n). A collective's begins when the rank is ready.
    """

    experiment: Simulate
    origin: Times
    begin: Times
    end: Times


def write(experiment: Simulate, folder: Path) -> None:
    """Write ``traces/rank-R.json`` into ``folder`` for every rank: the first ``traces_iterations`` iterations.

    A compute block is one matrix-multiplication kernel, a collective one NCCL kernel, from the rank's arrival to the
    end. Streams are numbered from 7 in the order of the program. Iterations follow each other in time, each under a
    ``ProfilerStep``; at its start the host launches all its kernels, in no time, as the simulator has no host. Process
    group 0 is all ranks; then each line of ranks along an axis of the mesh has a number, and the axis as description.
    Collectives among a single rank are left out. ``ts`` and ``dur`` are microseconds on a grid of nanoseconds, with
    ``dur`` the difference of two of its points. Sizes are in elements of one byte. Memory grows with ranks x
    iterations x operations, 16 bytes each.
    """
    simulated = _simulate(experiment)
    (folder / FOLDER).mkdir()
    for rank in range(experiment.n):
        with (folder / FOLDER / f"rank-{rank}.json").open("w", encoding="utf-8") as file:
            # HolisticTraceAnalysis looks line by line for "rank": with a space after the colon.
            file.write(f"{json.dumps(_head(experiment, rank))[:-1]},\n")
            file.write('"traceEvents": [\n')
            file.write(",\n".join(_events(simulated, rank)))
            file.write("\n]}\n")


def _simulate(experiment: Simulate) -> _Simulated:
    iterations = min(experiment.traces_iterations, experiment.iterations)
    shape = (iterations, len(experiment.program.operations), experiment.n)
    begin, end = np.empty(shape, np.int64), np.empty(shape, np.int64)
    origins = [0.0]
    for i in range(iterations):
        length = 0.0
        for record in trace(experiment, range(i, i + 1)):
            begin[i, record.operation] = _grid(_begin(experiment, record)[0], origins[-1])
            end[i, record.operation] = _grid(record.end[0], origins[-1])
            length = max(length, float(record.end.max()))
        origins.append(origins[-1] + length)
    return _Simulated(experiment, _grid(np.array(origins), 0.0), begin, end)


def _begin(experiment: Simulate, record: Record) -> NDArray[np.float64]:
    operation = experiment.program.operations[record.operation]
    return record.ready if isinstance(operation, Collective) else record.start


def _grid(seconds: NDArray[np.float64], origin: float) -> Times:
    return np.rint((seconds + origin) * 1e9).astype(np.int64)


def _head(experiment: Simulate, rank: int) -> dict[str, Any]:
    """What stands before the events."""
    groups = [
        {"pg_name": str(number), "pg_desc": axis, "backend_config": "cuda:nccl", "pg_size": len(ranks), "ranks": ranks}
        for axis in (ALL, *experiment.program.mesh)
        for number, ranks in [_process_group(experiment, axis, rank)]
    ]
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": experiment.n, "pg_count": len(groups),
                            "pg_config": groups},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 0,
        "traceName": f"{experiment.name}, rank {rank}",
    }  # fmt: skip


def _process_group(experiment: Simulate, axis: str, rank: int) -> tuple[int, list[int]]:
    """Number and ranks of the process group of a rank along an axis, or of all."""
    program = experiment.program
    number = 0
    for before in (ALL, *program.mesh):
        if before == axis:
            break
        number += program.n // program.blocks(before)[1]
    _, size, step = program.blocks(axis)
    block, place = rank // (size * step), rank % step
    first = block * size * step + place
    return number + block * step + place, list(range(first, first + size * step, step))


def _events(simulated: _Simulated, rank: int) -> Iterator[str]:
    """The events of one rank as JSON texts."""
    experiment = simulated.experiment
    program = experiment.program
    host = experiment.n + rank  # a process number that is no device's
    yield from _metadata(experiment, rank, host)
    step = _text({"ph": "X", "cat": "user_annotation", "pid": host, "tid": host})[:-1]
    launch = _text({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": host, "tid": host})[:-1]
    kernels = [_kernel(experiment, operation, rank) for operation in program.operations]
    sequence: Counter[str] = Counter()
    for i, origin in enumerate(simulated.origin[:-1].tolist()):
        yield f'{step},"name":"ProfilerStep#{i}",{_span(origin, int(simulated.origin[i + 1]))}}}'
        begins, ends = simulated.begin[i, :, rank].tolist(), simulated.end[i, :, rank].tolist()
        for k, operation in enumerate(program.operations):
            if not kernels[k]:
                continue
            number = f'"correlation":{i * len(kernels) + k + 1}'
            yield f'{launch},{_span(origin, origin)},"args":{{{number}}}}}'
            if isinstance(operation, Collective):
                number += f',"Seq":{sequence[operation.group]}'
                sequence[operation.group] += 1
            yield f"{kernels[k]},{number}}},{_span(begins[k], ends[k])}}}"


def _metadata(experiment: Simulate, rank: int, host: int) -> Iterator[str]:
    """Names of processes (a device's number is its process number) and threads."""
    label = f"rank {rank} of {experiment.n}"
    names = {rank: (f"GPU {rank}", label), host: (f"host of GPU {rank}", label)}
    for pid, (name, what) in names.items():
        for kind, args in (
            ("process_name", {"name": name}), ("process_labels", {"labels": what}),
            ("process_sort_index", {"sort_index": 2 * rank + (pid == rank)}),
        ):  # fmt: skip
            yield _text({"ph": "M", "name": kind, "pid": pid, "tid": 0, "ts": 0, "args": args})
    for place, stream in enumerate(experiment.program.streams):
        number = FIRST_STREAM + place
        named = {"name": f"stream {number} {stream}"}
        yield _text({"ph": "M", "name": "thread_name", "pid": rank, "tid": number, "ts": 0, "args": named})
    yield _text({"ph": "M", "name": "thread_name", "pid": host, "tid": host, "ts": 0, "args": {"name": "launches"}})


def _kernel(experiment: Simulate, operation: Operation, rank: int) -> str:
    """The beginning of the JSON of an operation's kernels on a rank, inside its args; empty where it has none."""
    stream = FIRST_STREAM + list(experiment.program.streams).index(operation.stream)
    args: dict[str, Any] = {"device": rank, "stream": stream, "operation": operation.name}
    name = COMPUTE
    if isinstance(operation, Collective):
        number, ranks = _process_group(experiment, operation.group, rank)
        if len(ranks) < 2:
            return ""
        name, collective = NAMES[operation.kind]
        whole, part = round(operation.nbytes), round(operation.nbytes / len(ranks))
        args |= {
            "Collective name": collective, "dtype": "Byte",
            "In msg nelems": part if operation.kind is Kind.ALL_GATHER else whole,
            "Out msg nelems": part if operation.kind is Kind.REDUCE_SCATTER else whole,
            "Group size": len(ranks), "Process Group Name": str(number),
            "Process Group Description": operation.group, "Process Group Ranks": _listed(ranks),
        }  # fmt: skip
    return _text({"ph": "X", "cat": "kernel", "name": name, "pid": rank, "tid": stream, "args": args})[:-2]


def _listed(ranks: list[int]) -> str:
    """Ranks as the profiler writes them.

    >>> _listed([0, 4]), _listed(list(range(64)))[-12:]
    ('[0, 4]', '28, ..., 63]')
    """
    if len(ranks) <= MOST_LISTED:
        return str(ranks)
    return f"[{', '.join(map(str, ranks[: MOST_LISTED - 1]))}, ..., {ranks[-1]}]"


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _span(begin: int, end: int) -> str:
    """From nanoseconds to the format's microseconds, digit by digit."""
    length = end - begin
    return f'"ts":{begin // 1000}.{begin % 1000:03d},"dur":{length // 1000}.{length % 1000:03d}'
