"""Imports point one way, and each library is known in one room."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "simulator").rglob("*.py")) + sorted((ROOT / "topologies").rglob("*.py"))

# Each layer may import those before it.
LAYERS = [
    {"checks", "configdir", "task", "pictures"},
    {"folders", "flags"},
    {"laws", "collectives"},
    {"fit", "hockney", "nccl_tests", "program", "topology"},
    {"workloads", "engine"},
    {"engine_vector", "engine_events", "measure", "model"},
    {"experiment", "provenance"},
    {"results"},
    {"simulation"},
    {"figures", "timeline", "build"},
    {"plots", "report", "yaml_files"},
    {"studies", "sweeps", "loader", "calibrate", "traces"},
    {"fitting"},
    {"validation"},
    {"configs"},
    {"app"},
    {"__main__"},
]
LEVEL = {module: level for level, modules in enumerate(LAYERS) for module in modules}
HOMES = {
    "hydra": {"app", "configs", "loader", "yaml_files"},
    "omegaconf": {"app", "configs", "loader", "yaml_files"},
    "rich": {"app", "report"},
    "simpy": {"engine_events"},
    "matplotlib": {"plots"},
    "msgspec": {"traces"},
}


def imports(path: Path) -> set[str]:
    """Modules that a file imports, also inside functions, but not those needed for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module}
            found |= {f"{node.module}.{alias.name}" for alias in node.names if node.module == "simulator"}
    return found


def room(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "simulator" else parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    if path.name == "__init__.py" and path.parent.name == "simulator":
        return
    home = room(path)
    for name in imports(path):
        package, _, rest = name.partition(".")
        module = rest.split(".")[0]
        if package == "topologies":
            assert home == "topologies", f"{path} imports {name}: plug-ins import the simulator, never the reverse"
        if package == "simulator" and module in LEVEL and home in LEVEL and module != home:
            assert LEVEL[module] < LEVEL[home], f"{path} imports {name}, which is above it"
        if package in HOMES:
            assert home in HOMES[package], f"{path} imports {package}, which lives in {HOMES[package]}"


def test_every_module_has_its_layer():
    assert {room(path) for path in MODULES} - {"topologies", "__init__"} == set(LEVEL)
