"""``+experiment=collect``: the table and the pictures of a sweep; a multirun ends with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from simulator.checks import Rule
from simulator.files.tables import write_csv
from simulator.pictures.draw import undrawn, write_pictures
from simulator.task import Outcome, Progress, Task
from simulator.tasks.collect.pictures import sweep_pictures
from simulator.tasks.collect.table import read_points, sweep_table
from simulator.tasks.collect.words import failures, sweep_text


@dataclass(frozen=True, kw_only=True)
class Collect(Task):
    """Rebuilds a sweep's table and pictures from any set of finished jobs, also from several machines.

    Its fields are the keys of ``conf/task/collect.yaml``, which says what each means.
    """

    name: str
    folders: Annotated[Sequence[str], Rule(filled=True)]
    points: Annotated[Sequence[str], Rule(filled=True)] | None = None

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        """Leaves ``sweep.csv`` and the picture ``sweep``."""
        points = read_points([Path(text) for text in self.folders], self.points)
        table = sweep_table(points)
        write_csv(table, folder / "sweep.csv")
        wrong = [*undrawn(lambda: write_pictures(sweep_pictures(table), folder)), *failures(points, table)]
        return Outcome(sweep_text(points, table)).lacking(wrong)
