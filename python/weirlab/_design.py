"""Designs of experiments: points that cover ranges of several keys, drawn by SciPy or SALib, and
the sensitivity of a figure to each axis."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ._results import _library
from ._scenario import Value, whole

_DIGITS = 6
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_UNIT = re.compile(r" *([A-Za-z%]+)")
_UNITS_OF_TIME = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Range:
    """The values of a key from `low` to `high`, of which a design draws some.

    >>> import weirlab as wl
    >>> wl.Range(1, 100, unit="ms", log=True).at(0.5)
    '10ms'
    """

    low: float
    high: float
    unit: str = ""
    """The text after the number: ``"ms"``, ``"Mbit/s"``. Without a unit, values are numbers."""
    log: bool = False
    """Whether the logarithm is covered evenly."""
    whole: bool = False
    """Whether values are whole numbers."""

    def at(self, part: float) -> Value:
        """The value at `part` of the range, from 0 (`low`) to 1 (`high`), with six digits.

        >>> import weirlab as wl
        >>> wl.Range(0, 8, whole=True).at(0.5)
        4
        """
        if self.log:
            number = math.exp(
                math.log(self.low) + part * (math.log(self.high) - math.log(self.low))
            )
        else:
            number = self.low + part * (self.high - self.low)
        rounded = round(number) if self.whole else float(f"{number:.{_DIGITS}g}")
        return f"{rounded:.{_DIGITS}g}{self.unit}" if self.unit else rounded


RangeLike: TypeAlias = Range | tuple[float, float] | Sequence[Value]


def latin_hypercube(
    ranges: Mapping[str, RangeLike], count: int, *, seed: int = 1
) -> list[dict[str, Value]]:
    """A Latin hypercube: each range is divided into `count` parts, and each part has one point.

    Args:
        ranges: Keys, each with a :class:`Range`, the two ends of a range, or a list of values to
            choose from.
        count: Number of points.
        seed: Seed of the design.

    >>> import weirlab as wl
    >>> points = wl.latin_hypercube({"link.bottleneck.spec.delay": wl.Range(1, 99, "ms")}, 4)
    >>> len(points)
    4
    """
    qmc = _library("scipy.stats.qmc")
    return _scaled(ranges, qmc.LatinHypercube(len(ranges), rng=seed).random(whole(count, "count")))


def sobol(ranges: Mapping[str, RangeLike], count: int, *, seed: int = 1) -> list[dict[str, Value]]:
    """A scrambled Sobol sequence, which covers the ranges evenly.

    Args:
        ranges: As for :func:`latin_hypercube`.
        count: Number of points: a power of 2 keeps the sequence balanced.
        seed: Seed of the scrambling.

    >>> import weirlab as wl
    >>> points = wl.sobol({"link.bottleneck.spec.bw": wl.Range(1, 100, "Mbit/s", log=True)}, 8)
    >>> len(points)
    8
    """
    qmc = _library("scipy.stats.qmc")
    number = whole(count, "count")
    engine = qmc.Sobol(len(ranges), rng=seed)
    # The next power of 2 is drawn and cut, since SciPy warns about other numbers.
    drawn = engine.random_base2(max(number - 1, 0).bit_length())
    return _scaled(ranges, drawn[:number])


def saltelli(
    ranges: Mapping[str, RangeLike], count: int, *, seed: int = 1
) -> list[dict[str, Value]]:
    """The points that Sobol's indices need (:meth:`Campaign.sensitivity`), drawn by SALib.

    Args:
        ranges: As for :func:`latin_hypercube`.
        count: A power of 2. The number of points is `count` times (2 + the number of ranges).
        seed: Seed of the scrambling.

    >>> import weirlab as wl
    >>> len(wl.saltelli({"a": (0, 1), "b": (0, 1)}, 8))
    32
    """
    sample = _library("SALib.sample.sobol").sample
    number = whole(count, "count")
    drawn = sample(_problem(list(ranges)), number, calc_second_order=False, seed=seed)
    return _scaled(ranges, drawn)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The influence of an axis on a figure, with half widths of 95 % confidence intervals."""

    first: float
    """The part of the variance that the axis explains alone."""
    first_half: float
    total: float
    """Sobol's total index, with the interactions with other axes; or Borgonovo's delta."""
    total_half: float


def analyse(
    points: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
    numbers: Sequence[float],
    method: str,
    seed: int,
) -> dict[str, Sensitivity]:
    """The sensitivity of numbers to each axis."""
    numpy: Any = _library("numpy")
    results = numpy.array(numbers)
    if method == "sobol":
        if len(points) % (len(axes) + 2):
            raise ValueError("sensitivity: Sobol's indices need the points of saltelli()")
        analysed: Any = _library("SALib.analyze.sobol").analyze(
            _problem(axes), results, calc_second_order=False, seed=seed
        )
        names = ("S1", "S1_conf", "ST", "ST_conf")
    elif method == "delta":
        positions = numpy.array(
            [[_number(points, axis, point) for axis in axes] for point in points]
        )
        analysed = _library("SALib.analyze.delta").analyze(
            _problem(axes), positions, results, seed=seed
        )
        # The name depends on the version of SALib.
        name = "delta" if "delta" in analysed else "delta_balanced"
        names = ("S1", "S1_conf", name, f"{name}_conf")
    else:
        raise ValueError(f"sensitivity: expected 'sobol' or 'delta', not {method!r}")
    return {
        axis: Sensitivity(*(float(analysed[name][at]) for name in names))
        for at, axis in enumerate(axes)
    }


def _problem(axes: Sequence[str]) -> dict[str, Any]:
    return {"num_vars": len(axes), "names": list(axes), "bounds": [[0.0, 1.0]] * len(axes)}


def number_of(value: object) -> float | None:
    """A value such as ``"10ms"`` as a number of its basic unit, here 0.01 s; None for a word."""
    if isinstance(value, (int, float)):
        return float(value)
    match = _NUMBER.match(str(value))
    if not match:
        return None
    unit = _UNIT.match(str(value), match.end())
    return float(match[0]) * _scale(unit[1] if unit else "")


def _scale(unit: str) -> float:
    """The number of basic units, such as seconds or bit/s, in a unit."""
    if unit in _UNITS_OF_TIME:
        return _UNITS_OF_TIME[unit]
    power = "kMGT".find(unit[:1].replace("K", "k")) + 1 if unit else 0
    return float((1024 if unit[1:2] == "i" else 1000) ** power)


def _number(points: Sequence[Mapping[str, Any]], axis: str, point: Mapping[str, Any]) -> float:
    """The position of a point on an axis: its value, or the index of its word among all words."""
    number = number_of(point.get(axis))
    if number is not None:
        return number
    words = sorted({str(other.get(axis)) for other in points})
    return float(words.index(str(point.get(axis))))


def of_table(table: Mapping[str, Any]) -> list[dict[str, Value]]:
    """The points that a campaign file describes in its table ``sample``."""
    known = {"method", "count", "seed", "axes"}
    if unknown := [key for key in table if key not in known]:
        raise ValueError(f"sample: `{unknown[0]}` is no key; allowed: {', '.join(sorted(known))}")
    ranges: dict[str, RangeLike] = {}
    for key, value in cast(Mapping[str, Any], table.get("axes", {})).items():
        ranges[key] = Range(**cast(dict[str, Any], value)) if isinstance(value, dict) else value
    methods = {"latin_hypercube": latin_hypercube, "sobol": sobol}
    name = table.get("method", "sobol")
    if name not in methods or not ranges or "count" not in table:
        raise ValueError(
            f"sample: needs method ({' or '.join(methods)}), count, and axes with ranges"
        )
    return methods[name](ranges, table["count"], seed=table.get("seed", 1))


def _scaled(ranges: Mapping[str, RangeLike], parts: Any) -> list[dict[str, Value]]:
    return [
        {key: _at(values, float(part)) for (key, values), part in zip(ranges.items(), row)}
        for row in parts
    ]


def _at(values: RangeLike, part: float) -> Value:
    if isinstance(values, Range):
        return values.at(part)
    if isinstance(values, tuple):
        low, high = cast(tuple[float, float], values)
        return Range(low, high).at(part)
    return values[min(int(part * len(values)), len(values) - 1)]
