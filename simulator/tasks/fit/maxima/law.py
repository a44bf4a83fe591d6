"""The law that a fit proposes: block maxima or normal times, with what the ranks were found to share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError
from simulator.laws import IndependentLaw, Law, LogNormal, Normal, block_maxima, dependent
from simulator.laws.dependence import MOST_UNLIKE
from simulator.statistics import Gev
from simulator.statistics.components import LEVEL, Components, pooled
from simulator.tasks.fit.maxima.sample import Sample
from simulator.text import percent

PERSISTENT = 0.5  # share of the variance between ranks above which maxima are one rank's times, and no extremes
DIGITS = 6  # of a fitted number: more than any sample supports
LEAST_OWN = 1e-12  # share of the variance that is of single ranks: doubles tell no less apart
MOST_NORMAL = 0.14  # coefficient of variation above which normal times are negative too often
FARTHEST = 8.0  # standard deviations of a score


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A law of compute times for the simulator.

    Attributes:
        base: arguments of ``block_maxima``; or, where they have no mu, of ``Normal``, or of ``LogNormal`` where times
            below 0 would not be rare.
        dependence: arguments of ``dependent``; none where ranks are independent.
        parts: the variance of the scores that the dependence is from.
        reasons: in sentences, why the law is what it is.
    """

    base: dict[str, Any]
    dependence: dict[str, Any]
    parts: Components
    reasons: Sequence[str] = ()

    def because(self, reason: str) -> Proposal:
        """The same proposal with one more reason."""
        return replace(self, reasons=[*self.reasons, reason])

    @property
    def independent(self) -> Law:
        """The law with ranks that know nothing of each other."""
        return self.kind(**self.base)

    @property
    def kind(self) -> Callable[..., Law]:
        """What the arguments ``base`` are of."""
        if "mu" in self.base:
            return block_maxima
        return Normal if self.base["cv"] <= MOST_NORMAL else LogNormal

    @property
    def law(self) -> Law:
        """The law."""
        return dependent(law=self.independent, **self.dependence) if self.dependence else self.independent


def propose(sample: Sample, fit: Gev, parts: Components, parent: str, ranks_per_node: int | None) -> Proposal:
    """The law to simulate with.

    Where one rank is persistently slow, the maximum of m ranks is that rank's time and says nothing of extremes: times
    are then taken as normal about each rank. Else block maxima are, unless ``parent`` has no such law.

    Args:
        sample: what the law was fitted to.
        fit: the law of the maxima.
        parts: of the variance of its scores.
        parent: how maxima become times of single ranks.
        ranks_per_node: consecutive ranks that share a node; None for no such part.
    """
    found = _dependence(parts, sample, ranks_per_node)
    whole = _short(sample.total_cv * sqrt(parts.total))  # within blocks and between them
    plain = Proposal(base={"mean": _short(sample.mean), "cv": whole}, dependence=found, parts=parts)
    if parts.rank_share > PERSISTENT and parts.p_rank < LEVEL:
        return plain.because(
            f"{percent(parts.rank_share)} of the variance between ranks is the same in every block, so that maxima are "
            f"one rank's times and no extremes: the law is {_plain(whole)} about each rank"
        )
    base: dict[str, Any] = {
        "mean": _short(sample.mean), "cv": whole if found else _short(sample.cv), "mu": _short(fit.mu),
        "sigma": _short(fit.sigma), "xi": _short(fit.xi), "m": sample.m, "parent": parent,
    }  # fmt: skip
    try:
        law = block_maxima(**base)
    except InputError as error:
        return plain.because(
            f"the law is {_plain(whole)}, since block maxima of this shape make no law of a rank: {error}"
        )
    reasons = []
    if found and not isinstance(law, IndependentLaw):
        reasons.append(f"what ranks share ({', '.join(found)}) is left out, since parent {parent} draws whole blocks")
        found, base = {}, base | {"cv": _short(sample.cv)}
    if "common" in found and not sample.by_instance:
        reasons.append("maxima include what all ranks of a block share: centring=instance leaves it out")
    if found and isinstance(law, IndependentLaw):
        seen, parts = parts, pooled([_scores(law, table) for table in sample.scores], ranks_per_node)
        found = _dependence(parts, sample, ranks_per_node, seen)
    return Proposal(base=base, dependence=found, parts=parts, reasons=reasons)


def _plain(cv: float) -> str:
    return "normal" if cv <= MOST_NORMAL else "lognormal"


def _scores(law: IndependentLaw, standardised: Array) -> Array:
    """Y of measured times under a law: the standard normal quantile of their place in it."""
    from scipy.special import ndtri_exp

    times = law.mean + law.sd * standardised
    return np.asarray(np.clip(ndtri_exp(-law.exponent(times)), -FARTHEST, FARTHEST))


def _dependence(
    parts: Components, sample: Sample, ranks_per_node: int | None, also: Components | None = None
) -> dict[str, Any]:
    """Arguments of ``dependent``, as shares of the variance of scores: the parts that are beyond chance in them, and
    ``also`` in the times themselves, since a wrong law alone makes ranks of different means vary unalike."""
    tests = [parts, also or parts]
    own = parts.own / parts.total
    if own < LEAST_OWN:
        left = f"{own:.2g} of the variance is theirs"
        raise InputError("blocks", f"must have ranks that differ by more than rounding; {left}")
    digits = DIGITS if own > 1e-3 else 15  # what is shared must not be rounded to all

    def believed(name: str) -> bool:
        return all(getattr(test, f"p_{name}") < LEVEL for test in tests)

    found: dict[str, Any] = {
        name: _short(getattr(parts, name) / parts.total, digits)
        for name in ("common", "node")
        if believed(name) and getattr(parts, name) > 0
    }
    if "node" in found:
        found["ranks_per_node"] = ranks_per_node
    if believed("rank") and sample.ranks is not None and parts.offsets:
        found["offsets"] = [_short(offset / sqrt(parts.total), digits) for offset in parts.offsets]
    elif believed("rank"):
        found["rank"] = _short(parts.rank / parts.total, digits)
    if believed("spreads"):
        least = 1.01 * max(parts.spreads) / MOST_UNLIKE  # also of a rank that never varies: a law has no spread of 0
        found["spreads"] = [_short(max(spread, least)) for spread in parts.spreads]
    if believed("memory"):
        found["memory"] = _short(parts.memory)
    return found


def _short(value: float, digits: int = DIGITS) -> float:
    return float(f"{value:.{digits}g}")
