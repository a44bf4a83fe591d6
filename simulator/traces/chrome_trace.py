"""Writing the Chrome trace format (Trace Event Format, Google 2016), which Perfetto and readers of profiles open.

One event a line. Times are microseconds on a grid of nanoseconds, the resolution of the viewers, with ``dur`` the
difference of two points of the grid: slices that touch or nest do so exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from simulator.arrays import Array, Times


def write(path: Path, head: dict[str, Any], events: Iterable[str], *, kineto: bool = False) -> None:
    """Write a trace, event by event.

    Args:
        path: of the file.
        head: what stands before the events.
        events: JSON texts.
        kineto: put a space after each colon of the head, and the head on a line of its own, as PyTorch's profiler does:
            HolisticTraceAnalysis looks line by line for ``"rank": ``.
    """
    opening = f'{json.dumps(head)[:-1]},\n"traceEvents": [\n' if kineto else f'{text(head)[:-1]},"traceEvents":[\n'
    with path.open("w", encoding="utf-8") as file:
        file.write(opening)
        for i, event in enumerate(events):
            file.write(f",\n{event}" if i else event)
        file.write("\n]}\n")


def text(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"))


def metadata(kind: str, pid: int, tid: int | None = None, ts: int | None = None, **args: Any) -> str:
    """A metadata event, by which processes and threads get names, labels and their order.

    >>> metadata("thread_name", 1, 2, name="main")
    '{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"main"}}'
    """
    place = {key: value for key, value in (("pid", pid), ("tid", tid), ("ts", ts)) if value is not None}
    return text({"ph": "M", "name": kind, **place, "args": args})


def opened(**fields: Any) -> str:
    """The JSON of a complete event (a slice) without the braces at its end: what follows is written behind it.

    >>> opened(name="wait", pid=1), opened(name="gemm", args={"device": 0})
    ('{"ph":"X","name":"wait","pid":1', '{"ph":"X","name":"gemm","args":{"device":0')
    """
    return text({"ph": "X", **fields}).rstrip("}")


def grid(seconds: Array) -> Times:
    """Seconds -> whole nanoseconds."""
    return np.rint(seconds * 1e9).astype(np.int64)


def span(begin: int, end: int, *, kineto: bool = False) -> str:
    """Begin and length of a slice, from nanoseconds to the format's microseconds.

    Both spellings are exact: three decimals of a double read back as written. ``kineto`` writes all three of them.

    >>> span(1500, 4000), span(1500, 4000, kineto=True)
    ('"ts":1.5,"dur":2.5', '"ts":1.500,"dur":2.500')
    """
    length = end - begin
    if kineto:
        return f'"ts":{begin // 1000}.{begin % 1000:03d},"dur":{length // 1000}.{length % 1000:03d}'
    return f'"ts":{begin / 1000},"dur":{length / 1000}'
