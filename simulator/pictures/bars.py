"""Bars of the parts of a time, and distribution functions of a wait: what the pictures of a simulation are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulator.lazy import pd
from simulator.pictures.style import DARK, INK, PARTS, label_rows, legend_above, nothing
from simulator.text import share_label, time_label, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RANKS = {"fastest rank": "#0072B2", "mean rank": "#D55E00", "median rank": "#009E73"}
SOURCES = {"simulated": "simulated", "model": "closed form"}
MOST = 0.999  # the time axis ends where all but one in a thousand have


def draw_stacked(table: pd.DataFrame, ax: Axes, label: str = "time") -> Axes:
    """The parts of a time (``iteration_parts``) one after another: a bar simulated, a bar closed form."""
    size, symbol = unit(table["simulated"].sum())
    rows = [name for name in SOURCES if table[name].notna().all()]
    left = table[rows].cumsum() - table[rows]
    for i, part in enumerate(table["part"]):
        lengths = [table[name][i] / size for name in rows]
        starts = [left[name][i] / size for name in rows]
        bars = ax.barh(range(len(rows)), lengths, left=starts, height=0.7, color=PARTS[part], label=part)
        texts = [_inside(table[name][i], table[name].sum()) for name in rows]
        ax.bar_label(bars, texts, label_type="center", color="white" if part in DARK else INK)
    label_rows(ax, [f"{SOURCES[name]}\n{time_label(table[name].sum())}" for name in rows], f"{label}, {symbol}")
    legend_above(ax, len(table))
    return ax


def draw_overlapping(table: pd.DataFrame, ax: Axes, label: str = "time") -> Axes:
    """Parts that run at the same time (``iteration_parts``), each on a row of its own, all from 0."""
    size, symbol = unit(table["simulated"].max())
    ax.barh(range(len(table)), table["simulated"] / size, height=0.7, color=[PARTS[part] for part in table["part"]])
    times = zip(table["part"], table["simulated"], strict=True)
    label_rows(ax, [f"{part}  {time_label(time)}" for part, time in times], f"{label}, {symbol}")
    return ax


def draw_waterfall(table: pd.DataFrame, ax: Axes, label: str = "time") -> Axes:
    """The parts of a time (``communication_parts``), each on a row of its own from where the last ended."""
    total = table["simulated"].sum()
    if not total > 0:
        return nothing(ax, "no communication")
    size, symbol = unit(total)
    rows, colours = range(len(table)), [PARTS[part] for part in table["part"]]
    left = (table[[*SOURCES]].cumsum() - table[[*SOURCES]]) / size
    ax.barh(rows, table["simulated"] / size, left=left["simulated"], height=0.7, color=colours)
    if table["model"].notna().all():
        outline: dict[str, Any] = {"fill": False, "edgecolor": INK, "linewidth": 0.7, "label": SOURCES["model"]}
        ax.barh(rows, table["model"] / size, left=left["model"], height=0.25, **outline)
        ax.legend(loc="lower left" if left["simulated"].iloc[-1] > 0.4 * total / size else "upper right")
    times = zip(table["part"], table["simulated"], strict=True)
    labels = [f"{part}\n{time_label(time)}, {share_label(time, total)}" for part, time in times]
    label_rows(ax, labels, f"{label}, {symbol}")
    return ax


def draw_tax(table: pd.DataFrame, ax: Axes, label: str = "wait") -> Axes:
    """Distribution functions of the wait (``tax_cdf``): solid as simulated, dashed as the closed form."""
    shown = table[table["share"] <= MOST]["wait"].max()
    if not shown > 0:
        return nothing(ax, "no rank waits")
    size, symbol = unit(shown)
    dashed = SOURCES["model"]
    for (rank, source), curve in table.groupby(["rank", "source"], sort=False):
        x, y = curve["wait"] / size, 100 * curve["share"]
        if source == "simulated":
            ax.step(x, y, where="post", color=RANKS[rank], linewidth=1.5, label=rank)
        elif source == "model":
            ax.plot(x, y, color=INK, linewidth=0.7, linestyle=(0, (4, 2)), label=dashed)
            dashed = ""  # one entry in the legend stands for all of them
        else:
            ax.plot(x, y, color=INK, linewidth=0.7, linestyle=":", label="closed-form mean")
    ax.set(xlim=(0, 1.05 * shown / size), ylim=(0, 101), xlabel=f"{label}, {symbol}", ylabel="share of collectives, %")
    legend_above(ax, 3)
    return ax


def _inside(part: float, whole: float) -> str:
    """The label of a bar that is long enough to hold one."""
    return f"{time_label(part)}, {share_label(part, whole)}" if part > 0.3 * whole else ""
