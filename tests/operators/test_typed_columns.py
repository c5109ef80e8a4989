"""Columns of answers as Spark SQL types: examples by type, and random literals against Python's own parsers."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import InputError
from cqels_opt.operators.typed_columns import LANGUAGE, arrow_type, column_types, typed
from cqels_opt.rdf.terms import XSD, literal


def values(type_of: str, *terms: str | None) -> tuple[list[Any], int]:
    found, lost = typed(pa.array(terms, pa.string()), type_of)
    assert found.type == arrow_type(type_of)
    return found.to_pylist(), lost


def noon(offset: int = 0, microsecond: int = 0) -> datetime:
    return datetime(2013, 7, 1, 12, 0, 0, microsecond, tzinfo=UTC) - timedelta(hours=offset)


@pytest.mark.parametrize(
    ("type_of", "term", "value"),
    [
        ("long", f'"5"^^<{XSD}integer>', 5),
        ("long", '"5"', 5),
        ("long", '" +7 "', 7),
        ("long", '"-5.0"', -5),
        ("long", '"9223372036854775807"', 2**63 - 1),
        ("int", f'"2147483647"^^<{XSD}int>', 2**31 - 1),
        ("double", f'"1.5E3"^^<{XSD}double>', 1500.0),
        ("double", '"-INF"', -math.inf),
        ("double", '"+.5"', 0.5),
        ("float", '"5."', 5.0),
        ("decimal(10,2)", f'"1.5"^^<{XSD}decimal>', Decimal("1.50")),
        ("decimal(10,2)", '"-1.555"', Decimal("-1.56")),
        ("decimal(38,0)", f'"{"9" * 38}"', Decimal("9" * 38)),
        ("boolean", f'"true"^^<{XSD}boolean>', True),
        ("boolean", '"0"', False),
        ("timestamp", f'"2013-07-01T12:00:00Z"^^<{XSD}dateTime>', noon()),
        ("timestamp", '"2013-07-01T12:00:00"', noon()),
        ("timestamp", '"2013-07-01T12:00:00.1234567+02:00"', noon(2, 123_456)),
        ("date", '"2013-07-01"', date(2013, 7, 1)),
        ("date", '"2013-07-01Z"', date(2013, 7, 1)),
        ("string", "<http://ex.org/a>", "http://ex.org/a"),
        ("string", r'"say \"yes\"\n\u00e9"@en', 'say "yes"\n\u00e9'),
        ("string", '""', ""),
        ("string", "_:b", "_:b"),
        ("string", "<<( <a:a> <b:b> <c:c> )>>", "<<( <a:a> <b:b> <c:c> )>>"),
        (LANGUAGE, '"Berlin"@de-at', {"value": "Berlin", "lang": "de-at"}),
        (LANGUAGE, '"Berlin"', {"value": "Berlin", "lang": None}),
        (LANGUAGE, "<http://ex.org/a>", {"value": "http://ex.org/a", "lang": None}),
    ],
)
def test_values(type_of: str, term: str, value: object) -> None:
    """Next to a null and, where the type has one, a value that is read one by one."""
    assert values(type_of, term, None) == ([value, None], 0)


@pytest.mark.parametrize(
    ("type_of", "term"),
    [
        ("long", '"5.5"'),
        ("long", '"five"'),
        ("long", '"9223372036854775808"'),
        ("long", "<http://ex.org/5>"),
        ("long", "_:b5"),
        ("int", '"2147483648"'),
        ("double", '"1,5"'),
        ("double", '"infinity"'),
        ("decimal(4,2)", '"100"'),
        ("decimal(4,2)", '"99.995"'),
        ("decimal(38,0)", f'"{"9" * 60}"'),
        ("boolean", '"TRUE"'),
        ("timestamp", '"2013-02-31T12:00:00Z"'),
        ("timestamp", '"2013-07-01"'),
        ("date", '"2013-02-31"'),
    ],
)
def test_what_is_not_of_the_type_is_null_and_counted(type_of: str, term: str) -> None:
    good = {"date": '"2013-07-01"', "timestamp": '"2013-07-01T12:00:00Z"'}.get(type_of, '"1"')
    found, lost = values(type_of, good, term, None, term)
    assert found[0] is not None
    assert (found[1:], lost) == ([None, None, None], 2)


@pytest.mark.parametrize(
    ("type_of", "suffix", "day"),
    [("date", "", 1), ("timestamp", "T00:00:00Z", 86_400_000_000), ("timestamp", "T00:00:00+01:00", 86_400_000_000)],
)
def test_years_that_python_does_not_have_next_to_days_that_there_are_not(type_of: str, suffix: str, day: int) -> None:
    days = ["0000-01-01", "2020-02-30", "0001-01-01", "9999-12-31"]
    found, lost = typed(pa.array([f'"{day}{suffix}"' for day in days]), type_of)
    first, *rest = (None if n is None else n // day for n in found.cast(pa.int64() if day > 1 else pa.int32()).to_pylist())
    assert (first, rest, lost) == (-719_528 - ("+" in suffix), [None, -719_162 - ("+" in suffix), 2_932_896 - ("+" in suffix)], 1)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**70), 2**70))))
def test_integers_by_definition(numbers: list[int | None]) -> None:
    terms = [None if n is None else literal(str(n), f"{XSD}integer") for n in numbers]
    wanted = [n if n is not None and -(2**63) <= n < 2**63 else None for n in numbers]
    assert values("long", *terms) == (wanted, sum(w is None for w in wanted) - sum(n is None for n in numbers))


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-(10**12), max_value=10**12)))
def test_decimals_by_definition(numbers: list[Decimal]) -> None:
    rounded = [n.quantize(Decimal("0.01"), ROUND_HALF_UP) for n in numbers]
    wanted = [n if abs(n) < 10**8 else None for n in rounded]
    assert values("decimal(10,2)", *(literal(f"{n:f}", f"{XSD}decimal") for n in numbers)) == (wanted, wanted.count(None))


@given(st.lists(st.floats()))
def test_doubles_by_definition(numbers: list[float]) -> None:
    forms = ["NaN" if math.isnan(n) else str(n).upper() if math.isinf(n) else f"{n!r}" for n in numbers]
    found, lost = values("double", *(literal(form, f"{XSD}double") for form in forms))
    assert lost == 0
    assert list(map(repr, found)) == list(map(repr, numbers))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_by_definition(texts: list[str]) -> None:
    assert values("string", *(literal(text) for text in texts)) == (texts, 0)
    assert values(LANGUAGE, *(literal(text, None, "en") for text in texts))[0] == [{"value": t, "lang": "en"} for t in texts]


@given(st.lists(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))))
def test_times_by_definition(times: list[datetime]) -> None:
    assert values("timestamp", *(literal(time.isoformat(), f"{XSD}dateTime") for time in times)) == (times, 0)


# ------------------------------------------------------------------ what a user gives
def test_types_of_variables() -> None:
    given_types = {
        "?delay": "BIGINT",
        "when": "Timestamp",
        "price": "decimal( 10, 2 )",
        "name": "struct<value: string, lang: string>",
    }
    assert column_types(given_types, ("delay", "when", "price", "name", "other")) == (
        ("delay", "long"),
        ("when", "timestamp"),
        ("price", "decimal(10,2)"),
        ("name", LANGUAGE),
    )


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"dely": "long"}, r"^types: there is no \?dely in SELECT; it selects \?delay, \?flight$"),
        ({"delay": "number"}, r"^types: \?delay: 'number' is not a type of a column; the types are boolean, int, long, .*string"),
        ({"delay": "decimal(39,2)"}, "is not a type of a column"),
        ({"delay": "decimal(2,3)"}, "is not a type of a column"),
    ],
)
def test_types_that_are_refused(types: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        column_types(types, ("delay", "flight"))


def test_only_a_select_has_typed_columns() -> None:
    with pytest.raises(InputError, match=r"there is no \?s in SELECT; it selects nothing$"):
        column_types({"s": "string"}, (".s", ".p", ".o"))
