"""What is kept of one rank's trace: its collectives, its other kernels, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Times
from simulator.lazy import pd
from simulator.traces.files import rank_in_folder, rank_in_name

MOST_RANK = 2**20 - 1


@dataclass(frozen=True)
class ProcessGroup:
    """Ranks that run the same collectives.

    Attributes:
        name: as the trace names it, or ``stream 84`` where it does not.
        ranks: its members; None where the trace does not say.
        size: how many they are; None where the trace does not say.
        inferred: whether its kernels are not known to be collectives, but behave like them.
    """

    name: str
    ranks: tuple[int, ...] | None = None
    size: int | None = None
    inferred: bool = False


@dataclass(frozen=True)
class RankTrace:
    """One rank's GPU kernels; integer nanoseconds, on that rank's own clock.

    Attributes:
        path: the file.
        rank: global rank.
        world: ranks of the job; None where the trace does not say.
        groups: process groups that its collectives belong to.
        collectives: one row per collective kernel, by start: ``start``, ``duration``, ``group`` (place in ``groups``),
            ``operation``, ``bytes``, ``sequence`` and ``peer``, the rank at the other end (-1 where unknown).
        start, duration: the other kernels, by start.
        gemm: which of those multiply matrices.
        name: place of the name of each of those in ``names``.
        names: of kernels.
        steps: profiler steps of the trace, and how many of them have no kernel at all.
        dropped: how many kernels were left out, by reason.
        notes: what else a reader should know, in words.
        gpu: what the file calls this GPU, where it holds several.
        lost: for each kernel without a time the times between which the file has it, shape (kernels, 2).
    """

    path: Path
    rank: int
    world: int | None
    groups: tuple[ProcessGroup, ...]
    collectives: pd.DataFrame
    start: Times
    duration: Times
    gemm: NDArray[np.bool_]
    name: NDArray[np.int64]
    names: tuple[str, ...]
    steps: tuple[int, int] = (0, 0)
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    gpu: str = ""
    lost: Times = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    @property
    def file(self) -> str:
        """The file as sentences and tables name it: with its folder where that says the rank, and with the GPU."""
        in_folder = rank_in_name(self.path.name) is None and rank_in_folder(self.path) is not None
        name = f"{self.path.parent.name}/{self.path.name}" if in_folder else self.path.name
        return f"{name}, {self.gpu}" if self.gpu else name

    @property
    def kernels(self) -> int:
        """All kernels, collectives too."""
        return len(self.collectives) + len(self.start)

    @property
    def span(self) -> int:
        """From the start of the first kernel to the end of the last, ns; 0 without kernels."""
        own = self.collectives
        starts = np.concatenate([self.start, own["start"].to_numpy(np.int64)])
        ends = np.concatenate([self.start + self.duration, (own["start"] + own["duration"]).to_numpy(np.int64)])
        return int(ends.max() - starts.min()) if len(starts) else 0


@dataclass(frozen=True)
class TraceFile:
    """What one file holds.

    Attributes:
        path: the file.
        rank: what its ``distributedInfo`` says, which need not be a rank; None where it says nothing.
        world: ranks of the job, or processes, where the file says how many.
        gpus: a trace for each GPU, in the order of their names; their ranks are not decided yet.
    """

    path: Path
    rank: Any
    world: int | None
    gpus: tuple[RankTrace, ...]

    @property
    def kernels(self) -> int:
        """All kernels of the file."""
        return sum(gpu.kernels for gpu in self.gpus)
