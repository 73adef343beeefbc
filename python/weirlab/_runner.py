"""Carries out the missing runs of a campaign on the workers of an executor."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from . import _native, _worker
from ._algorithms import names_in
from ._errors import SweepError, VersionError
from ._stores import Store

# How often a run may be lost with its worker before the run counts as the cause.
_MOST_LOST = 10
# A batch that takes `_STRAGGLER` times as long as expected, and at least `_LEAST_STRAGGLER_S`, is
# also given to another worker.
_STRAGGLER = 4.0
_LEAST_STRAGGLER_S = 2.0
# The most runs of a batch.
_LONGEST_BATCH = 1000
# The longest wait for a result, and the shortest time between two requests for the number of
# workers, in seconds.
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """The progress of the runs of a campaign.

    >>> import weirlab as wl
    >>> wl.SweepProgress(runs=10, there=2, made=3, failed=0, left_s=5.0).fraction
    0.5
    """

    runs: int
    there: int
    """Runs that the store had."""
    made: int
    """Runs that were carried out."""
    failed: int
    left_s: float | None
    """About how many seconds the rest will take; None before the first run has ended."""

    @property
    def fraction(self) -> float:
        """The finished part, from 0 to 1."""
        return (self.there + self.made + self.failed) / self.runs if self.runs else 1.0


@dataclass(frozen=True, slots=True)
class SweepFailure:
    """A run that has no result."""

    point: int
    """The number of the point, an index into ``Campaign.points``."""
    seed: int
    reason: str


@dataclass(frozen=True, slots=True)
class Options:
    """How runs are carried out."""

    retries: int
    timeout: float | None
    memory: int | None
    batch_s: float
    jobs: int | None


@dataclass(slots=True)
class _Run:
    """A run that the store lacks, and the attempts to carry it out."""

    point: int
    body: str
    """The text of the scenario."""
    inputs: list[tuple[str, str]]
    """The names and the hashes of its input files."""
    seed: int
    by: str
    """What carries it out: ``sim`` or ``live``."""
    attempts: int = 0
    """How often the run failed."""
    lost: int = 0
    """How often its worker was lost."""
    done: bool = False
    """Whether the run has a result, or has failed for good."""

    def task(self) -> _native.Task:
        return (self.point, self.body, self.inputs, [self.seed], self.by)


@dataclass(slots=True)
class _Batch:
    """Runs that a worker gets at once."""

    runs: list[_Run]
    began: float
    is_copied: bool = False
    """Whether another batch has the same runs."""
    executor: Executor | None = None
    connection: object = None
    """The connection over which the batch was sent, if the executor has one."""

    def tasks(self) -> list[_native.Task]:
        """The runs as tasks, with the runs of a point together."""
        tasks: list[_native.Task] = []
        for run in self.runs:
            if tasks and tasks[-1][0] == run.point:
                tasks[-1][3].append(run.seed)
            else:
                tasks.append(run.task())
        return tasks


Missing: TypeAlias = "Callable[[int, int], tuple[list[_native.Task], int, int]]"


@dataclass(slots=True)
class Runner:
    """The state of a campaign while it is carried out."""

    store: Store
    points: int
    runs: int
    missing: Missing
    """A function that examines the points from a given one on. Returns tasks with missing runs, the
    next point to examine, and the number of runs that the store has at the examined points."""
    options: Options
    report: Callable[[SweepProgress], object] | None
    there: int = 0
    made: int = 0
    cpu_s: float = 0.0
    failures: list[SweepFailure] = field(default_factory=list[SweepFailure])
    _next: int = 0
    _queue: deque[_Run] = field(default_factory=deque[_Run])
    _flying: dict[Future[Any], _Batch] = field(default_factory=dict[Future[Any], _Batch])
    """The batches that workers have, by their futures."""
    _news: queue.SimpleQueue[Future[Any]] = field(default_factory=queue.SimpleQueue["Future[Any]"])
    """The futures that have ended."""
    _batches: int = 0
    _began: float = 0.0
    _reported: float = 0.0

    def carry_out(self, executor: Executor | str | None) -> None:
        """Carries out all missing runs. Finished runs are kept, whatever ends this function."""
        self._began = time.monotonic()
        with _Pool(executor, self.options.jobs) as pool:
            try:
                self._loop(pool)
            except BaseException:
                pool.stop()
                raise
            finally:
                for future in self._flying:
                    future.cancel()
        self._show(last=True)

    def _loop(self, pool: _Pool) -> None:
        while True:
            width = pool.width()
            while len(self._flying) < 2 * width and (batch := self._batch(width)):
                if not self._submit(pool, batch):
                    break
            if all(run.done for batch in self._flying.values() for run in batch.runs):
                # All runs are done. The batches that remain only repeat some of them.
                return
            broken = False
            for future in self._wait():
                # A batch that `_drop_disconnected` took back has no entry.
                if batch := self._flying.pop(future, None):
                    # The other batches of a broken executor may end after its renewal.
                    broken |= self._ended(future, batch) and batch.executor is pool.executor
            self._drop_disconnected(pool)
            if broken:
                pool.renew()
            if pool.copies_stragglers:
                self._copy_stragglers(pool, width)
            self._show()

    def _wait(self) -> list[Future[Any]]:
        """Waits for futures that end, and returns them; none if the time is over. Each future
        reports its end, so the cost does not grow with the number of batches at a time."""
        ended: list[Future[Any]] = []
        with contextlib.suppress(queue.Empty):
            ended.append(self._news.get(timeout=_LOOK_S))
            while True:
                ended.append(self._news.get_nowait())
        return ended

    def _batch(self, width: int) -> _Batch | None:
        """The next runs: as many as a batch should have, or a single run that has failed or was
        lost before. None if no run is left."""
        size = self._size()
        while len(self._queue) < size * width and self._next < self.points:
            tasks, self._next, there = self.missing(self._next, size * width)
            self.there += there
            for point, body, inputs, seeds, by in tasks:
                if names := names_in(body):
                    raise ValueError(
                        f"{names[0]} is written in Python: a store keeps results by names, and the "
                        "class may change while its name stays; use simulate"
                    )
                self._queue.extend(_Run(point, body, inputs, seed, by) for seed in seeds)
        # Towards the end, the workers share what is left.
        if self._next >= self.points:
            size = max(1, min(size, len(self._queue) // (2 * width)))
        runs: list[_Run] = []
        while self._queue and len(runs) < size:
            is_suspect = self._queue[0].attempts + self._queue[0].lost > 0
            if is_suspect and runs:
                break
            runs.append(self._queue.popleft())
            if is_suspect:
                break
        return _Batch(runs, time.monotonic()) if runs else None

    def _size(self) -> int:
        """Number of runs that together take about the intended time of a batch."""
        if self.made == 0:
            return 1
        each = max(self.cpu_s / self.made, 1e-6)
        return max(1, min(int(self.options.batch_s / each), _LONGEST_BATCH))

    def _submit(self, pool: _Pool, batch: _Batch) -> bool:
        """Gives a batch to a worker. Returns whether the executor takes further batches."""
        self._batches += 1
        words = (self.store.place, _native.engine(), batch.tasks(), self._batches)
        limits = (self.options.timeout, self.options.memory)
        batch.executor, batch.connection = pool.executor, pool.connection()
        more = (pool.stopper,) if pool.stopper else ()
        try:
            future = pool.executor.submit(self.store.work, *words, *limits, *more)
        except BrokenExecutor:
            # A worker has died. The batches that are lost with it end soon, and are then counted.
            self._queue.extendleft(reversed(batch.runs))
            if self._flying:
                return False
            pool.renew()
            return True
        self._flying[future] = batch
        future.add_done_callback(self._news.put)
        return True

    def _ended(self, future: Future[Any], batch: _Batch) -> bool:
        """Takes the results of a batch. Returns whether the executor is broken."""
        try:
            reports: list[_worker.Report] = future.result()
        except VersionError:
            raise
        except BrokenExecutor as error:
            self._lost(batch, error)
            return True
        except Exception as error:
            self._lost(batch, error)
            return False
        by_run = {(run.point, run.seed): run for run in batch.runs}
        for point, seed, _, took, end, reason, again, lasting in reports:
            run = by_run.pop((point, seed))
            if run.done:
                continue
            if end == "failed":
                self._failed(run, reason, again, lasting)
                continue
            run.done = True
            self.made += 1
            self.cpu_s += took
        # A worker that was stopped has not begun the other runs.
        self._queue.extendleft(run for run in by_run.values() if not run.done)
        return False

    def _failed(self, run: _Run, reason: str, again: bool, lasting: bool) -> None:
        run.attempts += 1
        if lasting:
            raise SweepError(f"{reason}; what is done is kept", self.failures)
        if again and run.attempts <= self.options.retries:
            self._queue.append(run)
            return
        run.done = True
        self.failures.append(SweepFailure(run.point, run.seed, reason))

    def _lost(self, batch: _Batch, error: BaseException) -> None:
        """Handles the loss of a worker, or its exception. Only the store shows which runs are
        finished."""
        runs = [run for run in batch.runs if not run.done]
        keys = [_native.key(run.task(), run.seed) for run in runs]
        for run, is_there in zip(runs, self.store.has(keys)):
            run.lost += 1
            if is_there:
                run.done = True
                self.made += 1
            elif run.lost > _MOST_LOST:
                run.done = True
                reason = f"its worker was lost {run.lost} times: {error or type(error).__name__}"
                self.failures.append(SweepFailure(run.point, run.seed, reason))
            else:
                self._queue.append(run)

    def _drop_disconnected(self, pool: _Pool) -> None:
        """Takes back the batches that were sent over a lost connection. Dask cancels most of their
        futures, but a future never ends if the scheduler died while the result was on its way."""
        now = pool.connection()
        for future, batch in list(self._flying.items()):
            if batch.connection is not now:
                del self._flying[future]
                future.cancel()
                self._lost(batch, ConnectionError("the connection to the scheduler was lost"))

    def _copy_stragglers(self, pool: _Pool, width: int) -> None:
        """Gives a batch that takes unexpectedly long to another worker, if one is idle. The store
        keeps the result that comes first."""
        if self._queue or self._next < self.points or self.made == 0:
            return
        now, each = time.monotonic(), self.cpu_s / self.made
        for batch in list(self._flying.values()):
            if len(self._flying) >= width or batch.is_copied:
                continue
            expected = max(_STRAGGLER * each * len(batch.runs), _LEAST_STRAGGLER_S)
            if now - batch.began > expected:
                batch.is_copied = True
                left = [run for run in batch.runs if not run.done]
                self._submit(pool, _Batch(left, now, is_copied=True))

    def _show(self, last: bool = False) -> None:
        now = time.monotonic()
        if self.report is None or (now - self._reported < 0.1 and not last):
            return
        self._reported = now
        failed = len(self.failures)
        rest = self.runs - self.there - self.made - failed
        left = (now - self._began) / self.made * rest if self.made else None
        self.report(SweepProgress(self.runs, self.there, self.made, failed, left))


class _Pool:
    """An executor: one of ours, which is renewed when a worker dies, or the caller's."""

    def __init__(self, given: Executor | str | None, jobs: int | None) -> None:
        self._given = given
        self._jobs = jobs
        self.stopper: _native.Stop | None = None
        # The last known number of workers of Dask, and the time at which Dask was asked.
        self._width = 0
        self._asked = 0.0
        self._is_ours = not isinstance(given, Executor)
        self.copies_stragglers = given not in (None, "threads")
        self.executor = given if isinstance(given, Executor) else self._make()

    def _make(self) -> Executor:
        jobs = self._jobs or len(os.sched_getaffinity(0))
        if self._given in (None, "threads"):
            self.stopper = _native.Stop()
            return ThreadPoolExecutor(jobs)
        if self._given == "processes":
            # A separate process forks the workers, so threads of this process do not disturb them.
            context = multiprocessing.get_context("forkserver")
            return ProcessPoolExecutor(jobs, context, _worker.end_with_the_client)
        raise ValueError(
            f"executor: expected 'threads', 'processes' or an Executor, not {self._given!r}"
        )

    def width(self) -> int:
        """Number of workers, which may change."""
        if self._jobs is not None:
            return self._jobs
        client: Any = getattr(self.executor, "_client", None)
        if client is not None:
            now = time.monotonic()
            if self._width and now - self._asked < _LOOK_S:
                # Asking burdens the scheduler, and many batches a second already keep it busy.
                return self._width
            self._asked = now
            try:
                threads: dict[str, int] = client.ncores()
            except OSError:
                # A scheduler that died may come back; the client tells when it gives up.
                if client.status == "closed" or self._width == 0:
                    raise
            else:
                self._width = max(1, sum(threads.values()))
            return self._width
        for name in ("_max_workers", "num_workers"):
            number = getattr(self.executor, name, None)
            if isinstance(number, int) and number > 0:
                return number
        return len(os.sched_getaffinity(0))

    def connection(self) -> object:
        """The connection to the scheduler of Dask: another object after each reconnection."""
        client: Any = getattr(self.executor, "_client", None)
        return getattr(client, "scheduler_comm", None)

    def renew(self) -> None:
        """Makes another executor in place of a broken one."""
        if not self._is_ours:
            raise SweepError("the executor is broken; what is done is kept", ())
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.executor = self._make()

    def stop(self) -> None:
        if self.stopper:
            self.stopper.set()

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            # A copy of a batch may still run; its result is not needed.
            self.executor.shutdown(wait=self.stopper is not None, cancel_futures=True)
