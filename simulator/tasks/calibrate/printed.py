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

from simulator.checks import InputError
from simulator.lazy import pd
from simulator.tasks.calibrate.table import MICROSECOND, Table, alone, check_length, counted, ending

LONGEST = 4096  # characters of a line that can be of a table
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
    | \[pod/[^]\s]+]                                # kubectl logs --prefix
    )""",
    re.VERBOSE | re.ASCII,
)
HEAD = re.compile(r"\b(?:size\s+count|bytes\s+N)\s+type\s.*\b(?:cpu)?time\b.*")
ROW = re.compile(
    r"(?<![\w.-])(\d+)\s+(\d+)\s+((?:u?int|u?char|half|b?float|double|bf|fp?)\d*(?:_?e\dm\d\w*)?)(?![\w.])", re.ASCII
)
NUMERIC = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|N/A|[+-]?nan|[+-]?inf)", re.ASCII | re.IGNORECASE)
VALUE = {"redop": re.compile(r"\s*([A-Za-z]\w*)", re.ASCII), "root": re.compile(r"\s*(-?\d+)", re.ASCII)}
MEASURED = {"time_us", "algbw", "busbw", "error", "res", "#wrong"}
OTHER = re.compile(r"\s*(\S+)")
DEVICE = re.compile(
    r"Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?(?:Pid\s+\d+\s+)?on\s.*?\bdevice\s+\d+\s+\[[^]]*]\s*(.*)", re.ASCII
)
STARTED = re.compile(r"Collective test starting:\s*(\S+)")
PROGRAM = re.compile(r"\b([a-z]+(?:_[a-z]+)*_perf\w*)", re.ASCII)
ASKED = re.compile(r"\bmaxBytes\s+(\d{1,15})\s+step:\s*(\d{1,15})\((factor|bytes)\)", re.ASCII)
REDUCED = re.compile(r"Reducing maxBytes to (\d{1,15})", re.ASCII)
CLOSED = re.compile(r"Out of bounds values\s*:|Avg bus bandwidth\s*:")
FAILED = re.compile(
    r"\bTest (?:\w+ )?failure\b|\bTest timeout\b|\bMPI_ABORT\b|Segmentation fault|core dumped|CANCELLED AT"
    r"|mpirun noticed|srun: error"
)


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
    return any(HEAD.search(line) for line in lines)


def read_printed(name: str, lines: Sequence[str]) -> Table:
    """The table in the output of a test.

    Args:
        name: of the file, for what is said of it.
        lines: of the file.

    Raises:
        InputError: for several tables or none that has a row, for ranks that are listed twice, and for times of the
            host instead of the collective.
    """
    tables: dict[str, list[_Printed]] = {}  # of each process that a launcher names
    plain = list(_of_stdout(lines))
    for label, text in plain:
        own = tables.get(label if label or "" in tables else next(iter(tables), ""), [])
        head, row = HEAD.search(text), ROW.search(text)
        if head:
            unit = 1e-3 if head[0].startswith("bytes") else MICROSECOND  # version 1 prints milliseconds
            tables.setdefault(label, []).append(_Printed(_columns(head[0]), unit))
        elif own and row:
            own[-1].begin(row.groups(), text[row.end() :])
            check_length(name, len(own[-1].rows) + own[-1].cut)
        elif own and own[-1].begun:
            own[-1].add(text)
    devices = [found for _, text in plain if (found := DEVICE.search(text))]
    filled = [table for own in tables.values() for table in own if table.rows or table.begun or table.cut]
    for table in filled:
        table.end()
    twice = [rank for rank, times in Counter(int(found[1]) for found in devices).items() if times > 1]
    if twice and (len(filled) == 1 or len(tables) > 1):
        raise alone(name, twice[0])
    if len(filled) != 1 or not filled[0].rows:
        many = len(filled) > 1
        what = f"holds {len(filled)}: put each in a file of its own" if many else "has no whole row of one"
        raise InputError(f"nccl_tests must have one table; {name} {what}")
    (table,) = filled
    if "cputime" in table.columns:
        raise InputError(f"nccl_tests must have times of the collective; {name} has those of the host's calls (-C 1)")
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
            *_ending(lines, max(float(row[0]) for row in table.rows)),
        ),
    )


def _of_stdout(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each line that can be of a table: the rank that printed it, where a launcher says so, and the line itself."""
    for line in lines:
        if len(line) > LONGEST:
            continue
        text, label, stream = COLOUR.sub("", line).rstrip(), "", ""
        while text and (found := LABEL.match(text)):
            label = label or found["mpi"] or found["srun"] or found["hydra"] or ""
            stream = stream or found["stream"] or ""
            text = text[found.end() :]
        if stream in ("", "stdout"):
            yield label, text


def _columns(head: str) -> list[str]:
    """The columns that a header line names; the second time, algbw, ... is the in-place one.

    >>> _columns("size  count  type  time  algbw  time  algbw")
    ['size_bytes', 'count', 'type', 'time_us', 'algbw', 'inplace_time_us', 'inplace_algbw']
    """
    names: list[str] = []
    for word in head.split():
        name = NAMES.get(word, word)
        names.append(f"inplace_{name}" if name in names else name)
    return names


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


def _collective(plain: Sequence[tuple[str, str]]) -> str | None:
    started = {found[1] for _, text in plain if (found := STARTED.search(text))}
    named = started or {program for _, text in plain if "_perf" in text for program in PROGRAM.findall(text)}
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


def _ending(lines: Sequence[str], largest: float) -> tuple[str, ...]:
    asked = next((found for line in lines if (found := ASKED.search(line))), None)
    reduced = [float(found[1]) for line in lines if (found := REDUCED.search(line))]
    step = float(asked[2]) if asked else 1.0
    return ending(
        largest,
        min(float(asked[1]), *reduced) if asked and reduced else float(asked[1]) if asked else None,
        largest * max(step, 2) if asked and asked[3] == "factor" else largest + step,
        finished=any(CLOSED.search(line) for line in lines),
        failed=any(FAILED.search(line) for line in lines),
    )
