"""Reads the records of the guest and turns them into expectations."""

import statistics
from dataclasses import dataclass, field

from case import ranges, time_text, wrapped


@dataclass
class Run:
    """The record of one run of a case. Packets are numbers in the order of arrival."""

    requests: list = field(default_factory=list)  # times
    taken: list = field(default_factory=list)  # for each request: a packet or None
    drops: list = field(default_factory=list)  # pairs of time and packet
    marks: list = field(default_factory=list)  # pairs of time and packet
    changed: list = field(default_factory=list)  # pairs of time and packet with changed contents
    waits: dict = field(default_factory=dict)  # sojourn time of each packet that left
    probes: list = field(default_factory=list)  # times at which the probed function ran
    faults: list = field(default_factory=list)
    statistics: str = ""
    ended: bool = False


def read(path, case):
    """The complete runs of a record, and those that report a fault. A guest that was ended leaves
    its last run incomplete.
    """
    arrived = [at for at, _ in case.packets()]
    runs, run = [], None
    for line in path.read_text().splitlines():
        if line.startswith("###"):
            run, in_statistics = Run(), False
            runs.append(run)
            continue
        if line.startswith("---"):
            in_statistics = True
            continue
        if in_statistics:
            run.statistics += line + "\n"
            continue
        kind, *words = line.split()
        if kind == "-":
            at, packet = int(words[0]), int(words[1])
            run.requests.append(at)
            run.taken.append(packet)
            run.waits[packet] = at - arrived[packet]
            if words[2] == "m":
                run.marks.append((at, packet))
            if words[2] == "c":
                run.changed.append((at, packet))
        elif kind == "0":
            run.requests.append(int(words[0]))
            run.taken.append(None)
        elif kind == "x":
            run.drops.append((int(words[0]), int(words[1])))
        elif kind == "t":
            run.probes.append(int(words[0]))
        elif kind == ".":
            run.ended = True
        elif kind == "!":
            run.faults.append(line)
    runs = [run for run in runs if run.ended or run.faults]
    for run in runs:
        # A packet looks dropped when a discipline detaches it from its socket. It counts as
        # delivered if it leaves later.
        delivered = set(run.taken)
        run.drops = sorted(drop for drop in run.drops if drop[1] not in delivered)
    return runs


def exact(case, run):
    """The expectations of a deterministic case: every packet."""
    lines = ["[expect]", f"taken = {wrapped(ranges(run.taken))}"]
    if run.drops:
        lines.append(f"drop_times = {wrapped([time_text(at) for at, _ in run.drops])}")
        lines.append(f"dropped = {wrapped(ranges([packet for _, packet in run.drops]))}")
    if run.marks:
        lines.append(f"marked = {wrapped(ranges([packet for _, packet in run.marks]))}")
    delivered = [packet for packet in run.taken if packet is not None]
    left = len(case.packets()) - len(set(delivered)) - len(run.drops)
    lines += ["", "[expect.total]", f"delivered = {len(delivered)}", f"drops = {len(run.drops)}"]
    lines += [f"marks = {len(run.marks)}", f"left = {left}"]
    return "\n".join(lines)


def values(case, run, flow=None):
    """The counters of a run, of all packets or of one flow."""
    groups = [group for _, group in case.packets()]
    mine = [flow is None or group.get("flow", 0) == flow for group in groups]
    delivered = [packet for packet in run.taken if packet is not None and mine[packet]]
    waits = [wait for packet, wait in run.waits.items() if mine[packet]]
    return {
        "drops": sum(mine[packet] for _, packet in run.drops),
        "marks": sum(mine[packet] for _, packet in run.marks),
        "delivered": len(delivered),
        "duplicates": len(delivered) - len(set(delivered)),
        "corrupted": sum(mine[packet] for _, packet in run.changed),
        "out_of_order": sum(1 for a, b in zip(delivered, delivered[1:]) if b < a),
        "mean_wait_us": statistics.fmean(waits) / 1000 if waits else 0.0,
    }


def sampled(case, runs):
    """The expectations of a random case: means with standard errors."""

    def table(flow):
        every = [values(case, run, flow) for run in runs]
        lines = []
        for name in case.counters:
            column = [run[name] for run in every]
            error = statistics.stdev(column) / len(column) ** 0.5 if len(column) > 1 else 0.0
            lines.append(
                f"{name} = {{ mean = {statistics.fmean(column):.3f}, error = {error:.3f} }}"
            )
        return lines

    lines = ["[expect.total]", *table(None)]
    if case.by_flow:
        for flow in sorted({group.get("flow", 0) for group in case.arrive}):
            lines += ["", "[[expect.flow]]", f"flow = {flow}", *table(flow)]
    return "\n".join(lines)


def means(case, runs):
    """Pairs of mean and standard error by counter, to compare kernels."""
    every = [values(case, run) for run in runs]
    result = {}
    for name in case.counters:
        column = [run[name] for run in every]
        error = statistics.stdev(column) / len(column) ** 0.5 if len(column) > 1 else 0.0
        result[name] = (statistics.fmean(column), error)
    return result
