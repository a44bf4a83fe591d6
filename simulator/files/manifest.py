"""The manifest: what produced a result, so that it can be produced again."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import math
import platform
import resource
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("scaleup-simulator", "numpy", "scipy", "pandas", "pyarrow", "simpy", "hydra-core", "matplotlib",
            "msgspec")  # fmt: skip


def manifest(seed: int | None, config: Any, notes: Sequence[str]) -> dict[str, Any]:
    """Configuration, seed, notes, versions, commit, hash of the source, processor features, peak memory (bytes)."""
    return {
        "config": config,
        "seed": seed,
        "notes": list(notes),
        "versions": {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}},
        "commit": commit(),
        "source": source_hash(),
        "platform": platform.platform(),
        "cpu_features": cpu_features(),
        "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }


def write_manifest(record: dict[str, Any], folder: Path) -> None:
    """Write a manifest as ``manifest.json`` into a folder; JSON has no word for infinity, which is written as text."""
    text = json.dumps(_plain(record), indent=2, default=str, allow_nan=False)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """``value`` as JSON takes it: numbers that are not finite as the text that ``float`` reads back.

    >>> _plain({"bandwidth": float("inf"), "sizes": (8, float("nan"))})
    {'bandwidth': 'inf', 'sizes': [8, 'nan']}
    """
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@cache
def commit() -> str | None:
    """Commit of the checkout this package runs from, with ``+changes`` where it differs; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        git = [
            "git",
            "-C",
            str(root),
            "describe",
            "--always",
            "--abbrev=40",
            "--dirty=+changes",
            "--exclude=*",
        ]
        return subprocess.run(git, capture_output=True, text=True, timeout=5, check=True).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


@cache
def source_hash() -> str:
    """A hash of the source of this package and of the topologies: two builds of different code have different ones."""
    package = Path(__file__).resolve().parents[1]
    root = package.parent
    digest = hashlib.sha256()
    for path in sorted(path for folder in (package, root / "topologies") for path in folder.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _file_of(module: str) -> Path | None:
    """The file of a module; None where it has none (frozen, a namespace) or does not exist, which is told elsewhere."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    path = Path(spec.origin) if spec is not None and spec.origin else None
    return path if path is not None and path.is_file() else None


def hashes(paths: Iterable[Path]) -> dict[str, str]:
    """What files hold, as their SHA-256; those that cannot be read are left out: who reads them says so."""
    found: dict[str, str] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            if path.is_file():  # a pipe can be read but once
                with path.open("rb") as file:
                    found[str(path)] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def code_version(modules: Sequence[str] = ()) -> str:
    """A hash of what gives a result its numbers: our source, the user's own ``modules``, NumPy and SciPy."""
    own = [path.read_bytes() for path in map(_file_of, modules) if path is not None]
    versions = " ".join(f"{name}={version_of(name)}" for name in PACKAGES[1:3])
    return hashlib.sha256(b"\0".join([source_hash().encode(), versions.encode(), *own])).hexdigest()


def cpu_features() -> list[str]:
    """SIMD features NumPy found: its exp and log differ in the last bit between them."""
    from numpy._core._multiarray_umath import __cpu_features__

    return sorted(name for name, found in __cpu_features__.items() if found)


@cache
def version_of(package: str) -> str | None:
    """Version of an installed package; None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
