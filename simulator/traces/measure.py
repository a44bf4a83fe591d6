"""The synchronization tax of matched collectives, and whether compute explains it: tables, seconds.

Durations alone measure the tax: all ranks leave a collective together, so a rank that entered earlier has a longer
kernel (seed paper, section 3). The fastest rank pays max - min of the durations, the median rank median - min.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.lazy import pd
from simulator.tax import costs, most_frequent, of_durations, share
from simulator.traces.align import Group, Verdict

SUMMARY = (
    "group", "operation", "ranks", "collectives", "tax_fastest_mean", "tax_fastest_p50", "tax_fastest_p99",
    "tax_median_mean", "tax_mean_mean", "tax_share", "end_spread_max", "straggler", "straggler_repeat_rate",
    "costliest", "costliest_last", "costliest_caused", "costliest_saved", "costliest_without", "status", "reason",
)  # fmt: skip
OVERALL = (
    "group", "operation", "tax_fastest_mean", "tax_share", "costliest", "costliest_saved", "costliest_without",
    "tax_mean_mean", "tax_median_mean", "tax_fastest_p99", "straggler", "straggler_repeat_rate", "ranks", "collectives",
    "waited", "waited_share", "measured", "refused", "status", "reason", "error",
)  # fmt: skip
TAX = (
    "group", "operation", "collective", "ranks", "bytes", "start", "duration_min", "duration_max", "tax_fastest",
    "tax_median", "tax_mean", "share_fastest", "share_median", "end_spread", "straggler",
)  # fmt: skip
STRAGGLERS = ("group", "operation", "rank", "collectives", "last", "caused", "saved", "without")
LEAST = 3  # blocks for a correlation
FAR = 5.0  # times the median of the others: a first instance that is named


def tax_table(groups: Sequence[Group]) -> pd.DataFrame:
    """One row per collective.

    ``start`` counts from the first collective of all. ``tax_fastest`` = max - min of the kernel durations over ranks,
    ``tax_median`` = median - min, ``tax_mean`` = mean - min; ``share_fastest`` and ``share_median`` are what part of
    its own kernel time the fastest and the median rank wait; ``straggler`` is the rank with the shortest kernel, the
    last to arrive.
    """
    first = min((int(group.start.min()) for group in groups if group.timed), default=0)
    parts = [_tax_of(group, first) for group in groups if len(group.duration)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(TAX))


def _tax_of(group: Group, first: int) -> pd.DataFrame:
    duration = group.duration / 1e9
    least, most, tax = duration.min(axis=1), duration.max(axis=1), of_durations(duration)
    columns: dict[str, Any] = {
        "group": group.name, "operation": group.operation, "collective": group.label, "ranks": len(group.ranks),
        "bytes": group.bytes,
        "start": (group.start.min(axis=1) - first) / 1e9 if group.timed else nan,
        "duration_min": least, "duration_max": most,
        "tax_fastest": tax.fastest, "tax_median": tax.median, "tax_mean": tax.mean,
        "share_fastest": _ratio(tax.fastest, most), "share_median": _ratio(tax.median, np.median(duration, axis=1)),
        "end_spread": np.ptp(group.end, axis=1) / 1e9 if group.timed else nan,
        "straggler": np.array(group.ranks)[duration.argmin(axis=1)],
    }  # fmt: skip
    return pd.DataFrame(columns)


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def straggler_table(groups: Sequence[Group]) -> pd.DataFrame:
    """One row per process group, operation and rank: what the rank costs the others (``simulator.tax.costs``).

    ``last`` is at how many of the collectives it is the last to arrive, ``caused`` what share of their tax (that of the
    fastest rank) arises at those; ``saved`` how much earlier a collective would begin in the mean, were the rank not
    waited for, and ``without`` how long the mean rank would wait then, seconds.
    """
    parts = [pd.DataFrame(columns=list(STRAGGLERS))]
    for group in groups:
        for verdict in group.verdicts:
            duration = group.duration[group.operation == verdict.operation] / 1e9
            if len(duration):
                cost = costs(duration - duration.min(axis=1, keepdims=True))
                about = {"group": group.name, "operation": verdict.operation, "rank": group.ranks}
                parts.append(pd.DataFrame({**about, "collectives": len(duration), **cost._asdict()}))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def summary_table(groups: Sequence[Group], tax: pd.DataFrame, stragglers: pd.DataFrame) -> pd.DataFrame:
    """One row per process group and operation, columns as in ``SUMMARY``.

    ``tax_share`` is the time that ranks wait / the time that they spend in these collectives, both summed over ranks
    and collectives; ``straggler_repeat_rate`` the share of collectives at which the most frequent straggler is last.
    ``costliest`` is the rank without which collectives would begin earliest, and ``costliest_NAME`` what ``stragglers``
    has of it: a rank that is last by a little after a rank nearly as late causes much, and to mend it saves nothing.
    """
    rows = [_summary_row(group, verdict, tax, stragglers) for group in groups for verdict in group.verdicts]
    table = pd.DataFrame(rows, columns=list(SUMMARY))
    whole = {"straggler": "Int64", "costliest": "Int64", "costliest_last": "Int64"}
    return table.astype({"ranks": int, "collectives": int, **whole})


def _summary_row(group: Group, verdict: Verdict, tax: pd.DataFrame, stragglers: pd.DataFrame) -> dict[str, Any]:
    own = tax[(tax["group"] == group.name) & (tax["operation"] == verdict.operation)]
    row: dict[str, Any] = {
        "group": group.name, "operation": verdict.operation, "ranks": len(group.ranks), "collectives": len(own),
        "status": verdict.status, "reason": verdict.reason,
    }  # fmt: skip
    if own.empty:
        return row
    straggler, rate = most_frequent(own["straggler"].to_numpy())
    costs_of = stragglers[(stragglers["group"] == group.name) & (stragglers["operation"] == verdict.operation)]
    costliest = costs_of.sort_values(["saved", "caused"], ascending=False, kind="stable").iloc[0]
    inside = (own["duration_min"] + own["tax_mean"]).sum()
    return row | {
        "tax_fastest_mean": own["tax_fastest"].mean(),
        "tax_fastest_p50": own["tax_fastest"].quantile(0.5),
        "tax_fastest_p99": own["tax_fastest"].quantile(0.99),
        "tax_median_mean": own["tax_median"].mean(),
        "tax_mean_mean": own["tax_mean"].mean(),
        "tax_share": share(own["tax_mean"].sum(), inside),
        "end_spread_max": own["end_spread"].max(),
        "straggler": straggler,
        "straggler_repeat_rate": rate,
        "costliest": costliest["rank"],
        **{f"costliest_{name}": costliest[name] for name in ("last", "caused", "saved", "without")},
    }


def overall(summary: pd.DataFrame, tax: pd.DataFrame, pairs: int) -> pd.DataFrame:
    """One row, columns as in ``OVERALL``: the process group and operation in which ranks wait longest, and totals.

    Of that group and operation it has the row of ``summary``. ``waited`` is how long ranks wait at all measured
    collectives, summed over ranks, seconds; ``waited_share`` that of the time they spend in these; ``measured`` and
    ``refused`` how many rows of ``summary`` have a tax and have none.

    Args:
        summary: of ``summary_table``.
        tax: of ``tax_table``.
        pairs: how many pairs of ranks have waits of their own; ``error`` says why there is nothing at all.
    """
    measured = summary[summary["collectives"] > 0]
    counts = {"measured": len(measured), "refused": len(summary) - len(measured)}
    if measured.empty:
        why = next(iter(summary["reason"]), "no collectives, so no tax")
        missing = {"status": "partial", "reason": why} if pairs else {"status": "refused", "error": why}
        return pd.DataFrame([counts | missing], columns=list(OVERALL))
    waited = tax["tax_mean"] * tax["ranks"]
    inside = (tax["duration_min"] + tax["tax_mean"]) * tax["ranks"]
    longest = measured.loc[(measured["tax_mean_mean"] * measured["ranks"] * measured["collectives"]).idxmax()]
    total = {"waited": waited.sum(), "waited_share": share(waited.sum(), inside.sum())}
    return pd.DataFrame([{**longest, **total, **counts}], columns=list(OVERALL))


def block_table(blocks: pd.DataFrame) -> pd.DataFrame:
    """One row per group and kind of block: how long blocks are, and how much ranks differ in them, seconds.

    ``NAME_mean`` and ``NAME_p50`` (the median) are over blocks and ranks; ``NAME_cv`` the mean over blocks of the
    coefficient of variation over ranks (ddof 1; blocks of mean 0 have none); ``NAME_sd`` pools the variances over
    ranks: sqrt(mean(variance)). Blocks of ranks that could not be matched have mean and median alone.
    """
    names = ["gap", "busy", "kernels", "gemm"]
    rows = []
    for (group, block), own in blocks.groupby(["group", "block"], sort=False):
        row: dict[str, Any] = {"group": group, "block": block, "ranks": own["rank"].nunique(),
                               "blocks": own["instance"].nunique()}  # fmt: skip
        for name in names:
            wide = own.pivot(index="instance", columns="rank", values=name).astype(float)
            matched = bool(own["aligned"].all()) and wide.shape[1] > 1
            mean, sd = wide.mean(axis=1), wide.std(axis=1, ddof=1)
            row |= {
                f"{name}_mean": wide.stack().mean(),
                f"{name}_p50": wide.stack().median(),
                f"{name}_cv": (sd[mean > 0] / mean[mean > 0]).mean() if matched else nan,
                f"{name}_sd": float(np.sqrt((sd**2).mean())) if matched else nan,
            }
        rows.append(row)
    columns = [
        "group",
        "block",
        "ranks",
        "blocks",
        *(f"{name}_{what}" for name in names for what in ("mean", "p50", "cv", "sd")),
    ]
    return pd.DataFrame(rows, columns=columns)


def first_outliers(tax: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    """First instances that stand alone, as where a profiler starts: columns group, what, count, first and median.

    ``what`` is an operation, whose mean wait is meant, or a kind of block, whose mean GPU work is; ``first`` is more
    than any other and ``FAR`` times the ``median`` of the others, seconds.
    """
    waits = tax.rename(columns={"operation": "what", "tax_mean": "value"})[["group", "what", "value"]]
    busy = blocks.groupby(["group", "block", "instance"], sort=False)["busy"].mean().reset_index()
    busy = busy.rename(columns={"block": "what", "busy": "value"})[["group", "what", "value"]]
    found = []
    for table in (waits, busy):
        for (group, what), own in table.groupby(["group", "what"], sort=False)["value"]:
            first, others = own.iloc[0], own.iloc[1:]
            if len(others) >= LEAST and first > max(others.max(), FAR * others.median()):
                found.append((group, what, len(own), first, others.median()))
    return pd.DataFrame(found, columns=["group", "what", "count", "first", "median"])


def ranges(tax: pd.DataFrame, blocks: pd.DataFrame) -> pd.DataFrame:
    """For each collective with a compute block before it its tax and how far ranks lie apart in that block (max - min).

    Columns group, operation, collective, tax_fastest, ``busy`` and ``idle`` (the rest of the gap), seconds.
    """
    aligned = blocks[blocks["aligned"].astype(bool)]
    if aligned.empty or tax.empty:
        return pd.DataFrame(columns=["group", "operation", "collective", "tax_fastest", "busy", "idle"])
    # Blocks of one step (forward, backward) add up on each rank before ranks are compared.
    parts = aligned.assign(idle=(aligned["gap"] - aligned["busy"]).astype(float).round(12))  # of whole nanoseconds
    sums = parts.groupby(["group", "collective", "rank"])[["busy", "idle"]].sum(min_count=1)
    apart = sums.groupby(level=[0, 1]).agg(_range).reset_index()
    return tax[["group", "operation", "collective", "tax_fastest"]].merge(apart, on=["group", "collective"])


def _range(values: pd.Series) -> float:
    return float(values.max() - values.min())


def explanation_table(apart: pd.DataFrame, certain: bool = True) -> pd.DataFrame:
    """Does compute explain the wait? One row per group and operation, from ``ranges``; at least three collectives.

    ``busy_spread`` and ``idle_spread`` are means, seconds; ``busy_correlation`` and ``idle_correlation`` are Pearson's
    with the tax; ``cause`` is ``compute`` where GPU work spreads at least half as far as the tax and goes with it
    (correlation of at least one half), ``idle`` where not that but the time without GPU work does (its host was
    late, or a collective of another group), else ``unclear``. It is never ``compute`` where it is not ``certain`` that
    what counts as GPU work is none of the waiting.
    """
    rows = [row | {"cause": "unclear"} if row["cause"] == "compute" and not certain else row
            for row in _explanations(apart)]  # fmt: skip
    columns = ["group", "operation", "collectives", "tax_fastest_mean", "busy_spread", "idle_spread",
               "busy_correlation", "idle_correlation", "cause"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _explanations(apart: pd.DataFrame) -> Iterator[dict[str, Any]]:
    for (group, operation), own in apart.groupby(["group", "operation"], sort=False):
        if len(own) < LEAST:
            continue
        row: dict[str, Any] = {"group": group, "operation": operation, "collectives": len(own),
                               "tax_fastest_mean": own["tax_fastest"].mean()}  # fmt: skip
        explains = {}
        for name in ("busy", "idle"):
            spread, correlation = own[name].mean(), _correlation(own[name], own["tax_fastest"])
            row |= {f"{name}_spread": spread, f"{name}_correlation": correlation}
            explains[name] = spread >= row["tax_fastest_mean"] / 2 and correlation >= 0.5
        cause = "compute" if explains["busy"] else "idle" if explains["idle"] else "unclear"
        yield row | {"cause": cause}


def _correlation(x: pd.Series, y: pd.Series) -> float:
    varies = x.notna().all() and x.std() > 0 and y.std() > 0
    return float(np.corrcoef(x.astype(float), y)[0, 1]) if varies else nan
