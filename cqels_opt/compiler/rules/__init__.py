"""Rules: rewrites of a logical plan, which read block boundaries and facts about static relations.

A rule is a function from an operator to an equivalent plan, or None where it does not apply, in a module of its own. The compiler applies
the rules to each operator, inputs first: the first rule that applies replaces the operator. A rule passes the operators that it makes
to ``context.rewrite``. Its docstring has an example, which is a test (``tests/compiler/test_rewrites.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.exists_as_column import exists_as_column
from cqels_opt.compiler.rules.exists_as_semijoin import exists_as_semijoin
from cqels_opt.compiler.rules.filter_below_bind import filter_below_bind
from cqels_opt.compiler.rules.filter_below_outer_join import filter_below_outer_join
from cqels_opt.compiler.rules.filter_below_union import filter_below_union
from cqels_opt.compiler.rules.filter_into_block import filter_into_block
from cqels_opt.compiler.rules.inline_projection import inline_projection
from cqels_opt.compiler.rules.join_below_outer_join import join_below_outer_join
from cqels_opt.compiler.rules.join_below_union import join_below_union
from cqels_opt.compiler.rules.merge_blocks import merge_blocks
from cqels_opt.compiler.rules.probe_path_from_other_side import probe_path_from_other_side
from cqels_opt.compiler.rules.pull_up_binds import pull_up_binds
from cqels_opt.compiler.rules.split_conjunction import split_conjunction
from cqels_opt.compiler.rules.static_outer_join import static_outer_join

Rule: TypeAlias = Callable[[LogicalOperator, Context], "LogicalPlan | None"]

RULES: Final[tuple[Rule, ...]] = (
    # joins
    merge_blocks,
    pull_up_binds,
    join_below_outer_join,
    join_below_union,
    probe_path_from_other_side,
    # outer joins
    static_outer_join,
    # filters
    split_conjunction,
    filter_into_block,
    filter_below_union,
    filter_below_outer_join,
    filter_below_bind,
    exists_as_semijoin,
    # sub-selects
    inline_projection,
    # expressions of any operator
    exists_as_column,
)
"""All rules, in the order in which they are tried."""

CORRELATED_RULES: Final[tuple[Rule, ...]] = (exists_as_column,)
"""The rules for a pattern of EXISTS that is evaluated per outside row: its operators stay as written."""


def apply_rules(plan: LogicalPlan, rules: Sequence[Rule], context: Context) -> LogicalPlan:
    """The plan after the first rule that applies to the operator at its top."""
    if isinstance(plan, LogicalOperator):
        for rule in rules:
            if (found := rule(plan, context)) is not None:
                return found
    return plan
