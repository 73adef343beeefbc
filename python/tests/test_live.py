"""Live links, where namespaces are allowed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import weirlab as wl


def namespaces_are_allowed() -> bool:
    words = ["unshare", "--net", "true"] if os.geteuid() == 0 else ["unshare", "-rn", "true"]
    try:
        return subprocess.run(words, stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = pytest.mark.skipif(
    not namespaces_are_allowed(), reason="network namespaces are not allowed here"
)

ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 7000))
print("up", flush=True)
while True:
    data, sender = s.recvfrom(2000)
    s.sendto(data, sender)
"""
ASK = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5)
start = time.monotonic()
s.sendto(b"x" * 100, (sys.argv[1], 7000))
s.recv(2000)
print(time.monotonic() - start)
"""


def processes(name: str) -> list[str]:
    """The processes with this word in their command lines: number, state, the kernel function in
    which the process waits, and the command line."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().decode(errors="replace").split("\0")
            if name in words:
                state = (path.parent / "stat").read_text().rpartition(")")[2].split()[0]
                place = (path.parent / "wchan").read_text()
                found.append(f"{path.parent.name} {state} {place}: {' '.join(words)}")
    return found


def ask(link: wl.Pair) -> float:
    answer = link.left.check_output([sys.executable, "-c", ASK, link.right.address])
    return float(answer)


def test_programs_of_a_pair_talk_over_the_link() -> None:
    with wl.pair("bw 10Mbit/s delay 20ms", name="weirlab-test-pair") as link:
        server = link.right.popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE)
        assert server.stdout is not None and server.stdout.readline() == b"up\n"
        assert ask(link) >= 0.04
        link.set(down="delay 70ms")
        assert ask(link) >= 0.09
        stats = link.stats()
        assert (stats.up.packets_out, stats.down.packets_out) == (2, 2)
        assert "delay 70ms" in stats.down.spec and "delay 20ms" in stats.up.spec
        assert 0 <= stats.up.wait.p99 < 5
        with pytest.raises(ValueError, match="delay"):
            link.set(down="dealy 5ms")
        with pytest.raises(ValueError):
            link.set(sideways="delay 5ms")
        with pytest.raises(ValueError):
            link.set()
    assert server.wait(5) != 0
    server.stdout.close()
    assert link.results is not None and link.results["links"]
    assert processes("weirlab-test-pair") == []


def test_a_refused_specification_is_an_error_of_the_checker() -> None:
    with pytest.raises(wl.ScenarioError, match="did you mean `delay`"):
        wl.pair("bw 10Mbit/s dealy 20ms")


def test_hosts_of_a_scenario_know_each_other_by_name() -> None:
    scenario = (
        wl.Scenario(duration="60s")
        .host("a")
        .router("r")
        .host("b")
        .link("a", "r", "100M/1ms")
        .link("r", "b", "10M/5ms", name="line")
    )
    with wl.live(scenario) as lab:
        assert list(lab) == ["a", "b"]
        assert lab["b"].address == "10.0.0.3"
        server = lab["b"].popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE)
        assert server.stdout is not None and server.stdout.readline() == b"up\n"
        answer = lab["a"].check_output([sys.executable, "-c", ASK, "b"])
        assert float(answer) >= 0.012
        assert lab.stats()["line.back"].packets_out >= 1
    server.wait(5)
    server.stdout.close()


def test_a_program_is_started_from_a_coroutine() -> None:
    async def talk(link: wl.Pair) -> bytes:
        process = await link.left.start(
            ["sh", "-c", "echo $0", "word"], stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
        return printed

    with wl.pair() as link:
        assert asyncio.run(talk(link)) == b"word\n"


def test_the_exit_code_is_that_of_the_program() -> None:
    with wl.pair() as link:
        assert link.left.run(["sh", "-c", "exit 7"]).returncode == 7
        with pytest.raises(subprocess.CalledProcessError):
            link.left.run(["false"], check=True)
        with pytest.raises(TypeError):
            link.left.run("false")
        with pytest.raises(ValueError):
            link.left.run([])


def test_nothing_is_left_after_an_exception() -> None:
    with pytest.raises(LookupError), wl.pair(name="weirlab-test-exception"):
        raise LookupError
    assert processes("weirlab-test-exception") == []


def test_nothing_is_left_when_the_interpreter_is_killed() -> None:
    # Unique names, so that processes left by another run do not count.
    name, seconds = f"weirlab-test-killed-{os.getpid()}", f"987654.{time.time_ns()}"
    code = f"""
import subprocess, sys, time
import weirlab as wl
link = wl.pair("10M/1ms", name="{name}")
inside = link.left.popen(["sleep", "{seconds}"])
print("up", flush=True)
time.sleep(1000)
"""
    child = subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    # `popen` returns before the program has been executed.
    end = time.monotonic() + 60
    while not (processes(name) and processes(seconds)):
        assert time.monotonic() < end, "the program does not start"
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    end = time.monotonic() + 20
    while left := processes(name) + processes(seconds):
        assert time.monotonic() < end, "processes are left:\n" + "\n".join(left)
        time.sleep(0.05)
    done = subprocess.run([wl.find_weir(), "ps", "--json"], stdout=subprocess.PIPE)
    assert name.encode() not in done.stdout


STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(1000)
"""


def test_a_command_that_ignores_sigterm_is_killed() -> None:
    words = [sys.executable, "-c", STUBBORN]
    code = f"import weirlab._guard as guard; guard._END_S = 0.1; print(guard.main({words!r}))"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-P", "-c", code], stdin=pipe, stdout=pipe) as guard:
        assert guard.stdin is not None and guard.stdout is not None
        assert guard.stdout.readline() == b"up\n"
        guard.stdin.close()
        assert int(guard.stdout.read()) == 128 + signal.SIGKILL


@pytest.fixture
def namespace() -> Iterator[str]:
    """A namespace with the address 10.99.7.2, connected to 10.99.7.1 in this namespace."""
    name = f"wlt{os.getpid()}"
    commands = [
        f"ip netns add {name}",
        f"ip link add {name} type veth peer name {name}i netns {name}",
        f"ip addr add 10.99.7.1/24 dev {name}",
        f"ip link set {name} up",
        f"ip -n {name} addr add 10.99.7.2/24 dev {name}i",
        f"ip -n {name} link set {name}i up",
    ]
    try:
        for command in commands:
            subprocess.run(command.split(), check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="attaching needs root")
def test_a_namespace_is_attached_and_released(namespace: str) -> None:
    words = [sys.executable, "-c", ASK, "10.99.7.2"]
    inside = ["ip", "netns", "exec", namespace, sys.executable, "-c", ECHO]
    server = subprocess.Popen(inside, stdout=subprocess.PIPE)
    assert server.stdout is not None and server.stdout.readline() == b"up\n"
    try:
        with wl.attach(f"netns:{namespace}", down="bw 10Mbit/s delay 30ms") as link:
            assert float(subprocess.check_output(words)) >= 0.03
            link.set(down="delay 90ms")
            assert float(subprocess.check_output(words)) >= 0.09
            stats = link.stats()
            # The namespace has answered each packet, and its kernel may send more of its own.
            assert stats.down.packets_out >= 2 and stats.up.packets_out >= 2
        assert link.results is not None
        assert [item["name"] for item in link.results["links"]] == ["up", "down"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_a_target_that_does_not_exist_is_refused() -> None:
    with pytest.raises(wl.CommandError if os.geteuid() == 0 else Exception, match="nothing-here"):
        wl.attach("netns:nothing-here", down="4M/20ms")


def test_a_program_runs_behind_a_link() -> None:
    done, results = wl.run(["sh", "-c", "echo here; exit 3"], "10M/5ms", capture_output=True)
    assert (done.returncode, done.stdout) == (3, b"here\n")
    assert {link["name"] for link in results["links"]} == {"up", "down"}
    with pytest.raises(ValueError, match="delay"):
        wl.run(["true"], "dealy 5ms", capture_output=True)
