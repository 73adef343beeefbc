#!/usr/bin/env python3
"""Kills workers, schedulers and clients of campaigns at random moments, and checks the store.

  bench/sweep/soak.py [--kills N] [--runs N] [--seed N]

A Dask scheduler, two workers and two clients that share a store run as processes of their own. Each
is started again after it was killed with SIGKILL. All kills happen while runs are missing. At the
end, no run is missing, none is there twice, every file is whole, and all bytes are those of a
campaign without disturbances. It needs `weirlab` and `distributed` (make python).
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import weirlab as wl

# A client waits some seconds for a scheduler that is gone, then gives up and is started again.
ENVIRON = {
    **os.environ,
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "15s",
}
# The time limit of the whole run, in seconds.
LIMIT_S = 3600


def words(kind: str, port: int, folder: Path, runs: int) -> list[str]:
    if kind == "scheduler":
        place = ["--host", "127.0.0.1", "--port", str(port)]
        return ["-m", "distributed.cli.dask_scheduler", *place, "--no-dashboard", "--no-show"]
    if kind == "worker":
        limits = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "20"]
        place = [f"tcp://127.0.0.1:{port}", "--local-directory", str(folder / "dask")]
        return ["-m", "distributed.cli.dask_worker", *place, *limits]
    own = [os.path.abspath(__file__), "--runs", str(runs)]
    return [*own, "--client", str(folder / "s"), "--port", str(port)]


def scenario() -> wl.Scenario:
    return (
        wl.Scenario("soak", duration="20s")
        .host("a", "b")
        .link("a", "b", "bw 10Mbit/s delay 5ms loss 1% queue 20", name="l")
        .traffic("tcp", "a", "b", name="t", count=3)
    )


def campaign(store: str, runs: int) -> wl.Campaign:
    delays = [f"{n}ms" for n in range(1, 11)]
    return wl.sweep(scenario(), {"link.l.spec.delay": delays}, seeds=runs // 10, store=store)


def client(store: str, runs: int, port: int) -> None:
    from distributed import Client

    with Client(f"tcp://127.0.0.1:{port}") as connection:
        campaign(store, runs).run(connection.get_executor(), batch_s=0.5)


class Process:
    def __init__(self, kind: str, words: list[str], log: Path) -> None:
        self.kind, self.words, self.log = kind, words, log
        self.start()

    def start(self) -> None:
        self.running = subprocess.Popen(
            [sys.executable, *self.words],
            env=ENVIRON,
            stdout=self.log.open("ab"),
            stderr=subprocess.STDOUT,
            cwd=self.log.parent,
        )

    def is_running(self) -> bool:
        return self.running.poll() is None

    def has_succeeded(self) -> bool:
        """Whether the client has ended because the store has all runs."""
        return self.kind == "client" and self.running.poll() == 0

    def kill(self) -> None:
        self.running.send_signal(signal.SIGKILL)
        self.running.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--runs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        client(options.client, options.runs, options.port)
        return 0
    with tempfile.TemporaryDirectory(prefix="weir-soak-") as folder:
        return soak(Path(folder), options.kills, options.runs, random.Random(options.seed))


def soak(folder: Path, kills: int, runs: int, draw: random.Random) -> int:
    store = folder / "s"
    port = free_port()
    kinds = ["scheduler", "worker", "worker", "client", "client"]
    processes = [
        Process(kind, words(kind, port, folder, runs), folder / f"{number}.log")
        for number, kind in enumerate(kinds)
    ]
    killed: dict[str, int] = dict.fromkeys(kinds, 0)
    began = time.monotonic()
    done = 0
    try:
        while True:
            time.sleep(draw.uniform(0.5, 3))
            done = count(store)
            if done >= runs and any(process.has_succeeded() for process in processes):
                break
            victim = draw.choice(processes)
            if done < runs and sum(killed.values()) < kills and victim.is_running():
                victim.kill()
                killed[victim.kind] += 1
            for process in processes:
                if not process.is_running():
                    process.start()
            if time.monotonic() - began > LIMIT_S:
                print(f"the campaign has not ended within {LIMIT_S} s: {done} of {runs} runs")
                return 1
    finally:
        for process in processes:
            process.kill()
    if sum(killed.values()) < kills:
        print(f"the campaign ended after {sum(killed.values())} kills: give it more --runs")
        return 1
    took = time.monotonic() - began
    c = campaign(str(store), runs)
    # Unfinished directories belong to killed writers.
    left = len([*(store / "tmp").iterdir()])
    subprocess.run([wl.find_weir(), "sweep", "gc", "--store", store], check=True)
    verified = c.verify(sample=50)
    quiet = folder / "quiet"
    campaign(str(quiet), runs).run()
    same = content(store) == content(quiet)
    status = c.status()
    victims = ", ".join(f"{number} {kind}s" for kind, number in killed.items())
    print(
        f"| {victims} killed in {took:.0f} s | {status.done} of {status.runs} runs, "
        f"{status.missing} lost | {verified.runs - status.runs} more than once | "
        f"{len(verified.damaged)} damaged | {left} unfinished, removed by gc | "
        f"{'the' if same else 'OTHER'} bytes of an undisturbed campaign |"
    )
    sound = status.missing == 0 and verified.runs == status.runs and not verified.damaged and same
    return 0 if sound else 1


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def count(store: Path) -> int:
    runs = store / "runs"
    return sum(1 for _ in runs.iterdir()) if runs.exists() else 0


def content(store: Path) -> dict[str, bytes]:
    runs = store / "runs"
    return {str(path.relative_to(runs)): path.read_bytes() for path in runs.glob("*/*")}


if __name__ == "__main__":
    sys.exit(main())
