"""Pure alpha-beta (Hockney) formulas: how many rounds and how much volume a collective takes.

A collective on S bytes over n ranks costs ``T = p*alpha + q*S/B``: p rounds of latency alpha, and q*S bytes
through each rank's link of bandwidth B, in one direction. S is the size that nccl-tests prints (src/reduce.cu,
src/gather.cu, ...): the per-rank buffer for AllReduce, AllToAll, Broadcast, Reduce and a send; the full size of n parts
for AllGather, ReduceScatter, Gather and Scatter. Where an algorithm moves no more than it must, q is the factor that
turns S/T into the bus bandwidth of nccl-tests (doc/PERFORMANCE.md, GetBw in src/*.cu): 2(n-1)/n for AllReduce; 1 for
Broadcast, Reduce and a send; (n-1)/n for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

THAKUR = "Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, 2005"
SACK = "Sack, Gropp, Collective Algorithms for Multiported Torus Networks, 2015 (bucket algorithm)"
CHAN = "Chan, Heimlich, Purkayastha, van de Geijn, Collective communication: theory, practice, and experience, 2007"
ROOTED = f"volume: the lower bound in {CHAN}; rounds: derived where the algorithm is described"
MSCCL = "MSCCL 2-phase all-pairs, as used by the seed paper, section 6"
MAX_BYTES = 1e30  # of one collective


class Kind(StrEnum):
    """The collectives a program may name.

    The simulation makes a barrier of each, also of those with a root (Broadcast, Reduce, Gather, Scatter): it starts
    when the last rank of the group is ready and ends on all ranks together. NCCL's kernels wait for their root and
    peers too, but a rank whose own part is done may end before the others.
    """

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
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

    Reduce is the pipelined Broadcast in reverse: chunks go along the chain that ends at the root, and each rank adds
    its own (NCCL, src/device/reduce.h). In a Gather the blocks of S/n go along the same chain, so that the root's link
    passes one in each of n - 1 rounds; a Scatter is its reverse. As in the other kinds, one direction is used.

    >>> ring(Kind.ALL_REDUCE, 8).rounds, ring(Kind.ALL_REDUCE, 8).volume
    (14, 1.75)
    >>> ring(Kind.REDUCE, 8).volume, ring(Kind.GATHER, 8).rounds, ring(Kind.GATHER, 8).volume
    (1.0, 7, 0.875)
    """
    return _by_dimension("ring", kind, (n,), THAKUR)


def bucket(kind: Kind, dims: Sequence[float]) -> Algorithm:
    """Bucket (multidimensional ring) algorithm on a torus: the ring algorithm along one dimension after another.

    The buffer shrinks by each side that was reduced, so the volume telescopes to that of one long ring while the
    rounds are only the sum of the sides. AllToAll exchanges whole buffers along each dimension in turn.

    A Gather on X x Y x Z ranks collects each line of the first dimension at one end, then X blocks from each of these
    along the second, then X*Y along the third. The root's links pass (X-1) + X(Y-1) + XY(Z-1) = n - 1 blocks of S/n in
    (X-1) + (Y-1) + (Z-1) rounds. A Scatter is its reverse. Broadcast and Reduce are pipelined over all dimensions.

    >>> bucket(Kind.ALL_REDUCE, (8, 8, 8)).rounds, bucket(Kind.ALL_REDUCE, (8, 8, 8)).volume
    (42, 1.99609375)
    >>> bucket(Kind.ALL_REDUCE, (8, 1, 1)) == bucket(Kind.ALL_REDUCE, (8,))
    True
    """
    return _by_dimension("bucket", kind, dims, SACK)


def all_pairs(kind: Kind, n: int) -> Algorithm:
    """2-phase all-pairs algorithm on a fully connected switch: every rank exchanges with every other at once.

    A ReduceScatter, AllGather or AllToAll is one phase, an AllReduce two. A broadcast sends one part to each rank,
    which passes it on to all others as it arrives. A Reduce is its reverse: each of the other ranks adds up one part of
    S/(n-1), which goes on to the root as it is summed. In a Gather each rank sends its block to the root at once, in a
    Scatter the root to each rank: the root's link passes n - 1 blocks of S/n in one round.

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
        Kind.REDUCE: (min(2, n - 1), 1.0),
        Kind.GATHER: (1, phase),
        Kind.SCATTER: (1, phase),
        Kind.SEND: (1, 1.0),
    }[kind]
    return Algorithm("all_pairs", rounds, volume, _source(kind, MSCCL))


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
        Kind.REDUCE: (steps, 1.0),
        Kind.GATHER: (steps, phase),
        Kind.SCATTER: (steps, phase),
        Kind.SEND: (1, 1.0),
    }[kind]
    return Algorithm(name, rounds, volume, _source(kind, source))


def _source(kind: Kind, otherwise: str) -> str:
    return ROOTED if kind in (Kind.REDUCE, Kind.GATHER, Kind.SCATTER) else otherwise
