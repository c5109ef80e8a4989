"""Algebra trees and logical plans as bracketed text, for the examples in the docstrings of passes and rules.

``(window w (?a :p ?b))`` and ``(graph ?g (?a :p ?b))`` are patterns, ``(bgp …)`` those of the default graph, ``(block …)`` a block, whose
bare triples are static patterns. A name ``:p`` is an IRI.
"""

from __future__ import annotations

import re
from typing import Any

from cqels_opt.compiler.logical_blocks import HOLE, LogicalBlock, LogicalOperator, LogicalPlan, with_unit
from cqels_opt.operators import compiled_query as p
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import operands
from cqels_opt.rdf.terms import XSD_INTEGER, literal

Tree = Any
"""A word, or a list of trees."""

FUNCTIONS = {"notexists", "exists"}


def brackets(text: str) -> Tree:
    """The one tree of a text."""
    stack: list[list[Tree]] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    ((tree,),) = stack
    return tree


def written(tree: Tree) -> str:
    """The text of a tree, in one line."""
    return tree if isinstance(tree, str) else f"({' '.join(map(written, tree))})"


# ------------------------------------------------------------------ terms, expressions, patterns
def node(word: str) -> a.Name:
    if word.startswith("?"):
        return a.Variable(word[1:])
    return f"<http://ex.org/{word[1:]}>" if word.startswith(":") else literal(word, XSD_INTEGER)


def word(node: a.Node) -> str:
    if isinstance(node, a.Variable):
        return f"?{node.name}"
    assert isinstance(node, str)
    return f":{node.removeprefix('<http://ex.org/')[:-1]}" if node.startswith("<") else node.split('"')[1]


def expression(tree: Tree) -> a.Expression:
    if isinstance(tree, str):
        found = node(tree)
        return found if isinstance(found, a.Variable) else a.Constant(found)
    head, *rest = tree
    if head in FUNCTIONS:
        return a.Exists(algebra(rest[0]), head == "notexists")
    function, _, draw = head.partition("#")
    return a.Call(function, tuple(map(expression, rest)), draw and f"#{draw}")


def expression_tree(part: a.Expression) -> Tree:
    match part:
        case a.Variable():
            return word(part)
        case a.Constant(term):
            return word(term)
        case a.Exists(pattern, negated):
            return ["notexists" if negated else "exists", algebra_tree(pattern)]
        case a.Call(function, arguments, draw):
            return [function + draw[draw.find("#") :] * bool(draw), *map(expression_tree, arguments)]


def triple(tree: Tree) -> a.TriplePattern:
    return a.TriplePattern(*map(node, tree))


def triple_tree(pattern: a.TriplePattern) -> Tree:
    return [word(n) for n in (pattern.s, pattern.p, pattern.o)]


def variables(tree: Tree) -> tuple[a.Variable, ...]:
    return tuple(a.Variable(name[1:]) for name in tree)


def source(tree: Tree) -> tuple[a.Source, list[Tree]]:
    """The source of patterns, and the patterns."""
    match tree:
        case ["window", name, *patterns]:
            return a.InWindow(name), patterns
        case ["graph", name, *patterns]:
            return a.NamedGraph(node(name)), patterns
        case ["bgp", *patterns]:
            return a.DefaultGraph(), patterns
    return a.DefaultGraph(), [tree]


def source_tree(of: a.Source) -> list[Tree]:
    match of:
        case a.InWindow(name):
            return ["window", name]
        case a.NamedGraph(name):
            return ["graph", word(name)]
    return ["bgp"]


# ------------------------------------------------------------------ algebra
def algebra(tree: Tree) -> a.Algebra:
    match tree:
        case ["bgp" | "window" | "graph", *_]:
            where, patterns = source(tree)
            return a.Bgp(tuple(map(triple, patterns)), where)
        case ["join", left, right]:
            return a.Join(algebra(left), algebra(right))
        case ["minus", left, right]:
            return a.Minus(algebra(left), algebra(right))
        case ["filter", condition, inner]:
            return a.Filter(algebra(inner), expression(condition))
        case ["extend", variable, value, inner]:
            return a.Extend(algebra(inner), a.Variable(variable[1:]), expression(value))
        case ["values", names, *rows]:
            return a.Values(variables(names), tuple(tuple(map(node, row)) for row in rows))  # type: ignore[arg-type]
        case ["project", names, inner]:
            return a.Project(algebra(inner), variables(names))
        case ["group", keys, aggregates, inner]:
            made = tuple((a.Variable(v[1:]), a.Aggregate(name.upper(), None)) for name, v in aggregates)
            return a.Group(algebra(inner), variables(keys), made, not keys)
        case ["order", keys, inner]:
            return a.OrderBy(algebra(inner), tuple((expression(key), False) for key in keys))
        case ["slice", offset, limit, inner]:
            return a.Slice(algebra(inner), int(offset), int(limit))
    raise AssertionError(tree)


def algebra_tree(of: a.Algebra) -> Tree:
    match of:
        case a.Bgp(patterns, where):
            return [*source_tree(where), *map(triple_tree, patterns)]
        case a.Join(left, right) | a.Minus(left, right):
            return [type(of).__name__.lower(), algebra_tree(left), algebra_tree(right)]
        case a.Filter(inner, condition):
            return ["filter", expression_tree(condition), algebra_tree(inner)]
        case a.Extend(inner, variable, value):
            return ["extend", word(variable), expression_tree(value), algebra_tree(inner)]
        case a.Values(names, rows):
            return ["values", [*map(word, names)], *([word(n) for n in row if n is not None] for row in rows)]
        case a.Project(inner, names):
            return ["project", [*map(word, names)], algebra_tree(inner)]
        case a.Group(inner, keys, aggregates):
            return [
                "group",
                [*map(word, keys)],
                [[spec.function.lower(), word(v)] for v, spec in aggregates],
                algebra_tree(inner),
            ]
        case a.OrderBy(inner, keys):
            return ["order", [expression_tree(key) for key, _ in keys], algebra_tree(inner)]
        case a.Slice(inner, offset, limit):
            return ["slice", str(offset), str(limit), algebra_tree(inner)]
    raise AssertionError(of)


# ------------------------------------------------------------------ logical plans
KINDS = {
    "join": p.JoinNode(HOLE, HOLE),
    "leftjoin": p.LeftJoinNode(HOLE, HOLE, None),
    "minus": p.MinusNode(HOLE, HOLE),
    "union": p.UnionNode(()),
}


def plan(tree: Tree) -> LogicalPlan:
    match tree:
        case ["block", *items]:
            return block(items)
        case ["values", names, *rows]:
            return p.ValuesNode(tuple(name[1:] for name in names), tuple(tuple(range(1, len(row) + 1)) for row in rows))
        case ["filter", condition, inner]:
            return LogicalOperator(p.FilterNode(HOLE, expression(condition)), [plan(inner)])
        case ["extend", variable, value, inner]:
            return LogicalOperator(p.ExtendNode(HOLE, variable[1:], expression(value)), [plan(inner)])
        case ["project", names, inner]:
            return LogicalOperator(p.ProjectNode(HOLE, tuple(name[1:] for name in names)), [plan(inner)])
        case ["path", start, end, step]:
            return LogicalOperator(p.ClosureNode(HOLE, None, "x", "y", start[1:], end[1:], None, True), [plan(step)])
        case ["leftjoin", left, right, condition]:
            return LogicalOperator(p.LeftJoinNode(HOLE, HOLE, expression(condition)), [plan(left), plan(right)])
        case [name, *inputs]:
            return LogicalOperator(KINDS[name], list(map(plan, inputs)))
    raise AssertionError(tree)


def block(items: list[Tree]) -> LogicalBlock:
    found = LogicalBlock()
    for item in items:
        if item[0] == "filter":
            found.filters.append(expression(item[1]))
        elif item[0] in ("optional", "anti", "semi"):
            conditions = operands(expression(item[2]), "&&") if len(item) > 2 else []
            unit = with_unit(found, item[0], block(item[1][1:]), conditions)
            assert unit is not None
            found = unit
        else:
            where, patterns = source(item)
            found.patterns += [(triple(t), where) for t in patterns]
    return found


def plan_tree(of: LogicalPlan) -> Tree:
    match of:
        case LogicalBlock():
            units = [
                [u.kind, plan_tree(u.right), *([] if u.condition is None else [expression_tree(u.condition)])] for u in of.units
            ]
            patterns = [
                triple_tree(t) if where == a.DefaultGraph() else [*source_tree(where), triple_tree(t)] for t, where in of.patterns
            ]
            return ["block", *patterns, *(["filter", expression_tree(f)] for f in of.filters), *units]
        case p.ValuesNode(names, rows):
            return ["values", [f"?{name}" for name in names], *([f"{n}" for n in row] for row in rows)]
        case LogicalOperator(above, inputs):
            return [*head(above), *map(plan_tree, inputs), *tail(above)]
    raise AssertionError(of)


def head(above: p.Tree) -> list[Tree]:
    match above:
        case p.FilterNode(_, condition):
            return ["filter", expression_tree(condition)]
        case p.ExtendNode(_, variable, value):
            return ["extend", f"?{variable}", expression_tree(value)]
        case p.ProjectNode(_, names):
            return ["project", [f"?{name}" for name in names]]
        case p.ExistsNode(flag=flag):
            return ["exists", f"?{flag}"]
        case p.ClosureNode(start=start, end=end):
            return ["path", f"?{start}", f"?{end}"]
    return [type(above).__name__.removesuffix("Node").lower()]


def tail(above: p.Tree) -> list[Tree]:
    return [expression_tree(above.condition)] if isinstance(above, p.LeftJoinNode) and above.condition is not None else []
