"""A 3D torus whose sides need not be whole: the smooth curve that papers plot, p = 6(cbrt(n) - 1)."""

from __future__ import annotations

from dataclasses import dataclass
from math import cbrt

from simulator import Algorithm, Kind, Topology, bucket


@dataclass(frozen=True, kw_only=True)
class FractionalTorus3D(Topology):
    """A torus of cbrt(n) ranks a side (seed paper, section 6); a machine of that size exists only where n is a cube.

    Meant for the collectives whose volume does not depend on the sides, all but AllToAll; ``Torus3D`` is the torus that
    can be built.

    >>> torus = FractionalTorus3D(alpha=5e-6, bandwidth=450e9)
    >>> round(torus.cost(Kind.ALL_REDUCE, 2**28, 128).latency / 5e-6, 1), torus.shape(512)
    (24.2, '8x8x8')
    """

    def shape(self, n: int) -> str:
        return "x".join([f"{cbrt(n):.4g}"] * 3)

    def links(self, n: int) -> int:
        return 6 if n > 1 else 0

    def algorithms(self, kind: Kind, n: int) -> tuple[Algorithm, ...]:
        side = cbrt(n)
        return (bucket(kind, (side, side, side)),)
