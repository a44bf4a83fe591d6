"""A sweep's table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.lazy import pd
from simulator.tasks.collect.table import Point, has_results, of_simulations, settings, swept
from simulator.text import grid, one_line, printable

MOST = 80  # characters of a line


def sweep_text(points: Sequence[Point], table: pd.DataFrame) -> str:
    """The table's main columns for people: of simulations the tax, of other tasks what fits of their summaries."""
    shown = {"wait_mean": ("tax, us", 1e6), "wait_share": ("of comm.", 100), "iteration_time": ("iteration, s", 1.0),
             "bandwidth_optimal": ("B*, GB/s", 1e-9), "elasticity": ("elasticity", 1.0)}  # fmt: skip
    if not of_simulations(table):
        return "\n".join([f"{len(table)} points", *_found(points, table[has_results(table)])])
    names = swept(table[has_results(table)])
    head = [*(f"{name:>12}" for name in names), *(f"{label:>13}" for label, _ in shown.values())]
    lines = [printable("  ".join(head))]
    for _, row in table[has_results(table)].iterrows():
        values = [f"{'-' if row[name] != row[name] else row[name]!s:>12}" for name in names]
        values += [f"{row[name] * scale:>13.5g}" for name, (_, scale) in shown.items()]
        lines.append(printable("  ".join(values)))
    return "\n".join(lines)


def _found(points: Sequence[Point], table: pd.DataFrame) -> list[str]:
    """What was set and differs, and the first numbers of the summaries, SI units, as many as a line holds."""
    given = settings(points)
    found = dict.fromkeys(name for point in points for name in point.found if not name.endswith("_se"))
    numbers = [name for name in found if pd.api.types.is_numeric_dtype(table[name]) and table[name].notna().any()]
    lines: list[str] = []
    for k in range(1, len(numbers) + 1):
        values = table[numbers[:k]].to_numpy(float)
        names = [[_end(value) for value in row] for row in table[given].to_numpy(object)]
        rows = [[*name, *(f"{x:.4g}" for x in row)] for name, row in zip(names, values, strict=True)]
        wider = grid([[*given, *numbers[:k]], *rows])
        if max(map(len, wider)) > MOST:
            break
        lines = wider
    return [printable(line) for line in lines]


def failures(points: Sequence[Point], table: pd.DataFrame) -> list[str]:
    """Why points have no results, a line each."""
    bad = table[~has_results(table)]
    given = {point.name: " ".join(f"{name}={value}" for name, value in point.given.items()) for point in points}
    return [printable(f"failed: {given[row['point']] or row['point']}: {row['error']}") for _, row in bad.iterrows()]


def _end(value: Any, most: int = 30) -> str:
    """A value on one line; of a long one, such as a path, the end."""
    line = one_line(str(value))
    return line if len(line) <= most else f"…{line[1 - most :]}"
