"""One tidy table of the points of some sweeps: what was set for each, what it found, or why it failed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.checks import InputError
from simulator.files.points import FAILED
from simulator.lazy import pd
from simulator.simulation.results import GLOSSARY


def read_points(folders: Iterable[Path], keys: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """The rows of all finished and failed points in some sweeps' folders (or of one point's folder each).

    Args:
        folders: folders of sweeps, or of single points.
        keys: only these points.

    Returns:
        one dict per point: its overrides, the columns of its summary, ``status``, ``error`` and ``point``.

    Raises:
        InputError: for a folder that does not exist.
    """
    wanted = set(keys) if keys is not None else None
    done: dict[str, dict[str, Any]] = {}
    failed: dict[str, dict[str, Any]] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError("folders", f"must be folders of finished jobs; {str(folder)!r} is none")
        own = (folder / "manifest.json").is_file()
        for home in [folder] if own else [path.parent for path in folder.glob("[!.]*/manifest.json")]:
            done[home.name] = _read(home, _finished)
        for path in folder.glob(f"[!.]*{FAILED}"):
            failed[path.name.removesuffix(FAILED)] = _read(path, _failed)
    points = {**failed, **done}
    if wanted is None and not points:
        raise InputError("folders", "must hold finished jobs: folders of sweeps (multirun/SWEEP), or of single points")
    absent = sorted((wanted or set()) - set(points))
    if absent:
        raise InputError("points", f"must be finished or failed points in the folders; {absent[0]!r} is none")
    return [{**points[key], "point": key} for key in sorted(points) if wanted is None or key in wanted]


def _read(home: Path, reader: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """A point's row; one that somebody damaged, whatever is wrong with it, counts as failed."""
    try:
        return reader(home)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        why = (
            " ".join(str(error).split())
            if isinstance(error, OSError | ValueError)
            else "it is not what was written there"
        )
        return {"status": "failed", "error": f"{home.name} cannot be read ({why}): remove it and run the point again"}


def _finished(home: Path) -> dict[str, Any]:
    manifest = json.loads((home / "manifest.json").read_text(encoding="utf-8"))
    summary = home / "summary.csv"
    row = pd.read_csv(summary).iloc[0].to_dict() if summary.is_file() else {"status": "ok"}
    reported = GLOSSARY if len(row) > 1 else row  # by the point's own summary
    given = _parameters(manifest.get("overrides", []))
    return {**{name: value for name, value in given.items() if name not in reported}, **row, "error": None}


def _failed(path: Path) -> dict[str, Any]:
    record = json.loads(path.read_text(encoding="utf-8"))
    given = _parameters(record["overrides"])
    known = {"law" if name == "compute" else name: value for name, value in given.items()}
    return {**known, "status": "failed", "error": str(record["error"])}


def _parameters(overrides: Sequence[str]) -> dict[str, Any]:
    pairs = (override.partition("=") for override in overrides)
    return {key.lstrip("+"): _value(text) for key, _, text in pairs if key != "timeout"}


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def sweep_table(points: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One tidy table of all points: what was set for each, the columns of its summary, status, error and point.

    Rows and columns are in an order of their own, so the table is the same bytes whichever machine ran what when.
    """
    names = {name for point in points for name in point}
    columns = [*sorted(names - set(GLOSSARY)), *(name for name in GLOSSARY if name in names)]
    table = pd.DataFrame(list(points), columns=columns)
    return table.sort_values(columns, key=_order, kind="stable").reset_index(drop=True)


def _order(column: pd.Series[Any]) -> pd.Series[Any]:
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.notna().any() else column.astype(str).where(column.notna())  # pandas 2 has text for none


def swept(table: pd.DataFrame) -> list[str]:
    """Columns that differ between the points and were set for them: the parameters of the sweep."""
    settings = ["experiment", "topology", "n", "law", "parent", "engine", "seed", "iterations", "alpha", "bandwidth"]
    given = {str(name).rpartition(".")[2] for name in table if name not in GLOSSARY}  # workload.bytes is also bytes
    names = [name for name in table if name not in GLOSSARY or name in {*settings, "bytes"} - given]
    return [name for name in names if table[name].nunique(dropna=False) > 1]
