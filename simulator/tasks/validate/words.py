"""The findings of a validation in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from textwrap import wrap
from typing import Any

from simulator.lazy import pd
from simulator.tasks.validate.compare import DISTANCE, Comparison
from simulator.tasks.validate.simulate import STATISTICS
from simulator.text import duration, grid, percent, printable

WIDTH = 100
MOST_DETAILED = 4  # jobs
NAMES = {
    "tax_fastest_mean": "tax of the fastest rank", "tax_fastest_p50": "  its median", "tax_fastest_p99": "  its p99",
    "tax_median_mean": "tax of the median rank", "tax_mean_mean": "tax of the mean rank",
    "tax_share": "share of the collective's time", "iteration_time": "time of a step",
    "repeat_rate": "most frequent straggler is last in",
}  # fmt: skip


def text_of(found: Sequence[Comparison], origin: str, measure: str, left_out: Sequence[str] = ()) -> str:
    """What is printed; of many jobs those that wait most in detail.

    ``left_out`` are the collectives that could not be simulated, with the reason.
    """
    whole = "GPU work" if measure == "busy" else "all time between collectives"
    level = f"{found[0].level * 100:g} %"
    parts = [
        f"{origin} against simulation; compute is {whole}\n"
        f"intervals hold {level} of simulated runs; ! marks those that do not hold what was measured{_more(found)}",
    ]
    most = sorted(found, key=lambda comparison: -comparison.job.waits.mean())[:MOST_DETAILED]
    if len(found) > 1:
        parts.append("\n".join(grid(list(_all(found)))))
    parts += ["\n".join(_job(comparison)) for comparison in found if comparison in most]
    if len(found) > MOST_DETAILED:
        parts.append(f"The other {len(found) - MOST_DETAILED} are in validation.csv.")
    if left_out:
        parts.append("\n".join(wrap(f"Left out: {'; '.join(left_out)}.", WIDTH)))
    return printable("\n\n".join(parts))


def _more(found: Sequence[Comparison]) -> str:
    """What intervals leave out."""
    held_out = any(comparison.holdout != "none" for comparison in found)
    return (
        "\nwhat the fit itself is uncertain by is not in them, but in the prediction of compute alone"
        if held_out
        else ""
    )


def _all(found: Sequence[Comparison]) -> Iterator[Sequence[str]]:
    """The tax of the mean rank of every job."""
    yield "tax of the mean rank", "measured", "simulated", ""
    for comparison in found:
        rows = comparison.table
        row = rows[(rows["law"] == comparison.main) & (rows["statistic"] == "tax_mean_mean")].iloc[0]
        yield comparison.job.name, duration(row["measured"]), *_interval("tax_mean_mean", row)


def _job(comparison: Comparison) -> Iterator[str]:
    job = comparison.job
    blocks = " + ".join(f"{times} x {name}" if times > 1 else name for name, _, times in job.blocks)
    end = f"then the collective of {duration(job.transfer)}" if job.transfer > 0 else "then a barrier"
    yield f"{job.name}: {job.steps:,} steps on {len(job.ranks)} ranks; {blocks}, {end}"
    table = comparison.table
    yield from grid(list(_rows(table, comparison)))
    law = comparison.main
    agreed = table[(table["law"] == law) & table["statistic"].isin(STATISTICS)]
    apart = [NAMES[name].strip() for name in agreed["statistic"][~agreed["agrees"]]]
    yield from wrap(_verdict(comparison, len(agreed), apart), WIDTH)
    for finding in comparison.findings():
        yield from wrap(f"Note: {finding}.", WIDTH)


HELD = {
    "time": "the second half of the steps, from the first",
    "ranks": "all ranks, from the first half of them",
    "none": "in the sample, that is of what it was fitted to",
}


def _verdict(comparison: Comparison, values: int, apart: Sequence[str]) -> str:
    """What agreement is worth, and how much of it there is."""
    if any(comparison.unexplained()):
        return "No verdict on the law: compute does not explain the wait (below)."
    what = "predicts" if comparison.predicted is not None else "gives"
    good = "all that was measured" if not apart else f"{values - len(apart)} of {values} measured values"
    but = f", not {', '.join(apart)}" if apart else ""
    said = f"The {comparison.main} law {what} {good}{but} ({HELD[comparison.holdout]})."
    own = comparison.predicted
    if own is None or isnan(own.tau):
        return said
    row = comparison.table.set_index("law").loc["estimate"]
    ends = "" if isnan(own.low) else f" ({duration(own.low)} to {duration(own.high)})"
    good = "which agrees" if row["agrees"] else "which does not agree"
    seen = f"measured {duration(row['measured'])}, {good}"
    return f"{said} Tax of compute alone: predicted {duration(own.tau)}{ends}, {seen}."


def _rows(table: pd.DataFrame, comparison: Comparison) -> Iterator[Sequence[str]]:
    laws = list(comparison.runs)
    yield "", "measured", *(cell for law in laws for cell in (law, ""))
    for name in STATISTICS:
        rows = table[table["statistic"] == name].set_index("law")
        cells = [cell for law in laws for cell in _interval(name, rows.loc[law])]
        yield NAMES[name], _value(name, rows.iloc[0]["measured"]), *cells
    rows = table[table["statistic"] == DISTANCE].set_index("law")
    distances = [cell for law in laws for cell in (f"{rows.loc[law, 'measured']:.2f}", _apart(rows.loc[law]))]
    yield "distance of the tax's distribution", "", *distances


def _interval(name: str, row: pd.Series[Any]) -> tuple[str, str]:
    low, high = _value(name, row["low"]).rsplit(" ", 1), _value(name, row["high"]).rsplit(" ", 1)
    unit = "" if low[1] == high[1] else f" {low[1]}"
    return f"{low[0]}{unit} to {' '.join(high)}", _apart(row)


def _apart(row: pd.Series[Any]) -> str:
    return "" if row["agrees"] else "!"


def _value(name: str, value: float) -> str:
    return duration(value) if STATISTICS[name] == "s" else percent(value)
