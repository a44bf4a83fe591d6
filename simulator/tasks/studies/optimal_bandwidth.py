"""Which bandwidth and which domain size are worth their money: the minimum of iteration time x cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, fsum, inf, isfinite, log
from typing import Annotated

from simulator.checks import InputError, Positive, Rule
from simulator.laws import Law
from simulator.lazy import pd
from simulator.network.topology import Topology
from simulator.pictures.panels import Panel, Picture
from simulator.simulation.closed_forms import predict
from simulator.simulation.experiment import Experiment
from simulator.simulation.runner import run
from simulator.task import Progress
from simulator.tasks.studies.base import Findings, Sizes, Study
from simulator.text import within
from simulator.workload.training import Workload

POINTS = 61  # of a drawn curve
MOST_CURVES = 7  # colours that can be told apart
TRIVIAL = "the optimum is the highest bandwidth allowed, since bandwidth costs nothing: set cost_per_gbs"


Price = Annotated[float, Rule(least=0)]


@dataclass(frozen=True)
class Domain:
    """A domain size: ``floor`` (s) is the iteration with infinite bandwidth, ``volume`` (bytes) what a link carries."""

    n: int
    floor: float
    volume: float

    def time(self, bandwidth: float) -> float:
        """Expected iteration time, seconds; the wait of a bulk-synchronous job does not depend on bandwidth."""
        return self.floor + self.volume / bandwidth


@dataclass(frozen=True, kw_only=True)
class OptimalBandwidth(Study):
    """Searches the bandwidth and the domain size at which iteration time x cost is smallest.

    A domain of n ranks with bandwidth B costs ``cost_fixed + n*(cost_per_rank + cost_per_gbs*B/1e9)``, in any unit.
    For each size the bandwidth is found with scipy.optimize over the closed form; at the optimum a simulation checks
    the iteration time.

    Its fields are the keys of ``conf/task/optimal_bandwidth.yaml``, which says what each means.
    """

    sizes: Sizes
    lowest: Positive
    highest: Positive
    topology: Topology
    workload: Workload
    compute: Law
    cost_fixed: Price = 0.0
    cost_per_rank: Price = 0.0
    cost_per_gbs: Price = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.highest <= self.lowest:
            raise InputError("highest", f"must be above lowest = {self.lowest:g}; got {self.highest:g}")
        for n in self.sizes:
            self.topology.check(n)
            self.compute.check_ranks(n)

    def cost(self, n: int, bandwidth: float) -> float:
        """Cost of a domain of ``n`` ranks with ``bandwidth`` (bytes/s) each; 1 where nothing has a cost."""
        if self.cost_fixed == self.cost_per_rank == self.cost_per_gbs == 0:
            return 1.0
        return self.cost_fixed + n * (self.cost_per_rank + self.cost_per_gbs * bandwidth / 1e9)

    def domain(self, n: int) -> Domain:
        """Closed form of the iteration at size ``n``.

        Raises:
            InputError: for a workload without one, with the reason.
        """
        job = self._job(n, inf)
        prediction = predict(job.program, job.costs)
        if prediction.iteration_time is None or not isfinite(prediction.iteration_time):
            raise InputError("workload", f"must have a closed form of its iteration time; {prediction.reason}")
        return Domain(n, prediction.iteration_time, fsum(cost.volume for cost in job.costs if cost is not None))

    def best(self, domain: Domain) -> float:
        """The bandwidth at which time x cost is smallest for a domain size, within the bounds."""
        from scipy.optimize import minimize_scalar

        def objective(log_bandwidth: float) -> float:
            return self._objective(domain, exp(log_bandwidth))

        bounds = log(self.lowest), log(self.highest)
        found = exp(float(minimize_scalar(objective, bounds=bounds, method="bounded", options={"xatol": 1e-9}).x))
        return min((self.lowest, found, self.highest), key=lambda bandwidth: self._objective(domain, bandwidth))

    def find(self, progress: Progress | None = None) -> Findings:
        domains = [self.domain(n) for n in self.sizes]
        table = self._table(domains)
        best = table.loc[table["objective"].idxmin()]
        n, bandwidth = int(best["n"]), float(best["bandwidth"])
        if progress is not None:
            progress(len(domains), len(domains) + 1)
        checked = run(self._job(n, bandwidth)).summary.iloc[0]
        off, error = checked["iteration_time"] - best["iteration_time"], checked["iteration_time_se"]
        distance = f" ({off / error:+.1f} standard errors)" if error > 0 else ""
        lines = [
            f"time x cost is smallest at n = {n} and {bandwidth / 1e9:,.4g} GB/s per rank and direction",
            f"  iteration {best['iteration_time']:.4f} s by closed form, {checked['iteration_time']:.4f}"
            f"{within(error, '{:.2g}'.format)} s simulated{distance}",
            f"  today's {self.topology.bandwidth / 1e9:,.4g} GB/s would be "
            f"{self._objective(self.domain(n), self.topology.bandwidth) / best['objective'] - 1:.2%} worse",
            *self._notes(n, bandwidth),
            "",
            f"{'n':>7}{'B, GB/s':>12}{'iteration, s':>14}{'cost':>14}{'time x cost':>14}",
        ]
        lines += [
            f"{row.n:>7}{row.bandwidth / 1e9:>12,.5g}{row.iteration_time:>14.5g}{row.cost:>14.5g}{row.objective:>14.5g}"
            for row in table.itertuples()
        ]
        table["iteration_time_simulated"] = [checked["iteration_time"] if row == n else None for row in table["n"]]
        table["iteration_time_se"] = [checked["iteration_time_se"] if row == n else None for row in table["n"]]
        picture = self._picture(domains, n, bandwidth)
        return Findings(tables={"optimum": table}, pictures=[picture], text="\n".join(lines))

    def _job(self, n: int, bandwidth: float) -> Experiment:
        topology = replace(self.topology, bandwidth=bandwidth)
        return self.job(n=n, topology=topology, compute=self.compute, workload=self.workload)

    def _objective(self, domain: Domain, bandwidth: float) -> float:
        return domain.time(bandwidth) * self.cost(domain.n, bandwidth)

    def _notes(self, n: int, bandwidth: float) -> list[str]:
        notes = []
        if self.cost_per_gbs == 0:
            notes.append(TRIVIAL)
        elif bandwidth in (self.lowest, self.highest):
            notes.append(f"the optimum is a bound of the bandwidth, {bandwidth / 1e9:g} GB/s: it may lie beyond")
        if len(self.sizes) > 1 and n in (min(self.sizes), max(self.sizes)):
            end = "smallest" if n == min(self.sizes) else "largest"
            notes.append(f"the optimum is the {end} size allowed, n = {n}: it may lie beyond")
        return [f"  {note}" for note in notes]

    def _table(self, domains: Sequence[Domain]) -> pd.DataFrame:
        rows = []
        for domain in domains:
            bandwidth = self.best(domain)
            time, cost = domain.time(bandwidth), self.cost(domain.n, bandwidth)
            rows.append({"n": domain.n, "bandwidth": bandwidth, "iteration_time": time, "cost": cost,
                         "objective": time * cost})  # fmt: skip
        return pd.DataFrame(rows)

    def _picture(self, domains: Sequence[Domain], n: int, bandwidth: float) -> Picture:
        span = log(self.highest / self.lowest)
        grid = [self.lowest * exp(span * i / (POINTS - 1)) for i in range(POINTS)]
        best = min(self._objective(domain, self.best(domain)) for domain in domains)
        domains = _some(domains, n)
        curves = [
            pd.DataFrame(
                {
                    "series": f"n = {domain.n}",
                    "style": "line",
                    "x": [b / 1e9 for b in grid],
                    "y": [self._objective(domain, b) / best for b in grid],
                }
            )
            for domain in domains
        ]
        points = [
            pd.DataFrame({
                "series": f"n = {domain.n}", "style": "points", "x": [self.best(domain) / 1e9],
                "y": [self._objective(domain, self.best(domain)) / best], "error": 0.0,
            })
            for domain in domains
        ]  # fmt: skip
        return Picture(
            name="optimum",
            title=f"Time x cost is smallest with {n} ranks of {bandwidth / 1e9:,.0f} GB/s",
            subtitle=f"{self.topology.name}, {self.compute.name} compute times",
            panels=[
                Panel(
                    table=pd.concat([*curves, *points]), x="bandwidth per rank and direction, GB/s",
                    y="time x cost, relative to the best", log_x=True, log_y=True,
                    styles={"line": "closed form", "points": "best for this n"},
                    marks={self.topology.bandwidth / 1e9: "today"},
                )
            ],
        )  # fmt: skip


def _some(domains: Sequence[Domain], n: int) -> list[Domain]:
    """At most ``MOST_CURVES`` of the domains: the smallest, the largest, that of n ranks, and others evenly between."""
    step = -(-len(domains) // (MOST_CURVES - 2))
    place = next(i for i, domain in enumerate(domains) if domain.n == n)
    return [d for i, d in enumerate(domains) if (i - place) % step == 0 or i in (0, len(domains) - 1)]
