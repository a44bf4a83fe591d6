"""Simulation against theory: the mean wait, its spread and its distribution, at every size the paper plots."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from simulator.simulation.results import standard_error
from simulator.simulation.runner import run, trace
from simulator.workload.training import TensorParallel
from tests.conftest import PAPER, paper_job, paper_law

pytestmark = pytest.mark.slow

SIZES = [4, 8, 72, 128, 512, 4096]
BARRIERS = 320  # per iteration


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("parent", ["spliced", "zero_sum", "root"])
@pytest.mark.parametrize("name", PAPER)
def test_the_mean_wait_is_the_laws_closed_form(name, parent, n):
    """Within 3 standard errors, each below 0.5 % of tau; the seed is fixed."""
    iterations = 200 if n < 128 and name == "frechet" else 50
    summary = run(paper_job(n=n, compute=paper_law(name, parent), iterations=iterations, seed=11)).summary.iloc[0]
    assert summary.wait_mean_se < 0.005 * summary.wait_model
    assert abs(summary.wait_mean - summary.wait_model) < 3 * summary.wait_mean_se
    assert summary.iteration_time == pytest.approx(summary.iteration_time_model, abs=4 * summary.iteration_time_se)


@pytest.mark.parametrize(("n", "spread"), [(4, 0.500), (8, 0.387), (128, 0.218), (4096, 0.138)])
def test_the_monte_carlo_error_is_the_one_to_expect(n, spread):
    """Relative standard error of the mean wait over R barriers: spread/sqrt(R)."""
    waits = run(paper_job(n=n, iterations=20)).collectives.wait_mean.to_numpy()
    relative = standard_error(waits) * sqrt(len(waits)) / waits.mean()
    assert relative == pytest.approx(spread, rel=0.03)


def test_the_spread_of_an_iteration():
    """L barriers: sd sqrt(L)*b*sigma*pi/sqrt(6)."""
    times = run(paper_job(n=512, iterations=400, workload=TensorParallel(layers=10, bytes=2**28))).iterations
    expected = sqrt(40) * 320e-6 * 0.4085 * pi / sqrt(6)
    assert times.iteration_time.std() == pytest.approx(expected, rel=4 / sqrt(2 * 400))


def waits_of_one_rank(law, n: int, iterations: int) -> np.ndarray:
    job = paper_job(n=n, compute=law, iterations=iterations, workload=TensorParallel(layers=1, bytes=0))
    parts = [
        np.broadcast_to(record.start - record.ready, (iterations, n))[:, 0]
        for record in trace(job, range(iterations))
        if record.operation % 2
    ]
    return np.concatenate(parts)


@pytest.mark.parametrize("n", [2, 8, 64])
def test_the_wait_of_one_rank_under_the_root_law_is_logistic(n):
    """The gap to the largest of n - 1 others is logistic about ln(n - 1), cut off at 0: atom 1/n there."""
    waits = waits_of_one_rank(paper_law(parent="root"), n, 4000) / (320e-6 * 0.4085)
    assert np.mean(waits == 0) == pytest.approx(1 / n, abs=4 * sqrt((1 - 1 / n) / n / len(waits)))
    cut = stats.logistic(loc=np.log(n - 1)).cdf
    positive = waits[waits > 0]
    assert stats.kstest(positive, lambda w: (cut(w) - 1 / n) / (1 - 1 / n)).pvalue > 0.001
    assert np.median(waits_of_one_rank(paper_law(parent="root"), 64, 4000)) / (320e-6 * 0.4085) == pytest.approx(
        np.log(63), abs=0.1
    )


def test_the_wait_of_one_rank_of_any_independent_law():
    """P(W <= w) = integral of F(x + w)^(n - 1) dF(x)."""
    law, n = paper_law("frechet"), 8
    waits = waits_of_one_rank(law, n, 4000)
    for w in (0.0, 100e-6, 400e-6, 1e-3):
        expected, _ = quad(lambda p, w=w: float(law.cdf(law.ppf(p) + w)) ** (n - 1), 0, 1, limit=200)
        assert np.mean(waits <= w) == pytest.approx(expected, abs=4 * sqrt(0.25 / len(waits)))


@pytest.mark.slow
def test_an_error_of_few_values_is_not_told(capsys, monkeypatch, tmp_path):
    """Neither printed nor drawn nor in a table; of one iteration its barriers are the values."""
    from simulator.command.app import main

    monkeypatch.chdir(tmp_path)
    for iterations, told in ((1, True), (2, False), (7, False), (8, True)):
        few = ["workload.layers=2", f"iterations={iterations}", "plots=false", f"hydra.run.dir=out{iterations}"]
        assert main(few) == 0
        line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("tax of the mean rank"))
        assert (len(line.split()) == 10) is told  # tax of the mean rank 391.9 [1.7] 27.1 % 391.9
    row = run(paper_job(iterations=7)).summary.iloc[0]
    assert np.isnan(row.wait_mean_se)
    assert np.isnan(row.iteration_time_se)
