"""The operators above the blocks, at all instants of a step at once.

Before anything else the intervals are mapped from times to places in the list of instants of the step, ``[i, j)``: only those are
looked at, every operator works instant by instant, and so intervals become small numbers and much that never shows is dropped.
Each operator is a function from rows to rows; the horizon ``[low, high)`` stands for "always".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np

from cqels_opt.lod.multiplicities import LIMIT, summed
from cqels_opt.operators.aggregate import earliest, grouped, ranks
from cqels_opt.operators.block_relations import scan_static
from cqels_opt.operators.compiled_query import (
    BlockNode,
    ClosureNode,
    DescribeNode,
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
    StampNode,
    Static,
    StaticNode,
    Tree,
    TripleNode,
    UnionNode,
    ValuesNode,
    children,
)
from cqels_opt.operators.construct import described, instantiated
from cqels_opt.operators.expressions import needs_instant, truth, values
from cqels_opt.operators.interval_join import Indexed, combine, compatible_pairs, covered, disjoint, join
from cqels_opt.operators.key_pushdown import Schema, TwoSided, moves
from cqels_opt.operators.memory import check
from cqels_opt.operators.rows import HIDDEN, Ints, Rows, concat, empty, group_ids
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter
from cqels_opt.operators.term_table import TermTable
from cqels_opt.operators.transitive_closure import closed
from cqels_opt.query.algebra import Expression, Variable
from cqels_opt.query.values import sort_key
from cqels_opt.state.result_store import BlockRows
from cqels_opt.state.worker_cache import relation as static_relation
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER

ORDER = "#order"  # hidden column: the place of a row under ORDER BY


class Groups(Protocol):
    """The groups of a node whose aggregates are kept from step to step."""

    @property
    def touched(self) -> KeyFilter:
        """The groups whose members change in the step."""

    def rows(self, keys: KeyFilter) -> Rows:
        """The rows of the groups that have one of the keys."""


ForEachRow: TypeAlias = "Callable[[Rows, Tree, Sequence[str], Scope], tuple[Ints, Rows]]"
"""The pattern for each of some rows, of which it reads some variables: the row of each match, and the matches."""


def _no_correlation(rows: Rows, pattern: Tree, reads: Sequence[str], scope: Scope) -> tuple[Ints, Rows]:
    raise AssertionError("this tree has no correlated EXISTS")


@dataclass(frozen=True, slots=True)
class Scope:
    """What a tree is evaluated over: the blocks' rows, the horizon, and the time of each place in it; and groups that are kept.

    A path with more pairs of ends than ``most`` is not computed: PathsTooManyError. ``for_each_row`` evaluates a correlated pattern of
    EXISTS (:func:`cqels_opt.operators.correlated_exists.for_each_row`).
    """

    blocks: Mapping[str, BlockRows]
    store: str
    terms: TermTable
    instants: Ints
    low: int
    schema: Schema
    groups: dict[GroupNode, Groups] = field(default_factory=dict)
    most: int | None = None
    for_each_row: ForEachRow = _no_correlation

    @property
    def high(self) -> int:
        """The end of the horizon."""
        return len(self.instants)

    def always(self, rows: Rows) -> Rows:
        """Rows that are valid at every instant."""
        size = len(rows)
        return Rows(rows.columns, np.full(size, self.low), np.full(size, self.high), rows.n)


def evaluate(tree: Tree, scope: Scope, keys: KeyFilter = EVERY) -> Rows:
    """The rows of a tree within the horizon: those that have one of the keys, perhaps with others."""
    if not keys.some:
        return empty(sorted(scope.schema.variables(tree)))
    match tree:
        case BlockNode(block):
            return scope.blocks[block].of(keys)
        case StaticNode(static):
            return scope.always(_static_rows(static, scope.store, keys.narrowed(static.variables)))
        case ValuesNode(variables, table):
            size = len(table)
            columns = {v: np.array([row[i] for row in table], np.int64) for i, v in enumerate(variables)}
            zeros = np.zeros(size, np.int64)
            return scope.always(Rows(columns, zeros, zeros, np.ones(size, np.int64)))
        case ClosureNode(edges):
            return closed(
                tree,
                keys,
                lambda inner, some: evaluate(inner, scope, some),
                (scope.low, scope.high),
                not moves(edges),
                scope.most,
            )
        case ExistsNode(inner, reads=tuple()):
            return flagged(evaluate(inner, scope, keys.narrowed(scope.schema.below(tree, 0, keys.variables))), tree, scope)
        case JoinNode() | LeftJoinNode() | MinusNode() | ExistsNode():
            return applied(tree, _sides(tree, scope, keys), scope)
        case DistinctNode() | GroupNode():  # of a tuple, or of a group, all rows or none
            below = keys.narrowed(scope.schema.below(tree, 0, keys.variables))
            if isinstance(tree, GroupNode) and tree in scope.groups:
                return scope.groups[tree].rows(below)
            return applied(tree, [below.within(evaluate(tree.input, scope, below))], scope)
        case DescribeNode(inner, graph, variables):
            return described(evaluate(inner, scope), lambda keys: evaluate(graph, scope, keys), variables)
    inputs = enumerate(children(tree))
    return applied(
        tree, [evaluate(x, scope, keys.narrowed(scope.schema.below(tree, i, keys.variables))) for i, x in inputs], scope
    )


def _static_rows(static: Static, store: str, keys: KeyFilter) -> Rows:
    """A static relation's rows that have one of the keys, by its index."""
    if keys.all or keys.parts > 1:
        return scan_static(static, store)
    probe = keys.rows().with_interval(np.full(len(keys.columns[0]), BEFORE_TIME), np.full(len(keys.columns[0]), FOREVER))
    indexed = Indexed.of_static(static_relation(store, static.at), static.variables)
    return concat([empty(static.variables), *indexed.probe(probe, keys.variables)])


def _sides(node: TwoSided, scope: Scope, keys: KeyFilter) -> list[Rows]:
    """Both sides as far as rows with one of the keys need them: one is read first, and of the other what concerns its rows."""
    sides, schema = children(node)[:2], scope.schema
    first = schema.first_side(node, keys.variables) if isinstance(node, JoinNode) else 0
    rows = evaluate(sides[first], scope, keys.narrowed(schema.below(node, first, keys.variables)))
    other = sides[1 - first]
    found = evaluate(other, scope, keys_for(other, rows, schema.on(node), scope) if not keys.all or not moves(other) else EVERY)
    return [found, rows] if first else [rows, found]


def keys_for(other: Tree, rows: Rows, on: Sequence[str], scope: Scope) -> KeyFilter:
    """The keys of the rows of one side that concern given rows of the other side."""
    if not moves(other):  # what its index is on need not be known before; so look at what these rows bind
        on = [v for v in sorted(scope.schema.binds(other)) if v in rows.columns and (rows.columns[v] != 0).all()]
    return KeyFilter.of(rows, on)


def applied(node: Tree, inputs: Sequence[Rows], scope: Scope) -> Rows:
    """An operator over the rows of its inputs."""
    match node:
        case UnionNode():
            return concat(inputs)
        case JoinNode():
            return join(inputs[0], inputs[1])
        case LeftJoinNode():
            return left_join(inputs[0], inputs[1], node, scope)
        case MinusNode(_, _, apart):
            rows, others = inputs
            a, b = compatible_pairs(rows, others, apart)
            return covered(rows, *overlap(rows, others, a, b))[1]
        case StampNode():
            return stamped(inputs[0], inputs[1], node)
        case ExistsNode(_, _, condition, flag):
            return _split(inputs[0], *_matches(inputs[0], inputs[1], condition, scope), flag, scope)
        case FilterNode(_, condition):
            return passing(inputs[0], condition, scope)
        case ExtendNode(_, variable, expression):
            return with_value(inputs[0], variable, expression, scope)
        case ProjectNode(inner, variables):
            in_order = isinstance(inner, OrderNode) and inner.keys  # the order of a sub-select ends with it
            return inputs[0].only([*variables, ORDER] if in_order else variables)
        case DistinctNode(_, variables):
            rows = inputs[0].only([*variables, ORDER])
            return earliest(rows, ORDER) if ORDER in rows.columns else disjoint(rows)
        case GroupNode(_, keys, aggregates, implicit, whole):
            rows, plain = inputs[0], []
            for variable, spec in aggregates:
                if spec.argument is not None and needs_instant(spec.argument):
                    rows = with_value(rows, f"{HIDDEN}{variable}", spec.argument, scope)
                    spec = replace(spec, argument=Variable(f"{HIDDEN}{variable}"))
                plain.append((variable, spec))
            return grouped(rows, keys, plain, implicit, scope.terms, scope.low, scope.high, whole)
        case OrderNode():
            return ordered(node, inputs[0], scope)
        case TripleNode(_, places):
            return instantiated(inputs[0], places, scope.terms)
    raise AssertionError(node)  # leaves have no inputs


def passing(rows: Rows, condition: Expression, scope: Scope) -> Rows:
    """The rows whose condition is effectively true, at the instants at which it is."""
    return _instantly(rows, condition, scope, lambda part, at: part.take(truth(part, condition, scope.terms, at)))


def overlap(left: Rows, right: Rows, a: Ints, b: Ints) -> tuple[Ints, Ints, Ints]:
    """Of pairs of rows the left one, and the interval that both have."""
    return a, np.maximum(left.start[a], right.start[b]), np.minimum(left.end[a], right.end[b])


def _as_they_are(rows: Rows, run: Callable[[Rows], Rows]) -> Rows:
    return run(rows)


def _matches(
    left: Rows,
    right: Rows,
    condition: Expression | None,
    scope: Scope,
    tests: Sequence[ExistsNode] = (),
    seeing: Callable[[Rows, Callable[[Rows], Rows]], Rows] = _as_they_are,
) -> tuple[Ints, Rows]:
    """The joined rows that pass the condition, and which left row each comes from."""
    a, b = compatible_pairs(left, right)
    joined = combine(left, right, a, b).with_column("#owner", a)

    def tested(rows: Rows) -> Rows:
        for test in tests:
            rows = flagged(rows, test, scope)
        return rows if condition is None else passing(rows, condition, scope)

    joined = seeing(joined, tested)
    for test in tests:
        del joined.columns[test.flag]
    owner = joined.columns.pop("#owner")
    return owner, joined


def left_join(
    left: Rows,
    right: Rows,
    node: LeftJoinNode,
    scope: Scope,
    seeing: Callable[[Rows, Callable[[Rows], Rows]], Rows] = _as_they_are,
) -> Rows:
    """OPTIONAL: the joined rows, and left rows where they have no partner. ``seeing`` shows conditions the rows with more in them."""
    if not len(left):
        return left
    owner, joined = _matches(left, right, node.condition, scope, node.tests, seeing)
    alone = covered(left, owner, joined.start, joined.end)[1]
    padded = {v: alone.columns.get(v, np.zeros(len(alone), np.int64)) for v in dict.fromkeys([*left.columns, *right.columns])}
    return concat([joined, Rows(padded, alone.start, alone.end, alone.n)])


def flagged(rows: Rows, node: ExistsNode, scope: Scope) -> Rows:
    """The rows with the flag of an EXISTS."""
    if node.reads is not None:
        return _split(rows, *scope.for_each_row(rows, node.pattern, node.reads, scope), node.flag, scope)
    others = evaluate(node.pattern, scope, keys_for(node.pattern, rows, scope.schema.on(node), scope))
    if isinstance(node, StampNode):
        return stamped(rows, others, node)
    return _split(rows, *_matches(rows, others, node.condition, scope), node.flag, scope)


def stamped(rows: Rows, times: Rows, node: StampNode) -> Rows:
    """The rows with the time of their triple, cut where it changes; rows that do not bind all of the triple have none."""
    sure = np.logical_and.reduce([np.ones(len(rows), bool), *(column != 0 for column in rows.values(node.keys))])
    whole = np.flatnonzero(sure)
    a, b = compatible_pairs(rows.take(whole).only(node.keys), times)
    owner, start, end = overlap(rows, times, whole[a], b)
    (latest,) = times.values([node.time])
    found = rows.take(owner).with_interval(start, end).with_column(node.flag, latest[b])
    alone = covered(rows, owner, start, end)[1]
    return concat([found, alone.with_column(node.flag, np.zeros(len(alone), np.int64))])


def _split(left: Rows, owner: Ints, joined: Rows, flag: str, scope: Scope) -> Rows:
    """Rows cut into the parts that have a partner, flagged true, and those that have none."""
    yes, no = scope.terms.ids(
        ['"true"^^<http://www.w3.org/2001/XMLSchema#boolean>', '"false"^^<http://www.w3.org/2001/XMLSchema#boolean>']
    )
    if not len(left):
        return left.with_column(flag, np.zeros(0, np.int64))
    inside, outside = covered(left, owner, joined.start, joined.end)
    return concat([inside.with_column(flag, np.full(len(inside), yes)), outside.with_column(flag, np.full(len(outside), no))])


def _instantly(rows: Rows, expression: Expression, scope: Scope, run: Callable[[Rows, Ints | None], Rows]) -> Rows:
    """Runs an expression over rows; where its value hangs on the instant, each row is first cut into its instants."""
    if not needs_instant(expression):
        return run(rows, None)
    each = at_each_instant(rows)
    return run(each, scope.instants[each.start])


def with_value(rows: Rows, column: str, expression: Expression, scope: Scope) -> Rows:
    """The rows with the expression's value in one more column."""
    return _instantly(
        rows, expression, scope, lambda part, at: part.with_column(column, values(part, expression, scope.terms, at, column))
    )


def at_each_instant(rows: Rows) -> Rows:
    """Each row cut into rows that are valid at one place."""
    count = rows.end - rows.start
    check(int(count.sum()), len(rows.columns))
    which = np.repeat(np.arange(len(rows)), count)
    start = np.repeat(rows.start, count) + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return Rows({v: c[which] for v, c in rows.columns.items()}, start, start + 1, rows.n[which])


def ordered(node: OrderNode, rows: Rows, scope: Scope) -> Rows:
    """ORDER BY, and LIMIT within each stretch of time in which no row begins or ends. Ties follow the order of terms."""
    if not len(rows):
        return rows.with_column(ORDER, np.zeros(0, np.int64))
    if node.each:
        group, first = group_ids(rows.values(node.each), len(rows))
        whole = replace(node, each=())
        return concat([ordered(whole, rows.take(group == number), scope) for number in range(len(first))])
    keys: list[Ints] = [rows.columns[ORDER]] if not node.keys and ORDER in rows.columns else []
    for place, (expression, _) in enumerate(node.keys):
        rows = with_value(rows, f"{ORDER}{place}", expression, scope)
    for place, (_, descending) in enumerate(node.keys):
        rank = ranks(rows.columns.pop(f"{ORDER}{place}"), scope.terms, sort_key)[0]
        keys.append(-rank if descending else rank)
    ties = [ranks(rows.columns[v], scope.terms)[0] for v in node.ties if v in rows.columns]
    order = np.lexsort((*reversed(ties), *reversed(keys))) if keys or ties else np.arange(len(rows))
    rows = rows.take(order)
    if node.keys:
        rows = rows.with_column(ORDER, np.arange(len(rows)))
    if node.limit is None and not node.offset:
        return rows
    upto = LIMIT if node.limit is None else node.offset + node.limit
    edges = np.unique(np.concatenate([rows.start, rows.end]))
    parts = []
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist()):
        alive = rows.take((rows.start <= begin) & (rows.end >= end))
        own = np.minimum(alive.n, upto)  # more of one row than are let through make no difference
        reached = summed(own, np.cumsum)
        n = np.clip(reached, node.offset, upto) - np.clip(reached - own, node.offset, upto)
        some = n > 0
        kept = alive.take(some)
        parts.append(Rows(kept.columns, np.full(len(kept), begin), np.full(len(kept), end), n[some]))
    return concat(parts) if parts else rows.take(np.empty(0, np.int64))
