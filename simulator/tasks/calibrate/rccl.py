"""Files that rccl-tests write: rows with name, ranks, size, time and inPlace, as CSV or as JSON.

``Reporter`` in rccl-tests, src/common.cu: out-of-place and in-place are rows of their own (inPlace 0 and 1). ``ranks``
are processes, each with ``gpusPerRank`` GPUs; a build without MPI has ``gpus`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from simulator.checks import InputError
from simulator.lazy import pd
from simulator.tasks.calibrate.table import Table

NAMES = {"name": "collective", "size": "size_bytes", "time": "time_us", "wrong": "#wrong", "gpus": "ranks"}
MEASURED = ["time_us", "algbw", "busbw", "#wrong"]


def is_rccl(columns: Iterable[str]) -> bool:
    """Whether these are the columns of a file of rccl-tests."""
    return {"size", "time", "inplace"} <= {column.lower() for column in columns}


def read_rccl(name: str, rows: pd.DataFrame) -> Table:
    """The table of a file of rccl-tests: one row for each size, out-of-place and in-place beside each other.

    Args:
        name: of the file, for what is said of it.
        rows: one for each size and place, all text.

    Raises:
        InputError: for another inPlace than 0 and 1.
    """
    lower = [column.lower() for column in rows.columns]
    rows = rows.set_axis([NAMES.get(column, column) for column in lower], axis=1)
    if not rows.columns.is_unique:
        raise InputError("nccl_tests", f"must name each column once; {name} does not")
    place = rows["inplace"].map({"0": 0, "1": 1})
    if place.isna().any():
        raise InputError("nccl_tests", f"must say 0 or 1 in column inPlace; {name} says something else")
    if {"ranks", "gpusperrank"} <= set(rows.columns):
        rows["ranks"] = [_product(*pair) for pair in zip(rows["ranks"], rows["gpusperrank"], strict=True)]
    measured = [column for column in MEASURED if column in rows]
    keys = [column for column in rows if column not in (*measured, "inplace")]
    rows["repeat"] = rows.groupby([*keys, "inplace"], sort=False).cumcount()
    out, within = (rows[place == k].drop(columns="inplace") for k in (0, 1))
    within = within.rename(columns={column: f"inplace_{column}" for column in measured})
    both = out.merge(within, on=[*keys, "repeat"], how="outer").drop(columns="repeat").fillna("N/A")
    return Table(rows=both)


def _product(processes: str, gpus: str) -> str:
    """Ranks of so many processes with so many GPUs each; where either is no number, what the file says."""
    good = all(text.isdecimal() and len(text) < 10 for text in (processes, gpus))
    return str(int(processes) * int(gpus)) if good else processes
