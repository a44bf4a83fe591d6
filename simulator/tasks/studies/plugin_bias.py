"""How far off are estimates of the tax? The paper's plug-in recipe, and others, on ranks whose true law is known.

The recipe (seed paper, section 5) fits a Gumbel law to the z-scores of the maxima of m = 4 ranks and extrapolates the
tax to n ranks by ln(n/m). Here the ranks follow a known law, so the tax is known too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nan, sqrt
from typing import Annotated, Any

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError, Rule, count
from simulator.laws import Law
from simulator.lazy import pd
from simulator.simulation.results import LEAST_VALUES, standard_error
from simulator.statistics import Gev
from simulator.task import Progress
from simulator.tasks.studies.base import MOST_ITERATIONS, Findings, SizesAbove1, Study, check_laws, under
from simulator.tasks.studies.known_laws import KnownLaw
from simulator.tasks.studies.plugin_bias_words import Comparison
from simulator.tasks.studies.ways import SubsetsAndTail, Way, all_fits


@dataclass(frozen=True, kw_only=True)
class PluginBias(Study):
    """Applies ways of estimating the tax to simulated blocks of ranks with known laws, and compares with the true one.

    A sample is ``blocks`` blocks of ``ranks`` ranks, the same for every way. Where a way claims nothing for some
    samples, its errors are those of the others.

    Its fields are the keys of ``conf/task/plugin_bias.yaml``, which says what each means.
    """

    sizes: SizesAbove1
    laws: Annotated[Mapping[str, KnownLaw], Rule(filled=True)]
    ranks: Annotated[int, Rule(least=3)]
    block_sizes: SizesAbove1
    blocks: Annotated[int, Rule(least=100)]

    def __post_init__(self) -> None:
        super().__post_init__()
        for i, m in enumerate(self.block_sizes):
            if self.ranks % m:
                raise InputError(f"block_sizes[{i}]", f"must divide the {self.ranks} ranks of a block", m)
        if max(self.sizes) < self.ranks:
            raise InputError("sizes", f"must reach the {self.ranks} ranks of a block", list(self.sizes))
        count("iterations", self.iterations, least=2)
        check_laws(under("laws", {k: v for k, v in self.laws.items() if isinstance(v, Law)}), [self.ranks, *self.sizes])
        for name, law in self.laws.items():
            if not 0 < law.sd < inf:
                raise InputError(f"laws.{name}", "must have a known standard deviation, above 0 and finite", law.sd)

    @property
    def ways(self) -> list[Way]:
        """All that are compared, the paper's recipe first."""
        return [*all_fits(self.block_sizes), SubsetsAndTail(self.ranks)]

    def find(self, progress: Progress | None = None) -> Findings:
        rows: list[dict[str, Any]] = []
        fits: list[dict[str, Any]] = []
        for done, (name, law) in enumerate(self.laws.items()):
            true = np.array([law.wait(n) for n in self.sizes])
            taxes, laws = self._sample(law, true, done, progress)
            for way, found in taxes.items():
                label = {"law": name, "estimator": way.text, "m": way.m}
                for n, tau, ratios in zip(self.sizes, true / law.sd, (found / true).T, strict=True):
                    if n >= way.least:
                        rows.append({**label, "n": n, "true": tau, **_errors(ratios, tau)})
                if laws[way]:
                    mu, sigma, xi = np.mean(laws[way], axis=0)
                    fits.append({**label, "mu": mu, "sigma": sigma, "xi": xi})
        table = pd.DataFrame(rows)
        told = Comparison(table, self.ways, f"{self.blocks:,} blocks of {self.ranks} ranks")
        return Findings(tables={"bias": table, "fits": pd.DataFrame(fits)}, pictures=[told.picture()], text=told.text())

    def _sample(
        self, law: KnownLaw, true: Array, done: int, progress: Progress | None
    ) -> tuple[dict[Way, Array], dict[Way, list[Gev]]]:
        """Taxes that each way finds, shape (samples, sizes), and laws of maxima: in as many samples as the error asks.

        All ways see the same ranks.
        """
        taxes: dict[Way, list[list[float]]] = {way: [] for way in self.ways}
        laws: dict[Way, list[Gev]] = {way: [] for way in self.ways}
        samples, wanted = 0, self.iterations
        while True:
            for i in range(samples, wanted):
                if progress is not None:  # more samples than asked for take no step
                    progress(done * self.iterations + min(i, self.iterations - 1), len(self.laws) * self.iterations)
                rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(self.seed, spawn_key=(i,))))
                x = law.sample(rng, (self.blocks, self.ranks))
                for way in self.ways:
                    found = way.estimated(x, self.sizes)
                    taxes[way].append(found.taxes)
                    laws[way] += [found.law] if found.law else []
            samples, wanted = wanted, 2 * wanted
            tables = {way: np.array(rows) for way, rows in taxes.items()}
            exact = all(self._exact(column) for table in tables.values() for column in (table / true).T)
            if (samples >= LEAST_VALUES and exact) or wanted > MOST_ITERATIONS:
                return tables, laws

    def _exact(self, ratios: Array) -> bool:
        """Whether the mean of estimate/truth is known well enough; so it is where most samples give no number."""
        given = ratios[np.isfinite(ratios)]
        return 2 * len(given) < len(ratios) or not standard_error(given) > self.relative_error


def _errors(ratios: Array, true: float) -> dict[str, float]:
    """Bias and root mean square error of estimate/truth over the samples that give a number, and how many these are."""
    given = ratios[~np.isnan(ratios)]
    errors = {"estimated": nan, "bias": nan, "bias_se": nan, "rmse": nan}
    if len(given):
        mean = float(given.mean())
        errors = {
            "estimated": mean * true, "bias": mean - 1,
            "bias_se": standard_error(given) if np.isfinite(mean) else nan, "rmse": sqrt(np.mean((given - 1) ** 2)),
        }  # fmt: skip
    return {**errors, "answered": len(given) / len(ratios), "samples": len(ratios)}
