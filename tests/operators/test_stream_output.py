"""From rows to answers: ISTREAM, DSTREAM and RSTREAM as bag differences, JSON lines, and columns."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operators.interval_rows import HORIZON, Plain, plain_rows, rows_of, snapshots

from cqels_opt.lod.key_search import mix
from cqels_opt.operators import rows, stream_operators, stream_output
from cqels_opt.operators.algebra.order import ORDER
from cqels_opt.operators.answer_files import write_parquet
from cqels_opt.operators.instant_ranges import instant_ranges
from cqels_opt.operators.stream_operators import answers, stream_operator
from cqels_opt.operators.stream_output import Answers, columns_of, json_lines, json_of, json_term, json_terms
from cqels_opt.operators.term_table import TermTable
from cqels_opt.rdf.ids import PUBLIC
from cqels_opt.rdf.terms import XSD_INTEGER, XSD_STRING, literal
from cqels_opt.storage import checksum

TIMES = np.array([10, 20, 30, 40, 50, 60, 70], np.int64)
INSTANTS = TIMES[:-1]
OPERATORS = ("istream", "dstream", "rstream")


def bag(found: Answers, variables: str) -> Counter[tuple[int, tuple[int, ...]]]:
    rows: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for i, (time, n) in enumerate(zip(found.time.tolist(), found.n.tolist())):
        rows[time, tuple(int(found.columns[v][i]) for v in variables)] += n
    return rows


@given(
    plain_rows(2),
    st.sampled_from(OPERATORS),
    st.integers(1, 3),
    st.sampled_from((1, 3, rows.CHUNK)),
    st.sampled_from((None, -1, 1)),
)
def test_each_operator_by_definition(plain: list[Plain], operator: str, parts: int, chunk: int, hashes: int | None) -> None:
    """The instants after the first; the ranges of all parts together give all answers, each from its own rows.

    Rows are ordered by their columns, by ``hashes``, or by hashes of which many are equal: those of the first column, modulo 2.
    """
    shown = snapshots(rows_of("xy", plain), "xy")
    content = [Counter({row: n for (at, row), n in shown.items() if at == place}) for place in range(HORIZON)]
    expected: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for place in range(1, HORIZON):
        now, before = content[place], content[place - 1]
        put = {"istream": now - before, "dstream": before - now, "rstream": now}[operator]
        expected.update({(int(INSTANTS[place]), row): n for row, n in put.items()})
    some, whole = rows_of("xy", plain), stream_operator(operator).whole
    timed = some.with_interval(TIMES[some.start], TIMES[some.end])
    found = []
    for part in range(parts):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows, "CHUNK", chunk)
            ranges = instant_ranges([timed], INSTANTS, whole, part, parts)
            if hashes is not None:
                patch.setattr(stream_operators, "HASHED", 0)
                patch.setattr(stream_operators, "mix", lambda columns: mix(columns if hashes < 0 else [columns[0] & hashes]))
            for places in ranges:
                own = places.rows(timed, INSTANTS, whole)
                own = own.with_interval(np.searchsorted(INSTANTS, own.start), np.searchsorted(INSTANTS, own.end))
                found.append(answers(own, "xy", operator, INSTANTS, places))
    assert sum((bag(f, "xy") for f in found), Counter()) == expected
    assert all(f.op == stream_operator(operator).sign for f in found)
    assert (np.diff(np.concatenate([f.time for f in found])) >= 0).all()  # also from range to range


def test_a_row_that_ends_and_an_equal_one_that_begins_cancel_out() -> None:
    rows = rows_of("x", [((1,), 1, 3, 1), ((1,), 3, 5, 1), ((2,), 1, 3, 1), ((2,), 3, 5, 2)])
    assert bag(answers(rows, "x", "istream", INSTANTS), "x") == {(20, (1,)): 1, (20, (2,)): 1, (40, (2,)): 1}


def test_what_is_not_selected_leaves_its_multiplicity() -> None:
    rows = rows_of("xy", [((1, 1), 1, 3, 1), ((1, 2), 1, 3, 1)])
    found = answers(rows, ["x", "unknown"], "istream", INSTANTS)
    assert (found.columns["x"].tolist(), found.columns["unknown"].tolist(), found.n.tolist()) == ([1], [0], [2])


def test_a_snapshot_is_in_the_order_of_order_by() -> None:
    rows = rows_of(["x", ORDER], [((1, 2), 1, 2, 1), ((2, 0), 1, 2, 1), ((3, 1), 1, 2, 1)])
    assert answers(rows, "x", "rstream", INSTANTS).columns["x"].tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("<http://ex.org/a>", {"type": "uri", "value": "http://ex.org/a"}),
        ("_:b0", {"type": "bnode", "value": "b0"}),
        ('"a \\"b\\"\\n"', {"type": "literal", "value": 'a "b"\n'}),
        ('"a"@en-gb', {"type": "literal", "value": "a", "xml:lang": "en-gb"}),
        (
            '"1"^^<http://www.w3.org/2001/XMLSchema#integer>',
            {"type": "literal", "value": "1", "datatype": "http://www.w3.org/2001/XMLSchema#integer"},
        ),
    ],
)
def test_terms_as_sparql_json(term: str, expected: dict[str, str]) -> None:
    assert json_term(term) == expected


CHARACTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\\n\t\r\b\x01\x7f{}<>@^')
LITERALS = st.builds(
    literal,
    st.text(CHARACTERS),
    st.sampled_from([XSD_STRING, XSD_INTEGER, "http://ex.org/t"]),
    st.sampled_from([None, "en", "en-gb", "en--ltr", "ar--rtl"]),
)
TERMS = LITERALS | st.sampled_from(["<http://ex.org/é>", "<>", "_:b0", "_:a.b"])


@given(st.lists(st.none() | TERMS, max_size=8))
def test_many_terms_are_written_as_each_alone(texts: list[str | None]) -> None:
    expected = [None if text is None else json.dumps(json_term(text), ensure_ascii=False) for text in texts]
    assert json_terms(texts).to_pylist() == expected
    with patch.object(stream_output, "ONE_BY_ONE", -1):  # as whole columns
        assert json_terms(texts).to_pylist() == expected


def some_answers() -> tuple[Answers, TermTable]:
    terms = TermTable(PUBLIC, None)
    a, b = terms.ids(["<http://ex.org/a>", '"Zoë \\\\ \\"x\\""']).tolist()
    columns = {"x": np.array([a, b]), "y": np.array([0, a])}
    return Answers(np.array([10, 20]), np.array([2, 1]), columns, "+"), terms


def test_a_row_that_occurs_twice_is_two_lines() -> None:
    found, terms = some_answers()
    ((data, times, lengths),) = json_lines(found, terms)
    lines = data.to_pybytes().decode().splitlines()
    assert times.tolist() == [10, 10, 20]
    assert lengths.tolist() == [len(line.encode()) + 1 for line in lines]
    assert lines[0] == lines[1] == '{"time": 10, "op": "+", "bindings": {"x": {"type": "uri", "value": "http://ex.org/a"}}}'
    assert json.loads(lines[2])["bindings"]["x"]["value"] == 'Zoë \\ "x"'
    assert found.total == 3


def test_columns_of_terms() -> None:
    found, terms = some_answers()
    ((times, table),) = columns_of(found, terms)
    assert times.tolist() == [10, 10, 20]
    assert table["y"].to_pylist() == [None, None, "<http://ex.org/a>"]


def test_a_file_of_an_answer_folder_has_texts(tmp_path: Path) -> None:
    """Whatever dictionaries it is written from: readers see texts, nulls and times."""
    found, terms = some_answers()
    path = write_parquet(tmp_path / "part.parquet", found, terms, None, (("x", "string"),), None)
    table = parquet.read_table(path)
    assert table.schema.types == [pa.timestamp("ms", "UTC"), pa.string(), pa.string(), pa.string()]
    assert table.drop(["time"]).to_pydict() == {
        "op": ["+", "+", "+"],
        "x": ["http://ex.org/a", "http://ex.org/a", 'Zoë \\ "x"'],
        "y": [None, None, "<http://ex.org/a>"],
    }
    assert checksum.file_digest(path) == checksum.digest_in_name(path)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_many_answers_are_written_some_at_a_time(size: int) -> None:
    found, terms = some_answers()
    whole, *_ = (data.to_pybytes() for data, _, _ in json_lines(found, terms))
    parts = list(json_lines(found, terms, size))
    assert b"".join(data.to_pybytes() for data, _, _ in parts) == whole
    assert [len(times) for _, times, _ in parts] == {1: [1, 1, 1], 2: [2, 1], 3: [3]}[size]
    texts = [text for _, table in columns_of(found, terms, size) for text in table["y"].to_pylist()]
    assert texts == [None, None, "<http://ex.org/a>"]


def test_what_is_unbound_is_left_out() -> None:
    terms = TermTable(PUBLIC, None)
    a = int(terms.ids(["<a>"])[0])
    shown = '{"type": "uri", "value": "a"}'
    columns = {"x": np.array([0, a, 0, a]), "y": np.array([0, 0, a, a])}
    ((data, _, _),) = json_lines(Answers(np.full(4, 10), np.ones(4, np.int64), columns, "+"), terms)
    bindings = ["", f'"x": {shown}', f'"y": {shown}', f'"x": {shown}, "y": {shown}']
    assert data.to_pybytes().decode().splitlines() == [f'{{"time": 10, "op": "+", "bindings": {{{b}}}}}' for b in bindings]


def test_answers_without_variables() -> None:
    ((data, _, _),) = json_lines(Answers(np.array([10]), np.array([2]), {}, "="), TermTable(PUBLIC, None))
    assert data.to_pybytes() == 2 * b'{"time": 10, "op": "=", "bindings": {}}\n'


def test_terms_of_the_store_are_written_once_and_others_by_each_step() -> None:
    """A later step may give another term the id of one that was made before."""
    store, written = {}, {}
    names = ["<http://ex.org/a>", "<http://ex.org/b>", "<http://ex.org/new>"]
    ids = TermTable(PUBLIC, None).ids(names)
    store.update(zip(ids[:2].tolist(), names))
    asked: list[int] = []

    def decode(some: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str | None]:
        asked.extend(some.tolist())
        return [store.get(i) for i in some.tolist()]

    def shown(which: list[int]) -> list[str]:
        terms = TermTable(PUBLIC, decode, json=written)
        if 2 in which:
            terms.ids(names[2:])
        found = Answers(np.arange(len(which)), np.ones(len(which), np.int64), {"x": ids[which]}, "+")
        lines = b"".join(data.to_pybytes() for data, _, _ in json_lines(found, terms)).decode().splitlines()
        return ["<" + json.loads(line)["bindings"]["x"]["value"] + ">" for line in lines]

    assert shown([0]) == names[:1]
    assert shown([2, 1, 0, 2]) == [names[2], names[1], names[0], names[2]]
    asked.clear()
    assert shown([1, 0]) == [names[1], names[0]]
    assert not asked
    assert set(written) == {*ids[:2].tolist()}


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(1, 7))
def test_answers_are_repeated_by_multiplicity_some_at_a_time(n: list[int], size: int) -> None:
    found = Answers(np.zeros(len(n), np.int64), np.array(n, np.int64), {}, "+")
    parts = [*stream_output.pieces(found, size)]
    assert np.concatenate([np.empty(0, np.int64), *parts]).tolist() == np.repeat(np.arange(len(n)), n).tolist()
    assert all(len(part) == size for part in parts[:-1])


OF_STORE = [
    "<http://ex.org/a>",
    '"Zoë \\\\ \\"x\\""',
    '"b"@en',
    "_:b0",
    literal("7.50", "http://www.w3.org/2001/XMLSchema#decimal"),
]
OTHERS = ["<http://ex.org/new>", '"made"', literal("12", XSD_INTEGER)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sets(st.integers(0, len(OF_STORE) + len(OTHERS))), max_size=6), st.sampled_from([0, 1, 2, 3, 1 << 16]))
def test_terms_that_are_kept_are_written_byte_by_byte_as_without(
    monkeypatch: pytest.MonkeyPatch, steps: list[set[int]], most: int
) -> None:
    """Over steps that share what is kept, terms of the store, others and none at all, in any mixture and with any number kept."""
    monkeypatch.setattr(stream_output, "MOST_KNOWN", most)
    ids = np.append(TermTable(PUBLIC, None).ids([*OF_STORE, *OTHERS]), 0)
    store = dict(zip(ids.tolist(), OF_STORE))
    written: dict[int, str] = {}
    for step in steps:
        terms = TermTable(PUBLIC, lambda some: [store.get(i) for i in some.tolist()], json=written)
        terms.ids(OTHERS)
        which = ids[sorted(step)]
        made = json_of(which, terms)
        assert made.equals(json_terms(terms.texts(which)))
        assert len(written) <= most or len(written) <= len(which)
        assert written == {i: json_terms([store[i]])[0].as_py() for i in written}, "of the store, as they are"
