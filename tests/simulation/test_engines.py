"""Two engines, one meaning: pencil-and-paper programs, and equality bit for bit on random ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simulator.checks import InputError
from simulator.laws import Deterministic, Law, LogNormal, Normal
from simulator.network.collectives import Kind
from simulator.simulation.draws import Draws, Engine
from simulator.simulation.events import Events
from simulator.simulation.experiment import Experiment
from simulator.simulation.runner import run, trace
from simulator.simulation.vector import Vector
from simulator.workload.program import Collective, Compute, Program
from simulator.workload.training import DataParallel, Operations, TensorParallel
from tests.conftest import paper_job, paper_law
from topologies import NVSwitch, Ring, Torus3D

ENGINES: dict[str, Engine] = {"vector": Vector(threads=1), "events": Events()}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


class Given(Draws):
    """Draws that hand out times written in the test: operation index -> seconds of each rank."""

    def __init__(self, times: dict[int, list[float]]):
        self.compute = np.zeros(1)
        self._times = times

    def many(self, computes: Any) -> Any:
        return np.array([[self._times[i] for i in computes]])

    def one(self, index: int) -> Any:
        return self.many([index])[:, 0]


def timeline(engine: Engine, program: Program, transfers: dict[int, float], times: dict[int, list[float]]) -> dict:
    """{operation: (ready, start, end)}, each a list over ranks."""
    collective_times = [transfers.get(i, 0.0) for i in range(len(program.operations))]
    result = {}
    for step in engine.steps(program, collective_times, Given(times)):
        for k, i in enumerate(step.operations):
            ready, start, end = (
                np.broadcast_to(x[:, k], (1, program.n))[0].tolist() for x in (step.ready, step.start, step.end)
            )
            result[i] = ready, start, end
    return result


def op(name: str, **placed: Any) -> Compute:
    return Compute(name=name, law=Deterministic(mean=1.0), **placed)


def sync(name: str, **placed: Any) -> Collective:
    return Collective(name=name, kind=Kind.ALL_REDUCE, nbytes=1.0, **placed)


@every_engine
def test_a_barrier_waits_for_the_slowest(engine):
    program = Program(mesh={"tp": 3}, operations=[op("a"), sync("b"), op("c"), sync("d")])
    got = timeline(engine, program, {1: 2.0, 3: 2.0}, {0: [1.0, 4.0, 2.0], 2: [3.0, 1.0, 1.0]})
    assert got[1] == ([1.0, 4.0, 2.0], [4.0] * 3, [6.0] * 3)
    assert got[3] == ([9.0, 7.0, 7.0], [9.0] * 3, [11.0] * 3)


@every_engine
def test_groups_along_mesh_axes_wait_only_for_their_own(engine):
    """Ranks 0 1 / 2 3 are tp pairs, 0 2 / 1 3 dp pairs."""
    program = Program(mesh={"dp": 2, "tp": 2}, operations=[op("a"), sync("b", group="tp"), sync("c", group="dp")])
    got = timeline(engine, program, {1: 1.0, 2: 1.0}, {0: [1.0, 2.0, 5.0, 3.0]})
    assert got[1] == ([1.0, 2.0, 5.0, 3.0], [2.0, 2.0, 5.0, 5.0], [3.0, 3.0, 6.0, 6.0])
    assert got[2] == ([3.0, 3.0, 6.0, 6.0], [6.0] * 4, [7.0] * 4)


@every_engine
def test_streams_overlap_and_dependencies_join_them(engine):
    """A bucket is reduced while the backward pass goes on; the optimizer step waits for both."""
    program = Program(
        mesh={"dp": 2},
        operations=[
            op("backward0"), sync("bucket0", stream="nccl", after=["backward0"]), op("backward1"),
            sync("bucket1", stream="nccl", after=["backward1"]), op("step", after=["bucket1"]),
        ],
    )  # fmt: skip
    got = timeline(engine, program, {1: 5.0, 3: 5.0}, {0: [1.0, 2.0], 2: [1.0, 1.0], 4: [1.0, 1.0]})
    assert got[1] == ([1.0, 2.0], [2.0, 2.0], [7.0, 7.0])
    assert got[2] == ([1.0, 2.0], [1.0, 2.0], [2.0, 3.0])
    assert got[3] == ([7.0, 7.0], [7.0, 7.0], [12.0, 12.0])  # the stream is busy until 7
    assert got[4] == ([12.0, 12.0], [12.0, 12.0], [13.0, 13.0])


@every_engine
def test_a_lone_rank_never_waits(engine):
    program = Program(mesh={"tp": 1}, operations=[op("a"), sync("b")])
    assert timeline(engine, program, {}, {0: [1.5]})[1] == ([1.5], [1.5], [1.5])


LAWS: list[Law] = [
    paper_law(), paper_law("frechet"), paper_law(parent="root"), paper_law(cv=0.0), Normal(mean=1e-3, cv=0.1),
    LogNormal(mean=1e-3, cv=1.0), Deterministic(mean=2e-3), Deterministic(mean=0.0),
]  # fmt: skip


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    """Random programs: up to three mesh axes, three streams and ten operations, with any backward dependencies."""
    sizes = draw(
        st.lists(st.integers(1, 4), min_size=1, max_size=3) | st.lists(st.integers(1, 64), max_size=1, min_size=1)
    )
    mesh = {f"axis{i}": size for i, size in enumerate(sizes)}
    laws = draw(st.lists(st.sampled_from(LAWS), min_size=1, max_size=2))
    operations: list[Compute | Collective] = []
    for i in range(draw(st.integers(1, 10))):
        earlier = [operation.name for operation in operations]
        placed = {
            "name": f"op{i}",
            "stream": draw(st.sampled_from(["main", "nccl", "copy"])) if draw(st.booleans()) else "main",
            "after": draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else [],
        }
        if draw(st.booleans()):
            operations.append(Compute(law=draw(st.sampled_from(laws)), **placed))
        else:
            group = draw(st.sampled_from([*mesh, "all"]))
            nbytes = draw(st.sampled_from([0, 1.0, 2**20, 2**28]))
            operations.append(Collective(kind=draw(st.sampled_from(list(Kind))), nbytes=nbytes, group=group, **placed))
    program = Program(mesh=mesh, operations=operations)

    class Written:
        def program(self, n: int, law: Law) -> Program:
            return program

    topology = draw(st.sampled_from([Ring, Torus3D, NVSwitch]))(alpha=5e-6, bandwidth=450e9)
    return paper_job(
        n=program.n, topology=topology, workload=Written(), iterations=draw(st.integers(1, 3)),
        seed=draw(st.integers(0, 2**63 - 1)),
    )  # fmt: skip


def recorded(experiment: Experiment) -> list[tuple[int, bytes]]:
    """The bytes of every ready, start and end time, by operation."""
    n, iterations = experiment.n, experiment.iterations

    def records() -> Iterator[tuple[int, bytes]]:
        for record in trace(experiment, range(iterations)):
            times = [np.broadcast_to(x, (iterations, n)) for x in (record.ready, record.start, record.end)]
            yield record.operation, np.array(times).tobytes()

    return sorted(records())


def digest(experiment: Experiment) -> str:
    """SHA-256 of the tables, the engine column aside."""
    result = run(experiment)
    tables = (result.summary.drop(columns="engine"), result.iterations, result.collectives)
    return hashlib.sha256("".join(table.to_csv() for table in tables).encode()).hexdigest()


def agree_bit_for_bit(experiment: Experiment) -> None:
    vector, events = (replace(experiment, engine=engine) for engine in ENGINES.values())
    assert recorded(vector) == recorded(events)
    assert digest(vector) == digest(events)


@given(experiment=experiments())
@settings(max_examples=25, deadline=None, derandomize=True)
def test_engines_agree_bit_for_bit_on_random_programs(experiment):
    agree_bit_for_bit(experiment)


@pytest.mark.slow
@given(experiment=experiments())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_engines_agree_bit_for_bit_on_many_random_programs(experiment):
    agree_bit_for_bit(experiment)


@pytest.mark.slow
@given(experiment=experiments(), chunk=st.integers(1, 3), threads=st.integers(1, 4))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_chunks_and_threads_change_no_byte(experiment, chunk, threads):
    assert digest(experiment) == digest(
        replace(experiment, engine=Vector(threads=threads, iterations_per_chunk=chunk))
    )  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 63, 64])
def test_engines_agree_on_the_default_job(n):
    job = paper_job(n=n, iterations=2)
    assert digest(job) == digest(replace(job, engine=Events()))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parent", ["zero_sum", "root"])
def test_engines_agree_for_every_parent(parent):
    job = paper_job(n=16, iterations=2, compute=paper_law("frechet", parent))
    assert digest(job) == digest(replace(job, engine=Events()))


@pytest.mark.slow
def test_engines_agree_at_4096_ranks():
    job = paper_job(n=4096, iterations=1, workload=TensorParallel(layers=4, bytes=2**28))
    assert recorded(job) == recorded(replace(job, engine=Events()))
    assert digest(job) == digest(replace(job, engine=Events()))


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(paper_job(n=512, iterations=23), marks=pytest.mark.slow),
        pytest.param(paper_job(n=60, iterations=23, compute=paper_law("frechet", "zero_sum")), marks=pytest.mark.slow),
        paper_job(n=6, iterations=23, workload=DataParallel(bytes=1e9, buckets=5)),
    ],
    ids=["tensor-parallel", "zero-sum", "overlapped"],
)
def test_every_chunk_and_thread_count_gives_the_same_bytes(job):
    """DET-02."""
    expected = digest(job)
    for threads in (1, 2, 8):
        for chunk in (1, 7, 4096):
            assert digest(replace(job, engine=Vector(threads=threads, iterations_per_chunk=chunk))) == expected


def test_the_seed_decides():
    job = paper_job(iterations=2)
    assert digest(job) == digest(paper_job(iterations=2))
    assert digest(job) != digest(replace(job, seed=1))
    drawn = replace(job, seed=None)
    assert drawn.seed is not None
    assert digest(drawn) == digest(replace(job, seed=drawn.seed))
    assert run(drawn).manifest["seed"] == drawn.seed


def test_more_iterations_keep_the_earlier_ones():
    few, many = run(paper_job(iterations=3)).iterations, run(paper_job(iterations=9)).iterations
    assert few.equals(many[:3])


def test_points_of_the_same_size_share_their_draws():
    """Common random numbers: between topologies only the collectives' times differ."""
    ring = run(paper_job(n=64, topology=Ring(alpha=5e-6, bandwidth=450e9)))
    switch = run(paper_job(n=64))
    assert ring.collectives.wait_mean.equals(switch.collectives.wait_mean)
    assert not ring.collectives.end.equals(switch.collectives.end)


def test_more_bandwidth_is_never_slower():
    times = [run(paper_job(n=64, iterations=3, topology=NVSwitch(alpha=5e-6, bandwidth=b))).iterations.iteration_time
             for b in (50e9, 450e9, 900e9, float("inf"))]  # fmt: skip
    for slower, faster in pairwise(times):
        assert (faster < slower).all()


def test_the_aggregated_table_is_the_same_for_any_chunk_and_agrees_with_the_rows(monkeypatch):
    job = paper_job(n=24, iterations=20, workload=Operations(mesh={"dp": 3, "tp": -1}, operations=[
        {"compute": "a"}, {"collective": "b", "kind": "all_reduce", "bytes": 1e6, "group": "tp"},
        {"compute": "c"}, {"collective": "d", "kind": "all_reduce", "bytes": 1e6, "group": "dp"},
    ]))  # fmt: skip
    rows = run(job).collectives
    assert len(rows) == 20 * (3 + 8)
    monkeypatch.setattr("simulator.simulation.results.MOST_ROWS", 10)
    tables = [
        run(replace(job, engine=e)).collectives for e in (Vector(threads=1), Vector(iterations_per_chunk=3), Events())
    ]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
    for name in ("wait_mean", "wait_median", "wait_fastest", "start", "end"):
        means = rows.groupby("collective", observed=True)[name].mean()
        assert tables[0].set_index("collective")[name].to_numpy() == pytest.approx(means.to_numpy(), rel=1e-12)
    counts = rows[rows.collective == "b"].straggler.value_counts()
    assert counts[tables[0].straggler[0]] == counts.max()
    assert tables[0].straggler_repeat_rate[0] == pytest.approx(counts.max() / 60)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"compute": Deterministic(mean=9000.0)}, "an iteration must take less than 8192 s"),
        ({"compute": Deterministic(mean=30.0)}, "an iteration must take less than 8192 s.*got 9600"),
        ({"compute": Deterministic(mean=30.0)}, "^compute must be shorter: .*of which 9600 s are compute"),
        ({"topology": NVSwitch(alpha=20.0, bandwidth=1e9)}, "^workload must be shorter: .*of which 5.1"),
        (
            {"topology": NVSwitch(alpha=5e-6, bandwidth=1.0)},
            "^bytes must be lower, or bandwidth higher: collective .*layer0.* must take less than 8192 s",
        ),
        (
            {"topology": NVSwitch(alpha=1e300, bandwidth=1.0)},
            "^alpha must be lower: collective .*layer0.* got 2e.300 s",
        ),
    ],
)
def test_times_beyond_the_clock_are_refused(changes, words):
    with pytest.raises(InputError, match=words):
        run(paper_job(iterations=1, **changes))


class Wrong(Deterministic):
    """A law that breaks its promise."""

    def transform(self, x: Any) -> None:
        x[...] = self.mean
        x[..., 0] = self.value

    value = -1.0


@pytest.mark.parametrize("value", [1e5, 1.7e308, float("inf")])
@every_engine
def test_a_law_that_draws_no_end_is_stopped(value, engine, monkeypatch):
    """By one sentence, and no warning on the way."""
    monkeypatch.setattr(Wrong, "value", value)
    with pytest.raises(InputError, match=r"^compute must be shorter: an iteration must take less than 8192 s"):
        run(paper_job(iterations=1, compute=Wrong(mean=1.0), engine=engine))


@pytest.mark.parametrize("value", [-1.0, float("nan")])
def test_a_law_that_draws_no_time_is_stopped(value, monkeypatch):
    monkeypatch.setattr(Wrong, "value", value)
    with pytest.raises(
        InputError, match=f"the wrong law drew a block time of {value:g} s for 'layer0.forward0.compute'"
    ):
        run(paper_job(iterations=1, compute=Wrong(mean=1.0)))


@every_engine
def test_no_iterations_have_no_records(engine):
    assert list(trace(paper_job(engine=engine), range(0))) == []
    with pytest.raises(InputError, match=r"^iterations must be a whole number, at least 0; got -1"):
        list(trace(paper_job(engine=engine), range(-1, 1)))


def test_a_chunk_is_as_large_as_fits():
    """The hint is followed as far as memory goes; many barriers, many ranks and no computes make a chunk small too."""
    engine = Vector(iterations_per_chunk=10**9, threads=1)
    assert engine.chunk(paper_job(n=4096).program, 10**7) * 4096 * 8 <= 2**28
    assert engine.chunk(paper_job(n=4096).program, 3) == 3
    groups = Operations(mesh={"dp": -1, "tp": 2}, operations=[
        {"collective": "a", "kind": "send", "bytes": 1, "group": "tp"}
    ])  # fmt: skip
    program = paper_job(n=2**22, workload=groups).program
    assert [Vector(threads=1, iterations_per_chunk=x).chunk(program, 10**7) for x in (None, 10**9)] == [1, 8]


@pytest.mark.parametrize("bandwidth", [float("inf"), 450e9])
def test_every_manifest_is_json(bandwidth, tmp_path):
    """Which has no word for infinity."""
    result = run(paper_job(iterations=1, topology=NVSwitch(alpha=5e-6, bandwidth=bandwidth)))
    result.manifest["config"] = {"bandwidth": bandwidth, "sizes": [(8, float("nan"))]}
    result.write(tmp_path)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    record = json.loads((tmp_path / "manifest.json").read_text(), parse_constant=refuse)
    assert float(record["config"]["bandwidth"]) == bandwidth
    assert record["config"]["sizes"] == [[8, "nan"]]
