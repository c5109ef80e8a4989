"""Triple terms as text (RDF 1.2): canonical form, components, and invalid texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.rdf.ids import KIND_IRI, KIND_QUOTED, PUBLIC, encode, kinds
from cqels_opt.rdf.nquads import parse_block
from cqels_opt.rdf.terms import MAX_DEPTH, TermError, canonical, depth, relabelled, term_end, triple, triple_parts

NODES = st.sampled_from(["<urn:a>", "<urn:b>", "_:b1", "_:x-y"])
LITERALS = st.builds(
    lambda text, tail: canonical('"' + text.replace("\\", "").replace('"', "") + '"' + tail),
    st.text("ab )>(<_:.", max_size=6),
    st.sampled_from(["", "@en", "^^<urn:d>"]),
)
TRIPLES = st.recursive(
    st.builds(triple, NODES, st.just("<urn:p>"), st.one_of(NODES, LITERALS)),
    lambda inner: st.builds(triple, st.one_of(NODES, inner), st.just("<urn:p>"), st.one_of(NODES, LITERALS, inner)),
    max_leaves=6,
)


@given(TRIPLES)
def test_canonical_texts_are_taken_apart_and_put_together(text: str) -> None:
    assert canonical(text) == text
    assert triple(*triple_parts(text)) == text
    assert canonical(text.replace("<<( ", "<<(").replace(" )>>", ")>>")) == text
    assert depth(text) == 1 + max(map(depth, triple_parts(text)))
    assert term_end(f"{text} .", 0) == len(text)


@given(TRIPLES)
def test_blank_nodes_inside_get_other_labels_and_nothing_else_changes(text: str) -> None:
    there = relabelled(text, lambda label: f"_:s1-{label[2:]}")
    assert relabelled(there, lambda label: f"_:{label.removeprefix('_:s1-')}") == text
    labels = [token for token in there.replace('"', '" ').split() if token.startswith("_:")]
    assert all(label.startswith("_:s1-") for label in labels) or '"' in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<<( <a> <b> )>>", "has 2 parts, not 3"),
        ("<<( <a> <b> <c> <d> )>>", "has 4 parts, not 3"),
        ('<<( "a" <b> <c> )>>', "the subject of a triple term is a literal"),
        ("<<( <a> _:b <c> )>>", "the predicate of a triple term is not an IRI"),
        ("<<( <a> <<( <a> <b> <c> )>> <c> )>>", "the predicate of a triple term is not an IRI"),
        ("<<( <a> <b> <c> )>> .", "more than a triple term"),
        ("<<( <a> <b> <c>", "not a triple term in N-Triples syntax"),
        ("<< <a> <b> <c> >>", "not an IRI"),
        ("<<( " * 1_000_000, f"nested deeper than {MAX_DEPTH} levels"),
    ],
)
def test_what_is_no_triple_term(text: str, message: str) -> None:
    with pytest.raises(TermError, match=message):
        canonical(text)


def test_ids_are_those_of_the_text_and_of_a_kind_of_their_own() -> None:
    ids = encode(
        ['<<( <urn:a> <urn:p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> )>>', "<urn:a>", "<<( <urn:a> <urn:p> <urn:b> )>>"],
        PUBLIC,
    )
    assert kinds(ids).tolist() == [KIND_QUOTED, KIND_IRI, KIND_QUOTED]
    assert len(set(ids.tolist())) == 3


def test_lines_of_n_quads() -> None:
    block = (
        b'<urn:a> <urn:p> <<( _:x <urn:q> "a )>> b"@EN )>> . # )>>\n'
        b"<urn:a> <urn:p> <<(<urn:b><urn:q><<(<urn:c><urn:q>_:x)>>)>> <urn:g>.\n"
        b"<<( <urn:a> <urn:p> <urn:b> )>> <urn:p> <urn:b> .\n"
        b"<urn:a> <urn:p> <<( <urn:b> <urn:q> )>> .\n"
        b"<urn:a> <urn:p> <<( <urn:b> <urn:q> <urn:c> )>> ,\n"
    )
    quads, wrong = parse_block(block, 3, None, quads=True)
    assert quads.o == ['<<( _:f3_x <urn:q> "a )>> b"@en )>>', "<<( <urn:b> <urn:q> <<( <urn:c> <urn:q> _:f3_x )>> )>>"]
    assert quads.g == [None, "<urn:g>"]
    assert [line for line, _ in wrong] == [3, 4, 5]
    assert "has 2 parts" in wrong[1][1] and "a full stop" in wrong[2][1]
