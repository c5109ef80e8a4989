"""What a query's text leaves open, its profile decides: when it reports, what it puts out, sets or bags (SEMANTICS §3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from cqels_opt.errors import InputError
from cqels_opt.query.algebra import Query
from cqels_opt.windows.instants import Policy, Report
from cqels_opt.windows.kinds import kind_of, with_window_bounds


@dataclass(frozen=True, slots=True)
class Profile:
    """The defaults of an engine."""

    policy: Policy
    operator: str
    duplicates: Literal["set", "bag"]


CONTENT_CHANGE = Policy(content_change=True)
CLOSING = Policy(window_close=True)
CLOSING_NON_EMPTY = Policy(window_close=True, non_empty=True)
PROFILES: Mapping[str, Profile] = {
    "cqels": Profile(CONTENT_CHANGE, "istream", "bag"),
    "csparql": Profile(CLOSING_NON_EMPTY, "rstream", "set"),
    "sparqlstream": Profile(CLOSING_NON_EMPTY, "rstream", "set"),
    "rspql": Profile(CLOSING, "rstream", "set"),
    "streaming-sparql": Profile(CONTENT_CHANGE, "istream", "bag"),
}


@dataclass(frozen=True, slots=True)
class QuerySemantics:
    """How a query is meant: by its text, its profile and the options that override it."""

    report: Report
    operator: str
    duplicates: Literal["set", "bag"]


def query_semantics(
    query: Query,
    profile: str | None = None,
    report: Mapping[str, Policy] | None = None,
    operator: str | None = None,
    duplicates: Literal["set", "bag"] | None = None,
    t0: Mapping[str, int] | None = None,
) -> QuerySemantics:
    """The meaning of a query. ``report`` and ``t0`` are by window name, ``""`` for all; a name of no window is an error."""
    defaults = PROFILES[profile or query.dialect]
    names = {w.name for w in query.windows}
    for option, given in (("--report", report or {}), ("--t0", t0 or {})):
        if wrong := sorted(set(given) - names - {""}):
            there = f"it has {', '.join(sorted(names))}" if names else "it has none"
            raise InputError(f"{option} {wrong[0]}=…: the query has no window {wrong[0]}; {there}")
    policies = dict(report or {})
    every = max((kind_of(w).report_period for w in query.windows), default=0)
    usual = Policy(period=every) if every else defaults.policy  # COMPUTED EVERY (RSP-QL*, Definition 17)
    chosen = Report(policies.pop("", usual), policies, dict(t0 or {}))
    kept = duplicates or defaults.duplicates
    return QuerySemantics(chosen, operator or query.operator or defaults.operator, kept)


def with_bounds(query: Query, bounds: Literal["open-closed", "closed-open"] | None) -> Query:
    """The query with its (α, β, t0) windows open or closed at the ends that ``--bounds`` says."""
    if bounds is None:
        return query
    return replace(query, windows=tuple(with_window_bounds(w, bounds) for w in query.windows))
