"""All studies in one run, and one table of what was claimed and what we get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from simulator.checks import Rule
from simulator.files.tables import write_csv
from simulator.network.topology import Machine
from simulator.task import Outcome, Progress, Task
from simulator.tasks.studies.base import Study
from simulator.tasks.studies.claims import Claim, claims_table, claims_text, met


@dataclass(frozen=True, kw_only=True)
class Reproduce(Task):
    """Reruns studies, each into a folder of its own, and puts their claims together.

    Its fields are the keys of ``conf/task/reproduce.yaml``, which says what each means.
    """

    name: str
    studies: Annotated[Mapping[str, Study], Rule(filled=True)]
    machine: Machine | None = None

    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        claims: list[Claim] = []
        lines: list[str] = []
        wrong: list[str] = []
        for done, (name, study) in enumerate(self.studies.items()):
            if progress is not None:
                progress(done, len(self.studies))
            findings = study.find()
            (folder / name).mkdir()
            wrong += [f"{name}: {why}" for why in findings.write(folder / name)]
            claims += findings.claims
            lines.append(f"{name}: {findings.text.splitlines()[0]}")
        write_csv(claims_table(claims), folder / "claims.csv")
        return Outcome("\n".join([*lines, "", claims_text(claims)]), met(claims)).lacking(wrong)
