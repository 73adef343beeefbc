"""The cases of the comparison: changes of bottleneck.toml, and the judged quantities."""

from __future__ import annotations

from dataclasses import dataclass, field

LINK = "bw 20Mbit/s delay 10ms queue 100"
PACKET_US = 600  # 1500 bytes at 20 Mbit/s
# The largest differences with which two results agree, in the form of `weir compare --within`.
GOODPUT = {"goodput_bps": "2%"}
QUEUE = {"queue_p50_ns": "10%/0.5ms"}
# A packet in the ring has left the queue. The cases with a ring therefore judge the time from
# arrival to departure.
TOTAL = {"total_p50_ns": "0.5ms"}
DROPS = {"drop_share": "20%"}
MARKS = {"marks": "20%"}


@dataclass
class Case:
    name: str
    title: str
    settings: list[str] = field(default_factory=list)
    judged: dict[str, str] = field(default_factory=lambda: GOODPUT | QUEUE | DROPS)


def link(words: str) -> str:
    return f"link.link.forward={LINK} {words}".strip()


def back(extra_us: float) -> str:
    """The path back, with a delay that is longer by `extra_us` (see `spread`)."""
    return f"link.link.back=bw 20Mbit/s delay {10_000 + extra_us:g}us queue 1000"


def spread(number: int, runs: int) -> str:
    """A different delay for each run, spread evenly over the transmission time of a packet.

    Acknowledgements trigger new packets, so packets arrive in step with departures, and their times
    in the queue differ by multiples of 0.6 ms, the transmission time of a packet. The round-trip
    time shifts all these times. An AQM acts when a time in the queue exceeds its target, so a tenth
    of a millisecond can change the queue by a packet. Live hosts add delays of this size.
    """
    return back(PACKET_US * number / runs)


FQ_CODEL = "link.link.scheduler=fq_codel"
ECN = "traffic.bulk.ecn=ect0"


def flows(count: int) -> list[Case]:
    number = f"traffic.bulk.count={count}"
    return [
        Case(f"fifo-{count}", f"{count} flows, FIFO", [number]),
        Case(f"codel-{count}", f"{count} flows, CoDel", [number, link("aqm codel")]),
        Case(f"fq_codel-{count}", f"{count} flows, FQ-CoDel", [number, FQ_CODEL]),
        Case(f"pie-{count}", f"{count} flows, PIE", [number, link("aqm pie")]),
    ]


CASES = (
    flows(2)
    + flows(8)
    + [
        # The kernel's tbf counts the bytes of frames, so this link does too.
        Case("kernel", "2 flows, FIFO, Ethernet frames", [link("overhead layer2")]),
        Case("loss", "2 flows, FIFO, 0.5 % of packets lost", [link("plr 0.5%")]),
        Case(
            "ring",
            "2 flows, FQ-CoDel, ring of 32 packets",
            [FQ_CODEL, link("ring 32")],
            GOODPUT | TOTAL | DROPS,
        ),
        Case("dql", "the same with DQL", [FQ_CODEL, link("ring 32 dql")], GOODPUT | TOTAL | DROPS),
        Case(
            "steps",
            "2 flows, CoDel, rates of 20, 10, 5, 20 Mbit/s",
            [link("schedule steps.csv aqm codel").replace("bw 20Mbit/s ", "")],
        ),
        Case(
            "codel-ecn",
            "2 flows, CoDel with ECN",
            [ECN, link("aqm codel ecn")],
            GOODPUT | QUEUE | MARKS,
        ),
        Case(
            "fq_codel-ecn",
            "2 flows, FQ-CoDel with ECN",
            [ECN, f"{FQ_CODEL} ecn"],
            GOODPUT | QUEUE | MARKS,
        ),
        Case(
            "pie-ecn", "2 flows, PIE with ECN", [ECN, link("aqm pie ecn")], GOODPUT | QUEUE | MARKS
        ),
    ]
)
