"""The readers of verify: columns, graphs with times, static files, and late elements."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from cqels_opt.errors import DataError
from cqels_opt.query.parser import parse
from cqels_opt.verify import Element, Inputs, Options, drop_late, evaluate, read_elements, read_inputs, read_static

Write = Callable[[str, str], Path]
A = ("<a:s>", "<a:p>", "<a:o>")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def run(name: str, text: str) -> Path:
        path = tmp_path / name
        data = text.encode()
        if name.endswith(".gz"):
            data = gzip.compress(data)
        if name.endswith(".zst"):
            data = zstandard.compress(data)
        path.write_bytes(data)
        return path

    return run


# ------------------------------------------------------------------ streams
ROWS = """{"s": "<a:s>", "p": "<a:p>", "o": "<a:o>", "t": 5}

{"s": "<a:s>", "p": "<a:p>", "o": "\\"x\\"@EN", "t": "1970-01-01T00:00:00.0079Z"}
"""


@pytest.mark.parametrize("name", ["s.ndjson", "s.ndjson.gz", "s.ndjson.zst"])
def test_ndjson(name: str, write: Write) -> None:
    assert read_elements(write(name, ROWS)) == [Element(5, (A,)), Element(7, (("<a:s>", "<a:p>", '"x"@en'),))]


def test_csv(write: Write) -> None:
    text = 's,p,o,t\n<a:s>,<a:p>,<a:o>,5\n<a:s>,<a:p>,"""x, y""",1970-01-01T01:00:00+01:00\n'
    assert read_elements(write("s.csv", text)) == [Element(5, (A,)), Element(0, (("<a:s>", "<a:p>", '"x, y"'),))]


@pytest.mark.parametrize("times", [[5, 6], [datetime(1970, 1, 1, 0, 0, 0, 5999, UTC), datetime(1970, 1, 1, 0, 0, 0, 6000, UTC)]])
def test_parquet(times: list[object], tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"s": ["<a:s>"] * 2, "p": ["<a:p>"] * 2, "o": ["<a:o>"] * 2, "t": times}), path)
    assert read_elements(path) == [Element(5, (A,)), Element(6, (A,))]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_parquet_are_floored_whatever_their_unit(unit: str, tmp_path: Path) -> None:
    """The year 9999 is the last of Python's."""
    ticks = {"s": [-1, 300_000_000_000], "ms": [-1, 1], "us": [-1, 5_999], "ns": [-1, 5_999_999]}[unit]
    column = pa.array([*ticks, 0], pa.timestamp(unit, "UTC"))  # type: ignore[call-overload]
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"s": ["<a:s>"] * 3, "p": ["<a:p>"] * 3, "o": ["<a:o>"] * 3, "t": column}), path)
    first, last = {"s": (-1000, 300_000_000_000_000), "ms": (-1, 1), "us": (-1, 5), "ns": (-1, 5)}[unit]
    assert [element.t for element in read_elements(path)] == [first, last, 0]


def test_rows_with_equal_graph_and_time_are_one_element(write: Write) -> None:
    text = "s,p,o,t,g\n<a:s>,<a:p>,<a:o>,5,<a:g>\n<a:s>,<a:p>,<a:o>,5,\n<a:s>,<a:p>,<a:q>,5,<a:g>\n<a:s>,<a:p>,<a:o>,6,<a:g>\n"
    both = (A, ("<a:s>", "<a:p>", "<a:q>"))
    assert read_elements(write("s.csv", text)) == [Element(5, both, "<a:g>"), Element(5, (A,)), Element(6, (A,), "<a:g>")]


def test_graphs_with_times(write: Write) -> None:
    text = """
    @prefix prov: <http://www.w3.org/ns/prov#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
    <a:g> { <a:s> <a:p> <a:o>, <a:q> } <a:g> prov:generatedAtTime "1970-01-01T00:00:05"^^xsd:dateTime .
    <a:h> prov:generatedAtTime "1970-01-01T00:00:06Z"^^xsd:dateTime . GRAPH <a:h> { <a:s> <a:p> <a:o> }
    """
    both = (A, ("<a:s>", "<a:p>", "<a:q>"))
    said = [
        (f"<a:{g}>", "<http://www.w3.org/ns/prov#generatedAtTime>", f'"{at}"^^<http://www.w3.org/2001/XMLSchema#dateTime>')
        for g, at in (("g", "1970-01-01T00:00:05"), ("h", "1970-01-01T00:00:06Z"))
    ]
    expected = [Element(5000, both, "<a:g>", (said[0],)), Element(6000, (A,), "<a:h>", (said[1],))]
    assert read_elements(write("s.trig", text)) == expected
    with pytest.raises(DataError, match="graph <a:g> has no time"):
        read_elements(write("s.trig", text), time_predicate="a:time")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.ndjson", ROWS + "{", r"s\.ndjson:4: not JSON"),
        ("s.ndjson", ROWS + "[]", r"s\.ndjson:4: not JSON: a line is not an object"),
        ("s.ndjson", ROWS.replace("<a:o>", "a:o"), r"s\.ndjson:1: not an N-Triples term: a:o"),
        ("s.ndjson", ROWS.replace("<a:o>", "<a:o> . <a:b> <a:b> <a:b>"), r"s\.ndjson:1: not (one|an) N-Triples term"),
        ("s.ndjson", ROWS.replace('"t": 5', '"t": "soon"'), r"s\.ndjson:1: bad time 'soon'"),
        ("s.ndjson", ROWS.replace('"t": 5', '"t": true'), r"s\.ndjson:1: bad time"),
        ("s.ndjson", ROWS.replace(', "t": 5', ""), r"s\.ndjson:1: bad time None"),
        ("s.csv", "s,p,o,t\n<a:s>,<a:p>,<a:o>,5\n_:s,_:p,<a:o>,5\n", r"s\.csv:3: a predicate must be an IRI: _:p"),
        ("s.csv", 's,p,o,t\n"""x""",<a:p>,<a:o>,5\n', r"s\.csv:2: a subject cannot be a literal"),
        ("s.nt", "<a:s> <a:p> <a:o> .\n<a:s> <a:p> .\n", r"s\.nt:2: "),
        ("s.doc", "", r"s\.doc: unknown format '\.doc'"),
    ],
)
def test_bad_input_is_named_with_its_line(name: str, text: str, message: str, write: Write) -> None:
    with pytest.raises(DataError, match=message):
        read_elements(write(name, text))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.ndjson: cannot be read"):
        read_elements(tmp_path / "none.ndjson")


# ------------------------------------------------------------------ everything together
def test_read_inputs(write: Write) -> None:
    one, two = write("1.ndjson", ROWS), write("2.ndjson", ROWS.replace("<a:s>", "_:b"))
    static, named = write("d.ttl", '<a:x> <a:p> 1.50, "\\u00e9\\u0007" .'), write("n.nt.gz", "<a:s> <a:p> _:b .\n")
    quads = write("q.nq", "<a:s> <a:p> <a:o> <a:own> .\n")
    reading = read_inputs([("a:S", one), ("<a:S>", two)], [static, quads], [("a:G", named)])
    assert [e.triples[0][0] for e in reading.inputs.streams["a:S"]] == ["<a:s>", "<a:s>", "_:s0_b", "_:s0_b"]
    decimal = '"1.50"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    assert reading.inputs.default == [("<a:x>", "<a:p>", decimal), ("<a:x>", "<a:p>", '"é\x07"')]
    assert reading.inputs.graphs == {"a:G": [("<a:s>", "<a:p>", "_:d2_b")], "a:own": [A]}
    assert (reading.late, reading.rejected) == (0, 0)


def test_bad_rows_are_counted_on_request(write: Write) -> None:
    stream = write("s.ndjson", ROWS + "{\n" + ROWS.replace("<a:o>", "o"))
    static = write("d.nt", "<a:s> <a:p> <a:o> .\nnonsense\n<a:s> <a:p> <a:q> .\n")
    reading = read_inputs([("a:S", stream)], [static], on_error="skip")
    assert (len(reading.inputs.streams["a:S"]), len(reading.inputs.default), reading.rejected) == (3, 2, 3)


def test_a_folder_is_its_files_in_order_of_name(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, time in (("b.csv", 2), ("a.csv", 1), (".hidden", 3)):
        (folder / name).write_text(f"s,p,o,t\n<a:s>,<a:p>,<a:o>,{time}\n")
    assert [e.t for e in read_inputs([("a:S", folder)]).inputs.streams["a:S"]] == [1, 2]


def test_static_parquet(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"s": ["<a:s>"] * 2, "p": ["<a:p>"] * 2, "o": ["<a:o>"] * 2, "g": [None, "<a:g>"]}), path)
    assert list(read_static(path)) == [(None, A), ("a:g", A)]


# ------------------------------------------------------------------ lateness
def times(values: list[int], lateness: int = 0) -> list[int]:
    return [e.t for e in drop_late([Element(t, (A,)) for t in values], lateness)]


def test_an_element_is_late_if_it_is_older_than_the_greatest_before_it() -> None:
    assert times([1, 3, 3, 2, 4]) == [1, 3, 3, 4]
    assert times([10, 7, 9, 8], 2) == [10, 9, 8]
    assert times([10, 7, 6], 2) == [10]


def test_every_file_is_a_partition(write: Write) -> None:
    row = "s,p,o,t\n" + "".join(f"<a:s>,<a:p>,<a:o{t}>,{t}\n" for t in (5, 4, 6))
    reading = read_inputs([("a:S", write("1.csv", row)), ("a:S", write("2.csv", row.replace("a:o", "a:q")))])
    assert ([e.t for e in reading.inputs.streams["a:S"]], reading.late) == ([5, 6, 5, 6], 2)
    query = parse("SELECT ?o FROM NAMED <a:S> [TRIPLES 1] AS ?w { GRAPH ?w { ?s <a:p> ?o } }")
    found = evaluate(query, reading.inputs, Options())
    assert sorted((t, term) for t, _, row in found for _, term in row) == [(5, "<a:q5>"), (6, "<a:q6>")]


def test_a_stream_that_nobody_gives_is_an_error() -> None:
    query = parse("SELECT ?o FROM NAMED <a:S> [NOW] AS ?w { GRAPH ?w { ?s <a:p> ?o } }")
    with pytest.raises(Exception, match="--stream a:S PATH"):
        evaluate(query, Inputs({}), Options())
