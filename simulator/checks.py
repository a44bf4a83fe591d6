"""Input checks: each raises one sentence that names the field, what was found and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Real
from typing import Any


class InputError(ValueError):
    """A value the user gave cannot be used. The text is one sentence and begins with the field's name."""


def number(
    field: str, value: Any, *, above: float | None = None, least: float | None = None,
    below: float | None = None, infinite: bool = False,
) -> float:  # fmt: skip
    """Return ``value`` as a float inside the stated range.

    Args:
        field: name that the sentence begins with.
        value: what was given; booleans, text and NaN are refused.
        above: exclusive lower end.
        least: inclusive lower end.
        below: exclusive upper end.
        infinite: whether positive infinity is a meaningful value.

    Raises:
        InputError: with the field, the range and the offending value.

    >>> number("alpha", 5e-6, least=0)
    5e-06
    >>> number("alpha", -1, least=0)
    Traceback (most recent call last):
    simulator.checks.InputError: alpha must be a finite number, at least 0; got -1
    """
    rules = [f"above {above:g}"] if above is not None else []
    rules += [f"at least {least:g}"] if least is not None else []
    rules += [f"below {below:g}"] if below is not None else []
    what = "a number" if infinite else "a finite number"
    good = isinstance(value, Real) and not isinstance(value, bool)
    x = float(value) if good else math.nan
    good = good and not math.isnan(x) and (infinite or math.isfinite(x))
    good = good and (above is None or x > above) and (least is None or x >= least) and (below is None or x < below)
    if not good:
        raise InputError(f"{field} must be {', '.join([what, *rules])}; got {value!r}")
    return x + 0.0  # -0.0 becomes 0.0: the two must not give different bytes


def count(field: str, value: Any, *, least: int = 1, most: int = 2**63 - 1) -> int:
    """Return ``value`` as an int in ``[least, most]``.

    Raises:
        InputError: for fractions, text, booleans and values out of range.

    >>> count("n", 512)
    512
    >>> count("n", 1.5)
    Traceback (most recent call last):
    simulator.checks.InputError: n must be a whole number, at least 1; got 1.5
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        limit = f" and at most {most}" if most < 2**63 - 1 or (isinstance(value, int) and value > most) else ""
        raise InputError(f"{field} must be a whole number, at least {least}{limit}; got {value!r}")
    return int(value)


def flag(field: str, value: Any) -> bool:
    """Return ``value`` when it is true or false; refuse anything else.

    >>> flag("timeline", "yes")
    Traceback (most recent call last):
    simulator.checks.InputError: timeline must be true or false; got 'yes'
    """
    if not isinstance(value, bool):
        raise InputError(f"{field} must be true or false; got {value!r}")
    return value


def one_of(field: str, value: Any, allowed: Iterable[str]) -> str:
    """Return ``value`` when it is one of ``allowed``; otherwise name the nearest one and all of them.

    >>> one_of("parent", "splice", ["spliced", "zero_sum", "root"])
    Traceback (most recent call last):
    simulator.checks.InputError: parent must be one of spliced, zero_sum, root; got 'splice' (did you mean spliced?)
    """
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        raise InputError(f"{field} must be one of {', '.join(names)}; got {value!r}{nearest(value, names)}")
    return value


def nearest(value: Any, names: Iterable[str]) -> str:
    """The hint ``" (did you mean x?)"`` for the name closest to ``value``, or an empty string.

    >>> nearest("sigam", ["mu", "sigma"])
    ' (did you mean sigma?)'
    """
    close = get_close_matches(str(value), list(names), n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""
