"""Ring: every rank has a link to the rank before it and the rank after it."""

from __future__ import annotations

from dataclasses import dataclass

from simulator import Algorithm, Kind, Topology, ring


@dataclass(frozen=True, kw_only=True)
class Ring(Topology):
    """n ranks on a ring.

    >>> Ring(alpha=5e-6, bandwidth=450e9).cost(Kind.ALL_REDUCE, 2**28, 128).latency
    0.00127
    """

    def algorithms(self, kind: Kind, n: int) -> tuple[Algorithm, ...]:
        return (ring(kind, n),)
