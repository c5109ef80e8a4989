"""The meaning of a query where its text leaves it open: when it reports, what it emits, sets or bags (SEMANTICS §3).

Options decide first, then the query's text, then the profile of its dialect or of ``--profile``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from cqels_opt.errors import InputError, option
from cqels_opt.query.algebra import Query
from cqels_opt.query.dialects.profiles import find_profile
from cqels_opt.query.durations import parse_positive_duration
from cqels_opt.windows.instants import Policy, Report
from cqels_opt.windows.kinds import kind_of, of_engine, with_window_bounds


@dataclass(frozen=True, slots=True)
class QuerySemantics:
    """The semantics of a query: from its text, its profile, and the options that override these."""

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
    defaults = find_profile(profile or query.dialect)
    names = {w.name for w in query.windows}
    for name, given in (("report", report or {}), ("t0", t0 or {})):
        if wrong := sorted(set(given) - names - {""}):
            there = f"it has {', '.join(sorted(names))}" if names else "it has none"
            given_as = option(f"{name}={{{wrong[0]!r}: …}}", f"--{name} {wrong[0]}=…")
            raise InputError(f"{given_as}: the query has no window {wrong[0]}; {there}")
    policies = dict(report or {})
    every = max((kind_of(w).report_period for w in query.windows), default=0)  # COMPUTED EVERY (RSP-QL*, Definition 17)
    usual = Policy(period=every) if every else Policy.named(defaults.report.split(","))
    chosen = Report(policies.pop("", usual), policies, dict(t0 or {}))
    kept = duplicates or defaults.duplicates
    return QuerySemantics(chosen, operator or query.operator or defaults.operator, kept)


def parse_policy(text: str) -> Policy:
    """The report policy ``wc,nc`` or ``p:10s``: some of ``cc``, ``ea``, ``wc``, ``nc`` and ``p:DURATION``. Raises InputError."""
    chosen, period = set(), 0
    for policy in text.split(","):
        if policy.startswith("p:") and period:
            raise InputError(f"{text!r} has two periods: give one p:DUR")
        if policy.startswith("p:"):
            period = parse_positive_duration(policy[2:])
        elif policy in ("cc", "ea", "wc", "nc"):
            chosen.add(policy)
        else:
            raise InputError(f"{policy!r} is no report policy: give some of cc, ea, wc, nc and p:DUR, separated by commas")
    if not period and not chosen - {"nc"}:
        raise InputError(f"{text!r} has no instants: nc restricts others, so add cc, ea, wc or p:DUR")
    return Policy.named(chosen, period)


def policy_words(policy: Policy) -> str:
    """The words of a policy, with the period in ms."""
    words = {
        "cc": policy.content_change,
        "ea": policy.arrival,
        "wc": policy.window_close,
        "nc": policy.non_empty,
        f"p:{policy.period}": policy.period > 0,
    }
    return ",".join(word for word, enabled in words.items() if enabled)


def with_window_semantics(
    query: Query, profile: str | None = None, bounds: Literal["open-closed", "closed-open"] | None = None
) -> Query:
    """The query with the windows of its profile, and with the bounds of ``--bounds`` for its (α, β, t0) windows."""
    kinds = find_profile(profile or query.dialect).windows
    windows = tuple(of_engine(window, kinds) for window in query.windows)
    if bounds is not None:
        windows = tuple(with_window_bounds(window, bounds) for window in windows)
    return query if windows == query.windows else replace(query, windows=windows)
