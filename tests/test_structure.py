"""Libraries below, tasks above, and the command knows neither: imports point down, and each library has one home."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import simulator

ROOT = Path(__file__).parent.parent
MODULES = sorted([*(ROOT / "simulator").rglob("*.py"), *(ROOT / "topologies").rglob("*.py")])

# A module imports from lower floors and from its own folder. The package itself is the front door: only topologies, who
# are users of the simulator, come in by it.
FLOORS = [
    {"arrays", "checks", "lazy", "names", "text"},
    {"files", "laws", "network", "pictures", "task", "tax"},
    {"command", "statistics", "traces", "workload"},
    {"simulation"},
    {"tasks"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS, start=1) for room in rooms}
FRONT = {"__init__", "__main__"}
TIED = {"validate": {"fit", "trace_report"}, "fit": {"trace_report"}}  # tasks that begin with another one
HOMES = {
    **dict.fromkeys(("hydra", "omegaconf", "yaml", "rich"), "command"),
    "matplotlib": "pictures", "simpy": "simulation.events", "msgspec": "traces", "pandas": "lazy",
}  # fmt: skip
# What is used of Hydra that is not public. A comment above the import says which public way was tried.
PRIVATE = {"hydra._internal.config_loader_impl.ConfigLoaderImpl"}


def place(path: Path) -> str:
    """The module of a file: ``simulator.laws.base``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[-1] != "__init__" or len(parts) == 2 else parts[:-1])


def imports(path: Path, types: bool = False) -> set[str]:
    """Modules that a file imports, also inside functions, but not those needed for ``types`` alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and not types
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", MODULES, ids=place)
def test_imports_point_down(path: Path) -> None:
    here = place(path).split(".")
    for name in imports(path):
        package, *there = name.split(".")
        if package in HOMES:
            assert ".".join(here[1:]).startswith(HOMES[package]), f"{name} lives in {HOMES[package]}"
        if here[0] == "topologies" and package == "simulator":
            assert there[0] in {*simulator.__all__, "checks"}, f"{name} is no public name"
        elif package == "topologies":
            assert here[0] == "topologies", f"{name}: plug-ins import the simulator, never the reverse"
        elif package == "simulator" and here[1] not in FRONT and there[0] != here[1]:
            assert there[0] in FLOOR, f"{name} is imported from where it lives"
            assert FLOOR[there[0]] < FLOOR[here[1]], f"{name} is on floor {FLOOR[there[0]]}"
        elif package == "simulator" and here[1] == "tasks" and there[1] != here[2]:
            assert there[1] in TIED.get(here[2], ()), f"{name} is another task"


def test_of_hydra_nothing_private_is_used_but_what_is_listed() -> None:
    found = {name for path in MODULES for name in imports(path, types=True)}
    assert {name for name in found if name.startswith("hydra._internal")} == PRIVATE


def test_every_module_is_on_one_floor() -> None:
    rooms = [place(path).split(".")[1] for path in MODULES if place(path).startswith("simulator.")]
    assert set(rooms) - FRONT == set(FLOOR)
    assert sum(map(len, FLOORS)) == len(FLOOR)


def test_every_task_has_its_file() -> None:
    """``task.py``; a folder of several tasks (studies) has one file for each."""
    for folder in (ROOT / "simulator" / "tasks").iterdir():
        if folder.is_dir() and folder.name not in ("__pycache__", "studies"):
            assert (folder / "task.py").is_file(), folder
