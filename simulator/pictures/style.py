"""What all pictures share: style, palette, an empty figure, and how one is saved. The same bytes on every run.

Matplotlib is imported when a picture is made, and never its pyplot, so no display, backend or style of the user's plays
a part, and a command that draws nothing does not wait for it.
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart.
PARTS = {"compute": "#BBBBBB", "wait": "#D55E00", "latency": "#E69F00", "transfer": "#0072B2", "idle": "#E4E4E4"}
DARK = {"wait", "transfer"}
SERIES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999"]
INK, FAINT = "#222222", "#666666"
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


def legend_above(ax: Axes, columns: int) -> None:
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    ax.legend(ncols=columns, handlelength=1.2, handletextpad=0.5, columnspacing=0.9, **place)


def label_rows(ax: Axes, labels: list[str], time: str) -> None:
    """Label the rows of horizontal bars, the first at the top, and the time axis."""
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(time)
    ax.margins(x=0.01)
    ax.set_xlim(left=0)


def nothing(ax: Axes, why: str) -> Axes:
    """An empty picture that says why it is empty."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, why, ha="center", va="center", transform=ax.transAxes, color=FAINT)
    return ax


def save(figure: Figure, folder: Path, name: str) -> None:
    """Save a figure as ``name.png`` and ``name.svg``; call it inside ``matplotlib_alone``."""
    figure.savefig(folder / f"{name}.png", metadata={"Software": None})
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def new_figure(height: float, title: str, subtitle: str, width: float = WIDTH) -> Figure:
    """An empty figure, one column wide, that says above its axes what it shows; inches."""
    from matplotlib.figure import Figure

    head = 0.08 + 0.14 * len(title.splitlines())  # inches
    lines = len(subtitle.splitlines())
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - (head + 0.04 + 0.12 * lines) / height))
    figure.text(0.01, 1 - 0.04 / height, title, va="top", fontsize=8, fontweight="bold")
    figure.text(0.01, 1 - head / height, subtitle, va="top", color=FAINT)
    return figure


@contextlib.contextmanager
def matplotlib_alone() -> Iterator[None]:
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
    """The module matplotlib. What would stop its import is set aside: an unknown MPLBACKEND, a matplotlibrc here."""
    backend = os.environ.pop("MPLBACKEND", None) if "matplotlib" not in sys.modules else None
    with contextlib.chdir(Path(__file__).parent) if os.path.exists("matplotlibrc") else contextlib.nullcontext():
        matplotlib = import_module("matplotlib")
    if backend is not None:
        os.environ["MPLBACKEND"] = backend
        with contextlib.suppress(ValueError):
            matplotlib.rcParams["backend"] = backend
    return matplotlib
