"""Estimates a figure at a point from its runs, and judges the difference between two points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from . import _native

# The largest probability of a wrong verdict, regardless of when the comparison stops.
_ERROR = 0.05
# The number of pairs at which the bounds of a comparison are tightest.
_TUNED = 30


@dataclass(frozen=True, slots=True)
class Figure:
    """A value that each run has: a column of a table, in the row of a flow or link.

    >>> import weirlab as wl
    >>> wl.Figure("flows", "video", "delay_p99_ns").column
    'delay_p99_ns'
    """

    table: str
    """``"flows"`` or ``"links"``."""
    name: str
    """The flow or link."""
    column: str


@dataclass(frozen=True, slots=True)
class Estimated:
    """The mean of a figure at a point."""

    point: int
    runs: int
    mean: float
    half_width: float | None
    """Half the width of the 95 % confidence interval of the mean; None with one run."""

    def is_within(self, relative: float | None, absolute: float | None) -> bool:
        """Whether the half width is at most a part of the mean, or an absolute bound.

        Raises:
            ValueError: Neither bound is given.

        >>> import weirlab as wl
        >>> wl.Estimated(point=0, runs=5, mean=10.0, half_width=0.3).is_within(0.05, None)
        True
        """
        if relative is None and absolute is None:
            raise ValueError("is_within: give a relative or an absolute bound")
        if self.half_width is None:
            return False
        bounds = [
            *([] if relative is None else [relative * abs(self.mean)]),
            *([] if absolute is None else [absolute]),
        ]
        return self.half_width <= max(bounds)


@dataclass(frozen=True, slots=True)
class Compared:
    """The difference of a figure between two points, over pairs of runs with the same seed."""

    pairs: int
    difference: float
    """The mean of the second point less that of the first."""
    half_width: float
    """The true difference is at most this far from `difference`, with 95 % confidence, although the
    number of pairs depends on the results."""
    verdict: str
    """What the second point is beside the first: ``"less"``, ``"more"`` or ``"equal"`` (within the
    tolerance); ``"open"`` while this is not clear."""


def estimate(point: int, values: Sequence[float | None]) -> Estimated:
    """The mean of the values that exist."""
    known = [value for value in values if value is not None]
    if not known:
        return Estimated(point, 0, math.nan, None)
    mean, half = _native.estimate(known)
    return Estimated(point, len(known), mean, half)


def judge(differences: Sequence[float], tolerance: float | None) -> Compared:
    """Judges the pairs so far.

    The bounds hold for all numbers of pairs together. They are an asymptotic confidence sequence
    from a mixture of normal distributions (Robbins 1970; Waudby-Smith and others 2024). An ordinary
    interval that is checked repeatedly would exclude the true value in more than 5 % of the
    comparisons.
    """
    n = len(differences)
    mean = sum(differences) / n
    spread = math.sqrt(sum((value - mean) ** 2 for value in differences) / max(n - 1, 1))
    weight = (-2 * math.log(_ERROR) + math.log(-2 * math.log(_ERROR) + 1)) / _TUNED
    scale = n * weight + 1
    half = spread * math.sqrt(2 * scale / (n * n * weight) * math.log(math.sqrt(scale) / _ERROR))
    verdict = "open"
    if mean - half > 0:
        verdict = "more"
    elif mean + half < 0:
        verdict = "less"
    elif tolerance is not None and abs(mean) + half <= tolerance:
        verdict = "equal"
    return Compared(n, mean, half, verdict)
