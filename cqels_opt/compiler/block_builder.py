"""From a logical plan to the blocks and operators of a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, count
from pathlib import Path
from typing import Final

import numpy as np

from cqels_opt.compiler.logical_blocks import (
    LogicalBlock,
    LogicalOperator,
    LogicalPlan,
    pattern_variables,
    windows_of,
    without_units,
)
from cqels_opt.compiler.pattern_occurrences import shape_of
from cqels_opt.compiler.plan_variables import mentioned
from cqels_opt.compiler.query_terms import KnownIds, QueryTerms
from cqels_opt.compiler.static_relations import StaticRelations, relation_of
from cqels_opt.compiler.static_subpatterns import StaticPart, choose_parts, name_of, numbered
from cqels_opt.compiler.view_maintenance import ViewMaintenance
from cqels_opt.errors import InputError
from cqels_opt.lod.open_store import open_store
from cqels_opt.operators import compiled_query as p
from cqels_opt.operators.algebra.operator import evaluate
from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.blocks import Block, BlockFilter, PatternOccurrence, Static
from cqels_opt.operators.evaluation_step import NO_INSTANT
from cqels_opt.operators.rows import is_nameable
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import seeded
from cqels_opt.query.scope import variables as read_by
from cqels_opt.windows.binding_slots import Shape
from cqels_opt.windows.instants import Report
from cqels_opt.windows.kinds import kind_of

PAGE: Final = "terms.arrow"
"""The file of the terms that a program adds to those of the store."""

PAIRS = 1 << 21
"""A static path with more pairs of ends is evaluated at run time, from the ends that the query needs."""


class BlockBuilder:
    """Makes the blocks of one query over one static store. ``folder`` takes the static relations that this computes.

    ``budget`` limits the bytes of the sub-results of each block. With ``late_binds`` a BIND whose variable is not read is left out.
    Relations in the ``shared`` folder are shared with other queries. ``maintenance`` has the sub-results over the store's previous version.
    """

    def __init__(
        self,
        query: a.Query,
        store: str,
        folder: Path,
        report: Report,
        *,
        distinct: bool,
        budget: int,
        late_binds: bool,
        shared: Path | None,
        maintenance: ViewMaintenance | None,
        known: KnownIds,
    ) -> None:
        self.store_folder, self.report, self.distinct = store, report, distinct
        self.windows = {w.name: w for w in query.windows}
        self.store = open_store(store)
        self.terms = QueryTerms(self.store, known)
        self.statics = StaticRelations(self.store, self.terms, folder, shared, maintenance)
        self.aside: dict[Shape, None] = {}  # see :attr:`CompiledProgram.aside`
        self._folder, self._budget, self._late_binds, self._maintenance = folder, budget, late_binds, maintenance
        self._blocks: list[Block] = []
        # per block: what its designs are made of, and the variables read
        self._bases: list[tuple[list[StaticPart], set[str]]] = []
        self._names = Counter[str]()
        self._fresh = count()

    def fresh_number(self) -> int:
        """A number that no other name of the program has."""
        return next(self._fresh)

    def set_aside(self, pattern: a.TriplePattern, source: a.InWindow | a.Merged) -> None:
        """Keeps the slots of a pattern that the static data match now, for other versions of these data."""
        graph = a.graph_in(source)
        self.aside |= dict.fromkeys(self._shape(pattern, window, graph)[0] for window in windows_of(source))

    def blocks(self) -> tuple[Block, ...]:
        """The blocks, once all logical blocks are finished. Saves the terms that the program adds to those of the store."""
        found = tuple(self._with_bases(block, *bases) for block, bases in zip(self._blocks, self._bases))
        self.terms.save(self._folder / PAGE, self.store)
        self.statics.save_recipes()
        return found

    # -------------------------------------------------------------- plans -> trees
    def finished(self, plan: LogicalPlan, outside: set[str]) -> p.Tree:
        """The tree with every logical block as a block or a static relation. ``outside``: the variables that are read above."""
        if isinstance(plan, LogicalBlock):
            return self._finished_block(plan, outside)
        if not isinstance(plan, LogicalOperator):
            return plan
        if self._late_binds and isinstance(plan.node, p.ExtendNode) and plan.node.variable not in outside:
            return self.finished(plan.inputs[0], outside)
        inputs = []
        for i, part in enumerate(plan.inputs):
            others = set().union(*(mentioned(x) for j, x in enumerate(plan.inputs) if j != i))
            inputs.append(self.finished(part, outside | others | plan.node.own_variables | _whole_row(plan.node, part)))
        return plan.node.with_inputs(inputs)

    def _finished_block(self, block: LogicalBlock, outside: set[str]) -> p.Tree:
        if not block.patterns and not block.statics:
            unit: p.Tree = p.ValuesNode((), ((),))
            for condition in block.filters:
                unit = p.FilterNode(unit, condition)
            return unit
        if not block.moving and block.units:
            apart = without_units(block)
            return self.finished(self.evaluated(apart, "select", outside) if self.store.counted else apart, outside)
        if not block.moving:
            return p.StaticNode(self._static(self.statics.evaluated(block, outside), "static"))
        found = self._block(block, outside)
        static = self.without_windows(block)
        return found if static is None else p.UnionNode((found, self._finished_block(static, outside)))

    def without_windows(self, block: LogicalBlock) -> LogicalBlock | None:
        """The block over the static data alone: its rows that no delta brings. None where it has no such rows."""
        found: list[tuple[a.TriplePattern, a.Source]] = []
        for pattern, source in block.patterns:
            if isinstance(source, a.InWindow):
                return None
            if isinstance(source, a.Merged) and not self.statics.rows(pattern, source.default):
                return None
            found.append((pattern, source.default if isinstance(source, a.Merged) else source))
        return replace(block, patterns=found) if block.moving else None

    def evaluated(self, plan: LogicalPlan, name: str, needed: set[str]) -> LogicalPlan:
        """A static plan, evaluated for the ``needed`` variables; a block where the rows bind these variables always."""
        if not self.store.counted:
            raise InputError(
                f"the query evaluates a {name} over static data beforehand, whose size no description tells: load the data, and explain it "
                "over the store"
            )
        tree = self.finished(plan, needed)
        instants = np.array([NO_INSTANT, 0], np.int64)
        scope = Scope({}, self.store_folder, self.terms, instants, 1, {}, most=PAIRS)
        part = StaticPart(name, relation_of(evaluate(tree, scope), needed), None, 0)
        if all((column != 0).all() for column in part.relation.columns.values()):
            return LogicalBlock(statics=[part])
        return p.StaticNode(replace(self._static(part, name), partial=True))

    # -------------------------------------------------------------- blocks
    def _block(self, block: LogicalBlock, outside: set[str]) -> p.Tree:
        number = len(self._blocks)
        name = f"b{number}"
        moving = [(pattern, source) for pattern, source in block.patterns if isinstance(source, a.InWindow | a.Merged)]
        filters = tuple(
            BlockFilter(f"{name}.filter{i}", condition, frozenset(read_by(condition)))
            for i, condition in enumerate(block.filters)
        )
        dynamic = {v for pattern, _ in moving for v in pattern_variables(pattern, a.DefaultGraph())}
        needed = (outside | dynamic).union(*(f.variables for f in filters), *(unit.needs for unit in block.units))
        bases = parts = self.statics.parts(block)
        if self.store.counted:  # over a description without data, the sizes of sub-results are unknown
            bases = numbered(bases, needed)
            parts = choose_parts(bases, needed, self._budget, self._maintenance)
        self._bases.append((bases, needed))
        self._blocks.append(Block(name, (), (), (), ()))  # takes the number before names are given
        counts = Counter(windows_of(source) for _, source in moving)
        occurrences = tuple(self._occurrence(pattern, source, counts[windows_of(source)] > 1) for pattern, source in moving)
        units = [self.statics.of_unit(unit, needed) for unit in block.units]
        repeated = _repeated([*parts, *units])
        inner = [self._static(part, part.name, part.name in repeated) for part in parts]
        outer = [
            replace(
                self._static(part, part.name, part.name in repeated),
                kind=unit.kind,
                on=tuple(sorted(unit.on)),
                reads=tuple(sorted(unit.reads)),
                condition=unit.condition,
            )
            for unit, part in zip(block.units, units)
        ]
        statics = (*inner, *outer)
        output = tuple(sorted(block.variables & outside))
        written = (*(o.name for o in occurrences), *(s.name for s in statics))
        self._blocks[number] = Block(name, occurrences, statics, filters, output, written)
        return p.BlockNode(name)

    def _with_bases(self, block: Block, bases: list[StaticPart], needed: set[str]) -> Block:
        """The block with the relations that other designs are made of. They get names last, so that those of the first design stay."""
        joinable = any(set(x.relation.variables) & set(y.relation.variables) for x, y in combinations(bases, 2))
        if not self.store.counted or not joinable:
            return block
        there = {static.of: static for static in block.inner}
        repeated = _repeated(bases)
        found = tuple(there.get(x.of) or self._static(x, x.name, x.name in repeated) for x in bases)
        read = frozenset(needed & {v for x in found for v in x.variables})
        return replace(block, parts=found, needed=read, budget=self._budget)

    def _occurrence(self, pattern: a.TriplePattern, source: a.InWindow | a.Merged, several: bool) -> PatternOccurrence:
        windows = windows_of(source)
        name = self._unique("+".join(windows), several)
        time = source.time.name if isinstance(source, a.InWindow) and source.time is not None else ""
        counted = any(kind_of(self.windows[window]).counts_elements for window in windows)
        as_set = self.distinct and not time and not counted

        def within(window: str) -> PatternOccurrence:
            shape, variables = self._shape(pattern, window, a.graph_in(source))
            return PatternOccurrence(name, self.windows[window], self.report.origin(window), shape, variables, as_set)

        first, *others = map(within, windows)
        if not isinstance(source, a.Merged):
            return replace(first, time=time)
        part = self.statics.part(pattern, source.default)
        static = self._static(part, name_of(pattern.p)) if part.relation.rows else None
        return replace(first, others=tuple(others), static=static, store=self.store_folder if static else "")

    def _shape(self, pattern: a.TriplePattern, window: str, graph: a.Node | None) -> tuple[Shape, tuple[str, ...]]:
        return shape_of(pattern, graph, self.windows[window].stream, self.terms.id)

    def _static(self, part: StaticPart, name: str, numbered: bool = False) -> Static:
        at = self.statics.saved(part)
        variables = tuple(part.relation.variables)
        return Static(self._unique(name, numbered), variables, at, part.relation.rows, part.patterns, of=part.of)

    def _unique(self, name: str, numbered: bool) -> str:
        self._names[name] += 1
        return f"{name}#{self._names[name]}" if numbered or self._names[name] > 1 else name


def _repeated(parts: Sequence[StaticPart]) -> set[str]:
    """The names that several parts have."""
    return {name for name, number in Counter(part.name for part in parts).items() if number > 1}


def _whole_row(node: p.Tree, below: LogicalPlan) -> set[str]:
    """The variables that RAND(), BNODE() and their like depend on, where the operator calls one: all that a query can write."""
    if not any(map(seeded, (*node.conditions, *node.values))):
        return set()
    return {v for v in mentioned(below) if is_nameable(v)}
