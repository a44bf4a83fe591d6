"""The summary of a result as a table that a person can read: 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from simulator.simulation import closed_forms
from simulator.simulation.results import LEAST_VALUES
from simulator.tax import share
from simulator.text import duration, grid, percent, rate, seconds, size, us
from simulator.workload.program import Collective

if TYPE_CHECKING:
    from simulator.simulation.results import Result

WIDTH = 80
Rows = list[list[str]]  # of a table, the first the names of its columns


def report(result: Result) -> str:
    """The text to print for a result."""
    row: dict[str, Any] = result.summary.iloc[0].to_dict()
    notes = list(result.manifest.get("notes", []))
    if 1 < row["iterations"] < LEAST_VALUES:
        notes.append(f"no ± for fewer than {LEAST_VALUES} iterations")
    adds_up = len(result.experiment.program.streams) == 1
    links = result.experiment.topology.links(result.experiment.n)
    shape = "" if row["shape"] == str(row["n"]) else f" {row['shape']}"
    head = f"{row['experiment']}: {row['topology']}{shape}, n = {row['n']}"
    lines = _wrapped([head, *_how(row), *_collectives(result), *_links(result)])
    for table in (_iteration(row, adds_up), _communication(row), _bandwidth(row, links)):
        if len(table) > 1:
            lines += ["", *grid(table, gap=3, first=24)]
    if row["elasticity"] < 0:
        lines += _wrapped([_worth(row)])
    if notes:
        lines += ["", *_wrapped(f"Note: {note}." for note in notes)]
    return "\n".join(lines)


def _wrapped(lines: Iterable[str]) -> list[str]:
    """Lines of at most ``WIDTH`` characters."""
    return [part for line in lines for part in wrap(line, WIDTH, break_on_hyphens=False) or [""]]


def _how(row: dict[str, Any]) -> list[str]:
    """What was simulated: the compute blocks, the machine, and how often."""
    parent = f" ({row['parent']})" if row["parent"] else ""
    spread = "" if isnan(row["block_cv"]) else f" ± {row['block_cv'] * 100:.3g} %"
    scaling = f", {row['scaling']} scaling" if row["scaling"] else ""
    block = f"{row['law']} law{parent}, compute blocks of {duration(row['block_mean'])}{spread}{scaling}"
    machine = f"machine {row['machine']}, " if row["machine"] else ""
    count = f"{row['iterations']} iteration{'s' if row['iterations'] > 1 else ''}"
    return [block, f"{machine}engine {row['engine']}, seed {row['seed']}, {count}"]


def _collectives(result: Result, most: int = 8) -> list[str]:
    """One line for each kind of collective: how many per iteration, and the algorithm that its time belongs to."""
    program = result.experiment.program
    counts: dict[str, int] = {}
    for i in program.collectives:
        op, cost = program.operations[i], result.costs[i]
        assert isinstance(op, Collective)
        assert cost is not None
        ranks = program.blocks(op.group)[1]
        text = f"x {op.kind.value} of {size(op.nbytes)} over {ranks} ranks; algorithm {cost.algorithm.name}"
        counts[text] = counts.get(text, 0) + 1
    lines = [f"{times} {text}" for text, times in counts.items()]
    return lines[:most] + ([f"and {len(lines) - most} other kinds of collective"] if len(lines) > most else [])


def _links(result: Result) -> list[str]:
    """On a torus, what the bandwidth of one link makes of a rank."""
    topology = result.experiment.topology
    links = topology.links(result.experiment.n)
    if links <= 1:
        return []
    each, total = rate(topology.bandwidth), rate(topology.bandwidth * links)
    return [f"{each} per link and direction; {links} links of a rank, {total} in all, used one dimension at a time"]


def _iteration(row: dict[str, Any], adds_up: bool) -> Rows:
    """Where the time of an iteration goes; parts that overlap have no share."""
    whole, count = row["iteration_time"], row["collectives"]
    times = seconds(whole), seconds(row["iteration_time_se"]), "", seconds(row["iteration_time_model"])
    parts = {"compute": row["compute"], "wait (synchronization tax)": count * row["wait_mean"],
             "latency": count * row["latency"], "transfer": count * row["transfer"]}  # fmt: skip
    return [
        ["one iteration", "s", "±", "share", "closed form"],
        ["iteration", *times],
        *(
            [f"  {name}", seconds(time), "", percent(share(time, whole)) if adds_up else "overlaps", ""]
            for name, time in parts.items()
        ),
    ]


def _communication(row: dict[str, Any]) -> Rows:
    """What a collective costs: each rank's wait as a share of what that rank spends in the collective."""
    rows = [["one collective, mean", "us", "±", "of its own time", "closed form"]]
    if not row["collectives"]:
        return rows
    moving = row["latency"] + row["transfer"]
    for rank in ("fastest", "median", "mean"):
        wait = row[f"wait_{rank}"]
        se, closed = (us(row[name]) if rank == "mean" else "" for name in ("wait_mean_se", "wait_model"))
        rows.append([f"tax of the {rank} rank", us(wait), se, percent(share(wait, wait + moving)), closed])
    for name in ("latency", "transfer"):
        rows.append([name, us(row[name]), "", percent(share(row[name], row["wait_mean"] + moving)), ""])
    return rows


def _bandwidth(row: dict[str, Any], links: int) -> Rows:
    """The optimal bandwidth with the tax and without."""
    of = "link" if links > 1 else "rank"
    rows = [[f"bandwidth per {of}", "with the tax", "Hockney (no tax)", "lower by"]]
    if isnan(row["elasticity"]):
        return rows
    rows.append(["as simulated", rate(row["bandwidth"]), "", ""])
    for label, end in (("-0.5", ""), ("-0.1", "_e01")):
        ours, theirs = row[f"bandwidth_optimal{end}"], row[f"bandwidth_optimal_hockney{end}"]
        if not (isnan(ours) or isnan(theirs)):
            lower = percent(row["bandwidth_reduction"])
            rows.append([f"B* at elasticity {label}", rate(ours), rate(theirs), lower])
    hockney = closed_forms.elasticity(0.0, row["latency"], row["transfer"])
    theirs = "" if hockney is None else f"{hockney:.3f}"
    return [*rows, ["elasticity as simulated", f"{row['elasticity']:.3f}", theirs, ""]]


def _worth(row: dict[str, Any]) -> str:
    """What more bandwidth is worth: of the communication, and of the whole iteration."""
    saved = row["collectives"] * row["transfer"] / row["iteration_time"]
    return f"1 % more bandwidth saves {-row['elasticity']:.2f} % of communication, {saved:.2f} % of the iteration."
