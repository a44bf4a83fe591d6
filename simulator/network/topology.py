"""The plug-in interface of a topology, and the cost of one collective on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from simulator.checks import MAX_RANKS, Checked, InputError, Rule, count, instance, number, one_of
from simulator.network.collectives import MAX_BYTES, Algorithm, Kind

Latency = Annotated[float, Rule(least=0)]
Bandwidth = Annotated[float, Rule(above=0, infinite=True)]


@dataclass(frozen=True, kw_only=True)
class Machine(Checked):
    """Accelerator and link that a run assumes: latency per round (s) and bandwidth per rank and direction (bytes/s)."""

    name: str
    alpha: Latency
    bandwidth: Bandwidth


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
class Topology(Checked, ABC):
    """How n ranks are wired. A plug-in is a subclass with ``algorithms``, and one YAML file that names it.

    Attributes:
        alpha: latency of one round, seconds.
        bandwidth: bandwidth of one rank into the collective, bytes/s per direction; infinity is allowed.
        algorithm: name of the algorithm to use where the topology offers it; None takes the first one offered.
    """

    alpha: Latency
    bandwidth: Bandwidth
    algorithm: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.algorithm is not None:
            one_of("algorithm", self.algorithm, dict.fromkeys(a.name for kind in Kind for a in self._offered(kind, 8)))

    @abstractmethod
    def algorithms(self, kind: Kind, n: int) -> tuple[Algorithm, ...]:
        """The algorithms offered for ``kind`` over ``n`` ranks, the bandwidth-optimal one first."""

    @property
    def name(self) -> str:
        """Name in tables and titles."""
        return type(self).__name__.lower()

    def check(self, n: int) -> None:
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
            InputError: for a size that is not a finite number of bytes, at least 0, for an unknown kind or a number
                of ranks out of range, or when the class offers no algorithm whose rounds and volume are numbers.
        """
        nbytes = number("bytes", nbytes, least=0, most=MAX_BYTES)
        n = count("n", n, most=MAX_RANKS)
        offered = self._offered(Kind(one_of("kind", kind, [k.value for k in Kind])), n)
        chosen = next((a for a in offered if a.name == self.algorithm), offered[0])
        who = f"algorithm {chosen.name!r} of {type(self).__name__}"
        latency = number(f"rounds of {who}", chosen.rounds, least=0) * self.alpha
        volume = number(f"volume of {who}", chosen.volume, least=0) * nbytes
        return Cost(chosen, latency, volume / self.bandwidth, volume)

    def _offered(self, kind: Kind, n: int) -> Sequence[Algorithm]:
        """What the subclass offers, checked: a plug-in may be wrong."""
        offered = self.algorithms(kind, n)
        if not isinstance(offered, list | tuple) or not offered:
            raise InputError(
                "algorithms",
                f"of {type(self).__name__} must be at least one Algorithm for {kind} over {n} ranks",
                offered,
            )
        for algorithm in offered:
            instance(f"algorithms of {type(self).__name__}", algorithm, Algorithm)
        return offered
