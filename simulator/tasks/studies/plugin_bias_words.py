"""Which way of estimating the tax is best where, in words and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import isnan
from typing import Any

from simulator.lazy import pd
from simulator.pictures.panels import Panel, Picture
from simulator.tasks.studies.ways import Way

GOOD = 0.2  # RMSE up to which an estimate is called good: of the tax +-20 %


class Comparison:
    """Errors of several ways, by law and size.

    Args:
        table: columns law, estimator, m, n, bias, rmse and answered.
        ways: those of the table; the paper's recipe first, the one that fits no maxima last.
        measured: what each estimate was made from, in words.
    """

    def __init__(self, table: pd.DataFrame, ways: Sequence[Way], measured: str):
        names = {(way.text, way.m): str(way) for way in ways}
        least = max(way.least for way in ways)  # below, not every way is asked
        asked = table[table["n"] >= least]
        asked = asked.assign(way=[names[key] for key in zip(asked["estimator"], asked["m"], strict=True)])
        self.table = asked.set_index(["law", "n", "way"])
        self.ways = list(names.values())
        self.measured = measured
        self.laws = list(dict.fromkeys(asked["law"]))
        self.sizes = list(dict.fromkeys(asked["n"]))
        self.paper, self.tail = self.ways[0], self.ways[-1]

    @cached_property
    def rmse(self) -> pd.DataFrame:
        """Root mean square errors: a row for each law and size, a column for each way.

        NaN where a way gives no number for most samples.
        """
        given = self.table["rmse"].where(self.table["answered"] >= 0.5).unstack("way")
        return given.loc[pd.MultiIndex.from_product([self.laws, self.sizes]), self.ways]

    @cached_property
    def comparable(self) -> pd.DataFrame:
        """Rows in which every way gives numbers; all where there are none."""
        whole = self.rmse.dropna()
        return whole if len(whole) else self.rmse

    @cached_property
    def fit(self) -> str:
        """The law of maxima with the smallest error on average."""
        return str(self.comparable.drop(columns=self.tail).mean().idxmin())

    @cached_property
    def best(self) -> str:
        """The way with the smallest error on average."""
        return str(self.comparable.mean().idxmin())

    def text(self) -> str:
        """The finding, and tables of errors."""
        return "\n".join([*self._finding(), "", *self._by_way(), "", *self._by_law()])

    def _finding(self) -> Iterator[str]:
        rmse = self.comparable
        mean, worst = rmse[self.best].mean(), rmse[self.best].max()
        yield (
            f"from {self.measured}, {self.best} is nearest to the true tax: RMSE {mean:.0%} on average, "
            f"{worst:.0%} at worst"
        )
        ways = [way for way in dict.fromkeys([self.best, self.tail, self.fit, self.paper]) if rmse[way].notna().any()]
        names = [f"{way} (the paper's recipe)" if way == self.paper else way for way in ways]
        width = max(map(len, names))
        title = f"ways: {len(self.ways)}, cases of law and size: {len(rmse)}"
        yield f"  {title:<{width}}   mean  worst  behind best      bias           worst for"
        for way, name in zip(ways, names, strict=True):
            bias = self.table["bias"].xs(way, level="way").loc[rmse.index]
            behind = (rmse[way] - rmse.min(axis=1)).max()
            yield (
                f"  {name:<{width}} {rmse[way].mean():>6.0%} {rmse[way].max():>6.0%} {f'up to {behind * 100:.0f}':>12}"
                f"  {f'{bias.min():+.0%} to {bias.max():+.0%}':<15}{_place(rmse[way].idxmax())}"
            )
        yield from self._not_good()

    def _not_good(self) -> Iterator[str]:
        """Where the nearest way gives a good number, where no way does, and where one gives none."""
        poor = (self.comparable > GOOD).sum()
        yield (
            f"above {GOOD:.0%} in {poor[self.best]} of {len(self.comparable)} cases; the paper's recipe in "
            f"{poor[self.paper]}"
        )
        for row, errors in self.rmse.iterrows():
            low, high = errors.min(), errors.max()
            for way in errors.index[errors.isna()]:
                missing = 1 - self.table["answered"][(*row, way)]
                yield (
                    f"{_place(row)}: {way} gives no number in {missing:.0%} of samples; RMSE of others {low:.0%} to "
                    f"{high:.0%}"
                )
            if low > GOOD:
                yield f"{_place(row)}: no way is good, the best has an RMSE of {low:.0%} ({errors.idxmin()})"

    def _by_way(self) -> Iterator[str]:
        """Mean and worst error of each way, by size."""
        width = max(map(len, self.ways))
        yield "RMSE in % of the true tax, mean / worst of the laws for which all ways give numbers"
        yield " way  " + "".ljust(width) + "".join(f"{f'n = {n}':>12}" for n in self.sizes)
        by_size = self.comparable.groupby(level=1)
        for number, way in enumerate(self.ways, 1):
            mean, worst = by_size[way].mean(), by_size[way].max()
            told = mean.dropna().index
            cells = [f"{mean[n] * 100:.0f} / {worst[n] * 100:.0f}" if n in told else "-" for n in self.sizes]
            yield f"  {number:>2}  {way:<{width}}" + "".join(f"{cell:>12}" for cell in cells)

    def _by_law(self) -> Iterator[str]:
        """Error and bias of the ways that matter, and which of all is best, by law and size."""
        numbers = {way: number for number, way in enumerate(self.ways, 1)}
        shown = list(dict.fromkeys([self.paper, self.fit, self.tail]))
        width = max(map(len, [*shown, "smallest RMSE, and its way"]))
        yield "RMSE (bias) in % of the true tax"
        for law in self.laws:
            yield f"  {spoken(law):<{width + 2}}" + "".join(f"{f'n = {n}':>15}" for n in self.sizes)
            for way in shown:
                yield f"    {way:<{width}}" + "".join(f"{self._cell(law, n, way):>15}" for n in self.sizes)
            best = self.rmse.loc[law]
            cells = [f"{best.loc[n].min() * 100:.1f} way {numbers[best.loc[n].idxmin()]:>2}" for n in self.sizes]
            yield f"    {'smallest RMSE, and its way':<{width}}" + "".join(f"{cell:>15}" for cell in cells)

    def _cell(self, law: str, n: int, way: str) -> str:
        if isnan(self.rmse.loc[(law, n), way]):
            return "no number"
        row = self.table.loc[(law, n, way)]
        return f"{row['rmse'] * 100:.1f} ({row['bias'] * 100:+.1f})"

    def picture(self) -> Picture:
        """RMSE against n: a panel for each law, a curve for each of a few ways."""
        paper = self.comparable[self.paper]
        best = self.comparable[self.best]
        return Picture(
            name="rmse",
            title=f"{self.best.capitalize()} is off by {best.mean():.0%} on average and {best.max():.0%} at worst; "
            f"the paper's recipe by {paper.mean():.0%} and {paper.max():.0%}",
            subtitle=f"panels: the true law of a rank; estimates from {self.measured}; no point: no number claimed",
            panels=[self._panel(law) for law in self.laws],
            columns=3,
            shared=True,
        )

    def _panel(self, law: str) -> Panel:
        shape_free = self.paper.replace("Gumbel", "GEV")
        drawn = {self.tail: self.tail, self.fit: f"best law of maxima: {self.fit}"}
        drawn |= {self.paper: f"the paper's: {self.paper}"}
        drawn |= {shape_free: f"shape free: {shape_free}"} if shape_free in self.ways and shape_free != self.fit else {}
        curves = self.rmse.loc[law, list(drawn)].mul(100).rename(columns=drawn).rename_axis("x").reset_index()
        table = curves.melt(id_vars="x", var_name="series", value_name="y").assign(style="marked")
        return Panel(
            table=table, x="ranks in the scale-up domain",
            y="RMSE, % of the true tax", log_x=True, log_y=True, title=spoken(law),
            ticks={n: f"{n:,}" for n in self.sizes}, levels={GOOD * 100: f"{GOOD:.0%}" if law == self.laws[0] else ""},
        )  # fmt: skip


def _place(row: Any) -> str:
    return f"{spoken(row[0])}, n = {row[1]}"


def spoken(law: str) -> str:
    """The name of a law in text and titles."""
    return law.replace("_", " ")
