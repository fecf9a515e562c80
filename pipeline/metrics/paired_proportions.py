"""The 95 % interval of a difference of two pass rates on the same items (Tango 1998, Statistics in Medicine 17:891).

`lost` is the share of items that the baseline passed and the variant did not, `won` the other way round; the
difference is won - lost. scipy is imported inside the functions: params.py and the command line reach this module.
"""

from __future__ import annotations

import math

_STEP = 1e-9
"""From the mean inwards to where the search begins: at the mean itself the variance is 0 where nothing differed."""


def null_variance(lost: float, won: float, difference: float) -> float:
    """Variance of one item's change, -1, 0 or 1, if the true difference were the given one.

    With the most likely shares under that difference (Tango 1998, appendix): the lost share q is the larger root of
    2q² + Bq + C = 0, B = (2 - won + lost)·difference - won - lost, C = -lost·difference·(1 - difference), and the
    variance is 2q + difference·(1 - difference). Unlike the one observed it is above 0 where nothing differed.
    """
    b = (2 - won + lost) * difference - won - lost
    c = -lost * difference * (1 - difference)
    root = (math.sqrt(max(0.0, b * b - 8 * c)) - b) / 4
    return max(0.0, 2 * root + difference * (1 - difference))


def score_interval(lost: float, won: float, n: float, quantile: float) -> tuple[float, float]:
    """The differences D that the score test does not reject: |won - lost - D| ≤ quantile × √(null variance at D / n).

    `quantile` is that of the normal distribution, or of Student's t. n may be an effective number of items.
    """
    from scipy.optimize import brentq

    mean = won - lost

    def rejected(difference: float) -> float:
        return (mean - difference) ** 2 - quantile**2 * null_variance(lost, won, difference) / n

    def end(outermost: float) -> float:
        """Where the test begins to reject, on the way from the mean to -1 or 1."""
        inside = mean + math.copysign(min(_STEP, abs(outermost - mean)), outermost)
        return outermost if inside == outermost else float(brentq(rejected, inside, outermost))

    return end(-1.0), end(1.0)
