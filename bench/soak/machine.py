"""The machine of a soak: a daemon on a bridge between two namespaces, its traffic, and its API.

    left  e ── sl  [weir serve --bridge sl,sr]  sr ── e  right

The caller runs in a network, mount and process namespace of its own (see `run`), so everything here
ends with the caller, in whatever manner the caller ends.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import socket
import subprocess
import threading
import time
from pathlib import Path

SIDES = {"l": 1, "r": 2}
START_LIMIT = 60  # seconds for a start, on a slow machine with a large configuration
ANSWER_LIMIT = 60  # seconds for an answer, on a busy machine
IDLE_LIMIT = 10  # seconds after which the daemon closes an idle connection
# How a closed connection shows; RemoteDisconnected is a ConnectionResetError.
CLOSED = (BrokenPipeError, ConnectionResetError)


class Broken(Exception):
    """The daemon broke a promise; the text says which."""


def sh(command: str) -> bool:
    """Runs a set-up command; returns whether it succeeded."""
    return subprocess.run(command, shell=True, capture_output=True, check=False).returncode == 0


def must(command: str) -> None:
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")


def cable(side: str) -> None:
    """Connects a namespace with the bridge."""
    must(f"ip link add s{side} type veth peer name e netns w{side}")
    must(f"ip link set s{side} up && ip -n w{side} addr add 10.77.0.{SIDES[side]}/24 dev e")
    must(f"ip -n w{side} link set e up")


class Api:
    """One connection to the daemon. When it was closed, the next request opens it again.

    The daemon closes a connection that is idle for IDLE_LIMIT. On a busy machine, this process may
    have to wait that long for a processor, and its next request fails. Such a request is sent again
    on a new connection; `reopened` counts these requests. The daemon closes an idle connection only
    before it has read the head of a request, so nothing is executed twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection: http.client.HTTPConnection | None = None
        self.answered = 0.0  # when the last answer was complete
        self.reopened = 0

    def request(self, method: str, resource: str, body: object = None) -> object:
        """The answer as JSON. Raises OSError or HTTPException when the daemon does not answer."""
        is_new = self.connection is None
        try:
            status, content, text = self.send(method, resource, body)
        except CLOSED:
            if is_new or time.monotonic() - self.answered < IDLE_LIMIT:
                raise
            self.reopened += 1
            status, content, text = self.send(method, resource, body)
        if status != 200:
            raise Broken(f"{method} {resource}: status {status}: {content[:300]!r}; {text}")
        return json.loads(content)

    def send(self, method: str, resource: str, body: object) -> tuple[int, bytes, str | None]:
        """Sends a request once. Returns the status, the answer and the sent text."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("weir")
            self.connection.sock = connect(self.path, ANSWER_LIMIT)
        try:
            text = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json"} if text else {}
            self.connection.request(method, resource, text, headers)
            answer = self.connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        self.answered = time.monotonic()
        return answer.status, content, text

    def close(self) -> None:
        if self.connection:
            self.connection.close()
        self.connection = None


def connect(path: Path, seconds: float) -> socket.socket:
    """A connection to the daemon's socket, with a time limit for each operation."""
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(seconds)
    try:
        stream.connect(str(path))
    except OSError:
        stream.close()
        raise
    return stream


class Daemon:
    """`weir serve` in this namespace. `up` is set while the daemon should answer."""

    def __init__(self, weir: str, work: Path, log: Path) -> None:
        self.words = [*shlex.split(weir), "serve", "--bridge", "sl,sr", "--no-realtime"]
        self.words += ["--socket", str(work / "socket"), "--state", str(work / "state")]
        self.socket = work / "socket"
        self.log = log.open("ab")
        self.process: subprocess.Popen | None = None
        self.generation = 0
        self.up = threading.Event()
        # Descriptors right after the start, with one connection.
        self.descriptors_idle = 0

    def start(self) -> None:
        """Starts the daemon, and returns when it answers. The caller then sets `up`."""
        # A session of its own, so that ^C reaches only the soak, which then ends the daemon.
        self.process = subprocess.Popen(
            self.words, stdout=self.log, stderr=self.log, start_new_session=True
        )
        self.generation += 1
        deadline = time.monotonic() + START_LIMIT
        api = Api(self.socket)
        while True:
            try:
                api.request("GET", "/v1/health")
                break
            except (OSError, http.client.HTTPException) as why:
                if self.process.poll() is not None:
                    raise Broken(f"the daemon did not start: status {self.process.poll()}") from why
                if time.monotonic() > deadline:
                    raise Broken(f"the daemon does not answer in {START_LIMIT} s") from why
                time.sleep(0.02)
        self.descriptors_idle = self.descriptors()
        api.close()

    def kill(self) -> None:
        self.up.clear()
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Sends SIGTERM to the daemon, which must end in time and with success."""
        self.up.clear()
        self.process.terminate()
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired as why:
            raise Broken("SIGTERM: the daemon still runs after 10 s") from why
        if status:
            raise Broken(f"SIGTERM: status {status}")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def status(self) -> dict[str, int]:
        """Numbers of /proc/PID/status, memory in KiB."""
        found = {}
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("VmRSS", "Threads"):
                found[name] = int(value.split()[0])
        return found


class Traffic:
    """Generators on both sides. One that ends, because its interface was deleted, starts again."""

    def __init__(self, load: str, pipes: int, pps: int) -> None:
        self.stopped = threading.Event()
        self.threads = []
        for side, rate in (("l", pps), ("r", max(pps // 4, 1))):
            words = ["ip", "netns", "exec", f"w{side}", *shlex.split(load), "spray", "e"]
            words += ["--customers", str(pipes), "--size", "200", "--pps", str(rate)]
            words += ["--seconds", "86400"]
            self.threads.append(threading.Thread(target=self.repeat, args=(words,), daemon=True))

    def repeat(self, words: list[str]) -> None:
        null = subprocess.DEVNULL
        while not self.stopped.is_set():
            process = subprocess.Popen(words, stdout=null, stderr=null, start_new_session=True)
            while process.poll() is None and not self.stopped.wait(0.1):
                pass
            process.kill()
            process.wait()
            self.stopped.wait(0.2)

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join(5)
