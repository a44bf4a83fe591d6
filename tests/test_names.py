"""Public names: complete, and the only ones that configs and documents use; old module paths say the new name."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import simulator
import topologies
from simulator.checks import InputError
from simulator.command.build import locate
from simulator.names import HOME, MOVED, where
from tests.process import PATIENCE

ROOT = Path(__file__).parent.parent


def test_every_public_name_is_there() -> None:
    for name in HOME:
        assert getattr(simulator, name) is not None
    assert set(HOME) <= set(dir(simulator))
    with pytest.raises(AttributeError, match="no attribute 'Topolgy'"):
        simulator.Topolgy  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((ROOT / "simulator" / "__init__.py").read_text(encoding="utf-8"))
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    seen = {
        alias.name: node.module.removeprefix("simulator.")
        for node in guarded.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert seen == HOME


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import simulator, sys; sys.exit(str({'numpy', 'pandas', 'hydra'} & set(sys.modules) or 0).strip('0') or 0)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=PATIENCE).returncode == 0


@pytest.mark.sampled(8)
@pytest.mark.parametrize("path", sorted((ROOT / "conf").rglob("*.yaml")), ids=lambda path: path.stem)
def test_configs_name_public_names(path: Path) -> None:
    for target in re.findall(r"_target_: ([\w.]+)", path.read_text(encoding="utf-8")):
        package, name = target.split(".")
        assert name in {"simulator": HOME, "topologies": topologies.__all__}[package]


@pytest.mark.parametrize(
    "path", ["README.md", "CONTRIBUTING.md", *sorted((ROOT / "experiments").rglob("*.md"))], ids=str
)
def test_documents_name_public_names(path: str | Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    names = re.findall(r"\bsimulator\.([A-Za-z_]\w*)", text) + re.findall(
        r"^>>> from simulator import (\w+)", text, re.M
    )
    assert set(names) - {*HOME, "checks"} == set()
    assert not re.search(r"from simulator\.(?!checks)", text)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("old", MOVED)
def test_an_old_module_says_the_new_one(old: str) -> None:
    with pytest.raises(
        ModuleNotFoundError, match=rf"^simulator\.{old} is (gone|simulator\.{MOVED[old]}) since version 0\.2"
    ):
        importlib.import_module(f"simulator.{old}")
    importlib.import_module(f"simulator.{MOVED[old]}")


@pytest.mark.parametrize("name", ["workloads.TensorParallel", "laws", "studies.base.Study", "topology.Machine"])
def test_an_old_target_says_the_new_one(name: str) -> None:
    if where("simulator." + name.rpartition(".")[0]) is None:
        assert locate("simulator.laws.Normal", "compute._target_") is simulator.Normal  # as ever
        return
    last = name.rpartition(".")[2]
    new = f"simulator.{last}" if last in HOME else "simulator.tasks.studies.base since version 0.2"
    with pytest.raises(InputError, match=f"^compute._target_: simulator.{name.replace('.Study', '')}.* is {new}"):
        locate(f"simulator.{name}", "compute._target_")


@pytest.mark.parametrize("statement", ["from simulator.simulation import run", "from simulator.pictures import Panel"])
def test_a_module_that_became_a_folder_says_where_its_names_are(statement: str) -> None:
    name = statement.rpartition(" ")[2]
    with pytest.raises(ImportError, match=f"{name} is simulator.{name} since version 0.2"):
        exec(statement)
