"""Campaigns of many runs. A store keeps the result of each run under a hash of the run's inputs, so
that later calls carry out only the missing runs."""

from __future__ import annotations

import hashlib
import html
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

from . import _native, _toml
from ._campaign_arguments import (
    as_toml,
    axes_of,
    campaign_file_of,
    campaign_of_function,
    positive_seconds,
    sampled_points,
    seed_argument,
    settings_of_point,
    value_of,
)
from ._campaign_page import campaign_page
from ._design import Sensitivity, analyse
from ._errors import SweepError
from ._precision import Compared, Estimated, Figure, estimate, judge
from ._results import _library
from ._runner import Options, Runner, SweepFailure, SweepProgress
from ._scenario import ScenarioLike, Value, source, warn, whole
from ._stores import Store, open_store

if TYPE_CHECKING:
    import polars

ExecutorLike: TypeAlias = Executor | Literal["threads", "processes"] | None
"""Threads or processes of this machine, or any executor."""

TableName: TypeAlias = Literal["flows", "links", "series", "delays", "trace"]


# The least number of runs of a point, and of pairs of a comparison, before their spread is judged.
_LEAST_RUNS = 5
_LEAST_PAIRS = 10


@dataclass(frozen=True, slots=True)
class SweepStatus:
    """The numbers of points and runs of a campaign, and of the runs that the store has."""

    points: int
    runs: int
    done: int

    @property
    def missing(self) -> int:
        """Runs that the store does not have."""
        return self.runs - self.done


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result of :meth:`Campaign.run`."""

    runs: int
    there: int
    """Runs that the store had."""
    made: int
    """Runs that were carried out."""
    failures: tuple[SweepFailure, ...]
    cpu_s: float
    """The time of the runs that were carried out, over all workers, in seconds."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of :meth:`Campaign.verify`."""

    runs: int
    again: int
    """Runs that were carried out again."""
    damaged: dict[str, str]
    """The key and the damage of each damaged run."""


def sweep(
    scenario: ScenarioLike | Sequence[ScenarioLike] | Callable[..., ScenarioLike],
    axes: Mapping[str, Sequence[Value]] | None = None,
    *,
    points: Iterable[Mapping[str, Value]] | None = None,
    seeds: int | Iterable[int] | None = None,
    set: Mapping[str, Value] | None = None,
    live: bool = False,
    store: str | os.PathLike[str],
) -> Campaign:
    """A campaign: the runs of a scenario over axes and seeds, and the store of their results.

    Nothing runs before :meth:`Campaign.run`, which carries out the runs that the store does not
    have.

    Args:
        scenario: A scenario as for :func:`simulate`, or several. Or the path of a campaign file
            (docs/sweep.md), which has axes, points and seeds itself. Or a function, which gets the
            settings of each point as keyword arguments and returns the scenario of the point.
        axes: Keys of the scenario and the values of each. All combinations are run.
        points: A list of points, such as that of :func:`sobol`. A point is a dictionary of keys and
            their values. With `axes`, each point is run with each combination of the axes.
        seeds: Number of runs of each point, or their seeds. By default those of the scenario. A
            campaign has at most 10,000,000 runs in all.
        set: Keys of the scenario, and the values that they have in every run.
        live: Whether ``weir live`` carries out the runs, on real frames, in place of the simulator.
            Live runs take their full time. A run with late packets is repeated.
        store: The directory of the results, which is made if it is missing, or a place that
            fsspec reaches, such as ``s3://bucket/campaign``. Several processes, hosts and campaigns
            may use it at the same time.

    Raises:
        ScenarioError: The scenario or a value is refused.
        OSError: A file cannot be read, or the store cannot be used.

    :meth:`Campaign.run` raises ValueError if a scenario uses an algorithm written in Python.

    >>> import weirlab as wl
    >>> c = wl.sweep("two-hosts.toml", {"link.bottleneck.scheduler": ["fifo", "fq_codel"]},
    ...              seeds=3, set={"duration": "2s"}, store="campaign")
    >>> c.run()
    SweepResult(runs=6, there=0, made=6, failures=(), cpu_s=...)
    >>> c.run().made
    0
    """
    if not isinstance(live, bool):
        raise TypeError(f"live: expected a bool, not {type(live).__name__}")
    listed = None if points is None else [settings_of_point(point) for point in points]
    if callable(scenario):
        native = campaign_of_function(scenario, axes, listed, seeds, set, live)
    elif file := campaign_file_of(scenario):
        if live or any(given is not None for given in (axes, points, seeds, set)):
            raise ValueError("a campaign file has axes, points, seeds and settings itself")
        native = _native.campaign_file(str(file), sampled_points(file))
    else:
        several = isinstance(scenario, Sequence) and not isinstance(scenario, str)
        scenarios = cast(Sequence[ScenarioLike], scenario if several else [scenario])
        sources: list[tuple[_native.Source, _native.Settings]] = []
        for one in scenarios:
            made = source(one, set)
            label = [("scenario", _toml.value(made["default_name"], "scenario"))]
            sources.append((made, label if several else []))
        native = _native.campaign(sources, axes_of(axes), listed or [], seed_argument(seeds), live)
    warn(native.diagnostics, 2)
    return Campaign(native, open_store(os.fspath(store)))


class Campaign:
    """The runs of a campaign, and the store of their results. :func:`sweep` makes it."""

    def __init__(self, native: _native.Campaign, store: Store) -> None:
        self._native = native
        self._store = store

    @property
    def store(self) -> str:
        """The place of the store."""
        return self._store.place

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes: columns of the tables."""
        return tuple(self._native.names)

    @property
    def points(self) -> Sequence[dict[str, Any]]:
        """The settings of each point.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", {"traffic.calls.count": [1, 5]}, store="campaign")
        >>> c.points[1]
        {'traffic.calls.count': 5}
        """
        return _Points(self._native)

    def status(self) -> SweepStatus:
        """Counts the runs that the store has.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", seeds=4, set={"duration": "2s"}, store="campaign")
        >>> c.status()
        SweepStatus(points=1, runs=4, done=0)
        """
        done = self._store.done(self._native)
        return SweepStatus(self._native.points, self._native.runs, done)

    def run(
        self,
        executor: ExecutorLike = None,
        *,
        jobs: int | None = None,
        retries: int = 2,
        timeout: float | None = None,
        memory: int | None = None,
        batch_s: float = 1.0,
        progress: bool | Callable[[SweepProgress], object] = False,
    ) -> SweepResult:
        """Carries out the runs that the store does not have.

        The results do not depend on the executor. Finished runs are kept, whatever ends this
        function: Ctrl-C, a full disk, a crash of the machine. Another call carries out the rest.

        Args:
            executor: ``"threads"`` (the default) and ``"processes"`` of this machine, or any
                ``concurrent.futures.Executor``, such as ``dask.distributed.Client.get_executor()``
                or ``mpi4py.futures.MPIPoolExecutor``. Its workers need this package in the same
                version, and the directory of the store.
            jobs: Number of runs at a time. By default one for live runs on threads or processes of
                this machine, otherwise as many as there are workers.
            retries: How often to repeat a run that failed for a temporary reason, such as a live
                run with late packets.
            timeout: The longest time of a run, in seconds.
            memory: The most memory of a run, in bytes. Each batch then runs in a process of its
                own with this limit on its address space.
            batch_s: About how many seconds of work a task of the executor has.
            progress: A function that is called with a :class:`SweepProgress`, or True for a line
                on standard error.

        Raises:
            SweepError: Runs failed, or no further run can be stored.
            VersionError: A worker has another version of Weir.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", seeds=4, set={"duration": "2s"}, store="campaign")
        >>> c.run(jobs=2).made
        4
        """
        options = Options(
            retries=whole(retries, "retries"),
            timeout=None if timeout is None else positive_seconds(timeout, "timeout"),
            memory=None if memory is None else whole(memory, "memory"),
            batch_s=positive_seconds(batch_s, "batch_s"),
            jobs=self._jobs(executor) if jobs is None else max(1, whole(jobs, "jobs")),
        )
        if progress is not True and progress is not False and not callable(progress):
            raise TypeError("progress: expected a function or a bool")
        runner = Runner(
            store=self._store,
            points=self._native.points,
            runs=self._native.runs,
            missing=lambda start, most: self._store.missing(self._native, start, most),
            options=options,
            report=_show if progress is True else progress or None,
        )
        runner.carry_out(executor)
        return _result(runner)

    def _carry_out(self, tasks: list[_native.Task], executor: ExecutorLike) -> None:
        """Carries out the runs of some tasks."""
        runs = sum(len(task[3]) for task in tasks)
        runner = Runner(
            store=self._store,
            points=1,
            runs=runs,
            missing=lambda start, most: (tasks, 1, 0),
            options=Options(
                retries=2, timeout=None, memory=None, batch_s=1.0, jobs=self._jobs(executor)
            ),
            report=None,
        )
        runner.carry_out(executor)
        _result(runner)

    def _jobs(self, executor: ExecutorLike) -> int | None:
        """The number of runs at a time; None for as many as there are workers. Live runs at the
        same time take processor time from one another, and their packets depart late."""
        return 1 if self._native.is_live and not isinstance(executor, Executor) else None

    def _figures(self, tasks: list[_native.Task], figure: Figure) -> dict[int, list[Any]]:
        """The values of a figure in the runs of some tasks, by point."""
        local = self._store.local(self._native)
        words = (figure.table, figure.name, figure.column)
        found: dict[int, list[Any]] = {}
        for task in tasks:
            keys = [_native.key(task, seed) for seed in task[3]]
            found[task[0]] = _native.figures(local, keys, *words)
        return found

    def refine(
        self,
        figure: Figure,
        *,
        relative: float | None = None,
        absolute: float | None = None,
        budget: int,
        executor: ExecutorLike = None,
    ) -> list[Estimated]:
        """Runs more seeds of each point until the 95 % confidence interval of a figure is narrow.

        Args:
            figure: The value of each run that is estimated.
            relative: The maximum half width of an interval, as a part of the mean.
            absolute: The maximum half width of an interval. With both, the larger bound applies.
            budget: The most runs of this call. The points with the widest intervals come first.
            executor: As for :meth:`run`.

        Returns:
            The estimate of each point, over all its runs, including those of earlier calls.

        >>> import weirlab as wl
        >>> s = wl.Scenario("noisy", duration="200ms").host("a", "b").link("a", "b", "1M/5ms")
        >>> s = s.traffic("poisson", "a", "b", name="t", rate="900kbit/s", size="200B")
        >>> rates = {"traffic.t.rate": ["500kbit/s", "900kbit/s"]}
        >>> c = wl.sweep(s, rates, seeds=3, store="campaign")
        >>> found = c.refine(wl.Figure("flows", "t", "goodput_bps"), relative=0.1, budget=60)
        >>> all(e.is_within(0.1, None) for e in found)
        True
        """
        if relative is None and absolute is None:
            raise ValueError("refine: give relative=, absolute= or both")
        tasks = [self._native.task(number) for number in range(self._native.points)]
        # Fewer runs give no useful interval.
        counts = [max(len(task[3]), _LEAST_RUNS) for task in tasks]
        spent = 0
        while True:
            grown = [_with_seeds(task, count) for task, count in zip(tasks, counts)]
            spent += self._run_missing(grown, budget - spent, executor)
            values = self._figures(grown, figure)
            found = [estimate(task[0], values[task[0]]) for task in grown]
            wide = [e for e in found if not e.is_within(relative, absolute)]
            if not wide or spent >= budget:
                return found
            wide.sort(key=lambda e: -(e.half_width or math.inf) / max(abs(e.mean), 1e-300))
            left = budget - spent
            for each in wide:
                more = min(max(_LEAST_RUNS, counts[each.point] // 2), left)
                counts[each.point] += more
                left -= more

    def compare(
        self,
        first: int,
        second: int,
        figure: Figure,
        *,
        tolerance: float | None = None,
        budget: int,
        executor: ExecutorLike = None,
    ) -> Compared:
        """Compares a figure of two points over the same seeds, and stops when the result is clear.

        Args:
            first: The index of a point in :attr:`points`.
            second: The index of another point.
            figure: The value of each run that is compared.
            tolerance: The largest difference with which the points count as equal.
            budget: The most pairs of runs.
            executor: As for :meth:`run`.

        >>> import weirlab as wl
        >>> s = wl.Scenario("noisy", duration="200ms").host("a", "b").link("a", "b", "1M/5ms")
        >>> s = s.traffic("poisson", "a", "b", name="t", rate="500kbit/s", size="200B")
        >>> c = wl.sweep(s, {"traffic.t.rate": ["500kbit/s", "600kbit/s"]}, store="campaign")
        >>> c.compare(0, 1, wl.Figure("flows", "t", "goodput_bps"), budget=40).verdict
        'more'
        """
        tasks = [self._native.task(first), self._native.task(second)]
        pairs = _LEAST_PAIRS
        while True:
            pairs = min(pairs, whole(budget, "budget"))
            # Both runs of a pair have the same seed, so that as many random draws as possible
            # agree.
            seeds = _with_seeds(tasks[0], pairs)[3]
            grown = [(*task[:3], seeds, task[4]) for task in tasks]
            self._run_missing(grown, 2 * pairs, executor)
            values = [self._figures([task], figure)[task[0]] for task in grown]
            both = [(a, b) for a, b in zip(*values) if a is not None and b is not None]
            if not both:
                raise ValueError(f"no run has {figure.column} of {figure.name}")
            found = judge([b - a for a, b in both], tolerance)
            if found.verdict != "open" or pairs >= budget:
                return found
            pairs += max(_LEAST_PAIRS, pairs // 2)

    def _run_missing(self, tasks: list[_native.Task], most: int, executor: ExecutorLike) -> int:
        """Carries out at most `most` missing runs of some tasks. Returns how many."""
        missing: list[_native.Task] = []
        left = most
        for task in tasks:
            point, body, inputs, seeds, by = task
            keys = [_native.key(task, seed) for seed in seeds]
            wanted = [seed for seed, has in zip(seeds, self._store.has(keys)) if not has][:left]
            left -= len(wanted)
            if wanted:
                if inputs:
                    # This call also stores the input files of the point.
                    self._store.missing(self._native, point, 1)
                missing.append((point, body, inputs, wanted, by))
        if missing:
            self._carry_out(missing, executor)
        return most - left

    def scan(self, table: TableName = "flows") -> polars.LazyFrame:
        """A table of all runs that the store has, with the axes as columns, as a polars LazyFrame.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", {"traffic.calls.count": [1, 2]},
        ...              set={"duration": "2s"}, store="campaign")
        >>> _ = c.run()
        >>> c.scan("links").select("traffic.calls.count").unique().collect().height
        2
        """
        import polars

        return polars.scan_parquet(self.table(table))

    def dataset(self, table: TableName = "flows") -> Any:
        """A table of all runs that the store has, as a ``pyarrow.dataset.Dataset``.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", set={"duration": "2s"}, store="campaign")
        >>> _ = c.run()
        >>> c.dataset().count_rows()
        5
        """
        return _library("pyarrow.dataset").dataset(self.table(table), format="parquet")

    def duckdb(self, table: TableName = "flows", connection: Any = None) -> Any:
        """A table of all runs that the store has, as a view of DuckDB with the name of the table.

        Args:
            table: The table.
            connection: A connection of DuckDB; by default the one of the module.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", set={"duration": "2s"}, store="campaign")
        >>> _ = c.run()
        >>> view = c.duckdb("flows")
        >>> view.count("*").fetchall()
        [(5,)]
        """
        import duckdb

        used: Any = connection or duckdb
        view = used.read_parquet(self.table(table))
        return view.create_view(table, replace=True)

    def table(self, table: TableName = "flows") -> str:
        """The path of a Parquet file with a table of all runs of this campaign in the store. The
        axes are columns. If runs were added since the last call, this call makes a new file.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", set={"duration": "2s"}, store="campaign")
        >>> _ = c.run()
        >>> c.table().endswith("flows.parquet")
        True
        """
        digest = hashlib.sha256()
        keys: list[str] = []
        for number in range(self._native.points):
            digest.update(repr(self._native.settings(number)).encode())
            keys.extend(key for _, key in self._native.keys(number))
        store = self._store.local(self._native)
        for key, is_there in zip(keys, _native.has(store, keys)):
            if is_there:
                digest.update(key.encode())
        path = Path(store, "tables", f"{digest.hexdigest()[:16]}-{table}.parquet")
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            os.close(handle)
            try:
                self._native.export(store, table, name)
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                raise
        return str(path)

    def verify(self, *, sample: int = 10, seed: int = 1, remove: bool = False) -> Verified:
        """Compares all files of the store with their hashes, and carries out some runs again to
        compare their bytes.

        Args:
            sample: The most runs to carry out again. Live runs are not carried out again.
            seed: Seed of the choice of these runs.
            remove: Whether to remove damaged runs, so that :meth:`run` carries them out again.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", seeds=2, set={"duration": "2s"}, store="campaign")
        >>> _ = c.run()
        >>> c.verify()
        Verified(runs=2, again=2, damaged={})
        """
        runs, again, damaged = _native.verify(
            self._store.local(self._native), whole(sample, "sample"), whole(seed, "seed"), remove
        )
        if remove:
            self._store.forget([key for key, _ in damaged])
        return Verified(runs, again, dict(damaged))

    def point_report(
        self, path: str | os.PathLike[str], point: int, seed: int | None = None
    ) -> None:
        """Writes the report of a run, one HTML page with plots. A simulated run is carried out
        again; the report of a live run is in the store.

        Args:
            path: The file.
            point: The index of the point in :attr:`points`.
            seed: The seed of the run; by default the first seed of the point.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", seeds=2, set={"duration": "2s"}, store="campaign")
        >>> c.point_report("point.html", 0)
        """
        first = self._native.keys(point)[0][0]
        store = self._store.local(self._native)
        page = self._native.html(store, point, first if seed is None else seed)
        Path(path).write_text(page, encoding="utf-8")

    def sensitivity(
        self, figure: Figure, *, method: Literal["sobol", "delta"] = "delta", seed: int = 1
    ) -> dict[str, Sensitivity]:
        """The influence of each axis on a figure, computed by SALib.

        Args:
            figure: The value of each run. Its mean over the seeds of a point is analysed.
            method: ``"sobol"`` gives Sobol's indices of first order and in total; the points must
                be those of :func:`saltelli`, in their order. ``"delta"`` gives the indices of first
                order and Borgonovo's delta for any points.
            seed: Seed of the resampling that gives the intervals.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", {"traffic.calls.count": [1, 2]}, store="campaign")
        >>> c.sensitivity(wl.Figure("flows", "video", "loss"))     # doctest: +SKIP
        {'traffic.calls.count': Sensitivity(first=0.02, first_half=0.1, total=..., total_half=...)}
        """
        estimates = self._estimates(figure)
        numbers = [each.mean for each in estimates]
        if any(math.isnan(number) for number in numbers):
            raise ValueError(f"sensitivity: some points have no {figure.column}: run them first")
        return analyse(list(self.points), self.axes, numbers, method, seed)

    def report(
        self,
        directory: str | os.PathLike[str],
        figure: Figure,
        *,
        x: str | None = None,
        panels: str | None = None,
        lines: str | None = None,
        best: Literal["min", "max"] = "max",
        sensitivity: dict[str, Sensitivity] | None = None,
        reports: int = 10,
    ) -> str:
        """Writes a page with plots of a figure over the axes, and with the best points and a report
        of a run of each.

        Args:
            directory: The directory of the pages, which is made if it is missing.
            figure: The value of each run that is shown.
            x: The axis of the plots' abscissa; by default the one with the most values.
            panels: The axis that has one plot for each of its values.
            lines: The axis that has one line in each plot for each of its values.
            best: ``"min"`` if a smaller mean of the figure is better, ``"max"`` if a larger one is.
            sensitivity: The result of :meth:`sensitivity`, to be shown on the page.
            reports: Number of best points that get the report of a run.

        Returns:
            The path of the page.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", {"traffic.calls.count": [1, 2]},
        ...              set={"duration": "2s"}, store="campaign")
        >>> _ = c.run()
        >>> c.report("pages", wl.Figure("flows", "video", "delay_p99_ns"), best="min")
        'pages/index.html'
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        estimates = [e for e in self._estimates(figure) if not math.isnan(e.mean)]
        if not estimates:
            raise ValueError(f"no run in the store has {figure.column} of {figure.name}")
        ranked = sorted(estimates, key=lambda e: e.mean if best == "min" else -e.mean)
        for each in ranked[:reports]:
            self.point_report(folder / f"point-{each.point}.html", each.point)
        page = campaign_page(
            repr(self)[1:-1],
            self.points,
            self.axes,
            figure,
            ranked,
            reports,
            (x, panels, lines),
            sensitivity,
        )
        path = folder / "index.html"
        path.write_text(page, encoding="utf-8")
        return str(path)

    def _estimates(self, figure: Figure) -> list[Estimated]:
        """The estimate of a figure at each point, over the runs that the store has."""
        tasks = [self._native.task(number) for number in range(self._native.points)]
        values = self._figures(tasks, figure)
        return [estimate(task[0], values[task[0]]) for task in tasks]

    def write(self, path: str | os.PathLike[str], scenario: str) -> None:
        """Writes the points as a campaign file, for ``weir sweep``.

        Args:
            path: The file.
            scenario: The path of the scenario that is written into the file.

        >>> import weirlab as wl
        >>> c = wl.sweep("two-hosts.toml", {"traffic.calls.count": [1, 2]}, store="campaign")
        >>> c.write("campaign.toml", "two-hosts.toml")
        >>> wl.sweep("campaign.toml", store="campaign").points == c.points
        True
        """
        seeds = [seed for seed, _ in self._native.keys(0)]
        lines = [f"scenario = {_toml.value(scenario, 'scenario')}", f"seeds = {seeds}"]
        lines += ["live = true"] if self._native.is_live else []
        for number in range(self._native.points):
            lines += ["", "[[point]]"]
            for key, value in self._native.settings(number):
                lines.append(f"{_toml.value(key, 'key')} = {as_toml(value)}")
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        status = self.status()
        return (
            f"<weirlab.Campaign: {status.points} points, {status.runs} runs, "
            f"{status.done} done, in {self.store}>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>"


class _Points(Sequence[dict[str, Any]]):
    """The settings of the points, each made when it is asked for."""

    def __init__(self, native: _native.Campaign) -> None:
        self._native = native

    def __len__(self) -> int:
        return self._native.points

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(at, slice):
            return [self._point(number) for number in range(len(self))[at]]
        return self._point(range(len(self))[at])

    def _point(self, number: int) -> dict[str, Any]:
        return {key: value_of(value) for key, value in self._native.settings(number)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, _Points)) and list(self) == [*cast(Iterable[Any], other)]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._point, range(len(self)))

    def __repr__(self) -> str:
        return repr(self[:10]) if len(self) <= 10 else f"{repr(self[:10])[:-1]}, …]"


def _result(runner: Runner) -> SweepResult:
    """The result of a runner. Raises an error if runs have failed."""
    failures = tuple(runner.failures)
    if failures:
        some = "\n".join(
            f"  point {item.point}, seed {item.seed}: {item.reason}" for item in failures[:10]
        )
        count = f"{len(failures)} run{'' if len(failures) == 1 else 's'}"
        raise SweepError(f"{count} failed; the others are kept\n{some}", failures)
    return SweepResult(runner.runs, runner.there, runner.made, failures, runner.cpu_s)


def _with_seeds(task: _native.Task, count: int) -> _native.Task:
    """A task with `count` seeds: first its own seeds, then the numbers above the largest of them."""
    point, body, inputs, seeds, by = task
    more = range(max(seeds) + 1, max(seeds) + 1 + max(0, count - len(seeds)))
    return (point, body, inputs, [*seeds, *more][:count], by)


def _show(progress: SweepProgress) -> None:
    done = progress.there + progress.made + progress.failed
    left = "" if progress.left_s is None else f", about {progress.left_s:.0f} s left"
    end = "\n" if done == progress.runs else ""
    text = f"\r{progress.fraction:4.0%}, {done} of {progress.runs} runs{left}   "
    print(text, end=end, file=sys.stderr, flush=True)
