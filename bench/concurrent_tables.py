"""Concurrent queries compared with the report's Tables 2 and 3, as ratios to ten instances, because machines differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cqels_opt.bench.published import CONCURRENT
from cqels_opt.bench.tables import number

LEAST = 10
"""The baseline number of instances."""
SYSTEMS = {"adaptive": "CQELS", "sub-results": "CQELS without optimizer"}
"""The report's system of a contender."""


def beside(query: str, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]], dict[str, dict[float, float]]]:
    """The heads and lines of a table, and the lines of a chart: the cost of each number of instances relative to ten.

    ``rows`` are ``{"query": "Q1'", "instances": 10, "contender": "adaptive", "ms": 12.3, "memory_mb": 100}``.
    """
    of_query = [row for row in rows if row["query"] == query]
    contenders = list(dict.fromkeys(row["contender"] for row in of_query))
    ours = {name: {row["instances"]: row for row in of_query if row["contender"] == name} for name in contenders}
    printed = CONCURRENT.get(query, {})
    systems = list(dict.fromkeys(name for row in printed.values() for name in row))
    counts = sorted({row["instances"] for row in of_query} | printed.keys())
    heads = ["instances"]
    for name in contenders:
        heads += [f"{name} ms", f"{name} × 10", f"{name} MB"]
    heads += [text for name in systems for text in (f"{name} ms (printed)", f"{name} × 10 (printed)")]
    lines = []
    for count in counts:
        line = [f"{count:,}"]
        for name in contenders:
            line += _ours(ours[name].get(count), ours[name].get(LEAST))
        for name in systems:
            line += _printed(printed.get(count, {}).get(name), printed.get(LEAST, {}).get(name))
        lines.append(line)
    series = {name: _over({count: row["ms"] for count, row in found.items()}) for name, found in ours.items()}
    series |= {f"{name} (printed)": _over({count: row.get(name) for count, row in printed.items()}) for name in systems}
    return heads, lines, series


def growth(query: str, rows: Sequence[Mapping[str, Any]]) -> tuple[int, float] | None:
    """The greatest number of instances of ``adaptive`` and its cost relative to ten; None without such a pair."""
    most, ratio = max(measured_growth(query, rows, "adaptive").items(), default=(0, 0.0))
    return (int(most), ratio) if most > LEAST else None


def measured_growth(query: str, rows: Sequence[Mapping[str, Any]], contender: str) -> dict[float, float]:
    """The measured cost of each number of instances relative to ten; empty without ten."""
    return _over({row["instances"]: row["ms"] for row in rows if (row["query"], row["contender"]) == (query, contender)})


def published_growth(query: str, contender: str) -> dict[float, float]:
    """The same of the report's system that is like a contender; empty without one."""
    return _over({count: row.get(SYSTEMS.get(contender, "")) for count, row in CONCURRENT.get(query, {}).items()})


def _over(found: Mapping[int, float | None]) -> dict[float, float]:
    base = found.get(LEAST)
    return {count: ms / base for count, ms in found.items() if ms is not None} if base else {}


def _ours(row: Mapping[str, Any] | None, base: Mapping[str, Any] | None) -> list[str]:
    if row is None:
        return ["–", "–", "–"]
    ratio = f"{row['ms'] / base['ms']:.1f}×" if base else "–"
    memory = row.get("memory_mb")
    return [number(row["ms"]), ratio, "–" if memory is None else f"{memory:,.0f}"]


def _printed(ms: float | None, base: float | None) -> list[str]:
    return ["–", "–"] if ms is None else [f"{ms:,g}", f"{ms / base:.1f}×" if base else "–"]
