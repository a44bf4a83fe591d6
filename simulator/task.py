"""What an experiment may start besides a simulation: a task that fills a folder and says in words what it found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = "\0"
Progress = Callable[[int, int], None]  # steps done, steps in all


@dataclass(frozen=True)
class Outcome:
    """What a task found: ``text`` to print, and whether it is what was to be shown (False: exit status 1).

    ``FOLDER`` in the text stands for the folder that was written, as a shell takes it.
    """

    text: str
    ok: bool = True


class Task(ABC):
    """A root of the configuration: a frozen dataclass with a ``name``, whose fields are keys of the command line."""

    name: str

    @abstractmethod
    def execute(self, folder: Path, progress: Progress | None = None) -> Outcome:
        """Do the work and write every file of the result into ``folder``, which exists and is empty."""
