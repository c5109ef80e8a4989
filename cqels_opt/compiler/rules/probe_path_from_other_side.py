"""A property path is the right side of a join: its ends are searched from the rows of the left side."""

from __future__ import annotations

from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan, join
from cqels_opt.compiler.rules.context import Context
from cqels_opt.operators import compiled_query as p


def probe_path_from_other_side(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Swaps the sides of a join whose left side is a path.

    ::

        before: (join (path ?b ?c (block (window w (?x :p ?y)))) (values (?b) (1)))
        after:  (join (values (?b) (1)) (path ?b ?c (block (window w (?x :p ?y)))))
    """
    match plan:
        case LogicalOperator(p.JoinNode(), [LogicalOperator(p.ClosureNode()) as path, other]):
            return join(other, path)
    return None
