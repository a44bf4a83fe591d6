"""The two pictures of a simulation: where an iteration's time goes, and how the synchronization tax is distributed.

Everything that is drawn comes ready from ``figures``. Only ``write`` imports matplotlib, and never its pyplot, so no
display, backend or style of the user's plays a part, and a command that draws nothing does not wait for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator import figures

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from simulator.results import Result

# Okabe and Ito's palette, which colour-blind readers can tell apart.
PARTS = {"compute": "#BBBBBB", "wait": "#D55E00", "latency": "#E69F00", "transfer": "#0072B2", "idle": "#E4E4E4"}
DARK = {"wait", "transfer"}
RANKS = {"fastest rank": "#0072B2", "mean rank": "#D55E00", "median rank": "#009E73"}
INK, FAINT = "#222222", "#666666"
SOURCES = {"simulated": "simulated", "model": "closed form"}
MOST = 0.999  # the time axis ends where all but one in a thousand have
WIDTH = 3.5  # inches: one column of a paper

STYLE = {
    "font.size": 7,
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a name is a $
    "savefig.dpi": 300,
    "svg.hashsalt": "simulator",
    "svg.fonttype": "path",
}


def write(result: Result, folder: Path) -> None:
    """Draw both pictures and save each as PNG and SVG in ``folder``; the same bytes for the same result.

    Writes ``time_breakdown.png``, ``time_breakdown.svg``, ``tax_distribution.png`` and ``tax_distribution.svg``.
    """
    with _matplotlib():
        for name, draw in (("time_breakdown", _time_breakdown), ("tax_distribution", _tax_distribution)):
            figure = draw(result)
            figure.savefig(folder / f"{name}.png", metadata={"Software": None})
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def draw_stacked(table: pd.DataFrame, ax: Axes, label: str = "time") -> Axes:
    """The parts of a time (``figures.iteration_parts``) one after another: a bar simulated, a bar closed form."""
    size, symbol = figures.unit(table["simulated"].sum())
    rows = [name for name in SOURCES if table[name].notna().all()]
    left = table[rows].cumsum() - table[rows]
    for i, part in enumerate(table["part"]):
        lengths = [table[name][i] / size for name in rows]
        starts = [left[name][i] / size for name in rows]
        bars = ax.barh(range(len(rows)), lengths, left=starts, height=0.7, color=PARTS[part], label=part)
        texts = [_inside(table[name][i], table[name].sum()) for name in rows]
        ax.bar_label(bars, texts, label_type="center", color="white" if part in DARK else INK)
    _rows(ax, [f"{SOURCES[name]}\n{figures.duration(table[name].sum())}" for name in rows], f"{label}, {symbol}")
    _legend_above(ax, len(table))
    return ax


def draw_overlapping(table: pd.DataFrame, ax: Axes, label: str = "time") -> Axes:
    """Parts that run at the same time (``figures.iteration_parts``), each on a row of its own, all from 0."""
    size, symbol = figures.unit(table["simulated"].max())
    ax.barh(range(len(table)), table["simulated"] / size, height=0.7, color=[PARTS[part] for part in table["part"]])
    times = zip(table["part"], table["simulated"], strict=True)
    _rows(ax, [f"{part}  {figures.duration(time)}" for part, time in times], f"{label}, {symbol}")
    return ax


def draw_waterfall(table: pd.DataFrame, ax: Axes, label: str = "time") -> Axes:
    """The parts of a time (``figures.communication_parts``), each on a row of its own from where the last ended."""
    total = table["simulated"].sum()
    if not total > 0:
        return _nothing(ax, "no communication")
    size, symbol = figures.unit(total)
    rows, colours = range(len(table)), [PARTS[part] for part in table["part"]]
    left = (table[[*SOURCES]].cumsum() - table[[*SOURCES]]) / size
    ax.barh(rows, table["simulated"] / size, left=left["simulated"], height=0.7, color=colours)
    if table["model"].notna().all():
        outline: dict[str, Any] = {"fill": False, "edgecolor": INK, "linewidth": 0.7, "label": SOURCES["model"]}
        ax.barh(rows, table["model"] / size, left=left["model"], height=0.25, **outline)
        ax.legend(loc="lower left" if left["simulated"].iloc[-1] > 0.4 * total / size else "upper right")
    times = zip(table["part"], table["simulated"], strict=True)
    labels = [f"{part}\n{figures.duration(time)}, {figures.percent(time, total)}" for part, time in times]
    _rows(ax, labels, f"{label}, {symbol}")
    return ax


def draw_tax(table: pd.DataFrame, ax: Axes, label: str = "wait") -> Axes:
    """Distribution functions of the wait (``figures.tax_cdf``): solid as simulated, dashed as the closed form."""
    shown = table[table["share"] <= MOST]["wait"].max()
    if not shown > 0:
        return _nothing(ax, "no rank waits")
    size, symbol = figures.unit(shown)
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
    _legend_above(ax, 3)
    return ax


def _inside(part: float, whole: float) -> str:
    """The label of a bar that is long enough to hold one."""
    return f"{figures.duration(part)}, {figures.percent(part, whole)}" if part > 0.3 * whole else ""


def _legend_above(ax: Axes, columns: int) -> None:
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    ax.legend(ncols=columns, handlelength=1.2, handletextpad=0.5, columnspacing=0.9, **place)


def _rows(ax: Axes, labels: list[str], time: str) -> None:
    """Label the rows of horizontal bars, the first at the top, and the time axis."""
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(time)
    ax.margins(x=0.01)
    ax.set_xlim(left=0)


def _nothing(ax: Axes, why: str) -> Axes:
    """An empty picture that says why it is empty."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, why, ha="center", va="center", transform=ax.transAxes, color=FAINT)
    return ax


def _time_breakdown(result: Result) -> Figure:
    """Where an iteration's time goes, and below it the communication, which is too small to read there."""
    figure = _figure(2.75, figures.breakdown_title(result), figures.subtitle(result))
    iteration, communication = figure.subplots(2, height_ratios=[2, 3])
    draw = draw_overlapping if figures.overlaps(result) else draw_stacked
    draw(figures.iteration_parts(result), iteration, figures.iteration_label(result))
    draw_waterfall(figures.communication_parts(result), communication, figures.communication_label(result))
    return figure


def _tax_distribution(result: Result) -> Figure:
    """How long the fastest, mean and median rank wait at a barrier."""
    figure = _figure(2.6, figures.tax_title(result), figures.subtitle(result))
    draw_tax(figures.tax_cdf(result), figure.subplots(), figures.tax_label(result))
    return figure


def _figure(height: float, title: str, subtitle: str) -> Figure:
    """An empty figure, one column wide, that says above its axes what it shows."""
    from matplotlib.figure import Figure

    head = 0.08 + 0.14 * len(title.splitlines())  # inches
    figure = Figure(figsize=(WIDTH, height))
    figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - (head + 0.16) / height))
    figure.text(0.01, 1 - 0.04 / height, title, va="top", fontsize=8, fontweight="bold")
    figure.text(0.01, 1 - head / height, subtitle, va="top", color=FAINT)
    return figure


@contextlib.contextmanager
def _matplotlib() -> Iterator[None]:
    """Matplotlib with our style alone: nothing of the user's own settings, and no word about them."""
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        matplotlib = _import()
        with matplotlib.rc_context(), warnings.catch_warnings():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(STYLE)
            warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name in a script that the font lacks
            yield
    finally:
        log.setLevel(level)


def _import() -> Any:
    """The module matplotlib. The user's MPLBACKEND is set aside meanwhile: an unknown one would stop the import."""
    backend = os.environ.pop("MPLBACKEND", None) if "matplotlib" not in sys.modules else None
    matplotlib = import_module("matplotlib")
    if backend is not None:
        os.environ["MPLBACKEND"] = backend
        with contextlib.suppress(ValueError):
            matplotlib.rcParams["backend"] = backend
    return matplotlib
