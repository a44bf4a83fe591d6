"""Measured block times of a table as a law of compute blocks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from simulator.checks import InputError, Reads, count, number, one_of, shown, text, texts
from simulator.laws import Empirical, EmpiricalBlocks, Law
from simulator.lazy import pd
from simulator.traces.table_files import read_table, seconds

DATA = Path(__file__).parent.parent / "data"  # tables that come with the package


def _find(table: Any) -> Path:
    known = sorted(p.name for p in DATA.glob("*.csv"))
    if isinstance(table, str | os.PathLike):
        for path in (Path(table), DATA / table):
            if os.path.isfile(path):
                return path
    raise InputError("table", f"must be an existing file or one of {', '.join(known)}; {shown(table)} is none")


def empirical(
    *, table: Annotated[str, Reads(lambda table: [_find(table)])], columns: Sequence[str], unit: float = 1.0,
    rank: str = "rank", step: str = "step", skip: int = 0, resample: str = "steps",
) -> Law:  # fmt: skip
    """A law that resamples measured block times from a table (CSV or Parquet) with one row per step and rank.

    Args:
        table: path of the file, or the name of one that comes with the package.
        columns: columns whose sum is the block time.
        unit: seconds per unit of those columns (1e-3 for milliseconds).
        rank: column with the rank.
        step: column with the step.
        skip: leading steps to leave out (warm-up).
        resample: ``steps`` draws all ranks of a measured step together, which keeps a persistent straggler, and n is a
            multiple of the measured ranks; ``values`` draws every rank independently from all values.

    Raises:
        InputError: for a table that cannot be read, columns it lacks, or steps without all ranks.

    >>> law = empirical(table="stragglar_4xa100_llama3.2-3b_steps.csv", columns=["forward_ms", "backward_ms"],
    ...                 unit=1e-3, skip=1)
    >>> law.name, round(law.mean, 4)
    ('empirical', 4.5214)
    """
    one_of("resample", resample, ["steps", "values"])
    unit = number("unit", unit, above=0)
    skip = count("skip", skip, least=0)
    names = texts("columns", columns)
    if not names or len(set(names)) < len(names):
        raise InputError("columns", "must be a list of at least one column name, each once", columns)
    if text("rank", rank) == text("step", step) or {rank, step} & set(names):
        raise InputError(f"rank, step and columns must name different columns; got {rank}, {step}, {', '.join(names)}")
    path = _find(table)
    times = _read(path, rank, step, names, unit).to_numpy()[skip:]
    if times.size == 0 or np.isnan(times).any():
        raise InputError(
            "table",
            f"{path.name} must give every {rank} of every {step} a time after skip = {skip}; "
            f"got {times.shape[0]} steps with {int(np.isnan(times).sum())} missing values",
        )
    left_out = f"; the first {skip} left out (compute.skip)" if skip else ""
    origin = f"compute: {times.shape[0]} steps of {times.shape[1]} ranks from {path.name}{left_out}"
    if resample == "values":
        return Empirical(values=times.ravel(), origin=origin)
    return EmpiricalBlocks(steps=times, origin=origin)


def _read(path: Path, rank: str, step: str, columns: Sequence[str], unit: float) -> pd.DataFrame:
    """The sum of ``columns``, seconds, with a row for each step and a column for each rank.

    Numbers are in ascending order; names stay in the order of the file, where "10" may follow "9".
    """
    frame = read_table(path, [rank, step, *columns])
    measured = pd.DataFrame({"step": frame[step], "rank": frame[rank]})
    if measured.isna().to_numpy().any() or measured.duplicated().any():
        raise InputError("table", f"{path.name} must have one row per {step} and {rank}")
    measured["time"] = np.sum([seconds(frame[column], unit, path) for column in columns], axis=0)
    wide = measured.pivot(index="step", columns="rank", values="time")
    rows, names = (
        wide.axes[axis] if pd.api.types.is_numeric_dtype(measured[key]) else measured[key].unique()
        for axis, key in enumerate(("step", "rank"))
    )
    return wide.loc[rows, names]
