"""The W3C's SPARQL query tests: what passes by category, as static queries and as one element of a stream, and why the others do not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cqels_opt.bench.real_data import real_data
from cqels_opt.bench.screen import console, table
from cqels_opt.bench.w3c.explained import explanation
from cqels_opt.bench.w3c.manifest import ARCHIVE, VERSIONS, W3CTest, read_tests, unpacked
from cqels_opt.bench.w3c.running import WAYS, Outcome, check, check_syntax

COLUMNS = ("syntax", *WAYS)


def outcomes(found: Iterable[W3CTest]) -> list[Outcome]:
    """Every test: one of syntax once, one of evaluation in both ways."""
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
    """Prints what passes by category, and each test that does not, with the reason."""
    shown = table("SPARQL", "category", *COLUMNS, title="Tests that pass, of those there are")
    total: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in found["results"]:
        total[row["version"]].update({name: n for name, n in row.items() if isinstance(n, int)})
        shown.add_row(row["version"], row["category"], *(_passed(row, column) for column in COLUMNS))
    for version, sums in total.items():
        shown.add_row(version, "all", *(_passed(sums, column) for column in COLUMNS))
    console().print(shown)
    why = table("test", "way", "what is wrong", "why", title="Tests that do not pass")
    for row in found["failed"]:
        why.add_row(row["test"], row["way"], row["problem"][:120], row["explained"] or "")
    if found["failed"]:
        console().print(why)


def _passed(row: Any, column: str) -> str:
    return f"{row.get(f'{column} passed', 0)}/{row[f'{column} tests']}" if row.get(f"{column} tests") else ""
