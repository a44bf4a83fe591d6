"""Reading measured collectives: the text that nccl-tests and rccl-tests print, or a CSV table.

The text is described in nccl-tests, src/common.cu and src/util.cu (``writeResultHeader``), and doc/PERFORMANCE.md. Its
versions differ in their columns (with and without ``redop`` and ``root``; ``error``, ``res`` or ``#wrong``), so columns
are found by the table's own header. Sizes are those it prints: the per-rank buffer for AllReduce, AllToAll, Broadcast,
Reduce and SendRecv, the full size for AllGather, ReduceScatter, Gather and Scatter.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError, count, nearest, number, one_of, shown
from simulator.lazy import pd
from simulator.network.collectives import Kind
from simulator.text import one_line

TESTS = {
    "allreduce": Kind.ALL_REDUCE, "allgather": Kind.ALL_GATHER, "reducescatter": Kind.REDUCE_SCATTER,
    "alltoall": Kind.ALL_TO_ALL, "broadcast": Kind.BROADCAST, "reduce": Kind.REDUCE,
    "gather": Kind.GATHER, "scatter": Kind.SCATTER, "sendrecv": Kind.SEND, "send": Kind.SEND,
}  # fmt: skip
NAMES = {"size": "size_bytes", "bytes": "size_bytes", "time": "time_us", "cputime": "time_us"}
COUNTS = {"ranks", "nranks", "n", "gpus", "ngpus", "nodes"}  # columns that tell measurements apart, though numbers
MOST = 2.0**53  # bytes: whole numbers are exact up to here
ABSENT = {"", "n/a", "na", "-"}  # how a value that was not measured is written
LABEL = re.compile(r"^\s*\d+:\s")  # srun --label puts the task before each line
DEVICE = re.compile(r"#?\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\b.*\bdevice\s+\d+\s+\[[^]]*]\s*(.*)")


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Measured times of one collective.

    Attributes:
        sizes: bytes, ascending, each once.
        times: seconds, one for each size.
        kind: which collective.
        ranks: over how many ranks.
        hardware: on what, as the file says, or an empty string.
        notes: what of the file was left out or averaged.
    """

    sizes: Array
    times: Array
    kind: Kind
    ranks: int
    hardware: str = ""
    notes: tuple[str, ...] = ()


def read_measurements(
    path: Path, *, collective: str | None = None, ranks: int | None = None, size_column: str = "size_bytes",
    time_column: str = "time_us", select: Mapping[str, Any] | None = None, smallest: float = 0.0,
    largest: float | None = None,
) -> Measurements:  # fmt: skip
    """Read a table of nccl-tests, or a CSV table whose ``#`` header lines may name ``collective`` and ``nranks``.

    Args:
        path: the file.
        collective: which one, where the file does not say; in any spelling (``all_reduce_perf``, ``AllReduce``).
        ranks: over how many ranks, where the file does not say.
        size_column: column with sizes in bytes.
        time_column: column with times in microseconds; in the text of nccl-tests ``time_us`` is out-of-place and
            ``inplace_time_us`` in-place.
        select: column -> value: only these rows.
        smallest: leave out smaller sizes, bytes.
        largest: leave out larger sizes, bytes.

    Raises:
        InputError: for a file that cannot be read or holds no such table, one without collective or ranks or that
            says otherwise than the arguments, columns it lacks, rows of several measurements, and times that are not
            finite and above 0.
    """
    table, header = _table(path, _text(path))
    _check_columns(path, table, {"size_column": size_column, "time_column": time_column})
    kind = _kind(path, header.get("collective"), collective)
    n = _ranks(path, header.get("nranks"), ranks)
    table = _selected(path, table, select or {}, size_column)
    sizes, times, notes = _values(path, table, size_column, time_column, (smallest, largest))
    hardware = one_line(header.get("hardware", ""))
    return Measurements(sizes=sizes, times=times, kind=kind, ranks=n, hardware=hardware, notes=tuple(notes))


def _text(path: Path) -> str:
    if not path.is_file():
        raise InputError(f"nccl_tests must be an existing file; got {str(path)!r}")
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    if not text.strip():
        raise InputError(f"nccl_tests must have a table of sizes and times; {path.name} is empty")
    return text


def _table(path: Path, text: str) -> tuple[pd.DataFrame, dict[str, str]]:
    """The table as text, with our names for its columns, and what the lines around it say."""
    lines = [LABEL.sub("", line).strip() for line in text.split("\n")]
    if any(_columns(line) for line in lines):
        return _printed(path, lines), _printed_header(lines)
    body = [line for line in lines if line and not line.startswith("#")]
    if not body or "," not in body[0]:
        raise InputError(
            f"nccl_tests must be the output of nccl-tests, or CSV with columns size_bytes and time_us; {path.name} has "
            f"no line of column names"
        )
    return _csv(path, body), _csv_header(lines)


def _columns(line: str) -> list[str]:
    """The columns that a header line names; the second time, algbw, ... is the in-place one. None for other lines.

    >>> _columns("#  size  count  type  time  algbw  time  algbw")
    ['size_bytes', 'count', 'type', 'time_us', 'algbw', 'inplace_time_us', 'inplace_algbw']
    """
    words = line.removeprefix("#").split()
    if not words or words[0] not in ("size", "bytes") or not {"time", "cputime"} & set(words):
        return []
    names: list[str] = []
    for word in words:
        name = NAMES.get(word, word)
        names.append(f"inplace_{name}" if name in names else name)
    return names


def _printed(path: Path, lines: Sequence[str]) -> pd.DataFrame:
    tables: list[tuple[list[str], list[list[str]]]] = []
    for line in lines:
        words = line.split()
        if columns := _columns(line):
            tables.append((columns, []))
        elif tables and len(words) > 1 and words[0].isdecimal() and _is_number(words[1]):
            columns, rows = tables[-1]
            if len(words) < len(columns):
                raise InputError(
                    f"nccl_tests must have {len(columns)} values in each row of its table; that of size {words[0]} in "
                    f"{path.name} has {len(words)}"
                )
            rows.append(words[: len(columns)])  # a timestamp may follow
    filled = [(columns, rows) for columns, rows in tables if rows]
    if len(filled) != 1:
        what = f"holds {len(filled)}: put each in a file of its own" if filled else "has the header of one, but no row"
        raise InputError(f"nccl_tests must have one table; {path.name} {what}")
    columns, rows = filled[0]
    return pd.DataFrame(rows, columns=columns)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _printed_header(lines: Sequence[str]) -> dict[str, str]:
    """The collective, the number of ranks where the list of devices is complete, and the device, where they agree."""
    header: dict[str, str] = {}
    started = [found[1] for line in lines if (found := re.search(r"Collective test starting:\s*(\S+)", line))]
    named = set(started) or {name for line in lines for name in re.findall(r"\b([a-z_]+_perf)\b", line)}
    if len(named) == 1:
        header["collective"] = named.pop()
    devices = [found for line in lines if (found := DEVICE.match(line))]
    numbers = sorted(int(found[1]) for found in devices)
    if numbers and numbers == list(range(len(numbers))) and len({found[2] for found in devices}) == 1:
        header["nranks"] = str(len(numbers))
    if len(hardware := {found[3].strip() for found in devices}) == 1:
        header["hardware"] = hardware.pop()
    return header


def _csv(path: Path, body: Sequence[str]) -> pd.DataFrame:
    try:
        names, *rows = csv.reader(body, skipinitialspace=True)
    except csv.Error as error:
        raise InputError(f"nccl_tests {path.name} cannot be read as CSV: {error}") from None
    for row in rows:
        if len(row) != len(names):
            raise InputError(
                f"nccl_tests must have {len(names)} values in each row of its table; that of {shown(row[0])} in "
                f"{path.name} has {len(row)}"
            )
    return pd.DataFrame([[value.strip() for value in row] for row in rows], columns=[name.strip() for name in names])


def _csv_header(lines: Sequence[str]) -> dict[str, str]:
    pairs = (line.lstrip("# ").partition(":") for line in lines if line.startswith("#"))
    header = {key.strip().lower(): value.strip() for key, _, value in pairs}
    return {**({"nranks": header["ranks"]} if "ranks" in header else {}), **header}


def _kind(path: Path, found: str | None, given: str | None) -> Kind:
    known = ", ".join(dict.fromkeys(TESTS.values()))
    kinds = []
    for name, where in ((given, ""), (found, f" in {path.name}")):
        if name is not None:
            word = re.sub(r"[\s_-]|perf$", "", str(name).partition("(")[0].lower().strip())
            if word not in TESTS:
                raise InputError(f"collective must be one of {known}; got {shown(name)}{where}{nearest(word, TESTS)}")
            kinds.append(TESTS[word])
    if not kinds:
        raise InputError(f"collective must be given, one of {known}: {path.name} does not name it")
    if len(set(kinds)) > 1:
        raise InputError(f"collective must be that of {path.name}, {kinds[1].value}; got {kinds[0].value}")
    return kinds[0]


def _ranks(path: Path, found: str | None, given: int | None) -> int:
    if found is None and given is None:
        raise InputError(f"ranks must be given: {path.name} does not say over how many ranks it was measured")
    if found is not None and not found.isdecimal():
        raise InputError(f"ranks must be a whole number, at least 2; {path.name} says {shown(found)}")
    if found is not None and given is not None and int(found) != given:
        raise InputError(f"ranks must be the {found} that {path.name} was measured over; got {given}")
    return count("ranks", given if found is None else int(found), least=2)


def _check_columns(path: Path, table: pd.DataFrame, needed: Mapping[str, str]) -> None:
    if not table.columns.is_unique:
        raise InputError(f"nccl_tests must name each column once; {path.name} has {', '.join(map(str, table.columns))}")
    for key, name in needed.items():
        if name not in table:
            have = ", ".join(map(str, table.columns))
            raise InputError(
                f"{key} must be a column of {path.name}; {name!r} is none{nearest(name, table)}; it has {have}"
            )


def _selected(path: Path, table: pd.DataFrame, select: Mapping[str, Any], size_column: str) -> pd.DataFrame:
    """The rows asked for. Refuses rows of several measurements, which a mean would mix."""
    for name, value in select.items():
        one_of("select", name, [str(column) for column in table])
        known = list(dict.fromkeys(table[name]))
        if str(value) not in known:
            raise InputError(f"select must be a {name} of {path.name}, one of {', '.join(known)}; got {shown(value)}")
        table = table[table[name] == str(value)]
    for name in table.columns.difference([size_column]):
        values = [value for value in dict.fromkeys(table[name]) if value.lower() not in ABSENT]
        tells = name.lower() in COUNTS or not all(map(_is_number, values))
        if tells and len(values) > 1 and table.groupby(size_column)[name].nunique().max() > 1:
            raise InputError(
                f"select must choose one {name} of {path.name}, which measures each size with several "
                f"({', '.join(values)}): 'select={{{name}: {values[0]}}}'"
            )
    return table


def _values(
    path: Path, table: pd.DataFrame, size_column: str, time_column: str, within: tuple[float, float | None]
) -> tuple[Array, Array, list[str]]:  # fmt: skip
    """Sizes and times of the rows that count, the mean of each size's times, and what was left out."""
    low, high = number("smallest", within[0], least=0), within[1]
    high = float("inf") if high is None else number("largest", high, least=low)
    sizes = np.array([_number(path, size_column, text, text) for text in table[size_column]])
    for value in sizes[~((sizes >= 0) & (sizes <= MOST) & (np.floor(sizes) == sizes))]:
        raise InputError(
            f"nccl_tests {path.name} must have whole numbers of bytes in column {size_column}; got {value:g}"
        )
    absent = table[time_column].str.strip().str.lower().isin(ABSENT).to_numpy()
    outside = (sizes > 0) & ~absent & ((sizes < low) | (sizes > high))
    kept = (sizes > 0) & ~absent & ~outside
    rows = zip(table[time_column][kept], table[size_column][kept], strict=True)
    times = np.array([_time(path, time_column, *row) for row in rows]) * 1e-6
    distinct, place, repeats = np.unique(sizes[kept], return_inverse=True, return_counts=True)
    notes = {
        "rows of size 0 left out: nothing is sent": int((sizes == 0).sum()),
        f"rows without {time_column} left out": int(((sizes > 0) & absent).sum()),
        "rows left out by smallest and largest": int(outside.sum()),
        "sizes measured more than once: their mean": int((repeats > 1).sum()),
        "rows with wrong results, as the file says": _wrong(table[kept], time_column),
    }
    means = np.bincount(place, weights=times, minlength=len(distinct)) / repeats
    return distinct, means, [f"{times} {what}" for what, times in notes.items() if times]


def _wrong(table: pd.DataFrame, time_column: str) -> int:
    """How many rows have something else than 0 or N/A in the column of wrong results that belongs to the times."""
    name = "inplace_#wrong" if time_column.startswith("inplace") else "#wrong"
    if name not in table:
        return 0
    return sum(value.lower() not in ABSENT and _is_number(value) and float(value) != 0 for value in table[name])


def _number(path: Path, column: str, text: str, size: str) -> float:
    if not _is_number(text):
        raise InputError(
            f"nccl_tests {path.name} must have numbers in column {column}; got {shown(text)} at size {size}"
        )
    return float(text)


def _time(path: Path, column: str, text: str, size: str) -> float:
    value = _number(path, column, text, size)
    if not (isfinite(value) and value > 0):
        raise InputError(
            f"nccl_tests {path.name} must have finite times above 0 in column {column}; got {text} at size {size}"
        )
    return value
