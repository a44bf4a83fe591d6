"""What a sample of maxima can carry: how many values, how many different ones, and what to say of it."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError, one_of

LEAST_MAXIMA = 10  # below, an interval would hold almost every law
FEW_MAXIMA = 50  # below, an interval is wide, and as good as its approximations
LEAST_DISTINCT = 10  # a shape is read from the spacing of values; clock ticks of 0.7 sigma and more leave fewer
MOST_TIED = 0.25  # share of one value

Family = Literal["gumbel", "gev"]


class Counts(NamedTuple):
    """How many maxima there are, how many different ones, the share of the commonest, and what to know of a fit."""

    size: int
    distinct: int
    commonest: float
    flags: tuple[str, ...]


def describe(z: ArrayLike) -> Counts:
    """Counts of a sample of maxima, and flags: "few maxima" below 50, "ties" where few values differ.

    Args:
        z: finite values, shape (n,), n >= 1.

    Raises:
        InputError: for another shape or values that are not finite.

    >>> describe([1.0, 1.0, 2.0, 3.0])
    Counts(size=4, distinct=3, commonest=0.5, flags=('few maxima', 'ties'))
    """
    x = _finite(z, 1)
    _, counts = np.unique(x, return_counts=True)
    distinct, commonest = len(counts), float(counts.max()) / len(x)
    flags = {
        "few maxima": len(x) < FEW_MAXIMA,
        "ties": distinct < min(len(x), LEAST_DISTINCT) or (commonest > MOST_TIED and distinct < len(x)),
    }
    return Counts(len(x), distinct, commonest, tuple(flag for flag, set_ in flags.items() if set_))


def checked_sample(z: ArrayLike, least: int = 2) -> Array:
    """The values as an array of shape (n,), n >= least, not all equal; else refused in one sentence."""
    x = _finite(z, least)
    if x.min() == x.max():
        raise InputError("z", f"must have values that differ (use compute law deterministic); all are {x[0]:g}")
    return x


def refuse_ties(z: ArrayLike) -> Array:
    """As ``checked_sample``, and refused where there are too few different values for a GEV shape.

    >>> refuse_ties([1.0, 2.0] * 50)
    Traceback (most recent call last):
    simulator.checks.InputError: z must have 10 different values for a GEV fit (use compute law empirical); got 2 in 100
    """
    x = checked_sample(z)
    sample = describe(x)
    if sample.distinct < LEAST_DISTINCT:
        raise InputError(
            "z",
            f"must have {LEAST_DISTINCT} different values for a GEV fit (use compute law empirical); "
            f"got {sample.distinct} in {sample.size}",
        )
    if sample.commonest > MOST_TIED:
        raise InputError(
            "z",
            f"must have no ties of more than {MOST_TIED:.0%} of all for a GEV fit (use compute law empirical); "
            f"one value makes {sample.commonest:.0%}",
        )
    return x


def checked_family(z: ArrayLike, family: Family) -> Array:
    """The values where they are enough for statements about a law of that family; else refused in one sentence.

    >>> checked_family([1.0, 2.0], "gumbel")
    Traceback (most recent call last):
    simulator.checks.InputError: z must be at least 10 finite values; got shape (2,)
    """
    one_of("family", family, get_args(Family))
    x = checked_sample(z, LEAST_MAXIMA)
    return refuse_ties(x) if family == "gev" else x


def _finite(z: ArrayLike, least: int) -> Array:
    x = np.asarray(z, dtype=float)
    if x.ndim != 1 or len(x) < least or not np.isfinite(x).all():
        raise InputError("z", f"must be at least {least} finite values; got shape {x.shape}")
    return x
