"""The findings of a trace report in words: what is printed, and what stands on its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from simulator.lazy import pd
from simulator.tasks.trace_report.sizes import tax_by_size
from simulator.tax import persistence
from simulator.text import duration, grid, percent, printable
from simulator.traces import kernels
from simulator.traces.findings import Findings
from simulator.traces.measure import first_outliers
from simulator.traces.waiting import Waiting

MOST_NOTES = 20
MOST_SIZES = 6


def text(findings: Findings) -> str:
    """The findings to print; nothing in it can steer a terminal, whatever files and groups are called."""
    parts = [lead(findings)]
    parts += ["\n".join(grid([[heading, *rows[0][1:]], *rows[1:]])) for heading, rows in tables(findings)]
    said = lines(findings)
    more = [f"and {len(said) - MOST_NOTES} more in the tables"] if len(said) > MOST_NOTES else []
    parts += ["\n".join([*said[:MOST_NOTES], *more])] if said else []
    whole = "\n\n".join(parts)
    return printable(whole)


def tables(findings: Findings) -> list[tuple[str, list[Sequence[str]]]]:
    """Headings with rows of text, the first row the names of the columns; empty tables are left out."""
    found = {
        "synchronization tax": _tax_rows(findings.summary),
        "mean wait, were there fewer ranks": _size_rows(tax_by_size(findings.groups)),
        "does compute explain the wait?": _explanation_rows(findings.explanation),
        "point to point": _pair_rows(findings.pairs),
        "compute blocks": _block_rows(findings.block_summary),
    }
    whole = [(heading, list(rows)) for heading, rows in found.items()]
    return [(heading, rows) for heading, rows in whole if len(rows) > 1]


def lines(findings: Findings) -> list[str]:
    """Who is last, and what else a reader must know, a line each."""
    return [*_stragglers(findings.summary), *_notes(findings)]


def lead(findings: Findings) -> str:
    """What was read and measured, in a sentence."""
    summary, ranks = findings.summary, findings.ranks
    measured = int(summary["collectives"].sum())
    groups, pairs = summary["group"].nunique(), len(findings.pairs)
    what = f"{measured:,} collectives measured, in {groups} process group{'s' * (groups != 1)}"
    if not measured:
        what = "no tax can be given" if len(summary) else "no collectives, so no tax"
    if pairs:
        what += f"; waits of {pairs} pair{'s' * (pairs != 1)} of ranks"
    if not len(ranks):
        return what
    world = ranks["world"].dropna()
    of = f" of {int(world.iloc[0])}" if len(world) else ""
    kernels = int(ranks["kernels"].sum())
    n = ranks["rank"].nunique()
    return f"traces of {n}{of} rank{'s' * (n > 1 or bool(of))}, {kernels:,} GPU kernels; {what}"


def _tax_rows(summary: pd.DataFrame) -> Iterator[Sequence[str]]:
    yield "group, operation", "ranks", "count", "fastest rank", "p50", "p99", "median rank", "share", "status"
    for row in summary[summary["status"] != "refused"].to_dict("records"):
        yield (
            f"{row['group']}, {row['operation']}", str(row["ranks"]), f"{row['collectives']:,}",
            duration(row["tax_fastest_mean"]), duration(row["tax_fastest_p50"]), duration(row["tax_fastest_p99"]),
            duration(row["tax_median_mean"]),
            percent(row["tax_share"]), row["status"],
        )  # fmt: skip


def _size_rows(sizes: pd.DataFrame) -> Iterator[Sequence[str]]:
    """Of groups of more than two ranks, at the largest few sizes."""
    wide = sizes.groupby(["group", "operation"], sort=False).filter(lambda own: len(own) > 1)
    columns = sorted(wide["n"].unique())[-MOST_SIZES:]
    yield "group, operation", *(f"n = {n:,}" for n in columns)
    for (group, operation), own in wide.groupby(["group", "operation"], sort=False):
        tau = own.set_index("n")["tau"]
        yield f"{group}, {operation}", *(duration(tau[n]) if n in tau else "" for n in columns)


def _stragglers(summary: pd.DataFrame) -> Iterator[str]:
    for row in summary[summary["status"] != "refused"].to_dict("records"):
        if not row["tax_fastest_mean"]:
            continue  # all arrive at once: nobody is last
        repeats = round(row["straggler_repeat_rate"] * row["collectives"])
        chance = persistence(repeats, row["collectives"], row["ranks"])
        verdict = "persistent" if chance < 0.01 else "may be chance"
        who = f"{row['group']}, {row['operation']}: rank"
        often = (
            f"{who} {row['straggler']} is last in {repeats:,} of {row['collectives']:,} ({verdict}, p "
            f"{'<' if chance < 1e-4 else '='} {max(chance, 1e-4):.2g})"
        )
        if row["costliest"] == row["straggler"]:
            yield f"{often} and causes {percent(row['costliest_caused'])} of the tax{_saved(row)}"
        else:
            yield often
            yield (
                f"{who} {row['costliest']} costs most: last in {row['costliest_last']:,} of {row['collectives']:,}, it "
                f"causes {percent(row['costliest_caused'])} of the tax{_saved(row)}"
            )


def _saved(row: Mapping[str, Any]) -> str:
    """What there is to gain from the costliest rank; the mean of others may be more than that of all ranks."""
    less = f", and the mean rank waits {duration(row['costliest_without'])} instead of {duration(row['tax_mean_mean'])}"
    gained = less if row["ranks"] > 2 and row["costliest_without"] < row["tax_mean_mean"] else ""
    return f"; without it a collective begins {duration(row['costliest_saved'])} earlier{gained}"


def _explanation_rows(explanation: pd.DataFrame) -> Iterator[Sequence[str]]:
    yield "group, operation", "count", "tax", "GPU work apart", "corr.", "GPU idle apart", "corr.", "cause"
    for row in explanation.to_dict("records"):
        yield (
            f"{row['group']}, {row['operation']}", f"{row['collectives']:,}", duration(row["tax_fastest_mean"]),
            *_apart(row, "busy"), *_apart(row, "idle"), row["cause"],
        )  # fmt: skip


def _pair_rows(pairs: pd.DataFrame) -> Iterator[Sequence[str]]:
    yield "group, sender -> receiver", "count", "receiver waits", "p99", "share", "sender waits"
    for row in pairs.to_dict("records"):
        yield (
            f"{row['group']}, {row['sender']} -> {row['receiver']}", f"{row['transfers']:,}",
            duration(row["receiver_wait_mean"]), duration(row["receiver_wait_p99"]),
            percent(row["receiver_wait_share"]), duration(row["sender_wait_mean"]),
        )  # fmt: skip


def _apart(row: Mapping[str, Any], what: str) -> tuple[str, str]:
    spread, correlation = row[f"{what}_spread"], row[f"{what}_correlation"]
    return "" if isnan(spread) else duration(spread), "" if isnan(correlation) else f"{correlation:.2f}"


def _block_rows(blocks: pd.DataFrame) -> Iterator[Sequence[str]]:
    yield "group, block", "ranks", "blocks", "gap", "GPU busy", "its median", "GEMM", "variation over ranks"
    for row in blocks.to_dict("records"):
        means = [
            "" if isnan(row[name]) else duration(row[name])
            for name in ("gap_mean", "busy_mean", "busy_p50", "gemm_mean")
        ]
        variation = "" if isnan(row["busy_cv"]) else percent(row["busy_cv"])
        yield f"{row['group']}, {row['block']}", str(row["ranks"]), f"{row['blocks']:,}", *means, variation


def _waiting(found: Waiting) -> str:
    """What to say of a kernel that no name says is a collective."""
    name = kernels.short(found.name)
    whose, time, key = found.where + name, f"{percent(found.share)} of the GPU time", f"collective_kernels=[{name}]"
    if not found.ranks:
        hides = ", so that it may hide a straggler" if found.hides else ""
        may = f"{whose} may wait for other ranks, {found.doubt}; {time}"
        return f"{may}, counted as compute{hides} ({key} if it is a collective)"
    what = "communication between ranks" if found.paired else "a collective"
    return (
        f"{whose} looks like {what}: on {len(found.ranks)} ranks it ends together where it starts apart; {time}, not "
        f"counted as compute ({key} says that it is one)"
    )


def _notes(findings: Findings) -> Iterator[str]:
    """What a reader must know: what was refused, left out or dropped."""
    for row in findings.summary[findings.summary["reason"] != ""].to_dict("records"):
        yield f"{row['group']}, {row['operation']}: {row['status']}: {row['reason']}"
    for row in first_outliers(findings.tax, findings.blocks).to_dict("records"):
        yield (
            f"{row['group']}, {row['what']}: the first of {row['count']:,} takes {duration(row['first'])}, the "
            f"median of the others {duration(row['median'])}: means have it in them, medians do not"
        )
    yield from findings.notes
    yield from map(_waiting, findings.waiting)
    for left_out in findings.left_out:
        yield f"left out {left_out.path.name}: {left_out.reason}"
    for row in findings.ranks.to_dict("records"):
        said = [row["notes"]] if row["notes"] else []
        said += [f"dropped {row['dropped']}"] if row["dropped"] else []
        if not row["kernels"]:
            said.append(
                f"no GPU kernels in any of its {row['steps']} profiler steps" if row["steps"] else "no GPU kernels"
            )
        elif not row["collectives"]:
            said.append(f"{row['kernels']:,} GPU kernels, none of them a known collective (collective_kernels=[PART])")
        if row["kernels"] and row["steps_without_kernels"] > 0:
            said.append(f"{row['steps_without_kernels']} of {row['steps']} profiler steps hold no kernel, left out")
        if said:
            yield f"rank {row['rank']} ({row['file']}): {'; '.join(said)}"
