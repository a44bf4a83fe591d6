"""Times of all blocks and ranks brought together: what the ranks of a block share is taken off."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from simulator.arrays import Array

MUCH_SCALE = 1.15  # E[s^4]/E[s^2]^2 from which on blocks are loud and quiet
DEVIATIONS = 5  # and by how many standard deviations of chance
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
        ratio, deviations = scale_effect(without_common(x) if common else x)
        return cls(common, ratio > MUCH_SCALE and deviations > DEVIATIONS)

    def values(self, x: Array) -> Array:
        """The times, shape (blocks, ranks), without what ranks of a block share; mean 0, in the unit of x."""
        own = without_common(x) if self.common else x - x.mean()
        if not self.scale:
            return own
        scales = block_scales(own)
        own = own / scales[:, None] * scales.mean()
        return np.asarray(own - own.mean())


def without_common(x: Array) -> Array:
    """Deviations from the mean of their block, with the variance that they had before it was taken off."""
    ranks = x.shape[1]
    return np.asarray((x - x.mean(axis=1, keepdims=True)) * sqrt(ranks / (ranks - 1)))


def scale_effect(x: Array) -> tuple[float, float]:
    """E[s^4]/E[s^2]^2 of a scale s that the ranks of a block share, and how many standard deviations of chance above 1.

    Products of squares of different ranks within blocks, against what they are when the times of every rank are
    shuffled by themselves. Both moments under shuffling are exact: of two columns a and b, mean(a*b) has mean
    mean(a)*mean(b) and variance var(a)*var(b)/(blocks - 1), and different pairs are uncorrelated.

    >>> rng = np.random.default_rng(0)
    >>> quiet, loud = rng.normal(size=(2, 500, 8))
    >>> [round(value, 1) for value in scale_effect(np.concatenate([quiet, 3 * loud]))]  # (1 + 81)/2 / 5^2
    [1.6, 26.2]
    """
    squares = (x - x.mean(axis=0)) ** 2
    means, variances = squares.mean(axis=0), squares.var(axis=0)
    within = float((squares.sum(axis=1) ** 2 - (squares**2).sum(axis=1)).mean())  # sum over ordered pairs
    shuffled = float(means.sum() ** 2 - (means**2).sum())
    spread = sqrt(2 * float(variances.sum() ** 2 - (variances**2).sum()) / (len(x) - 1))
    return within / shuffled, (within - shuffled) / spread if spread > 0 else 0.0


def block_scales(x: Array) -> Array:
    """Standard deviation of each block's times, shape (blocks,), shrunk to the mean by how well they are known.

    The variances v of blocks vary by rho of what they seem to (linear credibility: Bühlmann 1967), where the variance
    of the true ones is (c - 1)*m^2.
    """
    ratio, _ = scale_effect(x)
    v = ((x - x.mean(axis=0)) ** 2).mean(axis=1)
    mean, seen = float(v.mean()), float(v.var())
    known = min(1.0, max(0.0, ratio - 1) * mean**2 / seen) if seen > 0 else 0.0
    return np.asarray(np.sqrt(mean * (1 + known * (v / mean - 1))))
