"""What the pictures of a trace report show: how the tax is distributed, who is last, and what explains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.lazy import pd
from simulator.pictures.panels import Panel, Picture
from simulator.text import percent, unit

MOST_SERIES = 6  # as many colours as can be told apart
MOST_POINTS = 500  # of a curve
MOST_PANELS = 4
MOST_NAME = 24  # characters
MOST_RANKS = 32  # in a panel
RANKS = {"line": "the fastest rank waits", "dashed": "the median rank waits"}


def pictures(summary: pd.DataFrame, tax: pd.DataFrame, apart: pd.DataFrame) -> list[Picture]:
    """Pictures of the process groups and operations that wait longest; none where no tax was measured.

    Args:
        summary: one row per group and operation (``measure.summary_table``).
        tax: one row per collective (``measure.tax_table``).
        apart: spreads of compute (``measure.spreads``).
    """
    if tax.empty:
        return []
    waits = tax.groupby(["group", "operation"], sort=False)["tax_fastest"].sum()
    kept = waits.sort_values(ascending=False, kind="stable").index[:MOST_SERIES]
    left_out = len(waits) - len(kept)
    shown = [(str(group), str(operation), _of(tax, group, operation)) for group, operation in kept]
    found = [_distribution(summary, shown, left_out), _last(summary, shown, left_out)]
    if len(apart):
        found += _cause([(group, operation, _of(apart, group, operation)) for group, operation, _ in shown], left_out)
    return found


Shown = list[tuple[str, str, "pd.DataFrame"]]


def _of(table: pd.DataFrame, group: Any, operation: Any) -> pd.DataFrame:
    return table[(table["group"] == group) & (table["operation"] == operation)]


def _name(*names: str) -> str:
    """Names as they fit into a legend."""
    return ", ".join(name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…" for name in names)


def _what(row: Mapping[Any, Any]) -> str:
    return f"{_name(row['operation'])} of {_name(row['group'])}"


def _subtitle(what: str, left_out: int) -> str:
    return f"{what}; {left_out} more not shown" if left_out else what


def _distribution(summary: pd.DataFrame, shown: Shown, left_out: int) -> Picture:
    """Distribution functions of the tax, as a share of kernel time and in time (the seed paper's figure 3)."""
    longest = max(own["tax_fastest"].max() for *_, own in shown)
    size, symbol = unit(longest)
    shares, times = [], []
    for group, operation, own in shown:
        for style, rank in (("line", "fastest"), ("dashed", "median")):
            series = _name(group, operation)
            shares.append(_cdf(series, style, 100 * own[f"share_{rank}"]))
            times.append(_cdf(series, style, own[f"tax_{rank}"] / size))
    worst = summary.loc[summary["tax_share"].idxmax()]
    return Picture(
        name="tax_distribution",
        title=f"Of the time in {_what(worst)}, ranks wait {percent(worst['tax_share'])}",
        subtitle=_subtitle("synchronization tax of each collective", left_out),
        panels=[
            Panel(table=pd.concat(shares), x="of its own kernel time, %", y="share of collectives, %", styles=RANKS),
            Panel(table=pd.concat(times), x=f"wait, {symbol}", y="share of collectives, %", styles=RANKS),
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


def _last(summary: pd.DataFrame, shown: Shown, left_out: int) -> Picture:
    """How often each rank is the last to arrive."""
    rows = {(row["group"], row["operation"]): row for row in summary.to_dict("records")}
    panels = []
    for group, operation, own in shown[:MOST_PANELS]:
        counts = own["straggler"].value_counts()
        most = counts.sort_values(ascending=False, kind="stable").index[:MOST_RANKS]
        table = counts[most].sort_index().rename_axis("x").reset_index(name="y")
        of = "" if len(most) == len(counts) else f" (the {MOST_RANKS} that are last most often)"
        panels.append(
            Panel(kind="stacked", table=table.assign(y=100 * table["y"] / len(own), part="last"), x=f"rank{of}",
                  y="share of collectives, %", title=_name(group, operation))
        )  # fmt: skip
    worst = max((rows[group, operation] for group, operation, _ in shown[:MOST_PANELS]),
                key=lambda row: row["straggler_repeat_rate"])  # fmt: skip
    repeats = round(worst["straggler_repeat_rate"] * worst["collectives"])
    return Picture(
        name="stragglers",
        title=f"Rank {worst['straggler']} is last in {repeats:,} of {worst['collectives']:,} {_what(worst)}",
        subtitle=_subtitle("how often each rank is last to arrive; ranks not shown never are",
                           left_out + max(0, len(shown) - MOST_PANELS)),
        panels=panels, columns=min(2, len(panels)),
    )  # fmt: skip


def _cause(shown: Shown, left_out: int) -> list[Picture]:
    """The tax of each collective against how far ranks lie apart before it, in work and in idle time."""
    longest = max((own["tax_fastest"].max() for *_, own in shown if len(own)), default=0.0)
    size, symbol = unit(longest)
    panels = []
    for what, label in (("busy", "GPU work"), ("idle", "GPU idle time")):
        points = [
            pd.DataFrame({"series": _name(group, operation), "style": "points", "x": own[what].astype(float) / size,
                          "y": own["tax_fastest"] / size}).dropna().iloc[:: 1 + len(own) // MOST_POINTS]
            for group, operation, own in shown
        ]  # fmt: skip
        table = pd.concat([part for part in points if len(part)]) if any(len(part) for part in points) else None
        if table is not None:
            panels.append(
                Panel(table=table, x=f"ranks apart in {label}, {symbol}", y=f"tax of the fastest rank, {symbol}")
            )
    subtitle = _subtitle("each point a collective and the compute before it", left_out)
    title = "Does what GPUs compute explain how long they wait?"
    return [Picture(name="cause", title=title, subtitle=subtitle, panels=panels, columns=len(panels))] if panels else []
