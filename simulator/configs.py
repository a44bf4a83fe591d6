"""Composing the configuration: overrides, and Hydra's exceptions turned into sentences.

Only this file, yaml_files.py and app.py know Hydra. It is pinned below 1.4, since some of what is used is not public.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra
from hydra._internal.sources_registry import SourcesRegistry
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from simulator.build import keys, unknown_key
from simulator.checks import InputError, nearest
from simulator.configdir import config_dir
from simulator.yaml_files import YamlSource, first_sentence

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

CONFIG = "config"  # name of the primary config
FAILED_TO_COMPOSE = "failed_to_compose"  # key under which a point of a sweep carries why it has no config


@dataclass(frozen=True)
class Job:
    """One composed job: the resolved config, how it was chosen, and where its results go.

    Attributes:
        tree: the config as plain dicts, lists and values.
        choices: for each config group the option taken.
        plugins: the modules that the command line names.
        folder: output folder.
        overrides: the command line's overrides.
    """

    tree: dict[str, Any]
    choices: dict[str, Any]
    plugins: tuple[str, ...]
    folder: Path
    overrides: tuple[str, ...]


def open_hydra(extra: str | None) -> Hydra:
    """Hydra over our own configs and, before them, those in the folder ``extra``.

    Raises:
        InputError: when ``extra`` is no folder.
    """
    version.setbase("1.3")
    SourcesRegistry.instance().register(YamlSource)
    path = create_config_search_path(f"{YamlSource.scheme()}://{config_dir()}")
    if extra is not None:
        if not os.path.isdir(extra):
            raise InputError(f"--config-dir must be a folder; got {extra!r}")
        folder = f"{YamlSource.scheme()}://{os.path.abspath(extra)}"
        path.prepend(provider="command-line", path=folder, anchor=SearchPathQuery(provider="schema"))
    return Hydra("simulator", Loader(path))


def current_job(config: DictConfig) -> Job:
    """The job that Hydra is running, from its config without the ``hydra`` node.

    Raises:
        InputError: for a missing value, an interpolation that cannot be resolved, or plugins named in a file.
    """
    hydra = HydraConfig.get()
    if FAILED_TO_COMPOSE in config:
        raise InputError(str(config[FAILED_TO_COMPOSE]))
    overrides = overrides_of(hydra)
    plugins = _plugins(parse(overrides))
    tree = _resolved(config)
    if tuple(tree.pop("plugins", None) or ()) != plugins:
        raise InputError("plugins must be named on the command line, as plugins=[my_module], not in a file")
    choices = {str(group): option for group, option in hydra.runtime.choices.items()}
    return Job(tree, choices, plugins, Path(hydra.runtime.output_dir), overrides)


def show(config: DictConfig, what: str, package: str | None, resolve: bool) -> str:
    """A composed config as YAML.

    Args:
        config: the config.
        what: ``job`` leaves out Hydra's own part, ``hydra`` shows only that, ``all`` shows both.
        package: only the part below this key.
        resolve: put values in the place of interpolations.
    """
    HydraConfig.instance().set_config(config)
    with sentences():
        tree: Any = OmegaConf.to_container(config, resolve=False)
        if resolve and what == "job":
            tree = OmegaConf.to_container(_without_hydra(config), resolve=True)
    if what != "all":
        tree = {key: value for key, value in tree.items() if (key == "hydra") == (what == "hydra")}
    shown = OmegaConf.select(OmegaConf.create(tree), package) if package else OmegaConf.create(tree)
    if shown is None:
        raise InputError(f"--package must be a key of the config; got {package!r}{nearest(package, keys(tree))}")
    return OmegaConf.to_yaml(shown) if OmegaConf.is_config(shown) else f"{shown}\n"


def overrides_of(hydra: Any) -> tuple[str, ...]:
    """The overrides as they were typed; interpolations in them are not resolved."""
    typed: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)
    return tuple(typed)


def enter_run(config: DictConfig) -> DictConfig:
    """Make a composed config Hydra's current one for a single run; returns it without its ``hydra`` node."""
    HydraConfig.instance().set_config(config)
    with sentences(), read_write(config.hydra.runtime), open_dict(config.hydra.runtime):
        folder = OmegaConf.select(config, "hydra.run.dir")
        if not isinstance(folder, str) or not folder:
            raise InputError(f"hydra.run.dir must be the path of a folder; got {folder!r}")
        config.hydra.runtime.output_dir = os.path.abspath(folder)
    HydraConfig.instance().set_config(config)
    return _without_hydra(config)


def _without_hydra(config: DictConfig) -> DictConfig:
    job = copy.deepcopy(config)
    with open_dict(job):
        del job["hydra"]
    return job


def sweep(hydra: Hydra, config: DictConfig, job: Callable[[DictConfig], str]) -> list[str]:
    """Run ``job`` on every combination that the command line asks for; returns what each returned.

    Raises:
        InputError: when there is no combination, or the launcher cannot work here.
    """
    from hydra._internal.callbacks import Callbacks
    from hydra.core.plugins import Plugins
    from hydra.types import HydraContext

    context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks())
    sweeper = Plugins.instance().instantiate_sweeper(config=config, hydra_context=context, task_function=job)
    try:
        batches = sweeper.sweep(arguments=list(overrides_of(config.hydra)))
    except (RuntimeError, OSError) as error:  # a launcher that is not at home: no Slurm, no Ray cluster
        raise InputError(f"hydra/launcher cannot start: {' '.join(str(error).split())}") from error
    results = [done.return_value for batch in batches for done in batch]
    if not results:
        given = " ".join(overrides_of(config.hydra))
        raise InputError(f"the sweep must have at least one point; {given} has none")
    return results


def parse(overrides: Sequence[str], loader: ConfigLoaderImpl | None = None) -> list[Override]:
    """Parsed overrides; ``loader`` knows what a glob may match.

    Raises:
        InputError: for one that cannot be parsed (with how to quote it), has no key, or is given twice.
    """
    parser = OverridesParser.create()
    parsed: dict[str, Override] = {}
    for text in overrides:
        try:
            override = parser.parse_override(text)
        except (OverrideParseException, HydraException, ValueError) as error:
            raise InputError(_unparsable(text)) from error
        override.config_loader = loader
        key = f"{override.key_or_group}@{override.package}" if override.package else override.key_or_group
        if not key:
            raise InputError(f"override {text!r} must be KEY=VALUE; it has no key")
        if key in parsed:
            raise InputError(f"{key} must be given once; got {parsed[key].input_line!r} and {text!r}")
        parsed[key] = override
    return list(parsed.values())


def _unparsable(text: str) -> str:
    key, equals, value = text.partition("=")
    if not equals:
        return f"override {text!r} must be KEY=VALUE, and flags begin with --"
    inner = re.sub(r'(\\*)("|$)', lambda m: m[1] * 2 + ('\\"' if m[2] else ""), value)
    quoted = f'{key}="{inner}"'.replace("'", "'\\''")
    return f"override {text!r} cannot be read: quote its value for the shell and for the config, '{quoted}'"


def _plugins(overrides: Sequence[Override]) -> tuple[str, ...]:
    for override in overrides:
        if override.key_or_group == "plugins" and not override.is_sweep_override():
            names = override.value()
            if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
                raise InputError(f"plugins must be a list of module names such as [my_module]; got {names!r}")
            return tuple(names)
    return ()


class Loader(ConfigLoaderImpl):
    """Hydra's loader, whose errors are sentences, and which refuses what a file must not do to Hydra itself."""

    def load_configuration(
        self, config_name: str | None, overrides: list[str], run_mode: RunMode, *args: Any, **more: Any
    ) -> DictConfig:
        parsed = parse(overrides, self)
        self._check_choices(parsed, run_mode)
        try:
            config = super().load_configuration(config_name, overrides, run_mode, *args, **more)
        except InputError:
            raise
        except (HydraException, OmegaConfBaseException, ValueError, TypeError, RecursionError) as error:
            raise InputError(self._explain(error, overrides, run_mode)) from error
        with sentences():
            check_hydra_node(config.hydra)
        return config

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """The config of one point; a point that cannot be composed carries the reason, so that the others go on."""
        try:
            return super().load_sweep_config(master_config, sweep_overrides)
        except InputError as error:
            config = super().load_sweep_config(master_config, [])
            with read_write(config), open_dict(config):
                config.hydra.overrides.task = list(sweep_overrides)
                config[FAILED_TO_COMPOSE] = str(error)
            return config

    def _check_choices(self, overrides: Sequence[Override], run_mode: RunMode) -> None:
        for override in overrides:
            if override.is_sweep_override() and run_mode is RunMode.RUN:
                key, _, value = str(override.input_line).partition("=")
                raise InputError(
                    f"{key} must have one value without -m; got {value}: add -m to sweep over them, or quote the "
                    f"value, '{key}=\"{value}\"'"
                )
            group = override.key_or_group
            if override.is_sweep_override() and not list(override.sweep_string_iterator()):
                what = f"; known are {', '.join(known)}" if (known := self.get_group_options(group)) else ""
                raise InputError(f"{override.input_line} must have at least one value to sweep over{what}")
            if not override.is_delete() and not override.package and self.repository.group_exists(group):
                options = override.sweep_string_iterator() if override.is_sweep_override() else [override.value()]
                for option in options:
                    self._check_option(group, option)

    def _check_option(self, group: str, option: Any) -> None:
        known = self.get_group_options(group)
        if option not in known:
            raise InputError(f"{group} must be one of {', '.join(known)}; got {option!r}{nearest(option, known)}")

    def _explain(self, error: Exception, overrides: list[str], run_mode: RunMode) -> str:
        text = str(error) or str(error.__cause__)
        cause: Any = error.__cause__
        if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
            group, _, option = error.missing_cfg_file.rpartition("/")
            known = list(error.options)
            return f"{group} must be one of {', '.join(known)}; got {option!r}{nearest(option, known)}"
        if isinstance(error, RecursionError):
            return "the config refers to itself in a cycle"
        named = re.search(r"Could not override '([^']*)'. No match in the defaults list", text)
        line = _line_of(named[1], overrides) if named else ""
        if "=" in line:
            return f"{line.partition('=')[0]} is chosen with a plus: write +{line}"
        if "An item is already at" in text or "Multiple values for" in text:
            named = re.search(r"already at '([^']*)'|Multiple values for ([\w/]+)", text)
            line = _line_of((named[1] or named[2]) if named else "", overrides)
            return f"{line.partition('=')[0]} has a value already: write {line} without a plus"
        if getattr(cause, "full_key", None) and "Could not override" in text:
            return self._unknown(str(cause.full_key), overrides, run_mode)
        if cause is not None and str(cause) not in text:
            text = f"{text}: {cause}"
        return first_sentence(text)

    def _unknown(self, key: str, overrides: list[str], run_mode: RunMode) -> str:
        """The sentence for an unknown key, with those that are known when the rest of the overrides is applied."""
        rest = [str(o.input_line) for o in parse(overrides) if not _touches(o.key_or_group, key)]
        config = super().load_configuration(CONFIG, rest, run_mode)
        tree: Any = OmegaConf.to_container(config, resolve=False)
        if not key.startswith("hydra"):
            del tree["hydra"]
        parent = key.rpartition(".")[0]
        choices = config.hydra.runtime.choices
        owner = f"{parent}={choices[parent]}" if parent and parent in choices else parent
        below: Any = OmegaConf.select(OmegaConf.create(tree), parent) if parent else tree
        if parent and not isinstance(below, Mapping):
            return f"{key} is not a key: {parent} is a single value"
        for other in keys(tree):
            if other.rpartition(".")[2] == key.rpartition(".")[2]:
                return f"{key} is not a key; did you mean {other}?"
        known = [f"{parent}.{name}" if parent else str(name) for name in below if not str(name).startswith("_")]
        return unknown_key(key, known, owner)


def _line_of(name: str, overrides: Sequence[str]) -> str:
    """The override of ``name`` as it was given, without its plus."""
    return next((o.lstrip("+") for o in overrides if o.lstrip("+").partition("=")[0] == name), name)


def _touches(key: str, unknown: str) -> bool:
    return key == unknown or key.startswith(f"{unknown}.") or unknown.startswith(f"{key}.")


def check_hydra_node(node: DictConfig) -> None:
    """Refuse what would let a config file make Hydra call code of its choice, or write beside the output folder.

    Raises:
        InputError: naming the key.
    """
    for name in ("callbacks", "job.env_set", "output_subdir"):
        if OmegaConf.select(node, name):
            raise InputError(f"hydra.{name} must stay empty; got {_text(OmegaConf.select(node, name))}")
    for name in ("job_logging", "hydra_logging"):
        if OmegaConf.select(node, f"{name}.root") is not None:
            raise InputError(f"hydra.{name} must stay none: results and errors are printed, nothing is logged")
    for name in ("launcher", "sweeper"):
        plugin = OmegaConf.to_container(node[name], resolve=True)
        for path, target in _targets(plugin):
            known = ("hydra._internal.core_plugins.", "hydra_plugins.")
            if path != "_target_" or not str(target).startswith(known):
                raise InputError(f"hydra.{name}.{path} must name a plugin of Hydra; got {target!r}")


def _targets(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            here = f"{path}.{key}" if path else str(key)
            if key == "_target_":
                yield here, value
            yield from _targets(value, here)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from _targets(value, f"{path}[{i}]")


def _text(node: Any) -> str:
    return str(OmegaConf.to_container(node, resolve=False) if OmegaConf.is_config(node) else node)


def _resolved(config: DictConfig) -> dict[str, Any]:
    with sentences():
        tree = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(tree, dict)
    return {str(key): value for key, value in tree.items()}


@contextmanager
def sentences() -> Iterator[None]:
    """Turn OmegaConf's exceptions into sentences that name the key."""
    try:
        yield
    except RecursionError as error:
        raise InputError("the config refers to itself in a cycle of interpolations") from error
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None) or "the config"
        if "Missing mandatory value" in str(error):
            raise InputError(f"{key} must be given; it has no default") from error
        raise InputError(f"{key} cannot be resolved: {first_sentence(str(error))}") from error
