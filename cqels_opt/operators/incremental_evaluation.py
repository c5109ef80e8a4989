"""The operators above the blocks, incrementally: only what a step of the frontier touches is read and computed again (DESIGN §3).

ISTREAM and DSTREAM put out how often a row occurs at an instant more, or less, than at the instant before. So rows that occur as often
at all instants of a step may be left out, of the answers and of what these are made of. The *changing* rows of a node are such
that its whole rows have, for each tuple of values, some constant number more at every instant. Of a block they are the rows that
begin or end in the step. Operators that work row by row take the changing rows of their input. The others are applied to all rows,
changing or not, with the keys that changing rows touch:

- GROUP BY and DISTINCT: the groups, or tuples, of the changing rows;
- OPTIONAL, MINUS, EXISTS, join: the changing left rows, and the left rows that agree with a changing right row on the variables that both
  sides surely bind; of the right side what agrees with any of these.

Left rows are independent of each other in these, as the operators are linear in their left side. An operator without such variables is
applied to everything, once anything changes; and one whose value hangs on the instant (NOW, RAND) with every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from cqels_opt.operators import rows as rows_module
from cqels_opt.operators.accumulators import Accumulated, folded, members
from cqels_opt.operators.algebra_operators import Scope, applied, evaluate, flagged, keys_for
from cqels_opt.operators.compiled_query import (
    BlockNode,
    ClosureNode,
    DescribeNode,
    DistinctNode,
    ExistsNode,
    GroupNode,
    JoinNode,
    LeftJoinNode,
    MinusNode,
    OrderNode,
    StaticNode,
    Tree,
    ValuesNode,
    block_names,
    children,
    is_row_wise,
)
from cqels_opt.operators.key_pushdown import TwoSided, correlated, shares, touched_by, whole_at_instants
from cqels_opt.operators.rows import Rows, concat, empty, gathered
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter
from cqels_opt.operators.transitive_closure import touched
from cqels_opt.state.result_store import ResultSegment

Run: TypeAlias = Callable[[Tree, Scope, KeyFilter], Rows]


def changing(tree: Tree, scope: Scope, share: KeyFilter = EVERY) -> Rows:
    """The changing rows of a tree, as far as they have one of the keys of a share, perhaps with others."""
    if scope.low > 0:  # no instant was reported before: everything begins
        return evaluate(tree, scope, share)
    match tree:
        case BlockNode(block):
            return scope.blocks[block].changing(share.narrowed(scope.schema.variables(tree)))
        case StaticNode() | ValuesNode():
            return empty(sorted(scope.schema.variables(tree)))
        case ExistsNode() if correlated(tree):
            stirred = whole_at_instants(tree) or _stirred(tree.pattern, scope)
            rows = share.within(evaluate(tree.input, scope, share)) if stirred else changing(tree.input, scope, share)
            return unsteady(flagged(rows, tree, scope), scope)
        case JoinNode() | LeftJoinNode() | MinusNode() | ExistsNode():
            return unsteady(applied(tree, _touched_sides(tree, scope, share), scope), scope)
        case ClosureNode():
            return unsteady(_touched_paths(tree, scope, share), scope)
        case DistinctNode() | GroupNode() | OrderNode():
            (below,) = shares(tree, share, scope.schema)
            kept = scope.groups.get(tree) if isinstance(tree, GroupNode) else None
            touched = EVERY
            if kept is not None:
                touched = kept.touched
            elif not whole_at_instants(tree):
                touched = KeyFilter.of(changing(tree.input, scope, below), touched_by(tree, scope.schema))
            if not touched.some:
                return empty(sorted(scope.schema.variables(tree)))
            if kept is not None:
                return unsteady(kept.rows(touched), scope)
            return unsteady(applied(tree, [touched.within(evaluate(tree.input, scope, touched))], scope), scope)
    if isinstance(tree, DescribeNode):
        some = any(len(changing(inner, scope)) for inner in children(tree))
        return unsteady(evaluate(tree, scope), scope) if some else empty(sorted(scope.schema.variables(tree)))
    if whole_at_instants(tree):
        return unsteady(applied(tree, [evaluate(inner, scope) for inner in children(tree)], scope), scope)
    below_of = zip(children(tree), shares(tree, share, scope.schema))
    return applied(tree, [changing(inner, scope, below) for inner, below in below_of], scope)


def _touched_sides(node: TwoSided, scope: Scope, share: KeyFilter) -> list[Rows]:
    """The left rows that change or that a change of the right side touches, and the right rows that concern them."""
    left, right, *others_below = children(node)
    on = scope.schema.on(node)
    mine, others, *_ = shares(node, share, scope.schema)
    new = changing(left, scope, mine)
    touched = EVERY
    if not whole_at_instants(node):
        touched = (
            EVERY if any(_stirred(inner, scope) for inner in others_below) else KeyFilter.of(changing(right, scope, others), on)
        )
    old = mine.within(touched.within(evaluate(left, scope, touched)))
    rows = concat([old, touched.outside(new)])
    return [rows, evaluate(right, scope, keys_for(right, rows, on, scope))]


def _stirred(tree: Tree, scope: Scope) -> bool:
    """Whether rows begin or end in the step in any block below."""
    if isinstance(tree, BlockNode):
        return len(scope.blocks[tree.block].changing(EVERY)) > 0
    return any(_stirred(inner, scope) for inner in children(tree))


def _touched_paths(node: ClosureNode, scope: Scope, share: KeyFilter) -> Rows:
    """The paths that a change of steps or nodes may concern: all from where one may lead through what changes."""
    changed = [
        changing(inner, scope).columns[node.here] for inner in children(node) if node.here in scope.schema.variables(inner)
    ]
    ids = np.concatenate(changed)
    if not len(ids):
        return empty(sorted(node.variables))
    if isinstance(node.start, int) or isinstance(node.end, int):
        return evaluate(node, scope)
    starts = touched(node, ids, evaluate(node.edges, scope))
    return share.within(evaluate(node, scope, KeyFilter((node.start,), (starts,))))


def in_chunks(tree: Tree, scope: Scope, share: KeyFilter = EVERY, run: Run = changing) -> Iterator[Rows]:
    """The changing rows of a tree (or what else is to ``run``): of one that works row by row a bounded number of rows at a time."""
    blocks = {name: scope.blocks[name] for name in block_names(tree)} if is_row_wise(tree) else {}
    parts = {name: block.parts(whole=run is evaluate or scope.low > 0) for name, block in blocks.items()}
    if sum(len(part) for found in parts.values() for part in found) <= rows_module.CHUNK:
        yield run(tree, scope, share)
        return
    nothing = {name: block.alone(()) for name, block in blocks.items()}
    for name, found in parts.items():
        for part in found:
            for at in range(0, len(part), rows_module.CHUNK):
                piece = blocks[name].alone([part.take(np.arange(at, min(at + rows_module.CHUNK, len(part))))])
                yield run(tree, replace(scope, blocks={**nothing, name: piece}), share)
                blocks[name].read += piece.read


def accumulate(
    tree: Tree, scope: Scope, held: Mapping[GroupNode, Sequence[ResultSegment]], share: KeyFilter = EVERY
) -> list[Accumulated]:
    """Takes the groups of a tree that are kept as sums to a step: ``held`` has what they were."""
    found = []
    for inner, below in zip(children(tree), shares(tree, share, scope.schema)):
        found += accumulate(inner, scope, held, below)
    if isinstance(tree, GroupNode) and tree in held and tree not in scope.groups:
        (below,) = shares(tree, share, scope.schema)
        chunks = in_chunks(tree.input, scope, below)
        new = gathered(folded(members(tree, below.within(rows), scope.terms), tree.keys) for rows in chunks)
        scope.groups[tree] = done = Accumulated(tree, scope, new, held[tree])
        found.append(done)
    return found


def unsteady(rows: Rows, scope: Scope) -> Rows:
    """The rows without those that are valid at all instants of the step."""
    return rows.take((rows.start > 0) | (rows.end < scope.high))
