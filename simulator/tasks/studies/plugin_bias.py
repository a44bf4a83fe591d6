"""Is the paper's plug-in estimator biased? Its recipe applied to ranks whose true law is known.

The recipe (seed paper, section 5) fits a Gumbel law to the z-scores of the maxima of m = 4 ranks and extrapolates the
tax to n ranks by ln(n/m). Here the ranks follow a known law, so the tax is known too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import sqrt
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import Finite, InputError, Positive, Rule, count, nearest
from simulator.laws import IndependentLaw
from simulator.lazy import pd
from simulator.pictures.panels import Panel, Picture
from simulator.simulation.results import standard_error
from simulator.statistics import Gev, block_centred, fit_gev, fit_gumbel, fit_gumbel_lmoments, instance_centred
from simulator.task import Progress
from simulator.tasks.studies.base import MOST_ITERATIONS, Findings, SizesAbove1, Study

CENTRINGS: dict[str, Callable[[ArrayLike], Array]] = {"instance": instance_centred, "block": block_centred}
FITS: dict[str, Callable[[ArrayLike], Gev]] = {
    "Gumbel": fit_gumbel, "Gumbel L-moments": fit_gumbel_lmoments, "GEV": fit_gev,
}  # fmt: skip


class Estimator(NamedTuple):
    """A way from measured blocks to a law of their maxima: centring of the z-scores, fit, and ranks in a block."""

    centring: str
    fit: str
    m: int

    @property
    def text(self) -> str:
        return f"{self.centring}-centred {self.fit}"

    def __str__(self) -> str:
        return f"{self.text}, m = {self.m}"

    def estimate(self, blocks: Array) -> Gev:
        """The law that the estimator finds in blocks of m ranks."""
        return FITS[self.fit](CENTRINGS[self.centring](blocks))


@dataclass(frozen=True, kw_only=True)
class ScipyLaw(IndependentLaw):
    """A distribution of ``scipy.stats``, shifted and scaled to a mean and a standard deviation.

    Attributes:
        distribution: name of a continuous distribution, such as ``norm`` or ``t``.
        shapes: its shape parameters, in scipy's order.
        mean, sd: mean and standard deviation of a draw.

    >>> round(ScipyLaw(distribution="norm").expected_max(2), 6)  # 1/sqrt(pi)
    0.56419
    """

    distribution: str
    shapes: Sequence[float] = ()
    mean: Finite = 0.0
    sd: Positive = 1.0

    def __post_init__(self) -> None:
        from scipy import stats

        super().__post_init__()
        known = [name for name, kind in vars(stats).items() if isinstance(kind, stats.rv_continuous)]
        if self.distribution not in known:
            raise InputError(
                "distribution",
                f"must be a continuous distribution of scipy.stats; got {self.distribution!r}"
                f"{nearest(self.distribution, known)}",
            )
        try:
            moments = [float(x) for x in self._parent.stats("mv")]
        except TypeError:
            moments = []
        if not moments or not np.isfinite(moments).all():
            raise InputError(
                "shapes",
                f"must be those of {self.distribution} in scipy.stats, with a finite mean and variance",
                self.shapes,
            )

    @property
    def name(self) -> str:
        return self.distribution

    @property
    def var(self) -> float:
        return self.sd**2

    @cached_property
    def _parent(self) -> Any:
        from scipy import stats

        return getattr(stats, self.distribution)(*self.shapes)

    def scaled(self, factor: float) -> Self:
        return replace(self, mean=self.mean * factor, sd=self.sd * factor)

    def quantile(self, t: ArrayLike) -> Array:
        t = np.asarray(t, dtype=float)
        upper = t < np.log(2)  # there 1 - F keeps its digits, below F does
        parent = self._parent
        x = np.where(upper, parent.isf(-np.expm1(-np.where(upper, t, 1.0))), parent.ppf(np.exp(-t)))
        return self._moved(x)

    def exponent(self, x: ArrayLike) -> Array:
        parent = self._parent
        return np.asarray(-parent.logcdf(parent.mean() + (np.asarray(x) - self.mean) / self.sd * parent.std()))

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> Array:
        return self._moved(self._parent.rvs(size=size, random_state=rng))

    def _moved(self, x: Array) -> Array:
        parent = self._parent
        return np.asarray(self.mean + self.sd * (x - parent.mean()) / parent.std())


@dataclass(frozen=True, kw_only=True)
class PluginBias(Study):
    """Applies estimators to simulated blocks of ranks with known laws, and compares their tax with the true one.

    An estimator extrapolates to n ranks from blocks of m by E[max of n] - mean = mu + sigma*(ln(n/m) + gamma), or its
    GEV form, in standard deviations of a rank. It is asked for n >= m only: below, the blocks themselves tell.

    Its fields are the keys of ``conf/task/plugin_bias.yaml``, which says what each means.
    """

    sizes: SizesAbove1
    laws: Annotated[Mapping[str, IndependentLaw], Rule(filled=True)]
    block_sizes: SizesAbove1
    blocks: Annotated[int, Rule(least=100)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if max(self.sizes) < max(self.block_sizes):
            raise InputError("sizes", f"must reach max(block_sizes) = {max(self.block_sizes)}", list(self.sizes))
        count("iterations", self.iterations, least=2)

    @property
    def estimators(self) -> list[Estimator]:
        """All combinations, the paper's recipe first."""
        return [Estimator(*choice) for choice in product(CENTRINGS, FITS, self.block_sizes)]

    def find(self, progress: Progress | None = None) -> Findings:
        rows, fits = [], []
        for done, (name, law) in enumerate(self.laws.items()):
            if progress is not None:
                progress(done, len(self.laws))
            true = {n: law.wait(n) / sqrt(law.var) for n in self.sizes}
            for estimator, found in self._sample(law, true).items():
                label = {"law": name, "estimator": estimator.text, "m": estimator.m}
                mu, sigma, xi = np.mean(found, axis=0)
                fits.append({**label, "mu": mu, "sigma": sigma, "xi": xi})
                for n in self._asked(estimator):
                    ratio, error = _ratio(found, n / estimator.m, true[n])
                    rows.append({
                        **label, "n": n, "true": true[n], "estimated": ratio * true[n], "bias": ratio - 1,
                        "bias_se": error, "samples": len(found),
                    })  # fmt: skip
        table = pd.DataFrame(rows)
        return Findings(
            tables={"bias": table, "fits": pd.DataFrame(fits)}, pictures=[self._picture(table)], text=self._text(table)
        )

    def _asked(self, estimator: Estimator) -> list[int]:
        return [n for n in self.sizes if n >= estimator.m]

    def _sample(self, law: IndependentLaw, true: Mapping[int, float]) -> dict[Estimator, list[Gev]]:
        """What each estimator finds in each of as many samples as the error asks for; all see the same ranks."""
        found: dict[Estimator, list[Gev]] = {estimator: [] for estimator in self.estimators}
        samples, wanted = 0, self.iterations
        while True:
            for i in range(samples, wanted):
                rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(self.seed, spawn_key=(i,))))
                ranks = law.sample(rng, self.blocks * max(self.block_sizes))
                for estimator, laws in found.items():
                    blocks = ranks[: self.blocks * estimator.m].reshape(self.blocks, estimator.m)
                    laws.append(estimator.estimate(blocks))
            samples, wanted = wanted, 2 * wanted
            errors = [_ratio(laws, n / e.m, true[n])[1] for e, laws in found.items() for n in self._asked(e)]
            if all(error <= self.relative_error for error in errors) or wanted > MOST_ITERATIONS:
                return found

    def _worst(self, table: pd.DataFrame) -> pd.Series:
        """Largest |bias| of each estimator over the laws, and over the sizes that every estimator is asked for."""
        common = table[table["n"] >= max(self.block_sizes)]
        return common.assign(worst=common["bias"].abs()).groupby(["estimator", "m"], sort=False)["worst"].max()

    def _best(self, table: pd.DataFrame, block_sizes: Sequence[int]) -> tuple[Estimator, float]:
        """The estimator with the smallest worst bias among those with some block sizes, and that bias."""
        worst = self._worst(table)
        texts = {(estimator.text, estimator.m): estimator for estimator in self.estimators}
        key = worst[worst.index.isin(block_sizes, level="m")].idxmin()
        return texts[key], float(worst[key])

    def _picture(self, table: pd.DataFrame) -> Picture:
        m, large = self.block_sizes[0], max(self.block_sizes)
        paper = self.estimators[0]
        best, worst = self._best(table, self.block_sizes)
        drawn = {
            paper: f"paper: {paper}", paper._replace(centring="block"): "block-centred",
            paper._replace(m=large): f"m = {large}", paper._replace(fit="Gumbel L-moments"): "L-moments",
            paper._replace(fit="GEV"): "GEV, shape free", best: f"best: {best}",
        }  # fmt: skip
        recipe = table[(table["estimator"] == paper.text) & (table["m"] == m)]["bias"]
        return Picture(
            name="bias",
            title=f"The paper's recipe is {recipe.min():+.0%} to {recipe.max():+.0%} off the true tax;\n"
            f"{best} stays within {worst:.0%} from n = {self._common} on",
            subtitle="panels: the true law of a rank; curves: the paper's recipe with one thing changed, and the best",
            panels=[self._panel(name, table[table["law"] == name], drawn) for name in self.laws],
            columns=3,
            shared=True,
        )

    @property
    def _common(self) -> int:
        """The smallest size that every estimator is asked for."""
        return min(n for n in self.sizes if n >= max(self.block_sizes))

    def _panel(self, name: str, rows: pd.DataFrame, drawn: Mapping[Estimator, str]) -> Panel:
        curves = []
        for (estimator, label), style in product(drawn.items(), ("line", "points")):
            curve = rows[(rows["estimator"] == estimator.text) & (rows["m"] == estimator.m)]
            curves.append(pd.DataFrame({
                "series": label, "style": style, "x": curve["n"], "y": curve["bias"] * 100,
                "error": curve["bias_se"] * 300,
            }))  # fmt: skip
        return Panel(
            table=pd.concat(curves), x="ranks in the scale-up domain", y="bias of the tax, %", log_x=True,
            title=name.replace("_", " "), levels={0.0: ""},
        )  # fmt: skip

    def _text(self, table: pd.DataFrame) -> str:
        paper, m = self.estimators[0], self.block_sizes[0]
        recipe = table[(table["estimator"] == paper.text) & (table["m"] == m)].pivot(
            index="law", columns="n", values="bias"
        )
        lines = [
            f"bias of the paper's recipe ({paper}); standard errors up to {table['bias_se'].max():.2%}",
            f"  {'true law':<14}" + "".join(f"{f'n = {n}':>10}" for n in recipe.columns),
        ]
        lines += [f"  {name:<14}" + "".join(f"{bias:>+10.1%}" for bias in recipe.loc[name]) for name in self.laws]
        for what, block_sizes in (("overall", self.block_sizes), (f"with m = {m}", [m])):
            best, worst = self._best(table, block_sizes)
            lines.append(f"best {what}: {best}; off by {worst:.1%} at worst, n >= {self._common}, any of the laws")
        return "\n".join(lines)


def _ratio(found: Sequence[Gev], k: float, true: float) -> tuple[float, float]:
    """Mean over samples of estimate/truth, and its standard error."""
    ratios = np.array([law.expected_max(k) for law in found]) / true
    return float(ratios.mean()), standard_error(ratios)
