"""The part of a campaign that runs on workers: batches of runs.

With a limit of memory, a batch runs in a separate process, ``python -m weirlab._worker``.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import TypeAlias

from . import _native
from ._errors import VersionError

Report: TypeAlias = tuple[int, int, str, float, str, str, bool, bool]
"""Point, seed, key, seconds, how the run ended, the reason of a failure, whether another attempt
may succeed, and whether all other runs would fail as well."""


def work(
    store: str,
    engine: str,
    tasks: list[_native.Task],
    batch: int,
    timeout: float | None,
    memory: int | None,
    stop: _native.Stop | None = None,
) -> list[Report]:
    """Carries out tasks. `engine` is the version that the results must have. `batch` is the number
    of the batch: it makes the calls differ, because some executors, such as Dask's, do not repeat
    a call with the same arguments."""
    del batch
    if engine != _native.engine():
        raise VersionError(
            f"the worker {socket.gethostname()}, process {os.getpid()}, has Weir "
            f"{_native.engine()}, and the campaign needs {engine}: install the same on all workers"
        )
    if memory is not None:
        return _limited(store, tasks, timeout, memory)
    return _native.work(store, tasks, timeout, stop, _command(tasks))


def end_with_the_client() -> None:
    """Ends this worker when the client's process has ended, even if the client was killed.
    Otherwise a worker of a pool would wait forever for its next batch."""
    client = multiprocessing.parent_process()
    if client is None:
        return

    def watch() -> None:
        client.join()
        # Unfinished runs remain below `tmp` in the store, as after a crash.
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _command(tasks: list[_native.Task]) -> str | None:
    """The command that carries out live runs; None without a command or without live runs."""
    if all(task[4] != "live" for task in tasks):
        return None
    from ._command import find_weir

    try:
        return find_weir()
    except FileNotFoundError:
        return None


def _limited(
    store: str, tasks: list[_native.Task], timeout: float | None, memory: int
) -> list[Report]:
    """Carries out tasks in a process with a limit of `memory` bytes."""
    given = pickle.dumps((store, tasks, timeout, memory))
    command = [sys.executable, "-P", "-m", "weirlab._worker"]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reports: list[Report] = []
    stream = io.BytesIO(done.stdout)
    while True:
        try:
            reports.extend(pickle.load(stream))
        except (EOFError, pickle.UnpicklingError):
            break
    if done.returncode != 0:
        # The first run without a report ended the process; later ones were not carried out.
        reported = {report[:2] for report in reports}
        rest = (one for one in _single(tasks) if (one[0], one[3][0]) not in reported)
        if task := next(rest, None):
            reason = _reason(done.returncode, done.stderr, memory)
            key = _native.key(task, task[3][0])
            reports.append((task[0], task[3][0], key, 0.0, "failed", reason, False, False))
    return reports


def _single(tasks: list[_native.Task]) -> Iterator[_native.Task]:
    """The same runs as tasks of one run each."""
    for point, body, inputs, seeds, by in tasks:
        for seed in seeds:
            yield point, body, inputs, [seed], by


def _reason(status: int, words: bytes, memory: int) -> str:
    """Why the process of the runs ended early. `words` is its standard error."""
    text = words.decode(errors="replace").strip().rsplit("\n", 1)[-1]
    if "memory allocation" in text or "MemoryError" in text:
        return f"the run needs more than {memory / 1e6:.0f} MB of memory"
    if status < 0:
        return f"the process of the run was ended by {signal.Signals(-status).name}: {text}"
    return f"the process of the run ended with status {status}: {text}"


def main() -> None:
    """Reads tasks from standard input, carries them out, and writes a report of each run."""
    store, tasks, timeout, memory = pickle.load(sys.stdin.buffer)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # An abort for lack of memory needs no core dump.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    command = _command(tasks)
    for task in _single(tasks):
        reports = _native.work(store, [task], timeout, None, command)
        # The reports of earlier runs arrive even if a later run ends this process.
        sys.stdout.buffer.write(pickle.dumps(reports))
        sys.stdout.buffer.flush()
        if any(report[7] for report in reports):
            break


if __name__ == "__main__":
    main()
