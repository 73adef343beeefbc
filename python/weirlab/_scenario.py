"""Scenarios built in Python, and the other forms in which functions accept a scenario."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Self, SupportsIndex, TypeAlias, cast

from . import _native, _toml
from ._algorithms import Algorithm, is_algorithm, name_of
from ._errors import Diagnostic, ScenarioWarning, to_diagnostic

Time: TypeAlias = str | int | float | timedelta
"""A time: a text with its unit such as ``"20ms"``, seconds, or a timedelta."""

Value: TypeAlias = (
    str
    | int
    | float
    | bool
    | timedelta
    | Sequence[str]
    | Sequence[int]
    | Sequence[float]
    | Algorithm
)
"""The value of a key. A scheduler, AQM or congestion control in Python is used by its name."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The checker's result for a scenario without errors."""

    summary: str
    """What the scenario contains, in words."""
    diagnostics: tuple[Diagnostic, ...]
    """Warnings and notes."""


class Scenario:
    """A network, its traffic and what is measured, for :func:`simulate`.

    Each method adds something and returns the scenario. The methods check the types of their
    arguments, and that numbers are finite and times not negative. :meth:`check` and
    :func:`simulate` check the rest.

    Args:
        name: The name that results show.
        duration: Simulated time from start to end, warm-up included.
        warmup: Time at the start that counters leave out.
        seed: Seed of the first run.
        runs: Number of runs, each with the next seed.
        directory: The directory of files that the scenario names; by default the current one.

    >>> import weirlab as wl
    >>> dumbbell = (
    ...     wl.Scenario("dumbbell", duration="5s", warmup=1)
    ...     .host("a").router("r").host("b")
    ...     .link("a", "r", "bw 100Mbit/s delay 1ms")
    ...     .link("r", "b", "bw 10Mbit/s delay 10ms", name="bottleneck", scheduler="fq_codel")
    ...     .traffic("poisson", "a", "b", name="noise", rate="8Mbit/s", size="1200B")
    ... )
    >>> dumbbell.check().diagnostics
    ()
    >>> wl.simulate(dumbbell).flows["name"]
    ['noise']
    """

    def __init__(
        self,
        name: str = "scenario",
        *,
        duration: Time,
        warmup: Time = 0,
        seed: int = 1,
        runs: int = 1,
        directory: str | os.PathLike[str] = "",
    ) -> None:
        self._head: dict[str, object] = {
            "name": _text(name, "name"),
            "duration": _toml.time(duration, "duration"),
            "warmup": _toml.time(warmup, "warmup"),
            "seed": whole(seed, "seed"),
            "runs": whole(runs, "runs"),
        }
        self._lists: dict[str, list[dict[str, object]]] = {
            "node": [],
            "link": [],
            "route": [],
            "traffic": [],
        }
        self._measure: dict[str, object] = {}
        # The algorithms in Python that the links name. A name works only while its class exists.
        self._algorithms: list[object] = []
        self._sweep: list[dict[str, object]] = []
        self.directory: str = os.fspath(directory)
        """The directory of files that the scenario names."""

    def host(self, *names: str) -> Self:
        """Adds hosts, which send and receive, and forward nothing.

        >>> import weirlab as wl
        >>> wl.Scenario(duration=1).host("a", "b").to_dict()["node"]
        [{'name': 'a', 'kind': 'host'}, {'name': 'b', 'kind': 'host'}]
        """
        return self._nodes("host", names, {})

    def router(self, *names: str) -> Self:
        """Adds routers, which forward without delay.

        >>> import weirlab as wl
        >>> wl.Scenario(duration=1).router("r").to_dict()["node"]
        [{'name': 'r', 'kind': 'router'}]
        """
        return self._nodes("router", names, {})

    def switch(self, name: str, **settings: Value) -> Self:
        """Adds a programmable switch; docs/scenario.md lists its settings. A setting that is a
        time may be a number of seconds.

        >>> import weirlab as wl
        >>> wl.Scenario(duration=1).switch("s", ports=8).to_dict()["node"]
        [{'name': 's', 'kind': 'switch', 'ports': 8}]
        """
        return self._nodes("switch", (name,), settings)

    def link(
        self,
        left: str,
        right: str,
        spec: str | None = None,
        *,
        name: str | None = None,
        forward: str | None = None,
        back: str | None = None,
        scheduler: str | Algorithm | None = None,
        scheduler_back: str | Algorithm | None = None,
        aqm: str | Algorithm | None = None,
        aqm_back: str | Algorithm | None = None,
        queues: Sequence[str] = (),
        queues_back: Sequence[str] = (),
    ) -> Self:
        """Adds a link between two nodes.

        Args:
            left: The node at which the forward direction begins.
            right: The node at which it ends.
            spec: Both directions in the language of links, ``"bw 10Mbit/s delay 10ms queue 50"``.
            name: By default made of the names of the nodes.
            forward: The direction from `left` to `right`, in place of `spec`.
            back: The direction from `right` to `left`, in place of `spec`.
            scheduler: The scheduler of the forward direction: ``"fq_codel target 5ms"``, or a
                subclass of :class:`Scheduler`.
            scheduler_back: The scheduler of the other direction.
            aqm: The AQM of the forward direction's queue: ``"codel target 5ms"``, or a subclass of
                :class:`Aqm`.
            aqm_back: The AQM of the other direction's queue.
            queues: Queues in front of the scheduler, for the traffic classes 0, 1, …, such as
                ``"weight 3 queue 50"``.
            queues_back: Queues in front of the scheduler of the other direction.

        >>> import weirlab as wl
        >>> wl.Scenario(duration=1).link("a", "b", "10M/5ms").to_dict()["link"]
        [{'between': ['a', 'b'], 'spec': '10M/5ms'}]
        """
        link: dict[str, object] = {"between": [_text(left, "left"), _text(right, "right")]}
        self._algorithms += filter(is_algorithm, (scheduler, scheduler_back, aqm, aqm_back))
        if aqm is not None or aqm_back is not None:
            forward = _with_aqm(spec if forward is None else forward, aqm, "aqm")
            back = _with_aqm(spec if back is None else back, aqm_back, "aqm_back")
            spec = None
        texts = {
            "name": name,
            "spec": spec,
            "forward": forward,
            "back": back,
            "scheduler": _named(scheduler),
            "scheduler_back": _named(scheduler_back),
        }
        link |= {key: _text(text, key) for key, text in texts.items() if text is not None}
        for key, specs in (("queue", queues), ("queue_back", queues_back)):
            if isinstance(specs, str):
                raise TypeError(f"{key}: expected a list of texts, one for each class, not str")
            rows = [
                {"class": number, "spec": _text(words, f"{key}[{number}]")}
                for number, words in enumerate(specs)
            ]
            if rows:
                link[key] = rows
        self._lists["link"].append(link)
        return self

    def route(self, source: str, destination: str, via: Sequence[str]) -> Self:
        """Adds a route in one direction, which replaces the route with the fewest links.

        >>> import weirlab as wl
        >>> wl.Scenario(duration=1).route("a", "b", ["r1", "r4"]).to_dict()["route"]
        [{'from': 'a', 'to': 'b', 'via': ['r1', 'r4']}]
        """
        route: dict[str, object] = {
            "from": _text(source, "source"),
            "to": _text(destination, "destination"),
            "via": _names(via, "via"),
        }
        self._lists["route"].append(route)
        return self

    def traffic(
        self,
        kind: str,
        source: str | Sequence[str],
        destination: str | Sequence[str],
        *,
        name: str | None = None,
        count: int = 1,
        group: str | None = None,
        **settings: Value,
    ) -> Self:
        """Adds flows between hosts.

        Args:
            kind: The kind of traffic, such as ``"cbr"``, ``"poisson"``, ``"tcp"``, ``"voip"``.
            source: The sending host or hosts.
            destination: The receiving host or hosts.
            name: The name of the flow, or the first part of the names of several flows.
            count: Flows between each pair of hosts.
            group: Flows with the same group have common statistics.
            settings: The settings of the kind, as in docs/traffic.md. Texts have units
                (``rate="8Mbit/s"``). A setting that is a time may be a number of seconds or a
                timedelta, too. Every kind has ``start``, ``stop``, ``start_jitter``, ``ecn`` and
                ``dscp``. The traffic class is ``class_``, since ``class`` is a word of Python.

        The kinds are ``cbr``, ``poisson``, ``pareto``, ``on-off``, ``markov``, ``voip``, ``imix``
        and ``trace`` (packets at their own times), ``probe`` and ``ping`` (for delays), ``tcp``,
        ``stack``, ``flows``, ``requests``, ``web`` and ``incast`` (transfers), and ``program``
        (live runs only).

        >>> import weirlab as wl
        >>> s = wl.Scenario(duration=5).traffic("cbr", "a", "b", rate="1M", start=2.5)
        >>> s.to_dict()["traffic"]
        [{'kind': 'cbr', 'from': 'a', 'to': 'b', 'count': 1, 'rate': '1M', 'start': '2500ms'}]
        """
        entry: dict[str, object] = {"kind": _text(kind, "kind")}
        entry["from"] = source if isinstance(source, str) else _names(source, "source")
        entry["to"] = (
            destination if isinstance(destination, str) else _names(destination, "destination")
        )
        entry["count"] = whole(count, "count")
        for key, text in (("name", name), ("group", group)):
            if text is not None:
                entry[key] = _text(text, key)
        for key, content in settings.items():
            key = key.removesuffix("_")
            entry[key] = _setting(content, key, _traffic_times().get(kind, _NONE))
        self._lists["traffic"].append(entry)
        return self

    def measure(
        self,
        *,
        interval: Time | None = None,
        trace: bool | None = None,
        inversions: bool | None = None,
    ) -> Self:
        """Sets what is measured in addition to totals.

        Args:
            interval: Time between the points of time series.
            trace: Whether the path of every packet of the first run is recorded.
            inversions: Whether ports count packets that left while one of lower rank waited.

        >>> import weirlab as wl
        >>> wl.Scenario(duration=1).measure(interval=0.01).to_dict()["measure"]
        {'interval': '10ms'}
        """
        if interval is not None:
            self._measure["interval"] = _toml.time(interval, "interval")
        for key, flag in (("trace", trace), ("inversions", inversions)):
            if flag is not None:
                if not isinstance(flag, bool):
                    raise TypeError(f"{key}: expected a bool, not {type(flag).__name__}")
                self._measure[key] = flag
        return self

    def sweep(self, key: str, values: Sequence[str | int | float | bool | Algorithm]) -> Self:
        """Runs the scenario once for each value of a key; with several sweeps, for each
        combination, the last key changing fastest.

        >>> import weirlab as wl
        >>> wl.Scenario(duration=1).sweep("duration", ["1s", "2s"]).to_dict()["sweep"]
        [{'key': 'duration', 'values': ['1s', '2s']}]
        """
        if isinstance(values, str):
            raise TypeError("values: expected a list of values, not str")
        # Raises for a value that a scenario cannot contain.
        items: list[object] = list(values)
        _toml.value(items, key)
        self._sweep.append({"key": _text(key, "key"), "values": items})
        return self

    def to_dict(self) -> dict[str, Any]:
        """The scenario as plain values, in the structure of a scenario file.

        >>> import weirlab as wl
        >>> wl.Scenario("s", duration=2).to_dict()["duration"]
        '2s'
        """
        scenario: dict[str, Any] = dict(self._head)
        scenario |= {key: list(rows) for key, rows in self._lists.items() if rows}
        if self._measure:
            scenario["measure"] = dict(self._measure)
        if self._sweep:
            scenario["sweep"] = list(self._sweep)
        return scenario

    def to_toml(self) -> str:
        """The scenario as the text of a scenario file, to which the lines of errors refer.

        >>> import weirlab as wl
        >>> print(wl.Scenario("s", duration=2).host("a").to_toml())
        name = "s"
        duration = "2s"
        warmup = "0s"
        seed = 1
        runs = 1
        <BLANKLINE>
        [[node]]
        name = "a"
        kind = "host"
        <BLANKLINE>
        """
        return _toml.document(self.to_dict())

    def check(self) -> Checked:
        """Checks the scenario without running it.

        Raises:
            ScenarioError: The scenario has errors.

        >>> import weirlab as wl
        >>> s = wl.Scenario(duration=1).host("a", "b").link("a", "b", "10M/5ms")
        >>> s.check().diagnostics
        ()
        """
        return check_scenario(self)

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(rows)} {key}" for key, rows in self._lists.items() if rows)
        return f"<weirlab.Scenario {self._head['name']}: {counts or 'empty'}>"

    def _nodes(self, kind: str, names: Sequence[str], settings: Mapping[str, Value]) -> Self:
        values = {key: _setting(value, key, _node_times()) for key, value in settings.items()}
        for name in names:
            node: dict[str, object] = {"name": _text(name, "name"), "kind": kind, **values}
            self._lists["node"].append(node)
        return self


ScenarioLike: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Scenario
"""A scenario: the path of a file, a text in TOML (with several lines), a dictionary with the
structure of a scenario file, or a :class:`Scenario`."""


def check_scenario(scenario: ScenarioLike, *, set: Mapping[str, Value] | None = None) -> Checked:
    """Checks a scenario without running it.

    Args:
        scenario: A path, a text, a dictionary or a :class:`Scenario`.
        set: Keys to change, as in :func:`simulate`.

    Raises:
        ScenarioError: The scenario has errors.
        OSError: The file cannot be read.

    >>> import weirlab as wl
    >>> wl.check_scenario({"duration": "1s", "node": [{"name": "a"}, {"name": "b"}],
    ...     "link": [{"between": ["a", "b"], "spec": "10M/5ms"}]}).diagnostics
    ()
    """
    summary, found = _native.check(source(scenario, set))
    return Checked(summary, tuple(map(to_diagnostic, found)))


def source(
    scenario: ScenarioLike,
    changes: Mapping[str, Value] | None,
    more: Sequence[tuple[str, str, str]] = (),
) -> _native.Source:
    """A scenario with changed keys, in the form that the compiled part reads."""
    settings = [*settings_of(changes), *more]
    if isinstance(scenario, Scenario):
        text, directory = scenario.to_toml(), scenario.directory
        return _source(text, "<scenario>", directory, "scenario", settings)
    if isinstance(scenario, Mapping):
        return _source(_toml.document(scenario), "<dict>", "", "scenario", settings)
    if isinstance(scenario, str) and "\n" in scenario:
        return _source(scenario, "<text>", "", "scenario", settings)
    if not isinstance(scenario, (str, os.PathLike)):
        raise TypeError(
            "scenario: expected a path, a text, a dictionary or a Scenario, "
            f"not {type(scenario).__name__}"
        )
    path = Path(scenario)
    text = path.read_text(encoding="utf-8")
    return _source(text, str(path), str(path.parent), path.stem, settings)


def settings_of(changes: Mapping[str, Value] | None) -> list[tuple[str, str, str]]:
    """Changed keys, each with its value as TOML and as the caller wrote it, for messages. A text is
    not quoted, as it may be a word of the language of links."""
    if changes is None:
        return []
    if not isinstance(changes, Mapping):
        raise TypeError(f"set: expected a dictionary, not {type(changes).__name__}")
    settings: list[tuple[str, str, str]] = []
    for key, content in changes.items():
        if not isinstance(key, str):
            raise TypeError(f"set: a key is a text, not {type(key).__name__}")
        words = content if isinstance(content, str) else _toml.value(content, f"set[{key!r}]")
        if is_algorithm(content):
            words = name_of(cast(Algorithm, content))
        if isinstance(content, timedelta):
            words = _toml.time(content, f"set[{key!r}]")
        settings.append((key, words, f"set={{{key!r}: {content!r}}}"))
    return settings


def warn(found: Sequence[Mapping[str, Any]], depth: int) -> None:
    """Shows the warnings of the checker as Python warnings. With `depth` 1, a warning names the
    line that calls this function; with 2, the line that calls the caller, and so on."""
    for diagnostic in map(to_diagnostic, found):
        if diagnostic.severity == "warning":
            warnings.warn(str(diagnostic), ScenarioWarning, stacklevel=depth + 1)


def schema() -> dict[str, Any]:
    """The JSON schema of scenarios.

    >>> import weirlab as wl
    >>> wl.schema()["title"]
    'Weir scenario'
    """
    parsed: dict[str, Any] = json.loads(_native.schema())
    return parsed


def _source(
    text: str,
    name: str,
    directory: str,
    default_name: str,
    settings: Sequence[tuple[str, str, str]],
) -> _native.Source:
    # Raises UnicodeEncodeError, a ValueError, for a half of a surrogate pair.
    text.encode()
    return {
        "text": text,
        "name": name,
        "directory": directory,
        "default_name": default_name,
        "settings": settings,
    }


def _setting(content: Value, where: str, times: frozenset[str]) -> object:
    """A setting as a scenario stores it. A wrong type is reported here, and not when the scenario
    is written."""
    if where in times and isinstance(content, (int, float)) and not isinstance(content, bool):
        return _toml.time(content, where)
    _toml.value(content, where)
    return content


@cache
def _traffic_times() -> Mapping[str, frozenset[str]]:
    """The settings that are times, for each kind of traffic."""
    kinds = schema()["$defs"]["TrafficEntry"]["oneOf"]
    return {kind["properties"]["kind"]["const"]: _times(kind) for kind in kinds}


@cache
def _node_times() -> frozenset[str]:
    """The settings of nodes that are times."""
    return _times(schema()["$defs"]["NodeEntry"])


def _times(structure: Mapping[str, Any]) -> frozenset[str]:
    """The properties of a structure whose texts end in a unit of time."""
    properties: Mapping[str, Mapping[str, Any]] = structure["properties"]
    return frozenset(
        name for name, content in properties.items() if "msecs?" in content.get("pattern", "")
    )


_NONE: frozenset[str] = frozenset()


def _text(content: object, where: str) -> str:
    if not isinstance(content, str):
        raise TypeError(f"{where}: expected a text, not {type(content).__name__}")
    return content


def _named(content: str | Algorithm | None) -> str | None:
    """The words by which a scenario names an algorithm, or None."""
    if content is None or isinstance(content, str) or not is_algorithm(content):
        return cast("str | None", content)
    return name_of(content)


def _with_aqm(spec: str | None, aqm: str | Algorithm | None, where: str) -> str | None:
    """A specification with an AQM, if one is given."""
    if aqm is None:
        return spec
    return f"{_text(spec or '', 'spec')} aqm {_text(_named(aqm), where)}".strip()


def _names(content: Sequence[str], where: str) -> list[str]:
    return [_text(item, f"{where}[{number}]") for number, item in enumerate(content)]


def whole(content: object, where: str) -> int:
    """A whole number that is not negative."""
    if isinstance(content, bool) or not isinstance(content, SupportsIndex):
        raise TypeError(f"{where}: expected a whole number, not {type(content).__name__}")
    number = content.__index__()
    if number < 0:
        raise ValueError(f"{where}: {number} is negative")
    return number
