"""Event-level output: a timeline that opens in Perfetto, and one row per rank and collective.

Both re-run iterations one at a time with ``trace``, whose numbers depend on the seed and the iteration alone, so
they hold the times that the tables were reduced from, and memory does not grow with iterations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.arrays import Array
from simulator.simulation.runner import Record, trace
from simulator.workload.program import Collective

if TYPE_CHECKING:
    import pyarrow as pa

    from simulator.tasks.simulate.task import Simulate


def write(experiment: Simulate, folder: Path) -> None:
    """Write ``timeline.json`` into ``folder``: the first iterations of the first ranks, in Chrome-trace format.

    A process is a rank and a thread a stream, both counted from 1, since viewers give 0 a meaning of its own.
    Iterations follow each other in time. As in a profiler trace, a
    collective is one kernel from the rank's arrival to the end; nested in it are its wait and its transfer. ``ts``
    and ``dur`` are microseconds on a grid of nanoseconds, the resolution of the viewers, with ``dur`` the difference
    of two points of the grid: slices that touch or nest do so exactly. ``wait_us`` is the wait unrounded.
    """
    with (folder / "timeline.json").open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ms","traceEvents":[\n')
        file.write(",\n".join(map(_json, _metadata(experiment))))
        for events in _events(experiment):
            file.write("".join(f",\n{event}" for event in events))
        file.write("\n]}\n")


def per_rank(experiment: Simulate, folder: Path) -> None:
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


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _metadata(experiment: Simulate) -> list[dict[str, Any]]:
    """Names of processes and threads, and how much of the run is included."""
    ranks, iterations = _included(experiment)
    labels = f"ranks 0 to {ranks - 1} of {experiment.n}, iterations 0 to {iterations - 1} of {experiment.iterations}"
    included = {
        "labels": labels, "ranks": ranks, "of_ranks": experiment.n,
        "iterations": iterations, "of_iterations": experiment.iterations,
    }  # fmt: skip
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_labels", "pid": 1, "args": included}]
    for rank in range(ranks):
        events.append({"ph": "M", "name": "process_name", "pid": rank + 1, "args": {"name": f"rank {rank}"}})
        events.append({"ph": "M", "name": "process_sort_index", "pid": rank + 1, "args": {"sort_index": rank}})
        events += [
            {"ph": "M", "name": "thread_name", "pid": rank + 1, "tid": thread + 1, "args": {"name": stream}}
            for thread, stream in enumerate(experiment.program.streams)
        ]
    return events


def _included(experiment: Simulate) -> tuple[int, int]:
    """How many ranks and iterations the timeline shows."""
    return min(experiment.timeline_ranks, experiment.n), min(experiment.timeline_iterations, experiment.iterations)


def _events(experiment: Simulate) -> Iterator[list[str]]:
    """The slices of each operation, as JSON texts."""
    ranks, iterations = _included(experiment)
    origin = 0.0
    for iteration in range(iterations):
        length = 0.0
        for record in trace(experiment, range(iteration, iteration + 1)):
            length = max(length, float(record.end.max()))
            if isinstance(experiment.program.operations[record.operation], Collective):
                yield _collective_slices(experiment, record, iteration, origin, ranks)
            else:
                yield _compute_slices(experiment, record, iteration, origin, ranks)
        origin += length


def _compute_slices(experiment: Simulate, record: Record, iteration: int, origin: float, ranks: int) -> list[str]:
    operation = experiment.program.operations[record.operation]
    head = _head(operation.name, "kernel", _thread(experiment, record))
    args = _json({"operation": operation.name, "iteration": iteration})
    starts, ends = _grid(record.start, origin, ranks), _grid(record.end, origin, ranks)
    return [
        f'{head},"pid":{rank + 1},{_span(start, end)},"args":{args}}}'
        for rank, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def _collective_slices(experiment: Simulate, record: Record, iteration: int, origin: float, ranks: int) -> list[str]:
    operation, cost = experiment.program.operations[record.operation], experiment.costs[record.operation]
    assert isinstance(operation, Collective)
    assert cost is not None
    kind = "".join(word.capitalize() for word in operation.kind.value.split("_"))
    thread = _thread(experiment, record)
    kernel, wait, transfer = (
        _head(name, category, thread)
        for name, category in ((f"ncclDevKernel_{kind}", "kernel"), ("wait", "phase"), ("transfer", "phase"))
    )
    about = {
        "operation": operation.name, "kind": operation.kind.value, "bytes": operation.nbytes,
        "group": operation.group, "algorithm": cost.algorithm.name, "iteration": iteration,
    }  # fmt: skip
    args = _json(about)[:-1]
    waits = (_first(record.start, ranks) - _first(record.ready, ranks)) * 1e6
    points = [_grid(times, origin, ranks) for times in (record.ready, record.start, record.end)]
    slices = []
    for rank, (ready, start, end, waited) in enumerate(zip(*points, waits.tolist(), strict=True)):
        slices.append(f'{kernel},"pid":{rank + 1},{_span(ready, end)},"args":{args},"wait_us":{waited!r}}}}}')
        if start > ready:
            slices.append(f'{wait},"pid":{rank + 1},{_span(ready, start)}}}')
        if end > start:
            slices.append(f'{transfer},"pid":{rank + 1},{_span(start, end)}}}')
    return slices


def _head(name: str, category: str, thread: int) -> str:
    """The beginning of a slice's JSON, without its closing brace."""
    return _json({"ph": "X", "name": name, "cat": category, "tid": thread + 1})[:-1]


def _thread(experiment: Simulate, record: Record) -> int:
    program = experiment.program
    return list(program.streams).index(program.operations[record.operation].stream)


def _span(start: int, end: int) -> str:
    """From nanoseconds to the format's microseconds; exact, since three decimals of a double read back as written."""
    return f'"ts":{start / 1000},"dur":{(end - start) / 1000}'


def _first(times: Array, ranks: int) -> Array:
    """The first ``ranks`` of one iteration's times, shape (ranks,)."""
    return np.broadcast_to(times[0, :ranks], ranks)


def _grid(times: Array, origin: float, ranks: int) -> list[int]:
    """The first ranks' times (s from the start of the iteration) as whole nanoseconds of the timeline."""
    return [int(x) for x in np.rint((_first(times, ranks) + origin) * 1e9).tolist()]


def _rank_schema() -> pa.Schema:
    import pyarrow as pa

    times = [(name, pa.float64()) for name in ("ready", "start", "end", "wait")]
    collective = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([("iteration", pa.int64()), ("collective", collective), ("rank", pa.int32()), *times])


def _rank_rows(experiment: Simulate, iteration: int, schema: pa.Schema) -> pa.Table:
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
