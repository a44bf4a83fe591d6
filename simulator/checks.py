"""Input checks: each raises one sentence that names the field, what is allowed and what was found.

A class derives from ``Checked`` and says in the hints of its fields what they take: ``relative: bool``, ``centring:
Literal["instance", "block"]``, ``seed: Annotated[int, Rule(least=0)]``. The same hints say what a config may give to a
class that does not.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache, partial
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

MAX_RANKS = 2**24  # of a domain, and so of any group or block: a few arrays of their times fit into memory


class InputError(ValueError):
    """A value the user gave cannot be used. Its text is one sentence, of up to three parts.

    Args:
        field: the field's name, to which a config adds the path of its place; or, alone, the whole sentence.
        rule: what the field must be.
        got: what was given instead; shown on one line, and cut where it is long.

    >>> raise InputError("n", "must be a multiple of 4", 6)
    Traceback (most recent call last):
    simulator.checks.InputError: n must be a multiple of 4; got 6
    """

    def __init__(self, field: str, rule: str = "", *got: Any):
        self.field = field if rule else ""
        self.rule = rule
        self.got = "".join(f"; got {shown(value)}" for value in got)
        super().__init__(f"{field} {rule}{self.got}" if rule else field)

    def within(self, path: str) -> InputError:
        """The same of a field whose place is ``path``."""
        return InputError(f"{path}.{self.field}", f"{self.rule}{self.got}")


def number(
    field: str, value: Any, *, above: float | None = None, least: float | None = None,
    below: float | None = None, most: float | None = None, infinite: bool = False,
) -> float:  # fmt: skip
    """Return ``value`` as a float inside the stated range.

    Args:
        field: name that the sentence begins with.
        value: what was given; booleans, text and NaN are refused.
        above: exclusive lower end.
        least: inclusive lower end.
        below: exclusive upper end.
        most: inclusive upper end, so far off that only a value beyond it hears of it.
        infinite: whether positive infinity is a meaningful value.

    Raises:
        InputError: with the field, the range and the offending value.

    >>> number("alpha", 5e-6, least=0)
    5e-06
    >>> number("alpha", -1, least=0)
    Traceback (most recent call last):
    simulator.checks.InputError: alpha must be a finite number, at least 0; got -1
    """
    try:
        x = float(value) if not isinstance(value, bool) and isinstance(value, Real) else math.nan
    except OverflowError:  # a whole number beyond the range of doubles
        x = math.inf if value > 0 else -math.inf
    beyond = most is not None and x > most
    good = not math.isnan(x) and (infinite or math.isfinite(x)) and not beyond
    good = good and (above is None or x > above) and (least is None or x >= least) and (below is None or x < below)
    if not good:
        rules = [f"above {above:g}"] if above is not None else []
        rules += [f"at least {least:g}"] if least is not None else []
        rules += [f"below {below:g}"] if below is not None else []
        rules += [f"at most {most:g}"] if beyond else []
        what = "a number" if infinite else "a finite number"
        raise InputError(field, f"must be {', '.join([what, *rules])}", value)
    return x + 0.0  # -0.0 becomes 0.0: the two must not give different bytes


def count(field: str, value: Any, *, least: int | None = 1, most: int | None = 2**63 - 1) -> int:
    """Return ``value`` as an int in ``[least, most]``; NumPy's integers are whole numbers too.

    Raises:
        InputError: for fractions, text, booleans and values out of range.

    >>> count("n", 512)
    512
    >>> count("n", 1.5)
    Traceback (most recent call last):
    simulator.checks.InputError: n must be a whole number, at least 1; got 1.5
    """
    whole = int(value) if not isinstance(value, bool) and isinstance(value, Integral) else None
    beyond = whole is not None and most is not None and whole > most
    if whole is None or beyond or (least is not None and whole < least):
        limits = ([] if least is None else [f"at least {least}"]) + [f"at most {most}"] * beyond
        raise InputError(field, f"must be a whole number{', ' if limits else ''}{' and '.join(limits)}", value)
    return whole


def text(field: str, value: Any) -> str:
    """Return ``value`` when it is text of at least one character.

    >>> text("name", None)
    Traceback (most recent call last):
    simulator.checks.InputError: name must be text; got None
    """
    if not isinstance(value, str) or not value:
        raise InputError(field, "must be text", value)
    return str(value)


def texts(field: str, value: Any) -> tuple[str, ...]:
    """Return ``value``, a list of text, as a tuple; a single text is a list of one.

    >>> texts("after", "forward"), texts("after", [])
    (('forward',), ())
    >>> texts("after", 3)
    Traceback (most recent call last):
    simulator.checks.InputError: after must be a list of text; got 3
    """
    entries = (value,) if isinstance(value, str) else value
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, str) and entry for entry in entries):
        raise InputError(field, "must be a list of text", value)
    return tuple(entries)


def mapping(field: str, value: Any) -> dict[str, Any]:
    """Return ``value``, names with their values, as a dict.

    >>> mapping("mesh", [8])
    Traceback (most recent call last):
    simulator.checks.InputError: mesh must be a mapping from names to values; got [8]
    """
    if not isinstance(value, Mapping) or not all(isinstance(key, str) and key for key in value):
        raise InputError(field, "must be a mapping from names to values", value)
    return dict(value)


T = TypeVar("T")


def instance(field: str, value: Any, kind: type[T]) -> T:
    """Return ``value`` when it is a ``kind``, or, where that is a protocol, has its members.

    >>> instance("mesh", "tp", dict)
    Traceback (most recent call last):
    simulator.checks.InputError: mesh must be a dict; got 'tp'
    """
    if getattr(kind, "_is_protocol", False):
        good = all(hasattr(value, name) for name in vars(kind) if not name.startswith("_"))
    else:
        good = isinstance(value, kind)
    if not good or isinstance(value, type):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise InputError(field, f"must be {article} {kind.__name__}", value)
    return value


def flag(field: str, value: Any) -> bool:
    """Return ``value`` when it is true or false; refuse anything else.

    >>> flag("timeline", "yes")
    Traceback (most recent call last):
    simulator.checks.InputError: timeline must be true or false; got 'yes'
    """
    if not isinstance(value, bool):
        raise InputError(field, "must be true or false", value)
    return value


def one_of(field: str, value: Any, allowed: Iterable[str]) -> str:
    """Return ``value`` when it is one of ``allowed``; otherwise name the nearest one and all of them.

    >>> one_of("parent", "splice", ["spliced", "zero_sum", "root"])
    Traceback (most recent call last):
    simulator.checks.InputError: parent must be one of spliced, zero_sum, root; got 'splice' (did you mean spliced?)
    """
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        raise InputError(field, f"must be one of {', '.join(names)}; got {shown(value)}{nearest(value, names)}")
    return value


def nearest(value: Any, names: Iterable[str]) -> str:
    """The hint ``" (did you mean x?)"`` for the name closest to ``value``, or an empty string.

    >>> nearest("sigam", ["mu", "sigma"])
    ' (did you mean sigma?)'
    """
    close = get_close_matches(value, list(islice(names, 10_000)), n=1, cutoff=0.5) if isinstance(value, str) else []
    return f" (did you mean {close[0]}?)" if close else ""


def shown(value: Any) -> str:
    """``value`` as it stands in a sentence: on one line, and cut where it is long.

    >>> shown("ring"), shown(list(range(1000)))
    ("'ring'", '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, ... 997, 998, 999]')
    """
    try:
        line = " ".join(repr(value).split())
    except Exception:  # a whole number of thousands of digits, or what a user's own class does
        line = f"a value of type {type(value).__name__}"
    return line if len(line) <= 80 else f"{line[:60]}... {line[-15:]}"


def keep(owner: Any, **values: Any) -> None:
    """Store checked values in the fields of a frozen dataclass, from its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)


class Rule:
    """What a field takes beyond its type: the arguments of ``number``, ``count`` or ``one_of``, which check it.

    Of a list or a mapping: whether it must be ``filled``; of a list: whether each entry may be there but ``once``.
    """

    def __init__(self, **arguments: Any):
        self.arguments = arguments


class Reads:
    """Says in a hint that a field names files which are read: what they hold takes part in what a point of a sweep is.

    ``find`` gives the paths that a value stands for, and may raise InputError: the class that reads them says it again.

    >>> from pathlib import Path
    >>> reads(Annotated[str, Reads()] | None).find("table.csv") == [Path("table.csv")]
    True
    """

    def __init__(self, find: Callable[[Any], Sequence[Path]] = lambda value: [Path(value)]):
        self.find = find


def reads(hint: Any) -> Reads | None:
    """What a type hint says of files, itself or in one of its parts."""
    found = [hint] if isinstance(hint, Reads) else [said for part in get_args(hint) if (said := reads(part))]
    return found[0] if found else None


Finite = Annotated[float, Rule(infinite=False)]
Positive = Annotated[float, Rule(above=0)]
Check = Callable[[str, Any], Any]


class Checked:
    """A dataclass whose fields are checked by their hints, and stored as these say (a whole number as a float).

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Link(Checked):
    ...     alpha: Annotated[float, Rule(least=0)]
    ...     ranks: int | None = None
    ...     kind: Literal["ring", "tree"] = "ring"
    >>> Link(1)
    Link(alpha=1.0, ranks=None, kind='ring')
    >>> Link(1e-6, kind="rign")
    Traceback (most recent call last):
    simulator.checks.InputError: kind must be one of ring, tree; got 'rign' (did you mean ring?)
    """

    def __post_init__(self) -> None:
        for name, (check, default) in _checks(type(self)).items():  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is not default:  # what the class itself says need not be checked
                object.__setattr__(self, name, check(name, value))


@cache
def _checks(owner: type) -> dict[str, tuple[Check, Any]]:
    hints: dict[str, Any] = {}
    for kind in reversed(owner.__mro__):
        hints |= hints_of(kind)
    checks = {field.name: (check_of(hints.get(field.name)), field.default) for field in fields(owner)}
    return {name: pair for name, pair in checks.items() if pair[0] is not anything}


def hints_of(target: Any) -> dict[str, Any]:
    """The type hints of a class's fields or a function's parameters; none where they cannot be resolved."""
    plain = isinstance(target, type) and not is_dataclass(target)
    try:
        return get_type_hints(target.__init__ if plain else target, include_extras=True)
    except Exception:  # a user's own annotations need not resolve
        return {}


def check_of(hint: Any) -> Check:
    """The check that a type hint asks for; what is neither plain data nor a class of ours takes anything.

    >>> check_of(Sequence[int])("sizes", [8, 64])
    (8, 64)
    >>> check_of(float | str)("ratio", None)
    Traceback (most recent call last):
    simulator.checks.InputError: ratio must be a number or text; got None
    """
    rule: dict[str, Any] = {}
    if get_origin(hint) is Annotated:
        hint, *said = get_args(hint)
        rule = next((one.arguments for one in said if isinstance(one, Rule)), rule)
    origin, parts = get_origin(hint), [part for part in get_args(hint) if part is not ...]
    kind = origin or hint
    if origin is Literal:
        return partial(one_of, allowed=parts)
    if origin in (Union, UnionType):
        others = [check_of(part) for part in parts if part is not NoneType]
        return partial(_any_of, checks=others, none=NoneType in parts)
    if not isinstance(kind, type):
        return anything
    if kind in _PLAIN:
        return partial(one_of if "allowed" in rule else _PLAIN[kind], **(rule or _BARE.get(kind, {})))
    if issubclass(kind, Mapping):
        return partial(_each_value, check=check_of(parts[1]) if parts else anything, **rule)
    if issubclass(kind, Sequence):
        of = _MANY.get(_bare(parts[0]), "") if parts else ""
        return partial(_each_entry, check=check_of(parts[0]) if parts else anything, of=of, **rule)
    ours = is_dataclass(kind) or issubclass(kind, ABC) or getattr(kind, "_is_protocol", False)
    return partial(instance, kind=kind) if ours else anything


def _bare(hint: Any) -> Any:
    return _bare(get_args(hint)[0]) if get_origin(hint) is Annotated else get_origin(hint) or hint


def anything(field: str, value: Any) -> Any:
    """No check."""
    return value


_PLAIN: dict[type, Callable[..., Any]] = {bool: flag, str: text, int: count, float: number}
_BARE: dict[type, dict[str, Any]] = {int: {"least": None, "most": None}, float: {"infinite": True}}  # without a Rule
_MANY = {str: " of text", int: " of whole numbers", float: " of numbers", Mapping: " of mappings"}


def _any_of(field: str, value: Any, *, checks: Sequence[Check], none: bool) -> Any:
    if none and value is None:
        return None
    rules = []
    for check in checks:
        try:
            return check(field, value)
        except InputError as error:
            if len(checks) == 1:
                raise
            rules.append(error.rule.removeprefix("must be "))
    raise InputError(field, f"must be {' or '.join(rules)}", value)


def _each_entry(
    field: str, value: Any, *, check: Check, of: str, filled: bool = False, once: bool = False
) -> tuple[Any, ...]:  # fmt: skip
    if not isinstance(value, list | tuple):
        raise InputError(field, f"must be a list{of}", value)
    _refuse_empty(field, value, filled)
    entries = tuple(check(f"{field}[{i}]", entry) for i, entry in enumerate(value))
    if once and len(set(entries)) < len(entries):
        raise InputError(field, "must have each entry once", list(entries))
    return entries


def _each_value(field: str, value: Any, *, check: Check, filled: bool = False) -> dict[str, Any]:
    entries = {name: check(f"{field}.{name}", entry) for name, entry in mapping(field, value).items()}
    _refuse_empty(field, entries, filled)
    return entries


def _refuse_empty(field: str, entries: Any, filled: bool) -> None:
    if filled and not entries:
        raise InputError(field, "must have at least one entry; got none")
