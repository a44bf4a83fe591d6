"""Curves, stacked bars and tornados: the pictures of studies and sweeps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.pictures import Panel, Picture
from simulator.plots.style import (
    FAINT,
    INK,
    PARTS,
    SERIES,
    WIDTH,
    label_rows,
    matplotlib_alone,
    new_figure,
    nothing,
    save,
)  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES: dict[str, dict[str, Any]] = {
    "line": {"linestyle": "-", "linewidth": 1.1},
    "dashed": {"linestyle": (0, (4, 2)), "linewidth": 0.9},
    "dotted": {"linestyle": ":", "linewidth": 0.9},
    "points": {"linestyle": "none", "marker": "o", "markersize": 2.6, "capsize": 1.5, "elinewidth": 0.6},
}
PANEL_HEIGHT = 2.3  # inches


def write_pictures(pictures: Iterable[Picture], folder: Path) -> None:
    """Save each picture as PNG and SVG in ``folder``; the same bytes for the same tables."""
    with matplotlib_alone():
        for picture in pictures:
            rows = -(-len(picture.panels) // picture.columns)
            width = WIDTH if picture.columns == 1 else min(2.4 * picture.columns, 7.2)
            figure = new_figure(0.6 + PANEL_HEIGHT * rows, picture.title, picture.subtitle, width)
            axes = figure.subplots(rows, picture.columns, squeeze=False).ravel()
            for panel, ax in zip(picture.panels, axes, strict=False):
                DRAW[panel.kind](panel, ax)
                if panel.title:
                    ax.set_title(panel.title, fontsize=7, loc="left")
            for ax in axes[len(picture.panels) :]:
                ax.set_axis_off()
            save(figure, folder, picture.name)


def draw_curves(panel: Panel, ax: Axes) -> Axes:
    """Curves of several series and styles: colour is the series, line style what ``panel.styles`` says."""
    table = panel.table
    if table.empty:
        return nothing(ax, "nothing to draw")
    series = list(dict.fromkeys(table["series"]))
    for (name, style), curve in table.groupby(["series", "style"], sort=False):
        colour = SERIES[series.index(name) % len(SERIES)]
        error = curve["error"].to_numpy() if style == "points" and "error" in curve else None
        ax.errorbar(curve["x"], curve["y"], yerr=error, color=colour, **LINES[str(style)])
    if panel.log_x:
        ax.set_xscale("log", base=2)
        ticks = sorted(set(table["x"]))
        ticks = ticks[:: max(1, -(-len(ticks) // 7))]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        ax.set_xticks([], minor=True)
    if panel.log_y:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0 if table["y"].min() >= 0 else None)
    for at, label in (panel.marks or {}).items():
        ax.axvline(at, color=FAINT, linewidth=0.6, linestyle=":")
        ax.annotate(label, (at, 1), xycoords=("data", "axes fraction"), fontsize=6, color=FAINT, rotation=90,
                    va="top", ha="right")  # fmt: skip
    ax.set(xlabel=panel.x, ylabel=panel.y)
    _legend(panel, ax, series)
    return ax


def draw_stacked_bars(panel: Panel, ax: Axes) -> Axes:
    """Upright bars, one per x, of parts on top of each other."""
    table = panel.table
    labels = list(dict.fromkeys(table["x"]))
    below = [0.0] * len(labels)
    for part, rows in table.groupby("part", sort=False):
        heights = rows.set_index("x")["y"].reindex(labels).fillna(0.0).tolist()
        ax.bar(range(len(labels)), heights, bottom=below, width=0.75, color=PARTS.get(str(part), FAINT), label=part)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    ax.set_xticks(range(len(labels)), [str(label) for label in labels], rotation=60 if len(labels) > 6 else 0)
    ax.set(xlabel=panel.x, ylabel=panel.y)
    ax.margins(y=0.25)  # room for the legend
    ax.legend(ncols=2, loc="upper left", fontsize=6, handlelength=1.0, columnspacing=0.8)
    return ax


def draw_tornado(panel: Panel, ax: Axes) -> Axes:
    """Lying bars about a base value: how far a result moves when each input goes to its low and high end."""
    table = panel.table
    for column, colour in (("low", SERIES[0]), ("high", SERIES[1])):
        ax.barh(range(len(table)), table[column] - panel.base, left=panel.base, height=0.65, color=colour,
                label=f"input {column}")  # fmt: skip
    label_rows(ax, [str(label) for label in table["label"]], panel.x)
    ax.autoscale(axis="x")
    ax.margins(x=0.05)
    if panel.log_x:
        ax.set_xscale("log")
    ax.axvline(panel.base, color=INK, linewidth=0.6)
    ax.legend(loc="lower right", fontsize=6, handlelength=1.0)
    return ax


DRAW = {"curves": draw_curves, "stacked": draw_stacked_bars, "tornado": draw_tornado}


def _legend(panel: Panel, ax: Axes, series: list[str]) -> None:
    from matplotlib.lines import Line2D

    used = set(panel.table["style"])
    handles = []
    if len(series) > 1 or series[0]:
        handles += [Line2D([], [], color=SERIES[i % len(SERIES)], linewidth=1.5, label=s) for i, s in enumerate(series)]
    for style, meaning in (panel.styles or {}).items():
        if style in used:
            look = {key: value for key, value in LINES[style].items() if key not in ("capsize", "elinewidth")}
            handles.append(Line2D([], [], color=INK, label=meaning, **look))
    if handles:
        ax.legend(handles=handles, fontsize=6, handlelength=1.8, labelspacing=0.3, ncols=1 if len(handles) < 5 else 2)
