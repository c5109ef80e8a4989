"""Several queries over one checkpoint, in another order or changed: each has the answers that it would have had from the beginning.

Queries that differ in constants only share a program, whose name is that of the first of them: a change may give all of them another one.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cqels_opt as cq
from cqels_opt.errors import CheckpointError

STREAM = "http://ex.org/S"
WINDOW = "FROM NAMED <http://ex.org/S> [RANGE 4s] AS ?w"
COUNT = f"PREFIX : <http://ex.org/> SELECT ?l (COUNT(*) AS ?k) {WINDOW} WHERE {{ GRAPH ?w {{ ?q :at ?l }} FILTER(?l = :r%d) }} GROUP BY ?l"
WHO = f"PREFIX : <http://ex.org/> SELECT ?q {WINDOW} WHERE {{ GRAPH ?w {{ ?q :at ?l }} FILTER(?l = :r%d) }}"
PLACES = f"PREFIX : <http://ex.org/> SELECT DISTINCT ?l {WINDOW} WHERE {{ GRAPH ?w {{ ?q :at ?l }} }}"

Answers = dict[str, Counter[tuple[int, str]]]
CHANGES: Mapping[str, tuple[dict[str, str], dict[str, str]]] = {
    "another order": ({"x": COUNT % 1, "y": COUNT % 2}, {"y": COUNT % 2, "x": COUNT % 1}),
    "three in another order": (
        {"x": WHO % 0, "y": WHO % 1, "z": WHO % 2},
        {"z": WHO % 2, "x": WHO % 0, "y": WHO % 1},
    ),
    "two become alike": ({"x": PLACES, "y": COUNT % 1}, {"x": WHO % 1, "y": WHO % 2}),
    "two differ from now on": ({"x": WHO % 1, "y": WHO % 2}, {"x": COUNT % 1, "y": PLACES}),
    "the first of three leaves": (
        {"x": WHO % 0, "y": WHO % 1, "z": WHO % 2},
        {"x": COUNT % 0, "y": WHO % 1, "z": WHO % 2},
    ),
    "constants swap": ({"x": WHO % 1, "y": WHO % 2}, {"x": WHO % 2, "y": WHO % 1}),
}


def elements(seed: int, count: int) -> list[dict[str, Any]]:
    some, t, found = random.Random(seed), 1_000, []
    for number in range(count):
        t += some.choice([0, 100, 400, 1500])
        found.append(
            {
                "s": f"<http://ex.org/p{number % 7}>",
                "p": "<http://ex.org/at>",
                "o": f"<http://ex.org/r{some.randrange(3)}>",
                "t": t,
            }
        )
    return found


def run(
    queries: Mapping[str, str], operator: str, report: str | None, folder: Path, checkpoint: Path, changed: bool = False
) -> Answers:
    """The rows that queries give for the files that a live folder has now, by query: times and rows."""
    engine, found = cq.local.Engine(), defaultdict[str, Counter[tuple[int, str]]](Counter)
    for name, text in queries.items():
        engine.register(text, id=name, output_operator=operator, report=report)

    def sink(table: pa.Table, batch: int) -> None:
        for row in table.to_pylist():
            time, name = round(row.pop("time").timestamp() * 1000), row.pop("query")
            found[name][time, json.dumps(row, sort_keys=True)] += 1

    engine.start({STREAM: folder}, sink, checkpoint, to_the_end=True, continue_changed=changed).await_termination()
    return found


def put(folder: Path, number: int, rows: Sequence[Mapping[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"{number}.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    os.utime(path, (1000 + number, 1000 + number))


@pytest.mark.parametrize("report", [None, "cc", "cc,nc", "wc,nc", "ea", "p:700ms"])
@pytest.mark.parametrize("operator", ["istream", "dstream", "rstream"])
@pytest.mark.parametrize("what", CHANGES)
def test_each_query_has_the_answers_that_it_would_have_had(what: str, operator: str, report: str | None, tmp_path: Path) -> None:
    before, after = CHANGES[what]
    rows = elements(7, 60)
    for number, some in enumerate((rows[:31], rows[31:])):
        put(tmp_path / "live", number, some)
        if not number:
            run(before, operator, report, tmp_path / "live", tmp_path / "state")
    found = run(after, operator, report, tmp_path / "live", tmp_path / "state", changed="order" not in what)
    put(tmp_path / "whole", 0, rows)
    whole = run(after, operator, report, tmp_path / "whole", tmp_path / "other")
    first = rows[30]["t"]  # whose instant is not final before later elements come
    expected = {name: Counter({key: n for key, n in of.items() if key[0] >= first}) for name, of in whole.items()}
    assert any(expected.values())
    assert {name: of for name, of in found.items() if of} == {name: of for name, of in expected.items() if of}


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ({"x": WHO % 1, "y": COUNT % 2}, "its query y differs; continue_changed=True continues"),
        ({"x": WHO % 1}, r"its queries are named x, y, not x \(.*\); run\.add and run\.remove change the queries of a run"),
        ({"x": WHO % 1, "z": WHO % 2}, r"its queries are named x, y, not x, z \(.*\); use that name"),
        ({"x": WHO % 1, "y": (WHO % 2).replace("4s", "9s")}, "its query y differs, and has other windows"),
    ],
)
def test_a_refusal_names_the_query(after: dict[str, str], message: str, tmp_path: Path) -> None:
    put(tmp_path / "live", 0, elements(7, 9))
    run({"x": WHO % 1, "y": WHO % 2}, "istream", None, tmp_path / "live", tmp_path / "state")
    with pytest.raises(CheckpointError, match=message):
        run(after, "istream", None, tmp_path / "live", tmp_path / "state")
