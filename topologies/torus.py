"""3D torus: X x Y x Z ranks, each with links to its two neighbours along every dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import Annotated

from simulator import Algorithm, InputError, Kind, Topology, bucket
from simulator.checks import MAX_RANKS, Rule, count, shown


@dataclass(frozen=True, kw_only=True)
class Torus3D(Topology):
    """A torus of ``dims`` = (X, Y, Z) ranks; without dims, the most cubic torus of n ranks.

    A group smaller than the domain costs what the most cubic torus of its size costs.

    >>> torus = Torus3D(alpha=5e-6, bandwidth=450e9)
    >>> torus.shape(512), torus.cost(Kind.ALL_REDUCE, 2**28, 512).latency
    ('8x8x8', 0.00021)
    """

    dims: Sequence[Annotated[int, Rule(least=1)]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dims is not None and len(self.dims) != 3:
            raise InputError("dims", "must be three whole numbers such as [8,8,8]", list(self.dims))

    def check(self, n: int) -> None:
        if self.dims is not None and prod(self.dims) != n:
            text = "x".join(map(str, self.dims))
            raise InputError("dims", f"must multiply to n = {n}; got {text} = {shown(prod(self.dims))}")

    def sides(self, n: int) -> tuple[int, ...]:
        """The three sides used for ``n`` ranks."""
        return tuple(self.dims) if self.dims is not None and prod(self.dims) == n else most_cubic(n)

    def shape(self, n: int) -> str:
        return "x".join(map(str, self.sides(n)))

    def links(self, n: int) -> int:
        return sum(min(2, side - 1) for side in self.sides(n))  # a side of 2 has one neighbour

    def note(self, n: int) -> str:
        if n > 3 and self.dims is None and self.sides(n)[1] == 1:
            return f"topology: {n} is prime, so the most cubic torus is {self.shape(n)}, which is a ring"
        return ""

    def algorithms(self, kind: Kind, n: int) -> tuple[Algorithm, ...]:
        return (bucket(kind, self.sides(n)),)


def most_cubic(n: int) -> tuple[int, int, int]:
    """The factorisation n = X*Y*Z, X >= Y >= Z, with the smallest X + Y + Z.

    >>> most_cubic(512), most_cubic(128), most_cubic(7)
    ((8, 8, 8), (8, 4, 4), (7, 1, 1))
    """
    count("n", n, most=MAX_RANKS)
    divisors = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    triples = [
        (n // (y * z), y, z) for z in divisors for y in divisors if z <= y and n % (y * z) == 0 and n // (y * z) >= y
    ]
    return min(triples, key=sum)
