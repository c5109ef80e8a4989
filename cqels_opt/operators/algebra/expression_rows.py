"""Expressions over rows with intervals; one that depends on the instant is evaluated at each instant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.expressions import needs_instant, truth, values
from cqels_opt.operators.memory import check
from cqels_opt.operators.rows import Ints, Rows
from cqels_opt.query.algebra import Expression


def passing(rows: Rows, condition: Expression, scope: Scope) -> Rows:
    """The rows whose condition is effectively true, at the instants at which it is."""
    return _instantly(rows, condition, scope, lambda part, at: part.take(truth(part, condition, scope.terms, at)))


def with_value(rows: Rows, column: str, expression: Expression, scope: Scope) -> Rows:
    """The rows with the expression's value in one more column."""
    return _instantly(
        rows, expression, scope, lambda part, at: part.with_column(column, values(part, expression, scope.terms, at))
    )


def _instantly(rows: Rows, expression: Expression, scope: Scope, run: Callable[[Rows, Ints | None], Rows]) -> Rows:
    """Runs an expression over rows; where its value depends on the instant, each row is first cut into its instants."""
    if not needs_instant(expression):
        return run(rows, None)
    each = at_each_instant(rows)
    return run(each, scope.instants[each.start])


def at_each_instant(rows: Rows) -> Rows:
    """Each row cut into rows that are valid at one instant."""
    count = rows.end - rows.start
    check(int(count.sum()), len(rows.columns))
    which = np.repeat(np.arange(len(rows)), count)
    start = np.repeat(rows.start, count) + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return Rows({v: c[which] for v, c in rows.columns.items()}, start, start + 1, rows.n[which])
