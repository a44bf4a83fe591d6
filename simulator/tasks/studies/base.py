"""What studies share: the files they leave, simulated taxes with their errors, and checks of sizes and laws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import hypot
from pathlib import Path
from typing import Annotated, Any, TypeVar

from simulator.checks import InputError, Rule
from simulator.files.tables import write_csv
from simulator.laws import BlockMaxima, Law
from simulator.lazy import pd
from simulator.network.topology import Cost, Machine, Topology
from simulator.pictures.draw import undrawn, write_pictures
from simulator.pictures.panels import Picture
from simulator.simulation.experiment import Experiment
from simulator.simulation.results import LEAST_VALUES
from simulator.simulation.runner import run
from simulator.task import Outcome, Progress, Task
from simulator.tasks.studies.claims import Claim, claims_table, claims_text, met
from simulator.workload.program import Collective, Compute, Program
from simulator.workload.training import Workload

NAMES = {  # of the topologies of conf/topology, for people
    "torus3d": "3D torus of whole sides", "torus3d_fractional": "3D torus of fractional sides", "nvswitch": "NVSwitch",
}  # fmt: skip
Named = TypeVar("Named")
MOST_ITERATIONS = 5120  # where a law's tail is so heavy that the error stays large, say so instead of going on


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a study found.

    Attributes:
        tables: file name without ending -> table, SI units.
        claims: numbers beside those that others printed.
        pictures: what to draw.
        text: the finding in a few lines, to print.
    """

    tables: dict[str, pd.DataFrame]
    pictures: Sequence[Picture]
    text: str
    claims: Sequence[Claim] = field(default_factory=list)

    def write(self, folder: Path) -> list[str]:
        """Write tables, ``claims.csv`` and pictures into an existing folder; returns why pictures are left out."""
        for name, table in self.tables.items():
            write_csv(table, folder / f"{name}.csv")
        if self.claims:
            write_csv(claims_table(self.claims), folder / "claims.csv")
        return undrawn(lambda: write_pictures(self.pictures, folder))


@dataclass(frozen=True, kw_only=True)
class Study(Task):
    """A task that reproduces a claim. Subclasses are frozen dataclasses with ``find``.

    Attributes:
        name: name of the experiment.
        machine: the machine whose link the topologies took; recorded, not used.
        iterations: iterations to begin with; doubled until the error is small enough.
        relative_error: standard error of each simulated tax, as a share of it.
        seed: seed of the random streams.
    """

    name: str
    machine: Machine | None = None
    iterations: Annotated[int, Rule(least=1)] = 40
    relative_error: Annotated[float, Rule(above=0)] = 0.005
    seed: Annotated[int, Rule(least=0)] = 0

    def job(self, **settings: Any) -> Experiment:
        """A simulation with the study's seed and the iterations it begins with."""
        return Experiment(iterations=self.iterations, seed=self.seed, **settings)

    @abstractmethod
    def find(self, progress: Progress | None = None) -> Findings:
        """Compute tables, claims and pictures."""

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        findings = self.find(progress)
        wrong = findings.write(folder)
        parts = [f"{self.name}: {findings.text}", *([claims_text(findings.claims)] if findings.claims else [])]
        return Outcome("\n\n".join(parts), met(findings.claims)).lacking(wrong)


@dataclass(frozen=True)
class Tax:
    """A synchronization tax, seconds: by closed form, and as simulated with its standard error.

    Attributes:
        closed_form: the law's own E[max of n] - mean; NaN where there is none.
        fitted: tau(n) of the paper, where a law of block maxima is extrapolated from m to n ranks; the closed form
            elsewhere.
        simulated: mean over ranks, barriers and iterations.
        error: standard error of ``simulated``.
        barriers: how many barriers were simulated.
    """

    closed_form: float
    fitted: float
    simulated: float
    error: float
    barriers: int


def simulate(job: Experiment, relative_error: float) -> dict[str, Any]:
    """Simulate a job until the standard error of its mean wait is small enough; its row of summary.csv.

    Iterations are doubled from the job's own number until the error is below ``relative_error`` times the wait, up to
    ``MOST_ITERATIONS``. The numbers depend on the job's seed alone.
    """
    while True:
        row = dict(run(job).summary.iloc[0])
        enough = job.iterations >= LEAST_VALUES and row["wait_mean_se"] <= relative_error * row["wait_mean"]
        if enough or job.iterations * 2 > MOST_ITERATIONS:
            return row
        job = replace(job, iterations=2 * job.iterations)


def simulate_tax(job: Experiment, relative_error: float) -> Tax:
    """The tax of a bulk-synchronous job, simulated until its standard error is below ``relative_error`` times it."""
    row = simulate(job, relative_error)
    return Tax(
        closed_form=float(row["wait_model"]),
        fitted=_fitted_tax(job.program, float(row["wait_model"])),
        simulated=float(row["wait_mean"]),
        error=float(row["wait_mean_se"]),
        barriers=int(row["iterations"] * row["collectives"]),
    )


def simulate_taxes(jobs: Sequence[Experiment], relative_error: float, progress: Progress | None = None) -> list[Tax]:
    """``simulate_tax`` of each job; ``progress`` is told of every one."""
    return [simulate_tax(job, relative_error) for job in watched(jobs, progress)]


def watched(jobs: Sequence[Experiment], progress: Progress | None) -> Iterator[Experiment]:
    """The jobs one after another, with word to ``progress`` before each."""
    for done, job in enumerate(jobs):
        if progress is not None:
            progress(done, len(jobs))
        yield job


def _fitted_tax(program: Program, otherwise: float) -> float:
    laws = [op.law for op in program.operations if isinstance(op, Compute)]
    first = laws[0] if laws else None
    if isinstance(first, BlockMaxima) and program.n >= first.m and all(law is first for law in laws):
        return first.gev_tax(program.n)
    return otherwise


def pretty(name: str) -> str:
    """The name of a topology in pictures and sentences."""
    return NAMES.get(name, name)


def carry(figure: Callable[..., float], *taxes: Tax) -> tuple[float, float]:
    """A figure computed from simulated taxes, and the standard error that it takes over from them.

    Delta method: the figure's change over one standard error to both sides of each tax, halved; errors of several
    taxes as of independent ones.

    >>> value, error = carry(lambda tau: 1 / tau, Tax(2.0, 2.0, 2.0, 0.002, 100))
    >>> print(value, round(error, 6))
    0.5 0.0005
    """
    waits = [tax.simulated for tax in taxes]

    def moved(i: int, by: float) -> float:
        return figure(*waits[:i], waits[i] + by, *waits[i + 1 :])

    errors = [(moved(i, tax.error) - moved(i, -tax.error)) / 2 for i, tax in enumerate(taxes)]
    return figure(*waits), hypot(*errors)


def mean_cost(job: Experiment) -> Cost:
    """Cost of a job's collective on its topology: the mean, where they differ."""
    costs = [cost for cost in job.costs if cost is not None]
    latency, transfer, volume = (
        sum(getattr(cost, what) for cost in costs) / len(costs) for what in ("latency", "transfer", "volume")
    )
    return Cost(costs[0].algorithm, latency, transfer, volume)


Sizes = Annotated[Sequence[Annotated[int, Rule(least=1)]], Rule(filled=True, once=True)]
SizesAbove1 = Annotated[Sequence[Annotated[int, Rule(least=2)]], Rule(filled=True, once=True)]
Elasticity = Annotated[float, Rule(above=-1, below=0)]


def under(field_name: str, named: Mapping[str, Named]) -> dict[str, Named]:
    """The entries of a field by their full names, ``topologies.ring``."""
    return {f"{field_name}.{name}": entry for name, entry in named.items()}


def check_laws(laws: Mapping[str, Law], sizes: Sequence[int]) -> None:
    """Refuse laws that cannot be drawn at some size; each is named by its field."""
    for name, law in laws.items():
        for n in sizes:
            with _at(f"sizes must suit {name}"):
                law.check_ranks(n)


def check_points(
    sizes: Sequence[int], compute: Law, topologies: Mapping[str, Topology], workloads: Mapping[str, Workload]
) -> None:  # fmt: skip
    """Refuse what cannot be run at some size, and workloads whose waits depend on how long collectives take.

    Topologies and workloads are named by their fields.
    """
    check_laws({"compute": compute}, sizes)
    check_topologies(topologies, sizes)
    for name, workload in workloads.items():
        for n in sizes:
            check_synchronous(name, workload, compute, n)


def check_topologies(topologies: Mapping[str, Topology], sizes: Sequence[int]) -> None:
    """Refuse topologies that cannot wire some size; each is named by its field."""
    for name, topology in topologies.items():
        for n in sizes:
            with _at(f"sizes must suit {name}"):
                topology.check(n)


def check_synchronous(field_name: str, workload: Workload, law: Law, n: int) -> None:
    """Refuse a workload of which a wait depends on how long collectives take."""
    program = workload.program(n, law)
    groups = [op.group for op in program.operations if isinstance(op, Collective)]
    if len(program.streams) > 1 or not groups or any(program.blocks(group)[1] != n for group in groups):
        raise InputError(
            field_name,
            "must be bulk-synchronous (one stream, and collectives of all ranks), so that no wait "
            "depends on the topology",
        )


@contextmanager
def _at(what: str) -> Iterator[None]:
    """Say first of an InputError which field of the study it is about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from error
