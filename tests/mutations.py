"""Inputs with the changes that editors, broken disks, other tools and strangers make; the same for the same dice."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pandas as pd
import yaml  # type: ignore[import-untyped]

STEERING = "\x1b]0;title\x07\x1b[31mred"  # what a terminal would obey
NESTED = "nested, 5000 deep"  # json.dumps itself cannot write what this stands for
ODD: tuple[Any, ...] = (
    0, -1, -0.0, 1, 0.5, 1e308, -1e308, 5e-324, 1e18, 2**31, 2**53 + 1, 2**63, -(2**63), 2**64, 10**400, float("inf"),
    float("-inf"), float("nan"), True, False, None, "", " ", "x", "0", "-1", "NaN", "1e400", "²", "\0", "\ud800",
    "\u202e", STEERING, "a" * 100_000, [], {}, [0], [[]], {"a": 1}, [None] * 3, NESTED,
)  # fmt: skip
PIECES = (
    b"", b"0", b"-1", b"-", b".", b"}", b"{", b"[", b"]", b'"', b",", b":", b";", b"#", b"'", b"\\", b"\n", b"\r",
    b"\t", b" ", b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"1e18", b"1e308", b"1e999", b"9" * 17, b"9" * 400,
    b"null",
    b"NaN", b"nan", b"true", b"N/A", b"[]", b'"x": 1, ', b"${n}", b"&a", b"*a", b"!!python/none ", STEERING.encode(),
)  # fmt: skip


def changed_bytes(dice: Random, data: bytes, most: int = 4) -> bytes:
    """A few pieces replaced, inserted, removed, moved, doubled, or flipped; sometimes the rest cut off."""
    out = bytearray(data)
    for _ in range(dice.randint(1, most)):
        at = dice.randrange(len(out) + 1)
        length = dice.choice([0, 1, 1, 3, 20, 300])
        match dice.randrange(6):
            case 0 | 1:
                out[at : at + length] = dice.choice(PIECES)
            case 2:
                out[at : at + length] = b""
            case 3:
                out[at:at] = out[at : at + length]
            case 4:
                if at < len(out):
                    out[at] ^= 1 << dice.randrange(8)
            case _:
                if dice.random() < 0.3:
                    del out[at:]
    return bytes(out)


def changed_lines(dice: Random, text: str, most: int = 4) -> str:
    """A few lines lost, doubled, swapped or shuffled, words replaced, and characters exchanged everywhere."""
    lines = text.split("\n")
    for _ in range(dice.randint(1, most)):
        i, j = (dice.randrange(len(lines)) for _ in range(2))
        match dice.randrange(6):
            case 0:
                lines[i : i + 1] = []
            case 1:
                lines[i], lines[j] = lines[j], lines[i]
            case 2:
                lines.insert(i, lines[j])
            case 3 | 4:
                split = dice.choice([" ", ",", ":", "\t"])
                words = lines[i].split(split)
                words[dice.randrange(len(words))] = _word(dice)
                lines[i] = split.join(words)
            case _:
                old, new = dice.choice("0123456789:,.[]- "), dice.choice(["", "7", " ", ",", "\n", ";", "\t"])
                lines = "\n".join(lines).replace(old, new, dice.randint(1, 9)).split("\n")
        lines = lines or [""]
    return "\n".join(lines)


def _word(dice: Random) -> str:
    value = dice.choice(ODD)
    return f" {value}" if isinstance(value, str) or dice.random() < 0.5 else json.dumps(value)


def changed_tree(dice: Random, tree: Any, most: int = 3) -> bytes:
    """JSON of ``tree``, a few of whose values are replaced, lost, renamed, doubled, moved or shuffled."""
    tree = json.loads(json.dumps(tree))
    for _ in range(dice.randint(1, most)):
        places = list(_places(tree))
        if not places:
            break
        depth = dice.choice(sorted({depth for depth, *_ in places}))  # a trace has few keys and many values of events
        _, home, key = dice.choice([place for place in places if place[0] == depth])
        value = home[key]
        match dice.randrange(8):
            case 0 | 1 | 2:
                home[key] = dice.choice(ODD)
            case 3 if isinstance(value, int | float):
                home[key] = value * dice.choice([-1, 1e3, 1e-3, 1e300]) if dice.random() < 0.5 else str(value)
            case 3 if isinstance(value, list):
                dice.shuffle(value)
            case 3 if isinstance(value, dict):
                home[key] = [value]
            case 4:
                del home[key]
            case 5 if isinstance(home, dict):
                home[dice.choice(["x", "", STEERING, str(key).upper(), f"{key} "])] = home.pop(key)
            case 5 | 6 if isinstance(home, list):
                home.insert(dice.randrange(len(home) + 1), value)
            case 7 if isinstance(value, list):
                del value[dice.randrange(len(value) + 1) :]
            case _:
                _, other, at = dice.choice(places)
                home[key] = json.loads(json.dumps(other[at])) if dice.random() < 0.5 and at in _keys(other) else None
    text = json.dumps(tree)
    return text.replace(f'"{NESTED}"', "[" * 5000 + "]" * 5000).encode()


def changed_values(dice: Random, tree: Any, most: int = 3) -> bytes:
    """JSON of ``tree``, a few of whose numbers and texts are others: single ones, or all of a list."""
    tree = json.loads(json.dumps(tree))
    for _ in range(dice.randint(1, most)):
        places = [place for place in _places(tree) if not isinstance(place[2], list | dict)]
        if not places:
            break
        depth = dice.choice(sorted({depth for depth, *_ in places}))
        _, home, key = dice.choice([place for place in places if place[0] == depth])
        kind = type(home[key])
        same = [value for value in ODD if type(value) is kind and not (kind is int and abs(value) > 2**63)]
        value = dice.choice([home[key], *same]) if same else home[key]
        all_of_it = isinstance(home, list) and dice.random() < 0.5
        for other in [at for at in _keys(home) if type(home[at]) is kind] if all_of_it else [key]:
            home[other] = value
    return json.dumps(tree).encode()


def _keys(home: Any) -> Any:
    return home if isinstance(home, dict) else range(len(home))


def _places(node: Any, depth: int = 0) -> Any:
    if isinstance(node, dict | list):
        for key in list(_keys(node)):
            yield depth, node, key
            yield from _places(node[key], depth + 1)


Typed = Callable[["pd.Series[Any]"], Any]
TYPES: dict[str, Typed] = {
    "int8": lambda x: x.to_numpy().astype("int8"),
    "uint64": lambda x: x.to_numpy().astype("uint64"),
    "float16": lambda x: x.to_numpy().astype("float16"),
    "bool": lambda x: x.to_numpy().astype(bool),
    "text": lambda x: x.astype(str),
    "duration": lambda x: pd.to_timedelta(x, unit="us"),
    "duration s": lambda x: x.to_numpy().astype("int64").astype("m8[s]"),
    "timestamp": lambda x: pd.to_datetime(x, unit="ms"),
    "timestamp of a zone": lambda x: pd.to_datetime(x, unit="ms", utc=True).dt.tz_convert("Asia/Kolkata"),
    "date": lambda x: pd.to_datetime(x, unit="ms").dt.date,
    "time of day": lambda x: pd.to_datetime(x, unit="ms").dt.time,
    "decimal": lambda x: x.map(lambda value: Decimal(str(value))),
    "dictionary": lambda x: x.astype("category"),
    "ordered text": lambda x: pd.Categorical(x.astype(str), ordered=True),
    "nullable": lambda x: x.astype("Int64").where(x.index % 7 != 3),
    "list": lambda x: [[value] for value in x],
    "struct": lambda x: [{"a": value} for value in x],
    "bytes": lambda x: [str(value).encode() + b"\xff" for value in x],
    "gaps": lambda x: x.astype(object).where(x.index % 5 != 2),
    "nothing": lambda x: [None] * len(x),
    "odd": lambda x: [10**30 if i == 1 else value for i, value in enumerate(x)],
}


def changed_table(dice: Random, table: pd.DataFrame, csv: bool) -> pd.DataFrame:
    """A table with columns of other types, missing, double or renamed, and with rows shuffled, lost or double."""
    table = table.copy()
    for _ in range(dice.randint(1, 3)):
        place = dice.randrange(max(table.shape[1], 1))
        name = table.columns[place] if table.shape[1] else ""
        match dice.randrange(10):
            case 0 | 1 | 2 if list(table.columns).count(name) == 1:
                try:
                    table[name] = TYPES[dice.choice(list(TYPES))](table[name])
                except Exception:  # what this column cannot become
                    continue
            case 3 if list(table.columns).count(name) == 1:
                values = table[name].astype(object).tolist()
                odd = (
                    [value for value in ODD if not isinstance(value, dict | list)] if csv else [-1, 1e308, None, 2**62]
                )
                for _ in range(dice.randint(1, 3)):
                    if values:
                        values[dice.randrange(len(values))] = dice.choice(odd)
                table[name] = pd.Series(values, index=table.index, dtype=object)
            case 4:
                table = table.drop(columns=name) if table.shape[1] else table
            case 5:
                names = list(table.columns)
                if names:
                    names[place] = dice.choice(["x", "", " ", STEERING, f"{name} ", *names])
                table.columns = pd.Index(names)
            case 6:
                table = table.sample(frac=1, random_state=dice.randrange(2**32))
            case 7:
                table = pd.concat([table, table.iloc[: dice.randint(1, 5)]])
            case 8:
                table = table.iloc[dice.randrange(len(table) + 1) :]
            case _:
                table = table[sorted(table.columns, key=lambda _: dice.random())] if table.columns.is_unique else table
        table = table.reset_index(drop=True)
    return table


def wrapped(dice: Random, data: bytes) -> bytes:
    """A whole file in a way that it should not be: of another encoding, packed twice, cut, empty, with junk."""
    match dice.randrange(9):
        case 0:
            return b"\xef\xbb\xbf" + data
        case 1:
            return data.decode("utf-8", "replace").encode("utf-16")
        case 2:
            return gzip.compress(data, 1)
        case 3:
            return gzip.compress(gzip.compress(data, 1), 1)
        case 4:
            packed = gzip.compress(data, 1)
            return packed[: dice.randrange(len(packed) + 1)]
        case 5:
            return changed_bytes(dice, gzip.compress(data, 1))
        case 6:
            return dice.choice([b"", b"\0" * 1000, b"\n", b"null", b"0", b'"x"', b"[]", b"{}", b"[" * 10**5])
        case 7:
            return data + data
        case _:
            return data.replace(b"\n", dice.choice([b"\r\n", b"\r", b""]))


def mutated(dice: Random, data: bytes, *changes: Callable[[Random, bytes], bytes]) -> bytes:
    """``data`` with one of the ``changes``, sometimes its bytes changed too, and seldom wrapped."""
    data = dice.choice(changes)(dice, data) if changes else data
    if not changes or dice.random() < 0.2:
        data = changed_bytes(dice, data)
    return wrapped(dice, data) if dice.random() < 0.1 else data


def as_lines(dice: Random, data: bytes) -> bytes:
    return changed_lines(dice, data.decode("utf-8", "replace")).encode("utf-8", "surrogatepass")


def as_tree(dice: Random, data: bytes) -> bytes:
    try:
        return changed_tree(dice, json.loads(data))
    except ValueError:  # no JSON
        return changed_bytes(dice, data)


def as_values(dice: Random, data: bytes) -> bytes:
    return changed_values(dice, json.loads(data))


def as_yaml(dice: Random, data: bytes) -> bytes:
    """YAML with the comments at its head, and the rest as the JSON that it is too."""
    lines = data.decode().splitlines()
    head = [line for line in lines if line.startswith("#")][:2]
    tree = yaml.safe_load(data)
    tree = dice.choice([changed_tree, changed_values])(dice, tree) if isinstance(tree, dict) else b""
    return "\n".join([*head, ""]).encode() + tree


def chosen(dice: Random, *parts: Sequence[str]) -> list[str]:
    """One of each of the parts; an empty text stands for none."""
    return [word for part in parts if (word := dice.choice(part))]
