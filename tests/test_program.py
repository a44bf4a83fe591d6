"""What a program, a workload and an experiment refuse, and what the workloads write."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks import InputError
from simulator.collectives import Kind
from simulator.experiment import Experiment
from simulator.laws import Deterministic
from simulator.program import Collective, Compute, Program
from simulator.workloads import DataParallel, Operations, TensorParallel
from tests.conftest import paper_job, paper_law
from topologies import Torus3D

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
        ({"timeline": "yes"}, "timeline must be true or false; got 'yes'"),
        ({"timeline_iterations": 0}, "timeline_iterations must be a whole number"),
        ({"n": 100, "topology": Torus3D(alpha=0.0, bandwidth=1e9, dims=[4, 4, 4])}, "dims must multiply to n = 100"),
        ({"n": 10, "compute": paper_law(parent="zero_sum")}, "n must be a multiple of 4"),
    ],
)  # fmt: skip
def test_bad_experiments(changes: dict[str, Any], words: str):
    with pytest.raises(InputError, match=words):
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
        (lambda: Compute(name="a", law="gumbel"), "law of 'a' must be a compute-time law"),
        (lambda: Collective(name="a", kind="gather", nbytes=1), "kind of 'a' must be one of"),
    ],
)
def test_bad_workloads(build, words):
    with pytest.raises(InputError, match=words):
        build()


def test_an_experiment_is_plain_data():
    job = paper_job()
    assert isinstance(job, Experiment)
    assert job.costs[0] is None
    assert job.costs[1].algorithm.name == "all_pairs"
    assert job.program.operations[1].kind is Kind.ALL_REDUCE
