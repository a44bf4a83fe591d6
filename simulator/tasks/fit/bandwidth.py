"""What the tax means for a link: the optimal bandwidth B*, with the interval that the tax leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan

from simulator.checks import InputError
from simulator.lazy import pd
from simulator.network.collectives import Kind
from simulator.network.topology import Topology
from simulator.simulation.closed_forms import optimal_bandwidth
from simulator.statistics.tax_estimate import Estimate
from simulator.tasks.fit.fitted import Fitted
from simulator.traces.summary import Summary

ASSUMED = 2.0**28  # bytes of a collective whose size nobody says: the paper's, section 6


@dataclass(frozen=True)
class Link:
    """A collective on a topology.

    Attributes:
        topology: how ranks are wired.
        kind: which collective.
        nbytes: its size, bytes.
        known: whether the size was measured or given, and not assumed.
    """

    topology: Topology
    kind: Kind
    nbytes: float
    known: bool

    @classmethod
    def of(cls, topology: Topology, summary: Summary, group: str, nbytes: float | None) -> Link:
        """The collective of a group in which most is waited for: its kind and its size, where they are said."""
        own = [one for one in summary.collectives if one.group == group and one.duration]
        own.sort(key=lambda one: sum(max(row) - min(row) for row in one.duration))
        most = own[-1] if own else None
        kinds = {kind.value for kind in Kind}
        kind = Kind(most.operation) if most is not None and most.operation in kinds else Kind.ALL_REDUCE
        seen = float(most.bytes) if most is not None and most.bytes else None
        size = nbytes if nbytes is not None else seen
        return cls(topology, kind, ASSUMED if size is None else size, size is not None)

    def optimal(self, own: Estimate) -> tuple[float, float, float]:
        """B* at n ranks, where the elasticity of communication to bandwidth is -0.5, and the ends that the interval of
        the tax gives it; bytes/s, NaN where nothing is claimed or such n cannot be wired."""
        try:
            self.topology.check(own.n)
            cost = self.topology.cost(self.kind, self.nbytes, own.n)
        except InputError:
            return nan, nan, nan
        best, low, high = (_optimal(cost.volume, tax, cost.latency) for tax in (own.tau, own.high, own.low))
        return best, low, high


def _optimal(volume: float, tax: float, latency: float) -> float:
    found = optimal_bandwidth(volume, tax, latency) if tax == tax else None
    return nan if found is None else found


def bandwidths(found: Fitted, link: Link) -> Iterator[tuple[Estimate, float, float, float]]:
    """The measured ranks and those that were asked for: the tax, and B* with its ends."""
    for n in sorted({found.main.steps.n, *found.sizes}):
        own = found.main.estimate(n)
        yield own, *link.optimal(own)


def bandwidth_table(found: Fitted, link: Link) -> pd.DataFrame:
    """One row per n: the tax, and B* of a rank's link with its interval, bytes/s; of links a rank has several of, on a
    torus, each."""
    return pd.DataFrame([
        {"n": own.n, "topology": link.topology.name, "kind": link.kind.value, "bytes": link.nbytes,
         "bandwidth": link.topology.bandwidth, "tau": own.tau, "status": own.status, "bandwidth_optimal": best,
         "bandwidth_optimal_low": low, "bandwidth_optimal_high": high}
        for own, best, low, high in bandwidths(found, link)
    ])  # fmt: skip
