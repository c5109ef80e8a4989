"""Patterns evaluated for given rows: what EXISTS asks of each row of the outside (SPARQL 1.1 §18.6, substitute).

The outside's values reach every leaf of the pattern: a leaf's rows are joined with the given rows, and carry from then on the number of
the given row that they belong to, in a column that all operators take for a variable. So rows of different given rows never meet, all
given rows are done at once, and an operator works as ever. Expressions see the given values of the variables that their rows do not
bind. A sub-select lets in only the variables that it selects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cqels_opt.operators import algebra_operators as ordinary
from cqels_opt.operators.aggregate import grouped
from cqels_opt.operators.algebra_operators import Scope
from cqels_opt.operators.compiled_query import (
    BlockNode,
    ClosureNode,
    DistinctNode,
    ExistsNode,
    ExtendNode,
    FilterNode,
    GroupNode,
    JoinNode,
    LeftJoinNode,
    MinusNode,
    OrderNode,
    ProjectNode,
    StaticNode,
    Tree,
    UnionNode,
    ValuesNode,
)
from cqels_opt.operators.interval_join import combine, compatible_pairs, covered, disjoint, join, visible
from cqels_opt.operators.rows import Ints, Rows, concat, empty, group_ids
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter

OWN = "#own:"  # hidden columns: what rows bind themselves


def for_each_row(rows: Rows, pattern: Tree, reads: Sequence[str], scope: Scope) -> tuple[Ints, Rows]:
    """The pattern for each of the rows, of which it reads some variables: (the row that each found one belongs to, what was found)."""
    names = [v for v in reads if v in rows.columns]
    group, first = group_ids(rows.values(names), len(rows))
    outer = rows.take(first).only(names)
    start, end = np.full(len(first), scope.high), np.full(len(first), scope.low)
    np.minimum.at(start, group, rows.start)
    np.maximum.at(end, group, rows.end)
    mark = f".given{sum(v.startswith('.given') for v in rows.columns)}"
    outer = Rows({**outer.columns, mark: np.arange(1, len(first) + 1)}, start, end, np.ones(len(first), np.int64))
    found = of(pattern, scope, outer, mark)
    mine = found.columns[mark] - 1
    agrees = np.ones(len(found), bool)
    for v in names:
        if v in found.columns:
            inside, outside = found.columns[v], outer.columns[v][mine]
            agrees &= (inside == outside) | (inside == 0) | (outside == 0)
    found = found.take(agrees)
    left = Rows({mark: group + 1}, rows.start, rows.end, rows.n)
    a, b = compatible_pairs(left, found.only([mark]))
    columns = {v: c for v, c in found.columns.items() if v != mark}
    return a, combine(rows, Rows(columns, found.start, found.end, found.n), a, b)


def of(tree: Tree, scope: Scope, outer: Rows, mark: str) -> Rows:
    """The rows of a pattern for all outer rows at once; ``mark`` has the number of the outer row."""

    def below(inner: Tree) -> Rows:
        return of(inner, scope, outer, mark)

    def seeing(rows: Rows, run: Callable[[Rows], Rows]) -> Rows:
        return _without(run(_with(rows, outer, mark)))

    match tree:
        case BlockNode() | StaticNode() | ValuesNode() | ClosureNode():
            on = [v for v in sorted(scope.schema.binds(tree)) if v in outer.columns and (outer.columns[v] != 0).all()]
            rows = ordinary.evaluate(tree, scope, KeyFilter.of(outer, on) if on else EVERY)
            a, b = compatible_pairs(outer, rows)
            found = combine(outer.only([mark]), rows, a, b)
            return Rows(found.columns, found.start, found.end, rows.n[b])
        case UnionNode(parts):
            return concat([empty([mark]), *map(below, parts)])
        case JoinNode(left, right):
            return join(below(left), below(right))
        case LeftJoinNode(left, right):
            return ordinary.left_join(below(left), below(right), tree, scope, seeing)
        case MinusNode(left, right, apart):
            rows, others = below(left), below(right)
            a, b = compatible_pairs(rows, others, (mark, *apart))
            return covered(rows, *ordinary.overlap(rows, others, a, b))[1]
        case ExistsNode(inner):
            return seeing(below(inner), lambda rows: ordinary.flagged(rows, tree, scope))
        case FilterNode(inner, condition):
            return seeing(below(inner), lambda rows: ordinary.passing(rows, condition, scope))
        case ExtendNode(inner, variable, expression):
            valued = ordinary.with_value(_with(below(inner), outer, mark), variable, expression, scope)
            valued.columns.pop(OWN + variable, None)
            return _without(valued)
        case ProjectNode(inner, variables):
            inside = of(inner, scope, outer.only([*variables, mark]), mark)
            return inside.only([*variables, mark, *([ordinary.ORDER] if isinstance(inner, OrderNode) and inner.keys else [])])
        case DistinctNode(inner, variables):
            return disjoint(below(inner).only([*variables, mark]))
        case GroupNode(inner):
            return _groups(tree, _with(below(inner), outer, mark), scope, outer, mark)
        case OrderNode(inner):
            rows = below(inner)
            numbers = np.unique(rows.columns[mark]).tolist()
            pieces = [ordinary.ordered(tree, rows.take(rows.columns[mark] == number), scope) for number in numbers]
            return concat([empty([*rows.columns]), *pieces])
    raise AssertionError(tree)


def _with(rows: Rows, outer: Rows, mark: str) -> Rows:
    """The rows with the given values of what they do not bind."""
    columns, at = dict(rows.columns), rows.columns[mark] - 1
    for v in visible(outer):
        if v == mark:
            continue
        own = rows.columns.get(v)
        given = outer.columns[v][at]
        columns[OWN + v] = np.zeros(len(rows), np.int64) if own is None else own
        columns[v] = given if own is None else np.where(own == 0, given, own)
    return Rows(columns, rows.start, rows.end, rows.n)


def _without(rows: Rows) -> Rows:
    """The rows with their own values alone."""
    own = {v.removeprefix(OWN): c for v, c in rows.columns.items() if v.startswith(OWN)}
    columns = {v: own.get(v, c) for v, c in rows.columns.items() if not v.startswith(OWN)}
    return Rows(columns, rows.start, rows.end, rows.n)


def _groups(node: GroupNode, rows: Rows, scope: Scope, outer: Rows, mark: str) -> Rows:
    """The groups of each given row. One that is there without members is there at all times at which it has none."""
    plain = replace(node, keys=(*node.keys, mark), implicit=False)
    found = concat([empty([*plain.keys]), ordinary.applied(plain, [rows], scope)])
    if not node.implicit:
        return found
    owner = found.columns[mark] - 1
    bare = covered(outer.only([mark]), owner, found.start, found.end)[1]
    (nothing,) = [grouped(empty(), (), node.aggregates, True, scope.terms, scope.low, scope.high)]
    blank = {v: np.full(len(bare), column[0]) for v, column in nothing.columns.items()}
    return concat([found, Rows({**bare.columns, **blank}, bare.start, bare.end, bare.n)])
