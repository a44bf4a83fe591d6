"""Interpolations (``${key}``) in configs of others: none may grow without end, or read the environment unasked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from simulator.checks import InputError

MOST_CHARACTERS = 1_000_000  # of a config with its interpolations written out
MOST_LOOKUPS = (
    10_000  # of keys that interpolations name, of these again, and so on; OmegaConf takes half a second for 1,000
)
Path = tuple[str, ...]
_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
_NESTED = re.compile(r"\$\{[^}]*\$\{")
_ENVIRONMENT = re.compile(r"\$\{\s*oc\.env\s*:")


def reads_environment(text: str) -> bool:
    """Whether an interpolation in a text copies an environment variable.

    >>> reads_environment("${oc.env:HOME}/runs"), reads_environment("${name}")
    (True, False)
    """
    return bool(_ENVIRONMENT.search(text))


def check_interpolations(tree: Any) -> None:
    """Refuse interpolations that would fill the memory or take minutes, from their lengths and their number alone.

    Cycles are told elsewhere.

    >>> check_interpolations({"a": "x" * 10, **{f"k{i}": f"${{k{i - 1}}}" * 9 for i in range(1, 9)}, "k0": "${a}" * 9})
    Traceback (most recent call last):
    simulator.checks.InputError: k5 must be at most 1000000 characters with its interpolations written out
    """
    nodes = dict(_nodes(tree))
    known: dict[Path, tuple[int, int]] = {}

    def size(path: Path) -> tuple[int, int]:
        """Characters, and keys to look up."""
        if path not in known:
            known[path] = 0, 0  # of a cycle
            node = nodes.get(path)
            targets = [size(target) for target in _targets(node, path)]
            own = len(node) if isinstance(node, str) else 1
            characters = own + sum(length for length, _ in targets)
            lookups = sum(more for _, more in targets) + len(targets) * isinstance(node, str)
            if characters > MOST_CHARACTERS:
                name = ".".join(path)
                limit = f"must be at most {MOST_CHARACTERS} characters with its interpolations written out"
                raise InputError(name or "the config", limit)
            known[path] = characters, lookups
        return known[path]

    lookups = sum(size(path)[1] for path, node in nodes.items() if isinstance(node, str) and "${" in node)
    if lookups > MOST_LOOKUPS:
        raise InputError("the config", f"must look up at most {MOST_LOOKUPS} keys for its interpolations", lookups)


def _nodes(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All nodes of a tree, with their paths."""
    yield path, node
    for key, value in _children(node):
        yield from _nodes(value, (*path, key))


def _targets(node: Any, path: Path) -> Iterator[Path]:
    """What a node is made of: its entries, or the keys that its interpolations name."""
    yield from ((*path, key) for key, _ in _children(node))
    if not isinstance(node, str):
        return
    if _NESTED.search(node):
        raise InputError(".".join(path), "must not have an interpolation within an interpolation", node)
    for reference in _REFERENCE.findall(node):
        name = reference.rpartition(":")[2].strip()
        up = len(name) - len(name.lstrip("."))
        parts = tuple(part for part in re.split(r"[.\[\]]+", name) if part)
        yield (*path[: len(path) - up], *parts) if up else parts


def _children(node: Any) -> list[tuple[str, Any]]:
    if isinstance(node, Mapping):
        return [(str(key), value) for key, value in node.items()]
    return [(str(i), value) for i, value in enumerate(node)] if isinstance(node, list) else []
