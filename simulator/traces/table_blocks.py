"""Compute blocks of a table of operations, and what was between its collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simulator.lazy import pd
from simulator.traces.blocks import COLUMNS


def blocks_of(
    table: pd.DataFrame, computes: pd.Series, ranks: Mapping[str, Sequence[int]], timed: bool
) -> tuple[pd.DataFrame, dict[str, int]]:
    """The compute blocks in the columns of ``blocks.COLUMNS``, seconds; and of each group how many are left out.

    Args:
        table: rows of group, rank, step, what, key, label and duration, and of start and end if they are ``timed``, ns.
        computes: which rows are compute; the others are of collectives.
        ranks: of each group. A block that lacks a row of one of these is left out.
        timed: whether what was between collectives can be told.
    """
    whole = _on_every_rank(table, ranks, timed)
    gap = _gaps(table, computes) if timed else np.nan
    rows = table.assign(gap=gap)[computes & whole]
    parts = [_summed(own) for _, own in rows.groupby("group")]
    lost = table[computes & ~whole].drop_duplicates(["group", "what", "key"])["group"].value_counts().to_dict()
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS)), lost


def _summed(rows: pd.DataFrame) -> pd.DataFrame:
    """Operations that add up to one block (forward and backward) count once for each instance and rank."""
    keys = ["group", "what", "key", "label", "rank"]
    summed = rows.groupby(keys, sort=False)[["duration", "gap"]].sum(min_count=1).reset_index()
    return pd.DataFrame({
        "group": summed["group"], "block": summed["what"], "instance": pd.factorize(summed["key"])[0],
        "collective": summed["label"], "rank": summed["rank"],
        "gap": summed["gap"] / 1e9, "busy": summed["duration"] / 1e9,
        "kernels": np.nan, "gemm": np.nan, "aligned": True,
    })  # fmt: skip


def _on_every_rank(table: pd.DataFrame, ranks: Mapping[str, Sequence[int]], timed: bool) -> pd.Series:
    """Which rows are of operations that every rank of their group has; with start times, none of their step and the
    one before may lack one, since it would count as a gap."""
    on = table.groupby(["group", "what", "key"])["rank"].transform("nunique")
    whole = on == table["group"].map({name: len(own) for name, own in ranks.items()})
    if not timed:
        return whole
    of_step = whole.groupby([table["group"], table["step"]]).all()
    before = of_step.groupby(level="group").shift(fill_value=True)
    rows = pd.MultiIndex.from_frame(table[["group", "step"]])
    return pd.Series((of_step & before).reindex(rows).to_numpy(bool), index=table.index)


def _gaps(table: pd.DataFrame, computes: pd.Series) -> pd.Series:
    """The time between collectives that goes to each compute row of a table with start times, ns.

    From the end of all rows before it on its rank (the first: from its own start) to its own end, or to the start of
    the collective that follows it: the rows before a collective add up to the whole time since the one before. What
    overlaps with earlier rows counts once. Where times begin anew with each step, each step stands alone.
    """
    firsts = table.groupby(["group", "rank", "step"])["start"].min()
    anew = firsts.groupby(level=["group", "rank"]).diff().le(0).any()
    keys = ["group", "rank", *["step"] * bool(anew)]
    first = table["start"].min()
    order = table.assign(compute=computes, start=table["start"] - first, end=table["end"] - first)
    order = order.sort_values([*keys, "start", "end"], kind="stable")
    order["reached"] = order.groupby(keys)["end"].cummax()
    of_rank = order.groupby(keys)
    follows = of_rank["start"].shift(-1).where(~of_rank["compute"].shift(-1, fill_value=True))
    return order["reached"].combine(follows, np.fmax) - of_rank["reached"].shift().fillna(order["start"])
