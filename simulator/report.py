"""The summary of a result as a table that a person can read: 80 columns wide, plain text when piped."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from simulator import model
from simulator.program import Collective

if TYPE_CHECKING:
    from simulator.results import Result


WIDTH = 80


def report(result: Result) -> str:
    """The text to print for a result, with colours where stdout is a terminal."""
    console = Console(width=WIDTH, highlight=False, markup=False, emoji=False)
    row: dict[str, Any] = result.summary.iloc[0].to_dict()
    notes = result.manifest.get("notes", [])
    adds_up = len(result.experiment.program.streams) == 1
    links = result.experiment.topology.links(result.experiment.n)
    with console.capture() as text:
        shape = "" if row["shape"] == str(row["n"]) else f" {row['shape']}"
        console.print(f"{row['experiment']}: {row['topology']}{shape}, n = {row['n']}", style="bold")
        for line in (*_how(row), *_collectives(result), *_links(result)):
            console.print(line)
        for table in (_iteration(row, adds_up), _communication(row), _bandwidth(row, links)):
            if table.row_count:
                console.print()
                console.print(table)
        if row["elasticity"] < 0:
            console.print(_worth(row))
        if notes:
            console.print()
        for note in notes:
            console.print(f"Note: {note}.")
    return "\n".join(line.rstrip() for line in text.get().splitlines())


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


def _iteration(row: dict[str, Any], adds_up: bool) -> Table:
    """Where the time of an iteration goes; parts that overlap have no share."""
    table = _table("one iteration", "s", "±", "share", "closed form")
    whole, count = row["iteration_time"], row["collectives"]
    table.add_row(
        "iteration", seconds(whole), seconds(row["iteration_time_se"]), "", seconds(row["iteration_time_model"])
    )
    parts = {"compute": row["compute"], "wait (synchronization tax)": count * row["wait_mean"],
             "latency": count * row["latency"], "transfer": count * row["transfer"]}  # fmt: skip
    for name, time in parts.items():
        table.add_row(f"  {name}", seconds(time), "", percent(_ratio(time, whole)) if adds_up else "overlaps", "")
    return table


def _communication(row: dict[str, Any]) -> Table:
    """What a collective costs: each rank's wait as a share of what that rank spends in the collective."""
    table = _table("one collective, mean", "us", "±", "of its own time", "closed form")
    if not row["collectives"]:
        return table
    moving = row["latency"] + row["transfer"]
    for rank in ("fastest", "median", "mean"):
        wait = row[f"wait_{rank}"]
        se, closed = (us(row[name]) if rank == "mean" else "" for name in ("wait_mean_se", "wait_model"))
        table.add_row(f"tax of the {rank} rank", us(wait), se, percent(_ratio(wait, wait + moving)), closed)
    for name in ("latency", "transfer"):
        table.add_row(name, us(row[name]), "", percent(_ratio(row[name], row["wait_mean"] + moving)), "")
    return table


def _bandwidth(row: dict[str, Any], links: int) -> Table:
    table = _table(
        "bandwidth per link" if links > 1 else "bandwidth per rank", "with the tax", "Hockney (no tax)", "lower by"
    )
    if isnan(row["elasticity"]):
        return table
    table.add_row("as simulated", rate(row["bandwidth"]), "", "")
    for label, end in (("-0.5", ""), ("-0.1", "_e01")):
        ours, theirs = row[f"bandwidth_optimal{end}"], row[f"bandwidth_optimal_hockney{end}"]
        if not (isnan(ours) or isnan(theirs)):
            table.add_row(f"B* at elasticity {label}", rate(ours), rate(theirs), percent(row["bandwidth_reduction"]))
    hockney = model.elasticity(0.0, row["latency"], row["transfer"])
    table.add_row(
        "elasticity as simulated", f"{row['elasticity']:.3f}", "" if hockney is None else f"{hockney:.3f}", ""
    )
    return table


def _worth(row: dict[str, Any]) -> str:
    """What more bandwidth is worth: of the communication, and of the whole iteration."""
    saved = row["collectives"] * row["transfer"] / row["iteration_time"]
    return f"1 % more bandwidth saves {-row['elasticity']:.2f} % of communication, {saved:.2f} % of the iteration."


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right", overflow="fold", min_width=24 if i == 0 else None)
    return table


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    factor, unit = next(((f, u) for f, u in units if abs(value) >= f), units[-1])
    return f"{_four(value / factor)} {unit}"


def _four(value: float) -> str:
    return f"{value:#.4g}".rstrip(".") if 0 < abs(value) < 1e4 else f"{value:.4g}"


def duration(time: float) -> str:
    """Seconds for people, four digits.

    >>> duration(5.8036), duration(0.00093563), duration(0.08)
    ('5.804 s', '935.6 us', '80.00 ms')
    """
    return _scaled(time, [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")])


def seconds(time: float) -> str:
    """Seconds as a number, to a tenth of a millisecond or three digits; nothing where there is none.

    >>> seconds(5.86806), seconds(0.00002), seconds(float("nan"))
    ('5.8681', '2e-05', '')
    """
    if isnan(time):
        return ""
    return f"{time:.4f}" if time >= 1e-3 or time == 0 else f"{time:.3g}"


def us(time: float) -> str:
    """Microseconds with one decimal, or three digits where they are small; nothing where there is none.

    >>> us(0.0273347), us(2.5e-8)
    ('27,334.7', '0.025')
    """
    if isnan(time):
        return ""
    return f"{time * 1e6:,.1f}" if time >= 1e-6 or time == 0 else f"{time * 1e6:.3g}"


def rate(bandwidth: float) -> str:
    """Bytes/s for people, four digits.

    >>> rate(450e9), rate(53e12)
    ('450.0 GB/s', '53.00 TB/s')
    """
    return _scaled(bandwidth, [(1e15, "PB/s"), (1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1.0, "B/s")])


def size(nbytes: float) -> str:
    """Bytes for people, in powers of 1024.

    >>> size(2**28), size(2**31), size(1000)
    ('256 MiB', '2 GiB', '1000 B')
    """
    units = [(2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")]
    factor, unit = next(((f, u) for f, u in units if nbytes >= f), units[-1])
    return f"{nbytes / factor:.4g} {unit}"


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage.

    >>> percent(0.8167), percent(0.0028, 2)
    ('81.7 %', '0.28 %')
    """
    return f"{share * 100:.{digits}f} %"


def printable(text: str) -> str:
    """Text that cannot steer a terminal, whatever names from files are in it; line ends stay.

    >>> printable("rank 0\\n\\x1b[2J")
    'rank 0\\n?[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def grid(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of text as lines, columns aligned: the first to the left, others to the right.

    >>> grid([["n", "tax"], ["4096", "1 ms"]])
    ['n      tax', '4096  1 ms']
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                  for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]  # fmt: skip
