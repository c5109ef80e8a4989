"""C-SPARQL's ``timestamp(s, p, o)``: the time of the latest element whose triple the windows hold, in milliseconds.

The engine of C-SPARQL keeps one time per triple, and a later time replaces an earlier one. Here the function is a look-up
(:class:`~cqels_opt.operators.compiled_query.StampNode`) of the greatest time of the triple in the windows, a step function of the instant.
For a triple that no window holds the expression is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from cqels_opt.compiler.logical_blocks import HOLE, LogicalBlock, LogicalOperator, union
from cqels_opt.compiler.rules.context import Context
from cqels_opt.operators import compiled_query as p
from cqels_opt.operators.rows import HIDDEN
from cqels_opt.query import algebra as a


def calls_timestamp(expression: a.Expression) -> bool:
    """Whether an expression calls the function outside EXISTS."""
    return isinstance(expression, a.Call) and (
        expression.function == a.TIMESTAMP or any(calls_timestamp(argument) for argument in expression.arguments)
    )


def times_of(arguments: Sequence[a.Expression], context: Context) -> tuple[p.StampNode, LogicalOperator]:
    """The operator that looks up the time of a triple, and the plan of the greatest times of all triples of its pattern."""
    if not context.window_names:
        context.refuse("timestamp() needs a stream: declare it with FROM STREAM")
    number = context.fresh_number()
    nodes = [x if isinstance(x, a.Variable) else x.term for x in arguments if isinstance(x, a.Variable | a.Constant)]
    keys = tuple(dict.fromkeys(node.name for node in nodes if isinstance(node, a.Variable)))
    time, latest = a.Variable(f"time~{number}"), a.Variable(f"stamp~{number}")
    pattern = a.TriplePattern(*nodes)
    elements = union(LogicalBlock([(pattern, a.InWindow(window, time=time))]) for window in context.window_names)
    times = LogicalOperator(p.GroupNode(HOLE, keys, ((latest.name, a.Aggregate("MAX", time)),), not keys), [elements])
    return p.StampNode(HOLE, HOLE, None, f"{HIDDEN}{latest.name}", None, keys, latest.name), times
