"""A task: how much the simulated tax differs from seed to seed."""

from dataclasses import dataclass, replace

import pandas as pd

from simulator import Experiment, Outcome, Task, checks, run, write_csv


@dataclass(frozen=True, kw_only=True)
class Seeds(Task, Experiment):
    """Simulates an experiment with several seeds; its keys are those of an experiment, and ``seeds``."""

    seeds: int

    def __post_init__(self):
        super().__post_init__()
        checks.count("seeds", self.seeds, least=2)

    def execute(self, folder, progress=None):
        rows = []
        for seed in range(self.seeds):
            if progress:
                progress(seed, self.seeds)
            rows.append({"seed": seed, "wait_mean": run(replace(self, seed=seed)).summary.wait_mean[0]})
        table = pd.DataFrame(rows)
        write_csv(table, folder / "seeds.csv")
        low, high = table.wait_mean.min() * 1e6, table.wait_mean.max() * 1e6
        return Outcome(f"{self.name}: the tax is {low:.1f} to {high:.1f} us for {self.seeds} seeds")
