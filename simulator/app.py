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
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from simulator.checks import InputError, nearest

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from rich.progress import Progress

    from simulator import configs
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
  python -m simulator +experiment=collect 'folders=[multirun/A,multirun/B]'
  python -m simulator +experiment=trace_report traces=FOLDER
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
  plots                     false leaves out the pictures
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
    overrides = _in_its_own_folder(flags.overrides) if flags.multirun else flags.overrides
    config = hydra.compose_config(configs.CONFIG, overrides, RunMode.MULTIRUN if flags.multirun else RunMode.RUN)
    if flags.cfg:
        print(configs.show(config, flags.cfg, flags.package, flags.resolve), end="")
        return 0
    if not flags.multirun and config.hydra.mode is not RunMode.MULTIRUN:
        job = configs.current_job(configs.enter_run(config))
        outcome = _perform(job)
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        print(f"{outcome.text}\n\nWritten to {_shown(job.folder)}", flush=True)
        return 0 if outcome.ok else 1
    return _sweep(hydra, config)


def _in_its_own_folder(overrides: list[str]) -> list[str]:
    """Overrides of a sweep that name its folder: the same for the same sweep, so that it can go on."""
    from simulator.sweeps import sweep_name

    if any(text.lstrip("+").startswith("hydra.sweep.dir=") for text in overrides):
        return overrides
    return [*overrides, f"hydra.sweep.dir=multirun/{sweep_name(overrides)}"]


def _sweep(hydra: Any, config: DictConfig) -> int:
    """Run all points of a sweep that are not done yet, and write its table; returns the exit status."""
    from simulator import configs
    from simulator.folders import tidy, whole_files
    from simulator.sweeps import read_points, write_sweep

    folder = Path(config.hydra.sweep.dir).absolute()
    with _no_trace_of(folder):
        tidy(folder)
        try:
            points = configs.sweep(hydra, config, _job)
        except (KeyboardInterrupt, _Stopped):
            print("finished points are kept: the same command goes on with the others", file=sys.stderr)
            raise
        with whole_files(folder) as partial:
            outcome = write_sweep(read_points([folder], points), partial)
    print(f"\n{outcome.text}\n\nWritten to {_shown(folder)}", flush=True)
    return 0 if outcome.ok else 1


def _job(config: DictConfig) -> str:
    """One point of a sweep; returns its key. A failure is told and recorded, and the other points go on."""
    from hydra.core.hydra_config import HydraConfig

    from simulator import configs, sweeps

    hydra = HydraConfig.get()
    overrides = configs.overrides_of(hydra)
    folder = Path(hydra.sweep.dir).absolute()
    label = f"#{hydra.job.num} {' '.join(overrides)}"
    key = sweeps.point_key({"overrides": list(overrides)})
    try:
        job = configs.current_job(config)
        key = sweeps.point_key(job.tree, job.plugins)
        if sweeps.is_done(folder, key):
            print(f"{label}: done before, skipped", flush=True)
            return key
        began = time.monotonic()
        outcome = _perform(replace(job, folder=folder / key, overrides=overrides))
        sweeps.is_done(folder, key)
        print(f"{label}: {'done' if outcome.ok else 'done, not as it should be'} in {time.monotonic() - began:.1f} s",
              flush=True)  # fmt: skip
    except Exception as error:
        if not sweeps.is_done(folder, key):  # the same sweep, started twice, may have done it meanwhile
            print(label, end=": ", file=sys.stderr, flush=True)
            _report(error)
            sweeps.record_failure(folder, key, overrides, " ".join(str(error).split()))
    return key


def _perform(job: configs.Job) -> Outcome:
    """Do what a composed config describes, and write its folder."""
    from simulator.build import build, paths_in
    from simulator.folders import whole_folder
    from simulator.task import Task

    if job.plugins and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    root = build(job.tree, plugins=job.plugins, choices=job.choices)
    record = {"config": {**job.tree, "plugins": list(job.plugins)}, "overrides": list(job.overrides)}
    with paths_in(job.tree), _no_trace_of(job.folder), whole_folder(job.folder) as partial:
        return _execute(root, partial, record) if isinstance(root, Task) else _simulate(root, partial, record)


def _shown(folder: Path) -> Path:
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _execute(task: Task, partial: Path, record: dict[str, Any]) -> Outcome:
    from simulator.provenance import manifest, write_manifest

    with _Patience("steps") as progress:
        outcome = task.execute(partial, progress)
    write_manifest({**manifest(record["config"].get("seed"), None, []), **record}, partial)
    return outcome


def _simulate(experiment: Experiment, partial: Path, record: dict[str, Any]) -> Outcome:
    from simulator.experiment import run
    from simulator.report import report
    from simulator.task import Outcome

    with _Patience("iterations") as progress:
        result = run(experiment, progress=progress)
    result.manifest.update(record)
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
    names = sorted({path.parent.name for folder in folders for path in folder.glob("*/*.yaml")} - {"task"})
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
    where = _foreign(error)
    if where:
        return _say(f"error in {where}: {text} (SIMULATOR_TRACEBACK=1 prints the traceback)", 1)
    return _say(f"internal error: {text}; please report it (SIMULATOR_TRACEBACK=1 prints the traceback)", 1)


def _foreign(error: BaseException) -> str:
    """File and line where an error arose, if it is code of the user's own that a config named."""
    import traceback

    ours = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "topologies")]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    last = frames[-1] if frames else None
    if last is None or last.filename.startswith((*ours, sys.prefix, sys.base_prefix)):
        return ""
    return f"{last.filename}:{last.lineno}"


def _say(sentence: str, status: int) -> int:
    print(" ".join(sentence.splitlines()), file=sys.stderr)
    return status
