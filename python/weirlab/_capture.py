"""Records packets in hosts of live links."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from . import _recorder
from ._errors import CommandError
from ._loop import in_a_loop, in_a_thread

# The line that the script prints when it records.
_READY = b"recording\n"
# How long to wait for the end of a recording, in seconds.
_END_S = 15.0


class Capture:
    """A recording of packets, from :meth:`End.capture`: a context manager, also for ``async with``.

    >>> import weirlab as wl
    >>> with wl.pair("10M/5ms") as link, link.left.capture("left.pcapng") as capture:
    ...     capture.stop()
    >>> capture.dropped
    0
    """

    packets: int | None
    """Number of recorded packets; None before the end."""
    dropped: int | None
    """Number of packets that arrived too fast to be recorded; None before the end."""

    def __init__(
        self,
        enter: Callable[[Sequence[str]], list[str]],
        path: str | os.PathLike[str],
        interface: str | None,
        snaplen: int,
    ) -> None:
        if interface is not None and not isinstance(interface, str):
            raise TypeError(f"interface: expected a text, not {type(interface).__name__}")
        if interface == "":
            raise ValueError("interface: expected the name of an interface")
        if not 1 <= snaplen <= 1 << 18:
            raise ValueError(f"snaplen: {snaplen} is not from 1 to {1 << 18}")
        self.path = Path(path)
        """The file."""
        self.packets = self.dropped = None
        self._started = self._ended = False
        self._failure = ""
        self._owner = os.getpid()
        # The script needs only the standard library, and the hosts see this interpreter's files.
        script = [os.fspath(Path(_recorder.__file__)), str(snaplen), interface or ""]
        with open(self.path, "wb") as file:
            self._process = subprocess.Popen(
                enter([sys.executable, "-I", "-S", *script]),
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        # In a coroutine, `async with` waits for the start.
        if not in_a_loop():
            self._wait_for_start()

    def stop(self) -> None:
        """Ends the recording, once the packets that have already arrived are recorded.

        Raises:
            CommandError: The recording failed.

        >>> import weirlab as wl
        >>> with wl.pair("10M/5ms") as link:
        ...     capture = link.left.capture("left.pcapng")
        ...     capture.stop()
        ...     capture.path.stat().st_size > 0
        True
        """
        if self._ended or os.getpid() != self._owner:
            return
        self._ended = True
        process = self._process
        try:
            _, printed = process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise CommandError(f"{self.path}: the recording did not end", 1) from None
        lines = [self._failure, *printed.decode(errors="replace").splitlines()]
        if process.returncode:
            raise CommandError("\n".join(filter(None, lines)), process.returncode)
        counts: dict[str, int] = json.loads(lines[-1])
        self.packets, self.dropped = counts["packets"], counts["dropped"]

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
        return f"<weirlab.Capture {self.path}>"

    def _wait_for_start(self) -> None:
        """Waits until the recording has begun."""
        if self._started:
            return
        self._started = True
        assert self._process.stderr is not None
        first = self._process.stderr.readline()
        if first != _READY:
            self._failure = first.decode(errors="replace").strip()
            self.stop()
