"""Live links as context managers. The command `weir` makes the links."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from . import _guard, _native
from ._capture import Capture
from ._command import find_weir, outcome, run_weir
from ._errors import CommandError
from ._loop import in_a_loop, in_a_thread
from ._scenario import Scenario, ScenarioLike, Value, source, whole

if TYPE_CHECKING:
    import asyncio

Words: TypeAlias = Sequence[str | os.PathLike[str]]
"""A command: the program and its arguments."""

# The module without its overloads, which options as a dictionary match ambiguously.
_SUBPROCESS: Any = subprocess
_NUMBERS = itertools.count(1)
_START_S = 30.0
_END_S = 15.0
_POLL_S = 0.02
_DAY = "86400s"


@dataclass(frozen=True, slots=True)
class Wait:
    """The distribution of queueing delays, in seconds; all 0 without packets."""

    count: int
    mean: float
    p50: float
    p99: float
    p999: float
    max: float
    min: float


@dataclass(frozen=True, slots=True)
class LinkStats:
    """What one direction of a link has done since the start."""

    name: str
    spec: str
    """The configuration in force, in the language of links."""
    packets_in: int
    packets_out: int
    bytes_out: int
    """Network-layer bytes that departed."""
    drops: int
    """Dropped packets, for all reasons."""
    drops_by_reason: Mapping[str, int]
    inside_packets: int
    """Packets that are inside now."""
    wait: Wait
    """Time in the queue, in seconds."""


@dataclass(frozen=True)
class Stats:
    """The statistics of a session's links.

    A link is found by its name: ``stats["line.back"]``. Those of :func:`pair` and :func:`attach`
    are also attributes: ``stats.up`` and ``stats.down``.
    """

    duration_s: float
    """Time since the links started, in seconds."""
    links: Mapping[str, LinkStats]
    document: dict[str, Any]
    """Everything, as ``weir stats --json`` prints it; docs/results.md explains the keys."""
    _names: Mapping[str, str]

    def __getitem__(self, link: str) -> LinkStats:
        return self.links[self._names.get(link, link)]

    @property
    def up(self) -> LinkStats:
        """From ``left`` to ``right``, or what the target sends."""
        return self["up"]

    @property
    def down(self) -> LinkStats:
        """From ``right`` to ``left``, or what the target receives."""
        return self["down"]


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
        done: subprocess.CompletedProcess[Any] = _SUBPROCESS.run(self._words(command), **options)
        return done

    def check_output(self, command: Words, **options: Any) -> Any:
        """Runs a program inside and returns what it prints, as :func:`subprocess.check_output`
        does.

        >>> import weirlab as wl
        >>> with wl.pair("10M/5ms") as link:
        ...     link.left.check_output(["hostname"], text=True)
        'left\\n'
        """
        return _SUBPROCESS.check_output(self._words(command), **options)

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
    """A host at the end of a live link, for coroutines: an :class:`End` whose methods are awaited.

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


class Session:
    """Live links that run. It is a context manager, and ends them.

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
        self._names = names
        # What the command reads at its start.
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
        self._known: frozenset[str] | None = None
        # In a coroutine, `async with` waits.
        if not in_a_loop():
            self._wait_for_start()

    def set(self, words: str | None = None, /, **links: str) -> None:
        """Changes links while packets pass. What the words name changes, and the rest stays.

        Args:
            words: Words for all links, such as ``"loss 2% delay 80ms"``; ``"reset"`` restores the
                start.
            links: Words for one link each, by its name: ``set(down="loss 2%")``. A link whose
                name is no Python name: ``set(**{"line.back": "loss 2%"})``.

        Raises:
            ValueError: The words are refused; nothing has changed.

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
            # The guard takes the links with it.
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
        links = (_link(item) for item in document["links"] if item["name"] in known)
        found = {link.name: link for link in links}
        return Stats(document["duration_ns"] / 1e9, found, document, self._names)

    def _wait_for_start(self) -> None:
        if self._known is not None:
            return
        try:
            end = time.monotonic() + _START_S
            while True:
                self._check_start(end)
                if self._is_started(run_weir(["ps", "--json"])):
                    return
                time.sleep(_POLL_S)
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
            entered = all(host.get("pid") or host.get("container") for host in hosts)
            if view["name"] == self.name and entered:
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
            end = time.monotonic() + _START_S
            while session._known is None:
                session._check_start(end)
                if not session._is_started(await _run_weir(["ps", "--json"])):
                    await asyncio.sleep(_POLL_S)
        except BaseException:
            await self.stop()
            raise
        return self


class Pair(Session):
    """Two hosts with one link between them, from :func:`pair`."""

    left: End
    """One end."""
    right: End
    """The other end."""

    async def __aenter__(self) -> AsyncPair:
        return await AsyncPair(self)._wait_for_start()


class AsyncPair(AsyncSession):
    """Two hosts with one link between them, for coroutines."""

    def __init__(self, session: Pair) -> None:
        super().__init__(session)
        self.left = AsyncEnd(session.left)
        """One end."""
        self.right = AsyncEnd(session.right)
        """The other end."""


class Lab(Session):
    """The hosts of a scenario, from :func:`live`."""

    hosts: dict[str, End]
    """The hosts, by their names."""

    def __getitem__(self, host: str) -> End:
        return self.hosts[host]

    def __iter__(self) -> Iterator[str]:
        return iter(self.hosts)

    async def __aenter__(self) -> AsyncLab:
        return await AsyncLab(self)._wait_for_start()


class AsyncLab(AsyncSession):
    """The hosts of a scenario, for coroutines."""

    def __init__(self, session: Lab) -> None:
        super().__init__(session)
        self.hosts = {name: AsyncEnd(end) for name, end in session.hosts.items()}
        """The hosts, by their names."""

    def __getitem__(self, host: str) -> AsyncEnd:
        return self.hosts[host]

    def __iter__(self) -> Iterator[str]:
        return iter(self.hosts)


def pair(
    spec: str | None = None,
    *,
    up: str | None = None,
    down: str | None = None,
    seed: int = 1,
    name: str | None = None,
) -> Pair:
    """Connects two hosts by one live link. Real programs run in them.

    Args:
        spec: Both directions, ``"bw 4Mbit/s delay 20ms queue 50"`` or ``"4M/20ms/1%"``.
        up: The direction from ``left`` to ``right``, in place of `spec`.
        down: The direction from ``right`` to ``left``, in place of `spec`.
        seed: Seed of random loss and jitter.
        name: Name of the session in ``weir ps``.

    Returns:
        A context manager with the hosts ``left`` and ``right``, which know each other by these
        names.

    Raises:
        ScenarioError: A specification is refused.
        CommandError: The link cannot be made, for example without root and user namespaces.

    >>> import weirlab as wl
    >>> with wl.pair("10M/5ms") as link:
    ...     ping = link.left.run(["ping", "-qc1", link.right.address], capture_output=True)
    ...     link.stats().down.wait.p99 < 0.05
    True
    """
    scenario = Scenario("pair", duration=_DAY, seed=seed).host("left", "right")
    scenario.link("left", "right", spec, name="link", forward=up, back=down)
    scenario.check()
    names = {"up": "link", "down": "link.back"}
    files = contextlib.ExitStack()
    # The file has no name, so none is left if this process is killed now.
    file = files.enter_context(tempfile.TemporaryFile())
    file.write(scenario.to_toml().encode())
    file.flush()
    path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
    made = Pair(["live", path, "--keep"], name=name, names=names, files=files)
    made.left, made.right = (
        End(made, end, f"10.0.0.{number}") for number, end in enumerate(("left", "right"), 1)
    )
    return made


def live(
    scenario: ScenarioLike,
    *,
    set: Mapping[str, Value] | None = None,
    name: str | None = None,
) -> Lab:
    """Runs a scenario on real frames: its links, its traffic, and its programs and containers.
    The hosts stay up until the context ends.

    Args:
        scenario: As for :func:`simulate`; it may have programs.
        set: Keys to change, as for :func:`simulate`.
        name: Name of the session in ``weir ps``.

    Returns:
        A context manager with the hosts: ``lab["web"].run(["ps"])``.

    Raises:
        ScenarioError: The scenario is refused.
        CommandError: The lab cannot be brought up.

    >>> import weirlab as wl
    >>> s = wl.Scenario(duration=60).host("a", "b").link("a", "b", "10M/5ms", name="line")
    >>> with wl.live(s) as lab:
    ...     ping = lab["a"].run(["ping", "-qc1", "b"], capture_output=True)
    ...     lab.stats()["line.back"].spec
    'bw 10Mbit/s delay 5ms'
    """
    _native.check(source(scenario, set))
    files = contextlib.ExitStack()
    command = files.enter_context(_file(scenario, set))
    made = Lab(command, name=name, names={}, files=files)
    made.hosts = {}
    for number, node in _numbered_hosts(scenario, made):
        address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        made.hosts[node] = End(made, node, address)
    return made


def attach(
    target: str | Sequence[str],
    spec: str | None = None,
    *,
    up: str | None = None,
    down: str | None = None,
    interface: Sequence[str] = (),
    capture: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> Session:
    """Puts what runs already behind a live link: a container, process, service or user.

    Args:
        target: ``"docker:NAME"``, ``"podman:NAME"``, ``"pid:N"``, ``"netns:NAME"``,
            ``"cgroup:PATH"``, ``"unit:NAME"`` or ``"user:NAME"``, or several of them.
        spec: Both directions, in the language of links.
        up: What the target sends.
        down: What the target receives.
        interface: Only these interfaces of the target.
        capture: A file for the packets at the link's ends (pcapng).
        name: Name of the session in ``weir ps``.

    Returns:
        A context manager that releases the target at its end.

    Raises:
        ValueError: An argument is refused.
        CommandError: The target cannot be attached; it needs root.

    >>> import weirlab as wl
    >>> with wl.attach("docker:web", down="4M/20ms") as link:   # doctest: +SKIP
    ...     link.set(down="loss 2%")
    """
    targets = [target] if isinstance(target, str) else list(target)
    words = [f"--link={spec}"] if spec is not None else []
    words += [f"--{key}={each}" for key, each in (("up", up), ("down", down)) if each is not None]
    words += [f"--interface={each}" for each in interface]
    words += [f"--pcap={os.fspath(capture)}"] if capture is not None else []
    return Session(["attach", *targets, *words], name=name, names={})


def run(
    command: Words,
    spec: str | None = None,
    *,
    up: str | None = None,
    down: str | None = None,
    seed: int | None = None,
    capture: str | os.PathLike[str] | None = None,
    **options: Any,
) -> tuple[subprocess.CompletedProcess[Any], dict[str, Any]]:
    """Runs a program behind a live link to the outside, and waits for it.

    Args:
        command: The program and its arguments.
        spec: Both directions, in the language of links.
        up: What the program sends.
        down: What the program receives.
        seed: Seed of random loss and jitter.
        capture: A file for the packets at the link's ends (pcapng).
        options: Those of :func:`subprocess.run`, such as ``capture_output`` and ``timeout``.

    Returns:
        The completed program, and the results document of the link.

    Raises:
        ValueError: A specification is refused.
        CommandError: The link cannot be made.

    >>> import weirlab as wl
    >>> done, results = wl.run(["true"], down="4M/20ms", up="1M/20ms")
    >>> done.returncode, [link["spec"] for link in results["links"]]
    (0, ['bw 1Mbit/s delay 20ms', 'bw 4Mbit/s delay 20ms'])
    """
    if isinstance(command, (str, bytes)):
        raise TypeError("command: expected a list of words; for a shell, ['sh', '-c', …]")
    with tempfile.TemporaryDirectory(prefix="weirlab-") as scratch:
        path = Path(scratch) / "results.json"
        words = [find_weir(), "run", "--quiet", f"--json={path}"]
        words += [f"--link={spec}"] if spec is not None else []
        words += [f"--{key}={each}" for key, each in (("up", up), ("down", down)) if each]
        words += [f"--seed={whole(seed, 'seed')}"] if seed is not None else []
        words += [f"--pcap={os.fspath(capture)}"] if capture is not None else []
        words += ["--", *(os.fspath(word) for word in command)]
        done: subprocess.CompletedProcess[Any] = _SUBPROCESS.run(words, **options)
        if path.exists():
            return done, json.loads(path.read_text(encoding="utf-8"))
        said: Any = done.stderr or ""
        message = (said if isinstance(said, str) else bytes(said).decode()).strip()
        message = message or f"weir ended with status {done.returncode}"
        raise ValueError(message) if done.returncode == 2 else CommandError(
            message, done.returncode
        )


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


@contextlib.contextmanager
def _file(
    scenario: ScenarioLike, changes: Mapping[str, Value] | None
) -> Generator[list[str], None, None]:
    """The command that runs a scenario, with a file for a scenario that has none."""
    read = source(scenario, changes)
    settings = [f"--set={key}={value}" for key, value, _ in read["settings"]]
    if isinstance(scenario, (str, os.PathLike)) and read["name"] != "<text>":
        yield ["live", read["name"], "--keep", *settings]
        return
    # The names of files in the scenario are relative to its directory.
    with tempfile.NamedTemporaryFile(
        "w", dir=read["directory"] or ".", prefix=".weirlab-", suffix=".toml", encoding="utf-8"
    ) as file:
        file.write(read["text"])
        file.flush()
        yield ["live", file.name, "--keep", *settings]


def _numbered_hosts(scenario: ScenarioLike, lab: Session) -> Iterator[tuple[int, str]]:
    """The hosts of a lab that runs, with the numbers of their nodes."""
    nodes: list[dict[str, Any]] = tomllib.loads(source(scenario, None)["text"]).get("node", [])
    for number, node in enumerate(nodes, 1):
        if node.get("kind", "host") == "host":
            yield number, node["name"]


def _link(item: Mapping[str, Any]) -> LinkStats:
    drops: dict[str, int] = item["drops"]
    times = dict(item["queue_ns"])
    count: int = times.pop("count")
    return LinkStats(
        name=item["name"],
        spec=item.get("spec", ""),
        packets_in=item["packets_in"],
        packets_out=item["packets_out"],
        bytes_out=item["bytes_out"],
        drops=sum(drops.values()),
        drops_by_reason=drops,
        inside_packets=item["backlog_packets"],
        wait=Wait(count=count, **{key: ns / 1e9 for key, ns in times.items()}),
    )
