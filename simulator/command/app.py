"""The command: reads the configuration, runs what it describes, writes the output folder and prints the result.

Everything heavy is imported where it is needed, so that ``--help`` answers at once.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from simulator.checks import InputError
from simulator.command.flags import help_text, read_flags

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from rich.progress import Progress

    from simulator.command import compose
    from simulator.command.loader import Loader
    from simulator.task import Outcome

COLLECT = {"_target_": "simulator.Collect", "name": "collect"}  # what a sweep ends with
SAME = 1.0  # seconds within which signals are taken for one
OUT_OF_MEMORY = ("failed to map segment", "can't start new thread", "Cannot allocate memory")  # as systems say it
LONGEST = 1500  # characters of a sentence
PATIENCE = 2.0  # seconds of silence before a progress bar appears


class _Stopped(BaseException):
    """A signal asked to stop."""

    def __init__(self, number: int):
        self.number = number


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; ``argv`` defaults to the command line's arguments."""
    with _signals(last=argv is None), warnings.catch_warnings():
        try:
            _print_anything()
            warnings.showwarning = _warn
            return _run(list(sys.argv[1:] if argv is None else argv))
        except BaseException as error:  # a user's own module may raise anything, SystemExit too
            return _report(error)


def _print_anything() -> None:
    """Let a terminal that knows few characters show others as question marks."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _warn(message: Warning | str, *where: object, **more: object) -> None:
    """Say a warning of Hydra's or a user's own in one line, without the place in the code."""
    print(f"warning: {_words(message)}", file=sys.stderr)


def _run(argv: list[str]) -> int:
    flags = read_flags(argv)
    if flags.help:
        print(help_text(flags.config_dir, flags.overrides), end="")
        return 0
    if flags.version:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"scaleup-simulator {version('scaleup-simulator')}")
        except PackageNotFoundError:
            print("scaleup-simulator, run from a checkout without installing")
        return 0
    _check_current_folder()
    _check_folders(flags.overrides, flags.multirun)
    from simulator.command import compose

    loader = compose.open_loader(flags.config_dir)
    overrides = _in_its_own_folder(flags.overrides) if flags.multirun else flags.overrides
    mode = compose.RunMode.MULTIRUN if flags.multirun else compose.RunMode.RUN
    config = loader.load_configuration(compose.CONFIG, overrides, mode)
    if flags.cfg:
        print(compose.show(config, flags.cfg, flags.package, flags.resolve), end="")
        return 0
    if flags.multirun:
        return _sweep(loader, config)
    job = compose.current_job(compose.enter_run(config))
    with _time_limit(job.timeout):
        outcome = _perform(job, _inputs(job))
    from simulator.task import FOLDER

    return _tell(outcome, outcome.text.replace(FOLDER, shlex.quote(str(_shown(job.folder)))), job.folder)


def _tell(outcome: Outcome, text: str, folder: Path) -> int:
    """Print what was found and where it is, and return the exit status; where that cannot be, the folder stays."""
    try:
        print(f"{text}\n\nWritten to {_shown(folder)}", flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"the result cannot be printed: {error.strerror}; it is in {_shown(folder)}") from error
    return 0 if outcome.ok else 1


def _check_current_folder() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise InputError("the current folder must exist; it was removed: go to another one") from error


def _check_folders(overrides: list[str], multirun: bool) -> None:
    """Refuse a key of the other kind of run, which would be ignored."""
    other = ("hydra.run.dir",) if multirun else ("hydra.sweep.dir", "hydra/launcher")
    for text in overrides:
        key = text.lstrip("+").partition("=")[0]
        if key in other:
            sweeps = "must be left out with -m: hydra.sweep.dir=FOLDER names the folder of a sweep"
            raise InputError(key, sweeps if multirun else "must go with -m: it is about sweeps")


def _in_its_own_folder(overrides: list[str]) -> list[str]:
    """Overrides of a sweep that name its folder: the same for the same sweep, so that it can go on."""
    from simulator.files.points import sweep_name

    if any(text.lstrip("+").startswith("hydra.sweep.dir=") for text in overrides):
        return overrides
    return [*overrides, f"hydra.sweep.dir=multirun/{sweep_name(overrides)}"]


def _sweep(loader: Loader, config: DictConfig) -> int:
    """Run all points of a sweep that are not done yet, and collect them; returns the exit status."""
    from simulator.command import compose
    from simulator.command.build import build
    from simulator.files.folders import make_folder, no_trace_of, tidy, whole_files

    folder = compose.output_folder(config, "hydra.sweep.dir")
    if (folder / "manifest.json").exists():
        raise InputError("hydra.sweep.dir", f"must be a folder of sweeps; {_shown(folder)} holds a single run")
    with no_trace_of(folder):
        make_folder(folder)
        tidy(folder)
        try:
            points = compose.sweep(loader, config, _job)
        except BaseException as error:
            tidy(folder)  # of processes that the launcher started and ended
            if _interruption(error):
                print("finished points are kept: the same command goes on with the others", file=sys.stderr)
            raise
        with whole_files(folder) as partial:
            outcome = build({**COLLECT, "folders": [str(folder)], "points": points}).execute(partial)
    return _tell(outcome, f"\n{outcome.text}", folder)


def _job(config: DictConfig) -> str:
    """One point of a sweep; returns its key. A failure is told and recorded, and the other points go on."""
    from hydra.core.hydra_config import HydraConfig

    from simulator.command import compose
    from simulator.files import points

    _print_anything()
    hydra = HydraConfig.get()
    overrides = compose.overrides_of(hydra)
    folder = Path(hydra.sweep.dir).absolute()
    label = f"#{hydra.job.num} {' '.join(overrides)}"
    key = points.point_key({"overrides": list(overrides)})
    try:
        job = compose.current_job(config)
        inputs = _inputs(job)
        key = points.point_key(job.tree, job.plugins, inputs)
        if points.is_done(folder, key):
            print(f"{label}: done before, skipped", flush=True)
            return key
        if points.discard_damaged(folder, key):
            print(f"{label}: done before, but its files are damaged: it is run again", flush=True)
        began = time.monotonic()
        with _time_limit(job.timeout):
            outcome = _perform(replace(job, folder=folder / key, overrides=overrides), inputs)
        points.is_done(folder, key)
        print(f"{label}: {'done' if outcome.ok else 'done, not as it should be'} in {time.monotonic() - began:.1f} s",
              flush=True)  # fmt: skip
    except BaseException as error:
        if _interruption(error):
            raise
        if isinstance(error, BrokenPipeError):  # nobody reads on: the sweep ends, as by the signal of that name
            raise _Stopped(signal.SIGPIPE) from error
        if not points.is_done(folder, key):  # the same sweep, started twice, may have done it meanwhile
            print(label, end=": ", file=sys.stderr, flush=True)
            _report(error)
            points.record_failure(folder, key, overrides, _words(error))
    return key


@contextlib.contextmanager
def _time_limit(limit: float | None) -> Iterator[None]:
    """Refuse to go on after ``limit`` seconds, where the system can interrupt a process."""
    if limit is None or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise InputError("timeout", f"must be longer: the point was not done after {limit:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit, 1.0)  # again each second: what is raised in a callback gets lost
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _find_plugins(job: compose.Job) -> None:
    """Look for plug-ins in the current folder too, also where the command was installed as a script."""
    if job.plugins and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def _inputs(job: compose.Job) -> dict[str, str]:
    """The files that a job reads, with hashes of what they hold."""
    from simulator.command.build import PACKAGES, check_targets, files_read
    from simulator.files.manifest import hashes

    _find_plugins(job)
    check_targets(job.tree, (*PACKAGES, *job.plugins))
    return hashes(files_read(job.tree))


def _perform(job: compose.Job, inputs: Mapping[str, str]) -> Outcome:
    """Do what a composed config describes, and write its folder."""
    from simulator.command.build import build, paths_in
    from simulator.files.folders import no_trace_of, whole_folder
    from simulator.files.manifest import manifest, write_manifest
    from simulator.files.points import sizes_of
    from simulator.task import Outcome

    task = build(job.tree, plugins=job.plugins, choices=job.choices)
    record: dict[str, Any] = {"config": {**job.tree, "plugins": list(job.plugins)}, "overrides": list(job.overrides)}
    record |= {"inputs": dict(inputs)} if inputs else {}
    with paths_in(job.tree), no_trace_of(job.folder), whole_folder(job.folder) as partial:
        with _Patience(task.steps) as progress:
            outcome = task.execute(partial, progress)
        if not (isinstance(outcome, Outcome) and isinstance(outcome.text, str)):
            raise InputError("execute", f"of {type(task).__name__} must return an Outcome with a text", outcome)
        record |= {"files": sizes_of(partial)}
        write_manifest({**(outcome.manifest or manifest(job.tree.get("seed"), None, [])), **record}, partial)
    return outcome


def _shown(folder: Path) -> Path:
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


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


@contextlib.contextmanager
def _signals(last: bool) -> Iterator[None]:
    """Make signals unwind, so that no half-written folder stays behind; ``last``: the process ends after it.

    Ctrl-C too: where a KeyboardInterrupt crosses some calls, Python ends by the signal whatever is made of it.
    """

    at = -inf

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal at
        again, at = time.monotonic() - at < SAME, time.monotonic()
        if not again:  # the first one is unwinding, and must not be interrupted itself
            raise _Stopped(number)

    known = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    wanted = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    try:
        before = {number: signal.signal(number, stop) for number in wanted}
    except ValueError:  # not the main thread: its owner handles signals
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if last and at > -inf else handler)  # one more must not end the end


def _interruption(error: BaseException | None) -> BaseException | None:
    """The signal behind an error, if any: stopped in the middle of something, libraries raise errors of their own."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if isinstance(error, KeyboardInterrupt | _Stopped):
            return error
        seen.append(error)
        error = error.__cause__ or error.__context__
    return None


def _report(error: BaseException) -> int:
    """Say in one sentence on stderr what ended the run; returns the exit status."""
    error = _interruption(error) or error
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on: keep the interpreter's last flush quiet
        return 1
    if isinstance(error, KeyboardInterrupt):
        error = _Stopped(signal.SIGINT)
    if isinstance(error, _Stopped):
        name = signal.Signals(error.number).name
        what = "interrupted" if error.number == signal.SIGINT else f"stopped by {name}"
        return _say(f"{what}; no partial results are left", 128 + error.number)
    if os.environ.get("SIMULATOR_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(error)
        return 1
    if isinstance(error, InputError):
        return _say(f"error: {error}", 1)
    text = f"{type(error).__name__}: {_words(error)}"
    if isinstance(error, MemoryError) or any(sign in text for sign in OUT_OF_MEMORY):
        return _say("error: memory ran out; a smaller n, fewer iterations or smaller files need less", 1)
    where = _foreign(error)
    if isinstance(error, OSError) and not where:
        return _say(f"error: {error.filename or 'input or output'}: {error.strerror or error}", 1)
    if where:
        return _say(f"error in {where}: {text} (SIMULATOR_TRACEBACK=1 prints the traceback)", 1)
    return _say(f"internal error: {text}; please report it (SIMULATOR_TRACEBACK=1 prints the traceback)", 1)


def _words(error: BaseException | str) -> str:
    """What an error says, on one line; an error of the user's own may not even be able to."""
    try:
        return " ".join(str(error).split())
    except Exception:
        return "it cannot say what it is"


def _foreign(error: BaseException) -> str:
    """File and line where an error arose, if it is code of the user's own that a config named."""
    import traceback

    package = Path(__file__).parents[1]
    ours = [str(package), str(package.parent / "topologies")]
    # Frozen and compiled modules name files that are not there.
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.isfile(frame.filename)]
    last = frames[-1] if frames else None
    if last is None or last.filename.startswith((*ours, sys.prefix, sys.base_prefix)):
        return ""
    return f"{last.filename}:{last.lineno}"


def _say(sentence: str, status: int) -> int:
    line = " ".join(sentence.splitlines())
    line = line if len(line) <= LONGEST else f"{line[: LONGEST - 60]}... {line[-50:]}"  # a library quoting a file
    print("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line), file=sys.stderr)
    return status
