"""Claims: a number that somebody printed, ours beside it, and whether they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan

from simulator.lazy import pd


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One number that somebody printed, and ours beside it.

    Attributes:
        id: short name.
        text: what is claimed, for people.
        reported: the printed value; NaN where there is none.
        tolerance: how far ours may be from it, in its unit.
        unit: unit of all values.
        closed_form: ours by formula.
        simulated: ours with simulated taxes; NaN where nothing is simulated.
        error: standard error of ``simulated``.
        upper_bound: the claim is that ours is at most ``reported``.
        note: what a reader must know.
    """

    id: str
    text: str
    reported: float = nan
    tolerance: float = inf
    unit: str = ""
    closed_form: float = nan
    simulated: float = nan
    error: float = nan
    upper_bound: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        """``yes``, ``no``, or ``no reference``.

        The closed form must be within the tolerance of what is reported, and the simulation within the tolerance plus 3
        standard errors.
        """
        if not isfinite(self.reported) or not isfinite(self.tolerance):
            return "no reference"
        slack = 3 * self.error if isfinite(self.error) else 0.0
        close = [
            value <= self.reported + margin if self.upper_bound else abs(value - self.reported) <= margin
            for value, margin in ((self.closed_form, self.tolerance), (self.simulated, self.tolerance + slack))
            if isfinite(value)
        ]
        return "yes" if close and all(close) else "no"


def met(claims: Sequence[Claim]) -> bool:
    """Whether no claim is contradicted."""
    return all(claim.verdict != "no" for claim in claims)


def claims_table(claims: Sequence[Claim]) -> pd.DataFrame:
    """One row per claim: its fields and the verdict."""
    rows = [{**{name: getattr(claim, name) for name in Claim.__dataclass_fields__}, "within": claim.verdict}
            for claim in claims]  # fmt: skip
    return pd.DataFrame(rows, columns=[*Claim.__dataclass_fields__, "within"])


def claims_text(claims: Sequence[Claim]) -> str:
    """The claims as a table of plain text, at most 100 columns wide."""
    lines = [f"{'claim':<48}{'reported':>10}{'formula':>10}{'simulated':>11}{'±':>9}  within"]
    for claim in claims:
        values = [_short(v) for v in (claim.reported, claim.closed_form, claim.simulated)]
        values.append(f"{claim.error:.2g}" if isfinite(claim.error) else "-")
        text = f"{claim.text}, {claim.unit}" if claim.unit else claim.text
        lines.append(f"{text:<48}{values[0]:>10}{values[1]:>10}{values[2]:>11}{values[3]:>9}  {claim.verdict}")
        if claim.note:
            lines.append(f"    {claim.note}")
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:.4g}" if isfinite(value) else "-"
