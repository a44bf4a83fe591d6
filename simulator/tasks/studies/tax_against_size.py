"""The synchronization tax against the size of the domain: simulated points on the closed form (seed paper, eq. 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from simulator.checks import Rule
from simulator.laws import Law
from simulator.lazy import pd
from simulator.network.topology import Topology
from simulator.pictures.panels import Panel, Picture
from simulator.task import Progress
from simulator.tasks.studies.base import Findings, Sizes, Study, check_laws, simulate_taxes, under
from simulator.workload.training import Workload


@dataclass(frozen=True, kw_only=True)
class TaxAgainstSize(Study):
    """Simulates the tax of several laws at several domain sizes.

    Its fields are the keys of ``conf/task/tax_against_size.yaml``, which says what each means.
    """

    sizes: Sizes
    laws: Annotated[Mapping[str, Law], Rule(filled=True)]
    topology: Topology
    workload: Workload

    def __post_init__(self) -> None:
        super().__post_init__()
        check_laws(under("laws", self.laws), self.sizes)

    def find(self, progress: Progress | None = None) -> Findings:
        """Simulate every law at every size.

        The table ``tax`` has law, n, wait_mean with its standard error, wait_model (the law's own E[max of n] -
        mean), tau (the paper's extrapolation from block maxima), all in seconds; barriers simulated.
        """
        points = [(name, n) for name in self.laws for n in self.sizes]
        jobs = [
            self.job(n=n, topology=self.topology, compute=self.laws[name], workload=self.workload)
            for name, n in points
        ]  # fmt: skip
        taxes = simulate_taxes(jobs, self.relative_error, progress)
        table = pd.DataFrame(
            {
                "law": name, "n": n, "wait_mean": tax.simulated, "wait_mean_se": tax.error,
                "wait_model": tax.closed_form, "tau": tax.fitted, "barriers": tax.barriers,
            }
            for (name, n), tax in zip(points, taxes, strict=True)
        )  # fmt: skip
        return Findings(tables={"tax": table}, pictures=[self._picture(table)], text=self._text(table))

    def _picture(self, table: pd.DataFrame) -> Picture:
        curves = [
            pd.DataFrame({
                "series": table["law"].str.capitalize(), "style": style, "x": table["n"], "y": table[y] * 1e6,
                "error": table["wait_mean_se"] * 3e6,
            })
            for style, y in (("line", "tau"), ("points", "wait_mean"))
        ]  # fmt: skip
        return Picture(
            name="tax",
            title=self._title(table),
            subtitle="mean wait of a rank at a collective",
            panels=[
                Panel(
                    table=pd.concat(curves), x="ranks in the scale-up domain", y="synchronization tax, µs", log_x=True,
                    styles={"line": "closed form τ(n)", "points": "simulated, ± 3 standard errors"},
                )
            ],
        )  # fmt: skip

    def _title(self, table: pd.DataFrame) -> str:
        first, last = min(self.sizes), max(self.sizes)
        waits = table.set_index(["law", "n"])["wait_mean"]
        growths = [
            f"{waits[law, last] / waits[law, first]:.1f}-fold ({law.capitalize()})"
            for law in self.laws
            if waits[law, first] > 0
        ]
        return f"From {first} to {last} ranks the tax grows {', '.join(growths) or 'from nothing'}"

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
