"""Every function and operator of SPARQL 1.1 §17, by example."""

from __future__ import annotations

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.query import values
from cqels_opt.query.algebra import (
    TIMESTAMP,
    Bgp,
    Call,
    Constant,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    InWindow,
    Join,
    Minus,
    NamedGraph,
    Project,
    TriplePattern,
    Values,
    Variable,
)
from cqels_opt.query.evaluate import compile_condition, compile_expression
from cqels_opt.query.functions import ARITIES, CONTEXTUAL, FUNCTIONS, Context
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.scope import uses_now, variables
from cqels_opt.query.values import order_key, sort_key
from cqels_opt.rdf.terms import XSD, canonical

ERROR = "error"
TRUE, FALSE = f'"true"^^<{XSD}boolean>', f'"false"^^<{XSD}boolean>'


def typed(lexical: str, datatype: str) -> str:
    return f'"{lexical}"^^<{XSD}{datatype}>'


def read(text: str) -> str:
    """A term in short notation: 5, 2.5, 1e0, true, 'text', 'text'@en, '5'^^byte, <iri>, _:b."""
    if text in ("true", "false"):
        return typed(text, "boolean")
    if text.startswith("'"):
        body, _, datatype = text.partition("^^")
        string = body.replace("'", '"')
        return canonical(string + (f"^^<{XSD}{datatype}>" if datatype else ""))
    if text[0] in "<_":
        return canonical(text)
    return typed(text, "double" if "e" in text.lower() else "decimal" if "." in text else "integer")


def call(function: str, *arguments: str) -> Expression:
    """A call with arguments in short notation; ``?x`` is a variable."""
    return Call(function, tuple(Variable(a[1:]) if a.startswith("?") else Constant(read(a)) for a in arguments))


def result(expression: Expression, **row: str) -> str:
    try:
        return compile_expression(expression)({name: read(text) for name, text in row.items()})
    except ExpressionError:
        return ERROR


def check(line: str) -> None:
    """``FUNCTION argument argument -> result``; blanks inside a string are written ␣."""
    left, right = (side.split() for side in line.split("->"))
    function, *arguments = [part.replace("␣", " ") for part in left]
    function = {"NOT_IN": "NOT IN"}.get(function, function)
    if function.startswith("xsd:"):
        function = f"<{XSD}{function[4:]}>"
    want = right[0].replace("␣", " ")
    assert result(call(function, *arguments)) == (ERROR if want == ERROR else read(want)), line


def table(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize(
    "line",
    table("""
    + 1 2 -> 3
    + 2.5 0.5 -> '3'^^decimal
    + 1 2.5 -> 3.5
    + 1 1e0 -> 2.0E0
    + '5'^^byte '1'^^unsignedInt -> 6
    + '0.1'^^float 1 -> '1.1E0'^^float
    + '0.1'^^float 1e0 -> '1.1000000014901161E0'^^double
    + 9223372036854775807 1 -> 9223372036854775808
    + '007'^^integer 0 -> 7
    + 1 'a' -> error
    + 'x'^^integer 1 -> error
    + true 1 -> error
    - 1 3 -> -2
    - 0.3 0.1 -> 0.2
    - -0.0e0 0 -> '-0.0E0'^^double
    - -0.0e0 0.0 -> '-0.0E0'^^double
    - 0 0e0 -> '0.0E0'^^double
    * 0.1 3 -> 0.3
    * 1e300 1e10 -> 'INF'^^double
    * 2 -3 -> -6
    / 3 1 -> '3'^^decimal
    / 1 3 -> 0.333333333333333333
    / 2 3 -> 0.666666666666666666
    / -2 3 -> -0.666666666666666666
    / 1 3000000000 -> 0.0000000003333333333
    / 7 2 -> 3.5
    / 1 0 -> error
    / 1.0 0 -> error
    / 1e0 0 -> 'INF'^^double
    / -1e0 0 -> '-INF'^^double
    / 0e0 0 -> 'NaN'^^double
    / 1e0 3 -> '3.333333333333333E-1'^^double
    UNARY- 5 -> -5
    UNARY- '5'^^byte -> -5
    UNARY- 0e0 -> '-0.0E0'^^double
    UNARY- 'a' -> error
    UNARY+ '+5'^^integer -> 5
    ABS -2 -> 2
    ABS -1.50 -> 1.5
    ABS '-5'^^byte -> 5
    ROUND 2.5 -> '3'^^decimal
    ROUND -2.5 -> '-2'^^decimal
    ROUND 2.4999 -> '2'^^decimal
    ROUND -0.4e0 -> '-0.0E0'^^double
    ROUND 0.49999999999999994e0 -> '0.0E0'^^double
    ROUND 7 -> 7
    CEIL 2.1 -> '3'^^decimal
    CEIL -0.5e0 -> '-0.0E0'^^double
    FLOOR -2.1 -> '-3'^^decimal
    FLOOR 2e0 -> 2.0E0
    FLOOR 'NaN'^^double -> 'NaN'^^double
    FLOOR 'x' -> error
    """),
)
def test_arithmetic(line: str) -> None:
    check(line)


@pytest.mark.parametrize(
    "line",
    table("""
    = 1 1.0 -> true
    = 1 1e0 -> true
    = '1'^^unsignedByte 1 -> true
    = '01'^^integer 1 -> true
    = 0.1 1e-1 -> true
    = 'NaN'^^double 'NaN'^^double -> false
    = 'INF'^^double 'INF'^^float -> true
    = 'a' 'a' -> true
    = 'a' 'a'@en -> false
    = 'a'@EN 'a'@en -> true
    = 'a'@en 'a'@fr -> false
    = 'a' 1 -> error
    != 'a' 1 -> error
    != 1 2 -> true
    = <urn:a> <urn:a> -> true
    = <urn:a> 'a' -> false
    != <urn:a> 1 -> true
    = _:a _:b -> false
    = true '1'^^boolean -> true
    = true 1 -> error
    = 'x'^^integer 'x'^^integer -> true
    = 'x'^^integer 1 -> error
    = 'x'^^hexBinary 'x'^^hexBinary -> true
    = 'x'^^hexBinary 'y'^^hexBinary -> error
    != 'x'^^hexBinary 'y'^^hexBinary -> error
    = 'x'^^hexBinary <urn:a> -> false
    = '2020-01-01T00:00:00Z'^^dateTime '2020-01-01T01:00:00+01:00'^^dateTime -> true
    = '2020-01-01T00:00:00'^^dateTime '2020-01-01T00:00:00Z'^^dateTime -> true
    = '2020-02-29T24:00:00Z'^^dateTime '2020-03-01T00:00:00Z'^^dateTime -> true
    = '2020-01-01'^^date '2020-01-01T00:00:00'^^dateTime -> false
    < 1 1.5 -> true
    < 1 'NaN'^^double -> false
    > 2 10 -> false
    >= 2 2.0 -> true
    <= 'INF'^^double 1 -> false
    < 'a' 'b' -> true
    < 'B' 'a' -> true
    < 'a'@en 'b'@en -> error
    < 'a' 1 -> error
    < <urn:a> <urn:b> -> error
    < false true -> true
    < '2020-01-01T00:00:00Z'^^dateTime '2020-01-01T00:00:00.001Z'^^dateTime -> true
    < '2019-12-31'^^date '2020-01-01'^^date -> true
    > '10:00:00Z'^^time '10:00:00+01:00'^^time -> true
    < '-0001-01-01T00:00:00Z'^^dateTime '12020-01-01T00:00:00Z'^^dateTime -> true
    < '2020-02-30T00:00:00Z'^^dateTime '2021-01-01T00:00:00Z'^^dateTime -> error
    IN 2 1 2.0 -> true
    IN 2 'a' 2 -> true
    IN 2 'a' 3 -> error
    IN 2 -> false
    IN 2 1 3 -> false
    NOT_IN 2 1 3 -> true
    NOT_IN 2 1 2 -> false
    NOT_IN 2 'a' -> error
    SAMETERM 1 1.0 -> false
    SAMETERM 1 1 -> true
    SAMETERM 'a'@EN 'a'@en -> true
    """),
)
def test_comparison(line: str) -> None:
    check(line)


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("true", True),
        ("false", False),
        ("'x'^^boolean", False),
        ("''", False),
        ("'a'", True),
        ("'a'@en", True),
        ("0", False),
        ("0.0", False),
        ("1e-9", True),
        ("'NaN'^^double", False),
        ("'INF'^^double", True),
        ("'x'^^integer", False),
        ("<urn:a>", None),
        ("'2020-01-01'^^date", None),
    ],
)
def test_effective_boolean_value(line: str, want: bool | None) -> None:
    assert result(call("!", line)) == (ERROR if want is None else FALSE if want else TRUE)
    assert compile_condition(Constant(read(line)))({}) is (want is True)


E_, T_, F_ = "E", "T", "F"


@pytest.mark.parametrize(
    ("a", "b", "both", "either"),
    [
        (T_, T_, T_, T_),
        (T_, F_, F_, T_),
        (F_, F_, F_, F_),
        (T_, E_, E_, T_),
        (E_, T_, E_, T_),
        (F_, E_, F_, E_),
        (E_, F_, F_, E_),
        (E_, E_, E_, E_),
    ],
)
def test_three_valued_logic(a: str, b: str, both: str, either: str) -> None:
    values = {T_: Constant(TRUE), F_: Constant(FALSE), E_: Variable("unbound")}
    names = {TRUE: T_, FALSE: F_, ERROR: E_}
    assert names[result(Call("&&", (values[a], values[b])))] == both
    assert names[result(Call("||", (values[a], values[b])))] == either
    assert compile_condition(Call("||", (values[a], values[b])))({}) == (either == T_)


def test_a_long_chain_does_not_nest() -> None:
    chain = call("=", "?x", "0")
    for n in range(1, 5000):
        chain = Call("||", (chain, call("=", "?x", str(n))))
    assert compile_condition(chain)({"x": read("4999")})
    assert not compile_condition(chain)({"x": read("5000")})
    assert variables(chain) == {"x"}
    assert not uses_now(chain)


@pytest.mark.parametrize(
    "line",
    table("""
    IF true 1 2 -> 1
    IF '' 1 2 -> 2
    IF <urn:a> 1 2 -> error
    IF true 1 ?unbound -> 1
    IF true ?unbound 1 -> error
    COALESCE ?unbound 2 3 -> 2
    COALESCE ?unbound -> error
    COALESCE -> error
    BOUND ?unbound -> false
    ISIRI <urn:a> -> true
    ISURI 'a' -> false
    ISBLANK _:a -> true
    ISLITERAL 1 -> true
    ISLITERAL ?unbound -> error
    ISNUMERIC 1.5 -> true
    ISNUMERIC '1'^^unsignedByte -> true
    ISNUMERIC '300'^^byte -> false
    ISNUMERIC '1' -> false
    ISNUMERIC true -> false
    STR <urn:a> -> 'urn:a'
    STR 1.50 -> '1.50'
    STR 'a'@en -> 'a'
    STR _:a -> error
    LANG 'a'@en-GB -> 'en-gb'
    LANG 1 -> ''
    LANG <urn:a> -> error
    DATATYPE 1 -> <http://www.w3.org/2001/XMLSchema#integer>
    DATATYPE 'a' -> <http://www.w3.org/2001/XMLSchema#string>
    DATATYPE 'a'@en -> <http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>
    DATATYPE <urn:a> -> error
    IRI 'urn:x' -> <urn:x>
    URI <urn:x> -> <urn:x>
    IRI 'x' -> error
    IRI 'urn:␣x' -> error
    IRI 1 -> error
    STRDT '1' <http://www.w3.org/2001/XMLSchema#integer> -> 1
    STRDT '1' <http://www.w3.org/2001/XMLSchema#string> -> '1'
    STRDT '1'@en <urn:x> -> error
    STRDT '1' 'x' -> error
    STRDT '1' <http://www.w3.org/1999/02/22-rdf-syntax-ns#langString> -> error
    STRLANG 'a' 'EN' -> 'a'@en
    STRLANG 'a' 'e_n' -> error
    STRLANG 'a'@en 'en' -> error
    """),
)
def test_forms_and_terms(line: str) -> None:
    check(line)


@pytest.mark.long
@pytest.mark.parametrize(
    "line",
    table("""
    STRLEN 'añ😀' -> 3
    STRLEN 'ab'@en -> 2
    STRLEN 1 -> error
    SUBSTR 'foobar' 4 -> 'bar'
    SUBSTR 'foobar'@en 4 1 -> 'b'@en
    SUBSTR 'foobar' 0 3 -> 'fo'
    SUBSTR 'foobar' -1 3 -> 'f'
    SUBSTR 'foobar' 2 -1 -> ''
    SUBSTR 'foobar' 9 -> ''
    SUBSTR 'foobar' 1.5 -> error
    UCASE 'aé'@en -> 'AÉ'@en
    LCASE 'AÉ' -> 'aé'
    STRSTARTS 'abc' 'ab' -> true
    STRSTARTS 'abc'@en 'ab' -> true
    STRSTARTS 'abc'@en 'ab'@en -> true
    STRSTARTS 'abc'@en 'ab'@fr -> error
    STRSTARTS 'abc' 'ab'@en -> error
    STRENDS 'abc' 'bc' -> true
    STRENDS 'abc' 'ab' -> false
    CONTAINS 'abc' '' -> true
    CONTAINS 'abc' 1 -> error
    STRBEFORE 'abc' 'b' -> 'a'
    STRBEFORE 'abc'@en 'b' -> 'a'@en
    STRBEFORE 'abc'@en 'z' -> ''
    STRBEFORE 'abc'@en '' -> ''@en
    STRAFTER 'abc'@en 'b'@en -> 'c'@en
    STRAFTER 'abc' 'z' -> ''
    STRAFTER 'abc'@en '' -> 'abc'@en
    ENCODE_FOR_URI 'a␣b~é/' -> 'a%20b~%C3%A9%2F'
    CONCAT -> ''
    CONCAT 'a' 'b' -> 'ab'
    CONCAT 'a'@en 'b'@en -> 'ab'@en
    CONCAT 'a'@en 'b' -> 'ab'
    CONCAT 'a'@en 'b'@fr -> 'ab'
    CONCAT 'a' 1 -> error
    LANGMATCHES 'en-US' 'EN' -> true
    LANGMATCHES 'en' '*' -> true
    LANGMATCHES '' '*' -> false
    LANGMATCHES 'eng' 'en' -> false
    REGEX 'abc' 'B' 'i' -> true
    REGEX 'abc' '^b' -> false
    REGEX 'a.c' 'a.c' 'q' -> true
    REGEX 'abc' 'a.c' 'q' -> false
    REGEX 'a␣b' 'a␣␣\\\\s␣b' 'x' -> true
    REGEX 'a\\nb' 'a.b' -> false
    REGEX 'a\\nb' 'a.b' 's' -> true
    REGEX 'a\\nb' '^b$' 'm' -> true
    REGEX 'ab\\n' 'b$' -> false
    REGEX 'abc' '[a-z-[b]]{2}' -> false
    REGEX 'acb' '^[a-z-[b]]{2}b$' -> true
    REGEX 'Éa' '^\\\\p{Lu}\\\\p{L}$' -> true
    REGEX 'É' '\\\\P{Lu}' -> false
    REGEX 'É1' '^[\\\\p{Lu}0-9]+$' -> true
    REGEX 'a:b' '^\\\\i\\\\c*$' -> true
    REGEX '-a' '^\\\\i' -> false
    REGEX '-a' '^\\\\I\\\\i$' -> true
    REGEX 'a[b' '[[]' -> true
    REGEX 'a' '(' -> error
    REGEX 'a' '\\\\p{Xx}' -> error
    REGEX 'a' '(?i)A' -> error
    REGEX 'a' '\\\\y' -> error
    REGEX 'a' 'a' 'z' -> error
    REGEX 'a'@en 'a' -> true
    REGEX 'a' 'a'@en -> error
    REPLACE 'abcd' 'b' 'Z' -> 'aZcd'
    REPLACE 'abab' 'B' 'Z' 'i' -> 'aZaZ'
    REPLACE 'abab' '(a)(b)' '$2$1' -> 'baba'
    REPLACE 'abc' '(b)' '[$1$2$12]' -> 'a[bb2]c'
    REPLACE 'abc' 'b' '\\\\$\\\\\\\\' -> 'a$\\\\c'
    REPLACE 'a.c' '.' '$1' 'q' -> 'a$1c'
    REPLACE 'abc' 'b' '$' -> error
    REPLACE 'abc' 'x*' '-' -> error
    REPLACE 'abc'@en 'b' '' -> 'ac'@en
    MD5 'a' -> '0cc175b9c0f1b6a831c399e269772661'
    SHA1 'a' -> '86f7e437faa5a7fce15d1ddcb9eaeaea377667b8'
    SHA256 'a' -> 'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb'
    MD5 'a'@en -> error
    """),
)
def test_strings(line: str) -> None:
    check(line)


def test_long_hashes() -> None:
    assert result(call("SHA384", "'a'")).startswith('"54a59b9f22b0b80880d8427e548b7c23')
    assert result(call("SHA512", "'a'")).startswith('"1f40fc92da241694750979ee6cf582f2')


@pytest.mark.parametrize(
    "line",
    table("""
    YEAR '2020-01-02T03:04:05.60-05:30'^^dateTime -> 2020
    YEAR '-0044-03-15T00:00:00Z'^^dateTime -> -44
    MONTH '2020-01-02T03:04:05.60-05:30'^^dateTime -> 1
    DAY '2020-01-02'^^date -> 2
    HOURS '2020-01-02T03:04:05.60-05:30'^^dateTime -> 3
    HOURS '2020-01-02T24:00:00Z'^^dateTime -> 0
    DAY '2020-02-29T24:00:00Z'^^dateTime -> 1
    MINUTES '03:04:05'^^time -> 4
    SECONDS '2020-01-02T03:04:05.60-05:30'^^dateTime -> 5.6
    SECONDS '2020-01-02T03:04:05Z'^^dateTime -> '5'^^decimal
    TIMEZONE '2020-01-02T03:04:05-05:30'^^dateTime -> '-PT5H30M'^^dayTimeDuration
    TIMEZONE '2020-01-02T03:04:05Z'^^dateTime -> 'PT0S'^^dayTimeDuration
    TIMEZONE '2020-01-02T03:04:05'^^dateTime -> error
    TZ '2020-01-02T03:04:05-05:30'^^dateTime -> '-05:30'
    TZ '2020-01-02T03:04:05Z'^^dateTime -> 'Z'
    TZ '2020-01-02T03:04:05'^^dateTime -> ''
    YEAR '2020-01-02' -> error
    HOURS '2020-01-02'^^date -> error
    YEAR '2021-02-29T00:00:00'^^dateTime -> error
    YEAR '2021-01-01T00:00:00+15:00'^^dateTime -> error
    YEAR '2021-01-01T25:00:00'^^dateTime -> error
    YEAR '2021-01-01T00:00:00'^^dateTimeStamp -> error
    YEAR '2021-01-01T00:00:00Z'^^dateTimeStamp -> 2021
    """),
)
def test_dates(line: str) -> None:
    check(line)


@pytest.mark.parametrize(
    "line",
    table("""
    xsd:string 1.50 -> '1.5'
    xsd:string '007'^^integer -> '7'
    xsd:string 1e0 -> '1'
    xsd:string 1e6 -> '1.0E6'
    xsd:string '0.1'^^float -> '0.1'
    xsd:string -0e0 -> '-0'
    xsd:string '1'^^boolean -> 'true'
    xsd:string <urn:a> -> 'urn:a'
    xsd:string 'a'@en -> 'a'
    xsd:string 'x'^^hexBinary -> 'x'
    xsd:string '2020-01-01T00:00:00.500Z'^^dateTime -> '2020-01-01T00:00:00.5Z'
    xsd:string _:a -> error
    xsd:boolean '1' -> true
    xsd:boolean 'x' -> error
    xsd:boolean 0.0 -> false
    xsd:boolean 'NaN'^^double -> false
    xsd:integer '+5' -> 5
    xsd:integer '␣5␣' -> 5
    xsd:integer 2.7 -> 2
    xsd:integer -2.7e0 -> -2
    xsd:integer true -> 1
    xsd:integer 1e20 -> 100000000000000000000
    xsd:integer '1.5' -> error
    xsd:integer 'INF'^^double -> error
    xsd:integer <urn:a> -> error
    xsd:integer '5'@en -> error
    xsd:decimal 1e-3 -> 0.001
    xsd:decimal '1.50' -> 1.5
    xsd:decimal 0.1e0 -> 0.1
    xsd:decimal '1e1' -> error
    xsd:decimal 'NaN'^^double -> error
    xsd:double '1' -> 1.0E0
    xsd:double 1e0 -> 1.0E0
    xsd:double 'x' -> error
    xsd:float 16777217 -> '1.6777216E7'^^float
    xsd:float 1e39 -> 'INF'^^float
    xsd:byte '5' -> '5'^^byte
    xsd:byte 300 -> error
    xsd:nonNegativeInteger -1 -> error
    xsd:dateTime '2020-01-01T00:00:00.000Z' -> '2020-01-01T00:00:00Z'^^dateTime
    xsd:dateTime '2020-02-29T24:00:00Z' -> '2020-03-01T00:00:00Z'^^dateTime
    xsd:dateTime '2020-01-01'^^date -> '2020-01-01T00:00:00'^^dateTime
    xsd:dateTime 'x' -> error
    xsd:dateTime 1 -> error
    xsd:date '2020-01-01T10:00:00Z'^^dateTime -> '2020-01-01Z'^^date
    xsd:date '2020-02-30' -> error
    xsd:time '2020-01-01T10:00:00Z'^^dateTime -> '10:00:00Z'^^time
    xsd:time '2020-01-01'^^date -> error
    """),
)
def test_casts(line: str) -> None:
    check(line)


def test_numbers_of_any_length() -> None:
    long = "9" * 9000
    assert result(call("+", long, "1")) == read("1" + "0" * 9000)
    assert result(call("=", long, long)) == TRUE
    assert result(call("+", "0." + long, "1.0")) == read("1." + long)


def test_a_row_binds_variables() -> None:
    total = Call("+", (Call("*", (Variable("a"), Variable("b"))), Constant(read("1"))))
    assert result(total, a="2", b="3.5") == typed("8", "decimal")
    assert result(total, a="2") == ERROR
    assert result(call("BOUND", "?a"), a="2") == TRUE
    assert result(Variable("a"), a="1.50") == read("1.50"), "an input's lexical form is kept"


def test_iri_with_a_base() -> None:
    run = compile_expression(call("IRI", "'../b'"), base="http://e/x/y/z")
    assert run({}) == "<http://e/x/b>"


# ------------------------------------------------------------------ the context
def test_now_is_the_instant() -> None:
    now = compile_expression(Call("NOW", ()))
    assert now({}, Context(now=0)) == typed("1970-01-01T00:00:00Z", "dateTime")
    assert now({}, Context(now=951_782_400_123)) == typed("2000-02-29T00:00:00.123Z", "dateTime")
    assert now({}, Context(now=-1)) == typed("1969-12-31T23:59:59.999Z", "dateTime")


def test_random_values_are_seeded_by_call_instant_and_row() -> None:
    rand, context = compile_expression(Call("RAND", (), "query#1")), Context(5)
    first = rand({"a": "<urn:a>"}, context)
    assert first == compile_expression(Call("RAND", (), "query#1"))({"a": "<urn:a>"}, context)
    others = [
        rand({"a": "<urn:b>"}, context),
        rand({"a": "<urn:a>"}, Context(6)),
        compile_expression(Call("RAND", (), "query#2"))({"a": "<urn:a>"}, context),
        compile_expression(Call("RAND", (), "other#1"))({"a": "<urn:a>"}, context),
    ]
    assert first not in others
    assert result(Call("-", (Call("RAND", (), "1"), Call("RAND", (), "2")))) != typed("0.0E0", "double")
    assert result(Call("<", (Call("RAND", ()), Constant(read("1"))))) == TRUE
    assert result(Call("REGEX", (Call("STR", (Call("UUID", ()),)), Constant('"^urn:uuid:[0-9a-f-]{36}$"')))) == TRUE
    assert result(Call("STRLEN", (Call("STRUUID", ()),))) == typed("36", "integer")


def test_blank_nodes_of_a_row() -> None:
    labelled = compile_expression(Call("BNODE", (Variable("label"),), "1"))
    again = compile_expression(Call("BNODE", (Variable("label"),), "2"))
    node = labelled({"label": '"a"'})
    assert node.startswith("_:")
    assert canonical(node) == node
    assert node == again({"label": '"a"', "x": node}), "one label, one row: one node, also after BIND"
    assert node != labelled({"label": '"b"'})
    assert node != labelled({"label": '"a"', "other": "<urn:a>"})
    fresh = Call("SAMETERM", (Call("BNODE", (), "1"), Call("BNODE", (), "2")))
    assert result(fresh) == FALSE
    assert result(call("BNODE", "1")) == ERROR


# ------------------------------------------------------------------ compile-time checks
@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (call("<urn:f>", "1"), "the function <urn:f> is not supported"),
        (call("STRLEN"), "STRLEN takes 1 argument, not 0"),
        (call("IF", "1", "2"), "IF takes 3 arguments, not 2"),
        (call("SUBSTR", "'a'"), "SUBSTR takes 2 to 3 arguments, not 1"),
        (call("BOUND", "1"), "BOUND takes a variable"),
        (Exists(Bgp(()), False), "EXISTS is not supported here"),
    ],
)
def test_mistakes_are_found_when_compiling(expression: Expression, message: str) -> None:
    with pytest.raises(QueryError, match=message.replace("(", r"\(")):
        compile_expression(expression)


def test_the_tables_agree() -> None:
    forms = {"&&", "||", "IN", "NOT IN", "IF", "COALESCE", "BOUND", TIMESTAMP}  # read from the windows
    assert set(ARITIES) == set(FUNCTIONS) | set(CONTEXTUAL) | forms


def test_exists_is_the_hooks() -> None:
    pattern = Bgp((TriplePattern(Variable("a"), "<urn:p>", Variable("b")),))
    seen: list[Exists] = []

    def hook(node: Exists):
        seen.append(node)
        return lambda row: row.get("a") == "<urn:yes>"

    holds = compile_condition(Exists(pattern, False), hook)
    lacks = compile_condition(Call("&&", (Exists(pattern, True), Constant(TRUE))), hook)
    assert [node.negated for node in seen] == [False, True]
    assert [f({"a": term}) for f in (holds, lacks) for term in ("<urn:yes>", "<urn:no>")] == [True, False, False, True]


def test_variables_that_an_expression_reads() -> None:
    inner = Bgp((TriplePattern(Variable("s"), "<urn:p>", Variable("_:b")),), NamedGraph(Variable("g")))
    hidden = Project(Bgp((TriplePattern(Variable("t"), "<urn:p>", Variable("hidden")),), InWindow("w")), (Variable("t"),))
    grouped = Group(inner, (Variable("k"),), ())
    pattern = Filter(Minus(Join(inner, hidden), Values((Variable("v"),), ())), call("=", "?x", "?y"))
    expression = Call("IF", (Exists(Extend(pattern, Variable("e"), Variable("f")), True), Variable("c"), Exists(grouped, False)))
    assert variables(expression) == {"s", "g", "t", "v", "x", "y", "e", "f", "c", "k"}
    assert variables(Constant(TRUE)) == frozenset()


def test_what_depends_on_the_instant() -> None:
    assert uses_now(Call("IF", (Constant(TRUE), Call("NOW", ()), Variable("a"))))
    assert uses_now(Exists(Filter(Bgp(()), Call("<", (Variable("a"), Call("NOW", ())))), False))
    assert uses_now(Call("RAND", ()))
    assert not uses_now(Call("BNODE", ()))
    assert not uses_now(Exists(Filter(Bgp(()), Variable("a")), False))


# ------------------------------------------------------------------ order
def test_the_total_order() -> None:
    ordered = [
        None,
        "_:a",
        "_:b",
        "<urn:a>",
        "<urn:b>",
        read("'-INF'^^double"),
        read("-5"),
        read("'1'^^byte"),  # equal values: the text breaks ties
        read("1"),
        read("1.0"),
        read("1.5e0"),
        read("10"),
        read("'INF'^^double"),
        read("'NaN'^^double"),
        FALSE,
        TRUE,
        read("'2020-01-02'^^date"),
        read("'2020-01-01T01:00:00+02:00'^^dateTime"),
        read("'2020-01-01T00:00:00Z'^^dateTime"),
        '"10"',
        '"9"',
        '"a"',
        '"a"@en',
        '"b"',
        read("'x'^^hexBinary"),
        read("'x'^^integer"),
    ]
    backwards = ordered[::-1]
    assert sorted(backwards, key=order_key) == ordered


def test_keys_of_order_by_go_by_value() -> None:
    same = [
        ("1", "1.0"),
        ("1", "'01'^^integer"),
        ("1", "1.0e0"),
        ("'2020-01-01T00:00:00Z'^^dateTime", "'2020-01-01T01:00:00+01:00'^^dateTime"),
        ("'true'^^boolean", "'1'^^boolean"),
    ]
    for one, other in same:
        a, b = read(one), read(other)
        assert sort_key(a) == sort_key(b) and order_key(a) != order_key(b)
        assert sort_key(f"<<( <urn:a> <urn:p> {a} )>>") == sort_key(f"<<( <urn:a> <urn:p> {b} )>>")
    apart = [None, "_:a", "_:b", "<urn:a>", read("1"), '"a"', '"a"@en', read("'x'^^hexBinary"), read("'x'^^integer")]
    backwards = apart[::-1]
    assert sorted(backwards, key=sort_key) == apart
    assert len(set(map(sort_key, apart))) == len(apart)


# ------------------------------------------------------------------ literals of a stream may have any length
LONG = "1" * 5_000


@pytest.mark.parametrize(
    "call",
    [
        Call("<", (Constant(typed(f"{LONG}-01-01", "date")), Constant(typed("2000-01-01", "date")))),
        Call("YEAR", (Constant(typed(f"{LONG}-01-01T00:00:00", "dateTime")),)),
        Call("REGEX", (Constant('"b"'), Constant(f'"b{{{LONG}}}"'))),
        Call(f"<{XSD}byte>", (Constant(typed(LONG, "integer")),)),
    ],
)
def test_more_digits_than_python_reads_are_an_error_of_the_expression(call: Call) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(call)({}, Context())


def test_a_reference_to_a_group_may_have_any_number_of_digits() -> None:
    call = Call("REPLACE", (Constant('"abc"'), Constant('"(b)"'), Constant(f'"${LONG}"')))
    assert compile_expression(call)({}, Context()) == f'"ab{LONG[1:]}c"'


def test_values_of_long_terms_are_not_kept() -> None:
    before = values._parse.cache_info().currsize, values._order_key.cache_info().currsize
    for number in range(20):
        text = f'"{"x" * 1_000}{number}"'
        assert values.value(text) == values.value(text) and order_key(text) == order_key(text)
    assert (values._parse.cache_info().currsize, values._order_key.cache_info().currsize) == before
