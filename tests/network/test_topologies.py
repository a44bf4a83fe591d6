"""One contract over all topologies, and the costs that others computed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import topologies
from simulator.checks import InputError
from simulator.network.collectives import Algorithm, Kind, all_pairs, bucket, ring
from simulator.network.topology import Machine, Topology
from topologies import FractionalTorus3D, NVSwitch, Ring, Torus3D
from topologies.torus import most_cubic

DATA = Path(__file__).parents[1] / "data"
TOPOLOGIES = {
    **{name.lower(): getattr(topologies, name) for name in topologies.__all__},
    "nvswitch-ring": NVSwitch,
}
del TOPOLOGIES["fractionaltorus3d"]  # no machine of its size exists, and it is meant for fewer kinds
BOUND = {
    Kind.ALL_REDUCE: lambda n: 2 * (n - 1) / n, Kind.REDUCE_SCATTER: lambda n: (n - 1) / n,
    Kind.ALL_GATHER: lambda n: (n - 1) / n, Kind.ALL_TO_ALL: lambda n: (n - 1) / n,
    Kind.BROADCAST: lambda n: 1.0, Kind.REDUCE: lambda n: 1.0, Kind.GATHER: lambda n: (n - 1) / n,
    Kind.SCATTER: lambda n: (n - 1) / n, Kind.SEND: lambda n: 1.0,
}  # fmt: skip  # nccl-tests' factors of the bus bandwidth: GetBw in src/*.cu

every_topology = pytest.mark.parametrize("name", TOPOLOGIES)
every_kind = pytest.mark.parametrize("kind", list(Kind))


def build(name: str, **changes) -> Topology:
    settings = {"alpha": 5e-6, "bandwidth": 450e9, **changes}
    return TOPOLOGIES[name](**settings, **({"algorithm": "ring"} if name == "nvswitch-ring" else {}))


@every_topology
@every_kind
def test_cost_grows_with_the_message_and_never_with_bandwidth(name, kind):
    times = [build(name).cost(kind, size, 64).time for size in (0, 1, 2**20, 2**28, 1e15)]
    assert times == sorted(times)
    bandwidths = [build(name, bandwidth=b).cost(kind, 2**28, 64).time for b in (1e9, 450e9, 3600e9, float("inf"))]
    assert bandwidths == sorted(bandwidths, reverse=True)


@every_topology
@every_kind
def test_cost_grows_with_the_domain(name, kind):
    """At every size on a ring and a switch, at every cube on the torus; else where tori of 2 or 3 sides are whole."""
    every = {
        "torus3d": [i**3 for i in range(1, 17)],
        **dict.fromkeys(("ring", "nvswitch", "nvswitch-ring"), range(1, 300)),
    }
    sizes = every.get(name, [1, 64, 729, 4096])
    times = [build(name).cost(kind, 2**28, n).time for n in sizes]
    assert times == sorted(times)


@every_topology
@every_kind
@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 8, 64, 72, 128, 512, 4095, 4096])
def test_never_below_the_bandwidth_bound(name, kind, n):
    cost = build(name, alpha=0.0).cost(kind, 2**28, n)
    assert cost.time >= BOUND[kind](n) * 2**28 / 450e9 * (1 - 1e-15)
    assert cost.latency == 0.0


@every_kind
@pytest.mark.parametrize("topology", [Ring, Torus3D, FractionalTorus3D, NVSwitch])
@pytest.mark.parametrize("n", [2, 3, 8, 72, 4096])
def test_volume_is_the_factor_of_the_bus_bandwidth(kind, topology, n):
    """None moves more than it must, but for an AllToAll whose blocks pass through other ranks."""
    volume = topology(alpha=0.0, bandwidth=1.0).cost(kind, 1.0, n).volume
    if kind is not Kind.ALL_TO_ALL or topology is NVSwitch:
        assert volume == pytest.approx(BOUND[kind](n), rel=1e-15)


@every_topology
@every_kind
def test_limits(name, kind):
    """PAR-01, PAR-04, PAR-05: nothing to say to nobody; only latency for nothing or over an infinite link; no 0*inf."""
    assert build(name).cost(kind, 2**28, 1).time == 0.0
    empty = build(name).cost(kind, 0, 64)
    assert empty.transfer == 0.0
    assert empty.latency > 0
    assert build(name, bandwidth=float("inf")).cost(kind, 2**28, 64).time == empty.latency
    assert build(name, alpha=0.0, bandwidth=float("inf")).cost(kind, 2**28, 64).time == 0.0


@every_topology
def test_reduce_scatter_and_all_gather_are_halves_of_an_all_reduce(name):
    for n in (2, 7, 64, 4096):
        whole, scatter, gather = (
            build(name).cost(kind, 2**28, n) for kind in (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER, Kind.ALL_GATHER)
        )
        assert scatter.time + gather.time == pytest.approx(whole.time, rel=1e-14)


@every_topology
def test_every_algorithm_says_where_its_formula_is_from(name):
    for kind in Kind:
        for algorithm in build(name).algorithms(kind, 64):
            assert len(algorithm.source) > 10
            assert algorithm.name


@pytest.mark.parametrize("n", [2, 3, 5, 7, 4095, 4096])
def test_steps_of_the_ring_are_exact(n):
    """PAR-02: integers, also where n is no power of two."""
    cost = Ring(alpha=1.0, bandwidth=float("inf")).cost(Kind.ALL_REDUCE, 1, n)
    assert cost.latency == 2 * (n - 1)
    assert NVSwitch(alpha=1.0, bandwidth=float("inf")).cost(Kind.ALL_REDUCE, 1, n).latency == 2


def test_no_integer_wraps_around():
    """PAR-04: n*S = 6.6e19 is beyond int64."""
    exact = 2 * 65535 * 10**15 // 65536  # q*S, an integer here but for the fraction
    assert Ring(alpha=0.0, bandwidth=1.0).cost(Kind.ALL_REDUCE, 10**15, 65536).time == pytest.approx(exact, rel=1e-15)


@every_kind
def test_a_flat_torus_is_a_ring(kind):
    assert Torus3D(alpha=5e-6, bandwidth=450e9, dims=[12, 1, 1]).cost(kind, 2**28, 12).time == Ring(
        alpha=5e-6, bandwidth=450e9
    ).cost(kind, 2**28, 12).time  # fmt: skip
    assert bucket(kind, (12, 1, 1)).rounds == ring(kind, 12).rounds


# Who sends what to whom, round by round. Ranks are their coordinates, the root is the origin.

every_shape = pytest.mark.parametrize("dims", [(2,), (5,), (8,), (4, 3), (3, 2, 2), (4, 3, 2), (3, 3, 3), (7, 1, 1)])


def towards_the_root(rank: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*rank[:axis], rank[axis] - 1, *rank[axis + 1 :])


def gather_rounds(dims):
    """Messages (sender, receiver, blocks) of each round, each to a neighbour; and who has which blocks at last."""
    holds = {rank: frozenset([rank]) for rank in product(*map(range, dims))}
    rounds = []
    for axis, side in enumerate(dims):
        passing = {rank: blocks for rank, blocks in holds.items() if blocks}
        for _ in range(side - 1):
            sent = [(rank, towards_the_root(rank, axis), blocks) for rank, blocks in passing.items() if rank[axis]]
            holds = deliver(sent, holds)
            passing = {receiver: blocks for _, receiver, blocks in sent}  # the next round passes on what came in
            rounds.append(sent)
    return rounds, holds


def deliver(sent, holds):
    """Who has what after a round, in which a rank sends what it had before it, once."""
    assert all(blocks <= holds[sender] for sender, _, blocks in sent)
    assert len({sender for sender, *_ in sent}) == len(sent)
    after = dict(holds)
    for sender, receiver, blocks in sent:
        after[sender] -= blocks
        after[receiver] |= blocks
    return after


@every_shape
def test_a_gather_takes_every_block_to_the_root(dims):
    rounds, holds = gather_rounds(dims)
    n, root = prod(dims), (0,) * len(dims)
    assert {rank: len(blocks) for rank, blocks in holds.items() if blocks} == {root: n}
    largest = sum(max(len(blocks) for *_, blocks in sent) for sent in rounds)
    into_the_root = sum(len(blocks) for sent in rounds for _, receiver, blocks in sent if receiver == root)
    for found in (bucket(Kind.GATHER, dims), *([ring(Kind.GATHER, n)] if len(dims) == 1 else [])):
        assert found.rounds == len(rounds)
        assert found.volume * n == pytest.approx(largest)
        assert found.volume * n == pytest.approx(into_the_root)


@every_shape
def test_a_scatter_is_a_gather_in_reverse(dims):
    rounds, holds = gather_rounds(dims)
    for sent in reversed(rounds):
        holds = deliver([(receiver, sender, blocks) for sender, receiver, blocks in sent], holds)
    assert all(blocks == {rank} for rank, blocks in holds.items())
    scatter, gather = bucket(Kind.SCATTER, dims), bucket(Kind.GATHER, dims)
    assert (scatter.rounds, scatter.volume) == (gather.rounds, gather.volume)


def reduce_in_chunks(dims, chunks: int) -> int:
    """Rounds until the root has the sum of all ranks in every chunk, of which a link passes one per round."""
    ranks = list(product(*map(range, dims)))
    root, *others = ranks
    parent = {r: towards_the_root(r, next(axis for axis, x in enumerate(r) if x)) for r in others}
    children = {rank: [child for child in others if parent[child] == rank] for rank in ranks}
    sent, summed = dict.fromkeys(others, 0), {(rank, chunk): {rank} for rank in ranks for chunk in range(chunks)}
    rounds = 0
    while min(sent.values()) < chunks:
        complete = {rank: min([sent[child] for child in children[rank]], default=chunks) for rank in others}
        for rank in [rank for rank in others if sent[rank] < complete[rank]]:
            summed[parent[rank], sent[rank]] |= summed[rank, sent[rank]]
            sent[rank] += 1
        rounds += 1
    assert all(summed[root, chunk] == set(ranks) for chunk in range(chunks))
    return rounds


@every_shape
def test_a_reduce_is_pipelined_over_all_dimensions(dims):
    """k chunks take p + k - 1 rounds of S/k: p rounds of latency, and a volume that tends to 1 as chunks get small."""
    found = bucket(Kind.REDUCE, dims)
    assert found.rounds == reduce_in_chunks(dims, 1)
    for chunks in (2, 7, 40):
        assert reduce_in_chunks(dims, chunks) == found.rounds + chunks - found.volume
    broadcast = bucket(Kind.BROADCAST, dims)
    assert (broadcast.rounds, broadcast.volume) == (found.rounds, found.volume)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_all_pairs_to_a_root_fill_the_root_s_link_and_no_other(n):
    """Bytes into and out of each rank in units of S, rank 0 the root; a part of a Reduce is S/(n-1)."""
    root, others = 0, range(1, n)
    phases = {
        Kind.GATHER: [[(rank, root, 1 / n) for rank in others]],
        Kind.SCATTER: [[(root, rank, 1 / n) for rank in others]],
        Kind.REDUCE: [
            [(rank, summing, 1 / (n - 1)) for rank in others for summing in others if rank != summing],
            [(rank, root, 1 / (n - 1)) for rank in others],
        ],
    }
    for kind, sent in phases.items():
        messages = [message for phase in sent for message in phase]
        into, out = np.zeros(n), np.zeros(n)
        for sender, receiver, volume in messages:
            out[sender] += volume
            into[receiver] += volume
        found = all_pairs(kind, n)
        assert found.rounds == sum(len(phase) > 0 for phase in sent)
        assert max(into[root], out[root]) == pytest.approx(found.volume)
        assert max(into.max(), out.max()) == pytest.approx(found.volume)


@pytest.mark.parametrize(
    ("n", "sides"),
    [(1, (1, 1, 1)), (2, (2, 1, 1)), (7, (7, 1, 1)), (8, (2, 2, 2)), (12, (3, 2, 2)), (64, (4, 4, 4)), (72, (6, 4, 3)),
     (100, (5, 5, 4)), (128, (8, 4, 4)), (512, (8, 8, 8)), (4095, (21, 15, 13)), (4096, (16, 16, 16))],
)  # fmt: skip
def test_most_cubic(n, sides):
    assert most_cubic(n) == sides


def test_most_cubic_is_the_smallest_sum_of_all_factorisations():
    for n in range(1, 200):
        every = [(x, y, n // (x * y)) for x in range(1, n + 1) for y in range(1, n + 1) if n % (x * y) == 0]
        assert sum(most_cubic(n)) == min(map(sum, every))


def test_a_torus_says_when_it_is_a_ring():
    torus = Torus3D(alpha=5e-6, bandwidth=450e9)
    assert "127x1x1, which is a ring" in torus.note(127)
    assert torus.note(128) == ""
    assert torus.shape(128) == "8x4x4"


def test_given_dims_are_used_and_must_fit():
    torus = Torus3D(alpha=5e-6, bandwidth=450e9, dims=[32, 4, 4])
    assert torus.cost(Kind.ALL_REDUCE, 0, 512).latency == pytest.approx(2 * 37 * 5e-6)
    assert torus.cost(Kind.ALL_REDUCE, 0, 8).latency == pytest.approx(6 * 5e-6)  # a group: the most cubic of its size
    with pytest.raises(InputError, match="dims must multiply to n = 100; got 32x4x4 = 512"):
        torus.check(100)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": -1e-6}, "alpha must be a finite number, at least 0; got -1e-06"),
        ({"alpha": float("nan")}, "alpha must be"),
        ({"alpha": float("inf")}, "alpha must be a finite number"),
        ({"bandwidth": 0}, "bandwidth must be a number, above 0; got 0"),
        ({"bandwidth": -1}, "bandwidth must be a number, above 0; got -1"),
        ({"bandwidth": float("nan")}, "bandwidth must be"),
        ({"bandwidth": "fast"}, "bandwidth must be a number, above 0; got 'fast'"),
        ({"bandwidth": True}, "bandwidth must be a number, above 0; got True"),
        ({"algorithm": "rign"}, r"algorithm must be one of .*ring.*did you mean ring"),
    ],
)
@pytest.mark.parametrize("kind", [Ring, Torus3D, NVSwitch])
def test_refusals(kind, changes, words):
    if kind is Torus3D and "algorithm" in changes:
        words = "algorithm must be one of bucket"
    with pytest.raises(InputError, match=words):
        kind(**{"alpha": 5e-6, "bandwidth": 450e9, **changes})


@pytest.mark.parametrize("dims", [[8, 8], "888", [8, 8, 0], [8, 8, 1.5], [8, 8, -8], 512])
def test_dims_are_three_whole_numbers(dims):
    with pytest.raises(InputError, match=r"^dims(\[2\])? must be"):
        Torus3D(alpha=5e-6, bandwidth=450e9, dims=dims)


@pytest.mark.parametrize("size", [-1, float("nan"), float("inf"), "1 MB"])
def test_message_sizes_are_numbers(size):
    with pytest.raises(InputError, match="bytes must be"):
        Ring(alpha=5e-6, bandwidth=450e9).cost(Kind.ALL_REDUCE, size, 8)


@pytest.mark.parametrize("n", [0, -8, 1.5, True, None, 2**24 + 1, 10**18 + 3])
@every_topology
def test_groups_are_of_1_to_16777216_ranks(name, n):
    with pytest.raises(InputError, match=r"^n must be a whole number, at least 1"):
        build(name).cost(Kind.ALL_REDUCE, 1, n)


@pytest.mark.parametrize("kind", ["bogus", None, 3, []])
def test_kinds_are_known(kind):
    with pytest.raises(InputError, match=r"^kind must be one of all_reduce, .*; got"):
        Ring(alpha=5e-6, bandwidth=450e9).cost(kind, 1, 8)
    assert Ring(alpha=5e-6, bandwidth=450e9).cost("send", 1, 8).algorithm.name == "ring"


@dataclass(frozen=True, kw_only=True)
class Mine(Topology):
    """A plug-in that may be wrong."""

    offered: Any = ()

    def algorithms(self, kind: Kind, n: int) -> Any:
        return self.offered


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        *((x, "algorithms of Mine must be at least one Algorithm for all_reduce .*; got") for x in ((), None, 3)),
        ((3,), "algorithms of Mine must be an Algorithm; got 3"),
        *(((Algorithm("mine", x, 1.0, ""),), "rounds of algorithm 'mine' of Mine must be .*, at least 0; got")
          for x in (-1, float("nan"), float("inf"), "2", None)),
        *(((Algorithm("mine", 1, x, ""),), "volume of algorithm 'mine' of Mine must be .*, at least 0; got")
          for x in (-0.5, float("nan"), float("inf"), True)),
    ],
)  # fmt: skip
def test_what_a_plug_in_offers_is_checked(offered, words):
    with pytest.raises(InputError, match=f"^{words}"):
        Mine(alpha=5e-6, bandwidth=450e9, offered=offered).cost(Kind.ALL_REDUCE, 2**28, 8)


def test_links_are_kept_as_doubles():
    ring = Ring(alpha=np.float32(0.0), bandwidth=np.float32(450e9))
    assert (type(ring.alpha), type(ring.bandwidth)) == (float, float)
    for changes in ({"alpha": 10**400}, {"bandwidth": -(10**400)}, {"algorithm": ["ring"]}, {"algorithm": 3}):
        with pytest.raises(InputError, match=f"^{next(iter(changes))} must be"):
            Ring(**{"alpha": 5e-6, "bandwidth": 450e9, **changes})
    for name in (None, "", 3):
        with pytest.raises(InputError, match=r"^name must be text"):
            Machine(name=name, alpha=5e-6, bandwidth=450e9)


@pytest.mark.parametrize("n", [2**24, 14_414_400, 16_777_213])
def test_most_cubic_of_the_largest_domains(n):
    """A power of two, the number with the most divisors, and a prime."""
    began = perf_counter()
    assert prod(most_cubic(n)) == n
    assert perf_counter() - began < 0.5  # about 5 ms


def astra_rows():
    lines = [line for line in (DATA / "astra_sim_allreduce.csv").read_text().splitlines() if not line.startswith("#")]
    wanted = {("ring", "ring"), ("torus3d", "ring"), ("fully_connected", "direct")}
    return [
        row for row in csv.DictReader(lines)
        if (row["topology"], row["algorithm"]) in wanted and row["chunking"] == "s1" and row["congestion"] == "unaware"
    ]  # fmt: skip


@pytest.mark.parametrize("row", astra_rows(), ids=lambda r: f"{r['topology']}-{r['n']}-{r['bytes']}")
def test_astra_sim_agrees(row):
    """An independent simulator, per-link bandwidth 450*2^30; its residual is about 1 ns (integer ticks) per step."""
    n, link = int(row["n"]), 450 * 2**30
    topology = {
        "ring": Ring(alpha=5e-6, bandwidth=link),
        "torus3d": Torus3D(alpha=5e-6, bandwidth=link),
        "fully_connected": NVSwitch(alpha=5e-6, bandwidth=link * (n - 1)),
    }[row["topology"]]
    cost = topology.cost(Kind.ALL_REDUCE, int(row["bytes"]), n)
    steps = cost.algorithm.rounds
    assert float(row["simulated_ns"]) == pytest.approx(cost.time * 1e9, abs=2 * steps + 1)


def test_astra_sim_rows_are_there():
    assert len(astra_rows()) >= 10


WORKED = [  # id in worked_examples.csv, kind, n, bytes, bandwidth
    ("allreduce_7b_277", Kind.ALL_REDUCE, 8, 14e9, 277e9),
    ("reducescatter_7b_277", Kind.REDUCE_SCATTER, 8, 14e9, 277e9),
    ("allreduce_7b_ib64", Kind.ALL_REDUCE, 64, 14e9, 200e9),
    ("ib_rack_allreduce_70b_tp8", Kind.REDUCE_SCATTER, 32, 14e9, 100e9),  # the text counts one phase
    ("ib_oversubscribed_allreduce", Kind.REDUCE_SCATTER, 128, 14e9, 50e9),
    ("allreduce_400mb_n4", Kind.ALL_REDUCE, 4, 400e6, 300e9),
    ("allreduce_70b_n8", Kind.ALL_REDUCE, 8, 140e9, 250e9),
    ("decode_time_tp4", Kind.ALL_REDUCE, 4, 16384, 300e9),
    ("batch128_time_nvlink", Kind.ALL_REDUCE, 4, 2097152, 300e9),
    ("batch128_time_pcie", Kind.ALL_REDUCE, 4, 2097152, 32e9),
]


@pytest.mark.parametrize(("name", "kind", "n", "nbytes", "bandwidth"), WORKED, ids=[case[0] for case in WORKED])
def test_worked_examples(name, kind, n, nbytes, bandwidth):
    with (DATA / "worked_examples.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["id"] == name)
    unit = {"s": 1.0, "ms": 1e3, "us": 1e6}[row["unit"]]
    time = Ring(alpha=0.0, bandwidth=bandwidth).cost(kind, nbytes, n).time
    assert time * unit == pytest.approx(float(row["reported"]), abs=float(row["tolerance"]))
