"""NVSwitch: a non-blocking switch, every rank reaches every other at full bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

from simulator import Algorithm, Kind, Topology, all_pairs, ring


@dataclass(frozen=True, kw_only=True)
class NVSwitch(Topology):
    """n ranks, fully connected; ``algorithm="ring"`` runs NCCL's ring over the same switch.

    >>> NVSwitch(alpha=5e-6, bandwidth=450e9).cost(Kind.ALL_REDUCE, 2**28, 8).time
    0.0010539156622222223
    """

    def algorithms(self, kind: Kind, n: int) -> tuple[Algorithm, ...]:
        return (all_pairs(kind, n), ring(kind, n))
