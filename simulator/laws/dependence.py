"""Ranks that depend on each other: persistent stragglers, shared nodes, common shocks, and AR(1) noise.

Every rank's time is a quantile of its law at Y, a sum of Gaussian parts (a Gaussian copula, Nelsen, An Introduction
to Copulas, 2006), so that the law of a single time stays what it was:

    Y = sqrt(common)*C + sqrt(node)*N + sqrt(rank)*R + sqrt(rest)*E,        t = -ln Phi(Y)

C is drawn for each block, N for each block and node, R once in a run for each rank, and E, each rank's own noise,
is AR(1) from block to block, with coefficient ``memory``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from simulator.checks import Checked, Finite, InputError, Rule, keep

Array = NDArray[np.float64]

MOST_UNLIKE = 1000.0  # the standard deviation of one rank to that of another
LARGEST_OFFSET = 37.0  # standard deviations


Share = Annotated[float, Rule(least=0, below=1)]


@dataclass(frozen=True, kw_only=True)
class Dependence(Checked):
    """How the times of ranks hang together: shares of the variance of Y, whose sum is below 1.

    Attributes:
        common: share that all ranks of a block have in common.
        node: share that the ranks of a node have in common, block by block.
        rank: share that a rank keeps through the whole run.
        offsets: instead of ``rank``, what each rank is off by, in standard deviations of Y: known stragglers. Their
            mean is taken off, and their mean square is their share. More ranks repeat the pattern.
        spreads: how far each rank's own noise reaches, relative to the others; none means alike.
        memory: lag-1 autocorrelation of a rank's own noise, from block to block (AR(1) coefficient).
        ranks_per_node: consecutive ranks that share a node.
    """

    common: Share = 0.0
    node: Share = 0.0
    rank: Share = 0.0
    offsets: Sequence[Finite] = ()
    spreads: Sequence[Finite] = ()
    memory: Annotated[float, Rule(above=-1, below=1)] = 0.0
    ranks_per_node: Annotated[int, Rule(least=1)] = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        offsets, spreads = np.array(self.offsets), np.array(self.spreads)
        if len(offsets) and self.rank > 0:
            raise InputError("rank", "must be 0 where offsets are given: either the ranks' effects are drawn, or known")
        if len(offsets) and len(spreads) and len(offsets) != len(spreads):
            raise InputError("spreads", f"must be as many as offsets ({len(offsets)}); got {len(spreads)}")
        if len(offsets) and not np.abs(offsets).max() <= LARGEST_OFFSET:
            raise InputError("offsets", f"must be from -{LARGEST_OFFSET:g} to {LARGEST_OFFSET:g}", self.offsets)
        if len(spreads) and not (spreads.min() > 0 and spreads.max() <= MOST_UNLIKE * spreads.min()):
            raise InputError(
                "spreads", f"must be above 0, and the largest at most {MOST_UNLIKE:g} times the smallest", self.spreads
            )
        keep(self, offsets=tuple((offsets - offsets.mean()).tolist()) if len(offsets) else ())
        if len(spreads):
            spreads /= spreads.max()  # no square leaves the range of doubles
            spreads /= sqrt((spreads**2).mean())
        keep(self, spreads=tuple(spreads.tolist()))
        if not self.own > 0:
            parts = f"common {self.common:g}, node {self.node:g}, rank {self.rank:g}, offsets {self.fixed:.4g}"
            raise InputError(
                f"common, node, rank and the mean square of offsets must add up to less than 1; got {parts}"
            )

    @property
    def fixed(self) -> float:
        """Share of the variance that the offsets are: their mean square."""
        return float(np.mean(np.square(self.offsets))) if self.offsets else 0.0

    @property
    def own(self) -> float:
        """Share of the variance that is each rank's own noise."""
        return 1 - self.common - self.node - self.rank - self.fixed

    @property
    def drawn(self) -> bool:
        """Whether effects of ranks are drawn, once in a run."""
        return self.rank > 0

    @property
    def persistent(self) -> bool:
        """Whether ranks keep an effect through a run."""
        return self.rank > 0 or self.fixed > 0

    @property
    def none(self) -> bool:
        """Whether ranks are independent and alike after all."""
        return self.own == 1 and not self.spreads and self.memory == 0

    def nodes(self, n: int) -> int:
        """How many nodes ``n`` ranks are on."""
        return -(-n // self.ranks_per_node)

    def shared(self, n: int) -> int:
        """How many variates a block of ``n`` ranks needs besides one for each rank: the common one, one per node."""
        return (self.common > 0) + (self.node > 0) * self.nodes(n)

    def check_ranks(self, n: int) -> None:
        """Raise InputError when the ranks' offsets or spreads do not fit ``n`` ranks."""
        pattern = max(len(self.offsets), len(self.spreads))
        if pattern and n % pattern:
            raise InputError(
                "n", f"must be a multiple of the {pattern} ranks whose offsets or spreads are known; got {n}"
            )

    def of_ranks(self, values: Sequence[float], n: int, otherwise: float) -> Array:
        """``values`` repeated over ``n`` ranks; ``otherwise`` for each where there are none."""
        return np.tile(values, n // len(values)) if values else np.full(n, otherwise)

    def combine(self, own: Array, shared: Array, rank: Array) -> None:
        """Turn each rank's own noise into Y, in place.

        Args:
            own: standard normal, shape (..., n).
            shared: standard normal, shape (..., ``shared(n)``).
            rank: standard normal, shape (n,): what a rank keeps through the run.
        """
        n = own.shape[-1]
        own *= sqrt(self.own) * self.of_ranks(self.spreads, n, 1.0)
        own += self.of_ranks(self.offsets, n, 0.0)
        if self.rank > 0:
            own += sqrt(self.rank) * rank
        if self.common > 0:
            own += sqrt(self.common) * shared[..., :1]
        if self.node > 0:
            nodes = shared[..., shared.shape[-1] - self.nodes(n) :]
            own += sqrt(self.node) * nodes[..., np.arange(n) // self.ranks_per_node]

    def chain(self, noise: Array, blocks: int) -> Array:
        """Each rank's own noise at the end of every iteration of ``blocks`` blocks: from independent to a chain.

        Args:
            noise: standard normal, shape (iterations + 1, n).
            blocks: blocks in an iteration; consecutive ends are correlated by ``memory**blocks``.

        Returns:
            shape (iterations + 1, n); entry i is where iteration i begins.
        """
        step = self.memory**blocks
        rest = sqrt(1 - step * step)
        states = np.empty_like(noise)
        states[0] = noise[0]
        for i in range(1, len(noise)):
            states[i] = step * states[i - 1] + rest * noise[i]
        return states

    def bridge(self, last: Array, end: Array, noise: Array, left: int) -> Array:
        """Each rank's own noise in one block, given that of the block before and that of the iteration's last block.

        A step of a stationary AR(1) chain conditioned on its value ``left`` steps later (the Gaussian conditional), so
        that iterations can be drawn in any order and still follow each other.

        Args:
            last, end: the given values, shape (..., n).
            noise: standard normal, shape (..., n).
            left: blocks of the iteration that come after this one; at 0 the result is ``end``.
        """
        phi = self.memory
        whole, rest = 1 - phi ** (2 * left + 2), 1 - phi ** (2 * left)
        own = 1 - phi * phi
        return (phi * rest * last + phi**left * own * end) / whole + sqrt(own * rest / whole) * noise

    def inflation(self, blocks: int) -> float:
        """How much larger at most autocorrelation makes a standard error over iterations of ``blocks`` blocks.

        Two functions of a Gaussian chain are correlated no more than its values themselves (Gebelein 1941):
        iterations k apart by at most memory^((k - 1)*blocks + 1).

        >>> Dependence(memory=0.5).inflation(1) == sqrt((1 + 0.5) / (1 - 0.5))
        True
        """
        phi = abs(self.memory)
        return sqrt(1 + 2 * phi / (1 - phi**blocks))
