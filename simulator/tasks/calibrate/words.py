"""A calibration in words: the finding, and the machine that is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from simulator.lazy import pd
from simulator.task import FOLDER
from simulator.tasks.calibrate.calibration import Calibration
from simulator.tasks.calibrate.hockney import held_out_error, relative_errors
from simulator.text import duration, percent, rate, short, size, within


def text_of(found: Calibration) -> str:
    """The finding, in lines of at most 80 characters."""
    m, line, fits = found.measured, found.line, found.fits()
    whole, segments = fits.iloc[0], fits.iloc[1:]
    held_out = held_out_error(m.sizes, m.times, 1)
    lines = [
        f"{m.kind.value} over {m.ranks} ranks, {len(m.sizes)} sizes from {size(line.first)} to {size(line.last)}",
        f"from {found.origin}",
        *([short(f"measured on {m.hardware}", 80)] if m.hardware else []),
        "",
        "two parameters: T = a + S/b, relative least squares, ± standard error",
        f"  a       {duration(line.latency)}{within(line.latency_se, duration)}",
        f"  b       {rate(1 / line.slope)}{within(line.slope_se / line.slope**2, rate)}: bus bandwidth "
        f"{rate(whole['bus_bandwidth'])} for large messages",
        f"  alpha   {duration(found.alpha)}{within(whole['alpha_se'], duration)} per round; {_assumed(found)}",
        f"  B       {rate(found.bandwidth)}{within(whole['bandwidth_se'], rate)} per rank and direction",
        f"  error   {errors_text(whole)}{_left_out(held_out)}",
        *_others(found),
    ]
    if len(segments):
        lines += ["", *_segments(found, segments)]
    if m.notes:
        lines += ["", *(f"Note: {note}." for note in m.notes)]
    use = f"  python -m simulator --config-dir {FOLDER} machine={found.machine_name}"
    return "\n".join([*lines, "", "The two-parameter fit is a machine now:", use])


def _assumed(found: Calibration) -> str:
    p, q = found.algorithm.rounds, found.algorithm.volume
    return f"{found.algorithm.name}: p = {p:g}, q = {q:.4g}"


def _others(found: Calibration) -> list[str]:
    """What the same latency would be per round of the other algorithms that the topology offers."""
    return [
        f"  as {other.name} (p = {other.rounds:g}, q = {other.volume:.4g}): alpha "
        f"{duration(found.line.latency / other.rounds)}, B {rate(other.volume / found.line.slope)}"
        for other in found.others
        if other != found.algorithm
    ]


def _segments(found: Calibration, table: pd.DataFrame) -> list[str]:
    m = found.measured
    errors = np.abs(relative_errors(found.model, m.sizes, m.times))
    whole = {"median_error": np.median(errors), "largest_error": errors.max()}
    held_out = held_out_error(m.sizes, m.times, len(table))
    rows = [
        f"  {size(row.first_bytes):>9} to {size(row.last_bytes):<9}{row.points:>5}{duration(row.latency):>12}"
        f"{rate(row.bandwidth) if isfinite(row.bandwidth) else '-':>14}{percent(row.median_error):>10}"
        for row in table.itertuples()
    ]
    return [
        f"{len(table)} segments: {errors_text(whole)}{_left_out(held_out)}",
        f"  {'sizes':<22}{'':>5}{'a':>12}{'B':>14}{'median':>10}",
        *rows,
    ]


def machine_yaml(found: Calibration) -> str:
    """The YAML of a machine: alpha and B of the two-parameter fit, and where they are from."""
    m, whole = found.measured, found.fits().iloc[0]
    alpha, bandwidth = (within(whole[name], "{:.1g}".format, ", ± ") for name in ("alpha_se", "bandwidth_se"))
    hardware = f" on {m.hardware}" if m.hardware else ""
    sizes = f"{len(m.sizes)} sizes from {size(found.line.first)} to {size(found.line.last)}"
    return f"""\
# A measured link, as +experiment=calibrate fitted it.
# source: {found.origin}: {m.kind.value} over {m.ranks} ranks{hardware}, {sizes}
# source: relative least squares of p*alpha + q*S/B, {_assumed(found)} ({found.topology});
# error {errors_text(whole)}
{"".join(f"# note: {note}{chr(10)}" for note in m.notes)}_target_: simulator.Machine
name: {found.machine_name}
alpha: {found.alpha:.9g} # s. source: the fit above{alpha}
bandwidth: {found.bandwidth:.9g} # bytes/s per direction. source: the fit above{bandwidth}
"""


def errors_text(fit: Mapping[str, Any] | pd.Series[Any]) -> str:
    return f"{percent(fit['median_error'])} in the median, {percent(fit['largest_error'])} at most"


def _left_out(error: float) -> str:
    return f"; {percent(error)} where left out of the fit" if isfinite(error) else ""
