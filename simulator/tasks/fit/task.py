"""``+experiment=fit``: from measured compute blocks to a law of compute times that the simulator takes at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from simulator.checks import MAX_RANKS, InputError, Reads, Rule, shown, text
from simulator.files.tables import write_csv
from simulator.lazy import pd
from simulator.network.collectives import MAX_BYTES
from simulator.network.topology import Machine, Topology
from simulator.pictures.draw import undrawn, write_pictures
from simulator.pictures.panels import Picture
from simulator.statistics.resample import check_level
from simulator.task import Outcome, Progress, Task
from simulator.tasks.fit import pictures, words, yaml
from simulator.tasks.fit.bandwidth import Link, bandwidth_table
from simulator.tasks.fit.fitted import Fitted
from simulator.tasks.fit.maxima import pictures as maxima_pictures, words as maxima_words, yaml as maxima_yaml
from simulator.tasks.fit.maxima.fitted import MaximaFit
from simulator.tasks.fit.maxima.recipe import Recipe
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
        their ``trace_summary.json``; ``summary.csv``, a row for sweeps; of the tail also ``dependence.csv``, of maxima
        ``parameters.csv`` and ``tests.csv``."""
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
        if self.family == "tail":
            return self.tail(summary, origin)
        return self.recipe.fit(summary, origin, list(doubts(summary)), lambda done: _tell(progress, done))

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

    @property
    def recipe(self) -> Recipe:
        """The seed paper's way to a law, with the keys that are its own."""
        return Recipe(
            measure="gap" if self.measure == "gap" else "busy", group=self.group, block=self.block,
            relative=self.relative, family="gev" if self.family == "gev" else "gumbel", sizes=self.sizes, m=self.m,
            per_iteration=self.blocks_per_iteration or 1, centring=self.centring or "instance", split=self.split,
            parent=self.parent or "spliced", ranks_per_node=self.ranks_per_node, level=self.level,
            replicates=self.replicates, seed=self.seed,
        )  # fmt: skip


def doubts(summary: Summary) -> Iterator[str]:
    """What makes the times of a summary doubtful, in sentences."""
    if any(OTHERS in own.reason for own in summary.collectives):
        yield f"{OTHERS}: what ranks wait in them counts as compute here (see the trace report)"
    barriers: dict[str, list[set[int]]] = {}
    for own in summary.collectives:
        if not own.leading and own.label:
            barriers.setdefault(own.group, []).append(set(own.label))
    for group, labels in barriers.items():
        if sum(map(len, labels)) > len(set().union(*labels)):
            yield (
                f"{group} has {len(labels)} barriers in a step, and nothing says which blocks are before which: they "
                "are added up; table.instance=[COLUMN] tells barriers and the blocks before them apart"
            )


def tables(found: Fitted | MaximaFit, link: Link | None) -> dict[str, pd.DataFrame]:
    """Tables of a fit by the names of their files."""
    if isinstance(found, Fitted):
        means = {} if link is None else {"bandwidth": bandwidth_table(found, link)}
        return {
            "summary": found.summary(), "tau": found.taxes, "dependence": found.dependence(), "ranks": found.ranks(),
            **means,
        }  # fmt: skip
    return {
        "summary": found.summary(),
        "parameters": found.parameters,
        "tau": found.taxes,
        "tests": found.tests(),
        "ranks": found.ranks(),
    }


def picture(found: Fitted | MaximaFit) -> Picture:
    """The picture of a fit."""
    return pictures.picture(found) if isinstance(found, Fitted) else maxima_pictures.picture(found)


def law_yaml(found: Fitted | MaximaFit) -> str:
    """The text of ``compute/NAME.yaml``."""
    return yaml.law_yaml(found) if isinstance(found, Fitted) else maxima_yaml.law_yaml(found)


def text_of(found: Fitted | MaximaFit, law_name: str, link: Link | None) -> str:
    """What is printed."""
    return words.text_of(found, law_name, link) if isinstance(found, Fitted) else maxima_words.text_of(found, law_name)


def _tell(progress: Progress | None, done: int) -> None:
    if progress is not None:
        progress(done, STAGES)
