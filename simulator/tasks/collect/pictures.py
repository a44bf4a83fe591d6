"""Curves over what was swept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.lazy import pd
from simulator.pictures.panels import Panel, Picture
from simulator.tasks.collect.table import has_results, of_simulations, swept

HOCKNEY = "without the tax (Hockney)"


def sweep_pictures(table: pd.DataFrame) -> list[Picture]:
    """Tax, iteration time, optimal bandwidth and elasticity over the swept parameter with the most values."""
    if not of_simulations(table):
        return []
    table = table[has_results(table)]
    if len(table) < 2:
        return []
    parameters = swept(table)
    numeric = [name for name in parameters if pd.api.types.is_numeric_dtype(table[name]) and name != "seed"]
    if not numeric:
        return []
    x = max(numeric, key=lambda name: (table[name].nunique(), name == "n"))
    tied = [name for name in parameters if name != x and not _follows(table, name, x)]
    labels = [", ".join(str(value) for value in row if not pd.isna(value)) for row in table[tied].to_numpy(object)]
    series = pd.Series(labels, index=table.index)
    log = bool((table[x] > 0).all() and table[x].max() >= 8 * table[x].min())

    def panel(title: str, unit: str, scale: float, styles: Mapping[str, tuple[str, str]], log_y: bool = False) -> Panel:
        curves = [
            pd.DataFrame({
                "series": series, "style": style, "x": table[x], "y": table[column] / scale,
                "error": 3 * table[f"{column}_se"] / scale if f"{column}_se" in table else 0.0,
            }).dropna(subset="y").sort_values(["series", "x"], kind="stable")
            for style, (column, _) in styles.items()
        ]  # fmt: skip
        meanings = {style: meaning for style, (_, meaning) in styles.items()}
        return Panel(table=pd.concat(curves), x=x, y=unit, title=title, log_x=log, log_y=log_y, styles=meanings)

    table = table.assign(**_models(table))
    simulated = "simulated, ± 3 standard errors"
    panels = [
        panel("synchronization tax", "µs", 1e-6,
              {"points": ("wait_mean", simulated), "line": ("wait_model", "closed form")}),
        panel("iteration time", "s", 1.0,
              {"points": ("iteration_time", simulated), "line": ("iteration_time_model", "closed form")}),
        panel("optimal bandwidth at elasticity -0.5", "GB/s", 1e9,
              {"points": ("bandwidth_optimal", simulated), "line": ("bandwidth_optimal_model", "closed form"),
               "dashed": ("bandwidth_optimal_hockney", HOCKNEY)}, True),
        panel("elasticity to bandwidth", "elasticity", 1.0,
              {"points": ("elasticity", simulated), "line": ("elasticity_model", "closed form")}),
    ]  # fmt: skip
    low, high = table["wait_share"].min(), table["wait_share"].max()
    return [
        Picture(
            name="sweep", panels=panels, columns=2, title=f"Waiting takes {low:.0%} to {high:.0%} of communication",
            subtitle=f"{len(table)} points over {', '.join(parameters)}",
        )
    ]  # fmt: skip


def _models(table: pd.DataFrame) -> dict[str, pd.Series[Any]]:
    """Closed forms that the summary lacks: B* and elasticity with the model's tax in place of the simulated one."""
    floor, model = table["wait_mean"] + table["latency"], table["wait_model"] + table["latency"]
    return {
        "bandwidth_optimal_model": table["bandwidth_optimal"] * floor / model,
        "elasticity_model": -table["transfer"] / (model + table["transfer"]),
    }


def _follows(table: pd.DataFrame, name: str, x: str) -> bool:
    """Whether a column is only a function of x (strong scaling's bytes, say), or repeats another name of it."""
    return bool(table.groupby(x)[name].nunique(dropna=False).max() == 1)
