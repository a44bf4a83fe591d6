"""Measured block times, resampled: whole blocks of ranks as they were measured together, or single values."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError, count, keep, number
from simulator.laws.base import LONGEST, IndependentLaw, Law, Noise


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
