"""The findings of a fit in words, in lines of at most 100 characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, isinf, isnan
from textwrap import wrap
from typing import Any

from simulator.statistics.components import LEVEL
from simulator.tasks.fit.maxima.fitted import MaximaFit
from simulator.tasks.fit.words import use
from simulator.text import duration, grid, percent, printable

WIDTH = 100


def text_of(found: MaximaFit, law_name: str) -> str:
    """What is printed."""
    sample = found.sample
    kinds = (
        f"{len(sample.kinds)} kinds of compute block" if len(sample.kinds) > 1 else f"blocks {sample.kinds[0].name!r}"
    )
    low, high = found.laws["gumbel"].interval("b", level=found.level)
    head = [
        f"{found.proposal.law.name} law from {found.origin}",
        f"{kinds} on {sample.n} ranks: {sample.instances:,} of {duration(sample.mean)} ± {percent(sample.cv, 2)} "
        f"between ranks ({percent(low, 2)} to {percent(high, 2)})",
        f"{len(found.z):,} maxima of m = {sample.m} ranks; intervals hold {found.level * 100:g} %, from resampled "
        "iterations",
    ]
    parts = [
        "\n".join(head), "\n".join(grid(list(_laws(found)))), "\n".join(grid(list(_tests(found)))),
        "\n".join(grid(list(_taxes(found)))), "\n".join(_notes(found)),
    ]  # fmt: skip
    said = printable("\n\n".join(part for part in parts if part))
    return f"{said}\n\n{use(sample.n, law_name)}"


def _laws(found: MaximaFit) -> Iterator[Sequence[str]]:
    yield "law of the maxima, in z", "mu", "", "sigma", "", "xi", ""
    names = {"gumbel": "Gumbel, maximum likelihood", "gev": "GEV, maximum likelihood"}
    for family, fitted in found.laws.items():
        cells: list[str] = []
        for name in ("mu", "sigma", "xi"):
            if name == "xi" and family == "gumbel":
                cells += ["0", "fixed"]
                continue
            low, high = fitted.interval(name, level=found.level)
            cells += [f"{fitted.estimate(name):.4f}", f"{low:.4f} to {high:.4f}"]
        yield names[family], *cells
    table = found.parameters
    moments = table[table["family"] == "gumbel_lmoments"].set_index("parameter")["estimate"]
    yield "Gumbel, L-moments", f"{moments['mu']:.4f}", "", f"{moments['sigma']:.4f}", "", "0", "fixed"


def _tests(found: MaximaFit) -> Iterator[Sequence[str]]:
    parts, nodes = found.parts, found.proposal.parts
    yield f"is it so? (NO: p < {LEVEL:g})", "measured", "p", ""
    for family, distance in found.distance.items():
        yield (
            f"maxima follow the {family} law (Anderson-Darling)",
            f"{distance.statistic:.3f}",
            *_chance(distance.p_value),
        )
    if found.ratio is not None:
        yield "the shape is 0 (likelihood ratio)", f"{found.ratio.statistic:.2f}", *_chance(found.ratio.p_value)
    if found.stability is not None:
        stable, (few, many) = found.stability, found.doubled
        yield (
            f"maxima of {many} ranks above those of {few}, by {stable.expected:.3f} if so",
            f"{stable.measured:.3f}", "", "yes" if stable.holds else "NO",
        )  # fmt: skip
    yield "ranks are alike: variance that stays with them", percent(parts.rank_share), *_chance(parts.p_rank)
    if parts.ranks > 2:
        yield (
            "ranks vary alike: largest spread / smallest",
            "infinite" if isinf(parts.spread_ratio) else f"{parts.spread_ratio:.2f}",
            *_chance(parts.p_spreads),
        )
    yield "blocks are independent: correlation with the next", f"{parts.memory:.2f}", *_chance(parts.p_memory)
    common = parts.common / parts.total
    yield "ranks have nothing in common: variance shared by all", percent(common), *_chance(parts.p_common)
    if not isnan(nodes.p_node):
        share = nodes.node / nodes.total
        yield "nodes have nothing in common: variance within one", percent(share), *_chance(nodes.p_node)


def _chance(p: float) -> tuple[str, str]:
    if isnan(p):
        return "", ""
    return ("< 0.0001" if p < 1e-4 else f"{p:.2g}"), ("NO" if p < LEVEL else "yes")


def _taxes(found: MaximaFit) -> Iterator[Sequence[str]]:
    families = [cell for family in found.laws for cell in (f"tau, {family}", f"{found.level * 100:g} %")]
    yield "tax of the mean rank", "of the blocks", *families, "of the law"
    for row in found.taxes.to_dict("records"):
        taxes = [found.tax(int(row["n"]), family) for family in found.laws]
        cells = [cell for tax, low, high in taxes for cell in (_time(tax), f"{_time(low)} to {_time(high)}")]
        yield f"n = {row['n']:,}", _time(row["measured"]), *cells, _time(row["tau_law"])


def _time(seconds: Any) -> str:
    return "" if isnan(seconds) else duration(seconds) if isfinite(seconds) else "no bound"


def _notes(found: MaximaFit) -> Iterator[str]:
    for warning in found.warnings():
        yield "\n".join(wrap(f"Note: {warning}.", WIDTH))
