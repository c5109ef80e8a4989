"""Expressions over rows: the quick comparison by column says what the evaluation of each row says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.operators import expressions
from cqels_opt.operators.expressions import needs_instant, truth, values
from cqels_opt.operators.rows import Rows
from cqels_opt.operators.term_table import TermTable
from cqels_opt.query.algebra import Call, Constant, Expression, Variable
from cqels_opt.query.evaluate import compile_condition
from cqels_opt.query.functions import Context
from cqels_opt.rdf.ids import PUBLIC

XSD = "http://www.w3.org/2001/XMLSchema#"
TEXTS = [
    None,
    *(f'"{n}"^^<{XSD}integer>' for n in ("-1", "0", "1", "2", "007", str(2**53 + 1), str(2**53), str(10**30))),
    *(f'"{n}"^^<{XSD}decimal>' for n in ("1.0", "0.5", "-2.25", "9007199254740993.5")),
    *(f'"{n}"^^<{XSD}double>' for n in ("1.0E0", "NaN", "INF")),
    f'"true"^^<{XSD}boolean>',
    f'"2020-01-01T00:00:00Z"^^<{XSD}dateTime>',
    '"a"',
    '"a"@en',
    "<http://ex.org/a>",
    "<http://ex.org/b>",
    "_:b0",
]
A, B = Variable("a"), Variable("b")


def table() -> TermTable:
    return TermTable(PUBLIC, None)


def rows_of_terms(terms: TermTable, **columns: list[str | None]) -> Rows:
    length = len(next(iter(columns.values())))
    start = np.arange(length, dtype=np.int64)
    return Rows({v: terms.ids(c) for v, c in columns.items()}, start, start + 1, np.ones(length, np.int64))


def each_row(rows: Rows, condition: Expression, terms: TermTable) -> list[bool]:
    run = compile_condition(condition)
    columns = {v: terms.texts(c) for v, c in rows.columns.items()}
    found = []
    for i in range(len(rows)):
        row = {v: text for v, column in columns.items() if (text := column[i]) is not None}
        found.append(bool(run(row, Context())))
    return found


pairs = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(TEXTS)), min_size=1, max_size=12)


@pytest.mark.parametrize("operator", ["=", "!=", "<", ">", "<=", ">="])
@given(pairs=pairs)
def test_a_comparison_of_columns(operator: str, pairs: list[tuple[str | None, str | None]]) -> None:
    terms = table()
    rows = rows_of_terms(terms, a=[a for a, _ in pairs], b=[b for _, b in pairs])
    condition = Call(operator, (A, B))
    assert truth(rows, condition, terms).tolist() == each_row(rows, condition, terms)


@pytest.mark.parametrize("constant", [t for t in TEXTS if t is not None])
def test_a_comparison_with_a_constant(constant: str) -> None:
    terms = table()
    rows = rows_of_terms(terms, a=TEXTS)
    for operator in ("=", "<", "!="):
        for arguments in ((A, Constant(constant)), (Constant(constant), A)):
            condition = Call(operator, arguments)
            assert truth(rows, condition, terms).tolist() == each_row(rows, condition, terms)


operands = st.sampled_from([A, B, Constant('"2"^^<http://www.w3.org/2001/XMLSchema#integer>')])
comparisons = st.tuples(st.sampled_from(["=", "!=", "<", ">="]), st.tuples(operands, operands)).map(lambda p: Call(*p))
kinds = st.tuples(
    st.sampled_from(["BOUND", "ISIRI", "ISBLANK", "ISLITERAL"]), st.tuples(st.sampled_from([A, B, Variable("c")]))
).map(lambda p: Call(*p))
conditions = st.recursive(
    comparisons | kinds | st.just(Call("STRLEN", (A,))),
    lambda inner: (
        st.tuples(st.sampled_from(["&&", "||"]), st.tuples(inner, inner)).map(lambda p: Call(*p))
        | inner.map(lambda part: Call("!", (part,)))
    ),
    max_leaves=6,
)


@given(pairs, conditions)
def test_any_condition_by_the_column_is_that_of_each_row(
    pairs: list[tuple[str | None, str | None]], condition: Expression
) -> None:
    terms = table()
    rows = rows_of_terms(terms, a=[a for a, _ in pairs], b=[b for _, b in pairs])
    assert truth(rows, condition, terms).tolist() == each_row(rows, condition, terms)


@given(pairs)
def test_connected_conditions(pairs: list[tuple[str | None, str | None]]) -> None:
    terms = table()
    rows = rows_of_terms(terms, a=[a for a, _ in pairs], b=[b for _, b in pairs])
    less, same = Call("<", (A, B)), Call("=", (A, B))
    for condition in (Call("&&", (less, same)), Call("||", (less, same)), Call("!", (less,)), A, Call("BOUND", (B,))):
        assert truth(rows, condition, terms).tolist() == each_row(rows, condition, terms)


def test_an_error_leaves_unbound() -> None:
    terms = table()
    rows = rows_of_terms(terms, a=[TEXTS[1], '"a"', None])
    found = values(rows, Call("+", (A, Constant(f'"1"^^<{XSD}integer>'))), terms)
    assert terms.texts(found) == [f'"0"^^<{XSD}integer>', None, None]
    assert values(rows, Variable("unknown"), terms).tolist() == [0, 0, 0]


def test_each_combination_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = table()
    rows = rows_of_terms(terms, a=['"x"', '"y"'] * 50, b=['"z"'] * 100)
    seen: list[object] = []
    original = expressions.compile_expression

    def counting(expression: Expression) -> expressions.Evaluate:
        run = original(expression)
        return lambda row, context: (seen.append(row), run(row, context))[1]

    monkeypatch.setattr(expressions, "compile_expression", counting)
    assert len(set(values(rows, Call("STRLEN", (Call("CONCAT", (A, B)),)), terms).tolist())) == 1
    assert len(seen) == 2


def test_now_is_the_instant() -> None:
    terms = table()
    rows = rows_of_terms(terms, a=['"x"', '"x"'])
    now = Call("NOW", ())
    assert needs_instant(Call("YEAR", (now,)))
    assert not needs_instant(A)
    found = values(rows, now, terms, np.array([0, 1500], np.int64))
    expected = [f'"1970-01-01T00:00:00Z"^^<{XSD}dateTime>', f'"1970-01-01T00:00:01.5Z"^^<{XSD}dateTime>']
    assert terms.texts(found) == expected


def test_rand_hangs_on_instant_and_row_alone() -> None:
    terms = table()
    rows = rows_of_terms(terms, a=['"x"', '"y"', '"x"', '"x"'])
    found = values(rows, Call("RAND", ()), terms, np.array([5, 5, 5, 6], np.int64)).tolist()
    assert found[0] == found[2]
    assert len(set(found)) == 3


def test_parts_of_a_condition_draw_numbers_of_their_own() -> None:
    terms = table()
    rows = rows_of_terms(terms, a=[f'"{n}"' for n in range(400)])
    less = Call("<", (Call("RAND", (), "1"), Constant(f'"0.5"^^<{XSD}decimal>')))
    more = Call(">=", (Call("RAND", (), "2"), Constant(f'"0.5"^^<{XSD}decimal>')))
    instants = np.zeros(400, np.int64)
    both = truth(rows, Call("&&", (less, more)), terms, instants)
    again = truth(rows, less, terms, instants) & truth(rows, more, terms, instants)
    assert 60 < both.sum() < 140 and 60 < again.sum() < 140


def test_terms_are_told_again() -> None:
    terms = table()
    codes = terms.ids(TEXTS)
    assert terms.texts(codes) == TEXTS
    assert codes[0] == 0
