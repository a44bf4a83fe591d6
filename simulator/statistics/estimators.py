"""Point estimates of Gumbel and GEV laws from a sample of maxima."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.statistics.likelihood import Gev, gev_maxima, gumbel_maxima
from simulator.statistics.sample import checked_sample, refuse_ties


def fit_gumbel(z: ArrayLike) -> Gev:
    """Gumbel law of maximum likelihood (see ``likelihood.gumbel_maxima``).

    Args:
        z: at least two values, not all equal.

    Raises:
        InputError: for fewer values, values that are not finite, or all equal.

    >>> print(f"{fit_gumbel([0.0, 1.0]).sigma:.4f}")  # the root of s = 1/2 - w/(1 + w), w = exp(-1/s)
    0.4168
    """
    x, centre, unit = standard(checked_sample(z))
    mu, sigma = gumbel_maxima(x)
    return Gev(centre + unit * float(mu[0]), unit * float(sigma[0]))


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
    x, centre, unit = standard(checked_sample(z))
    x = np.sort(x)
    weights = (2 * np.arange(len(x)) - (len(x) - 1)) / (len(x) - 1)  # l2 = 2*b1 - b0
    sigma = float((weights * x).mean()) / float(np.log(2))
    return Gev(centre + unit * (float(x.mean()) - np.euler_gamma * sigma), unit * sigma)


def fit_gev(z: ArrayLike) -> Gev:
    """GEV law of maximum likelihood, with the shape free.

    The values are standardised before the search, which starts at their Gumbel fit: the outcome depends neither on
    their unit nor on chance, and is never less likely than that fit. The shape is sought above -1, below which the
    likelihood has no maximum.

    Args:
        z: at least 10 different values, none of them more than a quarter of all; a few hundred for a shape that means
            something.

    Raises:
        InputError: as ``fit_gumbel``; for fewer different values; where the likelihood has no maximum.
    """
    x, centre, unit = standard(refuse_ties(z))
    mu, s, xi = gev_parameters(x)
    return Gev(centre + unit * float(mu), unit * float(np.exp(s)), float(xi))


def standard(x: Array) -> tuple[Array, float, float]:
    """(x - centre)/unit with the smallest value as centre, and the standard deviation as unit; and these two.

    The difference to the smallest value is exact where the mean of large values (times since 1970) would round.
    """
    centre = float(x.min())
    above = x - centre
    unit = float(above.std())
    return above / unit, centre, unit


def gev_parameters(x: Array) -> Array:
    """(mu, ln sigma, xi) of maximum likelihood for one sample of ordinary size.

    Raises:
        InputError: where no start leads to a point at which the slopes vanish.
    """
    mu, sigma = gumbel_maxima(x)
    for shape in (0.0, 0.3, -0.3):  # the Gumbel fit leads there almost always
        scale = sigma[0] if shape >= 0 else np.maximum(sigma[0], 1.1 * -shape * (x.max() - mu[0]))
        scale = scale if shape <= 0 else np.maximum(scale, 1.1 * shape * (mu[0] - x.min()))
        found = gev_maxima(x, np.array([[mu[0], np.log(scale), shape]]))
        if found.converged[0]:
            return found.at[0]
    raise InputError(
        "z",
        f"must have a GEV likelihood with a maximum above xi = -1; that of these {len(x)} values has none, so fit a "
        "gumbel law or use compute law empirical",
    )
