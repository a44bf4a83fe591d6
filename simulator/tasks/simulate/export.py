"""``export_traces=true``: a simulated run as profiler traces (PyTorch's Kineto), one file per rank.

What reads real traces reads these: ``+experiment=trace_report``, Perfetto, HolisticTraceAnalysis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from simulator.arrays import Times
from simulator.network.collectives import Kind
from simulator.simulation.experiment import Experiment
from simulator.tasks.simulate.timeline import replay
from simulator.traces import chrome_trace
from simulator.traces.chrome_trace import grid, metadata, opened, span
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
    Kind.REDUCE: ("ncclDevKernel_Reduce", "reduce"),
    Kind.GATHER: ("ncclDevKernel_SendRecv", "gather"),  # grouped sends and receives
    Kind.SCATTER: ("ncclDevKernel_SendRecv", "scatter"),
    Kind.SEND: ("ncclDevKernel_SendRecv", "sendrecv"),  # of all ranks at once, each to the next
}
PART_IN = {Kind.ALL_GATHER, Kind.GATHER}  # a rank puts in a part; PyTorch records the sizes of the root on every rank
PART_OUT = {Kind.REDUCE_SCATTER, Kind.SCATTER}  # a rank gets out a part


def write(experiment: Experiment, folder: Path, iterations: int) -> None:
    """Write ``traces/rank-R.json`` into ``folder`` for every rank: the first ``iterations``.

    A compute block is one matrix-multiplication kernel, a collective one NCCL kernel, from the rank's arrival to the
    end. Streams are numbered from 7 in the order of the program. Iterations follow each other in time, each under a
    ``ProfilerStep``; at its start the host launches all its kernels, in no time, as the simulator has no host. Process
    group 0 is all ranks; then each line of ranks along an axis of the mesh has a number, and the axis as description.
    Collectives among a single rank are left out. Sizes are in elements of one byte. Memory grows with ranks x
    iterations x operations, 16 bytes each.
    """
    origins, begin, end = _simulate(experiment, min(iterations, experiment.iterations))
    (folder / FOLDER).mkdir()
    for rank in range(experiment.n):
        events = _events(experiment, rank, origins, begin[..., rank], end[..., rank])
        chrome_trace.write(folder / FOLDER / f"rank-{rank}.json", _head(experiment, rank), events, kineto=True)


def _simulate(experiment: Experiment, iterations: int) -> tuple[Times, Times, Times]:
    """What was simulated, in whole nanoseconds from the start of the first iteration.

    Returns:
        the start of each iteration, and the end of the last; begin and end of each kernel, shape (iterations,
        operations, n). A collective's begins when the rank is ready.
    """
    begin, end = np.empty((2, iterations, len(experiment.program.operations), experiment.n), np.int64)
    origins = np.zeros(iterations + 1)
    for i, origin, record in replay(experiment, iterations):
        begin[i, record.operation] = grid(record.ready[0] + origin)
        end[i, record.operation] = grid(record.end[0] + origin)
        origins[i + 1] = max(origins[i + 1], origin + float(record.end.max()))
    return grid(origins), begin, end


def _head(experiment: Experiment, rank: int) -> dict[str, Any]:
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


def _process_group(experiment: Experiment, axis: str, rank: int) -> tuple[int, list[int]]:
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


def _events(experiment: Experiment, rank: int, origins: Times, begin: Times, end: Times) -> Iterator[str]:
    """The events of one rank as JSON texts."""
    program = experiment.program
    host = experiment.n + rank  # a process number that is no device's
    yield from _metadata(experiment, rank, host)
    step = opened(cat="user_annotation", pid=host, tid=host)
    launch = opened(cat="cuda_runtime", name="cudaLaunchKernel", pid=host, tid=host)
    kernels = [_kernel(experiment, operation, rank) for operation in program.operations]
    sequence: Counter[str] = Counter()
    for i, (origin, following) in enumerate(pairwise(origins.tolist())):
        yield f'{step},"name":"ProfilerStep#{i}",{span(origin, following, kineto=True)}}}'
        begins, ends = begin[i].tolist(), end[i].tolist()
        for k, operation in enumerate(program.operations):
            if not kernels[k]:
                continue
            number = f'"correlation":{i * len(kernels) + k + 1}'
            yield f'{launch},{span(origin, origin, kineto=True)},"args":{{{number}}}}}'
            if isinstance(operation, Collective):
                number += f',"Seq":{sequence[operation.group]}'
                sequence[operation.group] += 1
            yield f"{kernels[k]},{number}}},{span(begins[k], ends[k], kineto=True)}}}"


def _metadata(experiment: Experiment, rank: int, host: int) -> Iterator[str]:
    """Names of processes (a device's number is its process number) and threads."""
    for pid, name in ((rank, f"GPU {rank}"), (host, f"host of GPU {rank}")):
        yield metadata("process_name", pid, 0, 0, name=name)
        yield metadata("process_labels", pid, 0, 0, labels=f"rank {rank} of {experiment.n}")
        yield metadata("process_sort_index", pid, 0, 0, sort_index=2 * rank + (pid == rank))
    for number, stream in enumerate(experiment.program.streams, start=FIRST_STREAM):
        yield metadata("thread_name", rank, number, 0, name=f"stream {number} {stream}")
    yield metadata("thread_name", host, host, 0, name="launches")


def _kernel(experiment: Experiment, operation: Operation, rank: int) -> str:
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
            "In msg nelems": part if operation.kind in PART_IN else whole,
            "Out msg nelems": part if operation.kind in PART_OUT else whole,
            "Group size": len(ranks), "Process Group Name": str(number),
            "Process Group Description": operation.group, "Process Group Ranks": _listed(ranks),
        }  # fmt: skip
    return opened(cat="kernel", name=name, pid=rank, tid=stream, args=args)


def _listed(ranks: list[int]) -> str:
    """Ranks as the profiler writes them.

    >>> _listed([0, 4]), _listed(list(range(64)))[-12:]
    ('[0, 4]', '28, ..., 63]')
    """
    if len(ranks) <= MOST_LISTED:
        return str(ranks)
    return f"[{', '.join(map(str, ranks[: MOST_LISTED - 1]))}, ..., {ranks[-1]}]"
