"""Ratios of contenders' times in the report of a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from cqels_opt.bench.tables import share

JOINS = ("execute", "optimize")
"""The phases of evaluation, without ingest and commit."""


def over(
    section: Mapping[str, Any], query: str, one: str, other: str, phases: Sequence[str] = (), statistic: str = "median"
) -> float | None:
    """The ratio of the times of ``one`` and ``other``: the geometric mean over rates, optionally of some ``phases`` only."""
    found = list(ratios_of(section, one, [other], query, phases, statistic))
    return geometric_mean(found) if found else None


def ratios_of(
    section: Mapping[str, Any],
    one: str,
    others: Sequence[str],
    query: str | None = None,
    phases: Sequence[str] = (),
    statistic: str = "median",
) -> Iterator[float]:
    """The ratio of the time of ``one`` to the least time of ``others``, in each case (of one query) where it and any of them ran."""
    for case in _cases(section, query, phases, statistic).values():
        best = min((case[other] for other in others if case.get(other)), default=0.0)
        if best and case.get(one):
            yield case[one] / best


def _cases(section: Mapping[str, Any], query: str | None, phases: Sequence[str], statistic: str) -> dict[str, dict[str, float]]:
    """The times of all contenders, by parameters."""
    found: dict[str, dict[str, float]] = {}
    for result in section["results"]:
        if query in (None, result["parameters"]["query"]):
            parts = result.get("phases", {})
            took = sum(parts.get(p, 0.0) for p in phases) if phases else result["milliseconds"][statistic]
            found.setdefault(repr(result["parameters"]), {})[result["contender"]] = took
    return found


def shares(section: Mapping[str, Any], contender: str = "adaptive") -> list[float]:
    """The optimizer's share of a contender's time in each case."""
    return [part for r in section["results"] if r["contender"] == contender and (part := share(r)) is not None]


def queries(section: Mapping[str, Any]) -> list[str]:
    """The queries of a report, in its order."""
    return list(dict.fromkeys(result["parameters"]["query"] for result in section["results"]))
