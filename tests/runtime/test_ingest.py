"""The first stage: terms to ids, triples to slots by shape, late and bad ones counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cqels_opt.operators.term_table import Page
from cqels_opt.rdf.ids import PUBLIC, encode
from cqels_opt.runtime import ingest as ingest_module
from cqels_opt.runtime.ingest import IngestReport, IngestTask, ingest
from cqels_opt.state.slot_indexes import INDEX, slot_run
from cqels_opt.storage.columns import read_columns
from cqels_opt.windows.binding_slots import Shape
from cqels_opt.windows.element_rows import ELEMENT_ROWS

S, T = "http://ex.org/S", "http://ex.org/T"
AT, KNOWS = "<http://ex.org/at>", "<http://ex.org/knows>"
X, Y = "<http://ex.org/x>", "<http://ex.org/y>"


def code(term: str) -> int:
    return int(encode([term], PUBLIC)[0])


EVERYTHING = Shape(S, (0, 0, 0), (0, 1, 2))
PLACES = Shape(S, (0, code(AT), 0), (0, -1, 1))
SELF = Shape(S, (0, code(KNOWS), 0), (0, -1, 0))
OTHER = Shape(T, (0, code(AT), 0), (0, -1, 1))


def row(s: str, p: str, o: str, t: int, offset: int, stream: int = 0, late: bool = False) -> dict[str, Any]:
    return {
        "stream": stream,
        "partition": stream,
        "offset": offset,
        "s": s,
        "p": p,
        "o": o,
        "g": None,
        "t": t,
        "late": late,
        "line": offset + 1,
    }


def run(
    folder: Path, rows: list[dict[str, Any]], *shapes: Shape, frontier: int = -1, tables: frozenset[str] = frozenset()
) -> IngestReport:
    (folder / "slots").mkdir(exist_ok=True)
    task = IngestTask(str(folder), 3, (S, T), shapes, "", PUBLIC, frontier, tables)
    return ingest(pa.Table.from_pylist(rows, schema=ELEMENT_ROWS), task, "t0")


def test_triples_go_into_the_slots_whose_shape_they_have(tmp_path: Path) -> None:
    rows = [row(X, AT, Y, 5, 1), row(X, KNOWS, X, 3, 0), row(X, KNOWS, Y, 5, 2), row(Y, AT, X, 9, 0, stream=1)]
    report = run(tmp_path, rows, EVERYTHING, PLACES, SELF, OTHER)
    slots = {f.shape + f.stream: f for f in report.files if f.kind == "slot"}
    assert {name: f.rows for name, f in slots.items()} == {
        EVERYTHING.key + S: 3,
        PLACES.key + S: 1,
        SELF.key + S: 1,
        OTHER.key + T: 1,
    }
    whole = read_columns(tmp_path / slots[EVERYTHING.key + S].path)
    assert whole["t"].tolist() == [3, 5, 5]
    assert whole["v2"].tolist() == [code(X), code(Y), code(Y)]
    assert list(read_columns(tmp_path / slots[SELF.key + S].path)) == ["t", "e", "v0"]
    assert (slots[EVERYTHING.key + S].least, slots[EVERYTHING.key + S].greatest) == (3, 5)


def test_a_large_slot_has_an_index_on_the_probed_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last instant, which the frontier does not pass yet, is a slot of its own; a shape that nothing probes has no index."""
    monkeypatch.setattr(ingest_module, "INDEXED_FROM", 4)
    (tmp_path / "slots").mkdir()
    rows = [row(f"<http://ex.org/{i % 2}>", AT, f"<http://ex.org/{i}>", min(i, 5), i) for i in range(8)]
    task = IngestTask(str(tmp_path), 3, (S, T), (EVERYTHING, PLACES), "", PUBLIC, -1, frozenset(), keys={PLACES: ((0,),)})
    report = ingest(pa.Table.from_pylist(rows, schema=ELEMENT_ROWS), task, "t0")
    files = [(f.kind, f.rows, f.least, f.greatest) for f in report.files if f.shape == PLACES.key]
    assert files == [("slot", 5, 0, 4), (INDEX, 5, 0, 4), ("slot", 3, 5, 5)]
    assert [f.rows for f in report.files if f.shape == EVERYTHING.key] == [8]
    run = slot_run(tmp_path, next(f for f in report.files if f.shape == PLACES.key))
    assert run.relation.indexes == (("v0",),)
    asked = np.array([code("<http://ex.org/1>")])
    assert sorted(run.times(run.relation.index(("v0",)).lookup(asked)[1]).tolist()) == [1, 3]


@pytest.mark.parametrize("lateness", [0, 3])
def test_counts_and_large_slots_are_cut_where_the_frontier_is_expected_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lateness: int
) -> None:
    """Else the counts of the stream that is ahead, all of them, enter the statistics a batch after its rows are evaluated."""
    monkeypatch.setattr(ingest_module, "INDEXED_FROM", 4)
    (tmp_path / "slots").mkdir()
    rows = [row(X, AT, f"<http://ex.org/{i}>", i, i, stream) for stream, last in ((0, 9), (1, 7)) for i in range(last + 1)]
    keys = {PLACES: ((0,),), OTHER: ((0,),)}
    task = IngestTask(str(tmp_path), 3, (S, T), (PLACES, OTHER), "", PUBLIC, -1, frozenset(), keys=keys, lateness=lateness)
    report = ingest(pa.Table.from_pylist(rows, schema=ELEMENT_ROWS), task, "t0")
    ahead, behind = (report.streams[stream].counts[shape.key] for stream, shape in ((S, PLACES), (T, OTHER)))
    final = 6 - lateness
    assert [part.times.tolist() for part in ahead] == [[*range(final + 1)], [*range(final + 1, 10)]]
    assert [part.times.tolist() for part in behind] == [[*range(final + 1)], [*range(final + 1, 8)]]
    slots = [(f.least, f.greatest) for f in report.files if f.stream == S and f.kind == "slot"]
    assert slots == [(0, final), (final + 1, 9)]
    indexed = [(f.least, f.greatest) for f in report.files if f.stream == S and f.kind == INDEX]
    assert indexed == ([(0, 6)] if lateness == 0 else [(0, 3), (4, 9)])


def test_rows_of_one_element_count_once(tmp_path: Path) -> None:
    rows = [row(X, AT, Y, 5, 0), row(Y, AT, Y, 5, 0), row(X, AT, X, 5, 1)]
    report = run(tmp_path, rows, PLACES, tables=frozenset([S]))
    assert report.streams[S].elements == 2
    (table,) = (f for f in report.files if f.kind == "elements")
    assert read_columns(tmp_path / table.path)["offset"].tolist() == [0, 1]
    (slot,) = (f for f in report.files if f.kind == "slot")
    assert read_columns(tmp_path / slot.path)["e"].tolist() == [0, 0, 1]


def test_a_triple_that_an_element_says_twice_counts_once(tmp_path: Path) -> None:
    """Its graph is a set; another element that says the same counts again. Terms are the same however they are written."""
    one, other = '"a"^^<http://www.w3.org/2001/XMLSchema#string>', '"\\u0061"'
    rows = [row(X, AT, one, 5, 0), row(Y, AT, Y, 5, 0), row(X, AT, other, 5, 0), row(X, AT, one, 5, 1), row(Y, AT, Y, 5, 0)]
    report = run(tmp_path, rows, PLACES)
    (slot,) = (f for f in report.files if f.kind == "slot")
    columns = read_columns(tmp_path / slot.path)
    assert (columns["e"].tolist(), columns["v1"].tolist()) == ([0, 0, 1], [code('"a"'), code(Y), code('"a"')])


def test_late_elements_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [row(X, AT, Y, 9, 0), row(X, AT, X, 4, 1, late=True), row(Y, AT, X, 2, 2)]
    report = run(tmp_path, rows, PLACES, frontier=3)
    seen = report.streams[S]
    assert (seen.elements, seen.late, seen.first) == (1, 2, 9)
    assert seen.last == {0: (9, 2)}
    assert seen.times.tolist() == [9]


def test_bad_terms_are_told_with_their_lines(tmp_path: Path) -> None:
    rows = [row("x", AT, Y, 1, 0), row('"a"', AT, Y, 2, 1), row(X, '"p"', Y, 3, 2), row(X, AT, "<y", 4, 3), row(X, AT, Y, 5, 4)]
    rows.append({**row(X, AT, Y, 6, 5), "o": None})
    report = run(tmp_path, rows, PLACES)
    said = [(r.stream, r.line, r.reason) for r in report.rejected]
    assert [line for _, line, _ in said] == [1, 2, 3, 4, 6]
    assert said[0][2] == "the subject is not an N-Triples term: not a term in N-Triples syntax: 'x'; write <http://…>"
    assert said[1][2] == 'the subject "a" is a literal'
    assert said[2][2] == 'the predicate "p" is not an IRI'
    assert said[3][2].startswith("the object is not an N-Triples term")
    assert said[4][2] == "the object is missing"
    assert (report.streams[S].elements, report.streams[S].first) == (1, 5)


@pytest.mark.parametrize("t", [1_700_000_000_000_000_000, -(2**63), 2**53 + 1])
def test_impossible_times_move_no_frontier(tmp_path: Path, t: int) -> None:
    """As a DataFrame has that counts nanoseconds: all later elements would be late."""
    report = run(tmp_path, [row(X, AT, Y, 1, 0), row(X, AT, Y, t, 1), row(Y, AT, X, 2, 2)], PLACES)
    (rejected,) = report.rejected
    assert rejected.line == 2 and f"the time {t} is not integer milliseconds, at most 2^53" in rejected.reason
    assert (report.streams[S].elements, report.streams[S].last) == (2, {0: (2, 2)})


def test_rows_that_cannot_be_read_move_no_frontier(tmp_path: Path) -> None:
    """They are no elements; all later elements were late. Their places are counted."""
    report = run(
        tmp_path, [row(X, AT, Y, 1, 0), row("no term", AT, Y, 10**12, 1), row("x", AT, Y, 7, 0, stream=1)], PLACES, OTHER
    )
    assert [rejected.line for rejected in report.rejected] == [2, 1]
    assert (report.streams[S].elements, report.streams[S].last) == (1, {0: (1, 1)})
    assert (report.streams[T].elements, report.streams[T].last) == (0, {1: (None, 0)})


def test_terms_have_one_canonical_form(tmp_path: Path) -> None:
    literal = '"caf\\u00E9"^^<http://www.w3.org/2001/XMLSchema#string>'
    report = run(tmp_path, [row(X, AT, literal, 1, 0), row(X, AT, '"café"', 2, 1)], PLACES)
    (slot,) = (f for f in report.files if f.kind == "slot")
    assert len(set(read_columns(tmp_path / slot.path)["v1"].tolist())) == 1


def test_terms_that_ids_do_not_tell_are_on_a_page(tmp_path: Path) -> None:
    number = '"7"^^<http://www.w3.org/2001/XMLSchema#integer>'
    report = run(tmp_path, [row(X, AT, number, 1, 0), row(Y, KNOWS, X, 2, 1)], PLACES)
    (page,) = (f for f in report.files if f.kind == "terms")
    assert page.rows == 1  # X: 7 tells itself, and neither AT nor Y is in a slot
    assert Page.open(tmp_path / page.path).terms.to_pylist() == [X]


def test_counts_by_value(tmp_path: Path) -> None:
    report = run(tmp_path, [row(X, AT, Y, 1, 0), row(X, AT, X, 2, 1), row(Y, AT, X, 2, 2)], PLACES)
    parts = report.streams[S].counts[PLACES.key]
    assert sum(p.total for p in parts) == 3
    assert [p.times.tolist() for p in parts][-1] == [2]  # the greatest time apart


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_a_block_of_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """However the rows come and are cut, the slots, the page and what is rejected are the same."""
    number = '"7"^^<http://www.w3.org/2001/XMLSchema#integer>'
    terms = [X, Y, "_:b", '"caf\\u00E9"', number, "no term"]
    rows = [row(terms[i % 3], AT, terms[i % 6], 1 + i // 3, i, stream=i % 2) for i in range(24)]
    expected = run(tmp_path, rows, EVERYTHING, OTHER)
    monkeypatch.setattr("cqels_opt.runtime.term_encoding.BLOCK", block)
    other = tmp_path / "other"
    (other / "slots").mkdir(parents=True)
    task = IngestTask(str(other), 3, (S, T), (EVERYTHING, OTHER), "", PUBLIC, -1, frozenset())
    table = pa.Table.from_pylist(rows, schema=ELEMENT_ROWS)
    for cut in (table, iter(table.to_batches(5))):
        report = ingest(cut, task, "t0")
        assert report.files == expected.files
        assert list(report.rejected) == list(expected.rejected)
        for file in report.files:
            assert (other / file.path).read_bytes() == (tmp_path / file.path).read_bytes()


def test_elements_that_come_in_disorder(tmp_path: Path) -> None:
    rows = [row(X, AT, Y, t, offset) for t, offset in ((5, 1), (3, 0), (5, 0), (4, 7))]
    report = run(tmp_path, rows, PLACES, tables=frozenset([S]))
    (table,) = (f for f in report.files if f.kind == "elements")
    found = read_columns(tmp_path / table.path)
    assert list(zip(found["t"].tolist(), found["offset"].tolist())) == [(3, 0), (4, 7), (5, 0), (5, 1)]


def test_nothing(tmp_path: Path) -> None:
    report = run(tmp_path, [], PLACES)
    assert (report.files, report.streams, list(report.rejected)) == ([], {}, [])
