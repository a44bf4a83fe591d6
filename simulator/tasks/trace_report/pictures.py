"""What the pictures of a trace report show: how the tax is distributed, what each rank costs, and what explains it."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log10
from typing import Any

import numpy as np

from simulator.lazy import pd
from simulator.pictures.panels import Panel, Picture
from simulator.text import percent, time_label, unit
from simulator.traces.findings import Findings

MOST_SERIES = 6  # as many colours as can be told apart
MOST_POINTS = 500  # of a curve
MOST_ROWS = 3  # of panels
MOST_NAME = 24  # characters
MOST_RANKS = 16  # in a panel
FAR = 30  # times the median, beyond which the longest waits leave the others no room
RANKS = {"line": "the fastest rank waits", "dashed": "the median rank waits"}
CAUSES = {
    "compute": "Ranks wait for more GPU work of others at {}",
    "idle": "Ranks wait for GPUs that idle longer at {}",
    "unclear": "What ranks wait for at {} is unclear",
}


def pictures(findings: Findings) -> list[Picture]:
    """Pictures of the process groups and operations in which ranks wait longest; none where no tax was measured."""
    tax = findings.tax
    if tax.empty:
        return []
    waits = (tax["tax_mean"] * tax["ranks"]).groupby([tax["group"], tax["operation"]], sort=False).sum()
    kept = waits.sort_values(ascending=False, kind="stable").index[:MOST_SERIES]
    keys = [(str(group), str(operation)) for group, operation in kept]
    found = [_distribution(findings, keys, len(waits)), _costs(findings, keys, len(waits))]
    return [*found, *_cause(findings, keys, len(waits))]


Keys = list[tuple[str, str]]  # process groups and operations, that in which ranks wait longest first


def _of(table: pd.DataFrame, key: tuple[str, str]) -> pd.DataFrame:
    return table[(table["group"] == key[0]) & (table["operation"] == key[1])]


def _name(*names: str) -> str:
    """Names as they fit into a legend."""
    return ", ".join(name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…" for name in names)


def _what(key: tuple[str, str]) -> str:
    return f"{_name(key[1])} of {_name(key[0])}"


def _subtitle(what: str, left_out: int) -> str:
    return f"{what}; {left_out} more operations are not shown" if left_out > 0 else what


def _distribution(findings: Findings, keys: Keys, count: int) -> Picture:
    """Distribution functions of the tax, as a share of kernel time and in time (the seed paper's figure 3)."""
    shown = [(_name(*key), _of(findings.tax, key)) for key in keys]
    fastest = pd.concat([own["tax_fastest"] for _, own in shown])
    size, symbol = unit(fastest.max())
    shares, times = [], []
    for series, own in shown:
        for style, rank in (("line", "fastest"), ("dashed", "median")):
            shares.append(_cdf(series, style, 100 * own[f"share_{rank}"]))
            times.append(_cdf(series, style, own[f"tax_{rank}"] / size))
    time = pd.concat(times)
    far = bool(time["x"].min() > 0 and fastest.max() > FAR * fastest.median())
    decades = range(floor(log10(time["x"].min())), ceil(log10(time["x"].max())) + 1) if far else range(0)
    (worst,) = _of(findings.summary, keys[0]).to_dict("records")
    return Picture(
        name="tax_distribution",
        title=f"Of the time in {_what(keys[0])}, ranks wait {percent(worst['tax_share'])}",
        subtitle=_subtitle("synchronization tax of each collective", count - len(keys)),
        panels=[
            Panel(table=pd.concat(shares), x="of its own kernel time, %", y="share of collectives, %", styles=RANKS),
            Panel(table=time, x=f"wait, {symbol}", y="share of collectives, %", styles=RANKS, log_x=far,
                  ticks={10.0**k: f"{10.0**k:,g}" for k in decades} or None),
        ],
        columns=2,
    )  # fmt: skip


def _cdf(series: str, style: str, values: pd.Series) -> pd.DataFrame:
    """An empirical distribution function as a curve of steps; of many values so many quantiles."""
    ordered = np.sort(values.to_numpy(float))
    if len(ordered) > MOST_POINTS:
        ordered = np.quantile(ordered, np.linspace(0, 1, MOST_POINTS))
    heights = 100 * np.arange(len(ordered) + 1) / len(ordered)
    return pd.DataFrame(
        {"series": series, "style": style, "x": np.repeat(ordered, 2), "y": np.repeat(heights, 2)[1:-1]}
    )


def _costs(findings: Findings, keys: Keys, count: int) -> Picture:
    """How often each rank is the last to arrive, and what there is to gain from it."""
    panels = []
    for key in keys[:MOST_ROWS]:
        own = _of(findings.stragglers, key)
        most = own.sort_values(["saved", "last"], ascending=False, kind="stable").index[:MOST_RANKS]
        shown = own.loc[most].sort_values("rank")
        rank = "rank" if len(own) == len(shown) else f"the {MOST_RANKS} ranks that cost most"
        size, symbol = unit(own["saved"].max())
        for y, heights in (
            ("last to arrive, % of collectives", 100 * shown["last"] / shown["collectives"]),
            (f"saved without it, {symbol} a collective", shown["saved"] / size),
        ):
            bars = pd.DataFrame({"x": shown["rank"], "y": heights, "part": "of this rank"})
            panels.append(Panel(kind="stacked", table=bars, x=rank, y=y, title=_name(*key)))
    (worst,) = _of(findings.summary, keys[0]).to_dict("records")
    gain = f"Without rank {worst['costliest']}, {_what(keys[0])} begins {time_label(worst['costliest_saved'])} earlier"
    return Picture(
        name="stragglers",
        title=gain if worst["costliest_saved"] else f"No rank alone holds up {_what(keys[0])}",
        subtitle=_subtitle("what each rank costs the others by being last, in the mean", count - len(keys[:MOST_ROWS])),
        panels=panels, columns=2,
    )  # fmt: skip


def _cause(findings: Findings, keys: Keys, count: int) -> list[Picture]:
    """The tax of each collective against how far ranks lie apart before it, in work and in idle time."""
    shown = [(key, own) for key in keys if len(own := _of(findings.apart, key))]
    if not shown:
        return []
    longest, symbol = unit(max(own["tax_fastest"].max() for _, own in shown))
    panels = []
    for what, label in (("busy", "GPU work"), ("idle", "GPU idle time")):
        size, unit_of_x = unit(max(own[what].max() for _, own in shown))
        points = [
            pd.DataFrame({"series": _name(*key), "style": "points", "x": own[what].astype(float) / size,
                          "y": own["tax_fastest"] / longest}).dropna().iloc[:: 1 + len(own) // MOST_POINTS]
            for key, own in shown
        ]  # fmt: skip
        points = [part for part in points if len(part)]
        if points:
            panels.append(Panel(table=pd.concat(points), x=f"ranks apart in {label}, {unit_of_x}",
                                y=f"tax of the fastest rank, {symbol}"))  # fmt: skip
    causes: Mapping[Any, Any] = _of(findings.explanation, shown[0][0]).set_index("operation")["cause"].to_dict()
    cause = causes.get(shown[0][0][1], "")
    title = CAUSES.get(cause, "Does what GPUs compute explain how long ranks wait at {}?").format(_what(shown[0][0]))
    subtitle = _subtitle("each point a collective and the compute before it", count - len(shown))
    return [Picture(name="cause", title=title, subtitle=subtitle, panels=panels, columns=len(panels))] if panels else []
