"""Schedulers, AQMs and congestion controls in Python, in simulations and in the rig."""

from __future__ import annotations

import collections
import functools
import gc
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any, ClassVar

import pytest

import weirlab as wl


class Fifo(wl.Scheduler):
    """The scheduler `fifo`."""

    def __init__(self) -> None:
        self.queue: collections.deque[wl.Packet] = collections.deque()

    def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
        self.queue.append(packet)

    def dequeue(self, now_ns: int) -> wl.Packet | None:
        return self.queue.popleft() if self.queue else None


class RoundRobin(wl.Scheduler):
    """One packet of each flow in turn."""

    def __init__(self) -> None:
        self.queues: dict[int, collections.deque[wl.Packet]] = {}
        self.turns: collections.deque[int] = collections.deque()

    def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
        queue = self.queues.setdefault(packet.flow, collections.deque())
        if not queue:
            self.turns.append(packet.flow)
        queue.append(packet)

    def dequeue(self, now_ns: int) -> wl.Packet | None:
        if not self.turns:
            return None
        flow = self.turns.popleft()
        packet = self.queues[flow].popleft()
        if self.queues[flow]:
            self.turns.append(flow)
        return packet


class Paced(Fifo):
    """Holds each packet back for a millisecond after its arrival."""

    work_conserving = False

    def dequeue(self, now_ns: int) -> wl.Packet | None:
        if self.queue and self.queue[0].arrived_ns + 1_000_000 <= now_ns:
            return self.queue.popleft()
        return None

    def next_event(self, now_ns: int) -> int | float | None:
        return self.queue[0].arrived_ns + 1_000_000 if self.queue else None


class Bounded(Fifo):
    """Holds five packets; a further one displaces the oldest."""

    def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
        super().enqueue(packet, now_ns)
        if len(self.queue) > 5:
            self.queue.popleft().drop()


class Lifo(wl.Scheduler):
    """Reorders the packets of a flow."""

    def __init__(self) -> None:
        self.stack: list[wl.Packet] = []

    def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
        self.stack.append(packet)

    def dequeue(self, now_ns: int) -> wl.Packet | None:
        return self.stack.pop() if self.stack else None


class Tail(wl.Aqm):
    """The AQM `droptail`."""


class Threshold(wl.Aqm):
    """Drops packets at the head that have waited too long, and marks packets on arrival."""

    marks = True

    def __init__(self, wait_ns: int = 5_000_000) -> None:
        self.wait_ns = wait_ns

    def arrive(self, packet: wl.Packet, queue: wl.Queue, now_ns: int) -> wl.Verdict:
        return "mark" if queue.packets >= 10 and packet.ecn_capable else None

    def leave(self, packet: wl.Packet, queue: wl.Queue, now_ns: int) -> wl.Verdict:
        return "drop" if now_ns - packet.arrived_ns > self.wait_ns else None


class Reno(wl.CongestionControl):
    """Additive increase, multiplicative decrease."""

    threshold = math.inf

    def on_ack(self, ack: wl.Ack) -> None:
        if ack.reducing or not ack.window_limited:
            return
        if self.cwnd < self.threshold:
            self.cwnd += ack.acked
        else:
            self.cwnd += ack.mss * ack.acked / self.cwnd

    def on_loss(self, ack: wl.Ack) -> None:
        self.cwnd = self.threshold = max(ack.in_flight / 2, 2 * ack.mss)

    def on_rto(self, ack: wl.Ack) -> None:
        self.threshold, self.cwnd = max(ack.in_flight / 2, 2 * ack.mss), ack.mss


def link(**words: Any) -> wl.Scenario:
    """Two flows that overload a link."""
    return (
        wl.Scenario(duration=2)
        .host("a", "b")
        .link("a", "b", "bw 2Mbit/s delay 5ms queue 20", name="l", **words)
        .traffic("poisson", "a", "b", name="p", rate="2Mbit/s", size="500B")
        .traffic("cbr", "a", "b", name="c", rate="1Mbit/s", size="1000B")
    )


def tcp(control: Any) -> wl.Scenario:
    """A TCP connection through a bottleneck."""
    return (
        wl.Scenario(duration=5)
        .host("a", "b")
        .link("a", "b", "bw 10Mbit/s delay 10ms queue 40", name="l")
        .traffic("tcp", "a", "b", name="t", cc=control)
    )


def outcome(scenario: wl.Scenario, **arguments: Any) -> tuple[list[Any], ...]:
    r = wl.simulate(scenario, **arguments)
    return r.flows["received"], r.flows["lost"], r.flows["delay_p99_ns"], r.links["drops"]


def test_a_fifo_in_python_gives_the_results_of_the_built_in_one() -> None:
    built_in = outcome(link(scheduler="fifo"), seeds=3)
    assert outcome(link(scheduler=Fifo), seeds=3) == built_in
    assert outcome(link(scheduler=Fifo), seeds=3, threads=1) == built_in
    assert outcome(link(), seeds=3, set={"link.l.scheduler": Fifo}) == built_in


def test_turns_share_a_link_between_queues() -> None:
    queues = ["queue 50", "queue 50"]
    net = (
        wl.Scenario(duration=3, warmup=1)
        .host("a", "b")
        .link("a", "b", "bw 2Mbit/s delay 5ms", scheduler=RoundRobin, queues=queues)
        .traffic("cbr", "a", "b", name="x", rate="3Mbit/s", size="1000B")
        .traffic("cbr", "a", "b", name="y", rate="2Mbit/s", size="1000B", class_=1)
    )
    x, y = wl.simulate(net).flows["received"]
    assert abs(x - y) <= 1


def test_an_aqm_in_python_gives_the_results_of_the_built_in_one() -> None:
    assert outcome(link(aqm=Tail), seeds=2) == outcome(link(aqm="droptail"), seeds=2)


def test_an_aqm_drops_and_marks() -> None:
    r = wl.simulate(link(aqm=Threshold))
    assert r.links["drops"][0] > 0 and r.links["queue_p99_ns"][0] <= 5_200_000
    patient = functools.partial(Threshold, 10**12)
    changes: dict[str, wl.Value] = {"link.l.spec.queue": 90, "link.l.spec.aqm": patient}
    marking = wl.simulate(tcp("dctcp"), set=changes)
    assert marking.links["marks"][0] > 0


def test_a_congestion_control_fills_the_link() -> None:
    r = wl.simulate(tcp(Reno))
    assert r.flows["goodput_bps"][0] > 7e6
    assert r.flows["lost"][0] > 0


def test_a_constant_window_gives_its_rate() -> None:
    class Constant(wl.CongestionControl):
        def on_ack(self, ack: wl.Ack) -> None:
            self.cwnd = 5 * ack.mss

        def on_loss(self, ack: wl.Ack) -> None: ...

        def on_rto(self, ack: wl.Ack) -> None: ...

    r = wl.simulate(tcp(Constant))
    # Five segments in each round trip, which takes 20 ms plus the transmission times.
    assert 2.0e6 < r.flows["goodput_bps"][0] < 2.9e6
    assert r.flows["lost"][0] == 0


def test_pacing_limits_the_rate() -> None:
    class Slow(wl.CongestionControl):
        paces = True
        pacing_bps = 1e6

        def on_ack(self, ack: wl.Ack) -> None:
            self.cwnd = 100 * ack.mss

        def on_loss(self, ack: wl.Ack) -> None: ...

        def on_rto(self, ack: wl.Ack) -> None: ...

    assert 0.8e6 < wl.simulate(tcp(Slow)).flows["goodput_bps"][0] < 1.01e6


def test_a_scheduler_may_hold_packets_back_and_drop() -> None:
    held = wl.simulate(link(scheduler=Paced))
    assert min(held.flows["delay_p50_ns"]) > 1_000_000
    bounded = wl.simulate(link(scheduler=Bounded))
    assert bounded.links["drops"][0] > 0
    assert bounded.links["queue_p99_ns"][0] < held.links["queue_p99_ns"][0]


def test_settings_come_from_functions() -> None:
    strict = link(aqm=functools.partial(Threshold, 1_000_000))
    loose = link(aqm=lambda: Threshold(50_000_000))
    strict_wait = wl.simulate(strict).links["queue_p99_ns"][0]
    assert strict_wait <= 1_200_000 < wl.simulate(loose).links["queue_p99_ns"][0]


def test_classes_are_accepted_in_sweeps_dictionaries_and_texts() -> None:
    swept = wl.simulate(link().sweep("link.l.scheduler", ["fifo", Fifo]))
    assert [point["link.l.scheduler"] for point in swept.points] == ["fifo", "python.Fifo"]
    assert swept.flows["received"][:2] == swept.flows["received"][2:]
    text = link(scheduler=Fifo).to_toml()
    assert 'scheduler = "python.Fifo"' in text
    from_text = wl.simulate(text)
    assert from_text.flows["received"] == wl.simulate(link(scheduler=Fifo)).flows["received"]


def test_classes_of_one_name_have_different_names() -> None:
    def make() -> type[wl.Scheduler]:
        class Same(Fifo): ...

        return Same

    first, second = make(), make()
    assert wl.name_of(first) == wl.name_of(first)
    assert wl.name_of(first).lower() != wl.name_of(second).lower()


def test_runs_share_no_instance() -> None:
    made: list[int] = []

    class Counted(Fifo):
        def __init__(self) -> None:
            super().__init__()
            made.append(threading.get_ident())

    wl.simulate(link(scheduler=Counted), seeds=8, threads=4)
    # One instance for each run: the argument `scheduler` applies to one direction of the link.
    assert len(made) == 8 and threading.get_ident() not in made


@pytest.mark.parametrize("seeds", [1, 8])
def test_an_exception_surfaces_with_its_traceback(seeds: int) -> None:
    class Broken(Fifo):
        def dequeue(self, now_ns: int) -> wl.Packet | None:
            if now_ns > 1_000_000_000:
                raise LookupError("my own mistake")
            return super().dequeue(now_ns)

    with pytest.raises(LookupError, match="my own mistake") as caught:
        wl.simulate(link(scheduler=Broken), seeds=seeds)
    shown = "".join(traceback.format_exception(caught.value))
    assert 'raise LookupError("my own mistake")' in shown
    assert "in Broken.dequeue, 1.0" in shown


def test_exceptions_in_every_method_surface() -> None:
    def broken(self: Any, *_: Any, **__: Any) -> None:
        raise ZeroDivisionError("here")

    for base, names in (
        (Fifo, ("__init__", "start", "add_flow", "enqueue", "dequeue")),
        (Threshold, ("__init__", "start", "arrive", "leave")),
    ):
        for name in names:
            worse: Any = type("Worse", (base,), {name: broken})
            factory = worse if name != "__init__" else functools.partial(_late, base, name, broken)
            words: Any = {"scheduler" if base is Fifo else "aqm": factory}
            with pytest.raises(ZeroDivisionError, match="here"):
                wl.simulate(link(**words))
    for name in ("start", "on_ack", "on_loss", "on_rto"):
        worse = type("Worse", (Reno,), {name: broken})
        with pytest.raises(ZeroDivisionError, match="here"):
            wl.simulate(tcp(worse), set={"link.l.spec.loss": "30%", "duration": "20s"})


_made: list[object] = []


def _late(base: Any, name: str, broken: Any) -> Any:
    """Makes an instance of `base`; every second call fails."""
    _made.append(None)
    if len(_made) > 1:
        _made.clear()
        broken(None)
    return base()


def _returns(method: str, value: Any, base: Any = Fifo) -> Any:
    return type("Wrong", (base,), {method: lambda self, *_: value})


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (lambda: link(scheduler=_returns("dequeue", "packet")), "expected a weirlab.Packet"),
        (lambda: link(scheduler=_returns("dequeue", 5)), "not int"),
        (lambda: link(scheduler=_returns("enqueue", True)), "enqueue: expected None"),
        (lambda: link(aqm=_returns("arrive", 1, Threshold)), "arrive: expected None"),
        (lambda: link(aqm=_returns("leave", b"drop", Threshold)), "leave: expected None"),
        (lambda: link(scheduler=_returns("next_event", "soon", Paced)), "a number, not str"),
        (lambda: tcp(type("Text", (Reno,), {"cwnd": "much", "start": _nothing})), "cwnd"),
        (lambda: tcp(type("Pace", (Reno,), {"pacing_bps": [1]})), "pacing_bps"),
    ],
)
def test_wrong_types_are_type_errors(scenario: Any, words: str) -> None:
    with pytest.raises(wl.AlgorithmTypeError, match=words):
        wl.simulate(scenario())


def _nothing(self: Any, **_: Any) -> None: ...


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (lambda: link(aqm=_returns("arrive", "dorp", Threshold)), '"dorp"; allowed are None'),
        (lambda: link(scheduler=_returns("dequeue", None)), "while 1 packets wait"),
        (lambda: link(scheduler=_returns("next_event", -5, Paced)), "is -5, which is negative"),
        (lambda: link(scheduler=_returns("next_event", math.nan, Paced)), "is NaN"),
        (lambda: link(scheduler=_returns("next_event", 0, Paced)), "is 0, and it is"),
        (lambda: tcp(type("Nan", (Reno,), {"pacing_bps": math.nan})), "pacing_bps is NaN"),
        (lambda: tcp(type("Less", (Reno,), {"pacing_bps": -1.0})), "negative"),
        (lambda: tcp(type("Less", (Reno,), {"start": _nothing, "cwnd": -2})), "cwnd is -2"),
        (lambda: tcp(type("More", (Reno,), {"start": _nothing, "cwnd": math.inf})), "cwnd is inf"),
    ],
)
def test_values_that_are_not_allowed_are_errors(scenario: Any, words: str) -> None:
    with pytest.raises(wl.AlgorithmError, match=words):
        wl.simulate(scenario())


def test_packets_that_are_not_inside_are_errors() -> None:
    class Twice(Fifo):
        last: wl.Packet | None = None

        def dequeue(self, now_ns: int) -> wl.Packet | None:
            self.last = self.last or super().dequeue(now_ns)
            return self.last

    class Foreign(Fifo):
        kept: ClassVar[list[wl.Packet]] = []
        honest: ClassVar[bool] = True

        def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
            super().enqueue(packet, now_ns)
            self.kept.append(packet)

        def dequeue(self, now_ns: int) -> wl.Packet | None:
            packet = super().dequeue(now_ns)
            return packet if self.honest else self.kept[0]

    class Dropped(Fifo):
        def dequeue(self, now_ns: int) -> wl.Packet | None:
            packet = super().dequeue(now_ns)
            if packet:
                packet.drop()
                packet.drop()
            return None

    with pytest.raises(wl.AlgorithmError, match="has left already"):
        wl.simulate(link(scheduler=Twice))
    wl.simulate(link(scheduler=Foreign), set={"duration": "10ms"})
    Foreign.honest = False
    with pytest.raises(wl.AlgorithmError, match="never given"):
        wl.simulate(link(scheduler=Foreign))
    with pytest.raises(wl.AlgorithmError, match="dropped a packet that it does not hold"):
        wl.simulate(link(scheduler=Dropped))


def test_objects_that_are_no_algorithms_are_refused() -> None:
    for wrong in (int, object, lambda: 5, dict):
        with pytest.raises(TypeError, match="expected a subclass of Scheduler"):
            wl.simulate(link(scheduler=wrong))
    # An AQM is not a scheduler.
    with pytest.raises(wl.ScenarioError, match="is no scheduler"):
        wl.simulate(link(scheduler=Tail))
    with pytest.raises(TypeError):
        wl.check(Fifo())  # type: ignore[arg-type]


def test_the_name_of_a_deleted_class_is_an_error() -> None:
    def name() -> str:
        class Short(Fifo): ...

        return wl.name_of(Short)

    scenario = link(scheduler=name())
    gc.collect()
    with pytest.raises(wl.AlgorithmError, match="does not exist any more"):
        wl.simulate(scenario)


INTERRUPTED = """
import os, weirlab as wl

class Stuck(wl.Scheduler):
    def enqueue(self, packet, now_ns):
        # Both threads come here: each writes a whole line.
        os.write(1, b"inside\\n")
        while True:
            pass

net = wl.Scenario(duration=1).host("a", "b").link("a", "b", "1M/5ms", scheduler=Stuck)
try:
    wl.simulate(net.traffic("cbr", "a", "b", rate="1M"), seeds=3, threads=2)
except KeyboardInterrupt:
    print("ended")
"""


def test_an_interruption_ends_a_method() -> None:
    program = subprocess.Popen(
        [sys.executable, "-P", "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True
    )
    with program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "inside\n"
            os.kill(program.pid, signal.SIGINT)
            rest, _ = program.communicate(timeout=60)
        finally:
            # Without this, a program that ignores the signal would block the test forever.
            program.kill()
    assert "ended" in rest and program.returncode == 0


def test_other_threads_run_meanwhile() -> None:
    found: list[BaseException | int] = []

    def work(number: int) -> None:
        try:
            found.append(wl.simulate(link(scheduler=Fifo), seeds=[number]).events)
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=work, args=(1,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and isinstance(found[0], int)


def test_memory_is_freed() -> None:
    class Broken(Fifo):
        def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
            super().enqueue(packet, now_ns)
            if len(self.queue) > 10:
                raise LookupError

    def some(count: int) -> None:
        for _ in range(count):
            wl.simulate(link(scheduler=Fifo, aqm=Threshold), set={"duration": "100ms"})
            with pytest.raises(LookupError):
                wl.simulate(link(scheduler=Broken))
        gc.collect()

    some(30)
    objects = sum(isinstance(item, (wl.Scheduler, wl.Aqm)) for item in gc.get_objects())
    assert objects == 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    some(100)
    # In KiB: less than a page for each simulation.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 4


@pytest.mark.parametrize("algorithm", [Fifo, RoundRobin, Paced, Bounded, Tail, Threshold, Reno])
def test_the_check_passes(algorithm: Any) -> None:
    wl.check(algorithm, cases=60)


class Loses(Fifo):
    """Forgets the third packet."""

    count = 0

    def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
        self.count += 1
        if self.count != 3:
            super().enqueue(packet, now_ns)


class Invents(Fifo):
    """Returns a packet twice."""

    last: wl.Packet | None = None

    def dequeue(self, now_ns: int) -> wl.Packet | None:
        if len(self.queue) == 1 and self.last:
            return self.last
        self.last = super().dequeue(now_ns)
        return self.last


class Lazy(Fifo):
    """Waits for two packets."""

    def dequeue(self, now_ns: int) -> wl.Packet | None:
        return self.queue.popleft() if len(self.queue) > 1 else None


class Unstable(Fifo):
    """Drops every third packet of all its instances, so that it depends on earlier runs."""

    count: ClassVar[int] = 0

    def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
        Unstable.count += 1
        if Unstable.count % 3 == 0:
            packet.drop()
        else:
            super().enqueue(packet, now_ns)


class Raises(Fifo):
    """Cannot handle small packets."""

    def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
        assert packet.bytes >= 60, "too small"
        super().enqueue(packet, now_ns)


class Negative(Reno):
    """A timeout can make its window negative."""

    def on_rto(self, ack: wl.Ack) -> None:
        self.cwnd -= 100_000


@pytest.mark.parametrize(
    ("algorithm", "kind", "most"),
    [
        (Lifo, "reordered", 3),
        (Loses, "AlgorithmError", 4),
        (Invents, "AlgorithmError", 4),
        (Lazy, "AlgorithmError", 2),
        (Raises, "AssertionError", 2),
        (Negative, "AlgorithmError", 1),
        (Unstable, "unstable", 10_000),
    ],
)
def test_the_check_finds_the_shortest_case(algorithm: Any, kind: str, most: int) -> None:
    with pytest.raises(wl.CheckError) as caught:
        wl.check(algorithm)
    assert caught.value.kind == kind
    assert len(caught.value.operations) <= most, caught.value
    if kind == "unstable":
        return
    # The printed case has the same error.
    with pytest.raises(wl.CheckError) as again:
        exec(caught.value.snippet, {algorithm.__name__: algorithm})
    assert again.value.kind == kind


def test_an_exception_is_the_cause_of_a_check_error() -> None:
    with pytest.raises(wl.CheckError) as caught:
        wl.check(Raises)
    assert isinstance(caught.value.__cause__, AssertionError)


def test_the_rig_measures_a_scheduler_beside_built_in_ones() -> None:
    found = wl.rig(["fifo", Fifo, "none"], flows=["4:w1", "2:w1,2:w3"], pairs=2000, runs=1)
    names = [run["alg"] for run in found.runs]
    assert names == ["fifo", "python.Fifo", "none"] * 2
    # Both schedulers serve the same packets in the same order.
    assert found.runs[0]["order_hash"] == found.runs[1]["order_hash"]
    assert found.runs[1]["ns_per_pair"] > found.runs[0]["ns_per_pair"]


def test_the_rig_ends_after_an_exception_with_many_packets_inside() -> None:
    class Fails(Fifo):
        def dequeue(self, now_ns: int) -> wl.Packet | None:
            raise AssertionError("no")

    with pytest.raises(AssertionError, match="no"):
        wl.rig(Fails, flows="512:w1")


def test_the_rig_compares_service_with_the_fluid() -> None:
    found = wl.rig(RoundRobin, flows="8:w1", metric=["wfi"], pairs=2000)
    (row,) = found.runs[0]["wfi"]
    assert row["bwfi_packets"] < 2 and row["bound_packets"] is None
    with pytest.raises(wl.AlgorithmError, match="while"):
        wl.rig(Lazy, flows="8:w1", pairs=2000)
    with pytest.raises(ValueError, match="cannot be measured"):
        wl.rig(Fifo, metric="instr")
