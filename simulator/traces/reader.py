"""Reads the files of a job, several at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from simulator.checks import InputError
from simulator.task import Progress
from simulator.traces import files, kineto
from simulator.traces.ranks import Job, LeftOut, assign
from simulator.traces.trace import TraceFile

SMALL_JOB = 1 << 24  # packed bytes in all below which starting processes takes longer than reading


def read_job(
    paths: Sequence[Path], *, ranks: Sequence[int] | None, more: Sequence[str], broken: str, most_bytes: int,
    workers: int | None, gloo: bool = False, progress: Progress | None = None,
) -> Job:  # fmt: skip
    """The traces of all ranks, and the files that were left out.

    Args:
        paths: the files.
        ranks: the rank of each file, or of its first GPU, where the files do not say.
        more: parts of names of kernels that move data between ranks, besides the known ones.
        broken: ``stop`` at a broken file or a rank that is claimed twice; ``skip`` such files; or ``keep`` the whole
            events of a broken one.
        most_bytes: size of an unpacked file above which it is broken.
        workers: processes; None takes one for each processor.
        gloo: measure gloo's collectives, on the CPU, in the place of kernels.
        progress: is told of every file.

    Raises:
        InputError: for ranks that are not one for each file, and, with ``stop``, what is wrong with a file.
    """
    if ranks is not None and len(ranks) != len(paths):
        raise InputError("ranks", f"must be one for each of the {len(paths)} files; got {len(ranks)}")
    read = partial(_read, more=tuple(more), broken=broken, most_bytes=most_bytes, gloo=gloo)
    found: list[TraceFile] = []
    left_out: list[LeftOut] = []
    given: list[int] | None = None if ranks is None else []
    for i, file in enumerate(_in_order(read, paths, workers)):
        if isinstance(file, LeftOut):
            left_out.append(file)
        else:
            found.append(file)
            if ranks is not None and given is not None:
                given.append(ranks[i])
        if progress is not None:
            progress(i + 1, len(paths))
    if not found:
        raise InputError("traces", f"hold no file that can be used; {left_out[0].reason}")
    return assign(found, given, left_out, stop=broken == "stop")


def _in_order(
    read: partial[TraceFile | LeftOut], paths: Sequence[Path], workers: int | None
) -> Iterator[TraceFile | LeftOut]:
    most = min(len(paths), workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else "1"))
    if most < 2 or sum(path.stat().st_size for path in paths) < SMALL_JOB:
        yield from map(read, paths)
        return
    # Spawned, not forked: forking a process that has threads can leave it waiting for ever.
    with ProcessPoolExecutor(most, mp_context=get_context("spawn")) as pool:
        yield from pool.map(read, paths)


def _read(path: Path, more: tuple[str, ...], broken: str, most_bytes: int, gloo: bool) -> TraceFile | LeftOut:
    try:
        return kineto.parse(path, files.pieces(path, most_bytes), more=more, keep=broken == "keep", gloo=gloo)
    except InputError as error:
        if broken == "stop":
            raise InputError(f"{error}; broken=skip goes on without such files") from None
        return LeftOut(path, str(error))
