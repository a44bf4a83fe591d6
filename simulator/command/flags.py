"""The flags of the command, and its help.

Nothing heavy is imported here, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from simulator.checks import InputError, nearest

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

Keys: set any value, KEY=VALUE, each once at most; SI units
  n                         ranks in the domain
  topology.alpha            latency of one round, s (default: the machine's)
  topology.bandwidth        bytes/s per direction, of a rank; on a torus of
                            each of its links (the machine's)
  topology.dims             [X,Y,Z] of a torus, X*Y*Z = n (the most cubic one)
  topology.algorithm        name, where there are several: NVSwitch has
                            all_pairs and ring
  compute.mean, .cv         mean block time, s; standard deviation / mean
  compute.mu, .sigma, .xi   fitted maximum of compute.m ranks, in standard
                            deviations; xi > 0 is Frechet (scipy's c = -xi)
  compute.parent            spliced | zero_sum | root
  compute.rank, .offsets    dependent: share of the variance that a rank keeps;
                            or each rank's own offset, standard deviations
  compute.common, .node     dependent: shares that a block's or a node's ranks
                            have in common; .memory is the noise's correlation
                            with the next block, .law the law of a single time
  compute.table, .columns   empirical: CSV with a row per step and rank; columns
                            whose sum is the block time, in .unit seconds;
                            .rank and .step name the other two columns, .skip
                            leaves out first steps, .resample=steps | values
  workload.bytes, .layers   size of each collective, bytes; layers
  workload.scaling          weak (block time constant in n) | strong
  iterations, seed          independent iterations; whole number or null
  engine.threads            of the vector engine; null uses all processors
  timeline, per_rank        true also writes timeline.json (.._iterations and
                            .._ranks say how much), one row per rank
  traces                    true also writes traces/, a profiler trace of each
                            rank, of traces_iterations iterations
  plots                     false leaves out the pictures
  timeout                   s that a point of a sweep may take (no limit)
  plugins                   [my_module]: modules that your configs may name
  hydra.run.dir             output folder

Flags
  --cfg job [--resolve]     print the configuration instead of running it
  --package KEY             with --cfg: only the part below KEY
  -m, --multirun            run all combinations of KEY=A,B,C
  --config-dir FOLDER       look for configs in FOLDER first
  --version, --help

Every other key is in: python -m simulator --cfg job

Results: outputs/DATE/TIME/ holds summary.csv, iterations.parquet,
collectives.parquet, pictures, and manifest.json with the whole configuration;
seconds and bytes in every file. With -m, multirun/SWEEP/ holds sweep.csv with
all points, their curves, and a folder for each point; the same sweep started
again runs only what is missing. hydra/launcher=processes runs points side by
side, slurm and ray_cluster on many machines.
Exit status: 0 done, 1 a mistake in the input, 130 interrupted, 143 terminated.
"""


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
        raise InputError(f"{'--resolve' if flags.resolve else '--package'} must go with --cfg job")
    return flags


def config_dir() -> Path:
    """The folder of our own configs: inside the package when installed from a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def help_text(extra: str | None) -> str:
    """The help, with the options of all groups, also those in the folder ``extra``."""
    return HELP.format(groups=_groups(extra))


def _groups(extra: str | None) -> str:
    """The config groups with their options, for the help text."""
    folders = [config_dir(), *([Path(extra)] if extra else [])]
    names = sorted({path.parent.name for folder in folders for path in folder.glob("*/*.yaml")} - {"task"})
    lines = []
    for group in names:
        options = sorted({path.stem for folder in folders for path in folder.glob(f"{group}/*.yaml")})
        text = textwrap.wrap(", ".join(options), 64, break_long_words=False)
        label = f"+{group}" if group == "experiment" else group
        lines += [f"  {label if i == 0 else '':<13}{line}" for i, line in enumerate(text)]
    return "\n".join(lines)
