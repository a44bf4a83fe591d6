"""Clocks of ranks: of a common one no offset and no drift is found, and one that is off or drifts is found."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.traces.match import Clock, Kernels, pair

TOLERANCE = 100_000  # ns


def _ranks(seed: int, n: int, *, noise: float, lost: int, periodic: bool, numbered: bool, rate: float = 0.0,
           offset: int = 0, gap: int = 2_000_000) -> tuple[Kernels, Kernels]:  # fmt: skip
    """Two ranks that leave ``n`` collectives together but for noise (ns), each without ``lost`` of them."""
    rng = np.random.default_rng(seed)
    end = np.cumsum(np.full(n, gap) if periodic else rng.integers(gap // 2, 3 * gap // 2, n)) + 10**12
    found = []
    for ahead in (0, offset + rate * (end - end[0])):
        own = end + np.rint(rng.normal(0, noise, n) + ahead).astype(np.int64)
        kept = np.sort(rng.permutation(n)[lost:])
        number = kept if numbered else np.zeros(0, np.int64)
        found.append(Kernels(own[kept], np.zeros(len(kept), np.int64), number))
    return found[0], found[1]


@pytest.mark.parametrize("numbered", [False, True], ids=["unnumbered", "numbered"])
@pytest.mark.parametrize("periodic", [False, True], ids=["irregular", "periodic"])
@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("n", [8, 12, 20])
def test_no_clock_is_set_right_that_is_common(n: int, lost: int, periodic: bool, numbered: bool) -> None:
    """Ends differ by 14 us (a standard deviation), a seventh of the tolerance: some are a third of it apart."""
    clocks = [
        pair(*_ranks(seed, n, noise=10e3, lost=lost, periodic=periodic, numbered=numbered), TOLERANCE).clock
        for seed in range(12)
    ]
    assert [clock for clock in clocks if clock != Clock()] == []


@pytest.mark.parametrize("numbered", [False, True], ids=["unnumbered", "numbered"])
def test_ends_far_apart_are_seldom_taken_for_a_clock(numbered: bool) -> None:
    """Ends differ by 57 us, so that one in thirteen is beyond the tolerance, of a job that repeats itself."""
    clocks = [pair(*_ranks(seed, 16, noise=40e3, lost=0, periodic=True, numbered=numbered), TOLERANCE).clock
              for seed in range(40)]  # fmt: skip
    assert sum(clock != Clock() for clock in clocks) <= 1


@pytest.mark.parametrize("numbered", [False, True], ids=["unnumbered", "numbered"])
@pytest.mark.parametrize("n", [8, 12, 20])
def test_a_clock_that_is_off_or_drifts_is_found(n: int, numbered: bool) -> None:
    """By 700 us; and by 50 ppm of collectives 1 s apart, which is 50 us from one to the next."""
    for seed in range(10):
        alike = {"noise": 2e3, "lost": 0, "periodic": False, "numbered": numbered}
        off = pair(*_ranks(seed, n, offset=700_000, **alike), TOLERANCE)  # type: ignore[arg-type]
        assert (off.place == np.arange(n)).all()
        assert abs(off.clock.offset - 700_000) < 5e3
        assert off.clock.rate == 0
        drifting = pair(*_ranks(seed, n, rate=50e-6, gap=10**9, **alike), TOLERANCE)  # type: ignore[arg-type]
        assert (drifting.place == np.arange(n)).all()
        assert drifting.clock.rate == pytest.approx(50e-6, rel=0.05)
