"""Event-level output: a timeline that opens in Perfetto, and one row per rank and collective.

Both re-run iterations one at a time with ``trace``, whose numbers depend on the seed and the iteration alone, so
they hold the times that the tables were reduced from, and memory does not grow with iterations.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.arrays import Array
from simulator.simulation.experiment import Experiment
from simulator.simulation.runner import Record, trace
from simulator.traces import chrome_trace
from simulator.traces.chrome_trace import grid, metadata, opened, span, text
from simulator.workload.program import Collective

if TYPE_CHECKING:
    import pyarrow as pa


def write(experiment: Experiment, folder: Path, iterations: int, ranks: int) -> None:
    """Write ``timeline.json`` into ``folder``: the first ``iterations`` of the first ``ranks``, as a Chrome trace.

    A process is a rank and a thread a stream, both counted from 1, since viewers give 0 a meaning of its own.
    Iterations follow each other in time. As in a profiler trace, a collective is one kernel from the rank's arrival to
    the end; nested in it are its wait and its transfer. ``wait_us`` is the wait unrounded.
    """
    iterations, ranks = min(iterations, experiment.iterations), min(ranks, experiment.n)
    events = chain(_metadata(experiment, iterations, ranks), _slices(experiment, iterations, ranks))
    chrome_trace.write(folder / "timeline.json", {"displayTimeUnit": "ms"}, events)


def replay(experiment: Experiment, iterations: int) -> Iterator[tuple[int, float, Record]]:
    """The first iterations one after another: each operation with its iteration and when (s) that starts."""
    origin = 0.0
    for iteration in range(iterations):
        length = 0.0
        for record in trace(experiment, range(iteration, iteration + 1)):
            length = max(length, float(record.end.max()))
            yield iteration, origin, record
        origin += length


def per_rank(experiment: Experiment, folder: Path) -> None:
    """Write ``ranks.parquet`` into ``folder``: one row per iteration, collective and rank; a row group per iteration.

    Columns: iteration, collective, rank, ready, start, end and wait = start - ready; seconds from the start of the
    iteration, as the engine gives them.
    """
    import pyarrow.parquet as pq

    schema = _rank_schema()
    labels = ["iteration", "collective", "rank"]  # the times hardly repeat, so a dictionary of them costs more
    with pq.ParquetWriter(folder / "ranks.parquet", schema, use_dictionary=labels) as writer:
        for iteration in range(experiment.iterations):
            writer.write_table(_rank_rows(experiment, iteration, schema))


def _metadata(experiment: Experiment, iterations: int, ranks: int) -> Iterator[str]:
    """Names of processes and threads, and how much of the run is included."""
    labels = f"ranks 0 to {ranks - 1} of {experiment.n}, iterations 0 to {iterations - 1} of {experiment.iterations}"
    yield metadata(
        "process_labels", 1, labels=labels, ranks=ranks, of_ranks=experiment.n, iterations=iterations,
        of_iterations=experiment.iterations,
    )  # fmt: skip
    for rank in range(ranks):
        yield metadata("process_name", rank + 1, name=f"rank {rank}")
        yield metadata("process_sort_index", rank + 1, sort_index=rank)
        for thread, stream in enumerate(experiment.program.streams, start=1):
            yield metadata("thread_name", rank + 1, thread, name=stream)


def _slices(experiment: Experiment, iterations: int, ranks: int) -> Iterator[str]:
    """The slices of each operation, rank by rank."""
    program = experiment.program
    for iteration, origin, record in replay(experiment, iterations):
        operation, cost = program.operations[record.operation], experiment.costs[record.operation]
        name, about = operation.name, dict[str, Any](operation=operation.name)
        if cost and isinstance(operation, Collective):
            name = f"ncclDevKernel_{operation.kind.label}"
            about |= {
                "kind": operation.kind.value, "bytes": operation.nbytes, "group": operation.group,
                "algorithm": cost.algorithm.name,
            }  # fmt: skip
        about["iteration"] = iteration
        thread = list(program.streams).index(operation.stream) + 1
        kernel = opened(name=name, cat="kernel", tid=thread)
        wait, transfer = (opened(name=phase, cat="phase", tid=thread) for phase in ("wait", "transfer"))
        args = text(about)[:-1]
        times = [_first(moment, ranks) for moment in (record.ready, record.start, record.end)]
        waits = (times[1] - times[0]) * 1e6
        points = [grid(moment + origin).tolist() for moment in times]
        for pid, (ready, start, end, waited) in enumerate(zip(*points, waits.tolist(), strict=True), start=1):
            more = f',"wait_us":{waited!r}' if cost else ""
            yield f'{kernel},"pid":{pid},{span(ready, end)},"args":{args}{more}}}}}'
            if cost and start > ready:
                yield f'{wait},"pid":{pid},{span(ready, start)}}}'
            if cost and end > start:
                yield f'{transfer},"pid":{pid},{span(start, end)}}}'


def _first(times: Array, ranks: int) -> Array:
    """The first ``ranks`` of one iteration's times, shape (ranks,)."""
    return np.broadcast_to(times[0, :ranks], ranks)


def _rank_schema() -> pa.Schema:
    import pyarrow as pa

    times = [(name, pa.float64()) for name in ("ready", "start", "end", "wait")]
    collective = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([("iteration", pa.int64()), ("collective", collective), ("rank", pa.int32()), *times])


def _rank_rows(experiment: Experiment, iteration: int, schema: pa.Schema) -> pa.Table:
    """All rows of one iteration: collectives in issue order, each with its ranks in order."""
    import pyarrow as pa

    program, n = experiment.program, experiment.n
    count = len(program.collectives)
    ready, start, end = times = np.empty((3, count, n))
    row = {operation: k for k, operation in enumerate(program.collectives)}
    for record in trace(experiment, range(iteration, iteration + 1)):
        if record.operation in row:
            times[:, row[record.operation]] = [_first(x, n) for x in (record.ready, record.start, record.end)]
    names = pa.array([program.operations[i].name for i in program.collectives], pa.string())
    collective = pa.DictionaryArray.from_arrays(np.repeat(np.arange(count, dtype=np.int32), n), names)
    rank = np.tile(np.arange(n, dtype=np.int32), count)
    labels = [np.full(count * n, iteration), collective, rank]
    return pa.table([*labels, *(x.ravel() for x in (ready, start, end, start - ready))], schema=schema)
