"""Ways from measured blocks of ranks to the tax of more: laws of maxima, as the paper's, and subsets with a tail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.statistics import (
    Gev,
    block_centred,
    estimates,
    fit_gev,
    fit_gumbel,
    fit_gumbel_lmoments,
    instance_centred,
)


class Centring(NamedTuple):
    """z-scores of the maxima of blocks of m ranks, and the standard deviation that they are counted in."""

    scores: Callable[[ArrayLike], Array]
    sd: Callable[[Array], float]


CENTRINGS = {
    "instance": Centring(instance_centred, lambda x: sqrt(x.var(axis=1, ddof=1).mean())),
    "block": Centring(block_centred, lambda x: float(x.std(ddof=1))),
}
FITS: dict[str, Callable[[ArrayLike], Gev]] = {
    "Gumbel": fit_gumbel, "Gumbel L-moments": fit_gumbel_lmoments, "GEV": fit_gev,
}  # fmt: skip


class Estimated(NamedTuple):
    """What a way finds in a sample: taxes in the unit of its times, and the law of maxima where there is one."""

    taxes: list[float]
    law: Gev | None


class Fit(NamedTuple):
    """A law of the maxima of m ranks, carried on to n: the centring of their z-scores, the fit, and m.

    E[max of n] - mean = mu + sigma*(ln(n/m) + gamma), or its GEV form, times the standard deviation of a rank.
    """

    centring: str
    fit: str
    m: int

    @property
    def text(self) -> str:
        return f"{self.centring}-centred {self.fit}"

    def __str__(self) -> str:
        return f"{self.text}, m = {self.m}"

    @property
    def least(self) -> int:
        """The fewest ranks that it is asked for: of fewer the blocks themselves tell."""
        return self.m

    def fitted(self, x: Array) -> tuple[Gev, float]:
        """The law of z found in times of shape (blocks, ranks), ranks taken m at a time; and what 1 of z is."""
        groups, centring = x.reshape(-1, self.m), CENTRINGS[self.centring]
        return FITS[self.fit](centring.scores(groups)), centring.sd(groups)

    def estimated(self, x: Array, sizes: Sequence[int]) -> Estimated:
        """The tax of each n, NaN below m or where the sample cannot be fitted, and the law."""
        try:
            law, sd = self.fitted(x)
        except InputError:  # a likelihood without a maximum
            return Estimated([np.nan] * len(sizes), None)
        return Estimated([sd * law.expected_max(n / self.m) if n >= self.m else np.nan for n in sizes], law)


class SubsetsAndTail(NamedTuple):
    """``simulator.statistics.estimates``: subsets of the m measured ranks, and beyond a law with a Pareto tail."""

    m: int
    least: int = 2
    text: str = "subsets and tail"

    def __str__(self) -> str:
        return self.text

    def estimated(self, x: Array, sizes: Sequence[int]) -> Estimated:
        """The tax of each n, NaN where nothing is claimed; there is no law of maxima."""
        return Estimated([found.tau for found in estimates(x, sizes)], None)


Way = Fit | SubsetsAndTail


def all_fits(block_sizes: Sequence[int]) -> list[Fit]:
    """All combinations of centring, fit and m; with m = 4 first, the first is the paper's recipe."""
    return [Fit(*choice) for choice in product(CENTRINGS, FITS, block_sizes)]
