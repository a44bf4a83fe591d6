"""Bus bandwidth against size, measured and fitted."""

from __future__ import annotations

from math import ceil, floor, log2

import numpy as np

from simulator.arrays import Array
from simulator.lazy import pd
from simulator.pictures.panels import Panel, Picture
from simulator.tasks.calibrate.calibration import Calibration
from simulator.tasks.calibrate.hockney import Model, relative_errors
from simulator.tasks.calibrate.words import errors_text
from simulator.text import short, size

POINTS = 400  # of a drawn curve
TICKS = 7  # of its axis
REACH = 1.2  # an asymptote further above what was measured is off the picture


def picture(found: Calibration) -> Picture:
    """Bus bandwidth against size: measured, the two-parameter fit, and the segments."""
    m = found.measured
    grid = np.geomspace(m.sizes[0], m.sizes[-1], POINTS)
    curves = [_curve(found, "points", m.sizes, m.times), _curve(found, "dashed", grid, found.line.time(grid))]
    styles = {"points": "measured", "dashed": "two parameters"}
    if len(found.model.lines) > 1:
        styles["line"] = f"{len(found.model.lines)} segments"
        curves += [_curve(found, "line", *_broken(found.model, grid))]
    jumps = [_misfit(found, "line", found.model)] if len(found.model.lines) > 1 else []
    asymptote = found.bus / found.line.slope / 1e9
    value, unit = size(found.line.latency / found.line.slope).split()
    ticks = _ticks(grid)
    reached = asymptote < REACH * max(curve["y"].max() for curve in curves)
    bandwidth = Panel(
        table=pd.concat(curves), x="message size", y="bus bandwidth, GB/s", log_x=True, styles=styles, ticks=ticks,
        levels={asymptote: "fitted asymptote"} if reached else {}, marks=dict.fromkeys(found.model.borders, ""),
    )  # fmt: skip
    errors = Panel(
        table=pd.concat([_misfit(found, "dashed", Model((found.line,))), *jumps]),
        x="message size", y="fitted - measured, %", log_x=True, styles=styles, ticks=ticks, levels={0.0: ""},
    )  # fmt: skip
    return Picture(
        name="busbw",
        title=f"{m.kind.label} over {m.ranks} ranks reaches half of its {asymptote:,.0f} GB/s at "
        f"{round(float(value), 1):g} {unit}",
        subtitle=short(f"off by {errors_text(found.fits().iloc[0])}: {m.hardware or found.origin}", 66),
        panels=[bandwidth, errors],
    )


def _curve(found: Calibration, style: str, sizes: Array, times: Array) -> pd.DataFrame:
    return pd.DataFrame({"series": "", "style": style, "x": sizes, "y": found.bus * sizes / times / 1e9})


def _misfit(found: Calibration, style: str, model: Model) -> pd.DataFrame:
    sizes = found.measured.sizes
    errors = 100 * relative_errors(model, sizes, found.measured.times)
    return pd.DataFrame({"series": "", "style": style, "x": sizes, "y": errors})


def _broken(model: Model, grid: Array) -> tuple[Array, Array]:
    """The curve of a model, with a gap at each border, where it may jump."""
    sizes = np.sort(np.concatenate([grid, model.borders]))
    times = model.time(sizes)
    times[np.isin(sizes, model.borders)] = np.nan
    return sizes, times


def _ticks(sizes: Array) -> dict[float, str]:
    """Whole powers of 2 on an axis of bytes, labelled, as many as fit."""
    first, last = ceil(log2(sizes[0])), floor(log2(sizes[-1]))
    powers = next(
        p for step in (1, 2, 5, 10) if len(p := [i for i in range(first, last + 1) if i % step == 0]) <= TICKS
    )
    return {2.0**power: size(2.0**power) for power in powers}
