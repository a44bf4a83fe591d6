"""``+experiment=fit``: from measured compute blocks to a law of compute times that the simulator takes at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray

from simulator.checks import MAX_RANKS, InputError, Reads, Rule, shown, text
from simulator.files.tables import write_csv
from simulator.lazy import pd
from simulator.network.collectives import MAX_BYTES
from simulator.network.topology import Machine, Topology
from simulator.pictures.draw import undrawn, write_pictures
from simulator.pictures.panels import Picture
from simulator.statistics.bootstrap import Bootstrap, cluster_bootstrap
from simulator.statistics.components import LEVEL, pooled
from simulator.statistics.goodness import Stability, anderson_darling, gumbel_or_gev, max_stability
from simulator.statistics.resample import LEAST_CLUSTERS, Centring, check_level
from simulator.statistics.sample import LEAST_MAXIMA, Family, checked_family
from simulator.task import Outcome, Progress, Task
from simulator.tasks.fit import pictures, words, yaml
from simulator.tasks.fit.bandwidth import Link, bandwidth_table
from simulator.tasks.fit.fitted import Fitted
from simulator.tasks.fit.maxima import pictures as maxima_pictures, words as maxima_words, yaml as maxima_yaml
from simulator.tasks.fit.maxima.fitted import MEANINGFUL, MaximaFit
from simulator.tasks.fit.maxima.law import propose
from simulator.tasks.fit.maxima.sample import Sample, sample_of
from simulator.tasks.fit.prediction import Prediction
from simulator.tasks.fit.source import check_source, measured
from simulator.tasks.fit.steps import Measure, Steps, steps_of
from simulator.tasks.trace_report.task import TraceReport
from simulator.traces.align import OTHERS
from simulator.traces.files import Traces
from simulator.traces.summary import Summary, write_summary

FAMILIES = ("tail", "gumbel", "gev")
OF_MAXIMA = ("m", "centring", "split", "parent", "blocks_per_iteration", "ranks_per_node")  # keys
STAGES = 4  # of a fit, for its progress: laws, tests, tables, pictures


@dataclass(frozen=True, kw_only=True)
class FitLaw(Task):
    """Fits the law of what ranks do between two barriers to traces, or to the summary of some, and writes it.

    Attributes:
        name: name of the experiment.
        report: how traces are read.
        traces: a folder, a file, a pattern or a list of these; or
        summary: a ``trace_summary.json`` of a trace report.
        measure, group, block, relative: as in ``steps_of``.
        family: ``tail`` (offsets of ranks, a common part, and the pooled rest with its tail); or the seed paper's law
            of the maxima of m ranks, ``gumbel`` (its lower bound) or ``gev``.
        sizes: n for which the tax is given.
        law_name: name of the law's YAML.
        machine: the machine whose link the topology took; recorded, not used.
        topology: of the domain whose optimal bandwidth is given; None for none.
        bytes: of its collective; None takes the measured size.
        m, blocks_per_iteration: of maxima alone; as in ``sample_of``.
        centring: of maxima alone: ``instance`` (the paper's) or ``block``.
        split: of maxima alone: ``strided`` (odd and even ranks, the paper's) or ``consecutive`` ranks make up the
            blocks of m; None takes consecutive ones for parent zero_sum, whose blocks are such, else the paper's.
        parent: of maxima alone: how they become times of single ranks.
        ranks_per_node: of maxima alone: consecutive ranks that share a node; None for no such part.
        level: of the intervals of maxima; those of the tail hold 95 %.
        replicates: resamples of iterations behind them, and samples behind the Anderson-Darling test.
        seed: of those.
    """

    name: str
    report: TraceReport
    traces: Traces | None = None
    summary: Annotated[str, Reads()] | None = None
    measure: Measure = "busy"
    group: str | Sequence[str] | None = None
    block: str | None = None
    relative: bool = False
    family: Annotated[str, Rule(allowed=FAMILIES)] = "tail"
    sizes: Sequence[Annotated[int, Rule(least=2, most=MAX_RANKS)]] = (8, 72, 512, 4096)
    law_name: str = "fitted"
    machine: Machine | None = None
    topology: Topology | None = None
    bytes: Annotated[float, Rule(least=0, most=MAX_BYTES)] | None = None
    m: Annotated[int, Rule(least=2)] | None = None
    blocks_per_iteration: Annotated[int, Rule(least=1)] | None = None
    centring: Literal["instance", "block"] | None = None
    split: Literal["strided", "consecutive"] | None = None
    parent: Literal["spliced", "zero_sum", "root"] | None = None
    ranks_per_node: Annotated[int, Rule(least=1)] | None = None
    level: float = 0.95
    replicates: Annotated[int, Rule(least=100, most=100_000)] = 1000
    seed: Annotated[int, Rule(least=0)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_level(self.level, "replicates", self.replicates)
        if not re.fullmatch(r"[A-Za-z]\w{0,99}", text("law_name", self.law_name), re.ASCII):
            got = shown(self.law_name)
            raise InputError(
                "law_name", f"must be up to 100 letters, digits and underscores, a letter first; got {got}"
            )

        if self.family == "tail":
            for name in OF_MAXIMA:
                if getattr(self, name) is not None:
                    raise InputError(
                        name, "must be left out for family=tail; it is of maxima, family=gumbel or gev",
                        getattr(self, name),
                    )  # fmt: skip
        elif self.measure == "arrival":
            raise InputError("measure", "must be busy or gap for maxima; arrivals go with family=tail", self.measure)

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        """Leaves ``tau.csv``, ``ranks.csv``, the picture ``fit``, the law as ``compute/NAME.yaml``, and from traces
        their ``trace_summary.json``; of the tail also ``dependence.csv``, of maxima ``parameters.csv`` and
        ``tests.csv``."""
        check_source(self.traces, self.summary)
        summary, origin = measured(self.traces, self.summary, self.report, progress)
        found = self.fit(summary, origin, progress)
        link = self._link(found, summary)
        for name, table in tables(found, link).items():
            write_csv(table, folder / f"{name}.csv")
        if self.summary is None:
            write_summary(summary, folder / "trace_summary.json")
        _tell(progress, 3)
        wrong = undrawn(lambda: write_pictures([picture(found)], folder))
        _tell(progress, STAGES)
        (folder / "compute").mkdir()
        (folder / "compute" / f"{self.law_name}.yaml").write_text(law_yaml(found), encoding="utf-8")
        return Outcome(f"{self.name}: {text_of(found, self.law_name, link)}").lacking(wrong)

    def _link(self, found: Fitted | MaximaFit, summary: Summary) -> Link | None:
        if self.topology is None or not isinstance(found, Fitted):
            return None
        return Link.of(self.topology, summary, found.main.steps.group, self.bytes)

    def fit(self, summary: Summary, origin: str, progress: Progress | None = None) -> Fitted | MaximaFit:
        """Fit a law to a summary.

        Raises:
            InputError: where there are too few blocks, or none that could be fitted.
        """
        return self.tail(summary, origin) if self.family == "tail" else self.maxima(summary, origin, progress)

    def tail(self, summary: Summary, origin: str) -> Fitted:
        """Fit the tail law."""
        steps = steps_of(summary, measure=self.measure, group=self.group, block=self.block, relative=self.relative)
        waited: dict[str, float] = {}
        for own in summary.collectives:
            if own.duration and self.measure != "arrival" and not own.leading:
                duration = np.array(own.duration, dtype=float) / 1e9
                tax = float((duration.mean(axis=1) - duration.min(axis=1)).mean())
                waited[own.group] = waited.get(own.group, 0.0) + tax
        return self.of_steps(steps, origin, waited, list(doubts(summary)))

    def of_steps(
        self, steps: Sequence[Steps], origin: str, waited: Mapping[str, float] | None = None, doubts: Sequence[str] = ()
    ) -> Fitted:
        """Fit the tail law to steps; ``waited`` is how long each group waits in its collectives, seconds."""
        return Fitted(origin, [self._prediction(own) for own in steps], self.sizes, waited or {}, doubts)

    def _prediction(self, steps: Steps) -> Prediction:
        return Prediction(steps, self.replicates, self.seed, self.level)

    def maxima(self, summary: Summary, origin: str, progress: Progress | None = None) -> MaximaFit:
        """Fit the law of maxima to the blocks of a summary.

        Raises:
            InputError: where there are too few blocks, or none that could be fitted.
        """
        sample = self.sample(summary)
        clusters = sample.iterations
        maxima, iterations = len(clusters), int(clusters.max()) + 1
        if maxima < LEAST_MAXIMA or iterations < LEAST_CLUSTERS:
            raise InputError(
                "blocks",
                f"must give at least {LEAST_MAXIMA} maxima of m = {sample.m} ranks, of {LEAST_CLUSTERS} "
                f"iterations; those of {origin} give {maxima} of {iterations}",
            )
        z = checked_family(sample.z(), "gumbel")
        parts = pooled(sample.scores, self.ranks_per_node)
        run = _run(parts.memory, iterations)
        clusters //= run
        laws, no_gev = self._laws(sample, clusters)
        _tell(progress, 1)
        distance = {name: anderson_darling(z, name, self.replicates, self.seed) for name in laws}
        _tell(progress, 2)
        family: Family = "gev" if self.family == "gev" else "gumbel"
        if family not in laws:
            raise InputError("family", f"must be gumbel, since there is no GEV fit: {no_gev}")
        proposal = propose(sample, laws[family].fit, parts, self.parent or "spliced", self.ranks_per_node)
        for doubt in doubts(summary):
            proposal = proposal.because(doubt)
        return MaximaFit(
            origin=origin, sample=sample, laws=laws, no_gev=no_gev, distance=distance,
            ratio=gumbel_or_gev(z) if "gev" in laws else None, stability=self._stability(sample, clusters),
            family=family, proposal=proposal, sizes=self.sizes, level=self.level, run=run, parts=parts,
            doubled=_doubled(sample), prediction=self._of_one_kind(sample),
        )  # fmt: skip

    @property
    def _strided(self) -> bool:
        return self.split == "strided" if self.split is not None else self.parent != "zero_sum"

    @property
    def _centring(self) -> Centring:
        return self.centring or "instance"

    def sample(self, summary: Summary) -> Sample:
        """The blocks that are fitted."""
        found = sample_of(
            summary, measure=self.measure, group=self.group, block=self.block,
            per_iteration=self.blocks_per_iteration or 1,
            m=self.m, strided=self._strided, by_instance=self._centring == "instance", relative=self.relative,
        )  # fmt: skip
        per_node = self.ranks_per_node
        if per_node is not None and (per_node < 2 or found.n % per_node or per_node == found.n):
            raise InputError(
                "ranks_per_node", f"must be at least 2 and make several whole nodes of {found.n} ranks; got {per_node}"
            )
        small = [n for n in self.sizes if n < found.m]
        if small:
            raise InputError("sizes", f"must be at least m = {found.m}, the ranks of one maximum; got {small[0]}")
        return found

    def _of_one_kind(self, sample: Sample) -> Prediction | None:
        """What the times themselves tell, where they are of one kind of block and group."""
        if len(sample.kinds) > 1:
            return None
        (kind,) = sample.kinds
        return self._prediction(Steps(kind.group, kind.name, sample.ranks or (), sample.scaled(kind), kind.empty))

    def _laws(self, sample: Sample, clusters: NDArray[np.int64]) -> tuple[dict[Family, Bootstrap], str]:
        """Fits of both families, and why there is no GEV."""

        def fitted(family: Family) -> Bootstrap:
            return cluster_bootstrap(sample.rows, clusters, family, self._centring, self.replicates, self.seed)

        laws: dict[Family, Bootstrap] = {"gumbel": fitted("gumbel")}
        try:
            laws["gev"] = fitted("gev")
        except InputError as error:
            return laws, str(error)
        return laws, ""

    def _stability(self, sample: Sample, clusters: NDArray[np.int64]) -> Stability | None:
        """From maxima of m ranks to those of 2m; where no more than m were measured, from m/2 to m."""
        few, many = _doubled(sample)
        if few < MEANINGFUL or 2 * few != many:
            return None
        rows = sample.rows
        if many > sample.m:
            rows, clusters = rows.reshape(-1, many), clusters[::2]
        try:
            return max_stability(rows, clusters, "gumbel", self._centring, self.replicates, self.seed, 1 - LEVEL)
        except InputError:  # ranks of half a block that never differ
            return None


def doubts(summary: Summary) -> Iterator[str]:
    """What makes the times of a summary doubtful, in sentences."""
    if any(OTHERS in own.reason for own in summary.collectives):
        yield f"{OTHERS}: what ranks wait in them counts as compute here (see the trace report)"


def tables(found: Fitted | MaximaFit, link: Link | None) -> dict[str, pd.DataFrame]:
    """Tables of a fit by the names of their files."""
    if isinstance(found, Fitted):
        means = {} if link is None else {"bandwidth": bandwidth_table(found, link)}
        return {"tau": found.taxes, "dependence": found.dependence(), "ranks": found.ranks(), **means}
    return {"parameters": found.parameters, "tau": found.taxes, "tests": found.tests(), "ranks": found.ranks()}


def picture(found: Fitted | MaximaFit) -> Picture:
    """The picture of a fit."""
    return pictures.picture(found) if isinstance(found, Fitted) else maxima_pictures.picture(found)


def law_yaml(found: Fitted | MaximaFit) -> str:
    """The text of ``compute/NAME.yaml``."""
    return yaml.law_yaml(found) if isinstance(found, Fitted) else maxima_yaml.law_yaml(found)


def text_of(found: Fitted | MaximaFit, law_name: str, link: Link | None) -> str:
    """What is printed."""
    return words.text_of(found, law_name, link) if isinstance(found, Fitted) else maxima_words.text_of(found, law_name)


def _doubled(sample: Sample) -> tuple[int, int]:
    """Ranks of the maxima whose locations are compared: m and 2m, or m/2 and m where no more were measured."""
    return (sample.m, 2 * sample.m) if sample.n // sample.m % 2 == 0 else (sample.m // 2, sample.m)


def _tell(progress: Progress | None, done: int) -> None:
    if progress is not None:
        progress(done, STAGES)


def _run(memory: float, iterations: int) -> int:
    """How many consecutive iterations to resample together: about as long as ranks' noise remembers (Davison, Hinkley,
    Bootstrap Methods, 1997, section 8.2.3), as far as enough runs are left."""
    if memory <= 0:
        return 1
    return max(1, min(ceil((1 + memory) / (1 - memory)), iterations // LEAST_CLUSTERS))
