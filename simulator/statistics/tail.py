"""A law of pooled times: the empirical distribution, and a generalised Pareto tail above a threshold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array

LEAST_ABOVE = 20  # values above the threshold: fewer say nothing of a tail
MOST_ABOVE = 0.1  # of all values, where that is enough: 3 % of slow blocks are then still seen as what they are
WEIGHT_OF_ZERO = 100  # values above the threshold that the shape of an exponential tail counts for
MOST_SHAPE = 0.9  # from 1 on there is no mean
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)


@dataclass(frozen=True, kw_only=True)
class Tail:
    """What is above a threshold u: P(X > u + y) = above/size * (1 + shape*y/scale)^(-1/shape).

    Attributes:
        body: the values at and below the threshold, ascending.
        above: how many values lie above.
        excess: mean of (value - threshold) of these.
        shape: of the generalised Pareto law; its scale is excess*(1 - shape), so that the law's mean is the sample's.
    """

    body: Array
    above: int
    excess: float
    shape: float

    @classmethod
    def of(cls, ascending: Array) -> Tail:
        """The law of sorted values, at least twice as many as ``LEAST_ABOVE``.

        The shape is shrunk towards 0, that of laws with an exponential tail, as if 100 more values had shown it: tens
        of values tell a shape to +-0.15 at best, and E[max] of thousands goes wrong by as much as they do. Shapes
        below 0, of bounded tails, show sooner: the variance of an estimate is (1 + shape)^2/values (Smith, 1987), and
        they are shrunk by that much less. (Of two modes, 3 % slower by 5 sd, that halves the error at n = 4096.)

        >>> law = Tail.of(np.arange(400.0))
        >>> law.above, law.excess, round(law.shape, 2)
        (20, 10.5, -0.77)
        """
        above = threshold_rank(len(ascending))
        body = ascending[:-above]
        excesses = ascending[-above:] - body[-1]
        seen = pareto_shape(excesses)
        shape = seen * above / (above + WEIGHT_OF_ZERO * (1 + min(seen, 0.0)) ** 2)
        return cls(body=body, above=above, excess=float(excesses.mean()), shape=min(shape, MOST_SHAPE))

    def with_shape(self, shape: float) -> Tail:
        """The same with another shape, and the scale that keeps the mean."""
        return replace(self, shape=min(shape, MOST_SHAPE))

    @property
    def size(self) -> int:
        """Values in all."""
        return len(self.body) + self.above

    def excesses(self, y: ArrayLike) -> Array:
        """(value - threshold) that a value above it exceeds with probability exp(-y)."""
        exponent = np.asarray(y)
        scale = self.excess * (1 - self.shape)
        return np.asarray(scale * (np.expm1(self.shape * exponent) / self.shape if self.shape else exponent))

    def tax(self, sizes: ArrayLike) -> Array:
        """E[max of n] - mean of independent values, for each n of ``sizes``.

        The body by its atoms; above the threshold u, E[max] - u = integral of P(max > u + x) dx by Gauss-Legendre
        quadrature over y, where exp(-y) is how likely a value above u exceeds u + x.

        >>> Tail(body=np.zeros(1), above=10**6, excess=1.0, shape=0.0).tax([2, 4]).round(4)  # 1/2; 1/2 + 1/3 + 1/4
        array([0.5   , 1.0833])
        """
        n = np.asarray(sizes, dtype=float)[:, None]
        share = self.above / self.size
        below = self.body - self.body[-1]
        level = np.arange(1, len(below) + 1) / self.size
        body = -(np.diff(below) * np.exp(n * np.log(level[:-1]))).sum(axis=1)  # integral of P(max <= x) up to u
        end = np.log1p(n * share) + 40 / (1 - self.shape)  # what is beyond is exp(-40) of the whole
        y = end * (1 + NODES) / 2
        beyond = -np.expm1(n * np.log1p(-share * np.exp(-y)))
        slope = self.excess * (1 - self.shape) * np.exp(self.shape * y)
        above = (slope * beyond * WEIGHTS).sum(axis=1) * end[:, 0] / 2
        return np.asarray(body + above - (below.sum() / self.size + share * self.excess))


def threshold_rank(size: int) -> int:
    """How many of the largest values make the tail: the root of all, at least 20, at most a tenth where that is 20.

    >>> threshold_rank(100), threshold_rank(8000)
    (20, 89)
    """
    above = max(LEAST_ABOVE, int(sqrt(size)))
    return min(above, max(LEAST_ABOVE, int(MOST_ABOVE * size)))


def pareto_shape(excesses: Array) -> float:
    """Shape of a generalised Pareto law of ascending excesses: the posterior mean of Zhang and Stephens (2009).

    A quick and efficient estimation for the generalized Pareto distribution, Technometrics 51, 316. Excesses of 0
    (ticks of a clock) are no news; where fewer than half are above 0, the shape is 0.

    >>> y = -np.log1p(-(np.arange(1, 2001) - 0.5) / 2000)  # the quantiles of an exponential law
    >>> [round(pareto_shape(np.expm1(xi * y) / xi), 2) for xi in (-0.3, 0.3)]
    [-0.3, 0.3]
    """
    x = excesses[excesses > 0]
    size = len(x)
    if 2 * size < len(excesses) or size < LEAST_ABOVE // 2 or not x[-1] > x[0]:
        return 0.0
    candidates = np.arange(1, 21 + int(sqrt(size)))
    root = 1 - np.sqrt(len(candidates) / (candidates - 0.5))
    theta = 1 / x[-1] + root / (3 * x[int(size / 4 + 0.5) - 1])  # -shape/scale
    shape = np.log1p(-theta[:, None] * x).mean(axis=1)
    likelihood = size * (np.log(-theta / shape) - shape - 1)
    weight = np.exp(likelihood - likelihood.max())
    best = float((theta * weight).sum() / weight.sum())
    return float(np.log1p(-best * x).mean())
