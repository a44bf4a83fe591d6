"""Measured block times, resampled: whole blocks of ranks as they were measured together, or single values."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError, count, keep, nearest, number, one_of, shown, text, texts
from simulator.laws.base import LONGEST, IndependentLaw, Law, Noise
from simulator.lazy import pd

DATA = Path(__file__).parent.parent / "data"


def empirical(
    *, table: str, columns: Sequence[str], unit: float = 1.0, rank: str = "rank", step: str = "step", skip: int = 0,
    resample: str = "steps",
) -> Law:  # fmt: skip
    """A law that resamples measured block times from a CSV table with one row per step and rank.

    Args:
        table: path of the CSV file, or the name of one that comes with the package.
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
    times = _read(path, rank, step, names).to_numpy()[skip:] * unit
    if times.size == 0 or not (np.isfinite(times) & (times >= 0)).all():
        raise InputError(
            "table",
            f"{path.name} must give every {rank} of every {step} a time of at least 0 after skip = {skip}; "
            f"got {times.shape[0]} steps with {int((~(times >= 0)).sum())} missing or bad values",
        )
    left_out = f"; the first {skip} left out (compute.skip)" if skip else ""
    origin = f"compute: {times.shape[0]} steps of {times.shape[1]} ranks from {path.name}{left_out}"
    if resample == "values":
        return Empirical(values=times.ravel(), origin=origin)
    return EmpiricalBlocks(steps=times, origin=origin)


def _find(table: Any) -> Path:
    known = sorted(p.name for p in DATA.glob("*.csv"))
    if isinstance(table, str | os.PathLike):
        for path in (Path(table), DATA / table):
            if os.path.isfile(path):
                return path
    raise InputError("table", f"must be an existing CSV file or one of {', '.join(known)}; {shown(table)} is none")


def _read(path: Path, rank: str, step: str, columns: Sequence[str]) -> pd.DataFrame:
    """The sum of ``columns``, with a row for each step and a column for each rank.

    Numbers are in ascending order; names stay in the order of the file, where "10" may follow "9".
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows of another length than the header
            header = pd.read_csv(path, comment="#", header=None, nrows=1, dtype=str).iloc[0].tolist()
            frame = pd.read_csv(path, comment="#", index_col=False, low_memory=False)
    except Exception as error:  # parsers, decoders and decompressors raise errors of many kinds
        why = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError("table", f"{path} cannot be read as CSV: {why}") from None
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise InputError("table", f"{path.name} must have columns of different names; it has {twice[0]!r} twice")
    for column in (rank, step, *columns):
        if column not in frame:
            have = ", ".join(map(str, frame.columns))
            raise InputError("table", f"{path.name} has no column {column!r}{nearest(column, frame)}; it has {have}")
    measured = pd.DataFrame({"step": frame[step], "rank": frame[rank]})
    try:
        if measured.isna().to_numpy().any():
            raise ValueError("one is missing")
        if any(pd.api.types.is_bool_dtype(frame[column]) for column in columns):
            raise ValueError("true and false are no numbers")
        measured["time"] = frame[list(columns)].astype(float).sum(axis=1, skipna=False)
        wide = measured.pivot(index="step", columns="rank", values="time")
    except ValueError as error:
        raise InputError("table", f"{path.name} must have one row of numbers per {step} and {rank}: {error}") from None
    rows, names = (
        wide.axes[axis] if pd.api.types.is_numeric_dtype(measured[key]) else measured[key].unique()
        for axis, key in enumerate(("step", "rank"))
    )
    return wide.loc[rows, names]


def _values(field: str, values: Any, dimensions: int) -> Array:
    """A copy of measured times that nobody else can change."""
    try:
        times = np.array(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        times = np.empty(0)
    if times.ndim != dimensions or times.size == 0 or not ((times >= 0) & (times <= LONGEST)).all():
        shape = "a list" if dimensions == 1 else "a table (steps x ranks)"
        raise InputError(field, f"must be {shape} of at least one time, each from 0 to {LONGEST:g} s", values)
    times.flags.writeable = False
    return times


def _largest(ordered: Array, draws: int) -> float:
    """Expected largest of ``draws`` of some values in ascending order: each weighted by how likely it is that."""
    edges = (np.arange(ordered.size + 1) / ordered.size) ** draws
    return float(np.sum(ordered * np.diff(edges)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Measured:
    """What laws of measured times share: ``factor`` makes them longer, ``origin`` says where they are from."""

    factor: float = 1.0
    origin: str = ""
    scale_field: ClassVar[str] = "factor"

    def keep_times(self, field_name: str, dimensions: int) -> None:
        """Check and store the times and the factor."""
        times = _values(field_name, getattr(self, field_name), dimensions)
        factor = number("factor", self.factor, above=0, most=LONGEST / max(times.max(), 1.0))
        keep(self, **{field_name: times}, factor=factor)

    @property
    def name(self) -> str:
        return "empirical"

    @property
    def note(self) -> str:
        return self.origin


@dataclass(frozen=True, kw_only=True, eq=False)
class Empirical(_Measured, IndependentLaw):
    """Ranks draw independently from measured ``values`` (seconds), each with the same probability."""

    values: Array = field(repr=False)

    def __post_init__(self) -> None:
        self.keep_times("values", 1)

    @cached_property
    def sorted(self) -> Array:
        """The values in ascending order, seconds."""
        ordered = np.sort(self.values) * self.factor
        ordered.flags.writeable = False
        return ordered

    @cached_property
    def mean(self) -> float:  # type: ignore[override]
        return float(np.mean(self.sorted))

    @property
    def var(self) -> float:
        return float(np.var(self.sorted))

    def quantile(self, t: ArrayLike) -> Array:
        size = self.sorted.size
        rank = np.ceil(np.exp(-np.asarray(t, dtype=float)) * size).astype(np.intp) - 1
        return np.asarray(self.sorted[np.clip(rank, 0, size - 1)])

    def exponent(self, x: ArrayLike) -> Array:
        with np.errstate(divide="ignore"):
            share = np.searchsorted(self.sorted, np.asarray(x, dtype=float), side="right") / self.sorted.size
            return np.asarray(-np.log(share))

    def expected_max(self, n: int) -> float:
        """Of the values, the expected largest of n."""
        return _largest(self.sorted, n)

    def range_cdf(self, w: ArrayLike, n: int) -> Array:
        """Sum over the smallest draw: all n at or above it and within w, less all n strictly above it and within w."""
        x, size = self.sorted, self.sorted.size
        values, first = np.unique(x, return_index=True)
        after = np.append(first[1:], size)
        reach = np.searchsorted(x, values + np.asarray(w, dtype=float)[..., None], side="right")
        return np.asarray((((reach - first) / size) ** n - ((reach - after) / size) ** n).sum(axis=-1))


@dataclass(frozen=True, kw_only=True, eq=False)
class EmpiricalBlocks(_Measured, Law):
    """Blocks of ranks draw a whole measured step together: ``steps`` has shape (steps, ranks), seconds."""

    steps: Array = field(repr=False)
    noise: ClassVar[Noise] = "uniform"

    def __post_init__(self) -> None:
        self.keep_times("steps", 2)

    @property
    def mean(self) -> float:  # type: ignore[override]
        return float(np.mean(self.steps)) * self.factor

    @property
    def sd(self) -> float:
        return float(np.std(self.steps)) * self.factor

    def check_ranks(self, n: int) -> None:
        ranks = self.steps.shape[1]
        if count("n", n) % ranks:
            raise InputError(
                "n",
                f"must be a multiple of the {ranks} measured ranks when whole steps are resampled "
                f"(or set resample=values); got {n}",
            )

    def transform(self, x: Array) -> None:
        steps, ranks = self.steps.shape
        blocks = x.reshape(*x.shape[:-1], -1, ranks)
        row = (blocks[..., 0] * steps).astype(np.intp)
        x[...] = (self.steps[row] * self.factor).reshape(x.shape)

    def expected_max(self, n: int) -> float:
        """Of the steps' maxima, the expected largest of n/ranks."""
        self.check_ranks(n)
        return _largest(np.sort(self.steps.max(axis=1)) * self.factor, n // self.steps.shape[1])
