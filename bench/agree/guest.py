"""Live runs in a guest. Its clock counts instructions, so other work does not change the results.

qemu emulates one processor that takes 1 ns for an instruction (`-icount`): all times in the guest,
including those of its kernel's TCP, follow from the executed instructions. The guest runs a kernel
of `kernel/prepare` and Weir, and nothing else.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

MODULES = ["9p", "9pnet_virtio", "virtio_pci", "tun", "veth"]
APPLETS = ["sh", "mount", "cat", "modprobe", "poweroff", "sync", "mkdir", "cp", "ip"]
INIT = """#!/bin/sh
export PATH=/bin HOME=/tmp
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp; mount -t tmpfs run /run; mount -t cgroup2 cgroup /sys/fs/cgroup
for module in 9pnet_virtio virtio_pci 9p tun veth; do modprobe $module; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /share || poweroff -f
ip link set lo up
cp /share/* /tmp; cd /tmp
. ./jobs >/share/out/log 2>&1
sync; poweroff -f
"""
APPEND = (
    "console=ttyS0 quiet ipv6.disable=1 tsc=reliable nowatchdog no_timer_check panic=-1 "
    "mitigations=off"
)


class Guest:
    """A guest. `kernel` is a directory that `kernel/prepare SERIES` has made."""

    def __init__(self, kernel: Path, weir: Path, work: Path) -> None:
        self.kernel, self.work = kernel.resolve(), work
        self.release = (kernel / "release").read_text().strip()
        tree = work / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        for name in ["bin", "proc", "sys", "dev", "share", "tmp", "run"]:
            (tree / name).mkdir(parents=True)
        shutil.copy(found("busybox"), tree / "bin/busybox")
        for applet in APPLETS:
            (tree / "bin" / applet).symlink_to("busybox")
        subprocess.run(["strip", "-o", tree / "bin/weir", weir], check=True)
        for library in re.findall(r"/\S+", output("ldd", weir)):
            if "/" in library and Path(library).exists():
                place = tree / library.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, place)
        self.copy_modules(tree)
        (tree / "init").write_text(INIT)
        (tree / "init").chmod(0o755)
        with open(work / "initrd", "wb") as archive:
            names = output("find", ".", cwd=tree)
            subprocess.run(
                ["cpio", "-o", "-H", "newc", "--quiet"],
                cwd=tree,
                input=names.encode(),
                stdout=archive,
                check=True,
            )

    def copy_modules(self, tree: Path) -> None:
        root = self.kernel / f"root-{self.release}"
        for module in MODULES:
            words = ["modprobe", "-d", root, "-S", self.release, "--show-depends", module]
            shown = subprocess.run(
                words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
            ).stdout
            for file in re.findall(r"^insmod (\S+)", shown, re.M):
                into = tree / "lib/modules" / self.release / file.split(f"/{self.release}/", 1)[1]
                into.parent.mkdir(parents=True, exist_ok=True)
                if file.endswith(".xz"):
                    into.with_suffix("").write_bytes(
                        subprocess.run(
                            ["xz", "-dc", file], stdout=subprocess.PIPE, check=True
                        ).stdout
                    )
                else:
                    shutil.copy(file, into)
        subprocess.run(["depmod", "-b", tree, self.release], stderr=subprocess.DEVNULL, check=True)

    def live(self, files: list[Path], commands: list[list[str]]) -> list[dict]:
        """Runs `weir live` once for each list of arguments; returns the runs of all results."""
        share = self.work / "share"
        shutil.rmtree(share, ignore_errors=True)
        (share / "out").mkdir(parents=True)
        for file in files:
            shutil.copy(file, share)
        jobs = []
        for number, words in enumerate(commands):
            quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
            # A waiting thread that spins would use up the guest's only processor.
            jobs.append(f"weir live {quoted} --spin off --quiet --out {number}")
            jobs.append(f"cp {number}/summary.json /share/out/{number}.json")
        (share / "jobs").write_text("\n".join(jobs) + "\n")
        words = [
            "qemu-system-x86_64",
            "-accel",
            "tcg",
            "-icount",
            "shift=0,sleep=off",
            "-cpu",
            "max",
            "-m",
            "1024",
            "-smp",
            "1",
            "-nographic",
            "-no-reboot",
            "-net",
            "none",
            "-kernel",
            self.kernel / "vmlinuz",
            "-initrd",
            self.work / "initrd",
            "-append",
            APPEND,
            "-virtfs",
            f"local,path={share},mount_tag=share,security_model=none",
        ]
        with open(self.work / "console", "w") as console:
            subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=console, stderr=console, check=True
            )
        results = [share / f"out/{number}.json" for number in range(len(commands))]
        missing = [result.stem for result in results if not result.exists()]
        if missing:
            raise SystemExit(
                f"the guest gave no results of {', '.join(missing)}:\n"
                f"{(share / 'out/log').read_text()}"
            )
        return [run for result in results for run in json.loads(result.read_text())["runs"]]


def found(program: str) -> str:
    place = shutil.which(program)
    if not place:
        raise SystemExit(f"{program} is missing; `scripts/setup kernel` installs it")
    return place


def output(*words: str | Path, cwd: Path | None = None) -> str:
    return subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, text=True, check=True).stdout
