"""What ``+experiment=NAME`` starts: a task that fills a folder and says in words what it found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from simulator.checks import Checked

FOLDER = "\0"
Progress = Callable[[int, int], None]  # steps done, steps in all


@dataclass(frozen=True)
class Outcome:
    """What a task found.

    Attributes:
        text: to print. ``FOLDER`` in it stands for the folder that was written, as a shell takes it.
        ok: whether it is what was to be shown (False: exit status 1).
        manifest: what the manifest of the folder says besides the configuration, versions and commit: seed, notes, ...
    """

    text: str
    ok: bool = True
    manifest: Mapping[str, Any] = field(default_factory=dict)

    def lacking(self, reasons: Sequence[str]) -> Outcome:
        """The outcome with, below its text, why something is missing; it is then not what was to be shown.

        >>> Outcome("tax: 1 ms").lacking(["pictures left out: no ink"])
        Outcome(text='tax: 1 ms\\npictures left out: no ink', ok=False, manifest={})
        """
        return replace(self, text="\n".join([self.text, *reasons]), ok=False) if reasons else self


class Task(Checked, ABC):
    """A root of the configuration: a frozen dataclass with a ``name``, whose fields are keys of the command line.

    Attributes:
        name: name of the experiment.
        steps: what its progress counts.
    """

    name: str
    steps: ClassVar[str] = "steps"

    def check(self) -> None:
        """Raise InputError for what can be known to be wrong before the work begins and a folder is made."""

    @abstractmethod
    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        """Do the work and write every file of the result into ``folder``, which exists and is empty.

        One of them may be ``summary.csv``, a table of one row in SI units: its columns are in the table of a sweep. A
        ``status`` that is not ok or partial says that there is no result, and ``error`` why.
        """
