"""The ``tail`` law of measured steps: offsets of ranks, what blocks share, and the pooled rest with its tail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, log, sqrt
from typing import Any

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.laws import Empirical, EmpiricalBlocks, Law, Tail
from simulator.statistics.components import LEVEL
from simulator.statistics.tail import Tail as Pooled
from simulator.statistics.tax_estimate import LEAST_TIMES, Estimate, Measured
from simulator.tasks.fit.steps import Steps
from simulator.tax import subset_tax
from simulator.text import off

QUANTILES = 101
COMMON = 21  # quantiles of what the ranks of a block share
FAR = 0.05  # of the law's tax from the measured one, relative, from which on steps are drawn again instead; and from
# what the measured tax itself is uncertain by
LADDER = (8, 4, 2)  # times the measured ranks: where the law's tax is also the estimate, the first that is claimed
MOST_STRETCHED = 1.5  # factor of the rest
MOST_APART = 3.0  # factor of the offsets that are drawn
TOLD_APART = 1e6  # condition number, above which what the body pays and what the top does are not told apart
DIGITS = 7  # of a written number
MOST_WRITTEN = 40_000  # times of a resampled law


@dataclass(frozen=True, kw_only=True)
class StepLaw:
    """A law of what ranks do between two barriers, for the simulator.

    Attributes:
        law: the law.
        arguments: of its class.
        miss: of the tail law's tax from the measured one at the measured ranks, relative, before it was fitted to it;
            NaN where there is no such law.
        reasons: in sentences, why the law is what it is.
    """

    law: Law
    arguments: dict[str, Any]
    miss: float
    reasons: Sequence[str] = ()


def propose(steps: Steps, measured: Measured, estimate: Callable[[int], Estimate]) -> StepLaw:
    """The tail law of measured steps; where it does not give their tax, or there is none, the steps drawn again.

    Args:
        steps: what was measured.
        measured: their times, for estimates.
        estimate: n -> ``Estimate``.
    """
    if measured.components is None or steps.times.size < LEAST_TIMES:
        return _resampled(steps, "there are too few times, or none of a rank's own, for a law of them")
    try:
        plain = _parts(steps, measured)
        miss = Tail(**plain).wait(steps.n) / steps.tax - 1
        own = estimate(steps.n)
        chance = log(own.high / own.low) / 2 if own.tau > 0 and isfinite(own.low) else 0.0
        if abs(miss) > max(FAR, chance):
            return _resampled(
                steps,
                f"a law of offsets, a common part and independent rests has a tax {off(miss)} the measured one",
                miss,
            )
        arguments = _fitted(plain, steps, estimate)
        left = Tail(**arguments).wait(steps.n) / steps.tax - 1
        if abs(left) > FAR:
            return _resampled(steps, f"a tail law has a tax {off(left)} the measured one", miss)
        return StepLaw(law=Tail(**arguments), arguments=arguments, miss=miss)
    except InputError as error:
        return _resampled(steps, f"there is no tail law: {error}")


def independent(times: Array) -> Law:
    """What one would simulate who takes ranks as independent and alike: the pooled times alone."""
    own = times - times.mean()
    if own.size < LEAST_TIMES:
        return Empirical(values=times.ravel())
    return Tail(block_mean=float(times.mean()), **_rest(Pooled.of(np.sort(own, axis=None))))


def _resampled(steps: Steps, why: str, miss: float = float("nan")) -> StepLaw:
    """Measured steps, drawn again; of very many, as many as a file takes, evenly."""
    every = -(-steps.times.size // MOST_WRITTEN)
    times = [[_short(value) for value in row] for row in steps.times[::every].tolist()]
    some = f", every {every}th of them" if every > 1 else ""
    return StepLaw(
        law=EmpiricalBlocks(steps=np.array(times)), arguments={"steps": times}, miss=miss,
        reasons=[f"{why}: the law draws the measured steps again{some}"],
    )  # fmt: skip


def _parts(steps: Steps, measured: Measured) -> dict[str, Any]:
    """Arguments of the law as the times have it."""
    found, own = measured.found, measured.pooled
    arguments: dict[str, Any] = {"block_mean": float(steps.times.mean())}
    if measured.ranks_differ:
        own = own - own.mean(axis=0)
        arguments |= {"offsets": list(found.offsets), "offsets_sd": sqrt(found.rank)}
    if found.p_memory < LEVEL and found.memory > 0:
        arguments["memory"] = found.memory
    if measured.pooling.common and found.common > 0:
        shared = np.sort(steps.times.mean(axis=1))
        shared = (shared - shared.mean()) * min(1.0, sqrt(found.common / float(shared.var())))
        arguments["common"] = np.quantile(shared, np.linspace(0, 1, COMMON)).tolist()
    return arguments | _rest(Pooled.of(np.sort(own, axis=None)))


def _rest(law: Pooled) -> dict[str, Any]:
    """Arguments of the rest: quantiles at equal steps of -ln(1 - p), and the tail."""
    above = law.above / law.size
    levels = -np.expm1(-np.linspace(0, -log(above), QUANTILES))
    table = np.interp(levels, (np.arange(len(law.body)) + 0.5) / law.size, law.body)
    table[-1] = law.body[-1]
    return {"quantiles": table.tolist(), "above": above, "excess": law.excess, "shape": law.shape}


def _fitted(plain: dict[str, Any], steps: Steps, estimate: Callable[[int], Estimate]) -> dict[str, Any]:
    """The same, stretched so that the law's tax is the measured one at the measured ranks N and the estimate at 8 N,
    where there is one: what was measured of the tax says more than what independent draws make of times.

    Of alike ranks the rest is multiplied by one factor up to the quantile that one of N ranks exceeds and by another
    above it: the tax is linear in both. Of others it is multiplied by one factor, and so are the offsets that are drawn
    by another. Factors that are no small correction are not made.
    """
    n, tax = steps.n, float(subset_tax(steps.times, steps.n).mean())
    far = [(found.n, found.tau) for found in (estimate(times * n) for times in LADDER) if isfinite(found.tau)]
    known = [(n, tax), *far[:1]]
    body = top = _factor(lambda factor: Tail(**_stretched(plain, n, factor, factor)).wait(n) - tax)
    if len(known) == 2 and "offsets" not in plain:
        parts = [Tail(**_stretched(plain, n, *only)) for only in ((1.0, 0.0), (0.0, 1.0))]
        shares = np.array([[law.wait(size) for law in parts] for size, _ in known])
        if np.linalg.cond(shares) < TOLD_APART:
            body, top = np.linalg.solve(shares, [wanted for _, wanted in known])
    inside = all(1 / MOST_STRETCHED <= factor <= MOST_STRETCHED for factor in (body, top))
    found = _stretched(plain, n, body, top) if inside else plain
    if len(known) == 2 and "offsets" in plain:
        n, tax = far[0]
        found["offsets_sd"] *= _factor(lambda factor: _with_offsets(found, factor).wait(n) - tax, MOST_APART)
    return _written(found)


def _with_offsets(arguments: dict[str, Any], factor: float) -> Tail:
    return Tail(**arguments | {"offsets_sd": arguments["offsets_sd"] * factor})


def _factor(off: Callable[[float], float], most: float = MOST_STRETCHED) -> float:
    """The factor within bounds at which a tax is as it should be; 1 where there is none."""
    from scipy.optimize import brentq

    ends = 1 / most, most
    return float(brentq(off, *ends, xtol=1e-6)) if off(ends[0]) < 0 < off(ends[1]) else 1.0


def _stretched(plain: dict[str, Any], ranks: int, body: float, top: float) -> dict[str, Any]:
    table = np.array(plain["quantiles"])
    levels = np.linspace(0, -log(plain["above"]), len(table))
    bend = float(np.interp(log(ranks), levels, table))
    table = body * np.minimum(table, bend) + top * np.maximum(table - bend, 0.0)
    return plain | {"quantiles": table.tolist(), "excess": plain["excess"] * top}


def _written(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same with as many digits as are written."""
    return {name: [_short(one) for one in value] if isinstance(value, list) else _short(value)
            for name, value in arguments.items()}  # fmt: skip


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
