"""The findings of a fit in words, in lines of at most 100 characters: what the ranks pay, what others would, why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf, isnan
from textwrap import wrap

from simulator.statistics.components import LEVEL
from simulator.statistics.tax_estimate import Estimate
from simulator.task import FOLDER
from simulator.tasks.fit.bandwidth import Link, bandwidths
from simulator.tasks.fit.fitted import Fitted, matters
from simulator.tasks.fit.prediction import Prediction
from simulator.text import duration, grid, percent, printable, rate, size

WIDTH = 100
MOST_GROUPS = 8  # in the printed table


def text_of(found: Fitted, law_name: str, link: Link | None = None) -> str:
    """What is printed; with a link also what the tax means for its bandwidth."""
    tables = [list(rows) for rows in (_taxes(found), _others(found), _dependence(found.main))]
    parts = [
        "\n".join(wrap(lead(found), WIDTH)), "\n".join(_what(found)),
        *("\n".join(grid(rows)) for rows in tables if rows), "\n".join(_notes(found)),
    ]  # fmt: skip
    said = printable("\n\n".join(part for part in parts if part))
    means = "" if link is None else "\n".join([*grid(list(_bandwidths(found, link))), ""])
    return f"{said}\n\n{means}{chr(10) if means else ''}{use(found.main.steps.n, law_name)}"


def _bandwidths(found: Fitted, link: Link) -> Iterator[Sequence[str]]:
    """B* at each n, beside today's bandwidth."""
    assumed = "" if link.known else ", a size that was assumed (bytes=)"
    of_each = " of each link" if link.topology.links(8) > 1 else ""
    yield f"B*{of_each} of {link.topology.name}, {link.kind.value} of {size(link.nbytes)}{assumed}", "", "95 %", "today"
    for own, best, low, high in bandwidths(found, link):
        ends = "no claim" if isnan(low) else f"{rate(low)} to {rate(high)}"
        now = rate(link.topology.bandwidth)
        yield f"n = {own.n:,}", rate(best) if own.status == "ok" and not isnan(best) else "", ends, now


def lead(found: Fitted) -> str:
    """The finding: what the measured ranks pay, and what the most that were asked for would."""
    steps = found.main.steps
    mean = float(steps.times.mean())
    of_all = f", {percent(steps.tax / mean)} of a step of {duration(mean)}" if steps.whole else ""
    said = f"{steps.n} ranks pay {duration(steps.tax)}{of_all}"
    more = [n for n in found.wanted if n > steps.n]
    if not more:
        return f"{said}."
    claimed = [n for n in more if found.main.estimate(n).status != "no claim"]
    if not claimed:
        return f"{said}; no claim is made beyond these ranks."
    sure = [n for n in claimed if found.main.estimate(n).status == "ok"] or claimed
    own = found.main.estimate(sure[-1])
    said += f"; {own.n} would pay {_claim(own)}"
    return f"{said}." if claimed == more else f"{said}; no claim is made of {more[len(claimed)]} and more."


def _claim(own: Estimate) -> str:
    ends = f"{duration(own.low)} to {duration(own.high)}"
    return (
        ends if own.status == "interval" else duration(own.tau) if isnan(own.low) else f"{duration(own.tau)} ({ends})"
    )


def _what(found: Fitted) -> Iterator[str]:
    steps = found.main.steps
    where = f"{steps.name!r}" if len(found.parts) > 1 else f"{steps.block!r}"
    yield (
        f"{found.proposal.law.name} law from {found.origin}: {len(steps.times):,} x {where} on {steps.n} ranks, "
        f"{duration(float(steps.times.mean()))} ± {percent(float(steps.times.std() / steps.times.mean()), 2)}"
    )


def _taxes(found: Fitted) -> Iterator[Sequence[str]]:
    yield "tax of the mean rank", "", "95 %", "from", "the paper's recipe", "of the law"
    for n in sorted({found.main.steps.n, *found.sizes}):
        own = found.main.estimate(n)
        paper, *_ = found.main.paper_tax(n)
        yield (
            f"n = {n:,}", duration(own.tau) if own.status == "ok" else "", _ends(own), _from(own, found.main.steps.n),
            _time(paper), _time(found.law_tax(n)),
        )  # fmt: skip


def _ends(own: Estimate) -> str:
    if own.status == "no claim":
        return "no claim"
    return "" if isnan(own.low) else f"{duration(own.low)} to {duration(own.high)}"


def _from(own: Estimate, measured: int) -> str:
    if own.status == "no claim":
        return ""
    if own.n == measured:
        return "measured"
    return "subsets of ranks" if own.estimator == "subsets" else "tail"


def _time(seconds: float) -> str:
    return "" if isnan(seconds) else "infinite" if isinf(seconds) else duration(seconds)


def _others(found: Fitted) -> Iterator[Sequence[str]]:
    """Other groups and kinds of blocks."""
    others = [part for part in found.parts if part is not found.main]
    if not others:
        return
    yield "and", "ranks", "of each", "their tax", "95 %"
    for part in sorted(others, key=lambda part: -part.steps.tax)[:MOST_GROUPS]:
        own = part.estimate(part.steps.n)
        yield (
            part.steps.name,
            str(part.steps.n),
            duration(float(part.steps.times.mean())),
            duration(own.tau),
            _ends(own),
        )
    if len(others) > MOST_GROUPS:
        yield f"{len(others) - MOST_GROUPS} more are in tau.csv", "", "", "", ""


def _dependence(part: Prediction) -> Iterator[Sequence[str]]:
    """Assumptions, and what the tax does where they fail; NO where it moves by more than 2 %, beyond chance."""
    parts, shuffled, drift = part.measured.components, part.shuffled, part.drift
    if parts is None or shuffled is None:
        return
    yield f"is it so? (NO: moves the tax by 2 %, p < {LEVEL:g})", "measured", "the tax without it", "p", ""
    lasting = (1 + shuffled.independent) / (1 + shuffled.persistent) - 1
    yield (
        "ranks are alike: variance that stays with them", percent(parts.rank_share), percent(lasting),
        *_chance(parts.p_rank, lasting),
    )  # fmt: skip
    yield (
        "ranks share nothing in a step: variance shared by all", percent(parts.common / parts.total),
        percent(shuffled.persistent), *_chance(parts.p_common, shuffled.persistent),
    )  # fmt: skip
    if parts.ranks > 2:
        ratio = parts.spread_ratio
        said = "infinite" if isinf(ratio) else f"{ratio:.2f}"
        yield "ranks vary alike: largest spread / smallest", said, "", *_chance(parts.p_spreads, ratio - 1)
    if drift is not None and drift.first > 0:
        change = drift.second / drift.first - 1
        p = min(drift.p, *drift.p_trends)
        yield "the run is steady: second half against the first", percent(change), "", *_chance(p, change)
    yield "steps are independent: correlation with the next", f"{parts.memory:.2f}", "the same", _p(parts.p_memory), ""


def _chance(p: float, change: float) -> tuple[str, str]:
    return _p(p), "" if isnan(p) else "NO" if matters(change, p) else "yes"


def _p(p: float) -> str:
    return "" if isnan(p) else "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def _notes(found: Fitted) -> Iterator[str]:
    for warning in found.warnings():
        yield "\n".join(wrap(f"Note: {warning}.", WIDTH))


def use(n: int, law_name: str) -> str:
    """How to simulate with the law; its collective is not part of it."""
    return (
        "The law is ready. One block and one collective an iteration; workload.bytes, topology and machine are yours:\n"
        f"  python -m simulator --config-dir {FOLDER} compute={law_name} n={n} \\\n"
        "      workload.layers=1 workload.forward=1 workload.backward=0"
    )
