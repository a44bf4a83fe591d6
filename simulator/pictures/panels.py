"""What a picture of curves shows, not how it is drawn: tables, labels, and a title that says the finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from simulator.checks import InputError
from simulator.lazy import pd


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes.

    Attributes:
        kind: ``curves`` draws columns series, style (``line``, ``dashed``, ``dotted``, ``points``, or ``marked``, by
            markers and dashes of its series), x, y, and where there is one, error (half the length of an error bar).
            ``stacked`` draws upright bars from columns x (a label), part and y. ``tornado`` draws bars from columns
            label, low and high about ``base``.
        table: what is drawn, in the units of the labels.
        x, y: labels of the axes, with units.
        log_x, log_y: logarithmic axes.
        title: above the panel, where there are several.
        styles: what each style of a curve means, for the legend.
        marks: labelled upright lines: x -> label.
        levels: labelled lying lines: y -> label.
        ticks: labelled places of the x axis: x -> label; None finds them.
        from_zero: whether the y axis begins at 0 where nothing is below; False shows differences alone.
        base: where the bars of a tornado begin.
    """

    table: pd.DataFrame
    x: str
    y: str
    kind: Literal["curves", "stacked", "tornado"] = "curves"
    log_x: bool = False
    log_y: bool = False
    title: str = ""
    styles: dict[str, str] | None = None
    marks: dict[float, str] | None = None
    levels: dict[float, str] | None = None
    ticks: dict[float, str] | None = None
    from_zero: bool = True
    base: float = 0.0

    def __post_init__(self) -> None:
        needed = {"curves": "series style x y", "stacked": "x part y", "tornado": "label low high"}[self.kind].split()
        missing = [name for name in needed if name not in self.table]
        if missing:
            must = f"table of a Panel of {self.kind} must have columns {', '.join(needed)}"
            raise InputError(f"{must}; it lacks {', '.join(missing)}")


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure: ``name`` of its files, ``title`` (the finding), ``subtitle`` (what was computed), panels in rows.

    A title is broken into lines as the figure's width asks. With ``shared`` all panels have the same axes. A legend
    that is the same in all panels is drawn once, below them.
    """

    name: str
    title: str
    subtitle: str
    panels: Sequence[Panel]
    columns: int = 1
    shared: bool = False
