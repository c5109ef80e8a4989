"""From the algebra to a program: blocks of inner joins below, everything else above them (DESIGN §3, "registration").

A *draft* is a block in the making: patterns, static relations and filters that are joined, and *units*: static right sides of an
OPTIONAL, MINUS or EXISTS, which the optimizer places like any other relation. Joins merge drafts, a UNION is drawn above the joins
around it, a sub-select without aggregates melts into its surroundings, and whatever is static and more than a draft is evaluated
once, here. What cannot be drafted stays above as an operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from cqels_opt.compiler.bind_pullup import bound, lifted, projected, stands_above, strip_binds, without
from cqels_opt.compiler.block_builder import NOTHING_KNOWN, BlockBuilder, KnownIds
from cqels_opt.compiler.decorrelation import separable
from cqels_opt.compiler.logical_blocks import (
    Above,
    LogicalBlock,
    Normal,
    branches,
    conjuncts,
    mentioned,
    merged,
    pattern_variables,
    union,
    windows_of,
    with_unit,
)
from cqels_opt.compiler.static_subpatterns import BYTES_BUDGET
from cqels_opt.compiler.timestamps import latest, stamps
from cqels_opt.compiler.variable_usage import conjunction, counts_whole_rows, exists_in, mentions, moves, written_in
from cqels_opt.compiler.view_maintenance import ViewMaintenance
from cqels_opt.errors import QueryError
from cqels_opt.operators import compiled_query as p
from cqels_opt.operators import query_forms
from cqels_opt.operators.rows import HIDDEN
from cqels_opt.operators.stream_operators import stream_operator
from cqels_opt.operators.transitive_closure import PathsTooManyError
from cqels_opt.plans import JoinKind
from cqels_opt.query import algebra as a
from cqels_opt.query.extensions import given_functions
from cqels_opt.query.graphs import within
from cqels_opt.query.reading import line_and_column
from cqels_opt.query.scope import seeded, uses_now
from cqels_opt.query.scope import variables as read_by
from cqels_opt.query.templates import INSTANCE
from cqels_opt.query.uncertainty.families import given_families
from cqels_opt.query.visible import visible
from cqels_opt.windows.instants import Report
from cqels_opt.windows.kinds import kind_of

BRANCHES = 16  # more UNION branches than this are joined above instead of each being planned


MOST_JOINS = 10_000
"""Patterns of windows times all relations that one block may join: 100 patterns have 100 plans of 100 operators."""


class Compiler:
    """Compiles one query over one static store. ``folder`` takes the static relations that are made on the way.

    ``budget`` bounds the bytes of the sub-results of each block. Without ``lazy`` each BIND is evaluated where it is written. Of relations
    in the ``shared`` folder those of other queries are used. ``upkeep`` knows the sub-results over the version of the store before.
    """

    def __init__(
        self,
        query: a.Query,
        store: str,
        folder: Path,
        report: Report,
        distinct: bool = False,
        budget: int = BYTES_BUDGET,
        lazy: bool = True,
        shared: Path | None = None,
        upkeep: ViewMaintenance | None = None,
        known: KnownIds = NOTHING_KNOWN,
    ) -> None:
        if query.dataset is not None:
            query = replace(query, body=within(query.body, query.dataset.named))
        self.query, self.lazy = query, lazy
        self.building = BlockBuilder(query, store, folder, report, distinct, budget, lazy, shared, upkeep, known)
        self.fresh = 0
        self._in_static = False
        self._outside: set[str] = set()  # what rows outside the pattern in hand bind, which is evaluated for each of them
        self._told: set[int] = set()  # ORDER BYs whose order shows

    def compile(self, identity: str, operator: str, instances: p.Instances | None = None) -> p.CompiledProgram:
        """The program. Sub-results are saved, with the terms that were made for them."""
        try:
            return self._compiled(identity, operator, instances)
        except RecursionError:
            message = "the query is too large: too many UNIONs, OPTIONALs, BINDs or groups follow or hold one another"
            raise QueryError(message, self.query.text, 1, 1, self.query.file) from None

    def _check_size(self, blocks: Sequence[p.Block]) -> None:
        for block in blocks:
            streams, all_of_them = len(block.occurrences), len(block.occurrences) + len(block.statics)
            if streams * all_of_them > MOST_JOINS:
                raise QueryError(
                    f"the query is too large: it joins {streams} patterns of windows with one another and with {all_of_them - streams} "
                    f"static relations, and each needs a plan of its own: their number times that of all may be at most {MOST_JOINS:,}",
                    self.query.text,
                    1,
                    1,
                    self.query.file,
                )

    @cached_property
    def _mentions(self) -> Counter[str]:
        """How often each variable is named in the query."""
        return mentions(self.query.body)

    def _compiled(self, identity: str, operator: str, instances: p.Instances | None) -> p.CompiledProgram:
        if stream_operator(operator).whole and self.query.form is None:
            self._tell(self.query.body)
        normal = self._top(query_forms.body(self.query))
        tree = self.building.finished(normal, query_forms.read_above(self.query))
        tree = query_forms.above(self.query, tree, lambda term: self.building.terms.id(term), self._graph_of_triples)
        blocks = self.building.blocks()
        self._check_size(blocks)
        return p.CompiledProgram(
            identity,
            tuple(name for name in query_forms.answer_variables(self.query) if name != INSTANCE.name),
            blocks,
            tree,
            self.query.windows,
            self.building.report,
            operator,
            self.building.store_folder,
            self.building.terms.scheme,
            f"<{self.query.output.strip('<>')}>" if self.query.output else None,
            (*given_functions(), *given_families()),
            instances,
            tuple(self.building.aside),
        )

    def _graph_of_triples(self, pattern: a.Algebra) -> p.Tree:
        """All triples that a pattern of them matches."""
        return self.building.finished(self.normal(pattern), set(p.TRIPLE))

    # -------------------------------------------------------------- algebra -> drafts and operators above them
    def _top(self, body: a.Algebra) -> Normal:
        """The query's own projection hides no names from anyone: its draft stays as it is."""
        # A body that never moves has nothing around it: as one relation it would lose its order.
        self._in_static = not moves(body)
        if isinstance(body, a.Project):
            inner, binds = strip_binds(self.normal(body.input))
            if isinstance(inner, LogicalBlock):
                return bound(inner, binds)
        return self.normal(body)

    def normal(self, node: a.Algebra) -> Normal:
        """A node with its joins gathered; the largest static parts that are more than a draft have been evaluated."""
        if self._in_static or moves(node):
            return self._normal(node)
        self._in_static = True
        try:
            found = self._normal(node)
            if isinstance(found, LogicalBlock | p.ValuesNode):
                return found
            top = found.node if isinstance(found, Above) else None
            name = "union" if isinstance(top, p.UnionNode) else "path" if isinstance(top, p.ClosureNode) else "select"
            return self.building.evaluated(found, name, set(self._mentions - mentions(node)))
        except PathsTooManyError:
            self._in_static = False
            return self._normal(node)
        finally:
            self._in_static = False

    def _normal(self, node: a.Algebra) -> Normal:
        match node:
            case a.Bgp((), a.NamedGraph(name)):
                return LogicalBlock(statics=[self.building.named_graphs(name)])
            case a.Bgp((), a.InWindow(_, name) as source) if name is not None:
                return self._element_graphs(name, source)
            case a.Bgp(patterns, source):
                return self._matched(patterns, source)
            case a.Closure():
                return self._closure(node)
            case a.Join(left, right):
                return self._join(self.normal(left), self.normal(right))
            case a.Union(left, right):
                return union([self.normal(left), self.normal(right)])
            case a.Filter(inner, condition):
                return self._filter(self.normal(inner), condition)
            case a.Extend(inner, variable, expression):
                below, expression = self._exists(self.normal(inner), expression)
                return Above(p.ExtendNode(_HOLE, variable.name, expression), [below])
            case a.LeftJoin(left, right, condition):
                one, other = self.normal(left), self.normal(right)
                placed = None if condition is not None and stamps(condition) else self._unit("optional", one, other, condition)
                return placed or self._optional(one, other, condition)
            case a.Minus(left, right, apart):
                one, other = self.normal(left), self.normal(right)
                if isinstance(one, LogicalBlock) and isinstance(other, LogicalBlock) and not one.variables & other.variables:
                    return one  # nothing in common: nothing is removed
                placed = self._unit("anti", one, other) if not apart else None
                return placed or Above(p.MinusNode(_HOLE, _HOLE, tuple(v.name for v in apart)), [one, other])
            case a.Values((first, *_) as variables, rows) if first == INSTANCE:
                return LogicalBlock(statics=[self.building.inline("instances", [v.name for v in variables], rows)])
            case a.Values(variables, rows):
                names = tuple(v.name for v in variables)
                ids = self.building.terms.ids([term for row in rows for term in row]).reshape(len(rows), len(names))
                return p.ValuesNode(names, tuple(map(tuple, ids.tolist())))
            case a.Group(inner):
                return self._group(node, self.normal(inner))
            case a.Project(inner, variables):
                return self._project(self.normal(inner), [v.name for v in variables])
            case a.Distinct(inner):
                return Above(p.DistinctNode(_HOLE, tuple(v.name for v in visible(inner))), [self.normal(inner)])
            case a.OrderBy(inner):
                if id(node) not in self._told:  # nobody can tell the order
                    return self.normal(inner)
                return self._ordered(node, self.normal(inner))
            case a.Slice(inner, offset, limit, each):
                self._tell(inner)
                return Above(
                    p.OrderNode(_HOLE, (), offset, limit, written_in(inner), tuple(v.name for v in each)), [self.normal(inner)]
                )
        self._refuse(f"{type(node).__name__} is not supported yet", 0)

    def _closure(self, node: a.Closure) -> Normal:
        """A path of repeated steps stays above its steps."""
        graph = a.graph_in(node.source)
        start, end = (
            n.name if isinstance(n, a.Variable) else int(self.building.terms.ids([n])[0]) for n in (node.start, node.end)
        )
        above = p.ClosureNode(
            _HOLE,
            None,
            node.here.name,
            node.there.name,
            start,
            end,
            graph.name if isinstance(graph, a.Variable) else None,
            node.many,
        )
        return Above(above, [self.normal(part) for part in (node.step, node.nodes) if part is not None])

    def _matched(self, patterns: Sequence[a.TriplePattern], source: a.Source) -> Normal:
        """The patterns of one source. Where they are matched as a set in windows of the last n elements, whose ends hang on later
        elements, the bag is joined, and each match counts once."""
        if not isinstance(source, a.InWindow | a.Merged):
            return LogicalBlock([part for pattern in patterns for part in self.building.taken_apart(pattern, source)])
        if not self.building.distinct:
            return LogicalBlock([(pattern, source) for pattern in patterns])
        draft = LogicalBlock([(pattern, self._settled(pattern, source)) for pattern in patterns])
        if draft.moving and any(kind_of(self.building.windows[name]).counts_elements for name in windows_of(source)):
            return Above(p.DistinctNode(_HOLE, tuple(sorted(draft.variables))), [draft])
        return draft

    def _settled(self, pattern: a.TriplePattern, source: a.InWindow | a.Merged) -> a.Source:
        """A triple without variables that is static is there always: in a set nothing in the windows adds to it."""
        if (
            isinstance(source, a.Merged)
            and not pattern_variables(pattern, source)
            and self.building.static_rows(pattern, source.default)
        ):
            self.building.set_aside(pattern, source)
            return source.default
        return source

    def _element_graphs(self, name: a.Node, source: a.InWindow) -> Normal:
        """``GRAPH name {}`` in a window: the names of its elements' graphs, each once at a time, or whether this one is there."""
        self.fresh += 1
        anything = a.TriplePattern(*(a.Variable(f"_:{place}~{self.fresh - 1}") for place in "spo"))
        names = (name.name,) if isinstance(name, a.Variable) else ()
        return Above(p.DistinctNode(_HOLE, names), [LogicalBlock([(anything, source)])])

    def _refuse(self, message: str, place: int) -> NoReturn:
        """QueryError at a character of the text."""
        raise QueryError(message, self.query.text, *line_and_column(self.query.text, place), self.query.file)

    def _tell(self, node: a.Algebra) -> None:
        """The order of this part's rows shows: in a snapshot, or in what LIMIT and OFFSET leave."""
        while isinstance(node, a.Project | a.Distinct):
            node = node.input
        if isinstance(node, a.OrderBy):
            self._told.add(id(node))

    def _join(self, left: Normal, right: Normal) -> Normal:
        if isinstance(left, LogicalBlock) and isinstance(right, LogicalBlock) and (both := merged(left, right)) is not None:
            return both
        (left_below, early), (right_below, late) = lifted(left, right), lifted(right, left)
        if self.lazy and (early or late):
            return bound(self._join(left_below, right_below), [*early, *late])
        if stands_above(left, mentioned(right)):
            return replace(left, inputs=[self._join(left.inputs[0], right), *left.inputs[1:]])
        if stands_above(right, mentioned(left)):
            return replace(right, inputs=[self._join(left, right.inputs[0]), *right.inputs[1:]])
        for one, other in ((left, right), (right, left)):
            if (
                isinstance(one, Above)
                and isinstance(one.node, p.UnionNode)
                and len(branches(other)) * len(one.inputs) <= BRANCHES
            ):
                parts = [self._join(x, y) if one is left else self._join(y, x) for x in one.inputs for y in branches(other)]
                return union(parts)
        if isinstance(left, Above) and isinstance(left.node, p.ClosureNode):
            left, right = right, left  # paths are looked for from what the other side has
        return Above(p.JoinNode(_HOLE, _HOLE), [left, right])

    def _unit(self, kind: JoinKind, left: Normal, right: Normal, condition: a.Expression | None = None) -> Normal | None:
        """The left side with the right one as a unit, within each branch of a UNION and below the BINDs that do not mind; else None."""
        if self._in_static or not isinstance(right, LogicalBlock):
            return None
        if isinstance(left, Above) and isinstance(left.node, p.UnionNode):
            parts = [self._unit(kind, branch, right, condition) for branch in left.inputs]
            return union(part for part in parts if part is not None) if None not in parts else None
        named = mentioned(right) | (read_by(condition) if condition is not None else set())
        if stands_above(left, named):
            below = self._unit(kind, left.inputs[0], right, condition)
            return None if below is None else replace(left, inputs=[below, *left.inputs[1:]])
        base, binds = lifted(left, right)
        if (
            not isinstance(base, LogicalBlock)
            or self.building.without_windows(base) is not None
            or (condition is not None and {v for v, _ in binds} & read_by(condition))
        ):
            return None
        found = with_unit(base, kind, right, conjuncts(condition))
        return None if found is None else bound(found, binds)

    def _filter(self, inner: Normal, condition: a.Expression) -> Normal:
        if isinstance(condition, a.Call) and condition.function == "&&":
            for part in condition.arguments:
                inner = self._filter(inner, part)
            return inner
        plain = not exists_in(condition) and not uses_now(condition)
        if isinstance(inner, LogicalBlock) and plain and read_by(condition) <= inner.variables:
            return replace(inner, filters=[*inner.filters, condition])
        if isinstance(inner, Above) and isinstance(inner.node, p.UnionNode) and not exists_in(condition):
            return union([self._filter(part, condition) for part in inner.inputs])
        if plain and not seeded(condition) and stands_above(inner, set(read_by(condition))):
            return replace(inner, inputs=[self._filter(inner.inputs[0], condition), *inner.inputs[1:]])
        if isinstance(inner, Above) and isinstance(inner.node, p.ExtendNode):
            bind = (inner.node.variable, inner.node.expression)
            below = without(condition, bind) if self.lazy else None
            if below is not None and (below is condition or plain):
                return bound(self._filter(inner.inputs[0], below), [bind])
        if (test := _existence(condition)) is not None and not moves(test.pattern):
            pattern, within = _opened(test.pattern)
            if separable(pattern, mentioned(inner)) and not any(map(stamps, within)):
                found = self._unit("anti" if test.negated else "semi", inner, self.normal(pattern), conjunction(within))
                if found is not None:
                    return found
        inner, condition = self._exists(inner, condition)
        return Above(p.FilterNode(_HOLE, condition), [inner])

    def _exists(self, inner: Normal, expression: a.Expression) -> tuple[Normal, a.Expression]:
        """Each EXISTS of an expression becomes a column of the input that says yes or no, and each timestamp() one that has the time."""
        match expression:
            case a.Call(a.TIMESTAMP, arguments):
                return self._stamped(inner, arguments)
            case a.Exists():
                outside = mentioned(inner) | self._outside
                flag, (node, pattern) = self._flag(), self._test(expression, outside)
                variable: a.Expression = a.Variable(flag)
                return Above(replace(node, flag=flag), [inner, pattern]), (
                    a.Call("!", (variable,)) if expression.negated else variable
                )
            case a.Call(function, arguments):
                changed = []
                for argument in arguments:
                    inner, new = self._exists(inner, argument)
                    changed.append(new)
                return inner, a.Call(function, tuple(changed))
        return inner, expression

    def _flag(self) -> str:
        self.fresh += 1
        return f"{HIDDEN}exists{self.fresh - 1}"

    def _test(self, test: a.Exists, outside: set[str], each: bool = False) -> tuple[p.ExistsNode, Normal]:
        """An EXISTS and its pattern: joined with the outside's rows where that is the same, else (or with ``each``) evaluated for each."""
        pattern, conditions = _opened(test.pattern)
        alone = separable(pattern, outside) and not any(exists_in(c) is not None or stamps(c) for c in conditions)
        if alone and not each:
            return p.ExistsNode(_HOLE, _HOLE, conjunction(conditions), ""), self.normal(pattern)
        return p.ExistsNode(_HOLE, _HOLE, None, "", tuple(sorted(read_by(test)))), self._for_each(test.pattern, outside)

    def _for_each(self, node: a.Algebra, outside: set[str]) -> Normal:
        """A pattern that is evaluated for each row of the outside, operator by operator down to what is separable."""
        if separable(node, outside):
            return self.normal(node)
        before, self._outside = self._outside, outside
        try:
            return self._each(node, outside)
        finally:
            self._outside = before

    def _each(self, node: a.Algebra, outside: set[str]) -> Normal:
        match node:
            case a.Join(left, right):
                return Above(p.JoinNode(_HOLE, _HOLE), [self._for_each(left, outside), self._for_each(right, outside)])
            case a.Union(left, right):
                return union([self._for_each(left, outside), self._for_each(right, outside)])
            case a.Filter(inner, condition):
                below, condition = self._exists(self._for_each(inner, outside), condition)
                return Above(p.FilterNode(_HOLE, condition), [below])
            case a.Extend(inner, variable, expression):
                below, expression = self._exists(self._for_each(inner, outside), expression)
                return Above(p.ExtendNode(_HOLE, variable.name, expression), [below])
            case a.LeftJoin(left, right, condition):
                return self._optional(self._for_each(left, outside), self._for_each(right, outside), condition)
            case a.Minus(left, right, apart):
                names = tuple(v.name for v in apart)
                return Above(p.MinusNode(_HOLE, _HOLE, names), [self._for_each(left, outside), self._for_each(right, outside)])
            case a.Project(inner, variables):
                names = tuple(v.name for v in variables)
                return Above(p.ProjectNode(_HOLE, names), [self._for_each(inner, outside & set(names))])
            case a.Distinct(inner):
                return Above(p.DistinctNode(_HOLE, tuple(v.name for v in visible(inner))), [self._for_each(inner, outside)])
            case a.Group(inner):
                return self._group(node, self._for_each(inner, outside))
            case a.OrderBy(inner):
                return self._ordered(node, self._for_each(inner, outside))
            case a.Slice(inner, offset, limit, each):
                return Above(
                    p.OrderNode(_HOLE, (), offset, limit, written_in(inner), tuple(v.name for v in each)),
                    [self._for_each(inner, outside)],
                )
        raise AssertionError(node)  # all others are separable

    def _optional(self, one: Normal, other: Normal, condition: a.Expression | None) -> Normal:
        """OPTIONAL above its sides; each EXISTS of its condition is evaluated for the joined rows."""
        tests: list[tuple[p.ExistsNode, Normal]] = []
        outside = mentioned(one) | mentioned(other) | self._outside

        def flagged(expression: a.Expression) -> a.Expression:
            if isinstance(expression, a.Call) and expression.function == a.TIMESTAMP:
                tests.append(self._times(expression.arguments))
                return a.Variable(tests[-1][0].flag)
            if isinstance(expression, a.Exists):
                node, pattern = self._test(expression, outside, each=True)
                tests.append((replace(node, flag=self._flag()), pattern))
                variable = a.Variable(tests[-1][0].flag)
                return a.Call("!", (variable,)) if expression.negated else variable
            if isinstance(expression, a.Call):
                return a.Call(expression.function, tuple(map(flagged, expression.arguments)))
            return expression

        condition = None if condition is None else flagged(condition)
        node = p.LeftJoinNode(_HOLE, _HOLE, condition, tuple(test for test, _ in tests))
        return Above(node, [one, other, *(pattern for _, pattern in tests)])

    def _group(self, node: a.Group, below: Normal) -> Normal:
        named = []
        for variable, spec in node.aggregates:
            if spec.argument is not None:
                below, argument = self._exists(below, spec.argument)
                spec = replace(spec, argument=argument)
            named.append((variable.name, spec))
        whole = written_in(node.input) if counts_whole_rows(node) else ()
        return Above(p.GroupNode(_HOLE, tuple(k.name for k in node.keys), tuple(named), node.implicit, whole), [below])

    def _ordered(self, node: a.OrderBy, below: Normal) -> Normal:
        keys = []
        for expression, descending in node.keys:
            below, expression = self._exists(below, expression)
            keys.append((expression, descending))
        return Above(p.OrderNode(_HOLE, tuple(keys), 0, None, written_in(node.input)), [below])

    def _stamped(self, inner: Normal, arguments: Sequence[a.Expression]) -> tuple[Normal, a.Expression]:
        """The time of a triple as one more column of the input, unbound where no window holds the triple."""
        node, times = self._times(arguments)
        return Above(node, [inner, times]), a.Variable(node.flag)

    def _times(self, arguments: Sequence[a.Expression]) -> tuple[p.StampNode, Normal]:
        """What looks up the time of a triple, and the times of all triples that may be looked up."""
        if not self.building.windows:
            self._refuse("timestamp() needs a stream: declare it with FROM STREAM", 0)
        self.fresh += 1
        times, keys, found = latest(arguments, list(self.building.windows), self.fresh - 1)
        return p.StampNode(_HOLE, _HOLE, None, f"{HIDDEN}{found.name}", None, keys, found.name), times

    def _project(self, inner: Normal, variables: list[str]) -> Normal:
        """A projection of a draft is a draft whose other variables have names that no one else knows."""
        base, binds = strip_binds(inner)
        if not isinstance(base, LogicalBlock) or any(seeded(expression) for _, expression in binds):
            return Above(p.ProjectNode(_HOLE, tuple(variables)), [inner])
        self.fresh += 1
        return projected(base, binds, variables, f"~{self.fresh - 1}")


_HOLE = p.ValuesNode((), ())


def _existence(condition: a.Expression) -> a.Exists | None:
    """The condition, if it is EXISTS or NOT EXISTS and nothing else."""
    if isinstance(condition, a.Call) and condition.function == "!" and isinstance(test := condition.arguments[0], a.Exists):
        return replace(test, negated=not test.negated)
    return condition if isinstance(condition, a.Exists) else None


def _opened(pattern: a.Algebra) -> tuple[a.Algebra, list[a.Expression]]:
    """A pattern without the filters at its top, and those."""
    conditions: list[a.Expression] = []
    while isinstance(pattern, a.Filter):
        conditions.append(pattern.condition)
        pattern = pattern.input
    return pattern, conditions
