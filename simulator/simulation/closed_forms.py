"""Closed forms: communication time, its elasticity, the optimal bandwidth, and the expected iteration.

Communication seen by the job is T = tau + p*alpha + q*S/B: the synchronization tax, the latency and the transfer
(seed paper, section 6). Only the last shrinks when bandwidth grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from simulator.checks import InputError, number
from simulator.laws import IndependentLaw, Law
from simulator.network.topology import Cost
from simulator.workload.program import Collective, Compute, Program


def elasticity(wait: float, latency: float, transfer: float) -> float | None:
    """Elasticity of communication time to bandwidth, eps = -(q*S/B)/T, from -1 to 0; None where there is no time.

    All in seconds (paper, eq. 7). At -0.5, 1 % more bandwidth saves 0.5 % of the time.

    >>> round(elasticity(935.6e-6, 10e-6, 1190.7e-6), 3)
    -0.557
    """
    total = wait + latency + transfer
    return 0.0 - transfer / total if total > 0 else None


def optimal_bandwidth(volume: float, wait: float, latency: float, target: float = -0.5) -> float | None:
    """Bandwidth B* at which the elasticity is ``target``: q*S*(1 - |eps|)/(|eps|*(tau + p*alpha)), bytes/s.

    Args:
        volume: q*S, bytes through each rank's link.
        wait: synchronization tax tau, seconds; 0 gives the Hockney baseline.
        latency: p*alpha, seconds.
        target: elasticity, between -1 and 0.

    Returns:
        B*; infinity where nothing but the transfer takes time, None where nothing is transferred.

    Paper, eq. 8 and 9. The NVSwitch domain of 4096 ranks, where the paper finds today's 450 GB/s saturated:

    >>> print(f"{optimal_bandwidth(2 * 4095 / 4096 * 2**28, 1207.39e-6, 10e-6) / 1e9:.1f} GB/s")
    440.9 GB/s
    """
    size = -number("target", target, above=-1, below=0)
    if volume == 0:
        return None
    floor = wait + latency
    return volume * (1 - size) / (size * floor) if floor > 0 else float("inf")


def reduction(wait: float, latency: float) -> float | None:
    """How much lower B* is than the Hockney baseline, whatever S, B and eps: tau/(p*alpha + tau).

    >>> print(f"{reduction(754.35e-6, 10e-6):.4f}")  # 98.69 % at n = 128, fully connected
    0.9869
    """
    return wait / (wait + latency) if wait + latency > 0 else None


@dataclass(frozen=True)
class Prediction:
    """What the closed forms say of a program: seconds, or None with the reason why they do not hold.

    ``wait`` is the mean over collectives of the law's E[max of n] - mean; ``iteration_time`` the sum over blocks
    of E[max of n] and of the collectives' times: L*(a + tau + T) for L equal blocks.
    """

    wait: float | None
    iteration_time: float | None
    reason: str = ""


def predict(program: Program, costs: Sequence[Cost | None]) -> Prediction:
    """Closed forms of a bulk-synchronous program: one stream, one group, one block before each collective.

    Args:
        program: the operations.
        costs: for each operation its cost; None for computes.
    """
    groups = {op.group for op in program.operations if isinstance(op, Collective)}
    sizes = {program.blocks(group)[1] for group in groups}
    if len(program.streams) > 1:
        return Prediction(None, None, f"operations overlap on {len(program.streams)} streams")
    if len(groups) > 1 and sizes != {program.n}:
        return Prediction(None, None, f"collectives synchronise {len(groups)} different groups")
    waits: list[float] = []
    times: list[float] = []
    block: Law | None = None
    known: dict[int, tuple[float, float]] = {}
    size = sizes.pop() if sizes else program.n
    strided = any(program.blocks(group)[2] > 1 for group in groups)
    for op, cost in zip(program.operations, costs, strict=True):
        if isinstance(op, Compute):
            if block is not None:
                return Prediction(None, None, "several compute blocks follow each other without a collective")
            block = op.law
            if not isinstance(block, IndependentLaw) and strided:
                return Prediction(
                    None, None, f"the {block.name} law draws blocks of neighbouring ranks, which groups cross"
                )
            if id(block) not in known:
                try:
                    known[id(block)] = block.expected_max(size), block.wait(size)
                except InputError as error:
                    return Prediction(None, None, str(error))
            times.append(known[id(block)][0])
        else:
            assert cost is not None
            waits.append(known[id(block)][1] if block is not None else 0.0)
            times.append(cost.time)
            block = None
    wait = fsum(waits) / len(waits) if waits else 0.0
    if size != program.n:
        return Prediction(wait, None, f"the iteration ends with the slowest of {program.n // size} groups")
    return Prediction(wait, fsum(times))
