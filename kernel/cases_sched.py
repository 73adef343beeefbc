"""Cases of disciplines that share a link among flows, and of links: cake, sfq, drr, qfq, htb, tbf,
prio, ets, netem.
"""

from case import Case
from loads import MS, US, burst, drain, poisson, steady, times, uneven

NO_ACKS = "Weir's cake has no ACK filter: the engine does not pass TCP headers to schedulers"

MIXED = (64, 576, 1500)
# Weir plays a random case with this many seeds, and the kernel plays it RUNS times.
SEEDS = 40
RUNS = 20
# CAKE rounds quanta at random. Rounding changes the order of packets only when a deficit ends
# within the bytes that rounding has removed. With packets of 1500 bytes and a quantum of 1514, this
# is hardly possible in the first 200 quanta of a flow, and likely after 300. A case in which
# rounding may change the order is therefore a random case.
DITHERED = dict(runs=RUNS, seeds=SEEDS, by_flow=True)


def mixed_flows(seed, count, gap=2 * MS, sizes=(1500,), part=1, **more):
    """Flows with equal random loads and a lower load in the middle; the duration is `part` times 700 ms."""
    groups = []
    for flow in range(count):
        phases = [(300 * MS * part, gap), (100 * MS * part, 6 * gap), (300 * MS * part, gap)]
        groups += poisson(seed + flow, [(int(length), mean) for length, mean in phases], sizes=sizes, flow=flow, **more)
    return groups


def backlogged(count, packets, sizes=(1500,), flows=None):
    """Flows with packets that all arrive at the start, one flow after the other."""
    groups = []
    for flow in flows or range(count):
        groups.append(burst(packets, size=sizes[flow % len(sizes)], flow=flow))
    return groups


def cake():
    def case(name, about, tc="", ours="", traffic=None, missing=None, isolation="flows", **more):
        # The device wk0 has no link header, so the kernel counts the same lengths as Weir, and Weir
        # takes the kernel's quantum.
        queue = dict(scheduler=f"cake {ours} isolation={isolation} quantum=1514")
        queue = dict(missing=missing) if missing else queue
        return Case(f"cake-{name}", about, f"tc qdisc add root cake {tc}", queue, series={"6.1": "variant=linux-6.1"},
                    **(traffic or {}), **more)

    heavy = dict(arrive=[steady(1200, 800 * US, flow=0), steady(150, 6400 * US, flow=1, size=200)],
                 dequeue=drain(1300, 1 * MS))
    plain = "besteffort flows"
    yield case("besteffort", "CAKE with one tin, a flow above the rate and a sparse one", plain, "tins=besteffort", heavy)
    yield case("single", "CAKE with one flow under twice the rate", plain, "tins=besteffort",
               dict(arrive=[steady(800, 500 * US)], dequeue=drain(900, 1 * MS)))
    yield case("waves", "CAKE with four flows of random packets", plain, "tins=besteffort",
               dict(arrive=mixed_flows(41, 4), dequeue=uneven(42, 1500 * MS, 900 * US)), **DITHERED)
    yield case("waves-short", "CAKE with four flows of random packets; fewer than 200 packets of each flow", plain,
               "tins=besteffort", dict(arrive=mixed_flows(41, 4, part=0.5), dequeue=uneven(42, 800 * MS, 900 * US)))
    yield case("mixed", "CAKE with four flows of packets of 64, 576 and 1500 bytes", plain, "tins=besteffort",
               dict(arrive=mixed_flows(43, 4, gap=1 * MS, sizes=MIXED), dequeue=uneven(44, 1500 * MS, 400 * US)), **DITHERED)
    yield case("ecn", "CAKE marks ECN-capable packets", plain, "tins=besteffort",
               dict(arrive=mixed_flows(45, 3, ecn=("ect0", "not-ect")), dequeue=uneven(46, 1500 * MS, 1100 * US)), **DITHERED)
    yield case("ecn-short", "CAKE marks ECN-capable packets; fewer than 200 packets of each flow", plain, "tins=besteffort",
               dict(arrive=mixed_flows(45, 3, part=0.5, ecn=("ect0", "not-ect")), dequeue=uneven(46, 800 * MS, 1100 * US)))
    yield case("tins", "CAKE with four tins and no rate", "diffserv4 flows", "tins=diffserv4",
               dict(arrive=[steady(400, 2 * MS, flow=n, dscp=dscp) for n, dscp in enumerate((0, 8, 34, 46))],
                    dequeue=drain(1700, 1 * MS)))
    yield case("tins-rate", "CAKE with four tins at 12 Mbit/s", "diffserv4 flows bandwidth 12Mbit",
               "tins=diffserv4 bandwidth=12000",
               dict(arrive=[steady(400, 2 * MS, flow=n, dscp=dscp) for n, dscp in enumerate((0, 8, 34, 46))],
                    dequeue=drain(1700, 1 * MS)))
    yield case("memory", "CAKE with a memory limit of 100 kB", plain + " memlimit 100000",
               "tins=besteffort memory_limit=100000",
               dict(arrive=[steady(600, 300 * US, flow=0), steady(100, 2 * MS, flow=1, size=300)],
                    dequeue=drain(800, 1 * MS)), **DITHERED)
    yield case("acks", "CAKE that filters acknowledgements", plain + " ack-filter", "", dict(arrive=[dict(at=n * 500 * US, bytes=40, flow=0, ack=1000 * n) for n in range(200)]
                    + [steady(100, 1 * MS, flow=1)], dequeue=drain(300, 1 * MS)), missing=NO_ACKS)
    hosts = [steady(500, 1 * MS, flow=n, host=0 if n < 3 else 1) for n in range(4)]
    for mode in ("srchost", "dsthost", "hosts", "dual-srchost", "dual-dsthost", "triple-isolate"):
        yield case(mode.replace("-", "_"), f"CAKE with {mode}: three flows of one host, one of another",
                   f"besteffort {mode}", "tins=besteffort", dict(arrive=hosts, dequeue=drain(1800, 1 * MS)),
                   isolation=mode, runs=RUNS, seeds=SEEDS, by_flow=True)


def sfq():
    def case(name, about, tc="", ours="", **traffic):
        return Case(f"sfq-{name}", about, f"tc qdisc add root sfq {tc}", dict(scheduler=f"sfq {ours}".strip()), **traffic)

    yield case("base", "SFQ with three flows", arrive=mixed_flows(51, 3, gap=1500 * US),
               dequeue=uneven(52, 1200 * MS, 1 * MS))
    yield case("quantum", "SFQ with a quantum of 3000 bytes", "quantum 3000", "quantum=3000",
               arrive=backlogged(3, 20, sizes=(1500, 600, 200)), dequeue=drain(70, 1 * MS))
    yield case("limit", "SFQ at its limit", "limit 30", "limit=30",
               arrive=[steady(200, 500 * US, flow=0), steady(60, 1500 * US, flow=1)], dequeue=drain(200, 1 * MS))


def classful(kind, name, about, classes, ours, flows, root="", **traffic):
    """A case whose flow 0 is in class 1:1, flow 1 in class 1:2, and so on. `classes` are the tc words of
    each class, and `flows` are Weir's settings of each flow.
    """
    commands = [f"tc qdisc add root handle 1: {kind} {root}".strip()]
    commands += [f"tc class add parent 1: classid 1:{n:x} {kind} {words}" for n, words in enumerate(classes, 1)]
    return Case(f"{kind}-{name}", about, "\n".join(commands), dict(scheduler=ours),
                flows=[dict(flow=n, **settings) for n, settings in enumerate(flows)],
                minor={n: n + 1 for n in range(len(flows))}, **traffic)


def drr():
    def case(name, about, quanta, weights, ours="drr", **traffic):
        return classful("drr", name, about, [f"quantum {quantum}" for quantum in quanta], ours,
                        [dict(weight=weight) for weight in weights], **traffic)

    yield case("equal", "DRR with three equal classes", (1500,) * 3, (1,) * 3, arrive=backlogged(3, 30),
               dequeue=drain(95, 1 * MS))
    yield case("weights", "DRR with quanta of 1500, 3000 and 6000 bytes", (1500, 3000, 6000), (1, 2, 4),
               arrive=backlogged(3, 40), dequeue=drain(130, 1 * MS))
    yield case("sizes", "DRR with packets of 1500, 700 and 200 bytes", (1500,) * 3, (1,) * 3,
               arrive=backlogged(3, 40, sizes=(1500, 700, 200)), dequeue=drain(130, 1 * MS))
    yield case("waves", "DRR with weights and random arrivals", (1500, 3000, 4500), (1, 2, 3), "drr variant=linux",
               arrive=mixed_flows(61, 3, gap=2 * MS, sizes=MIXED), dequeue=uneven(62, 1400 * MS, 800 * US))


def qfq():
    def case(name, about, weights, **traffic):
        return classful("qfq", name, about, [f"weight {weight} maxpkt 1500" for weight in weights], "qfq+",
                        [dict(weight=weight, max_packet=1500) for weight in weights], **traffic)

    yield case("equal", "QFQ with four equal classes", (1,) * 4, arrive=backlogged(4, 30), dequeue=drain(125, 1 * MS))
    yield case("weights", "QFQ with weights 1, 2, 4 and 8", (1, 2, 4, 8), arrive=backlogged(4, 40),
               dequeue=drain(165, 1 * MS))
    yield case("waves", "QFQ with weights and random arrivals", (1, 3, 10),
               arrive=mixed_flows(63, 3, gap=2 * MS, sizes=MIXED), dequeue=uneven(64, 1400 * MS, 800 * US))


def prio():
    def case(name, about, bands, **traffic):
        return Case(f"prio-{name}", about, f"tc qdisc add root handle 1: prio bands {bands}", dict(scheduler="prio"),
                    flows=[dict(flow=n, priority=n, limit=1000) for n in range(bands)],
                    minor={n: n + 1 for n in range(bands)}, **traffic)

    yield case("three", "Three bands with random arrivals", 3, arrive=mixed_flows(71, 3, gap=2 * MS),
               dequeue=uneven(72, 1500 * MS, 1 * MS))
    yield case("full", "Three bands, of which the last starves and overflows", 3,
               arrive=[steady(900, 1 * MS, flow=0), steady(1500, 500 * US, flow=2)], dequeue=drain(1200, 1 * MS))
    yield case("sixteen", "Sixteen bands", 16, arrive=backlogged(16, 6), dequeue=drain(100, 1 * MS))


def ets():
    def case(name, about, tc, strict, weights, **traffic):
        flows = [dict(flow=n, priority=n) for n in range(strict)]
        flows += [dict(flow=n, priority=n, weight=weight) for n, weight in enumerate(weights, strict)]
        return Case(f"ets-{name}", about, f"tc qdisc add root handle 1: ets {tc}", dict(scheduler=f"ets strict={strict}"),
                    flows=flows, minor={n: n + 1 for n in range(len(flows))}, **traffic)

    yield case("quanta", "Three bands with quanta", "bands 3 quanta 4500 3000 1500", 0, (3, 2, 1),
               arrive=backlogged(3, 40), dequeue=drain(130, 1 * MS))
    yield case("strict", "A strict band before three bands with quanta", "bands 4 strict 1 quanta 4500 3000 1500", 1, (3, 2, 1),
               arrive=[steady(60, 2 * MS, flow=0), *backlogged(3, 40, flows=(1, 2, 3))], dequeue=drain(200, 1 * MS))
    yield case("waves", "A strict band and two bands with random arrivals", "bands 4 strict 1 quanta 4500 3000 1500", 1, (3, 2, 1),
               arrive=mixed_flows(73, 4, gap=3 * MS, sizes=MIXED), dequeue=uneven(74, 1500 * MS, 700 * US))


def htb():
    def case(name, about, commands, flows, minors, classes=(), **traffic):
        return Case(f"htb-{name}", about, "tc qdisc add root handle 1: htb\n" + "\n".join(commands), dict(scheduler="htb variant=linux"),
                    flows=flows, classes=list(classes), minor=dict(enumerate(minors)), **traffic)

    def add(minor, words, parent="1:"):
        return f"tc class add parent {parent} classid 1:{minor} htb {words}"

    grid = drain(6000, 250 * US)
    yield case("one", "A class that may send 4 Mbit/s", [add(1, "rate 4Mbit ceil 4Mbit burst 3000 cburst 3000")],
               [dict(flow=0, rate="4Mbit/s", ceil="4Mbit/s", burst=3000)], [1],
               arrive=[steady(150, 2 * MS)], dequeue=grid)
    yield case("two", "Two classes at their rates",
               [add(1, "rate 4Mbit ceil 4Mbit burst 3000 cburst 3000"), add(2, "rate 2Mbit ceil 2Mbit burst 3000 cburst 3000")],
               [dict(flow=0, rate="4Mbit/s", ceil="4Mbit/s", burst=3000), dict(flow=1, rate="2Mbit/s", ceil="2Mbit/s", burst=3000)],
               [1, 2], arrive=backlogged(2, 150), dequeue=grid)
    yield case("borrow", "Two classes borrow from their parent",
               [add(9, "rate 6Mbit ceil 6Mbit burst 3000 cburst 3000"),
                add(1, "rate 1Mbit ceil 6Mbit burst 3000 cburst 3000 quantum 1500", "1:9"),
                add(2, "rate 2Mbit ceil 6Mbit burst 3000 cburst 3000 quantum 3000", "1:9")],
               [dict(flow=0, rate="1Mbit/s", ceil="6Mbit/s", burst=3000, weight=1, **{"class": "parent"}),
                dict(flow=1, rate="2Mbit/s", ceil="6Mbit/s", burst=3000, weight=2, **{"class": "parent"})],
               [1, 2], classes=[dict(name="parent", scheduler="htb variant=linux", rate="6Mbit/s", ceil="6Mbit/s", burst=3000)],
               arrive=backlogged(2, 300), dequeue=grid)
    yield case("priorities", "A class of priority 0 borrows first",
               [add(9, "rate 6Mbit ceil 6Mbit burst 3000 cburst 3000"),
                add(1, "rate 1Mbit ceil 6Mbit burst 3000 cburst 3000 prio 0 quantum 1500", "1:9"),
                add(2, "rate 1Mbit ceil 6Mbit burst 3000 cburst 3000 prio 1 quantum 1500", "1:9")],
               [dict(flow=0, rate="1Mbit/s", ceil="6Mbit/s", burst=3000, priority=0, **{"class": "parent"}),
                dict(flow=1, rate="1Mbit/s", ceil="6Mbit/s", burst=3000, priority=1, **{"class": "parent"})],
               [1, 2], classes=[dict(name="parent", scheduler="htb variant=linux", rate="6Mbit/s", ceil="6Mbit/s", burst=3000)],
               arrive=backlogged(2, 300), dequeue=grid)


def tbf():
    def case(name, about, tc, pipe, arrive):
        # A device requests a packet at each arrival, and again when the bucket's timer runs. Here,
        # requests at intervals of 100 us take the place of the timer.
        grid = {n * 100 * US for n in range(4000)}
        requests = sorted(grid | {at for group in arrive for at in times(group)})
        groups, at = [], 0
        while at < len(requests):
            end = at
            while end + 1 < len(requests) and requests[end + 1] - requests[end] == 100 * US:
                end += 1
            groups.append(dict(at=requests[at], every=100 * US, count=end - at + 1))
            at = end + 1
        return Case(f"tbf-{name}", about, f"tc qdisc add root tbf {tc}", dict(pipe=pipe), arrive, groups)

    yield case("steady", "A token bucket with a standing queue", "rate 8Mbit burst 3000 limit 100000",
               "bw 8Mbit/s burst 3000B queue 97kB", arrive=[steady(150, 1 * MS)])
    yield case("pauses", "A token bucket that fills up in pauses", "rate 8Mbit burst 6000 limit 100000",
               "bw 8Mbit/s burst 6000B", arrive=[burst(6, at=n * 40 * MS) for n in range(6)])
    # tbf's limit includes the packet that waits for tokens; in Weir that packet is on the link.
    yield case("full", "A token bucket behind a queue of four packets", "rate 4Mbit burst 1600 limit 6000",
               "bw 4Mbit/s burst 1600B queue 4500B", arrive=[steady(200, 1 * MS)])
    yield case("mixed", "A token bucket with random lengths", "rate 4Mbit burst 2000 limit 1000000", "bw 4Mbit/s burst 2000B",
               arrive=poisson(81, [(300 * MS, 2 * MS)], sizes=MIXED))
    yield case("rates", "A token bucket at 5.3 Mbit/s, where a byte does not take a whole number of ns",
               "rate 5300kbit burst 2000 limit 1000000", "bw 5300kbit/s burst 2000B", arrive=poisson(82, [(300 * MS, 2 * MS)], sizes=MIXED))


def netem():
    def case(name, about, tc, pipe="", runs=RUNS, arrive=None, dequeue=None, missing=None, **more):
        return Case(f"netem-{name}", about, f"tc qdisc add root netem limit 100000 {tc}", dict(missing=missing) if missing else dict(pipe=f"{pipe} queue 100000"),
                    arrive or [steady(1500, 400 * US)], dequeue or drain(8000, 100 * US), runs=runs,
                    seeds=SEEDS if runs > 1 else 0, **more)

    yield case("delay", "A constant delay", "delay 20ms", "delay 20ms", runs=1)
    yield case("loss", "Independent loss of 5 %", "loss random 5%", "plr 5%", counters=("drops",))
    yield case("gemodel", "Bursts of loss by the Gilbert-Elliott model", "loss gemodel 1% 20% 60% 1%",
               "plr 0.01,0.01,0.6,0.2", counters=("drops",))
    yield case("duplicate", "Duplicates of 4 %", "duplicate 4%", "duplicate 4%", counters=("delivered", "duplicates"))
    yield case("corrupt", "An inverted bit in 6 % of the packets", "corrupt 6%", "corrupt 6%", counters=("corrupted",))
    yield case("reorder", "Reordering of 10 %", "delay 10ms reorder 10%", "delay 10ms reorder 10%",
               counters=("out_of_order", "mean_wait_us"))
    yield case("gap", "Every fifth packet is sent at once", "delay 10ms reorder 100% gap 5", "delay 10ms reorder 100% gap 5",
               runs=1)
    yield case("jitter", "A delay of 10 ms with a jitter of 4 ms", "delay 10ms 4ms", "delay 10ms jitter 4ms uniform reorder",
               counters=("out_of_order", "mean_wait_us"))
    yield case("normal", "A delay with normally distributed jitter", "delay 20ms 3ms distribution normal",
               "delay 20ms jitter 3ms normal reorder", counters=("out_of_order", "mean_wait_us"))
    yield case("rate", "A rate of 8 Mbit/s", "rate 8Mbit", "bw 8Mbit/s", runs=1,
               arrive=[steady(100, 1 * MS)])
    yield case("rate-mixed", "A rate with random lengths", "rate 4Mbit", "bw 4Mbit/s", runs=1,
               arrive=poisson(91, [(300 * MS, 2 * MS)], sizes=MIXED))
    yield case("slot", "Transmission in slots", "slot 5ms 5ms", runs=1,
               missing="Weir's pipes have no slots; a rate trace has opportunities at fixed times")


ALL = [cake, sfq, drr, qfq, prio, ets, htb, tbf, netem]
