"""Charts as plain SVG: grouped bars and lines on logarithmic scales. Colours are CSS classes, for light and dark mode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 26, 44
COLOURS = 10
"""Classes ``c0`` to ``c9`` of the style sheet."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its height, the height of its shaded lower part, and its label on hover and for screen readers."""

    value: float
    shaded: float | None
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic scale from values to positions."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        """The position of a value; values below the scale are at its start."""
        share = (math.log10(max(value, self.low)) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return self.begin + share * (self.end - self.begin)

    @property
    def ticks(self) -> list[float]:
        """The powers of ten, and steps between them if there are few."""
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        steps = (1, 2, 5) if last - first < 3 else (1,)
        return [s * 10**e for e in range(first - 1, last + 1) for s in steps if self.low <= s * 10**e <= self.high * 1.0001]


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """A non-empty range that contains the values."""
    low, high = min(values), max(values)
    if high / low < 3:
        return low / 2, high * 2
    return low / 1.5, high * 1.2


def bars(groups: Mapping[str, Mapping[str, Bar]], names: Sequence[str], unit: str, title: str) -> str:
    """Groups of bars, one bar per name, on a logarithmic scale; no bar where a group lacks a name."""
    values = [v for group in groups.values() for bar in group.values() for v in (bar.value, bar.shaded or bar.value) if v > 0]
    if not values:
        return ""
    scale = Scale(*_decades(values), HEIGHT - BOTTOM, TOP)
    parts = [_opened(title), *_grid(scale, unit)]
    wide = (WIDTH - LEFT - RIGHT) / len(groups)
    thick = wide * 0.84 / len(names)
    for at, (label, group) in enumerate(groups.items()):
        begin = LEFT + at * wide + wide * 0.08
        for place, name in enumerate(names):
            if name in group:
                parts.append(_bar(group[name], begin + place * thick, thick * 0.92, scale, place))
        parts.append(_tick(LEFT + (at + 0.5) * wide, HEIGHT - BOTTOM + 18, label))
    return "".join([*parts, "</svg>"])


def _bar(bar: Bar, x: float, width: float, scale: Scale, colour: int) -> str:
    top, base = scale(bar.value), scale.begin
    across = f'x="{x:.1f}" width="{width:.1f}"'
    shape = f'<rect class="c{colour % COLOURS}" {across} y="{top:.1f}" height="{max(0.5, base - top):.1f}" rx="1.5"/>'
    if bar.shaded is not None and bar.shaded > scale.low:
        shade = scale(bar.shaded)
        shape += f'<rect class="shade" {across} y="{shade:.1f}" height="{base - shade:.1f}"/>'
    return f'<g tabindex="0" role="img" aria-label="{escape(bar.label)}"><title>{escape(bar.label)}</title>{shape}</g>'


def lines(series: Mapping[str, Mapping[float, float]], unit: str, title: str, below: str) -> str:
    """Lines on two logarithmic scales."""
    points = [(x, y) for line in series.values() for x, y in line.items() if x > 0 and y > 0]
    if not points:
        return ""
    across = Scale(*_decades([x for x, _ in points]), LEFT, WIDTH - RIGHT)
    up = Scale(*_decades([y for _, y in points]), HEIGHT - BOTTOM, TOP)
    parts = [_opened(title), *_grid(up, unit)]
    for tick in across.ticks:
        at = f"{across(tick):.1f}"
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(_tick(across(tick), HEIGHT - BOTTOM + 16, short(tick)))
    parts.append(_tick((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, below))
    for colour, (name, line) in enumerate(series.items()):
        shown = [(across(x), up(y), x, y) for x, y in sorted(line.items()) if x > 0 and y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in shown)
        parts.append(f'<polyline class="l{colour % COLOURS}" points="{path}"/>')
        for x, y, count, value in shown:
            said = escape(f"{name}, {count:,g}: {value:,.3g} {unit}")
            dot = f'<circle class="c{colour % COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
            parts.append(f'<g tabindex="0" role="img" aria-label="{said}"><title>{said}</title>{dot}</g>')
    return "".join([*parts, "</svg>"])


def _tick(x: float, y: float, text: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def short(value: float) -> str:
    """A short number for a scale."""
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:,g}"


def legend(names: Sequence[str]) -> str:
    """The names with their colours."""
    entries = (
        f'<li><svg viewBox="0 0 12 12"><rect class="c{i % COLOURS}" width="12" height="12" rx="2"/></svg>{escape(n)}</li>'
        for i, n in enumerate(names)
    )
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _opened(title: str) -> str:
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="{escape(title)}">'


def _grid(scale: Scale, unit: str) -> list[str]:
    found = [f'<text class="tick" x="4" y="{TOP - 13}">{escape(unit)}</text>']
    for tick in scale.ticks:
        y = scale(tick)
        found.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        found.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    return found
