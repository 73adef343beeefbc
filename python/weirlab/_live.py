"""The functions that make live links: each writes a command line of `weir` and starts it.

`pair` and `live` run `weir live`, and programs then enter its hosts; `attach` and `run` run the
commands of the same names.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import tomllib
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _native
from ._command import find_weir
from ._end import SUBPROCESS, End, Words
from ._errors import CommandError
from ._lab import Lab, Pair
from ._scenario import Scenario, ScenarioLike, Value, source, whole
from ._session import Session

# The duration of a pair's scenario. `--keep` leaves its hosts up after that.
_DAY = "86400s"


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
        CommandError: The link cannot be made, for example without root where user
            namespaces are not allowed.

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
    """Puts a running container, process or service, or a user, behind a live link.

    Args:
        target: ``"docker:NAME"``, ``"podman:NAME"``, ``"pid:N"``, ``"netns:NAME"``,
            ``"cgroup:PATH"``, ``"unit:NAME"`` or ``"user:NAME"``, or several of them.
        spec: Both directions, in the language of links.
        up: The direction of packets that the target sends, in place of `spec`.
        down: The direction of packets that the target receives, in place of `spec`.
        interface: Names of the target's interfaces to which the link is restricted.
        capture: A file for the packets at the link's ends (pcapng).
        name: Name of the session in ``weir ps``.

    Returns:
        A context manager that releases the target at its end.

    Raises:
        ValueError: An argument is refused.
        CommandError: The target cannot be attached, for example without root.

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
        up: The direction of packets that the program sends, in place of `spec`.
        down: The direction of packets that the program receives, in place of `spec`.
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
        done: subprocess.CompletedProcess[Any] = SUBPROCESS.run(words, **options)
        if path.exists():
            return done, json.loads(path.read_text(encoding="utf-8"))
        said: Any = done.stderr or ""
        message = (said if isinstance(said, str) else bytes(said).decode()).strip()
        message = message or f"weir ended with status {done.returncode}"
        raise (
            ValueError(message) if done.returncode == 2 else CommandError(message, done.returncode)
        )


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
    """The hosts of a scenario, each with the number of its node, from which its address follows."""
    nodes: list[dict[str, Any]] = tomllib.loads(source(scenario, None)["text"]).get("node", [])
    for number, node in enumerate(nodes, 1):
        if node.get("kind", "host") == "host":
            yield number, node["name"]
