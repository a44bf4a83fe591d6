"""Folders that appear whole or not at all, and what killed processes leave of them."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from simulator.checks import InputError

_HOST = "".join(c if c.isalnum() else "_" for c in socket.gethostname())
_COUNT = itertools.count()


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, where it does not exist.

    Raises:
        InputError: when it cannot be made.
    """
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _unwritable(folder: Path, error: OSError, partial: Path | None = None) -> str:
    """The sentence for a folder that cannot be written; where space ran out, with how much was too much."""
    if error.errno in FULL and partial is not None and partial.exists():
        written = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
        return f"output folder {folder} must have room for more than {written} bytes: {error.strerror}"
    reason = "a file is in the way" if isinstance(error, FileExistsError) else error.strerror or error
    return f"output folder {folder} cannot be written: {reason}"


@contextlib.contextmanager
def no_trace_of(folder: Path) -> Iterator[None]:
    """On failure remove the empty folders that were made on the way to ``folder``."""
    made = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
    try:
        yield
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder that appears whole or not at all: written under a temporary name beside it, and renamed when done.

    An empty folder of that name may exist already; its files then appear in it one by one, since it may be the current
    folder or a mounted disk, which cannot be replaced. Anything else is never overwritten.

    Raises:
        InputError: when the folder cannot be written, is full, or holds files.
    """
    folder = Path(os.path.realpath(folder))
    with _writable(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        found = folder.exists()
        if found and any(folder.iterdir()):
            another = "name another one with hydra.run.dir=FOLDER"
            raise InputError(f"output folder {folder} already holds files; {another}")
        if not found:
            tidy(folder.parent)
    if found:
        with whole_files(folder) as partial:
            yield partial
        return
    with _temporary(folder.parent / partial_name(folder.name), folder) as partial:
        yield partial
        os.replace(partial, folder)


@contextlib.contextmanager
def whole_files(folder: Path) -> Iterator[Path]:
    """Files that replace those of the same name in an existing folder, each whole, once all of them are written."""
    with _temporary(folder / partial_name("files"), folder) as partial:
        yield partial
        for path in sorted(partial.iterdir()):
            os.replace(path, folder / path.name)


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(_unwritable(folder, error)) from error


@contextlib.contextmanager
def _temporary(partial: Path, folder: Path) -> Iterator[Path]:
    """A folder for what becomes ``folder``, removed in the end; what else goes wrong meanwhile is not its fault."""
    with _writable(folder):
        partial.mkdir(parents=True)
    try:
        yield partial
    except OSError as error:
        # A write names no file; what names another one is of a task that reads it.
        names = str(error.filename).startswith(str(partial)) if error.filename else error.errno in (*FULL, errno.EIO)
        if not names:
            raise
        raise InputError(_unwritable(folder, error, partial)) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def partial_name(name: str) -> str:
    """The name under which a process writes ``name`` until it is whole; it says which process of which machine."""
    return f".{name[:100]}.partial-{_HOST}-{os.getpid()}-{next(_COUNT)}"


def tidy(folder: Path) -> None:
    """Remove what processes of this machine that are gone (killed) left half-written in a folder."""
    for path in folder.glob(".*.partial-*"):
        if _is_abandoned(path.name):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _is_abandoned(partial: str) -> bool:
    host, _, rest = partial.rpartition(".partial-")[2].partition("-")
    process = rest.partition("-")[0]
    if host != _HOST or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
