"""The configs: every file composes and builds, every number says where it is from, and nothing hostile is reached."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path

import hydra
import pytest

from simulator.checks import InputError, hints_of
from simulator.command import compose as command
from simulator.command.app import main
from simulator.command.build import build, check_targets, keys, locate, paths_in, unknown_key
from simulator.command.flags import config_dir, help_text
from simulator.simulation.experiment import Experiment
from simulator.task import Task

FILES = sorted(path.relative_to(config_dir()) for path in config_dir().glob("*/*.yaml"))
EXPERIMENTS = [path.stem for path in FILES if path.parent.name == "experiment"]


def compose(*overrides: str, extra: Path | None = None) -> command.Job:
    loader = command.open_loader(str(extra) if extra else None)
    config = loader.load_configuration(command.CONFIG, list(overrides), command.RunMode.RUN)
    return command.current_job(command.enter_run(config))


MUST_BE_GIVEN = {  # keys without a default
    "collect": ["folders=[somewhere]"],
    "calibrate": ["nccl_tests=somewhere"],
    "trace_report": ["traces=somewhere"],
}


def experiment(*overrides: str, extra: Path | None = None) -> Experiment:
    overrides += tuple(more for name, given in MUST_BE_GIVEN.items() if f"={name}" in overrides[0] for more in given)
    job = compose(*overrides, extra=extra)
    return build(job.tree, plugins=job.plugins, choices=job.choices)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_config_file_builds(path: Path) -> None:
    plus = "+" if path.parent.name == "experiment" else ""
    built = experiment(f"{plus}{path.parent.name}={path.stem}")
    assert isinstance(built, Task) or built.program.operations


@pytest.mark.slow
def test_the_experiments_are_the_promised_ones() -> None:
    built = {name: experiment(f"+experiment={name}") for name in EXPERIMENTS}
    assert {name: e.name for name, e in built.items()} == {name: name for name in EXPERIMENTS}
    shapes = {name: e for name, e in built.items() if isinstance(e, Experiment)}
    found = {name: (e.topology.name, e.n) for name, e in shapes.items()}
    assert (
        found.items()
        >= {
            "torus_512": ("torus3d", 512),
            "ring_128": ("ring", 128),
            "nvswitch_8": ("nvswitch", 8),
            "nvswitch_72": ("nvswitch", 72),
            "nvswitch_4096": ("nvswitch", 4096),
            "straggler_4xa100": ("nvswitch", 4),
        }.items()
    )
    assert shapes["torus_512"].topology.shape(512) == "8x8x8"


def test_the_measured_all_reduce_is_reproduced() -> None:
    built = experiment("+experiment=straggler_4xa100")
    (cost,) = [cost for cost in built.costs if cost is not None]
    assert cost.time == pytest.approx(0.117636, rel=1e-4)  # s, mean over steps of the shortest all-reduce


def test_the_weibull_default_has_the_mean_and_spread_of_the_gumbel_default() -> None:
    from scipy.stats import genextreme, gumbel_r

    gumbel, weibull = (compose(f"compute={name}").tree["compute"] for name in ("gumbel", "weibull"))
    theirs = genextreme(-weibull["xi"], loc=weibull["mu"], scale=weibull["sigma"])  # scipy's c is -xi
    ours = gumbel_r(loc=gumbel["mu"], scale=gumbel["sigma"])
    assert theirs.mean() == pytest.approx(ours.mean(), rel=1e-4)
    assert theirs.std() == pytest.approx(ours.std(), rel=1e-4)


def numbers_without_source(text: str) -> list[str]:
    """Lines with a number whose source is neither on the line nor in the comment just above it."""
    bad, above = [], False
    for line in text.splitlines():
        code, _, comment = line.partition("#")
        if not code.strip():
            above = line.strip() != "" and (above or "source:" in comment)
            continue
        value = re.sub(r"\$\{[^}]*\}", "", code.partition(":")[2])
        number = re.search(r"(?<![\w.])[-+]?\d[\d_]*(\.\d*)?([eE][-+]?\d+)?(?![\w.-])", value)
        if number and "source:" not in comment and not above:
            bad.append(line)
        above = False
    return bad


TASKS = sorted(path.stem for path in (config_dir() / "task").glob("*.yaml"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("task", TASKS)
def test_every_key_of_a_task_is_explained_in_the_help(task: str) -> None:
    """What a key means is said once, in conf/: there, in the help, and for those who read the class."""
    text = (config_dir() / "task" / f"{task}.yaml").read_text(encoding="utf-8")
    keys = set(re.findall(r"^(\w+):", text, re.M)) | set(re.findall(r"^  - /(?:\w+@)?(\w+)", text, re.M))
    said = help_text(None, [f"task={task}"])
    missing = {key for key in keys if not re.search(rf"^  {key}(\.\w+)*(\s|$)", said, re.M)}
    missing -= {"_target_", "defaults", "machine", "name"}
    assert missing == set()
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("path", [Path("config.yaml"), *FILES], ids=str)
def test_every_number_has_a_source(path: Path) -> None:
    assert numbers_without_source((config_dir() / path).read_text(encoding="utf-8")) == []


def test_the_scan_for_sources_finds_what_it_looks_for() -> None:
    assert numbers_without_source("n: 8\n") == ["n: 8"]
    assert numbers_without_source("- {compute: a, scale: 2.0} # twice\n") == ["- {compute: a, scale: 2.0} # twice"]
    assert numbers_without_source("n: 8 # source: x\n# source: y\nm: 4\nname: a100\n") == []
    assert numbers_without_source("# source: y\nm: 4\nk: 5\n") == ["k: 5"]


def test_the_command_line_is_flat_and_beats_the_experiment() -> None:
    built = experiment("+experiment=torus_512", "topology=ring", "topology.alpha=2e-6", "n=64", "compute.parent=root")
    assert (built.topology.name, built.topology.alpha, built.n) == ("ring", 2e-6, 64)
    assert getattr(built.compute, "parent", None) == "root"


def test_alpha_and_bandwidth_follow_the_machine() -> None:
    assert experiment("machine=b200").topology.bandwidth == 900e9


def test_another_task_has_no_groups_of_a_simulation(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "other.yaml").write_text("# @package _global_\nname: other\n")
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "report.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /task: other\nname: report\n"
    )
    assert compose("+experiment=report", extra=tmp_path).tree == {"name": "report"}
    with pytest.raises(InputError, match=r"^n is not a key"):
        compose("+experiment=report", "n=8", extra=tmp_path)


# What files may say. Each is an experiment file; the sentence names the file and line, or the key.

HYDRA_IN_A_FILE = r"^experiment/bad\.yaml must not say anything about hydra: hydra\.run\.dir, .* on the command line"
BAD_FILES = {
    "tab": (b"n: 1\ncompute:\n\tmu: 3\n", r"experiment/bad\.yaml:3: .*\\t"),
    "duplicate": (b"n: 16\nn: 17\n", r"experiment/bad\.yaml:2: found duplicate key n"),
    "NUL": (b"n: 1\nname: a\0b\n", r"experiment/bad\.yaml:2: .*0x0"),
    "latin-1": (b"name: caf\xe9\n", r"experiment/bad\.yaml:1: must be UTF-8"),
    "empty": (b"", r"experiment/bad\.yaml:1: .*empty"),
    "comment only": (b"# nothing\n", r"experiment/bad\.yaml:1: .*empty"),
    "list": (b"# x\n- 1\n", r"experiment/bad\.yaml:2: .*sequence"),
    "text": (b"hello\n", r"experiment/bad\.yaml:1: .*scalar"),
    "unclosed": (b"n: [1, 2\n", r"experiment/bad\.yaml:2: "),
    "octal": (b"# @package _global_\nn: 017\n", r"experiment/bad\.yaml:2: 017 must be written as a decimal"),
    "hexadecimal": (b"# @package _global_\nn: 0x10\n", r"experiment/bad\.yaml:2: 0x10 must be"),
    "sexagesimal": (b"# @package _global_\nn: 1:30\n", r"experiment/bad\.yaml:2: 1:30 must be"),
    "self-reference": (b"name: &x [*x]\n", r"experiment/bad\.yaml:1: .*cycle"),
    "anchors that explode": (
        b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 10)) for i in range(1, 10)),
        r"experiment/bad\.yaml:1: must have at most 100000 values",
    ),
    "python object": (b"n: !!python/object/apply:os.system [true]\n", r"experiment/bad\.yaml:1: .*constructor"),
    "header": (b"# @package a b\nn: 1\n", r"experiment/bad\.yaml:1: "),
    "cycle": (b"# @package _global_\nname: ${seed}\nseed: ${name}\n", r"^name cannot be resolved: .*[Rr]ecursive"),
    "unknown key": (b"# @package _global_\nnn: 1\n", r"^nn is not a key of task=simulate; did you mean n\?"),
    "unknown nested key": (b"# @package _global_\ncompute: {sigam: 1}\n", r"did you mean compute\.sigma\?"),
    "unknown option": (
        b"# @package _global_\ndefaults:\n  - override /topology: rign\n",
        r"^topology must be one of .*nvswitch, .*ring, .*torus3d.*; got 'rign' \(did you mean ring\?\)",
    ),
    "not an object": (b"# @package _global_\ntopology: 5\n", r"^topology must be a Topology"),
    "plugins": (b"# @package _global_\nplugins: [my_module]\n", r"^plugins must be named on the command line"),
    "no number for plugins": (b"# @package _global_\nplugins: 5\n", r"^plugins must be named on the command line"),
    "a value taken away": (b"# @package _global_\nn: ???\n", r"^n must be given"),
    "a nested value taken away": (b"# @package _global_\ncompute:\n  mean: ???\n", r"^compute\.mean must be given"),
    "nothing": (b"# @package _global_\ncompute: null\n", r"^compute must be a Law with a _target_; got None"),
    "nothing for an engine": (b"# @package _global_\nengine: null\n", r"^engine must be an Engine with a _target_"),
    "not a number's name": (b"# @package _global_\nname: .nan\n", r"^name must be text; got nan"),
    "escape": (b'# @package _global_\nname: "\\e[31m"\n', r"^name must not have control characters"),
    "escape in a key": (b'# @package _global_\n"\\e[31m": 1\n', r"^a key must not have control characters"),
    "no package": (b"n: 16\n", r"^experiment/bad\.yaml must begin with the line # @package _global_"),
    "unknown group": (
        b"# @package _global_\ndefaults:\n  - override /foo: xyz\n",
        r"^experiment/bad\.yaml: foo must be one of the groups compute, engine",
    ),
    "launcher": (
        b"# @package _global_\ndefaults:\n  - override /hydra/launcher: joblib\n",
        r"^hydra/launcher must be chosen on the command line, not in a file; got 'joblib'",
    ),
    "logging": (
        b"# @package _global_\ndefaults:\n  - override /hydra/job_logging: default\n",
        r"^hydra/job_logging must be chosen on the command line",
    ),
    **{
        f"hydra {value}": (b"# @package _global_\nhydra: %s\n" % value, HYDRA_IN_A_FILE)
        for value in (
            *(b"null", b"3", b"{sweeper: null}", b"{run: {dir: x}}", b"{output_subdir: .hydra}", b"{mode: MULTIRUN}"),
            *(
                b"{callbacks: {x: {_target_: os.system}}}",
                b"{launcher: {_target_: os.system}}",
                b"{job: {chdir: true}}",
            ),
            *(b"{job: {env_set: {PATH: /x}}}", b"{searchpath: ['pkg://evil']}", b"{overrides: {task: [n=9]}}"),
            b"{job_logging: {root: '${oc.select:hydra.job.num,null}', handlers: {x: {(): os.system}}}}",
        )
    },
    "hydra package": (b"# @package hydra\nsweeper: null\n", HYDRA_IN_A_FILE),
    "hydra package below": (b"# @package hydra.job_logging\nroot: null\n", HYDRA_IN_A_FILE),
    "hydra package of another file": (
        b"# @package _global_\ndefaults:\n  - /compute@hydra.launcher: normal\n",
        r"^compute/normal\.yaml must not say anything about hydra",
    ),
    "hydra files elsewhere": (
        b"# @package _global_\ndefaults:\n  - /hydra/launcher@hydra.job_logging: basic\n",
        r"^hydra/launcher/basic\.yaml must not say anything about hydra",
    ),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, sentence = BAD_FILES[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "bad.yaml").write_bytes(data)
    with pytest.raises(InputError, match=sentence):
        experiment("+experiment=bad", extra=tmp_path)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "files",
    [
        {"experiment/bad": "# @package _global_\nhydra: {overrides: {task: ['plugins=[evil]']}}\nplugins: [evil]\n"},
        {"experiment/bad": "# @package _global_\nplugins: [evil]\nhydra.overrides.task: ['plugins=[evil]']\n"},
        {"experiment/bad": "# @package hydra.overrides\ntask: ['plugins=[evil]']\n"},
        {"experiment/bad": "# @package _global_\ntopology: {_target_: evil.Star, alpha: 1, bandwidth: 1}\n"},
        {"config": "defaults: [task: simulate]\nhydra: {searchpath: ['pkg://evil']}\n"},
        {"hydra/config": "searchpath: ['pkg://evil']\n"},
        {"hydra/launcher/basic": "_target_: evil.Launcher\n"},
    ],
    ids=str,
)
@pytest.mark.parametrize("multirun", [False, True])
def test_files_alone_import_nothing(
    files: dict[str, str], multirun: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil.py").write_text("open('reached', 'w')\n")
    for name, text in {"experiment/bad": "# @package _global_\nn: 2\n", **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.yaml").write_text(text)
    words = ["+experiment=bad", "iterations=1", "plots=false", "workload.layers=1"]
    assert main(["--config-dir", ".", *words, *(["-m"] if multirun else [])]) == 1
    assert not (tmp_path / "reached").exists()
    assert "evil" not in sys.modules


def test_the_typed_overrides_name_the_plugins() -> None:
    """Not what a config holds in the place where Hydra keeps them."""
    loader = command.open_loader(None)
    config = loader.load_configuration(command.CONFIG, ["n=4", "hydra.run.dir=x"], command.RunMode.RUN)
    assert list(config.hydra.overrides.task) == ["n=4"]
    assert list(config.hydra.overrides.hydra) == ["hydra.run.dir=x"]


def test_a_program_that_uses_hydra_can_call_us(tmp_path: Path) -> None:
    (tmp_path / "theirs.yaml").write_text("a: 1\n")
    with hydra.initialize_config_dir(str(tmp_path), version_base="1.3"):
        assert experiment("n=4").n == 4
        assert hydra.compose("theirs") == {"a": 1}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_byte_order_mark_and_windows_lines_load_as_usual(mark: bytes, end: bytes, tmp_path: Path) -> None:
    lines = [b"# @package _global_", b"defaults:", b"  - override /topology: ring", b"n: 16", b""]
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "good.yaml").write_bytes(mark + end.join(lines))
    built = experiment("+experiment=good", extra=tmp_path)
    assert (built.n, built.topology.name) == (16, "ring")


# What a config may not reach.

HOSTILE = [
    *("pandas.read_pickle", "numpy.load", "builtins.open", "builtins.eval", "builtins.exec", "os.system", "os.remove"),
    *("pathlib.Path.write_text", "pathlib.Path.unlink", "shutil.rmtree", "subprocess.run", "subprocess.Popen"),
    *("importlib.import_module", "runpy.run_path", "pickle.load", "pickle.loads", "marshal.loads", "socket.socket"),
    *("urllib.request.urlopen", "code.interact", "pty.spawn", "ctypes.CDLL", "antigravity.fly", "this.s", "yaml.load"),
    *("hydra.utils.call", "hydra.utils.get_method", "hydra.utils.instantiate", "hydra.compose", "omegaconf.OmegaConf"),
    *("simulatorx.Evil", "simulator", "topologies", "simulator_evil.run", ".os.system", "os..system", "", " os.system"),
    *("simulator/laws", "simulator.laws:Normal", "__main__.x", "sys.exit", "tempfile.mktemp", "webbrowser.open"),
    *(
        "unittest.main",
        "http.server.test",
        "pip.main",
        "site.main",
        "asyncio.run",
        "threading.Thread",
        "fileinput.input",
    ),
]
WITHIN = [
    *("simulator.files.manifest.commit", "simulator.simulation.results.shutil.rmtree"),
    *("simulator.simulation.results.whole_folder", "simulator.simulation.experiment.secrets.token_bytes"),
    *("simulator.traces.measured_law.Path", "simulator.command.app.main"),
    *("simulator.command.build.build", "simulator.files.manifest.subprocess.run"),
    *("simulator.simulation.results.os.remove", "simulator.run"),
    *("simulator.laws.Normal", "topologies.ring.ring"),
    *("simulator.simulation.draws.Draws", "simulator.workload.training.scaled"),
    *("simulator.ring", "simulator.laws.Normal.scaled"),
]


def base() -> dict[str, object]:
    return {
        "_target_": "simulator.Simulate",
        "n": 8,
        "topology": {"_target_": "topologies.Ring", "alpha": 5e-6, "bandwidth": 450e9},
        "compute": {"_target_": "simulator.Deterministic", "mean": 0.016},
        "workload": {"_target_": "simulator.TensorParallel", "layers": 1, "bytes": 8},
    }


@pytest.mark.parametrize("target", [*HOSTILE, 5, None, ["os.system"]], ids=repr)
def test_hostile_targets_are_refused_before_any_import(target: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(name: str) -> None:
        raise AssertionError(f"imported {name}")

    monkeypatch.setattr("simulator.command.build.import_module", never)
    node = {"_target_": target, "command": "true"}
    places: list[dict[str, object]] = [
        node,
        {**base(), "topology": node},
        {**base(), "topology": {"_target_": "topologies.Ring", "alpha": node, "bandwidth": 1.0}},
        {
            **base(),
            "workload": {"_target_": "simulator.Operations", "mesh": {}, "operations": [[{"a": node}]]},
        },
    ]
    for tree in places:
        with pytest.raises(InputError, match="_target_ must name something in"):
            build(tree)


@pytest.mark.parametrize("target", WITHIN)
def test_our_own_functions_are_not_targets(target: str) -> None:
    node = {"_target_": target}
    for tree in (
        node,
        {**base(), "topology": node},
        {**base(), "name": node},
        {**base(), "workload": {"_target_": "simulator.Operations", "mesh": {}, "operations": [node]}},
    ):
        with pytest.raises(
            InputError, match=r"must name a|is not allowed|does not exist|must be simulator\.experiment"
        ):
            build(tree)


def test_a_plugin_cannot_be_any_function_of_its_module() -> None:
    with pytest.raises(InputError, match=r"topology\._target_ must name a Topology; os\.system is none"):
        build({**base(), "topology": {"_target_": "os.system", "command": "true"}}, plugins=["os"])


@pytest.mark.parametrize("key", ["_args_", "_partial_", "_recursive_", "_convert_", "__class__"])
def test_underscored_keys_are_refused(key: str) -> None:
    with pytest.raises(InputError, match=f"{key} is not a key"):
        check_targets({"topology": {"x": [{key: True}]}}, ["simulator"])


def test_missing_unknown_and_misplaced() -> None:
    tree = base()
    del tree["n"]
    with pytest.raises(InputError, match=r"^n must be given"):
        build(tree)
    with pytest.raises(
        InputError, match=r"^topology\.alhpa is not a key of topology=mine; did you mean topology\.alpha\?"
    ):
        build(
            {**base(), "topology": {"_target_": "topologies.Ring", "alhpa": 1, "bandwidth": 1.0}},
            choices={"topology": "mine"},
        )
    with pytest.raises(InputError, match=r"^topology\._target_ must be given"):
        build({**base(), "topology": {"alpha": 1}})
    with pytest.raises(InputError, match=r"^topology\._target_ 'topologies\.Rign' does not exist \(did you mean"):
        build({**base(), "topology": {"_target_": "topologies.Rign"}})
    assert "did you mean a.sigma" in unknown_key("sigma", ["a.mu", "a.sigma"])
    assert list(keys({"a": {"b": {"_target_": "x", "c": 1}}})) == ["a", "a.b", "a.b.c"]


@pytest.mark.parametrize(
    ("error", "path", "sentence"),
    [
        (InputError("alpha", "must be lower", 1), "topology", "topology.alpha must be lower; got 1"),
        (InputError("dims[2]", "must be whole"), "topology", "topology.dims[2] must be whole"),
        (InputError("sigma", "must be lower"), "topology", "topology: sigma must be lower"),
        (InputError("alpha must be lower"), "topology", "topology: alpha must be lower"),
        (InputError("alpha", "must be lower"), "", "topology.alpha must be lower"),
        (InputError("n", "must be lower"), "", "n must be lower"),
        (InputError("n must be lower"), "", "n must be lower"),
        (InputError("sigma", "must be lower"), "", "sigma must be lower"),
    ],
)
def test_an_error_has_the_path_of_its_field(error: InputError, path: str, sentence: str) -> None:
    topology = {"alpha": 1.0, "dims": [8, 8, 8]}
    again = pickle.loads(pickle.dumps(error))  # as it comes from a worker
    for raised in (error, again):
        with pytest.raises(InputError) as caught, paths_in(topology if path else {"n": 8, "topology": topology}, path):
            raise raised
        assert str(caught.value) == sentence


def test_a_plugin_that_breaks_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_plugin.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"^plugins 'broken_plugin' cannot be imported: ZeroDivisionError"):
        build(base(), plugins=["broken_plugin"])
    with pytest.raises(InputError, match=r"^plugins 'no_such_plugin' does not exist"):
        build(base(), plugins=["no_such_plugin"])
    assert "broken_plugin" not in sys.modules


@pytest.mark.parametrize(
    ("key", "target", "words"),
    [
        ("engine", "simulator.Engine", "engine._target_: simulator.Engine must define"),
        ("workload", "simulator.Workload", "workload._target_: .* must define program"),
        ("topology", "simulator.Topology", "topology._target_: .* must define algorithms"),
        ("workload", "simulator.Simulate", "workload._target_ must name a Workload; .* is none"),
        ("engine", "simulator.TensorParallel", "engine._target_ must name an Engine; .* is none"),
        ("compute", "simulator.workload.training.scaled", "compute._target_ must name a Law; .* is none"),
    ],
)
def test_what_cannot_be_constructed_is_refused(key: str, target: str, words: str) -> None:
    with pytest.raises(InputError, match=f"^{words}"):
        build({**base(), key: {"_target_": target}})


PLUGIN = """
from __future__ import annotations
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from simulator.task import Task
@dataclass(frozen=True, kw_only=True)
class Mine(Task):
    name: str = "mine"
    count: int = 1
    share: float | None = None
    ready: bool = False
    words: Sequence[str] = ()
    sizes: list[int] | None = None
    limits: Mapping[str, float] = None
    def execute(self, folder, progress=None): ...
"""


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("count", 1.5, "count must be a whole number; got 1.5"),
        ("count", True, "count must be a whole number; got True"),
        ("share", "x", "share must be a number; got 'x'"),
        ("ready", 1, "ready must be true or false; got 1"),
        ("words", "abc", "words must be a list of text; got 'abc'"),
        ("words", ["a", 1], r"words\[1\] must be text; got 1"),
        ("sizes", [1.5], r"sizes\[0\] must be a whole number; got 1.5"),
        ("sizes", {"a": 1}, "sizes must be a list of whole numbers; got {'a': 1}"),
        ("limits", {"a": None}, r"limits\.a must be a number; got None"),
        ("limits", [1], r"limits must be a mapping from names to values; got \[1\]"),
        ("name", {"a": 1}, "name must be text; got {'a': 1}"),
    ],
)
def test_values_are_of_the_kind_that_a_plugin_asks_for(
    key: str, value: object, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asking.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    good = {"_target_": "asking.Mine", "share": 1, "words": ["a"], "sizes": [1], "limits": {"a": 1}, "ready": True}
    assert isinstance(build(good, plugins=["asking"]), Task)
    with pytest.raises(InputError, match=f"^{sentence}$"):
        build({**good, key: value}, plugins=["asking"])


@pytest.mark.parametrize("path", FILES, ids=str)
def test_the_type_hints_of_our_own_targets_can_be_read(path: Path) -> None:
    """Where they cannot, the kinds of values would go unchecked."""
    for target in re.findall(r"_target_: ([\w.]+)", (config_dir() / path).read_text(encoding="utf-8")):
        assert hints_of(locate(target, "_target_"))
