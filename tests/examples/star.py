"""A topology: every rank has one link to a hub, which passes messages on."""

from dataclasses import dataclass

from simulator import Algorithm, Topology


@dataclass(frozen=True, kw_only=True)
class Star(Topology):
    """n ranks around a hub that is as fast as a rank, so that what all ranks send crosses its one link."""

    def algorithms(self, kind, n):
        rounds, volume = (2, float(n)) if n > 1 else (0, 0.0)
        return (Algorithm("star", rounds, volume, source="all n buffers cross the hub's link, to it and back"),)
