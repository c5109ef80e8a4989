"""Bushy parts: a filter is evaluated there once, and what was observed of it is what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from local_runs import Cut, Registered, Settings, World, register

from cqels_opt.operators.blocks import BlockFilter
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.operators.rows import Rows
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import Join, Optimizer, Plan, Probe, Scan
from cqels_opt.trace.records import TraceRecord
from cqels_opt.verify import Element

EX = "http://ex.org/"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
SETTINGS = Settings(operator="rstream", policies={"": "wc"}, duplicates="set", drain=True)
QUERY = f"""PREFIX : <{EX}> SELECT ?a ?b ?v FROM NAMED WINDOW :one ON :A [RANGE PT4S STEP PT4S]
FROM NAMED WINDOW :two ON :B [RANGE PT4S STEP PT4S]
WHERE {{ WINDOW :one {{ ?a :at ?l }} WINDOW :two {{ ?b :at ?l ; :value ?v }} FILTER (?v > 6) }}"""


def world(seconds: int = 8) -> World:
    at = [Element(1000 * s, ((f"<{EX}a{s}>", f"<{EX}at>", f"<{EX}l>"),)) for s in range(1, seconds + 1, 2)]
    values = [
        Element(
            1000 * s,
            (
                (f"<{EX}b{s}>", f"<{EX}at>", f"<{EX}l>"),
                *((f"<{EX}b{s}>", f"<{EX}value>", f'"{value}"^^<{INTEGER}>') for value in range(1, 9)),
            ),
        )
        for s in range(1, seconds + 1)
    ]
    return World({f"{EX}A": [at], f"{EX}B": [values]})


def run(found: Registered, batch: str, parts: int | None = None) -> list[TraceRecord]:
    """Under bushy plans for the deltas of the first window; the others as they come."""
    (block,) = found.program.blocks
    one, two, value = (next(o.name for o in block.occurrences if set(o.variables) == set(v)) for v in ("al", "bl", "bv"))
    plans: dict[str, Plan] = {
        one: Join(Scan(one), Probe(Scan(two), value, ("b",)), ("l",)),
        two: Probe(Probe(Scan(two), one, ("l",)), value, ("b",)),
        value: Probe(Probe(Scan(value), two, ("b",)), one, ("l",)),
    }
    driver = found.driver(Cut(batch, parts=parts))
    driver.options = replace(driver.options, plan=PlannerOptions("fixed", plans))
    driver.restore(None)
    records = [record for n, rows in enumerate(found.chunks(Cut(batch))) for record in driver.batch(n, rows)]
    verdict = found.judged(found.answers(driver.sink.lines))  # type: ignore[attr-defined]
    assert verdict.equal, verdict.text()
    assert verdict.rows == 2 * 2 * 4 * 2
    return records


def test_rows_that_each_task_builds_for_itself_are_not_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number grows with the tasks. Those along the delta are divided between tasks."""
    found: dict[int, dict[str, list[float | None]]] = {}
    observe = Optimizer.observe

    for parts in (1, 2):
        learned = found.setdefault(parts, {})

        def noted(
            self: Optimizer, source: str, rows: Sequence[float | None], learned: dict[str, list[float | None]] = learned
        ) -> None:
            learned[source] = [*rows]
            observe(self, source, rows)

        monkeypatch.setattr(Optimizer, "observe", noted)
        run(register(QUERY, world(), tmp_path / str(parts), SETTINGS), "100", parts)
    assert found[1].keys() == found[2].keys()
    bushy = [rows for rows in found[2].values() if None in rows]
    assert [[rows is None for rows in one] for one in bushy] == [[False, True, True, False]]
    for source, alone in found[1].items():
        assert None not in alone
        assert [rows for rows in found[2][source] if rows is not None] == [
            rows for rows, other in zip(alone, found[2][source], strict=True) if other is not None
        ]


@pytest.mark.parametrize("batch", ["100", "4000ms", "1500ms"])
def test_a_filter_is_evaluated_once(batch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight values two pass: whoever sees only these has been here before, and selectivities would rise for nothing."""
    seen: list[tuple[int, int]] = []
    passed = DeltaJoin.passed

    def noted(self: DeltaJoin, rows: Rows, f: BlockFilter) -> Rows:
        kept = passed(self, rows, f)
        seen.append((len(rows), len(kept)))
        return kept

    monkeypatch.setattr(DeltaJoin, "passed", noted)
    run(register(QUERY, world(), tmp_path, SETTINGS), batch)
    assert seen
    assert all(4 * kept == rows for rows, kept in seen), seen
