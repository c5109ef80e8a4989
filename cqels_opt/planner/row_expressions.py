"""The expressions of a program that are evaluated row by row, for EXPLAIN: once per distinct combination of their arguments.

All others are evaluated by the column (:mod:`cqels_opt.operators.expressions`).
"""

from __future__ import annotations

from collections.abc import Iterator

from cqels_opt.operators.compiled_query import (
    CompiledProgram,
    ExistsNode,
    ExtendNode,
    FilterNode,
    GroupNode,
    LeftJoinNode,
    OrderNode,
    Tree,
    children,
)
from cqels_opt.operators.expressions import goes_by_column, is_column
from cqels_opt.operators.rows import is_nameable
from cqels_opt.query.algebra import Call, Expression, Variable
from cqels_opt.query.printing.formulas import Bare, expression
from cqels_opt.query.scope import operands


def row_by_row(program: CompiledProgram) -> list[str]:
    """The texts of the expressions that are evaluated row by row, each once: those of blocks first, then those above, inputs first."""
    conditions = [filtering.condition for block in program.blocks for filtering in block.filters]
    conditions += [unit.condition for block in program.blocks for unit in block.units if unit.condition is not None]
    found = [part for condition in conditions for part in _conjuncts(condition)]
    found += _above(program.tree)
    return list(dict.fromkeys(written(part) for part in found if not _is_flag(part)))


def written(part: Expression) -> str:
    """The text of an expression."""
    return expression(_NAMES, part)


def text(program: CompiledProgram) -> str:
    """One line; empty if all expressions are evaluated by the column."""
    found = row_by_row(program)
    return f"row by row, each distinct combination of arguments once: {', '.join(found)}" if found else ""


def _above(tree: Tree) -> Iterator[Expression]:
    for inner in children(tree):
        yield from _above(inner)
    match tree:
        case FilterNode(_, condition):
            yield from _conjuncts(condition)
        case LeftJoinNode(condition=condition) | ExistsNode(condition=condition) if condition is not None:
            yield from _conjuncts(condition)
        case ExtendNode(_, _, value):
            yield from _values([value])
        case GroupNode(aggregates=aggregates):
            yield from _values([spec.argument for _, spec in aggregates if spec.argument is not None])
        case OrderNode(_, keys):
            yield from _values([key for key, _ in keys])


def _values(found: list[Expression]) -> Iterator[Expression]:
    """The expressions that are neither an existing column nor a call of an extension function over such columns."""
    yield from (part for part in found if not is_column(part))


def _conjuncts(condition: Expression) -> Iterator[Expression]:
    """The operands of a condition that are not evaluated by the column."""
    yield from (part for part in operands(condition, "&&") if not goes_by_column(part))


def _is_flag(part: Expression) -> bool:
    """Whether an expression only reads the result of an EXISTS, which is a column."""
    if isinstance(part, Call) and part.function == "!":
        return _is_flag(part.arguments[0])
    return isinstance(part, Variable) and not is_nameable(part.name)


_NAMES = Bare(is_nameable)
