"""z-scores of block maxima: (maximum - centre)/sd, with sd that of a rank's time."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError


def instance_centred(blocks: ArrayLike) -> Array:
    """z-scores of the maxima, each centred on the mean of its own instance: the paper's recipe.

    z_j = (M_j - mean_j)/s, with M_j and mean_j the maximum and the mean of instance j, and s the pooled standard
    deviation, the root of the mean over instances of the variance within one (ddof 1).

    Args:
        blocks: times of one compute block, shape (instances, m).

    Returns:
        z, shape (instances,).

    Raises:
        InputError: for another shape, values that are not finite, or times that do not vary.

    >>> instance_centred([[1.0, 3.0], [10.0, 10.0]])
    array([1., 0.])
    """
    x = checked_blocks(blocks)
    x = x - x.min(axis=1, keepdims=True)  # exact, so that a clock's offset costs no further digits
    return np.asarray((x.max(axis=1) - x.mean(axis=1)) / spread(np.sqrt(x.var(axis=1, ddof=1).mean())))


def block_centred(blocks: ArrayLike) -> Array:
    """z-scores of the maxima, centred on the mean over all instances and ranks: z_j = (M_j - mean)/sd, ddof 1.

    Right where instances differ by the noise of their ranks alone; what all ranks of an instance share (a clock that
    throttles all of them) is then counted as if ranks differed.

    Args:
        blocks: times of one compute block, shape (instances, m).

    Returns:
        z, shape (instances,).

    Raises:
        InputError: as ``instance_centred``.

    >>> block_centred([[-1.0, 1.0], [-1.0, 1.0]]).round(4)
    array([0.866, 0.866])
    """
    x = checked_blocks(blocks)
    x = x - x.min()
    return np.asarray((x.max(axis=1) - x.mean()) / spread(x.std(ddof=1)))


def checked_blocks(blocks: ArrayLike) -> Array:
    """The times as an array of shape (instances, ranks); refused in one sentence where they are no such thing."""
    x = np.asarray(blocks, dtype=float)
    if x.ndim != 2 or x.shape[0] < 1 or x.shape[1] < 2 or not np.isfinite(x).all():
        raise InputError("blocks", f"must be finite times of shape (instances, ranks), at least 2 ranks; got {x.shape}")
    return x


def spread(value: float) -> float:
    """A standard deviation, refused where it is 0."""
    if not value > 0:
        raise InputError("blocks", "must have times that vary between ranks; all are equal")
    return value
