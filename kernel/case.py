"""A case: its script for the recorder, and its file for `weir rig --case`."""

import textwrap
from dataclasses import dataclass, field, replace

from loads import MS, S, US, times

ECN = {"not-ect": 0, "ect1": 1, "ect0": 2, "ce": 3}


@dataclass
class Case:
    """One discipline, its traffic, and the same discipline in Weir's words."""

    name: str
    about: str
    setup: str  # tc commands, one per line; `record` puts `dev wk0` before `root` and `parent`
    queue: dict  # the table [queue] of the case file
    arrive: list  # groups of arrivals, see loads.py
    dequeue: list  # groups of requests
    flows: list = field(default_factory=list)  # tables [[flow]]
    classes: list = field(default_factory=list)  # tables [[class]]
    minor: dict = field(default_factory=dict)  # flow: minor number of the kernel's class
    runs: int = 1  # how often the kernel plays a random case
    seeds: int = 0  # the number of seeds that Weir plays; 0 for a case without random draws
    probe: str = ""  # the kernel function that has just run at time 0; "" for none
    again: bool = True  # whether one more packet is requested when the queue has become empty
    counters: tuple = ("drops", "marks", "mean_wait_us")  # the compared counters of a random case
    by_flow: bool = False  # whether to compare the counters of each flow, too
    series: dict = field(
        default_factory=dict
    )  # words added to Weir's scheduler, by kernel series; only series that differ from 6.12

    @property
    def discipline(self):
        return self.name.split("-")[0]

    def on(self, series):
        """The case with the settings that Weir's scheduler needs for a series."""
        if series not in self.series or "scheduler" not in self.queue:
            return self
        return replace(
            self,
            queue=dict(self.queue, scheduler=f"{self.queue['scheduler']} {self.series[series]}"),
        )

    def packets(self):
        """Pairs of time and group, in the order of arrival."""
        all_ = [(at, group) for group in self.arrive for at in times(group)]
        return sorted(all_, key=lambda packet: packet[0])

    def requests(self):
        return sorted(at for group in self.dequeue for at in times(group))

    def script(self):
        events = []
        for at, group in self.packets():
            flow = group.get("flow", 0)
            minor = self.minor.get(flow, 0)
            priority = (1 << 16 | minor) if minor else 0
            tos = group.get("dscp", 0) << 2 | ECN[group.get("ecn", "not-ect")]
            line = f"+ {at} {group['bytes']} {flow} {priority} {tos} {group.get('ack', 'u')} {group.get('host', 0)}"
            events.append((at, 0, len(events), line))
        for at in self.requests():
            events.append((at, 1, len(events), f"- {at}"))
        head = [f"probe {self.probe}"] if self.probe else []
        head += [] if self.again else ["again 0"]
        return "\n".join(head + [event[3] for event in sorted(events)]) + "\n"

    def commands(self):
        return (
            "set -e\n" + "\n".join(line.strip() for line in self.setup.strip().splitlines()) + "\n"
        )

    def file(self, kernels, expectations, runs, differs=None):
        """The text of the case file; `runs` is how often the kernel played a random case."""
        lines = [f"about = {quoted(self.about)}"]
        lines += [f"source = {quoted('recorded from Linux, see [kernel]')}"]
        if differs:
            lines += [f"differs = {quoted(differs)}"]
        lines += ["", "[kernel]", f"releases = [{', '.join(quoted(kernel) for kernel in kernels)}]"]
        lines += ["setup = '''", *(line.strip() for line in self.setup.strip().splitlines()), "'''"]
        if self.seeds:
            lines += [f"runs = {runs}"]
        lines += ["", "[queue]", *fields(self.queue)]
        if self.seeds:
            lines += [f"seeds = [1, {self.seeds}]"]
        for name, tables in (("class", self.classes), ("flow", self.flows)):
            for table in tables:
                lines += ["", f"[[{name}]]", *fields(table)]
        for name, groups in (("arrive", self.arrive), ("dequeue", self.dequeue)):
            for group in groups:
                lines += ["", f"[[{name}]]", *moments(group)]
                rest = {
                    key: value
                    for key, value in group.items()
                    if key not in ("at", "every", "count")
                }
                if rest.get("ecn") == "not-ect":
                    del rest["ecn"]
                if "scheduler" in self.queue and not self.flows and "bytes" in group:
                    rest["hash"] = hash_of(group.get("flow", 0))
                lines += fields(rest)
        return "\n".join(lines + ["", expectations]).rstrip() + "\n"


def hash_of(flow):
    """A hash that gives each flow a queue of its own in Weir, as the kernel's random hash does
    nearly always.
    """
    seed, golden = 1, 0x9E3779B1
    return ((flow + 1 << 22) + (1 << 21)) * pow(golden, -1, 1 << 32) % (1 << 32) ^ seed


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def fields(table):
    return [
        f"{key} = {quoted(value) if isinstance(value, str) else str(value).lower()}"
        for key, value in table.items()
    ]


def time_text(ns):
    for unit, length in (("s", S), ("ms", MS), ("us", US)):
        if ns and ns % length == 0:
            return f"{ns // length}{unit}"
    return f"{ns}ns"


def wrapped(words):
    """A text of many words, on lines of at most 100 columns."""
    text = " ".join(words)
    if len(text) < 80:
        return quoted(text)
    return '"""\n' + "\n".join(textwrap.wrap(text, 100)) + '"""'


def moments(group):
    at = group["at"] if isinstance(group["at"], list) else [group["at"]]
    lines = [f"at = {wrapped([time_text(time) for time in at])}"]
    if group.get("every"):
        lines.append(f"every = {quoted(time_text(group['every']))}")
    if group.get("count", 1) != 1:
        lines.append(f"count = {group['count']}")
    return lines


def ranges(entries):
    """Packet numbers in order, as `3 5-9`; `-` is a request without a packet, `-*4` four of them."""
    words, at = [], 0
    while at < len(entries):
        end = at
        if entries[at] is None:
            while end + 1 < len(entries) and entries[end + 1] is None:
                end += 1
            words.append("-" if end == at else f"-*{end - at + 1}")
        else:
            while end + 1 < len(entries) and entries[end + 1] == entries[end] + 1:
                end += 1
            words.append(f"{entries[at]}" if end == at else f"{entries[at]}-{entries[end]}")
        at = end + 1
    return words
