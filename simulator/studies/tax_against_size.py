"""The synchronization tax against the size of the domain: simulated points on the closed form (seed paper, eq. 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.experiment import Experiment
from simulator.laws import BlockMaxima, Law
from simulator.pictures import Panel, Picture
from simulator.studies.base import Findings, Study, check_laws, check_sizes, simulate_tax
from simulator.task import Progress
from simulator.topology import Topology
from simulator.workloads import Workload

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class TaxAgainstSize(Study):
    """Simulates the tax of several laws at several domain sizes.

    Attributes:
        sizes: domain sizes n.
        laws: compute-time laws by name.
        topology: how the ranks are wired; the tax does not depend on it.
        workload: bulk-synchronous job.
    """

    sizes: Sequence[int]
    laws: Mapping[str, Law]
    topology: Topology
    workload: Workload

    def __post_init__(self) -> None:
        check_sizes("sizes", self.sizes)
        check_laws(dict(self.laws), self.sizes)
        super().__post_init__()

    def find(self, progress: Progress | None = None) -> Findings:
        import pandas as pd

        rows = []
        points = [(name, law, n) for name, law in self.laws.items() for n in self.sizes]
        for done, (name, law, n) in enumerate(points):
            if progress is not None:
                progress(done, len(points))
            job = Experiment(
                n=n, topology=self.topology, compute=law, workload=self.workload, iterations=self.iterations,
                seed=self.seed, plots=False,
            )  # fmt: skip
            tax = simulate_tax(job, self.relative_error)
            fitted = law.gev_tax(n) if isinstance(law, BlockMaxima) and n >= law.m else tax.closed_form
            rows.append({
                "law": name, "n": n, "wait_mean": tax.simulated, "wait_mean_se": tax.error,
                "wait_model": tax.closed_form, "tau": fitted, "barriers": tax.barriers,
            })  # fmt: skip
        table = pd.DataFrame(rows)
        return Findings(tables={"tax": table}, pictures=[self._picture(table)], text=self._text(table))

    def _picture(self, table: pd.DataFrame) -> Picture:
        import pandas as pd

        curves = [
            pd.DataFrame({
                "series": table["law"], "style": style, "x": table["n"], "y": table[y] * 1e6,
                "error": table["wait_mean_se"] * 3e6,
            })
            for style, y in (("line", "tau"), ("points", "wait_mean"))
        ]  # fmt: skip
        first, last = table[table["n"] == min(self.sizes)], table[table["n"] == max(self.sizes)]
        growth = (last["wait_mean"].to_numpy() / first["wait_mean"].to_numpy()).max() if len(first) else 1.0
        return Picture(
            name="tax",
            title=f"From {min(self.sizes)} to {max(self.sizes)} ranks\nthe tax grows up to {growth:.1f}-fold",
            subtitle="mean wait of a rank at a collective",
            panels=[
                Panel(
                    table=pd.concat(curves), x="ranks in the scale-up domain", y="synchronization tax, µs", log_x=True,
                    styles={"line": "closed form", "points": "simulated, ± 3 standard errors"},
                )
            ],
        )  # fmt: skip

    def _text(self, table: pd.DataFrame) -> str:
        off = ((table["wait_mean"] - table["wait_model"]).abs() / table["wait_mean_se"]).max()
        worst = (table["wait_mean_se"] / table["wait_mean"]).max()
        lines = [
            f"{len(table)} points, standard errors up to {worst:.2%}, at most {off:.1f} of them from the closed form"
        ]
        lines += [
            f"  {row.law:<12} n = {row.n:>5}   simulated {row.wait_mean * 1e6:8.1f} ± {row.wait_mean_se * 1e6:.1f} us"
            f"   closed form {row.wait_model * 1e6:8.1f}   tau(n) {row.tau * 1e6:8.1f}"
            for row in table.itertuples()
        ]
        return "\n".join(lines)
