"""Reads the files of a job, several at a time, and decides which of them may be used."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from simulator.checks import InputError
from simulator.task import Progress
from simulator.traces import files, kineto
from simulator.traces.trace import RankTrace

SMALL_JOB = 1 << 24  # packed bytes in all below which starting processes takes longer than reading


@dataclass(frozen=True)
class LeftOut:
    """A file that was not used, and why."""

    path: Path
    reason: str


def read_job(
    paths: Sequence[Path], *, ranks: Sequence[int] | None, more: Sequence[str], broken: str, most_bytes: int,
    workers: int | None, progress: Progress | None = None,
) -> tuple[list[RankTrace], list[LeftOut]]:  # fmt: skip
    """The traces of all ranks, by rank, and the files that were left out.

    Args:
        paths: one file per rank.
        ranks: the rank of each file, where the files do not say.
        more: parts of names of kernels that move data between ranks, besides the known ones.
        broken: ``stop`` at a broken file or a rank that is claimed twice; ``skip`` such files; or ``keep`` the whole
            events of a broken one.
        most_bytes: size of an unpacked file above which it is broken.
        workers: processes; None takes one for each processor.
        progress: is told of every file.

    Raises:
        InputError: for ranks that are not one for each file, and, with ``stop``, what is wrong with a file.
    """
    if ranks is not None and len(ranks) != len(paths):
        raise InputError(f"ranks must be one for each of the {len(paths)} files; got {len(ranks)}")
    read = partial(_read, more=tuple(more), broken=broken, most_bytes=most_bytes)
    jobs: list[tuple[Path, int | None]] = [(path, ranks[i] if ranks else None) for i, path in enumerate(paths)]
    traces: list[RankTrace] = []
    left_out: list[LeftOut] = []
    for i, found in enumerate(_in_order(read, jobs, workers)):
        if isinstance(found, RankTrace):
            traces.append(found)
        else:
            left_out.append(found)
        if progress is not None:
            progress(i + 1, len(jobs))
    if broken != "stop":
        twice = {rank for rank, times in Counter(trace.rank for trace in traces).items() if times > 1}
        left_out += [LeftOut(t.path, f"rank {t.rank} is claimed by several files") for t in traces if t.rank in twice]
        traces = [trace for trace in traces if trace.rank not in twice]
    return sorted(traces, key=lambda trace: trace.rank), left_out


def _in_order(
    read: partial[RankTrace | LeftOut], jobs: Sequence[tuple[Path, int | None]], workers: int | None
) -> Iterator[RankTrace | LeftOut]:
    most = min(len(jobs), workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else "1"))
    if most < 2 or sum(path.stat().st_size for path, _ in jobs) < SMALL_JOB:
        yield from map(read, jobs)
        return
    # Spawned, not forked: forking a process that has threads can leave it waiting for ever.
    with ProcessPoolExecutor(most, mp_context=get_context("spawn")) as pool:
        yield from pool.map(read, jobs)


def _read(job: tuple[Path, int | None], more: tuple[str, ...], broken: str, most_bytes: int) -> RankTrace | LeftOut:
    path, rank = job
    try:
        return kineto.parse(path, files.read(path, most_bytes), rank=rank, more=more, keep=broken == "keep")
    except InputError as error:
        if broken == "stop":
            raise InputError(f"{error}; broken=skip goes on without such files") from None
        return LeftOut(path, str(error))
