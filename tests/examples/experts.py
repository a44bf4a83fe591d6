"""A workload: a mixture of experts, whose tokens travel to their expert and back in every layer."""

from dataclasses import dataclass

from simulator import Collective, Compute, Kind, Program, checks


@dataclass(frozen=True, kw_only=True)
class Experts:
    """``layers`` layers of attention and experts; two AllToAll of ``bytes`` (per-rank buffer) around the experts."""

    layers: int
    bytes: float

    def __post_init__(self):
        checks.keep(self, layers=checks.count("layers", self.layers, most=100_000))

    def program(self, n, law):
        operations = []
        for i in range(self.layers):
            operations += [
                Compute(name=f"attention{i}", law=law),
                Collective(name=f"dispatch{i}", kind=Kind.ALL_TO_ALL, nbytes=self.bytes),
                Compute(name=f"experts{i}", law=law.scaled(2.0)),
                Collective(name=f"combine{i}", kind=Kind.ALL_TO_ALL, nbytes=self.bytes),
            ]
        return Program(mesh={"ep": n}, operations=operations)
