"""PyTorch's profiler traces (Kineto, Chrome trace format): the events of one file -> the kernels of its GPUs.

Times are read from their digits: at epoch scale a double in microseconds steps by a quarter of one.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Times
from simulator.checks import InputError
from simulator.lazy import pd
from simulator.text import printable
from simulator.traces import events, kernels
from simulator.traces.events import Event, Head, Raw, Word, decoded
from simulator.traces.files import natural
from simulator.traces.trace import MOST_RANK, ProcessGroup, RankTrace, TraceFile

MOST_NAME = 100  # characters
MOST_KERNEL = 500  # characters of a kernel's name, whose arguments may tell it apart
MOST_TIME = 2**61  # ns; sums of two stay within 64 bits
DTYPE_BYTES = {
    "byte": 1, "char": 1, "bool": 1, "uint8": 1, "int8": 1, "float8": 1, "float8e4m3fn": 1, "float8e5m2": 1,
    "short": 2, "int16": 2, "half": 2, "float16": 2, "bfloat16": 2, "int": 4, "int32": 4, "float": 4, "float32": 4,
    "long": 8, "int64": 8, "double": 8, "float64": 8,
}  # fmt: skip
_NUMBER = re.compile(rb"-?\d{1,19}(\.\d{1,40})?([eE][+-]?\d{1,2})?")
MOST_GPUS, MOST_GROUPS = 512, 256  # in a file, of a GPU: no trace has as many, and each takes time
LONGEST = 86_400 * 10**9  # ns from a start in the middle: no profile lasts a day, and no kernel
NO_TIME = "kernels without a time"
_COMPUTE, _GEMM, _COLLECTIVE, _LOST = range(4)


class _GroupConfig(msgspec.Struct):
    pg_name: Word = None
    ranks: Word = None
    pg_size: Word = None


class _Distributed(msgspec.Struct):
    rank: Word = None
    world_size: Word = None
    pg_config: Raw = Raw(b"null")


class _Args(msgspec.Struct):
    device: Word = None
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
    source: Word = msgspec.field(name="Src Rank", default=None)
    target: Word = msgspec.field(name="Dst Rank", default=None)


class _Name(msgspec.Struct):
    name: Word = None


_DISTRIBUTED = msgspec.json.Decoder(_Distributed | None)
_GROUPS = msgspec.json.Decoder(list[_GroupConfig] | None)
_ARGS = msgspec.json.Decoder(_Args)
_NAME = msgspec.json.Decoder(_Name | None)


def parse(
    path: Path, pieces: Iterable[bytes], *, more: Sequence[str] = (), keep: bool = False, gloo: bool = False
) -> TraceFile:  # fmt: skip
    """The GPU kernels in a trace, by GPU: a process and a device in it.

    Args:
        path: the file, for errors.
        pieces: its bytes.
        more: parts of the names of kernels that move data between ranks, besides ``kernels.COLLECTIVES``.
        keep: of a broken file take the whole events before the fault; a note says how many.
        gloo: take gloo's collectives, which run on the CPU, in the place of kernels.

    Raises:
        InputError: for a broken file, with the place, and one that is no trace.
    """
    reading = _Reading(more, gloo)
    head, notes = events.read(path, pieces, reading.take, keep)
    base = _base(head)
    if base is None:
        notes.append("baseTimeNanoseconds is no whole number of nanoseconds, taken as 0")
    distributed = decoded(_DISTRIBUTED, head.distributed) or _Distributed()
    return reading.result(path, distributed, base or 0, notes)


def _base(trace: Head) -> int | None:
    text = bytes(trace.base)
    return int(text) if re.fullmatch(rb"\d{1,19}", text) and int(text) < MOST_TIME else None


def nanoseconds(microseconds: bytes) -> int | None:
    """Integer nanoseconds of a JSON number in microseconds, exact to the last digit; None where it is no such number.

    >>> nanoseconds(b"1700000000000000.123"), nanoseconds(b"2.5e3"), nanoseconds(b"true"), nanoseconds(b"1e400")
    (1700000000000000123, 2500000, None, None)
    """
    if not _NUMBER.fullmatch(microseconds):
        return None
    time = int((Decimal(microseconds.decode()) * 1000).to_integral_value())
    return time if abs(time) < MOST_TIME else None


class _Gpu:
    """The kernels of one GPU, in the order of the file."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self.start = array("q")
        self.duration = array("q")
        self.kind = array("b")
        self.name = array("q")
        self.groups: dict[ProcessGroup, int] = {}
        self.collectives: list[tuple[int, str, int, int, int]] = []  # group, operation, bytes, sequence, peer

    def add(self, start: int, duration: int, kind: int, name: int = 0) -> None:
        self.start.append(start)
        self.duration.append(duration)
        self.kind.append(kind)
        self.name.append(name)


@dataclass
class _Reading:
    """Collects the kernels of one file."""

    more: Sequence[str]
    gloo: bool
    gpus: dict[tuple[str, str], _Gpu] = field(default_factory=dict)
    unreadable: int = 0
    steps: list[tuple[int, int]] = field(default_factory=list)
    names: dict[str, tuple[int, int]] = field(default_factory=dict)  # of kernels -> what they are, place of the name
    devices: dict[Any, str] = field(default_factory=dict)  # process -> what it is called, where it is a GPU
    derived: set[tuple[Any, Any]] = field(default_factory=set)  # lines of such a process that repeat its streams
    activity: bool = False  # whether CUDA, or what takes its place, was recorded
    annotations: int = 0  # of gloo

    def take(self, event: Event | None) -> None:
        """Look at one event; kernels and profiler steps are taken, kernels that cannot be used are counted."""
        if event is None:
            self.unreadable += 1
            return
        cat, name = event.cat, event.name
        if cat is None:
            if event.ph == "M" and name in ("process_name", "thread_name"):
                self._learn(event)
            is_kernel = event.ph == "X" and self._on_device(event)
        elif isinstance(cat, str):
            is_kernel = cat == "kernel" or cat.lower() == "kernel"
            self.activity |= cat in ("cuda_runtime", "cuda_driver", "gpu_memcpy", "gpu_memset")
        else:
            return
        is_step = is_gloo = False
        if not is_kernel and isinstance(name, str) and cat in ("user_annotation", "cpu_op"):
            is_step = cat == "user_annotation" and name.startswith("ProfilerStep")
            is_gloo = name.startswith("gloo:")
            self.annotations += is_gloo
        if event.ph not in ("X", None) or not (is_kernel or is_step or is_gloo):
            return
        start, duration = nanoseconds(bytes(event.ts)), nanoseconds(bytes(event.dur))
        if is_step:
            if start is not None and duration is not None and duration >= 0:
                self.steps.append((start, duration))
        elif is_gloo if self.gloo else is_kernel:
            self._kernel(event, start, duration)

    def _on_device(self, event: Event) -> bool:
        return _key(event.pid) in self.devices and (_key(event.pid), _key(event.tid)) not in self.derived

    def _learn(self, event: Event) -> None:
        """Learn which processes are GPUs, and which of their lines streams: XLA's kernels have no category."""
        name = (decoded(_NAME, event.args) or _Name()).name
        if not isinstance(name, str):
            return
        if event.name == "process_name" and re.search(r"/device:GPU:\d+", name):
            self.devices[_key(event.pid)] = _printable(name)
        elif event.name == "thread_name" and not name.startswith("Stream"):
            self.derived.add((_key(event.pid), _key(event.tid)))

    def _kernel(self, event: Event, start: int | None, duration: int | None) -> None:
        args = _Args() if bytes(event.args) == b"null" else decoded(_ARGS, event.args)
        if args is None or not isinstance(event.name, str):
            self.unreadable += 1
            return
        pid = _key(event.pid)
        device = pid if args.device is None else _key(args.device)
        key = ("", "") if self.gloo else (pid, device)
        if key not in self.gpus:
            key = next(iter(self.gpus), key) if key == ("", "") else key  # says nothing of its GPU
            self.gpus.setdefault(key, _Gpu())
        gpu = self.gpus[key]
        if start is None or duration is None or duration < 0 or start == duration == 0:
            gpu.dropped[_reason(start, duration)] += 1
            gpu.add(start or 0, -1 if start else 0, _LOST)  # -1: that it began then is known
            return
        known = self.names.get(event.name)
        if known is None:
            kind = _GEMM if kernels.GEMM.search(event.name) else _COMPUTE
            kind = _COLLECTIVE if self.gloo or kernels.is_collective(event.name, self.more) else kind
            known = self.names[event.name] = (kind, len(self.names))
        kind, place = known
        kind = _COLLECTIVE if isinstance(args.collective, str) else kind
        gpu.add(start, duration, kind, place)
        if kind == _COLLECTIVE:
            what = kernels.operation(args.collective) if isinstance(args.collective, str) else "collective"
            what = what if what != "collective" else kernels.operation(event.name)
            sequence, peer = _whole(args.sequence), _whole({"send": args.target, "recv": args.source}.get(what))
            group = gpu.groups.setdefault(self._group(args, event.tid), len(gpu.groups))
            known = (-1 if sequence is None else sequence, -1 if peer is None else peer)
            gpu.collectives.append((group, what, _size(what, args), *known))

    def _group(self, args: _Args, tid: Word) -> ProcessGroup:
        if args.group is None:
            if self.gloo:
                return ProcessGroup("gloo")
            return ProcessGroup(f"stream {_printable(tid if args.stream is None else args.stream)}")
        name = _printable(args.group)
        size = _whole(args.size)
        ranks = _ranks(args.ranks) or _strided(args.first, args.stride, size)
        about = "" if args.about in (None, "", "undefined", name) else _printable(args.about)
        return ProcessGroup(f"{name} ({about})" if about else name, ranks, len(ranks) if ranks else size)

    def result(self, path: Path, distributed: _Distributed, base: int, notes: list[str]) -> TraceFile:
        """Everything that was taken, a trace for each GPU."""
        if not self.gpus and self.annotations:
            notes.append(
                f"profiled without CUDA activity; gloo=true measures its {self.annotations:,} gloo collectives"
            )
        elif not self.gpus and not self.activity and not self.gloo:
            notes.append("profiled without CUDA activity")
        known = decoded(_GROUPS, distributed.pg_config) or []
        members = {_printable(group.pg_name): _ranks(group.ranks) for group in known}
        groups = max((len(gpu.groups) for gpu in self.gpus.values()), default=0)
        for what, number, most in (
            ("GPUs", len(self.gpus), MOST_GPUS),
            ("process groups or streams", groups, MOST_GROUPS),
        ):
            if number > most:
                raise InputError("traces", f"file {path} must have collectives of at most {most} {what}; got {number}")
        found = sorted(self.gpus.items(), key=lambda item: [natural(part) for part in item[0]])
        collective = [item for item in found if item[1].collectives]
        if collective and len(collective) < len(found):  # a context opened on a GPU that is another rank's
            idle = sum(len(gpu.kind) for _, gpu in found if not gpu.collectives)
            notes.append(f"{idle:,} kernels on GPUs without collectives left out")
            found = collective
        several = len(found) > 1
        names = tuple(_printable(name, MOST_KERNEL) for name in self.names)
        traces = []
        for key, gpu in found or [(("", ""), _Gpu())]:
            trace = _trace(path, gpu, members, base, names)
            trace = _with_steps(trace, [(start + base, length) for start, length in self.steps])
            traces.append(replace(trace, gpu=self._label(*key) if several else ""))
        first = Counter(traces[0].dropped)
        first["event not readable"] += self.unreadable
        traces[0] = replace(traces[0], dropped=dict(+first), notes=(*notes, *traces[0].notes))
        return TraceFile(path, distributed.rank, _whole(distributed.world_size), tuple(traces))

    def _label(self, pid: str, device: str) -> str:
        if pid in self.devices:
            return self.devices[pid]
        return f"GPU {device}" if pid == device else f"{f'process {pid}' if pid.isdecimal() else pid}, GPU {device}"


def _trace(
    path: Path, gpu: _Gpu, members: Mapping[str, tuple[int, ...] | None], base: int, names: tuple[str, ...]
) -> RankTrace:  # fmt: skip
    """The kernels of one GPU, by start; those without a possible time are counted, and their neighbours kept."""
    start, duration = np.array(gpu.start, np.int64) + base, np.array(gpu.duration, np.int64)
    kind = np.array(gpu.kind, np.int64)
    timed = kind != _LOST
    middle = int(np.median(start[timed])) if timed.any() else 0
    possible = timed & (np.abs(start - middle) <= LONGEST) & (duration <= LONGEST)
    dropped = gpu.dropped + Counter({NO_TIME: int((timed & ~possible).sum())})
    others = possible & (kind != _COLLECTIVE)
    order = np.argsort(start[others], kind="stable")
    own = possible[kind == _COLLECTIVE] if gpu.collectives else np.zeros(0, bool)
    columns = ["group", "operation", "bytes", "sequence", "peer"]
    table = pd.DataFrame(gpu.collectives, columns=columns)[own]
    at = possible & (kind == _COLLECTIVE)
    table.insert(0, "duration", duration[at])
    table.insert(0, "start", start[at])
    table = table.astype({name: np.int64 for name in table if name != "operation"})
    groups = tuple(group if group.ranks else _with_members(group, members) for group in gpu.groups)
    lost = _between(start, possible)
    began = (duration < 0) & (np.abs(start - middle) <= LONGEST)
    lost[began[~possible]] = start[began, np.newaxis]
    said = "compute blocks that kernels without a time may belong to are left out" if len(lost) else ""
    return RankTrace(
        path, 0, None, groups, table.sort_values("start", kind="stable").reset_index(drop=True),
        start[others][order], duration[others][order], (kind[others] == _GEMM)[order],
        np.array(gpu.name, np.int64)[others][order], names, dropped=dict(+dropped),
        notes=(said,) if said else (), lost=lost,
    )  # fmt: skip


def _with_members(group: ProcessGroup, members: Mapping[str, tuple[int, ...] | None]) -> ProcessGroup:
    ranks = members.get(group.name.split(" (")[0])
    return ProcessGroup(group.name, ranks, len(ranks)) if ranks else group


def _between(start: Times, possible: NDArray[np.bool_]) -> Times:
    """For each kernel without a time when its neighbours in the file began, shape (kernels, 2), ns."""
    known, lost = np.flatnonzero(possible), np.flatnonzero(~possible)
    times = np.concatenate([[-MOST_TIME * 2], start[known], [MOST_TIME * 2]]).astype(np.int64)
    place = np.searchsorted(known, lost)
    return np.sort(np.column_stack([times[place], times[place + 1]]), axis=1)  # streams may be out of order


def _with_steps(trace: RankTrace, steps: Sequence[tuple[int, int]]) -> RankTrace:
    """Count the profiler's steps and those in which it recorded no kernel: it sometimes drops whole windows."""
    own = trace.collectives["start"].to_numpy(np.int64)
    starts = np.sort(np.concatenate([trace.start, own]))
    silent = sum(
        int(np.searchsorted(starts, start) == np.searchsorted(starts, start + length)) for start, length in steps
    )  # fmt: skip
    return replace(trace, steps=(len(steps), silent))


def _printable(name: Word, most: int = MOST_NAME) -> str:
    """A name from a trace as it may stand in a table or on a terminal."""
    return printable(str(name)[:most].replace("\n", "?"))


def _key(value: Word) -> str:
    return "" if value is None else _printable(value)


def _reason(start: int | None, duration: int | None) -> str:
    if start is None:
        return "no valid start time"
    if duration is None:
        return "no valid duration"
    return NO_TIME if duration == 0 else "negative duration"


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
