"""The disturbances of a soak: changes of the configuration, clients, flapping interfaces, kill -9.

Each runs on a thread of its own until `stop` is set. A thread that finds a broken promise writes it
to `findings`, and the soak ends.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from copy import deepcopy
from dataclasses import dataclass, field

from machine import Api, Broken, Daemon, cable, connect, must, sh

MARK = 1000  # this pipe's rate in kbit/s is FIRST_RATE plus the number of the latest change
FIRST_RATE = 10_000
SCHEDULERS = ("fq_codel", "wf2q+", "qfq", "drr", "prio", "fifo")
AQMS = ("", "aqm codel", "aqm pie", "aqm red")
RESOURCES = ("health", "configuration", "pipes", "queues", "scheds", "rules", "tables/t", "lengths")
MOST_CLIENTS = 40  # open connections, well below the daemon's limit


@dataclass
class Model:
    """The part of the configuration that must survive a kill."""

    number: int = 0  # of the latest change
    table: dict[str, int] = field(default_factory=dict)
    pipes: set[int] = field(default_factory=set)
    rules: set[int] = field(default_factory=set)


class Worker(threading.Thread):
    """A disturbance. While the daemon is up, `step` runs after each pause of `wait()` seconds."""

    pause = 1.0

    def __init__(self, daemon: Daemon, seed: int, findings: list[str], note) -> None:
        super().__init__(daemon=True, name=type(self).__name__)
        self.weir, self.findings, self.note = daemon, findings, note
        self.random = random.Random(f"{type(self).__name__} {seed}")
        self.stop = threading.Event()
        self.count = 0

    def run(self) -> None:
        try:
            while not self.stop.wait(self.wait()):
                if self.weir.up.is_set():
                    self.step()
                    self.count += 1
        except Broken as why:
            self.findings.append(f"{self.name}: {why}")
        except Exception as why:  # a fault of the soak itself must not pass for a success
            self.findings.append(f"{self.name}: {type(why).__name__}: {why}")
        finally:
            self.clear()

    def wait(self) -> float:
        return self.pause

    def step(self) -> None:
        raise NotImplementedError

    def clear(self) -> None:
        """Releases what the disturbance holds."""


class Changer(Worker):
    """Makes a change every 10 ms. The models hold the acknowledged and the sent changes."""

    pause = 0.01

    def __init__(self, daemon: Daemon, seed: int, findings: list[str], note, pipes: int) -> None:
        super().__init__(daemon, seed, findings, note)
        self.api = Api(daemon.socket)
        self.acknowledged, self.sent = Model(), Model()
        # After a kill, the restart waits until the change in progress has ended, so that the models
        # do not change during the check.
        self.lock = threading.Lock()
        # The least rate of a customer's pipe, bit/s.
        self.bits = max(200_000_000 // pipes, 10_000)
        self.next_at = 0.0

    def wait(self) -> float:
        # The next change starts `pause` seconds after the scheduled start of the last one, or at
        # once if that time has passed. Missed changes are not made up.
        now = time.monotonic()
        self.next_at = max(self.next_at + self.pause, now)
        return self.next_at - now

    def first(self) -> None:
        """Makes the configuration with which the soak starts."""
        self.post(
            [
                self.customers(),
                "add 100 pipe 1 ip from any to 10.2.0.0/15 in recv sl",
                "add 150 pipe 50 ip from any to 10.2.1.0/24 in recv sl",
                "sched 2 config bw 50Mbit/s type fq_codel",
                "queue 3 config sched 2 weight 4",
                "add 200 queue 3 ip from any to any in recv sr",
                "table t create",
            ]
        )

    def customers(self) -> str:
        rate, delay = self.bits * self.random.randint(1, 5), self.random.randint(0, 20)
        limit = self.random.randint(5, 50)
        return f"pipe 1 config bw {rate}bit/s delay {delay}ms queue {limit} mask dst-ip 0xffffffff"

    def step(self) -> None:
        with self.lock:
            try:
                self.post([self.change()])
            except (OSError, http.client.HTTPException) as why:
                # A change may fail only while the daemon is dead or `up` is not set.
                if self.weir.process.poll() is None and self.weir.up.is_set():
                    raise Broken(f"a change was not answered: {why}") from why

    def post(self, commands: list[str]) -> None:
        script = "\n".join([f"pipe {MARK} config bw {FIRST_RATE + self.next()}kbit/s", *commands])
        reply = self.api.request("POST", "/v1/commands", {"script": script})
        if not reply["applied"]:
            raise Broken(f"a change was refused: {script}: {reply}")
        self.acknowledged = deepcopy(self.sent)

    def next(self) -> int:
        self.sent.number += 1
        return self.sent.number

    def change(self) -> str:
        """A random change, recorded in `sent`."""
        kind = self.random.randrange(12)
        if kind < 4:
            return self.entry()
        if kind < 7:
            return self.pipe()
        if kind < 9:
            return self.rule()
        if kind == 9:
            return self.customers()
        if kind == 10:
            name, rate = self.random.choice(SCHEDULERS), self.random.randint(10, 90)
            return f"sched 2 config bw {rate}Mbit/s type {name}"
        weight = self.random.randint(1, 100)
        return f"queue 3 config sched 2 weight {weight} {self.random.choice(AQMS)}"

    def entry(self) -> str:
        key = f"10.9.{self.random.randrange(4)}.{self.random.randrange(256)}/32"
        if self.sent.table.pop(key, None) is not None:
            return f"table t delete {key}"
        self.sent.table[key] = value = self.random.randrange(1000)
        return f"table t add {key} {value}"

    def pipe(self) -> str:
        number = self.random.randint(50, 69)
        if number in self.sent.pipes and self.random.random() < 0.5:
            self.sent.pipes.discard(number)
            return f"pipe delete {number}"
        self.sent.pipes.add(number)
        return f"pipe {number} config bw {self.random.randint(1, 20)}Mbit/s delay 3ms queue 20"

    def rule(self) -> str:
        number = self.random.randint(300, 349)
        if number in self.sent.rules:
            self.sent.rules.discard(number)
            return f"delete {number}"
        self.sent.rules.add(number)
        return f"add {number} count udp from any to table(t)"

    def verify(self) -> None:
        """Checks that the daemon has all acknowledged changes, with or without the one change that
        was sent but not acknowledged."""
        api = Api(self.weir.socket)
        pipes = {pipe["number"]: pipe for pipe in api.request("GET", "/v1/pipes")}
        number = pipes[MARK]["rate_bps"] // 1000 - FIRST_RATE
        table = api.request("GET", "/v1/tables/t?limit=10000")["entries"]
        rules = {rule["number"] for rule in api.request("GET", "/v1/rules")}
        api.close()
        found = Model(
            number,
            {entry["key"]: entry["value"] for entry in table},
            {pipe for pipe in pipes if 50 <= pipe < 70},
            {rule for rule in rules if 300 <= rule < 350},
        )
        if found not in (self.acknowledged, self.sent):
            raise Broken(
                f"after kill -9: found change {number}, acknowledged {self.acknowledged.number}, "
                f"sent {self.sent.number}; found {found}, acknowledged {self.acknowledged}"
            )
        self.acknowledged, self.sent = found, deepcopy(found)

    def clear(self) -> None:
        self.api.close()


class Clients(Worker):
    """Clients that come and go: half-sent requests, event streams, noise, broken connections."""

    pause = 0.02

    def __init__(self, daemon: Daemon, seed: int, findings: list[str], note) -> None:
        super().__init__(daemon, seed, findings, note)
        self.open: list[socket.socket] = []

    def step(self) -> None:
        try:
            if len(self.open) >= MOST_CLIENTS or (self.open and self.random.random() < 0.45):
                self.leave()
            else:
                self.come()
        except OSError:
            # The daemon was killed, or has closed this connection.
            pass

    def come(self) -> None:
        stream = connect(self.weir.socket, 2)
        self.open.append(stream)
        resource = self.random.choice(RESOURCES)
        get = f"GET /v1/{resource} HTTP/1.1\r\nHost: weir\r\n\r\n".encode()
        kind = self.random.randrange(6)
        if kind == 0:
            stream.sendall(get[: self.random.randrange(1, len(get) - 1)])
        elif kind == 1:
            period = self.random.randint(50, 500)
            stream.sendall(get.replace(resource.encode(), f"events?period={period}".encode(), 1))
        elif kind == 2:
            head = b"POST /v1/commands HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\n"
            stream.sendall(head + b'Content-Length: 100000\r\n\r\n{"script": "pipe ')
        elif kind == 3:
            stream.sendall(self.random.randbytes(self.random.randint(1, 2000)))
        elif kind == 4:
            page = f"pipes/1/instances?limit={self.random.randint(1, 1000)}"
            stream.sendall(get.replace(resource.encode(), page.encode(), 1))
        else:
            stream.sendall(get)

    def leave(self) -> None:
        stream = self.open.pop(self.random.randrange(len(self.open)))
        try:
            stream.settimeout(0.01)
            # A socket that is closed with unread data resets the connection.
            if self.random.random() < 0.5:
                stream.recv(65536)
        finally:
            stream.close()

    def clear(self) -> None:
        for stream in self.open:
            stream.close()
        self.open.clear()


class Flapper(Worker):
    """Interfaces that go down and up, or are deleted and made again."""

    def wait(self) -> float:
        return self.random.uniform(1, 5)

    def step(self) -> None:
        side = self.random.choice("lr")
        if self.random.random() < 0.5:
            self.note(f"s{side} down")
            must(f"ip link set s{side} down")
            self.stop.wait(self.random.uniform(0, 1))
            must(f"ip link set s{side} up")
        else:
            self.note(f"s{side} deleted")
            must(f"ip link del s{side}")
            self.stop.wait(self.random.uniform(0, 1))
            # The kernel removes the far end some time after the near one.
            while sh(f"ip -n w{side} link show e"):
                time.sleep(0.01)
            cable(side)


class Killer(Worker):
    """Kills the daemon at random with kill -9, starts it again, and checks its configuration."""

    def __init__(self, daemon, seed, findings, note, changer: Changer, mean: float) -> None:
        super().__init__(daemon, seed, findings, note)
        self.changer, self.mean = changer, mean

    def wait(self) -> float:
        return 1 + self.random.expovariate(1 / self.mean)

    def step(self) -> None:
        self.note("kill -9")
        self.weir.kill()
        with self.changer.lock:
            self.changer.api.close()
            self.weir.start()
            self.changer.verify()
            self.weir.up.set()
