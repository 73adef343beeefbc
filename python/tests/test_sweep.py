"""Campaigns: equal stores from every executor, resumption, faults, tables with axes as columns."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import pytest

import weirlab as wl
from conftest import ROOT
from weirlab import _native, _worker

AXES: dict[str, list[str] | list[int]] = {
    "link.l.spec.bw": ["1Mbit/s", "2Mbit/s"],
    "link.l.spec.queue": [5, 20],
}


def scenario(duration: str = "300ms") -> wl.Scenario:
    return (
        wl.Scenario("small", duration=duration, warmup="50ms")
        .host("a", "b")
        .link("a", "b", "bw 2Mbit/s delay 5ms loss 1% queue 20", name="l")
        .traffic("poisson", "a", "b", name="t", rate="1.5Mbit/s", size="500B")
    )


def campaign(store: Path, seeds: int = 3, duration: str = "300ms") -> wl.Campaign:
    return wl.sweep(scenario(duration), AXES, seeds=seeds, store=store)


def content(store: Path) -> dict[str, bytes]:
    """The files of all runs."""
    runs = store / "runs"
    return {str(path.relative_to(runs)): path.read_bytes() for path in runs.glob("*/*")}


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


def test_an_algorithm_in_python_is_refused(store: Path) -> None:
    """A store knows an algorithm by its name, and would return the results of an older version."""

    class Changing(wl.Scheduler):
        def __init__(self) -> None:
            self.waiting: list[wl.Packet] = []

        def enqueue(self, packet: wl.Packet, now_ns: int) -> None:
            self.waiting.append(packet)

        def dequeue(self, now_ns: int) -> wl.Packet | None:
            return self.waiting.pop(0) if self.waiting else None

    swept = wl.sweep(scenario(), {"link.l.scheduler": ["fifo", wl.name_of(Changing)]}, store=store)
    with pytest.raises(ValueError, match="python.changing is written in Python"):
        swept.run(jobs=1)


def test_threads_and_processes_make_equal_stores(
    tmp_path: Path, expected: dict[str, bytes]
) -> None:
    assert len(expected) == 12 * 6
    names: tuple[Literal["threads"], Literal["processes"]] = ("threads", "processes")
    for name in names:
        result = campaign(tmp_path / name).run(name, jobs=2)
        assert (result.runs, result.made, result.there) == (12, 12, 0)
        assert content(tmp_path / name) == expected
    with ThreadPoolExecutor(3) as executor:
        campaign(tmp_path / "own").run(executor)
    assert content(tmp_path / "own") == expected
    with ProcessPoolExecutor(2, get_context("forkserver")) as executor:
        campaign(tmp_path / "own-processes").run(executor, memory=2 * 10**9)
    assert content(tmp_path / "own-processes") == expected


def test_the_command_makes_the_same_store(
    tmp_path: Path, store: Path, expected: dict[str, bytes]
) -> None:
    (tmp_path / "small.toml").write_text(scenario().to_toml())
    campaign(tmp_path / "other").write(tmp_path / "c.toml", "small.toml")
    command = [wl.find_weir(), "sweep", str(tmp_path / "c.toml"), f"--store={store}", "--quiet"]
    subprocess.run(command, check=True)
    assert content(store) == expected
    done = subprocess.run(
        [wl.find_weir(), "sweep", "status", tmp_path / "c.toml", "--store", store, "--json"],
        check=True,
        stdout=subprocess.PIPE,
    )
    status = json.loads(done.stdout)
    assert (status["runs"], status["done"], status["missing"]) == (12, 12, 0)
    assert campaign(store).run().made == 0


def test_only_missing_runs_are_carried_out(store: Path, expected: dict[str, bytes]) -> None:
    assert campaign(store, seeds=1).run().made == 4
    c = campaign(store)
    assert c.status() == wl.SweepStatus(points=4, runs=12, done=4)
    assert c.run("processes", jobs=2).made == 8
    assert content(store) == expected
    assert c.run().there == 12
    assert "12 runs, 12 done" in repr(c)


def test_progress_is_reported_up_to_the_end(store: Path) -> None:
    seen: list[wl.SweepProgress] = []
    campaign(store).run(progress=seen.append)
    assert seen[-1].fraction == 1.0 and seen[-1].made == 12
    assert [p.made for p in seen] == sorted(p.made for p in seen)


def test_an_interruption_keeps_finished_runs(tmp_path: Path, store: Path) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_sweep import campaign
def show(progress):
    print(progress.made, flush=True)
campaign(Path({str(store)!r}), seeds=400).run(jobs=2, progress=show)
"""
    command = [sys.executable, "-P", "-c", code]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert program.stdout is not None
    for line in program.stdout:
        if int(line) > 20:
            break
    program.send_signal(signal.SIGINT)
    _, words = program.communicate(timeout=60)
    assert "KeyboardInterrupt" in words and program.returncode != 0
    c = campaign(store, seeds=400)
    done = c.status().done
    assert 20 < done < 1600
    assert c.verify(sample=20).damaged == {}


def test_killed_workers_lose_nothing(store: Path) -> None:
    """Workers are killed while they carry out runs; each run is there once, and whole."""
    c = campaign(store, seeds=60, duration="2s")
    killed = 0

    def kill(progress: wl.SweepProgress) -> None:
        nonlocal killed
        if killed < 4 and progress.made > 20 * (killed + 1):
            for pid in workers():
                os.kill(pid, signal.SIGKILL)
                killed += 1
                # Every other time, the pool notices the death before it gets the next batch.
                time.sleep(0.3 * (killed % 2))
                break

    result = c.run("processes", jobs=2, batch_s=0.2, progress=kill)
    assert killed > 0 and result.made == 240
    assert c.status().done == 240
    assert len([*(store / "runs").iterdir()]) == 240
    # A killed writer leaves an unfinished directory, which the next collection removes.
    subprocess.run([wl.find_weir(), "sweep", "gc", "--store", store], check=True)
    assert c.verify(sample=5).damaged == {}


def workers() -> list[int]:
    """The processes that the fork server has made for this one."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        parent = int(text.rsplit(")", 1)[1].split()[1])
        command = (path.parent / "cmdline").read_bytes()
        if b"multiprocessing.forkserver" in command and parent_of(parent) == os.getpid():
            found.append(int(path.parent.name))
    return found


def parent_of(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(text.rsplit(")", 1)[1].split()[1])


def test_two_clients_share_a_store(store: Path, expected: dict[str, bytes]) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_sweep import campaign
campaign(Path({str(store)!r})).run(jobs=1)
"""
    clients = [subprocess.Popen([sys.executable, "-P", "-c", code]) for _ in range(2)]
    assert [client.wait(timeout=120) for client in clients] == [0, 0]
    assert content(store) == expected


class Reconnecting(ThreadPoolExecutor):
    """An executor with a scheduler that dies with its first tasks and comes back. It imitates a
    client of Dask: one call of `ncores` fails, the connection is replaced, and the first four
    futures never end. The runner has four futures at a time."""

    status = "connecting"

    def __init__(self) -> None:
        super().__init__(2)
        self._client = self
        self.scheduler_comm = object()
        self.lost: list[Future[Any]] = []
        self.ncores_calls = 0

    def ncores(self) -> dict[str, int]:
        self.ncores_calls += 1
        if self.ncores_calls == 2:
            raise ConnectionResetError
        return {"worker": 2}

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if len(self.lost) < 4:
            self.lost.append(Future())
            if len(self.lost) == 4:
                self.scheduler_comm = object()
            return self.lost[-1]
        return super().submit(fn, *args, **kwargs)


def test_a_lost_connection_loses_no_batch(store: Path, expected: dict[str, bytes]) -> None:
    with Reconnecting() as executor:
        assert campaign(store).run(executor).made == 12
        assert [future.cancelled() for future in executor.lost] == [True] * 4
    assert content(store) == expected


def test_a_worker_with_another_version_is_refused(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = campaign(store)
    monkeypatch.setattr(_native, "engine", lambda: "0.0.1+000000000000")
    task = c._native.task(0)
    with pytest.raises(wl.VersionError, match=r"has Weir 0\.0\.1\+0+, and the campaign needs 9"):
        _worker.work(str(store), "9", [task], 1, None, None)


def test_a_run_that_needs_too_much_memory_or_time_fails_alone(store: Path) -> None:
    small = scenario("100ms")
    big = small.to_toml() + "\n[sweep]\nduration = ['100ms', '4000000s']\n"
    c = wl.sweep(big, store=store)
    with pytest.raises(wl.SweepError, match="1 run failed") as caught:
        c.run(timeout=1.0, retries=0)
    assert caught.value.failures == (wl.SweepFailure(1, 1, "the run took longer than 1s"),)
    assert c.status().done == 1
    # The counters and distributions of so many flows take gigabytes.
    hungry = wl.sweep(scenario("100ms"), set={"traffic.t.count": 500_000}, store=store)
    with pytest.raises(wl.SweepError, match="memory|SIG"):
        hungry.run(memory=400 * 10**6, timeout=60)
    # In one batch, the run that ends the process is told apart from an earlier failure.
    late = (0, *c._native.task(1)[1:])
    batch = [late, (1, *hungry._native.task(0)[1:])]
    reports = _worker._limited(str(store), batch, 1.0, 400 * 10**6)
    assert [(report[0], report[4]) for report in reports] == [(0, "failed"), (1, "failed")]
    assert reports[0][5] == "the run took longer than 1s"
    assert "memory" in reports[1][5] or "SIG" in reports[1][5]
    for path in (store / "tmp").iterdir():
        path.rmdir()


def test_a_full_disk_ends_the_campaign_and_keeps_what_is_done(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], stderr=subprocess.PIPE
    )
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        c = campaign(disk / "s", seeds=200)
        with pytest.raises(wl.SweepError, match="No space left on device"):
            c.run(jobs=2)
        done = c.status().done
        assert 0 < done < 800
        assert c.verify().damaged == {}
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_damaged_run_is_found_removed_and_made_again(
    store: Path, expected: dict[str, bytes]
) -> None:
    c = campaign(store)
    c.run()
    path = next((store / "runs").glob("*/flows.parquet"))
    damaged = bytearray(path.read_bytes())
    damaged[30] ^= 0x40
    path.write_bytes(damaged)
    assert c.verify().damaged == {
        path.parent.name: "flows.parquet has other bytes than meta.json says"
    }
    done = subprocess.run(
        [wl.find_weir(), "sweep", "verify", "--store", store], stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == 1 and path.parent.name in done.stdout
    c.verify(remove=True)
    assert c.run().made == 1
    assert content(store) == expected


def test_tables_have_the_axes_as_columns(store: Path) -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    c = campaign(store)
    c.run()
    assert c.axes == ("link.l.spec.bw", "link.l.spec.queue")
    flows = c.scan()
    mean = (
        flows.group_by("link.l.spec.bw").agg(polars.col("goodput_bps").mean()).sort("goodput_bps")
    ).collect()
    assert mean["link.l.spec.bw"].to_list() == ["1Mbit/s", "2Mbit/s"]
    expected = [
        row["goodput_bps"]
        for row in wl.simulate(
            scenario(), seeds=3, set={"link.l.spec.bw": "1Mbit/s", "link.l.spec.queue": 5}
        ).flows
    ]
    found = flows.filter(
        (polars.col("link.l.spec.bw") == "1Mbit/s") & (polars.col("link.l.spec.queue") == 5)
    ).collect()
    assert found["goodput_bps"].to_list() == expected
    assert c.dataset("links").count_rows() == 24
    connection = duckdb.connect()
    c.duckdb("flows", connection)
    query = 'select count(*) from flows where "link.l.spec.queue" = 20'
    assert connection.execute(query).fetchall() == [(6,)]
    assert c.scan("delays").select(polars.len()).collect().item() > 12


def test_designs_cover_their_ranges() -> None:
    pytest.importorskip("scipy")
    ranges: dict[str, wl.Range | list[str]] = {
        "link.l.spec.delay": wl.Range(1, 100, "ms", log=True),
        "link.l.spec.queue": wl.Range(1, 65, whole=True),
        "traffic.t.kind": ["cbr", "poisson"],
    }
    for design in (wl.latin_hypercube, wl.sobol):
        points = design(ranges, 16, seed=3)
        assert points == design(ranges, 16, seed=3) != design(ranges, 16, seed=4)
        assert {point["traffic.t.kind"] for point in points} == {"cbr", "poisson"}
        assert all(isinstance(point["link.l.spec.queue"], int) for point in points)
        delays = [float(str(point["link.l.spec.delay"])[:-2]) for point in points]
        assert 1 <= min(delays) < 2 and 50 < max(delays) <= 100


def test_sampled_points_are_run_and_written_for_the_command(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    (tmp_path / "small.toml").write_text(scenario().to_toml())
    (tmp_path / "c.toml").write_text(
        'scenario = "small.toml"\nseeds = 2\n[sample]\nmethod = "sobol"\ncount = 4\n'
        '[sample.axes]\n"link.l.spec.queue" = { low = 5, high = 50, whole = true }\n'
    )
    c = wl.sweep(tmp_path / "c.toml", store=tmp_path / "s")
    assert c.run().made == 8
    refused = subprocess.run(
        [wl.find_weir(), "sweep", tmp_path / "c.toml", "--store", tmp_path / "s"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert refused.returncode == 2 and "drawn by SciPy" in refused.stderr
    c.write(tmp_path / "points.toml", "small.toml")
    again = wl.sweep(tmp_path / "points.toml", store=tmp_path / "s")
    assert again.points == c.points and again.status().done == 8


def test_a_function_makes_the_scenario_of_each_point(store: Path) -> None:
    def make(hops: int, rate: str) -> wl.Scenario:
        net = wl.Scenario("chain", duration="200ms").host("a", "b")
        nodes = ["a", *(f"r{n}" for n in range(hops)), "b"]
        for left, right in zip(nodes, nodes[1:]):
            net.link(left, right, "bw 10Mbit/s delay 1ms")
        if hops:
            net.router(*nodes[1:-1])
        return net.traffic("cbr", "a", "b", name="t", rate=rate, size="500B")

    c = wl.sweep(make, {"hops": [0, 2], "rate": ["1Mbit/s"]}, seeds=2, store=store)
    assert c.points[1] == {"hops": 2, "rate": "1Mbit/s"}
    assert c.run().made == 4
    pytest.importorskip("polars")
    counts = c.scan("links").group_by("hops").len().sort("hops").collect()
    assert counts["len"].to_list() == [4, 12]


def test_wrong_arguments_are_named(store: Path) -> None:
    with pytest.raises(wl.ScenarioError, match="there is no `x`"):
        wl.sweep(scenario(), {"link.x.spec.bw": ["1M"]}, store=store)
    with pytest.raises(wl.ScenarioError, match="is no axis"):
        wl.sweep(scenario(), {"seed": [1, 2]}, store=store)
    with pytest.raises(TypeError, match="expected a list"):
        wl.sweep(scenario(), {"link.l.spec.bw": "1M"}, store=store)
    with pytest.raises(ValueError, match="expected 'threads'"):
        campaign(store).run("cluster")  # type: ignore[arg-type]


def test_only_regular_files_are_campaigns(store: Path) -> None:
    with pytest.raises(OSError, match="/dev/zero: it is no regular file"):
        wl.sweep("/dev/zero", store=store)
    large = store.parent / "large.toml"
    with large.open("wb") as file:
        file.truncate(256_000_001)
    with pytest.raises(OSError, match="larger than 256 MB"):
        wl.sweep(large, store=store)


def test_too_many_runs_are_refused(store: Path) -> None:
    many = 99_999_999_999
    for seeds in (many, range(many), 2_500_001):
        with pytest.raises(ValueError, match="more than 10,000,000 runs"):
            wl.sweep(scenario(), AXES, seeds=seeds, store=store)
    grid = {name: list(range(1000)) for name in ("a", "b", "c")}
    with pytest.raises(ValueError, match="more than 10,000,000 runs"):
        wl.sweep(lambda **_: scenario(), grid, store=store)
    assert not store.exists()


def test_a_store_of_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(OSError, match="has other files and is no store"):
        campaign(tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_dask_workers_make_the_same_store(store: Path, expected: dict[str, bytes]) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        result = campaign(store).run(client.get_executor())
    assert result.made == 12
    assert content(store) == expected


@pytest.mark.filterwarnings("ignore")
def test_dask_is_found_by_a_scheduler_file(store: Path, expected: dict[str, bytes]) -> None:
    """The scheduler and the workers are processes of their own, as on a cluster."""
    distributed = pytest.importorskip("distributed")
    file = store.parent / "scheduler.json"
    both = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--no-dashboard"]
    own = ["--no-nanny", "--nthreads", "1", "--local-directory", str(store.parent / "dask")]
    commands = [
        ["distributed.cli.dask_scheduler", "--port", "0", *both],
        *(["distributed.cli.dask_worker", *both, *own] for _ in range(2)),
    ]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for words in commands:
            command = [sys.executable, "-P", "-m", *words]
            processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        with distributed.Client(scheduler_file=str(file), timeout=120) as client:
            client.wait_for_workers(2, timeout=120)
            result = campaign(store).run(client.get_executor())
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert result.made == 12
    assert content(store) == expected


def test_mpi_workers_make_the_same_store(store: Path, expected: dict[str, bytes]) -> None:
    pytest.importorskip("mpi4py")
    program = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from mpi4py.futures import MPIPoolExecutor
from test_sweep import campaign
if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        print(campaign(Path({str(store)!r})).run(executor, jobs=2).made)
"""
    path = store.parent / "study.py"
    path.write_text(program)
    command = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "3"]
    try:
        done = subprocess.run(
            [*command, sys.executable, "-m", "mpi4py.futures", path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    except FileNotFoundError:
        pytest.skip("mpiexec is not installed")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "12"
    assert content(store) == expected


def test_the_example_of_rfc_7928_runs_all_aqms(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    program = str(ROOT / "examples/python/rfc7928.py")
    example = [sys.executable, "-P", program, str(tmp_path / "s")]
    short = ["--seeds", "1", "--duration", "1500ms"]
    done = subprocess.run([*example, *short], stdout=subprocess.PIPE, text=True, check=True)
    first, *table = done.stdout.splitlines()
    # 17 AQMs and 5 schedulers that classify packets, in 15 sections.
    assert first == "330 runs carried out, 0 were there"
    assert any("fq_codel" in line for line in table)


def test_more_seeds_make_a_figure_precise(store: Path) -> None:
    c = campaign(store, seeds=2)
    figure = wl.Figure("flows", "t", "goodput_bps")
    found = c.refine(figure, relative=0.05, budget=400)
    assert all(each.is_within(0.05, None) for each in found)
    with pytest.raises(ValueError, match="a relative or an absolute bound"):
        found[0].is_within(None, None)
    counts = {each.runs for each in found}
    assert min(counts) >= 5 and len(counts) > 1, "points with less variance need fewer runs"
    before = len([*(store / "runs").iterdir()])
    assert c.refine(figure, relative=0.05, budget=400) == found
    assert len([*(store / "runs").iterdir()]) == before
    poor = c.refine(figure, relative=1e-6, budget=10)
    assert sum(each.runs for each in poor) <= before + 10
    values = [
        row["goodput_bps"]
        for row in wl.simulate(
            scenario(),
            seeds=found[0].runs,
            set={"link.l.spec.bw": "1Mbit/s", "link.l.spec.queue": 5},
        ).flows
    ]
    assert found[0].mean == pytest.approx(sum(values) / len(values))


def test_a_comparison_stops_when_the_result_is_clear(store: Path) -> None:
    c = campaign(store, seeds=1)
    figure = wl.Figure("flows", "t", "goodput_bps")
    clear = c.compare(0, 3, figure, budget=200)
    assert clear.verdict == "more" and clear.pairs < 30
    assert c.compare(3, 0, figure, budget=200).verdict == "less"
    same = c.compare(1, 1, figure, tolerance=1e3, budget=200)
    assert (same.verdict, same.difference) == ("equal", 0.0)
    assert c.compare(2, 3, figure, budget=12).pairs == 12
    with pytest.raises(ValueError, match="no run has"):
        c.compare(0, 1, wl.Figure("flows", "nobody", "goodput_bps"), budget=10)


def test_early_stops_do_not_make_errors_frequent() -> None:
    """Few of many comparisons of equal points find a difference, although each is judged often."""
    import random

    from weirlab._precision import judge

    wrong = 0
    for number in range(300):
        draw = random.Random(number)
        differences: list[float] = []
        for _ in range(40):
            differences += [draw.gauss(0, 1) for _ in range(10)]
            if judge(differences, None).verdict != "open":
                wrong += 1
                break
    assert wrong <= 15, f"{wrong} of 300"


def test_the_report_links_the_best_points(store: Path, tmp_path: Path) -> None:
    c = campaign(store)
    c.run()
    figure = wl.Figure("flows", "t", "delay_p99_ns")
    pages = tmp_path / "pages"
    page = Path(c.report(pages, figure, best="min", panels="link.l.spec.bw", reports=2))
    text = page.read_text()
    assert text.count("<svg") == 2 and "link.l.spec.bw = 1Mbit/s" in text
    linked = [name for name in os.listdir(page.parent) if name.startswith("point-")]
    assert len(linked) == 2 and all(f'href="{name}"' in text for name in linked)
    assert "Goodput" in (page.parent / linked[0]).read_text()
    with pytest.raises(ValueError, match="there is no axis 'bw'"):
        c.report(tmp_path / "pages", figure, x="bw")


def test_values_of_an_axis_are_ordered_in_one_unit() -> None:
    from weirlab._design import number_of

    ordered = ["900us", "1ms", "2s", "0.5min"]
    assert sorted(reversed(ordered), key=lambda value: number_of(value) or 0) == ordered
    assert number_of("1Mbit/s") == 1e6 and number_of("64KiB") == 65536 and number_of(3) == 3
    assert number_of("fq_codel") is None


@pytest.mark.filterwarnings("ignore")
def test_the_sensitivity_names_the_axis_that_matters(store: Path) -> None:
    pytest.importorskip("SALib")
    ranges = {
        "link.l.spec.bw": wl.Range(300, 900, "kbit/s"),
        "link.l.spec.delay": wl.Range(1, 5, "ms"),
    }
    figure = wl.Figure("flows", "t", "goodput_bps")
    c = wl.sweep(scenario(), points=wl.saltelli(ranges, 16), seeds=2, store=store)
    with pytest.raises(ValueError, match="run them first"):
        c.sensitivity(figure)
    c.run()
    sobol = c.sensitivity(figure, method="sobol")
    delta = c.sensitivity(figure)
    for found in (sobol, delta):
        assert found["link.l.spec.bw"].first > 0.8 > 0.3 > found["link.l.spec.delay"].first


@pytest.fixture
def bucket() -> Iterator[str]:
    """A bucket of a local server that speaks S3."""
    server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    environ = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
    before = dict(os.environ)
    os.environ.update(environ)
    try:
        import fsspec

        fsspec.filesystem("s3").mkdir("weir")
        yield "s3://weir/campaign"
    finally:
        running.stop()
        os.environ.clear()
        os.environ.update(before)


@pytest.mark.filterwarnings("ignore")
def test_an_object_store_has_the_same_runs(
    bucket: str, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    import fsspec

    c = wl.sweep(scenario(), AXES, seeds=3, store=bucket)
    assert c.run(jobs=2).made == 12
    files = fsspec.filesystem("s3")
    names = [name.split("/runs/")[1] for name in files.find("weir/campaign/runs")]
    assert {name: files.cat(f"weir/campaign/runs/{name}") for name in names} == expected
    # A run without its last file is not complete.
    key = names[0].split("/")[0]
    files.rm(f"weir/campaign/runs/{key}/meta.json")
    again = wl.sweep(scenario(), AXES, seeds=3, store=bucket)
    assert again.status().done == 11
    assert again.run().made == 1
    assert again.verify().damaged == {}
    # A damaged run is also removed from the bucket, so that it is carried out again.
    other = next(name for name in names if not name.endswith("meta.json"))
    files.pipe(f"weir/campaign/runs/{other}", b"{}")
    third = wl.sweep(scenario(), AXES, seeds=3, store=bucket)
    assert list(third.verify(remove=True).damaged) == [other.split("/")[0]]
    assert third.run().made == 1
    assert wl.sweep(scenario(), AXES, seeds=3, store=bucket).verify().damaged == {}
    pytest.importorskip("polars")
    assert again.scan().collect().height == 12
