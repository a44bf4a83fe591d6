"""What a fit found: laws with intervals, tests of what they assume, the ranks' dependence, and tables of all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, nan
from typing import Any

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.lazy import pd
from simulator.statistics import Gev, fit_gumbel_lmoments
from simulator.statistics.bootstrap import Bootstrap
from simulator.statistics.components import LEVEL, Components
from simulator.statistics.goodness import Distance, LikelihoodRatio, Stability
from simulator.statistics.resample import Quantity, maxima_needed
from simulator.statistics.sample import Family
from simulator.tasks.fit.maxima.law import PERSISTENT, Proposal
from simulator.tasks.fit.maxima.sample import UNEVEN, Sample
from simulator.tasks.fit.prediction import TAXES, Prediction
from simulator.text import duration, off, percent

FLAGS = {
    "few maxima": "maxima are few: the intervals are wide, and as good as their approximations",
    "few clusters": "iterations to resample are few: intervals hold the truth less often than they say",
    "ties": "many maxima are equal, as clocks that tick coarsely make them",
    "no maximum": "the GEV likelihood often has no maximum in resampled iterations: its intervals are a guess",
}
MEANINGFUL = 4  # ranks of a maximum, of the paper's; the mean of fewer goes far along with their maximum
FAR = 0.05  # of the law's tax from that of the blocks, relative, above which it is said
WIDE = 0.1  # half-width of a tax's interval, relative to the tax, above which it is called wide


def likely(p: float) -> str:
    """A chance in a sentence.

    >>> likely(0.0213), likely(1e-21)
    ('p = 0.021', 'p < 0.0001')
    """
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


@dataclass(frozen=True, kw_only=True)
class MaximaFit:
    """A fit of block maxima.

    Attributes:
        origin: the traces or summary, in words.
        sample: what was fitted to.
        laws: gumbel, and gev where there is one: fits with their resamples.
        no_gev: why there is no gev.
        distance: Anderson-Darling test of each law.
        ratio: of Gumbel against GEV; None where there is no gev.
        stability: of the location as ranks double; None for fewer than 4 ranks.
        family: of the proposed law.
        proposal: the law for the simulator.
        sizes: n for which the tax is given.
        level: of all intervals.
        run: consecutive iterations that were resampled together.
        parts: parts of the variance of the times themselves.
        doubled: ranks of the maxima that ``stability`` compares, the smaller and the larger.
        prediction: of the times themselves, where they are of one kind of block.
    """

    origin: str
    sample: Sample
    laws: Mapping[Family, Bootstrap]
    no_gev: str
    distance: Mapping[Family, Distance]
    ratio: LikelihoodRatio | None
    stability: Stability | None
    family: Family
    proposal: Proposal
    sizes: Sequence[int]
    level: float
    run: int
    parts: Components
    doubled: tuple[int, int]
    prediction: Prediction | None

    @property
    def fit(self) -> Gev:
        """The fitted law of the chosen family."""
        return self.laws[self.family].fit

    @cached_property
    def z(self) -> Array:
        """z-scores of the maxima."""
        return self.sample.z()

    @cached_property
    def parameters(self) -> pd.DataFrame:
        """One row per family and parameter: estimate and interval, from resampled iterations, which estimate the
        standard deviation anew as well.

        ``cv`` is r, ``mean`` is a, seconds; ``gumbel_lmoments`` is a check by another method.
        """
        rows: list[tuple[Any, ...]] = []
        for family, found in self.laws.items():
            names: tuple[Quantity, ...] = ("mu", "sigma", "xi") if family == "gev" else ("mu", "sigma")
            rows += [(family, name, found.estimate(name), *found.interval(name, level=self.level)) for name in names]
        rows.append(("any", "cv", self.sample.cv, *self.laws["gumbel"].interval("b", level=self.level)))
        rows.append(("any", "mean", self.sample.mean))
        moments = fit_gumbel_lmoments(self.z)
        rows += [("gumbel_lmoments", name, getattr(moments, name)) for name in ("mu", "sigma")]
        columns = ["family", "parameter", "estimate", "low", "high"]
        return pd.DataFrame([(*row, *[nan] * (len(columns) - len(row))) for row in rows], columns=columns)

    @cached_property
    def taxes(self) -> pd.DataFrame:
        """One row per n, that of the measured ranks too, in the columns of the tail's: what the recipe's chosen family
        says with its interval as ``tau_paper``, seconds; the estimate from the times themselves beside it, where they
        are of one kind of block.

        ``tau_law`` is the proposed law's own E[max of n] - mean; empty where it does not go with n ranks.
        """
        rows: list[dict[str, Any]] = []
        for n in sorted({self.sample.n, *self.sizes}):
            tax, low, high = self.tax(n, self.family)
            known = self.prediction.row(n) if self.prediction is not None else {"n": n}
            rows.append(known | {
                "measured": self.sample.tax if n == self.sample.n else nan, "tau_paper": tax, "tau_paper_low": low,
                "tau_paper_high": high, "tau_law": self._law_tax(n),
            })  # fmt: skip
        return pd.DataFrame(rows).reindex(columns=list(TAXES))

    def summary(self) -> pd.DataFrame:
        """One row, for a sweep: the tax of the measured ranks and of each n that was asked, columns as of a tail's."""
        taxes = self.taxes.set_index("n")
        own = taxes.loc[self.sample.n]
        row: dict[str, Any] = {
            "ranks": self.sample.n, "steps": len(set(self.sample.iterations.tolist())), "mean": self.sample.mean,
            **own[["tau", "low", "high", "tau_paper"]], "fitted": self.proposal.law.name,
            "rank_share": self.parts.rank_share,
        }  # fmt: skip
        for n in sorted(set(self.sizes)):
            names = ("tau", "low", "high", "status", "tau_paper")
            row |= {f"{name}_{n}": taxes.loc[n, name] for name in names}
        return pd.DataFrame([row])

    def tax(self, n: int, family: Family) -> tuple[float, float, float]:
        """tau(n) of a family with its interval, seconds."""
        found, k, a = self.laws[family], n / self.sample.m, self.sample.mean * self.sample.uneven
        interval = found.interval("tau", k, self.level)
        return a * found.estimate("tau", k), a * interval.low, a * interval.high

    def needed(self, n: int) -> float:
        """So many maxima would tell tau(n) to +-10 %."""
        found, k = self.laws[self.family], n / self.sample.m
        tax = found.estimate("tau", k)
        return maxima_needed(found.interval("tau", k, self.level), tax, found.maxima, WIDE) if isfinite(tax) else inf

    @property
    def miss(self) -> float:
        """Of the family's tax from the measured one at the measured ranks, relative."""
        return self.tax(self.sample.n, self.family)[0] / self.sample.tax - 1

    def _law_tax(self, n: int) -> float:
        law = self.proposal.law
        try:
            law.check_ranks(n)
        except InputError:
            return nan
        return law.wait(n)

    def tests(self) -> pd.DataFrame:
        """One row per test: statistic, what it would be at most, and the chance of more where the law is right."""
        rows: list[tuple[str, float, float]] = [
            (f"anderson_darling_{family}", found.statistic, found.p_value) for family, found in self.distance.items()
        ]
        if self.ratio is not None:
            rows.append(("likelihood_ratio_gumbel_or_gev", self.ratio.statistic, self.ratio.p_value))
        if self.stability is not None:
            rows.append(("stability_measured", self.stability.measured, nan))
            rows.append(("stability_expected", self.stability.expected, nan))
        parts = self.parts
        for name, value in (
            ("rank_share", parts.rank_share), ("common_share", self._share(parts.common)),
            ("node_share", self._share(self.proposal.parts.node)), ("memory", parts.memory),
            ("spread_ratio", parts.spread_ratio),
        ):  # fmt: skip
            source = self.proposal.parts if name == "node_share" else parts
            chance = {"rank_share": "p_rank", "common_share": "p_common", "node_share": "p_node",
                      "memory": "p_memory", "spread_ratio": "p_spreads"}[name]  # fmt: skip
            rows.append((name, value, getattr(source, chance)))
        return pd.DataFrame(rows, columns=["test", "value", "p_value"])

    def _share(self, part: float) -> float:
        return part / self.parts.total

    def ranks(self) -> pd.DataFrame:
        """One row per rank: offset from the mean in standard deviations within a block, and relative spread."""
        parts = self.parts
        within = parts.within**0.5 or 1.0
        names = self.sample.ranks or tuple(range(self.sample.n))
        offsets = [offset / within for offset in parts.offsets] or [nan] * self.sample.n
        return pd.DataFrame({"rank": names, "offset": offsets, "spread": parts.spreads})

    def warnings(self) -> Iterator[str]:
        """What a reader must know: where an assumption of the extrapolation fails, a sentence each."""
        parts, sample = self.parts, self.sample
        if sample.n >= sample.m and abs(self.miss) > FAR:
            yield (
                f"tau({sample.n}) of the {self.family} maxima is {off(self.miss)} what was measured at these "
                "ranks: do not carry it on (family=tail does not miss it)"
            )
        yield from self.proposal.reasons
        for kind in sample.kinds:
            if kind.empty:
                whole = kind.empty + len(kind.times)
                yield f"{kind.empty} of {whole} blocks {kind.name!r} are empty on some rank and left out"
            if kind.unevenness > UNEVEN and not sample.relative:
                yield (
                    f"blocks {kind.name!r} are of different lengths (they vary by {percent(kind.unevenness)}): "
                    "relative=true takes each by its own mean, blocks_per_iteration=COUNT tells them apart"
                )
        if parts.p_rank < LEVEL and parts.rank_share > PERSISTENT:
            yield "tau(n) takes ranks as alike, which these are not: it does not carry to other n"
        elif parts.p_rank < LEVEL:
            yield (
                f"ranks are not alike ({likely(parts.p_rank)}): {percent(parts.rank_share)} of the variance between "
                "them stays from block to block, which tau(n) leaves out"
            )
        if self.run > 1:
            yield (
                f"blocks follow each other with correlation {parts.memory:.2f}, so that intervals are from resampled "
                f"runs of {self.run} iterations, and p of the laws is too small"
            )
        if sample.m < MEANINGFUL and sample.by_instance:
            better = " (centring=block is better)" if parts.p_common >= LEVEL else ""
            yield (
                f"maxima of {sample.m} ranks above their own mean are no extremes but differences: tau(n) is too small"
                f"{better}"
            )
        chosen = self.distance[self.family]
        if chosen.p_value < LEVEL:
            yield f"the {self.family} law does not describe these maxima (Anderson-Darling {likely(chosen.p_value)})"
        if self.family == "gumbel" and self.ratio is not None and self.ratio.p_value < LEVEL:
            heavy = "heavier" if self.ratio.gev.xi > 0 else "lighter"
            xi, p = self.ratio.gev.xi, self.ratio.p_value
            miss = self.tax(sample.n, "gev")[0] / sample.tax - 1
            advice = "family=gev takes it up" if abs(miss) <= FAR else (
                f"but family=gev is {off(miss)} the tax of the {sample.n} measured ranks: do not take it"
            )  # fmt: skip
            yield f"a shape xi = {xi:.3f} fits the maxima better ({likely(p)}): the tail is {heavy}; {advice}"
        if self.stability is not None and not self.stability.holds:
            few, many = self.doubled
            yield f"maxima of {many} ranks do not lie where the law of {few} puts them: it does not carry to larger n"
        yield from self._of_the_recipe()
        if self.no_gev:
            yield f"there is no GEV fit: {self.no_gev}"
        for flag in self.laws[self.family].flags:
            yield FLAGS[flag]
        yield from self._too_few()

    def _of_the_recipe(self) -> Iterator[str]:
        """What the way of fitting does to tau(n)."""
        sample, base = self.sample, self.proposal.base
        own = self._law_tax(sample.n)
        if isfinite(own) and abs(own / sample.tax - 1) > FAR:
            yield (
                f"the written law's tax at n = {sample.n}, {duration(own)}, is {off(own / sample.tax - 1)} "
                f"that of the blocks, {duration(sample.tax)}: it does not describe them"
            )
        if sample.by_instance and self.parts.p_cancel < LEVEL and base.get("parent") != "zero_sum":
            yield "the times of a block cancel more than independent ranks' would: parent=zero_sum takes them so"
        elif sample.by_instance and base.get("parent") == "spliced":
            yield (
                "tau(n) is the paper's estimate, from maxima above the mean of the same m ranks, and its intervals are "
                f"of that; at the {sample.n} measured ranks it is {off(self.miss)} what was measured "
                "(family=tail has no such bias)"
            )
        if "offsets" in self.proposal.dependence:
            yield (
                f"at other n the law repeats the offsets of these {sample.n} ranks; {self._anew()} draws new ranks, "
                "other ones for each seed"
            )

    def _anew(self) -> str:
        """Keys that make the ranks' offsets random: the same parts of the variance, of ranks drawn from many."""
        parts, base = self.proposal.parts, self.proposal.base
        whole = parts.common + parts.node + parts.own + parts.rank
        cv = base["cv"] * (whole / parts.total) ** 0.5
        return (
            f"compute.offsets=null compute.spreads=null compute.rank={parts.rank / whole:.3g} compute.law.cv={cv:.4g}"
        )

    def _too_few(self) -> Iterator[str]:
        have = self.laws[self.family].maxima
        wanted = {n: self.needed(n) for n in self.sizes}
        if self.parts.rank_share > PERSISTENT or not any(needed > have for needed in wanted.values()):
            return
        n, needed = max(wanted.items(), key=lambda item: item[1])
        said = f"about {needed:,.0f} would do" if isfinite(needed) else "no number of them would do at this shape"
        yield (
            f"{have:,} maxima leave tau({n}) uncertain by more than {percent(WIDE)}: {said}; it reaches "
            f"{n / self.sample.n:,.0f} times beyond the {self.sample.n} ranks that were measured"
        )
