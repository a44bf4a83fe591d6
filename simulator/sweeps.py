"""Sweeps: one folder per point, a tidy table of all points, and curves over what was swept.

A finished point is a whole folder whose name is a hash of its resolved config, the code and the seed. So a sweep that
is started again runs only what is missing or changed, points of several machines can be put together, and nothing has
to be locked or repaired. A failed point is a small file beside them that says why; the next try replaces it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.checks import InputError
from simulator.folders import partial_name
from simulator.pictures import Panel, Picture
from simulator.provenance import code_version
from simulator.results import GLOSSARY, write_csv
from simulator.task import Outcome, Progress, Task

if TYPE_CHECKING:
    import pandas as pd

FAILED = ".failed.json"
HOCKNEY = "without the tax (Hockney)"


def point_key(tree: Mapping[str, Any], modules: Sequence[str] = ()) -> str:
    """Name of a point's folder: a hash of its resolved config (the seed is in it) and of the code that runs it.

    Args:
        tree: the resolved config as plain data.
        modules: the user's own modules that take part.
    """
    text = json.dumps([tree, code_version(modules)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sweep_name(overrides: Iterable[str]) -> str:
    """Name of a sweep's folder: the same for the same overrides in any order, however they are launched."""
    own = sorted(text for text in overrides if not text.lstrip("+~").startswith(("hydra.", "hydra/", "timeout=")))
    return hashlib.sha256("\n".join(own).encode()).hexdigest()[:10]


def record_failure(folder: Path, key: str, overrides: Sequence[str], error: str) -> None:
    """Leave word of why a point failed; written whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / partial_name(key)
    partial.write_text(json.dumps({"overrides": list(overrides), "error": error}) + "\n", encoding="utf-8")
    partial.replace(folder / f"{key}{FAILED}")


def is_done(folder: Path, key: str) -> bool:
    """Whether the point is finished; what an earlier try left of why it failed is then removed."""
    done = (folder / key / "manifest.json").is_file()
    if done:
        (folder / f"{key}{FAILED}").unlink(missing_ok=True)
    return done


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
            raise InputError(f"folders must be folders of finished jobs; {str(folder)!r} is none")
        own = (folder / "manifest.json").is_file()
        for home in [folder] if own else [path.parent for path in folder.glob("[!.]*/manifest.json")]:
            done[home.name] = _finished(home)
        for path in folder.glob(f"[!.]*{FAILED}"):
            failed[path.name.removesuffix(FAILED)] = _failed(path)
    points = {**failed, **done}
    if wanted is None and not points:
        raise InputError("folders must hold finished jobs: folders of sweeps (multirun/SWEEP), or of single points")
    return [{**points[key], "point": key} for key in sorted(points) if wanted is None or key in wanted]


def _finished(home: Path) -> dict[str, Any]:
    import pandas as pd

    try:
        manifest = json.loads((home / "manifest.json").read_text(encoding="utf-8"))
        summary = home / "summary.csv"
        row = pd.read_csv(summary).iloc[0].to_dict() if summary.is_file() else {"status": "ok"}
    except (OSError, ValueError, IndexError) as error:
        raise InputError(f"folders holds {home}, whose files cannot be read: {error}") from error
    reported = GLOSSARY if len(row) > 1 else row  # by the point's own summary
    given = {name: value for name, value in _parameters(manifest.get("overrides", [])).items() if name not in reported}
    return {**given, **row, "error": None}


def _failed(path: Path) -> dict[str, Any]:
    record = json.loads(path.read_text(encoding="utf-8"))
    given = {"law" if name == "compute" else name: value for name, value in _parameters(record["overrides"]).items()}
    return {**given, "status": "failed", "error": record["error"]}


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
    import pandas as pd

    names = {name for point in points for name in point}
    columns = [*sorted(names - set(GLOSSARY)), *(name for name in GLOSSARY if name in names)]
    table = pd.DataFrame(list(points), columns=columns)
    return table.sort_values(columns, key=_order, kind="stable").reset_index(drop=True)


def _order(column: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    return numbers if numbers.notna().any() else column.astype(str)


@dataclass(frozen=True, kw_only=True)
class Collect(Task):
    """Rebuilds a sweep's table and pictures from any set of finished jobs, also from several machines.

    Attributes:
        name: name of the experiment.
        folders: folders of sweeps, or of single points.
    """

    name: str
    folders: Sequence[str]

    def __post_init__(self) -> None:
        if not isinstance(self.folders, list | tuple) or not self.folders:
            raise InputError(f"folders must be a list of at least one folder; got {self.folders!r}")

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        return write_sweep(read_points([Path(text) for text in self.folders]), folder)


def write_sweep(points: Sequence[Mapping[str, Any]], folder: Path) -> Outcome:
    """Write ``sweep.csv`` and the curves over what was swept; says what is in them."""
    table = sweep_table(points)
    write_csv(table, folder / "sweep.csv")
    undrawn = _draw(table, folder)
    bad = table[table["status"] != "ok"]
    lines = [sweep_text(table), *undrawn]
    lines += [f"failed: {_label(row)}: {row['error']}" for _, row in bad.iterrows()]
    return Outcome("\n".join(lines), bad.empty and not undrawn)


def _draw(table: pd.DataFrame, folder: Path) -> list[str]:
    """Draw the pictures; says why they are left out where that goes wrong, since it must not lose the table."""
    from simulator.plots import write_pictures

    try:
        write_pictures(sweep_pictures(table), folder)
    except OSError:  # the disk is full: nothing can be kept
        raise
    except Exception as error:
        return [f"pictures left out: {type(error).__name__}: {error}"]
    return []


def swept(table: pd.DataFrame) -> list[str]:
    """Columns that differ between the points and were set for them: the parameters of the sweep."""
    settings = ["experiment", "topology", "n", "law", "parent", "engine", "seed", "iterations", "alpha", "bandwidth"]
    given = {str(name).rpartition(".")[2] for name in table if name not in GLOSSARY}  # workload.bytes is also bytes
    names = [name for name in table if name not in GLOSSARY or name in {*settings, "bytes"} - given]
    return [name for name in names if table[name].nunique(dropna=False) > 1]


def sweep_pictures(table: pd.DataFrame) -> list[Picture]:
    """Tax, iteration time, optimal bandwidth and elasticity over the swept parameter with the most values."""
    import pandas as pd

    table = table[table["status"] == "ok"]
    if "wait_mean" not in table or len(table) < 2:
        return []
    parameters = swept(table)
    numeric = [name for name in parameters if pd.api.types.is_numeric_dtype(table[name]) and name != "seed"]
    if not numeric:
        return []
    x = max(numeric, key=lambda name: (table[name].nunique(), name == "n"))
    tied = [name for name in parameters if name != x and not _follows(table, name, x)]
    labels = [", ".join(str(value) for value in row if not pd.isna(value)) for row in table[tied].to_numpy(object)]
    series = pd.Series(labels, index=table.index)
    log = bool((table[x] > 0).all() and table[x].max() >= 8 * table[x].min())

    def panel(title: str, unit: str, scale: float, styles: Mapping[str, tuple[str, str]], log_y: bool = False) -> Panel:
        curves = [
            pd.DataFrame({
                "series": series, "style": style, "x": table[x], "y": table[column] / scale,
                "error": 3 * table[f"{column}_se"] / scale if f"{column}_se" in table else 0.0,
            }).dropna(subset="y").sort_values(["series", "x"], kind="stable")
            for style, (column, _) in styles.items()
        ]  # fmt: skip
        meanings = {style: meaning for style, (_, meaning) in styles.items()}
        return Panel(table=pd.concat(curves), x=x, y=unit, title=title, log_x=log, log_y=log_y, styles=meanings)

    table = table.assign(**_models(table))
    simulated = "simulated, ± 3 standard errors"
    panels = [
        panel("synchronization tax", "µs", 1e-6,
              {"points": ("wait_mean", simulated), "line": ("wait_model", "closed form")}),
        panel("iteration time", "s", 1.0,
              {"points": ("iteration_time", simulated), "line": ("iteration_time_model", "closed form")}),
        panel("optimal bandwidth at elasticity -0.5", "GB/s", 1e9,
              {"points": ("bandwidth_optimal", simulated), "line": ("bandwidth_optimal_model", "closed form"),
               "dashed": ("bandwidth_optimal_hockney", HOCKNEY)}, True),
        panel("elasticity to bandwidth", "elasticity", 1.0,
              {"points": ("elasticity", simulated), "line": ("elasticity_model", "closed form")}),
    ]  # fmt: skip
    low, high = table["wait_share"].min(), table["wait_share"].max()
    return [
        Picture(
            name="sweep", panels=panels, columns=2, title=f"Waiting takes {low:.0%} to {high:.0%} of communication",
            subtitle=f"{len(table)} points over {', '.join(parameters)}",
        )
    ]  # fmt: skip


def _models(table: pd.DataFrame) -> dict[str, pd.Series[Any]]:
    """Closed forms that the summary lacks: B* and elasticity with the model's tax in place of the simulated one."""
    floor, model = table["wait_mean"] + table["latency"], table["wait_model"] + table["latency"]
    return {
        "bandwidth_optimal_model": table["bandwidth_optimal"] * floor / model,
        "elasticity_model": -table["transfer"] / (model + table["transfer"]),
    }


def _follows(table: pd.DataFrame, name: str, x: str) -> bool:
    """Whether a column is only a function of x (strong scaling's bytes, say), or repeats another name of it."""
    return bool(table.groupby(x)[name].nunique(dropna=False).max() == 1)


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
        lines.append("  ".join(values))
    return "\n".join(lines)


def _label(row: pd.Series[Any]) -> str:
    known = [name for name in row.index if name not in ("status", "error", "point") and row[name] == row[name]]
    return " ".join(f"{name}={row[name]}" for name in known) or str(row["point"])
