"""What is kept of one rank's trace: its collectives, its other kernels, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Times
from simulator.lazy import pd


@dataclass(frozen=True)
class ProcessGroup:
    """Ranks that run the same collectives.

    Attributes:
        name: as the trace names it, or ``stream 84`` where it does not.
        ranks: its members; None where the trace does not say.
        size: how many they are; None where the trace does not say.
    """

    name: str
    ranks: tuple[int, ...] | None = None
    size: int | None = None


@dataclass(frozen=True)
class RankTrace:
    """One rank's GPU kernels; integer nanoseconds, on that rank's own clock.

    Attributes:
        path: the file.
        rank: global rank.
        world: ranks of the job; None where the trace does not say.
        groups: process groups that its collectives belong to.
        collectives: one row per collective kernel, by start: ``start``, ``duration``, ``group`` (place in ``groups``),
            ``operation``, ``bytes`` and ``sequence`` (-1 where unknown).
        start, duration: the other kernels, by start.
        gemm: which of those multiply matrices.
        steps: profiler steps of the trace, and how many of them have no kernel at all.
        dropped: how many kernels were left out, by reason.
        notes: what else a reader should know, in words.
    """

    path: Path
    rank: int
    world: int | None
    groups: tuple[ProcessGroup, ...]
    collectives: pd.DataFrame
    start: Times
    duration: Times
    gemm: NDArray[np.bool_]
    steps: tuple[int, int] = (0, 0)
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

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
