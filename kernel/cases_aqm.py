"""Cases of disciplines that manage one queue (codel, pie, red, choke, sfb), and of disciplines with
such an algorithm and several queues (fq_codel, fq_pie, dualpi2).
"""

from case import Case
from loads import MS, S, US, burst, drain, poisson, steady, uneven

MIXED = (64, 576, 1500)
# Weir plays a random case with this many seeds, and the kernel plays it RUNS times.
SEEDS = 40
RUNS = 20


def overload():
    """Arrivals for 400 ms at twice the rate of the requests, and requests for 300 ms more."""
    return dict(arrive=[steady(800, 500 * US)], dequeue=drain(700, 1 * MS))


def waves(seed=1, **more):
    """Random requests, and random arrivals in four phases: at a low, high, low and high rate."""
    phases = [(300 * MS, 2 * MS), (500 * MS, 600 * US), (400 * MS, 2500 * US), (600 * MS, 700 * US)]
    return dict(arrive=poisson(seed, phases, **more), dequeue=uneven(seed + 100, 2000 * MS, 1500 * US))


def codel():
    def case(name, about, tc="", ours="", limit=1000, **traffic):
        return Case(f"codel-{name}", about, f"tc qdisc add root codel limit {limit} {tc}",
                    dict(aqm=f"codel {ours}".strip(), limit=limit), **traffic)

    yield case("overload", "CoDel under twice its rate", **overload())
    yield case("waves", "CoDel with random arrivals and requests", **waves())
    yield case("ecn", "CoDel marks ECN-capable packets and drops other packets", "ecn", "ecn=on",
               **waves(2, ecn=("ect0", "not-ect")))
    yield case("target", "CoDel with a target of 20 ms and an interval of 50 ms", "target 20ms interval 50ms",
               "target=20ms interval=50ms", **waves(3))
    yield case("short", "CoDel with an interval of 5 ms", "target 1ms interval 5ms", "target=1ms interval=5ms", **waves(4))
    yield case("ce", "CoDel marks packets that waited longer than ce_threshold", "ecn ce_threshold 2ms",
               "ecn=on ce_threshold=2ms", **waves(5, ecn=("ect0", "ect1", "not-ect")))
    yield case("overflow", "CoDel with a queue that overflows", limit=40, **overload())
    yield case("overflow-late", "CoDel with a queue that overflows 20 s after the start", limit=40,
               arrive=[steady(800, 500 * US, at=20 * S)], dequeue=drain(700, 1 * MS, at=20 * S + 1 * MS))
    yield case("overflow-waves", "CoDel with random arrivals and a queue that overflows", limit=50, **waves(7))
    yield case("overflow-ecn", "CoDel that marks in a short queue", "ecn", "ecn=on", limit=30, **waves(8, ecn=("ect0",)))
    yield case("mixed", "CoDel with packets of 64, 576 and 1500 bytes", **waves(6, sizes=MIXED))
    yield case("again", "CoDel that begins to drop again after short pauses",
               arrive=[steady(150, 600 * US, at=n * 240 * MS) for n in range(5)], dequeue=drain(1300, 1 * MS))


def fq_codel():
    def case(name, about, tc="", ours="", again=True, **traffic):
        return Case(f"fq_codel-{name}", about, f"tc qdisc add root fq_codel {tc}",
                    dict(scheduler=f"fq_codel count=all {ours}".strip()), again=again, **traffic)

    def flows(seed, sizes=((1500,), (1500,), (200,)), **more):
        groups = []
        for flow, size in enumerate(sizes):
            gap = [900 * US, 2 * MS, 7 * MS][flow % 3]
            groups += poisson(seed + flow, [(700 * MS, gap), (300 * MS, 3 * gap), (500 * MS, gap)], sizes=size,
                              flow=flow, **more)
        return dict(arrive=groups, dequeue=uneven(seed + 50, 2000 * MS, 1 * MS))

    yield case("base", "FQ-CoDel with two flows of long packets and one of short packets", **flows(11))
    yield case("ecn", "FQ-CoDel marks ECN-capable packets", "ecn", **flows(12, ecn=("ect0", "not-ect")))
    yield case("noecn", "FQ-CoDel without marks", "noecn", "ecn=off", **flows(13, ecn=("ect0",)))
    yield case("quantum", "FQ-CoDel with a quantum of 300 bytes", "quantum 300", "quantum=300", **flows(14))
    yield case("limit", "FQ-CoDel at its limit drops half of the longest queue", "limit 60", "limit=60",
               arrive=[steady(400, 300 * US, flow=0), steady(100, 1 * MS, flow=1, size=300)], dequeue=drain(700, 1 * MS))
    yield case("batch", "FQ-CoDel that drops at most four packets at once", "limit 60 drop_batch 4", "limit=60 drop_batch=4",
               arrive=[steady(400, 300 * US, flow=0), steady(100, 1 * MS, flow=1, size=300)], dequeue=drain(700, 1 * MS))
    yield case("ce", "FQ-CoDel with ce_threshold", "ce_threshold 3ms", "ce_threshold=3ms",
               **flows(15, ecn=("ect0", "ect1", "not-ect")))
    yield case("many", "FQ-CoDel with six flows", **flows(16, sizes=((1500,), (1000,), (100,)) * 2))


def pie():
    def case(name, about, tc="", ours="", limit=1000, runs=RUNS, **traffic):
        return Case(f"pie-{name}", about, f"tc qdisc add root pie limit {limit} {tc}",
                    dict(aqm=f"pie variant=linux {ours}".strip(), limit=limit), runs=runs, seeds=SEEDS,
                    probe="pie_timer", **traffic)

    load = dict(arrive=[steady(1400, 800 * US)], dequeue=drain(1200, 1 * MS))
    yield case("base", "PIE under 1.25 times its rate", **load)
    yield case("ecn", "PIE marks packets while the probability is low", "ecn", "ecn=on",
               arrive=[steady(1400, 800 * US, ecn="ect0")], dequeue=drain(1200, 1 * MS))
    yield case("target", "PIE with a target of 40 ms", "target 40ms", "target=40ms", **load)
    yield case("tupdate", "PIE that updates every 8 ms", "tupdate 8ms", "tupdate=8ms", **load)
    yield case("tick", "PIE that updates every 16 ms", "tupdate 16ms", "tupdate=16ms", **load)
    yield case("gains", "PIE with alpha 8 and beta 30", "alpha 8 beta 30", "alpha=0.5 beta=1.875", **load)
    # Weir's first period begins with the first packet. That packet therefore arrives at time 0,
    # when the kernel's timer has just run.
    yield case("bytemode", "PIE that drops long packets more often", "bytemode", "bytemode=on",
               arrive=[burst(1), *poisson(21, [(1100 * MS, 800 * US)], sizes=(300, 1500))], dequeue=drain(1200, 1 * MS))
    yield case("estimator", "PIE with its estimate of the departure rate", "dq_rate_estimator", "qdelay=dre", **load)
    yield case("heavy", "PIE under three times its rate", arrive=[steady(3000, 333 * US)], dequeue=drain(1200, 1 * MS))


def fq_pie():
    def case(name, about, tc="", ours="", **traffic):
        return Case(f"fq_pie-{name}", about, f"tc qdisc add root fq_pie {tc}",
                    dict(scheduler=f"fq_pie variant=linux {ours}".strip()), runs=RUNS, seeds=SEEDS,
                    probe="fq_pie_timer", by_flow=True, **traffic)

    three = [steady(900, 1250 * US, flow=0), steady(680, 1667 * US, flow=1), steady(110, 10 * MS, flow=2, size=200)]
    yield case("base", "FQ-PIE with two flows above their shares and a sparse one", "", "ecn=off", arrive=three,
               dequeue=drain(1200, 1 * MS))
    yield case("ecn", "FQ-PIE that marks", "ecn", "ecn=on",
               arrive=[dict(group, ecn="ect0") for group in three], dequeue=drain(1200, 1 * MS))
    yield case("unresponsive", "FQ-PIE with a flow of three times the rate", "", "ecn=off",
               arrive=[steady(3400, 333 * US, flow=0), steady(220, 5 * MS, flow=1)], dequeue=drain(1200, 1 * MS))
    yield case("quantum", "FQ-PIE with a quantum of 400 bytes", "quantum 400", "ecn=off quantum=400", arrive=three,
               dequeue=drain(1200, 1 * MS))


def red():
    base = "limit 300000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 12Mbit"

    def case(name, about, tc="", ours="", numbers=base, kernel="probability 0.1", **traffic):
        return Case(f"red-{name}", about, f"tc qdisc add root red {numbers} {kernel} {tc}",
                    dict(aqm=f"red variant=linux unit=bytes min=30000 max=90000 avpkt=1000 w=0.03125 {ours}".strip(),
                         limit_bytes=300000, rate="12Mbit/s"), runs=RUNS, seeds=SEEDS, **traffic)

    load = dict(arrive=[steady(1400, 800 * US)], dequeue=drain(1200, 1 * MS))
    waves_ = dict(arrive=poisson(31, [(300 * MS, 1100 * US), (300 * MS, 800 * US), (200 * MS, 1500 * US),
                                      (300 * MS, 850 * US)]), dequeue=drain(1200, 1 * MS))
    yield case("base", "RED under 1.25 times its rate", ours="max_p=0.1", **load)
    yield case("waves", "RED with a load close to its rate", ours="max_p=0.1", **waves_)
    yield case("ecn", "RED marks", "ecn", "max_p=0.1 ecn=on harddrop=off",
               arrive=[steady(1400, 800 * US, ecn="ect0")], dequeue=drain(1200, 1 * MS))
    yield case("harddrop", "RED marks, and drops above the upper threshold", "ecn harddrop", "max_p=0.1 ecn=on harddrop=on",
               arrive=[steady(1400, 800 * US, ecn="ect0")], dequeue=drain(1200, 1 * MS))
    yield case("mixed", "RED with packets of 64, 576 and 1500 bytes", ours="max_p=0.1",
               arrive=poisson(32, [(1100 * MS, 480 * US)], sizes=MIXED), dequeue=drain(1200, 1 * MS))
    # The tc of iproute2 6.1 sends `adaptive` only as a bit of TCA_RED_FLAGS, but the kernel starts
    # the timer only for the bit in the older field `tc_red_qopt.flags`. So tc shows the flag, but
    # the probability never changes.
    yield case("adaptive", "RED with `adaptive`, for which tc 6.1 starts no timer", "adaptive", "max_p=0.1",
               arrive=[steady(6000, 850 * US)], dequeue=drain(5500, 1 * MS))


def choke():
    def case(name, about, tc="", **traffic):
        base = "limit 300 min 30 max 90 avpkt 1500 burst 55 bandwidth 12Mbit probability 0.1"
        return Case(f"choke-{name}", about, f"tc qdisc add root choke {base} {tc}",
                    dict(missing="Weir has no CHOKe"),
                    runs=RUNS, seeds=SEEDS, by_flow=True, **traffic)

    two = [steady(1400, 800 * US, flow=0), steady(300, 4 * MS, flow=1)]
    yield case("base", "CHOKe with a flow above the rate and a small one", arrive=two, dequeue=drain(1200, 1 * MS))
    yield case("ecn", "CHOKe that marks", "ecn", arrive=[dict(group, ecn="ect0") for group in two],
               dequeue=drain(1200, 1 * MS))
    yield case("equal", "CHOKe with four equal flows",
               arrive=[steady(350, 3200 * US, at=flow * 800 * US, flow=flow) for flow in range(4)],
               dequeue=drain(1200, 1 * MS))


def sfb():
    def case(name, about, tc="", ours="", **traffic):
        return Case(f"sfb-{name}", about, f"tc qdisc add root sfb {tc}",
                    dict(aqm=f"sfb variant=linux {ours}".strip(), limit=1000), runs=RUNS, seeds=SEEDS, by_flow=True, **traffic)

    three = [steady(1100, 1 * MS, flow=0), steady(550, 2 * MS, flow=1), steady(110, 10 * MS, flow=2)]
    marked = [dict(group, ecn="ect0") for group in three]
    yield case("base", "SFB with three flows of different rates", arrive=three, dequeue=drain(1200, 1 * MS))
    yield case("ecn", "SFB marks", arrive=marked, dequeue=drain(1200, 1 * MS))
    yield case("steps", "SFB with larger steps", "increment 0.01 decrement 0.002", "increment=0.01 decrement=0.002",
               arrive=three, dequeue=drain(1200, 1 * MS))
    yield case("penalty", "SFB limits a flow that does not respond", "increment 0.05 decrement 0.0001 penalty_rate 50 penalty_burst 5",
               "increment=0.05 decrement=0.0001 penalty_rate=50 penalty_burst=5",
               arrive=[steady(3400, 333 * US, flow=0), steady(220, 5 * MS, flow=1)], dequeue=drain(1200, 1 * MS))


def dualpi2():
    def case(name, about, tc="", ours="", **traffic):
        return Case(f"dualpi2-{name}", about, f"tc qdisc add root dualpi2 {tc}",
                    dict(scheduler=f"dualpi2 {ours}".strip()), runs=RUNS, seeds=SEEDS, by_flow=True, **traffic)

    two = [steady(850, 1333 * US, flow=0, ecn="ect0"), steady(850, 1333 * US, flow=1, ecn="ect1")]
    yield case("base", "DualPI2 with a classic and a scalable flow", arrive=two, dequeue=drain(1200, 1 * MS))
    yield case("classic", "DualPI2 with classic packets that cannot be marked",
               arrive=[steady(1400, 800 * US)], dequeue=drain(1200, 1 * MS))


ALL = [codel, fq_codel, pie, fq_pie, red, choke, sfb, dualpi2]
