"""Tables as files."""

from __future__ import annotations

from pathlib import Path

from simulator.lazy import pd


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV: UTF-8, one line end everywhere, every digit of every number."""
    table.to_csv(path, index=False, lineterminator="\n")
