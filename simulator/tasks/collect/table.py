"""One tidy table of the points of some sweeps: what was set for each, what it found, or why it failed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.checks import InputError
from simulator.files.points import FAILED
from simulator.lazy import pd
from simulator.simulation.results import GLOSSARY
from simulator.text import one_line

MEASURED = (
    "wait_mean", "wait_share", "wait_model", "iteration_time", "iteration_time_model", "latency", "transfer",
    "elasticity", "bandwidth_optimal", "bandwidth_optimal_hockney",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a sweep.

    Attributes:
        name: of its folder.
        given: what was set for it, in the order in which it was.
        found: the row of its ``summary.csv``, which any task may leave; nothing for a point that failed.
        status: ok, partial, or anything else for a point without results.
        error: why it has none.
    """

    name: str
    given: Mapping[str, Any]
    found: Mapping[str, Any] = field(default_factory=dict)
    status: str = "ok"
    error: str | None = None

    @property
    def row(self) -> dict[str, Any]:
        """Its row of a sweep's table. What its summary says of a setting goes before what was asked for."""
        return {**self.given, **self.found, "status": self.status, "error": self.error, "point": self.name}


def read_points(folders: Iterable[Path], keys: Iterable[str] | None = None) -> list[Point]:
    """All finished and failed points in some sweeps' folders (or of one point's folder each), ordered by name.

    Args:
        folders: folders of sweeps, or of single points.
        keys: only these points.

    Raises:
        InputError: for a folder that does not exist.
    """
    wanted = set(keys) if keys is not None else None
    done: dict[str, Point] = {}
    failed: dict[str, Point] = {}
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
    return [points[key] for key in sorted(points) if wanted is None or key in wanted]


def _read(home: Path, reader: Callable[[Path], Point]) -> Point:
    """A point's row; one that somebody damaged, whatever is wrong with it, counts as failed."""
    try:
        return reader(home)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        why = one_line(str(error)) if isinstance(error, OSError | ValueError) else "not what was written there"
        told = f"{home.name} cannot be read ({why}): remove it and run the point again"
        return Point(name=_legible(home.name.removesuffix(FAILED)), given={}, status="failed", error=_legible(told))


def _finished(home: Path) -> Point:
    manifest = json.loads((home / "manifest.json").read_text(encoding="utf-8"))
    summary = home / "summary.csv"
    found = pd.read_csv(summary).iloc[0].to_dict() if summary.is_file() else {}
    given = _parameters(manifest.get("overrides", []))
    status, error = str(found.pop("status", "ok")), found.pop("error", None)
    return Point(
        name=_legible(home.name), given=_by_law(given) if "law" in found else given, found=found, status=status,
        error=None if pd.isna(error) else str(error),
    )  # fmt: skip


def _failed(path: Path) -> Point:
    record = json.loads(path.read_text(encoding="utf-8"))
    given, error = _by_law(_parameters(record["overrides"])), _legible(str(record["error"]))
    return Point(name=_legible(path.name.removesuffix(FAILED)), given=given, status="failed", error=error)


def _legible(text: str) -> str:
    """Text as tables take it: what a name that is no UTF-8 became in Python or JSON (lone surrogates) as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _by_law(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was set for a simulation: ``compute`` is the law there, and a time in its summary."""
    return {"law" if name == "compute" else name: value for name, value in given.items()}


def _parameters(overrides: Sequence[str]) -> dict[str, Any]:
    pairs = (_legible(override).partition("=") for override in overrides)
    return {key.lstrip("+"): _value(text) for key, _, text in pairs if key != "timeout"}


def _value(text: str) -> Any:
    """A number where it is written as one that a table takes, which ends at 64 bits; 007 and 2024_01_31 are names."""
    if "_" in text or re.match(r"[+-]?0\d", text):
        return text
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if isinstance(value, float) or abs(value) < 2**63 else text
    return text


def sweep_table(points: Sequence[Point]) -> pd.DataFrame:
    """One tidy table of all points: what was set for each, the columns of its summary, status, error and point.

    Rows are in the order of what was set, numbers as numbers, and columns in an order of their own. So the table is the
    same bytes whichever machine ran what when.
    """
    given = list(dict.fromkeys(name for point in points for name in point.given))
    found = list(dict.fromkeys(name for point in points for name in point.found)) or [n for n in GLOSSARY if n in given]
    columns = [*sorted(set(given) - set(found)), *found, "status", "error", "point"]
    table = pd.DataFrame([point.row for point in points], columns=columns)
    order = list(dict.fromkeys([*given, *columns]))
    return table.sort_values(order, key=_order, kind="stable").reset_index(drop=True)


def has_results(table: pd.DataFrame) -> pd.Series[bool]:
    """Which rows of a sweep's table are of points with results."""
    return table["status"].isin(["ok", "partial"])


def of_simulations(table: pd.DataFrame) -> bool:
    """Whether a sweep's finished points have the numbers of a simulation; a task of one's own may have some of them."""
    found = table[has_results(table)]
    return all(name in found and pd.api.types.is_numeric_dtype(found[name]) for name in MEASURED)


def _order(column: pd.Series[Any]) -> pd.Series[Any]:
    try:
        numbers = pd.to_numeric(column, errors="coerce")
    except OverflowError:  # a whole number beyond the range of doubles is no setting of ours
        numbers = pd.to_numeric(column.astype(str), errors="coerce")
    return numbers if numbers.notna().any() else column.astype(str).where(column.notna())  # pandas 2 has text for none


def swept(table: pd.DataFrame) -> list[str]:
    """Columns that differ between the points and were set for them: the parameters of the sweep."""
    settings = ["experiment", "topology", "n", "law", "parent", "engine", "seed", "iterations", "alpha", "bandwidth"]
    given = {str(name).rpartition(".")[2] for name in table if name not in GLOSSARY}  # workload.bytes is also bytes
    names = [name for name in table if name not in GLOSSARY or name in {*settings, "bytes"} - given]
    return [name for name in names if table[name].nunique(dropna=False) > 1]


def settings(points: Sequence[Point]) -> list[str]:
    """What was set for the points and differs between them, in the order in which it was."""
    given = dict.fromkeys(name for point in points for name in point.given)
    return [name for name in given if len({str(point.given.get(name)) for point in points}) > 1]
