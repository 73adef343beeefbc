"""The compiled part of the package."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypedDict

__version__: str

class Source(TypedDict):
    text: str
    name: str
    directory: str
    default_name: str
    settings: Sequence[tuple[str, str, str]]

class RigRequest(TypedDict):
    algorithm: str
    flows: Sequence[str]
    order: str
    batch: int
    seed: int
    runs: int
    pairs: int
    service_packets: int | None
    times: bool
    services: bool

class Table:
    @property
    def schema(self) -> list[tuple[str, str]]: ...
    @property
    def nbytes(self) -> int: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def column(self, name: str, start: int, stop: int) -> list[Any]: ...
    def select(self, names: Sequence[str]) -> Table: ...

class Readings:
    def feed(self, text: bytes) -> Table: ...

class Results:
    @property
    def settings(self) -> list[list[tuple[str, str]]]: ...
    @property
    def seeds(self) -> list[int]: ...
    @property
    def name(self) -> str: ...
    @property
    def duration_s(self) -> tuple[float, float]: ...
    @property
    def events(self) -> int: ...
    @property
    def cpu_s(self) -> float: ...
    @property
    def equal(self) -> bool: ...
    @property
    def diagnostics(self) -> list[dict[str, Any]]: ...
    def table(self, name: str) -> Table: ...
    def json(self) -> str: ...
    def html(self, point: int) -> str: ...
    def report(self, path: str, point: int) -> None: ...
    def svg(self, point: int) -> str: ...
    def text(self, point: int) -> str: ...

def simulate(
    source: Source,
    seeds: Sequence[int] | None,
    threads: int,
    trace: bool | None,
    progress: Callable[[float, float, int, int, int], object] | None,
) -> Results: ...
def check(source: Source) -> tuple[str, list[dict[str, Any]]]: ...
def schema() -> str: ...
def play_case(text: str, name: str) -> str: ...

Settings: TypeAlias = list[tuple[str, str]]
Task: TypeAlias = tuple[int, str, list[tuple[str, str]], list[int], str]

class Stop:
    def __init__(self) -> None: ...
    def set(self) -> None: ...

MAX_RUNS: int

class Campaign:
    @property
    def diagnostics(self) -> list[dict[str, Any]]: ...
    @property
    def points(self) -> int: ...
    @property
    def runs(self) -> int: ...
    @property
    def is_live(self) -> bool: ...
    @property
    def names(self) -> list[str]: ...
    def settings(self, point: int) -> Settings: ...
    def keys(self, point: int) -> list[tuple[int, str]]: ...
    def task(self, point: int) -> Task: ...
    def missing(self, store: str, start: int, most: int) -> tuple[list[Task], int, int]: ...
    def done(self, store: str) -> int: ...
    def export(self, store: str, table: str, path: str) -> int: ...
    def html(self, store: str, point: int, seed: int) -> str: ...

def campaign(
    sources: Sequence[tuple[Source, Settings]],
    axes: Sequence[tuple[str, Sequence[str]]],
    points: Sequence[Settings],
    seeds: int | Sequence[int] | None,
    live: bool,
) -> Campaign: ...
def campaign_file(path: str, points: Sequence[Settings] | None) -> Campaign: ...
def create_store(path: str) -> None: ...
def engine() -> str: ...
def estimate(values: Sequence[float]) -> tuple[float, float | None]: ...
def figures(
    store: str, keys: Sequence[str], table: str, name: str, column: str
) -> list[float | None]: ...
def has(store: str, keys: Sequence[str]) -> list[bool]: ...
def key(task: Task, seed: int) -> str: ...
def verify(
    store: str, sample: int, seed: int, remove: bool
) -> tuple[int, int, list[tuple[str, str]]]: ...
def work(
    store: str,
    tasks: Sequence[Task],
    timeout_s: float | None,
    stop: Stop | None,
    weir: str | None,
) -> list[tuple[int, int, str, float, str, str, bool, bool]]: ...
def rig(request: RigRequest) -> str: ...
def play(
    kind: str, algorithm: object, operations: Sequence[tuple[str, int, int, int]]
) -> tuple[str, int, str]: ...

class Slot:
    def __init__(self, kind: str, name: str, flags: tuple[bool, bool]) -> None: ...
    def bind(self, algorithm: object) -> None: ...

class Packet:
    """A packet, as a scheduler or an AQM in Python sees it."""

    @property
    def flow(self) -> int:
        """The number of its queue; 0 in an AQM, which has one queue."""
    @property
    def bytes(self) -> int:
        """Its length from the network-layer header on."""
    @property
    def arrived_ns(self) -> int:
        """The time of its arrival at the queue."""
    @property
    def hash(self) -> int:
        """A hash of addresses, ports and protocol, for algorithms with ``classifies = True``."""
    @property
    def label(self) -> int:
        """A rank or a deadline that its source or an earlier hop has set; 0 for none."""
    @property
    def dscp(self) -> int:
        """Differentiated services code point."""
    @property
    def ecn(self) -> int:
        """The ECN field, as in the IP header."""
    @property
    def ecn_capable(self) -> bool:
        """Whether it may be marked."""
    def drop(self) -> None:
        """Drops the packet from its scheduler, which must not return it later."""
    def mark(self) -> bool:
        """Marks the packet with congestion experienced when it leaves its scheduler. Returns
        whether it is ECN-capable; otherwise nothing happens."""

class Flow:
    """A flow of a scheduler in Python: a queue with its settings."""

    @property
    def number(self) -> int:
        """The number of the flow, as in `Packet.flow`."""
    @property
    def weight(self) -> int:
        """The share of the flow among the flows with waiting packets."""
    @property
    def priority(self) -> int:
        """The priority; 0 is served first."""
    @property
    def max_packet(self) -> int:
        """Bytes of the largest packet (`lmax`)."""
    @property
    def rate_bps(self) -> int | None:
        """The guaranteed rate, bit/s; None without one."""
    @property
    def ceil_bps(self) -> int | None:
        """The rate that the flow may not exceed, bit/s; None without one."""
    @property
    def deadline_ns(self) -> int:
        """The time from a packet's arrival to its deadline, ns; 0 for none."""
    @property
    def limit(self) -> int | None:
        """The most packets that the queue holds; None without a limit."""

class Queue:
    """The state of the queue of an AQM in Python, without the packet in question."""

    @property
    def packets(self) -> int:
        """Packets that wait."""
    @property
    def bytes(self) -> int:
        """Bytes of the waiting packets, from the network-layer header on."""
    @property
    def full(self) -> bool:
        """Whether the packet that arrives does not fit; False when a packet leaves."""

class Ack:
    """An acknowledgement, as a congestion control in Python sees it.

    In `on_loss`, `on_rto` and `on_undo`, only the state of the connection is set: `now_ns`, `mss`,
    `srtt_ns`, `min_rtt_ns`, `in_flight` and `delivered`. In an `on_loss` for marks, `marked` is one
    segment too. Amounts are payload bytes.
    """

    @property
    def now_ns(self) -> int:
        """Simulated time, ns."""
    @property
    def mss(self) -> int:
        """Bytes of a full segment."""
    @property
    def srtt_ns(self) -> int | None:
        """Smoothed round-trip time, ns; None before the first sample."""
    @property
    def min_rtt_ns(self) -> int | None:
        """Smallest round-trip time until now, ns; None before the first sample."""
    @property
    def rtt_ns(self) -> int | None:
        """Round-trip time of this acknowledgement, ns; None without a sample."""
    @property
    def one_way_ns(self) -> int | None:
        """One-way delay of the data by the timestamps, ns; None without a sample."""
    @property
    def in_flight(self) -> int:
        """Bytes that were sent and are neither acknowledged nor lost."""
    @property
    def delivered(self) -> int:
        """Bytes that have arrived since the start."""
    @property
    def acked(self) -> int:
        """Bytes that the acknowledgement newly reports as arrived."""
    @property
    def lost(self) -> int:
        """Bytes that were found lost with this acknowledgement."""
    @property
    def marked(self) -> int:
        """Bytes that are newly reported as marked."""
    @property
    def rate_bps(self) -> int | None:
        """Delivery rate, bit/s; None without a sample."""
    @property
    def app_limited(self) -> bool:
        """Whether the application limited the transmission during the sample."""
    @property
    def window_limited(self) -> bool:
        """Whether the window was fully used, so that it may grow."""
    @property
    def reducing(self) -> bool:
        """Whether the window is being reduced, so that it should not grow."""

class Environment:
    def __init__(self, source: Source) -> None: ...
    @property
    def rate_bps(self) -> int | None: ...
    @property
    def duration_ns(self) -> int: ...
    @property
    def now_ns(self) -> int: ...
    def reset(self, seed: int, action: Sequence[float]) -> list[float]: ...
    def step(self, action: Sequence[float], ns: int) -> tuple[list[float], bool]: ...
    def close(self) -> None: ...
