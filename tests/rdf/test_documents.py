"""RDF-star and RDF 1.2 documents: quoted triples in each, and documents that are nested too deeply."""

from __future__ import annotations

from pathlib import Path

import pytest

from cqels_opt.errors import DataError
from cqels_opt.rdf.static import Failures, StaticSource, read_all
from cqels_opt.rdf.streams import read_stream
from cqels_opt.rdf.tabular import Reject

PREFIXES = "PREFIX : <urn:> PREFIX prov: <http://www.w3.org/ns/prov#> PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>\n"
REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
ABC = "<<( <urn:a> <urn:b> <urn:c> )>>"


def time(graph: str) -> str:
    return f' :{graph} prov:generatedAtTime "1970-01-01T00:00:01Z" .'


def triples(tmp_path: Path, name: str, text: str) -> list[tuple[str, str, str]]:
    file = tmp_path / name
    file.write_text(PREFIXES + text, encoding="utf-8")
    found = read_all([StaticSource(file)], Failures(skip=False))
    return [t for quads in found for t in zip(quads.s, quads.p, quads.o)]


@pytest.mark.parametrize("name", ["a.ttls", "a.ttlstar", "a.trigs"])
def test_in_rdf_star_a_quoted_triple_is_a_term_and_its_own_reifier(tmp_path: Path, name: str) -> None:
    text = "<< :a :b :c >> :p 1 . :x :says << :a :b :c >> , [ :q << :a :b :c >> ] . << << :a :b :c >> :p :o >> :q :r ."
    outer = f"<<( {ABC} <urn:p> <urn:o> )>>"
    found = triples(tmp_path, name, text)
    assert set(found) == {
        (ABC, REIFIES, ABC),
        (ABC, "<urn:p>", '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'),
        ("<urn:x>", "<urn:says>", ABC),
        ("<urn:x>", "<urn:says>", "_:f0-1"),
        ("_:f0-1", "<urn:q>", ABC),
        (outer, REIFIES, outer),
        (outer, "<urn:q>", "<urn:r>"),
    }


def test_in_rdf_1_2_it_is_a_node_that_reifies_a_triple_term(tmp_path: Path) -> None:
    found = triples(tmp_path, "a.ttl", "<< :a :b :c >> :p :x . << :a :b :c ~ :r >> :p :y . :a :b :c {| :q :z |} .")
    assert ("<urn:a>", "<urn:b>", "<urn:c>") in found
    assert {s for s, p, o in found if (p, o) == (REIFIES, ABC)} == {"_:f0-1", "<urn:r>", "_:f0-2"}
    assert ("_:f0-2", "<urn:q>", "<urn:z>") in found


def test_a_name_of_ones_own_stays_a_reifier_in_rdf_star(tmp_path: Path) -> None:
    assert set(triples(tmp_path, "a.ttls", "<< :a :b :c ~ :r >> :p :x .")) == {
        ("<urn:r>", REIFIES, ABC),
        ("<urn:r>", "<urn:p>", "<urn:x>"),
    }


DEEP = 20_000


@pytest.mark.parametrize("opened", ["<<( :a :b ", "<< :a :b ", "<<(\n:a\n:b\n"])
@pytest.mark.parametrize("name", ["s.trig", "s.trigs"])
def test_a_statement_that_is_nested_too_deeply_is_refused_alone(tmp_path: Path, opened: str, name: str) -> None:
    closed = " )>>" if "(" in opened else " >>"
    deep = f":a :b {opened * DEEP}:c{closed * DEEP} ."
    text = f':g {{ :s :p """ x << y << """ , "<< <<" . }}{time("g")}\n:h {{ {deep}\n}}\n:i {{ :s :p :o }}{time("i")}\n'
    text += f":j {{ :s :p :o }}{time('j')}\n"  # the parser continues after the next full stop
    file = tmp_path / name
    file.write_text(PREFIXES + text, encoding="utf-8")
    rejected: list[Reject] = []
    found = [row for batch in read_stream(file, on_error="skip", rejected=rejected.append) for row in batch.to_pylist()]
    assert {"<urn:g>", "<urn:j>"} <= {row["g"] for row in found} <= {"<urn:g>", "<urn:i>", "<urn:j>", None}
    assert rejected and "nested deeper than 100 levels" in rejected[0].reason
    with pytest.raises(DataError, match=rf"{name}:\d+: quoted triples are nested deeper than 100 levels"):
        list(read_stream(file))


def test_many_quoted_triples_on_one_line_are_not_deep(tmp_path: Path) -> None:
    text = ":g { " + " ".join(f"<< :a :b {n} >> :p << :c :d {n} >> ." for n in range(500)) + " }" + time("g")
    file = tmp_path / "s.trigs"
    file.write_text(PREFIXES + text, encoding="utf-8")
    assert sum(len(batch) for batch in read_stream(file)) == 500 * 3 + 1


def rows(tmp_path: Path, text: str, name: str = "s.trig") -> list[tuple[int, str | None, str]]:
    file = tmp_path / name
    file.write_text(PREFIXES + text, encoding="utf-8")
    found = [row for batch in read_stream(file) for row in batch.to_pylist()]
    return [(row["element"], row["g"], row["s"]) for row in found if row["p"] != "<http://www.w3.org/ns/prov#generatedAtTime>"]


def test_what_the_default_graph_says_belongs_to_the_element(tmp_path: Path) -> None:
    """Before its graph and after it; a node that follows belongs to it too. Triples about no element are ignored."""
    text = (
        ":nobody :p :o .\n"
        ':h prov:generatedAtTime "1970-01-01T00:00:02Z" ; :source :s1 .\n'
        ':g { :a :b :c , :c . :a :b :c } :g prov:generatedAtTime "1970-01-01T00:00:01Z" ; :source _:who . _:who :name "W" .\n'
        ":h { :a :b :c } :h :note 1 ."
    )
    assert rows(tmp_path, text) == [
        (0, "<urn:g>", "<urn:a>"),
        (0, None, "<urn:g>"),
        (0, None, "_:who"),
        (1, "<urn:h>", "<urn:a>"),
        (1, None, "<urn:h>"),
        (1, None, "<urn:h>"),
    ]


def test_graphs_may_all_come_before_what_is_said_of_them(tmp_path: Path) -> None:
    said = "".join(f':{g} prov:generatedAtTime "1970-01-01T00:00:0{n}Z" ; :source :s . ' for n, g in enumerate("gh", 1))
    assert rows(tmp_path, f":g {{ :a :b :c }} :h {{ :a :b :d }} {said}") == [
        (0, "<urn:g>", "<urn:a>"),
        (0, None, "<urn:g>"),
        (1, "<urn:h>", "<urn:a>"),
        (1, None, "<urn:h>"),
    ]


def test_what_is_said_too_late_is_refused(tmp_path: Path) -> None:
    late = f":g {{ :a :b :c }}{time('g')} :h {{ :a :b :c }}{time('h')}\n:g :source :s ."
    with pytest.raises(DataError, match=r"s\.trig:3: the default graph speaks of graph <urn:g> after its element"):
        rows(tmp_path, late)


@pytest.mark.parametrize(
    ("column", "said"), [("s", "s is a triple term"), ("p", "p is a triple term"), ("g", "g is a triple term")]
)
def test_rows_have_triple_terms_as_objects_alone(tmp_path: Path, column: str, said: str) -> None:
    file = tmp_path / "s.csv"
    row = {"s": "<urn:a>", "p": "<urn:b>", "o": ABC, "t": "1", "g": "<urn:g>"}
    file.write_text(
        ",".join(row) + "\n" + ",".join(row.values()) + "\n" + ",".join({**row, column: ABC}.values()) + "\n", encoding="utf-8"
    )
    with pytest.raises(DataError, match=rf"s\.csv:3: {said}"):
        list(read_stream(file))
