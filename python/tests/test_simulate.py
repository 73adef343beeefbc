"""Simulations: forms of scenarios, seeds, determinism, progress, interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest

import weirlab as wl

Keys = dict[str, wl.Value]


def document(results: wl.Results) -> dict[str, object]:
    """The results document without the processor time."""
    return {key: value for key, value in results.to_dict().items() if key != "cpu_s"}


def test_all_forms_of_a_scenario_give_the_same_results(two_hosts: Path, short: Keys) -> None:
    text = two_hosts.read_text()
    expected = document(wl.simulate(two_hosts, set=short))
    for form in (str(two_hosts), text, tomllib.loads(text)):
        assert document(wl.simulate(form, set=short)) == expected


def test_results_are_those_of_the_command(two_hosts: Path, short: Keys) -> None:
    words = [f"--set={key}={value}" for key, value in short.items()]
    done = subprocess.run(
        [wl.find_weir(), "sim", two_hosts, "--runs=2", "--quiet", "--json=-", *words],
        stdout=subprocess.PIPE,
        check=True,
    )
    expected = {key: value for key, value in json.loads(done.stdout).items() if key != "cpu_s"}
    assert document(wl.simulate(two_hosts, set=short, seeds=2)) == expected


def test_results_do_not_depend_on_the_number_of_threads(two_hosts: Path, short: Keys) -> None:
    one = wl.simulate(two_hosts, set=short, seeds=4, threads=1)
    three = wl.simulate(two_hosts, set=short, seeds=4, threads=3)
    assert document(one) == document(three)


def test_a_seed_gives_the_same_run_alone_and_among_others(two_hosts: Path, short: Keys) -> None:
    noisy: Keys = {**short, "traffic.video.kind": "poisson"}
    several = wl.simulate(two_hosts, set=noisy, seeds=[9, 4, 6])
    alone = wl.simulate(two_hosts, set=noisy, seeds=[4])
    assert several.seeds == (9, 4, 6)
    rows = [row for row in several.flows if row["seed"] == 4]
    assert rows == alone.flows.to_pylist()
    assert rows != [{**row, "seed": 4} for row in several.flows if row["seed"] == 9]


def test_points_of_a_sweep_are_in_the_tables(two_hosts: Path, short: Keys) -> None:
    text = two_hosts.read_text()
    sweep = text + '\n[sweep]\n"link.bottleneck.scheduler" = ["fifo", "fq_codel"]\n'
    results = wl.simulate(sweep, set=short, seeds=2)
    assert results.points == [
        {"link.bottleneck.scheduler": "fifo"},
        {"link.bottleneck.scheduler": "fq_codel"},
    ]
    assert results.flows["point"] == [0] * 10 + [1] * 10
    assert results.flows["seed"] == ([1] * 5 + [2] * 5) * 2
    with pytest.raises(ValueError, match="the sweep has 2 points: name one with point="):
        results.report("nowhere.html")
    with pytest.raises(IndexError):
        results.scenario_text(point=2)
    assert 'scheduler = "fifo"' in results.scenario_text(point=0)
    assert len(results.to_dict()["sweep"]) == 2


def test_a_trace_has_each_event_of_each_packet(two_hosts: Path, short: Keys) -> None:
    results = wl.simulate(two_hosts, set=short, trace=True, seeds=2)
    trace = results.trace
    assert {"entered", "left", "arrived"} <= {*trace["event"]}
    assert sorted(trace["t_ns"]) == trace["t_ns"]
    arrived = [row for row in trace if row["event"] == "arrived" and row["t_ns"] > 500_000_000]
    received = sum(row["received"] for row in results.flows if row["seed"] == 1)
    assert len(arrived) == received
    with pytest.raises(ValueError, match="simulate with trace=True"):
        _ = wl.simulate(two_hosts, set=short).trace


def test_the_report_and_the_notebook_show_the_flows(
    two_hosts: Path, short: Keys, tmp_path: Path
) -> None:
    results = wl.simulate(two_hosts, set=short)
    results.report(tmp_path / "report.html")
    assert "bottleneck" in (tmp_path / "report.html").read_text()
    shown = results._repr_html_()
    assert "<svg" in shown and "calls.2" in shown and len(shown) < 40_000
    assert "calls.2" in results.flows._repr_html_()
    with pytest.raises(OSError):
        results.report(tmp_path / "nowhere" / "report.html")


def test_progress_is_reported_up_to_the_end(two_hosts: Path) -> None:
    seen: list[wl.Progress] = []
    results = wl.simulate(two_hosts, seeds=2, progress=seen.append)
    last = seen[-1]
    assert (last.fraction, last.runs_done, last.runs) == (1.0, 2, 2)
    assert (last.simulated_s, last.events) == (20.0, results.events)
    assert [p.events for p in seen] == sorted(p.events for p in seen)


def test_an_exception_in_the_progress_function_ends_the_runs(endless: wl.Scenario) -> None:
    def interrupt(progress: wl.Progress) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough") as caught:
        wl.simulate(endless, progress=interrupt)
    assert any(entry.name == "interrupt" for entry in caught.traceback)


def test_an_interruption_ends_the_runs(endless: wl.Scenario) -> None:
    # SIGINT is ignored if a shell script started the tests in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.5, send)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        wl.simulate(endless, threads=2, seeds=4)
    timer.join()
    signal.signal(signal.SIGINT, before)
    assert len(sent) == 1, "the runs ended before the signal"


def test_other_threads_run_during_a_simulation(endless: wl.Scenario) -> None:
    turns = 0
    over = threading.Event()

    def count() -> None:
        nonlocal turns
        while not over.wait(0.001):
            turns += 1

    class Enough(Exception):
        pass

    def stop(progress: wl.Progress) -> None:
        if turns > 20:
            raise Enough

    counter = threading.Thread(target=count)
    counter.start()
    try:
        with pytest.raises(Enough):
            wl.simulate(endless, progress=stop)
    finally:
        over.set()
        counter.join()


def test_several_threads_simulate_at_the_same_time(two_hosts: Path, short: Keys) -> None:
    expected = document(wl.simulate(two_hosts, set=short))
    found: list[object] = []

    def run() -> None:
        found.append(document(wl.simulate(two_hosts, set=short, threads=1)))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_simulates(two_hosts: Path, short: Keys) -> None:
    expected = len(wl.simulate(two_hosts, set=short, threads=2, seeds=2).flows)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            found = wl.simulate(two_hosts, set=short, threads=2, seeds=2)
            status = 0 if len(found.flows) == expected else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_memory_does_not_grow_with_the_number_of_simulations() -> None:
    code = """
import resource, sys
import weirlab as wl
s = (wl.Scenario(duration="20ms").host("a", "b").link("a", "b", "1M/1ms")
     .traffic("cbr", "a", "b", rate="500kbit/s", size="100B"))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
def some(n):
    for _ in range(n):
        r = wl.simulate(s, threads=1, trace=True)
        r.flows["name"], r.series.__arrow_c_stream__(), r.trace.__arrow_c_schema__()
        try:
            wl.simulate(s, set={"link.x": 1})
        except wl.ScenarioError:
            pass
some(300)
before = peak()
some(1000)
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, check=True)
    grown = int(done.stdout)
    # Each leaked result would take more than 10 kB.
    assert grown < 2000, f"{grown} kB more after 1000 simulations"


def test_the_import_loads_no_optional_library() -> None:
    code = "import sys, weirlab; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, check=True)
    # The modules of weirlab that start processes import asyncio or subprocess. They are imported at
    # their first use.
    loaded = {*done.stdout.decode().split()}
    assert not loaded & {"numpy", "pandas", "polars", "pyarrow", "duckdb", "asyncio", "subprocess"}


def test_equal_runs_are_a_warning() -> None:
    net = wl.Scenario("n", duration="2s").host("a", "b").link("a", "b", "5M/10ms")
    plain = net.traffic("cbr", "a", "b", name="t", rate="1Mbit/s")
    with pytest.warns(wl.ScenarioWarning, match="the runs of all seeds are equal"):
        wl.simulate(plain, seeds=3)
    # There is no warning for runs that draw random numbers, and none for a single run.
    wl.simulate(plain, seeds=3, set={"traffic.t.kind": "poisson"})
    wl.simulate(plain, seeds=1)


def test_a_bare_rate_of_a_link_is_a_warning() -> None:
    net = wl.Scenario("n", duration="1s").host("a", "b").link("a", "b", "bw 5 delay 30ms")
    net = net.traffic("cbr", "a", "b", name="t", rate="1Mbit/s")
    with pytest.warns(wl.ScenarioWarning, match="`5` means 5 bit/s"):
        wl.simulate(net)
