"""PyTorch's profiler traces (Kineto, Chrome trace format): the bytes of one file -> the GPU kernels of one rank.

Events are split off without being decoded, and only kernels are then decoded, so memory stays near the file's size.
Times are read from their digits: at epoch scale a double in microseconds steps by a quarter of one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from simulator.checks import InputError, count
from simulator.lazy import pd
from simulator.traces import kernels
from simulator.traces.files import Content
from simulator.traces.trace import ProcessGroup, RankTrace

Raw = msgspec.Raw
Word = str | int | float | bool | list[Any] | None
MOST_RANK = 2**20 - 1
MOST_NAME = 100  # characters
MOST_TIME = 2**61  # ns; sums of two stay within 64 bits
DTYPE_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "uint8": 1, "int8": 1, "float8": 1, "float8e4m3fn": 1, "float8e5m2": 1,
    "short": 2, "int16": 2, "half": 2, "float16": 2, "bfloat16": 2, "int": 4, "int32": 4, "float": 4, "float32": 4,
    "long": 8, "int64": 8, "double": 8, "float64": 8,
}  # fmt: skip
_NUMBER = re.compile(rb"-?\d{1,19}(\.\d{1,40})?([eE][+-]?\d{1,2})?")
_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_. ]?(\d{1,9})(?!\d)", re.IGNORECASE)
_TRIES = 64  # closing braces to try, from the fault backwards


class _Trace(msgspec.Struct):
    events: list[Raw] = msgspec.field(name="traceEvents")
    distributed: Raw = msgspec.field(name="distributedInfo", default=Raw(b"null"))
    base: Raw = msgspec.field(name="baseTimeNanoseconds", default=Raw(b"0"))


class _GroupConfig(msgspec.Struct):
    pg_name: Word = None
    ranks: Word = None
    pg_size: Word = None


class _Distributed(msgspec.Struct):
    rank: Word = None
    world_size: Word = None
    pg_config: Raw = Raw(b"null")


class _Kind(msgspec.Struct):
    cat: Word = None
    ph: Word = None
    name: Word = None


class _Args(msgspec.Struct):
    stream: Word = None
    collective: Word = msgspec.field(name="Collective name", default=None)
    elements_in: Word = msgspec.field(name="In msg nelems", default=None)
    elements_out: Word = msgspec.field(name="Out msg nelems", default=None)
    dtype: Word = None
    size: Word = msgspec.field(name="Group size", default=None)
    group: Word = msgspec.field(name="Process Group Name", default=None)
    about: Word = msgspec.field(name="Process Group Description", default=None)
    ranks: Word = msgspec.field(name="Process Group Ranks", default=None)
    first: Word = msgspec.field(name="Global rank start", default=None)
    stride: Word = msgspec.field(name="Global rank stride", default=None)
    sequence: Word = msgspec.field(name="Seq", default=None)


class _Event(msgspec.Struct):
    name: str
    ts: Raw = Raw(b"")
    dur: Raw = Raw(b"")
    tid: Word = None
    args: _Args | None = None


_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # the second from msgspec up to 0.21
_TRACE = msgspec.json.Decoder(_Trace | list[Raw])
_DISTRIBUTED = msgspec.json.Decoder(_Distributed | None)
_GROUPS = msgspec.json.Decoder(list[_GroupConfig] | None)
_KIND = msgspec.json.Decoder(_Kind)
_EVENT = msgspec.json.Decoder(_Event)


def parse(
    path: Path, content: Content, *, rank: int | None = None, more: Sequence[str] = (), keep: bool = False
) -> RankTrace:
    """The GPU kernels in a trace.

    Args:
        path: the file, for its name, which may say the rank, and for errors.
        content: its bytes.
        rank: the rank, where the user gave it; otherwise ``distributedInfo`` says it, or the file's name.
        more: parts of the names of kernels that move data between ranks, besides ``kernels.COLLECTIVES``.
        keep: of a broken file take the whole events before the fault; a note says how many.

    Raises:
        InputError: for a broken file, with the place, one that is no trace, and one whose rank is not known.
    """
    trace, notes = _decode(path, content, keep)
    distributed = _distributed(trace)
    base = _base(trace)
    if base is None:
        notes.append("baseTimeNanoseconds is no whole number of nanoseconds, taken as 0")
    reading = _Reading(base or 0, distributed, more)
    for event in trace.events:
        reading.take(event)
    return reading.result(path, _rank(path, distributed, rank), notes)


def _decode(path: Path, content: Content, keep: bool) -> tuple[_Trace, list[str]]:
    data, fault = content.data, content.fault
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    if fault is None:
        try:
            return _as_trace(_TRACE.decode(data)), []
        except msgspec.ValidationError as error:
            raise InputError(f"traces file {path} is no trace of events: {error}") from None
        except _NO_JSON as error:
            place, fault = _place(data, error)
    else:
        place = len(data)
    if keep and (found := _whole_events(data[:place])) is not None:
        kept, end = found
        cut = max(data.count(b'"ph"', end), int(data.find(b"{", end) >= 0))
        more = " and whatever followed" if place == len(data) else ""
        return kept, [f"{fault}; kept {len(kept.events):,} whole events, cut {cut:,}{more}"]
    raise InputError(f"traces file {path} {fault}")


def _as_trace(decoded: _Trace | list[Raw]) -> _Trace:
    return decoded if isinstance(decoded, _Trace) else _Trace(events=decoded)


def _place(data: bytes | bytearray, error: Exception) -> tuple[int, str]:
    """The byte at which JSON stops being valid, and what to say about it."""
    if isinstance(error, RecursionError):
        return 0, "is nested too deep to be a trace"
    found = re.search(r"\(byte (\d+)\)", str(error))
    if found:
        reason = re.sub(r"^JSON is malformed: | \(byte \d+\)", "", str(error))
        line = data.count(b"\n", 0, int(found[1])) + 1
        return int(found[1]), f"is not valid JSON: {reason} at byte {int(found[1]):,} (line {line:,})"
    return len(data), f"is cut off: it ends at byte {len(data):,} in the middle of JSON"


def _whole_events(data: bytes | bytearray) -> tuple[_Trace, int] | None:
    """The trace up to the last whole event in ``data``, and the byte at which that ends; None where there is none."""
    end = len(data)
    for _ in range(_TRIES):
        end = data.rfind(b"}", 0, end)
        if end < 0:
            return None
        for close in (b"]}", b"]"):
            try:
                return _as_trace(_TRACE.decode(data[: end + 1] + close)), end + 1
            except _NO_JSON:
                continue
    return None


def _distributed(trace: _Trace) -> _Distributed:
    return _decoded(_DISTRIBUTED, trace.distributed) or _Distributed()


def _base(trace: _Trace) -> int | None:
    text = bytes(trace.base)
    return int(text) if re.fullmatch(rb"\d{1,19}", text) and int(text) < MOST_TIME else None


def _rank(path: Path, distributed: _Distributed, given: int | None) -> int:
    in_name = _RANK_IN_NAME.search(path.name)
    rank = given if given is not None else distributed.rank
    if rank is None and in_name:
        rank = int(in_name[1])
    if rank is None:
        raise InputError(
            f"ranks must be given: {path.name} says its rank neither in distributedInfo nor in its name (rank7, "
            f"worker7); ranks=[7, ...] gives one for each file, in the order of their names"
        )
    world = _whole(distributed.world_size)
    most = world - 1 if world and given is None else MOST_RANK
    return count(f"traces: the rank of {path.name}", rank, least=0, most=most)


def nanoseconds(microseconds: bytes) -> int | None:
    """Integer nanoseconds of a JSON number in microseconds, exact to the last digit; None where it is no such number.

    >>> nanoseconds(b"1700000000000000.123"), nanoseconds(b"2.5e3"), nanoseconds(b"true"), nanoseconds(b"1e400")
    (1700000000000000123, 2500000, None, None)
    """
    if not _NUMBER.fullmatch(microseconds):
        return None
    time = int((Decimal(microseconds.decode()) * 1000).to_integral_value())
    return time if abs(time) < MOST_TIME else None


@dataclass
class _Reading:
    """Collects the kernels of one file."""

    base: int
    distributed: _Distributed
    more: Sequence[str]
    dropped: Counter[str] = field(default_factory=Counter)
    groups: dict[ProcessGroup, int] = field(default_factory=dict)
    collectives: list[tuple[int, int, int, str, int, int]] = field(default_factory=list)
    others: list[tuple[int, int, bool]] = field(default_factory=list)
    steps: list[tuple[int, int]] = field(default_factory=list)
    names: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    members: dict[str, tuple[int, ...] | None] = field(init=False)

    def __post_init__(self) -> None:
        known = _decoded(_GROUPS, self.distributed.pg_config) or []
        self.members = {_printable(group.pg_name): _ranks(group.ranks) for group in known}

    def take(self, raw: Raw) -> None:
        """Look at one event; kernels and profiler steps are taken, kernels that cannot be used are counted."""
        kind = _decoded(_KIND, raw)
        if kind is None:
            self.dropped["event not readable"] += 1
            return
        if not isinstance(kind.cat, str):
            return
        is_kernel = kind.cat.lower() == "kernel"
        is_step = kind.cat == "user_annotation" and isinstance(kind.name, str) and kind.name.startswith("ProfilerStep")
        if kind.ph not in ("X", None) or not (is_kernel or is_step):
            return
        event = _decoded(_EVENT, raw)
        start = nanoseconds(bytes(event.ts)) if event else None
        duration = nanoseconds(bytes(event.dur)) if event else None
        if event is None or start is None or duration is None or duration < 0:
            self.dropped[_reason(event, start, duration)] += is_kernel
        elif is_step:
            self.steps.append((start + self.base, duration))
        else:
            self._kernel(event, start + self.base, duration)

    def _kernel(self, event: _Event, start: int, duration: int) -> None:
        name = event.name
        if name not in self.names:
            self.names[name] = (kernels.is_collective(name, self.more), bool(kernels.GEMM.search(name)))
        collective, gemm = self.names[name]
        if not collective:
            self.others.append((start, duration, gemm))
            return
        args = event.args or _Args()
        group = self.groups.setdefault(self._group(args, event.tid), len(self.groups))
        what = kernels.operation(args.collective) if isinstance(args.collective, str) else "collective"
        what = what if what != "collective" else kernels.operation(name)
        sequence = _whole(args.sequence)
        self.collectives.append(
            (start, duration, group, what, _size(what, args), -1 if sequence is None else sequence)
        )  # fmt: skip

    def _group(self, args: _Args, tid: Word) -> ProcessGroup:
        if args.group is None:
            return ProcessGroup(f"stream {_printable(tid if args.stream is None else args.stream)}")
        name = _printable(args.group)
        size = _whole(args.size)
        ranks = _ranks(args.ranks) or _strided(args.first, args.stride, size) or self.members.get(name)
        about = "" if args.about in (None, "", "undefined", name) else _printable(args.about)
        return ProcessGroup(f"{name} ({about})" if about else name, ranks, len(ranks) if ranks else size)

    def result(self, path: Path, rank: int, notes: Sequence[str]) -> RankTrace:
        columns = ["start", "duration", "group", "operation", "bytes", "sequence"]
        collectives = pd.DataFrame(self.collectives, columns=columns).sort_values("start", kind="stable")
        collectives = collectives.astype({name: np.int64 for name in columns if name != "operation"})
        others = np.array([(start, duration) for start, duration, _ in self.others], np.int64).reshape(-1, 2)
        order = np.argsort(others[:, 0], kind="stable")
        trace = RankTrace(
            path, rank, _whole(self.distributed.world_size), tuple(self.groups), collectives.reset_index(drop=True),
            others[order, 0], others[order, 1], np.array([gemm for *_, gemm in self.others], bool)[order],
            dropped=dict(+self.dropped), notes=tuple(notes),
        )  # fmt: skip
        return _with_steps(trace, self.steps)


def _with_steps(trace: RankTrace, steps: Sequence[tuple[int, int]]) -> RankTrace:
    """Count the profiler's steps and those in which it recorded no kernel: it sometimes drops whole windows."""
    from dataclasses import replace

    own = trace.collectives["start"].to_numpy(np.int64)
    starts = np.sort(np.concatenate([trace.start, own]))
    silent = sum(
        int(np.searchsorted(starts, start) == np.searchsorted(starts, start + length)) for start, length in steps
    )  # fmt: skip
    return replace(trace, steps=(len(steps), silent))


Struct = TypeVar("Struct")


def _decoded(decoder: msgspec.json.Decoder[Struct], raw: Raw) -> Struct | None:
    try:
        return decoder.decode(raw)
    except _NO_JSON:
        return None


def _printable(name: Word) -> str:
    """A name from a trace as it may stand in a table or on a terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(name)[:MOST_NAME])


def _reason(event: _Event | None, start: int | None, duration: int | None) -> str:
    if event is None:
        return "event not readable"
    if start is None:
        return "no valid start time"
    return "no valid duration" if duration is None else "negative duration"


def _whole(value: Word) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62
    return int(value) if good and isinstance(value, int) else None


def _ranks(value: Word) -> tuple[int, ...] | None:
    """Ranks from a list, or from its text; None where the profiler shortened it by ``...``.

    >>> _ranks("[0, 2, 4]"), _ranks("[0, 1, ..., 31]"), _ranks([])
    ((0, 2, 4), None, None)
    """
    if isinstance(value, str):
        if not re.fullmatch(r"\[\d{1,9}(, ?\d{1,9})*\]", value):
            return None
        value = [int(text) for text in re.findall(r"\d+", value)]
    if not isinstance(value, list) or not value or not all(_whole(rank) is not None for rank in value):
        return None
    return tuple(sorted(set(value)))


def _strided(first: Word, stride: Word, size: int | None) -> tuple[int, ...] | None:
    start, step = _whole(first), _whole(stride)
    if start is None or not step or not size or size > MOST_RANK:
        return None
    return tuple(range(start, start + step * size, step))


def _size(what: str, args: _Args) -> int:
    """Bytes of a collective, nccl-tests convention: the gathered size of an AllGather, else what a rank puts in.

    Of a Gather and a Scatter it is the larger of in and out: PyTorch has written those of a Scatter in either order
    (ProcessGroupNCCL::scatter, ProcessGroupXCCL::scatter).
    """
    into, out = _whole(args.elements_in), _whole(args.elements_out)
    elements = out if what == "all_gather" else into
    if what in ("gather", "scatter") and into is not None and out is not None:
        elements = max(into, out)
    width = DTYPE_BYTES.get(args.dtype.lower()) if isinstance(args.dtype, str) else None
    return elements * width if elements is not None and width and elements < 2**50 else -1
