"""What a program, a workload and an experiment refuse, and what the workloads write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator.checks import InputError
from simulator.laws import Deterministic, Law, Normal
from simulator.network.collectives import Kind
from simulator.network.topology import Machine
from simulator.simulation.events import Events
from simulator.simulation.experiment import Experiment
from simulator.simulation.runner import run
from simulator.workload.program import Collective, Compute, Program
from simulator.workload.training import DataParallel, Operations, TensorParallel
from tests.conftest import paper_job, paper_law
from topologies import NVSwitch, Torus3D

LAW = Deterministic(mean=1.0)
REDUCE = {"kind": "all_reduce", "bytes": 1e6}


def test_the_default_workload_is_the_papers():
    """Llama-3 70B: 80 layers, two AllReduces forward and two backward in each, 256 MiB."""
    program = TensorParallel(layers=80, bytes=2**28).program(8, LAW)
    assert len(program.collectives) == len(program.computes) == 320
    assert [type(op) for op in program.operations[:4]] == [Compute, Collective, Compute, Collective]
    assert {op.nbytes for op in program.operations if isinstance(op, Collective)} == {2**28}
    assert program.operations[-1].name == "layer0.backward1.all_reduce"


def test_an_allreduce_per_sublayer_gives_160_in_a_forward_pass():
    """worked_examples.csv, allreduces_70b."""
    assert len(TensorParallel(layers=80, bytes=16384, backward=0).program(4, LAW).collectives) == 160


def test_strong_scaling_divides_the_block():
    law = TensorParallel(layers=1, bytes=1, scaling="strong").program(64, paper_law()).operations[0].law
    assert law.mean == pytest.approx(16e-3 / 8)
    assert law.wait(64) == pytest.approx(paper_law().wait(64) / 8)


def test_buckets_share_the_backward_pass():
    program = DataParallel(bytes=8e9, buckets=4, forward_share=0.2).program(8, LAW)
    assert sum(op.law.mean for op in program.operations if isinstance(op, Compute)) == pytest.approx(1.0)
    assert sum(op.nbytes for op in program.operations if isinstance(op, Collective)) == 8e9
    assert set(program.streams) == {"main", "communication"}


def test_groups_are_lines_of_the_mesh():
    program = Program(mesh={"pp": 2, "dp": 3, "tp": 4}, operations=[])
    assert program.n == 24
    assert program.blocks("all") == (1, 24, 1)
    assert program.blocks("pp") == (1, 2, 12)
    assert program.blocks("dp") == (2, 3, 4)
    assert program.blocks("tp") == (6, 4, 1)


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ([{"compute": "a", "after": ["b"]}, {"compute": "b"}], "after of 'a' must name earlier .* 'b' is a later"),
        ([{"compute": "a", "after": "a"}], "'a' is a later operation"),
        ([{"compute": "bucket"}, {"compute": "b", "after": ["buckte"]}], "'buckte' is unknown.*did you mean bucket"),
        ([{"collective": "a", "group": "pt", **REDUCE}], r"group of 'a' must be all or an axis .*\(tp\); got 'pt'"),
        ([{"compute": "a"}, {"compute": "a"}], "distinct names; got 'a' twice"),
        ([{"collective": "a", **REDUCE, "kind": "allreduce"}], r"operations\[0\].kind must .*mean all_reduce"),
        ([{"collective": "a", **REDUCE, "bytes": -1}], "bytes of 'a' must be a finite number, at least 0; got -1"),
        ([{"collective": "a", **REDUCE, "bytes": float("nan")}], "bytes of 'a' must be a finite number.*got nan"),
        ([{"compute": "a", "scale": 0}], r"operations\[0\].scale must be a finite number, above 0; got 0"),
        ([{"compute": "a", "bytes": 1}], r"operations\[0\] must have the keys compute"),
        ([{"name": "a"}], r"operations\[0\] must have the keys compute .*got name"),
        (None, "operations must be a list of mappings; got None"),
        ({"compute": "a"}, "operations must be a list of mappings; got {'compute'"),
        ("compute", "operations must be a list of mappings; got 'compute'"),
        *(([entry], r"operations\[0\] must be a mapping .*; got") for entry in ("a", ["a"], None, 3, {1: 2})),
        *(([{"compute": name}], r"operations\[0\].compute must be text; got") for name in (None, 3, ["a"], {}, "")),
        *(([{"collective": name, **REDUCE}], r"operations\[0\].collective must be text; got") for name in (None, 3)),
        *(([{"compute": "a", "after": x}], "after of 'a' must be a list of text; got") for x in (3, None, [["b"]], {})),
        *(([{"compute": "a", "stream": x}], "stream of 'a' must be text; got") for x in (None, ["main"], 3)),
        *(([{"collective": "a", "group": x, **REDUCE}], "group of 'a' must be text; got") for x in (None, ["tp"], 3)),
        ([{"compute": "a", "scale": float("nan")}], r"operations\[0\].scale must be a finite number"),
    ],
)  # fmt: skip
def test_bad_programs(operations, words):
    with pytest.raises(InputError, match=words):
        Operations(mesh={"tp": 8}, operations=operations).program(8, LAW)


@pytest.mark.parametrize(
    ("mesh", "words"),
    [
        ({"dp": 3, "tp": 2}, "mesh must have sizes that multiply to n = 8"),
        ({"dp": -1, "tp": 3}, "mesh must have sizes that multiply to n = 8"),
        ({"dp": -1, "tp": -1}, "at most one of them -1"),
        ({"dp": 0, "tp": 8}, "mesh.dp must be a whole number, at least 1; got 0"),
        ({"dp": 1.5, "tp": 8}, "mesh.dp must be a whole number"),
        ({"dp": -1.0, "tp": 8}, "mesh.dp must be a whole number; got -1.0"),
        ({"dp": True, "tp": 8}, "mesh.dp must be a whole number"),
        *((mesh, "mesh must be a mapping from names to values; got") for mesh in (None, [8], 8, "tp", {8: 8})),
        ({}, "mesh must have sizes that multiply to n = 8"),
        ({"all": 8}, "mesh must name at least one axis, none of them 'all'"),
    ],
)
def test_bad_meshes(mesh, words):
    with pytest.raises(InputError, match=words):
        Operations(mesh=mesh, operations=[{"compute": "a"}]).program(8, LAW)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n": 0}, "n must be a whole number, at least 1; got 0"),
        ({"n": -8}, "n must be a whole number, at least 1; got -8"),
        ({"n": 1.5}, "n must be a whole number, at least 1; got 1.5"),
        ({"n": "8"}, "n must be a whole number, at least 1; got '8'"),
        ({"n": True}, "n must be a whole number"),
        ({"iterations": 0}, "iterations must be a whole number, at least 1; got 0"),
        ({"seed": -1}, "seed must be a whole number, at least 0; got -1"),
        ({"seed": 2**63}, "seed must be .* at most 9223372036854775807; got 9223372036854775808"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"seed": "abc"}, "seed must be a whole number"),
        ({"n": 2**24 + 1}, "n must be a whole number, at least 1 and at most 16777216; got 16777217"),
        ({"n": 10**18 + 3, "topology": Torus3D(alpha=0.0, bandwidth=1e9)}, "n must be .* at most 16777216"),
        ({"iterations": 2**63 - 1}, "iterations must be .* at most 10000000; got 9223372036854775807"),
        *(({"topology": x}, "topology must be a Topology; got") for x in (None, "ring", Torus3D)),
        *(({"compute": x}, "compute must be a Law; got") for x in (None, "gumbel", Deterministic)),
        *(({"workload": x}, "workload must be a Workload; got") for x in (None, 3, TensorParallel)),
        *(({"engine": x}, "engine must be an Engine; got") for x in (None, "events", Events)),
        *(({"machine": x}, "machine must be a Machine; got") for x in ("h200", Machine)),
        *(({"name": x}, "name must be text; got") for x in (None, 3, "")),
        ({"timeline": "yes"}, "timeline must be true or false; got 'yes'"),
        ({"timeline_iterations": 0}, "timeline_iterations must be a whole number"),
        ({"n": 100, "topology": Torus3D(alpha=0.0, bandwidth=1e9, dims=[4, 4, 4])}, "dims must multiply to n = 100"),
        ({"n": 10, "compute": paper_law(parent="zero_sum")}, "n must be a multiple of 4"),
    ],
)  # fmt: skip
def test_bad_experiments(changes: dict[str, Any], words: str):
    with pytest.raises(InputError, match=f"^{words}"):
        paper_job(**changes)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: TensorParallel(layers=0, bytes=1), "layers must be a whole number, at least 1; got 0"),
        (lambda: TensorParallel(layers=1, bytes=-1), "bytes must be a finite number, at least 0; got -1"),
        (lambda: TensorParallel(layers=1, bytes=1, forward=0, backward=0), "forward and backward must not both be 0"),
        (
            lambda: TensorParallel(layers=1, bytes=1, scaling="week"),
            "scaling must be one of weak, strong.*did you mean weak",
        ),
        (lambda: DataParallel(bytes=1, buckets=0), "buckets must be a whole number, at least 1; got 0"),
        (lambda: DataParallel(bytes=1, forward_share=1.0), "forward_share must be .*below 1; got 1"),
        *(
            (lambda x=x: TensorParallel(layers=x, bytes=1), "layers must be .* at most 125000; got")
            for x in (125_001, 10**8, 10**12, 2**63)
        ),
        (lambda: TensorParallel(layers=80, bytes=1, forward=10**9), "forward must be .* at most 500000; got"),
        (lambda: TensorParallel(layers=80, bytes=1, backward=10**9), "backward must be .* at most 499998; got"),
        (lambda: DataParallel(bytes=1, buckets=10**8), "buckets must be .* at most 499999; got"),
        (lambda: DataParallel(bytes=10**400), "bytes must be a finite number, at least 0, at most 1e"),
        (lambda: Compute(name=3, law=LAW), "name of an operation must be text; got 3"),
        (lambda: Program(mesh=[8], operations=[]), "mesh must be a mapping from names to values; got"),
        *(
            (lambda x=x: Program(mesh={"tp": 8}, operations=x), "operations must be a list of Compute and Collective")
            for x in (None, 3, "compute", ["compute"], {})
        ),
        (
            lambda: Program(mesh={"tp": 1}, operations=[Compute(name="a", law=LAW)] * 1_000_001),
            "operations must be at most",
        ),
        (lambda: Compute(name="a", law="gumbel"), "law of 'a' must be a compute-time law"),
        (lambda: Collective(name="a", kind="gatherv", nbytes=1), "kind of 'a' must be one of"),
    ],
)
def test_bad_workloads(build, words):
    with pytest.raises(InputError, match=f"^{words}"):
        build()


class Mine:
    """A workload of somebody else's."""

    def __init__(self, written: Any):
        self._written = written

    def program(self, n: int, law: Law) -> Any:
        return self._written


@pytest.mark.parametrize(
    ("written", "found"), [(Program(mesh={"tp": 4}, operations=[]), "one for 4"), (None, "None"), ([LAW], "")]
)
def test_a_program_is_for_as_many_ranks_as_the_experiment(written, found):
    """It ran 4 ranks and said 512."""
    job = paper_job(n=512, workload=Mine(written))
    for use in (lambda: job.program, lambda: job.costs, lambda: run(job)):
        with pytest.raises(InputError, match=f"^workload must write a Program for n = 512 ranks; got {found}"):
            use()


PAIRS = Operations(mesh={"dp": -1, "tp": 2}, operations=[
    entry for i in range(4) for entry in ({"compute": f"a{i}"}, {"collective": f"b{i}", **REDUCE, "group": "tp"})
])  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n": 2**24, "workload": PAIRS}, "workload must give at most 10000000 barriers .*; got 33554432"),
        ({"n": 2**20, "per_rank": True}, "per_rank must give at most 20000000 rows .*; got 335544320"),
        ({"n": 4096, "per_rank": True, "iterations": 10**6}, "per_rank must give at most 1000000000 rows .*; got"),
        ({"n": 4096, "timeline": True, "timeline_ranks": 10**9, "timeline_iterations": 40},
         "timeline_ranks must give at most 20000000 slices .*; got 104857600"),
        ({"n": 2**17, "engine": Events()}, "engine events takes at most 65536 ranks x streams; got 131072"),
        ({"n": 2**16, "engine": Events()}, "engine events takes at most 16777216 ranks x operations .*; got 41943040"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_it_runs(changes, words):
    job = paper_job(**changes)
    with pytest.raises(InputError, match=f"^{words}"):
        job.check()


def test_numbers_of_numpy_are_numbers():
    job = paper_job(n=np.int64(8), iterations=np.int32(2), seed=np.uint8(3))
    assert [type(x) for x in (job.n, job.iterations, job.seed)] == [int] * 3
    assert run(job).summary.equals(run(paper_job(iterations=2, seed=3)).summary)
    assert type(Normal(mean=np.float32(1.0), cv=np.float64(0.1)).mean) is float
    assert TensorParallel(layers=np.int64(2), bytes=np.float32(8.0)).bytes == 8.0


def test_one_name_in_after_is_a_list_of_one():
    compute = Compute(name="b", law=LAW, after="a")
    assert compute.after == ("a",)
    assert Program(mesh={"tp": 1}, operations=[Compute(name="a", law=LAW), compute]).predecessors == ((), (0,))


def test_a_mesh_of_many_axes():
    mesh = {**{f"axis{i}": 1 for i in range(70)}, "dp": 2, "tp": 4}
    few, many = (
        run(paper_job(workload=replace(PAIRS, mesh=sizes), iterations=2)).summary
        for sizes in ({"dp": 2, "tp": 4}, mesh)
    )
    assert few.equals(many)


def test_buckets_without_a_forward_pass():
    program = DataParallel(bytes=8e9, buckets=4, forward_share=0).program(8, LAW)
    assert sum(op.law.mean for op in program.operations if isinstance(op, Compute)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"compute": Normal(mean=16e-3, cv=1e-9)}, "compute: how far ranks are apart in a block is 1.6e-11 s, near"),
        ({"compute": Deterministic(mean=1e-11)}, "compute: the mean of a block's times is 1e-11 s, near"),
        ({"compute": paper_law(mean=1e-11)}, "compute: how far ranks are apart in a block is 2e-13 s, near"),
        ({"workload": TensorParallel(layers=1, bytes=1, scaling="strong"), "n": 4096,
          "compute": Deterministic(mean=1e-7)}, "compute: the mean of a block's times is 2e-10 s, near"),
        ({"topology": NVSwitch(alpha=1e-12, bandwidth=1e99)}, "topology: the time of a collective is 2e-12 s, near"),
        ({"compute": paper_law(parent="root", xi=0.6, cv=1e-4)}, "no ±: the block times have an infinite variance"),
    ],
)  # fmt: skip
def test_results_say_where_precision_ends(changes, words):
    assert any(note.startswith(words) for note in run(paper_job(iterations=1, **changes)).manifest["notes"])


def test_ordinary_results_need_no_note():
    free = NVSwitch(alpha=0.0, bandwidth=float("inf"))
    for changes in ({}, {"compute": Deterministic(mean=0.0)}, {"compute": paper_law(cv=0.0)}, {"topology": free}):
        assert paper_job(**changes).notes == []


def test_an_experiment_is_plain_data():
    job = paper_job()
    assert isinstance(job, Experiment)
    assert job.costs[0] is None
    assert job.costs[1].algorithm.name == "all_pairs"
    assert job.program.operations[1].kind is Kind.ALL_REDUCE
