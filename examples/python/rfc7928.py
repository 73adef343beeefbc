"""Sections of RFC 7928 over all AQMs and many seeds, as one campaign on any executor.

  python examples/python/rfc7928.py STORE                              threads of this machine
  python examples/python/rfc7928.py STORE --dask scheduler.json        workers of a Dask scheduler
  mpiexec -n 3 python -m mpi4py.futures examples/python/rfc7928.py STORE --mpi

The network is that of the RFC: 10 Mbit/s, a round trip of 100 ms, a queue of at most a second. The
sections are written as scenarios, since a run of a campaign is a run of a scenario; `weir sim
--suite rfc7928` has networks of its own, so its figures differ from these. Printed are, for each
queue, the throughput of the bottleneck and the mean time in its queue, as means over all sections
and seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import weirlab as wl

AQMS = (
    "droptail headdrop pi pie pi2 codel red ared feng-ared nlred vq-red blue sfb avq rem cobalt "
    "afcd"
).split()
# AQMs that are schedulers, too.
SCHEDULERS = "fq_codel cake dualpi2 fq_pie sfq".split()
# A second of packets of 1500 bytes.
QUEUE = 833


def friendly(net: wl.Scenario) -> None:
    """5.1.1: two NewReno transfers with the same initial window."""
    tcp(net, "first", "newreno")
    tcp(net, "second", "newreno")


def aggressive(net: wl.Scenario) -> None:
    """5.2: a CUBIC transfer beside a NewReno one."""
    tcp(net, "newreno", "newreno")
    tcp(net, "cubic", "cubic")


def unresponsive(net: wl.Scenario) -> None:
    """5.3: a NewReno transfer beside UDP above the rate of the link."""
    tcp(net, "newreno", "newreno")
    net.traffic("cbr", "left", "right", name="udp", rate="12Mbit/s", start="10s", stop="20s")


def scavenger(net: wl.Scenario) -> None:
    """5.4: a LEDBAT transfer beside a NewReno one."""
    tcp(net, "newreno", "newreno")
    tcp(net, "ledbat", "ledbat")


def mild(net: wl.Scenario) -> None:
    """8.2.2: so many transfers that about 0.1 % is lost."""
    tcp(net, "transfers", "newreno", count=2)


def heavy(net: wl.Scenario) -> None:
    """8.2.4: so many transfers that about 1 % is lost."""
    tcp(net, "transfers", "newreno", count=7)


def mix(net: wl.Scenario) -> None:
    """9: two VoIP calls, a video at a constant rate and two transfers."""
    calls = {"rate": "80kbit/s", "size": "200B", "start_jitter": "10ms"}
    net.traffic("cbr", "left", "right", name="voip", count=2, **calls)
    net.traffic("cbr", "left", "right", name="video", rate="2Mbit/s", size="1400B")
    tcp(net, "first", "cubic")
    tcp(net, "second", "newreno")


def ecn(net: wl.Scenario) -> None:
    """11: as 5.2, with packets that can be marked."""
    tcp(net, "newreno", "newreno", ecn="ect0")
    tcp(net, "cubic", "cubic", ecn="ect0")


SECTIONS: dict[str, Callable[[wl.Scenario], None]] = {
    "5.1.1 friendly": friendly,
    "5.2 aggressive": aggressive,
    "5.3 unresponsive": unresponsive,
    "5.4 less-than-best-effort": scavenger,
    "8.2.2 mild": mild,
    "8.2.4 heavy": heavy,
    "9 mix": mix,
    "11 ecn": ecn,
}


def tcp(net: wl.Scenario, name: str, control: str, **settings: wl.Value) -> None:
    """A transfer that starts within the first second, at a time that the seed determines."""
    net.traffic("tcp", "left", "right", name=name, cc=control, start_jitter="1s", **settings)


def campaign(store: str, sections: list[str], seeds: int, duration: str) -> wl.Campaign:
    def scenario(section: str, aqm: str) -> wl.Scenario:
        net = wl.Scenario("rfc7928", duration=duration, warmup="1s")
        net.host("left").router("router").host("right").link("left", "router", "delay 25ms")
        line = f"bw 10Mbit/s delay 25ms queue {QUEUE}"
        kind = {"scheduler": aqm} if aqm in SCHEDULERS else {"aqm": aqm}
        net.link("router", "right", line, name="line", **kind)
        SECTIONS[section](net)
        return net

    axes: dict[str, list[wl.Value]] = {"section": [*sections], "aqm": [*AQMS, *SCHEDULERS]}
    return wl.sweep(scenario, axes, seeds=seeds, store=store)


def main() -> None:
    parser = argparse.ArgumentParser(description="Sections of RFC 7928 as a campaign.")
    parser.add_argument("store", help="the directory of the results")
    parser.add_argument("--seeds", type=int, default=20, help="runs of each point (20)")
    parser.add_argument("--duration", default="30s", help="simulated time of a run (30s)")
    parser.add_argument("--section", action="append", choices=SECTIONS, help="only this one")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--dask", metavar="FILE", help="the scheduler file of Dask")
    where.add_argument("--mpi", action="store_true", help="the workers of mpi4py.futures")
    options = parser.parse_args()
    sections = options.section or [*SECTIONS]
    c = campaign(options.store, sections, options.seeds, options.duration)
    if options.dask:
        from dask.distributed import Client

        with Client(scheduler_file=options.dask) as client:
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

    line = c.scan("links").filter(polars.col("name") == "line").group_by("aqm").agg(
        (polars.col("throughput_bps").mean() / 1e6).round(2).alias("Mbit/s"),
        (polars.col("queue_mean_ns").mean() / 1e6).round(1).alias("queue ms"),
    )
    with polars.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        print(line.sort("queue ms", "aqm").collect())


if __name__ == "__main__":
    main()
