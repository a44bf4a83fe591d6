"""From a resolved config tree to a task: known names and known keys only, one sentence for what is wrong.

A config may name what to construct (``_target_``), so it is not trusted: the whole tree is checked before anything is
imported, and a name is called only when it constructs what its place asks for (``topology`` asks for a Topology). The
type hints of what is constructed say which values are possible; a class says itself what it does not like about them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from simulator.checks import Checked, InputError, check_of, hints_of, nearest, reads, shown
from simulator.names import RENAMED, where

if TYPE_CHECKING:
    from simulator.task import Task

Tree = Mapping[str, Any]

PACKAGES = ("simulator", "topologies")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def build(tree: Tree, *, plugins: Sequence[str] = (), choices: Tree | None = None) -> Task:
    """Construct the task that a resolved config describes.

    Args:
        tree: the config as plain dicts, lists and values; ``_target_`` names what each dict constructs.
        plugins: modules of the user's own that may be named besides ``simulator`` and ``topologies``.
        choices: for each config group the option that was taken, to name it in errors.

    Raises:
        InputError: for a target that is not allowed or unknown, an unknown or missing key, or a value that the
            constructed class refuses; the sentence begins with the key's path.

    >>> task = build({"_target_": "simulator.Simulate", "n": 8,
    ...     "topology": {"_target_": "topologies.Ring", "alpha": 5e-6, "bandwidth": 450e9},
    ...     "compute": {"_target_": "simulator.Deterministic", "mean": 0.016},
    ...     "workload": {"_target_": "simulator.TensorParallel", "layers": 80, "bytes": 2**28}})
    >>> task.topology.shape(8), len(task.program.collectives)
    ('8', 320)
    >>> build({"_target_": "os.system", "command": "true"})
    Traceback (most recent call last):
    simulator.checks.InputError: _target_ must name something in simulator, topologies or a module given by \
plugins=[my_module] on the command line; got 'os.system'
    """
    packages = (*PACKAGES, *plugins)
    check_targets(tree, packages)
    from simulator.task import Task

    for plugin in plugins:
        locate(plugin, key="plugins")
    task: Task = _Builder(packages, choices or {}).construct(tree, "", [Task])
    if not isinstance(task, Task):
        raise InputError("_target_", f"must construct a Task; {tree['_target_']} gave {shown(task)}")
    with paths_in(tree):
        task.check()
    return task


def check_targets(node: Any, packages: Collection[str], path: str = "") -> None:
    """Refuse, before anything is imported, what no config may hold, wherever it is.

    That is a ``_target_`` outside ``packages``, any other underscored key, and text that cannot be printed.
    """
    if isinstance(node, Mapping):
        for key, value in node.items():
            place = join(path, key)
            check_text(str(key), "a key")
            if key == "_target_":
                if not (isinstance(value, str) and _DOTTED.fullmatch(value) and _within(value, packages)):
                    names = ", ".join(packages)
                    raise InputError(
                        place,
                        f"must name something in {names} or a module given by plugins=[my_module] on the command line",
                        value,
                    )
            elif str(key).startswith("_"):
                raise InputError(place, "is not a key; only _target_ may begin with an underscore")
            check_targets(value, packages, place)
    elif isinstance(node, list | tuple):
        for i, value in enumerate(node):
            check_targets(value, packages, f"{path}[{i}]")
    elif isinstance(node, str):
        check_text(node, path)


def files_read(tree: Tree, path: str = "") -> Iterator[Path]:
    """The files that a checked config stands for, in the order of its keys, by the hints of what it constructs.

    What cannot be found, or constructed, is left out: ``build`` says so.
    """
    hints: Tree = {}
    if "_target_" in tree:
        with suppress(InputError):
            hints = hints_of(locate(tree["_target_"], join(path, "_target_")))
    for key, value in tree.items():
        said = reads(hints.get(key))
        if said is not None and value is not None:
            with suppress(InputError, OSError, TypeError, ValueError):
                yield from said.find(value)
        elif isinstance(value, Mapping):
            yield from files_read(value, join(path, key))


def check_text(text: str, key: str) -> None:
    """Refuse control characters and halves of characters, which would garble tables, titles and the terminal.

    >>> check_text("a\\x1b[31m", "name")
    Traceback (most recent call last):
    simulator.checks.InputError: name must not have control characters; got 'a\\x1b[31m'
    """
    if _CONTROL.search(text):
        raise InputError(key, "must not have control characters", text)


def _within(target: str, packages: Collection[str]) -> bool:
    return any(target.startswith(f"{package}.") for package in packages)


class _Builder:
    """Constructs the nodes of one checked tree, innermost first."""

    def __init__(self, packages: Collection[str], choices: Tree):
        self._packages = packages
        self._choices = choices

    def construct(self, node: Tree, path: str, wanted: Collection[type] = ()) -> Any:
        place = join(path, "_target_")
        if "_target_" not in node:
            raise InputError(place, f"must be given: the class that {path or 'the config'} is made of")
        target = locate(node["_target_"], place)
        made = _constructs(target)
        if made is None or (wanted and not any(_is_a(made, kind) for kind in wanted)):
            kinds = " or ".join(kind.__name__ for kind in wanted) or "class"
            raise InputError(place, f"must name {_a(kinds)}; {node['_target_']} is none")
        if isinstance(target, type) and (methods := _open_methods(made)):
            raise InputError(f"{place}: {node['_target_']} must define {', '.join(methods)}")
        self._check_keys(node, path, target)
        hints = hints_of(target)
        given = {key: value for key, value in node.items() if key != "_target_"}
        values = {key: self._value(value, join(path, key), hints.get(key)) for key, value in given.items()}
        try:
            with paths_in(node, path):
                constructed = target(**values)
        except InputError:  # it knows more, such as the range of a number
            raise
        except Exception:
            check_values(values, hints, path)
            raise
        if not isinstance(constructed, Checked):
            check_values(values, hints, path)
        return constructed

    def _value(self, value: Any, path: str, hint: Any) -> Any:
        wanted = _classes(hint)
        domain = [kind for kind in wanted if _within(f"{kind.__module__}.{kind.__name__}", self._packages)]
        if isinstance(value, Mapping):
            if "_target_" in value and not domain:
                raise InputError(join(path, "_target_"), f"is not allowed: {path} is plain data")
            if domain and ("_target_" in value or not any(issubclass(kind, Mapping) for kind in wanted)):
                return self.construct(value, path, domain)
            return {key: self._value(inner, join(path, key), hint) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(inner, f"{path}[{i}]", hint) for i, inner in enumerate(value)]
        if domain and not isinstance(value, tuple(kind for kind in wanted if kind not in domain)):
            raise InputError(path, f"must be {_a(domain[0].__name__)} with a _target_", value)
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
                raise InputError(join(path, name), "must be given: it has no default")

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
    except (Exception, SystemExit) as error:  # a module of the user's own may raise anything
        if moved := where(name.rpartition(".")[0], name.rpartition(".")[2]):
            raise InputError(f"{key}: {moved}") from error
        if isinstance(error, AttributeError) or (isinstance(error, ModuleNotFoundError) and _is_part(error.name, name)):
            parts = [part for part in vars(found) if not part.startswith("_")] if inspect.ismodule(found) else []
            names = [f"{name.rpartition('.')[0]}.{part}" for part in parts]
            raise InputError(key, f"{name!r} does not exist{nearest(name, names)}") from error
        raise InputError(key, f"{name!r} cannot be imported: {type(error).__name__}: {error}") from error
    return found


def _is_part(module: str | None, name: str) -> bool:
    return module is not None and f"{name}.".startswith(f"{module}.")


@contextmanager
def paths_in(tree: Tree, path: str = "") -> Iterator[None]:
    """Give an InputError about a field the path of that field in ``tree``, which is at ``path``."""
    try:
        yield
    except InputError as error:
        key = re.split(r"\W", error.field, maxsplit=1)[0]  # of inputs.alpha or offsets[3]
        homes = [name for name, node in tree.items() if isinstance(node, Mapping) and key in node]
        if path and key in tree:
            raise error.within(path) from error
        if path:
            raise InputError(f"{path}: {error}") from error
        if key not in tree and len(homes) == 1:
            raise error.within(homes[0]) from error
        raise


def unknown_key(path: str, known: Sequence[str], owner: str = "") -> str:
    """The sentence for a key that does not exist: the nearest one, and all that do.

    >>> unknown_key("compute.sigam", ["compute.mu", "compute.sigma"], "compute=gumbel")
    'compute.sigam is not a key of compute=gumbel; did you mean compute.sigma? Known keys: compute.mu, compute.sigma'
    """
    if RENAMED.get(path) in known:
        return f"{path} is {RENAMED[path]} since version 0.2: write {RENAMED[path]}=..."
    last = get_close_matches(path.rpartition(".")[2], [name.rpartition(".")[2] for name in known], n=1, cutoff=0.6)
    near = [name for name in known if name.rpartition(".")[2] in last]
    close = get_close_matches(path, near, n=1, cutoff=0)
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
    """The class whose instances ``target`` makes: itself, or what a function that takes keywords says it returns."""
    made = target if isinstance(target, type) else None
    if inspect.isfunction(target):
        parameters = inspect.signature(target).parameters.values()
        if all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters):
            made = hints_of(target).get("return")
    return made if isinstance(made, type) else None


def _open_methods(made: type) -> list[str]:
    """The methods that a class leaves to others: of an abstract one, or all of a protocol's."""
    if _is_protocol(made):
        return [name for name in vars(made) if not name.startswith("_")]
    return sorted(getattr(made, "__abstractmethods__", ()))


def _is_protocol(kind: type) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


def _is_a(made: type, kind: type) -> bool:
    """Whether ``made`` derives from ``kind`` or, for a protocol, has its methods as methods and its other names."""
    if not _is_protocol(kind):
        return issubclass(made, kind)
    fields = getattr(made, "__dataclass_fields__", {})
    for name in (name for name in vars(kind) if not name.startswith("_")):
        own = inspect.getattr_static(made, name, None)
        if inspect.isfunction(vars(kind)[name]) != inspect.isfunction(own) or (own is None and name not in fields):
            return False
    return True


def check_values(values: Tree, hints: Tree, path: str) -> None:
    """Refuse a value that the type hint of its field does not allow."""
    for key, value in values.items():
        check_of(hints.get(key))(join(path, key), value)


def _classes(hint: Any) -> list[type]:
    """The classes that a type hint is made of: ``Mapping[str, Law] | None`` gives Mapping, str, Law and NoneType."""
    if isinstance(hint, type) and hint is not Any and not get_args(hint):
        return [hint]
    origin = get_origin(hint)
    own = [origin] if isinstance(origin, type) and issubclass(origin, Mapping) else []
    return own + [kind for part in get_args(hint) for kind in _classes(part)]


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"
