"""The picture of a fit: density and QQ plot (the seed paper's figure 9), return levels, and the tax against n."""

from __future__ import annotations

from math import ceil, log10

import numpy as np

from simulator.arrays import Array
from simulator.laws.gev import box_cox
from simulator.lazy import pd
from simulator.pictures.panels import Panel, Picture
from simulator.statistics.components import LEVEL
from simulator.tasks.fit.maxima.fitted import MaximaFit
from simulator.tasks.fit.maxima.law import PERSISTENT
from simulator.text import duration, percent, unit

NAMES = {"gumbel": "Gumbel", "gev": "GEV"}
STYLES = {
    "line": "fitted maxima", "points": "measured", "dashed": "histogram; equality; the law's own", "dotted": "interval",
}  # fmt: skip
POINTS = 200  # of a drawn curve
MOST_SHOWN = 1000  # measured points of a panel


def picture(found: MaximaFit) -> Picture:
    """What the fit is like, and what it says of larger domains."""
    last, family = found.taxes.iloc[-1], found.family
    low, high = last["tau_paper_low"], last["tau_paper_high"]
    doubt = ""
    if found.distance[family].p_value < LEVEL:
        doubt = ", a law that does not fit"
    if found.proposal.parts.rank_share > PERSISTENT:
        doubt = ", were ranks alike, which they are not"
    return Picture(
        name="fit",
        title=f"{NAMES[family]} maxima put the tax at n = {last['n']:,.0f} between {duration(low)} and "
        f"{duration(high)}{doubt}",
        subtitle=f"{len(found.z):,} maxima of {found.sample.m} ranks; blocks of {duration(found.sample.mean)} "
        f"± {percent(found.sample.cv, 2)}; intervals of {found.level * 100:g} %",
        panels=[_density(found), _qq(found), _return_level(found), _tax(found)],
        columns=2,
    )


def _curve(series: str, style: str, x: Array, y: Array) -> pd.DataFrame:
    return pd.DataFrame({"series": series, "style": style, "x": x, "y": y})


def _thinned(values: Array) -> tuple[Array, Array]:
    """Sorted values with their plotting positions (i - 0.5)/n; of many all at the ends and every so many between."""
    ordered = np.sort(values)
    places = (np.arange(len(ordered)) + 0.5) / len(ordered)
    if len(ordered) > MOST_SHOWN:
        inner = np.linspace(50, len(ordered) - 51, MOST_SHOWN - 100).astype(int)
        chosen = np.unique(np.r_[0:50, inner, len(ordered) - 50 : len(ordered)])
        ordered, places = ordered[chosen], places[chosen]
    return ordered, places


def _density(found: MaximaFit) -> Panel:
    z = found.z
    edges = np.histogram_bin_edges(z, bins=min(40, max(8, int(np.sqrt(len(z))))))
    heights, _ = np.histogram(z, edges, density=True)
    steps = _curve("trace", "dashed", np.repeat(edges, 2), np.r_[0.0, np.repeat(heights, 2), 0.0])
    grid = np.linspace(edges[0] - 0.1, edges[-1] + 0.1, POINTS)
    curves = [_curve(NAMES[name], "line", grid, _pdf(fitted.fit, grid)) for name, fitted in found.laws.items()]
    return Panel(table=pd.concat([*curves, steps]), x="z of the maximum", y="density", styles=STYLES)


def _pdf(law: tuple[float, float, float], z: Array) -> Array:
    from simulator.laws.gev import inverse_box_cox

    mu, sigma, xi = law
    y = inverse_box_cox((z - mu) / sigma, xi)
    with np.errstate(over="ignore", invalid="ignore"):
        density = np.exp(-(1 + xi) * y - np.exp(-y)) / sigma
    return np.nan_to_num(density, nan=0.0)


def _quantile(law: tuple[float, float, float], p: Array) -> Array:
    mu, sigma, xi = law
    return np.asarray(mu + sigma * box_cox(-np.log(-np.log(p)), xi))


def _qq(found: MaximaFit) -> Panel:
    ordered, places = _thinned(found.z)
    points = [_curve(NAMES[name], "points", _quantile(f.fit, places), ordered) for name, f in found.laws.items()]
    ends = np.array([ordered[0], ordered[-1]])
    same = _curve("trace", "dashed", ends, ends)
    return Panel(table=pd.concat([*points, same]), x="fitted quantile of z", y="measured quantile of z", styles=STYLES,
                 from_zero=False)  # fmt: skip


def _return_level(found: MaximaFit) -> Panel:
    ordered, places = _thinned(found.z)
    periods = np.geomspace(1.05, 10 * len(found.z), POINTS)
    upper = places > 1 - 1 / 1.05
    measured = _curve("trace", "points", 1 / (1 - places[upper]), ordered[upper])
    curves = [_curve(NAMES[name], "line", periods, _quantile(f.fit, 1 - 1 / periods)) for name, f in found.laws.items()]
    ticks = {10.0**i: f"{10**i:,}" for i in range(ceil(log10(periods[-1])))}
    return Panel(table=pd.concat([*curves, measured]), x="return period, blocks", y="z of the maximum", log_x=True,
                 ticks=ticks, styles=STYLES, from_zero=False)  # fmt: skip


def _tax(found: MaximaFit) -> Panel:
    sample = found.sample
    sizes = np.geomspace(sample.m, max(found.taxes["n"].max(), 2 * sample.m), 25)
    curves = []
    for name, fitted in found.laws.items():
        ends = [fitted.interval("tau", n / sample.m, found.level) for n in sizes]
        middle = np.array([fitted.estimate("tau", n / sample.m) for n in sizes])
        curves.append(_curve(NAMES[name], "line", sizes, sample.mean * middle))
        lows, highs = (sample.mean * np.array([end[side] for end in ends]) for side in (0, 1))
        gap = np.array([np.nan])  # between the lower and the upper end
        curves.append(_curve(NAMES[name], "dotted", np.r_[sizes, gap, sizes], np.r_[lows, gap, highs]))
    taxes = found.taxes[found.taxes["tau_law"].notna()]
    curves.append(_curve("written law", "dashed", taxes["n"].to_numpy(float), taxes["tau_law"].to_numpy(float)))
    measured = {sample.m: sample.mean * sample.cv * float(found.z.mean()), sample.n: sample.tax}
    points = _curve("trace", "points", np.array(list(measured)), np.array(list(measured.values())))
    table = pd.concat([*curves, points])
    table = table.assign(y=table["y"].replace(np.inf, np.nan))
    size, symbol = unit(float(table["y"].max()))
    table = table.assign(y=table["y"] / size)
    ticks = {float(n): f"{n:,}" for n in sorted({sample.m, *found.taxes["n"]})}
    return Panel(table=table, x="ranks n", y=f"tax of the mean rank, {symbol}", log_x=True, ticks=ticks, styles=STYLES)
