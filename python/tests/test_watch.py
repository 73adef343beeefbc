"""Watches of kernel queues, in a namespace with a queue that fills."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

import weirlab as wl
from test_live import namespaces_are_allowed, processes

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not namespaces_are_allowed(), reason="network namespaces need root"
)

SEND = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
size, count = 972, int(sys.argv[1])
if sys.argv[2] == "at once":
    # The queue cuts this into datagrams and takes all of them before it sends the second.
    s.setsockopt(socket.SOL_UDP, 103, size)  # UDP_SEGMENT
    s.sendto(bytes(size * count), ("10.98.7.2", 9))
else:
    for _ in range(count):
        s.sendto(bytes(size), ("10.98.7.2", 9))
"""


@pytest.fixture
def slow() -> Iterator[str]:
    """A namespace with a device `v0`, which sends at 1 Mbit/s from a queue with room for 50 packets
    of 1000 bytes."""
    name = f"wlw{os.getpid()}"
    inside = f"ip netns exec {name}"
    commands = [
        f"ip netns add {name}",
        # With IPv6, the kernel would send packets of its own through the queue.
        f"{inside} sysctl -q net.ipv6.conf.default.disable_ipv6=1",
        f"ip -n {name} link add v0 type veth peer name v1",
        f"ip -n {name} addr add 10.98.7.1/24 dev v0",
        f"ip -n {name} link set v0 up",
        f"ip -n {name} link set v1 up",
        f"ip -n {name} neigh add 10.98.7.2 lladdr 02:00:00:00:00:02 dev v0",
        f"{inside} tc qdisc add dev v0 root handle 1: tbf rate 1mbit burst 2000 limit 50700",
    ]
    try:
        for command in commands:
            subprocess.run(command.split(), check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def send(namespace: str, packets: int, how: str = "one by one") -> None:
    inside = ["ip", "netns", "exec", namespace, sys.executable, "-c", SEND, str(packets), how]
    subprocess.run(inside, check=True)


def root_rows(batch: wl.Table) -> Iterator[dict[str, Any]]:
    return (row for row in batch if row["kind"] == "tbf")


@needs_root
def test_batches_show_the_queue_while_it_fills_and_drains(slow: str) -> None:
    batches = 0
    lengths: list[int] = []
    with wl.watch(f"v0@{slow}", rate=2000, interval=0.05) as queues:
        send(slow, 30, "at once")
        for batch in queues:
            batches += 1
            rows = list(root_rows(batch))
            assert all(row["what"] == "readings" and row["device"] == "v0" for row in rows)
            assert all(row["netns"] == slow and row["handle"] == "1:" for row in rows)
            assert all(row["time_ns"] <= row["until_ns"] for row in rows)
            assert all(row["packets"] is None for row in rows)
            lengths += [row["qlen"] for row in rows]
            if lengths and max(lengths) > 0 and lengths[-1] == 0:
                break
    # 30 packets take 0.24 s at 1 Mbit/s, so they are seen in several batches.
    assert batches > 2
    assert 25 <= max(lengths) <= 30
    longest = lengths.index(max(lengths))
    assert lengths[longest:] == sorted(lengths[longest:], reverse=True)
    assert isinstance(queues.summary, dict)
    assert queues.summary["kind"] == "watch" and queues.summary["device"] == "v0"


@needs_root
def test_events_are_rows_of_single_packets(slow: str) -> None:
    rows: list[dict[str, Any]] = []
    with wl.watch(f"v0@{slow}", method="events", root_only=True, interval=0.05) as queues:
        send(slow, 10)
        end = time.monotonic() + 10
        for batch in queues:
            rows += root_rows(batch)
            if rows and rows[-1]["what"] == "dequeue" and rows[-1]["qlen"] == 0:
                break
            assert time.monotonic() < end
    changes = [row["what"] for row in rows]
    if "enqueue" not in changes:
        pytest.skip("the kernel runs no programs for this user")
    assert changes.count("enqueue") >= 9 and changes.count("dequeue") >= 9
    assert all(row["bytes"] > 0 for row in rows if row["what"] == "enqueue")


@needs_root
def test_the_fastest_rate_reads_without_a_break(slow: str) -> None:
    rows = samples = 0
    with wl.watch(f"v0@{slow}", rate="max", seconds=0.5) as queues:
        send(slow, 20)
        for batch in queues:
            rows += len(batch)
            samples += sum(batch["samples"])
    # Equal readings are one row.
    assert rows > 0 and samples > 1000
    assert samples > 10 * rows


@needs_root
def test_a_reader_that_waits_loses_no_rows(slow: str) -> None:
    with wl.watch(f"v0@{slow}", rate=1000, seconds=1, interval=0.01) as queues:
        send(slow, 20)
        time.sleep(1.2)
        rows = [row for batch in queues for row in root_rows(batch)]
    for before, after in zip(rows, rows[1:]):
        assert before["until_ns"] < after["time_ns"]
    assert max(row["qlen"] for row in rows) >= 15


def test_an_unchanged_queue_has_a_row_in_each_interval() -> None:
    with wl.watch("lo", rate=200, method="netlink", interval=0.1, seconds=1.0) as queues:
        batches = [len(batch) for batch in queues]
    assert len(batches) >= 4 and min(batches) > 0


def test_a_watch_is_an_asynchronous_iterator() -> None:
    async def watch() -> tuple[int, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        other = asyncio.create_task(tick())
        rows = 0
        async with wl.watch("lo", rate=500, seconds=0.5) as queues:
            async for batch in queues:
                rows += len(batch)
        other.cancel()
        assert queues.summary is not None
        return rows, ticks

    rows, ticks = asyncio.run(watch())
    # The watch did not block the loop.
    assert rows > 0 and ticks >= 10


def test_a_cancelled_watch_ends() -> None:
    async def watch() -> None:
        async with wl.watch("lo", rate=100, interval=30) as queues:
            async for _ in queues:
                pass

    async def cancel() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watch(), 1)

    before = processes("--flush=30.0")
    asyncio.run(cancel())
    assert processes("--flush=30.0") == before


def test_an_unwatchable_device_is_an_error() -> None:
    with pytest.raises(wl.CommandError, match="nothing-here"):
        wl.watch("nothing-here")
    with pytest.raises(ValueError, match="rate"):
        wl.watch("lo", rate="quick")
    with pytest.raises(ValueError, match="method|nothing"):
        wl.watch("lo", method="nothing")  # type: ignore[arg-type]

    async def watch() -> None:
        async with wl.watch("nothing-here"):
            pass

    with pytest.raises(wl.CommandError, match="nothing-here"):
        asyncio.run(watch())


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (TypeError, {"devices": 5}),
        (TypeError, {"devices": [5]}),
        (ValueError, {"devices": []}),
        (ValueError, {"devices": "--json"}),
        (TypeError, {"rate": 1.5}),
        (TypeError, {"rate": True}),
        (ValueError, {"rate": -1}),
        (TypeError, {"method": 5}),
        (TypeError, {"netns": 5}),
        (TypeError, {"pid": "1"}),
        (ValueError, {"pid": -1}),
        (ValueError, {"seconds": math.nan}),
        (ValueError, {"seconds": -1}),
        (TypeError, {"seconds": "1"}),
        (ValueError, {"interval": 0}),
        (ValueError, {"interval": math.inf}),
        (ValueError, {"interval": 100}),
        (TypeError, {"interval": None}),
    ],
)
def test_arguments_are_checked(kind: type[Exception], arguments: dict[str, Any]) -> None:
    with pytest.raises(kind, match=next(iter(arguments))):
        wl.watch(**{"devices": "lo", **arguments})


def test_nothing_is_left_when_the_interpreter_is_killed() -> None:
    code = """
import time, weirlab as wl
queues = wl.watch("lo", rate=100, interval=29)
print("up", flush=True)
time.sleep(1000)
"""
    child = subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    assert processes("--flush=29.0")
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    end = time.monotonic() + 20
    while processes("--flush=29.0"):
        assert time.monotonic() < end, "processes are left"
        time.sleep(0.05)


def test_an_unreferenced_watch_ends() -> None:
    queues = wl.watch("lo", rate=100, interval=28)
    assert processes("--flush=28.0")
    del queues
    assert not processes("--flush=28.0")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_end_the_watch() -> None:
    with wl.watch("lo", rate=100, seconds=30, interval=0.05) as queues:
        assert len(next(queues)) > 0
        child = os.fork()
        if child == 0:
            try:
                queues.stop()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        for _ in range(3):
            assert len(next(queues)) > 0
    assert queues.summary is not None
