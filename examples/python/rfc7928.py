"""The suite of RFC 7928 over all AQMs and many seeds, as one campaign on any executor.

  python examples/python/rfc7928.py STORE                              threads of this machine
  python examples/python/rfc7928.py STORE --dask                       Dask's processes here
  python examples/python/rfc7928.py STORE --dask scheduler.json        workers of a Dask scheduler
  mpiexec -n 3 python -m mpi4py.futures examples/python/rfc7928.py STORE --mpi

The sections are the files of `experiments/rfc7928`, which `weir sim --suite rfc7928` runs: a link
of 10 Mbit/s, a round trip of 100 ms, a queue of at most a second. For each queue, the script prints
the throughput of the bottleneck and the mean time in its queue, as means over all sections and
seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import weirlab as wl

SUITE = Path(__file__).resolve().parents[2] / "experiments/rfc7928"
SECTIONS = sorted(path.stem for path in SUITE.glob("*.toml"))


def queues() -> tuple[dict[str, str], set[str]]:
    """The words of a link for each AQM and each scheduler that classifies packets, and the names of
    those that mark packets only if their parameter `ecn` is on."""
    printed = subprocess.check_output([wl.find_weir(), "algorithms", "--json"])
    known = json.loads(printed)
    classifying = [each for each in known["schedulers"] if each["classifies"]]
    kinds = [("aqm", known["aqms"]), ("sched", classifying)]
    words = {each["name"]: f"{kind} {each['name']}" for kind, rows in kinds for each in rows}
    every = [*known["aqms"], *classifying]
    with_ecn = {each["name"] for each in every if "ecn" in [p["name"] for p in each["parameters"]]}
    return words, with_ecn


def campaign(store: str, sections: list[str], seeds: int, duration: str | None) -> wl.Campaign:
    words, with_ecn = queues()

    def scenario(section: str, aqm: str) -> dict[str, Any]:
        network = tomllib.loads((SUITE / f"{section}.toml").read_text())
        queue = words[aqm]
        if section == "ecn" and aqm in with_ecn:
            queue += " ecn on"
        (bottleneck,) = (link for link in network["link"] if link.get("name") == "bottleneck")
        bottleneck["forward"] += f" {queue}"
        if section == "asymmetric":
            bottleneck["back"] += f" {queue}"
        return network

    # The files that a scenario in Python names are relative to the current directory.
    os.chdir(SUITE)
    changes = {} if duration is None else {"duration": duration, "warmup": "1s"}
    axes: dict[str, list[wl.Value]] = {"section": [*sections], "aqm": [*words]}
    return wl.sweep(scenario, axes, seeds=seeds, set=changes, store=store)


def main() -> None:
    parser = argparse.ArgumentParser(description="The suite of RFC 7928 as a campaign.")
    parser.add_argument("store", type=os.path.abspath, help="the directory of the results")
    parser.add_argument("--seeds", type=int, default=20, help="runs of each point (20)")
    parser.add_argument("--duration", help="simulated time of a run, in place of 120s")
    parser.add_argument("--section", action="append", choices=SECTIONS, help="only this one")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--dask",
        metavar="FILE",
        nargs="?",
        const=False,
        type=os.path.abspath,
        help="the scheduler file of Dask; without FILE, processes of this machine",
    )
    where.add_argument("--mpi", action="store_true", help="the workers of mpi4py.futures")
    options = parser.parse_args()
    sections = options.section or [*SECTIONS]
    c = campaign(options.store, sections, options.seeds, options.duration)
    if options.dask is not None:
        from dask.distributed import Client

        with Client(scheduler_file=options.dask or None) as client:
            result = c.run(client.get_executor())
    elif options.mpi:
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor() as executor:
            result = c.run(executor)
    else:
        result = c.run()
    print(f"{result.made} runs carried out, {result.there} were there")
    show(c)


def show(c: wl.Campaign) -> None:
    import polars

    table = (
        c.scan("links")
        .filter(polars.col("name") == "bottleneck")
        .group_by("aqm")
        .agg(
            (polars.col("throughput_bps").mean() / 1e6).round(2).alias("Mbit/s"),
            (polars.col("queue_mean_ns").mean() / 1e6).round(1).alias("queue ms"),
        )
    )
    with polars.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        print(table.sort("queue ms", "aqm").collect())


if __name__ == "__main__":
    main()
