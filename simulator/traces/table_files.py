"""Tables of steps and ranks as files: CSV or Parquet, whose columns are there and hold what they are said to."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.arrays import Array
from simulator.checks import InputError, nearest, shown
from simulator.lazy import pd

LONGEST = 2**32  # seconds, of a start or a duration: their nanoseconds fit into 64 bits


def read_table(path: Path, columns: Iterable[str]) -> pd.DataFrame:
    """A table, in which ``columns`` are.

    Args:
        path: CSV (also compressed) with a header, in which lines that begin with # are comments; or Parquet.
        columns: names that it must have.

    Raises:
        InputError: for a file that is no table, one that names a column twice, and one that lacks a column.
    """
    columns = list(columns)
    kind = "Parquet" if path.name.lower().endswith(".parquet") else "CSV"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows of another length than the header
            if kind == "Parquet":
                frame = pd.read_parquet(path)
                names = [str(name) for name in frame.columns]
            else:
                names = pd.read_csv(path, comment="#", header=None, nrows=1, dtype=str).iloc[0].tolist()
                frame = pd.read_csv(path, comment="#", index_col=False, low_memory=False)
    except Exception as error:  # parsers, decoders and decompressors raise errors of many kinds
        why = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError("table", f"{path} cannot be read as {kind}: {why}") from None
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError("table", f"{path.name} must have columns of different names; it has {twice[0]!r} twice")
    for column in columns:
        if column not in frame:
            have = ", ".join(map(str, frame.columns))
            raise InputError("table", f"{path.name} has no column {column!r}{nearest(column, frame)}; it has {have}")
        if frame[column].dtype == object and frame[column].map(type).isin((list, dict, set, np.ndarray)).any():
            raise InputError("table", f"{path.name} column {column!r} must hold single values")
    halves = [column for column in columns if frame[column].dtype == np.float16]  # pandas cannot index by them
    return frame.astype(dict.fromkeys(halves, np.float64))


def whole_numbers(values: pd.Series, path: Path) -> pd.Series:
    """A column of ranks or steps, as 64-bit integers.

    >>> whole_numbers(pd.Series([0, 0.5], name="rank"), Path("a.csv"))
    Traceback (most recent call last):
    simulator.checks.InputError: table a.csv column 'rank' must hold whole numbers alone
    """
    try:
        whole = values.astype("int64") if values.dtype.kind != "b" else None
    except (TypeError, ValueError, OverflowError):
        whole = None
    if whole is None or not (whole == values).all():
        raise InputError("table", f"{path.name} column {values.name!r} must hold whole numbers alone")
    return whole


def seconds(values: pd.Series, unit: float, path: Path) -> Array:
    """A column of durations, in seconds, from numbers of ``unit`` seconds or from a type that has its own unit.

    Raises:
        InputError: for what is no number or below 0, for a point in time, and for a ``unit`` where the type has one.

    >>> seconds(pd.Series([1.5, 2.0], name="ms"), 1e-3, Path("a.csv")).tolist()
    [0.0015, 0.002]
    >>> seconds(pd.Series(pd.to_timedelta([1500], unit="us"), name="time"), 1.0, Path("a.parquet")).tolist()
    [0.0015]
    """
    if values.dtype.kind == "m" and unit != 1:
        raise InputError(
            "table", f"{path.name} column {values.name!r} has a unit of its own; leave out unit = {unit:g}"
        )
    if values.dtype.kind == "M":
        raise InputError("table", f"{path.name} column {values.name!r} must hold durations; it holds points in time")
    found = _nanoseconds(values) / 1e9 if values.dtype.kind == "m" else _floats(values) * unit
    _refuse(values, ~np.isfinite(found), "finite numbers alone", path)
    _refuse(values, ~(np.abs(found) <= LONGEST), f"times of at most {LONGEST:.3g} s in units of {unit:g} s", path)
    _refuse(values, found < 0, "durations of at least 0", path)
    return found


def moments(values: pd.Series, unit: float, path: Path) -> NDArray[np.int64]:
    """A column of starts, in whole nanoseconds, from numbers of ``unit`` seconds, durations or points in time."""
    if values.dtype.kind in "mM":
        _refuse(values, values.isna().to_numpy(), "a time in each row", path)
        found: NDArray[np.int64] = _nanoseconds(values)
        return found
    factor = round(unit * 1e9)
    if values.dtype.kind in "iu" and abs(unit * 1e9 / max(factor, 1) - 1) < 1e-12:  # as exact as they are
        known = len(values) > 0 and bool(values.notna().all())
        if known and max(-int(values.min()), int(values.max())) <= LONGEST * 10**9 // factor:
            return np.asarray(values.to_numpy(np.int64) * factor)
    starts = _floats(values) * unit
    _refuse(values, ~np.isfinite(starts), "finite numbers alone", path)
    _refuse(values, ~(np.abs(starts) <= LONGEST), f"times of at most {LONGEST:.3g} s in units of {unit:g} s", path)
    return np.rint(starts * 1e9).astype(np.int64)


def _refuse(values: pd.Series, bad: NDArray[np.bool_], what: str, path: Path) -> None:
    for row in np.flatnonzero(bad)[:1]:
        found = values.iloc[row : row + 1].tolist()[0]
        raise InputError(
            "table", f"{path.name} column {values.name!r} must hold {what}; row {row + 1} has {shown(found)}"
        )


def _nanoseconds(values: pd.Series) -> NDArray[Any]:
    """Whole nanoseconds of a column of pandas' durations or points in time (UTC); NaN where one is missing."""
    whole = values.to_numpy(f"{values.dtype.kind}8[ns]")
    return (
        np.where(np.isnat(whole), np.nan, whole.astype(np.int64)) if np.isnat(whole).any() else whole.astype(np.int64)
    )


def _floats(values: pd.Series) -> Array:
    if values.dtype.kind in "iuf":
        return values.to_numpy(np.float64)
    return np.array([_float(value) for value in values], dtype=np.float64)


def _float(value: object) -> float:
    """A number that came as an object, such as a Decimal; NaN of anything else."""
    try:
        return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else np.nan
    except OverflowError:
        return np.inf
