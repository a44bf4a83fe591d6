"""Workloads: what a job makes every rank do in one iteration. A plug-in is a class with ``program(n, law)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, Literal, Protocol

from simulator.checks import MAX_RANKS, Checked, InputError, Rule, count, number, one_of, text
from simulator.laws import Law
from simulator.network.collectives import MAX_BYTES, Kind
from simulator.workload.program import ALL, MAX_OPERATIONS, Collective, Compute, Operation, Program


class Workload(Protocol):
    """Anything that can write the program of one iteration for ``n`` ranks with block times from ``law``."""

    def program(self, n: int, law: Law) -> Program: ...


def scaled(law: Law, n: int, scaling: str, reference_ranks: int) -> Law:
    """The law of a block on n ranks: the same under weak scaling, times ``reference_ranks/n`` under strong scaling."""
    return law if scaling == "weak" else law.scaled(reference_ranks / n)


PAIRS = MAX_OPERATIONS // 2  # of a compute and a collective
Bytes = Annotated[float, Rule(least=0, most=MAX_BYTES)]
Scaling = Literal["weak", "strong"]
Ranks = Annotated[int, Rule(least=1, most=MAX_RANKS)]


@dataclass(frozen=True, kw_only=True)
class TensorParallel(Checked):
    """A tensor-parallel transformer: every compute block ends in a collective that all ranks wait for.

    Attributes:
        layers: transformer layers.
        forward: collectives of one layer's forward pass.
        backward: collectives of one layer's backward pass.
        bytes: size of each collective (S, nccl-tests convention).
        kind: which collective it is.
        scaling: ``weak`` keeps the block time as the domain grows, ``strong`` divides it by n/reference_ranks.
        reference_ranks: domain size at which the law's block time was measured.

    >>> from simulator.laws import Deterministic
    >>> len(TensorParallel(layers=80, bytes=2**28).program(8, Deterministic(mean=0.016)).collectives)
    320
    """

    layers: int
    bytes: Bytes
    forward: Annotated[int, Rule(least=0, most=PAIRS)] = 2
    backward: Annotated[int, Rule(least=0)] = 2
    kind: Annotated[str, Rule(allowed=[kind.value for kind in Kind])] = Kind.ALL_REDUCE.value
    scaling: Scaling = "weak"
    reference_ranks: Ranks = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        count("backward", self.backward, least=0, most=PAIRS - self.forward)
        if self.forward + self.backward == 0:
            raise InputError("forward", "and backward must not both be 0: a layer needs a collective")
        count("layers", self.layers, most=PAIRS // (self.forward + self.backward))

    def program(self, n: int, law: Law) -> Program:
        block = scaled(law, n, self.scaling, self.reference_ranks)
        steps = [f"layer{i}.forward{j}" for i in range(self.layers) for j in range(self.forward)]
        steps += [f"layer{i}.backward{j}" for i in reversed(range(self.layers)) for j in range(self.backward)]
        operations: list[Operation] = []
        for step in steps:
            operations.append(Compute(name=f"{step}.compute", law=block))
            operations.append(Collective(name=f"{step}.{self.kind}", kind=Kind(self.kind), nbytes=self.bytes))
        return Program(mesh={"tp": n}, operations=operations)


@dataclass(frozen=True, kw_only=True)
class DataParallel(Checked):
    """Data-parallel training with gradient buckets: each bucket's AllReduce overlaps the rest of the backward pass.

    The forward pass is one block. The backward pass is ``buckets`` equal blocks; as each ends, its bucket is reduced
    on a communication stream of its own. The iteration ends with the last bucket.

    Attributes:
        bytes: gradient bytes of the whole model; each bucket has an equal part.
        buckets: gradient buckets (1: no overlap, one collective after the backward pass).
        forward_share: part of the law's block time that is the forward pass.
        scaling: ``weak`` keeps the block time as the domain grows, ``strong`` divides it by n/reference_ranks.
        reference_ranks: domain size at which the law's block time was measured.
    """

    bytes: Bytes
    buckets: Annotated[int, Rule(least=1, most=(MAX_OPERATIONS - 1) // 2)] = 1
    forward_share: Annotated[float, Rule(least=0, below=1)] = 1 / 3
    scaling: Scaling = "weak"
    reference_ranks: Ranks = 8

    def program(self, n: int, law: Law) -> Program:
        law = scaled(law, n, self.scaling, self.reference_ranks)
        if self.buckets == 1:
            step = Compute(name="step.compute", law=law)
            sync = Collective(name="step.all_reduce", kind=Kind.ALL_REDUCE, nbytes=self.bytes)
            return Program(mesh={"dp": n}, operations=[step, sync])
        operations: list[Operation] = []
        if self.forward_share > 0:
            operations.append(Compute(name="forward", law=law.scaled(self.forward_share)))
        backward = law.scaled((1 - self.forward_share) / self.buckets)
        for i in range(self.buckets):
            block = Compute(name=f"backward{i}", law=backward)
            operations.append(block)
            operations.append(
                Collective(
                    name=f"bucket{i}.all_reduce",
                    kind=Kind.ALL_REDUCE,
                    nbytes=self.bytes / self.buckets,
                    stream="communication",
                    after=[block.name],
                )
            )
        return Program(mesh={"dp": n}, operations=operations)


@dataclass(frozen=True, kw_only=True)
class Operations(Checked):
    """A program written out in the config: a mesh and a list of operations.

    Attributes:
        mesh: axes and sizes, whose product must be n; one size may be -1 and is then n over the others.
        operations: mappings. ``{compute: NAME, scale: 1.0}`` runs the law, times scale;
            ``{collective: NAME, kind: all_reduce, bytes: S, group: AXIS}`` communicates; both take ``stream`` and
            ``after``.
    """

    mesh: Mapping[str, int]
    operations: Sequence[Mapping[str, Any]]

    def program(self, n: int, law: Law) -> Program:
        return Program(
            mesh=self._sizes(n),
            operations=[_operation(i, dict(entry), law) for i, entry in enumerate(self.operations)],
        )

    def _sizes(self, n: int) -> dict[str, int]:
        free = [axis for axis, size in self.mesh.items() if isinstance(size, int) and size == -1]
        sizes = {axis: count(f"mesh.{axis}", size) for axis, size in self.mesh.items() if axis not in free}
        known = prod(sizes.values())
        if len(free) == 1 and n % known == 0:
            sizes[free[0]] = n // known
        elif free or known != n:
            raise InputError(
                "mesh", f"must have sizes that multiply to n = {n}, at most one of them -1", dict(self.mesh)
            )
        return {axis: sizes[axis] for axis in self.mesh}


def _operation(i: int, entry: dict[str, Any], law: Law) -> Operation:
    placed = {key: entry.pop(key) for key in ("stream", "after") if key in entry}
    if "compute" in entry and not set(entry) - {"compute", "scale"}:
        scale = number(f"operations[{i}].scale", entry.get("scale", 1.0), above=0)
        return Compute(name=text(f"operations[{i}].compute", entry["compute"]), law=law.scaled(scale), **placed)
    if {"collective", "kind", "bytes"} <= set(entry) <= {"collective", "kind", "bytes", "group"}:
        name = text(f"operations[{i}].collective", entry["collective"])
        kind = Kind(one_of(f"operations[{i}].kind", entry["kind"], [k.value for k in Kind]))
        return Collective(name=name, kind=kind, nbytes=entry["bytes"], group=entry.get("group", ALL), **placed)
    raise InputError(
        f"operations[{i}]",
        f"must have the keys compute [scale] or collective, kind, bytes [group], and may have stream "
        f"and after; got {', '.join(entry) or 'none'}",
    )
