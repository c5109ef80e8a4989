from __future__ import annotations

import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import RunError
from cqels_opt.rdf import ids
from cqels_opt.rdf.ids import (
    PUBLIC,
    CollisionError,
    IdScheme,
    check_collisions,
    encode,
    encode_one,
    inline_text,
    inline_texts,
    numeric,
)
from cqels_opt.rdf.terms import XSD_BOOLEAN, XSD_DECIMAL, XSD_INTEGER, literal

integers = st.one_of(st.integers(-(2**61), 2**61), st.integers(-1000, 1000)).map(lambda value: literal(str(value), XSD_INTEGER))
decimals = st.from_regex(r"\A-?[0-9]{0,20}\.[0-9]{0,17}\Z").map(lambda text: literal(text, XSD_DECIMAL))
odd_integers = st.from_regex(r"\A[+-]?[0-9]{1,21}\Z").map(lambda text: literal(text, XSD_INTEGER))
booleans = st.sampled_from(["true", "false", "1", "0", "TRUE"]).map(lambda text: literal(text, XSD_BOOLEAN))
plain = st.text(st.characters(exclude_categories=["Cs"])).map(literal)
iris = st.text("abc/é").map(lambda text: f"<{text}>")
blanks = st.from_regex(r"\A[a-z][a-z0-9]{0,5}\Z").map(lambda text: f"_:{text}")
any_term = st.one_of(integers, odd_integers, decimals, booleans, plain, iris, blanks)


@pytest.mark.long
@given(st.lists(any_term))
def test_an_inline_id_decodes_to_its_very_text_and_others_hold_none(terms: list[str]) -> None:
    encoded = encode(terms, PUBLIC)
    assert encoded.dtype == np.int64
    assert (encoded > 0).all()
    for term, term_id, text in zip(terms, encoded.tolist(), inline_texts(encoded)):
        assert text == inline_text(term_id)
        assert text is None or text == term
        expected = ids.KIND_IRI if term[0] == "<" else ids.KIND_BLANK if term[0] == "_" else ids.KIND_LITERAL
        assert term_id >> 60 in ((expected,) if text is None else (4, 5, 6))


@pytest.mark.long
@given(st.lists(any_term, unique=True))
def test_different_terms_have_different_ids_and_equal_terms_equal_ids(terms: list[str]) -> None:
    encoded = encode(terms, PUBLIC)
    assert len(set(encoded.tolist())) == len(terms)
    assert [encode_one(term, PUBLIC) for term in terms] == encoded.tolist()
    assert encode(pa.array(terms, pa.string()), PUBLIC).tolist() == encoded.tolist()
    check_collisions(np.concatenate([encoded, encoded]), terms + terms)


@pytest.mark.parametrize(
    ("lexical", "datatype", "inline"),
    [
        ("0", XSD_INTEGER, True),
        ("-1", XSD_INTEGER, True),
        (str(2**59 - 1), XSD_INTEGER, True),
        (str(-(2**59)), XSD_INTEGER, True),
        (str(2**59), XSD_INTEGER, False),
        (str(-(2**59) - 1), XSD_INTEGER, False),
        ("007", XSD_INTEGER, False),
        ("-0", XSD_INTEGER, False),
        ("+1", XSD_INTEGER, False),
        ("", XSD_INTEGER, False),
        ("x", XSD_INTEGER, False),
        ("12.5", XSD_DECIMAL, True),
        ("0.30", XSD_DECIMAL, True),
        ("-0.5", XSD_DECIMAL, True),
        ("0.000000000000001", XSD_DECIMAL, True),
        ("-0.0", XSD_DECIMAL, False),
        (".5", XSD_DECIMAL, False),
        ("12", XSD_DECIMAL, False),
        ("01.5", XSD_DECIMAL, False),
        ("0.0000000000000001", XSD_DECIMAL, False),
        ("3602879701896396.7", XSD_DECIMAL, True),
        ("3602879701896396.8", XSD_DECIMAL, False),
        ("true", XSD_BOOLEAN, True),
        ("1", XSD_BOOLEAN, False),
        ("1", "http://www.w3.org/2001/XMLSchema#int", False),
    ],
)
def test_only_forms_that_come_back_exactly_are_inline(lexical: str, datatype: str, inline: bool) -> None:
    term = literal(lexical, datatype)
    assert inline_text(encode_one(term, PUBLIC)) == (term if inline else None)


def test_ids_do_not_change_between_versions() -> None:
    """Stored data depend on these numbers."""
    terms = [
        "<http://example.org/a>",
        "_:b",
        '"x"',
        literal("42", XSD_INTEGER),
        literal("-1.25", XSD_DECIMAL),
        literal("true", XSD_BOOLEAN),
    ]
    assert encode(terms, PUBLIC).tolist() == GOLDEN
    assert encode(terms, IdScheme.of_seed(7)).tolist()[:3] != GOLDEN[:3]
    assert encode(terms, IdScheme.of_seed(7)).tolist()[3:] == GOLDEN[3:]


GOLDEN: list[int] = [
    1306590357015008165,
    2892135734047552898,
    3829645159890653143,
    5188146770730811434,
    5944751508129054595,
    6917529027641081857,
]


@pytest.mark.long
@given(st.lists(st.one_of(integers, decimals), min_size=2))
def test_numeric_values_compare_as_the_exact_ones_where_the_mask_says_so(terms: list[str]) -> None:
    values, exact = numeric(encode(terms, PUBLIC))
    kept = [
        (Decimal(term[1 : term.index('"', 1)]), value)
        for term, value, sure in zip(terms, values.tolist(), exact.tolist())
        if sure
    ]
    for left, left_value in kept:
        for right, right_value in kept:
            assert (left < right, left == right) == (left_value < right_value, left_value == right_value)


def test_numeric_leaves_other_terms_out() -> None:
    values, exact = numeric(
        encode(["<a>", literal("5", XSD_INTEGER), literal("true", XSD_BOOLEAN), literal(str(2**58), XSD_INTEGER)], PUBLIC)
    )
    assert exact.tolist() == [False, True, False, False]
    assert np.isnan(values).tolist() == [True, False, True, False]


def test_of_colliding_terms_the_least_keeps_its_id() -> None:
    with pytest.raises(CollisionError) as error:
        check_collisions(np.array([5, 6, 5, 5, 5], np.int64), ["<b>", "<c>", "<a>", "<b>", "<d>"])
    assert error.value.losers == ("<b>", "<d>")
    assert pickle.loads(pickle.dumps(error.value)).losers == error.value.losers


def test_a_missing_term_is_an_error() -> None:
    with pytest.raises(ValueError, match="missing"):
        encode(pa.array(["<a>", None]), PUBLIC)


def test_a_displaced_term_never_has_an_id_twice() -> None:
    """Each new attempt gives another id, until no id is left."""
    scheme, found = PUBLIC, {encode_one("<http://a>", PUBLIC)}
    for attempt in range(ids.ATTEMPTS):
        scheme = scheme.displacing(["<http://a>"])
        found.add(encode_one("<http://a>", scheme))
        assert len(found) == attempt + 2
    with pytest.raises(RunError, match="no id is left for <http://a>"):
        scheme.displacing(["<http://a>"])
