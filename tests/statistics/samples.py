"""Samples whose tax is known: nine laws of independent ranks, two more, and ranks and blocks that depend on each other.

All have times of mean 0 and variance 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import exp, pi, sqrt
from pathlib import Path

import numpy as np
from scipy import stats
from scipy.signal import lfilter

from simulator.arrays import Array
from simulator.laws import block_maxima

DATA = Path(__file__).parent.parent / "data"
RNG = np.random.Generator


@cache
def known_gumbel() -> Array:
    """500 steps of 8 independent Gumbel ranks, 16 ms ± 2 %, seconds; tax of 8: 518.8 us, of 512: 1556 us."""
    return np.loadtxt(DATA / "times" / "known_gumbel_8x500.csv", delimiter=",", skiprows=1)


@dataclass(frozen=True)
class Source:
    """How to draw (blocks, ranks), and the tax of n ranks drawn anew, E[max of n] - mean."""

    draw: Callable[[RNG, int, int], Array]
    tax: Callable[[int], float]


def independent(law: stats.rv_continuous) -> Source:
    """Independent times of a law of SciPy, put to mean 0 and variance 1."""
    mean, sd = law.mean(), law.std()
    return Source(
        lambda rng, blocks, ranks: (law.rvs(size=(blocks, ranks), random_state=rng) - mean) / sd,
        lambda n: (expected_max(law.isf, n) - mean) / sd,
    )


def spliced(mu: float, sigma: float, xi: float) -> Source:
    """Independent ranks of the simulator's law whose maxima of 4 are GEV (conf/compute/gumbel.yaml, frechet.yaml)."""
    law = block_maxima(mean=1.0, cv=0.02, mu=mu, sigma=sigma, xi=xi)
    return Source(
        lambda rng, blocks, ranks: (law.sample(rng, (blocks, ranks)) - 1) / 0.02, lambda n: law.wait(n) / 0.02
    )


def expected_max(isf: Callable[[Array], Array], n: int) -> float:
    """E[max of n]: the mean of isf(1 - exp(-t/n)) over an exponential t, by trapezoids in ln t."""
    u = np.linspace(-70, 4.3, 20_001)  # up to t = 74
    t = np.exp(u)
    u, t = u[t / n < 30], t[t / n < 30]
    return float(np.trapezoid(isf(-np.expm1(-t / n)) * t * np.exp(-t), u))


def mixture(weights: Array, sds: Array, means: Array) -> Callable[[Array], Array]:
    """isf of a mixture of normal laws, by its values on a grid."""
    x = np.concatenate([np.linspace(-30, -9, 200), np.linspace(-9, 25, 60_001), np.linspace(25, 90, 1000)])
    sf = sum(w * stats.norm.sf((x - m) / s) for w, s, m in zip(weights, sds, means, strict=True))
    return lambda p: np.interp(-np.log(p), -np.log(sf[sf > 0]), x[sf > 0])


def bimodal(rng: RNG, blocks: int, ranks: int) -> Array:
    """3 % of times are 5 standard deviations slower."""
    slow = rng.random((blocks, ranks)) < 0.03
    return (rng.normal(size=(blocks, ranks)) + 5 * slow - 0.15) / sqrt(1 + 25 * 0.03 * 0.97)


def bimodal_tax(n: int) -> float:
    isf = mixture(np.array([0.97, 0.03]), np.ones(2), np.array([0.0, 5.0]))
    return (expected_max(isf, n) - 0.15) / sqrt(1 + 25 * 0.03 * 0.97)


def scales(rng: RNG, *shape: int) -> Array:
    """exp(g/2) with E[scale^2] = 1."""
    return np.exp(0.5 * rng.normal(size=shape) - 0.25)


def rank_scale_tax(n: int) -> float:
    """A rank drawn anew is a normal time of a log-normal scale: Gauss-Hermite in its logarithm."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    return expected_max(mixture(weights / sqrt(2 * pi), np.exp(0.5 * nodes - 0.25), 0 * nodes), n)


def normal_tax(n: int) -> float:
    return expected_max(stats.norm.isf, n)


def gumbel_tax(n: int) -> float:
    """ln n standard scales above the mean, which is pi/sqrt(6) of them as a standard deviation."""
    return float(np.log(n)) * sqrt(6) / pi


def memory(rng: RNG, blocks: int, ranks: int) -> Array:
    """AR(1) of .8."""
    noise = rng.normal(size=(blocks + 50, ranks))
    return lfilter([0.6], [1, -0.8], noise, axis=0)[50:]


NINE = {
    "normal": Source(lambda rng, *shape: rng.normal(size=shape), normal_tax),
    "gumbel": Source(lambda rng, *shape: (rng.gumbel(size=shape) - np.euler_gamma) * sqrt(6) / pi, gumbel_tax),
    "logistic": independent(stats.logistic()),
    "t6": independent(stats.t(6)),
    "t4": independent(stats.t(4)),
    "lognormal": independent(stats.lognorm(0.5)),
    "spliced gumbel": spliced(0.7058, 0.4085, 0.0),
    "spliced frechet": spliced(0.67313, 0.38128, 0.15),
    "bimodal": Source(bimodal, bimodal_tax),
}
TWO_MORE = {"exponential": independent(stats.expon()), "uniform": independent(stats.uniform())}
DEPENDENT = {
    "ar1": Source(memory, normal_tax),
    "common shock": Source(
        lambda rng, blocks, ranks: (
            NINE["gumbel"].draw(rng, blocks, ranks) * sqrt(0.5) + rng.normal(size=(blocks, 1)) * sqrt(0.5)
        ),
        lambda n: gumbel_tax(n) * sqrt(0.5),
    ),
    "rank scales": Source(
        lambda rng, blocks, ranks: rng.normal(size=(blocks, ranks)) * scales(rng, 1, ranks), rank_scale_tax
    ),
    "block scales": Source(
        lambda rng, blocks, ranks: rng.normal(size=(blocks, ranks)) * scales(rng, blocks, 1),
        lambda n: normal_tax(n) * exp(-0.125),
    ),
    "rank offsets": Source(
        lambda rng, blocks, ranks: (
            rng.normal(size=(blocks, ranks)) * sqrt(0.5) + rng.normal(size=(1, ranks)) * sqrt(0.5)
        ),
        normal_tax,
    ),
}


@cache
def recorded_times() -> tuple[Array, Array]:
    """Of 4 A100, 49 steps after the first, seconds: compute, and minus the all-reduce (the last waits least)."""
    path = Path(__file__).parents[2] / "simulator" / "data" / "stragglar_4xa100_llama3.2-3b_steps.csv"
    rows = np.loadtxt(path, delimiter=",", skiprows=2)[4:]
    return (rows[:, 3] + rows[:, 4]).reshape(-1, 4) / 1e3, -rows[:, 6].reshape(-1, 4) / 1e3
