"""What every format of measured collectives gives: one table, its values as they stand in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from simulator.checks import InputError
from simulator.lazy import pd
from simulator.text import size

ABSENT = {"", "n/a", "na", "-"}  # how a value that was not measured is written
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(?:e([+-]?\d+))?", re.ASCII | re.IGNORECASE)
MICROSECOND = 1e-6
MOST_ROWS = 100_000  # of a table; a sweep over algorithms and protocols has a few thousand


@dataclass(frozen=True, kw_only=True)
class Table:
    """One table of measured collectives.

    Attributes:
        rows: text, since the digits of a value say how far it was rounded. Columns are those of the file; what all
            formats have is named ``size_bytes``, ``time_us``, ``algbw`` and ``busbw`` (GB/s), ``#wrong``, and
            ``inplace_time_us``, ... for in-place. A column ``collective`` or ``ranks`` holds for its row.
        collective: which one, as the file names it.
        ranks: over how many ranks, as the file says; text, since a header may say anything.
        hardware: on what.
        unit: of the times, seconds.
        notes: what of the file was left out, and how the run ended.
    """

    rows: pd.DataFrame
    collective: str | None = None
    ranks: str | None = None
    hardware: str = ""
    unit: float = MICROSECOND
    notes: tuple[str, ...] = ()


def rounding(text: str) -> float:
    """Half a unit of the last digit of a number as it is written; infinity for what is none.

    >>> rounding("432.47"), rounding("16865"), rounding("2.5e+04"), rounding("N/A")
    (0.005, 0.5, 500.0, inf)
    """
    found = NUMBER.fullmatch(text.strip())
    if found is None:
        return float("inf")
    digits = len(found[1] or found[2] or "")
    return float(f"5e{max(min(int((found[3] or '0')[:6]), 300), -300) - digits - 1}")


def alone(path_name: str, rank: int) -> InputError:
    """The error for the output of processes that did not know each other."""
    return InputError(
        "nccl_tests",
        f"must be one measurement of all ranks; {path_name} lists rank {rank} twice: each process measured "
        f"itself, as programs built without MPI do (make MPI=1)",
    )


def check_length(path_name: str, rows: int) -> None:
    """Refuse a table of more rows than any measurement has, before time and memory go into it."""
    if rows > MOST_ROWS:
        raise InputError("nccl_tests", f"must have at most {MOST_ROWS} rows; {path_name} has more")


def counted(notes: Iterable[tuple[int, str]]) -> tuple[str, ...]:
    """Notes with their counts, without those that count nothing."""
    return tuple(f"{times} {what}" for times, what in notes if times)


def ending(largest: float, wanted: float | None, following: float, finished: bool, failed: bool) -> tuple[str, ...]:
    """How a run ended that did not come to its end.

    Args:
        largest: size of the last whole row, bytes.
        wanted: largest size that the run was to measure, bytes.
        following: the size that would have come next, bytes.
        finished: whether the lines that close a table are there.
        failed: whether an error is reported.

    >>> ending(2.0**19, 2.0**29, 2.0**21, finished=False, failed=True)
    ('the run ended in an error at 512 KiB of 512 MiB, so bandwidth is extrapolated',)
    """
    short = wanted is not None and following <= wanted
    if finished or not (failed or short):
        return ()
    how = "the run ended in an error" if failed else "the run or its output broke off"
    return (
        f"{how} at {size(largest)} of {size(wanted)}, so bandwidth is extrapolated"
        if short and wanted
        else f"{how} after {size(largest)}",
    )
