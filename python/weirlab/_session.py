"""`Session` is a process of `weir` that holds live links; `AsyncSession` is for coroutines.

A session starts the command under a guard, waits until `weir ps` lists it, reads its statistics by
`weir stats`, changes it by `weir change`, and ends it. The guard ends the links if this process is
killed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from . import _guard
from ._command import find_weir, outcome, run_weir
from ._errors import CommandError
from ._loop import in_a_loop, in_a_thread
from ._stats import Stats, link_stats

_NUMBERS = itertools.count(1)
# The time limits of the start and of the end of a session, in seconds.
_START_S = 30.0
_END_S = 15.0
# The interval between checks of a start grows, so that many sessions do not slow each other.
_POLL_S = 0.02
_LONGEST_POLL_S = 0.2


class Session:
    """Live links that run: a context manager, at whose end the links end.

    Nothing is left behind, even if this process is killed. ``weir ps``, ``weir stats`` and
    ``weir change`` in a terminal see the session under its :attr:`name`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str | None,
        names: Mapping[str, str],
        files: contextlib.ExitStack | None = None,
    ) -> None:
        self.name = f"weirlab-{os.getpid()}-{next(_NUMBERS)}" if name is None else name
        """The name of the session."""
        self.results: dict[str, Any] | None = None
        """The results document, after the end."""
        # The names of links, by the names that the methods take, such as `up`.
        self._names = names
        # The files that the command reads at its start.
        self._files = files or contextlib.ExitStack()
        self._owner = os.getpid()
        # Files without names, which end with their descriptors.
        self._printed, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        words = [find_weir(), *command, "--quiet", "--name", self.name, "--json", "-"]
        guard = [sys.executable, "-I", "-S", os.fspath(Path(_guard.__file__))]
        self._process = subprocess.Popen(
            [*guard, *words],
            stdin=subprocess.PIPE,
            stdout=self._printed,
            stderr=self._errors,
            start_new_session=True,
        )
        # The names of the links; None before the start.
        self._known: frozenset[str] | None = None
        # In a coroutine, `async with` waits for the start.
        if not in_a_loop():
            self._wait_for_start()

    def set(self, words: str | None = None, /, **links: str) -> None:
        """Changes links while packets pass. Only the properties that the words name change.

        Args:
            words: Words for all links, such as ``"loss 2% delay 80ms"``; ``"reset"`` restores the
                properties that the links had at the start.
            links: Words for one link each, by its name: ``set(down="loss 2%")``. If the name is not
                a Python identifier: ``set(**{"line.back": "loss 2%"})``.

        Raises:
            ValueError: Words are refused, and change nothing. Earlier words of this call have taken
                effect.

        >>> import weirlab as wl
        >>> with wl.pair("10M/5ms") as link:
        ...     link.set(down="loss 2%")
        ...     link.stats().down.spec
        'bw 10Mbit/s delay 5ms loss 0.02'
        """
        self._wait_for_start()
        for change in self._changes(words, links):
            run_weir(change)

    def stats(self) -> Stats:
        """The statistics of all links since the start.

        >>> import weirlab as wl
        >>> with wl.pair("10M/5ms") as link:
        ...     link.stats().up.packets_in
        0
        """
        self._wait_for_start()
        return self._stats(run_weir(["stats", self.name, "--json"]))

    def stop(self) -> None:
        """Ends the links, and the programs that still run behind them.

        >>> import weirlab as wl
        >>> link = wl.pair("10M/5ms")
        >>> link.stop()
        >>> len(link.results["links"])
        2
        """
        if os.getpid() != self._owner:
            # A forked child does not own the links.
            return
        self._files.close()
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            # The links end with the guard.
            process.kill()
            process.wait()
        if not self._printed.closed:
            self._printed.seek(0)
            with contextlib.suppress(ValueError):
                self.results = json.load(self._printed)
        self._printed.close()
        self._errors.close()

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

    async def __aenter__(self) -> AsyncSession:
        return await AsyncSession(self)._wait_for_start()

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
        return f"<weirlab.{type(self).__name__} {self.name}>"

    def _changes(self, words: str | None, links: Mapping[str, str]) -> Iterator[list[str]]:
        """The commands that change links."""
        if words is None and not links:
            raise ValueError("set: expected words, such as set('loss 2%') or set(down='loss 2%')")
        changes: list[tuple[list[str], str]] = [([], words)] if words is not None else []
        changes += [([self._names.get(link, link)], each) for link, each in links.items()]
        for _, each in changes:
            if not isinstance(each, str):
                raise TypeError(f"set: expected words of the language of links, not {each!r}")
        for link, each in changes:
            yield ["change", "--quiet", self.name, *link, each]

    def _stats(self, printed: str) -> Stats:
        """The statistics that `weir stats` prints."""
        document: dict[str, Any] = json.loads(printed)
        known = self._known or frozenset()
        links = (link_stats(item) for item in document["links"] if item["name"] in known)
        found = {link.name: link for link in links}
        return Stats(document["duration_ns"] / 1e9, found, document, self._names)

    def _wait_for_start(self) -> None:
        if self._known is not None:
            return
        try:
            end, pause = time.monotonic() + _START_S, _POLL_S
            while True:
                self._check_start(end)
                if self._is_started(run_weir(["ps", "--json"])):
                    return
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_POLL_S)
        except BaseException:
            self.stop()
            raise

    def _check_start(self, end: float) -> None:
        """Raises if the links failed, or did not start in time."""
        if self._process.poll() is not None:
            raise self._failure()
        if time.monotonic() > end:
            raise CommandError(f"the links did not start within {_START_S:.0f} s", 1)

    def _is_started(self, sessions: str) -> bool:
        """Whether `weir ps` lists the session with hosts that can be entered."""
        views: list[dict[str, Any]] = json.loads(sessions)["sessions"]
        for view in views:
            # A host can be entered as soon as it has a process or a container.
            hosts = view.get("nodes", [])
            can_be_entered = all(host.get("pid") or host.get("container") for host in hosts)
            if view["name"] == self.name and can_be_entered:
                self._files.close()
                self._known = frozenset(link["name"] for link in view["links"])
                return True
        return False

    def _failure(self) -> Exception:
        self._errors.seek(0)
        message = self._errors.read().decode(errors="replace").strip().removeprefix("weir: ")
        status = self._process.returncode
        return ValueError(message) if status == 2 else CommandError(message, status)


class AsyncSession:
    """Live links that run, for coroutines: a :class:`Session` whose methods are awaited.

    Get one from ``async with`` on :func:`attach`, :func:`pair` or :func:`live`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def name(self) -> str:
        """The name of the session."""
        return self._session.name

    @property
    def results(self) -> dict[str, Any] | None:
        """The results document, after the end."""
        return self._session.results

    async def set(self, words: str | None = None, /, **links: str) -> None:
        """Changes links while packets pass, as :meth:`Session.set` does.

        >>> import asyncio, weirlab as wl
        >>> async def main():
        ...     async with wl.pair("10M/5ms") as link:
        ...         await link.set(down="loss 2%")
        ...         return (await link.stats()).down.spec
        >>> asyncio.run(main())
        'bw 10Mbit/s delay 5ms loss 0.02'
        """
        for change in self._session._changes(words, links):
            await _run_weir(change)

    async def stats(self) -> Stats:
        """The statistics of all links since the start.

        >>> import asyncio, weirlab as wl
        >>> async def main():
        ...     async with wl.pair("10M/5ms") as link:
        ...         return (await link.stats()).up.drops
        >>> asyncio.run(main())
        0
        """
        return self._session._stats(await _run_weir(["stats", self.name, "--json"]))

    async def stop(self) -> None:
        """Ends the links, and the programs that still run behind them.

        >>> import asyncio, weirlab as wl
        >>> async def main():
        ...     async with wl.pair("10M/5ms") as link:
        ...         await link.stop()
        ...         return len(link.results["links"])
        >>> asyncio.run(main())
        2
        """
        await in_a_thread(self._session.stop)

    def __repr__(self) -> str:
        return f"<weirlab.{type(self).__name__} {self.name}>"

    async def _wait_for_start(self) -> Self:
        import asyncio

        session = self._session
        try:
            end, pause = time.monotonic() + _START_S, _POLL_S
            while session._known is None:
                session._check_start(end)
                if not session._is_started(await _run_weir(["ps", "--json"])):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_POLL_S)
        except BaseException:
            await self.stop()
            raise
        return self


async def _run_weir(words: Sequence[str]) -> str:
    """Runs the command as :func:`run_weir` does, without blocking the loop."""
    import asyncio

    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        find_weir(), *words, stdin=null, stdout=pipe, stderr=pipe
    )
    try:
        printed, errors = await process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return outcome(process.returncode, printed, errors)
