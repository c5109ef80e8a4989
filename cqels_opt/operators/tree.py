"""The operators above the blocks, at all instants of a step at once.

Before anything else the intervals are mapped from times to places in the list of instants of the step, ``[i, j)``: only those are
looked at, every operator works instant by instant, and so intervals become small numbers and much that never shows is dropped.
Each operator is a function from rows to rows; the horizon ``[low, high)`` stands for "always".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cqels_opt.operators.aggregate import earliest, grouped, ranks
from cqels_opt.operators.block import scan_static
from cqels_opt.operators.cache import relation as static_relation
from cqels_opt.operators.expressions import needs_instant, truth, values
from cqels_opt.operators.join import Indexed, combine, compatible_pairs, covered, disjoint, join
from cqels_opt.operators.program import (
    BlockNode,
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
from cqels_opt.operators.rows import HIDDEN, Ints, Rows, concat, group_ids
from cqels_opt.operators.terms import TermTable
from cqels_opt.query.algebra import Expression, Variable

ORDER = "#order"  # hidden column: the place of a row under ORDER BY


@dataclass(frozen=True, slots=True)
class Scope:
    """What a tree is evaluated over: the blocks' rows, the horizon, and the time of each place in it."""

    blocks: Mapping[str, Rows]
    store: str
    terms: TermTable
    instants: Ints
    low: int

    @property
    def high(self) -> int:
        """The end of the horizon."""
        return len(self.instants)

    def always(self, rows: Rows) -> Rows:
        """Rows that are valid at every instant."""
        size = len(rows)
        return Rows(rows.columns, np.full(size, self.low), np.full(size, self.high), rows.n)


def to_places(rows: Rows, instants: Ints) -> Rows:
    """Intervals of time as intervals of places in the list of instants."""
    return rows.with_interval(np.searchsorted(instants, rows.start), np.searchsorted(instants, rows.end))


def evaluate(tree: Tree, scope: Scope) -> Rows:
    """The rows of a tree within the horizon."""
    match tree:
        case BlockNode(block):
            return scope.blocks[block]
        case StaticNode(static):
            return scope.always(scan_static(static, scope.store))
        case ValuesNode(variables, table):
            size = len(table)
            columns = {v: np.array([row[i] for row in table], np.int64) for i, v in enumerate(variables)}
            zeros = np.zeros(size, np.int64)
            return scope.always(Rows(columns, zeros, zeros, np.ones(size, np.int64)))
        case UnionNode(parts):
            return concat([evaluate(p, scope) for p in parts])
        case JoinNode(left, right):
            return join(*_sides(left, right, scope))
        case LeftJoinNode(left, right, condition):
            return _left_join(*_sides(left, right, scope), condition, scope)
        case MinusNode(left, right):
            rows, others = evaluate(left, scope), evaluate(right, scope)
            a, b = compatible_pairs(rows, others, shared_needed=True)
            return covered(rows, *_overlap(rows, others, a, b))[1]
        case ExistsNode(inner, pattern, condition, flag):
            return _flagged(*_sides(inner, pattern, scope), condition, flag, scope)
        case FilterNode(inner, condition):
            return _instantly(
                evaluate(inner, scope), condition, scope, lambda rows, at: rows.take(truth(rows, condition, scope.terms, at))
            )
        case ExtendNode(inner, variable, expression):
            return _with_value(evaluate(inner, scope), variable, expression, scope)
        case ProjectNode(inner, variables):
            ordered = isinstance(inner, OrderNode) and inner.keys  # the order of a sub-select ends with it
            return evaluate(inner, scope).only([*variables, ORDER] if ordered else variables)
        case DistinctNode(inner, variables):
            rows = evaluate(inner, scope).only([*variables, ORDER])
            return earliest(rows, ORDER) if ORDER in rows.columns else disjoint(rows)
        case GroupNode(inner, keys, aggregates, implicit, whole):
            rows, plain = evaluate(inner, scope), []
            for variable, spec in aggregates:
                if spec.argument is not None and needs_instant(spec.argument):
                    rows = _with_value(rows, f"{HIDDEN}{variable}", spec.argument, scope)
                    spec = replace(spec, argument=Variable(f"{HIDDEN}{variable}"))
                plain.append((variable, spec))
            return grouped(rows, keys, plain, implicit, scope.terms, scope.low, scope.high, whole)
        case OrderNode():
            return _ordered(tree, scope)


def _sides(left: Tree, right: Tree, scope: Scope) -> tuple[Rows, Rows]:
    """Both sides of a join. A static right side is not read whole where its index finds the few rows that the left side needs."""
    rows = evaluate(left, scope)
    if isinstance(right, StaticNode) and not right.static.partial and len(rows):
        shared = [v for v in right.static.variables if v in rows.columns]
        if shared and all((rows.columns[v] != 0).all() for v in shared):
            _, first = group_ids([rows.columns[v] for v in shared], len(rows))
            keys = rows.only(shared).take(first)
            keys = Rows(keys.columns, keys.start, keys.end, np.ones(len(first), np.int64))
            relation = static_relation(scope.store, right.static.at)
            found = concat(list(Indexed.of_static(relation, right.static.variables).probe(scope.always(keys), shared)))
            return rows, found
    return rows, evaluate(right, scope)


def _overlap(left: Rows, right: Rows, a: Ints, b: Ints) -> tuple[Ints, Ints, Ints]:
    return a, np.maximum(left.start[a], right.start[b]), np.minimum(left.end[a], right.end[b])


def _matches(left: Rows, right: Rows, condition: Expression | None, scope: Scope) -> tuple[Ints, Rows]:
    """The joined rows that pass the condition, and which left row each comes from."""
    a, b = compatible_pairs(left, right)
    joined = combine(left, right, a, b).with_column("#owner", a)
    if condition is not None:
        joined = _instantly(joined, condition, scope, lambda rows, at: rows.take(truth(rows, condition, scope.terms, at)))
    owner = joined.columns.pop("#owner")
    return owner, joined


def _left_join(left: Rows, right: Rows, condition: Expression | None, scope: Scope) -> Rows:
    if not len(left):
        return left
    owner, joined = _matches(left, right, condition, scope)
    alone = covered(left, owner, joined.start, joined.end)[1]
    padded = {v: alone.columns.get(v, np.zeros(len(alone), np.int64)) for v in dict.fromkeys([*left.columns, *right.columns])}
    return concat([joined, Rows(padded, alone.start, alone.end, alone.n)])


def _flagged(left: Rows, right: Rows, condition: Expression | None, flag: str, scope: Scope) -> Rows:
    yes, no = scope.terms.ids(
        ['"true"^^<http://www.w3.org/2001/XMLSchema#boolean>', '"false"^^<http://www.w3.org/2001/XMLSchema#boolean>']
    )
    if not len(left):
        return left.with_column(flag, np.zeros(0, np.int64))
    owner, joined = _matches(left, right, condition, scope)
    inside, outside = covered(left, owner, joined.start, joined.end)
    return concat([inside.with_column(flag, np.full(len(inside), yes)), outside.with_column(flag, np.full(len(outside), no))])


def _instantly(rows: Rows, expression: Expression, scope: Scope, run: Callable[[Rows, Ints | None], Rows]) -> Rows:
    """Runs an expression over rows; where its value hangs on the instant, each row is first cut into its instants."""
    if not needs_instant(expression):
        return run(rows, None)
    each = at_each_instant(rows)
    return run(each, scope.instants[each.start])


def _with_value(rows: Rows, column: str, expression: Expression, scope: Scope) -> Rows:
    """The rows with the expression's value in one more column."""
    return _instantly(
        rows, expression, scope, lambda part, at: part.with_column(column, values(part, expression, scope.terms, at))
    )


def at_each_instant(rows: Rows) -> Rows:
    """Each row cut into rows that are valid at one place."""
    count = rows.end - rows.start
    which = np.repeat(np.arange(len(rows)), count)
    start = np.repeat(rows.start, count) + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return Rows({v: c[which] for v, c in rows.columns.items()}, start, start + 1, rows.n[which])


def _ordered(node: OrderNode, scope: Scope) -> Rows:
    """ORDER BY, and LIMIT within each stretch of time in which no row begins or ends. Ties follow the order of terms."""
    rows = evaluate(node.input, scope)
    if not len(rows):
        return rows.with_column(ORDER, np.zeros(0, np.int64))
    keys: list[Ints] = [rows.columns[ORDER]] if not node.keys and ORDER in rows.columns else []
    for place, (expression, _) in enumerate(node.keys):
        rows = _with_value(rows, f"{ORDER}{place}", expression, scope)
    for place, (_, descending) in enumerate(node.keys):
        rank = ranks(rows.columns.pop(f"{ORDER}{place}"), scope.terms)[0]
        keys.append(-rank if descending else rank)
    ties = [ranks(rows.columns[v], scope.terms)[0] for v in node.ties if v in rows.columns]
    order = np.lexsort((*reversed(ties), *reversed(keys))) if keys or ties else np.arange(len(rows))
    rows = rows.take(order)
    if node.keys:
        rows = rows.with_column(ORDER, np.arange(len(rows)))
    if node.limit is None and not node.offset:
        return rows
    limit = node.limit if node.limit is not None else int(rows.n.sum())
    edges = np.unique(np.concatenate([rows.start, rows.end]))
    parts = []
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist()):
        alive = rows.take((rows.start <= begin) & (rows.end >= end))
        upto = np.cumsum(alive.n)
        n = np.clip(upto, node.offset, node.offset + limit) - np.clip(upto - alive.n, node.offset, node.offset + limit)
        some = n > 0
        kept = alive.take(some)
        parts.append(Rows(kept.columns, np.full(len(kept), begin), np.full(len(kept), end), n[some]))
    return concat(parts) if parts else rows.take(np.empty(0, np.int64))
