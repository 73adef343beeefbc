"""The measurements: the quantities, the arms on which they are measured, and the ideal values.

Each function of MEASUREMENTS yields rows. A row is one result with its arm, its ideal value and its
command.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path

from lab import (
    ROOT,
    TARGET,
    Arm,
    Bridge,
    Ifb,
    Mahimahi,
    Rattan,
    Tbf,
    Unavailable,
    WeirBridge,
    WeirPair,
    WeirServe,
)

UDP_OVERHEAD = 28  # IPv4 and UDP header
ETHERNET = 14


@dataclass
class Row:
    """One measured number."""

    item: str
    """The measurement, such as `rate`."""
    arm: str
    figure: str
    """What was measured, such as the gaps at 10 Mbit/s."""
    value: float | str
    unit: str
    ideal: str
    command: str

    def as_dict(self) -> dict:
        return asdict(self)


def measured(arm: Arm, work: Callable[[Arm], Iterator[Row]]) -> Iterator[Row]:
    """The rows of one arm. An arm that cannot be measured gives one row with the reason."""
    try:
        with arm:
            yield from work(arm)
    except Unavailable as why:
        yield Row("", arm.name, "not measured", str(why), "", "", arm.command)
    except (RuntimeError, subprocess.TimeoutExpired, KeyError) as why:
        yield Row("", arm.name, "FAILED", " ".join(str(why).split())[:200], "", "", arm.command)


# -- (a) delay -------------------------------------------------------------------------------------

# The first packets wait for address resolution, which crosses the link too, so one exchange
# precedes the measured ones. One measurement uses ICMP, which the kernel answers; the other uses an
# echo program, which must be woken.
PING = (
    "{load} ping --to {left}:9000 -4 --count 1 >/dev/null; "
    "{load} ping --icmp --to {left}:9000 -4 --count COUNT --interval 0.01 --json "
    "--out {out}/icmp.json; "
    "{load} ping --to {left}:9000 -4 --count COUNT --interval 0.01 --json --out {out}/program.json"
)
ECHO = "{load} echo --bind 0.0.0.0:9000"
ANSWERS = {"icmp": "ICMP", "program": "echo program"}


def round_trips(arm: Arm, count: int) -> dict[str, dict]:
    found = arm.run(ECHO, PING.replace("COUNT", str(count)))
    # Programs inside Mahimahi's shells cannot open an ICMP socket.
    return {kind: found[kind] for kind in ANSWERS if kind in found}


def delay(quick: bool) -> Iterator[Row]:
    """Round-trip times with a delay of 20 ms in each direction and with none, compared with plain
    veth in the same run.
    """
    count = 100 if quick else 200
    with Arm() as veth:
        base = {kind: answers["rtt_ns"] for kind, answers in round_trips(veth, count).items()}
    for kind, rtt in base.items():
        value = f"{rtt['p50'] / 1000:.0f} / {rtt['p99'] / 1000:.0f}"
        yield Row(
            "delay",
            "plain veth",
            f"{ANSWERS[kind]}: RTT p50 / p99",
            value,
            "us",
            "",
            ECHO + " | " + PING,
        )

    def against(due_us: float) -> Callable[[Arm], Iterator[Row]]:
        def work(arm: Arm) -> Iterator[Row]:
            for kind, answers in round_trips(arm, count).items():
                rtt = answers["rtt_ns"]
                # The reference is the median of veth, which a single late answer does not change.
                over = [rtt[k] / 1000 - due_us - base[kind]["p50"] / 1000 for k in ("p50", "p99")]
                what = (
                    f"RTT above {due_us / 1000:.0f} ms + veth, p50 / p99"
                    if due_us
                    else "zero delay adds to veth's RTT, p50 / p99"
                )
                yield Row(
                    "delay",
                    arm.name,
                    f"{ANSWERS[kind]}: {what}",
                    f"{over[0]:+.0f} / {over[1]:+.0f}",
                    "us",
                    "0",
                    arm.command,
                )
                if answers["lost"]:
                    yield Row(
                        "delay",
                        arm.name,
                        f"{ANSWERS[kind]}: pings lost",
                        answers["lost"],
                        "",
                        "0",
                        arm.command,
                    )

        return work

    both = "--uplink-delay 20ms --downlink-delay 20ms"
    for arm in (
        WeirPair("delay 20ms"),
        WeirBridge("delay 20ms"),
        Mahimahi("mm-delay 20"),
        Rattan(both),
    ):
        yield from measured(arm, against(40_000))
    for arm in (Bridge(), WeirPair(""), WeirBridge(""), Mahimahi("mm-delay 0"), Rattan()):
        yield from measured(arm, against(0))


# -- (b) rate --------------------------------------------------------------------------------------


def stream(arm: Arm, pace: str, size: int, seconds: float, extra: str = "") -> dict:
    """Traffic from right to left.

    The sender sleeps after sending until the receiver has noticed the end.
    """
    recv = f"{{load}} recv --bind 0.0.0.0:9000 --idle 0.7 {extra} --json --out {{out}}/recv.json"
    send = (
        f"{{load}} send --to {{left}}:9000 -4 {pace} --size {size} --seconds {seconds} --json "
        "--out {out}/send.json; sleep 2.5"
    )
    return arm.run(recv, send)


def rates(quick: bool) -> Iterator[Row]:
    """Throughput of a saturated link compared with its rate, and how regular its departures are."""
    seconds = 2 if quick else 5
    for label, rate in (
        ("10 Mbit/s", 10_000_000),
        ("100 Mbit/s", 100_000_000),
        ("1 Gbit/s", 1_000_000_000),
    ):
        # The load exceeds the rate, so that the queue stays full when the sender pauses briefly.
        offered = f"--rate {rate * 3 // 2}" if rate < 1_000_000_000 else f"--rate {rate * 6 // 5}"

        def work(
            arm: Arm, rate: int = rate, label: str = label, offered: str = offered
        ) -> Iterator[Row]:
            got = stream(arm, offered, 1500, seconds, f"--burst-rate {rate}")["recv"]
            layer2 = isinstance(arm, Tbf | Ifb)
            exact = rate * 1500 / (1500 + ETHERNET) if layer2 else rate
            error = (got["bits_per_second"] / exact - 1) * 100
            accounting = "layer 2" if layer2 else "layer 3"
            yield Row(
                "rate",
                arm.name,
                f"{label}: throughput ({accounting} rate), error",
                f"{got['bits_per_second'] / 1e6:.3f} Mbit/s, {error:+.3f} %",
                "",
                f"{exact / 1e6:.3f}",
                arm.command,
            )
            if rate == 10_000_000:
                gaps, ideal = (
                    got["gap_ns"],
                    (1500 + (ETHERNET if layer2 else 0)) * 8 * 1000 / 10_000,
                )
                yield Row(
                    "rate",
                    arm.name,
                    "10 Mbit/s: gaps p1 / p50 / p99",
                    f"{gaps['p1'] / 1000:.0f} / {gaps['p50'] / 1000:.0f} / "
                    f"{gaps['p99'] / 1000:.0f}",
                    "us",
                    f"{ideal:.0f}",
                    arm.command,
                )
            yield Row(
                "rate",
                arm.name,
                f"{label}: bucket that would have passed it",
                got["burst_bytes"],
                "bytes",
                "1500 + lateness × rate",
                arm.command,
            )
            if got["socket_drops"]:
                yield Row(
                    "rate",
                    arm.name,
                    f"{label}: lost in the receiver's socket",
                    got["socket_drops"],
                    "packets",
                    "0",
                    arm.command,
                )

        spec = f"bw {rate}bit/s"
        for arm in (WeirPair(spec), WeirBridge(spec), Tbf(rate), Ifb(rate)):
            yield from measured(arm, work)
        trace = mahimahi_trace(rate)
        # Mahimahi's default queue is unbounded. Packets that are still in it when the sender ends
        # are lost.
        queue = "--uplink-queue=droptail --uplink-queue-args=packets=100"
        yield from measured(Mahimahi(f"mm-link {trace} {trace} {queue}"), work)
        same = f"--uplink-bandwidth {rate // 1_000_000}Mbps --uplink-queue droptail"
        yield from measured(Rattan(f'{same} --uplink-queue-args {{"packet_limit":100}}'), work)


def mahimahi_trace(rate: int) -> Path:
    """A trace of constant rate: delivery opportunities of 1504 bytes, spread over one second at
    whole milliseconds.
    """
    path = ROOT / "target" / f"mahimahi-{rate}.trace"
    path.parent.mkdir(exist_ok=True)
    number = max(1, round(rate / 8 / 1504))
    path.write_text("".join(f"{(i + 1) * 1000 // number}\n" for i in range(number)))
    return path


# -- (c) ceiling -----------------------------------------------------------------------------------


def ceiling(quick: bool) -> Iterator[Row]:
    """Small packets per second, and TCP throughput without a rate limit."""
    seconds = 2 if quick else 5

    def small(arm: Arm) -> Iterator[Row]:
        got = stream(arm, "--flood", 64, seconds)
        sent, recv = got["send"], got["recv"]
        loss = 100 * (1 - recv["received"] / max(1, sent["packets"]))
        rate = recv["packets_per_second"] / 1000
        offered = sent["packets"] / (sent["span_ns"] / 1e9) / 1000
        yield Row(
            "ceiling",
            arm.name,
            "64-byte packets received, of those sent, lost",
            f"{rate:.0f} k/s of {offered:.0f} k/s, {loss:.1f} %",
            "",
            "",
            arm.command,
        )

    def trains(arm: Arm) -> Iterator[Row]:
        # System calls limit a sender of single packets. Offload trains remove this limit; the link
        # still shapes each packet.
        got = stream(arm, "--pps 600000 --train 16", 64, seconds)
        sent, recv = got["send"]["packets"], got["recv"]
        loss = 100 * (1 - (recv["received"] + recv["socket_drops"]) / max(1, sent))
        figure = "64-byte packets in trains of 16, 600,000/s offered: sent, lost on the way"
        yield Row(
            "ceiling",
            arm.name,
            figure,
            f"{sent / got['send']['span_ns'] * 1e6:.0f} k/s, {loss:.2f} %",
            "",
            "600 k/s, 0 %",
            arm.command,
        )

    def tcp(arm: Arm) -> Iterator[Row]:
        server = "iperf3 -s -1"
        client = f"iperf3 -c {{left}} -t {seconds} -J > {{out}}/iperf.json"
        sums = arm.run(server, client)["iperf"]["end"]
        how = (
            ", each packet shaped"
            if "gso split" in arm.command
            else ", trains whole"
            if "gso whole" in arm.command
            else ""
        )
        yield Row(
            "ceiling",
            arm.name,
            f"TCP, no limit{how}",
            f"{sums['sum_received']['bits_per_second'] / 1e9:.2f}",
            "Gbit/s",
            "",
            f"{arm.command}; {server} | iperf3 -c",
        )

    fast = mahimahi_trace(10_000_000_000)
    for work, arms in (
        (small, (Arm(), Bridge(), WeirPair(""), WeirBridge(""), Mahimahi("mm-delay 0"), Rattan())),
        (trains, (Arm(), Bridge(), WeirPair(""), WeirBridge(""), Mahimahi("mm-delay 0"), Rattan())),
        (
            tcp,
            (
                Arm(),
                Bridge(),
                WeirPair("gso split"),
                WeirPair("gso whole"),
                WeirBridge("gso split"),
                WeirBridge("gso whole"),
                Mahimahi("mm-delay 0"),
                Mahimahi(f"mm-link {fast} {fast}"),
                Rattan(),
            ),
        ),
    ):
        for arm in arms:
            yield from measured(arm, work)


# -- (d) impairments -------------------------------------------------------------------------------


def chance(quick: bool) -> Iterator[Row]:
    """Loss, duplication and corruption compared with their probability, and two runs with the same
    seed.
    """
    count = 20_000 if quick else 100_000
    p = 0.01
    sigma = sqrt(count * p * (1 - p))

    def numbered(spec: str) -> tuple[str, dict]:
        with WeirPair(spec, seed=7) as arm:
            recv = (
                f"{{load}} recv --bind 0.0.0.0:9000 --idle 0.7 --sent {count} --list-lost --json "
                "--out {out}/recv.json"
            )
            send = (
                f"sleep 0.3; {{load}} send --to {{left}}:9000 -4 --pps 25000 --size 200 "
                f"--count {count} --json --out {{out}}/send.json; sleep 2.5"
            )
            return arm.command, arm.run(recv, send)["recv"]

    def row(figure: str, spec: str, hits: int) -> Row:
        verdict = f"{hits}, {(hits - count * p) / sigma:+.1f} σ"
        return Row(
            "chance",
            "weir pair",
            figure,
            verdict,
            "packets",
            f"{count * p:.0f} ± {3 * sigma:.0f} (3 σ)",
            f"weir pair --link '{spec}' --seed 7",
        )

    def work(_: Arm) -> Iterator[Row]:
        command, first = numbered("loss 1%")
        yield row(f"loss 1 % of {count}", "loss 1%", first["lost"])
        _, second = numbered("loss 1%")
        same = first.get("lost_sequences") == second.get("lost_sequences")
        yield Row(
            "chance",
            "weir pair",
            "same seed, same packets lost",
            "yes" if same else "no",
            "",
            "yes",
            command,
        )
        _, twice = numbered("dup 1%")
        yield row(f"duplication 1 % of {count}", "dup 1%", twice["duplicated"])
        _, damaged = numbered("corrupt 1%")
        # A corrupted packet passes only if the inverted bit makes the UDP checksum zero. A zero
        # means that the packet has no checksum. IP or UDP discards all other corrupted packets.
        yield row(f"corruption 1 % of {count}, refused by UDP", "corrupt 1%", damaged["lost"])

    yield from measured(WeirPair(""), work)


# -- (e) the engine alone --------------------------------------------------------------------------


def engine(quick: bool) -> Iterator[Row]:
    """The engine's own benches, from the files that `cargo bench -p weir-core` writes."""
    command = ["cargo", "bench", "-q", "-p", "weir-core", "--benches"] + (
        ["--", "--quick"] if quick else []
    )
    found = sorted((TARGET / "criterion").glob("**/new/estimates.json"))
    if not found:
        subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        found = sorted((TARGET / "criterion").glob("**/new/estimates.json"))
    if not found:
        yield Row(
            "engine", "weir-core", "not measured", "no bench results", "", "", " ".join(command)
        )
    for path in found:
        name = "/".join(path.relative_to(TARGET / "criterion").parts[:-2])
        nanos = json.loads(path.read_text())["median"]["point_estimate"]
        yield Row("engine", "weir-core", name, f"{nanos:.1f}", "ns", "", " ".join(command))


# -- (f) rules -------------------------------------------------------------------------------------


def rules(quick: bool) -> Iterator[Row]:
    """Rules and workers: 64-byte packets to 10,000 addresses over a bridge; one rule creates a pipe
    for each address.
    """
    seconds = 2 if quick else 5

    def flood(arm: Arm, label: str, pace: str) -> Iterator[Row]:
        before = arm.cpu_seconds()
        count = (
            f"sleep {seconds + 1.5}; "
            "cat /sys/class/net/l0/statistics/rx_packets > {out}/received.json"
        )
        spray = (
            f"{{load}} spray r0 --customers 10000 --size 64 --seconds {seconds} {pace} --json "
            "--out {out}/spray.json; sleep 2"
        )
        got = arm.run(count, spray)
        busy = arm.cpu_seconds() - before
        sent, received = got["spray"], got["received"]
        span = sent["span_ns"] / 1e9
        loss = max(0.0, 100 * (1 - received / sent["packets"]))
        value = (
            f"{received / span / 1000:.0f} k/s, {loss:.1f} %; {busy / span * 100:.0f} %, "
            f"{busy / max(1, received) * 1e6:.2f} us"
        )
        yield Row(
            "rules",
            arm.name,
            f"{label}: received, lost; processor, per packet",
            value,
            "",
            "",
            arm.command,
        )

    masked = (
        "pipe 1 config bw 100Mbit/s delay 1ms mask dst-ip 0xffffffff\n"
        "add 100 pipe 1 ip from any to any in\n"
    )
    arms = (
        ("no rules, one pipe", lambda: WeirBridge("bw 10Gbit/s delay 1ms")),
        ("one rule, no pipe", lambda: WeirBridge(rules="add 100 count ip from any to any in\n")),
        ("a pipe for each of 10,000", lambda: WeirBridge(rules=masked)),
        ("a pipe for each of 10,000, 2 workers", lambda: WeirBridge(rules=masked, workers=2)),
    )
    for pace, offered in (("--pps 200000", "200 k/s offered"), ("", "flood")):
        for label, arm in arms:
            yield from measured(
                arm(),
                lambda arm, label=label, pace=pace, offered=offered: flood(
                    arm, f"{offered}, {label}", pace
                ),
            )


def changes(quick: bool) -> Iterator[Row]:
    """Changes per second that a daemon acknowledges (each is on disk and in force), and the packets
    that the traffic loses meanwhile.
    """
    seconds = 2 if quick else 5

    def under(clients: int) -> Callable[[Arm], Iterator[Row]]:
        def work(arm: WeirServe) -> Iterator[Row]:
            first = arm.connect()
            arm.post(
                first,
                "pipe 1 config bw 1Gbit/s delay 5ms queue 1000\n"
                "add 100 pipe 1 ip from any to any in",
            )
            end, done, refused = time.monotonic() + seconds + 2, [0] * clients, [0] * clients

            def change(client: int) -> None:
                connection = arm.connect()
                while time.monotonic() < end:
                    rate = 1000 + (done[client] + client) % 10
                    status = arm.post(
                        connection, f"pipe 1 config bw {rate}Mbit/s delay 5ms queue 1000"
                    )
                    (done if status == 200 else refused)[client] += 1

            threads = [threading.Thread(target=change, args=(client,)) for client in range(clients)]
            for thread in threads:
                thread.start()
            began = end - seconds - 2
            got = stream(arm, "--rate 50000000", 1000, seconds)
            for thread in threads:
                thread.join()
            span = time.monotonic() - began
            lost = got["send"]["packets"] - got["recv"]["received"] - got["recv"]["socket_drops"]
            value = (
                f"{sum(done) / span:.0f}/s, {sum(refused)} refused; "
                f"{lost} of {got['send']['packets']} packets"
            )
            yield Row(
                "changes",
                arm.name,
                f"{clients} clients change a pipe's rate: acknowledged; traffic lost",
                value,
                "",
                "",
                arm.command,
            )

        return work

    for clients in (1, 16, 64):
        yield from measured(WeirServe(), under(clients))


# The program of one client: it changes a link at a given pace, and prints the time of each change
# in s.
CLIENT = """
import http.client, json, socket, sys, time
path, number, seconds, pace = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
connection = http.client.HTTPConnection("weir")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(path)
took, due = [], time.monotonic()
end = due + seconds
while time.monotonic() < end:
    n = len(took)
    time.sleep(max(0, due - time.monotonic()))
    due += pace
    words = [
        f"bw {40 + n % 20}Mbit/s",
        f"delay {5 + n % 5}ms",
        f"queue {20000 + n}",
        f"burst {1 + n % 20}KB",
    ][number]
    headers = {"Content-Type": "application/json"}
    began = time.monotonic()
    connection.request("PATCH", "/v1/links/to-left", json.dumps({"words": words}), headers)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, answer.status
    took.append(time.monotonic() - began)
print(json.dumps(took))
"""


def links(quick: bool) -> Iterator[Row]:
    """Four clients change a session's link at once, each by another keyword, while a TCP transfer
    fills the queue. The rows show the pace of the changes, the packets that the transfer loses, and
    how late its packets leave.
    """
    seconds = 3 if quick else 10
    arms = (
        ("no changes", 0, 0.0),
        ("4 clients, 250 changes/s each", 4, 0.004),
        ("4 clients, as fast as answered", 4, 0.0),
    )

    def under(label: str, count: int, pace: float) -> Callable[[Arm], Iterator[Row]]:
        def work(arm: WeirPair) -> Iterator[Row]:
            found: dict = {}
            runner = threading.Thread(
                target=lambda: found.update(
                    arm.run(
                        "iperf3 -s -1 >/dev/null",
                        f"iperf3 -c left -t {seconds + 4} >/dev/null",
                        own=True,
                    )["weir"]
                )
            )
            runner.start()
            time.sleep(1.5)
            began = time.monotonic()
            clients = [
                subprocess.Popen(
                    [
                        sys.executable,
                        "-c",
                        CLIENT,
                        str(arm.control()),
                        str(number),
                        str(seconds),
                        str(pace),
                    ],
                    stdout=subprocess.PIPE,
                )
                for number in range(count)
            ]
            took = sorted(
                time for client in clients for time in json.loads(client.communicate()[0])
            )
            span = time.monotonic() - began
            runner.join()
            link = next(link for link in found["links"] if link["name"] == "to-left")
            accounted = link["packets_out"] + sum(link["drops"].values()) + link["backlog_packets"]
            balance = (
                "balances"
                if accounted == link["packets_in"] + link["duplicated"]
                else "DOES NOT BALANCE"
            )
            if took:
                each = (
                    f"{took[len(took) // 2] * 1e3:.2f} / {took[len(took) * 99 // 100] * 1e3:.2f} ms"
                )
                yield Row(
                    "links",
                    arm.name,
                    f"{label}: made",
                    f"{len(took) / span:.0f}/s, each p50 / p99 {each}",
                    "",
                    "",
                    arm.command,
                )
            drops = f"{sum(link['drops'].values())} of {link['packets_in']}, accounting {balance}"
            yield Row("links", arm.name, f"{label}: packets dropped", drops, "", "0", arm.command)
            late = " / ".join(
                f"{link['lateness_ns'][key] / 1e3:.0f}" for key in ("p50", "p99", "max")
            )
            yield Row(
                "links", arm.name, f"{label}: lateness p50 / p99 / max", late, "us", "", arm.command
            )
            why = [
                f"{cause['cause']} {cause['time_ns'] / 1e6:.0f} ms"
                for cause in found.get("late_causes", [])
            ]
            yield Row(
                "links",
                arm.name,
                f"{label}: why packets were late",
                ", ".join(why) or "none was",
                "",
                "",
                arm.command,
            )

        return work

    for arm in arms:
        yield from measured(WeirPair("bw 50Mbit/s delay 5ms queue 20000"), under(*arm))


MEASUREMENTS = {
    "delay": delay,
    "rate": rates,
    "ceiling": ceiling,
    "chance": chance,
    "engine": engine,
    "rules": rules,
    "changes": changes,
    "links": links,
}
# The measurements that need no `weir-load`.
WITHOUT_LOAD = {"links"}
