"""The command: reads the configuration, runs what it describes, writes the output folder and prints the result.

Everything heavy is imported where it is needed, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from simulator.checks import InputError, nearest

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from rich.progress import Progress

    from simulator.experiment import Experiment
    from simulator.task import Outcome, Task

PATIENCE = 2.0  # seconds of silence before a progress bar appears

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
  python -m simulator --config-dir . topology=mine plugins=[my_module]

Groups: take one option of each, GROUP=OPTION (an experiment with a plus)
{groups}

Keys: set any value, KEY=VALUE, each once at most; SI units
  n                         ranks in the domain
  topology.alpha            latency of one round, s (default: the machine's)
  topology.bandwidth        bytes/s per rank and direction (the machine's)
  topology.dims             [X,Y,Z] of a torus, X*Y*Z = n (the most cubic one)
  compute.mean, .cv         mean block time, s; standard deviation / mean
  compute.mu, .sigma, .xi   fitted maximum of compute.m ranks, in standard
                            deviations; xi > 0 is Frechet (scipy's c = -xi)
  compute.parent            spliced | zero_sum | root
  workload.bytes, .layers   size of each collective, bytes; layers
  workload.scaling          weak (block time constant in n) | strong
  iterations, seed          independent iterations; whole number or null
  timeline, per_rank        true also writes timeline.json, one row per rank
  plots                     false leaves out the pictures
  plugins                   [my_module]: modules that your configs may name
  hydra.run.dir             output folder

Flags
  --cfg job [--resolve]     print the configuration instead of running it
  --package KEY             with --cfg: only the part below KEY
  -m, --multirun            run all combinations of KEY=A,B,C
  --config-dir FOLDER       look for configs in FOLDER first
  --version, --help

Results: outputs/DATE/TIME/ (multirun/DATE/TIME/0, 1, ... with -m) holds
summary.csv, iterations.parquet, collectives.parquet, pictures, and
manifest.json with the whole configuration; seconds and bytes in every file.
Exit status: 0 done, 1 a mistake in the input, 130 interrupted, 143 terminated.
"""


class _JobsFailedError(Exception):
    """Jobs of a sweep failed; each has said so."""


class _Stopped(BaseException):
    """A signal asked to stop."""

    def __init__(self, number: int):
        self.number = number


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; ``argv`` defaults to the command line's arguments."""
    try:
        with _signals():
            return _run(list(sys.argv[1:] if argv is None else argv))
    except (Exception, KeyboardInterrupt, _Stopped) as error:
        return _report(error)


def _run(argv: list[str]) -> int:
    flags = _flags(argv)
    if flags.help:
        print(HELP.format(groups=_groups(flags.config_dir)), end="")
        return 0
    if flags.version:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"scaleup-simulator {version('scaleup-simulator')}")
        except PackageNotFoundError:
            print("scaleup-simulator, run from a checkout without installing")
        return 0
    from hydra.types import RunMode

    from simulator import configs

    hydra = configs.open_hydra(flags.config_dir)
    config = hydra.compose_config(configs.CONFIG, flags.overrides, RunMode.MULTIRUN if flags.multirun else RunMode.RUN)
    if flags.cfg:
        print(configs.show(config, flags.cfg, flags.package, flags.resolve), end="")
        return 0
    if not flags.multirun and config.hydra.mode is not RunMode.MULTIRUN:
        return _perform(configs.enter_run(config))
    with _no_trace_of(Path(config.hydra.sweep.dir)):
        if any(configs.sweep(hydra, config, _job)):
            raise _JobsFailedError
    return 0


def _job(config: DictConfig) -> int:
    """One job of a sweep; returns its exit status. A failure is told at once, and the jobs after it go on."""
    from hydra.core.hydra_config import HydraConfig

    from simulator.configs import overrides_of

    hydra = HydraConfig.get()
    print(f"\n#{hydra.job.num}: {' '.join(overrides_of(hydra))}", flush=True)
    try:
        return _perform(config)
    except Exception as error:
        with contextlib.suppress(OSError):
            Path(hydra.runtime.output_dir).rmdir()  # Hydra made it; it is empty
        return _report(error)


def _perform(config: DictConfig) -> int:
    """Do what a composed config describes; returns the exit status."""
    from simulator import configs
    from simulator.build import build, paths_in
    from simulator.results import whole_folder
    from simulator.task import Task

    job = configs.current_job(config)
    if job.plugins and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    root = build(job.tree, plugins=job.plugins, choices=job.choices)
    with paths_in(job.tree), _no_trace_of(job.folder), whole_folder(job.folder) as partial:
        config_used = {**job.tree, "plugins": list(job.plugins)}
        if isinstance(root, Task):
            outcome = _execute(root, partial, config_used)
        else:
            outcome = _simulate(root, partial, config_used)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    folder = job.folder.relative_to(Path.cwd()) if job.folder.is_relative_to(Path.cwd()) else job.folder
    print(f"{outcome.text}\n\nWritten to {folder}", flush=True)
    return 0 if outcome.ok else 1


def _execute(task: Task, partial: Path, config: dict[str, Any]) -> Outcome:
    from simulator.provenance import manifest, write_manifest

    with _Patience("steps") as progress:
        outcome = task.execute(partial, progress)
    write_manifest(manifest(config.get("seed"), config, []), partial)
    return outcome


def _simulate(experiment: Experiment, partial: Path, config: dict[str, Any]) -> Outcome:
    from simulator.experiment import run
    from simulator.report import report
    from simulator.task import Outcome

    with _Patience("iterations") as progress:
        result = run(experiment, progress=progress, config=config)
    result.write(partial)
    if experiment.plots:
        from simulator import plots

        plots.write(result, partial)
    if experiment.timeline:
        from simulator import timeline

        timeline.write(experiment, partial)
    if experiment.per_rank:
        from simulator import timeline

        timeline.per_rank(experiment, partial)
    return Outcome(report(result))


@contextlib.contextmanager
def _no_trace_of(folder: Path) -> Iterator[None]:
    """On failure remove the empty folders that were made on the way to ``folder``."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        for path in made:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


class _Patience:
    """Progress on stderr with the time left, once a run has taken longer than ``PATIENCE`` on a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> _Patience:
        return self

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            if done == total or time.monotonic() - self._began < PATIENCE or not sys.stderr.isatty():
                return
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn(self._what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task("", total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def _flags(argv: list[str]) -> argparse.Namespace:
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
    return flags


def _groups(extra: str | None) -> str:
    """The config groups with their options, for the help text."""
    from simulator.configdir import config_dir

    folders = [config_dir(), *([Path(extra)] if extra else [])]
    names = sorted({path.parent.name for folder in folders for path in folder.glob("*/*.yaml")})
    lines = []
    for group in names:
        options = sorted({path.stem for folder in folders for path in folder.glob(f"{group}/*.yaml")})
        text = textwrap.wrap(", ".join(options), 64, break_long_words=False)
        label = f"+{group}" if group == "experiment" else group
        lines += [f"  {label if i == 0 else '':<13}{line}" for i, line in enumerate(text)]
    return "\n".join(lines)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP unwind like Ctrl-C does, so that no half-written folder stays behind."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stopped(number)

    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    wanted = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    try:
        before = {number: signal.signal(number, stop) for number in wanted}
    except ValueError:  # not the main thread: its owner handles signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(error: BaseException) -> int:
    """Say in one sentence on stderr what ended the run; returns the exit status."""
    if isinstance(error, _JobsFailedError):
        return 1
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on: keep the interpreter's last flush quiet
        return 1
    if isinstance(error, KeyboardInterrupt):
        return _say("interrupted; no partial results are left", 130)
    if isinstance(error, _Stopped):
        return _say(f"stopped by {signal.Signals(error.number).name}; no partial results are left", 128 + error.number)
    if os.environ.get("SIMULATOR_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(error)
        return 1
    if isinstance(error, InputError):
        return _say(f"error: {error}", 1)
    if isinstance(error, OSError):
        return _say(f"error: {error.filename or 'input or output'}: {error.strerror or error}", 1)
    if isinstance(error, MemoryError):
        return _say("error: n and iterations must fit into memory; it ran out", 1)
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return _say(f"internal error: {text}; please report it (SIMULATOR_TRACEBACK=1 prints the traceback)", 1)


def _say(sentence: str, status: int) -> int:
    print(" ".join(sentence.splitlines()), file=sys.stderr)
    return status
