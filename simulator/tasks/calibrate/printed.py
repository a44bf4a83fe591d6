"""The text that nccl-tests and rccl-tests print, also out of the logs of launchers and collectors of logs.

The text is described in nccl-tests, src/common.cu and src/util.cu (``writeResultHeader``, ``writeBenchmarkLineBody``),
and doc/PERFORMANCE.md. Its versions differ in their columns (with and without ``redop`` and ``root``; ``error``,
``res`` or ``#wrong``), so columns are found by the table's own header. A row is printed in pieces: up to ``root``, then
out-of-place, then in-place; what others print in between cuts it there, and there it is put together again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.checks import InputError
from simulator.lazy import pd
from simulator.tasks.calibrate.table import MICROSECOND, Table, alone, check_length, counted, ending

LONGEST = 1024  # characters of a line that can be of a table
NAMES = {"size": "size_bytes", "bytes": "size_bytes", "time": "time_us", "op": "redop"}
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
LABEL = re.compile(  # what launchers and collectors put before a line, one after another
    rf"""\s*(?:
      \[(?:[^]\s]*@)?\d+,(?P<mpi>\d+)](?:<(?P<stream>\w+)>)?:?  # mpirun --tag-output; Open MPI 5 names the job, too
    | (?P<srun>\d+):(?=\s|$)                        # srun --label
    | \[(?:rank|default)?(?P<hydra>\d+)(?:@[\w.-]+)?]:?  # mpiexec -l, torchrun
    | \[?\d{{4}}-\d\d-\d\d[T ]{CLOCK}(?:Z|[+-]\d\d:?\d\d)?]?   # kubectl logs --timestamps
    | (?:[A-Z][a-z]\w\s+){{1,2}}\d{{1,2}}\s+{CLOCK}(?:\s+\d{{4}})?  # mpirun --timestamp-output, syslog
    | \[?{CLOCK}]?(?=\s)
    | >                                             # a quotation
    | [\w.-]+\s*\|(?=\s)                            # docker compose
    | \([^()=]{{0,80}}=[^()]{{0,160}}\)                # Ray, SkyPilot: (head, rank=0, pid=77)
    | \[pod/[^]\s]+]                                # kubectl logs --prefix
    )""",
    re.VERBOSE | re.ASCII,
)
HEAD = re.compile(r"\b(?:size\s+count|bytes\s+N)\s+type\s")
ROW = re.compile(
    r"(?<![\w.-])(\d+)\s+(\d+)\s+((?:u?int|u?char|half|b?float|double|bf|fp?)\d*(?:_?e\dm\d\w*)?)(?![\w.])", re.ASCII
)
NUMERIC = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|N/A|[+-]?nan|[+-]?inf)", re.ASCII | re.IGNORECASE)
VALUE = {"redop": re.compile(r"\s*([A-Za-z]\w*)", re.ASCII), "root": re.compile(r"\s*(-?\d+)", re.ASCII)}
MEASURED = {"time_us", "algbw", "busbw", "error", "res", "#wrong"}
OTHER = re.compile(r"\s*(\S+)")
DEVICE = re.compile(
    r"Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?(?:Pid\s+\d+\s+)?on(?:\s+\S{1,99}){1,4}?\s+device\s+\d+\s+\[[^]]{0,32}]\s*(.*)",
    re.ASCII,
)
STARTED = re.compile(r"Collective test starting:\s*(\S+)")
PROGRAM = re.compile(r"\b([a-z]+(?:_[a-z]+)*_perf)", re.ASCII)
SETTINGS = re.compile(r"\bnThread\s+\d+\s+nGpus\s+\d+")
ASKED = re.compile(r"\bmaxBytes\s+(\d{1,15})\s+step:\s*(\d{1,15})\((factor|bytes)\)", re.ASCII)
REDUCED = re.compile(r"Reducing maxBytes to (\d{1,15})", re.ASCII)
CLOSED = re.compile(r"Out of bounds values\s*:|Avg bus bandwidth\s*:")
FAILED = re.compile(
    r"\bTest (?:\w+ )?failure\b|\bTest timeout\b|\bMPI_ABORT\b|Segmentation fault|core dumped|CANCELLED AT"
    r"|mpirun noticed|srun: error"
)


class _Line(NamedTuple):
    """A line of a log: the rank that printed it, where a launcher says so; its text; whether it is standard output."""

    label: str
    text: str
    out: bool


@dataclass
class _Printed:
    """One table, as far as it has been read."""

    columns: list[str]
    unit: float
    rows: list[list[str]] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)  # values of a row that was cut, and is not whole yet
    cut: int = 0  # rows that never became whole

    def begin(self, first: Sequence[str], rest: str) -> None:
        """A row begins with these values and the rest of its line."""
        self.end()
        self.begun = list(first)
        self.add(rest)

    def add(self, text: str) -> None:
        """More of the row that has begun, if the line goes on with it."""
        self.begun += _values(self.columns, len(self.begun), text)
        if len(self.begun) == len(self.columns):
            self.rows.append(self.begun)
            self.begun = []

    def end(self) -> None:
        """The row that has begun will not become whole."""
        self.cut += bool(self.begun)
        self.begun = []


def is_printed(lines: Sequence[str]) -> bool:
    """Whether a line is the header of a table."""
    return any(_columns(line) for line in lines if len(line) <= LONGEST)


def read_printed(name: str, lines: Sequence[str]) -> list[Table]:
    """The tables in the output of one test after another, one of each run that has a whole row.

    Args:
        name: of the file, for what is said of it.
        lines: of the file.

    Raises:
        InputError: where no run has a row or one has several tables, for ranks that are listed twice in a run, and for
            times of the host instead of the collective.
    """
    read = list(_read_lines(lines))
    for labelled in (read, [line._replace(label="") for line in read]):  # what looks like ranks may be line numbers
        if tables := [table for run in _runs(labelled) if (table := _read_run(name, run)) is not None]:
            return tables
    raise InputError("nccl_tests", f"must have one table; {name} has no whole row of one")


def _read_run(name: str, run: Sequence[_Line]) -> Table | None:
    tables: dict[str, list[_Printed]] = {}  # of each process that a launcher names
    plain = [line for line in run if line.out]
    for line in plain:
        own = tables.get(line.label if line.label or "" in tables else next(iter(tables), ""), [])
        if columns := _columns(line.text):
            unit = 1e-3 if "N" in columns else MICROSECOND  # version 1 prints milliseconds
            tables.setdefault(line.label, []).append(_Printed(columns, unit))
        elif own and (row := ROW.search(line.text)):
            own[-1].begin(row.groups(), line.text[row.end() :])
            check_length(name, len(own[-1].rows) + own[-1].cut)
        elif own and own[-1].begun:
            own[-1].add(line.text)
    filled = [table for own in tables.values() for table in own if table.rows]
    devices = [found for line in plain if (found := DEVICE.search(line.text))]
    twice = [rank for rank, times in Counter(int(found[1]) for found in devices).items() if times > 1]
    if twice and filled:
        raise alone(name, twice[0])
    if len(filled) > 1:
        raise InputError(
            "nccl_tests", f"must have one table; {name} holds {len(filled)}: put each in a file of its own"
        )
    if not filled:
        return None
    (table,) = filled
    table.end()
    if "cputime" in table.columns:
        raise InputError(
            "nccl_tests", f"must have times of the collective; {name} has those of the host's calls (-C 1)"
        )
    hardware = {found[3].strip() for found in devices}
    return Table(
        rows=pd.DataFrame(table.rows, columns=table.columns),
        collective=_collective(plain),
        ranks=_ranks(devices),
        hardware=hardware.pop() if len(hardware) == 1 else "",
        unit=table.unit,
        notes=(
            *counted([(table.cut, "rows left out: they were cut off")]),
            *_groups(devices),
            *_ending(run, max(float(row[0]) for row in table.rows)),
        ),
    )


def _runs(lines: Sequence[_Line]) -> list[list[_Line]]:
    """The lines of each run: one begins with its settings, after another has ended."""
    runs: list[list[_Line]] = [[]]
    over = False
    for line in lines:
        if over and (STARTED.search(line.text) or SETTINGS.search(line.text)):
            runs.append([])
            over = False
        over = over or bool(CLOSED.search(line.text) or FAILED.search(line.text))
        runs[-1].append(line)
    return runs


def _read_lines(lines: Sequence[str]) -> Iterator[_Line]:
    """Each line that can be of a table, without what launchers and collectors of logs put before it."""
    for line in lines:
        if len(line) > LONGEST:
            continue
        text, label, stream = COLOUR.sub("", line).rstrip(), "", ""
        while text and (found := LABEL.match(text)):
            label = label or found["mpi"] or found["srun"] or found["hydra"] or ""
            stream = stream or found["stream"] or ""
            text = text[found.end() :]
        yield _Line(label, text, stream in ("", "stdout"))


def _columns(text: str) -> list[str]:
    """The columns that a header line names; the second time, algbw, ... is the in-place one. None for other lines.

    >>> _columns("#  size  count  type  time  algbw  time  algbw")
    ['size_bytes', 'count', 'type', 'time_us', 'algbw', 'inplace_time_us', 'inplace_algbw']
    """
    head = HEAD.search(text) if "time" in text else None
    names: list[str] = []
    for word in text[head.start() :].split() if head else []:
        name = NAMES.get(word, word)
        names.append(f"inplace_{name}" if name in names else name)
    return names if {"time_us", "cputime"} & set(names) else []


def _values(columns: Sequence[str], begin: int, text: str) -> list[str]:
    """The values of a row that a piece of it holds, from column ``begin`` on, as far as whole pieces go."""
    values: list[str] = []
    whole = place = 0
    for i, column in enumerate(columns[begin:], start=begin + 1):
        name = column.removeprefix("inplace_")
        found = (NUMERIC if name in MEASURED else VALUE.get(name, OTHER)).match(text, place)
        if found is None and name != "redop":  # from 2.11 to 2.13 it is blank where nothing is reduced
            break
        values.append(found[1] if found else "")
        place = found.end() if found else place
        if i == len(columns) or columns[i].removeprefix("inplace_") == "time_us":
            whole = len(values)
    return values[:whole]


def _collective(plain: Sequence[_Line]) -> str | None:
    started = {found[1] for line in plain if (found := STARTED.search(line.text))}
    named = started or {program for line in plain if "_perf" in line.text for program in PROGRAM.findall(line.text)}
    return named.pop() if len(named) == 1 else None


def _ranks(devices: Sequence[re.Match[str]]) -> str | None:
    """How many ranks the list of devices has, where it is whole; of several groups of one size, that size."""
    if {int(found[1]) for found in devices} != set(range(len(devices))):
        return None
    sizes = set(Counter(found[2] for found in devices).values())
    return str(sizes.pop()) if len(sizes) == 1 else None


def _groups(devices: Sequence[re.Match[str]]) -> tuple[str, ...]:
    groups = len({found[2] for found in devices})
    return (
        (f"{groups} groups of ranks ran side by side: the times are of one, beside the others",) if groups > 1 else ()
    )


def _ending(run: Sequence[_Line], largest: float) -> tuple[str, ...]:
    asked = next((found for line in run if (found := ASKED.search(line.text))), None)
    reduced = [float(found[1]) for line in run if (found := REDUCED.search(line.text))]
    step = float(asked[2]) if asked else 1.0
    return ending(
        largest,
        min(float(asked[1]), *reduced) if asked and reduced else float(asked[1]) if asked else None,
        largest * max(step, 2) if asked and asked[3] == "factor" else largest + step,
        finished=any(CLOSED.search(line.text) for line in run),
        failed=any(FAILED.search(line.text) for line in run),
    )
