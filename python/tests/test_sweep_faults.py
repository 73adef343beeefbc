"""Campaigns on workers that fail, hang or have other clocks, on hosts of their own, and live."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import weirlab as wl
from conftest import ROOT
from test_live import namespaces_are_allowed
from test_sweep import campaign, content

cluster: Any = runpy.run_path(str(ROOT / "bench/sweep/hosts.py"))["cluster"]
need_namespaces = pytest.mark.skipif(
    not namespaces_are_allowed(), reason="network namespaces are not allowed here"
)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The runs of the campaign, from one thread."""
    store = tmp_path_factory.mktemp("expected") / "s"
    assert campaign(store).run(jobs=1).made == 12
    return content(store)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "s"
    if (tmp_path / "s").exists():
        assert not [*(tmp_path / "s/tmp").iterdir()], "what was not finished is still there"


class Failing(ThreadPoolExecutor):
    """An executor that fails its first batches for a temporary reason."""

    def __init__(self, failures: int) -> None:
        super().__init__(2)
        self.left = failures

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        tasks = args[2]
        if self.left == 0:
            return super().submit(fn, *args, **kwargs)
        self.left -= 1
        future: Future[Any] = Future()
        future.set_result(
            [
                (task[0], seed, "", 0.0, "failed", "no memory for a moment", True, False)
                for task in tasks
                for seed in task[3]
            ]
        )
        return future


def test_a_temporary_failure_is_repeated(store: Path, expected: dict[str, bytes]) -> None:
    with Failing(5) as executor:
        assert campaign(store).run(executor).made == 12
    assert executor.left == 0 and content(store) == expected


def test_a_lasting_failure_is_repeated_as_often_as_retries_says(store: Path) -> None:
    with Failing(10**6) as executor, pytest.raises(wl.SweepError) as caught:
        campaign(store).run(executor, retries=3)
    # Twelve runs, each tried four times.
    assert len(caught.value.failures) == 12
    assert {failure.reason for failure in caught.value.failures} == {"no memory for a moment"}
    assert 10**6 - executor.left == 48


class Hanging(ThreadPoolExecutor):
    """An executor with one worker that never answers, like a host without a network."""

    def __init__(self, number: int) -> None:
        super().__init__(2)
        self.until_hung = number
        self.hung: Future[Any] | None = None

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.until_hung -= 1
        if self.until_hung == 0:
            self.hung = Future()
            return self.hung
        return super().submit(fn, *args, **kwargs)


@pytest.mark.parametrize("number", [1, 6])
def test_the_batch_of_a_worker_that_hangs_goes_to_another_one(
    store: Path, expected: dict[str, bytes], number: int
) -> None:
    with Hanging(number) as executor:
        assert campaign(store).run(executor).made == 12
    assert executor.hung is not None and executor.hung.cancelled()
    assert content(store) == expected


def marked(mark: str) -> list[str]:
    """The processes with this variable in their environment."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


def test_a_killed_client_leaves_no_worker_and_loses_no_run(store: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_sweep import campaign
def show(progress):
    print(progress.made, flush=True)
if __name__ == "__main__":
    campaign(Path({str(store)!r}), seeds=100).run("processes", jobs=2, batch_s=0.1, progress=show)
"""
    program = store.parent / "study.py"
    program.write_text(code)
    for number in range(2):
        value = f"{os.getpid()}-{number}"
        mark = f"WEIR_TEST_CLIENT={value}"
        words = [sys.executable, "-P", str(program)]
        environ = {**os.environ, "WEIR_TEST_CLIENT": value}
        client = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environ)
        assert client.stdout is not None
        # The second client continues where the first was killed.
        for line in client.stdout:
            if int(line) > 4:
                break
        assert len(marked(mark)) > 2, "the client and its workers"
        client.kill()
        client.wait()
        client.stdout.close()
        end = time.monotonic() + 120
        while left := marked(mark):
            assert time.monotonic() < end, f"processes are left: {left}"
            time.sleep(0.05)
    # The campaign has so many runs that no client finishes them before it is killed.
    c = campaign(store, seeds=100)
    there = c.status().done
    assert 8 < there < 400
    assert c.run().made == 400 - there
    assert len([*(store / "runs").iterdir()]) == 400
    subprocess.run([wl.find_weir(), "sweep", "gc", "--store", str(store)], check=True)
    assert c.verify(sample=5).damaged == {}


# The source of a library for LD_PRELOAD, which shifts the clock that a program sees.
SHIFT = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, id, now);
    const char *shift = getenv("SHIFT_S");
    if (!failed && id == CLOCK_REALTIME && shift) now->tv_sec += atol(shift);
    return failed;
}
"""
TEN_YEARS_S = 315_360_000


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that gives the environment of a program whose clock is wrong by some seconds."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "shift.c").write_text(SHIFT)
    library = folder / "shift.so"
    words = [compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "shift.c")]
    subprocess.run(words, check=True)
    return lambda seconds: {**os.environ, "LD_PRELOAD": str(library), "SHIFT_S": str(seconds)}


def test_clocks_that_differ_change_nothing(
    store: Path, expected: dict[str, bytes], shifted: Any
) -> None:
    """Two clients share a store, one ten years behind and one ten years ahead, and the collection
    of garbage runs with both clocks."""
    clock = [sys.executable, "-P", "-c", "import time; print(time.time())"]
    for years in (-1, 1):
        said = subprocess.check_output(clock, env=shifted(years * TEN_YEARS_S))
        assert abs(float(said) - time.time() - years * TEN_YEARS_S) < 86_400
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_sweep import campaign
campaign(Path({str(store)!r})).run(jobs=1)
"""
    clients = [
        subprocess.Popen([sys.executable, "-P", "-c", code], env=shifted(years * TEN_YEARS_S))
        for years in (-1, 1)
    ]
    # The directory of a writer on another host that has just begun a run.
    (store / "tmp").mkdir(parents=True, exist_ok=True)
    other = store / "tmp/another-host.1.0"
    other.mkdir()
    assert [client.wait(timeout=120) for client in clients] == [0, 0]
    collect = [wl.find_weir(), "sweep", "gc", "--store", str(store)]
    for years in (-1, 1):
        subprocess.run(collect, check=True, env=shifted(years * TEN_YEARS_S))
        assert other.exists(), "a clock that is wrong removes the files of a writer"
    # By the clock of the file system, the directory has not been touched for two days.
    old = time.time() - 2 * 86_400
    os.utime(other, (old, old))
    subprocess.run(collect, check=True, env=shifted(-TEN_YEARS_S))
    assert not other.exists()
    assert content(store) == expected
    assert campaign(store).status().missing == 0


@need_namespaces
@pytest.mark.filterwarnings("ignore")
def test_workers_on_hosts_of_their_own_make_the_same_store(
    store: Path, expected: dict[str, bytes]
) -> None:
    """Each worker has its own network, its own host name and its own process numbers."""
    pytest.importorskip("distributed")
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from distributed import Client
from test_sweep import campaign
with Client(sys.argv[1]) as client:
    client.wait_for_workers(2, timeout=120)
    print(sorted({{worker["host"] for worker in client.scheduler_info()["workers"].values()}}))
    print(campaign(Path({str(store)!r})).run(client.get_executor()).made)
"""
    with cluster(2, store.parent) as (lab, scheduler):
        words = [sys.executable, "-P", "-c", code, scheduler]
        said = lab["client"].check_output(words, text=True)
    hosts, made = said.splitlines()[-2:]
    assert hosts.count("10.0.0.") == 2 and made == "12"
    assert content(store) == expected


@pytest.mark.filterwarnings("ignore")
def test_submitit_starts_a_campaign(
    tmp_path: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The local executor of submitit starts a process for each job, as Slurm would."""
    submitit = pytest.importorskip("submitit")
    # The process imports from the current directory first, and must find the installed package.
    monkeypatch.chdir(tmp_path)
    folder, store = str(Path(__file__).parent), str(tmp_path / "s")

    def run_campaign() -> int:
        sys.path.insert(0, folder)
        from test_sweep import campaign

        return campaign(Path(store)).run(jobs=2).made

    executor = submitit.AutoExecutor(folder=tmp_path / "jobs", cluster="local")
    executor.update_parameters(timeout_min=5)
    assert executor.submit(run_campaign).result() == 12
    assert content(tmp_path / "s") == expected


@pytest.mark.filterwarnings("ignore")
def test_dask_jobqueue_starts_the_workers(
    store: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The local cluster of dask-jobqueue runs its job scripts as processes, in place of Slurm."""
    distributed = pytest.importorskip("distributed")
    local = pytest.importorskip("dask_jobqueue.local")
    monkeypatch.chdir(store.parent)
    words = {"cores": 1, "processes": 1, "memory": "500MB", "interface": "lo"}
    with local.LocalCluster(
        **words,
        local_directory=str(store.parent / "dask"),
        log_directory=str(store.parent / "logs"),
        scheduler_options={"dashboard_address": None, "interface": "lo"},
    ) as cluster:
        cluster.scale(jobs=2)
        with distributed.Client(cluster) as client:
            client.wait_for_workers(2, timeout=120)
            assert campaign(store).run(client.get_executor()).made == 12
    assert content(store) == expected


def live_scenario() -> wl.Scenario:
    """Four packets: too few for a verdict that they were late, however busy this machine is."""
    return (
        wl.Scenario("few", duration="400ms")
        .host("a", "b")
        .link("a", "b", "bw 2Mbit/s delay 5ms", name="l")
        .traffic("cbr", "a", "b", name="t", rate="40kbit/s", size="500B")
    )


@need_namespaces
def test_live_runs_are_kept_with_their_lateness(store: Path) -> None:
    axes = {"link.l.spec.delay": ["5ms", "10ms"]}
    c = wl.sweep(live_scenario(), axes, seeds=2, live=True, store=store)
    result = c.run()
    # The runs take real time, one after another.
    assert result.made == 4 and result.cpu_s > 1.6
    assert c.run().there == 4
    simulated = wl.sweep(live_scenario(), axes, seeds=2, store=store)
    assert simulated.status().done == 0, "a simulation has another key"
    assert c.verify().again == 0, "no live run gives the same bytes again"
    page = store.parent / "point.html"
    c.point_report(page, 1)
    assert "<html" in page.read_text()
    pytest.importorskip("polars")
    rows = c.scan("links").collect()
    assert rows["run_departed"].to_list() == [4] * 8
    assert all(0 <= late <= 4 for late in rows["run_late"].to_list())
    assert all(longest > 0 for longest in rows["run_lateness_max_ns"].to_list())
    assert set(c.scan("flows").collect()["received"]) <= {3, 4}


@need_namespaces
def test_the_command_carries_out_live_runs(tmp_path: Path) -> None:
    (tmp_path / "few.toml").write_text(live_scenario().to_toml())
    (tmp_path / "c.toml").write_text("scenario = 'few.toml'\nseeds = 2\nlive = true\n")
    command = [wl.find_weir(), "sweep", str(tmp_path / "c.toml"), "--store", str(tmp_path / "s")]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)
    assert done.stderr.startswith("2 runs: 0 there, 2 carried out")
    c = wl.sweep(tmp_path / "c.toml", store=tmp_path / "s")
    assert c.run().there == 2
    (meta, _) = (path.read_text() for path in (tmp_path / "s/runs").glob("*/meta.json"))
    assert json.loads(meta)["source"] == "live"
    c.write(tmp_path / "again.toml", "few.toml")
    assert wl.sweep(tmp_path / "again.toml", store=tmp_path / "s").status().missing == 0
    with pytest.raises(ValueError, match="campaign file has axes"):
        wl.sweep(tmp_path / "c.toml", live=True, store=tmp_path / "s")
    with pytest.raises(TypeError, match="live: expected a bool"):
        wl.sweep(live_scenario(), live=1, store=tmp_path / "s")  # type: ignore[arg-type]


@need_namespaces
def test_a_live_campaign_runs_programs(store: Path) -> None:
    net = (
        wl.Scenario("program", duration="500ms")
        .host("a", "b")
        .link("a", "b", "bw 2Mbit/s delay 5ms", name="l")
        .traffic("program", "a", "b", name="ping", command="ping -qc1 b")
    )
    with pytest.raises(wl.ScenarioError, match="a live campaign can"):
        wl.sweep(net, store=store)
    c = wl.sweep(net, live=True, store=store)
    assert c.run().made == 1
    (run,) = (store / "runs").iterdir()
    assert "1 received" in (run / "ping.txt").read_text()
