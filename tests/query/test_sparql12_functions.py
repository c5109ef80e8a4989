"""Base directions (SPARQL 1.2), and the W3C tests' cases of BNODE(), IRI() and equality."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cqels_opt.operators.stream_output import json_term, json_terms
from cqels_opt.plans import parse_plan
from cqels_opt.query.algebra import Call, Constant
from cqels_opt.query.evaluate import compile_expression
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.parser import parse
from cqels_opt.rdf.terms import XSD, canonical, literal, literal_parts, tag_parts

ERROR = "error"
TRUE, FALSE = (literal(text, XSD + "boolean") for text in ("true", "false"))


def call(function: str, *terms: str) -> str:
    try:
        return compile_expression(Call(function, tuple(map(Constant, terms))))({})
    except ExpressionError:
        return ERROR


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        ("LANG", ['"abc"@en--ltr'], '"en"'),
        ("LANGDIR", ['"abc"@en--ltr'], '"ltr"'),
        ("LANGDIR", ['"abc"@en'], '""'),
        ("LANGDIR", ["<urn:a>"], ERROR),
        ("HASLANG", ['"abc"@en--rtl'], TRUE),
        ("HASLANG", ['"abc"'], FALSE),
        ("HASLANG", ["<urn:a>"], FALSE),
        ("HASLANGDIR", ['"abc"@en--rtl'], TRUE),
        ("HASLANGDIR", ['"abc"@en'], FALSE),
        ("STRLANGDIR", ['"abc"', '"EN"', '"rtl"'], '"abc"@en--rtl'),
        ("STRLANGDIR", ['"abc"', '"en"', '"RTL"'], ERROR),
        ("STRLANGDIR", ['"abc"@en', '"en"', '"rtl"'], ERROR),
        ("DATATYPE", ['"abc"@en--rtl'], "<http://www.w3.org/1999/02/22-rdf-syntax-ns#dirLangString>"),
        ("DATATYPE", ['"abc"@en'], "<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>"),
        ("CONCAT", ['"a"@en--ltr', '"b"@en--ltr'], '"ab"@en--ltr'),
        ("CONCAT", ['"a"@en--ltr', '"b"@en'], '"ab"'),
        ("=", ['"a"@en--ltr', '"a"@en--rtl'], FALSE),
        # a string with a language differs from every other literal; other literals of two types may be equal
        ("=", ['"a"@en', '"1"^^<urn:unknown>'], FALSE),
        ("!=", ['"a"@en', f'"1"^^<{XSD}integer>'], TRUE),
        ("=", ['"a"', '"a"^^<urn:unknown>'], ERROR),
        ("=", ['"a"', f'"1"^^<{XSD}integer>'], ERROR),
    ],
)
def test_functions(function: str, arguments: list[str], result: str) -> None:
    assert call(function, *arguments) == result


def test_a_base_direction_is_part_of_a_term() -> None:
    assert canonical('"abc"@EN--ltr') == '"abc"@en--ltr'
    assert tag_parts(literal_parts('"abc"@en-gb--rtl')[2] or "") == ("en-gb", "rtl")
    terms = ['"abc"@en--ltr', '"--ltr"', '"x@en--ltr"@fr', None]
    shown = json_terms(terms)
    assert isinstance(shown, pa.LargeStringArray)
    assert shown.to_pylist()[0] == '{"type": "literal", "value": "abc", "xml:lang": "en", "its:dir": "ltr"}'
    assert json_term('"abc"@en--ltr') == {"type": "literal", "value": "abc", "xml:lang": "en", "its:dir": "ltr"}
    assert shown.to_pylist()[1:] == [
        '{"type": "literal", "value": "--ltr"}',
        '{"type": "literal", "value": "x@en--ltr", "xml:lang": "fr"}',
        None,
    ]


def test_iri_takes_the_base_that_holds_where_it_stands() -> None:
    query = parse('BASE <http://ex.org/a/> SELECT (IRI("b") AS ?x) {}')
    assert "<http://ex.org/a/>" in repr(query.body)
    assert compile_expression(Call("IRI", (Constant('"b"'), Constant("<http://ex.org/a/>"))))({}) == "<http://ex.org/a/b>"


def test_a_blank_node_is_joined_on_in_the_text_of_a_plan() -> None:
    assert str(parse_plan("w#1 » w#2[?_:.0] » w#3[?_:b ?x]")) == "w#1 » w#2[?_:.0] » w#3[?_:b ?x]"
