"""A table as comma-separated values: one of rccl-tests, or any with a size and a time in each row."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from simulator.checks import InputError, shown
from simulator.lazy import pd
from simulator.tasks.calibrate.rccl import is_rccl, read_rccl
from simulator.tasks.calibrate.table import Table, check_length

NAME = re.compile(r"[\w #%()/.-]{0,40}")  # of a column; other text is no header, and is not shown

MOST_COLUMNS = 1000


def read_csv(name: str, lines: Sequence[str]) -> Table:
    """The table of a CSV file, whose ``#`` lines may name ``collective``, ``nranks`` and ``hardware``.

    Args:
        name: of the file, for what is said of it.
        lines: of the file.

    Raises:
        InputError: for text that is no CSV, and for rows with more or fewer values than columns.
    """
    body = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    head = [column.strip(' "') for column in body[0].split(",")] if body else []
    if not 2 <= len(head) <= MOST_COLUMNS or not all(map(NAME.fullmatch, head)):
        raise InputError(
            "nccl_tests",
            f"must be the output of nccl-tests, or CSV with columns size_bytes and time_us; {name} has no "
            f"line of column names",
        )
    check_length(name, len(body))
    try:
        names, *rows = csv.reader(body, skipinitialspace=True)
    except csv.Error as error:
        raise InputError("nccl_tests", f"{name} cannot be read as CSV: {error}") from None
    for row in rows:
        if len(row) != len(names):
            raise InputError(
                "nccl_tests",
                f"must have {len(names)} values in each row of its table; that of {shown(row[0])} in "
                f"{name} has {len(row)}",
            )
    columns = [column.strip() for column in names]
    if len(set(columns)) < len(columns):
        raise InputError("nccl_tests", f"must name each column once; {name} has {shown(', '.join(columns))[1:-1]}")
    table = pd.DataFrame([[value.strip() for value in row] for row in rows], columns=columns, dtype=object)
    if is_rccl(columns):
        return read_rccl(name, table)
    pairs = (line.lstrip("# ").partition(":") for line in lines if line.startswith("#"))
    header = {key.strip().lower(): value.strip() for key, _, value in pairs}
    return Table(
        rows=table,
        collective=header.get("collective"),
        ranks=header.get("nranks", header.get("ranks")),
        hardware=header.get("hardware", ""),
    )
