#!/usr/bin/env python3
"""Measures what clients of the web page cost: processor time of the server's threads for 0, 1 and
20 tabs, bytes to each tab, and the lateness of packets with 0 and with 20 tabs, in one run.

    bench/web/cost.py target/release/weir [SECONDS]

A pair of programs exchanges 1,000 packets a second over a link. After the phases with 0 and 1 tabs,
phases with 20 and 0 tabs alternate, so that a change of the machine's speed does not look like an
effect of the tabs. Needs root or user namespaces, and ping.
"""

import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time


def request(port, text):
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.sendall(text.encode())
        data = b""
        while more := stream.recv(65536):
            data += more
    return data.decode()


def login(port, token):
    body = json.dumps({"token": token})
    answer = request(
        port,
        f"POST /v1/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}",
    )
    return re.search(r"set-cookie: ([^;]+)", answer, re.I).group(1)


def readings(port, cookie):
    answer = request(
        port,
        f"GET /v1/readings HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Cookie: {cookie}\r\n\r\n",
    )
    body = answer.split("\r\n\r\n", 1)[1]
    return {link["name"]: link for link in json.loads(body)["links"]}


class Tab:
    """A client that watches a link, and counts what it receives."""

    def __init__(self, port, cookie, period_ms):
        self.bytes = 0
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(
            (
                f"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
                f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nCookie: {cookie}\r\n"
                f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            ).encode()
        )
        self.say(
            {
                "op": "subscribe",
                "id": 1,
                "what": "object",
                "object": "link:to-left",
                "period_ms": period_ms,
            }
        )
        threading.Thread(target=self.read, daemon=True).start()

    def say(self, message):
        text = json.dumps(message).encode()
        head = struct.pack("!BBH", 0x81, 0x80 | 126, len(text))
        self.socket.sendall(head + bytes(4) + text)

    def read(self):
        try:
            while more := self.socket.recv(65536):
                self.bytes += len(more)
        except OSError:
            pass

    def close(self):
        # The reading thread holds the socket too.
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def cpu(pid):
    """Seconds of processor time of each thread, by the thread's number and name."""
    times = {}
    ticks = os.sysconf("SC_CLK_TCK")
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            stat = open(f"/proc/{pid}/task/{task}/stat").read()
        except OSError:
            continue
        name, rest = stat[stat.index("(") + 1 :].rsplit(")", 1)
        fields = rest.split()
        times[(task, name)] = (int(fields[11]) + int(fields[12])) / ticks
    return times


def quantile(before, after, name, q):
    """A quantile of the lateness of the packets between two readings, in us."""
    old = {low: count for low, _, count in before[name]["lateness_ns"]["bins"]}
    bins = [
        (high, count - old.get(low, 0)) for low, high, count in after[name]["lateness_ns"]["bins"]
    ]
    total, seen = sum(count for _, count in bins), 0
    for high, count in bins:
        seen += count
        if seen >= q * total:
            return high / 1000
    return float("nan")


def phase(pid, port, cookie, tabs, seconds):
    open_tabs = [Tab(port, cookie, 100) for _ in range(tabs)]
    time.sleep(1)
    before, first, began = cpu(pid), readings(port, cookie), time.monotonic()
    start = sum(tab.bytes for tab in open_tabs)
    time.sleep(seconds)
    after, last, lasted = cpu(pid), readings(port, cookie), time.monotonic() - began
    control = sum(
        after[key] - before.get(key, 0) for key in after if key[1].startswith("weir-control")
    )
    every = sum(after[key] - before.get(key, 0) for key in after)
    sent = (sum(tab.bytes for tab in open_tabs) - start) / lasted / max(tabs, 1)
    for tab in open_tabs:
        tab.close()
    time.sleep(0.5)
    late = [quantile(first, last, "to-left", q) for q in (0.5, 0.99)]
    print(
        f"{tabs:3} tabs: server {100 * control / lasted:5.2f} % of a core, process "
        f"{100 * every / lasted:6.2f} %, {sent / 1000:5.1f} KB/s to each tab, lateness p50 "
        f"{late[0]:6.1f} us, p99 {late[1]:7.1f} us",
        flush=True,
    )


def main():
    weir = sys.argv[1]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20
    process = subprocess.Popen(
        [
            weir,
            "pair",
            "-q",
            "--web",
            "127.0.0.1:0",
            "--link",
            "bw 20Mbit/s delay 5ms",
            "--left",
            "sleep 3600",
            "--right",
            "ping -q -i 0.001 left",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        port, token = re.search(r":(\d+)/#token=(\w+)", process.stderr.readline()).groups()
        port = int(port)
        cookie = login(port, token)
        time.sleep(1)
        for tabs in (0, 1, 20, 0, 20, 0, 20):
            phase(process.pid, port, cookie, tabs, seconds)
    finally:
        process.terminate()
        process.wait()


main()
