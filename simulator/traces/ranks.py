"""Which GPU in which file is which rank: one file is not always one rank.

A file may hold several GPUs (one process with four, or the files of a node merged into one), a rank may have several
files (profiling windows), and some files are of no rank (a server's front end, the merged file beside its parts).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simulator.checks import InputError, count
from simulator.traces.files import natural, rank_in_folder, rank_in_name
from simulator.traces.trace import MOST_RANK, RankTrace, TraceFile

PARTS = ("pp", "dp", "ep", "cp", "tp", "device", "gpu")  # in the order in which ranks are numbered, slowest first
_PART = re.compile(rf"(?<![a-z])({'|'.join(PARTS)})[-_. ]?([0-9]{{1,6}})(?![0-9])", re.IGNORECASE)
_WINDOW = re.compile("iter|step|epoch|window|cycle", re.IGNORECASE)  # folders of profiling windows
MOST_SHOWN = 16  # ranks in a sentence
Numbers = Mapping[str, int]
Gpu = tuple[Path, str]


@dataclass(frozen=True)
class LeftOut:
    """A file that was not used, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Job:
    """What the files of a job hold.

    Attributes:
        windows: the traces of each profiling window, by rank.
        left_out: files that were not used.
        notes: how files were taken for ranks, where they do not say it themselves.
    """

    windows: Sequence[Sequence[RankTrace]]
    left_out: Sequence[LeftOut]
    notes: Sequence[str]


def assign(
    found: Sequence[TraceFile], given: Sequence[int] | None, left_out: Sequence[LeftOut], stop: bool = True
) -> Job:
    """Decide the rank of each GPU.

    In this order: what the user gave; what the processes in a file of several GPUs are called; ``distributedInfo``; the
    file's name; its folder's. Of parallel dimensions (TP-3, DP-0-EP-3) the one that tells all files apart is the rank,
    otherwise their order.

    Args:
        found: the files, in the order of their names.
        given: a rank for each file, or for its first GPU.
        left_out: files that were left out already.
        stop: whether a file without a rank, or with one that cannot be, is an error, or else left out.

    Raises:
        InputError: for ranks that are not known or cannot be, and, with ``stop``, for a rank with several files that
            are no profiling windows.
    """
    out = list(left_out)
    traces: list[RankTrace] = []
    unknown: list[TraceFile] = []
    order, notes = _from_parts(found) if given is None else ({}, [])
    factor = _gpus_of_a_rank(found) if given is None else 1
    for i, file in enumerate(found):
        try:
            first = given[i] if given is not None else _first_rank(file, order, factor, alone=len(found) == 1)
            if first is None:
                unknown.append(file)
            else:
                traces += _ranked(file, first, order, factor)
        except InputError as error:
            if stop:
                raise
            out.append(LeftOut(file.path, str(error)))
    for file in unknown:
        if file.kernels or not any(trace.kernels for trace in traces):
            if stop:
                raise InputError(_must_be_given(file))
            out.append(LeftOut(file.path, _must_be_given(file)))
        else:
            out.append(LeftOut(file.path, "has no GPU kernels and says no rank"))
    traces, others = _of_one_rank_each(traces)
    windows, more = _windows(traces, stop)
    if given is not None:
        notes = [_assignment("ranks as given", traces)]
    return Job(windows, [*out, *others, *more], notes)


def _must_be_given(file: TraceFile) -> str:
    return (
        f"ranks must be given: {file.path.name} says its rank neither in distributedInfo nor in its name (rank7, "
        f"worker7, TP-7) or its folder's; ranks=[7, ...] gives one for each file, in the order of their names"
    )


def _gpus_of_a_rank(found: Sequence[TraceFile]) -> int:
    """How many GPUs a rank in ``distributedInfo`` stands for: those of its process, unless files were merged."""
    most = max(len(file.gpus) for file in found)
    said = {file.rank: file.world for file in found if isinstance(file.rank, int)}
    ranks = [rank + i for rank in said for i in range(most)]
    fits = len(set(ranks)) == len(ranks) and all(world is None or max(ranks) < world for world in said.values())
    return 1 if fits or any(len(file.gpus) < most for file in found) else most


def _first_rank(file: TraceFile, order: Mapping[Gpu, int], factor: int, alone: bool) -> int | None:
    """The rank of the first GPU of a file, as the file says it."""
    in_parts = order.get(_gpu(file.gpus[0]))
    if len(file.gpus) > 1 and in_parts is not None:
        return in_parts
    said = file.rank if file.rank is not None else rank_in_name(file.path.name)
    if said is not None:
        most = file.world - 1 if file.world else MOST_RANK
        return factor * count(f"traces: the rank of {file.path.name}", said, least=0, most=most)
    if in_parts is not None:
        return in_parts
    in_folder = rank_in_folder(file.path)
    if in_folder is not None:
        return factor * in_folder
    return 0 if alone and len(file.gpus) > 1 else None


def _ranked(file: TraceFile, first: int, order: Mapping[Gpu, int], factor: int) -> list[RankTrace]:
    """The traces of a file with their ranks: the GPUs of a process are counted through."""
    several = len(file.gpus) > 1
    labelled = several and _gpu(file.gpus[0]) in order
    ranks = [order[_gpu(gpu)] if labelled else first + i for i, gpu in enumerate(file.gpus)]
    world = file.world and (file.world if labelled else file.world * factor)
    if world is not None and several and max(ranks) >= world:
        world = None  # it counts processes
    for rank in ranks:
        count(f"traces: the rank of {file.path.name}", rank, least=0, most=MOST_RANK)
    return [replace(gpu, rank=rank, world=world) for gpu, rank in zip(file.gpus, ranks, strict=True)]


def _gpu(trace: RankTrace) -> Gpu:
    return trace.path, trace.gpu


def _from_parts(found: Sequence[TraceFile]) -> tuple[dict[Gpu, int], list[str]]:
    """Ranks from parallel dimensions in the names of files, or of the processes in a file of several GPUs."""
    merged = [gpu for file in found if len(file.gpus) > 1 for gpu in file.gpus]
    single = [
        file.gpus[0] for file in found
        if len(file.gpus) == 1 and file.kernels and file.rank is None and rank_in_name(file.path.name) is None
    ]  # fmt: skip
    processes = [gpu.gpu.rpartition(", GPU ")[0] for gpu in merged]
    order: dict[Gpu, int] = {}
    notes = []
    for gpus, names in ((merged, processes), (single, [gpu.path.name for gpu in single])):
        ranks, certain = _ranks_of([numbers(name) for name in names])
        order |= {_gpu(gpu): rank for gpu, rank in zip(gpus, ranks, strict=False)}
        if ranks and not certain:
            known = [replace(gpu, rank=rank) for gpu, rank in zip(gpus, ranks, strict=True)]
            notes.append(_assignment("ranks in the order of the names", known))
    return order, notes


def numbers(name: str) -> Numbers:
    """The parallel dimensions in a name.

    >>> numbers("1769071195.66-TP-10.trace.json.gz"), numbers("[TP04] 0"), numbers("x-DP-0-EP-3.json"), numbers("http2")
    ({'tp': 10}, {'tp': 4}, {'dp': 0, 'ep': 3}, {})
    """
    return {part.lower(): int(number) for part, number in _PART.findall(name)}


def _ranks_of(names: Sequence[Numbers]) -> tuple[list[int], bool]:
    """A rank for each name, none where names do not say it, and whether one dimension is the rank."""
    if not names or not all(names) or len({frozenset(name) for name in names}) > 1:
        return [], False
    parts = [part for part in PARTS if part in names[0]]
    keys = [tuple(name[part] for part in parts) for name in names]
    places = sorted(set(keys))
    for part in reversed(parts):  # the fastest first
        if len({name[part] for name in names}) == len(places):
            return [name[part] for name in names], True
    return [places.index(key) for key in keys], False


def _of_one_rank_each(traces: Sequence[RankTrace]) -> tuple[list[RankTrace], list[LeftOut]]:
    """Leave out what stands beside the file of a rank: files without kernels, and merged files beside their parts."""
    own = {trace.rank for trace in traces if not trace.gpu and trace.kernels}
    by_path: dict[Path, list[RankTrace]] = {}
    for trace in traces:
        by_path.setdefault(trace.path, []).append(trace)
    busy = {trace.rank for trace in traces if trace.kernels}
    kept: list[RankTrace] = []
    out = []
    for path, gpus in by_path.items():
        rank = gpus[0].rank
        if len(gpus) > 1 and all(gpu.rank in own for gpu in gpus):
            out.append(LeftOut(path, f"holds the kernels of {len(gpus)} GPUs whose ranks have files of their own"))
        elif not any(gpu.kernels for gpu in gpus) and rank in busy:
            out.append(LeftOut(path, f"has no GPU kernels, and rank {rank} has another file"))
        else:
            kept += gpus
    return kept, out


def _windows(traces: Sequence[RankTrace], stop: bool) -> tuple[list[list[RankTrace]], list[LeftOut]]:
    """Profiling windows: every rank has as many files, called alike but for a number. Otherwise one file for each."""
    by_rank: dict[int, list[RankTrace]] = {}
    for trace in sorted(traces, key=lambda trace: (trace.rank, natural(str(trace.path)))):
        by_rank.setdefault(trace.rank, []).append(trace)
    counts = {len(own) for own in by_rank.values()}
    several = max(counts, default=0)
    if several > 1 and counts == {several} and all(_differ_in_numbers(own) for own in by_rank.values()):
        return [list(window) for window in zip(*by_rank.values(), strict=True)], []
    twice = {rank: own for rank, own in by_rank.items() if len(own) > 1}
    if twice and stop:
        rank, own = next(iter(twice.items()))
        windows_too = "; traces='FOLDER/*NAME*' chooses one profiling window" * (len(twice) == len(by_rank) > 1)
        raise InputError(
            "traces",
            f"must have one file for each rank; rank {rank} is claimed by {own[0].file} and {own[1].file}; "
            f"broken=skip goes on without both{windows_too}",
        )
    paths = {trace.path: rank for rank, own in twice.items() for trace in own}
    out = [LeftOut(path, f"rank {rank} is claimed by several files") for path, rank in paths.items()]
    return [[trace for own in by_rank.values() for trace in own if trace.path not in paths]], out


def _differ_in_numbers(own: Sequence[RankTrace]) -> bool:
    """Whether files, or folders of steps, are called alike but for a number: the time or the step of a window."""
    names = [natural(trace.path.name) for trace in own]
    folders = [natural(str(trace.path.parent)) for trace in own]
    if len({tuple(folder) for folder in folders}) > 1:
        if not all(_WINDOW.search(trace.path.parent.name) for trace in own):
            return False  # node0/rank0.json and node1/rank0.json are of two ranks
        names = folders
    return len({tuple(name[::2]) for name in names}) == 1 and len({tuple(name[1::2]) for name in names}) == len(own)


def _assignment(how: str, traces: Sequence[RankTrace]) -> str:
    """Which file was taken for which rank."""
    shown = [f"{trace.rank} = {trace.file}" for trace in sorted(traces, key=lambda trace: trace.rank)]
    more = f"; and {len(shown) - MOST_SHOWN} more in ranks.csv" if len(shown) > MOST_SHOWN else ""
    return f"{how}: {'; '.join(shown[:MOST_SHOWN])}{more}"
