"""Trace files: which ones are meant, and their bytes, plain or gzip, never more of them than is sane."""

from __future__ import annotations

import glob
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from simulator.checks import InputError

KINETO = (".json", ".json.gz")
TABLES = (".csv", ".csv.gz", ".parquet")
MOST_FILES = 100_000
MOST_RATIO = 500  # gzip reaches 1030 on a file of spaces; traces stay below 50
CHUNK = 1 << 14  # packed bytes at a time: all that damage costs of what was before it
GZIP = 31  # zlib's window bits for a gzip header and checksum
SMALL = 1 << 26  # below 64 MiB no ratio is a danger


@dataclass(frozen=True)
class Content:
    """What a file holds, unpacked, and what is wrong with it (None: it is whole); then ``data`` is what came before."""

    data: bytes | bytearray
    fault: str | None = None


def find(traces: str | Sequence[str]) -> list[Path]:
    """The trace files that a folder, a pattern, a file, or a list of these stands for, sorted by name.

    Raises:
        InputError: where one of them stands for no trace file, or for more than ``MOST_FILES``.
    """
    given = [traces] if isinstance(traces, str) else list(traces)
    if not given or not all(isinstance(entry, str) and entry for entry in given):
        raise InputError(f"traces must be a folder, a file, a pattern such as 'run/*.json.gz', or a list of these; got "
                         f"{traces!r}")  # fmt: skip
    found = {path: None for entry in given for path in _files(entry)}
    if len(found) > MOST_FILES:
        raise InputError(f"traces must be at most {MOST_FILES:,} files; {traces!r} is more")
    return sorted(found)


def _files(entry: str) -> list[Path]:
    path = Path(entry)
    if path.is_dir():
        inside = _regular(path.iterdir(), KINETO)
        if not inside:
            raise InputError(f"traces folder {entry} holds no trace: no file there ends in {' or '.join(KINETO)}")
        return inside
    if path.exists():
        if not path.is_file():
            raise InputError(f"traces must be regular files; {entry} is none")
        return [path]
    matching = _regular((Path(name) for name in glob.iglob(entry)), (*KINETO, *TABLES))
    if not matching:
        raise InputError(f"traces {entry!r} does not exist, and as a pattern it matches no trace file")
    return matching


def _regular(paths: Iterable[Path], endings: tuple[str, ...]) -> list[Path]:
    fitting = (path for path in paths if path.name.lower().endswith(endings) and path.is_file())
    return list(islice(fitting, MOST_FILES + 1))


def read(path: Path, most_bytes: int) -> Content:
    """The bytes of a file, unpacked where its first bytes say gzip, whatever its name says.

    Raises:
        InputError: for a file that cannot be opened.
    """
    try:
        with path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            if not head:
                return Content(b"", "is empty: 0 bytes")
            if head == b"\x1f\x8b":
                return _unpack(path, most_bytes)
            if path.stat().st_size > most_bytes:
                return Content(b"", f"has more than most_bytes = {most_bytes:,} bytes")
            return Content(file.read())
    except OSError as error:
        raise InputError(f"traces file {path} cannot be read: {error.strerror or error}") from error


def _unpack(path: Path, most_bytes: int) -> Content:
    """All members of a gzip file; of a damaged one what came before the damage."""
    data = bytearray()
    with path.open("rb") as file:
        member = zlib.decompressobj(GZIP)
        while chunk := file.read(CHUNK):
            while chunk:
                if member.eof:  # another member may follow, or zeros that fill a block of a tape
                    member, chunk = zlib.decompressobj(GZIP), chunk.lstrip(b"\0")
                try:
                    data += member.decompress(chunk)
                except zlib.error:
                    return Content(data, f"is damaged: gzip fails by byte {file.tell():,} ({len(data):,} unpacked)")
                chunk = member.unused_data
            if len(data) > most_bytes:
                return Content(b"", f"unpacks to more than most_bytes = {most_bytes:,} bytes")
            if len(data) > SMALL and len(data) > MOST_RATIO * file.tell():
                return Content(b"", f"unpacks to more than {MOST_RATIO} times its size: no trace does")
        if not member.eof:
            return Content(data, f"is cut off: gzip fails by byte {file.tell():,} ({len(data):,} unpacked)")
    return Content(data) if data else Content(data, "is empty: a gzip file of 0 bytes")
