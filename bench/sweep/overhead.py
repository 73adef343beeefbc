#!/usr/bin/env python3
"""Measures what a campaign costs beyond its runs: processor time, look-ups of runs, and memory.

  bench/sweep/overhead.py runs [--count N] [--ms MS]  a campaign against the same simulations alone
  bench/sweep/overhead.py store [--count N]           look-ups of synthetic runs, and their memory
  bench/sweep/overhead.py workers [--count N]         throughput against the number of Dask workers,
                                                      which are hosts with networks of their own
  bench/sweep/overhead.py cluster [--ms MS]           the client with up to 4,000 simulated workers,
                                                      each of which works for ten seconds

It needs `weirlab` (make python), and `workers` also needs `distributed` and namespaces. The output
consists of rows of bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import collections
import heapq
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import weirlab as wl


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=["runs", "store", "workers", "cluster", "client"])
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help="number of runs")
    parser.add_argument("--ms", type=float, default=50, help="processor time of a run, ms")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-sweep-") as folder:
        if options.task == "runs":
            runs(Path(folder), options.count or 10_000, options.ms)
        elif options.task == "store":
            store(Path(folder), options.count or 1_000_000)
        elif options.task == "workers":
            print("| workers | throughput | took | a run | empty task: client | scheduler |")
            print("|---|---|---|---|---|---|")
            workers(Path(folder), options.count or 2_000, options.ms)
        elif options.task == "cluster":
            print("| workers | throughput | busy | batches | client, a run | client, a batch |")
            print("|---|---|---|---|---|---|")
            for number in (10, 100, 1000, 4000):
                total = options.count or int(10 * number * 1000 / options.ms)
                cluster_of(Path(folder, str(number)), number, total, options.ms)
        else:
            client(options.place, options.count)


def scenario(seconds: float) -> wl.Scenario:
    return (
        wl.Scenario("dumbbell", duration=seconds)
        .host("a")
        .router("r")
        .host("b")
        .link("a", "r", "bw 100Mbit/s delay 1ms")
        .link("r", "b", "bw 10Mbit/s delay 10ms", name="bottleneck", scheduler="fq_codel")
        .traffic("tcp", "a", "b", name="bulk", count=4)
        .traffic("voip", "a", "b", name="call")
    )


def calibrated_seconds(ms: float) -> float:
    """The simulated duration of a run that takes about `ms` of processor time."""
    seconds = 2.0
    for _ in range(4):
        cost = wl.simulate(scenario(seconds), seeds=20, threads=1).cpu_s / 20
        seconds = round(seconds * ms / 1000 / cost, 2)
    return seconds


def cpu() -> float:
    """Processor time of this process and its ended children, s."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(each.ru_utime + each.ru_stime for each in used)


def runs(folder: Path, count: int, ms: float) -> None:
    net = scenario(calibrated_seconds(ms))
    # Blocks of both kinds alternate, so that a change of the machine's speed affects both.
    alone = together = wall = 0.0
    blocks = 10
    for block in range(blocks):
        seeds = range(block * count // blocks, (block + 1) * count // blocks)
        # `simulate` keeps its results in memory, so it gets 100 seeds at a time.
        for part in range(0, len(seeds), 100):
            alone += wl.simulate(net, seeds=seeds[part : part + 100], threads=2).cpu_s
        before, began = cpu(), time.monotonic()
        wl.sweep(net, seeds=seeds, store=folder / "s").run(jobs=2)
        together += cpu() - before
        wall += time.monotonic() - began
    extra = together - alone
    print(
        f"| {count:,} runs of {1000 * alone / count:.1f} ms, 2 threads | "
        f"{1000 * extra / count:.2f} ms a run, {extra / alone:+.1%} | {wall:.0f} s | "
        f"{size(folder) / count / 1000:.1f} kB a run |"
    )


def size(folder: Path) -> int:
    done = subprocess.run(["du", "-sb", folder], stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout.split()[0])


def store(folder: Path, count: int) -> None:
    """Looks up runs that do not exist, and a tenth as many that do. Each campaign has a process of
    its own, whose memory is measured."""
    for number in (count // 100, count // 10, count):
        look_up(folder / "empty", number, "not there")
    made(folder / "full", count // 10)
    for number in (count // 100, count // 10):
        look_up(folder / "full", number, "there")


def campaign(place: Path, count: int) -> wl.Campaign:
    """A campaign of a hundred points with `count` runs in all."""
    delays = [f"{n}us" for n in range(1, 101)]
    axes = {"link.bottleneck.spec.delay": delays}
    return wl.sweep(scenario(1.0), axes, seeds=count // 100, store=place)


def look_up(place: Path, count: int, words: str) -> None:
    code = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from overhead import campaign, cpu
before = cpu()
status = campaign({str(place)!r}, {count}).status()
print(status.done, (cpu() - before) / {count} * 1e6,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    )
    found, each, memory = map(float, done.stdout.split())
    assert found == (count if words == "there" else 0)
    print(f"| {count:,} runs, {words} | {each:.1f} us a run | {memory / 1e3:.0f} MB |", flush=True)


def made(place: Path, count: int) -> None:
    """Puts synthetic runs into a store. Each is a directory with a hard link to a common file."""
    c = campaign(place, count)
    meta = place / "tmp/meta.json"
    number = 0
    for point in range(len(c.points)):
        for _, key in c._native.keys(point):
            # File systems limit the number of hard links to a file.
            if number % 10_000 == 0:
                meta.unlink(missing_ok=True)
                meta.write_text("{}")
            number += 1
            (place / "runs" / key).mkdir()
            os.link(meta, place / "runs" / key / "meta.json")
    meta.unlink()


def workers(folder: Path, count: int, ms: float) -> None:
    """Each worker is a host with a network of its own, and so is the client."""
    # `hosts` is in this directory, which Python with -P leaves out of the path.
    sys.path.insert(0, str(Path(__file__).parent))
    from hosts import cluster

    seconds = calibrated_seconds(ms)
    for number in (1, 2, 4, 8):
        place = folder / str(number)
        place.mkdir()
        with cluster(number, place) as (lab, address):
            own = [sys.executable, os.path.abspath(__file__), "client", "--count", str(count)]
            own += ["--place", f"{address} {number} {seconds} {place / 's'}"]
            printed = lab["client"].check_output(own, text=True)
        took, busy, own, scheduler = map(float, printed.split()[-4:])
        print(
            f"| {number} | {count / took:.1f} runs/s | {took:.1f} s | "
            f"{1e3 * busy / count:.1f} ms | {1e3 * own:.2f} ms | {1e3 * scheduler:.2f} ms |",
            flush=True,
        )
        shutil.rmtree(place)


class Simulated(Executor):
    """Workers that take the time of their batches but do no work. Each takes one batch at a time,
    like the workers of Dask."""

    def __init__(self, workers: int, run_s: float) -> None:
        self.num_workers, self.run_s = workers, run_s
        self.busy_s = 0.0
        self.batches = 0
        self.waiting: collections.deque[tuple[Future[Any], float, list[Any]]] = collections.deque()
        self.due: list[tuple[float, int, Future[Any], list[Any]]] = []
        self.lock = threading.Condition()
        threading.Thread(target=self.work, daemon=True).start()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        runs = [(task[0], seed) for task in args[2] for seed in task[3]]
        reports = [(point, seed, "", self.run_s, "made", "", False, False) for point, seed in runs]
        with self.lock:
            self.batches += 1
            self.waiting.append((future, len(runs) * self.run_s, reports))
            self.lock.notify()
        return future

    def work(self) -> None:
        """Ends each batch when its time is over."""
        while True:
            with self.lock:
                now = time.monotonic()
                while self.waiting and len(self.due) < self.num_workers:
                    future, length, reports = self.waiting.popleft()
                    self.busy_s += length
                    heapq.heappush(self.due, (now + length, id(future), future, reports))
                if not self.due or self.due[0][0] > now:
                    self.lock.wait(min(0.005, self.due[0][0] - now) if self.due else 0.1)
                    continue
                _, _, future, reports = heapq.heappop(self.due)
            future.set_result(reports)


def cluster_of(folder: Path, workers: int, count: int, ms: float) -> None:
    """Runs the client with simulated workers, and prints the share of the time that they work."""
    points = [f"{n}us" for n in range(1, 101)]
    net = scenario(1.0)
    c = wl.sweep(net, {"link.bottleneck.spec.delay": points}, seeds=count // 100, store=folder)
    executor = Simulated(workers, ms / 1000)
    before, began = cpu(), time.monotonic()
    assert c.run(executor).made == count // 100 * 100
    took, used = time.monotonic() - began, cpu() - before
    print(
        f"| {workers:,} | {count / took:,.0f} runs/s | {executor.busy_s / took / workers:.0%} | "
        f"{executor.batches / took:,.0f} /s | {1e6 * used / count:.0f} us | "
        f"{1e3 * used / executor.batches:.2f} ms |",
        flush=True,
    )


def client(place: str, count: int) -> None:
    """The client of a cluster: prints the time of a campaign, the processor time of its runs, and
    the processor time that an empty task costs the client and the scheduler."""
    from distributed import Client

    address, number, seconds, store = place.split(" ", 3)
    with Client(address) as connection:
        connection.wait_for_workers(int(number), timeout=120)
        executor = connection.get_executor()
        net = scenario(float(seconds))
        # The workers import the package before the clock starts.
        wl.sweep(net, seeds=range(10**6, 10**6 + 4 * int(number)), store=store).run(executor)
        began = time.monotonic()
        result = wl.sweep(net, seeds=count, store=store).run(executor)
        assert result.made == count
        took = time.monotonic() - began

        def used() -> tuple[float, float]:
            return cpu(), connection.run_on_scheduler(time.process_time)

        before = used()
        for future in [executor.submit(divmod, number, 7) for number in range(EMPTY)]:
            future.result()
        own, scheduler = (after - first for first, after in zip(before, used()))
        print(took, result.cpu_s, own / EMPTY, scheduler / EMPTY)


# Number of tasks without work, with which `client` measures Dask's cost of a task.
EMPTY = 2000


if __name__ == "__main__":
    main()
