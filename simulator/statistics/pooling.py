"""Times of all blocks and ranks brought together: what the ranks of a block share is taken off."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

import numpy as np

from simulator.arrays import Array

MUCH_SCALE = 1.15  # E[s^4]/E[s^2]^2 from which on blocks are loud and quiet
DEVIATIONS = 5  # and by how many standard deviations of chance
DEALS = 8
RANKS_FOR_BOTH = 8  # taking off a common part mixes ranks, and with few of them makes their squares alike


class Pooling(NamedTuple):
    """What the ranks of a block share: a ``common`` part of their times, and a ``scale`` of what is left."""

    common: bool
    scale: bool

    @classmethod
    def of(cls, x: Array, common: bool) -> Pooling:
        """How to pool times of shape (blocks, ranks), in which a common part was found or not."""
        if common and x.shape[1] < RANKS_FOR_BOTH:
            return cls(common, False)
        ratio, deviations = scale_effect(without_common(x), common) if common else scale_effect(x)
        return cls(common, ratio > MUCH_SCALE and deviations > DEVIATIONS)

    def values(self, x: Array) -> Array:
        """The times, shape (blocks, ranks), without what ranks of a block share; mean 0, in the unit of x."""
        own = without_common(x) if self.common else x - x.mean()
        if not self.scale:
            return own
        scales = block_scales(own, self.common)
        own = own / scales * scales.mean()
        return np.asarray(own - own.mean())

    def dealt(self, x: Array) -> Iterator[Array]:
        """The pooled values dealt at random into new blocks, with the scales of the old ones, and pooled again.

        What pooling does to a law shows by what it does to this one. The deals are the same in every call.
        """
        values = self.values(x)
        scales = np.ones((len(x), 1))
        if self.scale:
            scales = unlike_scales(without_common(x) if self.common else x, self.common)
        rng = np.random.default_rng(0)
        for _ in range(DEALS):
            yield self.values(rng.permutation(values.ravel()).reshape(x.shape) * scales / scales.mean())


def without_common(x: Array) -> Array:
    """Deviations from the mean of their block, with the variance that they had before it was taken off."""
    ranks = x.shape[1]
    return np.asarray((x - x.mean(axis=1, keepdims=True)) * sqrt(ranks / (ranks - 1)))


def scale_effect(x: Array, centred: bool = False) -> tuple[float, float]:
    """E[s^4]/E[s^2]^2 of a scale s that the ranks of a block share, and how many standard deviations of chance above 1.

    Products of squares of different ranks within blocks, against what they are when the times of every rank are
    shuffled by themselves. Both moments under shuffling are exact: of two columns a and b, mean(a*b) has mean
    mean(a)*mean(b) and variance var(a)*var(b)/(blocks - 1), and different pairs are uncorrelated. Where x is
    ``centred`` on the means of blocks, ``centred_effect`` is what it takes to be surprised.

    >>> rng = np.random.default_rng(0)
    >>> quiet, loud = rng.normal(size=(2, 500, 8))
    >>> [round(value, 1) for value in scale_effect(np.concatenate([quiet, 3 * loud]))]  # (1 + 81)/2 / 5^2
    [1.6, 26.2]
    """
    squares = (x - x.mean(axis=0)) ** 2
    means, variances = squares.mean(axis=0), squares.var(axis=0)
    within = float((squares.sum(axis=1) ** 2 - (squares**2).sum(axis=1)).mean())  # sum over ordered pairs
    shuffled = float(means.sum() ** 2 - (means**2).sum())
    if not shuffled > 0:  # one rank alone varies
        return 1.0, 0.0
    spread = sqrt(2 * float(variances.sum() ** 2 - (variances**2).sum()) / (len(x) - 1))
    alike = centred_effect(x) if centred else 1.0
    return within / shuffled / alike, (within - shuffled * alike) / spread if spread > 0 else 0.0


def centred_effect(x: Array) -> float:
    """E[a^2*b^2]/(E[a^2]*E[b^2]) of two ranks of a block, of independent ranks whose mean was taken off.

    One large time moves the mean, and so all deviations of its block. Of e = x - mean of N independent values with
    excess kurtosis k, E[e^4] = 3*A^2 + k*B and E[e_1^2*e_2^2] = A^2 + 2*C^2 + k*D, in variances, with sums over
    what each value counts for: A of squares, B of fourth powers, C and D of products and of products of squares.

    >>> print(f"{centred_effect(np.random.default_rng(0).normal(size=(10000, 8))):.2f}")  # 1 + 2/7^2
    1.04
    """
    ranks = x.shape[1]
    own, other = 1 - 1 / ranks, 1 / ranks
    squares = own**2 + (ranks - 1) * other**2
    fourth = own**4 + (ranks - 1) * other**4
    products = -2 * own * other + (ranks - 2) * other**2
    both = 2 * own**2 * other**2 + (ranks - 2) * other**4
    own_squares = (x - x.mean(axis=0)) ** 2
    kurtosis = max(0.0, float((own_squares**2).mean() / (own_squares.mean(axis=0) ** 2).mean()) - 3)
    return 1 + 2 * products**2 / squares**2 + kurtosis * both / fourth


def block_scales(x: Array, centred: bool = False) -> Array:
    """Standard deviation of each block's times as the other ranks show it, shrunk to the mean by how well they do.

    Shape (blocks, ranks): a time divided by a scale of which it is part would hide in it, the more so the larger.
    The variances v of N - 1 ranks vary by rho of what they seem to (linear credibility: Bühlmann, 1967).
    """
    squares = (x - x.mean(axis=0)) ** 2
    v = (squares.sum(axis=1, keepdims=True) - squares) / (x.shape[1] - 1)
    return np.asarray(np.sqrt(v.mean() + known(v, scale_effect(x, centred)[0]) * (v - v.mean())))


def unlike_scales(x: Array, centred: bool = False) -> Array:
    """Scales of blocks, shape (blocks, 1), that differ as much as the true ones (constrained Bayes: Ghosh, 1992)."""
    v = ((x - x.mean(axis=0)) ** 2).mean(axis=1, keepdims=True)
    return np.asarray(np.sqrt(v.mean() + sqrt(known(v, scale_effect(x, centred)[0])) * (v - v.mean())))


def known(v: Array, ratio: float) -> float:
    """Part rho of the variance of v that is of the true variances m*s^2: it is (ratio - 1)*m^2."""
    seen = float(v.var())
    return min(1.0, max(0.0, ratio - 1) * float(v.mean()) ** 2 / seen) if seen > 0 else 0.0
