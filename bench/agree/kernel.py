"""The third arm of the comparison: transfers through the kernel's token bucket filter over a FIFO.

The sender runs behind `weir run` with a delay and no rate; its packets then pass the kernel's queue
between two namespaces. The sender has a namespace of its own, because on the host of the queue, TCP
small queues would limit it.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

NAMES = ("weir-agree-a", "weir-agree-b")
DURATION, WARMUP, FLOWS = 15.0, 3.0, 2
PORT = 5999
# The burst is little more than a packet, so the kernel splits longer trains into packets.
QUEUE = ["tbf rate 20mbit burst 2500 limit 10000000", "pfifo limit 100"]


def kernel_runs(weir: Path, out: Path, runs: int) -> Path:
    """Runs the transfers unless `out` has their results. Returns the directory of the results, in
    the form of `weir sim --out`."""
    directory = out / "kernel-tbf"
    if directory.exists():
        return directory
    results = []
    for _ in range(runs):
        set_up()
        try:
            results.append(one(weir))
        finally:
            tear_down()
    directory.mkdir(parents=True)
    summary = {"source": "kernel", "scenario": "tbf over pfifo", "runs": results}
    (directory / "summary.json").write_text(json.dumps(summary))
    return directory


def set_up() -> None:
    a, b = NAMES
    tear_down()
    for words in [
        f"ip netns add {a}",
        f"ip netns add {b}",
        f"ip link add queue netns {a} type veth peer name end netns {b}",
        f"ip -n {a} addr add 10.99.0.1/24 dev queue",
        f"ip -n {b} addr add 10.99.0.2/24 dev end",
        f"ip -n {a} link set lo up",
        f"ip -n {a} link set queue up",
        f"ip -n {b} link set end up",
        f"ip -n {a} route add default via 10.99.0.2",
        f"ip netns exec {a} tc qdisc add dev queue root handle 1: {QUEUE[0]}",
        f"ip netns exec {a} tc qdisc add dev queue parent 1:1 handle 2: {QUEUE[1]}",
    ]:
        subprocess.run(words.split(), check=True)


def tear_down() -> None:
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


def one(weir: Path) -> dict:
    """Carries out one run. Returns the metrics that the comparison judges."""
    a, b = NAMES
    own = [sys.executable, os.path.abspath(__file__)]
    with subprocess.Popen(
        ["ip", "netns", "exec", b, *own, "receive"], stdout=subprocess.PIPE
    ) as receiver:
        time.sleep(0.3)
        link = ["--up", "delay 10ms", "--down", "delay 10ms"]
        send = ["ip", "netns", "exec", a, str(weir), "run", *link, "--quiet", "--", *own, "send"]
        with subprocess.Popen(send, stdout=subprocess.DEVNULL) as sender:
            began = time.monotonic()
            before, delays = {}, []
            while (now := time.monotonic() - began) < DURATION + START:
                queue = read_queue()
                if now >= WARMUP + START:
                    before = before or queue
                    delays.append(queue["backlog"] * 8 / 20e6 * 1e9)
                time.sleep(0.01)
            after = read_queue()
            sender.wait()
        bytes_received = int(receiver.communicate()[0])
    drops = after["drops"] - before["drops"]
    passed = after["packets"] - before["packets"]
    return {
        "seed": 1,
        "flows": [{"name": "bulk", "goodput_bps": bytes_received * 8 / (DURATION - WARMUP)}],
        "links": [
            {
                "name": "link",
                "queue_p50_ns": statistics.median(delays),
                "drop_share": drops / (drops + passed),
            }
        ],
    }


def read_queue() -> dict:
    words = ["ip", "netns", "exec", NAMES[0], "tc", "-s", "-j", "qdisc", "show", "dev", "queue"]
    found = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    return next(queue for queue in found if queue["handle"] == "2:")


def receive() -> None:
    """Receives all transfers; prints the bytes that arrived between the warm-up and the end."""
    counts = [0]
    listener = socket.create_server(("10.99.0.2", PORT))
    listener.settimeout(10)
    connections = [listener.accept()[0] for _ in range(FLOWS)]
    began = time.monotonic()

    def read(connection: socket.socket) -> None:
        connection.settimeout(1)
        while (at := time.monotonic() - began) < DURATION:
            try:
                data = connection.recv(1 << 18)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            counts[0] += len(data) if at >= WARMUP else 0

    threads = [threading.Thread(target=read, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(counts[0])


def send() -> None:
    def write() -> None:
        connection = socket.socket()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        connection.settimeout(1)
        connection.connect(("10.99.0.2", PORT))
        began = time.monotonic()
        while time.monotonic() - began < DURATION + 0.2:
            try:
                connection.send(bytes(1 << 18))
            except TimeoutError:
                continue
            except OSError:
                return

    threads = [threading.Thread(target=write) for _ in range(FLOWS)]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()


START = 0.5  # seconds that `weir run` takes to start, approximately
if __name__ == "__main__":
    {"receive": receive, "send": send}[sys.argv[1]]()
