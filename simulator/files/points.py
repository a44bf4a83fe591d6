"""The points of a sweep on disk: a finished one is a whole folder, a failed one a small file that says why.

The name of a point is a hash of its resolved config (with the seed), of the files that it reads, and of the code. So a
sweep that is started again runs only what is missing or changed, points of several machines can be put together, and
nothing has to be locked or repaired.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.files.folders import partial_name
from simulator.files.manifest import code_version

FAILED = ".failed.json"


def point_key(tree: Mapping[str, Any], modules: Sequence[str] = (), inputs: Mapping[str, str] | None = None) -> str:
    """Name of a point's folder: a hash of its resolved config (the seed is in it), of its inputs and the code.

    Args:
        tree: the resolved config as plain data.
        modules: the user's own modules that take part.
        inputs: files that it reads, with hashes of what they hold.
    """
    text = json.dumps([tree, code_version(modules), inputs or {}], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def sweep_name(overrides: Iterable[str]) -> str:
    """Name of a sweep's folder: the same for the same overrides in any order, however they are launched."""
    own = sorted(text for text in overrides if not text.lstrip("+~").startswith(("hydra.", "hydra/", "timeout=")))
    return hashlib.sha256("\n".join(own).encode("utf-8", "backslashreplace")).hexdigest()[:10]


def record_failure(folder: Path, key: str, overrides: Sequence[str], error: str) -> None:
    """Leave word of why a point failed; written whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / partial_name(key)
    partial.write_text(json.dumps({"overrides": list(overrides), "error": error}) + "\n", encoding="utf-8")
    partial.replace(folder / f"{key}{FAILED}")


def is_done(folder: Path, key: str) -> bool:
    """Whether the point is finished; what an earlier try left of why it failed is then removed."""
    done = _is_whole(folder / key / "manifest.json")
    if done:
        (folder / f"{key}{FAILED}").unlink(missing_ok=True)
    return done


def discard_damaged(folder: Path, key: str) -> bool:
    """Remove a point's folder that somebody damaged, or took files from; returns whether there was one."""
    found = (folder / key).exists() and not is_done(folder, key)
    if found:
        shutil.rmtree(folder / key)
    return found


def sizes_of(folder: Path) -> dict[str, int]:
    """The files of a folder with their sizes, bytes: what its manifest has, so that a lost or cut one is noticed."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / "manifest.json")
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}


def _is_whole(path: Path) -> bool:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        overrides, files = manifest["overrides"], manifest.get("files", {})
        same = all((path.parent / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False
    return same and isinstance(overrides, list) and all(isinstance(text, str) for text in overrides)
