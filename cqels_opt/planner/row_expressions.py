"""Which expressions of a program are evaluated row by row, for EXPLAIN: once for each distinct combination of their arguments.

All others are evaluated by the column (:mod:`cqels_opt.operators.expressions`).
"""

from __future__ import annotations

from collections.abc import Iterator

from cqels_opt.operators.algebra.operator import inputs_first
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.expressions import goes_by_column, is_column
from cqels_opt.operators.rows import is_nameable
from cqels_opt.query.algebra import Call, Expression, Variable
from cqels_opt.query.printing.formulas import Bare, expression
from cqels_opt.query.scope import operands


def row_by_row(program: CompiledProgram) -> list[str]:
    """The texts of the expressions that are evaluated row by row, each once: those of blocks, then those above, inputs first."""
    conditions = [filtering.condition for block in program.blocks for filtering in block.filters]
    conditions += [unit.condition for block in program.blocks for unit in block.units if unit.condition is not None]
    found = [part for condition in conditions for part in _conjuncts(condition)]
    for operator in inputs_first(program.tree):
        found += [part for condition in operator.conditions for part in _conjuncts(condition)]
        found += [value for value in operator.values if not is_column(value)]
    return list(dict.fromkeys(written(part) for part in found if not _is_flag(part)))


def written(part: Expression) -> str:
    """The text of an expression."""
    return expression(_NAMES, part)


def text(program: CompiledProgram) -> str:
    """One line; empty where all expressions are evaluated by the column."""
    found = row_by_row(program)
    return f"row by row, each distinct combination of arguments once: {', '.join(found)}" if found else ""


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    """The operands of a condition that are not evaluated by the column."""
    yield from (part for part in operands(condition, "&&") if not goes_by_column(part))


def _is_flag(part: Expression) -> bool:
    """Whether an expression is the flag of an EXISTS, which is a column, or its negation."""
    if isinstance(part, Call) and part.function == "!":
        return _is_flag(part.arguments[0])
    return isinstance(part, Variable) and not is_nameable(part.name)


_NAMES = Bare(is_nameable)
