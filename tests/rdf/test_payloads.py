"""Messages to elements: each format against rdflib, all or nothing per message, and deterministic."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pyoxigraph as ox
import pytest
import rdflib
from hypothesis import given
from hypothesis import strategies as st
from rdflib.compare import to_canonical_graph

from cqels_opt.errors import InputError
from cqels_opt.rdf.graphs import GENERATED_AT
from cqels_opt.rdf.mapping import mapping_of
from cqels_opt.rdf.payloads import DOCUMENTS, Decoded, Payload, decode, payload_of

EX = "http://ex.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"


CSV_MAPPING = """
format = "csv"
columns = ["x"]
[[triples]]
subject = "a:{x}"
properties = { "a:p" = { iri = "a:o" } }
"""


def rows(found: Decoded) -> list[tuple[int, int, str, str, str, str | None, int]]:
    """(message, element, s, p, o, g, t)."""
    terms = (column.to_pylist() for column in (found.s, found.p, found.o, found.g))
    return list(zip(found.message.tolist(), found.element.tolist(), *terms, found.t.tolist()))


def read(payload: str | Payload, *values: bytes | str | None, t: int | None = 7) -> Decoded:
    given = [value.encode() if isinstance(value, str) else value for value in values]
    asked = payload if isinstance(payload, Payload) else payload_of(payload)
    return decode(asked, given, [t] * len(given), [f"m{i}" for i in range(len(given))])


# ------------------------------------------------------------------ documents
NODES = st.sampled_from([f"<{EX}a>", f"<{EX}b>", "_:x", "_:y"])
OBJECTS = st.one_of(
    NODES,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4).map(lambda text: str(ox.Literal(text))),
    st.integers().map(lambda i: f'"{i}"^^<{XSD}integer>'),
    st.just('"chat"@fr'),
)
TRIPLES = st.lists(st.tuples(NODES, st.sampled_from([f"<{EX}p>", f"<{EX}q>"]), OBJECTS), min_size=1, max_size=5)


def graph_of(triples: Any) -> rdflib.Graph:
    graph = rdflib.Graph()
    graph.parse(data="".join(f"{s} {p} {o} .\n" for s, p, o in triples), format="nt")
    return to_canonical_graph(graph)


@pytest.mark.long
@given(TRIPLES, st.sampled_from(["nt", "ttl", "trig", "nq", "jsonld"]))
def test_a_document_is_the_graph_that_it_says(triples: Any, name: str) -> None:
    text = "".join(f"{s} {p} {o} .\n" for s, p, o in triples)
    document = ox.serialize(ox.parse(text, format=ox.RdfFormat.N_TRIPLES), format=DOCUMENTS[name])
    assert document is not None
    found = read(name, document, document)
    assert not found.refused
    said = rows(found)
    assert {row[5:] for row in said} == {(None, 7)}
    assert {row[1] for row in said} == {0}  # one element
    for message in (0, 1):
        mine = [row[2:5] for row in said if row[0] == message]
        assert set(graph_of(mine)) == set(graph_of(triples))
    blanks = [{term for row in said if row[0] == message for term in row[2:5] if term.startswith("_:")} for message in (0, 1)]
    assert not blanks[0] & blanks[1]  # a label is local to its document
    assert rows(read(name, document, document)) == said


def test_json_ld_as_rdflib_reads_it() -> None:
    """With contexts, lists, languages and nested nodes; rdflib has an independent parser."""
    document = {
        "@context": {"ex": EX, "at": {"@id": "ex:at", "@type": "@id"}, "name": {"@id": "ex:name", "@language": "fr"}},
        "@id": "ex:ann",
        "@type": "ex:Person",
        "at": "ex:room1",
        "name": "Anne",
        "ex:age": 33,
        "ex:list": {"@list": [1, "two", True]},
        "ex:knows": [{"ex:name": "Bob"}, {"@id": "ex:eve"}],
    }
    graph = rdflib.Graph()
    graph.parse(data=json.dumps(document), format="json-ld")
    assert set(graph_of([row[2:5] for row in rows(read("jsonld", json.dumps(document)))])) == set(to_canonical_graph(graph))


@pytest.mark.parametrize("name", ["nq", "trig", "jsonld"])
def test_named_graphs_are_elements_with_their_times(name: str) -> None:
    text = (
        f'<{EX}g> <{GENERATED_AT}> "1970-01-01T00:00:05Z" .\n<{EX}g> <{EX}by> <{EX}me> .\n'
        f"<{EX}a> <{EX}p> <{EX}b> <{EX}g> .\n<{EX}a> <{EX}p> <{EX}c> <{EX}g> .\n<{EX}a> <{EX}p> <{EX}d> <{EX}h> .\n"
    )
    document = ox.serialize(ox.parse(text, format=ox.RdfFormat.N_QUADS), format=DOCUMENTS[name])
    said = rows(read(name, document))
    assert Counter((row[5], row[6]) for row in said) == {(f"<{EX}g>", 5000): 2, (f"<{EX}h>", 7): 1}
    assert len({row[1] for row in said}) == 2


def test_without_named_graphs_a_triple_says_the_time() -> None:
    payload = payload_of("ttl", f"{EX}at")
    assert {row[6] for row in rows(read(payload, f"<{EX}a> <{EX}at> 5000 ; <{EX}p> 1 ."))} == {5000}
    (refused,) = read(payload, f"<{EX}a> <{EX}at> 5 . <{EX}b> <{EX}at> 6 .").refused
    assert refused.reason.startswith("has 2 times, and no named graphs that they are of")


def test_a_document_may_have_triple_terms() -> None:
    found = rows(
        read(payload_of("ttl"), f"<{EX}a> <{EX}said> <<( <{EX}b> <{EX}p> 1 )>> . <{EX}b> <{EX}p> 1 {{| <{EX}by> <{EX}a> |}} .")
    )
    one = f'<<( <{EX}b> <{EX}p> "1"^^<{XSD}integer> )>>'
    assert [row[4] for row in found if row[3] == f"<{EX}said>"] == [one]
    ((reifier,),) = [(row[2],) for row in found if row[4] == one and row[3] != f"<{EX}said>"]
    assert (reifier, f"<{EX}by>", f"<{EX}a>") in {row[2:5] for row in found}


# ------------------------------------------------------------------ rows and mappings
def test_rows_of_one_graph_and_time_are_one_element() -> None:
    one = {"s": f"<{EX}a>", "p": f"<{EX}p>", "o": '"x"@EN'}
    message = [{**one, "t": 1}, {**one, "t": "1970-01-01T00:00:02Z"}, {**one, "t": 1}, {**one, "t": 1, "g": f"<{EX}g>"}, one]
    said = rows(read("json", json.dumps(message), json.dumps(one)))
    assert [(row[0], row[1], row[5], row[6]) for row in said] == [
        (0, 0, None, 1),
        (0, 1, None, 2000),
        (0, 0, None, 1),
        (0, 2, f"<{EX}g>", 1),
        (0, 3, None, 7),
        (1, 0, None, 7),
    ]
    assert {row[4] for row in said} == {'"x"@en'}


MAPPING = f"""
time = "at"
[[triples]]
subject = "{EX}{{id}}"
[triples.properties]
"{EX}v" = {{ column = "v" }}
"""


def test_a_mapping_over_json_and_over_csv() -> None:
    as_json = Payload("mapping", mapping_of(MAPPING))
    as_csv = Payload("mapping", mapping_of('format = "csv"\ncolumns = ["id", "v", "at"]' + MAPPING))
    found = read(as_json, '{"id": "a", "v": 1.50, "at": 3}', '[{"id": "a", "v": true}, {"id": "b", "v": "x"}]')
    assert [row[2:5] + row[6:] for row in rows(found)] == [
        (f"<{EX}a>", f"<{EX}v>", f'"1.50"^^<{XSD}double>', 3),
        (f"<{EX}a>", f"<{EX}v>", f'"true"^^<{XSD}boolean>', 7),
        (f"<{EX}b>", f"<{EX}v>", '"x"', 7),
    ]
    assert [row[2:5] + row[6:] for row in rows(read(as_csv, 'a,"x,y",3', "b,z,"))] == [
        (f"<{EX}a>", f"<{EX}v>", '"x,y"', 3),
        (f"<{EX}b>", f"<{EX}v>", '"z"', 7),
    ]
    assert [row[4] for row in rows(read(as_csv, "a,x\x0by\u2028z,3"))] == ['"x\x0by\u2028z"']
    assert [r.reason[:36] for r in read(as_csv, "a,b", 'a,"b,3').refused] == [
        "has 2 columns, not 3 as the mapping ",
        "is not CSV: unexpected end of data; ",
    ]


def test_records_lie_where_the_iterator_says() -> None:
    payload = Payload("mapping", mapping_of('iterator = "data.readings"' + MAPPING))
    found = read(payload, '{"data": {"readings": [{"id": 1, "v": 2}]}}', '{"data": {}}')
    assert [row[2] for row in rows(found)] == [f"<{EX}1>"]
    assert [r.reason[:22] for r in found.refused] == ["has no data.readings; "]


# ------------------------------------------------------------------ poison
@pytest.mark.parametrize(
    ("payload", "value", "reason"),
    [
        ("json", None, "is empty"),
        ("json", "", "is empty"),
        ("json", "{", "is not JSON: Expecting property name"),
        ("json", b"\xff{}", "is not UTF-8: invalid start byte"),
        pytest.param("json", "[" * 100_000, "is nested deeper than 100 levels", id="deep"),
        ("json", '{"s": "<a:a>", "p": "<a:p>", "o": "\\"\\ud800\\""}', "has half of a surrogate pair"),
        ("json", '{"s": "<a:a>", "p": "<a:p>", "o": "<a:o>", "t": "\\udfff"}', "has half of a surrogate pair"),
        ("jsonld", '{"@id": "a:a", "a:p": "\\ud800"}', "is not JSON-LD: "),
        ("json", "[]", "is an empty list"),
        ("json", "3", "is neither an object nor a list of objects"),
        ("json", '{"s": "<a:a>", "p": "<a:p>"}', "o is missing"),
        ("json", '{"s": "<a:a>", "p": "<a:p>", "o": 3}', "o is 3, not text"),
        ("json", '{"s": "<a:a>", "p": "<a:p>", "o": "x"}', "o is 'x', which cannot stand there"),
        ("json", '{"s": "<a a>", "p": "<a:p>", "o": "<a:o>"}', "s is '<a a>', which cannot stand there"),
        ("json", '{"s": "<a:a>", "p": "_:p", "o": "<a:o>"}', "p is '_:p', which cannot stand there"),
        (
            "json",
            '{"s": "<a:a>", "p": "<a:p>", "o": "<a:o>", "t": "noon"}',
            "'noon' is not a time: expected integer milliseconds",
        ),
        ("json", '{"s": "<a:a>", "p": "<a:p>", "o": "<a:o>", "t": true}', "t is true, not integer milliseconds"),
        ("nt", "junk", "is not N-Triples: "),
        ("nt", "# nothing", "holds no triple"),
        ("jsonld", '{"@context": "http://schema.org/", "name": "x"}', "is not JSON-LD: it names a remote @context"),
        ("jsonld", "3", "holds no triple"),
        ("trig", "<a:a> <a:p> <a:o> , ", "is not TriG: "),
        ("nq", f'<a:a> <a:p> <a:o> <a:g> .\n<a:g> <{GENERATED_AT}> "x" .', "'x' is not a time"),
        ("nq", f"<a:a> <a:p> <a:o> <a:g> .\n<a:g> <{GENERATED_AT}> <a:t> .", "the time of <a:g> is <a:t>, not a literal"),
        ("nq", f'<a:g> <{GENERATED_AT}> "1" .\n<a:g> <{GENERATED_AT}> "2" .', "<a:g> has a second time, '2'"),
    ],
)
def test_a_bad_message_is_refused_with_its_reason(payload: str, value: str | bytes | None, reason: str) -> None:
    good = {"json": '{"s": "<a:a>", "p": "<a:p>", "o": "<a:o>"}', "jsonld": '{"@id": "a:a", "a:p": 1}'}.get(
        payload, "<a:a> <a:p> <a:o> ."
    )
    found = read(payload, good, value, good)
    assert [row[0] for row in rows(found)] == [0, 2]
    ((number, said),) = [(r.message, r.reason) for r in found.refused]
    assert (number, said[: len(reason)]) == (1, reason)
    assert "\n" not in said and len(said) < 400


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ("json", '{"s": "<a:a>", "p": "<a:p>", "o": "<a:o>"}'),
        ("ttl", "<a:a> <a:p> <a:o> ."),
        ("nt", "<a:a> <a:p> <a:o> ."),
        ("trig", "<a:a> <a:p> <a:o> ."),
        ("jsonld", '{"@id": "a:a", "a:p": {"@id": "a:o"}}'),
        (Payload("mapping", mapping_of(CSV_MAPPING)), "a"),
    ],
)
def test_a_message_may_begin_with_a_byte_order_mark(payload: str | Payload, value: str) -> None:
    found = read(payload, f"\ufeff{value}", value)
    assert not found.refused
    assert [row[2:5] for row in rows(found)] == [("<a:a>", "<a:p>", "<a:o>")] * 2


def test_a_message_with_one_bad_triple_gives_none() -> None:
    one = {"s": "<a:a>", "p": "<a:p>", "o": "<a:o>"}
    found = read("json", json.dumps([one, {**one, "o": "x"}, one]))
    assert (len(found.t), len(found.refused)) == (0, 1)


def test_without_any_time_a_message_is_refused() -> None:
    assert [r.reason[:11] for r in read("nt", "<a:a> <a:p> <a:o> .", t=None).refused] == ["has no time"]


def test_a_payload_that_is_not_known() -> None:
    with pytest.raises(
        InputError, match=r"^'xml' is no payload: known are json, nt, ttl, nq, trig, jsonld, or the file of a mapping"
    ):
        payload_of("xml")


@given(st.lists(st.binary(max_size=30), max_size=6), st.sampled_from(["json", *DOCUMENTS]))
def test_no_bytes_fail_a_batch(values: list[bytes], name: str) -> None:
    found = read(name, *values)
    assert {row[0] for row in rows(found)} | {r.message for r in found.refused} == set(range(len(values)))
    assert not {row[0] for row in rows(found)} & {r.message for r in found.refused}


def test_many_messages_are_read_as_one_by_one() -> None:
    """The result for a message does not depend on the other messages."""
    rng = random.Random(5)
    one = {"s": "<a:a>", "p": "<a:p>"}
    values = [
        json.dumps([{**one, "o": f'"{rng.randrange(3)}"', "t": rng.randrange(3)} for _ in range(rng.randint(1, 4))])
        for _ in range(40)
    ]
    values[7], values[23] = "junk", "[]"
    together = read("json", *values)
    alone = [row[1:] for value in values for row in rows(read("json", value))]
    assert [row[1:] for row in rows(together)] == alone
    assert [r.message for r in together.refused] == [7, 23]
