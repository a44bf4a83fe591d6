"""The flags of the command, and its help.

Nothing heavy is imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from simulator.checks import InputError, nearest
from simulator.text import printable

HELP = """\
usage: python -m simulator [FLAGS] [KEY=VALUE ...] [+experiment=NAME]

What does waiting for the slowest rank cost in a GPU scale-up domain, and how
much bandwidth is worth buying? Simulates n ranks that compute, enter a
collective, wait for the slowest (the synchronization tax) and exchange data.
Prints the tax, the iteration time, and B*, the bandwidth beyond which more of
it no longer pays: there, 1 % more bandwidth saves only 0.5 % (or 0.1 %).

Examples
  python -m simulator                          the paper's job on 8 GPUs
  python -m simulator +experiment=torus_512    512 GPUs in an 8x8x8 torus
  python -m simulator topology=ring n=64 topology.bandwidth=900e9
  python -m simulator compute=frechet compute.cv=0.05 compute.mean=6.4e-3
  python -m simulator -m n=8,64,512 topology=nvswitch,torus3d
  python -m simulator +experiment=collect 'folders=[multirun/A,multirun/B]'
  python -m simulator +experiment=trace_report traces=FOLDER
  python -m simulator +experiment=fit summary=trace_summary.json
  python -m simulator +experiment=validate summary=trace_summary.json
  python -m simulator --config-dir . topology=mine plugins=[my_module]

Groups: take one option of each, GROUP=OPTION (an experiment with a plus)
{groups}

Keys of {task}, KEY=VALUE, each once at most; SI units
{keys}

Flags
  --cfg job [--resolve]     print the configuration instead of running it
  --package KEY             with --cfg: only the part below KEY
  -m, --multirun            run all combinations of KEY=A,B,C
  --config-dir FOLDER       look for configs in FOLDER first
  --version
  --help [+experiment=NAME] this text, with the keys of that experiment

Results: outputs/DATE/TIME/ holds tables, pictures, and manifest.json with the
whole configuration; seconds and bytes in every file. With -m, multirun/SWEEP/
holds sweep.csv with all points, their curves, and a folder for each point; the
same sweep started again runs only what is missing. hydra/launcher=processes
runs points side by side, slurm and ray_cluster on many machines.
Exit status: 0 done, 1 a mistake in the input, 130 interrupted, 143 terminated.
"""


HYDRA = [
    ("hydra.run.dir", "output folder"),
    ("hydra.sweep.dir", "folder of a sweep"),
]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def read_flags(argv: Sequence[str]) -> argparse.Namespace:
    """The flags and, as ``overrides``, the other words of a command line.

    Raises:
        InputError: for an unknown flag, or one that is given in a wrong way.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--cfg", "-c", choices=["job", "hydra", "all"])
    parser.add_argument("--resolve", action="store_true")
    parser.add_argument("--package", "-p")
    parser.add_argument("--config-dir", "-cd")
    flags, unknown = parser.parse_known_intermixed_args(argv)
    if unknown:
        known = [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
        name = unknown[0].partition("=")[0]
        raise InputError(f"flag {name} does not exist{nearest(name, known)}; known flags: {', '.join(known)}")
    if not flags.cfg and (flags.resolve or flags.package is not None):
        raise InputError("--resolve" if flags.resolve else "--package", "must go with --cfg job")
    return flags


def config_dir() -> Path:
    """The folder of our own configs: inside the package when installed from a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def help_text(extra: str | None, overrides: Sequence[str] = ()) -> str:
    """The help, with the options of all groups and the keys of the chosen task, also those in the folder ``extra``.

    What a key means is said once, in the comment beside it in conf/.
    """
    folders = [*([Path(extra)] if extra else []), config_dir()]
    chosen = dict(text.lstrip("+").partition("=")[::2] for text in overrides)
    task = _task(folders, chosen)
    keys = [*_keys_of(folders, task, chosen), *_described(_text(folders, "config")), *HYDRA]
    lines = [line for key, meaning in keys for line in _entry(key, meaning)]
    return HELP.format(groups=_groups(folders), task=task, keys="\n".join(lines))


def _text(folders: Sequence[Path], name: str) -> str:
    """The text of a config, from the first folder that has it; nothing where none has, or it cannot be read."""
    path = next((path for folder in folders if (path := folder / f"{name}.yaml").is_file()), None)
    try:
        return "" if path is None else path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _task(folders: Sequence[Path], chosen: Mapping[str, str]) -> str:
    """The task that is chosen, by an experiment or by name."""
    named = re.search(r"override /task: (\w+)", _text(folders, f"experiment/{chosen.get('experiment')}"))
    task = chosen.get("task", named[1] if named else "simulate")
    return task if _text(folders, f"task/{task}") else "simulate"


def _keys_of(folders: Sequence[Path], task: str, chosen: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The keys of a task and of the groups that it takes, with what they mean; of each group those of all options."""
    text = _text(folders, f"task/{task}")
    yield from _described(text)
    seen: set[tuple[str, str]] = set()
    for group, package, default in _defaults(text):
        if package:  # of which the option alone is known to be meant
            yield package, f"as {group}={default}: {package}.KEY=VALUE"
            continue
        option = chosen.get(group, default)
        names = _options(folders, group)
        for other in [option, *names]:
            own = _text(folders, f"{group}/{other}")
            nested = [
                (f"{group}.{part}", f"as {of}={name}: {group}.{part}.KEY=VALUE") for of, part, name in _defaults(own)
            ]
            for key, meaning in [*nested, *_described(own, f"{group}.")]:
                if (key, meaning) not in seen:
                    seen.add((key, meaning))
                    yield key, meaning if other == option else f"({other}) {meaning}"


def _options(folders: Sequence[Path], group: str) -> list[str]:
    """The options of a group: files whose names a terminal can take."""
    found = {path.stem for folder in folders for path in (folder / group).glob("*.yaml") if path.is_file()}
    return sorted(name for name in found if name.isprintable())


def _defaults(text: str) -> list[tuple[str, str, str]]:
    """Group, package and option of each entry of a defaults list."""
    return re.findall(r"^  - /(\w+)(?:@([\w.]+))?: (\w+)", text, re.M)


def _described(text: str, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The keys of a config that have a comment beside them, and its words up to the source."""
    parents: list[str] = []
    for line in text.splitlines():
        found = re.match(r"((?:  )*)(\w+):(?: [^#]*)?(?:# (.*))?$", line)
        if found is None:
            continue
        parents = [*parents[: len(found[1]) // 2], found[2]]
        words = (found[3] or "").partition("source:")[0].strip().rstrip(".")
        if words:
            yield prefix + ".".join(parents), printable(words)


def _entry(key: str, meaning: str) -> list[str]:
    """A key and its meaning, beside each other where the key is short."""
    lines = textwrap.wrap(meaning, 50, break_long_words=False)
    if len(key) > 25:
        return [f"  {key}", *(f"{'':<28}{line}" for line in lines)]
    return [f"  {key if i == 0 else '':<26}{line}" for i, line in enumerate(lines)]


def _groups(folders: Sequence[Path]) -> str:
    """The config groups with their options, for the help text."""
    found = {path.parent.name for folder in folders for path in folder.glob("*/*.yaml")}
    names = sorted(name for name in found - {"task"} if name.isprintable() and _options(folders, name))
    lines = []
    for group in names:
        options = _options(folders, group)
        text = textwrap.wrap(", ".join(options), 64, break_long_words=False)
        label = f"+{group}" if group == "experiment" else group
        lines += [f"  {label if i == 0 else '':<13}{line}" for i, line in enumerate(text)]
    return "\n".join(lines)
