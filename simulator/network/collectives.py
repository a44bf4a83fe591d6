"""Pure alpha-beta (Hockney) formulas: how many rounds and how much volume a collective takes.

A collective on S bytes over n ranks costs ``T = p*alpha + q*S/B``: p rounds of latency alpha, and q*S bytes
through each rank's link of bandwidth B. S follows the nccl-tests convention: the per-rank buffer for AllReduce,
AllToAll, Broadcast and a send; the full (gathered) size for AllGather and ReduceScatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

THAKUR = "Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, 2005"
SACK = "Sack, Gropp, Collective Algorithms for Multiported Torus Networks, 2015 (bucket algorithm)"
MSCCL = "MSCCL 2-phase all-pairs, as used by the seed paper, section 6"
MAX_BYTES = 1e30  # of one collective


class Kind(StrEnum):
    """The collectives a program may name."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    SEND = "send"

    @property
    def label(self) -> str:
        """The name as people write it: ``AllReduce``."""
        return self.value.title().replace("_", "")


@dataclass(frozen=True)
class Algorithm:
    """One way to run a collective: ``rounds`` (p), ``volume`` (q, in units of S) and where the formula is from."""

    name: str
    rounds: float
    volume: float
    source: str


def ring(kind: Kind, n: int) -> Algorithm:
    """Ring algorithm over n ranks, each linked to two neighbours.

    AllReduce is a ReduceScatter and an AllGather of n - 1 rounds each. AllToAll passes every block on until it
    arrives, d hops for the rank d places on. Broadcast is pipelined along the ring. A send is a shift by one.

    >>> ring(Kind.ALL_REDUCE, 8).rounds, ring(Kind.ALL_REDUCE, 8).volume
    (14, 1.75)
    """
    return _by_dimension("ring", kind, (n,), THAKUR)


def bucket(kind: Kind, dims: Sequence[float]) -> Algorithm:
    """Bucket (multidimensional ring) algorithm on a torus: the ring algorithm along one dimension after another.

    The buffer shrinks by each side that was reduced, so the volume telescopes to that of one long ring while the
    rounds are only the sum of the sides. AllToAll exchanges whole buffers along each dimension in turn.

    >>> bucket(Kind.ALL_REDUCE, (8, 8, 8)).rounds, bucket(Kind.ALL_REDUCE, (8, 8, 8)).volume
    (42, 1.99609375)
    >>> bucket(Kind.ALL_REDUCE, (8, 1, 1)) == bucket(Kind.ALL_REDUCE, (8,))
    True
    """
    return _by_dimension("bucket", kind, dims, SACK)


def all_pairs(kind: Kind, n: int) -> Algorithm:
    """2-phase all-pairs algorithm on a fully connected switch: every rank exchanges with every other at once.

    A ReduceScatter, AllGather or AllToAll is one phase, an AllReduce two. A broadcast sends one part to each rank,
    which passes it on to all others as it arrives.

    >>> all_pairs(Kind.ALL_REDUCE, 4096).rounds, all_pairs(Kind.ALL_TO_ALL, 8).volume
    (2, 0.875)
    """
    if n == 1:
        return Algorithm("all_pairs", 0, 0.0, MSCCL)
    phase = (n - 1) / n
    rounds, volume = {
        Kind.ALL_REDUCE: (2, 2 * phase),
        Kind.REDUCE_SCATTER: (1, phase),
        Kind.ALL_GATHER: (1, phase),
        Kind.ALL_TO_ALL: (1, phase),
        Kind.BROADCAST: (min(2, n - 1), 1.0),
        Kind.SEND: (1, 1.0),
    }[kind]
    return Algorithm("all_pairs", rounds, volume, MSCCL)


def _by_dimension(name: str, kind: Kind, dims: Sequence[float], source: str) -> Algorithm:
    n = prod(dims)
    if n == 1:
        return Algorithm(name, 0, 0.0, source)
    steps = sum(side - 1 for side in dims)
    phase = (n - 1) / n
    rounds, volume = {
        Kind.ALL_REDUCE: (2 * steps, 2 * phase),
        Kind.REDUCE_SCATTER: (steps, phase),
        Kind.ALL_GATHER: (steps, phase),
        Kind.ALL_TO_ALL: (steps, steps / 2),
        Kind.BROADCAST: (steps, 1.0),
        Kind.SEND: (1, 1.0),
    }[kind]
    return Algorithm(name, rounds, volume, source)
