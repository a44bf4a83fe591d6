"""The two pictures of a simulation: where an iteration's time goes, and how the synchronization tax is distributed.

Each function turns a result into the table that one of them draws, or into a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.arrays import Array
from simulator.laws import IndependentLaw, Law, ZeroSum
from simulator.lazy import pd
from simulator.network.collectives import Kind
from simulator.pictures.bars import draw_overlapping, draw_stacked, draw_tax, draw_waterfall
from simulator.pictures.style import matplotlib_alone, new_figure, save
from simulator.text import share_label, short, time_label
from simulator.workload.program import Collective, Compute, Program

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simulator.simulation.results import Result

POINTS = 400  # points of a drawn curve: more do not show, and an SVG stays small
MANY = 128  # ranks from which max - (mean of the ranks) is distributed as max - (mean of the law) within 1 %
RANKS = {"wait_fastest": "fastest rank", "wait_mean": "mean rank", "wait_median": "median rank"}


def write(result: Result, folder: Path) -> None:
    """Draw both pictures and save each as PNG and SVG in ``folder``; the same bytes for the same result.

    Writes ``time_breakdown.png``, ``time_breakdown.svg``, ``tax_distribution.png`` and ``tax_distribution.svg``.
    """
    with matplotlib_alone():
        for name, draw in (("time_breakdown", _time_breakdown), ("tax_distribution", _tax_distribution)):
            save(draw(result), folder, name)


def _time_breakdown(result: Result) -> Figure:
    """Where an iteration's time goes, and below it the communication, which is too small to read there."""
    figure = new_figure(2.75, breakdown_title(result), subtitle(result))
    iteration, communication = figure.subplots(2, height_ratios=[2, 3])
    draw = draw_overlapping if overlaps(result) else draw_stacked
    draw(iteration_parts(result), iteration, iteration_label(result))
    draw_waterfall(communication_parts(result), communication, communication_label(result))
    return figure


def _tax_distribution(result: Result) -> Figure:
    """How long the fastest, mean and median rank wait at a barrier."""
    figure = new_figure(2.6, tax_title(result), subtitle(result))
    draw_tax(tax_cdf(result), figure.subplots(), tax_label(result))
    return figure


def overlaps(result: Result) -> bool:
    """Whether parts of an iteration run at the same time, so that they do not add up to it."""
    return len(result.experiment.program.streams) > 1


def iteration_parts(result: Result) -> pd.DataFrame:
    """Where one iteration's time goes, mean over ranks and iterations.

    Returns:
        one row per part, columns part, simulated and model (closed form; NaN where there is none), seconds. Where
        operations overlap the parts do not add up to the iteration time. Where they do not, what is missing is the
        wait of ranks that finish early for the end of the iteration, the part ``idle``.
    """
    row = _summary(result)
    count, program = row["collectives"], result.experiment.program
    transferred = {part: count * row[part] for part in ("latency", "transfer")}
    simulated = {"compute": row["compute"], "wait": count * row["wait_mean"], **transferred}
    holds = isfinite(row["iteration_time_model"]) and isfinite(row["wait_model"])
    mean = sum(op.law.mean for op in program.operations if isinstance(op, Compute))
    model = {"compute": mean, "wait": count * row["wait_model"], **transferred} if holds else {}
    idle = {"simulated": row["iteration_time"] - sum(simulated.values())}
    idle["model"] = row["iteration_time_model"] - sum(model.values()) if holds else nan
    table = pd.DataFrame({"part": list(simulated), "simulated": simulated.values()})
    table["model"] = table["part"].map(model).astype(float)
    if not overlaps(result) and idle["simulated"] > 1e-6 * row["iteration_time"]:
        table.loc[len(table)] = {"part": "idle", **idle}
    return table


def communication_parts(result: Result) -> pd.DataFrame:
    """Where the time of a collective goes, as a rank sees it: mean over ranks, collectives and iterations.

    Returns:
        rows wait, latency and transfer, columns as in ``iteration_parts``, seconds.
    """
    row = _summary(result)
    parts = ["wait", "latency", "transfer"]
    model = [row["wait_model"], row["latency"], row["transfer"]] if isfinite(row["wait_model"]) else [nan] * 3
    return pd.DataFrame(
        {"part": parts, "simulated": [row["wait_mean"], row["latency"], row["transfer"]], "model": model}
    )


def tax_cdf(result: Result) -> pd.DataFrame:
    """Distribution over barriers of the wait of the fastest, mean and median rank, and its closed forms.

    The fastest rank waits max - min of independent times; the mean rank max - mean, which has a closed form for
    zero-sum blocks, and for ``MANY`` independent ranks or more, whose sample mean hardly varies.

    Returns:
        columns rank, source (``simulated``, ``model``, or ``model mean``: the upright line at the expected wait),
        wait (s) and share (of barriers that wait at most so long). A closed form is left out where it does not hold,
        or where a row of ``collectives`` is a mean over iterations.
    """
    collectives, mean = result.collectives, float(_summary(result)["wait_model"])
    top = collectives["wait_fastest"].max() if len(collectives) else 0.0
    wait = np.linspace(0.0, 2 * top, POINTS)
    known = top > 0 and isfinite(mean)
    forms = _closed_forms(result.experiment.program, wait) if known and not averaged(result) else {}
    curves: list[tuple[str, str, Array, Array]] = []
    for column, rank in RANKS.items():
        curves.append((rank, "simulated", *_empirical_cdf(collectives[column].to_numpy())))
        if rank in forms:
            curves.append((rank, "model", wait, forms[rank]))
        if known and column == "wait_mean":
            curves.append((rank, "model mean", np.full(2, mean), np.array([0.0, 1.0])))
    names = ["rank", "source", "wait", "share"]
    frames = [pd.DataFrame(dict(zip(names, curve, strict=True))) for curve in curves]
    return pd.concat(frames, ignore_index=True)


def averaged(result: Result) -> bool:
    """Whether a row of ``collectives`` is a mean over iterations (above 10^6 rows) and not a barrier."""
    return "iteration" not in result.collectives


def breakdown_title(result: Result) -> str:
    """The finding of the first picture, in one sentence."""
    row = _summary(result)
    total = row["wait_mean"] + row["latency"] + row["transfer"]
    if total == 0:
        return "No rank waits and nothing is communicated"
    if row["wait_mean"] == 0:
        return f"No rank waits:\nlatency and transfer take {time_label(total)} per {_collective(result)}"
    return (
        f"Waiting takes {share_label(row['wait_mean'], total)} of communication:\n"
        f"{time_label(row['wait_mean'])} of {time_label(total)} per {_collective(result)}"
    )


def tax_title(result: Result) -> str:
    """The finding of the second picture, in one sentence."""
    row = _summary(result)
    if row["collectives"] == 0:
        return "No rank waits: the program has no collectives"
    if row["wait_fastest"] == 0:
        return "No rank waits"
    model = f" (closed form {time_label(row['wait_model'])})" if isfinite(row["wait_model"]) else ""
    return (
        f"The fastest rank waits {time_label(row['wait_fastest'])} per {_collective(result)},\n"
        f"the mean rank {time_label(row['wait_mean'])}{model}"
    )


def subtitle(result: Result) -> str:
    """What was simulated, in one line."""
    row = _summary(result)
    ranks = f"{row['n']} ranks" if row["n"] > 1 else "1 rank"
    shape = "" if row["shape"] == str(row["n"]) else f" {row['shape']}"
    name, topology, law = (short(row[key]) for key in ("experiment", "topology", "law"))
    strong = ", strong scaling" if row["scaling"] == "strong" else ""
    return short(f"{name}: {ranks}, {topology}{shape}, {law} compute times{strong}", 66)


def iteration_label(result: Result) -> str:
    """What the time axis of the first picture's upper panel measures."""
    total = time_label(_summary(result)["iteration_time"])
    return f"parts of one iteration ({total}), which overlap" if overlaps(result) else "one iteration"


def communication_label(result: Result) -> str:
    """What the time axis of the first picture's lower panel measures."""
    count = len(result.experiment.program.collectives)
    return f"one {_collective(result)}" + (f" (mean of {count} per iteration)" if count > 1 else "")


def tax_label(result: Result) -> str:
    """What the time axis of the second picture measures."""
    what = f"wait per {_collective(result)}"
    return f"{what} (each a mean over {result.experiment.iterations} iterations)" if averaged(result) else what


def _summary(result: Result) -> dict[str, Any]:
    return dict(result.summary.iloc[0])


def _collective(result: Result) -> str:
    """The kind of the collectives, "AllReduce", or "collective" where there are several."""
    kinds = {op.kind for op in result.experiment.program.operations if isinstance(op, Collective)}
    return Kind(kinds.pop()).label if len(kinds) == 1 else "collective"


def _empirical_cdf(values: Array) -> tuple[Array, Array]:
    """At most ``POINTS`` points of the empirical distribution function, from (smallest, 0) to (largest, 1)."""
    n = len(values)
    if n == 0:
        return np.zeros(0), np.zeros(0)
    at = np.unique(np.linspace(0, n - 1, min(n, POINTS - 1)).astype(np.intp))
    ordered = np.sort(values)
    return np.append(ordered[0], ordered[at]), np.append(0.0, (at + 1) / n)


def _closed_forms(program: Program, wait: Array) -> dict[str, Array]:
    """For each rank that has a closed form, P(its wait at a barrier of the program <= wait)."""
    group = next(op.group for op in program.operations if isinstance(op, Collective))
    _, n, apart = program.blocks(group)
    forms = {"fastest rank": _mixture(program, lambda law: law.range_cdf(wait, n))}
    if apart == 1:  # ranks of a group are neighbours, and so it holds whole blocks of a zero-sum law
        forms["mean rank"] = _mixture(program, lambda law: _mean_cdf(law, n, wait))
    return {rank: share for rank, share in forms.items() if share is not None}


def _mean_cdf(law: Law, n: int, wait: Array) -> Array | None:
    """P(max - mean of n ranks <= wait), where that is P(max - mean of the law <= wait)."""
    exact = isinstance(law, ZeroSum) or (isinstance(law, IndependentLaw) and n >= MANY)
    return law.max_cdf(law.mean + wait, n) if exact else None


def _mixture(program: Program, cdf: Callable[[Law], Array | None]) -> Array | None:
    """Mean of ``cdf`` over the blocks before the program's collectives; None where a law has none."""
    blocks = [program.operations[i - 1] for i in program.collectives if i > 0]
    laws = [op.law for op in blocks if isinstance(op, Compute)]
    share = {id(law): cdf(law) for law in {id(law): law for law in laws}.values()}
    parts = [part for law in laws if (part := share[id(law)]) is not None]
    if not parts or len(parts) < len(laws):
        return None
    without = len(program.collectives) - len(laws)  # collectives that follow another one: nobody waits
    return (np.sum(parts, axis=0) + without) / len(program.collectives)
