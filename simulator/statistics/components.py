"""How measured ranks hang together: the parts of the variance of their times, each with a test.

A two-way layout (Searle, Casella, McCulloch, Variance Components, 1992, chapter 4): block j on rank r takes

    y_jr = mean + common_j + rank_r + own_jr,

where a rank's own noise goes from block to block as an AR(1) chain. Estimates are by moments; tests take the noise's
memory into account by counting so many blocks as would say as much if they were independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan, sqrt

import numpy as np
from numpy.typing import ArrayLike

from simulator.arrays import Array
from simulator.checks import InputError

LEVEL = 0.01  # of a test below which a part is believed
LEAST = 3  # blocks
MOST_MEMORY = 0.99
LEAST_SPREAD = 0.2  # of the mean spread: a rank's own noise is never estimated as none


@dataclass(frozen=True, kw_only=True)
class Components:
    """Parts of the variance of times y, shape (blocks, ranks), in the unit of y squared, and what they are of.

    Attributes:
        blocks, ranks: shape of what was measured.
        mean: of all.
        offsets: of each rank from the mean; none where tables of different ranks were pooled.
        between: sum of their squares / (ranks - 1).
        common: variance of what all ranks of a block share.
        node: variance of what the ranks of a node share, block by block; 0 where nodes were not told apart.
        own: variance of a rank's own noise, mean over ranks.
        noise: variance between the ranks of a block beyond their lasting effects: own noise, and nodes that differ.
        spreads: standard deviation of each rank's own noise / their root mean square.
        memory: correlation of a rank's own noise from one block to the next.
        p_rank, p_common, p_node, p_spreads, p_memory: how likely as much would be if there were no such part; NaN where
            it was not tested.
        p_cancel: how likely the times of a block would cancel as much, were its ranks independent.
    """

    blocks: int
    ranks: int
    mean: float
    offsets: tuple[float, ...]
    between: float
    common: float
    node: float
    own: float
    noise: float
    spreads: tuple[float, ...]
    memory: float
    p_rank: float
    p_common: float
    p_node: float
    p_spreads: float
    p_memory: float
    p_cancel: float

    @property
    def independent_blocks(self) -> float:
        """So many independent blocks would say as much about a rank's mean."""
        return effective(self.blocks, self.memory)

    @property
    def rank(self) -> float:
        """Variance of the ranks' effects, taken as drawn at random: without what their means have of the noise."""
        return max(0.0, self.between - self.noise / self.independent_blocks)

    @property
    def within(self) -> float:
        """Variance between the ranks of a block: of their effects and noise."""
        return self.rank + self.noise

    @property
    def total(self) -> float:
        """Variance of a time taken at random: with these ranks' own effects or, where these are none of the same ranks'
        (pooled tables), with effects drawn anew."""
        effects = self.between * (self.ranks - 1) / self.ranks if self.offsets else self.rank
        return self.common + self.node + self.own + effects

    @property
    def rank_share(self) -> float:
        """Part of the variance between ranks that is the same in every block."""
        return self.rank / self.within if self.within > 0 else 0.0

    @property
    def spread_ratio(self) -> float:
        """Largest of the spreads / smallest; infinite where a rank never varies."""
        least, most = min(self.spreads), max(self.spreads)
        return most / least if least > 0 else inf if most > 0 else 1.0


def effective(blocks: int, memory: float) -> float:
    """Independent blocks whose mean varies as that of ``blocks`` with an AR(1) correlation; at least 2.

    >>> effective(100, 0.0), effective(100, 0.5)
    (100.0, 33.333333333333336)
    """
    return max(2.0, blocks * (1 - memory) / (1 + memory)) if memory > 0 else float(blocks)


def components(y: ArrayLike, ranks_per_node: int | None = None) -> Components:
    """The parts of the variance of times.

    Args:
        y: times or scores of blocks in the order of time, shape (blocks, ranks).
        ranks_per_node: consecutive ranks that share a node; None for no such part.

    Raises:
        InputError: for another shape, fewer than 3 blocks or 2 ranks, or times that do not vary.

    >>> found = components([[1.0, 2.0], [3.0, 4.0], [2.0, 3.0], [0.0, 1.5]])
    >>> found.offsets, round(found.memory, 2)
    ((-0.5625, 0.5625), 0.0)
    """
    from scipy.stats import f

    x = np.asarray(y, dtype=float)
    if x.ndim != 2 or x.shape[0] < LEAST or x.shape[1] < 2 or not np.isfinite(x).all():
        raise InputError("times", f"must be of at least {LEAST} blocks on at least 2 ranks; got shape {x.shape}")
    blocks, ranks = x.shape
    mean = float(x.mean())
    common, offsets = x.mean(axis=1) - mean, x.mean(axis=0) - mean
    own = x - mean - common[:, None] - offsets
    squares = float((own**2).sum())
    if not squares > 1e-24 * float((x**2).sum()):
        raise InputError("times", "must vary from block to block in ways that ranks do not share; they do not")

    of_blocks = float((common**2).sum()) / (blocks - 1)
    alike = of_blocks * ranks * (blocks - 1) * (ranks - 1) / squares  # 1 where ranks have nothing in common
    shared = f.sf(alike, blocks - 1, (blocks - 1) * (ranks - 1)) < LEVEL
    # Taking off what a block shares mixes the noise of its ranks: only where they do share something.
    noise = own if shared else x - x.mean(axis=0)
    spreads = _spreads(own) if shared else noise.std(axis=0) / noise.std()
    nodes = _nodes(ranks, ranks_per_node)
    if nodes:  # what a node shares has no memory
        split = noise.reshape(blocks, nodes, -1)
        memory, p_memory = _memory((split - split.mean(axis=2, keepdims=True)).reshape(x.shape), ranks - nodes)
    else:
        memory, p_memory = _memory(noise, ranks - int(shared))
    believed = memory if p_memory < LEVEL else 0.0
    independent = effective(blocks, believed)
    variance = squares / ((blocks - blocks / independent) * (ranks - 1))
    varying = effective(blocks, believed**2)  # so many independent ones, for a variance
    freedom = (varying - 1) * (ranks - 1)

    p_rank = float(f.sf(independent * float((offsets**2).sum()) / (ranks - 1) / variance, ranks - 1, freedom))
    node, p_node = _node(own, ranks_per_node, variance, independent)
    group = ranks_per_node or 1
    alone = variance - node * (ranks - group) / (ranks - 1)
    of_block = (alone + node * group) / ranks  # variance of a block's mean, were there no common part
    p_common = float(f.sf(of_blocks / of_block, varying - 1, freedom))
    p_cancel = float(f.cdf(of_blocks / of_block, varying - 1, freedom))
    return Components(
        blocks=blocks, ranks=ranks, mean=mean, offsets=tuple(offsets.tolist()),
        between=float((offsets**2).sum()) / (ranks - 1),
        common=max(0.0, of_blocks - of_block), node=node, own=alone, noise=variance,
        spreads=tuple(spreads.tolist()), memory=believed,
        p_rank=p_rank, p_common=p_common, p_node=p_node, p_spreads=_p_spreads(noise, believed), p_memory=p_memory,
        p_cancel=p_cancel,
    )  # fmt: skip


def pooled(tables: Sequence[ArrayLike], ranks_per_node: int | None = None) -> Components:
    """The parts of the variance of several tables, each of ranks of its own: means over tables, by their blocks.

    A part is believed where the most telling table, allowing for their number (Bonferroni), tells it.

    Args and errors as ``components``.
    """
    found = [components(table, ranks_per_node) for table in tables]
    if len(found) == 1:
        return found[0]
    weights = [own.blocks for own in found]
    means = {
        name: float(np.average([getattr(own, name) for own in found], weights=weights))
        for name in ("mean", "between", "common", "node", "own", "noise", "memory")
    }
    chances = {
        name: min(1.0, len(found) * min(getattr(own, name) for own in found))
        for name in ("p_rank", "p_common", "p_node", "p_spreads", "p_memory", "p_cancel")
    }
    alike = tuple(np.sqrt(np.average(np.square([own.spreads for own in found]), axis=0, weights=weights)).tolist())
    return Components(blocks=sum(weights), ranks=found[0].ranks, offsets=(), spreads=alike, **means, **chances)


def _memory(noise: Array, independent_ranks: int) -> tuple[float, float]:
    """Correlation of ranks' noise from block to block, and how likely one as large would be without any.

    Ranks count by their variance, as their noise does in a wait. Corrected for the mean that was taken off each rank
    (Kendall 1954): about -(1 + 3*rho)/blocks.
    """
    from scipy.stats import norm

    blocks, ranks = noise.shape
    squares = (noise**2).sum(axis=0)
    seen = float((noise[1:] * noise[:-1]).sum() / squares.sum())
    alike = squares.sum() ** 2 / (squares**2).sum() * independent_ranks / ranks  # so many ranks of the same variance
    deviation = (seen + 1 / blocks) * sqrt(blocks * alike)
    corrected = (seen * blocks + 1) / (blocks - 3) if blocks > 3 else seen
    return min(max(corrected, -MOST_MEMORY), MOST_MEMORY), 2 * float(norm.sf(abs(deviation)))


def _node(own: Array, ranks_per_node: int | None, variance: float, independent: float) -> tuple[float, float]:
    """Variance of what a node's ranks share besides what all do, and how likely as much would be without; 0 and NaN
    where there are no two nodes of two ranks."""
    from scipy.stats import f

    ranks, nodes = own.shape[1], _nodes(own.shape[1], ranks_per_node)
    if not nodes or ranks_per_node is None:
        return 0.0, nan
    split = own.reshape(len(own), nodes, ranks_per_node)
    means = split.mean(axis=2)
    scale = independent / (independent - 1) / len(own)
    between = scale * ranks_per_node * float((means**2).sum()) / (nodes - 1)
    inside = scale * float(((split - means[..., None]) ** 2).sum()) / (ranks - nodes)
    chance = float(f.sf(between / inside, (independent - 1) * (nodes - 1), (independent - 1) * (ranks - nodes)))
    return min(max(0.0, (between - inside) / ranks_per_node), 0.999 * variance), chance


def _nodes(ranks: int, ranks_per_node: int | None) -> int:
    """How many nodes of several ranks there are; 0 where they cannot be told apart."""
    if ranks_per_node is None or ranks_per_node < 2 or ranks % ranks_per_node or ranks == ranks_per_node:
        return 0
    return ranks // ranks_per_node


def _spreads(own: Array) -> Array:
    """Standard deviation of each rank's own noise, relative to their root mean square.

    What was taken off for the block mixes ranks: var(own_r) = v_r*(1 - 2/R) + mean(v)/R, which is solved for v_r.
    """
    ranks = own.shape[1]
    seen = (own**2).mean(axis=0)
    mean = seen.sum() / (ranks - 1)
    if ranks == 2:  # both show the same
        return np.ones(2)
    relative = np.maximum((seen - mean / ranks) / (1 - 2 / ranks) / mean, LEAST_SPREAD**2)
    return np.asarray(np.sqrt(relative / relative.mean()))


def _p_spreads(own: Array, memory: float) -> float:
    """How likely ranks' noises would be as unlike, were they alike: Levene's test, for so many blocks as would say as
    much if they were independent (squares of an AR(1) chain are correlated by memory^2)."""
    from scipy.stats import f, levene

    blocks, ranks = own.shape
    if ranks == 2:
        return nan
    independent = effective(blocks, memory**2)
    return float(f.sf(levene(*own.T).statistic * independent / blocks, ranks - 1, ranks * (independent - 1)))
