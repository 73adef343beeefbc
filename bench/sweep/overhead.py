#!/usr/bin/env python3
"""Measures what a campaign costs beyond its runs: processor time, bookkeeping and memory.

  bench/sweep/overhead.py runs [--count N] [--ms MS]  a campaign against the same simulations alone
  bench/sweep/overhead.py store [--count N]           bookkeeping and memory on synthetic runs
  bench/sweep/overhead.py workers [--count N]         throughput against the number of Dask workers

It needs `weirlab` (make python). The lines are rows of bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import weirlab as wl


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=["runs", "store", "workers"])
    parser.add_argument("--count", type=int, help="number of runs")
    parser.add_argument("--ms", type=float, default=50, help="processor time of a run, ms")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-sweep-") as folder:
        if options.task == "runs":
            runs(Path(folder), options.count or 10_000, options.ms)
        elif options.task == "store":
            store(Path(folder), options.count or 1_000_000)
        else:
            workers(Path(folder), options.count or 2_000, options.ms)


def scenario(seconds: float) -> wl.Scenario:
    """Four TCP flows and a call through a bottleneck."""
    return (
        wl.Scenario("dumbbell", duration=seconds)
        .host("a").router("r").host("b")
        .link("a", "r", "bw 100Mbit/s delay 1ms")
        .link("r", "b", "bw 10Mbit/s delay 10ms", name="bottleneck", scheduler="fq_codel")
        .traffic("tcp", "a", "b", name="bulk", count=4)
        .traffic("voip", "a", "b", name="call")
    )


def calibrated(ms: float) -> wl.Scenario:
    """A scenario of which a run takes about this much processor time."""
    seconds = 2.0
    for _ in range(4):
        cost = wl.simulate(scenario(seconds), seeds=20, threads=1).cpu_s / 20
        seconds = round(seconds * ms / 1000 / cost, 2)
    return scenario(seconds)


def cpu() -> float:
    """Processor time of this process and its ended children, s."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(each.ru_utime + each.ru_stime for each in used)


def runs(folder: Path, count: int, ms: float) -> None:
    net = calibrated(ms)
    # Blocks alternate, so that both see the same machine.
    alone = together = wall = 0.0
    blocks = 10
    for block in range(blocks):
        seeds = range(block * count // blocks, (block + 1) * count // blocks)
        # The simulations keep their results in memory, so they are made in parts.
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
    """Looks up and lists runs that do not exist, and then runs that do."""
    net = scenario(1.0)
    for number in (count // 100, count // 10, count):
        code = f"""
import sys, time, resource
sys.path.insert(0, {str(Path(__file__).parent)!r})
from overhead import scenario, cpu
import weirlab as wl
begin = cpu()
c = wl.sweep(scenario(1.0), {{"link.bottleneck.spec.delay": [f"{{n}}us" for n in range(1, 101)]}},
             seeds={number} // 100, store={str(folder / "s")!r})
assert c.status().runs == {number}
print((cpu() - begin) / {number} * 1e6, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
        done = subprocess.run(
            [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
        )
        each, memory = done.stdout.split()
        megabytes = int(memory) / 1e3
        print(f"| {number:,} runs looked up | {float(each):.1f} us a run | {megabytes:.0f} MB |")


def workers(folder: Path, count: int, ms: float) -> None:
    from distributed import Client, LocalCluster

    net = calibrated(ms)
    for number in (1, 2, 4, 8):
        place = folder / str(number)
        with LocalCluster(
            n_workers=number, threads_per_worker=1, dashboard_address=None
        ) as cluster, Client(cluster) as client:
            began = time.monotonic()
            made = wl.sweep(net, seeds=count, store=place).run(client.get_executor()).made
            took = time.monotonic() - began
        assert made == count
        print(f"| {number} Dask workers | {made / took:.1f} runs/s | {took:.1f} s |", flush=True)
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
