"""Every function over every kind of term gives pyoxigraph's result, or a difference that SPARQL 1.1 explains.

Terms that pyoxigraph normalizes (``"007"``, derived integers, ill-typed numbers) are omitted: see test_expressions*.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

import pyoxigraph
import pytest

from cqels_opt.query.algebra import Call, Constant
from cqels_opt.query.casts import CASTS
from cqels_opt.query.evaluate import compile_expression
from cqels_opt.query.functions import ARITIES, FUNCTIONS
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.temporal import Temporal
from cqels_opt.query.values import Text, is_number, value
from cqels_opt.rdf.terms import XSD, canonical, literal, literal_parts

STORE = pyoxigraph.Store()
LITERALS = {
    "string": ["", "a", "abc", 'é"\n', "1", " 2 ", "1.5", "true", "2020-02-29T12:30:15.5Z", "en"],
    "integer": ["0", "1", "-1", "12345678901"],
    "decimal": ["-2.5", "0.25", "3.5"],
    "double": ["0", "1.5", "INF", "-INF", "NaN"],
    "float": ["0.1", "-1.5", "INF", "NaN"],
    "boolean": ["true", "false"],
    "dateTime": ["2020-02-29T12:30:15.5Z", "2020-02-29T12:30:15-05:30", "2020-02-29T12:30:15", "-0044-03-15T00:00:00Z"],
    "date": ["2020-02-29", "2020-02-29Z"],
    "time": ["12:30:15", "12:30:15+01:00"],
    "duration": ["P1Y", "P1DT2H"],
    "dayTimeDuration": ["P1DT2H", "-PT5H"],
}
TERMS = [
    "<urn:a>",
    "<http://ex.org/b>",
    '"a"@en',
    '"abc"@en-gb',
    '""@fr',
    '"abc"@en--ltr',
    '"xyz"^^<urn:unknown>',
    *(literal(text, XSD + kind) for kind, texts in LITERALS.items() for text in texts),
]
INFIX = ("=", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/")
PAIRED = (
    *INFIX,
    "SAMETERM",
    "STRSTARTS",
    "STRENDS",
    "CONTAINS",
    "STRBEFORE",
    "STRAFTER",
    "STRDT",
    "STRLANG",
    "LANGMATCHES",
    "CONCAT",
)
SINGLE = [name for name in FUNCTIONS if ARITIES[name][0] <= 1 and name not in ("COALESCE", "CONCAT")]


def ours(name: str, terms: tuple[str, ...]) -> str | None:
    try:
        return compile_expression(Call(name, tuple(map(Constant, terms))))({})
    except ExpressionError:
        return None


def theirs(name: str, terms: tuple[str, ...]) -> str | None:
    text = f"({f' {name} '.join(terms)})" if name in INFIX else f"{name.removeprefix('UNARY')}({', '.join(terms)})"
    (solution,) = STORE.query(f"SELECT ({text} AS ?result) {{}}")  # type: ignore[union-attr]
    found = solution["result"]
    return None if found is None else canonical(str(found))


def meaning(term: str | None) -> object:
    """A number by its type and value, any other term unchanged."""
    found = None if term is None else value(term)
    if isinstance(found, float):
        return type(found).__name__, "NaN" if found != found else float(found)
    return (type(found).__name__, Decimal(found).normalize()) if is_number(found) else term


def explained(name: str, terms: tuple[str, ...], mine: str | None) -> str | None:
    """Why pyoxigraph may give another result."""
    found = [value(term) for term in terms]
    types = [literal_parts(term)[1].removeprefix(XSD) if term.startswith('"') else "" for term in terms]
    languages = [isinstance(x, Text) and x.language for x in found]
    if any("uration" in kind for kind in types) or (name == "-" and all(isinstance(x, Temporal) for x in found)):
        return "SPARQL 1.1 has no arithmetic of durations and dates"
    if name in INFIX and len({x.kind for x in found if isinstance(x, Temporal)}) == 1 and types[0] == types[1]:
        return "a time without a zone is UTC"
    if name in ("=", "!=") and mine is None:
        return "literals of two types are an error (RDFterm-equal)"
    if name in ("<", ">", "<=", ">="):
        if any(x != x for x in found):
            return "comparisons with NaN are false"
        if mine is None or "boolean" in types or types[0] != types[1]:
            return "SPARQL 1.1 has no order of these terms (the same term is not equal or less), and compares booleans"
    if name == "!" and (any(languages) or types[0] == "boolean"):
        return "a string with a language has a boolean value (it has none in SPARQL 1.2)"
    if name in CASTS and types[0] == "string":
        return "a cast ignores white space around a string"
    if name == f"<{XSD}decimal>" and types[0] == "float":
        return "the shortest decimal that is this float"
    if name == "*" and types == ["integer", "integer"] and mine == literal(str(found[0] * found[1]), XSD + "integer"):
        return "integers are unbounded"
    if name == "/" and mine is not None and is_quotient(*found, value(mine)):
        return "a quotient has more digits, and 0 divided by a number is 0"
    if name == "STRLANG":
        return "a language of one letter is well-formed in SPARQL's grammar"
    return None


def is_quotient(a: Decimal, b: Decimal, quotient: Decimal) -> bool:
    """Whether a decimal is a quotient to twenty decimal places."""
    return abs(Fraction(quotient) - Fraction(a) / Fraction(b)) <= Fraction(1, 10**20)


def cases() -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from ((name, (term,)) for name in SINGLE for term in TERMS)
    yield from ((name, (a, b)) for name in PAIRED for a in TERMS for b in TERMS)


def test_functions_of_all_kinds_of_terms() -> None:
    wrong, compared, reasons = list[str](), 0, Counter[str | None]()
    for name, terms in cases():
        try:
            want = theirs(name, terms)
        except RuntimeError as error:  # a cast that only our engine has
            assert name in CASTS and "is not supported" in str(error)
            continue
        mine = ours(name, terms)
        compared += 1
        if meaning(mine) != meaning(want):
            reasons[why := explained(name, terms, mine)] += 1
            wrong += [f"{name}{terms}: {mine}, pyoxigraph {want}"] if why is None else []
    assert not wrong, "\n".join(wrong[:20])
    assert compared > 40_000
    assert len(reasons) == 11, "each reason explains something"


@pytest.mark.parametrize("name", ["STRLEN", "YEAR", "ABS", "MD5", "UCASE", "TIMEZONE", f"<{XSD}integer>"])
def test_no_function_takes_an_iri_for_a_value(name: str) -> None:
    assert ours(name, ("<urn:a>",)) is None
