"""The picture of a fit: the tax against the number of ranks, and the tail that carries it beyond the measured ones."""

from __future__ import annotations

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.lazy import pd
from simulator.pictures.panels import Panel, Picture
from simulator.tasks.fit.fitted import Fitted
from simulator.tasks.fit.words import lead
from simulator.text import duration, percent, unit

POINTS = 12  # of a curve beyond the measured ranks
STYLES = {"dotted": "95 % interval"}
MOST_SHOWN = 600  # measured times of a panel
DRAWN = 20  # times as many of the law, so that its curve is smooth


def picture(found: Fitted) -> Picture:
    """What the ranks pay, and what more would."""
    steps = found.main.steps
    return Picture(
        name="fit",
        title=lead(found).rstrip("."),
        subtitle=f"{len(steps.times):,} steps of {duration(float(steps.times.mean()))} "
        f"± {percent(float(steps.times.std() / steps.times.mean()), 2)} on {steps.n} ranks",
        panels=[_tax(found), _tail(found)],
        columns=2,
    )


def _curve(series: str, style: str, x: Array, y: Array) -> pd.DataFrame:
    return pd.DataFrame({"series": series, "style": style, "x": x, "y": y})


def _tax(found: Fitted) -> Panel:
    main = found.main
    ranks, most = main.steps.n, max([*found.sizes, 2 * main.steps.n])
    inside = np.unique(np.geomspace(2, ranks, 8).round().astype(int))
    beyond = np.unique(np.geomspace(ranks, most, POINTS).round().astype(int))[1:]
    sizes = [*inside.tolist(), *beyond.tolist()]
    estimates = [main.estimate(n) for n in sizes]
    claimed = [own for own in estimates if own.status != "no claim"]
    n = np.array([own.n for own in claimed], dtype=float)
    ends = [
        _curve("estimate", "dotted", n, np.array([getattr(own, end) for own in claimed])) for end in ("low", "high")
    ]
    gap = _curve("estimate", "dotted", np.array([np.nan]), np.array([np.nan]))
    tau = np.array([own.tau if own.status == "ok" else np.nan for own in claimed])
    paper = np.array([main.paper_tax(size)[0] for size in sizes])
    curves = [
        _curve("estimate", "line", n, tau), ends[0], gap, ends[1],
        _curve("the paper's recipe", "dashed", np.array(sizes, dtype=float), paper),
        _curve("measured", "points", np.array([float(ranks)]), np.array([main.steps.tax])),
    ]  # fmt: skip
    table = pd.concat([curve for curve in curves if len(curve)])
    table = table[np.isfinite(table["y"]) | table["x"].isna()]
    size, symbol = unit(float(table["y"].max()))
    ticks = {float(n): f"{n:,}" for n in sorted({2, ranks, *found.sizes})}
    return Panel(table=table.assign(y=table["y"] / size), x="ranks n", y=f"tax of the mean rank, {symbol}", log_x=True,
                 styles=STYLES, ticks=ticks)  # fmt: skip


def _tail(found: Fitted) -> Panel:
    """How often a time is above a value: measured, and of the written law."""
    steps, law = found.main.steps, found.proposal.law
    times = np.sort(steps.times, axis=None)
    size, symbol = unit(float(times[-1]))
    curves = [_exceedance("measured", "points", times, size)]
    try:
        drawn = law.sample(np.random.default_rng(0), (1 + DRAWN * times.size // steps.n, steps.n))
        curves.append(_exceedance("the law", "line", np.sort(drawn, axis=None), size, 0.5 / times.size))
    except InputError:
        pass
    return Panel(
        table=pd.concat(curves), x=f"time between two barriers, {symbol}", y="share of times above", log_y=True,
        from_zero=False,
    )  # fmt: skip


def _exceedance(series: str, style: str, ordered: Array, size: float, least: float = 0.0) -> pd.DataFrame:
    """Down to the ``least`` share; of many values as many at each height as can be seen."""
    above = 1 - (np.arange(len(ordered)) + 0.5) / len(ordered)
    heights = np.geomspace(1, max(above[-1], least), MOST_SHOWN)
    chosen = np.unique(np.searchsorted(-above, -heights).clip(0, len(ordered) - 1))
    return _curve(series, style, ordered[chosen] / size, above[chosen])
