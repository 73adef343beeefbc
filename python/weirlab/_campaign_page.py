"""The page of a campaign: a figure over the axes as small multiples, its sensitivity, and the best
points with links to the reports of their runs."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from ._design import Sensitivity, number_of
from ._precision import Estimated, Figure

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 340, 230, 62, 40, 12
# The colours of curves, from the palette of Okabe and Ito.
_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000"]
_MOST_PANELS = 24
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1120px;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right}
th{border-bottom:1px solid #999}td:first-child,th:first-child{text-align:left}
.panels{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0}figcaption{font-size:13px}
svg text{font:11px system-ui,sans-serif;fill:#333}
"""


def campaign_page(
    title: str,
    points: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
    figure: Figure,
    ranked: Sequence[Estimated],
    reports: int,
    roles: tuple[str | None, str | None, str | None],
    sensitivity: Mapping[str, Sensitivity] | None,
) -> str:
    """The page as HTML. `ranked` are the estimates of the points, best first."""
    name = f"{figure.column} of {figure.name}"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{html.escape(name)}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(name)}</h1><p>{html.escape(title)}</p>",
    ]
    values = {axis: _values(points, axis) for axis in axes}
    x, panels, lines = _roles(values, roles)
    if x is not None:
        parts += _panels(points, figure, ranked, values, x, panels, lines)
    if sensitivity:
        parts += _sensitivity(sensitivity)
    parts += _best(points, axes, ranked, reports)
    return "\n".join(parts) + "\n"


def _roles(
    values: Mapping[str, Sequence[Any]], roles: tuple[str | None, str | None, str | None]
) -> tuple[str | None, str | None, str | None]:
    """The axes of the abscissa, the panels and the lines: those given, then those with the most
    values."""
    for axis in roles:
        if axis is not None and axis not in values:
            raise ValueError(f"there is no axis {axis!r}; the axes are {', '.join(values)}")
    by_length = sorted(values, key=lambda axis: -len(values[axis]))
    free = [axis for axis in by_length if axis not in roles]
    x = roles[0] or (free.pop(0) if free else None)
    lines = roles[2] or (free.pop(0) if free and len(values[free[0]]) <= len(_COLOURS) else None)
    panels = roles[1] or (free.pop(0) if free and len(values[free[0]]) <= _MOST_PANELS else None)
    return x, panels, lines


def _values(points: Sequence[Mapping[str, Any]], axis: str) -> list[Any]:
    """The values of an axis: ascending if all are numbers, else in the order of the points."""
    found = list(dict.fromkeys(str(point.get(axis)) for point in points))
    numbers = {value: number_of(value) for value in found}
    if all(number is not None for number in numbers.values()):
        found.sort(key=lambda value: numbers[value] or 0.0)
    return found


def _panels(
    points: Sequence[Mapping[str, Any]],
    figure: Figure,
    ranked: Sequence[Estimated],
    values: Mapping[str, Sequence[Any]],
    x: str,
    panels: str | None,
    lines: str | None,
) -> list[str]:
    top = max((e.mean + (e.half_width or 0) for e in ranked), default=1.0)
    top = top if top > 0 else 1.0
    parts = ['<div class="panels">']
    for panel in values[panels][:_MOST_PANELS] if panels else [None]:
        chosen = [
            each
            for each in ranked
            if panel is None or str(points[each.point].get(panels or "")) == panel
        ]
        caption = "" if panel is None else f"{panels} = {panel}"
        parts.append(f"<figure><figcaption>{html.escape(caption)}</figcaption>")
        parts.append(_plot(points, figure, chosen, values, x, lines, top))
        parts.append("</figure>")
    parts.append("</div>")
    if lines:
        words = ", ".join(
            f'<span style="color:{_COLOURS[at % len(_COLOURS)]}">■</span> {html.escape(value)}'
            for at, value in enumerate(values[lines])
        )
        parts.append(f"<p>{html.escape(lines)}: {words}</p>")
    parts.append(
        "<p>Means over seeds; bars are 95 % confidence intervals of points. A line joins the means "
        "over all other axes.</p>"
    )
    return parts


def _plot(
    points: Sequence[Mapping[str, Any]],
    figure: Figure,
    chosen: Sequence[Estimated],
    values: Mapping[str, Sequence[Any]],
    x: str,
    lines: str | None,
    top: float,
) -> str:
    columns = values[x]
    step = (_WIDTH - _LEFT - 16) / max(len(columns) - 1, 1)

    def at(value: str) -> float:
        return _LEFT + 8 + step * columns.index(value)

    def height(number: float) -> float:
        return _HEIGHT - _BOTTOM - max(number, 0.0) / top * (_HEIGHT - _BOTTOM - _TOP)

    words = html.escape(f"{figure.column} against {x}")
    parts = [f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{words}">']
    for part in (0.0, 0.5, 1.0):
        y = height(part * top)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{part * top:.3g}</text>'
        )
    every = max(1, len(columns) // 5)
    for value in columns[::every]:
        parts.append(
            f'<text x="{at(value):.1f}" y="{_HEIGHT - 22}" text-anchor="middle">'
            f"{html.escape(value)}</text>"
        )
    parts.append(
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 5}" text-anchor="middle">'
        f"{html.escape(x)}</text>"
    )
    for number, line in enumerate(values[lines] if lines else [None]):
        colour = _COLOURS[number % len(_COLOURS)]
        found: dict[str, list[float]] = {}
        for each in chosen:
            point = points[each.point]
            if line is not None and str(point.get(lines or "")) != line:
                continue
            value, half = str(point.get(x)), each.half_width or 0.0
            found.setdefault(value, []).append(each.mean)
            parts.append(
                f'<line x1="{at(value):.1f}" x2="{at(value):.1f}" '
                f'y1="{height(each.mean - half):.1f}" y2="{height(each.mean + half):.1f}" '
                f'stroke="{colour}" opacity=".5"/>'
                f'<circle cx="{at(value):.1f}" cy="{height(each.mean):.1f}" r="2" fill="{colour}"/>'
            )
        path = [
            f"{at(value):.1f},{height(sum(found[value]) / len(found[value])):.1f}"
            for value in columns
            if value in found
        ]
        parts.append(f'<polyline points="{" ".join(path)}" fill="none" stroke="{colour}"/>')
    parts.append("</svg>")
    return "".join(parts)


def _sensitivity(sensitivity: Mapping[str, Sensitivity]) -> list[str]:
    rows = [
        f"<tr><td>{html.escape(axis)}</td><td>{s.first:.3f} ± {s.first_half:.3f}</td>"
        f"<td>{s.total:.3f} ± {s.total_half:.3f}</td></tr>"
        for axis, s in sorted(sensitivity.items(), key=lambda item: -item[1].total)
    ]
    head = "<tr><th>axis</th><th>alone</th><th>in total</th></tr>"
    return ["<h2>Sensitivity</h2>", f"<table>{head}{''.join(rows)}</table>"]


def _best(
    points: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
    ranked: Sequence[Estimated],
    reports: int,
) -> list[str]:
    heads = "".join(f"<th>{html.escape(axis)}</th>" for axis in axes)
    parts = [
        "<h2>Best points</h2>",
        f"<table><tr><th>point</th>{heads}<th>mean</th><th>±</th><th>runs</th></tr>",
    ]
    for each in ranked[:reports]:
        cells = "".join(
            f"<td>{html.escape(str(points[each.point].get(axis, '')))}</td>" for axis in axes
        )
        half = "–" if each.half_width is None else f"{each.half_width:.4g}"
        parts.append(
            f'<tr><td><a href="point-{each.point}.html">{each.point}</a></td>{cells}'
            f"<td>{each.mean:.6g}</td><td>{half}</td><td>{each.runs}</td></tr>"
        )
    parts.append("</table>")
    return parts
