"""Plans and the live state of a run as HTML for a notebook: no scripts, no external resources, all text escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any, Protocol

from cqels_opt.errors import InputError
from cqels_opt.plans.explain_text import q_error
from cqels_opt.plans.figures import in_words
from cqels_opt.trace.figures import batch_times, clock, figure, plural
from cqels_opt.trace.plan_figures import cost_figure, moved_values
from cqels_opt.trace.records import Delta, TraceRecord

ALTERNATIVES = 3
"""The number of retained plans shown per delta source."""

_CELL = "text-align:left;padding:.15em .8em .15em 0;vertical-align:top"
_NUMBER = "text-align:right;padding:.15em .8em .15em 0;font-variant-numeric:tabular-nums"
_BAD = 10.0
"""Estimates with a larger q-error are highlighted."""


def plans(title: str, explained: str) -> str:
    """The plans of ``explain(format="json")`` with estimated and observed rows per operator, and the retained alternatives."""
    found = json.loads(explained)
    body = "".join(_deltas(found)) or "<p>Nothing is joined.</p>"
    return _block(title, body)


def declared(title: str, relations: Sequence[str], conditions: Sequence[str]) -> str:
    """A join as it was declared: nothing is read, so there are no plans."""
    body = f"<p>{escape(', '.join(relations))}</p><p>{escape(' AND '.join(conditions))}</p>"
    return _block(title, body + "<p>explain() reads the static relations and shows the plans.</p>")


def live(
    title: str, last: TraceRecord | None, switches: int, totals: Mapping[str, int], failure: object = None, explained: str = ""
) -> str:
    """The state of a run: its totals, its last micro-batch, and the current plans."""
    named = (("batches", "batch"), ("elements", "element"), ("answers", "answer"))
    counts = [plural(totals.get(name, 0), one) for name, one in named]
    counts += [f"{totals[name]:,} {name}" for name in ("late", "rejected") if totals.get(name)]
    parts = [f"<p>{', '.join(counts)}; {plural(switches, 'plan switch')}.</p>"]
    if failure is not None:
        parts.append(f'<p style="color:#b00"><b>Over:</b> {escape(str(failure))}</p>')
    if last is None:
        parts.append("<p>No micro-batch has been done yet.</p>")
    else:
        parts.append(_last(last))
    if explained:
        parts += _deltas(json.loads(explained))
    return _block(title, "".join(parts))


class Watched(Protocol):
    """A process that can be watched until it ends."""

    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits at most ``timeout`` seconds; returns whether it has ended."""


def watch(what: Watched, every: float) -> None:
    """Shows an object in a notebook and refreshes it every ``every`` seconds until it has ended."""
    try:
        display: Any = import_module("IPython.display").display
    except ImportError as error:
        raise InputError("watch() shows a run in a notebook, which has IPython: pip install 'cqels-opt[notebooks]'") from error
    shown = display(what, display_id=True)
    if shown is None:
        raise InputError("watch() shows a run in a notebook; here, read await_termination() and statistics()")
    try:
        while not what.await_termination(every):
            shown.update(what)
    finally:
        shown.update(what)


def _last(record: TraceRecord) -> str:
    times = batch_times(record.ms)
    windows = ", ".join(f"{escape(name)} {rows:,}" for name, rows in record.windows.items())
    lines = [
        f"batch {record.batch}: {plural(record.elements, 'element')} in {times}; {plural(record.jobs, 'Spark job')}",
        f"failed: {escape(record.failed)}" if record.failed is not None else "",
        f"answers are final up to {clock(record.frontier)}" if record.frontier is not None else "",
        f"windows: {windows}" if windows else "",
        f"optimizer: {escape(record.fallback)}" if record.fallback else "",
    ]
    switched = [_switched(delta) for delta in record.switches]
    return "<p>" + "<br>".join(line for line in (*lines, *switched) if line) + "</p>"


def _switched(delta: Delta) -> str:
    moved = delta.reason[0] if delta.reason else None
    if moved is None:
        return f"{escape(delta.source)} took another plan"
    was, now = moved_values(moved)
    why = f", as {escape(in_words(moved.statistic))} went from {was} to {now}"
    return f"{escape(delta.source)} took another plan{why}"


def _deltas(found: Mapping[str, Any]) -> list[str]:
    """The plans of an EXPLAIN; the costs of a model with constants are seconds."""
    return [_delta(delta, "s" if found.get("constants") else None) for delta in found["deltas"]]


def _delta(delta: Mapping[str, Any], unit: str | None) -> str:
    where = f" where {escape(str(delta['part']))}" if "part" in delta else ""
    heads = [("operator", _CELL), ("relation", _CELL), ("on", _CELL)]
    heads += [(name, _NUMBER) for name in ("estimated", "observed", "q-error")]
    rows = "".join(_operator(step) for step in delta["operators"])
    head = "".join(f'<th style="{style}">{name}</th>' for name, style in heads)
    return (
        f"<p style='margin-bottom:.2em'>new rows of <b>{escape(delta['source'])}</b>{where}: <code>{escape(delta['plan'])}</code>"
        f"{_cost(delta['cost'], unit)}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{_others(delta, unit)}"
    )


def _operator(step: Mapping[str, Any]) -> str:
    estimated, observed = step["estimated"], step["observed"]
    error = None if observed is None or estimated is None else q_error(estimated, observed)
    mark = ";color:#b60;font-weight:bold" if error is not None and error > _BAD else ""
    on = " ".join("?" + variable for variable in step["on"])
    cells = [(escape(text), _CELL) for text in (step.get("by") or step["op"], step["relation"], on)]
    cells += [
        (figure(estimated), _NUMBER),
        (figure(observed), _NUMBER),
        ("-" if error is None else f"{error:.2f}", _NUMBER + mark),
    ]
    return "<tr>" + "".join(f'<td style="{style}">{text}</td>' for text, style in cells) + "</tr>"


def _others(delta: Mapping[str, Any], unit: str | None) -> str:
    others: Sequence[Mapping[str, Any]] = delta.get("alternatives") or ([delta["runner_up"]] if delta.get("runner_up") else [])
    listed = "".join(f"<li><code>{escape(other['plan'])}</code>{_cost(other['cost'], unit)}</li>" for other in others)
    if not listed:
        return ""
    retained = f"{delta['retained']:,} alternatives retained" if "retained" in delta else "other plans"
    return f"<details><summary>{retained}</summary><ol>{listed}</ol></details>"


def _cost(cost: float | None, unit: str | None) -> str:
    return "" if cost is None else f", cost {cost_figure(cost, unit)}"


def _block(title: str, body: str) -> str:
    return f'<div class="cqels-opt"><p><b>{escape(title)}</b></p>{body}</div>'
