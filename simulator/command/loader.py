"""Hydra's loader, made strict: overrides, config files and what they may say, every mistake told in a sentence.

Files say what to simulate, and nothing about Hydra itself: what Hydra could be made to call or to write is set here,
and the command line may set the few keys in ``HYDRA_KEYS``. So no file can choose code to run, or where results go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

# Tried: a public ConfigLoader that checks what compute_defaults_list names; files are read twice, a command 20 % slower
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.conf import HydraConf, JobConf, RunDir, SweepDir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from simulator.checks import InputError, nearest, shown
from simulator.command.build import keys, unknown_key
from simulator.command.interpolations import check_interpolations
from simulator.command.yaml_files import HYDRA_KEYS, about_hydra, first_sentence, leaves

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.core.default_element import ResultDefault
    from hydra.core.override_parser.types import Override
    from hydra.plugins.config_source import ConfigResult

CONFIG = "config"  # name of the primary config
FAILED_TO_COMPOSE = "failed_to_compose"  # key of the hydra node by which a point of a sweep says why it has no config
MOST_POINTS = 100_000  # of one sweep
DEEPEST = 50  # brackets within brackets of an override; Hydra's parser goes about 200 deep

GROUPS = {
    "output": "default", "launcher": "basic", "sweeper": "basic", "help": "default", "hydra_help": "default",
    "hydra_logging": "none", "job_logging": "none", "callbacks": None, "env": "default",
}  # fmt: skip
HYDRA = HydraConf(
    defaults=[{group: option} for group, option in GROUPS.items()],
    output_subdir=None,  # manifest.json in the output folder records the resolved config
    job=JobConf(name="simulator", chdir=False),
    run=RunDir(dir="outputs/${now:%Y-%m-%d}/${now:%H-%M-%S-%f}"),
    # a folder below it, named by what is swept: the same sweep goes on where it ended; points are named by a hash
    sweep=SweepDir(dir="multirun", subdir="."),
)


def parse(overrides: Sequence[str], loader: ConfigLoader | None = None) -> list[Override]:
    """Parsed overrides; ``loader`` knows what a glob may match.

    Raises:
        InputError: for one that cannot be parsed (with how to quote it), has no key, or is given twice.
    """
    parser = OverridesParser.create()
    parsed: dict[str, Override] = {}
    for text in overrides:
        if max(accumulate((char in "[{(") - (char in ")}]") for char in text), default=0) > DEEPEST:
            raise InputError(f"override {shown(text)} must be nested at most {DEEPEST} deep")
        try:
            override = parser.parse_override(text)
        except (OverrideParseException, HydraException, ValueError) as error:
            raise InputError(_unparsable(text)) from error
        override.config_loader = loader
        key = f"{override.key_or_group}@{override.package}" if override.package else override.key_or_group
        if not key:
            raise InputError(f"override {text!r} must be KEY=VALUE; it has no key")
        if key in parsed:
            raise InputError(key, f"must be given once; got {parsed[key].input_line!r} and {text!r}")
        parsed[key] = override
    return list(parsed.values())


def _unparsable(text: str) -> str:
    key, equals, value = (part.strip() for part in text.partition("="))
    if len(text) > 1000:
        return f"override {shown(text)} cannot be read"
    if not equals:
        return f"override {text!r} must be KEY=VALUE, and flags begin with --"
    plain = f"{key}={value}"
    if plain != text and re.fullmatch(r"[\w.+~/@-]+=[\w.+-]+", plain, re.ASCII):
        return f"override {text!r} must have no spaces around its =: write {plain}"
    inner = re.sub(r'(\\*)("|$)', lambda m: m[1] * 2 + ('\\"' if m[2] else ""), value)
    quoted = f'{key}="{inner}"'.replace("'", "'\\''")
    return f"override {text!r} cannot be read: quote its value for the shell and for the config, '{quoted}'"


class Loader(ConfigLoaderImpl):
    """Hydra's loader, whose errors are sentences, and which lets no file say anything about Hydra itself."""

    def load_configuration(
        self, config_name: str | None, overrides: list[str], run_mode: RunMode, *args: Any, **more: Any
    ) -> DictConfig:
        typed = parse(overrides, self)
        self._check_overrides(typed, run_mode)
        try:
            config = super().load_configuration(config_name, overrides, run_mode, *args, **more)
            check_interpolations(OmegaConf.to_container(config, resolve=False))
        except InputError:
            raise
        except AssertionError as error:  # of Hydra's, about an entry such as {"": ring}
            raise InputError("defaults must have a group and an option in each entry of their list") from error
        except (HydraException, OmegaConfBaseException, ValueError, TypeError, RecursionError) as error:
            raise InputError(self._explain(error, overrides, run_mode)) from error
        config.hydra.overrides.task = [str(o.input_line) for o in typed if not o.is_hydra_override()]
        with sentences():
            _check_hydra(config.hydra, typed)
        return config

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """The config of one point; a point that cannot be composed carries the reason, so that the others go on."""
        try:
            return super().load_sweep_config(master_config, sweep_overrides)
        except InputError as error:
            config = super().load_sweep_config(master_config, [])
            with read_write(config), open_dict(config.hydra):
                config.hydra.overrides.task = list(sweep_overrides)
                config.hydra[FAILED_TO_COMPOSE] = str(error)
            return config

    def _compose_config_from_defaults_list(self, defaults: list[ResultDefault], repo: Any) -> DictConfig:
        """As Hydra does, but a ``???`` in a later file takes the value away that an earlier one gave."""
        if not any(str(default.config_path).startswith("task/") for default in defaults):
            known = ", ".join(self.get_group_options("task"))
            raise InputError("task", f"must be given, in config.yaml or as task=NAME; known are {known}")
        self._missing: set[str] = set()
        config = super()._compose_config_from_defaults_list(defaults, repo)
        for key in self._missing:
            OmegaConf.update(config, key, "???")
        return config

    def _load_single_config(self, default: ResultDefault, repo: Any) -> ConfigResult:
        path = str(default.config_path)
        result = super()._load_single_config(default, repo)
        if path.startswith("hydra/") and str(default.parent).startswith(("hydra/", "<root>")):
            return result
        if "hydra" in result.config:
            raise InputError(about_hydra(f"{path}.yaml"))
        group = path.partition("/")[0]
        if group in ("experiment", "task") and group in result.config:
            raise InputError(f"{path}.yaml", "must begin with the line # @package _global_")
        for key, missing in leaves(result.config):
            (self._missing.add if missing else self._missing.discard)(key)
        return result

    def _check_overrides(self, overrides: Sequence[Override], run_mode: RunMode) -> None:
        points = 1
        for override in overrides:
            group = override.key_or_group
            if group.partition(".")[0].partition("/")[0] == "hydra":
                _check_hydra_override(override)
            if override.is_sweep_override():
                options = self._swept(override, run_mode)
                points *= len(options)
                if points > MOST_POINTS:
                    raise InputError(
                        f"the sweep must have at most {MOST_POINTS} points; {override.input_line} has more"
                    )
            else:
                options = [override.value()]
            if not override.is_delete() and not override.package and self.repository.group_exists(group):
                for option in options:
                    self._check_option(group, option)

    def _swept(self, override: Override, run_mode: RunMode) -> list[Any]:
        """The values that an override sweeps over."""
        key, _, value = str(override.input_line).partition("=")
        if run_mode is RunMode.RUN:
            raise InputError(
                key,
                f"must have one value without -m; got {value}: add -m to sweep over them, or quote the "
                f"value, '{key}=\"{value}\"'",
            )
        if not override.is_discrete_sweep():
            raise InputError(key, f"must list its values, {key}=A,B,C or {key}=range(A,B); got {value}")
        try:
            options = list(islice(override.sweep_string_iterator(), MOST_POINTS + 1))
        except (ValueError, OverflowError) as error:
            raise InputError(key, f"must be a range that can be counted: {error}; got {value}") from error
        if not options:
            known = ", ".join(self.get_group_options(override.key_or_group))
            what = f"; known are {known}" if known else ""
            raise InputError(str(override.input_line), f"must have at least one value to sweep over{what}")
        return options

    def _check_option(self, group: str, option: Any) -> None:
        known = self.get_group_options(group)
        if option not in known:
            raise InputError(group, f"must be one of {', '.join(known)}; got {option!r}{nearest(option, known)}")

    def _explain(self, error: Exception, overrides: list[str], run_mode: RunMode) -> str:
        text = str(error) or str(error.__cause__)
        cause: Any = error.__cause__
        if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
            group, _, option = error.missing_cfg_file.rpartition("/")
            known = list(error.options)
            return f"{group} must be one of {', '.join(known)}; got {option!r}{nearest(option, known)}"
        if isinstance(error, RecursionError):
            return "the config refers to itself in a cycle"
        named = re.match(r"(?:In '([^']*)': )?Could not override '([^']*)'\.\s+(No match|Did you)", text)
        if named:
            line = _line_of(named[2], overrides)
            if not named[1] and self.repository.group_exists(named[2]):
                return f"{named[2]} is chosen with a plus: write +{line}"
            where = f"{named[1]}.yaml: " if named[1] else ""
            return f"{where}{named[2]} must be one of the groups {', '.join(self.list_groups(''))}"
        if "An item is already at" in text or "Multiple values for" in text:
            named = re.search(r"already at '([^']*)'|Multiple values for ([\w/]+)", text)
            line = _line_of((named[1] or named[2]) if named else "", overrides)
            return f"{line.partition('=')[0]} has a value already: write {line} without a plus"
        if getattr(cause, "full_key", None) and "Could not override" in text:
            return self._unknown(str(cause.full_key), overrides, run_mode)
        if cause is not None and str(cause) not in text:
            text = f"{text}: {cause}"
        return first_sentence(text).replace("Error merging override", "cannot apply")

    def _unknown(self, key: str, overrides: list[str], run_mode: RunMode) -> str:
        """The sentence for an unknown key, with those that are known when the same options are chosen."""
        groups = [str(o.input_line) for o in parse(overrides) if self.repository.group_exists(o.key_or_group)]
        config = super().load_configuration(CONFIG, groups, run_mode)
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


def _check_hydra_override(override: Override) -> None:
    key = override.key_or_group
    known = key in HYDRA_KEYS or (key.startswith("hydra.launcher.") and "._" not in key)
    if not known or override.package or override.is_delete():
        raise InputError(unknown_key(key, HYDRA_KEYS, "hydra that can be set"))


def _check_hydra(node: DictConfig, typed: Sequence[Override]) -> None:
    """Refuse options for Hydra that a file chose, and launchers made to construct anything else.

    Raises:
        InputError: naming the key.
    """
    chosen = {o.key_or_group: o.value() for o in typed}
    for group, option in node.runtime.choices.items():
        home, _, name = str(group).partition("/")
        if home == "hydra" and option != chosen.get(group, GROUPS.get(name)):
            raise InputError(group, "must be chosen on the command line, not in a file", option)
    for path, target in _targets(OmegaConf.to_container(node.launcher, resolve=True)):
        if path != "_target_":
            raise InputError(f"hydra.launcher.{path}", "is not allowed", target)


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
            raise InputError(key, "must be given; it has no default") from error
        raise InputError(key, f"cannot be resolved: {first_sentence(str(error))}") from error
