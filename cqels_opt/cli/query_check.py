"""`cqels-opt check`: what a query is, without Java and data."""

from __future__ import annotations

from cqels_opt.cli.options import RunOptions
from cqels_opt.cli.query_requests import QueryRequest, query_requests, warn_of_mistakes
from cqels_opt.compiler.dialect_profile import policy_words, query_semantics, with_window_semantics


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
        policy = means.report.policy(window.name)
        reports = f"{policy_words(policy)}{' ms' if policy.period else ''}"
        lines.append(f"  window {window.name} over {window.stream}: {' '.join(declared.split())}; reports {reports}")
    if not query.windows:
        lines.append("  no window: it reads static data only, and is answered once")
    lines.append(f"  profile {options.profile or query.dialect}: {means.operator}, duplicates {means.duplicates}")
    return "\n".join(lines)
