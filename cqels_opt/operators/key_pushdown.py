"""Key push-down: how far a restriction to keys can be pushed down a tree of operators, decided before anything runs.

A restriction on a variable is pushed below an operator if the operator passes the variable's value on unchanged. Rows of both sides of an
OPTIONAL, MINUS, EXISTS or join affect each other only if they agree on the variables that both always bind. These variables identify the
rows that a change of the other side affects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from cqels_opt.operators.compiled_query import (
    TRIPLE,
    Block,
    BlockNode,
    ClosureNode,
    CompiledProgram,
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
    StaticNode,
    Tree,
    TripleNode,
    UnionNode,
    ValuesNode,
    children,
)
from cqels_opt.operators.expressions import needs_instant
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter

Names: TypeAlias = frozenset[str]
TwoSided: TypeAlias = JoinNode | LeftJoinNode | MinusNode | ExistsNode


def block_binds(block: Block) -> Names:
    """The variables that are bound on every row of a block."""
    patterns = (*(o.binds for o in block.occurrences), *(s.variables for s in block.inner))
    return frozenset(v for names in patterns for v in names) & frozenset(block.output)


@dataclass(frozen=True, eq=False)
class Schema:
    """The variables of the rows of a tree's nodes. ``blocks`` has for each block its variables, and those bound on every row."""

    blocks: dict[str, tuple[Names, Names]]

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> Schema:
        """For trees over these blocks."""
        return cls({block.name: (frozenset(block.output), block_binds(block)) for block in blocks})

    def variables(self, tree: Tree) -> Names:
        """The variables that rows of a node may bind, without hidden columns."""
        match tree:
            case BlockNode(block):
                return self.blocks[block][0]
            case StaticNode(static):
                return frozenset(static.variables)
            case ValuesNode(variables, _):
                return frozenset(variables)
            case ClosureNode() as closure:
                return frozenset(closure.variables)
            case ExtendNode(inner, variable, _):
                return self.variables(inner) | {variable}
            case ProjectNode(inner, variables) | DistinctNode(inner, variables):
                return self.variables(inner) & set(variables)
            case GroupNode(_, keys, aggregates, _, _):
                return frozenset([*keys, *(v for v, _ in aggregates)])
            case MinusNode(left) | ExistsNode(left):
                return self.variables(left)
            case LeftJoinNode(left, right):
                return self.variables(left) | self.variables(right)
            case TripleNode() | DescribeNode():
                return frozenset(TRIPLE)
        return frozenset[str]().union(*map(self.variables, children(tree)))

    def binds(self, tree: Tree) -> Names:
        """The variables that are bound on every row of a node, as far as its operators guarantee."""
        match tree:
            case BlockNode(block):
                return self.blocks[block][1]
            case StaticNode(static):
                return frozenset() if static.partial else frozenset(static.variables)
            case ValuesNode(variables, rows):
                return frozenset(v for i, v in enumerate(variables) if all(row[i] for row in rows))
            case ClosureNode() as closure:
                return frozenset(closure.variables)
            case UnionNode(parts):
                return frozenset.intersection(*map(self.binds, parts))
            case JoinNode(left, right):
                return self.binds(left) | self.binds(right)
            case LeftJoinNode(left) | MinusNode(left) | ExistsNode(left):
                return self.binds(left)
            case ProjectNode(inner, variables) | DistinctNode(inner, variables) | GroupNode(inner, variables, _, _, _):
                return self.binds(inner) & set(variables)
            case TripleNode() | DescribeNode():
                return frozenset(TRIPLE)
        return self.binds(children(tree)[0])

    def on(self, node: TwoSided) -> tuple[str, ...]:
        """The variables on which compatible rows of both sides always agree."""
        if correlated(node):
            return ()
        left, right = children(node)[:2]
        return tuple(sorted(self.binds(left) & self.binds(right)))

    def below(self, node: Tree, side: int, names: Collection[str]) -> Names:
        """The variables, of those given, on which a restriction of the node's rows also restricts the rows of its input."""
        match node:
            case JoinNode() | LeftJoinNode() | MinusNode() | ExistsNode():
                if side > 1:
                    return frozenset()
                mine, other = children(node)[side], children(node)[1 - side]
                if side == 1 and not isinstance(node, JoinNode):
                    return frozenset()
                kept = self.variables(mine) & set(names)
                if isinstance(node, MinusNode | ExistsNode):
                    return kept
                return kept & (self.binds(mine) | (kept - self.variables(other)))
            case ExtendNode(_, variable, _):
                return frozenset(names) - {variable}
            case ProjectNode(_, variables) | DistinctNode(_, variables) | GroupNode(_, variables, _, _, _):
                return frozenset(names) & set(variables)
            case OrderNode() | TripleNode() | DescribeNode():
                return frozenset()
            case ClosureNode() as closure:
                return frozenset(names) & {closure.graph or ""}
        return frozenset(names)

    def first_side(self, node: JoinNode, names: Collection[str]) -> int:
        """The side of a join that a restriction narrows more: it is read first, and the other side for the keys of its rows."""
        return int(len(self.below(node, 1, names)) > len(self.below(node, 0, names)))


def whole_at_instants(node: Tree) -> bool:
    """Whether the operator depends on the instant, so that rows that neither begin nor end also change."""
    match node:
        case FilterNode(_, condition):
            return needs_instant(condition)
        case LeftJoinNode(_, _, condition) | ExistsNode(_, _, condition):
            return (condition is not None and needs_instant(condition)) or any(map(_depends_on_instants, _for_each_row(node)))
        case ExtendNode(_, _, expression):
            return needs_instant(expression)
        case GroupNode(_, _, aggregates, _, _):
            return any(spec.argument is not None and needs_instant(spec.argument) for _, spec in aggregates)
        case OrderNode(_, keys, _, _, _):
            return any(needs_instant(expression) for expression, _ in keys)
    return False


def _for_each_row(node: Tree) -> tuple[Tree, ...]:
    """The patterns (of EXISTS) that a node evaluates for each of its rows."""
    if isinstance(node, ExistsNode):
        return (node.pattern,) if node.reads is not None else ()
    return tuple(test.pattern for test in node.tests) if isinstance(node, LeftJoinNode) else ()


def correlated(node: Tree) -> bool:
    """Whether a node evaluates a pattern for each of its rows, so that no keys identify the rows that a change of the pattern affects."""
    return bool(_for_each_row(node))


def _depends_on_instants(tree: Tree) -> bool:
    return whole_at_instants(tree) or any(map(_depends_on_instants, children(tree)))


def is_additive(node: Tree) -> bool:
    """Whether the aggregates of a node are sums over members that enter and leave."""
    if not isinstance(node, GroupNode) or whole_at_instants(node):
        return False
    return all(spec.function in ("COUNT", "SUM", "AVG") and not spec.distinct for _, spec in node.aggregates)


def additive_nodes(tree: Tree) -> Iterator[GroupNode]:
    """The nodes of a tree that are kept as sums, inputs first."""
    for inner in children(tree):
        yield from additive_nodes(inner)
    if isinstance(tree, GroupNode) and is_additive(tree):
        yield tree


def touched_by(node: Tree, schema: Schema) -> tuple[str, ...]:
    """The variables by whose values an operator finds the rows that a change affects; none: a change affects all rows."""
    match node:
        case JoinNode() | LeftJoinNode() | MinusNode() | ExistsNode():
            return schema.on(node)
        case DistinctNode(_, variables):
            return variables
        case GroupNode(_, keys, _, _, _):
            return keys
        case ClosureNode(start=str(start), end=str()):
            return (start,)
    return ()


@dataclass(frozen=True)
class Pushdown:
    """Properties of a program's tree that are known before it runs."""

    program: CompiledProgram

    @cached_property
    def schema(self) -> Schema:
        """The variables of the tree's nodes."""
        return Schema.of(self.program.blocks)

    @cached_property
    def lookups(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """The variables by whose values rows of each block are looked up: what its result slots are indexed on."""
        found: dict[str, set[tuple[str, ...]]] = {block.name: set() for block in self.program.blocks}
        for block, names in self._changed(self.program.tree):
            if names:
                found[block].add(tuple(sorted(names)))
        return {block: tuple(sorted(names)) for block, names in found.items()}

    def _changed(self, tree: Tree) -> Iterator[tuple[str, Names]]:
        """The look-ups that find the changing rows of a node."""
        for inner in children(tree):
            yield from self._changed(inner)
        if isinstance(tree, JoinNode | LeftJoinNode | MinusNode | ExistsNode):
            for side in children(tree)[:2]:
                yield from self._wanted(side, frozenset(self.schema.on(tree)))
        elif isinstance(tree, DescribeNode):
            yield from self._wanted(tree, frozenset())
        elif isinstance(tree, DistinctNode | GroupNode) and not _only_counts(tree):
            yield from self._wanted(tree.input, frozenset(touched_by(tree, self.schema)))

    def _wanted(self, tree: Tree, names: Names) -> Iterator[tuple[str, Names]]:
        """The look-ups that read the rows of a node with some keys."""
        if isinstance(tree, BlockNode):
            yield tree.block, names & self.schema.variables(tree)
        elif isinstance(tree, JoinNode | LeftJoinNode | MinusNode | ExistsNode):
            first = self.schema.first_side(tree, names) if isinstance(tree, JoinNode) else 0
            yield from self._wanted(children(tree)[first], self.schema.below(tree, first, names))
            yield from self._wanted(children(tree)[1 - first], frozenset(self.schema.on(tree)))
        elif isinstance(tree, DescribeNode):
            yield from self._wanted(tree.input, frozenset())
            yield from self._wanted(tree.graph, frozenset(TRIPLE[:1]))
        elif not _only_counts(tree):
            for side, inner in enumerate(children(tree)):
                yield from self._wanted(inner, self.schema.below(tree, side, names))

    @cached_property
    def stands(self) -> bool:
        """Whether the standing answers can be stored as a snapshot: their bindings are complete, without an order."""
        tree = self.program.tree
        while isinstance(tree, ProjectNode | DistinctNode):
            tree = tree.input
        return not isinstance(tree, OrderNode)

    @cached_property
    def spread(self) -> tuple[str, ...]:
        """Answer variables by whose values the tree's work can be distributed: all rows that lead to an answer have its values."""
        return tuple(sorted(self._reaching(self.program.tree, frozenset(self.program.variables))))

    def _reaching(self, tree: Tree, names: Names) -> Names:
        if isinstance(tree, BlockNode):
            return names & self.schema.variables(tree)
        if not moves(tree):
            return names
        if isinstance(tree, JoinNode | LeftJoinNode | MinusNode | ExistsNode):
            if correlated(tree):
                return frozenset()
            left, right = children(tree)[:2]
            on = frozenset(self.schema.on(tree))
            if isinstance(tree, JoinNode):
                names &= on
            found = self._reaching(left, self.schema.below(tree, 0, names))
            return found & self._reaching(right, found & on) if moves(right) else found
        for side, inner in enumerate(children(tree)):
            names = self._reaching(inner, self.schema.below(tree, side, names))
        return names


def _only_counts(node: Tree) -> bool:
    """Whether a node is maintained as sums that never read a member again."""
    return isinstance(node, GroupNode) and is_additive(node) and all(spec.function == "COUNT" for _, spec in node.aggregates)


def shares(node: Tree, share: KeyFilter, schema: Schema) -> list[KeyFilter]:
    """The restriction of each input of an operator to a share of the keys."""
    if isinstance(node, JoinNode | LeftJoinNode | MinusNode | ExistsNode):
        mine = share.narrowed(schema.below(node, 0, share.variables))
        return [mine, mine.narrowed(schema.on(node)), *(EVERY for _ in children(node)[2:])]
    return [share.narrowed(schema.below(node, side, share.variables)) for side, _ in enumerate(children(node))]


def moves(tree: Tree) -> bool:
    """Whether rows of a block are below a node."""
    return isinstance(tree, BlockNode) or any(map(moves, children(tree)))
