"""From a resolved config tree to an experiment: known names and known keys only, one sentence for what is wrong.

A config may name what to construct (``_target_``), so it is not trusted: the whole tree is checked before anything is
imported, and a name is called only when it constructs what its place asks for (``topology`` asks for a Topology).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from simulator.checks import InputError, nearest

if TYPE_CHECKING:
    from simulator.experiment import Experiment
    from simulator.task import Task

Tree = Mapping[str, Any]

PACKAGES = ("simulator", "topologies")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def build(tree: Tree, *, plugins: Sequence[str] = (), choices: Tree | None = None) -> Experiment | Task:
    """Construct the simulation or other task that a resolved config describes.

    Args:
        tree: the config as plain dicts, lists and values; ``_target_`` names what each dict constructs.
        plugins: modules of the user's own that may be named besides ``simulator`` and ``topologies``.
        choices: for each config group the option that was taken, to name it in errors.

    Raises:
        InputError: for a target that is not allowed or unknown, an unknown or missing key, or a value that the
            constructed class refuses; the sentence begins with the key's path.

    >>> experiment = build({"_target_": "simulator.experiment.Experiment", "n": 8,
    ...     "topology": {"_target_": "topologies.Ring", "alpha": 5e-6, "bandwidth": 450e9},
    ...     "compute": {"_target_": "simulator.laws.Deterministic", "mean": 0.016},
    ...     "workload": {"_target_": "simulator.workloads.TensorParallel", "layers": 80, "bytes": 2**28}})
    >>> experiment.topology.shape(8), len(experiment.program.collectives)
    ('8', 320)
    >>> build({"_target_": "os.system", "command": "true"})
    Traceback (most recent call last):
    simulator.checks.InputError: _target_ must name something in simulator, topologies or a module given by \
plugins=[my_module] on the command line; got 'os.system'
    """
    check_targets(tree, (*PACKAGES, *plugins))
    from simulator.experiment import Experiment
    from simulator.task import Task

    for plugin in plugins:
        locate(plugin, key="plugins")
    root: Experiment | Task = _Builder(choices or {}).construct(tree, "", [Experiment, Task])
    if isinstance(root, Experiment):
        with paths_in(tree):
            root.costs  # noqa: B018 - write the program and price it now: what is wrong with it is said before a run
    return root


def check_targets(node: Any, packages: Collection[str], path: str = "") -> None:
    """Refuse, before anything is imported, every ``_target_`` outside ``packages`` and every other underscored key."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            place = join(path, key)
            if key == "_target_":
                if not (isinstance(value, str) and _DOTTED.fullmatch(value) and _within(value, packages)):
                    names = ", ".join(packages)
                    raise InputError(
                        f"{place} must name something in {names} or a module given by plugins=[my_module] on the "
                        f"command line; got {value!r}"
                    )
            elif str(key).startswith("_"):
                raise InputError(f"{place} is not a key; only _target_ may begin with an underscore")
            check_targets(value, packages, place)
    elif isinstance(node, list | tuple):
        for i, value in enumerate(node):
            check_targets(value, packages, f"{path}[{i}]")


def _within(target: str, packages: Collection[str]) -> bool:
    return any(target.startswith(f"{package}.") for package in packages)


class _Builder:
    """Constructs the nodes of one checked tree, innermost first."""

    def __init__(self, choices: Tree):
        self._choices = choices

    def construct(self, node: Tree, path: str, wanted: Collection[type] = ()) -> Any:
        if "_target_" not in node:
            raise InputError(f"{join(path, '_target_')} must be given: the class that {path} is made of")
        target = locate(node["_target_"], join(path, "_target_"))
        made = _constructs(target)
        if made is None or (wanted and not any(_is_a(made, kind) for kind in wanted)):
            kinds = " or ".join(kind.__name__ for kind in wanted) or "class"
            raise InputError(f"{join(path, '_target_')} must name a {kinds}; {node['_target_']} is none")
        if inspect.isabstract(made) and isinstance(target, type):
            methods = ", ".join(sorted(getattr(made, "__abstractmethods__", ())))
            raise InputError(f"{join(path, '_target_')}: {node['_target_']} must define {methods}")
        self._check_keys(node, path, target)
        hints = _hints(target)
        values = {
            key: self._value(value, join(path, key), _classes(hints.get(key)))
            for key, value in node.items()
            if key != "_target_"
        }
        with paths_in(node, path):
            return target(**values)

    def _value(self, value: Any, path: str, wanted: Collection[type]) -> Any:
        domain = [kind for kind in wanted if kind.__module__.split(".")[0] not in ("builtins", "collections", "typing")]
        if isinstance(value, Mapping):
            if "_target_" in value and not domain:
                raise InputError(f"{join(path, '_target_')} is not allowed: {path} is plain data")
            if domain and ("_target_" in value or not any(issubclass(kind, Mapping) for kind in wanted)):
                return self.construct(value, path, domain)
            return {key: self._value(inner, join(path, key), wanted) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(inner, f"{path}[{i}]", wanted) for i, inner in enumerate(value)]
        if domain and not isinstance(value, tuple(kind for kind in wanted if kind not in domain)):
            raise InputError(f"{path} must be a {domain[0].__name__} with a _target_; got {value!r}")
        return value

    def _check_keys(self, node: Tree, path: str, target: Any) -> None:
        parameters = inspect.signature(target).parameters
        known = [name for name, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            for key in node:
                if key != "_target_" and key not in known:
                    raise InputError(unknown_key(join(path, key), [join(path, k) for k in known], self._owner(path)))
        for name in known:
            if name not in node and parameters[name].default is inspect.Parameter.empty:
                raise InputError(f"{join(path, name)} must be given: it has no default")

    def _owner(self, path: str) -> str:
        group = path or "task"
        return f"{group}={self._choices[group]}" if group in self._choices else path


def locate(name: str, key: str) -> Any:
    """The object that a dotted name stands for; modules are imported on the way. ``key`` is what named it.

    Raises:
        InputError: when a module cannot be imported or has no such name.
    """
    head, *parts = name.split(".")
    found: Any = None
    try:
        found = import_module(head)
        for i, part in enumerate(parts):
            if inspect.ismodule(found) and not hasattr(found, part):
                import_module(".".join([head, *parts[: i + 1]]))
            found = getattr(found, part)
    except Exception as error:  # a module of the user's own may raise anything
        if isinstance(error, AttributeError) or (isinstance(error, ModuleNotFoundError) and _is_part(error.name, name)):
            names = [f"{name.rpartition('.')[0]}.{part}" for part in vars(found)] if inspect.ismodule(found) else []
            raise InputError(f"{key} {name!r} does not exist{nearest(name, names)}") from error
        raise InputError(f"{key} {name!r} cannot be imported: {type(error).__name__}: {error}") from error
    return found


def _is_part(module: str | None, name: str) -> bool:
    return module is not None and f"{name}.".startswith(f"{module}.")


@contextmanager
def paths_in(tree: Tree, path: str = "") -> Iterator[None]:
    """Give an InputError that begins with a field's name the path of that field in ``tree``, which is at ``path``."""
    try:
        yield
    except InputError as error:
        raise InputError(_placed(str(error), tree, path)) from error


def _placed(text: str, tree: Tree, path: str) -> str:
    word = re.match(r"\w*", text)
    field = word.group() if word else ""
    if path:
        return f"{path}.{text}" if field in tree else f"{path}: {text}"
    homes = [key for key, node in tree.items() if isinstance(node, Mapping) and field in node]
    return f"{homes[0]}.{text}" if field not in tree and len(homes) == 1 else text


def unknown_key(path: str, known: Sequence[str], owner: str = "") -> str:
    """The sentence for a key that does not exist: the nearest one, and all that do.

    >>> unknown_key("compute.sigam", ["compute.mu", "compute.sigma"], "compute=gumbel")
    'compute.sigam is not a key of compute=gumbel; did you mean compute.sigma? Known keys: compute.mu, compute.sigma'
    """
    same = [name for name in known if name.rpartition(".")[2] == path.rpartition(".")[2]]
    close = same or get_close_matches(path, known, n=1, cutoff=0.6)
    hint = f"; did you mean {close[0]}?" if close else "."
    return f"{path} is not a key{of(owner)}{hint} Known keys: {', '.join(known) or 'none'}"


def keys(tree: Tree, path: str = "") -> Iterator[str]:
    """The paths of all keys of a tree that a user may set.

    >>> list(keys({"n": 8, "topology": {"_target_": "topologies.Ring", "alpha": 5e-6}}))
    ['n', 'topology', 'topology.alpha']
    """
    for key, value in tree.items():
        if not str(key).startswith("_"):
            yield join(path, key)
            if isinstance(value, Mapping):
                yield from keys(value, join(path, key))


def join(path: str, key: Any) -> str:
    """The path of a key below ``path``.

    >>> join("compute", "sigma"), join("", "n")
    ('compute.sigma', 'n')
    """
    return f"{path}.{key}" if path else str(key)


def of(owner: str) -> str:
    """``" of owner"``, or nothing where there is no owner."""
    return f" of {owner}" if owner else ""


def _constructs(target: Any) -> type | None:
    """The class whose instances ``target`` makes: itself, or what a function says it returns; None for others."""
    made = target if isinstance(target, type) else _hints(target).get("return") if inspect.isfunction(target) else None
    return made if isinstance(made, type) else None


def _hints(target: Any) -> dict[str, Any]:
    plain = isinstance(target, type) and not hasattr(target, "__dataclass_fields__")
    try:
        return get_type_hints(target.__init__ if plain else target)
    except Exception:  # a user's own annotations need not resolve
        return {}


def _classes(hint: Any) -> list[type]:
    """The classes that a type hint is made of: ``Mapping[str, Law] | None`` gives Mapping, str, Law and NoneType."""
    if isinstance(hint, type) and not get_args(hint):
        return [hint]
    origin = get_origin(hint)
    own = [origin] if isinstance(origin, type) and issubclass(origin, Mapping) else []
    return own + [kind for part in get_args(hint) for kind in _classes(part)]


def _is_a(made: type, kind: type) -> bool:
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(made, name) for name in vars(kind) if not name.startswith("_"))
    return issubclass(made, kind)
