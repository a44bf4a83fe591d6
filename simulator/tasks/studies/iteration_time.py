"""The time of an iteration against the size of the domain, and what it is made of, for several topologies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from simulator.checks import Rule
from simulator.laws import Law
from simulator.lazy import pd
from simulator.network.topology import Topology
from simulator.pictures.panels import Panel, Picture
from simulator.simulation.closed_forms import predict
from simulator.task import Progress
from simulator.tasks.studies.base import (
    Findings,
    Sizes,
    Study,
    check_points,
    mean_cost,
    pretty,
    simulate,
    under,
    watched,
)
from simulator.workload.training import Workload

PARTS = ["compute", "wait", "latency", "transfer"]


@dataclass(frozen=True, kw_only=True)
class IterationTime(Study):
    """Simulates iterations of several bulk-synchronous workloads and prices them on several topologies.

    Ranks wait for each other before the data move, so compute and wait do not depend on the topology: each workload is
    simulated once per size, and its collectives are priced on every topology. An iteration of L collectives takes
    L*(a + tau + p*alpha + q*S/B) (seed paper, section 6).

    Its fields are the keys of ``conf/task/iteration_time.yaml``, which says what each means.
    """

    sizes: Sizes
    topologies: Annotated[Mapping[str, Topology], Rule(filled=True)]
    workloads: Annotated[Mapping[str, Workload], Rule(filled=True)]
    compute: Law

    def __post_init__(self) -> None:
        super().__post_init__()
        topologies, workloads = under("topologies", self.topologies), under("workloads", self.workloads)
        check_points(self.sizes, self.compute, topologies, workloads)

    def find(self, progress: Progress | None = None) -> Findings:
        """Simulate every workload at every size and price it on every topology.

        The table ``iteration_time`` has workload, topology, shape, n; iteration_time and its parts compute, wait,
        latency and transfer, per iteration and mean over ranks, with standard errors of the simulated ones;
        iteration_time_model and wait_model in closed form. Seconds.
        """
        first = next(iter(self.topologies.values()))
        points = [(name, n) for name in self.workloads for n in self.sizes]
        jobs = [
            self.job(n=n, topology=first, compute=self.compute, workload=self.workloads[name]) for name, n in points
        ]
        rows = []
        for (workload, _), job in zip(points, watched(jobs, progress), strict=True):
            simulated = simulate(job, self.relative_error)
            rows += [
                {"workload": workload, "topology": name, **self._priced(simulated, job.n, topology, job.workload)}
                for name, topology in self.topologies.items()
            ]
        table = pd.DataFrame(rows)
        return Findings(tables={"iteration_time": table}, pictures=[self._picture(table)], text=self._text(table))

    def _priced(self, simulated: dict[str, Any], n: int, topology: Topology, workload: Workload) -> dict[str, Any]:
        """The simulated row with its collectives moved to ``topology``."""
        job = self.job(n=n, topology=topology, compute=self.compute, workload=workload)
        cost, many = mean_cost(job), simulated["collectives"]
        prediction = predict(job.program, job.costs)
        moved = many * (cost.time - simulated["latency"] - simulated["transfer"])
        return {
            "shape": topology.shape(n), "n": n,
            "iteration_time": simulated["iteration_time"] + moved,
            "iteration_time_se": simulated["iteration_time_se"],
            "compute": simulated["compute"],
            "wait": many * simulated["wait_mean"], "wait_se": many * simulated["wait_mean_se"],
            "latency": many * cost.latency, "transfer": many * cost.transfer,
            "iteration_time_model": prediction.iteration_time,
            "wait_model": None if prediction.wait is None else many * prediction.wait,
        }  # fmt: skip

    def _picture(self, table: pd.DataFrame) -> Picture:
        panels = [
            Panel(
                table=self._curves(rows), x="ranks in the scale-up domain", y="time per iteration, s", log_x=True,
                log_y=True, title=f"{pretty(str(topology))}, {workload} scaling",
                styles={"line": "closed form", "points": "simulated, ± 3 standard errors"},
            )
            for (workload, topology), rows in table.groupby(["workload", "topology"], sort=False)
        ]  # fmt: skip
        return Picture(
            name="iteration_time", title=self._title(table), panels=panels,
            subtitle=f"one iteration and its parts, mean over ranks; {self.compute.name} compute times",
            columns=len(self.topologies), shared=True,
        )  # fmt: skip

    @staticmethod
    def _curves(rows: pd.DataFrame) -> pd.DataFrame:
        """The iteration and its parts; those that are no simulated times are lines alone."""
        rest = rows["wait_model"] + rows["latency"] + rows["transfer"]
        lines = {
            "iteration": rows["iteration_time_model"], "compute": rows["iteration_time_model"] - rest,
            "wait": rows["wait_model"], "latency": rows["latency"], "transfer": rows["transfer"],
        }  # fmt: skip
        points = {"iteration": "iteration_time", "compute": "compute", "wait": "wait"}
        none = pd.Series(0.0, index=rows.index)
        curves = [{"series": part, "style": "line", "x": rows["n"], "y": y} for part, y in lines.items()]
        curves += [
            {
                "series": part, "style": "points", "x": rows["n"], "y": rows[column],
                "error": 3 * rows.get(f"{column}_se", none),
            }
            for part, column in points.items()
        ]  # fmt: skip
        return pd.concat([pd.DataFrame(curve) for curve in curves])

    def _shortest(self, table: pd.DataFrame, workload: str) -> list[pd.Series]:
        """For each topology the row of the size whose iteration is shortest."""
        rows = table[table["workload"] == workload].set_index("topology", drop=False)
        best = [rows.loc[[topology]].set_index("n", drop=False) for topology in self.topologies]
        return [curve.loc[curve["iteration_time"].idxmin()] for curve in best]

    def _title(self, table: pd.DataFrame) -> str:
        """Where the last workload, strong scaling by default, stops to pay."""
        name = list(self.workloads)[-1]
        places = [f"{row['n']:,} ({pretty(row['topology'])})" for row in self._shortest(table, name)]
        return f"Under {name} scaling an iteration is shortest at n = {', '.join(places)}"

    def _text(self, table: pd.DataFrame) -> str:
        off = ((table["iteration_time"] - table["iteration_time_model"]).abs() / table["iteration_time_se"]).max()
        lines = [
            f"{len(table)} points, at most {off:.1f} standard errors from the closed form",
            f"  {'workload':<10}{'topology':<24}{'n':>6}{'iteration':>12}{'±':>9}"
            + "".join(f"{part:>9}" for part in PARTS),
        ]
        for row in table.itertuples():
            if row.n in (min(self.sizes), max(self.sizes)):
                shares = "".join(f"{getattr(row, part) / row.iteration_time:>9.1%}" for part in PARTS)
                lines.append(
                    f"  {row.workload:<10}{pretty(row.topology):<24}{row.n:>6}{row.iteration_time:>10.4f} s"
                    f"{row.iteration_time_se * 1e3:>6.2f} ms{shares}"
                )
        lines += [
            f"{workload} scaling, {pretty(row['topology'])}: shortest at n = {row['n']}, {row['iteration_time']:.4f} s"
            for workload in self.workloads
            for row in self._shortest(table, workload)
            if row["n"] != min(self.sizes)
        ]
        return "\n".join(lines)
