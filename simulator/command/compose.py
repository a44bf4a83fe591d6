"""Composing the configuration: from the command line's words to jobs, one or all points of a sweep."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from simulator.checks import InputError, nearest, number
from simulator.command.build import check_text, keys
from simulator.command.flags import config_dir
from simulator.command.loader import CONFIG, FAILED_TO_COMPOSE, GROUPS, HYDRA, Loader, parse, sentences
from simulator.command.yaml_files import USER, YamlSource, first_sentence

# Errors by which joblib, submitit and Ray say that a process of theirs is gone.
LOST = {
    "TerminatedWorkerError", "BrokenProcessPool", "UncompletedJobError", "FailedJobError", "WorkerCrashedError",
    "OutOfMemoryError",
}  # fmt: skip
LONGEST = 1e9  # seconds of a timeout that every system can count

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

__all__ = ["CONFIG", "Job", "RunMode", "current_job", "enter_run", "open_loader", "output_folder", "show", "sweep"]


@dataclass(frozen=True)
class Job:
    """One composed job: the resolved config, how it was chosen, and where its results go.

    Attributes:
        tree: the config as plain dicts, lists and values.
        choices: for each config group the option taken.
        plugins: the modules that the command line names.
        folder: output folder.
        overrides: the command line's overrides.
        timeout: seconds that the job may take; None for no limit.
    """

    tree: dict[str, Any]
    choices: dict[str, Any]
    plugins: tuple[str, ...]
    folder: Path
    overrides: tuple[str, ...]
    timeout: float | None


def open_loader(extra: str | None) -> Loader:
    """The loader of our own configs and, before them, those in the folder ``extra``.

    Raises:
        InputError: when ``extra`` is no folder.
    """
    caller = GlobalHydra.instance().hydra  # where another program that uses Hydra calls us
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(config_dir()), job_name="simulator", version_base="1.3"):
        path = GlobalHydra.instance().config_loader().get_search_path()
    GlobalHydra.instance().hydra = caller
    ours = next(element for element in path.get_path() if element.provider == "main")
    ours.path = f"{YamlSource.scheme()}://{config_dir()}"
    Plugins.instance().register(YamlSource)
    ConfigStore.instance().store(group="hydra", name="config", node=HYDRA, provider="hydra")
    if extra is not None:
        if not os.path.isdir(extra):
            raise InputError("--config-dir", "must be a folder", extra)
        if not os.path.samefile(extra, config_dir()):
            folder = f"{YamlSource.scheme()}://{os.path.abspath(extra)}"
            path.prepend(provider=USER, path=folder, anchor="main")
    return Loader(path)


def current_job(config: DictConfig) -> Job:
    """The job that Hydra is running, from its config without the ``hydra`` node.

    Raises:
        InputError: for a missing value, an interpolation that cannot be resolved, or plugins named in a file.
    """
    hydra: Any = HydraConfig.get()
    if FAILED_TO_COMPOSE in hydra:
        raise InputError(str(hydra[FAILED_TO_COMPOSE]))
    overrides = overrides_of(hydra)
    plugins = _plugins(parse(overrides))
    tree = _resolved(config)
    if tree.pop("plugins", []) != list(plugins):
        raise InputError("plugins", "must be named on the command line, as plugins=[my_module], not in a file")
    choices = {str(group): option for group, option in hydra.runtime.choices.items()}
    limit = tree.pop("timeout", None)
    timeout = None if limit is None else number("timeout", limit, above=0, most=LONGEST)
    return Job(tree, choices, plugins, Path(hydra.runtime.output_dir), overrides, timeout)


def show(config: DictConfig, what: str, package: str | None, resolve: bool) -> str:
    """A composed config as YAML.

    Args:
        config: the config.
        what: ``job`` leaves out Hydra's own part, ``hydra`` shows only that, ``all`` shows both.
        package: only the part below this key.
        resolve: put values in the place of interpolations.
    """
    HydraConfig.instance().set_config(config)
    part = {"job": _without_hydra(config), "hydra": config.hydra, "all": config}[what]
    with sentences():
        tree: Any = OmegaConf.to_container(part, resolve=resolve)
    if what == "hydra":
        tree = {"hydra": tree}
    shown = OmegaConf.select(OmegaConf.create(tree), package) if package else OmegaConf.create(tree)
    if shown is None:
        raise InputError("--package", f"must be a key of the config; got {package!r}{nearest(package, keys(tree))}")
    text = OmegaConf.to_yaml(shown) if OmegaConf.is_config(shown) else f"{shown}\n"
    if all(char.isprintable() for char in text.replace("\n", "")):
        return text
    plain = OmegaConf.to_container(shown) if OmegaConf.is_config(shown) else shown
    return yaml.safe_dump(plain, sort_keys=False)  # with escapes for what could steer a terminal


def overrides_of(hydra: Any) -> tuple[str, ...]:
    """The overrides as they were typed; interpolations in them are not resolved."""
    typed: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)
    return tuple(typed)


def enter_run(config: DictConfig) -> DictConfig:
    """Make a composed config Hydra's current one for a single run; returns it without its ``hydra`` node."""
    folder = output_folder(config, "hydra.run.dir")
    with read_write(config.hydra.runtime), open_dict(config.hydra.runtime):
        config.hydra.runtime.output_dir = str(folder)
    HydraConfig.instance().set_config(config)
    return _without_hydra(config)


def output_folder(config: DictConfig, key: str) -> Path:
    """The folder that ``key`` of a composed config names.

    Raises:
        InputError: when it is not the path of a folder.
    """
    HydraConfig.instance().set_config(config)
    with sentences():
        folder = OmegaConf.select(config, key)
    if not isinstance(folder, str) or not folder.strip():
        raise InputError(key, "must be the path of a folder", folder)
    check_text(folder, key)
    return Path(os.path.abspath(folder))


def _without_hydra(config: DictConfig) -> DictConfig:
    job = copy.deepcopy(config)
    with open_dict(job):
        del job["hydra"]
    return job


def sweep(loader: Loader, config: DictConfig, job: Callable[[DictConfig], str]) -> list[str]:
    """Run ``job`` on every combination that the command line asks for; returns what each returned.

    Raises:
        InputError: when no combination has a config, or the launcher cannot work here.
    """
    from hydra.experimental.callback import Callback
    from hydra.types import HydraContext

    nothing: Any = Callback()  # what is called before and after each job
    context = HydraContext(config_loader=loader, callbacks=nothing)
    points = [list(point) for point in product(*map(_choices, parse(overrides_of(config.hydra), loader)))]
    _check_points(loader, config, points)
    name = config.hydra.runtime.choices["hydra/launcher"]
    try:
        launcher = Plugins.instance().instantiate_launcher(hydra_context=context, task_function=job, config=config)
        done = launcher.launch(points, initial_job_idx=0)
    except Exception as error:  # no Slurm, no Ray cluster, an option that it does not have, ...
        if name == GROUPS["launcher"]:
            raise
        if type(error).__name__ in LOST:
            raise InputError(
                f"hydra/launcher={name} lost a worker, which was killed or ran out of memory; finished points stay: "
                f"the same command goes on with the others"
            ) from error
        raise InputError(f"hydra/launcher={name} cannot start: {first_sentence(str(error))}") from error
    return [point.return_value for point in done]


def _choices(override: Override) -> list[str]:
    """An override as it stands, or one for each value that it sweeps over."""
    values = override.sweep_string_iterator() if override.is_sweep_override() else [override.get_value_element_as_str()]
    return [f"{override.get_key_element()}={value}" for value in values]


def _check_points(loader: Loader, config: DictConfig, points: Sequence[list[str]]) -> None:
    """Refuse a sweep none of whose points has a config: what is wrong is then wrong with the sweep."""
    reason = ""
    for point in points:
        own = loader.load_sweep_config(config, point).hydra
        if FAILED_TO_COMPOSE not in own:
            return
        reason = reason or str(own[FAILED_TO_COMPOSE])
    raise InputError(reason)


def _plugins(overrides: Sequence[Override]) -> tuple[str, ...]:
    for override in overrides:
        if override.key_or_group == "plugins" and not override.is_sweep_override():
            names = override.value()
            if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
                raise InputError("plugins", "must be a list of module names such as [my_module]", names)
            return tuple(names)
    return ()


def _resolved(config: DictConfig) -> dict[str, Any]:
    with sentences():
        tree = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(tree, dict)
    return {str(key): value for key, value in tree.items()}
