"""The W3C's SPARQL query tests: results by category, as static queries and as one element of a stream, and reasons of failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cqels_opt.bench.real_data import real_data
from cqels_opt.bench.screen import console, table
from cqels_opt.bench.w3c.explained import explanation
from cqels_opt.bench.w3c.manifest import ARCHIVE, VERSIONS, W3CTest, read_tests, unpacked
from cqels_opt.bench.w3c.running import WAYS, Outcome, check, check_syntax

COLUMNS = ("syntax", *WAYS)
SHOWN = 8
"""The maximum number of tests listed per reason."""


def outcomes(found: Iterable[W3CTest]) -> list[Outcome]:
    """All tests: syntax tests once, evaluation tests in both ways."""
    done = []
    for test in found:
        done += [check(test, way) for way in WAYS] if test.kind == "evaluation" else [check_syntax(test)]
    return done


def study(quick: bool) -> dict[str, Any]:
    """All tests of all versions; ``quick``: of SPARQL 1.1."""
    with TemporaryDirectory(prefix="cqels-opt-w3c-") as folder:
        unpacked_ = unpacked(real_data("w3c") / ARCHIVE, Path(folder))
        done = outcomes(read_tests(unpacked_, *(("1.1",) if quick else VERSIONS)))
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one in done:
        column = one.way or "syntax"
        counts[one.test.version, one.test.category].update({f"{column} tests": 1, f"{column} passed": one.passes})
    failed = [
        {"test": o.test.label, "way": o.way or "syntax", "problem": o.problem, "explained": explanation(o)}
        for o in done
        if not o.passes
    ]
    rows = [{"version": v, "category": c, **counts[v, c]} for v, c in counts]
    return {"results": rows, "failed": failed}


def show(found: dict[str, Any]) -> None:
    """Prints the results by category, and each failed test with the reason."""
    shown = table("SPARQL", "category", *COLUMNS, title="Tests that pass, of those there are")
    total: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in found["results"]:
        total[row["version"]].update({name: n for name, n in row.items() if isinstance(n, int)})
        shown.add_row(row["version"], row["category"], *(_passed(row, column) for column in COLUMNS))
    for version, sums in total.items():
        shown.add_row(version, "all", *(_passed(sums, column) for column in COLUMNS))
    console().print(shown)
    if found["failed"]:
        why = table("tests", "which", "what is wrong", title="Tests that do not pass, by reason")
        for reason, names in by_reason(found["failed"]).items():
            shown_names = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
            why.add_row(str(len(names)), shown_names, reason)
        console().print(why)


def by_reason(failed: Iterable[Mapping[str, str | None]]) -> dict[str, list[str]]:
    """The failed tests by reason: the explanation if there is one, else the problem."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for one in failed:
        found[one["explained"] or str(one["problem"])[:200]][str(one["test"])] = None
    return {reason: [*names] for reason, names in sorted(found.items(), key=lambda item: -len(item[1]))}


def _passed(row: Any, column: str) -> str:
    return f"{row.get(f'{column} passed', 0)}/{row[f'{column} tests']}" if row.get(f"{column} tests") else ""
