"""Checks the arguments of a campaign (axes, points and seeds) and converts them for the compiled
part."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, cast

from . import _native, _toml
from ._results import _plain, _seeds
from ._scenario import ScenarioLike, Value, settings_of, source, whole


def axes_of(axes: Mapping[str, Sequence[Value]] | None) -> list[tuple[str, list[str]]]:
    """The axes with their values as settings, in the given order."""
    if axes is None:
        return []
    if not isinstance(axes, Mapping):
        raise TypeError(
            f"axes: expected a dictionary of lists, not {type(axes).__name__}; for a list of "
            "points, use points="
        )
    found: list[tuple[str, list[str]]] = []
    for key, values in axes.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
            raise TypeError(f"axes[{key!r}]: expected a list, not {type(values).__name__}")
        if not values:
            raise ValueError(f"axes[{key!r}]: at least one value is needed")
        found.append((key, [settings_of({key: value})[0][1] for value in values]))
    return found


def settings_of_point(point: Mapping[str, Value]) -> _native.Settings:
    """The settings of a point, in the given order."""
    return [(key, value) for key, value, _ in settings_of(point)]


def seed_argument(seeds: int | Iterable[int] | None) -> int | list[int] | None:
    """The number of seeds, or the seeds; None for those of the scenario."""
    if seeds is None:
        return None
    if isinstance(seeds, Iterable):
        # Refuses a long range before its numbers take memory.
        if isinstance(seeds, Sized):
            _check_runs(len(seeds))
        return _seeds(seeds)
    count = whole(seeds, "seeds")
    if count == 0:
        raise ValueError("seeds: at least one is needed")
    _check_runs(count)
    return count


def _check_runs(count: int) -> None:
    """Refuses more runs than a campaign may have."""
    if count > _native.MAX_RUNS:
        raise ValueError(
            f"the campaign has more than {_native.MAX_RUNS:,} runs: give fewer seeds or values, or "
            "make several campaigns of it, which may share a store"
        )


def campaign_of_function(
    function: Callable[..., ScenarioLike],
    axes: Mapping[str, Sequence[Value]] | None,
    listed: list[_native.Settings] | None,
    seeds: int | Iterable[int] | None,
    changes: Mapping[str, Value] | None,
    live: bool,
) -> _native.Campaign:
    """A campaign with scenarios that a function makes, one for each point. The settings of the
    point are the labels of the scenario."""
    grid: list[_native.Settings] = [[]]
    given = axes_of(axes)
    points: list[_native.Settings] = listed or [[]]
    _check_runs(math.prod(len(values) for _, values in given) * len(points))
    for key, values in given:
        grid = [[*point, (key, value)] for point in grid for value in values]
    made: list[tuple[_native.Source, _native.Settings]] = []
    for first in points:
        for rest in grid:
            settings = [*first, *rest]
            words = {key: value_of(value) for key, value in settings}
            made.append((source(function(**words), changes), settings))
    return _native.campaign(made, [], [], seed_argument(seeds), live)


def campaign_file_of(scenario: object) -> Path | None:
    """The path, if it is that of a campaign file and not of a scenario."""
    if not isinstance(scenario, (str, os.PathLike)) or (
        isinstance(scenario, str) and "\n" in scenario
    ):
        return None
    path = Path(cast("str | os.PathLike[str]", scenario))
    # Another kind of file could be endless.
    if path.exists() and not path.is_file():
        raise OSError(f"{path}: it is no regular file, as campaigns and scenarios must be")
    if path.is_file() and path.stat().st_size > _LARGEST_FILE:
        raise OSError(f"{path}: the file is larger than 256 MB, the limit for files")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError:
        return None
    return path if {"scenario", "scenarios"} & {*content} else None


def sampled_points(file: Path) -> list[_native.Settings] | None:
    """The points that the table `sample` of a campaign file describes; None without this table."""
    content = tomllib.loads(file.read_text(encoding="utf-8")).get("sample")
    if content is None:
        return None
    from ._design import of_table

    return [settings_of_point(point) for point in of_table(content)]


def value_of(value: str) -> Any:
    """The value of a setting: TOML, or a word."""
    try:
        return _plain(value)
    except tomllib.TOMLDecodeError:
        return value


def as_toml(value: str) -> str:
    """A setting as TOML; a word becomes a string."""
    try:
        _plain(value)
    except tomllib.TOMLDecodeError:
        return _toml.value(value, "value")
    return value


def positive_seconds(number: float, where: str) -> float:
    """The value of the argument `where`, a finite number of seconds above 0."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(f"{where}: expected seconds, not {type(number).__name__}")
    if not 0 < number < float("inf"):
        raise ValueError(f"{where}: {number} is no number of seconds above 0")
    return float(number)


# The largest campaign or scenario file, bytes.
_LARGEST_FILE = 256_000_000
