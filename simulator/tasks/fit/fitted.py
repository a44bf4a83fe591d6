"""What a fit found: the tax of n ranks with what it rests on, and the law to simulate with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, isnan, nan
from typing import Any

from simulator.checks import InputError
from simulator.lazy import pd
from simulator.statistics.components import LEVEL
from simulator.statistics.lasting import slow_rank
from simulator.tasks.fit.prediction import MATTERS, TAXES, Prediction
from simulator.tasks.fit.steps import STEP
from simulator.tasks.fit.tail import FAR, StepLaw, propose
from simulator.text import duration, off, percent

APART = 1.5  # times the wait in the collectives that compute makes, or less than its inverse: it does not explain it


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit of the tail law.

    Attributes:
        origin: the traces or summary, in words.
        parts: of each process group all that it does between two barriers, and its kinds of blocks.
        sizes: n for which the tax is given.
        waited: group -> mean wait of a rank in the group's collectives, seconds, where the source has them.
        doubts: what makes the times doubtful, in sentences.
    """

    origin: str
    parts: Sequence[Prediction]
    sizes: Sequence[int]
    waited: Mapping[str, float]
    doubts: Sequence[str] = ()

    @cached_property
    def main(self) -> Prediction:
        """What the law is of: all that ranks do between two barriers, of the group that waits longest."""
        whole = {part.steps.group: part for part in reversed(self.parts) if part.steps.block == STEP}
        whole = {part.steps.group: part for part in reversed(self.parts)} | whole
        return max(whole.values(), key=lambda part: part.steps.tax)

    @cached_property
    def proposal(self) -> StepLaw:
        """The law for the simulator."""
        return propose(self.main.steps, self.main.measured, self.main.estimate)

    @property
    def wanted(self) -> list[int]:
        """n for which the tax is asked, in ascending order."""
        return sorted(set(self.sizes))

    @cached_property
    def taxes(self) -> pd.DataFrame:
        """One row per n, that of the measured ranks too; where there are several, per group and kind of block."""
        rows = [
            part.row(n) | {"tau_law": self.law_tax(n) if part is self.main else nan}
            for part in self.parts
            for n in sorted({part.steps.n, *self.sizes})
        ]
        leading = ("group", "block") if len(self.parts) > 1 else ()
        return pd.DataFrame(rows)[[*leading, *TAXES]]

    def law_tax(self, n: int) -> float:
        """E[max of n] - mean of the written law, seconds; NaN where nothing is claimed of n, or it draws other n."""
        if self.main.estimate(n).status == "no claim" and n != self.main.steps.n:
            return nan
        try:
            self.proposal.law.check_ranks(n)
        except InputError:
            return nan
        return self.proposal.law.wait(n)

    def summary(self) -> pd.DataFrame:
        """One row, for a sweep: what the law is of, and the tax of the measured ranks and of each n that was asked."""
        steps = self.main.steps
        own = self.main.estimate(steps.n)
        row: dict[str, Any] = {
            "group": steps.group, "block": steps.block, "ranks": steps.n, "steps": len(steps.times),
            "mean": float(steps.times.mean()), "tau": own.tau, "low": own.low, "high": own.high,
            "tau_paper": self.main.paper_tax(steps.n)[0], "fitted": self.proposal.law.name,
            "rank_share": _dependence(self.main)["rank_share"],
        }  # fmt: skip
        for n in self.wanted:
            found = self.main.estimate(n)
            row |= {f"tau_{n}": found.tau, f"low_{n}": found.low, f"high_{n}": found.high, f"status_{n}": found.status}
            row[f"tau_paper_{n}"] = self.main.paper_tax(n)[0]
        return pd.DataFrame([row])

    def dependence(self) -> pd.DataFrame:
        """One row per group and kind of block: how its ranks and steps hang together, and what that does to the tax."""
        return pd.DataFrame([_dependence(part) for part in self.parts])

    def ranks(self) -> pd.DataFrame:
        """One row per rank of each group: offset, spread and change over the run, seconds, and how often it is last."""
        return pd.DataFrame([row for part in self._whole for row in _ranks(part)])

    @property
    def _whole(self) -> list[Prediction]:
        """Of each group all that it does between two barriers."""
        groups = dict.fromkeys(part.steps.group for part in self.parts)
        return [next(part for part in self.parts if part.steps.group == group) for group in groups]

    def warnings(self) -> Iterator[str]:
        """What a reader must know, a sentence each, the most important first."""
        steps, several = self.main.steps, len({part.steps.group for part in self.parts}) > 1
        yield from self.doubts
        yield from self._of_the_wait()
        yield from self.proposal.reasons
        paper, *_ = self.main.paper_tax(steps.n)
        if steps.tax > 0 and abs(paper / steps.tax - 1) > FAR:
            yield (
                f"the paper's recipe (Gumbel maxima) puts the tax of the {steps.n} measured ranks at "
                f"{duration(paper)}, {off(paper / steps.tax - 1)} what was measured: do not carry it on"
            )
        worst = max(self._whole, key=_kept)
        if _kept(worst) > 0:
            where = f" of {worst.steps.group}" if several else ""
            yield f"ranks{where} are not alike: {_slowest(worst)}"
        for part in self._whole:
            if part.drifts:
                yield f"{part.steps.group + ': ' if several else ''}the run drifts: {part.drifts}"
            if part.first_is_an_outlier:
                yield (
                    f"{part.steps.group + ': ' if several else ''}the first step waits longer than five times any "
                    "other, as the start of a profiler does: leave it out"
                )
        for part in self.parts:
            if part.steps.empty:
                whole = part.steps.empty + len(part.steps.times)
                yield f"{part.steps.empty} of {whole} blocks {part.steps.block!r} are empty on some rank and left out"
        sizes = sorted({steps.n, *self.sizes}, reverse=True)
        reasons = {own.status: own.reason for own in map(self.main.estimate, sizes) if own.reason}
        yield from reversed(reasons.values())  # of the smallest n of each status
        guessed = [own for own in map(self.main.estimate, self.wanted) if own.status == "interval"]
        if guessed and isfinite(guessed[0].blocks_needed):
            yield f"some {guessed[0].blocks_needed:,.0f} steps would narrow the interval of {guessed[0].n} to +-20 %"
        yield from self._conditional()
        yield from self._slow_rank()

    def _of_the_wait(self) -> Iterator[str]:
        """Whether compute explains how long ranks wait."""
        for part in self._whole:
            waited = self.waited.get(part.steps.group, nan)
            if waited > 0 and not 1 / APART < part.steps.tax / waited < APART:
                yield (
                    f"compute does not explain the wait: ranks of {part.steps.group} wait {duration(waited)} in their "
                    f"collectives, where these times would make them wait {duration(part.steps.tax)}; "
                    "measure=arrival fits when they come to the collective"
                )

    def _conditional(self) -> Iterator[str]:
        """What other ranks would pay if lasting offsets are normal."""
        for n in self.wanted:
            found = self.main.estimate(n)
            if found.status == "no claim" and not isnan(found.conditional_low):
                yield (
                    f"were lasting offsets of ranks normal, {n} of them would pay {duration(found.conditional_low)} to "
                    f"{duration(found.conditional_high)}"
                )

    def _slow_rank(self) -> Iterator[str]:
        """What one more slow rank costs, where ranks differ lastingly; no law of offsets is needed."""
        parts, times = self.main.measured.components, self.main.steps.times
        if parts is not None and self.main.ranks_are_alike() is False:
            slow = max(parts.offsets)
            once, twice = (duration(slow_rank(times, by)) for by in (slow, 2 * slow))
            yield (
                f"one more rank that is {duration(slow)} slower than the mean of these, as the slowest is, makes a "
                f"step {once} longer; one twice as slow, {twice}"
            )


def _kept(part: Prediction) -> float:
    """Share of the variance between ranks that stays with them, where it moves the tax."""
    parts = part.measured.components
    return parts.rank_share if parts is not None and part.ranks_are_alike() is False else 0.0


def _slowest(part: Prediction) -> str:
    parts, found = part.measured.components, part.shuffled
    assert parts is not None
    assert found is not None
    place = max(range(len(parts.offsets)), key=parts.offsets.__getitem__)
    return (
        f"{percent(parts.rank_share)} of the variance between them stays from step to step, rank "
        f"{part.steps.ranks[place]} is the slowest by {duration(parts.offsets[place])}; were they shuffled, the tax "
        f"would change by {percent(found.independent)}"
    )


def _dependence(part: Prediction) -> dict[str, Any]:
    steps, parts, shuffled, drift = part.steps, part.measured.components, part.shuffled, part.drift
    row: dict[str, Any] = {
        "group": steps.group, "block": steps.block, "steps": len(steps.times), "ranks": steps.n,
        "mean": float(steps.times.mean()), "sd": float(steps.times.std()), "tax": steps.tax,
    }  # fmt: skip
    names = ("rank_share", "p_rank", "common_share", "p_common", "spread_ratio", "p_spreads", "memory", "p_memory")
    row |= dict.fromkeys(names, nan)
    if parts is not None:
        row |= {
            "rank_share": parts.rank_share, "p_rank": parts.p_rank, "common_share": parts.common / parts.total,
            "p_common": parts.p_common, "spread_ratio": parts.spread_ratio,
            "p_spreads": parts.p_spreads, "memory": parts.memory, "p_memory": parts.p_memory,
        }  # fmt: skip
    return row | {
        "tax_independent": shuffled.independent if shuffled else nan,
        "tax_persistent": shuffled.persistent if shuffled else nan,
        "tax_first_half": drift.first if drift else nan, "tax_second_half": drift.second if drift else nan,
        "p_drift": min(drift.p, *drift.p_trends) if drift else nan,
    }  # fmt: skip


def _ranks(part: Prediction) -> Iterator[dict[str, Any]]:
    steps, parts, drift = part.steps, part.measured.components, part.drift
    times = steps.times
    last = (times.argmax(axis=1)[:, None] == range(steps.n)).mean(axis=0)
    for i, rank in enumerate(steps.ranks):
        yield {
            "group": steps.group, "rank": rank, "offset": float(times[:, i].mean() - times.mean()),
            "spread": parts.spreads[i] if parts is not None else nan, "last": float(last[i]),
            "change": drift.trends[i] if drift else nan, "p_change": drift.p_trends[i] if drift else nan,
        }  # fmt: skip


def matters(change: float, p: float) -> bool:
    """Whether a finding moves the tax by more than 2 %, beyond chance."""
    return abs(change) > MATTERS and p < LEVEL
