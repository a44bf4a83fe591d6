"""What the tests share: the paper's laws and job, and small references."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy

from simulator import Simulate
from simulator.command import compose
from simulator.command.build import build
from simulator.laws import Law, block_maxima
from simulator.tasks.studies.base import Study
from simulator.workload.training import TensorParallel
from topologies import NVSwitch

collect_ignore = ["examples"]  # run by test_examples.py, from a folder of their own


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Benchmarks are run one after another, by this process."""
    return 0 if config.option.markexpr == "benchmark" else None


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``sampled(k)``: of the cases of a test, the first of every ``k`` is run every day, the others are slow."""
    seen: Counter[str] = Counter()
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            (every,) = mark.args
            test = item.nodeid.partition("[")[0]
            if seen[test] % every:
                item.add_marker(pytest.mark.slow)
            seen[test] += 1


PAPER: dict[str, dict[str, Any]] = {
    "gumbel": {"mean": 16e-3, "cv": 0.02, "mu": 0.7058, "sigma": 0.4085, "xi": 0.0},
    "frechet": {"mean": 16e-3, "cv": 0.02, "mu": 0.67313, "sigma": 0.38128, "xi": 0.15},
}


def paper_law(name: str = "gumbel", parent: str = "spliced", **changes: Any) -> Law:
    """The law that the paper fits to Llama-3 70B on H200."""
    return block_maxima(**{**PAPER[name], "parent": parent, **changes})


def paper_job(**changes: Any) -> Simulate:
    """The paper's job at n = 8, with ``changes``."""
    settings: dict[str, Any] = {
        "n": 8, "topology": NVSwitch(alpha=5e-6, bandwidth=450e9), "compute": paper_law(),
        "workload": TensorParallel(layers=80, bytes=2**28), "plots": False,
    }  # fmt: skip
    return Simulate(**{**settings, **changes})


@pytest.fixture
def job() -> Simulate:
    return paper_job()


def scipy_rng(seed: int) -> dict[str, np.random.Generator]:
    """A generator by the name that this SciPy has for it."""
    old = tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 15)
    return {"random_state" if old else "rng": np.random.default_rng(seed)}


def built(config_dir: Path | None, *overrides: str) -> Any:
    """What the command line constructs for these overrides: an experiment or another task."""
    loader = compose.open_loader(str(config_dir) if config_dir else None)
    config = loader.load_configuration(compose.CONFIG, list(overrides), compose.RunMode.RUN)
    job = compose.current_job(compose.enter_run(config))
    return build(job.tree, choices=job.choices)


def study(name: str, *overrides: str) -> Study:
    """The study that ``+experiment=name`` and the overrides describe."""
    found = built(None, f"+experiment={name}", *overrides)
    assert isinstance(found, Study)
    return found
