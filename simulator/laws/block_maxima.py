"""From fitted GEV block maxima to the law of a rank: Gumbel, Frechet and bounded Weibull, by three constructions."""

from __future__ import annotations

from simulator.checks import number, one_of
from simulator.laws.base import LONGEST, Law
from simulator.laws.root import Root
from simulator.laws.spliced import Spliced
from simulator.laws.zero_sum import ZeroSum


def block_maxima(
    *, mean: float, cv: float, mu: float, sigma: float, xi: float = 0.0, m: int = 4, parent: str = "spliced"
) -> Law:
    """The law of a rank whose block maxima over m ranks follow a GEV distribution.

    Args:
        mean: mean block time a, seconds.
        cv: coefficient of variation r; the standard deviation is b = r*a.
        mu: location of the maximum of m ranks, in standard deviations above the mean.
        sigma: scale of that maximum, in standard deviations.
        xi: shape: 0 Gumbel, above 0 Frechet, below 0 bounded Weibull; from -1 to below 1. This is the sign of the
            extreme-value literature; scipy's ``genextreme`` takes c = -xi.
        m: block size of the fit.
        parent: ``spliced``, ``zero_sum`` or ``root``.

    Raises:
        InputError: for values out of range, or a combination that ``parent`` cannot meet, with the way out.

    >>> law = block_maxima(mean=16e-3, cv=0.02, mu=0.7058, sigma=0.4085)
    >>> print(law.name, f"{law.wait(512) * 1e6:.1f} us")
    gumbel 935.6 us
    """
    one_of("parent", parent, ["spliced", "zero_sum", "root"])
    mean = number("mean", mean, least=0, most=LONGEST)
    kind: dict[str, type[Spliced | ZeroSum | Root]] = {"spliced": Spliced, "zero_sum": ZeroSum, "root": Root}
    return kind[parent](centre=mean, cv=cv, mu=mu, sigma=sigma, xi=xi, m=m)
