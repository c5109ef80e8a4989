"""How the operators above a program's joins are kept up to date, for EXPLAIN: by key, as sums, or whole."""

from __future__ import annotations

from collections.abc import Iterator

from cqels_opt.operators.compiled_query import (
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
    StampNode,
    Tree,
    children,
)
from cqels_opt.operators.key_pushdown import Schema, is_additive, moves, touched_by, whole_at_instants
from cqels_opt.operators.rows import is_nameable

WAYS = {
    "by_key": "recomputed by key",
    "sums": "kept as sums",
    "whole": "recomputed whole",
    "steps": "followed from the bound ends",
}
NAMES = {
    JoinNode: "JOIN",
    LeftJoinNode: "OPTIONAL",
    MinusNode: "MINUS",
    ExistsNode: "EXISTS",
    StampNode: "timestamp()",
    ClosureNode: "PATH",
    DistinctNode: "DISTINCT",
    GroupNode: "GROUP BY",
    OrderNode: "ORDER BY",
    FilterNode: "FILTER",
    ExtendNode: "BIND",
    DescribeNode: "DESCRIBE",
}


def maintained(program: CompiledProgram) -> dict[str, list[str]]:
    """The operators that are not row by row, by the way in which they are kept up to date; inputs first."""
    found: dict[str, list[str]] = {way: [] for way in WAYS}
    for way, text in _each(program.tree, Schema.of(program.blocks)):
        found[way].append(text)
    return {way: texts for way, texts in found.items() if texts}


def text(program: CompiledProgram) -> str:
    """One line; empty where all operators above the joins are row by row."""
    found = maintained(program)
    return "above the joins: " + "; ".join(f"{WAYS[way]}: {', '.join(texts)}" for way, texts in found.items()) if found else ""


def _each(tree: Tree, schema: Schema) -> Iterator[tuple[str, str]]:
    for inner in children(tree):
        yield from _each(inner, schema)
    if isinstance(tree, ClosureNode) and not moves(tree):
        yield "steps", _path(tree)
    if type(tree) not in NAMES or not moves(tree):
        return
    if isinstance(tree, FilterNode | ExtendNode) and not whole_at_instants(tree):
        return
    on = touched_by(tree, schema)
    named = (
        " ".join([_name(tree), *(f"?{v}" for v in on if is_nameable(v))]) if not isinstance(tree, ClosureNode) else _path(tree)
    )
    if is_additive(tree):
        yield "sums", named
    else:
        yield "by_key" if on and not whole_at_instants(tree) else "whole", named


def _path(node: ClosureNode) -> str:
    return " ".join(["PATH", *(f"?{v}" for v in node.variables if is_nameable(v))])


def _name(tree: Tree) -> str:
    if isinstance(tree, GroupNode) and not tree.keys:
        return "aggregates"
    if isinstance(tree, OrderNode) and not tree.keys:
        return "LIMIT"
    return NAMES[type(tree)]
