"""Watches queues with the command `weir watch`."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self, TypeAlias

from . import _guard, _native
from ._command import USAGE, find_weir
from ._errors import CommandError
from ._loop import in_a_loop, in_a_thread
from ._results import Table
from ._scenario import whole

Method: TypeAlias = Literal["loop", "timer", "events", "netlink", "tc"]
Rate: TypeAlias = Literal["max"] | int | str
Seconds: TypeAlias = float

# The largest piece of text that becomes one batch, and the size of the pipe, in bytes.
_PIECE = 1 << 20
# At the end of a watch, the longest wait for the last rows, and then for the summary, in seconds.
_END_S = 15.0
_LEAST_INTERVAL_S, _MOST_INTERVAL_S = 0.005, 60.0


def watch(
    devices: str | Iterable[str],
    *,
    rate: Rate | None = None,
    method: Method | None = None,
    netns: str | None = None,
    pid: int | None = None,
    root_only: bool = False,
    bands: bool = True,
    seconds: Seconds | None = None,
    interval: Seconds = 0.1,
) -> Watch:
    """Watches queues of the kernel or of Weir, and gives tables of their lengths.

    Args:
        devices: A device, or several: names, or patterns with ``*`` and ``?``. ``"eth0@left"`` is
            in a namespace of ``ip netns``, ``"eth0@4711"`` in that of a process; ``"weir"`` means
            the queues of the daemon.
        rate: Readings per second: a number, a text such as ``"200k"``, or ``"max"``. By default
            1000.
        method: ``loop``, ``timer``, ``events`` (each packet that is enqueued or dequeued),
            ``netlink`` (needs no privileges), ``tc``; by default the cheapest one that reaches the
            rate. docs/watch.md explains them.
        netns: The namespace of devices that are given without one.
        pid: A process. Its namespace is used for devices that are given without one.
        root_only: Whether to read only the root discipline of each device.
        bands: Whether the bands of ``pfifo_fast`` are read.
        seconds: The duration of the watch; by default it ends with the context.
        interval: Time between two batches, in seconds, from 0.005 to 60. An unchanged queue has a
            row in each interval.

    Returns:
        A context manager, and an iterator and asynchronous iterator of tables.

    Raises:
        ValueError: An argument is refused.
        CommandError: The devices cannot be watched.

    >>> import weirlab as wl
    >>> with wl.watch("lo", rate=100, seconds=0.3) as queues:
    ...     rows = sum(len(batch) for batch in queues)
    >>> rows > 0, queues.summary["device"]
    (True, 'lo')
    """
    if not isinstance(devices, Iterable):
        raise TypeError(f"devices: expected texts, not {type(devices).__name__}")
    words = [devices] if isinstance(devices, str) else list(devices)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"devices: expected texts, not {type(word).__name__}")
        if word.startswith("-"):
            raise ValueError(f"devices: {word!r} is no name of a device")
    if not words:
        raise ValueError("devices: at least one is needed")
    options = _options(rate, method, netns, pid, seconds, interval)
    options += ["--root-only"] if root_only else []
    options += [] if bands else ["--no-bands"]
    return Watch([*words, *options])


def _options(
    rate: Rate | None,
    method: str | None,
    netns: str | None,
    pid: int | None,
    seconds: Seconds | None,
    interval: Seconds,
) -> list[str]:
    flush = _seconds(interval, "interval")
    if not _LEAST_INTERVAL_S <= flush <= _MOST_INTERVAL_S:
        raise ValueError(
            f"interval: {flush:g} is not from {_LEAST_INTERVAL_S:g} to {_MOST_INTERVAL_S:g} s"
        )
    options = [f"--flush={flush!r}"]
    if rate is not None:
        if isinstance(rate, bool) or not isinstance(rate, (int, str)):
            raise TypeError(f"rate: expected a number or a text, not {type(rate).__name__}")
        options.append(f"--rate={rate}")
    for name, value in (("method", method), ("netns", netns)):
        if value is not None:
            if not isinstance(value, str):
                raise TypeError(f"{name}: expected a text, not {type(value).__name__}")
            options.append(f"--{name}={value}")
    if pid is not None:
        options.append(f"--pid={whole(pid, 'pid')}")
    if seconds is not None:
        options.append(f"--seconds={_seconds(seconds, 'seconds')!r}")
    return options


def _seconds(value: Seconds, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{where}: expected seconds, not {type(value).__name__}")
    if not 0 < value < float("inf"):
        raise ValueError(f"{where}: {value} is no time in seconds")
    return float(value)


class Watch:
    """Queues that are watched, from :func:`watch`: an iterator of tables.

    A table has a row for each run of equal readings of a queue; with the method ``events``, it also
    has a row for each enqueue and each dequeue. Columns: ``what`` (``readings``, ``enqueue``,
    ``dequeue``), ``time_ns`` and ``until_ns`` (of the first and the last reading, on the machine's
    monotonic clock, :func:`time.monotonic_ns`), ``queue`` (a number), ``device``, ``netns``,
    ``kind``, ``handle``, ``parent``, ``band``, ``samples`` (number of readings), ``qlen`` in
    packets, ``backlog_bytes``; of events also ``packets``, ``bytes``, ``drops``, ``cpu`` and
    ``after_gap``.

    Memory is bounded: a table is made from at most about a megabyte of text. If nothing takes the
    tables, the command waits, and the summary shows gaps.

    >>> import asyncio, weirlab as wl
    >>> async def first():
    ...     async with wl.watch("lo", rate=100) as queues:
    ...         async for batch in queues:
    ...             return batch["device"][0]
    >>> asyncio.run(first())
    'lo'
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.summary: dict[str, Any] | list[Any] | None = None
        """The summary of all readings, after the end of the watch: pace, gaps, and the distribution
        of each queue's length, as ``weir watch --json`` writes it."""
        self._owner = os.getpid()
        self._ended = False
        self._message = ""
        self._rows = _native.Readings()
        self._errors = tempfile.TemporaryFile()
        rows, rows_in = os.pipe()
        summary, summary_in = os.pipe()
        try:
            with contextlib.suppress(OSError):
                fcntl.fcntl(rows, fcntl.F_SETPIPE_SZ, _PIECE)
            # The command opens the pipe of the summary by its number.
            command = [find_weir(), "watch", *words, "--quiet", "--csv", "-"]
            command += ["--json", f"/dev/fd/{summary_in}"]
            guard = [sys.executable, "-I", "-S", os.fspath(Path(_guard.__file__))]
            self._process = subprocess.Popen(
                [*guard, *command],
                stdin=subprocess.PIPE,
                stdout=rows_in,
                stderr=self._errors,
                pass_fds=(summary_in,),
                start_new_session=True,
            )
        except BaseException:
            os.close(rows)
            os.close(summary)
            self._errors.close()
            raise
        finally:
            os.close(rows_in)
            os.close(summary_in)
        self._read = os.fdopen(rows, "rb", buffering=0)
        self._read_summary = os.fdopen(summary, "rb", buffering=0)
        # In a coroutine, `async with` waits for the start.
        self._started = False
        if not in_a_loop():
            self._wait_for_start()

    def stop(self) -> None:
        """Ends the watch. Tables that were not taken are lost; the summary includes their readings.

        >>> import weirlab as wl
        >>> queues = wl.watch("lo", rate=100)
        >>> queues.stop()
        >>> queues.summary is not None
        True
        """
        if os.getpid() != self._owner or self._ended:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        end = time.monotonic() + _END_S
        while _wait(self._read, max(end - time.monotonic(), 0)) and self._read.read(_PIECE):
            pass
        self._finish()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Table:
        while not self._ended:
            text = self._read.read(_PIECE)
            if not text:
                self._finish()
                self._raise_failure()
                break
            batch = self._batch(text)
            if batch is not None:
                return batch
        raise StopIteration

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Table:
        while not self._ended:
            await self._wait_for_text()
            text = self._read.read(_PIECE)
            if not text:
                await in_a_thread(self._finish)
                self._raise_failure()
                break
            batch = self._batch(text)
            if batch is not None:
                return batch
        raise StopAsyncIteration

    def __enter__(self) -> Self:
        self._wait_for_start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await self._wait_for_text()
        await in_a_thread(self._wait_for_start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await in_a_thread(self.stop)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.stop()

    def __repr__(self) -> str:
        return f"<weirlab.Watch, {'ended' if self._ended else 'running'}>"

    def _batch(self, text: bytes) -> Table | None:
        """The rows of a piece of text, and of the text that the pipe already holds."""
        pieces = [text]
        size = len(text)
        while size < _PIECE and _wait(self._read, 0):
            piece = self._read.read(_PIECE - size)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        native = self._rows.feed(b"".join(pieces))
        return Table(native) if len(native) else None

    def _wait_for_start(self) -> None:
        """Waits for the first text, which the command writes once it has opened its sources. Raises
        an error if the command has ended instead."""
        if self._started:
            return
        self._started = True
        _wait(self._read, None)
        if not _waiting_bytes(self._read):
            self._finish()
            self._raise_failure()

    async def _wait_for_text(self) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(self._read, wake)
        try:
            await ready
        finally:
            loop.remove_reader(self._read)

    def _finish(self) -> None:
        """Waits for the command after its last row, and takes its summary."""
        if self._ended:
            return
        self._ended = True
        end = time.monotonic() + _END_S
        summary = _rest(self._read_summary, end)
        try:
            self._process.wait(max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            # The end of the guard ends the command.
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(ValueError):
            self.summary = json.loads(summary)
        self._errors.seek(0)
        self._message = self._errors.read().decode(errors="replace").strip()
        for file in (self._read, self._read_summary, self._errors):
            file.close()

    def _raise_failure(self) -> None:
        status = self._process.returncode
        if status == 0:
            return
        message = self._message.removeprefix("weir: ").removeprefix("error: ")
        message = message or f"weir ended with status {status}"
        raise ValueError(message) if status == USAGE else CommandError(message, status)


def _wait(file: IO[bytes], seconds: float | None) -> bool:
    """Waits for text or the end of the file. Returns False if the time is over before that."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def _waiting_bytes(file: IO[bytes]) -> int:
    """The number of bytes that a pipe has."""
    return int.from_bytes(fcntl.ioctl(file, termios.FIONREAD, bytes(4)), sys.byteorder)


def _rest(file: IO[bytes], deadline: float) -> bytes:
    """The bytes from a pipe until its end, or until a time of the monotonic clock."""
    pieces: list[bytes] = []
    while _wait(file, max(deadline - time.monotonic(), 0)):
        piece = os.read(file.fileno(), _PIECE)
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces)
