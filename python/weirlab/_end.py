"""The hosts of live links, in which real programs run, and their variants for coroutines.

A host is a network of its own. `weir exec` enters it, so each program is a child of this process,
and all options of the module subprocess work.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ._capture import Capture
from ._command import find_weir
from ._scenario import whole

if TYPE_CHECKING:
    import asyncio

    from ._session import Session

Words: TypeAlias = Sequence[str | os.PathLike[str]]
"""A command: the program and its arguments."""

# The module without its types: options from a dictionary match its overloads ambiguously.
SUBPROCESS: Any = subprocess


class End:
    """A host at the end of a live link: a network of its own, with this machine's files.

    Get one from :func:`pair` or :func:`live`.
    """

    def __init__(self, session: Session, name: str, address: str) -> None:
        self._session = session
        self.name = name
        """The name, which the other hosts know."""
        self.address = address
        """The IPv4 address."""

    def popen(self, command: Words, **options: Any) -> subprocess.Popen[Any]:
        """Starts a program inside; `options` are those of :class:`subprocess.Popen`.

        The program ends with the link at the latest.

        >>> import weirlab as wl
        >>> with wl.pair("10M/5ms") as link:
        ...     link.right.popen(["true"]).wait()
        0
        """
        return subprocess.Popen(self._words(command), **options)

    def run(self, command: Words, **options: Any) -> subprocess.CompletedProcess[Any]:
        """Runs a program inside and waits for it, as :func:`subprocess.run` does.

        >>> import weirlab as wl
        >>> with wl.pair("10M/5ms") as link:
        ...     link.left.run(["sh", "-c", "exit 3"]).returncode
        3
        """
        done: subprocess.CompletedProcess[Any] = SUBPROCESS.run(self._words(command), **options)
        return done

    def check_output(self, command: Words, **options: Any) -> Any:
        """Runs a program inside and returns what it prints, as :func:`subprocess.check_output`
        does.

        >>> import weirlab as wl
        >>> with wl.pair("10M/5ms") as link:
        ...     link.left.check_output(["hostname"], text=True)
        'left\\n'
        """
        return SUBPROCESS.check_output(self._words(command), **options)

    async def start(self, command: Words, **options: Any) -> asyncio.subprocess.Process:
        """Starts a program inside; `options` are those of
        :func:`asyncio.create_subprocess_exec`.

        >>> import asyncio, weirlab as wl
        >>> async def talk(link):
        ...     return await (await link.left.start(["true"])).wait()
        >>> with wl.pair("10M/5ms") as link:
        ...     asyncio.run(talk(link))
        0
        """
        import asyncio

        return await asyncio.create_subprocess_exec(*self._words(command), **options)

    def capture(
        self,
        path: str | os.PathLike[str],
        *,
        interface: str | None = None,
        snaplen: int = 65_535,
    ) -> Capture:
        """Records the packets of this host's interfaces in a file, which Wireshark reads.

        Args:
            path: The file, in the format pcapng. It is complete when the context ends.
            interface: Only this interface; by default all but ``lo``.
            snaplen: The most bytes of a packet that are recorded.

        Returns:
            A context manager. After its end, :attr:`Capture.packets` and :attr:`Capture.dropped`
            are known.

        Raises:
            OSError: The file cannot be written.
            CommandError: There is no such interface.

        >>> import weirlab as wl
        >>> with wl.pair("10M/5ms") as link:
        ...     with link.right.capture("ping.pcapng") as capture:
        ...         ping = link.left.run(["ping", "-qc1", "right"], capture_output=True)
        >>> capture.packets >= 2, capture.dropped
        (True, 0)
        """
        return Capture(self._words, path, interface, whole(snaplen, "snaplen"))

    def _words(self, command: Words) -> list[str]:
        if isinstance(command, (str, bytes)):
            raise TypeError("command: expected a list of words; for a shell, ['sh', '-c', …]")
        words = [os.fspath(word) for word in command]
        if not words:
            raise ValueError("command: expected a program")
        self._session._wait_for_start()
        return [find_weir(), "exec", self._session.name, self.name, *words]

    def __repr__(self) -> str:
        return f"<weirlab.End {self.name} {self.address}>"


class AsyncEnd:
    """A host at the end of a live link, for coroutines: as :class:`End`, but the methods that run
    programs are awaited.

    Get one from ``async with`` on :func:`pair` or :func:`live`.
    """

    def __init__(self, end: End) -> None:
        self._end = end
        self.name = end.name
        """The name, which the other hosts know."""
        self.address = end.address
        """The IPv4 address."""

    async def popen(self, command: Words, **options: Any) -> asyncio.subprocess.Process:
        """Starts a program inside; `options` are those of
        :func:`asyncio.create_subprocess_exec`.

        >>> import asyncio, weirlab as wl
        >>> async def main():
        ...     async with wl.pair("10M/5ms") as link:
        ...         return await (await link.right.popen(["true"])).wait()
        >>> asyncio.run(main())
        0
        """
        return await self._end.start(command, **options)

    async def run(
        self,
        command: Words,
        *,
        input: bytes | None = None,
        capture_output: bool = False,
        timeout: float | None = None,
        check: bool = False,
        **options: Any,
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a program inside and waits for it, as :func:`subprocess.run` does.

        If the task is cancelled or the time is over, the program is killed.

        >>> import asyncio, weirlab as wl
        >>> async def main():
        ...     async with wl.pair("10M/5ms") as link:
        ...         words = ["ping", "-qc1", link.right.address]
        ...         done = await link.left.run(words, capture_output=True, check=True)
        ...         return done.returncode
        >>> asyncio.run(main())
        0
        """
        import asyncio

        pipe = asyncio.subprocess.PIPE
        if capture_output:
            options = {**options, "stdout": pipe, "stderr": pipe}
        if input is not None:
            options = {**options, "stdin": pipe}
        process = await self.popen(command, **options)
        try:
            printed, errors = await asyncio.wait_for(process.communicate(input), timeout)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if isinstance(error, TimeoutError) and timeout is not None:
                raise subprocess.TimeoutExpired(list(command), timeout) from None
            raise
        status = process.returncode
        assert status is not None
        done = subprocess.CompletedProcess(list(command), status, printed, errors)
        if check:
            done.check_returncode()
        return done

    async def check_output(self, command: Words, **options: Any) -> bytes:
        """Runs a program inside and returns what it prints; raises if it fails.

        >>> import asyncio, weirlab as wl
        >>> async def main():
        ...     async with wl.pair("10M/5ms") as link:
        ...         return await link.left.check_output(["hostname"])
        >>> asyncio.run(main())
        b'left\\n'
        """
        import asyncio

        options = {**options, "stdout": asyncio.subprocess.PIPE, "check": True}
        done = await self.run(command, **options)
        return done.stdout

    def capture(
        self,
        path: str | os.PathLike[str],
        *,
        interface: str | None = None,
        snaplen: int = 65_535,
    ) -> Capture:
        """Records packets, as :meth:`End.capture` does; the result is also an asynchronous context
        manager.

        >>> import asyncio, weirlab as wl
        >>> async def main():
        ...     async with wl.pair("10M/5ms") as link:
        ...         async with link.right.capture("ping.pcapng") as capture:
        ...             await link.left.run(["ping", "-qc1", "right"], capture_output=True)
        ...         return capture.packets >= 2
        >>> asyncio.run(main())
        True
        """
        return self._end.capture(path, interface=interface, snaplen=snaplen)

    def __repr__(self) -> str:
        return f"<weirlab.AsyncEnd {self.name} {self.address}>"
