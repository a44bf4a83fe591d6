"""JSON of nccl-tests (option -J; src/util.cu, ``jsonOutputInit`` and after) and of rccl-tests.

That of nccl-tests holds the arguments and all environment variables of the run: nothing of it is shown but sizes,
times, and the names of collective and device.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from simulator.checks import InputError
from simulator.lazy import pd
from simulator.tasks.calibrate.rccl import is_rccl, read_rccl
from simulator.tasks.calibrate.table import Table, alone, check_length, counted, ending

DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)  # digits as they are written
MEASURED = {"time": "time_us", "alg_bw": "algbw", "bus_bw": "busbw", "nwrong": "#wrong"}
SETTINGS = ("size", "count", "type", "redop", "root")


def is_json(text: str) -> bool:
    """Whether a text begins as an object or a list of objects does."""
    return re.match(r"\s*(?:\[\s*)?\{", text) is not None


def read_json(name: str, text: str) -> Table:
    """The table in JSON: of nccl-tests, also broken off; of rccl-tests a list of objects, or one in each line.

    Args:
        name: of the file, for what is said of it.
        text: of the file.

    Raises:
        InputError: for JSON that holds no such table.
    """
    try:
        found, cut = _decoded(text)
        if isinstance(found, dict) and isinstance(found.get("results"), list):
            return _nccl(name, found, cut)
        rows = found if isinstance(found, list) else [found]
        check_length(name, len(rows))
        objects = [row for row in rows if isinstance(row, dict)]
        table = pd.DataFrame([{key: _text(value) for key, value in row.items()} for row in objects], dtype=object)
        if objects and is_rccl(table.columns):
            left_out = cut + len(rows) - len(objects)
            given = read_rccl(name, table.fillna("N/A"))
            return Table(rows=given.rows, notes=counted([(left_out, "rows left out: they were cut off")]))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
    raise InputError(
        "nccl_tests", f"must be JSON as nccl-tests (-J) or rccl-tests write it; {name} is JSON of another kind"
    )


def _decoded(text: str) -> tuple[Any, int]:
    """What the text says, and how many rows of it are cut off; objects line by line become a list."""
    try:
        return DECODER.decode(text), 0
    except ValueError:
        pass
    if begun := re.search(r'(?<!\\)"results"\s*:\s*\[', text):
        results, cut = _objects(text, begun.end())
        return {**{key: _after(text, key) for key in ("args", "config")}, "results": results}, cut
    return _objects(text, text.index("{"))


def _after(text: str, key: str) -> Any:
    """The value of a key that stands somewhere in a text."""
    found = re.search(rf'(?<!\\)"{key}"\s*:\s*', text)
    try:
        return DECODER.raw_decode(text, found.end())[0] if found else None
    except ValueError:
        return None


def _objects(text: str, place: int) -> tuple[list[Any], int]:
    """The objects one after another from a place of the text on, with blanks and commas between them."""
    found: list[Any] = []
    while (start := re.compile(r"[\s,]*(?=\{)").match(text, place)) is not None:
        try:
            one, place = DECODER.raw_decode(text, start.end())
        except ValueError:
            return found, 1
        found.append(one)
    return found, 0


def _nccl(name: str, found: dict[str, Any], cut: int) -> Table:
    check_length(name, len(found["results"]))
    results = [row for row in found["results"] if isinstance(row, dict)]
    rows = []
    for row in results:
        places = [_dict(row.get(key)) for key in ("out_of_place", "in_place")]
        if any("cpu_time" in place for place in places):
            raise InputError(
                "nccl_tests", f"must have times of the collective; {name} has those of the host's calls (-C 1)"
            )
        rows.append({
            **{("size_bytes" if key == "size" else key): _text(row.get(key)) for key in SETTINGS},
            **{f"{before}{ours}": _text(place.get(key))
               for before, place in zip(("", "inplace_"), places, strict=True) for key, ours in MEASURED.items()},
        })  # fmt: skip
    if not rows:
        raise InputError("nccl_tests", f"must have one table; {name} has no results")
    config = _dict(found.get("config"))
    devices = [device for device in _list(config.get("devices")) if isinstance(device, dict)]
    hardware = {_text(device.get("device_info")) for device in devices}
    return Table(
        rows=pd.DataFrame(rows, dtype=object),
        collective=_collective(found, results),
        ranks=_ranks(name, config, devices),
        hardware=hardware.pop() if len(hardware) == 1 else "",
        notes=(
            *counted([(cut + len(found["results"]) - len(results), "rows left out: they were cut off")]),
            *_ending(found, config, max(_number(row["size_bytes"]) for row in rows)),
        ),
    )


def _collective(found: dict[str, Any], results: Sequence[dict[str, Any]]) -> str | None:
    """What the results say, or else the name of the program."""
    named = {_text(row.get("experiment_name")) for row in results} - {"", "N/A"}
    program = PurePath(_text(next(iter(_list(found.get("args"))), None))).name
    return named.pop() if len(named) == 1 else program if "_perf" in program else None


def _ranks(name: str, config: dict[str, Any], devices: Sequence[dict[str, Any]]) -> str | None:
    """Threads and GPUs of each process that lists its first device; of several groups of one size, one group's."""
    for rank, times in Counter(_text(device.get("rank")) for device in devices).items():
        if times > 1 and rank.isdecimal():
            raise alone(name, int(rank[:9]))
    sizes = set(Counter(_text(device.get("group")) for device in devices).values())
    each = _number(_text(config.get("nthreads"))) * _number(_text(config.get("ngpus")))
    return f"{sizes.pop() * each:.0f}" if len(sizes) == 1 and 1 <= each < 2**24 else None


def _ending(found: dict[str, Any], config: dict[str, Any], largest: float) -> tuple[str, ...]:
    wanted, factor, step = (_number(_text(config.get(key))) for key in ("maximum_bytes", "step_factor", "step_bytes"))
    return ending(
        largest,
        wanted or None,
        largest * factor if factor > 1 else largest + max(step, 1),
        finished="out_of_bounds" in found or "end_time" in found,
        failed=any(_text(error).strip() for error in _list(found.get("errors"))),
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """A value as text; what is neither text nor a number nor true or false counts as absent."""
    if isinstance(value, bool):
        return str(int(value))
    return value.strip() if isinstance(value, str) else "N/A"


def _number(text: str) -> float:
    """A number of the configuration; 0 where there is none."""
    return float(text) if re.fullmatch(r"\d{1,17}", text, re.ASCII) else 0.0
