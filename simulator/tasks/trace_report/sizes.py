"""What fewer of the measured ranks would pay."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.lazy import pd
from simulator.statistics import estimates
from simulator.traces.align import Group

SIZES = ("group", "operation", "n", "tau", "low", "high")


def tax_by_size(groups: Sequence[Group]) -> pd.DataFrame:
    """One row per process group, operation and n = 2, 4, 8, ... up to its ranks: what n of these ranks would pay.

    ``tau`` is the mean wait of a rank, seconds, over all subsets of n ranks, as in a fit (``simulator.statistics``),
    and ``low`` and ``high`` its 95 % interval; of all ranks it is ``tax_mean_mean`` of ``tax_summary.csv``.
    """
    rows = []
    for group in groups:
        ranks = len(group.ranks)
        sizes = sorted({*(2**i for i in range(1, ranks.bit_length())), ranks})
        for verdict in group.verdicts:
            duration = group.duration[group.operation == verdict.operation] / 1e9
            if len(duration):
                found = estimates(-duration, sizes)  # the last to arrive has the shortest kernel
                rows += [(group.name, verdict.operation, own.n, own.tau, own.low, own.high) for own in found]
    return pd.DataFrame(rows, columns=list(SIZES))
