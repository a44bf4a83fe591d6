"""A sweep's table for people."""

from __future__ import annotations

from typing import Any

from simulator.lazy import pd
from simulator.tasks.collect.table import swept
from simulator.text import printable


def sweep_text(table: pd.DataFrame) -> str:
    """The table's main columns for people."""
    shown = {"wait_mean": ("tax, us", 1e6), "wait_share": ("of comm.", 100), "iteration_time": ("iteration, s", 1.0),
             "bandwidth_optimal": ("B*, GB/s", 1e-9), "elasticity": ("elasticity", 1.0)}  # fmt: skip
    if "wait_mean" not in table:
        return f"{len(table)} points"
    names = swept(table[table["status"] == "ok"])
    lines = ["  ".join([*(f"{name:>12}" for name in names), *(f"{label:>13}" for label, _ in shown.values())])]
    for _, row in table[table["status"] == "ok"].iterrows():
        values = [f"{'-' if row[name] != row[name] else row[name]!s:>12}" for name in names]
        values += [f"{row[name] * scale:>13.5g}" for name, (_, scale) in shown.items()]
        lines.append(printable("  ".join(values)))
    return "\n".join(lines)


def failures(table: pd.DataFrame) -> list[str]:
    """Why points failed, a line each."""
    bad = table[table["status"] != "ok"]
    return [printable(f"failed: {_label(row)}: {row['error']}") for _, row in bad.iterrows()]


def _label(row: pd.Series[Any]) -> str:
    known = [name for name in row.index if name not in ("status", "error", "point") and row[name] == row[name]]
    return " ".join(f"{name}={row[name]}" for name in known) or str(row["point"])
