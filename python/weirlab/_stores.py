"""The stores of campaigns: a directory, or a place that fsspec reaches, such as ``s3://``.

An object store has no rename, so a worker writes a run into a local directory and then uploads its
files. ``meta.json`` is uploaded last: a run that has this file is complete.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from . import _native, _worker
from ._results import _library

Missing: TypeAlias = "tuple[list[_native.Task], int, int]"
_META = "meta.json"


class Store(Protocol):
    """A place for the results of runs."""

    place: str
    work: Callable[..., list[_worker.Report]]

    def missing(self, native: _native.Campaign, start: int, most: int) -> Missing:
        """Collects the missing runs as tasks, point by point from `start` on, until there are at
        least `most`. Also returns the next point to examine, and the number of runs of the examined
        points that the store has."""
        ...

    def has(self, keys: list[str]) -> list[bool]:
        """Whether the store has each of the runs."""
        ...

    def done(self, native: _native.Campaign) -> int:
        """Number of runs of a campaign that the store has."""
        ...

    def local(self, native: _native.Campaign) -> str:
        """A directory that has the runs of the campaign."""
        ...

    def forget(self, keys: Sequence[str]) -> None:
        """Removes runs that the directory of :meth:`local` no longer has."""
        ...


def open_store(place: str) -> Store:
    """Opens a store, and makes it if it is missing."""
    return Remote(place) if "://" in place else Local(place)


class Local:
    """A directory."""

    def __init__(self, place: str) -> None:
        _native.create_store(place)
        # Workers may have another current directory.
        self.place = os.path.abspath(place)
        self.work: Callable[..., list[_worker.Report]] = _worker.work

    def missing(self, native: _native.Campaign, start: int, most: int) -> Missing:
        return native.missing(self.place, start, most)

    def has(self, keys: list[str]) -> list[bool]:
        return _native.has(self.place, keys)

    def done(self, native: _native.Campaign) -> int:
        return native.done(self.place)

    def local(self, native: _native.Campaign) -> str:
        return self.place

    def forget(self, keys: Sequence[str]) -> None:
        pass  # The directory is the store itself.


class Remote:
    """A place that fsspec reaches."""

    def __init__(self, place: str) -> None:
        self.place = place.rstrip("/")
        self.work: Callable[..., list[_worker.Report]] = work_remotely
        # Not a `TemporaryDirectory`, which warns if it is removed together with its object.
        self._mirror = tempfile.mkdtemp(prefix="weirlab-")
        weakref.finalize(self, shutil.rmtree, self._mirror, ignore_errors=True)
        _native.create_store(self._mirror)

    def missing(self, native: _native.Campaign, start: int, most: int) -> Missing:
        tasks: list[_native.Task] = []
        runs = there = 0
        while start < native.points and runs < most:
            task = native.task(start)
            point, body, inputs, seeds, by = task
            keys = [_native.key(task, seed) for seed in seeds]
            left = [seed for seed, is_there in zip(seeds, self.has(keys)) if not is_there]
            there += len(seeds) - len(left)
            runs += len(left)
            start += 1
            if left:
                tasks.append((point, body, inputs, left, by))
                if inputs:
                    # The first call stores the input files in the mirror; the second uploads those
                    # that the place lacks.
                    native.missing(self._mirror, point, 1)
                    self._upload_inputs(inputs)
        return tasks, start, there

    def has(self, keys: list[str]) -> list[bool]:
        files = _files(self.place)
        return [bool(files.exists(f"{self.place}/runs/{key}/{_META}")) for key in keys]

    def done(self, native: _native.Campaign) -> int:
        keys = ([key for _, key in native.keys(number)] for number in range(native.points))
        return sum(sum(self.has(some)) for some in keys)

    def local(self, native: _native.Campaign) -> str:
        files = _files(self.place)
        for number in range(native.points):
            for _, key in native.keys(number):
                target = Path(self._mirror, "runs", key)
                if not target.exists() and self.has([key])[0]:
                    with tempfile.TemporaryDirectory(dir=f"{self._mirror}/tmp") as folder:
                        part = Path(folder, key)
                        files.get(f"{self.place}/runs/{key}/", f"{part}/", recursive=True)
                        part.rename(target)
        return self._mirror

    def forget(self, keys: Sequence[str]) -> None:
        files = _files(self.place)
        for key in keys:
            # Without this file, a run counts as missing.
            files.rm(f"{self.place}/runs/{key}/{_META}")

    def _upload_inputs(self, inputs: Sequence[tuple[str, str]]) -> None:
        files = _files(self.place)
        for _, key in inputs:
            if not files.exists(f"{self.place}/inputs/{key}"):
                files.put_file(f"{self._mirror}/inputs/{key}", f"{self.place}/inputs/{key}")


def work_remotely(
    place: str,
    engine: str,
    tasks: list[_native.Task],
    batch: int,
    timeout: float | None,
    memory: int | None,
    stop: _native.Stop | None = None,
) -> list[_worker.Report]:
    """Carries out tasks in a directory of this worker, and uploads the runs."""
    files = _files(place)
    with tempfile.TemporaryDirectory(prefix="weirlab-") as folder:
        _native.create_store(folder)
        for key in {key for task in tasks for _, key in task[2]}:
            files.get_file(f"{place}/inputs/{key}", f"{folder}/inputs/{key}")
        reports = _worker.work(folder, engine, tasks, batch, timeout, memory, stop)
        for report in reports:
            run = Path(folder, "runs", report[2])
            if report[4] != "made" or files.exists(f"{place}/runs/{report[2]}/{_META}"):
                continue
            for path in sorted(run.iterdir(), key=lambda path: path.name == _META):
                files.put_file(str(path), f"{place}/runs/{report[2]}/{path.name}")
        return reports


def _files(place: str) -> Any:
    """The file system of a place. Its listings are not cached: other clients write too."""
    protocol = place.split("://", 1)[0]
    return _library("fsspec").filesystem(protocol, use_listings_cache=False)
