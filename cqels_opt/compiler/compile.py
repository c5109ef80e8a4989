"""From a parsed query to a compiled program (DESIGN §3, "registration").

1. Passes rewrite the algebra (:mod:`cqels_opt.compiler.passes`).
2. Each algebra operator is translated to the logical plan, inputs first, and rules rewrite it (:mod:`cqels_opt.compiler.rules`). A static
   part that is not a block is evaluated at once, and becomes a relation of the block around it.
3. The logical blocks become blocks, and their static patterns relations (:mod:`cqels_opt.compiler.block_builder`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final, NoReturn

from cqels_opt.compiler.block_builder import BlockBuilder
from cqels_opt.compiler.decorrelation import separable
from cqels_opt.compiler.logical_blocks import LogicalBlock, LogicalOperator, LogicalPlan
from cqels_opt.compiler.passes import apply_passes
from cqels_opt.compiler.query_functions import called_functions
from cqels_opt.compiler.query_terms import NOTHING_KNOWN, KnownIds
from cqels_opt.compiler.rules import CORRELATED_RULES, RULES, apply_rules
from cqels_opt.compiler.rules.late_binds import strip_binds, with_binds
from cqels_opt.compiler.static_subpatterns import BYTES_BUDGET
from cqels_opt.compiler.translation import TRANSLATIONS
from cqels_opt.compiler.variable_usage import mentions, moves
from cqels_opt.compiler.view_maintenance import ViewMaintenance
from cqels_opt.errors import QueryError
from cqels_opt.operators import compiled_query as p
from cqels_opt.operators import query_forms
from cqels_opt.operators.algebra.triple import TRIPLE
from cqels_opt.operators.blocks import Block
from cqels_opt.operators.transitive_closure import PathsTooManyError
from cqels_opt.query import algebra as a
from cqels_opt.query.reading import line_and_column
from cqels_opt.query.templates import INSTANCE
from cqels_opt.query.uncertainty.families import registered_families
from cqels_opt.windows.instants import Report

MOST_JOINS: Final = 10_000
"""Patterns of windows times all relations that one block may join: 100 patterns have 100 plans of 100 operators."""


class Compiler:
    """Compiles one query over one static store. ``folder`` takes the static relations that compilation makes.

    ``budget`` limits the bytes of the sub-results of each block. Without ``late_binds`` (in the study ``tunnel``), each BIND is evaluated
    where it is written. Relations in the ``shared`` folder are shared with other queries. ``maintenance`` has the sub-results over the
    store's previous version.
    """

    def __init__(
        self,
        query: a.Query,
        store: str,
        folder: Path,
        report: Report,
        distinct: bool = False,
        budget: int = BYTES_BUDGET,
        late_binds: bool = True,
        shared: Path | None = None,
        maintenance: ViewMaintenance | None = None,
        known: KnownIds = NOTHING_KNOWN,
    ) -> None:
        self.query, self.late_binds = query, late_binds
        self.builder = BlockBuilder(
            query,
            store,
            folder,
            report,
            distinct=distinct,
            budget=budget,
            late_binds=late_binds,
            shared=shared,
            maintenance=maintenance,
            known=known,
        )
        self.in_static = False
        self.outside: Set[str] = frozenset()
        self.window_names = tuple(self.builder.windows)
        self.fresh_number = self.builder.fresh_number
        self._body: a.Algebra = query.body

    # -------------------------------------------------------------- programs
    def compile(self, identity: str, operator: str, instances: p.Instances | None = None) -> p.CompiledProgram:
        """The program. Saves its sub-results, and the terms that these add to the store's."""
        try:
            return self._compiled(identity, operator, instances)
        except RecursionError:
            self.refuse("the query is too large: too many UNIONs, OPTIONALs, BINDs or groups follow or hold one another")

    def _compiled(self, identity: str, operator: str, instances: p.Instances | None) -> p.CompiledProgram:
        self._body = apply_passes(replace(self.query, operator=operator))
        tree = self.builder.finished(self._plan_of_body(), query_forms.read_above(self.query))
        tree = query_forms.above(
            self.query, tree, self.builder.terms.id, lambda pattern: self.builder.finished(self.plan(pattern), set(TRIPLE))
        )
        blocks = self.builder.blocks()
        self._check_size(blocks)
        return p.CompiledProgram(
            id=identity,
            variables=tuple(name for name in query_forms.answer_variables(self.query) if name != INSTANCE.name),
            blocks=blocks,
            tree=tree,
            windows=self.query.windows,
            report=self.builder.report,
            operator=operator,
            store=self.builder.store_folder,
            scheme=self.builder.terms.scheme,
            output=self.query.output_stream,
            extensions=(*called_functions(self._body), *registered_families()),
            instances=instances,
            aside=tuple(self.builder.aside),
        )

    def _check_size(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            streams, relations = len(block.occurrences), len(block.occurrences) + len(block.statics)
            if streams * relations > MOST_JOINS:
                self.refuse(
                    f"the query is too large: it joins {streams} patterns of windows with one another and with {relations - streams} "
                    f"static relations, and each needs a plan of its own: their number times that of all may be at most {MOST_JOINS:,}"
                )

    def refuse(self, message: str) -> NoReturn:
        """Raises QueryError at the beginning of the text."""
        raise QueryError(message, self.query.text, *line_and_column(self.query.text, 0), self.query.file) from None

    # -------------------------------------------------------------- logical plans
    def _plan_of_body(self) -> LogicalPlan:
        """The query's plan. Its own projection hides no names from other patterns: the block below it stays as it is."""
        self.in_static = not moves(self._body)  # a static body has no block around it, and as a relation it would lose its order
        if isinstance(self._body, a.Project):
            inner, binds = strip_binds(self.plan(self._body.input))
            if isinstance(inner, LogicalBlock):
                return with_binds(inner, binds)
        return self.plan(self._body)

    def plan(self, pattern: a.Algebra) -> LogicalPlan:
        """The rewritten plan of a pattern. The largest static parts that are more than a block have been evaluated."""
        if self.in_static or moves(pattern):
            return self.rewrite(TRANSLATIONS[type(pattern)](pattern, self.plan, self.builder))
        self.in_static = True
        try:
            plan = self.plan(pattern)
            if isinstance(plan, LogicalBlock | p.ValuesNode):
                return plan
            return self.builder.evaluated(plan, _name_of_static(plan), set(self._mentions - mentions(pattern)))
        except PathsTooManyError:
            self.in_static = False
            return self.rewrite(TRANSLATIONS[type(pattern)](pattern, self.plan, self.builder))
        finally:
            self.in_static = False

    def plan_per_row(self, pattern: a.Algebra, outside: Set[str]) -> LogicalPlan:
        """The plan of a pattern that is evaluated per outside row: operators as written, down to patterns that are independent of it."""
        if separable(pattern, outside):
            return self.plan(pattern)
        below = outside & {v.name for v in pattern.variables} if isinstance(pattern, a.Project) else outside
        before, self.outside = self.outside, outside
        try:
            plan = TRANSLATIONS[type(pattern)](pattern, partial(self.plan_per_row, outside=below), self.builder)
            return apply_rules(plan, CORRELATED_RULES, self)
        finally:
            self.outside = before

    def rewrite(self, plan: LogicalPlan) -> LogicalPlan:
        """Applies the rules to an operator over inputs that are already rewritten."""
        return apply_rules(plan, RULES, self)

    def has_static_rows(self, block: LogicalBlock) -> bool:
        """Whether the static data alone give rows of a block that reads windows."""
        return self.builder.without_windows(block) is not None

    @cached_property
    def _mentions(self) -> Counter[str]:
        """How often the query names each variable."""
        return mentions(self._body)


def _name_of_static(plan: LogicalPlan) -> str:
    """A readable name for an evaluated static part: the kind of its top operator."""
    top = plan.node if isinstance(plan, LogicalOperator) else None
    return "union" if isinstance(top, p.UnionNode) else "path" if isinstance(top, p.ClosureNode) else "select"
