"""The plug-in interface of a topology, and the cost of one collective on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from simulator.checks import InputError, nearest, number
from simulator.collectives import Algorithm, Kind


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Accelerator and link that a run assumes: latency per round (s) and bandwidth per rank and direction (bytes/s)."""

    name: str
    alpha: float
    bandwidth: float

    def __post_init__(self) -> None:
        number("alpha", self.alpha, least=0)
        number("bandwidth", self.bandwidth, above=0, infinite=True)


@dataclass(frozen=True)
class Cost:
    """What one collective costs: ``latency`` p*alpha and ``transfer`` q*S/B in seconds, ``volume`` q*S in bytes."""

    algorithm: Algorithm
    latency: float
    transfer: float
    volume: float

    @property
    def time(self) -> float:
        """Seconds from the last arrival to the end of the collective."""
        return self.latency + self.transfer


@dataclass(frozen=True, kw_only=True)
class Topology(ABC):
    """How n ranks are wired. A plug-in is a subclass with ``algorithms``, and one YAML file that names it.

    Attributes:
        alpha: latency of one round, seconds.
        bandwidth: bandwidth of one rank into the collective, bytes/s per direction; infinity is allowed.
        algorithm: name of the algorithm to use where the topology offers it; None takes the first one offered.
    """

    alpha: float
    bandwidth: float
    algorithm: str | None = None

    def __post_init__(self) -> None:
        number("alpha", self.alpha, least=0)
        number("bandwidth", self.bandwidth, above=0, infinite=True)
        offered = dict.fromkeys(a.name for kind in Kind for a in self.algorithms(kind, 8))
        if self.algorithm is not None and self.algorithm not in offered:
            hint = nearest(self.algorithm, offered)
            raise InputError(f"algorithm must be one of {', '.join(offered)}; got {self.algorithm!r}{hint}")

    @abstractmethod
    def algorithms(self, kind: Kind, n: int) -> tuple[Algorithm, ...]:
        """The algorithms offered for ``kind`` over ``n`` ranks, the bandwidth-optimal one first."""

    @property
    def name(self) -> str:
        """Name in tables and titles."""
        return type(self).__name__.lower()

    def check(self, n: int) -> None:  # noqa: B027 - most topologies take any n
        """Raise InputError when a domain of ``n`` ranks cannot be wired this way."""

    def shape(self, n: int) -> str:
        """How ``n`` ranks are laid out, for people: ``"8x8x8"`` on a torus, the number of ranks elsewhere."""
        return str(n)

    def links(self, n: int) -> int:
        """Links of one rank that each have ``bandwidth``: 6 on a 3D torus, 1 where it is the total of a rank."""
        return 1

    def note(self, n: int) -> str:
        """What a reader must know about this size (a torus that is only a ring), or an empty string."""
        return ""

    def cost(self, kind: Kind, nbytes: float, n: int) -> Cost:
        """Cost of one collective on ``nbytes`` (S, nccl-tests convention) over a group of ``n`` ranks.

        Raises:
            InputError: for a size that is not a finite number of bytes, at least 0.
        """
        number("bytes", nbytes, least=0)
        offered = self.algorithms(kind, n)
        chosen = next((a for a in offered if a.name == self.algorithm), offered[0])
        volume = chosen.volume * nbytes
        return Cost(chosen, chosen.rounds * self.alpha, volume / self.bandwidth, volume)
