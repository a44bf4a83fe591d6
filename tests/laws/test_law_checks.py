"""What the laws refuse, each in one sentence: whoever builds them, and whatever a table holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simulator import empirical
from simulator.checks import InputError
from simulator.laws import (
    Deterministic,
    Empirical,
    EmpiricalBlocks,
    IndependentLaw,
    Law,
    LogNormal,
    Normal,
    Root,
    Spliced,
    ZeroSum,
    block_maxima,
)
from tests.conftest import PAPER, paper_law
from tests.laws.test_laws import LAWS, MEASURED, every_independent_law, every_law, rng


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"xi": 1.0}, "xi must be below 1.*no mean; got 1.0"),
        ({"xi": 0.45}, "parent spliced has no per-rank law.*try parent zero_sum.*or root"),
        ({"sigma": 1.5}, "parent spliced has no per-rank law.*zero_sum"),
        ({"mu": 5.0}, "parent spliced has no per-rank law.*zero_sum"),
        ({"mu": 5.0, "parent": "zero_sum"}, "parent zero_sum has no blocks.*try parent root"),
        ({"sigma": 0.0}, "sigma must be a finite number, above 0; got 0"),
        ({"sigma": -1}, "sigma must be a finite number, above 0; got -1"),
        ({"xi": -1000}, "xi must be at least -1, below which .*; got -1000"),
        ({"xi": -1000, "parent": "root"}, "xi must be at least -1"),
        ({"mu": 1000.0, "parent": "zero_sum"}, "parent zero_sum has no blocks"),
        ({"mu": 1e5, "parent": "zero_sum"}, "parent zero_sum has no blocks"),
        ({"mean": 1e10}, "mean must be a finite number, at least 0, at most 1e\\+09; got 1"),
        ({"cv": 1e200}, "cv must be a finite number, at least 0, at most 1000; got 1e\\+200"),
        ({"cv": 10**400}, "cv must be a finite number, at least 0, at most 1000; got 1000000"),
        ({"sigma": 1e-300}, "precision would be lost"),
        ({"sigma": 1e300}, "precision would be lost"),
        ({"mu": 1e15, "sigma": 1e-3}, "precision would be lost"),
        ({"mu": float("nan")}, "mu must be a finite number; got nan"),
        ({"cv": 0.3}, "cv must be smaller.*below 0.*0.3 gives"),
        ({"cv": 0.9, "parent": "root"}, "cv must be smaller.*below 0.*0.9 gives"),
        ({"cv": 0.2, "parent": "zero_sum"}, "cv must be smaller.*below 0.*0.2 gives"),
        ({"cv": -0.1}, "cv must be a finite number, at least 0; got -0.1"),
        ({"mean": float("inf")}, "mean must be a finite number"),
        ({"m": 4.5}, "m must be a whole number, at least 2; got 4.5"),
        ({"m": 8, "parent": "zero_sum"}, "m must be 4 for parent zero_sum"),
        ({"parent": "splice"}, "parent must be one of .*did you mean spliced"),
    ],
)
def test_block_maxima_refuse(changes, words):
    with pytest.raises(InputError, match=words):
        block_maxima(**{**PAPER["gumbel"], **changes})


CONSTRUCTORS = [Spliced, ZeroSum, Root]


@pytest.mark.parametrize("law", CONSTRUCTORS)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"centre": -1.0}, "centre must be a finite number, at least 0; got -1"),
        ({"centre": "16 ms"}, "centre must be a finite number, at least 0; got '16 ms'"),
        ({"cv": -0.1}, "cv must be"),
        ({"mu": None}, "mu must be"),
        ({"sigma": -0.4}, "sigma must be"),
        ({"xi": 1.0}, "xi must be below 1"),
        ({"xi": float("nan")}, "xi must be"),
        ({"m": 0}, "m must be a whole number, at least 2; got 0"),
    ],
)
def test_constructions_check_themselves(law, changes, words):
    """Not the factory: whoever builds a law directly is told the same."""
    with pytest.raises(InputError, match=f"^{words}"):
        law(**{"centre": 16e-3, "cv": 0.02, "mu": 0.7058, "sigma": 0.4085, "xi": 0.0, "m": 4, **changes})


@every_law
@pytest.mark.parametrize("factor", [0, -1.0, float("nan"), float("inf"), "2"])
def test_a_block_cannot_be_scaled_by_nothing(law, factor):
    with pytest.raises(InputError, match=r"^factor must be a finite number, above 0; got"):
        law.scaled(factor)


@every_law
def test_the_scale_of_a_law_has_limits(law):
    with pytest.raises(InputError, match=r"must be a finite number.*at most"):
        law.scaled(1e300)


ODD = [float("nan"), inf, -inf, 0, -0.0, 5e-324, 1e-320, 1e-300, 1e-12, 1e-9, 1.0, 2, 1e5, 1e9, 1e200, 1e308, 10**400,
       -1, -1e-12, -1e308, True, None, "1", [], {}, np.float32(0.1), np.int64(4), np.array([1.0, 2.0])]  # fmt: skip


def fields(**usual: st.SearchStrategy) -> st.SearchStrategy:
    """Arguments, each mostly usual and sometimes odd."""
    return st.fixed_dictionaries({name: values | values | st.sampled_from(ODD) for name, values in usual.items()})


FACTORIES: dict[str, tuple[Callable[..., Law], st.SearchStrategy]] = {
    **{
        parent: (
            partial(block_maxima, parent=parent),
            fields(mean=st.floats(1e-6, 10), cv=st.floats(1e-6, 1), mu=st.floats(-1, 20), sigma=st.floats(1e-3, 10),
                   xi=st.floats(-1, 1), m=st.just(4)),
        )
        for parent in ("spliced", "zero_sum", "root")
    },
    "normal": (Normal, fields(mean=st.floats(0, 10), cv=st.floats(0, 0.14))),
    "lognormal": (LogNormal, fields(mean=st.floats(0, 10), cv=st.floats(0, 1000))),
    "deterministic": (Deterministic, fields(mean=st.floats(0, 10))),
    "values": (Empirical, fields(values=st.lists(st.floats(0, 10) | st.sampled_from(ODD)), factor=st.floats(0, 2))),
    "steps": (EmpiricalBlocks, fields(steps=st.lists(st.lists(st.floats(0, 1) | st.sampled_from(ODD), max_size=2)),
                                      factor=st.floats(0, 2))),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTORIES)
@given(data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_law_is_refused_in_one_sentence_or_gives_numbers(name, data):
    """Any arguments: no other error, no warning (all are errors here), no NaN, no negative time."""
    factory, arguments = FACTORIES[name]
    sentence = ""
    try:
        law = factory(**data.draw(arguments))
        law.check_ranks(8)
    except InputError as error:
        sentence = str(error)
    if sentence:
        assert "\n" not in sentence
        assert len(sentence) < 400
        return
    times = law.sample(rng(), (20, 8))
    assert np.isfinite(times).all()
    assert (times >= 0).all()
    assert law.wait(8) >= -1e-12 * law.mean - 1e-300
    assert law.wait(2**24) >= -1e-12 * law.mean - 1e-300
    law.max_cdf([0.0, law.mean, 1e300], 8)
    if isinstance(law, IndependentLaw):
        assert not np.isnan(law.cdf([-1e300, 0.0, law.mean, 1e300, inf])).any()
        assert not np.isnan(law.quantile([0.0, 1e-300, 1.0, 40.0])).any()
        assert (np.diff(law.ppf([1e-9, 0.5, 1 - 1e-9])) >= 0).all()


@every_independent_law
@pytest.mark.parametrize("p", [0, 1, 2, -1.0, float("nan"), [0.5, 1.0]])
def test_probabilities_are_between_0_and_1(law, p):
    with pytest.raises(InputError, match=r"^p must be probabilities above 0 and below 1; got"):
        law.ppf(p)


@pytest.mark.parametrize("n", [0, -4, 1.5, True, None])
@every_law
def test_ranks_are_counted(law, n):
    for use in (law.wait, law.check_ranks):
        with pytest.raises(InputError, match=r"^n must be a whole number, at least 1; got"):
            use(n)


def test_blocks_of_ranks_are_drawn_whole():
    for use in (lambda law: law.sample(rng(), 3), lambda law: law.max_cdf(0.016, 6)):
        with pytest.raises(InputError, match=r"^n must be a multiple of 4"):
            use(paper_law(parent="zero_sum"))
    with pytest.raises(InputError, match=r"^n must be a multiple of the 4 measured ranks"):
        LAWS["empirical-steps"].sample(rng(), (2, 3))


@dataclass
class BadTable:
    text: str
    words: str


@pytest.mark.parametrize(
    "case",
    [
        BadTable("", "cannot be read as CSV"),
        BadTable("step,rank\n0,0\n", "has no column 'time'.*it has step, rank"),
        BadTable("step,rank,time\n0,0,1.0\n0,1,2.0\n1,0,1.0\n", "got 2 steps with 1 missing"),
        BadTable("step,rank,time\n0,0,1.0\n0,1,nan\n", "must hold finite numbers alone; row 2 has nan"),
        BadTable("step,rank,time\n0,0,1.0\n0,1,-1\n", "must hold durations of at least 0; row 2 has -1.0"),
        BadTable("step,rank,time\n0,0,1.0\n0,0,2.0\n", "one row per step and rank"),
        BadTable("step,rank,time\n0,0,abc\n", "must hold finite numbers alone; row 1 has 'abc'"),
        BadTable("step,rank,time\n", "got 0 steps"),
        BadTable("step,rank,time,time\n0,0,1,2\n", "columns of different names; it has 'time' twice"),
        BadTable("step,rank,time\n0,0,1.0,7\n", "cannot be read as CSV"),
        BadTable("step,rank,time\n0,0,true\n", "must hold finite numbers alone; row 1 has True"),
        BadTable("step,rank,time\n0,,1.0\n", "one row per step and rank"),
        BadTable(
            "step,rank,time\n0,0,1e308\n", "must hold times of at most 4.29e\\+09 s in units of 1 s; row 1 has 1e\\+308"
        ),
    ],
    ids=lambda case: case.words,
)
def test_bad_tables_are_refused(tmp_path, case):
    path = tmp_path / "steps.csv"
    path.write_text(case.text)
    with pytest.raises(InputError, match=case.words):
        empirical(table=str(path), columns=["time"])


def test_a_table_that_is_not_there_names_the_known_ones():
    with pytest.raises(InputError, match=r"table must be an existing file or one of stragglar.*'nope.csv' is none"):
        empirical(table="nope.csv", columns=["time"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"table": x}, "table must be an existing file or one of .*is none") for x in (None, 5, [], {}, "", "a\0b")),
        *(({"columns": x}, "columns must be a list") for x in (None, 5, [["t"]], {}, [], [None], ["t", "t"])),
        *(({key: x}, f"{key} must be text; got") for key in ("rank", "step") for x in (None, 5, ["rank"], "")),
        ({"rank": "step"}, "rank, step and columns must name different columns"),
        ({"columns": ["rank"]}, "rank, step and columns must name different columns"),
        *(({"unit": x}, "unit must be a finite number, above 0") for x in (0, -1, "ms", float("nan"))),
        *(({"skip": x}, "skip must be a whole number, at least 0") for x in (-1, 1.5, None)),
    ],
)
def test_bad_descriptions_of_a_table_are_refused(changes, words):
    with pytest.raises(InputError, match=f"^{words}"):
        empirical(**{**MEASURED, **changes})


def test_a_table_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "steps.csv.gz"
    path.write_bytes(b"\x1f\x8b broken")
    with pytest.raises(InputError, match="cannot be read as CSV"):
        empirical(table=str(path), columns=["time"])


@pytest.mark.parametrize(
    ("steps", "kept"),
    [(["8", "9", "10"], [2.0, 3.0]), (["s8", "s9", "s10"], [2.0, 3.0]), (["10", "9", "8"], [2.0, 1.0])],
)
def test_steps_are_numbers_in_order_or_names_as_the_file_has_them(tmp_path, steps, kept):
    """Not as text, where "10" comes before "8", and the wrong steps were left out."""
    path = tmp_path / "steps.csv"
    path.write_text("time,rank,t\n" + "".join(f"{step},0,{i}.0\n" for i, step in enumerate(steps, 1)))
    law = empirical(table=str(path), columns=["t"], step="time", skip=1)  # a step called time is no time
    assert isinstance(law, EmpiricalBlocks)
    assert law.steps.ravel().tolist() == kept


def test_measured_laws_own_their_values():
    mine = np.array([[1.0, 2.0], [3.0, 4.0]])
    law, values = EmpiricalBlocks(steps=mine), Empirical(values=mine[0])
    mine[...] = 100.0
    assert (law.mean, values.mean) == (2.5, 1.5)
    for kept in (law.steps, values.values, values.sorted):
        with pytest.raises(ValueError, match="read-only"):
            kept[...] = 0.0
    assert Empirical(values=[1, 2]).values.dtype == float
    assert law == law
    assert len({law, values}) == 2


@pytest.mark.parametrize(
    "values", [[], [[1.0]], 1.0, [float("nan")], [-1.0], [float("inf")], ["a"], None, [10**400], [[1.0], [1.0, 2.0]]]
)
def test_measured_values_are_times(values):
    with pytest.raises(InputError, match=r"^values must be a list of at least one time, each from 0 to .*; got"):
        Empirical(values=values)
    with pytest.raises(InputError, match=r"^steps must be a table .* of at least one time"):
        EmpiricalBlocks(steps=values if values != [[1.0]] else [1.0])
