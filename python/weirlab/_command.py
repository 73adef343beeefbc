"""The command `weir` of this package, and measurements by the command or in this process: the rig,
conformance cases and published experiments."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from . import _native
from ._algorithms import Algorithm, is_algorithm, name_of
from ._errors import CommandError
from ._scenario import whole

Metric: TypeAlias = Literal["time", "instr", "memory", "wfi", "delay"]
Verdict: TypeAlias = Literal["holds", "differs", "cannot_be_judged"]

USAGE = 2
"""The exit code for refused arguments."""

# The defaults for schedulers in Python: those of `weir rig --quick`.
_FLOWS = "1k:w1"
_RUNS = 3
_PAIRS = 200_000


def find_weir() -> str:
    """The path of the command ``weir``: that of the environment variable ``WEIRLAB_COMMAND``, the
    one that was installed with this package, or the first one on ``PATH``.

    Raises:
        FileNotFoundError: There is none.

    >>> import weirlab as wl
    >>> wl.find_weir().endswith("weir")
    True
    """
    if chosen := os.environ.get("WEIRLAB_COMMAND"):
        return chosen
    scripts = [sysconfig.get_path("scripts")]
    if "posix_user" in sysconfig.get_scheme_names():
        scripts.append(sysconfig.get_path("scripts", "posix_user"))
    for folder in scripts:
        path = os.path.join(folder, "weir")
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("weir")
    if found is None:
        raise FileNotFoundError("the command weir is neither beside this package nor on PATH")
    return found


@dataclass(frozen=True)
class Rig:
    """Measurements of schedulers in isolation.

    ``polars.DataFrame(rig.runs)`` or ``pandas.DataFrame(rig.runs)`` makes a table of them.
    """

    runs: tuple[dict[str, Any], ...]
    """A dictionary for each scheduler with each set of flows: ``alg``, ``flows``,
    ``ns_per_pair``, …, as ``weir rig --json`` writes them; docs/results.md explains the keys."""


def rig(
    algorithms: str | Algorithm | Iterable[str | Algorithm] = "all",
    *,
    flows: str | Iterable[str] = (),
    metric: Metric | Iterable[Metric] = "time",
    order: str = "ramp",
    batch: int = 1,
    seed: int = 1,
    runs: int | None = None,
    pairs: int | None = None,
    quick: bool = False,
) -> Rig:
    """Measures schedulers in isolation: the cost per packet, and the service of each flow.

    Args:
        algorithms: Names with settings, such as ``"qfq+:m=1"``; ``"none"`` is the rig alone,
            ``"all"`` every scheduler. A subclass of :class:`Scheduler` is measured in this process,
            by default with the numbers of packets and runs of `quick`.
        flows: Sets of flows, such as ``"500:w1,250:w2"``; by default ``"1k:w1"``.
        metric: ``time`` (processor time in ns), ``instr`` (needs valgrind), ``memory`` (bytes),
            ``wfi`` (worst-case fairness index), ``delay``.
        order: Order of arrivals: ``ramp``, ``random``, ``zipf``, ``bursty`` or ``trace:FILE``.
        batch: Number of packets that are enqueued at once, and dequeued at once.
        seed: Seed of all random draws.
        runs: Number of runs for times; the result is their median.
        pairs: Packets per run; a pair is one enqueue and one dequeue.
        quick: Whether to use fewer packets and runs.

    Raises:
        ValueError: An argument is refused; the message says what is allowed.
        CommandError: The measurement failed.

    >>> import weirlab as wl
    >>> found = wl.rig(["fifo", "scfq"], flows="16:w1", metric="wfi", pairs=1000)
    >>> [run["alg"] for run in found.runs]
    ['fifo', 'scfq']
    """
    listed = [algorithms] if isinstance(algorithms, str) else algorithms
    every = cast(
        "list[str | Algorithm]",
        [listed] if is_algorithm(listed) else list(cast("Iterable[str | Algorithm]", listed)),
    )
    # The rows of each scheduler, by its index in `every`.
    here: dict[int, list[dict[str, Any]]] = {}
    named = [cast(str, each) for each in every if not is_algorithm(each)]
    for number, each in enumerate(every):
        if is_algorithm(each):
            name = name_of(cast(Algorithm, each))
            here[number] = _rig_here(name, flows, metric, order, batch, seed, runs, pairs)
    if not named and here:
        return Rig(tuple(_by_set([here[number] for number in range(len(every))])))
    words = ["rig", "--quiet", "--json", "-", f"--alg={_joined(named, 'algorithms')}"]
    words += [f"--flows={each}" for each in _listed(flows, "flows")]
    words += [f"--metric={_joined(metric, 'metric')}", f"--gen={order}"]
    words += [f"--batch={whole(batch, 'batch')}", f"--seed={whole(seed, 'seed')}"]
    for option, count in (("runs", runs), ("pairs", pairs)):
        if count is not None:
            words.append(f"--{option}={whole(count, option)}")
    if quick:
        words.append("--quick")
    document = json.loads(run_weir(words))
    found: list[dict[str, Any]] = document["runs"]
    if not here:
        return Rig(tuple(found))
    if len({str(row["alg"]) for row in found}) != len(named):
        raise ValueError("algorithms: with a scheduler in Python, each name may occur only once")
    for at, number in enumerate(number for number in range(len(every)) if number not in here):
        here[number] = found[at :: len(named)]
    return Rig(tuple(_by_set([here[number] for number in range(len(every))])))


def _by_set(rows: Sequence[Sequence[dict[str, Any]]]) -> Iterable[dict[str, Any]]:
    """Reorders rows grouped by scheduler: for each set of flows, the rows of all schedulers."""
    return (row for of_set in zip(*rows, strict=True) for row in of_set)


def _rig_here(
    name: str,
    flows: str | Iterable[str],
    metric: Metric | Iterable[Metric],
    order: str,
    batch: int,
    seed: int,
    runs: int | None,
    pairs: int | None,
) -> list[dict[str, Any]]:
    """Measures a scheduler in Python, in this process."""
    metrics = _listed(metric, "metric")
    for each in metrics:
        if each not in ("time", "wfi", "delay"):
            raise ValueError(f"metric: `{each}` of a scheduler in Python cannot be measured")
    request: _native.RigRequest = {
        "algorithm": name,
        "flows": _listed(flows, "flows") or [_FLOWS],
        "order": order,
        "batch": whole(batch, "batch"),
        "seed": whole(seed, "seed"),
        "runs": _RUNS if runs is None else whole(runs, "runs"),
        "pairs": _PAIRS if pairs is None else whole(pairs, "pairs"),
        "service_packets": None if pairs is None else whole(pairs, "pairs"),
        "times": "time" in metrics,
        "services": bool({"wfi", "delay"} & {*metrics}),
    }
    document: dict[str, Any] = json.loads(_native.rig(request))
    found: list[dict[str, Any]] = document["runs"]
    return found


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expectation of a conformance case, and the value found."""

    name: str
    line: int
    """The line in the file."""
    passed: bool
    expected: str
    found: str


@dataclass(frozen=True)
class CaseResult:
    """The result of a conformance case."""

    passed: bool
    """Whether all expectations hold."""
    expectations: tuple[Expectation, ...]
    document: dict[str, Any]
    """Everything, with the fate of each packet, as ``weir rig --case --json`` writes it."""


def case(case: str | os.PathLike[str]) -> CaseResult:
    """Plays a conformance case (docs/conformance.md): passes its packets through a scheduler or
    AQM, and compares the outcome with its expectations.

    Args:
        case: The path of the file, or its text (of several lines).

    Raises:
        ValueError: The case has an error; the message has the line.
        OSError: The file cannot be read.

    >>> import weirlab as wl
    >>> wl.case("headdrop.toml").passed
    True
    """
    if not isinstance(case, (str, os.PathLike)):
        raise TypeError(f"case: expected a path or a text, not {type(case).__name__}")
    if isinstance(case, str) and "\n" in case:
        text, name = case, "<text>"
    else:
        text, name = Path(case).read_text(encoding="utf-8"), os.fspath(case)
    document: dict[str, Any] = json.loads(_native.play_case(text, name))
    found = (
        Expectation(**{key: item[key] for key in Expectation.__slots__})
        for item in document["expectations"]
    )
    return CaseResult(document["passed"], tuple(found), document)


@dataclass(frozen=True, slots=True)
class Claim:
    """A published claim and the verdict on it."""

    claim: str
    """The claim in words."""
    verdict: Verdict
    holds: bool | None
    """None if the claim cannot be judged."""
    measured: str | None
    """The measured values in words."""
    seeds: str
    provenance: Mapping[str, Any]
    """Where the claim comes from."""
    conditions: tuple[Mapping[str, Any], ...]
    """The conditions of the claim, each with its measured quantity and its interval."""


@dataclass(frozen=True)
class Reproduction:
    """The results of a published experiment that Weir has repeated."""

    title: str
    claims: tuple[Claim, ...]
    document: dict[str, Any]
    """Everything, tables included, as ``weir reproduce --out`` writes it."""

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each claim."""
        return {claim.claim: claim.verdict for claim in self.claims}


def reproduce(
    name: str, *, quick: bool = False, out: str | os.PathLike[str] | None = None
) -> Reproduction:
    """Repeats a published experiment, and judges its claims by 95 % intervals.

    Args:
        name: The experiment, such as ``"s10"``; ``weir reproduce --list`` shows all.
        quick: Whether to make fewer and shorter runs: wider intervals in a tenth of the time.
        out: A directory for the page, the plots and the document.

    Raises:
        ValueError: There is no such experiment.
        CommandError: The experiment cannot run on this machine.

    >>> import weirlab as wl
    >>> wl.reproduce("s11")
    Traceback (most recent call last):
        ...
    ValueError: there is no experiment `s11`: allowed are ...
    """
    if not isinstance(name, str):
        raise TypeError(f"name: expected a text, not {type(name).__name__}")
    if name.startswith("-") or name == "all" or not name:
        raise ValueError(f"there is no experiment `{name}`")
    with tempfile.TemporaryDirectory(prefix="weirlab-") as scratch:
        directory = Path(scratch if out is None else out)
        words = ["reproduce", name, "--quiet", "--out", os.fspath(directory)]
        run_weir([*words, "--quick"] if quick else words)
        # The name of the file may differ in the case of its letters.
        written = (path for path in directory.glob("*.json") if path.stem.lower() == name.lower())
        document: dict[str, Any] = json.loads(next(written).read_text(encoding="utf-8"))
    return Reproduction(document["title"], tuple(map(_claim, document["claims"])), document)


def run_weir(words: Sequence[str]) -> str:
    """Runs the command and returns what it prints.

    Raises:
        ValueError: The command refuses its arguments.
        CommandError: The command failed.
    """
    done = subprocess.run([find_weir(), *words], stdin=subprocess.DEVNULL, capture_output=True)
    return outcome(done.returncode, done.stdout, done.stderr)


def outcome(status: int, printed: bytes, errors: bytes) -> str:
    """Returns what a command printed.

    Raises:
        ValueError: The command refused its arguments.
        CommandError: The command failed.
    """
    if status == 0:
        return printed.decode(errors="replace")
    message = errors.decode(errors="replace").strip()
    message = message.removeprefix("weir: ").removeprefix("error: ")
    if status == USAGE:
        raise ValueError(message)
    raise CommandError(message or f"weir ended with status {status}", status)


def _claim(item: Mapping[str, Any]) -> Claim:
    fields: dict[str, Any] = {key: item[key] for key in Claim.__slots__}
    fields["conditions"] = tuple(item["conditions"])
    return Claim(**fields)


def _listed(words: str | Iterable[str], where: str) -> list[str]:
    listed = [words] if isinstance(words, str) else list(words)
    for word in listed:
        if not isinstance(word, str):
            raise TypeError(f"{where}: expected texts, not {type(word).__name__}")
    return listed


def _joined(words: str | Iterable[str], where: str) -> str:
    joined = ",".join(_listed(words, where))
    if not joined:
        raise ValueError(f"{where}: at least one is needed")
    return joined
