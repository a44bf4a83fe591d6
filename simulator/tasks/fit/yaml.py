"""The law of measured steps as a file of ``conf/compute``, with the source of every number."""

from __future__ import annotations

from textwrap import wrap

from simulator.tasks.fit.fitted import Fitted

MEANING = {
    "block_mean": "mean time, s",
    "offsets": "of each measured rank, s, added to block_mean; as many ranks have these, others draw theirs",
    "offsets_sd": "standard deviation of the normal law of other ranks' offsets, s",
    "memory": "lag-1 autocorrelation of a rank's rest",
    "common": "what all ranks of a step share, s: quantiles at equal steps of probability",
    "quantiles": "of the rest, s, at equal steps of -ln(1 - p) up to 1 - above",
    "above": "probability of more than the last quantile",
    "excess": "mean of what is above it, s",
    "shape": "of the generalised Pareto law above it",
    "steps": "measured steps, s: a row each, a column for each rank",
}


def law_yaml(found: Fitted) -> str:
    """The text of ``compute/NAME.yaml``."""
    steps, proposal = found.main.steps, found.proposal
    lines = [
        "# Times of ranks between two barriers, fitted by +experiment=fit.",
        f"# source of all: {found.origin}: {len(steps.times):,} x {steps.name!r} on {steps.n} ranks",
        *(f"# {line}" for reason in proposal.reasons for line in wrap(reason, 110)),
        f"_target_: simulator.{type(proposal.law).__name__}",
    ]
    for name, value in proposal.arguments.items():
        lines.append(f"# {MEANING[name]}. source: above")
        if name == "steps":
            lines += [f"{name}:", *(f"  - {row}" for row in value)]
        else:
            lines.append(f"{name}: {value}")
    return "\n".join([*lines, ""])
