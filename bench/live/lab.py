"""Test networks: two ends, left and right, connected through an arm of the comparison.

Each arm is a context manager. Its `run(left, right)` starts one shell command on each side and
returns when the right command has ended; the commands write their results to files. `{left}` in a
right command is the left end's IPv4 address. Each arm has its interfaces in network namespaces of
its own, and removes them with the namespaces.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
WEIR = Path(os.environ.get("WEIR", TARGET / "release" / "weir"))
LOAD = Path(os.environ.get("WEIR_LOAD", TARGET / "release" / "weir-load"))
LIMIT = 60  # seconds that one measurement may take


class Unavailable(Exception):
    """This arm cannot be measured here; the text gives the reason."""


def sh(command: str) -> None:
    """Runs a set-up command; its output appears only if it fails."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")


def stop(process: subprocess.Popen) -> None:
    """Ends the process group that `process` leads."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, sig)
            process.wait(3)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


class Arm:
    """Two namespaces and a veth pair between them: the upper limit for all other arms."""

    name = "plain veth"

    def __init__(self) -> None:
        self.spaces: list[str] = []
        self.background: list[subprocess.Popen] = []
        self.tmp = Path(tempfile.mkdtemp(prefix="weir-bench-"))
        self.command = ""

    def __enter__(self) -> "Arm":
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.background:
            stop(process)
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
        shutil.rmtree(self.tmp, ignore_errors=True)

    def space(self, name: str) -> str:
        full = f"wb{os.getpid()}{name}"
        sh(f"ip netns add {full}")
        self.spaces.append(full)
        sh(f"ip -n {full} link set lo up")
        return full

    def address(self) -> None:
        """Assigns addresses to both ends; `l0` and `r0` already exist."""
        for space, dev, n in ((self.left, "l0", 1), (self.right, "r0", 2)):
            sh(
                f"ip -n {space} addr add 10.201.0.{n}/24 dev {dev} && "
                f"ip -n {space} link set {dev} up"
            )

    def build(self) -> None:
        self.left, self.right = self.space("l"), self.space("r")
        sh(f"ip -n {self.left} link add l0 type veth peer name r0 netns {self.right}")
        self.address()

    def run(self, left: str, right: str) -> dict:
        """Runs one measurement.

        Returns the content of the JSON files that the commands wrote, by name.
        """
        fill = {"left": "10.201.0.1", "load": str(LOAD), "out": str(self.tmp)}
        server = self.start(["ip", "netns", "exec", self.left, "sh", "-c", left.format(**fill)])
        time.sleep(0.3)
        client = self.start(["ip", "netns", "exec", self.right, "sh", "-c", right.format(**fill)])
        try:
            client.wait(LIMIT)
            return self.results()
        finally:
            stop(client)
            stop(server)

    def start(self, argv: list[str]) -> subprocess.Popen:
        log = open(self.tmp / "log", "ab")
        return subprocess.Popen(
            argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )

    def end_of_log(self) -> str:
        """The last characters that the started programs printed."""
        return (self.tmp / "log").read_text()[-400:]

    def results(self) -> dict:
        found = {}
        for path in self.tmp.glob("*.json"):
            try:
                found[path.stem] = json.loads(path.read_text())
            except ValueError:
                pass
            path.unlink()
        if not found:
            raise RuntimeError(f"{self.name}: no result; {self.end_of_log()}")
        return found


class Bridge(Arm):
    """The kernel's bridge between two veth pairs."""

    name = "kernel bridge"

    def middle(self) -> None:
        self.left, self.mid, self.right = self.space("l"), self.space("m"), self.space("r")
        for end, space in (("l", self.left), ("r", self.right)):
            sh(f"ip -n {space} link add {end}0 type veth peer name {end}1 netns {self.mid}")
            sh(f"ip -n {self.mid} link set {end}1 up")

    def build(self) -> None:
        self.middle()
        sh(f"ip -n {self.mid} link add br0 type bridge && ip -n {self.mid} link set br0 up")
        sh(f"ip -n {self.mid} link set l1 master br0 && ip -n {self.mid} link set r1 master br0")
        self.address()


class Tbf(Arm):
    """The kernel's token bucket on both ends of a veth pair; counts Ethernet frames."""

    name = "tbf"

    def __init__(self, rate: int) -> None:
        super().__init__()
        # At high rates the kernel's timer reaches the rate only with a larger bucket.
        burst = max(3000, rate // 8 // 1000)
        self.command = f"tc qdisc add dev IF root tbf rate {rate}bit burst {burst} latency 50ms"

    def build(self) -> None:
        super().build()
        for space, dev in ((self.left, "l0"), (self.right, "r0")):
            sh(f"tc -n {space} {self.command.removeprefix('tc ').replace('IF', dev)}")


class Ifb(Arm):
    """The kernel's htb on an ifb, which shapes arrivals; counts Ethernet frames."""

    name = "htb on ifb"

    def __init__(self, rate: int) -> None:
        super().__init__()
        burst = max(3000, rate // 8 // 1000)
        size = f"burst {burst} cburst {burst}"
        self.command = f"tc class add dev IFB parent 1: classid 1:1 htb rate {rate}bit {size}"

    def build(self) -> None:
        super().build()
        for space, dev in ((self.left, "l0"), (self.right, "r0")):
            try:
                sh(f"ip -n {space} link add ifb0 type ifb")
            except RuntimeError as why:
                raise Unavailable(f"the kernel has no ifb: {why}") from why
            sh(f"ip -n {space} link set ifb0 up && tc -n {space} qdisc add dev {dev} ingress")
            every = "protocol all u32 match u32 0 0"
            redirect = "action mirred egress redirect dev ifb0"
            sh(f"tc -n {space} filter add dev {dev} parent ffff: {every} {redirect}")
            sh(f"tc -n {space} qdisc add dev ifb0 root handle 1: htb default 1")
            sh(f"tc -n {space} {self.command.removeprefix('tc ').replace('IFB', 'ifb0')}")
            sh(f"tc -n {space} qdisc add dev ifb0 parent 1:1 pfifo limit 100")


class WeirBridge(Bridge):
    """`weir bridge` between two veth pairs: packet sockets."""

    name = "weir bridge"

    def __init__(self, spec: str = "", rules: str = "", workers: int = 1) -> None:
        super().__init__()
        self.arguments = ["bridge", "l1", "r1", "--link", spec]
        self.command = f"weir bridge l1 r1 --link '{spec}'"
        if rules:
            path = self.tmp / "rules"
            path.write_text(rules)
            self.arguments = ["bridge", "l1", "r1", "--rules", str(path), "--workers", str(workers)]
            self.command = (
                f"weir bridge l1 r1 --rules FILE --workers {workers}, FILE: {rules.strip()!r}"
            )

    def build(self) -> None:
        self.middle()
        self.background.append(
            self.start(["ip", "netns", "exec", self.mid, str(WEIR), *self.arguments])
        )
        self.address()
        deadline = time.monotonic() + 10
        while subprocess.run(
            ["ip", "netns", "exec", self.right, "ping", "-c1", "-W1", "10.201.0.1"],
            capture_output=True,
            check=False,
        ).returncode:
            if time.monotonic() > deadline or self.background[-1].poll() is not None:
                raise Unavailable(f"{self.name} did not start: {self.end_of_log()}")

    def cpu_seconds(self) -> float:
        """Processor time of the bridge's threads so far."""
        fields = Path(f"/proc/{self.background[-1].pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class WeirServe(WeirBridge):
    """`weir serve` between two veth pairs, reconfigured over its socket."""

    name = "weir serve"

    def __init__(self) -> None:
        super().__init__()
        self.socket = self.tmp / "socket"
        self.arguments = [
            "serve",
            "--bridge",
            "l1,r1",
            "--socket",
            str(self.socket),
            "--state",
            str(self.tmp / "state"),
        ]
        self.command = "weir serve --bridge l1,r1"

    def post(self, connection: http.client.HTTPConnection, script: str) -> int:
        """Sends commands over a connection of `connect` and returns the status of the answer."""
        connection.request(
            "POST",
            "/v1/commands",
            json.dumps({"script": script}),
            {"Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("weir")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.socket))
        return connection


class WeirPair(Arm):
    """`weir pair`: Weir creates the namespaces, with TAP devices where possible."""

    name = "weir pair"

    def __init__(self, spec: str = "", seed: int = 1) -> None:
        super().__init__()
        self.spec, self.seed = spec, seed
        self.command = f"weir pair --link '{spec}'"

    def build(self) -> None:
        if not WEIR.exists():
            raise Unavailable(f"{WEIR} is missing: cargo build --release")

    def control(self) -> Path:
        return self.tmp / "links" / "bench.sock"

    def run(self, left: str, right: str, own: bool = False) -> dict:
        """As `Arm.run`; with `own`, the commands need not write results."""
        self.control().parent.mkdir(mode=0o700, exist_ok=True)
        fill = {
            "left": "$(getent ahostsv4 left | head -1 | cut -d' ' -f1)",
            "load": str(LOAD),
            "out": str(self.tmp),
        }
        argv = [
            "env",
            f"WEIR_LINKS_DIR={self.control().parent}",
            str(WEIR),
            "pair",
            "--name",
            "bench",
            "--link",
            self.spec,
            "--seed",
            str(self.seed),
            "--json",
            str(self.tmp / "weir.json"),
        ]
        argv += ["--left", left.format(**fill), "--right", "sleep 0.3; " + right.format(**fill)]
        process = self.start(argv)
        try:
            process.wait(LIMIT)
            found = self.results()
            if set(found) <= {"weir"} and not own:
                raise RuntimeError(f"weir pair: no result; {self.end_of_log()}")
            return found
        finally:
            stop(process)


class Shell(Arm):
    """An emulator with a link around a shell: the left end is outside, the right end inside."""

    # The variable inside the shell that holds the address of the left end.
    base = ""

    def __init__(self, shell: str) -> None:
        super().__init__()
        self.shell = shell
        self.command = shell

    def build(self) -> None:
        self.left = self.space("l")
        os.chmod(self.tmp, 0o777)

    def inside(self) -> list[str]:
        """The words that precede a command so that it runs at the right end."""
        raise NotImplementedError

    def run(self, left: str, right: str) -> dict:
        fill = {"left": self.base, "load": str(LOAD), "out": str(self.tmp)}
        server = self.start(["ip", "netns", "exec", self.left, "sh", "-c", left.format(**fill)])
        time.sleep(0.3)
        words = [*self.inside(), "sh", "-c", right.format(**fill)]
        client = self.start(["ip", "netns", "exec", self.left, *words])
        try:
            client.wait(LIMIT)
            return self.results()
        finally:
            stop(client)
            stop(server)


class Mahimahi(Shell):
    """A shell of Mahimahi, started by `scripts/mahimahi`."""

    name = "Mahimahi"
    base = "$MAHIMAHI_BASE"

    def build(self) -> None:
        tool = self.shell.split()[0]
        if not shutil.which(tool):
            raise Unavailable(f"{tool} is not installed: scripts/setup --bench")
        super().build()

    def inside(self) -> list[str]:
        words = self.shell.split()
        # mm-link also parses options after its two traces. Without `--`, it would take the options
        # of the command.
        end = ["--"] if words[0] == "mm-link" else []
        return [str(ROOT / "scripts" / "mahimahi"), "--here", *words, *end]


class Rattan(Shell):
    """`rattan link`: the program that RATTAN names, or that is in PATH. Debian has no package."""

    name = "Rattan"
    base = "$RATTAN_BASE"

    def __init__(self, options: str = "") -> None:
        super().__init__(f"rattan link {options}".strip())

    def build(self) -> None:
        self.program = os.environ.get("RATTAN") or shutil.which("rattan") or ""
        if not self.program:
            raise Unavailable(
                "rattan is not installed: build github.com/stack-rs/rattan, and set RATTAN"
            )
        super().build()

    def inside(self) -> list[str]:
        return [self.program, *self.shell.split()[1:], "--"]
