"""From measured blocks to a fitted law: z-scores of block maxima, and Gumbel and GEV fits of them.

A block is one instance of a compute block on m ranks. The seed paper (section 5) turns the largest of the m times into
a z-score and fits a Gumbel law to all of them by maximum likelihood. Every function takes and returns plain arrays and
numbers; z is in standard deviations of a rank's time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from simulator.checks import InputError
from simulator.laws.base import Array
from simulator.laws.gev import gev_mean, unbox


class Gev(NamedTuple):
    """A fitted GEV law of block maxima: location, scale and shape xi (0: Gumbel; scipy's c is -xi)."""

    mu: float
    sigma: float
    xi: float = 0.0

    def expected_max(self, k: float) -> float:
        """Mean of the largest of k such maxima: mu + sigma*(ln k + gamma) at xi = 0; infinite from xi = 1 on.

        >>> round(Gev(0.7058, 0.4085).expected_max(512 / 4), 4)
        2.9236
        """
        return gev_mean(self.mu, self.sigma, self.xi, k) if self.xi < 1 else float("inf")


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
    x = _blocks(blocks)
    return np.asarray((x.max(axis=1) - x.mean(axis=1)) / _spread(np.sqrt(x.var(axis=1, ddof=1).mean())))


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
    x = _blocks(blocks)
    return np.asarray((x.max(axis=1) - x.mean()) / _spread(x.std(ddof=1)))


def fit_gumbel(z: ArrayLike) -> Gev:
    """Gumbel law of maximum likelihood.

    The scale solves sigma = mean(z) - sum(z*w)/sum(w) with w = exp(-z/sigma), and then
    mu = -sigma*ln(mean(w)) (Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions 2, chapter 22).

    Args:
        z: at least two values, not all equal.

    Raises:
        InputError: for fewer values, values that are not finite, or all equal.
    """
    from scipy.optimize import brentq

    x = _sample(z)
    least = float(x.min())
    above = x - least  # keeps every exponential within range
    mean = float(above.mean())

    def excess(sigma: float) -> float:  # grows with sigma, from -mean at 0 to at least 0 at the mean
        w = np.exp(above / -sigma)
        return sigma - mean + float((above * w).sum() / w.sum())

    low = mean / 4
    while excess(low) > 0:
        low /= 4
    sigma = float(brentq(excess, low, mean, xtol=1e-14 * mean, rtol=1e-12))
    return Gev(least - sigma * float(np.log(np.exp(above / -sigma).mean())), sigma)


def fit_gumbel_lmoments(z: ArrayLike) -> Gev:
    """Gumbel law with the sample's first two L-moments: sigma = l2/ln 2, mu = l1 - gamma*sigma.

    l1 is the mean and l2 half the mean difference of two values (Hosking, L-moments, 1990, table 1).

    Args:
        z: at least two values, not all equal.

    Raises:
        InputError: as ``fit_gumbel``.

    >>> print(f"{fit_gumbel_lmoments([0.0, 1.0]).sigma:.4f}")  # l2 = 1/2
    0.7213
    """
    x = np.sort(_sample(z))
    weights = (2 * np.arange(len(x)) - (len(x) - 1)) / (len(x) - 1)  # l2 = 2*b1 - b0
    sigma = float((weights * x).mean()) / np.log(2)
    return Gev(float(x.mean()) - np.euler_gamma * sigma, float(sigma))


def fit_gev(z: ArrayLike) -> Gev:
    """GEV law of maximum likelihood, with the shape free.

    The values are standardised before the search, which starts at their Gumbel fit: the outcome depends neither on
    their unit nor on chance. The shape is sought above -1, below which the likelihood has no maximum.

    Args:
        z: at least two values, not all equal; a few hundred for a shape that means something.

    Raises:
        InputError: as ``fit_gumbel``.
    """
    from scipy.optimize import minimize

    x = _sample(z)
    centre, spread = float(x.mean()), float(x.std())
    x = (x - centre) / spread

    def cost(parameters: Array) -> float:  # mean of -ln density
        mu, log_sigma, xi = (float(p) for p in parameters)
        y = unbox((x - mu) / np.exp(log_sigma), xi)
        value = log_sigma + float(np.mean((1 + xi) * y + np.exp(-y)))
        return value if xi > -1 and np.isfinite(value) else float("inf")

    start = fit_gumbel(x)
    with np.errstate(all="ignore"):  # outside the support the density is 0
        best = minimize(cost, [start.mu, np.log(start.sigma), 0.01], method="BFGS", options={"gtol": 1e-6})
        if not best.success:  # slower, but asks for no slopes
            best = minimize(cost, best.x, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-13})
    mu, log_sigma, xi = (float(p) for p in best.x)
    return Gev(centre + spread * mu, spread * float(np.exp(log_sigma)), xi)


def _blocks(blocks: ArrayLike) -> Array:
    x = np.asarray(blocks, dtype=float)
    if x.ndim != 2 or x.shape[0] < 1 or x.shape[1] < 2 or not np.isfinite(x).all():
        raise InputError(f"blocks must be finite times of shape (instances, ranks), at least 2 ranks; got {x.shape}")
    return x


def _spread(value: float) -> float:
    if not value > 0:
        raise InputError("blocks must have times that vary between ranks; all are equal")
    return value


def _sample(z: ArrayLike) -> Array:
    x = np.asarray(z, dtype=float)
    if x.ndim != 1 or len(x) < 2 or not np.isfinite(x).all():
        raise InputError(f"z must be at least 2 finite values; got shape {x.shape}")
    if x.min() == x.max():
        raise InputError(f"z must have values that differ; all are {x[0]:g}")
    return x
