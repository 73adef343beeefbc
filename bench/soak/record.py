"""The record of a soak: one row a second as CSV, a plot, and the verdict.

The verdict is computed from the rows alone, so `run --judge FILE` repeats it.
"""

from __future__ import annotations

import csv
from html import escape
from pathlib import Path
from statistics import median

COLUMNS = (
    "seconds",
    "steady",
    "generation",
    "revision",
    "changes",
    "clients",
    "packets_in",
    "packets_out",
    "duplicated",
    "drops",
    "backlog",
    "balanced",
    "descriptors",
    "threads",
    "rss_kib",
    "lateness_p99_us",
    "events",
)

# A steady daemon may use this much more memory at the end than at the beginning. The heap takes
# memory in steps of 4 MiB, and clients and bursts may need the most memory at a late moment.
MOST_GROWTH_KIB = 16 * 1024
# A steady daemon may have this many more descriptors at the end. The clients vary in number; a leak
# of one descriptor a second exceeds this within a minute.
MOST_DESCRIPTORS = 45
# A slope through fewer rows says nothing.
LEAST_ROWS = 20
MOST_POINTS = 300


def read(path: Path) -> list[dict]:
    with path.open(newline="") as file:
        return [typed(row) for row in csv.DictReader(file)]


def typed(row: dict) -> dict:
    return {k: v if k == "events" else float(v) for k, v in row.items()}


def unbalanced(counters: dict) -> str:
    """Why counters do not balance; empty if they do."""
    entered = counters["packets_in"] + counters["duplicated"] + counters.get("carried", 0)
    gone = counters["packets_out"] + sum(counters["drops"].values()) + counters["backlog_packets"]
    return "" if entered == gone else f"{entered} entered, {gone} are accounted for: {counters}"


def slope(points: list[tuple[float, float]]) -> float:
    """The median of the slopes between pairs of points (Theil and Sen)."""
    step = max(len(points) // MOST_POINTS, 1)
    points = points[::step]
    pairs = ((a, b) for i, a in enumerate(points) for b in points[i + 1 :] if b[0] > a[0])
    return median([(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs] or [0.0])


def judge(rows: list[dict]) -> tuple[list[str], list[str]]:
    """The results in words, and the violations."""
    said, bad = [], []
    broken = [row for row in rows if not row["balanced"]]
    if broken:
        bad.append(
            f"counters do not balance in {len(broken)} rows, first at {broken[0]['seconds']:.0f} s"
        )
    steady = [row for row in rows if row["steady"]]
    last = rows[-1] if rows else None
    if last:
        activity = f"{last['generation']:.0f} starts, {last['changes']:.0f} acknowledged changes"
        said.append(f"{last['seconds']:.0f} s, {activity}, {len(rows)} rows")
    if len(steady) < LEAST_ROWS:
        said.append(f"too short for a slope: {len(steady)} steady rows of at least {LEAST_ROWS}")
        return said, bad
    span = steady[-1]["seconds"] - steady[0]["seconds"]
    for column, unit, most in (
        ("rss_kib", "KiB", MOST_GROWTH_KIB),
        ("descriptors", "descriptors", MOST_DESCRIPTORS),
    ):
        rate = slope([(row["seconds"], row[column]) for row in steady])
        middle = median([row[column] for row in steady])
        growth = rate * span
        said.append(
            f"{column}: median {middle:.0f}, slope {rate * 60:+.2f} {unit}/min, "
            f"{growth:+.0f} in {span:.0f} steady seconds (at most {most})"
        )
        if growth > most:
            bad.append(f"{column} grows by {growth:.0f} {unit} in {span:.0f} s; at most {most}")
    late = [row["lateness_p99_us"] for row in steady]
    said.append(f"lateness p99: median {median(late):.0f} us, greatest {max(late):.0f} us")
    return said, bad


PANELS = (
    ("packets out, thousands/s", "rate"),
    ("acknowledged changes/s", "pace"),
    ("resident memory, MiB", "memory"),
    ("open descriptors", "descriptors"),
    ("lateness p99 since the daemon's start, us", "lateness_p99_us"),
)
WIDTH, HEIGHT, LEFT, TOP = 900, 110, 70, 40


def plot(rows: list[dict], path: Path) -> None:
    """Draws the panels over time. Red lines mark kills, grey ones other events."""
    series = {name: [] for _, name in PANELS}
    for before, row in zip(rows, rows[1:]):
        t, gap = row["seconds"], max(row["seconds"] - before["seconds"], 0.001)
        series["pace"].append((t, (row["changes"] - before["changes"]) / gap))
        if row["generation"] == before["generation"]:
            series["rate"].append((t, (row["packets_out"] - before["packets_out"]) / gap / 1000))
        series["memory"].append((t, row["rss_kib"] / 1024))
        for name in ("descriptors", "lateness_p99_us"):
            series[name].append((t, row[name]))
    end = max((row["seconds"] for row in rows), default=1) or 1
    x = lambda t: LEFT + t / end * (WIDTH - LEFT - 20)
    height = TOP + len(PANELS) * (HEIGHT + 30) + 10
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="18">weir serve, soak of {end:.0f} s; red: kill -9, grey: an '
        "interface flaps</text>",
    ]
    for index, (title, name) in enumerate(PANELS):
        base = TOP + index * (HEIGHT + 30) + HEIGHT
        top = max((v for _, v in series[name]), default=1) or 1
        for row in rows:
            if row["events"]:
                colour = "#c00" if "kill" in row["events"] else "#ddd"
                at = x(row["seconds"])
                out.append(
                    f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{base - HEIGHT + 12}" y2="{base}" '
                    f'stroke="{colour}"><title>{escape(row["events"])}</title></line>'
                )
        points = " ".join(
            f"{x(t):.1f},{base - v / top * (HEIGHT - 20):.1f}" for t, v in series[name]
        )
        label = f"{top:,.0f}" if top >= 1000 else f"{top:.4g}"
        out += [
            f'<polyline fill="none" stroke="#06c" points="{points}"/>',
            f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{base}" y2="{base}" stroke="black"/>',
            f'<text x="{LEFT}" y="{base - HEIGHT + 8}">{title}</text>',
            f'<text x="{LEFT - 6}" y="{base - HEIGHT + 24}" text-anchor="end">{label}</text>',
            f'<text x="{LEFT - 6}" y="{base}" text-anchor="end">0</text>',
        ]
    out.append("</svg>")
    path.write_text("\n".join(out))
