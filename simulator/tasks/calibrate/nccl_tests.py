"""Measured collectives out of a file: what nccl-tests and rccl-tests print or write, or a CSV table.

Sizes are those that the tests print: the per-rank buffer for AllReduce, AllToAll, Broadcast, Reduce and SendRecv, the
full size for AllGather, ReduceScatter, Gather and Scatter.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from simulator.arrays import Array
from simulator.checks import InputError, count, nearest, number, one_of, shown
from simulator.lazy import pd
from simulator.network.collectives import Kind
from simulator.tasks.calibrate.agreement import Half, check_ranks, check_unit, spans
from simulator.tasks.calibrate.csv_table import read_csv
from simulator.tasks.calibrate.json_table import is_json, read_json
from simulator.tasks.calibrate.printed import is_printed, read_printed
from simulator.tasks.calibrate.table import ABSENT, Table, counted
from simulator.text import one_line, short, size

TESTS = {
    "allreduce": Kind.ALL_REDUCE, "allgather": Kind.ALL_GATHER, "reducescatter": Kind.REDUCE_SCATTER,
    "alltoall": Kind.ALL_TO_ALL, "broadcast": Kind.BROADCAST, "reduce": Kind.REDUCE,
    "gather": Kind.GATHER, "scatter": Kind.SCATTER, "sendrecv": Kind.SEND, "send": Kind.SEND,
}  # fmt: skip
COUNTS = {"ranks", "nranks", "n", "gpus", "ngpus", "nodes"}  # columns that tell measurements apart, though numbers
MOST = 2.0**53  # bytes: whole numbers are exact up to here
MOST_BYTES = 2**26  # of a file: a table has a few kilobytes, and the log around it seldom more than this
SHOWN = 8  # values of a column that a sentence lists


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
    given = _table(path, collective)
    _check_columns(path, given.rows, {"size_column": size_column, "time_column": time_column})
    rows = _selected(path, given.rows, select or {}, size_column)
    kind = _kind(path, given.collective or _only(rows, "collective"), collective)
    listed = _ranks(path, given.ranks or _only(rows, "ranks"), ranks)
    sizes, counts, notes = _sizes(path, rows, size_column, time_column, (smallest, largest))
    rows, sizes = rows[counts], sizes[counts]
    half = _half(path, rows, sizes, time_column)
    good = check_unit(half, kind, given.unit)
    n, fits = check_ranks(half, kind, given.unit, listed)
    left_out = counted([(int((~(good & fits)).sum()), "rows left out: their columns contradict each other")])
    found = f"{n} ranks, as busbw/algbw says" if listed is None else ""
    rows, sizes = rows[good & fits], sizes[good & fits]
    sizes, times, repeated = _means(path, rows, sizes, size_column, time_column)
    notes = (*given.notes, *([found] if found else []), *notes, *left_out, *repeated)
    return Measurements(
        sizes=sizes, times=times * given.unit, kind=kind, ranks=count("ranks", n, least=2),
        hardware=one_line(given.hardware), notes=notes,
    )  # fmt: skip


def _table(path: Path, collective: str | None) -> Table:
    """The table of a file in any format; of several runs in a log, that of the collective asked for."""
    if not path.is_file():
        raise InputError("nccl_tests", "must be an existing file", str(path))
    if (length := path.stat().st_size) > MOST_BYTES:
        raise InputError(
            "nccl_tests",
            f"must be a file of at most {size(MOST_BYTES)}; {path.name} has {size(length)}: keep the table "
            f"and the lines that begin with #",
        )
    data = path.read_bytes()
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as PowerShell writes
    text = data.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    if not text.strip():
        raise InputError("nccl_tests", f"must have a table of sizes and times; {path.name} is empty")
    if is_json(text):
        return read_json(path.name, text)
    lines = text.split("\n")
    if not is_printed(lines):
        return read_csv(path.name, lines)
    tables = read_printed(path.name, lines)
    if len(tables) == 1:
        return tables[0]
    kinds = [_kind(path, table.collective, None if table.collective else collective) for table in tables]
    wanted = [k for k, kind in enumerate(kinds) if collective and kind == _kind(path, None, collective)]
    if len(wanted) != 1:
        what = f"holds {len(tables)}: put each in a file of its own"
        if len(set(kinds)) == len(kinds):
            what = f"holds one of each of {', '.join(kinds)}: choose by collective"
        raise InputError("nccl_tests", f"must have one table; {path.name} {what}")
    return tables[wanted[0]]


def _only(rows: pd.DataFrame, column: str) -> str | None:
    """The value of a column, where it has but one."""
    values = set(rows[column]) - {"N/A"} if column in rows else set()
    return values.pop() if len(values) == 1 else None


def _half(path: Path, rows: pd.DataFrame, sizes: Array, time_column: str) -> Half:
    """The half of the table that a column of times belongs to: ``oop_time_us`` has ``oop_algbw_GBs`` beside it."""

    def beside(what: str) -> Any:
        name = re.compile(re.escape(re.sub("time.*", what, time_column)) + "(?:[ _(]*GB.*)?", re.IGNORECASE)
        names = [column for column in rows if name.fullmatch(str(column))] if "time" in time_column else []
        return spans(list(rows[names[0]])) if len(names) == 1 else None

    times = spans(list(rows[time_column]))
    return Half(name=path.name, sizes=sizes, times=times, algbw=beside("algbw"), busbw=beside("busbw"))


def _kind(path: Path, found: str | None, given: str | None) -> Kind:
    known = list(dict.fromkeys(kind.value for kind in TESTS.values()))
    kinds = []
    for name, where in ((given, ""), (found, f" in {path.name}")):
        if name is not None:
            word = re.sub(r"[\s_-]", "", str(name).partition("(")[0].lower())
            word = re.sub(r"perf.*", "", word, flags=re.DOTALL)  # images have all_reduce_perf_mpi
            if word not in TESTS:
                close = nearest(str(name), known)
                raise InputError("collective", f"must be one of {', '.join(known)}; got {shown(name)}{where}{close}")
            kinds.append(TESTS[word])
    if not kinds:
        raise InputError("collective", f"must be given, one of {', '.join(known)}: {path.name} does not name it")
    if len(set(kinds)) > 1:
        raise InputError("collective", f"must be that of {path.name}, {kinds[1].value}; got {kinds[0].value}")
    return kinds[0]


def _ranks(path: Path, found: str | None, given: int | None) -> int | None:
    """How many ranks the file and the caller name; None where neither does."""
    if found is None:
        return given
    if not re.fullmatch(r"\d{1,9}", found, re.ASCII):
        raise InputError("ranks", f"must be a whole number, at least 2; {path.name} says {shown(found)}")
    if given is not None and int(found) != given:
        raise InputError("ranks", f"must be the {int(found)} that {path.name} was measured over; got {given}")
    return int(found)


def _check_columns(path: Path, table: pd.DataFrame, needed: Mapping[str, str]) -> None:
    if not table.columns.is_unique:
        raise InputError("nccl_tests", f"must name each column once; {path.name} has {_listed(table.columns)}")
    for key, name in needed.items():
        if name not in table:
            close = nearest(name, map(str, table))
            raise InputError(
                key, f"must be a column of {path.name}; {name!r} is none{close}; it has {_listed(table.columns)}"
            )


def _listed(values: Iterable[Any], most: int = 24) -> str:
    """Some names or values of a file in a sentence: each on one line and short, and not too many."""
    texts = [short(value) for value in islice(values, most + 1)]
    return ", ".join([*texts[:most], *(["..."] if len(texts) > most else [])])


def _selected(path: Path, table: pd.DataFrame, select: Mapping[str, Any], size_column: str) -> pd.DataFrame:
    """The rows asked for. Refuses rows of several measurements, which a mean would mix."""
    for name, value in select.items():
        one_of("select", name, [str(column) for column in table])
        known = list(dict.fromkeys(table[name]))
        if str(value) not in known:
            raise InputError("select", f"must be a {name} of {path.name}, one of {_listed(known, SHOWN)}", value)
        table = table[table[name] == str(value)]
    for name in table.columns.difference([size_column]):
        values = [value for value in dict.fromkeys(table[name]) if value.lower() not in ABSENT]
        tells = name.lower() in COUNTS or not all(map(_is_number, values))
        if tells and len(values) > 1 and table.groupby(size_column)[name].nunique().max() > 1:
            raise InputError(
                "select",
                f"must choose one {name} of {path.name}, which measures each size with several "
                f"({_listed(values, SHOWN)}): 'select={{{name}: {short(values[0])}}}'",
            )
    return table


def _sizes(
    path: Path, table: pd.DataFrame, size_column: str, time_column: str, within: tuple[float, float | None]
) -> tuple[Array, Array, tuple[str, ...]]:  # fmt: skip
    """Sizes, whether the row of each counts, and what was left out."""
    low, high = number("smallest", within[0], least=0), within[1]
    high = float("inf") if high is None else number("largest", high, least=low)
    sizes = np.array([_number(path, size_column, text, text) for text in table[size_column]])
    for value in sizes[~((sizes >= 0) & (sizes <= MOST) & (np.floor(sizes) == sizes))]:
        raise InputError(
            "nccl_tests", f"{path.name} must have whole numbers of bytes in column {size_column}; got {value:g}"
        )
    absent = table[time_column].str.strip().str.lower().isin(ABSENT).to_numpy(dtype=bool)
    outside = (sizes > 0) & ~absent & ((sizes < low) | (sizes > high))
    notes = counted([
        (int((sizes == 0).sum()), "rows of size 0 left out: nothing is sent"),
        (int(((sizes > 0) & absent).sum()), f"rows without {time_column} left out"),
        (int(outside.sum()), "rows left out by smallest and largest"),
    ])  # fmt: skip
    return sizes, (sizes > 0) & ~absent & ~outside, notes


def _means(
    path: Path, table: pd.DataFrame, sizes: Array, size_column: str, time_column: str
) -> tuple[Array, Array, tuple[str, ...]]:  # fmt: skip
    """Each size once with the mean of its times, in the unit of the table, and what is to be said of them."""
    rows = zip(table[time_column], table[size_column], strict=True)
    times = np.array([_time(path, time_column, *row) for row in rows])
    distinct, place, repeats = np.unique(sizes, return_inverse=True, return_counts=True)
    notes = counted([
        (int((repeats > 1).sum()), "sizes measured more than once: their mean"),
        (_wrong(table, time_column), "rows with wrong results, as the file says"),
    ])  # fmt: skip
    return distinct, np.bincount(place, weights=times, minlength=len(distinct)) / repeats, notes


def _wrong(table: pd.DataFrame, time_column: str) -> int:
    """How many rows have something else than 0 or N/A in the column of wrong results that belongs to the times."""
    name = "inplace_#wrong" if time_column.startswith("inplace") else "#wrong"
    return sum(_is_number(value) and float(value) != 0 for value in table[name]) if name in table else 0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def _number(path: Path, column: str, text: str, size: str) -> float:
    if not _is_number(text):
        raise InputError(
            "nccl_tests", f"{path.name} must have numbers in column {column}; got {shown(text)} at size {short(size)}"
        )
    return float(text)


def _time(path: Path, column: str, text: str, size: str) -> float:
    value = _number(path, column, text, size)
    if not (isfinite(value) and value > 0):
        raise InputError(
            "nccl_tests",
            f"{path.name} must have finite times above 0 in column {column}; got {short(text)} at size {short(size)}",
        )
    return value
