"""Hosts with Dask's scheduler and workers: each in a network namespace of its own, with its own
name and its own process numbers, behind a link of 1 Gbit/s. They share the file system, as over
NFS."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import weirlab as wl

PORT = 8786


@contextlib.contextmanager
def cluster(workers: int, folder: Path) -> Iterator[tuple[wl.Lab, str]]:
    """Starts a scheduler and workers. Yields the hosts and the address of the scheduler. The host
    `client` runs no program yet."""
    names = [f"w{number}" for number in range(1, workers + 1)]
    net = wl.Scenario("cluster", duration="100000s").router("switch")
    for name in ("scheduler", "client", *names):
        net.host(name).link(name, "switch", "bw 1Gbit/s delay 50us queue 1000")
    with wl.live(net) as lab:
        address = lab["scheduler"].address
        module = [sys.executable, "-P", "-m"]
        place = ["--host", address, "--port", str(PORT), "--no-dashboard", "--no-show"]
        with (folder / "cluster.log").open("ab") as log:
            lab["scheduler"].popen(
                [*module, "distributed.cli.dask_scheduler", *place], stdout=log, stderr=log
            )
            for name in names:
                own = ["--host", lab[name].address, "--nthreads", "1", "--no-nanny"]
                own += ["--no-dashboard", "--local-directory", str(folder / f"dask-{name}")]
                words = [*module, "distributed.cli.dask_worker", f"tcp://{address}:{PORT}", *own]
                lab[name].popen(words, stdout=log, stderr=log)
            yield lab, f"tcp://{address}:{PORT}"
