"""Plots of results, in the colours of the reports. They need matplotlib: ``pip install
'weirlab[plot]'``.

A plot is drawn on `ax`, or on a new figure. The function returns the axes, so that matplotlib can
change and save the plot: ``wl.plot.queue(r).figure.savefig("queue.png")``.

Plots over time keep peaks: if a curve has more than 240 intervals, neighbours are joined, and a
band spans their extremes. A plot of more than three curves has no bands.
"""

from __future__ import annotations

import importlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._results import Results
from ._scenario import whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#4d5763", "#7a4a00", "#4a1d96")
"""The colours of curves, which people with colour vision deficiency can tell apart: most are Okabe
and Ito's, and all have a contrast of at least 3:1 on white."""
INK, MUTED, RULE = "#1c2430", "#5c6673", "#e3e7ec"
"""The colours of text, of labels and of the grid."""

Names: TypeAlias = str | Iterable[str] | None
"""Names of flows; None for the default of the function."""
Many: TypeAlias = Results | Mapping[str, Results]
"""Results, or several by their labels."""

Buckets: TypeAlias = Sequence[tuple[int, int, int]]
"""A distribution of delays: least and greatest value of each bucket in ns, and its packets."""

# The attribute of axes that holds the distributions drawn on them.
_DRAWN = "_weirlab_delays"
# The most curves of a plot, the most points of a curve, and the most curves that have bands.
_CURVES = len(COLOURS)
_POINTS = 240
_BANDS = 3
_BAND_OPACITY = 0.3
# A range of delays that spans more than this factor has a logarithmic axis.
_LOG_FROM = 20.0


def delay_cdf(
    results: Many,
    flows: Names = None,
    *,
    link: str | None = None,
    tail: bool = False,
    point: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws, for each delay, the share of packets with at most this delay, over all runs.

    Args:
        results: The results, or several by their labels, to compare them: each has curves of its
            own, named by the label.
        flows: Names of flows; by default the seven with the most traffic.
        link: A link, whose queueing delay and total delay are drawn in place of flows.
        tail: Whether to draw the share of packets with a greater delay, on a logarithmic axis.
        point: The point of a sweep.
        ax: Axes to draw on. Curves that this function has drawn there before stay in sight.

    Returns:
        The axes: delays in ms, logarithmic if they span more than a factor of 20.

    Raises:
        ValueError: There is no such flow or link, or it has no packets.
        ImportError: matplotlib is missing.

    >>> import weirlab as wl
    >>> r = wl.simulate("two-hosts.toml", set={"duration": "3s"})
    >>> wl.plot.delay_cdf(r).get_xlabel()
    'one-way delay, ms'

    Two networks on one plot:

    >>> plain = wl.simulate("two-hosts.toml", set={"link.bottleneck.scheduler": "fifo"})
    >>> ax = wl.plot.delay_cdf({"fifo": plain, "fq_codel": r}, "video")
    >>> [line.get_label() for line in ax.lines]
    ['fifo', 'fq_codel']
    """
    if link is not None and flows is not None:
        raise ValueError("delay_cdf: give flows or link, not both")
    named = results.items() if isinstance(results, Mapping) else [("", results)]
    curves: list[tuple[str, Buckets]] = []
    wanted: list[str] = []
    for label, each in named:
        chosen = _point(_results(each), point)
        kinds = {"queue": "in queue", "total": "total"} if link is not None else {"delay": ""}
        wanted = [_link(each, link)] if link is not None else _flows(each, flows, chosen)
        buckets = _distributions(each, wanted, kinds, chosen)
        found = [
            (kinds[what] or name, buckets[name, what])
            for name in wanted for what in kinds if buckets[name, what]
        ]  # fmt: skip
        # The label alone names the only curve of its results.
        names = [label if len(found) == 1 else f"{label}: {name}" for name, _ in found]
        curves += zip(names if label else [name for name, _ in found], [each for _, each in found])
    if not curves:
        raise ValueError(f"{', '.join(wanted)}: no packet was counted")
    on = _axes(ax)
    before: list[Buckets] = getattr(on, _DRAWN, [])
    for number, (label, each_buckets) in enumerate(curves, len(before)):
        _draw_shares(on, label, each_buckets, COLOURS[number % len(COLOURS)], tail)
    all_buckets = [*before, *(each_buckets for _, each_buckets in curves)]
    setattr(on, _DRAWN, all_buckets)
    _delay_axis(on, all_buckets)
    on.set_xlabel("delay in link, ms" if link is not None else "one-way delay, ms")
    if tail:
        on.set_yscale("log")
        on.set_ylabel("share delayed longer")
    else:
        on.set_ylim(0, 1.01)
        on.set_ylabel("share of packets")
    _finish(on, f"Delay of {wanted[0]}" if link is not None else "One-way delay")
    drawn: Axes = on
    return drawn


def queue(
    results: Results,
    link: str | None = None,
    *,
    point: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws the length of a link's queue over time: the mean, and a band from the least to the
    most packets of all runs. The peaks are exact.

    Args:
        results: The results.
        link: The name of the link; by default the one with the most queueing.
        point: The point of a sweep.
        ax: Axes to draw on.

    Returns:
        The axes: time in s, length in packets.

    Raises:
        ValueError: There is no such link, or the results have no series.
        ImportError: matplotlib is missing.

    >>> import weirlab as wl
    >>> r = wl.simulate("two-hosts.toml", set={"duration": "3s"})
    >>> wl.plot.queue(r, "bottleneck").get_ylabel()
    'packets'
    """
    results = _results(results)
    chosen = _point(results, point)
    name = _link(results, link, chosen)
    columns = ("queue_packets_min", "queue_packets_mean", "queue_packets_max")
    runs = _series(results, "link", [name], columns, chosen)[name]
    bins = [_binned(run, _join_count(run)) for run in runs]
    on = _axes(ax)
    if bins:
        edges = bins[0].edges
        low = [min(values) for values in zip(*(each.low[0] for each in bins))]
        mean = [sum(values) / len(values) for values in zip(*(each.mean[1] for each in bins))]
        high = [max(values) for values in zip(*(each.high[2] for each in bins))]
        _band(on, edges, low, high, COLOURS[5], "least to most")
        _steps(on, edges, mean, COLOURS[4], "mean")
    _time_axis(on)
    on.set_ylabel("packets")
    _finish(on, f"Queue of {name}")
    drawn: Axes = on
    return drawn


def throughput(
    results: Results,
    flows: Names = None,
    *,
    link: str | None = None,
    goodput: bool = False,
    point: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws rates over time. A curve is the mean over runs. With at most three curves, each has a
    band that spans the runs and the intervals that were joined.

    Args:
        results: The results.
        flows: Names of flows; by default the seven with the most traffic.
        link: A link, whose rates in and out are drawn in place of flows, beside the configured
            rate.
        goodput: Whether to draw payload that reached the application, in place of network-layer
            bytes that arrived.
        point: The point of a sweep.
        ax: Axes to draw on.

    Returns:
        The axes: time in s, rates in Mbit/s.

    Raises:
        ValueError: There is no such flow or link, or the results have no series.
        ImportError: matplotlib is missing.

    >>> import weirlab as wl
    >>> r = wl.simulate("two-hosts.toml", set={"duration": "3s"})
    >>> wl.plot.throughput(r, ["video", "update"]).get_ylabel()
    'throughput, Mbit/s'
    """
    results = _results(results)
    chosen = _point(results, point)
    if link is not None and flows is not None:
        raise ValueError("throughput: give flows or link, not both")
    if link is not None and goodput:
        raise ValueError("throughput: a link has no goodput")
    curves: list[tuple[str, str, list[_Series], int]] = []
    level: float | None = None
    if link is not None:
        name = _link(results, link)
        runs = _series(results, "link", [name], ("bytes_in", "bytes_out"), chosen)[name]
        curves = [("in", COLOURS[1], runs, 0), ("out", COLOURS[0], runs, 1)]
        table = results.links
        of_link = [row for row in _rows(results, "links", chosen) if table["name"][row] == name]
        rates = [table["rate_bps"][row] for row in of_link]
        known = [rate for rate in rates if rate is not None]
        # Without a limit in one run, the runs have no mean rate.
        level = sum(known) / len(known) if known and len(known) == len(rates) else None
    else:
        column = "goodput_bytes" if goodput else "bytes_out"
        wanted = _flows(results, flows, chosen)
        found = _series(results, "flow", wanted, (column,), chosen)
        curves = [(name, colour, found[name], 0) for name, colour in zip(wanted, COLOURS)]
    on = _axes(ax)
    for label, colour, runs, place in curves:
        bins = [_binned(run, _join_count(run), rate=True) for run in runs]
        if not bins:
            continue
        edges = bins[0].edges
        if len(curves) <= _BANDS:
            low = [min(values) for values in zip(*(each.low[place] for each in bins))]
            high = [max(values) for values in zip(*(each.high[place] for each in bins))]
            _band(on, edges, low, high, colour, None)
        mean = [sum(values) / len(values) for values in zip(*(each.mean[place] for each in bins))]
        _steps(on, edges, mean, colour, label)
    if level is not None:
        on.axhline(level / 1e6, color=COLOURS[4], linewidth=1.4, dashes=(5, 4), label="configured")
    _time_axis(on)
    on.set_ylabel("goodput, Mbit/s" if goodput else "throughput, Mbit/s")
    what = "Goodput" if goodput else "Throughput"
    _finish(on, f"{what} of {link}" if link is not None else f"{what} of flows")
    drawn: Axes = on
    return drawn


def goodput_delay(
    results: Many,
    flows: Names = None,
    *,
    delay_of: Names = None,
    ellipse: Literal["runs", "mean"] = "runs",
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draws goodput against delay, as papers on AQMs and congestion control do (RFC 7928, section
    2.7): each run is a dot, each point of a sweep a colour. The axis of delays is reversed, so that
    better is up and to the right.

    Args:
        results: Results with a sweep, or results by their labels: ``{"fifo": r1, "codel": r2}``.
        flows: The flows whose goodput is added up; by default all.
        delay_of: The flows whose mean delay counts, weighted by packets; by default `flows`.
        ellipse: ``"runs"`` draws the ellipse of one standard deviation of the runs, ``"mean"`` the
            95 % confidence region of their mean (Hotelling's T²). Both need three runs.
        labels: Names of the points of a sweep.
        ax: Axes to draw on.

    Returns:
        The axes: mean one-way delay in ms, goodput in Mbit/s.

    Raises:
        ValueError: There is no such flow, or the number of labels is wrong.
        ImportError: matplotlib is missing.

    >>> import weirlab as wl
    >>> two = wl.Scenario("study", duration="4s", warmup="1s").host("a", "b")
    >>> two = two.link("a", "b", "5M/20ms", name="line").traffic("tcp", "a", "b", name="bulk")
    >>> r = wl.simulate(two.sweep("link.line.scheduler", ["fifo", "fq_codel"]), seeds=4)
    >>> wl.plot.goodput_delay(r).get_ylabel()
    'goodput, Mbit/s'
    """
    if ellipse not in ("runs", "mean"):
        raise ValueError(f"ellipse: {ellipse!r} is neither 'runs' nor 'mean'")
    groups = _groups(results, labels)
    on = _axes(ax)
    for number, (label, each, point) in enumerate(groups):
        colour = COLOURS[number % len(COLOURS)]
        dots = _operating_points(each, flows, delay_of, point)
        _draw_group(on, label, dots, colour, ellipse)
    on.margins(0.08)
    on.invert_xaxis()
    on.set_xlabel("mean one-way delay, ms  (less is better →)")
    on.set_ylabel("goodput, Mbit/s")
    _finish(on, "Goodput and delay")
    drawn: Axes = on
    return drawn


def style(ax: Axes, title: str | None = None) -> Axes:
    """Gives a plot of your own the style of the reports: grid, colours of text, and a legend above
    if there are several curves. Call it after drawing.

    Args:
        ax: The axes.
        title: The title.

    Returns:
        The same axes.

    >>> import weirlab as wl, matplotlib.pyplot as plt
    >>> figure, ax = plt.subplots()
    >>> lines = ax.plot([1, 2], color=wl.plot.COLOURS[0])
    >>> wl.plot.style(ax, "mine").get_title(loc="left")
    'mine'
    """
    _finish(_axes(ax), title)
    return ax


@dataclass
class _Series:
    """The intervals of a flow or link in one run."""

    starts_ns: list[int] = field(default_factory=list[int])
    spans_ns: list[int] = field(default_factory=list[int])
    values: list[list[float]] = field(default_factory=list[list[float]])
    """The values of the columns, for each interval."""


@dataclass
class _Bins:
    """Joined intervals: their bounds in s, and for each column the extremes and the mean."""

    edges: list[float]
    low: list[list[float]]
    mean: list[list[float]]
    high: list[list[float]]


def _results(results: Results) -> Results:
    if not isinstance(results, Results):
        raise TypeError(f"results: expected the results of simulate, not {type(results).__name__}")
    return results


def _point(results: Results, point: int | None) -> int | None:
    """The point to draw; None if there is no sweep."""
    chosen = results._point(None if point is None else whole(point, "point"))
    return chosen if "point" in results.flows.columns or "point" in results.links.columns else None


def _rows(results: Results, table: str, point: int | None) -> Iterable[int]:
    """The indices of a table's rows that belong to a point."""
    rows = getattr(results, table)
    if point is None or "point" not in rows.columns:
        return range(len(rows))
    return [number for number, each in enumerate(rows["point"]) if each == point]


def _flows(results: Results, names: Names, point: int | None) -> list[str]:
    """Names of flows: those that are given, or those with the most traffic."""
    known: dict[str, int] = defaultdict(int)
    table = results.flows
    all_names, received = table["name"], table["received_bytes"]
    for row in _rows(results, "flows", point):
        known[all_names[row]] += received[row]
    if names is None:
        most = sorted((name for name in known if known[name]), key=lambda name: -known[name])
        chosen = frozenset(most[:_CURVES])
        return [name for name in known if name in chosen]
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no flow {name!r}; there are {', '.join(known)}")
    if not wanted:
        raise ValueError("flows: at least one is needed")
    if len(wanted) > _CURVES:
        raise ValueError(f"flows: a plot has at most {_CURVES}, and these are {len(wanted)}")
    return wanted


def _link(results: Results, name: str | None, point: int | None = None) -> str:
    """The name of a link: the one that is given, or the one with the most queueing."""
    table = results.links
    known = dict.fromkeys(table["name"])
    if name is None:
        waiting: dict[str, float] = defaultdict(float)
        names, means, packets = table["name"], table["queue_mean_ns"], table["packets_out"]
        for row in _rows(results, "links", point):
            waiting[names[row]] += (means[row] or 0.0) * (packets[row] or 0.0)
        if not waiting:
            raise ValueError("there is no link")
        return max(waiting, key=lambda each: waiting[each])
    if name not in known:
        raise ValueError(f"there is no link {name!r}; there are {', '.join(known)}")
    return name


def _distributions(
    results: Results, names: Iterable[str], kinds: Iterable[str], point: int | None
) -> dict[tuple[str, str], list[tuple[int, int, int]]]:
    """The buckets of the distributions of all runs: bounds in ns and counts, in ascending order."""
    merged: dict[tuple[str, str], dict[tuple[int, int], int]] = {
        (name, what): defaultdict(int) for name in names for what in kinds
    }
    table = results.delays
    keys = zip(table["name"], table["what"], table["low_ns"], table["high_ns"], table["count"])
    rows = list(keys)
    for number in _rows(results, "delays", point):
        name, what, low, high, count = rows[number]
        if (name, what) in merged:
            merged[name, what][low, high] += count
    return {
        key: sorted((low, high, count) for (low, high), count in buckets.items())
        for key, buckets in merged.items()
    }


def _series(
    results: Results, kind: str, names: Iterable[str], columns: Sequence[str], point: int | None
) -> dict[str, list[_Series]]:
    """The intervals of flows or links: for each name, the runs."""
    table = results.series
    found: dict[str, dict[int, _Series]] = {name: {} for name in names}
    kinds, all_names, seeds = table["object"], table["name"], table["seed"]
    starts, spans = table["t_ns"], table["span_ns"]
    values = [table[column] for column in columns]
    for row in _rows(results, "series", point):
        if kinds[row] != kind or all_names[row] not in found:
            continue
        run = found[all_names[row]].setdefault(seeds[row], _Series())
        run.starts_ns.append(starts[row])
        run.spans_ns.append(spans[row])
        run.values.append([float(column[row] or 0) for column in values])
    if not any(found.values()):
        raise ValueError("the results have no series: set measure.interval in the scenario")
    return {name: list(runs.values()) for name, runs in found.items()}


def _join_count(run: _Series) -> int:
    """The number of intervals that are joined to one point."""
    return max(math.ceil(len(run.starts_ns) / _POINTS), 1)


def _binned(run: _Series, join: int, rate: bool = False) -> _Bins:
    """Joins intervals. With `rate`, values are bytes and become Mbit/s."""
    width = len(run.values[0]) if run.values else 0
    low: list[list[float]] = [[] for _ in range(width)]
    mean: list[list[float]] = [[] for _ in range(width)]
    high: list[list[float]] = [[] for _ in range(width)]
    bins = _Bins([], low, mean, high)
    for first in range(0, len(run.starts_ns), join):
        part = slice(first, first + join)
        spans = [max(span, 1) for span in run.spans_ns[part]]
        bins.edges.append(run.starts_ns[first] / 1e9)
        for place in range(width):
            values = [values[place] for values in run.values[part]]
            if rate:
                values = [value * 8e3 / span for value, span in zip(values, spans)]
            whole_ns = sum(spans)
            weighted = sum(value * span for value, span in zip(values, spans))
            bins.low[place].append(min(values))
            bins.mean[place].append(weighted / whole_ns)
            bins.high[place].append(max(values))
    if run.starts_ns:
        bins.edges.append((run.starts_ns[-1] + run.spans_ns[-1]) / 1e9)
    return bins


def _groups(results: Many, labels: Sequence[str] | None) -> list[tuple[str, Results, int | None]]:
    """The labels, results and points of a comparison."""
    if isinstance(results, Mapping):
        if labels is not None:
            raise ValueError("labels: the results have theirs already")
        return [(str(label), _results(each), _point(each, None)) for label, each in results.items()]
    points = _results(results).points
    if labels is None:
        labels = [", ".join(str(value) for value in point.values()) for point in points]
        labels = [results.name] if labels == [""] else labels
    if len(labels) != len(points):
        raise ValueError(f"labels: {len(labels)} are given for {len(points)} points")
    return [(label, results, _point(results, number)) for number, label in enumerate(labels)]


def _operating_points(
    results: Results, flows: Names, delay_of: Names, point: int | None
) -> list[tuple[float, float]]:
    """The mean delay in ms and the goodput in Mbit/s of each run."""
    table = results.flows
    known = frozenset(table["name"])
    sets: list[frozenset[str]] = []
    for names in (flows, flows if delay_of is None else delay_of):
        given = [names] if isinstance(names, str) else names
        chosen = known if given is None else frozenset(given)
        if missing := sorted(chosen - known):
            there = ", ".join(sorted(known))
            raise ValueError(f"there is no flow {missing[0]!r}; there are {there}")
        sets.append(chosen)
    rates: dict[int, float] = defaultdict(float)
    delays: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    names, seeds, goodputs = table["name"], table["seed"], table["goodput_bps"]
    means, packets = table["delay_mean_ns"], table["received"]
    for row in _rows(results, "flows", point):
        if names[row] in sets[0]:
            rates[seeds[row]] += (goodputs[row] or 0.0) / 1e6
        if names[row] in sets[1] and packets[row]:
            sums = delays[seeds[row]]
            sums[0] += means[row] * packets[row]
            sums[1] += packets[row]
    return [
        (delays[seed][0] / delays[seed][1] / 1e6, rate)
        for seed, rate in rates.items()
        if delays[seed][1]
    ]


def ellipse_of(
    dots: Sequence[tuple[float, float]], kind: Literal["runs", "mean"] = "runs"
) -> tuple[float, float, float, float, float] | None:
    """The ellipse of points in the plane.

    Args:
        dots: The points.
        kind: ``"runs"`` for one standard deviation of the points, ``"mean"`` for the 95 %
            confidence region of their mean.

    Returns:
        The centre, the half axes and the angle of the first axis, in radians; None with fewer than
        three points.

    >>> import weirlab as wl
    >>> x, y, a, b, angle = wl.plot.ellipse_of([(0, 0), (2, 0), (0, 1), (2, 1)])
    >>> x, y, round(a, 3), round(b, 3), abs(round(angle, 3))
    (1.0, 0.5, 1.155, 0.577, 0.0)
    """
    count = len(dots)
    if count < 3:
        return None
    x = math.fsum(dot[0] for dot in dots) / count
    y = math.fsum(dot[1] for dot in dots) / count
    xx = math.fsum((dot[0] - x) ** 2 for dot in dots) / (count - 1)
    yy = math.fsum((dot[1] - y) ** 2 for dot in dots) / (count - 1)
    xy = math.fsum((dot[0] - x) * (dot[1] - y) for dot in dots) / (count - 1)
    middle, spread = (xx + yy) / 2, math.hypot((xx - yy) / 2, xy)
    scale = 1.0
    if kind == "mean":
        # The quantile of F with 2 and n - 2 degrees of freedom has a closed form.
        rest = count - 2
        quantile = rest / 2 * ((1 - _CONFIDENCE) ** (-2 / rest) - 1)
        scale = 2 * (count - 1) / (count * rest) * quantile
    variances = (middle + spread, middle - spread)
    first, second = (math.sqrt(max(variance, 0.0) * scale) for variance in variances)
    return x, y, first, second, 0.5 * math.atan2(2 * xy, xx - yy)


_CONFIDENCE = 0.95


def _draw_group(
    ax: Any,
    label: str,
    dots: Sequence[tuple[float, float]],
    colour: str,
    kind: Literal["runs", "mean"],
) -> None:
    """The runs of a point, their ellipse and their mean."""
    if not dots:
        return
    found = ellipse_of(dots, kind)
    if found is not None:
        x, y, first, second, angle = found
        turns = [2 * math.pi * n / _CORNERS for n in range(_CORNERS + 1)]
        cos, sin = math.cos(angle), math.sin(angle)
        xs = [x + first * math.cos(t) * cos - second * math.sin(t) * sin for t in turns]
        ys = [y + first * math.cos(t) * sin + second * math.sin(t) * cos for t in turns]
        ax.fill(xs, ys, facecolor=colour, alpha=_BAND_OPACITY / 2, linewidth=0)
        ax.plot(xs, ys, color=colour, linewidth=1.2)
    xs, ys = [dot[0] for dot in dots], [dot[1] for dot in dots]
    ax.plot(xs, ys, ".", color=colour, markersize=5, alpha=0.7, markeredgewidth=0)
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    ax.plot([x], [y], "o", color=colour, markersize=6.5, markeredgecolor="white", label=label)


_CORNERS = 96


def _draw_shares(
    ax: Any, label: str, buckets: Sequence[tuple[int, int, int]], colour: str, tail: bool
) -> None:
    """The share of values up to each value, or above it."""
    total = sum(count for _, _, count in buckets)
    xs, ys = [buckets[0][0] / 1e6], [0.0]
    below = 0
    for low, high, count in buckets:
        # No value lies between two buckets, so the curve is flat there.
        xs += [low / 1e6, high / 1e6]
        ys += [below / total, (below + count) / total]
        below += count
    if tail:
        # The last share is 0, which a logarithmic axis cannot show: half a packet takes its place.
        ys = [1 - y for y in ys[:-1]] + [0.5 / total]
    ax.plot(xs, ys, color=colour, linewidth=1.6, label=label, solid_joinstyle="round")


def _delay_axis(ax: Any, curves: Sequence[Sequence[tuple[int, int, int]]]) -> None:
    """Chooses the range of delays, and whether it is logarithmic."""
    low_quantile = min(filter(None, (_quantile(buckets, 0.005) for buckets in curves)), default=1)
    low = min(buckets[0][0] for buckets in curves)
    high = max(buckets[-1][1] for buckets in curves)
    if high > low_quantile * _LOG_FROM:
        ax.set_xscale("log")
        ax.set_xlim(low_quantile * 0.9 / 1e6, high * 1.25 / 1e6)
        ticker = importlib.import_module("matplotlib.ticker")
        # An axis of few decades has more ticks.
        places = (1.0, 2.0, 5.0) if high < low_quantile * 10_000 else (1.0,)
        ax.xaxis.set_major_locator(ticker.LogLocator(subs=places, numticks=15))
        ax.xaxis.set_major_formatter(ticker.FuncFormatter(_plain))
        ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        room = max(high - low, high * 0.02, 1) * 0.06
        ax.set_xlim(max(low - room, 0) / 1e6, (high + room) / 1e6)


def _plain(value: float, _: int) -> str:
    return f"{value:g}"


def _time_axis(ax: Any) -> None:
    """Fits the axes to the drawn intervals, with room above the highest peak."""
    steps = [patch.get_data() for patch in ax.patches if hasattr(patch, "get_data")]
    if steps:
        ax.set_xlim(min(each.edges[0] for each in steps), max(each.edges[-1] for each in steps))
    levels = [float(max(line.get_ydata())) for line in ax.lines]
    highest = max([*levels, *(float(max(each.values)) for each in steps)], default=0.0)
    ax.set_ylim(0, (highest or 1) * 1.06)
    ax.set_xlabel("time, s")


def _quantile(buckets: Sequence[tuple[int, int, int]], share: float) -> int:
    rank = share * sum(count for _, _, count in buckets)
    below = 0
    for _, high, count in buckets:
        below += count
        if below > rank:
            return high
    return buckets[-1][1]


def _steps(
    ax: Any, edges: Sequence[float], values: Sequence[float], colour: str, label: str
) -> None:
    ax.stairs(values, edges, baseline=None, color=colour, linewidth=1.6, label=label)


def _band(
    ax: Any,
    edges: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    colour: str,
    label: str | None,
) -> None:
    # The outline keeps a peak visible that is narrower than a pixel.
    ax.stairs(
        high, edges, baseline=low, fill=True, facecolor=colour, edgecolor=colour,
        alpha=_BAND_OPACITY, linewidth=0.8, label=label,
    )  # fmt: skip


def _axes(ax: Axes | None) -> Any:
    """The axes to draw on, in the style of the reports."""
    # `Any`, since some of matplotlib's types are unknown.
    on: Any = ax
    if on is None:
        _, on = _pyplot().subplots(figsize=(6.4, 3.2), layout="constrained")
    on.grid(True, color=RULE, linewidth=0.8)
    on.set_axisbelow(True)
    for side in ("top", "right", "left"):
        on.spines[side].set_visible(False)
    on.spines["bottom"].set_color(MUTED)
    on.tick_params(colors=MUTED, labelsize=9, length=3, which="both")
    on.tick_params(axis="y", length=0, which="both")
    return on


def _finish(ax: Any, title: str | None) -> None:
    """Adds title and legend."""
    if title is not None:
        pad = 24 if _many(ax) else 8
        ax.set_title(title, loc="left", color=INK, fontsize=11, pad=pad)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_color(MUTED)
        label.set_fontsize(9)
    if _many(ax):
        ax.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=_CURVES, frameon=False, fontsize=9,
            labelcolor=INK, borderaxespad=0, handlelength=1.6, columnspacing=1.2,
            borderpad=0.3,
        )  # fmt: skip


def _many(ax: Any) -> bool:
    """Whether there are several labelled curves."""
    return len(ax.get_legend_handles_labels()[1]) > 1


def _pyplot() -> Any:
    try:
        return importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'weirlab[plot]'") from error
