#!/usr/bin/env python3
"""Measures what a run costs sem, the campaign manager of ns-3, and what it costs weirlab.

  bench/sweep/beside_sem.py sem [--count N]    in an environment with `pip install sem`
  bench/sweep/beside_sem.py weir [--count N]   in an environment with weirlab (make python)

The runs do nearly nothing, so the results show the cost of the manager. A run of sem is a C program
that ends at once, in a directory that looks like ns-3. A run of weirlab is a simulation of one
packet. Both use two workers. The output is a row of bench/RESULTS.md. sem needs git and a C
compiler.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from pathlib import Path

# Prints its parameters as a program of ns-3 does, and otherwise does nothing.
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--PrintHelp") == 0)
        puts("Program Options:\n    --rate:  a rate [1]\n\nGeneral Arguments:\n");
    return 0;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("manager", choices=["sem", "weir"])
    parser.add_argument("--count", type=int, default=2000, help="number of runs (2000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-sem-") as folder:
        measure = of_sem if options.manager == "sem" else of_weir
        run = measure(Path(folder), options.count)
        before, began = cpu(), time.monotonic()
        run()
        used, took = cpu() - before, time.monotonic() - began
        before, began = cpu(), time.monotonic()
        run()
        again_cpu, again = cpu() - before, time.monotonic() - began
    each = 1e3 / options.count
    print(
        f"| {options.manager} | {options.count:,} | {used * each:.2f} ms | {took * each:.2f} ms | "
        f"{again_cpu * each:.3f} ms | {again:.2f} s |"
    )


def of_sem(folder: Path, count: int):
    """Prepares a campaign of sem. The returned function carries out the missing runs."""
    import sem

    ns3 = folder / "ns-3"
    (ns3 / "build").mkdir(parents=True)
    (ns3 / "ns3").write_text("")
    (ns3 / ".lock-ns3_linux_build").write_text('ns3_runnable_programs = ["build/nothing"]\n')
    (ns3 / "nothing.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O2", "nothing.c", "-o", "build/nothing"], cwd=ns3, check=True)
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *words], cwd=ns3, check=True)
    name = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run(["git", *name, "commit", "-qm", "x"], cwd=ns3, check=True)
    campaign = sem.CampaignManager.new(
        str(ns3),
        "nothing",
        str(folder / "campaign"),
        runner_type="ParallelRunner",
        optimized=False,
        check_repo=False,
        skip_configuration=True,
        max_parallel_processes=2,
    )
    points = {"rate": [f"{n}Mbps" for n in range(1, 101)]}
    return lambda: campaign.run_missing_simulations(points, runs=count // 100)


def of_weir(folder: Path, count: int):
    """Prepares a campaign of weirlab. The returned function carries out the missing runs."""
    import weirlab as wl

    net = wl.Scenario("nothing", duration="10ms").host("a", "b")
    net = net.link("a", "b", "bw 10Mbit/s delay 1ms", name="l")
    net = net.traffic("cbr", "a", "b", name="t", rate="1Mbit/s")
    axes = {"link.l.spec.bw": [f"{n}Mbit/s" for n in range(1, 101)]}
    return lambda: wl.sweep(net, axes, seeds=count // 100, store=folder / "s").run(jobs=2)


def cpu() -> float:
    """Processor time of this process and its ended children, s."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(kind) for kind in kinds]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
