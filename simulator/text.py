"""Numbers, durations, sizes, names and tables for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import Any

UNITS = [(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")]  # in pictures, where no terminal lacks a letter


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


def within(error: float, form: Callable[[float], str], sign: str = " ± ") -> str:
    """A standard error behind its value, or nothing where there is none.

    >>> within(2e-6, duration), within(float("nan"), duration)
    (' ± 2.000 us', '')
    """
    return "" if isnan(error) else f"{sign}{form(error)}"


def off(change: float, digits: int = 1) -> str:
    """By how much a value is above or below another, from their ratio less 1.

    >>> off(-0.139), off(0.02)
    ('13.9 % below', '2.0 % above')
    """
    return f"{percent(abs(change), digits)} {'below' if change < 0 else 'above'}"


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


def unit(seconds: float) -> tuple[float, str]:
    """The unit in which a time reads best: its length in seconds, and its symbol.

    >>> unit(937e-6)
    (1e-06, 'µs')
    """
    return next(((size, name) for size, name in reversed(UNITS) if abs(seconds) >= size), UNITS[0 if seconds else -1])


def time_label(seconds: float) -> str:
    """A time in a picture: three digits and the unit.

    >>> time_label(0.00233777), time_label(0.9999e-3), time_label(0.0), time_label(5400.0)
    ('2.34 ms', '1.00 ms', '0 s', '5400 s')
    """
    if seconds == 0:
        return "0 s"
    size, name = unit(float(f"{seconds:.2e}"))  # rounded first, so that 999.9 us is 1 ms
    value = seconds / size
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {name}"


def share_label(part: float, whole: float) -> str:
    """A share in a picture, in percent; 0 % of nothing.

    >>> share_label(937, 2338), share_label(0.2, 1000), share_label(1e-9, 1)
    ('40 %', '0.02 %', '< 0.01 %')
    """
    share = 100 * part / whole if whole > 0 else 0.0
    if 0 < share < 0.005:
        return "< 0.01 %"
    return f"{share:.{0 if share >= 9.95 or share == 0 else 1 if share >= 0.995 else 2}f} %"


def one_line(text: str) -> str:
    """Text on one line, single spaces in the place of what cannot be printed.

    >>> one_line("NVIDIA\\tH100 \\x1b 80GB\\n")
    'NVIDIA H100 80GB'
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def short(name: Any, most: int = 30) -> str:
    """A name on one line, not too long for a picture."""
    line = one_line(str(name))
    return line if len(line) <= most else line[: most - 1] + "…"


def printable(text: str) -> str:
    """Text that cannot steer a terminal, whatever names from files are in it; line ends stay.

    >>> printable("rank 0\\n\\x1b[2J")
    'rank 0\\n?[2J'
    """
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def grid(rows: Sequence[Sequence[str]], gap: int = 2, first: int = 0) -> list[str]:
    """Rows of text as lines, columns aligned: the first to the left, others to the right.

    Args:
        rows: cells, the same number in each row.
        gap: spaces between columns.
        first: least width of the first column.

    >>> grid([["n", "tax"], ["4096", "1 ms"]])
    ['n      tax', '4096  1 ms']
    """
    widths = [max([len(row[i]) for row in rows] + [first] * (i == 0)) for i in range(len(rows[0]))]
    return [
        (" " * gap).join(cell.ljust(width) if i == 0 else cell.rjust(width)
                         for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]  # fmt: skip
