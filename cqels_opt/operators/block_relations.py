"""The relations of one block in one step: windows, static relations, units and filters, with the indexes in which they are probed.

Two components read them. In the executors :class:`~cqels_opt.operators.delta_join.DeltaJoin` evaluates whole plans over them. On the
driver the planner samples joins and counts fan-outs. This class is all that the planner uses of the executor's joins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from cqels_opt.operators.blocks import Block, BlockFilter, Static
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.expressions import truth
from cqels_opt.operators.interval_join import Indexed, as_rows
from cqels_opt.operators.multiway_join import JoinedRelation, fan_out, in_order
from cqels_opt.operators.outer_joins import with_unit
from cqels_opt.operators.rows import Ints, Rows
from cqels_opt.operators.term_table import TermTable
from cqels_opt.plans import DeltaRule, Multiway, Plan
from cqels_opt.plans.join_methods import REPLICATED, JoinMethod
from cqels_opt.plans.plan import relations
from cqels_opt.state.window_state import NamedContent, content
from cqels_opt.state.worker_cache import relation as static_relation
from cqels_opt.windows.intervals import FOREVER

Names = frozenset[str]
Span = tuple[int, int]
"""Times from one to another."""


class BlockRelations:
    """The relations of a block. ``source`` in the methods is the delta source whose term of the delta rule is read."""

    def __init__(self, block: Block, store: str, step: EvaluationStep, terms: TermTable, rule: DeltaRule) -> None:
        self.block, self.store, self.step, self.terms, self.rule = block, store, step, terms, rule
        self.occurrences = {o.name: o for o in block.occurrences}
        self.statics = {s.name: s for s in block.statics}
        self.variables: dict[str, Names] = {
            **{o.name: frozenset(o.binds) for o in block.occurrences},
            **{s.name: frozenset(s.binds) for s in block.statics},
            **{f.name: frozenset[str]() for f in block.filters},
        }
        in_turn = step.filters.get(block.name, ())
        self.filters = {
            f.name: f for f in sorted(block.filters, key=lambda f: in_turn.index(f.name) if f.name in in_turn else -1)
        }
        self._spans: dict[str, Span] = {}
        self._contents: dict[str, NamedContent] = {}
        self._indexed: dict[tuple[str, bool], list[Indexed]] = {}

    # ------------------------------------------------------------------ variables
    def bound(self, plan: Plan) -> Names:
        """The variables that a plan binds."""
        return frozenset(v for name in relations(plan) for v in self.variables[name])

    def is_unit(self, name: str) -> bool:
        """Whether a relation of a plan is a unit, or a filter that the plan has as an operator."""
        return name in self.filters or (name in self.statics and self.statics[name].kind != "inner")

    def needs(self, name: str) -> Names:
        """The variables that must be bound before a relation is joined."""
        if name in self.filters:
            return self.filters[name].variables
        unit = self.statics.get(name)
        return frozenset() if unit is None else frozenset(unit.on + unit.reads)

    def reads(self, name: str) -> Names:
        """The variables that the join with a relation of a plan binds or reads."""
        return self.variables[name] | self.needs(name)

    # ------------------------------------------------------------------ rows and indexes
    def delta(self, source: str) -> Rows:
        """The rows of this step of a delta source."""
        return self._content(source).new

    def delta_places(self, source: str) -> int:
        """The places of the rows of a delta; some may have a row that is never in the window."""
        return self._content(source).new_places

    def delta_at(self, source: str, places: Ints) -> Rows:
        """The rows of a delta at these places, which rise."""
        return self._content(source).new_at(places)

    def delta_share(self, source: str, part: int, parts: int) -> Rows:
        """One of a number of shares of a delta, not copied."""
        found = self._content(source)
        return found.new_between(*(found.new_places * number // parts for number in (part, part + 1)))

    def scan(self, name: str, source: str) -> Rows:
        """All rows of a relation as the term reads it."""
        if name in self.statics:
            return scan_static(self.statics[name], self.store)
        return self._content(name).rows(self._with_delta(name, source))

    def indexes(self, name: str, source: str) -> list[Indexed]:
        """The indexes in which a relation is probed: one of a static relation, one per run of a window, none of a filter."""
        if name in self.filters:
            return []
        key = name, self._with_delta(name, source)
        if (found := self._indexed.get(key)) is None:
            found = self._indexed[key] = indexes_of(self.block, self.store, self.step, *key)
        return found

    def _content(self, name: str) -> NamedContent:
        """The content of the windows of a stream pattern."""
        if (found := self._contents.get(name)) is None:
            found = self._contents[name] = content(self.occurrences[name], self.step)
        return found

    def fan_out(self, rows: Rows, variable: str, name: str, source: str) -> Ints:
        """How many rows of a relation each row matches on a variable, whatever their intervals."""
        return fan_out(rows, self.indexes(name, source), (variable,))

    def _with_delta(self, name: str, source: str) -> bool:
        """Whether the term reads the delta of a relation; ``source`` "" is the old content alone."""
        return bool(source) and name in self.rule.before(source)

    # ------------------------------------------------------------------ one operator
    def closing(self, plan: Multiway, bound: Names, source: str) -> list[JoinedRelation]:
        """The relations that a multiway join adds to rows that bind some variables."""
        own = [self.variables[name] for name in plan.relations]
        verified = bound | frozenset.intersection(*own)  # a relation may also bind the times of its elements
        return [
            JoinedRelation(self.indexes(name, source), sorted(variables & bound), sorted(variables & verified))
            for name, variables in zip(plan.relations, own)
        ]

    def joined(
        self, left: Rows, name: str, on: Sequence[str], sides: Sequence[Indexed], method: JoinMethod = REPLICATED
    ) -> Iterator[Rows]:
        """The left rows joined with a relation, or under a unit of the block."""
        if name in self.filters:
            yield self.passed(left, self.filters[name])
        elif self.is_unit(name):
            yield from with_unit(left, self.statics[name], sides[0], self.terms)
        else:
            left = in_order(left, sides, on)
            for side in sides:
                yield from method.join(left, side, on)

    def meeting(self, rows: Rows, source: str, span: Span | None = None) -> Rows:
        """The rows that some row of the source's delta can meet, and that had not expired when the step's delta began.

        ``span`` is that of some rows of the delta, if only these are joined.
        """
        if span is None:
            span = self._spans.get(source) or self._spans.setdefault(source, self._span(source))
        begin, end = span
        return rows.take((rows.end > begin) & (rows.start < end))

    def span_of(self, delta: Rows) -> Span:
        """The times during which rows can meet one of these rows of a delta."""
        if not len(delta):
            return int(self.step.ended), int(FOREVER)
        return max(int(self.step.ended), int(delta.start.min())), int(delta.end.max())

    def _span(self, source: str) -> Span:
        if source not in self.occurrences:
            return int(self.step.ended), int(FOREVER)
        return self.span_of(self.delta(source))

    def filtered(self, rows: Rows, before: Names, after: Names, placed: Collection[str] = (), built: Names = frozenset()) -> Rows:
        """The rows under the filters whose variables an operator binds, without those that the plan has ``placed`` as operators.

        ``before`` are the variables bound on the left, ``built`` those of a bushy part on the right: filters over either have been
        evaluated there.
        """
        for f in self.filters.values():
            done = before and (f.variables <= before or f.variables <= built)
            if f.variables <= after and not done and len(rows) and f.name not in placed:
                rows = self.passed(rows, f)
        return rows

    def passed(self, rows: Rows, f: BlockFilter) -> Rows:
        """The rows under one filter."""
        return rows.take(truth(rows, f.condition, self.terms))


def indexes_of(block: Block, store: str, step: EvaluationStep, name: str, with_delta: bool) -> list[Indexed]:
    """The indexes of a relation: of a static one its own, of a window one per run of its old (and new) content."""
    for static in block.statics:
        if static.name == name:
            return [Indexed.of_static(static_relation(store, static.at), static.variables)]
    return content(next(o for o in block.occurrences if o.name == name), step).indexed(with_delta)


def scan_static(static: Static, store: str) -> Rows:
    """All rows of a static relation."""
    return as_rows(static_relation(store, static.at), static.variables)
