"""Simulations and their results."""

from __future__ import annotations

import html
import importlib
import json
import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _native
from ._errors import ScenarioWarning
from ._scenario import ScenarioLike, Value, whole, source, warn

if TYPE_CHECKING:
    import polars

_MAX_SEED = 2**63 - 1
_SHOWN_ROWS = 10


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the runs of :func:`simulate`.

    >>> import weirlab as wl
    >>> wl.Progress(simulated_s=5.0, whole_s=20.0, events=12, runs_done=0, runs=2).fraction
    0.25
    """

    simulated_s: float
    """Simulated time of all runs together, in seconds."""
    whole_s: float
    """The simulated time at which all runs are over, in seconds."""
    events: int
    """Events of all runs."""
    runs_done: int
    runs: int

    @property
    def fraction(self) -> float:
        """The part of the simulated time that is over, from 0 to 1."""
        return min(self.simulated_s / self.whole_s, 1.0) if self.whole_s > 0 else 1.0


ProgressLike: TypeAlias = bool | Callable[[Progress], object] | None


def simulate(
    scenario: ScenarioLike,
    *,
    seeds: int | Iterable[int] | None = None,
    set: Mapping[str, Value] | None = None,
    threads: int | None = None,
    trace: bool | None = None,
    progress: ProgressLike = None,
) -> Results:
    """Simulates a scenario in virtual time.

    The same scenario, seeds and version give the same results on every machine, with any number
    of threads. Other Python threads run meanwhile. Ctrl-C and exceptions of `progress` end all
    runs.

    Args:
        scenario: The path of a scenario file, a text in TOML (of several lines), a dictionary
            with the structure of a file, or a :class:`Scenario`.
        seeds: Number of runs, or the seed of each run. By default those of the scenario. Runs
            differ only if something in the scenario is random; otherwise a
            :class:`ScenarioWarning` says so.
        set: Keys to change and their values, as ``weir sim --set``:
            ``{"link.bottleneck.spec.bw": "20M", "traffic.*.count": 3}``. A timedelta is written as
            a time.
        threads: Number of threads; by default one for each processor.
        trace: Whether to record the path of every packet of the first run. It takes precedence
            over the scenario's ``measure.trace``.
        progress: A function that is called about ten times a second with a :class:`Progress`, or
            True for a line on standard error.

    Returns:
        The results of all runs.

    Raises:
        ScenarioError: The scenario or a key of `set` is refused.
        OSError: The file cannot be read.
        TypeError: An argument has a wrong type.
        ValueError: A number is negative, not finite or too large.

    >>> import weirlab as wl
    >>> r = wl.simulate("two-hosts.toml", seeds=3, set={"duration": "3s"})
    >>> r.seeds
    (1, 2, 3)
    >>> len(r.flows)
    15
    """
    more: list[tuple[str, str, str]] = []
    chosen: list[int] | None = None
    if seeds is not None:
        if isinstance(seeds, Iterable):
            chosen = _seeds(seeds)
        else:
            count = whole(seeds, "seeds")
            more.append(("runs", str(count), f"seeds={count}"))
    if trace is not None and not isinstance(trace, bool):
        raise TypeError(f"trace: expected a bool or None, not {type(trace).__name__}")
    native = _native.simulate(
        source(scenario, set, more), chosen, _threads(threads), trace, _reporter(progress)
    )
    warn(native.diagnostics, 2)
    if native.equal:
        warnings.warn(_EQUAL, ScenarioWarning, stacklevel=2)
    return Results(native)


_EQUAL = (
    "the runs of all seeds are equal, because nothing in the scenario is random: an interval over "
    "them says nothing. Give the traffic a `start_jitter` or a random kind (`poisson`, `voip`, "
    "`web`), or a link `loss` or `jitter`; or simulate one seed"
)


class Results:
    """The results of :func:`simulate`.

    The tables have one row for each flow, link, interval or event, of all runs (column ``seed``)
    and all points of a sweep (column ``point``, an index into :attr:`points`). Every library that
    knows Arrow reads them; numbers are shared, not copied.

    >>> import weirlab as wl
    >>> r = wl.simulate("two-hosts.toml", set={"duration": "3s"})
    >>> r
    <weirlab.Results two-hosts: 1 run of 3 s, 5 flows, 4 links>
    """

    def __init__(self, native: _native.Results) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The name of the scenario.

        >>> import weirlab as wl
        >>> wl.simulate("two-hosts.toml", set={"duration": "2s"}).name
        'two-hosts'
        """
        return self._native.name

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seed of each run.

        >>> import weirlab as wl
        >>> wl.simulate("two-hosts.toml", seeds=[7, 3], set={"duration": "2s"}).seeds
        (7, 3)
        """
        return tuple(self._native.seeds)

    @property
    def points(self) -> list[dict[str, Any]]:
        """The points of the sweep: for each, the keys that it sets and their values. Without a
        sweep, one empty dictionary.

        >>> import weirlab as wl
        >>> s = wl.Scenario(duration=1).host("a", "b").link("a", "b", "1M/5ms")
        >>> wl.simulate(s.sweep("seed", [1, 2])).points
        [{'seed': 1}, {'seed': 2}]
        """
        return [
            {key: _plain(value) for key, value in settings} for settings in self._native.settings
        ]

    @property
    def events(self) -> int:
        """Number of events of all runs."""
        return self._native.events

    @property
    def cpu_s(self) -> float:
        """Processor time of the simulation, in seconds; the only value that differs between
        equal simulations."""
        return self._native.cpu_s

    @property
    def flows(self) -> Table:
        """A row for each flow (or group of flows) of each run.

        Columns: ``seed``, ``name``, ``kind``, ``from``, ``to``; packets ``sent``, ``received``,
        ``lost``, ``retransmitted``, ``marked``; ``goodput_bps`` and ``throughput_bps``;
        ``delay_mean_ns``, ``delay_p50_ns``, ``delay_p99_ns``, …; ``loss`` is a fraction. A name
        ends in its unit; docs/results.md explains each. Means, minima and maxima are exact.
        Percentiles come from the bins of :attr:`delays`, and are exact to within 0.1 %.

        >>> import weirlab as wl
        >>> r = wl.simulate("two-hosts.toml", set={"duration": "3s"})
        >>> r.flows["name"]
        ['video', 'calls.1', 'calls.2', 'calls.3', 'update']
        """
        return self._table("flows")

    @property
    def links(self) -> Table:
        """A row for each direction of each link of each run.

        Columns: ``seed``, ``name``, ``from``, ``to``, ``rate_bps`` (null without a limit),
        ``utilisation``, ``drops``, ``marks``, ``queue_mean_ns``, ``queue_p99_ns``, ….
        Percentiles are exact to within 1.6 %.

        >>> import weirlab as wl
        >>> r = wl.simulate("two-hosts.toml", set={"duration": "3s"})
        >>> [name for name in r.links["name"] if name.startswith("bottleneck")]
        ['bottleneck', 'bottleneck.back']
        """
        return self._table("links")

    @property
    def series(self) -> Table:
        """A row for each interval of each flow and link of each run, the warm-up included.

        Columns: ``seed``, ``object`` (``flow`` or ``link``), ``name``, ``t_ns`` and ``span_ns``
        (start and length of the interval), packets and bytes in and out, ``lost``, ``marked``;
        for flows ``goodput_bytes`` and ``delay_mean_ns``; for links ``queue_packets_mean``,
        ``queue_packets_max``, …. Columns of the other kind are null.

        >>> import weirlab as wl
        >>> r = wl.simulate("two-hosts.toml", set={"duration": "3s"})
        >>> len(r.series)
        270
        """
        return self._table("series")

    @property
    def delays(self) -> Table:
        """The distributions: a row for each bin with ``low_ns``, ``high_ns`` and ``count``.

        ``what`` is ``delay`` (one way) or ``completion`` for flows, ``queue`` or ``total`` for
        links.

        >>> import weirlab as wl
        >>> r = wl.simulate("two-hosts.toml", set={"duration": "3s"})
        >>> sorted({*r.delays["what"]})
        ['delay', 'queue', 'total']
        """
        return self._table("delays")

    @property
    def trace(self) -> Table:
        """A row for each event of each packet of the first run: ``t_ns``, ``event``
        (``entered``, ``left``, ``dropped``, ``arrived``), ``link``, ``flow``, ``seq``, ``len`` in
        bytes, ``queue_ns``, ``total_ns``, ``reason``, ….

        Raises:
            ValueError: The run was not traced.

        >>> import weirlab as wl
        >>> r = wl.simulate("two-hosts.toml", set={"duration": "2s"}, trace=True)
        >>> r.trace["event"][:2]
        ['entered', 'entered']
        """
        return self._table("trace")

    def report(self, path: str | os.PathLike[str], *, point: int | None = None) -> None:
        """Writes the report, one HTML page with plots.

        Args:
            path: The file.
            point: The point of a sweep.

        Raises:
            OSError: The file cannot be written.
            ValueError: The scenario has a sweep, and `point` is not given.

        >>> import weirlab as wl
        >>> r = wl.simulate("two-hosts.toml", set={"duration": "2s"})
        >>> r.report("report.html")
        """
        self._native.report(os.fspath(path), self._point(point))

    def to_dict(self) -> dict[str, Any]:
        """The results document, as ``weir sim --json`` writes it.

        >>> import weirlab as wl
        >>> r = wl.simulate("two-hosts.toml", set={"duration": "2s"})
        >>> r.to_dict()["scenario"]
        'two-hosts'
        """
        document: dict[str, Any] = json.loads(self._native.json())
        return document

    def scenario_text(self, point: int | None = None) -> str:
        """The text of the scenario as it was run, in TOML.

        >>> import weirlab as wl
        >>> r = wl.simulate("two-hosts.toml", set={"duration": "2s"})
        >>> 'duration = "2s"' in r.scenario_text()
        True
        """
        return self._native.text(self._point(point))

    def _table(self, name: str) -> Table:
        tables = self._tables
        if name not in tables:
            tables[name] = Table(self._native.table(name))
        return tables[name]

    @cached_property
    def _tables(self) -> dict[str, Table]:
        return {}

    def _point(self, point: int | None) -> int:
        count = len(self._native.settings)
        if point is None:
            if count > 1:
                first = " ".join(f"{key}={value}" for key, value in self._native.settings[0])
                raise ValueError(
                    f"the sweep has {count} points: name one with point=, "
                    f"such as point=0 for {first}"
                )
            return 0
        number = whole(point, "point")
        if number >= count:
            raise IndexError(f"there are {count} points, counted from 0")
        return number

    def __repr__(self) -> str:
        runs, points = len(self.seeds), len(self._native.settings)
        duration, _ = self._native.duration_s
        each = max(runs * points, 1)
        parts = [
            f"{runs} run{'' if runs == 1 else 's'} of {duration:g} s",
            *([f"{points} points"] if points > 1 else []),
            f"{len(self.flows) // each} flows",
            f"{len(self.links) // each} links",
        ]
        return f"<weirlab.Results {self.name}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        """The flows and a plot, for notebooks."""
        columns = ["name", "goodput_bps", "delay_mean_ns", "delay_p99_ns", "sent", "lost"]
        headings = ["flow", "goodput, Mbit/s", "delay, ms", "p99, ms", "sent", "lost"]
        if len(self.seeds) > 1:
            columns, headings = ["seed", *columns], ["seed", *headings]
        if len(self._native.settings) > 1:
            columns, headings = ["point", *columns], ["point", *headings]
        shown = min(len(self.flows), _SHOWN_ROWS)
        values = [self.flows.rows(column, 0, shown) for column in columns]
        rows = [
            [_cell(column, value) for column, value in zip(columns, row)] for row in zip(*values)
        ]
        left = len(self.flows) - shown
        return "".join(
            [
                f"<p><b>{html.escape(self.name)}</b> {html.escape(repr(self)[1:-1])}</p>",
                _html_table(headings, rows),
                f"<p>… and {left} more</p>" if left else "",
                self._native.svg(0),
            ]
        )


class Table:
    """A table of results.

    Any library that knows Arrow's PyCapsule interface reads it, and shares its numbers:
    ``polars.DataFrame(t)``, ``pyarrow.table(t)``, ``pandas.DataFrame.from_arrow(t)``,
    ``duckdb.sql("select * from t")``. Without such a library, a column is a list: ``t["name"]``.

    Times and sums of bytes are ``int64``. Statistics, which a row may lack, are ``float64``; so are
    most counts of packets of ``flows`` and ``links``. Columns of names are dictionary-encoded
    (categorical).

    >>> import weirlab as wl
    >>> t = wl.simulate("two-hosts.toml", set={"duration": "3s"}).flows
    >>> t.columns[:3]
    ('seed', 'name', 'kind')
    >>> next(iter(t))["name"]
    'video'
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    @property
    def schema(self) -> dict[str, str]:
        """The type of each column: ``int64``, ``float64`` or ``dictionary<int32, string>``.

        >>> import weirlab as wl
        >>> wl.simulate("two-hosts.toml", set={"duration": "2s"}).series.schema["t_ns"]
        'int64'
        """
        return dict(self._native.schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns.

        >>> import weirlab as wl
        >>> wl.simulate("two-hosts.toml", set={"duration": "2s"}).delays.columns
        ('seed', 'object', 'name', 'what', 'low_ns', 'high_ns', 'count')
        """
        return tuple(name for name, _ in self._native.schema)

    @property
    def nbytes(self) -> int:
        """Memory of the table, in bytes."""
        return self._native.nbytes

    def select(self, *columns: str) -> Table:
        """The table with only these columns, in this order. It shares their memory.

        polars encodes columns of names again, which takes about 4 ns for each row and column.
        Without such columns, polars reads a trace of any length without a copy.

        Raises:
            KeyError: There is no such column.
            ValueError: A column is named twice, or none is named.

        >>> import weirlab as wl
        >>> r = wl.simulate("two-hosts.toml", set={"duration": "2s"}, trace=True)
        >>> r.trace.select("t_ns", "len").columns
        ('t_ns', 'len')
        """
        if not columns or len({*columns}) < len(columns):
            raise ValueError("select: name columns, each once")
        for column in columns:
            self._known(column)
        return Table(self._native.select(columns))

    def rows(self, column: str, start: int, stop: int) -> list[Any]:
        """The values of a column in the rows from `start` to `stop - 1`; None for null.

        Raises:
            KeyError: There is no such column.

        >>> import weirlab as wl
        >>> wl.simulate("two-hosts.toml", set={"duration": "2s"}).flows.rows("name", 1, 3)
        ['calls.1', 'calls.2']
        """
        self._known(column)
        return self._native.column(column, start, stop)

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries.

        >>> import weirlab as wl
        >>> wl.simulate("two-hosts.toml", set={"duration": "2s"}).flows.to_pylist()[0]["kind"]
        'cbr'
        """
        return list(self)

    def to_pyarrow(self) -> Any:
        """The table as a ``pyarrow.Table``, which shares its memory.

        >>> import weirlab as wl
        >>> t = wl.simulate("two-hosts.toml", set={"duration": "2s"}).flows
        >>> t.to_pyarrow().num_rows
        5
        """
        return _library("pyarrow").table(self)

    def to_polars(self) -> polars.DataFrame:
        """The table as a ``polars.DataFrame``.

        >>> import weirlab as wl
        >>> t = wl.simulate("two-hosts.toml", set={"duration": "2s"}).flows
        >>> t.to_polars().height
        5
        """
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``. Columns of names are categorical. With pyarrow the
        conversion is faster.

        >>> import weirlab as wl
        >>> t = wl.simulate("two-hosts.toml", set={"duration": "2s"}).flows
        >>> len(t.to_pandas())
        5
        """
        pandas: Any = importlib.import_module("pandas")
        try:
            return self.to_pyarrow().to_pandas()
        except ModuleNotFoundError:
            pass
        columns: dict[str, Any] = {}
        for name, kind in self._native.schema:
            values = self[name]
            if kind.startswith("dictionary"):
                columns[name] = pandas.Categorical(values)
            else:
                # A column of whole numbers with a missing value has floating-point numbers.
                missing = None in values
                columns[name] = pandas.Series(values, dtype="float64" if missing else kind)
        return pandas.DataFrame(columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __getitem__(self, column: str) -> list[Any]:
        self._known(column)
        return self._native.column(column, 0, len(self))

    def _known(self, column: str) -> None:
        if not isinstance(column, str):
            raise TypeError(f"a column has a name, not {type(column).__name__}")
        if column not in self.columns:
            raise _UnknownColumn(column, self.columns)

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        columns = self.columns
        for start in range(0, len(self), _BLOCK):
            stop = min(start + _BLOCK, len(self))
            values = [self._native.column(column, start, stop) for column in columns]
            for row in zip(*values):
                yield dict(zip(columns, row))

    def __repr__(self) -> str:
        return f"<weirlab.Table: {len(self)} rows, {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        shown = min(len(self), _SHOWN_ROWS)
        values = [self.rows(column, 0, shown) for column in self.columns]
        rows = [["" if value is None else str(value) for value in row] for row in zip(*values)]
        left = len(self) - shown
        more = f"<p>… and {left} more rows</p>" if left else ""
        return _html_table(self.columns, rows) + more


class _UnknownColumn(KeyError):
    """A column that a table does not have, with those that it has."""

    def __init__(self, column: str, columns: Sequence[str]) -> None:
        super().__init__(column)
        self._columns = columns

    def __str__(self) -> str:
        import difflib

        column: str = self.args[0]
        begins = [name for name in self._columns if name.startswith(column)]
        near = begins or difflib.get_close_matches(column, self._columns)
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        return f"There is no column {column!r}. {meant}Columns: {', '.join(self._columns)}"


_BLOCK = 4096


def _seeds(seeds: Iterable[int]) -> list[int]:
    if isinstance(seeds, (str, bytes)):
        raise TypeError(f"seeds: expected a number or numbers, not {type(seeds).__name__}")
    chosen = [whole(seed, f"seeds[{number}]") for number, seed in enumerate(seeds)]
    if not chosen:
        raise ValueError("seeds: at least one is needed")
    if max(chosen) > _MAX_SEED:
        raise ValueError(f"seeds: {max(chosen)} is more than {_MAX_SEED}")
    if len(frozenset(chosen)) < len(chosen):
        raise ValueError("seeds: a seed is given twice, and would give the same run")
    return chosen


def _threads(threads: int | None) -> int:
    if threads is None:
        return len(os.sched_getaffinity(0))
    number = whole(threads, "threads")
    if not 1 <= number <= 1024:
        raise ValueError(f"threads: {number} is not from 1 to 1024")
    return number


def _reporter(
    progress: ProgressLike,
) -> Callable[[float, float, int, int, int], object] | None:
    if progress is None or progress is False:
        return None
    if progress is not True and not callable(progress):
        raise TypeError(f"progress: expected a function or a bool, not {type(progress).__name__}")
    call = _show if progress is True else progress

    def report(simulated: float, whole: float, events: int, done: int, runs: int) -> None:
        call(Progress(simulated, whole, events, done, runs))

    return report


def _show(progress: Progress) -> None:
    end = "\n" if progress.runs_done == progress.runs else ""
    text = f"\r{progress.fraction:4.0%}, {progress.runs_done} of {progress.runs} runs"
    print(text, end=end, file=sys.stderr, flush=True)


def _library(name: str) -> Any:
    """Imports an optional library, when it is needed."""
    return importlib.import_module(name)


def _plain(value: str) -> Any:
    """Reads a text in TOML that is a single value."""
    return tomllib.loads(f"value = {value}")["value"]


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "–"
    if column.endswith("_bps"):
        return f"{value / 1e6:.3f}"
    if column.endswith("_ns"):
        return f"{value / 1e6:.2f}"
    if isinstance(value, float):
        return f"{value:.0f}"
    return str(value)


def _html_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{line('th', headings)}</tr></thead><tbody>{body}</tbody></table>"
