"""What one iteration is: compute and collective operations on streams, over a mesh of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from simulator.checks import InputError, count, keep, mapping, nearest, number, one_of, text, texts
from simulator.laws import Law
from simulator.network.collectives import MAX_BYTES, Kind

ALL = "all"  # the group of every rank
MAX_OPERATIONS = 1_000_000  # of one iteration: they take about 1 GB


def keep_place(operation: Compute | Collective) -> None:
    """Check and store what all operations have: a name, a stream and what they run after."""
    name = text("name of an operation", operation.name)
    stream, after = text(f"stream of {name!r}", operation.stream), texts(f"after of {name!r}", operation.after)
    keep(operation, name=name, stream=stream, after=after)


@dataclass(frozen=True, kw_only=True)
class Compute:
    """A compute block: every rank runs it for a time of its own, drawn from ``law``."""

    name: str
    law: Law
    stream: str = "main"
    after: Sequence[str] = ()

    def __post_init__(self) -> None:
        keep_place(self)
        if not isinstance(self.law, Law):
            raise InputError("law", f"of {self.name!r} must be a compute-time law", self.law)


@dataclass(frozen=True, kw_only=True)
class Collective:
    """A collective of ``kind`` on ``nbytes`` (nccl-tests convention) among the ranks along ``group``.

    ``group`` is an axis of the program's mesh, or ``"all"``.
    """

    name: str
    kind: Kind
    nbytes: float
    group: str = ALL
    stream: str = "main"
    after: Sequence[str] = ()

    def __post_init__(self) -> None:
        keep_place(self)
        kind = Kind(one_of(f"kind of {self.name!r}", self.kind, [k.value for k in Kind]))
        nbytes = number(f"bytes of {self.name!r}", self.nbytes, least=0, most=MAX_BYTES)
        keep(self, kind=kind, nbytes=nbytes, group=text(f"group of {self.name!r}", self.group))


Operation = Compute | Collective


@dataclass(frozen=True, kw_only=True)
class Program:
    """The operations of one iteration, in issue order; every rank runs all of them.

    An operation is ready on a rank when the previous one on its stream and all that it runs ``after`` have ended
    there. A compute block then runs for its drawn time; a collective starts when the last rank of its group is ready
    and ends for all of them together.

    Attributes:
        mesh: names and sizes of the rank mesh's axes, slowest first; rank = row-major index.
        operations: computes and collectives. ``after`` names earlier operations only, so there are no cycles.

    Raises:
        InputError: for a repeated name, a later or unknown operation in ``after``, or a group that is no axis.
    """

    mesh: Mapping[str, int]
    operations: Sequence[Operation] = field(repr=False)

    def __post_init__(self) -> None:
        operations = self.operations
        if not isinstance(operations, list | tuple) or not all(isinstance(op, Operation) for op in operations):
            raise InputError("operations", "must be a list of Compute and Collective", operations)
        if len(operations) > MAX_OPERATIONS:
            raise InputError("operations", f"must be at most {MAX_OPERATIONS} in one iteration; got {len(operations)}")
        axes = {axis: count(f"mesh.{axis}", size) for axis, size in mapping("mesh", self.mesh).items()}
        if not axes or ALL in axes:
            raise InputError("mesh", f"must name at least one axis, none of them {ALL!r}", dict(self.mesh))
        keep(self, operations=tuple(operations), mesh=axes)
        self._check_operations()

    def _check_operations(self) -> None:
        axes = self.mesh
        names = {op.name for op in self.operations}
        seen: set[str] = set()
        for op in self.operations:
            if op.name in seen:
                raise InputError("operations", f"must have distinct names; got {op.name!r} twice")
            for before in op.after:
                if before not in seen:
                    why = "a later operation" if before in names else f"unknown{nearest(before, seen)}"
                    raise InputError("after", f"of {op.name!r} must name earlier operations; {before!r} is {why}")
            if isinstance(op, Collective) and op.group not in (ALL, *axes):
                raise InputError(
                    "group",
                    f"of {op.name!r} must be {ALL} or an axis of the mesh ({', '.join(axes)}); got {op.group!r}"
                    f"{nearest(op.group, axes)}",
                )
            if isinstance(op, Compute):
                op.law.check_ranks(self.n)
            seen.add(op.name)

    @cached_property
    def n(self) -> int:
        """Number of ranks."""
        return prod(self.mesh.values())

    def blocks(self, group: str) -> tuple[int, int, int]:
        """``(a, g, b)``: ranks reshape to a x g x b, and the instances of the group are its g-long lines."""
        if group == ALL:
            return 1, self.n, 1
        sizes = list(self.mesh.values())
        axis = list(self.mesh).index(group)
        return prod(sizes[:axis]), sizes[axis], prod(sizes[axis + 1 :])

    @cached_property
    def computes(self) -> tuple[int, ...]:
        """Indices of the compute operations."""
        return tuple(i for i, op in enumerate(self.operations) if isinstance(op, Compute))

    @cached_property
    def collectives(self) -> tuple[int, ...]:
        """Indices of the collectives."""
        return tuple(i for i, op in enumerate(self.operations) if isinstance(op, Collective))

    @cached_property
    def barriers(self) -> int:
        """Barriers of one iteration: the instances of all collectives' groups."""
        instances = {group: self.n // self.blocks(group)[1] for group in (ALL, *self.mesh)}
        return sum(instances[op.group] for op in self.operations if isinstance(op, Collective))

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """For each operation, the indices of those that must have ended on the rank before it is ready."""
        index: dict[str, int] = {}
        last: dict[str, int] = {}
        result = []
        for i, op in enumerate(self.operations):
            before = {index[name] for name in op.after}
            if op.stream in last:
                before.add(last[op.stream])
            result.append(tuple(sorted(before)))
            index[op.name] = last[op.stream] = i
        return tuple(result)

    @cached_property
    def sinks(self) -> frozenset[int]:
        """Operations that no other waits for: the iteration ends with the last of them."""
        return frozenset(range(len(self.operations))) - {j for before in self.predecessors for j in before}

    @cached_property
    def streams(self) -> dict[str, tuple[int, ...]]:
        """Operation indices of each stream, in issue order."""
        streams: dict[str, list[int]] = {}
        for i, op in enumerate(self.operations):
            streams.setdefault(op.stream, []).append(i)
        return {name: tuple(indices) for name, indices in streams.items()}
