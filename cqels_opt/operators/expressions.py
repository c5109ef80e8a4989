"""Expressions over rows: each distinct combination of arguments is evaluated once.

Comparisons of plain numbers, BOUND, tests of kinds, calls of extension functions, and combinations of these are evaluated by the column.
A call within an expression that is evaluated row by row is evaluated first; its result is a column like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from cqels_opt.operators.rows import HIDDEN, Ints, Rows, group_ids, is_nameable
from cqels_opt.operators.term_table import TermTable
from cqels_opt.query.algebra import Call, Constant, Expression, Variable
from cqels_opt.query.columns import Column, Floats, Items, Numbers, Places, Repeated
from cqels_opt.query.evaluate import compile_condition, compile_expression
from cqels_opt.query.extensions import extension
from cqels_opt.query.functions import Context
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.scope import seeded, uses_now, variables
from cqels_opt.query.values import Item, term
from cqels_opt.rdf import ids as term_ids

Mask = NDArray[np.bool_]
Evaluate = Callable[[Mapping[str, str], Context], object]
Compile = Callable[[Expression], Evaluate]
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
        return _each(rows, condition, terms, instants, compile_condition).astype(bool)
    answer, known = fast
    if not known.all():
        rest = np.flatnonzero(~known)
        answer[rest] = _each(rows.take(rest), condition, terms, None, compile_condition).astype(bool)
    return answer


def values(rows: Rows, expression: Expression, terms: TermTable, instants: Ints | None = None) -> Ints:
    """The id of the expression's value for each row; 0 where it is an error."""
    if isinstance(expression, Variable):
        return rows.columns.get(expression.name, np.zeros(len(rows), np.int64))
    if is_call(expression) and len(rows):
        found, group = called(rows, expression, terms, instants)
        return terms.ids([None if item is None else term(item) for item in found.items()])[group]
    texts = _each(rows, expression, terms, instants, _value)
    return terms.ids(texts.tolist())


def _value(expression: Expression) -> Evaluate:
    evaluate = compile_expression(expression)

    def value(row: Mapping[str, str], context: Context) -> str | None:
        try:
            return evaluate(row, context)
        except ExpressionError:
            return None

    return value


# ------------------------------------------------------------------ calls of extension functions
def is_call(expression: Expression) -> TypeGuard[Call]:
    """Whether an expression is a call of an extension function."""
    return isinstance(expression, Call) and extension(expression.function, expression.version) is not None


def called(rows: Rows, call: Call, terms: TermTable, instants: Ints | None) -> tuple[Column, Ints]:
    """(results, the place of each row's result among them): each distinct combination of arguments is computed once in a step."""
    names = _reads(rows, call)
    keys = {v: rows.columns[v] for v in names} | ({} if instants is None else {f"{HIDDEN}instant": instants})
    group, first = group_ids([*keys.values()], len(rows))
    distinct, at = rows.only(names).take(first), None if instants is None else instants[first]

    def make(places: Ints) -> Column:
        return _column_of(distinct.take(places), call, terms, None if at is None else at[places])

    if seeded(call):
        return make(np.arange(len(first))), group
    return terms.calls.column(call, len(rows), {name: key[first] for name, key in keys.items()}, make), group


def _reads(rows: Rows, expression: Expression) -> list[str]:
    """The columns on which an expression depends; RAND() and its like depend on all that a row binds."""
    names = {v for v in variables(expression) if v in rows.columns}
    if seeded(expression):
        names |= set(filter(is_nameable, rows.columns))
    return sorted(names)


def _column_of(rows: Rows, expression: Expression, terms: TermTable, instants: Ints | None) -> Column:
    """The values of an expression for each row."""
    if isinstance(expression, Variable):
        return _Ids(rows.columns.get(expression.name, np.zeros(len(rows), np.int64)), terms)
    if isinstance(expression, Constant):
        return Repeated(expression.term, len(rows))
    if isinstance(expression, Call) and (function := extension(expression.function, expression.version)) is not None:
        return function.column(*(_column_of(rows, argument, terms, instants) for argument in expression.arguments))
    return Items(_each(rows, expression, terms, instants, _value).tolist())


class _Ids:
    """A column of terms by their ids; terms that are not inline are decoded on demand."""

    def __init__(self, ids: Ints, terms: TermTable) -> None:
        self._ids, self._terms = ids, terms

    def __len__(self) -> int:
        return len(self._ids)

    def items(self) -> Sequence[Item | None]:
        """See :class:`~cqels_opt.query.columns.Column`."""
        return self._terms.texts(self._ids)

    def numbers(self) -> Floats:
        """See :class:`~cqels_opt.query.columns.Column`."""
        found, exact = term_ids.numeric(self._ids)
        rest = np.flatnonzero(~exact & np.isin(self._ids >> term_ids.KIND_SHIFT, _KINDS["ISLITERAL"]))
        if len(rest):
            found[rest] = Items(self._terms.texts(self._ids[rest])).numbers()
        return found

    def take(self, places: Places) -> _Ids:
        """See :class:`~cqels_opt.query.columns.Column`."""
        return _Ids(self._ids[places], self._terms)

    def followed_by(self, others: Sequence[Column]) -> Column:
        """See :class:`~cqels_opt.query.columns.Column`."""
        return Items(self.items()).followed_by(others)


def _without_calls(expression: Expression, found: dict[Call, str]) -> Expression:
    """The expression with a hidden variable instead of each outermost call of an extension function."""
    if is_call(expression):
        return Variable(found.setdefault(expression, f"{HIDDEN}call{len(found)}"))
    if isinstance(expression, Call):
        return replace(expression, arguments=tuple(_without_calls(argument, found) for argument in expression.arguments))
    return expression


# ------------------------------------------------------------------ row by row


def needs_instant(expression: Expression) -> bool:
    """Whether the value depends on the instant (NOW, RAND, UUID …), so that rows must be evaluated instant by instant."""
    return uses_now(expression)


def _each(rows: Rows, expression: Expression, terms: TermTable, instants: Ints | None, compile: Compile) -> NDArray[np.object_]:
    """Runs an expression for each distinct combination of arguments; one that depends on the instant or the row, for each row."""
    if not len(rows):
        return np.empty(0, object)
    names = _reads(rows, expression)
    keys = [rows.columns[v] for v in names]
    group, first = group_ids(keys if instants is None else [*keys, instants], len(rows))
    terms.calls.combinations += len(first)
    columns = {v: terms.texts(rows.columns[v][first]) for v in names}
    calls: dict[Call, str] = {}
    run = compile(_without_calls(expression, calls))
    at = None if instants is None else instants[first]
    for call, name in calls.items():
        found, which = called(rows.only(names).take(first), call, terms, at)
        columns[name] = [None if item is None else term(item) for item in found.take(which).items()]
    results = np.empty(len(first), object)
    for i in range(len(first)):
        row = {v: text for v, column in columns.items() if (text := column[i]) is not None}
        results[i] = run(row, Context(0 if at is None else int(at[i])))
    return results[group]


def goes_by_column(condition: Expression) -> bool:
    """Whether :func:`truth` evaluates a condition by the column: comparisons of plain terms or calls, BOUND, tests of kinds, && and ||."""
    if not isinstance(condition, Call):
        return False
    if condition.function in ("!", "||", "&&"):
        return all(map(goes_by_column, condition.arguments))
    if condition.function in _COMPARE:
        return all(map(is_column, condition.arguments))
    plain = all(isinstance(argument, Variable | Constant) for argument in condition.arguments)
    return plain and condition.function in ("BOUND", *_KINDS)


def is_column(expression: Expression) -> bool:
    """Whether a side of a comparison is a column, or calls of extension functions over columns."""
    return isinstance(expression, Variable | Constant) or (is_call(expression) and all(map(is_column, expression.arguments)))


def _by_column(rows: Rows, condition: Expression, terms: TermTable) -> tuple[Mask, Mask] | None:
    """(answer, where it is known) of comparisons, BOUND, tests of kinds, ``!``, ``&&`` and ``||``; None for anything else.

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
    """``a || b || …`` or ``a && b && …``: one deciding operand is enough, even if others are errors."""
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
    if any(map(is_call, condition.arguments)):
        return _compare_calls(rows, condition, terms)
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


def _compare_calls(rows: Rows, condition: Call, terms: TermTable) -> tuple[Mask, Mask] | None:
    """A comparison with doubles that calls return; it is not known where a side is not a number."""
    if not all(map(is_column, condition.arguments)) or not len(rows):
        return None
    sides = []
    for side in condition.arguments:
        if is_call(side):
            found, group = called(rows, side, terms, None)
            if not isinstance(found, Numbers):  # integers and decimals may have more digits than doubles
                return None
            sides.append(found.numbers()[group])
        else:
            sides.append(_column_of(rows, side, terms, None).numbers())
    x, y = sides
    known = ~(np.isnan(x) | np.isnan(y))
    return _COMPARE[condition.function](x, y) & known, known


def _column(rows: Rows, expression: Expression, terms: TermTable) -> Ints | None:
    if isinstance(expression, Variable):
        return rows.columns.get(expression.name)
    if isinstance(expression, Constant):
        return np.full(len(rows), terms.id(expression.term))
    return None
