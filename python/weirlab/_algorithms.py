"""Schedulers, AQMs and congestion controls in Python, and the check of their promises."""

from __future__ import annotations

import ctypes
import itertools
import random
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from . import _native
from ._errors import CheckError
from ._native import Ack, Flow, Packet, Queue

Verdict: TypeAlias = Literal["drop", "mark"] | None
"""What an AQM decides about a packet: None lets it pass."""

Operation: TypeAlias = tuple[str, int, int, int]
"""An operation of :func:`check`: a word and three numbers."""


class Scheduler:
    """The base of schedulers in Python: they choose the packet that a link sends next.

    A subclass defines :meth:`enqueue` and :meth:`dequeue`. The class itself is used where the name
    of a scheduler is: ``link(…, scheduler=Mine)``, ``set={"link.x.scheduler": Mine}``, in sweeps
    and in :func:`rig`. Each link of each run has its own instance, made by calling the class
    without arguments. A function without arguments that returns an instance is accepted too.

    A scheduler returns each of its packets exactly once, or drops it by :meth:`Packet.drop`. The
    packets of a flow leave in order. :func:`check` tests these promises. The limit of the queue
    (``queue 50`` in the link's specification) applies before the packet reaches the scheduler.
    Times are whole nanoseconds of simulated time.

    >>> import weirlab as wl
    >>> class Fewest(wl.Scheduler):
    ...     '''Serves the flow with the fewest packets.'''
    ...
    ...     def __init__(self) -> None:
    ...         self.queues: dict[int, list[wl.Packet]] = {}
    ...
    ...     def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
    ...         self.queues.setdefault(packet.flow, []).append(packet)
    ...
    ...     def dequeue(self, now_ns: int) -> wl.Packet | None:
    ...         waiting = [queue for queue in self.queues.values() if queue]
    ...         return min(waiting, key=len).pop(0) if waiting else None
    >>> wl.check(Fewest)
    >>> changes = {"duration": "2s", "link.bottleneck.scheduler": Fewest}
    >>> r = wl.simulate("two-hosts.toml", set=changes)
    """

    classifies: ClassVar[bool] = False
    """Whether the scheduler tells the flows of one queue apart, by :attr:`Packet.hash`, which is 0
    otherwise. The queue in front of such a scheduler has no limit unless one is given."""
    work_conserving: ClassVar[bool] = True
    """Whether :meth:`dequeue` returns a packet whenever one waits."""

    def start(self, *, seed: int) -> None:
        """Called once, before all other methods. `seed`, for the scheduler's random draws, follows
        from the seed of the run.

        >>> import weirlab as wl
        >>> wl.Scheduler().start(seed=1)
        """

    def add_flow(self, flow: Flow) -> None:
        """Called before the first packet of a flow (a queue of the link, with its settings).

        >>> import weirlab as wl
        >>> class Weighted(wl.Scheduler):
        ...     def add_flow(self, flow: wl.Flow) -> None:
        ...         self.weight = flow.weight
        """

    def change_flow(self, flow: Flow) -> None:
        """Called when the settings of a flow change. Its packets stay.

        >>> import weirlab as wl
        >>> class Weighted(wl.Scheduler):
        ...     def change_flow(self, flow: wl.Flow) -> None:
        ...         self.weight = flow.weight
        """

    def remove_flow(self, flow: int) -> None:
        """Called when a flow is removed. Weir has already taken out its packets: if
        :meth:`dequeue` returns one of them, the packet is ignored, and :meth:`dequeue` is called
        again.

        >>> import weirlab as wl
        >>> wl.Scheduler().remove_flow(0)
        """

    def enqueue(self, packet: Packet, now_ns: int) -> None:
        """Takes a packet. It may drop this packet, or packets that the scheduler holds, by
        :meth:`Packet.drop`.

        >>> import weirlab as wl
        >>> class Bounded(wl.Scheduler):
        ...     waiting = 0
        ...
        ...     def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
        ...         if self.waiting >= 100:
        ...             packet.drop()
        """
        raise NotImplementedError(f"{type(self).__name__}.enqueue")

    def dequeue(self, now_ns: int) -> Packet | None:
        """Removes and returns the next packet; None if no packet may leave now. Called only while
        packets wait.

        >>> import weirlab as wl
        >>> class One(wl.Scheduler):
        ...     packet: wl.Packet | None = None
        ...
        ...     def dequeue(self, now_ns: int) -> wl.Packet | None:
        ...         packet, self.packet = self.packet, None
        ...         return packet
        """
        raise NotImplementedError(f"{type(self).__name__}.dequeue")

    def next_event(self, now_ns: int) -> int | float | None:
        """The time in ns, later than now, at which :meth:`dequeue` will return a packet. Called
        after a scheduler with ``work_conserving = False`` has returned None while packets wait.
        None means that no packet will leave before the next one arrives.

        >>> import weirlab as wl
        >>> wl.Scheduler().next_event(0)
        """
        return None


class Aqm:
    """The base of AQMs in Python: they drop or mark packets of a queue.

    A subclass defines :meth:`arrive`, :meth:`leave` or both. The class is used where the name of an
    AQM is: ``link(…, aqm=Mine)`` or ``set={"link.x.spec.aqm": Mine}``. Each queue of each run has
    its own instance.

    >>> import weirlab as wl
    >>> class Threshold(wl.Aqm):
    ...     '''Marks what waits longer than a millisecond.'''
    ...
    ...     marks = True
    ...
    ...     def leave(self, packet: wl.Packet, queue: wl.Queue, now_ns: int) -> wl.Verdict:
    ...         return "mark" if now_ns - packet.arrived_ns > 1_000_000 else None
    >>> wl.check(Threshold)
    >>> changes = {"duration": "2s", "link.bottleneck.spec.aqm": Threshold}
    >>> r = wl.simulate("two-hosts.toml", set=changes)
    """

    marks: ClassVar[bool] = False
    """Whether the AQM marks packets."""
    classifies: ClassVar[bool] = False
    """Whether the AQM tells flows apart, by :attr:`Packet.hash`, which is 0 otherwise."""

    def start(
        self,
        *,
        rate_bps: int | None,
        limit_packets: int | None,
        limit_bytes: int | None,
        seed: int,
    ) -> None:
        """Called once, before all other methods, with the rate of the link, the limit of the queue,
        and the seed of the AQM's random draws.

        >>> import weirlab as wl
        >>> wl.Aqm().start(rate_bps=None, limit_packets=50, limit_bytes=None, seed=1)
        """

    def arrive(self, packet: Packet, queue: Queue, now_ns: int) -> Verdict:
        """Decides about a packet that arrives. `queue` does not count it yet. A packet that passes
        is dropped all the same if the queue is full.

        Returns:
            None, ``"drop"``, or ``"mark"``, which drops a packet that is not ECN-capable.

        >>> import weirlab as wl
        >>> class Short(wl.Aqm):
        ...     def arrive(self, packet: wl.Packet, queue: wl.Queue, now_ns: int) -> wl.Verdict:
        ...         return "drop" if queue.packets >= 5 else None
        """
        return None

    def leave(self, packet: Packet, queue: Queue, now_ns: int) -> Verdict:
        """Decides about the packet at the head of the queue, like :meth:`arrive`. `queue` does not
        count it any more.

        >>> import weirlab as wl
        >>> class Fresh(wl.Aqm):
        ...     def leave(self, packet: wl.Packet, queue: wl.Queue, now_ns: int) -> wl.Verdict:
        ...         return "drop" if now_ns - packet.arrived_ns > 100_000_000 else None
        """
        return None


class CongestionControl:
    """The base of congestion controls in Python.

    A subclass defines :meth:`on_ack`, :meth:`on_loss` and :meth:`on_rto`. They set :attr:`cwnd` and
    may set :attr:`pacing_bps`. The class is used where the name of a congestion control
    is: ``traffic("tcp", …, cc=Mine)`` or ``set={"traffic.x.cc": Mine}``. Each connection has its
    own instance. The sender detects losses and retransmits; see docs/congestion.md.

    >>> import weirlab as wl
    >>> class Reno(wl.CongestionControl):
    ...     slow_start = True
    ...
    ...     def on_ack(self, ack: wl.Ack) -> None:
    ...         if ack.reducing or not ack.window_limited:
    ...             return
    ...         self.cwnd += ack.acked if self.slow_start else ack.mss * ack.acked / self.cwnd
    ...
    ...     def on_loss(self, ack: wl.Ack) -> None:
    ...         self.cwnd, self.slow_start = max(self.cwnd / 2, 2 * ack.mss), False
    ...
    ...     def on_rto(self, ack: wl.Ack) -> None:
    ...         self.cwnd, self.slow_start = ack.mss, True
    >>> wl.check(Reno)
    >>> s = wl.Scenario(duration=2).host("a", "b").link("a", "b", "10M/10ms")
    >>> r = wl.simulate(s.traffic("tcp", "a", "b", cc=Reno))
    """

    ecn: ClassVar[bool] = False
    """Whether the connection uses ECN. Marks are then in :attr:`Ack.marked`, and :meth:`on_loss` is
    called for the first mark of each round trip."""
    paces: ClassVar[bool] = False
    """Whether packets are paced."""
    owns_window: ClassVar[bool] = False
    """Whether :attr:`cwnd` also applies during a reduction. By default the sender spreads the
    reduction over a round trip as in RFC 6937, and :attr:`cwnd` is the window at its end."""

    cwnd: float = 0.0
    """The congestion window in payload bytes. Less than a segment counts as one."""
    pacing_bps: float | None = None
    """The pacing rate in payload bits/s; None to derive it from the window and the round trip."""

    def start(self, *, mss: int, initial_window: int, seed: int) -> None:
        """Called once, before all other methods. Sets :attr:`cwnd` to `initial_window` (bytes).

        >>> import weirlab as wl
        >>> control = wl.CongestionControl()
        >>> control.start(mss=1448, initial_window=14480, seed=1)
        >>> control.cwnd
        14480
        """
        self.cwnd = initial_window

    def on_ack(self, ack: Ack) -> None:
        """Called for each acknowledgement that reports deliveries, losses or marks, and when a
        timer of the sender finds losses.

        >>> import weirlab as wl
        >>> class Constant(wl.CongestionControl):
        ...     def on_ack(self, ack: wl.Ack) -> None:
        ...         self.cwnd = 20 * ack.mss
        """
        raise NotImplementedError(f"{type(self).__name__}.on_ack")

    def on_loss(self, ack: Ack) -> None:
        """Called when congestion is seen for the first time in a window of data: a loss, or a mark.

        >>> import weirlab as wl
        >>> class Halve(wl.CongestionControl):
        ...     def on_loss(self, ack: wl.Ack) -> None:
        ...         self.cwnd /= 2
        """
        raise NotImplementedError(f"{type(self).__name__}.on_loss")

    def on_rto(self, ack: Ack) -> None:
        """Called when the retransmission timer has expired. All outstanding data counts as lost.

        >>> import weirlab as wl
        >>> class Restart(wl.CongestionControl):
        ...     def on_rto(self, ack: wl.Ack) -> None:
        ...         self.cwnd = ack.mss
        """
        raise NotImplementedError(f"{type(self).__name__}.on_rto")

    def on_undo(self, ack: Ack) -> None:
        """Called when the data that counted as lost has arrived after all. :attr:`cwnd` is then at
        least the window before the reduction.

        >>> import weirlab as wl
        >>> class Mine(wl.CongestionControl):
        ...     def on_undo(self, ack: wl.Ack) -> None:
        ...         self.undone = True
        """


Algorithm: TypeAlias = (
    type[Scheduler]
    | type[Aqm]
    | type[CongestionControl]
    | Callable[[], Scheduler]
    | Callable[[], Aqm]
    | Callable[[], CongestionControl]
)
"""An algorithm in Python: a class, or a function without arguments that makes an instance."""

_BASES: tuple[type[Any], ...] = (Scheduler, Aqm, CongestionControl)
# For each kind, the class attributes that are the flags of its entries in the engine's tables.
_FLAGS = {
    "Scheduler": ("work_conserving", "classifies"),
    "Aqm": ("marks", "classifies"),
    "CongestionControl": ("ecn", "paces"),
}

_lock = threading.Lock()
_names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
# The entries of the engine's tables. A key is the kind, the name before a number is appended, and
# the flags. An entry is the complete name, the slot and the class. Entries are never removed. An
# entry is reused when its class is gone.
_slots: dict[tuple[str, str, tuple[bool, bool]], list[tuple[str, Any, weakref.ref[Any]]]] = {}
# All names in lower case.
_used: set[str] = set()


def is_algorithm(content: object) -> bool:
    """Whether a value can be an algorithm in Python: it is callable, and no number or text."""
    return callable(content) and not isinstance(content, (str, int, float))


def name_of(algorithm: Algorithm) -> str:
    """The name by which scenario files, specifications of links and results refer to an algorithm
    in Python. The class must exist as long as the name is used.

    Raises:
        TypeError: The algorithm is not a subclass of :class:`Scheduler`, :class:`Aqm` or
            :class:`CongestionControl`, and not a function that makes an instance of one.

    >>> import weirlab as wl
    >>> class Mine(wl.Aqm): ...
    >>> wl.name_of(Mine)
    'python.Mine'
    >>> wl.Scenario(duration=1).link("a", "b", f"bw 10M aqm {wl.name_of(Mine)}").to_dict()["link"]
    [{'between': ['a', 'b'], 'spec': 'bw 10M aqm python.Mine'}]
    """
    with _lock:
        known = _names.get(algorithm) if is_algorithm(algorithm) else None
        if known is not None:
            return known
        kind, flags, wanted = _describe(algorithm)
        reference = weakref.ref(algorithm)
        same = _slots.setdefault((kind, wanted, flags), [])
        for number, (name, slot, used_by) in enumerate(same):
            if used_by() is None:
                slot.bind(reference)
                same[number] = (name, slot, reference)
                _names[algorithm] = name
                return name
        candidates = itertools.chain([wanted], (f"{wanted}-{n}" for n in itertools.count(2)))
        name = next(name for name in candidates if name.lower() not in _used)
        slot = _native.Slot(kind, name, flags)
        slot.bind(reference)
        _used.add(name.lower())
        same.append((name, slot, reference))
        _names[algorithm] = name
        return name


def names_in(scenario: str) -> list[str]:
    """The names of algorithms in Python that occur in a scenario's text, in lower case."""
    text = scenario.lower()
    with _lock:
        return sorted(name for name in _used if name in text)


def _describe(algorithm: Any) -> tuple[str, tuple[bool, bool], str]:
    """The kind of an algorithm (the name of its base class), its two flags, and its name."""
    kind, made = _kind(algorithm)
    first, second = (bool(getattr(made, flag)) for flag in _FLAGS[kind])
    plain = getattr(algorithm, "__name__", type(made).__name__)
    letters = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in plain)
    return kind, (first, second), f"python.{letters.strip('_') or 'algorithm'}"


def _kind(algorithm: Any) -> tuple[str, Any]:
    """The kind of an algorithm (the name of its base class), and its class or an instance."""
    expected = "expected a subclass of Scheduler, Aqm or CongestionControl"
    if isinstance(algorithm, type):
        made: Any = algorithm
        found = [base for base in _BASES if issubclass(algorithm, base)]
    elif callable(algorithm):
        made = algorithm()
        found = [base for base in _BASES if isinstance(made, base)]
    else:
        raise TypeError(f"{expected}, not {type(algorithm).__name__}")
    if not found:
        what = algorithm.__name__ if isinstance(algorithm, type) else type(made).__name__
        raise TypeError(f"{expected}, not {what}")
    return found[0].__name__, made


def interrupt(threads: Sequence[int]) -> None:
    """Raises KeyboardInterrupt in the methods that run in these threads."""
    for number in threads:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(number), ctypes.py_object(KeyboardInterrupt)
        )


def check(algorithm: Algorithm, *, cases: int = 200, seed: int = 1) -> None:
    """Applies random operations to an algorithm, and finds the shortest case that breaks a promise.

    A scheduler must return every packet once, keep the order of each flow, and give equal results
    for equal operations. A work-conserving scheduler must return a packet whenever one waits. An
    AQM or a congestion control must raise no exception, return only allowed results, and give equal
    results for equal operations.

    Args:
        algorithm: The class.
        cases: Number of random cases.
        seed: Seed of the random cases.

    Raises:
        CheckError: A promise is broken. The text of the error has the shortest case as a program to
            run, and ``operations`` of the error is the case for :func:`replay`.

    >>> import weirlab as wl
    >>> class Lifo(wl.Scheduler):
    ...     def __init__(self) -> None:
    ...         self.stack: list[wl.Packet] = []
    ...     def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
    ...         self.stack.append(packet)
    ...     def dequeue(self, now_ns: int) -> wl.Packet | None:
    ...         return self.stack.pop()
    >>> try:
    ...     wl.check(Lifo)
    ... except wl.CheckError as error:
    ...     print(error)
    reordered: packet 1 of flow 0 left before packet 0 of the same flow: ...
    <BLANKLINE>
    import weirlab as wl
    <BLANKLINE>
    wl.replay(Lifo, [
        ("add", 1, 64, 0),
        ("send", 0, 1, 0),
        ("send", 0, 1, 0),
    ])
    """
    kind, _ = _kind(algorithm)
    source = random.Random(seed)
    for number in range(cases):
        operations = _operations(kind, source, 4 + number * 2)
        if _broken(kind, algorithm, operations) is None:
            continue
        shortest = _shrink(lambda case: _broken(kind, algorithm, case) is not None, operations)
        found = _broken(kind, algorithm, shortest)
        if found is None:
            # The algorithm decides differently in equal situations.
            found = ("unstable", "equal operations give different results", None)
            shortest = operations
        raise _failure(algorithm, shortest, found)


def replay(algorithm: Algorithm, operations: Sequence[Operation]) -> None:
    """Applies operations to an algorithm, as :func:`check` does.

    The operations of a scheduler are ``("add", weight, max_packet, priority)``, ``("send", flow,
    bytes, label)``, ``("take", 0, 0, 0)``, ``("wait", ns, 0, 0)``, ``("change", flow, weight,
    priority)`` and ``("remove", flow, 0, 0)``; at the end, all packets are taken. Those of an AQM
    are ``("arrive", ns, bytes, ecn)`` and ``("leave", ns, 0, 0)``, of a congestion control
    ``("ack", ns, bytes, rtt_ns)``, ``("loss", ns, 0, 0)``, ``("rto", ns, 0, 0)`` and ``("undo", ns,
    0, 0)``; in all of these, ``ns`` is the time since the previous operation.

    Raises:
        CheckError: A promise is broken.

    >>> import weirlab as wl
    >>> class Pass(wl.Aqm): ...
    >>> wl.replay(Pass, [("arrive", 0, 1500, 0), ("leave", 1000, 0, 0)])
    """
    kind, _ = _kind(algorithm)
    case = [(word, a, b, c) for word, a, b, c in operations]
    found = _broken(kind, algorithm, case)
    if found is not None:
        raise _failure(algorithm, case, found)


_Found: TypeAlias = tuple[str, str, BaseException | None]


def _broken(kind: str, algorithm: Any, case: list[Operation]) -> _Found | None:
    """The promise that a case breaks, or None."""
    results: list[str] = []
    # Twice, to find results that do not follow from the operations.
    for _ in range(2):
        try:
            broken, _, message = _native.play(kind, algorithm, case)
        except Exception as error:
            return type(error).__name__, str(error), error
        if broken:
            return broken, message, None
        results.append(message)
    if results[0] != results[1]:
        return "unstable", "equal operations give different results", None
    return None


def _failure(algorithm: Any, case: Sequence[Operation], found: _Found) -> CheckError:
    broken, message, cause = found
    name = getattr(algorithm, "__name__", type(algorithm).__name__)
    lines = "".join(f'    ("{word}", {", ".join(map(str, numbers))}),\n' for word, *numbers in case)
    snippet = f"import weirlab as wl\n\nwl.replay({name}, [\n{lines}])"
    error = CheckError(broken, message, snippet, tuple(case))
    error.__cause__ = cause
    return error


def _operations(kind: str, source: random.Random, length: int) -> list[Operation]:
    if kind == "Aqm":
        return [_of_aqm(source) for _ in range(length)]
    if kind == "CongestionControl":
        return [_of_control(source) for _ in range(length)]
    return [("add", 1, 1500, 0), *(_of_scheduler(source) for _ in range(length))]


def _of_scheduler(source: random.Random) -> Operation:
    word = source.choices(["add", "send", "take", "wait", "change", "remove"], [2, 12, 9, 2, 1, 1])[
        0
    ]
    weight = source.choice([source.randint(1, 3), source.randint(1, 65_536)])
    priority = source.randrange(70)
    flow = source.randrange(20)
    match word:
        case "add":
            return word, weight, source.randint(64, 3000), priority
        case "send":
            return word, flow, source.choice([source.randint(40, 1500), 65_000]), 0
        case "wait":
            return word, source.randint(1, 10_000_000), 0, 0
        case "change":
            return word, flow, weight, priority
        case "remove":
            return word, flow, 0, 0
        case _:
            return "take", 0, 0, 0


def _of_aqm(source: random.Random) -> Operation:
    pause = source.choice([0, source.randint(1, 2_000_000), source.randint(1, 10**10)])
    if source.random() < 0.6:
        return "arrive", pause, source.choice([40, 1500, 65_000]), source.randrange(2)
    return "leave", pause, 0, 0


def _of_control(source: random.Random) -> Operation:
    word = source.choices(["ack", "loss", "rto", "undo"], [20, 2, 1, 1])[0]
    pause = source.choice([0, source.randint(1, 100_000_000), source.randint(1, 10**11)])
    if word != "ack":
        return word, pause, 0, 0
    return word, pause, source.randint(1, 64_000), source.choice([1, 20_000_000, 5 * 10**9])


def _shrink(breaks: Callable[[list[Operation]], bool], case: list[Operation]) -> list[Operation]:
    """The case without the operations that are not needed to break the promise, and with smaller
    numbers where these still break it."""
    size = len(case)
    while size > 0:
        at = 0
        while at < len(case):
            shorter = case[:at] + case[at + size :]
            if breaks(shorter):
                case = shorter
            else:
                at += size
        size //= 2
    for at in range(len(case)):
        for place in range(3):
            word, *numbers = case[at]
            least = 64 if word == "add" and place == 1 else int(word in _ABOVE_0[place])
            for smaller in (least, max(least, numbers[place] // 2)):
                if smaller < numbers[place]:
                    numbers[place] = smaller
                    a, b, c = numbers
                    changed = [*case[:at], (word, a, b, c), *case[at + 1 :]]
                    if breaks(changed):
                        case = changed
                        break
                    _, *numbers = case[at]
    return case


# For each of the three numbers of an operation, the operations in which it must be above 0.
_ABOVE_0 = (("add",), ("send", "arrive", "ack", "change"), ("ack",))
