"""What plots show, including the peaks of short intervals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import weirlab as wl

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


@pytest.fixture(autouse=True)
def close() -> Any:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="module")
def results() -> wl.Results:
    scenario = Path(__file__).resolve().parents[2] / "experiments/two-hosts.toml"
    return wl.simulate(scenario, seeds=2)


@pytest.fixture(scope="module")
def study() -> wl.Results:
    net = wl.Scenario("study", duration="4s", warmup="1s").host("a", "b")
    net = net.link("a", "b", "5M/10ms", name="line").traffic("tcp", "a", "b", name="bulk", count=2)
    return wl.simulate(net.sweep("link.line.scheduler", ["fifo", "fq_codel"]), seeds=4)


def highest(ax: Any) -> float:
    """The largest y of all drawn steps."""
    values = [patch.get_data() for patch in ax.patches]
    return float(max(max(each.values) for each in values))


def test_a_queue_shows_the_exact_peak(results: wl.Results) -> None:
    ax: Any = wl.plot.queue(results, "bottleneck")
    rows = [row for row in results.series if row["name"] == "bottleneck"]
    assert highest(ax) == max(row["queue_packets_max"] for row in rows)
    assert ax.get_ylabel() == "packets" and "bottleneck" in ax.get_title(loc="left")


def test_a_single_peak_among_many_intervals_is_drawn() -> None:
    # A burst of 40 packets in one of 30,000 intervals.
    net = wl.Scenario("burst", duration="30s").host("a", "b").measure(interval="1ms")
    net = net.link("a", "b", "10M/1ms", name="line")
    net = net.traffic("cbr", "a", "b", rate="400Mbit/s", size="1000B", start="15s", stop="15.0008s")
    r = wl.simulate(net)
    peak = max(value or 0 for value in r.series["queue_packets_max"])
    assert peak >= 30
    ax: Any = wl.plot.queue(r)
    assert highest(ax) == peak
    assert all(len(patch.get_data().values) <= 240 for patch in ax.patches)
    rates = [bytes_ * 8e-3 / 1e-3 / 1e3 for bytes_ in r.series["bytes_out"]]
    assert math.isclose(highest(wl.plot.throughput(r)), max(rates), rel_tol=1e-6)


def test_the_cumulative_share_ends_at_the_extremes(results: wl.Results) -> None:
    ax: Any = wl.plot.delay_cdf(results, "video")
    xs, ys = ax.lines[0].get_data()
    rows = [row for row in results.delays if row["name"] == "video" and row["what"] == "delay"]
    assert xs[0] == min(row["low_ns"] for row in rows) / 1e6
    assert xs[-1] == max(row["high_ns"] for row in rows) / 1e6
    assert ys[0] == 0 and ys[-1] == 1
    assert list(ys) == sorted(ys) and list(xs) == sorted(xs)
    tail: Any = wl.plot.delay_cdf(results, "video", tail=True)
    assert tail.get_yscale() == "log" and min(tail.lines[0].get_ydata()) > 0
    # A link has two distributions.
    assert len(wl.plot.delay_cdf(results, link="bottleneck").lines) == 2


def test_results_are_compared_on_one_plot(results: wl.Results, two_hosts: Path) -> None:
    slow = wl.simulate(two_hosts, set={"duration": "3s", "link.bottleneck.spec.delay": "80ms"})
    both: Any = wl.plot.delay_cdf({"near": results, "far": slow}, "video")
    assert [line.get_label() for line in both.lines] == ["near", "far"]
    assert len({line.get_color() for line in both.lines}) == 2
    again: Any = wl.plot.delay_cdf(slow, "video", ax=wl.plot.delay_cdf(results, "video"))
    for ax in (both, again):
        low, high = ax.get_xlim()
        assert all(low <= x <= high for line in ax.lines for x in line.get_xdata()[1:])
    assert len({line.get_color() for line in again.lines}) == 2
    flows: Any = wl.plot.delay_cdf({"near": results, "far": slow}, ["video", "update"])
    assert [line.get_label() for line in flows.lines][:2] == ["near: video", "near: update"]


def test_rates_add_up_to_the_received_bytes(results: wl.Results) -> None:
    ax: Any = wl.plot.throughput(results, ["video", "update", "calls.1", "calls.2"])
    steps = [patch.get_data() for patch in ax.patches]
    # A plot of four curves has no bands, so each patch is a curve.
    assert len(steps) == 4
    drawn = sum(v * (b - a) for v, a, b in zip(steps[0].values, steps[0].edges, steps[0].edges[1:]))
    rows = [row for row in results.series if row["object"] == "flow" and row["name"] == "video"]
    received = sum(row["bytes_out"] for row in rows) * 8 / 1e6 / len(results.seeds)
    assert math.isclose(drawn, received, rel_tol=1e-6)
    link: Any = wl.plot.throughput(results, link="bottleneck")
    assert [each.get_label() for each in link.lines] == ["configured"]
    assert link.lines[0].get_ydata()[0] == 10
    assert wl.plot.throughput(results, goodput=True).get_ylabel() == "goodput, Mbit/s"


def test_each_point_of_a_sweep_has_its_configured_rate() -> None:
    net = wl.Scenario("rates", duration="1s").host("a", "b")
    net = net.link("a", "b", "5M/10ms", name="line").traffic("tcp", "a", "b", name="bulk")
    r = wl.simulate(net.sweep("link.line.spec", ["5M/10ms", "20M/10ms"]))
    for point, rate in enumerate([5, 20]):
        ax: Any = wl.plot.throughput(r, link="line", point=point)
        assert [line.get_ydata()[0] for line in ax.lines] == [rate]


def test_each_point_of_a_sweep_has_dots_and_an_ellipse(study: wl.Results) -> None:
    ax: Any = wl.plot.goodput_delay(study)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["fifo", "fq_codel"]
    assert ax.xaxis_inverted()
    # For each point: the ellipse, a dot for each of four seeds, and the mean.
    assert [len(line.get_xdata()) for line in ax.lines] == [97, 4, 1] * 2
    named: Any = wl.plot.goodput_delay({"all": wl.simulate(SHORT, seeds=3)})
    assert len(named.lines) == 3
    assert wl.plot.goodput_delay(study, labels=["x", "y"], ellipse="mean") is not None
    assert wl.plot.queue(study, point=1).get_title(loc="left") == "Queue of line"


SHORT = (
    wl.Scenario("short", duration="2s")
    .host("a", "b")
    .link("a", "b", "5M/10ms", name="line")
    .traffic("tcp", "a", "b", name="bulk")
)


def test_an_ellipse_has_the_moments_of_its_dots() -> None:
    dots = [(1.0, 1.0), (3.0, 3.0), (1.5, 2.5), (2.5, 1.5)]
    found = wl.plot.ellipse_of(dots)
    assert found is not None
    x, y, first, second, angle = found
    assert (x, y) == (2, 2)
    assert math.isclose(angle, math.pi / 4)
    # The deviations from the mean along and across the diagonal.
    along = [((a - 2) + (b - 2)) / math.sqrt(2) for a, b in dots]
    across = [((a - 2) - (b - 2)) / math.sqrt(2) for a, b in dots]
    assert math.isclose(first**2, sum(v * v for v in along) / 3)
    assert math.isclose(second**2, sum(v * v for v in across) / 3)
    assert wl.plot.ellipse_of(dots[:2]) is None


def test_the_confidence_region_is_that_of_hotelling() -> None:
    # With n = 4 the quantile of F(2, 2) at 95 % is 19, and T² is 2·3/2·19 = 57.
    dots = [(0.0, 0.0), (2.0, 0.0), (0.0, 1.0), (2.0, 1.0)]
    found = wl.plot.ellipse_of(dots, "mean")
    assert found is not None
    assert math.isclose(found[2] ** 2, (4 / 3) * 57 / 4)
    assert math.isclose(found[3] ** 2, (1 / 3) * 57 / 4)


def test_wrong_arguments_say_what_there_is(results: wl.Results, study: wl.Results) -> None:
    with pytest.raises(ValueError, match="no flow 'vidoe'; there are video"):
        wl.plot.throughput(results, "vidoe")
    with pytest.raises(ValueError, match="no link 'x'; there are"):
        wl.plot.queue(results, "x")
    with pytest.raises(ValueError, match="points"):
        wl.plot.queue(study)
    with pytest.raises(ValueError, match="not both"):
        wl.plot.delay_cdf(results, "video", link="bottleneck")
    with pytest.raises(ValueError, match="labels: 1 are given for 2"):
        wl.plot.goodput_delay(study, labels=["x"])
    with pytest.raises(ValueError, match="ellipse"):
        wl.plot.goodput_delay(study, ellipse="round")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="results"):
        wl.plot.queue(5)  # type: ignore[arg-type]
    with pytest.raises(IndexError):
        wl.plot.queue(study, point=7)
    empty = wl.simulate(wl.Scenario(duration="1s").host("a", "b").link("a", "b", "1M/1ms"))
    with pytest.raises(ValueError):
        wl.plot.delay_cdf(empty, [])


def test_a_plot_is_drawn_on_given_axes_and_saved(results: wl.Results, tmp_path: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2)
    assert wl.plot.queue(results, "bottleneck", ax=axes[0]) is axes[0]
    assert wl.plot.delay_cdf(results, ax=axes[1]) is axes[1]
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_the_colours_are_those_of_the_reports(results: wl.Results, tmp_path: Path) -> None:
    results.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for number, colour in enumerate(wl.plot.COLOURS):
        assert f"--c{number}:{colour}" in page
    for colour in (wl.plot.INK, wl.plot.MUTED, wl.plot.RULE):
        assert colour in page
