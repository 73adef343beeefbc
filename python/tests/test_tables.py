"""Tables in the libraries that read them, each where it is installed."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import weirlab as wl


@pytest.fixture
def results(two_hosts: Path) -> wl.Results:
    return wl.simulate(two_hosts, set={"duration": "3s"}, seeds=2, trace=True)


NAMES = ["flows", "links", "series", "delays", "trace"]


def table(results: wl.Results, name: str) -> wl.Table:
    found: wl.Table = getattr(results, name)
    return found


def test_an_unknown_column_is_refused_and_similar_ones_are_named(results: wl.Results) -> None:
    for ask in (
        lambda: results.flows["delay_p99"],
        lambda: results.flows.rows("delay_p99", 0, 1),
        lambda: results.flows.select("delay_p99"),
    ):
        with pytest.raises(KeyError, match="delay_p99_ns"):
            ask()


@pytest.mark.parametrize("name", NAMES)
def test_pyarrow_reads_the_rows(results: wl.Results, name: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    ours = table(results, name)
    theirs = pyarrow.table(ours)
    theirs.validate(full=True)
    assert theirs.column_names == list(ours.columns)
    assert theirs.to_pylist() == ours.to_pylist()
    assert pyarrow.schema(ours) == theirs.schema
    # Exporting does not consume the table.
    assert ours.to_pyarrow().equals(theirs)


def test_pyarrow_shares_the_memory(results: wl.Results) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    first, second = (pyarrow.table(results.trace)["t_ns"].chunk(0) for _ in range(2))
    assert first.buffers()[1].address == second.buffers()[1].address
    # The memory lives as long as its last reader.
    del results
    assert first.to_pylist() == second.to_pylist()


@pytest.mark.parametrize("name", NAMES)
def test_polars_reads_the_rows(results: wl.Results, name: str) -> None:
    polars = pytest.importorskip("polars")
    ours = table(results, name)
    theirs = polars.DataFrame(ours)
    assert theirs.columns == list(ours.columns)
    assert theirs.rows(named=True) == ours.to_pylist()
    assert theirs.equals(ours.to_polars())


def test_polars_computes_with_names(results: wl.Results) -> None:
    polars = pytest.importorskip("polars")
    flows = polars.DataFrame(results.flows)
    calls = flows.filter(polars.col("name") == "calls.1")
    assert calls.height == 2
    series = polars.DataFrame(results.series).filter(polars.col("object") == "flow")
    joined = series.join(flows, on=["seed", "name"])
    assert joined.height == series.height


@pytest.mark.parametrize("name", NAMES)
def test_pandas_reads_the_rows(results: wl.Results, name: str) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    ours = table(results, name)
    theirs: Any = ours.to_pandas()
    assert list(theirs.columns) == list(ours.columns)
    assert len(theirs) == len(ours)
    for column in ours.columns:
        values = [None if pandas.isna(value) else value for value in theirs[column]]
        assert values == ours[column]
    if hasattr(pandas.DataFrame, "from_arrow"):
        assert pandas.DataFrame.from_arrow(ours).equals(theirs)


@pytest.mark.parametrize("name", NAMES)
def test_pandas_needs_no_pyarrow(
    results: wl.Results, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    ours = table(results, name)
    expected = ours.to_pandas()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    alone = ours.to_pandas()
    # Without pyarrow, the categories are in alphabetical order, and their text may have another
    # type.
    pandas.testing.assert_frame_equal(
        alone, expected, check_categorical=False, check_exact=True, check_dtype=True
    )
    assert [str(kind) for kind in alone.dtypes] == [str(kind) for kind in expected.dtypes]


def test_pandas_groups_by_name(results: wl.Results) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = results.flows.to_pandas()
    means = frame.groupby("name", observed=True)["goodput_bps"].mean()
    assert len(means) == 5


@pytest.mark.parametrize("name", NAMES)
def test_duckdb_reads_the_rows(results: wl.Results, name: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    ours = table(results, name)
    connection = duckdb.connect()
    connection.register("ours", ours)
    found = connection.sql("select * from ours").fetchall()
    assert found == [tuple(row.values()) for row in ours]


def test_duckdb_finds_a_table_by_its_variable(results: wl.Results) -> None:
    duckdb = pytest.importorskip("duckdb")
    links = results.links
    assert len(links) == 8
    found = duckdb.sql("select name, max(drops) from links group by name order by name")
    assert [row[0] for row in found.fetchall()] == sorted({*links["name"]})


def test_a_table_without_rows_has_its_columns() -> None:
    scenario = wl.Scenario(duration="1s").host("a", "b").link("a", "b", "1M/1ms")
    results = wl.simulate(scenario, trace=True)
    assert (len(results.flows), len(results.trace)) == (0, 0)
    assert "t_ns" in results.trace.columns
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.table(results.trace).num_rows == 0


def test_columns_that_only_some_points_have_are_null_elsewhere() -> None:
    # Flows that end have completion times; flows that do not end have none.
    scenario = (
        wl.Scenario(duration="2s")
        .host("a", "b")
        .link("a", "b", "10M/5ms")
        .traffic("tcp", "a", "b", name="f", bytes="20kB")
        .sweep("traffic.f.bytes", ["20kB", "2GB"])
    )
    results = wl.simulate(scenario)
    completed = results.flows["completion_mean_ns"]
    assert completed[0] > 0 and completed[1] is None


def test_the_memory_of_a_trace_is_bounded_by_its_rows() -> None:
    # In a separate process, with memory that no other test has used.
    code = """
import resource, weirlab as wl
net = wl.Scenario("trace", duration=10).host("a", "b").link("a", "b", "bw 1Gbit/s delay 1ms")
net = net.measure(interval=1).traffic("cbr", "a", "b", rate="80Mbit/s", size="1000B")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
r = wl.simulate(net, trace=True)
recorded = peak() - before
trace = r.trace
print(len(trace), trace.nbytes, recorded, peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    rows, nbytes, recorded, made = map(int, done.stdout.split())
    assert rows >= 290_000
    # Growing vectors reserve up to twice their memory. The system provides only the used part.
    assert recorded <= 2.2 * nbytes
    # The columns become the table one by one, so memory never holds the trace twice.
    assert made <= 2.2 * nbytes


def test_a_table_lives_as_long_as_its_readers(two_hosts: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    results = wl.simulate(two_hosts, set={"duration": "2s"}, trace=True)
    trace = results.trace
    theirs = pyarrow.table(trace)
    values = trace["t_ns"]
    reference = weakref.ref(results)
    del results, trace
    gc.collect()
    assert reference() is None
    assert theirs["t_ns"].to_pylist() == values


def test_exports_leave_no_references(two_hosts: Path) -> None:
    table = wl.simulate(two_hosts, set={"duration": "1100ms"}).flows
    native = table._native

    def use() -> None:
        table.__arrow_c_stream__()
        table.__arrow_c_schema__()
        assert len(table["name"]) == len(list(table)) == 5
        with pytest.raises(KeyError):
            table["nothing"]

    use()
    before = sys.getrefcount(native), sys.getrefcount(table)
    for _ in range(1000):
        use()
    assert (sys.getrefcount(native), sys.getrefcount(table)) == before


def test_two_threads_get_the_same_table(two_hosts: Path) -> None:
    results = wl.simulate(two_hosts, set={"duration": "3s"}, trace=True)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: results._native.table("trace"), range(8)))
    assert all(table is made[0] for table in made) and len(made[0]) > 0


def test_some_columns_share_the_memory_of_the_table(two_hosts: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    r = wl.simulate(two_hosts, set={"duration": "1500ms"}, trace=True)
    numbers = [name for name, kind in r.trace.schema.items() if kind == "int64"]
    some = r.trace.select(*numbers)
    assert some.columns == tuple(numbers) and len(some) == len(r.trace)
    for name in numbers:
        whole, part = (pyarrow.table(table)[name].chunk(0) for table in (r.trace, some))
        assert whole.buffers()[1].address == part.buffers()[1].address
    frame = polars.DataFrame(some)
    assert frame.columns == numbers and frame["t_ns"].to_list() == r.trace["t_ns"]
    swapped = r.trace.select("flow", "t_ns")
    assert swapped.columns == ("flow", "t_ns") and swapped["flow"] == r.trace["flow"]
    # The selected columns outlive the table.
    del r
    assert len(some.select("t_ns")["t_ns"]) == frame.height
    with pytest.raises(KeyError, match="Did you mean t_ns"):
        some.select("t_n")
    with pytest.raises(ValueError, match="each once"):
        some.select("t_ns", "t_ns")
    with pytest.raises(ValueError, match="each once"):
        some.select()
    with pytest.raises(TypeError):
        some.select(3)  # type: ignore[arg-type]
