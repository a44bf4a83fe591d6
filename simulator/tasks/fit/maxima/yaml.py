"""A fitted law as a file of ``conf/compute``, with the source of every number."""

from __future__ import annotations

from typing import Any

from simulator.tasks.fit.maxima.fitted import MaximaFit

UNITS = {
    "mean": "s",
    "cv": "standard deviation / mean",
    "mu": "in standard deviations",
    "sigma": "in standard deviations",
}
NONE = {"common": 0.0, "node": 0.0, "rank": 0.0, "offsets": "null", "spreads": "null", "memory": 0.0}
FIXED = {"m": "ranks of one maximum", "parent": "how block maxima become times of single ranks"}
MEANING = {
    "common": "share that all ranks of a block have in common", "node": "share that the ranks of a node have in common",
    "rank": "share that a rank keeps through the run", "offsets": "of each rank, in standard deviations of all times",
    "ranks_per_node": "consecutive", "spreads": "of each rank's own noise, relative",
    "memory": "correlation of that noise from one block to the next",
}  # fmt: skip


def law_yaml(found: MaximaFit) -> str:
    """The text of ``compute/NAME.yaml``."""
    sample, proposal = found.sample, found.proposal
    blocks = (
        f"{sample.instances:,} blocks of {len(sample.kinds)} kind{'s' * (len(sample.kinds) > 1)} on {sample.n} ranks"
    )
    lines = [
        "# Compute times fitted to a trace by +experiment=fit.",
        f"# source: {found.origin}: {blocks}",
        f"# source: {len(found.z):,} maxima of m = {sample.m} ranks, {found.family} law of maximum likelihood",
        *(f"# {line}" for reason in proposal.reasons for line in _wrapped(reason)),
    ]
    estimates = _intervals(found)
    base = {key: (value, estimates.get(key, "the fit above")) for key, value in proposal.base.items()}
    target = f"simulator.{proposal.kind.__name__}"
    if not proposal.dependence:
        return "\n".join([*lines, f"_target_: {target}", *_entries(base), ""])
    found_parts = {key: (value, "the fit above") for key, value in proposal.dependence.items()}
    dependence = {**{key: (value, "nothing beyond chance") for key, value in NONE.items()}, **found_parts}
    lines += ["_target_: simulator.dependent", "law:", f"  _target_: {target}"]
    return "\n".join([*lines, *(f"  {line}" for line in _entries(base)), *_entries(dependence), ""])


def _intervals(found: MaximaFit) -> dict[str, str]:
    """What is said of the source of each parameter: its interval."""
    table = found.parameters
    rows = table[table["family"].isin([found.family, "any"])].set_index("parameter")
    said = {
        str(name): f"the fit above, {found.level * 100:g} % interval {row['low']:.4g} to {row['high']:.4g}"
        for name, row in rows.iterrows() if row["low"] == row["low"]
    }  # fmt: skip
    if found.proposal.dependence or "mu" not in found.proposal.base:
        said.pop("cv", None)  # of all times, and not of ranks within a block
    return said | {
        "xi": said.get("xi", "fixed at 0, the Gumbel law"),
        "parent": "chosen for the fit",
        "m": "the fit above",
    }


def _entries(values: dict[str, tuple[Any, str]]) -> list[str]:
    about = UNITS | FIXED | MEANING
    entries = []
    for key, (value, source) in values.items():
        what = f"{about[key]}. " if key in about else ""
        entries.append(f"{key}: {value} # {what}source: {source}")
    return entries


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, 110)
