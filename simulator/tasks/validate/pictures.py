"""Pictures of a validation: predicted against measured tax (the seed paper's figure 11), and who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.arrays import Array
from simulator.lazy import pd
from simulator.pictures.panels import Panel, Picture
from simulator.tasks.validate.compare import Comparison
from simulator.tasks.validate.simulate import measured_run
from simulator.text import duration, percent, unit

LAWS = ("fitted", "independent", "resampled")  # in the order of their colours
MOST_POINTS = 400  # of a distribution function
MOST_RANKS = 32
MOST_TICKS = 12


def pictures(found: Sequence[Comparison]) -> list[Picture]:
    """``prediction``, all jobs; and ``validation``, the distribution of the tax and the stragglers of one."""
    most = max(found, key=lambda comparison: comparison.job.waits.mean())
    return [_prediction(found), _validation(most, len(found) - 1)]


def _curve(series: str, style: str, x: Array, y: Array, error: Array | float = np.nan) -> pd.DataFrame:
    return pd.DataFrame({"series": series, "style": style, "x": x, "y": y, "error": error})


def _prediction(found: Sequence[Comparison]) -> Picture:
    tables = pd.concat([comparison.table for comparison in found])
    rows = tables[tables["statistic"] == "tax_mean_mean"]
    size, symbol = unit(float(rows["measured"].max()))
    laws = [law for law in LAWS if law in set(rows["law"])]
    curves = []
    for law in laws:
        own = rows[rows["law"] == law]
        half = (own["high"] - own["low"]) / 2 / size
        curves.append(_curve(law, "points", own["measured"] / size, own["simulated"] / size, half))
    ends = np.array([0.0, 1.1 * float(max(rows["measured"].max(), rows["simulated"].max())) / size])
    curves.append(_curve("equal", "dashed", ends, ends))
    best = rows[rows["law"] == laws[0]]
    errors = best["relative_error"].abs()
    said = percent(float(errors.median())) + (" in the median" if len(errors) > 1 else "")
    return Picture(
        name="prediction",
        title=f"The simulated tax is off by {said}",
        subtitle=f"{laws[0]} law, of each group and operation; bars hold {found[0].level * 100:g} % of runs",
        panels=[Panel(table=pd.concat(curves), x=f"measured tax of the mean rank, {symbol}", y=f"simulated, {symbol}")],
    )


def _validation(comparison: Comparison, others: int) -> Picture:
    job, real = comparison.job, measured_run(comparison.job)
    laws = [law for law in LAWS if law in comparison.runs]
    drawn = {law: np.concatenate([run.fastest for run in comparison.runs[law]]) for law in laws}
    size, symbol = unit(float(max(real.fastest.max(), *(np.quantile(times, 0.99) for times in drawn.values()))))
    taxes = [_cdf(law, "dashed", drawn[law] / size) for law in laws] + [_cdf("measured", "line", real.fastest / size)]
    table = comparison.table.set_index(["law", "statistic"])
    row = table.loc[(comparison.main, "tax_fastest_mean")]
    last = [_last(law, np.concatenate([run.last for run in comparison.runs[law]]), job.ranks) for law in laws]
    last.append(_last("measured", real.last, job.ranks))
    ticks = {float(i): str(rank) for i, rank in enumerate(job.ranks) if i % (1 + len(job.ranks) // MOST_TICKS) == 0}
    more = f"; {others} more in the table" if others else ""
    return Picture(
        name="validation",
        title=f"The fastest rank waits {duration(row['measured'])} in {job.operation}, "
        f"simulated {duration(row['simulated'])}",
        subtitle=f"{job.steps:,} steps of {len(job.ranks)} ranks; {comparison.main} law in the title{more}",
        panels=[
            Panel(table=pd.concat(taxes), x=f"tax of the fastest rank, {symbol}", y="share of collectives, %"),
            Panel(table=pd.concat(last), x="rank", y="last to arrive, % of collectives", ticks=ticks),
        ],
        columns=2,
    )


def _cdf(series: str, style: str, values: Array) -> pd.DataFrame:
    """An empirical distribution function, in steps where there are few values; of many up to the 99.5 % quantile, so
    that a rare time does not squeeze the rest."""
    if len(values) <= MOST_POINTS:
        heights = 100 * np.arange(len(values) + 1) / len(values)
        return _curve(series, style, np.repeat(np.sort(values), 2), np.repeat(heights, 2)[1:-1])
    shares = np.linspace(0, 0.995, MOST_POINTS)
    return _curve(series, style, np.quantile(values, shares), 100 * shares)


def _last(series: str, last: Array, ranks: Sequence[int]) -> pd.DataFrame:
    """How often each rank is last, by its place among ``ranks``."""
    shares = 100 * np.bincount(last.astype(np.intp), minlength=len(ranks)) / len(last)
    chosen = np.sort(np.argsort(-shares, kind="stable")[:MOST_RANKS])
    shift = ("measured", *LAWS).index(series) * 0.12 - 0.18  # so that points do not hide each other
    return _curve(series, "points", np.asarray(chosen + shift, dtype=np.float64), shares[chosen])
