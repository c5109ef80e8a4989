from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.rdf import terms
from cqels_opt.rdf.terms import TermError, canonical, literal, literal_parts

characters = st.characters(exclude_categories=["Cs"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<http://a/b>", "<http://a/b>"),
        ("<http://a/\\u00e9>", "<http://a/é>"),
        ("_:b0", "_:b0"),
        ("_:a.b-c", "_:a.b-c"),
        ('"x"', '"x"'),
        ('""', '""'),
        ('"x"@EN-us', '"x"@en-us'),
        ('"x"^^<http://www.w3.org/2001/XMLSchema#string>', '"x"'),
        ('"007"^^<http://www.w3.org/2001/XMLSchema#integer>', '"007"^^<http://www.w3.org/2001/XMLSchema#integer>'),
        (r'"\u0041\U0001F600\'\b\f"', '"A😀\'\b\f"'),
        (r'"tab\t quote\" back\\ nl\n cr\r"', r'"tab\t quote\" back\\ nl\n cr\r"'),
        ('"raw\ttab"', r'"raw\ttab"'),
        ('"ends with \\\\"', '"ends with \\\\"'),
        (" <http://a>\r\n", "<http://a>"),
    ],
)
def test_canonical(text: str, expected: str) -> None:
    assert canonical(text) == expected


@pytest.mark.parametrize(
    ("message", "text"),
    [
        *(("not a term in N-Triples syntax", text) for text in ("", "a", "_:", "_:a.", "42", "?x")),
        *(("not an IRI in N-Triples syntax", text) for text in ("<a b>", "<a", "<a\\>")),
        *(("not a literal in N-Triples syntax", text) for text in ('"x', '"x"@', '"x"^^a', '"x" y', r'"\q"', '"a\nb"')),
        (r"\uD800 is not a character", r'"\uD800"'),
        ("an IRI cannot contain this character, escaped or not", r"<\u003e>"),
    ],
)
def test_what_is_not_a_term(message: str, text: str) -> None:
    with pytest.raises(TermError, match=re.escape(message)):
        canonical(text)


@given(st.text(characters), st.sampled_from([terms.XSD_STRING, terms.XSD_INTEGER, "http://e/t"]))
def test_a_literal_keeps_its_parts(lexical: str, datatype: str) -> None:
    term = literal(lexical, datatype)
    assert literal_parts(term) == (lexical, datatype, None)
    assert canonical(term) == term
    assert "\n" not in term and "\t" not in term


@given(st.text(characters))
def test_language_tags_are_lower_case(lexical: str) -> None:
    term = literal(lexical, language="de-AT")
    assert literal_parts(term) == (lexical, terms.RDF_LANG_STRING, "de-at")
    assert canonical(term) == term


@given(st.text(characters))
def test_numbered_escapes_are_resolved(lexical: str) -> None:
    escaped = "".join(f"\\U{ord(c):08X}" for c in lexical)
    assert canonical(f'"{escaped}"') == literal(lexical)


@given(st.text())
def test_canonical_is_idempotent_or_raises(text: str) -> None:
    try:
        once = canonical(text)
    except TermError:
        return
    assert canonical(once) == once


def test_the_parts_of_terms() -> None:
    assert terms.iri_value("<http://a>") == "http://a"
    assert terms.iri("http://a") == "<http://a>"
    with pytest.raises(TermError, match="not an IRI: 'a b'"):
        terms.iri("a b")
    with pytest.raises(TermError, match="not an IRI"):
        terms.iri_value('"a"')
    with pytest.raises(TermError, match="not a literal"):
        literal_parts("<a>")
