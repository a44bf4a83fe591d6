"""Simulated runs as long as the measured one, and what a run of measured or simulated steps shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from simulator.arrays import Array
from simulator.laws import Law
from simulator.simulation.draws import Draws, to_ticks
from simulator.simulation.measure import measure
from simulator.simulation.vector import Vector
from simulator.tasks.validate.job import Job
from simulator.tax import most_frequent, of_waits, share

STATISTICS = {
    "tax_fastest_mean": "s", "tax_fastest_p50": "s", "tax_fastest_p99": "s", "tax_median_mean": "s",
    "tax_mean_mean": "s", "tax_share": "", "iteration_time": "s", "repeat_rate": "",
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """Steps of one run; seconds, shape (steps,).

    Attributes:
        fastest, median, mean: how long the rank that waits longest, the median and the mean rank wait.
        elapsed: how long the step takes.
        last: place of the rank that arrives last.
    """

    fastest: Array
    median: Array
    mean: Array
    elapsed: Array
    last: Array

    def statistics(self, transfer: float) -> dict[str, float]:
        """What is compared, named as in ``STATISTICS``.

        Args:
            transfer: time of the collective itself, seconds.
        """
        waited = self.mean.sum()
        return {
            "tax_fastest_mean": float(self.fastest.mean()),
            "tax_fastest_p50": float(np.quantile(self.fastest, 0.5)),
            "tax_fastest_p99": float(np.quantile(self.fastest, 0.99)),
            "tax_median_mean": float(self.median.mean()),
            "tax_mean_mean": float(self.mean.mean()),
            "tax_share": float(share(waited, waited + transfer * len(self.mean))),
            "iteration_time": float(self.elapsed.mean()),
            "repeat_rate": most_frequent(self.last.astype(np.intp))[1],
        }


def measured_run(job: Job) -> Run:
    """The steps of the trace."""
    return Run(*of_waits(job.waits.copy()), job.elapsed.mean(axis=1), job.duration.argmin(axis=1).astype(float))


def simulated_runs(job: Job, law: Law, runs: int, seed: int, step: Callable[[], None]) -> Sequence[Run]:
    """Independent runs of as many steps as were measured, with the measured time of the collective itself.

    ``step`` is called after each run.

    Raises:
        InputError: where the law draws times below 0, or does not fit the ranks.
    """
    program = job.program(len(job.ranks), law)
    times = np.array([0.0] * (len(program.operations) - 1) + [job.transfer])
    to_ticks(times)
    found = []
    for child in np.random.SeedSequence(seed).generate_state(runs, np.uint64):
        draws = Draws(program, int(child), range(job.steps))
        steps = measure(program, Vector().steps(program, times.tolist(), draws), draws)
        fastest, median, mean, elapsed = (  # to nanoseconds, as profilers have it
            np.round(times, 9)
            for times in (
                steps.wait_fastest[:, 0], steps.wait_median[:, 0], steps.wait_mean[:, 0], steps.iteration_time
            )
        )  # fmt: skip
        found.append(Run(fastest, median, mean, elapsed, steps.straggler[:, 0].astype(float)))
        step()
    return found
