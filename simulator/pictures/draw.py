"""Curves, stacked bars and tornados: the pictures of studies and sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log2, log10
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from simulator.pictures.panels import Panel, Picture
from simulator.pictures.style import (
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
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES: dict[str, dict[str, Any]] = {
    "line": {"linestyle": "-", "linewidth": 1.1},
    "dashed": {"linestyle": (0, (4, 2)), "linewidth": 0.9},
    "dotted": {"linestyle": ":", "linewidth": 0.9},
    "points": {
        "linestyle": "none",
        "marker": "o",
        "markersize": 1.8,
        "capsize": 1.8,
        "elinewidth": 0.6,
        "capthick": 0.6,
    },
}
# Of a curve in style "marked", by the place of its series: what tells it from others in print without colours.
MARKS: list[dict[str, Any]] = [
    {"marker": marker, "linestyle": dashes, "linewidth": 1.0, "markersize": 3.2}
    for marker, dashes in [
        ("o", "-"),
        ("s", (0, (5, 2))),
        ("^", (0, (1, 1.5))),
        ("D", (0, (6, 2, 1, 2))),
        ("v", (0, (3, 1))),
    ]
]
LEGEND_KEYS = {"linestyle", "linewidth", "marker", "markersize"}
DARK_SERIES = {"iteration": INK, "measured": INK, "trace": INK, "equal": FAINT}  # what others are held against
PANEL_HEIGHT = 2.5  # inches
LABELS = 6  # on a logarithmic axis


def write_pictures(pictures: Iterable[Picture], folder: Path) -> None:
    """Save each picture as PNG and SVG in ``folder``; the same bytes for the same tables."""
    with matplotlib_alone():
        for picture in pictures:
            rows = -(-len(picture.panels) // picture.columns)
            width = WIDTH if picture.columns == 1 else min(2.4 * picture.columns, 7.2)
            figure = new_figure(0.8 + PANEL_HEIGHT * rows, _wrapped(picture.title, 15 * width),
                                _wrapped(picture.subtitle, 20 * width), width)  # fmt: skip
            share: Any = "all" if picture.shared else "none"
            axes = figure.subplots(rows, picture.columns, squeeze=False, sharex=share, sharey=share).ravel()
            for panel, ax in zip(picture.panels, axes, strict=False):
                DRAW[panel.kind](panel, ax)
                if panel.title:
                    ax.set_title(panel.title, fontsize=7, loc="left", pad=11 if panel.marks else None)
            if picture.shared:
                _share(picture, list(axes))
            _one_legend(figure, list(axes[: len(picture.panels)]))
            for ax in axes[len(picture.panels) :]:
                ax.set_axis_off()
            save(figure, folder, picture.name)


def undrawn(draw: Callable[[], None]) -> list[str]:
    """Draw; where that goes wrong, say why pictures are left out instead of raising: it must not lose a table."""
    try:
        draw()
    except OSError:  # the disk is full: nothing can be kept
        raise
    except Exception as error:
        return [f"pictures left out: {type(error).__name__}: {error}"]
    return []


def draw_curves(panel: Panel, ax: Axes) -> Axes:
    """Curves of several series and styles: colour is the series, line style what ``panel.styles`` says."""
    table = panel.table
    if table.empty:
        return nothing(ax, "nothing to draw")
    series = list(dict.fromkeys(table["series"]))
    for (name, style), curve in table.groupby(["series", "style"], sort=False):
        colour = _colour(series, name)
        error = curve["error"].to_numpy() if style == "points" and "error" in curve else None
        look = _mark(series, name) if style == "marked" else LINES[str(style)]
        ax.errorbar(curve["x"], curve["y"], yerr=error, color=colour, **look)
    if panel.log_x:
        ax.set_xscale("log")
        if panel.ticks:
            ax.set_xticks(list(panel.ticks), list(panel.ticks.values()))
        else:
            places, labelled = _log_ticks(table["x"])
            ax.set_xticks(places, [f"{tick:,g}" if tick in labelled else "" for tick in places])
        ax.minorticks_off()
    elif panel.ticks:
        ax.set_xticks(list(panel.ticks), list(panel.ticks.values()))
    if panel.log_y:
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,g}" if value < 1e6 else f"{value:g}")
        ax.yaxis.set_minor_formatter("")
    elif table["y"].min() >= 0 and panel.from_zero:
        ax.set_ylim(bottom=0)
    for at, label in (panel.marks or {}).items():
        ax.axvline(at, color=FAINT, linewidth=0.6, linestyle=":")
        ax.annotate(label, (at, 1), xycoords=("data", "axes fraction"), fontsize=6, color=FAINT, va="bottom",
                    ha="center")  # fmt: skip
    for at, label in (panel.levels or {}).items():
        ax.axhline(at, color=FAINT, linewidth=0.6, linestyle=":")
        ax.annotate(label, (0.02, at), xycoords=("axes fraction", "data"), fontsize=6, color=FAINT, va="top")
    ax.set(xlabel=panel.x, ylabel=panel.y)
    _legend(panel, ax, series)
    return ax


def draw_stacked_bars(panel: Panel, ax: Axes) -> Axes:
    """Upright bars, one per x, of parts on top of each other; a single part has no legend."""
    table = panel.table
    labels = list(dict.fromkeys(table["x"]))
    below = [0.0] * len(labels)
    for part, rows in table.groupby("part", sort=False):
        heights = rows.set_index("x")["y"].reindex(labels).fillna(0.0).tolist()
        ax.bar(range(len(labels)), heights, bottom=below, width=0.75, color=PARTS.get(str(part), SERIES[0]), label=part)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    crowded = len(labels) > 6 and sum(len(str(label)) for label in labels) > 24
    ax.set_xticks(range(len(labels)), [str(label) for label in labels], rotation=60 if crowded else 0)
    ax.set(xlabel=panel.x, ylabel=panel.y)
    if table["part"].nunique() > 1:
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


def _colour(series: Sequence[str], name: str) -> str:
    """A part of a time has one colour in all pictures; other series take theirs in order."""
    return PARTS.get(name) or DARK_SERIES.get(name) or SERIES[series.index(name) % len(SERIES)]


def _mark(series: Sequence[str], name: str) -> dict[str, Any]:
    return MARKS[series.index(name) % len(MARKS)]


def _log_ticks(values: Iterable[float]) -> tuple[list[float], set[float]]:
    """Where a logarithmic axis has ticks, and which of them are labelled.

    A few distinct values (a sweep) have a tick each; labels go to as many as fit: both ends first, then
    powers of 2, then the rest from the largest down.
    Many have ticks at 1, 2 and 5 times a power of 10.
    """
    distinct = sorted(set(values))
    low, high = distinct[0], distinct[-1]
    if len(distinct) > 20:
        decades = range(floor(log10(low)), ceil(log10(high)) + 1)
        round_ones = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
        inside = [tick for tick in round_ones if low * 0.99 <= tick <= high * 1.01]
        return inside, set(inside)
    room = log2(high / low) / LABELS
    labelled: set[float] = set()
    for value in sorted(distinct, key=lambda v: (v not in (low, high), log2(v) % 1 != 0, -v)):
        if all(abs(log2(value / other)) >= room for other in labelled):
            labelled.add(value)
    return distinct, labelled


def _share(picture: Picture, axes: Sequence[Axes]) -> None:
    """Limits that hold for all panels of curves, and labels at the left and where no panel is below."""
    for i, (panel, ax) in enumerate(zip(picture.panels, axes, strict=False)):
        ax.label_outer()
        if i + picture.columns >= len(picture.panels):
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(panel.x)
    if not any(panel.log_y for panel in picture.panels):
        axes[0].autoscale(axis="y")
        if all(panel.table["y"].min() >= 0 for panel in picture.panels):
            axes[0].set_ylim(bottom=0)


def _one_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """Where panels mean the same by the same colours, draw one legend, below them, where no curve can run into it."""
    legends = [legend for ax in axes if (legend := ax.get_legend()) is not None]
    entries: dict[str, Any] = {}
    for legend in legends:
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
            known: Any = entries.setdefault(text.get_text(), handle)
            if not isinstance(known, type(handle)) or _look(known) != _look(handle):
                return
    if len(legends) == len(axes):
        for legend in legends:
            legend.remove()
        for columns in range(round(figure.get_figwidth() / 1.6), 0, -1):  # inches that a short entry needs
            place: Any = {"loc": "outside lower center", "ncols": columns}
            legend = figure.legend(list(entries.values()), list(entries), fontsize=6, handlelength=1.8, **place)
            if columns == 1 or legend.get_window_extent().width <= 0.95 * figure.bbox.width:
                break
            legend.remove()


def _look(handle: Any) -> tuple[Any, ...]:
    return tuple(getattr(handle, f"get_{what}", str)() for what in ("color", "facecolor", "linestyle", "marker"))


def _wrapped(title: str, width: float) -> str:
    """A title on as many lines as it needs, of ``width`` characters and about equally long."""
    most = int(width)
    parts: list[str] = []
    for line in filter(None, title.splitlines()):
        lines = len(wrap(line, most))
        parts += next(even for room in range(len(line) // lines, most + 1) if len(even := wrap(line, room)) <= lines)
    return "\n".join(parts)


def _legend(panel: Panel, ax: Axes, series: list[str]) -> None:
    from matplotlib.lines import Line2D

    used = set(panel.table["style"])
    handles = []
    if len(series) > 1 or series[0]:
        marked = "marked" in used
        looks = [_mark(series, s) if marked else {"linewidth": 1.5} for s in series]
        handles += [
            Line2D([], [], color=_colour(series, s), label=s, **look) for s, look in zip(series, looks, strict=True)
        ]
    for style, meaning in (panel.styles or {}).items():
        if style in used:
            look = {key: value for key, value in LINES[style].items() if key in LEGEND_KEYS}
            handles.append(Line2D([], [], color=INK, label=meaning, **look))
    if handles:
        ax.legend(handles=handles, fontsize=6, handlelength=1.8, labelspacing=0.3, ncols=1 if len(handles) < 5 else 2)
