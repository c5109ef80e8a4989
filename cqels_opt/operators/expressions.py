"""Expressions over rows: each distinct combination of arguments is evaluated once.

Comparisons of plain numbers, BOUND, the kinds of terms, and what connects these, go by the column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cqels_opt.operators.rows import Ints, Rows, group_ids, is_nameable
from cqels_opt.operators.terms import TermTable
from cqels_opt.query.algebra import Call, Constant, Expression, Variable
from cqels_opt.query.evaluate import compile_condition, compile_expression
from cqels_opt.query.functions import Context
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.scope import seeded, uses_now, variables
from cqels_opt.rdf import ids as term_ids

Mask = NDArray[np.bool_]
Evaluate = Callable[[Mapping[str, str], Context], object]
_COMPARE: Mapping[str, Callable[[NDArray[np.float64], NDArray[np.float64]], Mask]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
}
_BLANK_OR_IRI = (term_ids.KIND_IRI, term_ids.KIND_BLANK)
_KINDS: Mapping[str, tuple[int, ...]] = {
    "ISIRI": (term_ids.KIND_IRI,),
    "ISBLANK": (term_ids.KIND_BLANK,),
    "ISLITERAL": (term_ids.KIND_LITERAL, term_ids.KIND_INTEGER, term_ids.KIND_DECIMAL, term_ids.KIND_BOOLEAN),
    "ISTRIPLE": (term_ids.KIND_QUOTED,),
}


def truth(rows: Rows, condition: Expression, terms: TermTable, instants: Ints | None = None) -> Mask:
    """Where the condition is effectively true; an error is not."""
    if isinstance(condition, Call) and condition.function == "&&":
        first = truth(rows, condition.arguments[0], terms, instants)
        return first if not first.any() else first & truth(rows, condition.arguments[1], terms, instants)
    fast = _by_column(rows, condition, terms)
    if fast is None:
        return _each(rows, condition, terms, instants, _condition(condition)).astype(bool)
    answer, known = fast
    if not known.all():
        rest = np.flatnonzero(~known)
        answer[rest] = _each(rows.take(rest), condition, terms, None, _condition(condition)).astype(bool)
    return answer


def values(rows: Rows, expression: Expression, terms: TermTable, instants: Ints | None = None, site: str = "") -> Ints:
    """The id of the expression's value a row; 0 where it is an error. ``site``: the variable that it is for."""
    if isinstance(expression, Variable):
        return rows.columns.get(expression.name, np.zeros(len(rows), np.int64))
    texts = _each(rows, expression, terms, instants, _value(expression, site))
    return terms.ids(texts.tolist())


def _condition(condition: Expression) -> Evaluate:
    return compile_condition(condition)


def _value(expression: Expression, site: str) -> Evaluate:
    evaluate = compile_expression(expression, site=site)

    def value(row: Mapping[str, str], context: Context) -> str | None:
        try:
            return evaluate(row, context)
        except ExpressionError:
            return None

    return value


def needs_instant(expression: Expression) -> bool:
    """Whether the value hangs on the instant (NOW, RAND, UUID …), so that rows must be evaluated instant by instant."""
    return uses_now(expression)


def _each(rows: Rows, expression: Expression, terms: TermTable, instants: Ints | None, run: Evaluate) -> NDArray[np.object_]:
    """Runs over each distinct combination of arguments. What hangs on the instant or on the row is run for each row."""
    if not len(rows):
        return np.empty(0, object)
    names = [v for v in sorted(variables(expression)) if v in rows.columns]
    if seeded(expression):  # RAND() and its like hang on all that a row binds
        names = sorted({*names, *filter(is_nameable, rows.columns)})
    keys = [rows.columns[v] for v in names]
    group, first = group_ids(keys if instants is None else [*keys, instants], len(rows))
    texts = [terms.texts(rows.columns[v][first]) for v in names]
    results = np.empty(len(first), object)
    for i, place in enumerate(first.tolist()):
        row = {v: text for v, column in zip(names, texts) if (text := column[i]) is not None}
        results[i] = run(row, Context(0 if instants is None else int(instants[place])))
    return results[group]


def goes_by_column(condition: Expression) -> bool:
    """Whether a condition is a comparison of plain terms, BOUND, a kind of term, or what connects these: see :func:`truth`."""
    if not isinstance(condition, Call):
        return False
    if condition.function in ("!", "||", "&&"):
        return all(map(goes_by_column, condition.arguments))
    plain = all(isinstance(argument, Variable | Constant) for argument in condition.arguments)
    return plain and (condition.function in ("BOUND", *_KINDS) or condition.function in _COMPARE)


def _by_column(rows: Rows, condition: Expression, terms: TermTable) -> tuple[Mask, Mask] | None:
    """(answer, where it is known) of comparisons, BOUND, kinds of terms and what connects them; None for anything else.

    Where it is not known the condition may be an error, or a matter of texts: it is then evaluated for the row.
    """
    if not isinstance(condition, Call):
        return None
    match condition.function:
        case "BOUND":
            there = _column(rows, condition.arguments[0], terms)
            return (np.zeros(len(rows), np.bool_) if there is None else there != 0), np.ones(len(rows), np.bool_)
        case "!":
            inner = _by_column(rows, condition.arguments[0], terms)
            return None if inner is None else (~inner[0] & inner[1], inner[1])
        case "||" | "&&":
            return _connected(rows, condition, terms)
        case "ISIRI" | "ISBLANK" | "ISLITERAL" | "ISTRIPLE" as kind:
            ids = _column(rows, condition.arguments[0], terms)
            return None if ids is None else (np.isin(ids >> term_ids.KIND_SHIFT, _KINDS[kind]), ids != 0)
        case function if function in _COMPARE:
            return _compare_columns(rows, condition, terms)
    return None


def _connected(rows: Rows, condition: Call, terms: TermTable) -> tuple[Mask, Mask] | None:
    """``a || b || …`` or ``a && b && …``: an operand that decides is enough, whatever the others are, errors too."""
    decisive = condition.function == "||"
    decided, known = np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
    operands: list[Expression] = []
    first: Expression = condition
    while isinstance(first, Call) and first.function == condition.function and len(first.arguments) == 2:
        first, operand = first.arguments
        operands.append(operand)
    for operand in (*operands, first):
        found = _by_column(rows, operand, terms)
        if found is None:
            return None
        answer, sure = found
        decided |= (answer == decisive) & sure
        known &= sure
    known |= decided
    return (decided if decisive else ~decided) & known, known


def _compare_columns(rows: Rows, condition: Call, terms: TermTable) -> tuple[Mask, Mask] | None:
    """(answer, where it is known) of a plain comparison; None for anything else."""
    sides = [_column(rows, a, terms) for a in condition.arguments]
    a, b = sides
    if a is None or b is None:
        return None
    (x, x_known), (y, y_known) = term_ids.numeric(a), term_ids.numeric(b)
    known = x_known & y_known
    answer = _COMPARE[condition.function](x, y) & known
    if condition.function in ("=", "!="):
        same = a == b
        node = np.isin(a >> 60, _BLANK_OR_IRI) | np.isin(b >> 60, _BLANK_OR_IRI)
        node &= (a != 0) & (b != 0)
        answer = np.where(node, same if condition.function == "=" else ~same, answer)
        known = known | node
    return answer, known


@lru_cache(4096)
def _code(term: str, seed: int) -> int:
    """The id of a constant: making it takes longer than comparing a thousand rows with it."""
    return term_ids.encode_one(term, seed)


def _column(rows: Rows, expression: Expression, terms: TermTable) -> Ints | None:
    if isinstance(expression, Variable):
        return rows.columns.get(expression.name)
    if isinstance(expression, Constant):
        return np.full(len(rows), _code(expression.term, terms.seed))
    return None
