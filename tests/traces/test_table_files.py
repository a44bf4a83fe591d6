"""Tables of steps and ranks as people have them: typed columns, integers beyond 64 bits, what is no table."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simulator import Columns, empirical
from simulator.checks import InputError
from simulator.traces.table_files import moments, read_table, seconds, whole_numbers
from tests.recorded import analyse

PATH = Path("a.parquet")
START = pd.Timestamp("2026-01-31 12:00:00.123456789")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_duration_has_its_own_unit(unit: str) -> None:
    times = pd.Series(np.array([2, 3], dtype=f"m8[{unit}]"), name="t")
    assert seconds(times, 1.0, PATH)[1] == pytest.approx({"s": 3, "ms": 3e-3, "us": 3e-6, "ns": 3e-9}[unit], rel=1e-12)


@pytest.mark.parametrize("zone", [None, "Asia/Kolkata"])
@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_point_in_time_is_exact(zone: str | None, unit: str) -> None:
    moment = START.tz_localize(zone)
    found = moments(pd.Series([moment]).dt.as_unit(unit), 1e-3, PATH)  # the unit is that of numbers
    assert found.tolist() == [moment.as_unit(unit).as_unit("ns").value]


def test_decimals_are_numbers_of_the_unit() -> None:
    assert seconds(pd.Series([Decimal("1.5"), Decimal(2)], name="t"), 1e-3, PATH).tolist() == [0.0015, 0.002]


@pytest.mark.parametrize(
    ("values", "unit", "sentence"),
    [
        (pd.to_timedelta([1.0], unit="s"), 1e-3, "has a unit of its own; leave out unit = 0.001"),
        (pd.to_timedelta([1.0, None], unit="s"), 1, "must hold finite numbers alone; row 2 has NaT"),
        (pd.to_timedelta([-1.0], unit="s"), 1, "must hold durations of at least 0"),
        (pd.to_datetime(["2026-01-01"]), 1, "must hold durations; it holds points in time"),
        (pd.Series([10**400], dtype=object), 1, "must hold finite numbers alone"),
        ([1.0, "x"], 1, "must hold finite numbers alone; row 2 has 'x'"),
        ([1.0, None], 1, "must hold finite numbers alone; row 2 has nan"),
        ([True], 1, "must hold finite numbers alone; row 1 has True"),
        ([1.0, 5e9], 1, r"must hold times of at most 4.29e\+09 s in units of 1 s; row 2 has 5000000000.0"),
        ([1 + 2j], 1, "must hold finite numbers alone"),
    ],
)
def test_what_is_no_duration_is_one_sentence(values: Any, unit: float, sentence: str) -> None:
    with pytest.raises(InputError, match=rf"^table a\.parquet column 't' {sentence}"):
        seconds(pd.Series(values, name="t"), unit, PATH)


@pytest.mark.parametrize("values", [[2**70], [0.5], ["a"], [None], [True], pd.to_datetime(["2026-01-01"]), [1e30]])
def test_what_is_no_rank_is_one_sentence(values: Any) -> None:
    with pytest.raises(InputError, match=r"^table a\.parquet column 'rank' must hold whole numbers alone"):
        whole_numbers(pd.Series(values, name="rank"), PATH)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"rank,t\n0,\xff\xfe\n", "cannot be read as CSV"),
        (b"ra\xffnk,t\n0,1\n", "cannot be read as CSV"),
        (b"\x00\x01\x02", "cannot be read as CSV|has no column"),
        (b"rank,rank\n0,1\n", "must have columns of different names; it has 'rank' twice"),
        (b"rank,t\n0,1,2\n", "cannot be read as CSV"),
    ],
)
def test_what_is_no_table_is_one_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=sentence) as caught:
        read_table(tmp_path / "a.csv", ["rank", "t"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.parquet", "A.PARQUET"])
def test_a_broken_parquet_file_is_one_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PAR1" + bytes(20))
    with pytest.raises(InputError, match="cannot be read as Parquet") as caught:
        read_table(tmp_path / name, ["rank"])
    assert "\n" not in str(caught.value)


def test_lists_in_cells_are_refused(tmp_path: Path) -> None:
    pd.DataFrame({"rank": [0, 1], "t": [[1.0], [2.0, 3.0]]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"^table a\.parquet column 't' must hold single values"):
        read_table(tmp_path / "a.parquet", ["rank", "t"])


def typed(path: Path, cast: str) -> Path:
    """20 steps of 4 ranks in milliseconds, rank 2 the slowest: compute x, wait of the all-reduce max - x."""
    x = np.arange(20)[:, None] + np.array([5, 6, 9, 7])[None] + 10
    frame = pd.DataFrame({
        "step": np.repeat(np.arange(20), 4), "rank": np.tile(np.arange(4), 20),
        "compute": x.ravel(), "wait": (x.max(1, keepdims=True) - x).ravel() + 1,
    })  # fmt: skip
    for name in ("compute", "wait"):
        frame[name] = frame[name].to_numpy().astype(cast) if cast else frame[name]
    frame.to_parquet(path)
    return path


@pytest.mark.parametrize("cast", ["", "m8[ms]"])
def test_typed_and_plain_columns_give_the_same(cast: str, tmp_path: Path) -> None:
    path = typed(tmp_path / "a.parquet", cast)
    unit = 1.0 if cast else 1e-3
    columns = Columns(collectives={"all_reduce": ("wait",)}, computes={"block": ("compute",)}, unit=unit)
    found = analyse(path, table=columns)
    assert found.tax["tax_fastest"].tolist() == pytest.approx([4e-3] * 20, rel=1e-12)  # rank 2 against rank 0
    assert set(found.tax["straggler"]) == {2}
    law = empirical(table=str(path), columns=["compute"], unit=unit)
    assert law.mean == pytest.approx((10 + 9.5 + 6.75) * 1e-3, rel=1e-12)


@pytest.mark.parametrize("resample", ["steps", "values"])
def test_ranks_and_steps_in_half_precision_are_numbers(resample: str, tmp_path: Path) -> None:
    table = {"step": [0, 0, 1, 1], "rank": [0, 1, 0, 1], "t": [1.0, 2.0, 3.0, 4.0]}
    pd.DataFrame(table).astype("float16").to_parquet(tmp_path / "a.parquet")
    law = empirical(table=str(tmp_path / "a.parquet"), columns=["t"], resample=resample)
    assert law.mean == 2.5
