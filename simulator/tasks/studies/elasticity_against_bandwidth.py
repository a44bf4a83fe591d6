"""Elasticity of communication time to bandwidth: where today's link and the next ones sit (seed paper, eq. 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Annotated

from simulator.checks import Positive, Rule, number
from simulator.laws import Law
from simulator.lazy import pd
from simulator.network.topology import Cost, Topology
from simulator.pictures.panels import Panel, Picture
from simulator.simulation.closed_forms import elasticity
from simulator.task import Progress
from simulator.tasks.studies.base import (
    Findings,
    SizesAbove1,
    Study,
    Tax,
    carry,
    check_points,
    mean_cost,
    pretty,
    simulate_taxes,
)
from simulator.workload.training import Workload

POINTS = 61  # of a drawn curve


def at(bandwidth: float, cost: Cost, wait: float) -> float:
    """Elasticity at a bandwidth, bytes/s, and a wait, seconds; NaN where communication takes no time."""
    value = elasticity(wait, cost.latency, cost.volume / bandwidth)
    return nan if value is None else value


@dataclass(frozen=True, kw_only=True)
class ElasticityAgainstBandwidth(Study):
    """How much of the communication time 1 % more bandwidth saves, against bandwidth, for several domain sizes.

    The wait of a bulk-synchronous job does not depend on bandwidth, so one simulated tax serves all bandwidths.

    Its fields are the keys of ``conf/task/elasticity_against_bandwidth.yaml``, which says what each means.
    """

    sizes: SizesAbove1
    links: Annotated[Sequence[Positive], Rule(filled=True)]
    lowest: Positive
    highest: float
    topology: Topology
    workload: Workload
    compute: Law

    def __post_init__(self) -> None:
        super().__post_init__()
        check_points(self.sizes, self.compute, {"topology": self.topology}, {"workload": self.workload})
        number("highest", self.highest, above=self.lowest)

    def find(self, progress: Progress | None = None) -> Findings:
        """Simulate the tax at every size; its elasticity at every link.

        The table ``elasticity`` has n, bandwidth (bytes/s), elasticity (simulated tax) with its standard error,
        elasticity_model (the law's own E[max of n]), elasticity_tau (tau(n) of the paper) and elasticity_hockney (no
        tax). The table ``curves`` has the same at many bandwidths, to be drawn.
        """
        jobs = [self.job(n=n, topology=self.topology, compute=self.compute, workload=self.workload) for n in self.sizes]
        taxes = simulate_taxes(jobs, self.relative_error, progress)
        costs = [mean_cost(job) for job in jobs]
        found = list(zip(self.sizes, costs, taxes, strict=True))
        table = pd.DataFrame({"n": n, **_row(link, cost, tax)} for n, cost, tax in found for link in self.links)
        grid = self._grid()
        curves = pd.DataFrame({"n": n, **_row(link, cost, tax)} for n, cost, tax in found for link in grid)
        return Findings(
            tables={"elasticity": table, "curves": curves}, pictures=[self._picture(table, curves)],
            text=self._text(table),
        )  # fmt: skip

    def _grid(self) -> list[float]:
        ratio = self.highest / self.lowest
        return [self.lowest * ratio ** (i / (POINTS - 1)) for i in range(POINTS)]

    def _picture(self, table: pd.DataFrame, curves: pd.DataFrame) -> Picture:
        drawn = [("line", curves, "elasticity_tau"), ("dashed", curves, "elasticity_hockney"),
                 ("points", table, "elasticity")]  # fmt: skip
        frames = [
            pd.DataFrame({
                "series": [f"n = {n}" for n in rows["n"]], "style": style, "x": rows["bandwidth"] / 1e9,
                "y": rows[column], "error": 3 * rows["elasticity_se"],
            })
            for style, rows, column in drawn
        ]  # fmt: skip
        today = self.topology.bandwidth
        return Picture(
            name="elasticity",
            title=self._title(table),
            subtitle=f"{pretty(self.topology.name)}, {self.compute.name} compute times",
            panels=[
                Panel(
                    table=pd.concat(frames), x="bandwidth per rank and direction, GB/s",
                    y="elasticity of communication time", log_x=True,
                    marks={link / 1e9: "today" if link == today else f"{link / 1e9:,g}" for link in self.links},
                    styles={
                        "line": "with the tax, closed form τ(n)", "points": "simulated, ± 3 standard errors",
                        "dashed": "without the tax (Hockney)",
                    },
                )
            ],
        )  # fmt: skip

    def _title(self, table: pd.DataFrame) -> str:
        """What 1 % more bandwidth saves in the largest domain, at the slowest and the fastest link."""
        largest = table[table["n"] == max(self.sizes)].set_index("bandwidth")["elasticity"]
        slow, fast = min(self.links), max(self.links)
        return (
            f"At {max(self.sizes)} ranks 1 % more bandwidth saves {-largest[slow]:.2f} % of communication "
            f"at {slow / 1e9:,g} GB/s, {-largest[fast]:.2f} % at {fast / 1e9:,g}"
        )

    def _text(self, table: pd.DataFrame) -> str:
        lines = [
            f"per cent of communication that 1 % more bandwidth saves, {pretty(self.topology.name)}",
            f"  {'n':>6}{'GB/s':>8}{'simulated':>12}{'±':>9}{'tau(n)':>10}{'Hockney':>10}",
        ]
        lines += [
            f"  {row.n:>6}{row.bandwidth / 1e9:>8g}{row.elasticity:>12.4f}{row.elasticity_se:>9.4f}"
            f"{row.elasticity_tau:>10.4f}{row.elasticity_hockney:>10.4f}"
            for row in table.itertuples()
        ]
        return "\n".join(lines)


def _row(bandwidth: float, cost: Cost, tax: Tax) -> dict[str, float]:
    """The figures of one size and bandwidth."""
    simulated, error = carry(lambda wait: at(bandwidth, cost, wait), tax)
    return {
        "bandwidth": bandwidth, "elasticity": simulated, "elasticity_se": error,
        "elasticity_model": at(bandwidth, cost, tax.closed_form), "elasticity_tau": at(bandwidth, cost, tax.fitted),
        "elasticity_hockney": at(bandwidth, cost, 0.0),
    }  # fmt: skip
