"""A trace summary: a small file that stands for the traces of a job in fits, validations and regression tests.

It holds durations alone, in whole nanoseconds, by rank: of the collectives that were matched and of the compute blocks
before them. There are no names of files, kernels or (unless asked for) process groups in it, so that it can be shared
where a trace cannot. Times of day are not in it either.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from simulator.checks import InputError
from simulator.lazy import pd
from simulator.traces.findings import Findings

FORMAT = "scaleup-simulator trace summary"
VERSION = 1
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
MOST_KEPT = 2000  # instances of one block and collectives of one kind whose single times are kept
MEASURES = ("busy", "gap")

Nanoseconds = Annotated[int, Meta(ge=0, le=2**62)]
Rank = Annotated[int, Meta(ge=0, le=2**32)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Label = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Times = list[list[Nanoseconds]]


class Moments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Mean, standard deviation (ddof 1) and quantiles at ``QUANTILES``, seconds."""

    mean: float
    sd: float | None
    quantiles: list[float]


class Block(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A kind of compute block of a process group.

    Attributes:
        group, block: which one.
        ranks: global ranks, in the order of the columns.
        instances: how many there were; the first ``MOST_KEPT`` are kept.
        collective: which collective each kept instance comes before; those of one step share it.
        busy: how long the GPU worked in it, ns, a row for each kept instance and a column for each rank.
        gap: how long it was from one collective to the next, ns; empty where the source does not say.
        moments: of all instances and ranks: ``busy``, and ``gap`` where there is one.
    """

    group: str
    block: str
    ranks: list[Rank]
    instances: Count
    collective: list[Label]
    busy: Times
    gap: Times
    moments: dict[str, Moments]


class Collectives(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The collectives of one operation of a process group.

    Attributes:
        group, operation: which ones.
        ranks: global ranks, in the order of the columns.
        status, reason: as in ``tax_summary.csv``.
        count: how many were matched; the first ``MOST_KEPT`` are kept.
        bytes: the most frequent size; None where the trace does not say.
        label: what each kept collective is called; blocks name the one that follows them.
        duration: of its kernels, ns, a row for each kept collective and a column for each rank.
        leading: whether it comes before the compute of its step, which then is not what its ranks wait for.
        stragglers: how often each rank was last; ranks that never were are left out.
        moments: ``tax_fastest``, ``tax_median``, ``tax_mean`` and ``shortest``, the shortest kernel of each.
    """

    group: str
    operation: str
    ranks: list[Rank]
    status: str
    reason: str
    count: Count
    bytes: Count | None
    label: list[Label]
    duration: Times
    leading: bool
    stragglers: dict[str, Count]
    moments: dict[str, Moments]


class Source(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Where a summary is from.

    Attributes:
        simulator: version of this package.
        kind: ``profiler traces`` or ``table of operations``.
        files: how many.
        ranks: those that were read; empty for a table.
        world: ranks of the job; None where the files do not say.
        kernels: GPU kernels in all files.
        dropped: kernels that could not be used, by reason.
        left_out: files that were not used.
    """

    simulator: str
    kind: str
    files: int
    ranks: list[Rank]
    world: int | None
    kernels: int
    dropped: dict[str, int]
    left_out: int


class Summary(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The whole file; ``note`` says in a sentence what it is."""

    format: str
    version: int
    note: str
    source: Source
    blocks: list[Block]
    collectives: list[Collectives]


def summarise(findings: Findings, names: bool = False) -> Summary:
    """The summary of what a trace report found.

    Args:
        findings: of the report.
        names: whether process groups keep the names that the trace gives them.
    """
    from simulator.files.manifest import version_of

    groups = list(dict.fromkeys(findings.summary["group"]))
    known = distinct(groups) if names else {group: f"group {i}" for i, group in enumerate(groups)}
    ranks = findings.ranks
    return Summary(
        format=FORMAT,
        version=VERSION,
        note="durations in ns by rank; moments in s; see simulator/traces/summary.py of scaleup-simulator",
        source=Source(
            simulator=version_of("scaleup-simulator") or "unknown",
            kind="profiler traces" if len(ranks) else "table of operations",
            files=(ranks["file"].nunique() if len(ranks) else 1) + len(findings.left_out),
            ranks=sorted(set(ranks["rank"].tolist())) if len(ranks) else [],
            world=int(ranks["world"].dropna().iloc[0]) if len(ranks) and ranks["world"].notna().any() else None,
            kernels=int(ranks["kernels"].sum()) if len(ranks) else 0,
            dropped=dict(findings.dropped),
            left_out=len(findings.left_out),
        ),
        blocks=list(_blocks(findings.blocks, known)),
        collectives=list(_collectives(findings, known)),
    )


def _blocks(table: pd.DataFrame, known: dict[str, str]) -> Any:
    for (group, block), rows in table[table["aligned"].astype(bool)].groupby(["group", "block"], sort=False):
        wide = rows.pivot(index="instance", columns="rank", values=["busy", "gap"])
        kept = wide.iloc[:MOST_KEPT]
        collective = rows.groupby("instance")["collective"].first().reindex(kept.index)
        timed = bool(rows["gap"].notna().all())
        yield Block(
            group=known[str(group)],
            block=plain(str(block)),
            ranks=[int(rank) for rank in wide["busy"].columns],
            instances=len(wide),
            collective=[int(label) for label in collective],
            busy=_whole(kept["busy"]),
            gap=_whole(kept["gap"]) if timed else [],
            moments={name: _moments(rows[name].to_numpy(float)) for name in MEASURES[: 1 + timed]},
        )


def _collectives(findings: Findings, known: dict[str, str]) -> Any:
    verdicts = {(row["group"], row["operation"]): row for row in findings.summary.to_dict("records")}
    for group in findings.groups:
        for verdict in group.verdicts:
            own = group.operation == verdict.operation
            row = verdicts[group.name, verdict.operation]
            tax = findings.tax[(findings.tax["group"] == group.name) & (findings.tax["operation"] == verdict.operation)]
            sizes = tax["bytes"][tax["bytes"] >= 0]
            shortest = {"shortest": tax["duration_min"]}
            measured = {name: tax[name] for name in ("tax_fastest", "tax_median", "tax_mean")} | shortest
            counts = tax["straggler"].value_counts().sort_index()
            yield Collectives(
                group=known[group.name],
                operation=verdict.operation,
                ranks=list(group.ranks),
                status=verdict.status,
                reason=str(row["reason"]),
                count=len(tax),
                bytes=int(sizes.mode().iloc[0]) if len(sizes) else None,
                label=group.label[own][:MOST_KEPT].tolist(),
                duration=group.duration[own][:MOST_KEPT].tolist(),
                leading=verdict.operation in group.leading,
                stragglers={str(rank): int(times) for rank, times in counts.items()},
                moments={name: _moments(values.to_numpy(float)) for name, values in measured.items() if len(values)},
            )


def _whole(seconds: pd.DataFrame) -> Times:
    return np.rint(seconds.to_numpy(float) * 1e9).astype(np.int64).tolist()


def _moments(values: NDArray[np.float64]) -> Moments:
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Moments(mean=float(values.mean()), sd=sd, quantiles=np.quantile(values, QUANTILES).tolist())


def write_summary(summary: Summary, path: Path) -> None:
    """Write a summary as JSON, a line for each of its parts."""
    head = msgspec.to_builtins(summary)
    lines = ["{"]
    for name in ("format", "version", "note", "source"):
        lines.append(f'"{name}": {msgspec.json.encode(head[name]).decode()},')
    for name, end in (("blocks", ","), ("collectives", "")):
        parts = ",\n".join(msgspec.json.encode(part).decode() for part in head[name])
        lines.append(f'"{name}": [\n{parts}\n]{end}' if parts else f'"{name}": []{end}')
    path.write_text("\n".join([*lines, "}", ""]), encoding="utf-8")


def read_summary(path: Path) -> Summary:
    """Read a summary.

    Raises:
        InputError: for a file that cannot be read, is no summary, or does not fit together.
    """
    if path.exists() and not path.is_file():
        raise InputError("summary", f"{path} must be a file")
    try:
        summary = msgspec.json.decode(path.read_bytes(), type=Summary)
    except OSError as error:
        raise InputError("summary", f"{path} cannot be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("summary", f"{path.name} must be a trace_summary.json of a trace report: {error}") from None
    if summary.format != FORMAT or summary.version != VERSION:
        found = f"{summary.format!r} of version {summary.version}"
        raise InputError("summary", f"{path.name} must be a {FORMAT!r} of version {VERSION}; got {found}")
    groups = distinct([part.group for part in summary.blocks] + [own.group for own in summary.collectives])
    names = distinct([block.block for block in summary.blocks])
    for block in summary.blocks:
        block.group, block.block = groups[block.group], names[block.block]
        gap = [block.gap] if block.gap else []
        _check(path, f"block {block.block!r} of {block.group!r}", block.ranks, block.collective, [block.busy, *gap])
    for own in summary.collectives:
        own.group, own.operation, own.reason = groups[own.group], plain(own.operation), plain(own.reason, 1000)
        _check(path, f"{own.operation} of {own.group!r}", own.ranks, own.label, [own.duration])
    return summary


def plain(name: str, most: int = 60) -> str:
    """A name from a file as text, tables and pictures take it: printable, on one line, not too long.

    >>> plain("tp\\n" + "x" * 100)
    'tp?xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…'
    """
    clean = "".join(c if c.isprintable() else "?" for c in name)
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def distinct(names: Sequence[str]) -> dict[str, str]:
    """Each name as ``plain`` has it, with a number where two would become one.

    >>> distinct(["a\\n", "a\\t", "b", "b"])
    {'a\\n': 'a?', 'a\\t': 'a? (2)', 'b': 'b'}
    """
    known: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        clean, i = plain(name), 1
        while clean in taken:
            i += 1
            clean = f"{plain(name)} ({i})"
        taken.add(clean)
        known[name] = clean
    return known


def _check(path: Path, what: str, ranks: Sequence[int], labels: Sequence[int], tables: Sequence[Times]) -> None:
    whole = all(len(table) == len(labels) and all(len(row) == len(ranks) for row in table) for table in tables)
    if not whole or not ranks or len(set(ranks)) < len(ranks):
        raise InputError(
            "summary",
            f"{path.name} must have a row for each instance and in it a number for each rank, all ranks "
            f"different; {what} has not",
        )
