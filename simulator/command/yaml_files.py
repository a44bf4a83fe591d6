"""Config files: YAML read strictly, with every mistake named by its file and line."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from simulator.checks import InputError
from simulator.command.build import join
from simulator.command.interpolations import reads_environment

MOST_BYTES = 1_000_000  # of one file
MOST_NODES = 100_000  # of one file, anchors written out
USER = "command-line"  # who provides the folder that --config-dir names
HYDRA_KEYS = ("hydra.run.dir", "hydra.sweep.dir", "hydra/launcher", "hydra.launcher.KEY")  # what the command may set


class YamlSource(ConfigSource):
    """A folder of YAML files. Files with a byte-order mark load; every mistake is named with its file and line."""

    @staticmethod
    def scheme() -> str:
        return "yaml"

    def load_config(self, config_path: str) -> ConfigResult:
        path = Path(self.path, self._normalize_file_name(config_path))
        if not path.is_file():
            raise ConfigLoadError(f"Config not found: {path}")
        text = read(path)
        config = parse_yaml(text, _shown(path))
        preset = config_path.startswith("hydra/")
        if (preset and self.provider == USER) or (not preset and "hydra" in config):
            raise InputError(about_hydra(_shown(path)))
        try:
            header = ConfigSource._get_header_dict(text)
        except ValueError as error:
            raise InputError(f"{_shown(path)}:1: {error}") from error
        return ConfigResult(self.provider, f"{self.scheme()}://{self.path}", config, header)

    def available(self) -> bool:
        return self.is_group("")

    def is_group(self, config_path: str) -> bool:
        return os.path.isdir(self._real(config_path))

    def is_config(self, config_path: str) -> bool:
        return os.path.isfile(self._real(self._normalize_file_name(config_path)))

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        found: list[str] = []
        for name in os.listdir(self._real(config_path)):
            self._list_add_result(found, os.path.join(config_path, name), name, results_filter)
        return sorted(set(found))

    def _real(self, config_path: str) -> str:
        return os.path.realpath(os.path.join(self.path, config_path))


def about_hydra(name: str) -> str:
    """The sentence for a file that says something about Hydra, which could make it run code or write anywhere."""
    return f"{name} must not say anything about hydra: {', '.join(HYDRA_KEYS)} are set on the command line"


def leaves(node: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """The keys of all values of a config, and whether each is missing (``???``).

    >>> list(leaves(OmegaConf.create({"n": 8, "compute": {"mean": "???"}})))
    [('n', False), ('compute.mean', True)]
    """
    if isinstance(node, DictConfig) and not (node._is_missing() or node._is_none() or node._is_interpolation()):
        for key in node:
            yield from leaves(node._get_node(key), join(path, key))
    elif path:
        yield path, bool(node._is_missing())


def read(path: Path) -> str:
    """The text of a UTF-8 file, without a byte-order mark.

    Raises:
        InputError: when it cannot be read or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(_shown(path), f"must be at most {MOST_BYTES:,} bytes")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise InputError(f"{_shown(path)}:{line}: must be UTF-8 text; byte {byte:#04x} is not") from error
    except OSError as error:
        raise InputError(_shown(path), f"cannot be read: {error.strerror}") from error


def parse_yaml(text: str, name: str) -> DictConfig:
    """The config in a YAML text.

    Raises:
        InputError: with ``name`` and the line, for what is no YAML, no mapping, or a number with another meaning than
            it seems to have (017 is octal to YAML).
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            raise InputError(f"{name}:1: must hold keys and values; the file is empty")
        if not isinstance(node, yaml.MappingNode):
            raise InputError(f"{name}:{_line(node)}: must hold keys and values at its top level; got a {node.id}")
        _check_nodes(node, name)
        config = OmegaConf.load(io.StringIO(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InputError(f"{name}:{mark.line + 1 if mark else 1}: {error.problem}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"{name}:{line}: character {error.character:#x} is not allowed in YAML") from error
    except RecursionError as error:
        raise InputError(f"{name}:1: an anchor refers to itself in a cycle, or the file is nested too deep") from error
    except (OmegaConfBaseException, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name}:1: {first_sentence(str(error))}") from error
    assert isinstance(config, DictConfig)
    return config


def _check_nodes(root: yaml.Node, name: str) -> None:
    for i, node in enumerate(_nodes(root)):
        if i == MOST_NODES:
            raise InputError(f"{name}:1: must have at most {MOST_NODES} values, anchors written out")
        if isinstance(node, yaml.ScalarNode) and reads_environment(node.value):
            asked = f"write it on the command line, KEY='{node.value}'"
            raise InputError(f"{name}:{_line(node)}: a file must not copy environment variables into outputs: {asked}")
        if isinstance(node, yaml.ScalarNode) and not node.style:
            kind = node.tag.rpartition(":")[2]
            odd = kind == "int" and not re.fullmatch(r"[-+]?(0|[1-9][0-9_]*)", node.value)
            if odd or (kind == "float" and ":" in node.value):
                raise InputError(
                    f"{name}:{_line(node)}: {node.value} must be written as a decimal number, or quoted as text"
                )


def _nodes(node: yaml.Node) -> Iterator[yaml.Node]:
    yield node
    if isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _nodes(value)
    elif isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _nodes(value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _shown(path: Path) -> str:
    """A path as a person would write it: relative to the current folder where it is below it."""
    path = Path(os.path.abspath(path))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def first_sentence(text: str) -> str:
    """Hydra's message on one line, without its search paths, object types and links."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    stop = ("Config search path", "See https", "full_key:", "object_type=", "reference_type=")
    kept = [line for line in lines if not line.startswith(("full_key:", "object_type=", "reference_type="))]
    end = next((i for i, line in enumerate(kept) if line.startswith(stop)), len(kept))
    return " ".join(kept[:end])
