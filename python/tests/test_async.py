"""Live links in coroutines, and captures of packets."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import weirlab as wl
from test_live import ASK, ECHO, namespaces_are_allowed, processes

pytestmark = pytest.mark.skipif(
    not namespaces_are_allowed(), reason="network namespaces are not allowed here"
)
PIPE = asyncio.subprocess.PIPE


async def counted(main: Coroutine[Any, Any, None]) -> int:
    """Runs a coroutine; returns how often another one ran meanwhile."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    other = asyncio.create_task(tick())
    await main
    other.cancel()
    return ticks


def test_a_pair_runs_in_coroutines() -> None:
    async def main() -> None:
        async with wl.pair("bw 10Mbit/s delay 20ms", name="weirlab-test-async") as link:
            assert (link.name, link.left.address) == ("weirlab-test-async", "10.0.0.1")
            server = await link.right.popen([sys.executable, "-c", ECHO], stdout=PIPE)
            assert server.stdout is not None and await server.stdout.readline() == b"up\n"
            words = [sys.executable, "-c", ASK, link.right.address]
            # Two programs at the same time.
            answers = await asyncio.gather(*(link.left.check_output(words) for _ in range(2)))
            assert min(map(float, answers)) >= 0.04
            await link.set(down="delay 70ms")
            assert float(await link.left.check_output(words)) >= 0.09
            stats = await link.stats()
            assert stats.up.packets_out == 3 and "delay 70ms" in stats.down.spec
            with pytest.raises(ValueError, match="delay"):
                await link.set(down="dealy 5ms")
            with pytest.raises(ValueError):
                await link.set()
        assert link.results is not None and link.results["links"]
        assert await server.wait() != 0

    assert asyncio.run(counted(main())) >= 10
    assert processes("weirlab-test-async") == []


def test_programs_of_coroutines_end_as_those_of_subprocess() -> None:
    async def main() -> None:
        async with wl.pair() as link:
            done = await link.left.run(["cat"], input=b"word", capture_output=True)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"word", b"")
            assert (await link.left.run(["sh", "-c", "exit 7"])).returncode == 7
            with pytest.raises(subprocess.CalledProcessError):
                await link.left.run(["false"], check=True)
            with pytest.raises(subprocess.CalledProcessError):
                await link.left.check_output(["false"])
            with pytest.raises(subprocess.TimeoutExpired):
                await link.left.run(["sleep", "876543"], timeout=0.3)
            with pytest.raises(TypeError):
                await link.left.run("false")
            sleeping = asyncio.create_task(link.left.run(["sleep", "876543"]))
            await asyncio.sleep(0.3)
            sleeping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sleeping

    asyncio.run(main())
    assert processes("876543") == []


def test_the_hosts_of_a_lab_run_in_coroutines() -> None:
    scenario = wl.Scenario(duration="60s").host("a", "b").link("a", "b", "10M/1ms", name="line")

    async def main() -> None:
        async with wl.live(scenario) as lab:
            assert list(lab) == ["a", "b"]
            assert await lab["b"].check_output(["hostname"]) == b"b\n"
            assert (await lab.stats())["line.back"].spec == "bw 10Mbit/s delay 1ms"

    asyncio.run(main())


def test_links_that_fail_are_errors_in_coroutines() -> None:
    async def main() -> None:
        async with wl.attach("netns:nothing-here", down="4M/20ms"):
            pass

    with pytest.raises(wl.CommandError if os.geteuid() == 0 else Exception, match="nothing-here"):
        asyncio.run(main())


def test_nothing_is_left_when_a_task_is_cancelled() -> None:
    async def main() -> None:
        async with wl.pair(name="weirlab-test-cancelled"):
            await asyncio.sleep(1000)

    async def cancel() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(main(), 2)

    asyncio.run(cancel())
    assert processes("weirlab-test-cancelled") == []


def test_a_context_without_async_works_in_a_coroutine() -> None:
    async def main() -> None:
        with wl.pair() as link:
            assert link.left.check_output(["hostname"], text=True) == "left\n"
        link = wl.pair("10M/1ms")
        assert link.stats().up.packets_in == 0
        link.stop()

    asyncio.run(main())


def blocks(path: Path) -> list[tuple[int, bytes]]:
    """The blocks of a pcapng file: kinds and bodies."""
    data, at = path.read_bytes(), 0
    found: list[tuple[int, bytes]] = []
    while at < len(data):
        kind, length = (int.from_bytes(data[at + n : at + n + 4], "little") for n in (0, 4))
        assert data[at + length - 4 : at + length] == data[at + 4 : at + 8]
        found.append((kind, data[at + 8 : at + length - 4]))
        at += length
    return found


ENHANCED_PACKET, INTERFACE = 6, 1


def test_a_capture_has_the_packets_of_a_host(tmp_path: Path) -> None:
    path = tmp_path / "right.pcapng"
    with wl.pair("10M/5ms") as link:
        with link.right.capture(path) as capture:
            assert capture.packets is None
            words = ["ping", "-qc3", "-i0.2", link.right.address]
            link.left.run(words, check=True, stdout=subprocess.DEVNULL)
        link.left.run(["ping", "-qc1", "right"], check=True, stdout=subprocess.DEVNULL)
    assert capture.packets is not None and capture.dropped == 0
    found = blocks(path)
    packets = [body for kind, body in found if kind == ENHANCED_PACKET]
    assert len(packets) == capture.packets
    # ICMP echo requests and replies; the kernel sends more of its own.
    frames = [body[20:] for body in packets]
    echoes = [frame[34] for frame in frames if frame[12:14] == b"\x08\x00" and frame[23] == 1]
    assert echoes == [8, 0] * 3
    times = [
        int.from_bytes(body[4:8], "little") << 32 | int.from_bytes(body[8:12], "little")
        for body in packets
    ]
    assert times == sorted(times) and abs(times[-1] - time.time_ns()) < 60e9
    if shutil.which("capinfos"):
        said = subprocess.check_output(["capinfos", "-c", "-M", path], text=True)
        assert said.split()[-1] == str(capture.packets)


def test_a_capture_is_cut_and_limited_to_an_interface(tmp_path: Path) -> None:
    with wl.pair("10M/5ms") as link:
        with link.left.capture(tmp_path / "lo.pcapng", interface="lo", snaplen=60) as capture:
            words = ["ping", "-qc2", "-i0.2", "-s1000", "127.0.0.1"]
            link.left.run(words, check=True, stdout=subprocess.DEVNULL)
            link.left.run(["ping", "-qc1", "right"], check=True, stdout=subprocess.DEVNULL)
        with pytest.raises(wl.CommandError, match="nothing0"):
            link.left.capture(tmp_path / "x.pcapng", interface="nothing0")
    found = blocks(capture.path)
    assert [kind for kind, _ in found].count(INTERFACE) == 1
    packets = [body for kind, body in found if kind == ENHANCED_PACKET]
    # Each of four packets is seen when it is sent and when it arrives.
    assert len(packets) == 8 == capture.packets
    for body in packets:
        captured, original = (int.from_bytes(body[n : n + 4], "little") for n in (12, 16))
        assert (captured, original) == (60, 1042)


def test_arguments_of_a_capture_are_checked(tmp_path: Path) -> None:
    with wl.pair() as link:
        wrong: list[tuple[type[Exception], dict[str, Any]]] = [
            (TypeError, {"interface": 5}),
            (ValueError, {"interface": ""}),
            (TypeError, {"snaplen": "60"}),
            (ValueError, {"snaplen": 0}),
            (ValueError, {"snaplen": -1}),
        ]
        for kind, arguments in wrong:
            with pytest.raises(kind, match=next(iter(arguments))):
                link.left.capture(tmp_path / "x", **arguments)
        with pytest.raises(OSError):
            link.left.capture(tmp_path / "missing" / "x")


def test_a_program_behind_a_link_is_captured(tmp_path: Path) -> None:
    path = tmp_path / "run.pcapng"
    done, _ = wl.run(["true"], "10M/5ms", capture=path, capture_output=True)
    assert done.returncode == 0 and blocks(path)


def test_a_capture_ends_when_the_interpreter_is_killed(tmp_path: Path) -> None:
    code = f"""
import time, weirlab as wl
link = wl.pair("10M/1ms", name="weirlab-test-capture")
capture = link.left.capture({str(tmp_path / "killed.pcapng")!r}, snaplen=54321)
print("up", flush=True)
time.sleep(1000)
"""
    child = subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    assert processes("54321")
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    end = time.monotonic() + 20
    while processes("weirlab-test-capture") or processes("54321"):
        assert time.monotonic() < end, "processes are left"
        time.sleep(0.05)
