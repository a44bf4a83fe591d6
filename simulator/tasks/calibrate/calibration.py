"""What a calibration found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from simulator.lazy import pd
from simulator.network.collectives import Algorithm, all_pairs
from simulator.tasks.calibrate.hockney import Line, Model, relative_errors
from simulator.tasks.calibrate.nccl_tests import Measurements


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a calibration found.

    Attributes:
        measured: the measured times.
        origin: the file, and which part of it.
        algorithm: whose p and q turn the line into alpha and B.
        others: all algorithms that the topology offers.
        topology: name of the topology.
        line: the two-parameter fit.
        model: the fit in segments; the same line where there is one.
        machine_name: name of the machine.
    """

    measured: Measurements
    origin: str
    algorithm: Algorithm
    others: Sequence[Algorithm]
    topology: str
    line: Line
    model: Model
    machine_name: str

    @property
    def alpha(self) -> float:
        """Latency of one round, seconds."""
        return self.line.latency / self.algorithm.rounds

    @property
    def bandwidth(self) -> float:
        """Bandwidth of one rank into the collective, bytes/s per direction."""
        return self.algorithm.volume / self.line.slope

    @property
    def bus(self) -> float:
        """Bus bandwidth of nccl-tests in units of size/time: what every algorithm must at least move."""
        return all_pairs(self.measured.kind, self.measured.ranks).volume

    def points(self) -> pd.DataFrame:
        """One row per size: ``size_bytes``, ``measured`` and ``fitted`` (s) by the model, its ``relative_error``."""
        sizes, times = self.measured.sizes, self.measured.times
        errors = relative_errors(self.model, sizes, times)
        fitted = self.model.time(sizes)
        return pd.DataFrame(
            {"size_bytes": sizes.astype(np.int64), "measured": times, "fitted": fitted, "relative_error": errors}
        )

    def fits(self) -> pd.DataFrame:
        """One row per fit, the two-parameter one first, then the segments; seconds, bytes/s and standard errors."""
        segments = self.model.lines if len(self.model.lines) > 1 else ()
        fits = {"two parameters": self.line, **{f"segment {i + 1}": line for i, line in enumerate(segments)}}
        return pd.DataFrame([{"fit": name, **self._row(line)} for name, line in fits.items()])

    def summary(self) -> pd.DataFrame:
        """One row: what was measured, and the two-parameter fit as in ``fits``."""
        fit = self.fits().iloc[0].drop(["fit", "first_bytes", "last_bytes", "points"])
        measured = {"collective": self.measured.kind.value, "ranks": self.measured.ranks}
        return pd.DataFrame([{**measured, "sizes": len(self.measured.sizes), **fit, "status": "ok"}])

    def _row(self, line: Line) -> dict[str, Any]:
        p, q = self.algorithm.rounds, self.algorithm.volume
        sizes = self.measured.sizes
        part = (sizes >= line.first) & (sizes <= line.last)
        errors = np.abs(relative_errors(Model((line,)), sizes[part], self.measured.times[part]))
        return {
            "first_bytes": line.first, "last_bytes": line.last, "points": line.points,
            "latency": line.latency, "latency_se": line.latency_se, "alpha": line.latency / p,
            "alpha_se": line.latency_se / p, "bandwidth": q / line.slope if line.slope else inf,
            "bandwidth_se": q * line.slope_se / line.slope**2 if line.slope else inf,
            "bus_bandwidth": self.bus / line.slope if line.slope else inf,
            "median_error": float(np.median(errors)), "largest_error": float(errors.max()),
        }  # fmt: skip
