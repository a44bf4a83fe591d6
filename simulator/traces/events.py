"""Chrome's trace format: splits a file into events, a batch at a time, and says where a broken one breaks.

A batch ends between two events: where what was read so far, closed by a bracket, is valid JSON. So memory holds a
batch, not the file, and a fault costs no more than the batch it is in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from simulator.checks import InputError
from simulator.traces.files import FileError

Raw = msgspec.Raw
Word = str | int | float | bool | list[Any] | None
BATCH = 1 << 22  # bytes
NEAR_END = 1 << 16  # bytes from the end of a batch in which a border between events is looked for
_BORDERS = 8  # to try, backwards
_TRIES = 64  # closing braces to try, backwards from the fault
_MARK = b"\xef\xbb\xbf"  # of UTF-8
_MOST_TRIED = 1 << 28  # bytes in all these tries, which take a second
_PHASE = b'"ph"'
_FAULT = re.compile(r"\(byte (\d+)\)")
_OPENING = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER = re.compile(rb"\}\s*,\s*(?=\{)")


class Head(msgspec.Struct):
    """A trace and what stands around its events."""

    events: list[Raw] = msgspec.field(name="traceEvents")
    distributed: Raw = msgspec.field(name="distributedInfo", default=Raw(b"null"))
    base: Raw = msgspec.field(name="baseTimeNanoseconds", default=Raw(b"0"))


class Event(msgspec.Struct):
    """What is looked at of an event; values as they stand in the file."""

    name: Word = None
    cat: Word = None
    ph: Word = None
    pid: Word = None
    tid: Word = None
    ts: Raw = Raw(b"")
    dur: Raw = Raw(b"")
    args: Raw = Raw(b"null")


NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # the second from msgspec up to 0.21
_TRACE = msgspec.json.Decoder(Head | list[Raw])
_EVENT = msgspec.json.Decoder(Event)
_EVENTS = msgspec.json.Decoder(list[Event])
_RAWS = msgspec.json.Decoder(list[Raw])
Struct = TypeVar("Struct")
Take = Callable[[Event | None], None]


def decoded(decoder: msgspec.json.Decoder[Struct], raw: Raw | bytes | bytearray) -> Struct | None:
    """What ``raw`` holds, or None where it holds something else."""
    try:
        return decoder.decode(raw)
    except NO_JSON:
        return None


def read(path: Path, pieces: Iterable[bytes], take: Take, keep: bool = False) -> tuple[Head, list[str]]:
    """Give every event to ``take``, None for one that is not readable; return what stands around them, and notes.

    Args:
        path: for errors.
        pieces: the file's bytes.
        take: is called for each event, in order.
        keep: of a broken file take the whole events before the fault; a note says how many.

    Raises:
        InputError: for a broken file, with the place, and one that is no trace.
    """
    head, rest, wanted = b"", bytearray(), BATCH
    gone = lines = taken = 0  # bytes, ends of lines and events between head and rest
    fault = None
    pieces = iter(pieces)
    try:
        for piece in pieces:
            rest += piece
            if len(rest) < wanted:
                continue
            if not head:
                head = _opening(rest)
                del rest[: len(head)]
            events, end = _batch(rest) if head else ([], 0)
            for event in events:
                take(event)
            gone, lines, taken = gone + end, lines + rest.count(b"\n", 0, end), taken + len(events)
            del rest[:end]
            wanted = BATCH if end else 2 * len(rest)
            if head and not end and _broken(head + rest):
                break
    except FileError as error:
        if error.hopeless:
            raise InputError("traces", f"file {path} {error}") from None
        fault = str(error)
    data = (head + rest).removeprefix(_MARK)
    del rest
    place = len(data)
    if fault is None and gone and _OPENING.search(data, len(head)):
        fault = "has traceEvents twice"
    elif fault is None:
        try:
            return _last(_TRACE.decode(data), take), []
        except msgspec.ValidationError as error:
            raise InputError("traces", f"file {path} is no trace of events: {error}") from None
        except NO_JSON as error:
            place, fault = _place(data, error, gone, lines)
    found = _whole_events(data[:place]) if keep else None
    if keep and found is None and taken:  # all of them went before
        found = _whole_events(head.removeprefix(_MARK) + b"{}")
        found = (Head([], found[0].distributed, found[0].base), len(head)) if found else None
    if found is not None:
        last, end = found
        cut = max(_events_in(data[end:], pieces), int(data.find(b"{", end) >= 0))
        more = " and whatever followed" if place == len(data) else ""
        kept = taken + len(last.events)
        return _last(last, take), [f"{fault}; kept {kept:,} whole events, cut {cut:,}{more}"]
    raise InputError("traces", f"file {path} {fault}")


def _broken(data: bytes | bytearray) -> bool:
    """Whether no more bytes could make ``data`` valid JSON."""
    try:
        _TRACE.decode(data.removeprefix(_MARK))
    except NO_JSON as error:
        return _FAULT.search(str(error)) is not None or isinstance(error, RecursionError)
    return False


def _events_in(data: bytes | bytearray, pieces: Iterable[bytes]) -> int:
    """How many events begin in ``data`` and the pieces after it, about."""
    events = data.count(_PHASE)
    edge = bytes(data[-3:])
    try:
        for piece in pieces:
            events += (edge + piece).count(_PHASE)
            edge = piece[-3:]
    except FileError:
        pass
    return events


def _opening(data: bytearray) -> bytes:
    """What stands before the first event; empty where that is not to be seen."""
    if data[:100].removeprefix(_MARK).lstrip().startswith(b"["):
        return bytes(data[: data.index(b"[") + 1])
    found = _OPENING.search(data)
    head = bytes(data[: found.end()]) if found else b""
    around = decoded(_TRACE, head.removeprefix(_MARK) + b"]}") if head else None
    return head if isinstance(around, Head) else b""


def _batch(data: bytearray) -> tuple[list[Event | None], int]:
    """The events up to a border near the end of ``data``, and where the next begins; none and 0 without a border."""
    borders = list(_BORDER.finditer(data, max(0, len(data) - NEAR_END)))
    for border in reversed(borders[-_BORDERS:]):
        part = b"[" + data[: border.start() + 1] + b"]"
        events: list[Event | None] | None = decoded(_EVENTS, part)  # type: ignore[assignment]
        if events is None and (raws := decoded(_RAWS, part)) is not None:
            events = [decoded(_EVENT, raw) for raw in raws]
        if events is not None:
            return events, border.end()
    return [], 0


def _last(found: Head | list[Raw], take: Take) -> Head:
    head = found if isinstance(found, Head) else Head(events=found)
    for raw in head.events:
        take(decoded(_EVENT, raw))
    return head


def _place(data: bytes | bytearray, error: Exception, gone: int, lines: int) -> tuple[int, str]:
    """The byte of ``data`` at which JSON stops being valid, and what to say about it and its place in the file."""
    if isinstance(error, RecursionError):
        return 0, "is nested too deep to be a trace"
    found = _FAULT.search(str(error))
    if found:
        reason = re.sub(r"^JSON is malformed: | \(byte \d+\)", "", str(error))
        place = int(found[1])
        line = lines + data.count(b"\n", 0, place) + 1
        return place, f"is not valid JSON: {reason} at byte {gone + place:,} (line {line:,})"
    return len(data), f"is cut off: it ends at byte {gone + len(data):,} in the middle of JSON"


def _whole_events(data: bytes | bytearray) -> tuple[Head, int] | None:
    """The trace up to the last whole event in ``data``, and the byte at which that ends; None where there is none."""
    end = len(data)
    for _ in range(max(2, min(_TRIES, _MOST_TRIED // max(len(data), 1)))):
        end = data.rfind(b"}", 0, end)
        if end < 0:
            return None
        for close in (b"]}", b"]"):
            found = decoded(_TRACE, data[: end + 1] + close)
            if found is not None:
                return (found if isinstance(found, Head) else Head(events=found)), end + 1
    return None
