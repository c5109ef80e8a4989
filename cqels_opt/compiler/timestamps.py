"""C-SPARQL's ``timestamp(s, p, o)``: the time of the latest element by which a triple is in the windows, in milliseconds.

The engine of C-SPARQL keeps the time of each triple that a window brings, a later one in the place of an earlier one. Here it is a
look-up (:class:`~cqels_opt.operators.compiled_query.StampNode`) of the greatest time, a step function of the instant, that the windows
hold of
this triple. Of a triple that no window holds there is none, and the expression is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from cqels_opt.compiler.logical_blocks import Above, LogicalBlock, union
from cqels_opt.operators import compiled_query as p
from cqels_opt.query import algebra as a

_HOLE = p.ValuesNode((), ())


def latest(arguments: Sequence[a.Expression], windows: Sequence[str], number: int) -> tuple[Above, tuple[str, ...], a.Variable]:
    """The greatest times by triple: the part, the variables that it is looked up by, and the variable that has the time."""
    nodes = [x if isinstance(x, a.Variable) else x.term for x in arguments if isinstance(x, a.Variable | a.Constant)]
    keys = tuple(dict.fromkeys(node.name for node in nodes if isinstance(node, a.Variable)))
    time, found = a.Variable(f"time~{number}"), a.Variable(f"stamp~{number}")
    pattern = a.TriplePattern(*nodes)
    every = union(LogicalBlock([(pattern, a.InWindow(window, time=time))]) for window in windows)
    return Above(p.GroupNode(_HOLE, keys, ((found.name, a.Aggregate("MAX", time)),), not keys), [every]), keys, found


def stamps(expression: a.Expression) -> bool:
    """Whether the function is called in an expression, outside EXISTS."""
    return isinstance(expression, a.Call) and (
        expression.function == a.TIMESTAMP or any(stamps(argument) for argument in expression.arguments)
    )
