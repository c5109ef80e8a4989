"""The trace as one self-contained HTML page: a timeline of plans, the plans, the switches, the estimates, slow batches.

No script and nothing loaded from elsewhere, so that the page can be mailed or kept beside the trace. All text of the trace
goes through :func:`html.escape`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from cqels_opt.trace.history import (
    QueryHistory,
    SourceHistory,
    Switch,
    clock,
    duration,
    figure,
    histories,
    known,
    plural,
    totals,
)
from cqels_opt.trace.records import Milliseconds, TraceRecord

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
_WIDTH, _ROW, _LABEL, _CURVE = 960, 26, 130, 70
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
.key { display: inline-block; min-width: 1.4em; text-align: center; color: #fff; border-radius: 3px; }
.note { color: #b60; }
"""


def trace_page(records: Iterable[TraceRecord], title: str) -> str:
    """The page's text; ``title`` is usually the trace file's name."""
    found = histories(records)
    body = "".join(_query(history) for history in found) or "<p>The trace is empty: no micro-batch was recorded.</p>"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{body}</body>\n</html>\n"
    )


def _query(history: QueryHistory) -> str:
    phases = ", ".join(f"{phase} {duration(getattr(history.ms, phase))}" for phase in Milliseconds.PHASES)
    parts = [
        f"<h2>Query {escape(history.query)}</h2>\n<p>{escape(totals(history))}.<br>",
        f"Stream time {clock(history.first_time)} to {clock(history.last_time)} UTC.<br>",
        f"{duration(history.ms.total)} in all, {duration(history.median_ms)} the median batch: {phases}.</p>\n",
        *([f'<p class="note">Lag: {escape(history.lag)}.</p>\n'] if history.lag else []),
        *(f'<p class="note">The optimizer fell back to a greedy order: {escape(reason)}.</p>\n' for reason in history.fallbacks),
        *(f'<p class="note">Sub-results, {escape(change)}.</p>\n' for change in history.sub_results),
        _timeline(history),
        *(_source(source) for source in history.sources),
        _switches(history),
        _estimates(history),
        _slowest(history),
    ]
    return "".join(parts)


def _timeline(history: QueryHistory) -> str:
    """A row a delta source, coloured by the plan that ruled; below, the milliseconds of each batch."""
    step = (_WIDTH - _LABEL) / history.batches
    height = len(history.sources) * _ROW + _CURVE + 24
    shapes = []
    for row, source in enumerate(history.sources):
        top = row * _ROW
        shapes.append(f'<text x="0" y="{top + 16}">{escape(source.source)}</text>')
        for reign in source.reigns:
            left, width = _LABEL + reign.first * step, (reign.last - reign.first + 1) * step
            place = f'x="{left:.1f}" y="{top}" width="{max(width, 1):.1f}" height="{_ROW - 6}"'
            what = f"<title>{source.letter(reign.plan)}: {escape(reign.plan)}</title>"
            shapes.append(f'<rect {place} fill="{_colour(source, reign.plan)}">{what}</rect>')
    bottom = len(history.sources) * _ROW + _CURVE
    peak = max(history.batch_ms) or 1.0
    points = " ".join(
        f"{_LABEL + (index + 0.5) * step:.1f},{bottom - ms / peak * (_CURVE - 10):.1f}"
        for index, ms in enumerate(history.batch_ms)
    )
    shapes += [
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1"/>',
        f'<text x="0" y="{bottom - _CURVE + 20}">a batch: {duration(peak)}</text><text x="0" y="{bottom}">0 ms</text>',
        f'<text x="{_LABEL}" y="{bottom + 18}">{clock(history.first_time)}</text>',
        f'<text x="{_WIDTH}" y="{bottom + 18}" text-anchor="end">{clock(history.last_time)}</text>',
    ]
    label = f'role="img" aria-label="Plans and milliseconds over {plural(history.batches, "batch")}"'
    return f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" {label}>\n' + "\n".join(shapes) + "\n</svg>\n"


def _source(source: SourceHistory) -> str:
    batches = sum(use.batches for use in source.plans)
    rows = [
        (
            _key(source, use.plan),
            f"{use.batches:,}",
            f"{100 * use.batches / batches:.0f} %",
            duration(use.ms),
            figure(use.cost),
            f"<code>{escape(use.plan)}</code>",
        )
        for use in source.plans
    ]
    head = f"Delta {escape(source.source)}: {plural(len(source.plans), 'plan')}, {plural(len(source.switches), 'switch')}"
    return f"<h3>{head}</h3>\n" + _table(("", "batches", "share", "time", "last cost", "plan"), rows, figures={1, 2, 3, 4})


def _switches(history: QueryHistory) -> str:
    if not history.switches:
        return ""
    sources = {source.source: source for source in history.sources}
    rows = [_switch(switch, sources[switch.source]) for switch in history.switches]
    columns = ("batch", "stream time", "delta", "from, to", "cost", "why")
    return f"<h3>{plural(len(rows), 'plan switch')}</h3>\n" + _table(columns, rows, figures={0})


def _switch(switch: Switch, source: SourceHistory) -> tuple[str, ...]:
    reasons = (f"{escape(moved.statistic)}: {known(moved.was)} &rarr; {known(moved.now)}" for moved in switch.reason)
    return (
        f"{switch.batch}",
        clock(switch.time),
        escape(switch.source),
        f"{_key(source, switch.before)} &rarr; {_key(source, switch.after)}",
        f"{figure(switch.instead_of)} &rarr; {figure(switch.cost)}",
        "<br>".join(reasons),
    )


def _estimates(history: QueryHistory) -> str:
    if not history.estimates:
        return ""
    rows = [
        (escape(entry.relation), f"{entry.known:,}", figure(entry.median), figure(entry.p95), figure(entry.greatest))
        for entry in sorted(history.estimates, key=lambda entry: -entry.p95)
    ]
    columns = ("relation", "probes", "median", "95 %", "greatest")
    return "<h3>q-error of the estimates (1 is exact)</h3>\n" + _table(columns, rows, figures={1, 2, 3, 4})


def _slowest(history: QueryHistory) -> str:
    rows = [
        (
            f"{slow.batch}",
            clock(slow.time),
            f"{slow.elements:,}",
            duration(slow.ms.total),
            *(duration(getattr(slow.ms, phase)) for phase in Milliseconds.PHASES),
        )
        for slow in history.slowest
    ]
    columns = ("batch", "stream time", "elements", "time", *Milliseconds.PHASES)
    return "<h3>Slowest batches</h3>\n" + _table(columns, rows, figures={0, 2, *range(3, len(columns))})


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], figures: set[int]) -> str:
    """A table of cells that are HTML already; columns in ``figures`` are set flush right."""
    head = "".join(f"<th>{column}</th>" for column in columns)
    lines = [
        "<tr>"
        + "".join(f'<td class="n">{cell}</td>' if n in figures else f"<td>{cell}</td>" for n, cell in enumerate(row))
        + "</tr>"
        for row in rows
    ]
    return f"<table>\n<tr>{head}</tr>\n" + "\n".join(lines) + "\n</table>\n"


def _key(source: SourceHistory, plan: str) -> str:
    return f'<span class="key" style="background: {_colour(source, plan)}" title="{escape(plan)}">{source.letter(plan)}</span>'


def _colour(source: SourceHistory, plan: str) -> str:
    number = next(number for number, use in enumerate(source.plans) if use.plan == plan)
    return _COLOURS[number % len(_COLOURS)]
