"""`cqels-opt check`: what a query is, without Java and data."""

from __future__ import annotations

from cqels_opt.cli.options import RunOptions
from cqels_opt.cli.query_requests import QueryRequest, query_requests, warn_of_mistakes
from cqels_opt.compiler.dialect_profile import query_semantics, with_window_semantics
from cqels_opt.trace.figures import duration
from cqels_opt.windows.instants import Policy

EMITTED = {
    "istream": "emits the rows that are new",
    "dstream": "emits the rows that are gone",
    "rstream": "emits all rows at each report",
}
COUNTED = {"bag": "a triple that repeats in a window counts each time", "set": "a triple that repeats in a window counts once"}


def described(options: RunOptions) -> str:
    """The dialect, the windows and the semantics of each query. Prints warnings of likely mistakes."""
    requests = query_requests(options)
    text = "\n".join(_described(request, options) for request in requests)
    warn_of_mistakes(requests)
    return text


def _described(request: QueryRequest, options: RunOptions) -> str:
    query = with_window_semantics(request.query, options.profile, options.bounds)
    means = query_semantics(query, options.profile, request.report, options.output_operator, options.duplicates, request.t0)
    form = "SELECT" if query.form is None else type(query.form).__name__.upper()
    lines = [f"{request.file}: {query.dialect}, {form} {' '.join(f'?{one.name}' for one in query.variables)}".rstrip()]
    for window in query.windows:
        declared = next((query.text[c.start : c.end] for c in query.clauses if c.window == window.name), window.kind)
        reports = _reports(means.report.policy(window.name))
        lines.append(f"  window {window.name} over {window.stream}: {' '.join(declared.split())}; reports {reports}")
    if not query.windows:
        lines.append("  no window: it reads static data only, and is answered once")
    emitted = f"{EMITTED.get(means.operator, 'emits what an installed package defines')} ({means.operator})"
    lines.append(f"  profile {options.profile or query.dialect}: {emitted}; {COUNTED[means.duplicates]} ({means.duplicates})")
    return "\n".join(lines)


def _reports(policy: Policy) -> str:
    """When a window reports."""
    when = [
        words
        for words, given in (
            ("at each change of its content (cc)", policy.content_change),
            ("when an element enters (ea)", policy.arrival),
            ("at each close (wc)", policy.window_close),
            (f"every {duration(policy.period)} (p)", policy.period > 0),
        )
        if given
    ]
    return f"{' and '.join(when)}{', if it is not empty (nc)' if policy.non_empty else ''}"
