"""Results: tidy tables with their glossary, the one-row summary, and a folder that is written whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, nan, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.arrays import Array
from simulator.files.manifest import write_manifest
from simulator.files.tables import write_csv
from simulator.lazy import pd
from simulator.network.topology import Cost
from simulator.simulation import closed_forms
from simulator.simulation.closed_forms import Prediction
from simulator.simulation.measure import Measured, barriers
from simulator.tax import share
from simulator.workload.program import Collective

if TYPE_CHECKING:
    from simulator.simulation.experiment import Experiment

MOST_ROWS = 1_000_000  # above this, collectives.parquet has one row per collective
LEAST_VALUES = 8  # from which a standard error is told
MOST_COUNTS = 100_000_000  # collectives x ranks above which it does not say who the straggler is

GLOSSARY = {
    "experiment": "name of the experiment",
    "topology": "how the ranks are wired",
    "shape": "how the ranks are laid out (sides of a torus)",
    "n": "ranks in the scale-up domain (collectives: in the group)",
    "law": "law of the compute-block times",
    "parent": "construction that turns fitted block maxima into per-rank times",
    "block_mean": "mean of the law before strong scaling, s",
    "block_cv": "coefficient of variation of the law: standard deviation / mean",
    "scaling": "weak (block time constant in n) or strong (divided by n / reference_ranks)",
    "machine": "machine whose link was taken",
    "engine": "engine that ran the simulation",
    "seed": "seed of the random streams",
    "iterations": "simulated iterations",
    "collectives": "collectives per iteration",
    "bytes": "size of each collective, nccl-tests convention (mean over collectives)",
    "alpha": "latency of one round, s",
    "bandwidth": "bandwidth of one rank into the collective (on a torus: of each link), bytes/s per direction",
    "iteration_time": "time of one iteration, s",
    "iteration_time_se": "its standard error over iterations, s; empty for fewer than 8",
    "compute": "compute time of one iteration, mean over ranks, s",
    "wait_mean": "synchronization tax per collective, mean over ranks, s",
    "wait_mean_se": "its standard error over iterations (over barriers where there is one), s; empty for fewer than 8",
    "wait_median": "tax of the median rank, s",
    "wait_fastest": "tax of the fastest rank: last arrival - first arrival, s",
    "latency": "p*alpha per collective, s",
    "transfer": "q*S/B per collective, s",
    "algorithm": "algorithm of the collectives",
    "wait_share": "mean wait / (mean wait + latency + transfer)",
    "wait_model": "closed form of wait_mean: E[max of n] - mean of the law, s",
    "iteration_time_model": "closed form of iteration_time, s",
    "elasticity": "of communication time with respect to bandwidth, at this bandwidth",
    "bandwidth_optimal": "B* at elasticity -0.5 with the simulated tax, bytes/s",
    "bandwidth_optimal_hockney": "B* at elasticity -0.5 without a tax, bytes/s",
    "bandwidth_optimal_e01": "B* at elasticity -0.1 with the simulated tax, bytes/s",
    "bandwidth_optimal_hockney_e01": "B* at elasticity -0.1 without a tax, bytes/s",
    "bandwidth_reduction": "1 - bandwidth_optimal / bandwidth_optimal_hockney",
    "status": "ok, or failed in a sweep's table",
    "error": "why a point of a sweep failed",
    "point": "folder of a point of a sweep",
    "iteration": "number of the iteration",
    "collective": "name of the collective",
    "instance": "which of the groups along the mesh axis",
    "group": "axis of the rank mesh that the group lies along",
    "kind": "what the collective does",
    "start": "when the last rank of the group was ready, s from the start of the iteration",
    "end": "when the collective ended, s from the start of the iteration",
    "straggler": "the rank that was ready last",
    "straggler_repeat_rate": "share of iterations and groups in which that rank was the last",
    "rank": "rank",
    "ready": "when the rank was ready, s from the start of the iteration",
    "wait": "start - ready: the tax of the rank, s",
}


@dataclass(frozen=True)
class Result:
    """What a simulation found.

    Attributes:
        summary: one row, SI units, columns as in ``GLOSSARY``.
        iterations: one row per iteration.
        collectives: one row per iteration, collective and group instance; one per collective above 10^6 rows.
        manifest: configuration, seed, versions, notes: what is needed to run it again.
        experiment: what was run.
        costs: for each operation of the program its cost; None for computes.
    """

    summary: pd.DataFrame
    iterations: pd.DataFrame
    collectives: pd.DataFrame
    manifest: dict[str, Any]
    experiment: Experiment
    costs: Sequence[Cost | None]

    def write(self, folder: Path) -> None:
        """Write the tables and the manifest into an existing folder."""
        write_csv(self.summary, folder / "summary.csv")
        self.iterations.to_parquet(folder / "iterations.parquet", index=False)
        self.collectives.to_parquet(folder / "collectives.parquet", index=False)
        write_manifest(self.manifest, folder)


class Tables:
    """Collects the measures of chunks, in iteration order, into the tables of a result.

    Memory does not grow with iterations beyond the rows that the tables will have.
    """

    def __init__(self, experiment: Experiment, costs: Sequence[Cost | None]):
        self._experiment, self._costs = experiment, costs
        program = experiment.program
        self._barriers = barriers(program)
        place = {i: k for k, i in enumerate(program.collectives)}
        index = [place[i] for i, _ in self._barriers]
        counts = np.bincount(index, minlength=len(program.collectives)) if index else np.zeros(0)
        self._weights = np.array([1 / counts[k] / len(counts) for k in index])
        self._index = np.array(index, dtype=np.intp)
        self._whole = experiment.iterations * len(self._barriers) <= MOST_ROWS
        self._chunks: list[Measured] = []
        self._iterations: list[tuple[Array, ...]] = []
        self._sums = np.zeros((5, len(self._barriers)))
        shape = (len(program.collectives), experiment.n)
        self._stragglers = np.zeros((0, 0) if self._whole or shape[0] * shape[1] > MOST_COUNTS else shape, np.int32)
        self._barrier_waits: Array = np.zeros(0)

    def add(self, chunk: Measured) -> None:
        """Take the next iterations."""
        waits = [(w * self._weights).sum(axis=1) for w in (chunk.wait_mean, chunk.wait_median, chunk.wait_fastest)]
        self._iterations.append((chunk.iteration_time, chunk.compute, *waits))
        self._barrier_waits = chunk.wait_mean[-1]
        if self._whole:
            self._chunks.append(chunk)
            return
        values = np.stack([chunk.wait_mean, chunk.wait_median, chunk.wait_fastest, chunk.start, chunk.end])
        for i in range(values.shape[1]):  # one iteration after another: the same sum for any chunk size
            self._sums += values[:, i]
            if self._stragglers.size:
                self._stragglers[self._index, chunk.straggler[i]] += 1  # a rank is in one group of a collective

    def result(self, manifest: dict[str, Any]) -> Result:
        """The finished tables."""
        columns = [np.concatenate(parts) for parts in zip(*self._iterations, strict=True)]
        names = ["iteration_time", "compute", "wait_mean", "wait_median", "wait_fastest"]
        iterations = pd.DataFrame({"iteration": np.arange(len(columns[0])), **dict(zip(names, columns, strict=True))})
        prediction = closed_forms.predict(self._experiment.program, self._costs)
        notes = manifest.setdefault("notes", [])
        if prediction.reason:
            notes.append(f"closed forms left out where they do not hold: {prediction.reason}")
        summary = self._summary(iterations, prediction, notes)
        return Result(
            pd.DataFrame([summary]), iterations, self._collectives(), manifest, self._experiment, self._costs
        )  # fmt: skip

    def _collectives(self) -> pd.DataFrame:
        program, costs = self._experiment.program, self._costs
        operations = [program.operations[i] for i in program.collectives]
        about = pd.DataFrame(
            [
                {
                    "collective": op.name, "group": op.group, "n": program.blocks(op.group)[1], "kind": op.kind.value,
                    "algorithm": cost.algorithm.name, "bytes": float(op.nbytes),
                    "latency": cost.latency, "transfer": cost.transfer,
                }
                for op, cost in zip(operations, (costs[i] for i in program.collectives), strict=True)
                if isinstance(op, Collective) and cost is not None
            ],
            columns=["collective", "group", "n", "kind", "algorithm", "bytes", "latency", "transfer"],
        )  # fmt: skip
        for name in ("collective", "group", "kind", "algorithm"):
            about[name] = pd.Categorical(about[name], categories=pd.unique(about[name]))
        measures = ["wait_mean", "wait_median", "wait_fastest", "start", "end"]
        if self._whole:
            iterations = self._experiment.iterations
            table = about.iloc[np.tile(self._index, iterations)].reset_index(drop=True)
            table.insert(0, "iteration", np.repeat(np.arange(iterations), len(self._barriers)))
            table.insert(2, "instance", np.tile(np.array([k for _, k in self._barriers], dtype=np.int32), iterations))
            for name in (*measures, "straggler"):
                table[name] = np.concatenate([getattr(chunk, name).ravel() for chunk in self._chunks])
            return table
        rows = np.bincount(self._index) * float(self._experiment.iterations)
        for name, sums in zip(measures, self._sums, strict=True):
            about[name] = np.bincount(self._index, weights=sums) / rows
        if self._stragglers.size:
            about["straggler"] = self._stragglers.argmax(axis=1).astype(np.int32)
            about["straggler_repeat_rate"] = self._stragglers.max(axis=1) / rows
        return about

    def _summary(self, iterations: pd.DataFrame, forms: Prediction, notes: list[str]) -> dict[str, Any]:
        experiment = self._experiment
        program, topology = experiment.program, experiment.topology
        used = [self._costs[i] for i in program.collectives]
        latency, transfer, volume = (
            fsum(getattr(cost, what) for cost in used) / max(1, len(used)) for what in ("latency", "transfer", "volume")
        )
        sizes = [op.nbytes for op in program.operations if isinstance(op, Collective)]
        means = {name: float(iterations[name].mean()) for name in iterations.columns[1:]}
        wait = means["wait_mean"]
        samples = iterations["wait_mean"].to_numpy() if len(iterations) > 1 else self._barrier_waits
        dependence, blocks = experiment.effects.dependence, max(1, len(program.computes))
        inflation = dependence.inflation(blocks) if dependence is not None else 1.0
        told = 1.0 if experiment.compute.has_variance else nan
        of_samples = inflation if len(iterations) > 1 or dependence is None else dependence.inflation(1)
        fixed = len(program.streams) == 1
        if not fixed:
            notes.append(
                "elasticity and optimal bandwidth left out: operations overlap, so the wait depends on bandwidth"
            )

        def at(target: float, tax: float) -> float | None:
            return closed_forms.optimal_bandwidth(volume, tax, latency, target) if fixed else None

        row: dict[str, Any] = {
            "experiment": experiment.name,
            "topology": topology.name,
            "shape": topology.shape(experiment.n),
            "n": experiment.n,
            "law": experiment.compute.name,
            "parent": getattr(experiment.compute, "parent", None),
            "block_mean": experiment.compute.mean,
            "block_cv": getattr(experiment.compute, "cv", None),
            "scaling": getattr(experiment.workload, "scaling", None),
            "machine": experiment.machine.name if experiment.machine is not None else None,
            "engine": experiment.engine.name,
            "seed": experiment.seed,
            "iterations": experiment.iterations,
            "collectives": len(used),
            "bytes": fsum(sizes) / max(1, len(sizes)),
            "alpha": topology.alpha,
            "bandwidth": topology.bandwidth,
            "iteration_time": means["iteration_time"],
            "iteration_time_se": told * inflation * standard_error(iterations["iteration_time"].to_numpy()),
            "compute": means["compute"],
            "wait_mean": wait,
            "wait_mean_se": told * of_samples * standard_error(samples),
            "wait_median": means["wait_median"],
            "wait_fastest": means["wait_fastest"],
            "latency": latency,
            "transfer": transfer,
            "algorithm": " ".join(dict.fromkeys(cost.algorithm.name for cost in used if cost is not None)),
            "wait_share": share(wait, wait + latency + transfer),
            "wait_model": forms.wait,
            "iteration_time_model": forms.iteration_time,
            "elasticity": closed_forms.elasticity(wait, latency, transfer) if fixed else None,
            "bandwidth_optimal": at(-0.5, wait),
            "bandwidth_optimal_hockney": at(-0.5, 0.0),
            "bandwidth_optimal_e01": at(-0.1, wait),
            "bandwidth_optimal_hockney_e01": at(-0.1, 0.0),
            "bandwidth_reduction": closed_forms.reduction(wait, latency) if fixed and volume > 0 else None,
            "status": "ok",
        }
        return {
            name: nan if value is None and name not in ("parent", "scaling", "machine") else value
            for name, value in row.items()
        }


def standard_error(values: Array) -> float:
    """Standard error of the mean of independent values; NaN (empty in a table) for fewer than 8, which say too little.

    The standard deviation of so few is off by a quarter and more (1/sqrt(2(N - 1)) of itself, Kenney and Keeping,
    Mathematics of Statistics, 1951), and a mean of them is not yet normal.

    >>> standard_error(np.arange(9.0) * 2), standard_error(np.array([1.0, 3.0]))
    (1.8257418583505538, nan)
    """
    return float(np.std(values, ddof=1)) / sqrt(len(values)) if len(values) >= LEAST_VALUES else nan
