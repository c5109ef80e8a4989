"""Expressions compiled to closures that map a row of terms to a term or, for a filter, to a boolean.

A row maps the names of bound variables to terms. A compiled function is pure: everything that is not in the row comes from the
:class:`Context` of the instant. Errors are :class:`~cqels_opt.query.numeric.ExpressionError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import Call, Constant, Exists, Expression, Variable
from cqels_opt.query.columns import Items
from cqels_opt.query.extensions import ColumnFunction, extension
from cqels_opt.query.functions import CONTEXTUAL, FUNCTIONS, NO_CONTEXT, Context, check_call
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.values import Item, decided, effective_boolean, equal, term

Row: TypeAlias = Mapping[str, str]
ExistsHook: TypeAlias = Callable[[Exists], Callable[[Row], bool]]
"""For the reference evaluation of tests; in compiled queries EXISTS is a column."""
_Closure: TypeAlias = Callable[[Row, Context], Item]


class Evaluator(Protocol):
    """A compiled expression."""

    def __call__(self, row: Row, context: Context = NO_CONTEXT) -> str:
        """The expression's term for a row; raises ExpressionError."""


class Condition(Protocol):
    """A compiled filter."""

    def __call__(self, row: Row, context: Context = NO_CONTEXT) -> bool:
        """Whether the row passes: the effective boolean value, false for an error."""


def compile_expression(expression: Expression, exists: ExistsHook | None = None, *, base: str | None = None) -> Evaluator:
    """An expression as a function of rows.

    ``exists`` compiles the EXISTS inside; ``base`` resolves IRI(). Raises QueryError for an unknown function or a wrong number of
    arguments.
    """
    closure = _Compiler(exists, base or "").compile(expression)

    def evaluate(row: Row, context: Context = NO_CONTEXT) -> str:
        return term(closure(row, context))

    return evaluate


def compile_condition(expression: Expression, exists: ExistsHook | None = None, *, base: str | None = None) -> Condition:
    """A FILTER's expression as a predicate; see :func:`compile_expression`."""
    closure = _Compiler(exists, base or "").compile(expression)

    def holds(row: Row, context: Context = NO_CONTEXT) -> bool:
        try:
            return effective_boolean(closure(row, context))
        except ExpressionError:
            return False

    return holds


class _Compiler:
    """The parameters of one compilation."""

    def __init__(self, exists: ExistsHook | None, base: str) -> None:
        self.exists, self.base = exists, base

    def compile(self, expression: Expression) -> _Closure:
        if isinstance(expression, Variable):
            return _variable(expression.name)
        if isinstance(expression, Constant):
            return _constant(expression.term)
        if isinstance(expression, Exists):
            return self._exists(expression)
        return self._call(expression)

    def _exists(self, expression: Exists) -> _Closure:
        if self.exists is None:
            raise QueryError("EXISTS is not supported here")
        matches, negated = self.exists(expression), expression.negated
        return lambda row, context: matches(row) != negated

    def _call(self, call: Call) -> _Closure:
        check_call(call)
        name = call.function
        if name == "BOUND":
            (variable,) = call.arguments
            assert isinstance(variable, Variable)
            wanted = variable.name
            return lambda row, context: row.get(wanted) is not None
        arguments = tuple(map(self.compile, _chain(call) if name in ("&&", "||") else call.arguments))
        if (own := extension(name, call.version)) is not None:
            return _of_columns(own.column, arguments)
        if name in _FORMS:
            return _FORMS[name](*arguments)
        if name in CONTEXTUAL:
            return _contextual(CONTEXTUAL[name], arguments, call.draw)
        if name in ("IRI", "URI") and len(arguments) == 1:
            arguments = (*arguments, _constant(f"<{self.base}>" if self.base else ""))
        return _applied(FUNCTIONS[name], arguments)


def _chain(call: Call) -> list[Expression]:
    """The operands of the left-deep ``a || b || c`` as one list: closures of a long chain would nest too deeply."""
    operands: list[Expression] = []
    first: Expression = call
    while isinstance(first, Call) and first.function == call.function:
        first, *others = first.arguments
        operands += reversed(others)
    return [first, *reversed(operands)]


def _variable(name: str) -> _Closure:
    def run(row: Row, context: Context) -> Item:
        found = row.get(name)
        if found is None:
            raise ExpressionError(f"?{name} is unbound")
        return found

    return run


def _constant(item: Item) -> _Closure:
    return lambda row, context: item


def _applied(function: Callable[..., Item], arguments: tuple[_Closure, ...]) -> _Closure:
    if len(arguments) == 1:
        (only,) = arguments
        return lambda row, context: function(only(row, context))
    if len(arguments) == 2:
        first, second = arguments
        return lambda row, context: function(first(row, context), second(row, context))
    return lambda row, context: function(*[argument(row, context) for argument in arguments])


def _of_columns(function: ColumnFunction, arguments: tuple[_Closure, ...]) -> _Closure:
    """A column function applied to columns of one row."""

    def run(row: Row, context: Context) -> Item:
        (found,) = function(*(Items([argument(row, context)]) for argument in arguments)).items()
        if found is None:
            raise ExpressionError("a function has no value")
        return found

    return run


def _contextual(function: Callable[..., Item], arguments: tuple[_Closure, ...], draw: str) -> _Closure:
    return lambda row, context: function(context, row, draw, *[argument(row, context) for argument in arguments])


# ------------------------------------------------------------------ functional forms: accept errors as arguments
def _all(*parts: _Closure) -> _Closure:
    return lambda row, context: decided(False, lambda part: effective_boolean(part(row, context)), parts)


def _any(*parts: _Closure) -> _Closure:
    return lambda row, context: decided(True, lambda part: effective_boolean(part(row, context)), parts)


def _in(needle: _Closure, *others: _Closure) -> _Closure:
    def run(row: Row, context: Context) -> Item:
        sought = needle(row, context)
        return decided(True, lambda other: equal(sought, other(row, context)), others)

    return run


def _not_in(needle: _Closure, *others: _Closure) -> _Closure:
    found = _in(needle, *others)
    return lambda row, context: not found(row, context)


def _if(condition: _Closure, then: _Closure, otherwise: _Closure) -> _Closure:
    return lambda row, context: (then if effective_boolean(condition(row, context)) else otherwise)(row, context)


def _coalesce(*parts: _Closure) -> _Closure:
    def run(row: Row, context: Context) -> Item:
        for part in parts:
            try:
                return part(row, context)
            except ExpressionError:
                continue
        raise ExpressionError("COALESCE found no value")

    return run


_FORMS: dict[str, Callable[..., _Closure]] = {
    "&&": _all,
    "||": _any,
    "IN": _in,
    "NOT IN": _not_in,
    "IF": _if,
    "COALESCE": _coalesce,
}
