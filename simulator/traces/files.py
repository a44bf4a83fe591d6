"""Trace files: which ones are meant, and their bytes, plain or gzip, never more of them than is sane."""

from __future__ import annotations

import glob
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from simulator.checks import InputError, Reads

KINETO = (".json", ".json.gz")
TABLES = (".csv", ".csv.gz", ".parquet")
MOST_FILES = 100_000
MOST_RATIO = 500  # gzip reaches 1030 on a file of spaces; traces stay below 50
PIECE = 1 << 20  # bytes of a plain file at a time
CHUNK = 1 << 14  # packed bytes at a time: all that damage costs of what was before it
GZIP = 31  # zlib's window bits for a gzip header and checksum
SMALL = 1 << 26  # below 64 MiB no ratio is a danger


class FileError(Exception):
    """What is wrong with a file's bytes; what came before may be used, unless ``hopeless``."""

    def __init__(self, text: str, hopeless: bool = False):
        super().__init__(text)
        self.hopeless = hopeless


def find(traces: Any) -> list[Path]:
    """The trace files that a folder, a pattern, a file, or a list of these stands for, in ``natural`` order.

    A folder without traces whose folders are called by ranks (rank0, rank1, ...) stands for the traces in these.

    Raises:
        InputError: where one of them stands for no trace file, or for more than ``MOST_FILES``.
    """
    entries = list(traces) if isinstance(traces, list | tuple) else [traces]
    given = [_called(entry) if isinstance(entry, int | float) else entry for entry in entries]
    if not given or not all(isinstance(entry, str) and entry for entry in given):
        rule = "must be a folder, a file, a pattern such as 'run/*.json.gz', or a list of these"
        raise InputError("traces", rule, traces)
    found = {path: None for entry in given for path in _files(entry)}
    if len(found) > MOST_FILES:
        raise InputError("traces", f"must be at most {MOST_FILES:,} files; {traces!r} is more")
    return sorted(found, key=lambda path: natural(str(path)))


Traces = Annotated[Any, Reads(find)]  # which says itself what it does not like


def _called(number: int | float) -> str:
    """What is called by a date or a number, as YAML reads it: 007 as 7, 2024_01_31 as 20240131, true as True."""
    names = [name for name in os.listdir() if _reads_as(name, number)]
    if len(names) != 1:
        found = f"that may be {' or '.join(sorted(names)[:2])}" if names else "no file or folder is called so"
        rule = f"must be quoted where the name is a number: 'traces=\"NAME\"'; got {number}, and {found}"
        raise InputError("traces", rule)
    return names[0]


def _reads_as(name: str, number: int | float) -> bool:
    try:
        return name.lower() == str(number).lower() or (not isinstance(number, bool) and type(number)(name) == number)
    except ValueError:
        return False


def natural(name: str) -> list[str | int]:
    """A key that orders names by the numbers in them: 2 before 10.

    >>> sorted(["rank10", "rank2", "a"], key=natural)
    ['a', 'rank2', 'rank10']
    """
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"([0-9]+)", name))]


def rank_in_name(name: str) -> int | None:
    """The rank that a name says as PyTorch's handlers do, or None.

    >>> rank_in_name("x_rank-70.pt.trace.json"), rank_in_name("worker6_step_12.json"), rank_in_name("trace.json")
    (70, 6, None)
    """
    found = re.search(r"(?:rank|worker)[-_. ]?(\d{1,9})(?!\d)", name, re.IGNORECASE)
    return int(found[1]) if found else None


def rank_in_folder(path: Path) -> int | None:
    """The rank that a file's folder is called by, or None.

    >>> rank_in_folder(Path("run/rank10/trace.json")), rank_in_folder(Path("my_rank10/trace.json"))
    (10, None)
    """
    name = path.parent.name
    return rank_in_name(name) if re.fullmatch(r"(?i)(?:global_)?(?:rank|worker)[-_. ]?\d+", name) else None


def _files(entry: str) -> list[Path]:
    path = Path(entry)
    if path.is_dir():
        inside = _regular(path.iterdir(), KINETO)
        return inside or _inside_folders(entry)
    if path.exists():
        if not path.is_file():
            raise InputError("traces", f"must be regular files; {entry} is none")
        return [path]
    matching = _regular((Path(name) for name in glob.iglob(entry)), (*KINETO, *TABLES))
    if not matching:
        raise InputError("traces", f"{entry!r} does not exist, and as a pattern it matches no trace file")
    return matching


def _inside_folders(entry: str) -> list[Path]:
    """The traces in the folders of a folder, where these are called by ranks."""
    folders = sorted((path for path in Path(entry).iterdir() if path.is_dir()), key=lambda path: natural(path.name))
    inside = {path: found for path in folders[:MOST_FILES] if (found := _regular(path.iterdir(), KINETO))}
    if inside and all(rank_in_folder(path / "trace") is not None for path in inside):
        return [path for found in inside.values() for path in found]
    nothing = f"traces folder {entry} holds no trace: no file there ends in {' or '.join(KINETO)}"
    if not inside:
        raise InputError(nothing)
    first = next(iter(inside))
    more = f" (and {len(inside) - 1} more)" if len(inside) > 1 else ""
    raise InputError(f"{nothing}; its folder {first.name}{more} does: traces={first}")


def _regular(paths: Iterable[Path], endings: tuple[str, ...]) -> list[Path]:
    fitting = (path for path in paths if path.name.lower().endswith(endings) and path.is_file())
    return list(islice(fitting, MOST_FILES + 1))


def pieces(path: Path, most_bytes: int) -> Iterator[bytes]:
    """The bytes of a file, piece by piece, unpacked where its first bytes say gzip, whatever its name says.

    Raises:
        FileError: for a file that is empty, damaged, or larger than a trace can be.
        InputError: for a file that cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            if not head:
                raise FileError("is empty: 0 bytes", hopeless=True)
            if head == b"\x1f\x8b":
                yield from _unpacked(file, most_bytes)
            elif path.stat().st_size > most_bytes:
                raise FileError(f"has more than most_bytes = {most_bytes:,} bytes", hopeless=True)
            else:
                while piece := file.read(PIECE):
                    yield piece
    except OSError as error:
        raise InputError("traces", f"file {path} cannot be read: {error.strerror or error}") from error


def _unpacked(file: BinaryIO, most_bytes: int) -> Iterator[bytes]:
    """All members of a gzip file; of a damaged one what came before the damage."""
    size = 0
    member = zlib.decompressobj(GZIP)
    while chunk := file.read(CHUNK):
        while chunk:
            if member.eof:  # another member may follow, or zeros that fill a block of a tape
                member, chunk = zlib.decompressobj(GZIP), chunk.lstrip(b"\0")
            try:
                piece = member.decompress(chunk)
            except zlib.error:
                raise FileError(f"is damaged: gzip fails by byte {file.tell():,} ({size:,} unpacked)") from None
            size += len(piece)
            chunk = member.unused_data
            if size > most_bytes:
                raise FileError(f"unpacks to more than most_bytes = {most_bytes:,} bytes", hopeless=True)
            if size > SMALL and size > MOST_RATIO * file.tell():
                raise FileError(f"unpacks to more than {MOST_RATIO} times its size: no trace does", hopeless=True)
            yield piece
    if not member.eof:
        raise FileError(f"is cut off: gzip fails by byte {file.tell():,} ({size:,} unpacked)")
    if not size:
        raise FileError("is empty: a gzip file of 0 bytes", hopeless=True)
