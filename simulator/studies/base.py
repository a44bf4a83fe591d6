"""What studies share: claims and how they are judged, measured taxes, and the files a study leaves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.checks import InputError, count, number
from simulator.experiment import Experiment, run
from simulator.laws import Law
from simulator.model import predict
from simulator.pictures import Picture
from simulator.task import Outcome, Progress, Task
from simulator.topology import Machine

if TYPE_CHECKING:
    import pandas as pd

MOST_ITERATIONS = 5120  # where a law's tail is so heavy that the error stays large, say so instead of going on


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One number that somebody printed, and ours beside it.

    Attributes:
        id: short name.
        text: what is claimed, for people.
        reported: the printed value; NaN where there is none.
        tolerance: how far ours may be from it, in its unit.
        unit: unit of all values.
        closed_form: ours by formula.
        simulated: ours with simulated taxes; NaN where nothing is simulated.
        error: standard error of ``simulated``.
        upper_bound: the claim is that ours is at most ``reported``.
        note: what a reader must know.
    """

    id: str
    text: str
    reported: float = nan
    tolerance: float = inf
    unit: str = ""
    closed_form: float = nan
    simulated: float = nan
    error: float = nan
    upper_bound: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        """``yes``, ``no``, or ``no reference``.

        The closed form must be within the tolerance of what is reported, and the simulation within the tolerance plus 3
        standard errors.
        """
        if not isfinite(self.reported) or not isfinite(self.tolerance):
            return "no reference"
        slack = 3 * self.error if isfinite(self.error) else 0.0
        close = [
            value <= self.reported + margin if self.upper_bound else abs(value - self.reported) <= margin
            for value, margin in ((self.closed_form, self.tolerance), (self.simulated, self.tolerance + slack))
            if isfinite(value)
        ]
        return "yes" if close and all(close) else "no"


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
    iterations: int = 40
    relative_error: float = 0.005
    seed: int = 0

    def __post_init__(self) -> None:
        count("iterations", self.iterations)
        number("relative_error", self.relative_error, above=0)
        count("seed", self.seed, least=0)

    @abstractmethod
    def find(self, progress: Progress | None = None) -> Findings:
        """Compute tables, claims and pictures."""

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        from simulator.plots import write_pictures

        findings = self.find(progress)
        for name, table in findings.tables.items():
            table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
        if findings.claims:
            claims_table(findings.claims).to_csv(folder / "claims.csv", index=False, lineterminator="\n")
        write_pictures(findings.pictures, folder)
        parts = [f"{self.name}: {findings.text}", *([claims_text(findings.claims)] if findings.claims else [])]
        return Outcome("\n\n".join(parts), all(claim.verdict != "no" for claim in findings.claims))


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """One row per claim: its fields and the verdict."""
    import pandas as pd

    rows = [{**{name: getattr(claim, name) for name in Claim.__dataclass_fields__}, "within": claim.verdict}
            for claim in claims]  # fmt: skip
    return pd.DataFrame(rows, columns=[*Claim.__dataclass_fields__, "within"])


def claims_text(claims: Sequence[Claim]) -> str:
    """The claims as a table of plain text, at most 100 columns wide."""
    lines = [f"{'claim':<50}{'reported':>10}{'formula':>10}{'simulated':>11}{'±':>7}  within"]
    for claim in claims:
        values = [_short(v) for v in (claim.reported, claim.closed_form, claim.simulated, claim.error)]
        text = f"{claim.text}, {claim.unit}" if claim.unit else claim.text
        lines.append(f"{text:<50}{values[0]:>10}{values[1]:>10}{values[2]:>11}{values[3]:>7}  {claim.verdict}")
        if claim.note:
            lines.append(f"    {claim.note}")
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:.4g}" if isfinite(value) else "-"


@dataclass(frozen=True)
class Tax:
    """A synchronization tax, seconds: by closed form, and as simulated with its standard error."""

    closed_form: float
    simulated: float
    error: float
    barriers: int


def simulate_tax(job: Experiment, relative_error: float) -> Tax:
    """Simulate a bulk-synchronous job until the standard error of its mean wait is small enough.

    Iterations are doubled from the job's own number until the error is below ``relative_error`` times the wait, up to
    ``MOST_ITERATIONS``. The numbers depend on the job's seed alone.
    """
    predicted = predict(job.program, job.costs).wait
    while True:
        row = run(job).summary.iloc[0]
        wait, error = float(row["wait_mean"]), float(row["wait_mean_se"])
        if error <= relative_error * wait or wait == 0 or job.iterations * 2 > MOST_ITERATIONS:
            return Tax(nan if predicted is None else predicted, wait, error, job.iterations * int(row["collectives"]))
        job = replace(job, iterations=2 * job.iterations)


def check_sizes(field_name: str, sizes: Sequence[int]) -> None:
    """Refuse an empty list of domain sizes, or one with something that is no size."""
    if not isinstance(sizes, list | tuple) or not sizes:
        raise InputError(f"{field_name} must be a list of at least one domain size; got {sizes!r}")
    for n in sizes:
        count(field_name, n)


def check_laws(laws: dict[str, Law], sizes: Sequence[int]) -> None:
    """Refuse laws that cannot be drawn at some size."""
    for law in laws.values():
        for n in sizes:
            law.check_ranks(n)
