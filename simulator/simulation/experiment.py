"""An experiment: everything a simulation depends on, checked."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

from simulator.checks import MAX_RANKS, Checked, InputError, Rule, keep, shown
from simulator.laws import Law
from simulator.network.collectives import Kind
from simulator.network.topology import Cost, Machine, Topology
from simulator.simulation.draws import TICK, Effects, Engine
from simulator.simulation.vector import Vector
from simulator.workload.program import Collective, Compute, Program
from simulator.workload.training import Workload

MAX_SEED = 2**63 - 1
MAX_ITERATIONS = 10_000_000  # iterations.parquet holds a row for each, 0.1 kB in memory
MAX_BARRIERS = 10_000_000  # of one iteration, 0.4 kB each
FINE = 1000 * TICK  # shorter durations lose a thousandth or more to rounding


@dataclass(frozen=True, kw_only=True)
class Experiment(Checked):
    """A simulation: n ranks on a topology run a workload whose block times follow a law.

    Attributes:
        n: ranks in the scale-up domain, up to 16,777,216.
        topology: how they are wired, with alpha and bandwidth.
        compute: law of the compute-block times.
        workload: writes the program of one iteration.
        machine: the machine whose link the topology took; recorded, not used.
        engine: vector or events; both give the same numbers.
        iterations: independent iterations to simulate, up to 10,000,000.
        seed: whole number from 0 to 2^63 - 1; None draws one, which the manifest records.
        name: the experiment's name in tables.
    """

    n: Annotated[int, Rule(least=1, most=MAX_RANKS)]
    topology: Topology
    compute: Law
    workload: Workload
    machine: Machine | None = None
    engine: Engine = field(default_factory=Vector)
    iterations: Annotated[int, Rule(least=1, most=MAX_ITERATIONS)] = 40
    seed: Annotated[int, Rule(least=0, most=MAX_SEED)] | None = 0
    name: str = "simulation"

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, seed=secrets.randbelow(MAX_SEED) if self.seed is None else self.seed)
        self.topology.check(self.n)
        self.compute.check_ranks(self.n)

    @cached_property
    def program(self) -> Program:
        """The operations of one iteration.

        Raises:
            InputError: when the workload writes no program for n ranks, or one too large to run.
        """
        program = self.workload.program(self.n, self.compute)
        if not isinstance(program, Program) or program.n != self.n:
            other = f"one for {program.n}" if isinstance(program, Program) else shown(program)
            raise InputError("workload", f"must write a Program for n = {self.n} ranks; got {other}")
        if program.barriers > MAX_BARRIERS:
            raise InputError(
                "workload",
                f"must give at most {MAX_BARRIERS} barriers (collectives x groups of ranks) in one iteration; "
                f"got {program.barriers}",
            )
        self.engine.check(program)
        return program

    @cached_property
    def costs(self) -> tuple[Cost | None, ...]:
        """For each operation of the program its cost on the topology; None for computes."""
        program = self.program
        known: dict[tuple[Kind, float, str], Cost] = {}
        for op in program.operations:
            if isinstance(op, Collective) and (op.kind, op.nbytes, op.group) not in known:
                cost = self.topology.cost(op.kind, op.nbytes, program.blocks(op.group)[1])
                known[op.kind, op.nbytes, op.group] = cost
        return tuple(
            known[op.kind, op.nbytes, op.group] if isinstance(op, Collective) else None for op in program.operations
        )

    @cached_property
    def effects(self) -> Effects:
        """State carried between the iterations of the run, where the law has any."""
        return Effects(self.program, self.seed or 0, self.iterations)

    @cached_property
    def notes(self) -> list[str]:
        """What a reader of the results must know."""
        notes = [self.topology.note(self.n), self.compute.note]
        laws = {id(op.law): op.law for op in self.program.operations if isinstance(op, Compute)}.values()
        durations = {
            "compute: the mean of a block's times": [law.mean for law in laws],
            "compute: how far ranks are apart in a block": [law.sd for law in laws],
            "topology: the time of a collective": [cost.time for cost in self.costs if cost is not None],
        }
        for what, seconds in durations.items():
            fine = [x for x in seconds if 0 < x < FINE]
            if fine:
                notes.append(
                    f"{what} is {min(fine):.2g} s, near the clock's tick of {TICK:.2g} s: simulated times are rounded "
                    f"to ticks, closed forms are not"
                )
        return [note for note in notes if note]
