"""From drafts to blocks and static relations: what stays joined by plans, and what is evaluated once (DESIGN §3, "registration")."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from cqels_opt.compiler.logical_blocks import (
    Above,
    LogicalBlock,
    Normal,
    OuterJoinUnit,
    filled,
    mentioned,
    pattern_variables,
    quotes,
    read_by_node,
    windows_of,
    without_units,
)
from cqels_opt.compiler.static_subpatterns import StaticPart, choose_parts, join_all, name_of, numbered, restricted
from cqels_opt.compiler.view_maintenance import ViewMaintenance, write_recipes
from cqels_opt.errors import InputError
from cqels_opt.lod import void_store
from cqels_opt.lod.materialized_views import RELATION, find_or_compute
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.relation import Relation, restrict
from cqels_opt.lod.store import StaticPattern
from cqels_opt.lod.triple_terms import PARTS, TERMS_GRAPH
from cqels_opt.operators import compiled_query as p
from cqels_opt.operators.algebra_operators import Scope, evaluate
from cqels_opt.operators.correlated_exists import for_each_row
from cqels_opt.operators.evaluation_step import NOWHEN
from cqels_opt.operators.expressions import truth
from cqels_opt.operators.interval_join import as_rows
from cqels_opt.operators.key_pushdown import Schema
from cqels_opt.operators.rows import HIDDEN, Ints, Rows, is_nameable
from cqels_opt.operators.term_table import TermTable, write_page
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import seeded
from cqels_opt.query.scope import variables as read_by
from cqels_opt.rdf.ids import CollisionError
from cqels_opt.state import worker_cache
from cqels_opt.windows.binding_slots import ANYTHING, Inside, Shape
from cqels_opt.windows.instants import Report
from cqels_opt.windows.kinds import kind_of

PAGE = "terms.arrow"

PAIRS = 1 << 21  # a static path with more pairs of ends is not computed beforehand, but from what is asked for


@dataclass(frozen=True, slots=True)
class KnownIds:
    """The ids that a run has given to terms already, beside those of its store: no constant of another query may have one of them.

    ``pages`` are files of the terms that its windows hold.
    """

    displaced: tuple[tuple[str, int], ...] = ()
    constants: Mapping[int, str] = field(default_factory=dict)
    pages: tuple[str, ...] = ()


NOTHING_KNOWN = KnownIds()


class _Constants(TermTable):
    """The terms of a query while it is compiled: nobody has their ids yet, so one that collides gets a second id at once."""

    def ids(self, texts: Sequence[str | None]) -> Ints:
        while True:
            try:
                return super().ids(texts)
            except CollisionError as error:
                self.scheme = self.scheme.displacing(error.losers)


class BlockBuilder:
    """Makes the blocks of one query over one static store. ``folder`` takes the static relations that are made on the way.

    ``budget`` bounds the bytes of the sub-results of each block. With ``lazy`` a BIND that nobody reads is left out. Of relations in the
    ``shared`` folder those of other queries are used. With ``upkeep`` sub-results are made of those over another version, where that pays.
    """

    def __init__(
        self,
        query: a.Query,
        store: str,
        folder: Path,
        report: Report,
        distinct: bool,
        budget: int,
        lazy: bool = True,
        shared: Path | None = None,
        upkeep: ViewMaintenance | None = None,
        known: KnownIds = NOTHING_KNOWN,
    ) -> None:
        self.store_folder, self.folder, self.report, self.shared = store, folder, report, shared
        self.upkeep, self._recipes = upkeep, dict[str, str]()
        self.distinct, self.budget, self.lazy = distinct, budget, lazy
        self.store = open_store(store)
        self.windows = {w.name: w for w in query.windows}
        scheme = self.store.scheme.with_displaced(known.displaced)
        pages = [partial(worker_cache.page, Path(path)) for path in known.pages]
        self.terms = _Constants(scheme, self.store.decode, pages, constants=known.constants)
        self.aside: dict[Shape, None] = {}  # see :attr:`CompiledProgram.aside`
        self._blocks: list[p.Block] = []
        self._made_of: dict[
            int, tuple[list[StaticPart], set[str]]
        ] = {}  # block number -> what its designs are made of, what is read
        self._made = 0
        self._names: dict[str, int] = {}
        self._quoted = 0
        self._taken_apart: dict[tuple[a.TriplePattern, a.Source], StaticPart] = {}
        self._static_relations: dict[StaticPattern, Relation] = {}  # what patterns match: merged sources ask more than once

    def blocks(self) -> tuple[p.Block, ...]:
        """The blocks, once all drafts are finished. The constants, and the terms that were made for static relations, are saved."""
        found = tuple(self._with_parts(block, *self._made_of[i]) for i, block in enumerate(self._blocks))
        codes = np.array(list(self.terms.made), np.int64)
        codes = codes[~self.store.contains(codes)]
        if len(codes):
            write_page(self.folder / PAGE, codes, [self.terms.made[code] for code in codes.tolist()])
        write_recipes(self.folder, self._recipes)
        return found

    def set_aside(self, pattern: a.TriplePattern, source: a.InWindow | a.Merged) -> None:
        """A pattern in windows that the static data answer, as they are now."""
        graph = a.graph_in(source)
        self.aside |= dict.fromkeys(self._in_window(pattern, w, "", False, graph).shape for w in windows_of(source))

    def static_rows(self, pattern: a.TriplePattern, source: a.Source) -> int:
        """How many triples of a static graph match a pattern."""
        return self.static_part(pattern, source).relation.rows

    def static_part(self, pattern: a.TriplePattern, source: a.Source) -> StaticPart:
        """The triples of a static graph that match a pattern, as a relation of its variables."""
        if quotes(pattern):
            if (pattern, source) not in self._taken_apart:
                apart = LogicalBlock(self.taken_apart(pattern, source))
                self._taken_apart[pattern, source] = self._materialised(apart, set(pattern_variables(pattern, source)))
            return replace(self._taken_apart[pattern, source], name=name_of(pattern.p))
        at = StaticPattern(self._id(pattern.s), self._id(pattern.p), self._id(pattern.o), self._graph(source))
        if isinstance(source, a.GraphsMerged) and len(source.names) != 1:
            return StaticPart(
                name_of(pattern.p), self.store.match_merged(at, [int(self._id(name)) for name in source.names]), None, 1
            )
        if at not in self._static_relations:
            self._static_relations[at] = self.store.match(at)
        found = self._static_relations[at]
        change = self.upkeep.of_pattern(at, found) if self.upkeep is not None else None
        return StaticPart(name_of(pattern.p), found, at, 1, recipe=repr(at) if at.variables else "", change=change)

    def taken_apart(self, pattern: a.TriplePattern, source: a.Source) -> list[tuple[a.TriplePattern, a.Source]]:
        """A static pattern without triple terms that have variables: what they consist of is matched by patterns of its own."""
        found: list[tuple[a.TriplePattern, a.Source]] = []

        def whole(node: a.Node) -> a.Node:
            if not isinstance(node, a.TripleTerm):
                return node
            self._quoted += 1
            term = a.Variable(f"_:quoted~{self._quoted}")
            for name, part in zip(PARTS, (node.s, node.p, node.o)):
                found.append((a.TriplePattern(term, name, whole(part)), a.NamedGraph(TERMS_GRAPH)))
            return term

        first = a.TriplePattern(whole(pattern.s), pattern.p, whole(pattern.o))
        return [(first, source), *found]

    # -------------------------------------------------------------- drafts -> blocks
    def finished(self, normal: Normal, outside: set[str]) -> p.Tree:
        """The tree with every draft a block or a static relation. ``outside``: the variables that are read above."""
        if isinstance(normal, LogicalBlock):
            return self._finished_draft(normal, outside)
        if not isinstance(normal, Above):
            return normal
        if self.lazy and isinstance(normal.node, p.ExtendNode) and normal.node.variable not in outside:
            return self.finished(normal.inputs[0], outside)  # a BIND that nobody reads
        inputs = []
        for i, part in enumerate(normal.inputs):
            others = set().union(*(mentioned(x) for j, x in enumerate(normal.inputs) if j != i))
            inputs.append(self.finished(part, outside | others | read_by_node(normal.node) | _whole_row(normal.node, part)))
        return filled(normal.node, inputs)

    def _finished_draft(self, draft: LogicalBlock, outside: set[str]) -> p.Tree:
        if not draft.patterns and not draft.statics:
            unit: p.Tree = p.ValuesNode((), ((),))
            for condition in draft.filters:
                unit = p.FilterNode(unit, condition)
            return unit
        if not draft.moving and draft.units:
            apart = without_units(draft)
            return self.finished(self.evaluated(apart, "select", outside) if self.store.counted else apart, outside)
        if not draft.moving:
            return p.StaticNode(self._static(self._materialised(draft, outside), "static"))
        block = self._block(draft, outside)
        static = self.without_windows(draft)
        return block if static is None else p.UnionNode((block, self._finished_draft(static, outside)))

    def without_windows(self, draft: LogicalBlock) -> LogicalBlock | None:
        """The draft with the static data alone in the place of what is merged: its rows that no delta brings. None where there are none."""
        found: list[tuple[a.TriplePattern, a.Source]] = []
        for pattern, source in draft.patterns:
            if isinstance(source, a.InWindow) or (isinstance(source, a.Merged) and not self.static_rows(pattern, source.default)):
                return None
            found.append((pattern, source.default if isinstance(source, a.Merged) else source))
        return replace(draft, patterns=found) if draft.moving else None

    def _parts(self, draft: LogicalBlock) -> list[StaticPart]:
        """The static relations of a draft: matched patterns, and what was evaluated already."""
        parts = list(draft.statics)
        for pattern, source in draft.patterns:
            if not isinstance(source, a.InWindow | a.Merged):
                parts.append(self.static_part(pattern, source))
        return parts

    def inline(self, name: str, variables: Sequence[str], rows: Sequence[Sequence[a.Term | None]]) -> StaticPart:
        """Inline data as a relation, which plans place like any other."""
        ids = [self.terms.ids(column) for column in zip(*rows)]
        return StaticPart(name, Relation.build({v: np.asarray(column, np.int64) for v, column in zip(variables, ids)}), None, 0)

    def named_graphs(self, name: a.Node) -> StaticPart:
        """``GRAPH name {}``: the named graphs there are, or whether this one is there."""
        there = self.store.named_graphs()
        if isinstance(name, a.Variable):
            return StaticPart("graphs", Relation.build({name.name: np.asarray(there, np.int64)}), None, 0)
        rows = int((np.asarray(there) == self._id(name)).any())
        return StaticPart("graphs", Relation.build({}, np.ones(rows, np.int64)), None, 0)

    def _id(self, node: a.Node) -> int | str:
        assert not isinstance(node, a.TripleTerm)
        return node.name if isinstance(node, a.Variable) else self.terms.id(node)

    def _graph(self, source: a.Source) -> int | str | None:
        match source:
            case a.NamedGraph(name) | a.GraphsMerged((name,)):
                return self._id(name)
        return None

    def _block(self, draft: LogicalBlock, outside: set[str]) -> p.Tree:
        number = len(self._blocks)
        name = f"b{number}"
        moving = [(pattern, source) for pattern, source in draft.patterns if isinstance(source, a.InWindow | a.Merged)]
        filters = tuple(
            p.BlockFilter(f"{name}.filter{i}", condition, frozenset(read_by(condition)))
            for i, condition in enumerate(draft.filters)
        )
        dynamic = {v for pattern, _ in moving for v in pattern_variables(pattern, a.DefaultGraph())}
        needed = (outside | dynamic).union(*(f.variables for f in filters), *(unit.needs for unit in draft.units))
        if self.store.counted:
            bases = numbered(self._parts(draft), needed)
            parts = choose_parts(bases, needed, self.budget, self.upkeep)
        else:  # which sub-results are worth it is known once the data are there
            bases = parts = self._parts(draft)
        self._made_of[number] = bases, needed
        self._blocks.append(p.Block(name, (), (), (), ()))  # takes the number before names are given
        counts = Counter(windows_of(source) for _, source in moving)
        occurrences = [self._occurrence(pattern, source, counts[windows_of(source)] > 1) for pattern, source in moving]
        units = [self._unit_part(unit, needed) for unit in draft.units]
        names = [part.name for part in (*parts, *units)]
        statics = (
            *(self._static(part, part.name, names.count(part.name) > 1) for part in parts),
            *(
                replace(
                    self._static(part, part.name, names.count(part.name) > 1),
                    kind=unit.kind,
                    on=tuple(sorted(unit.on)),
                    reads=tuple(sorted(unit.reads)),
                    condition=unit.condition,
                )
                for unit, part in zip(draft.units, units)
            ),
        )
        output = tuple(sorted(draft.variables & outside))
        written = (*(o.name for o in occurrences), *(s.name for s in statics))
        self._blocks[number] = p.Block(name, tuple(occurrences), statics, filters, output, written)
        return p.BlockNode(name)

    def _with_parts(self, block: p.Block, parts: list[StaticPart], needed: set[str]) -> p.Block:
        """The block with what its other designs are made of; these are named last, so that the first design's names stay."""
        if not self.store.counted or not any(
            set(x.relation.variables) & set(y.relation.variables) for x, y in combinations(parts, 2)
        ):
            return block
        there = {static.of: static for static in block.inner}
        several = {x.name for x, y in combinations(parts, 2) if x.name == y.name}
        found = tuple(there.get(x.of) or self._static(x, x.name, x.name in several) for x in parts)
        read = frozenset(needed & {v for x in found for v in x.variables})
        return replace(block, parts=found, needed=read, budget=self.budget)

    def _occurrence(self, pattern: a.TriplePattern, source: a.InWindow | a.Merged, several: bool) -> p.PatternOccurrence:
        name = self._unique("+".join(windows_of(source)), several)
        stamp = source.time.name if isinstance(source, a.InWindow) and source.time is not None else ""
        counted = any(kind_of(self.windows[window]).counts_elements for window in windows_of(source))
        as_set = self.distinct and not stamp and not counted
        first, *others = (self._in_window(pattern, window, name, as_set, a.graph_in(source)) for window in windows_of(source))
        if not isinstance(source, a.Merged):
            return replace(first, time=stamp)
        part = self.static_part(pattern, source.default)
        static = self._static(part, name_of(pattern.p)) if part.relation.rows else None
        return replace(first, others=tuple(others), static=static, store=self.store_folder if static else "")

    def _in_window(
        self, pattern: a.TriplePattern, window: str, name: str, as_set: bool, graph: a.Node | None
    ) -> p.PatternOccurrence:
        places: dict[str, int] = {}

        def at(node: a.Node) -> tuple[int, int]:
            if isinstance(node, a.Variable):
                return 0, places.setdefault(node.name, len(places))
            return (ANYTHING if isinstance(node, a.TripleTerm) else int(self._id(node))), -1

        triple = (pattern.s, pattern.p, pattern.o)
        columns = [at(node) for node in (*triple, *([] if graph is None else [graph]))]
        inside: list[Inside] = []
        quoted = [(of, node) for of, node in enumerate(triple) if isinstance(node, a.TripleTerm)]
        while quoted:
            of, term = quoted.pop(0)
            for part, node in enumerate((term.s, term.p, term.o)):
                if isinstance(node, a.TripleTerm):
                    quoted.append((len(triple) + len(inside), node))
                inside.append(Inside(of, part, *at(node)))
        declared = self.windows[window]
        constants, where = zip(*columns)
        shape = Shape(declared.stream, constants, where, tuple(inside))
        t0 = self.report.origin(window)
        return p.PatternOccurrence(name, declared, t0, shape, tuple(places), as_set)

    def _unique(self, name: str, numbered: bool = False) -> str:
        self._names[name] = self._names.get(name, 0) + 1
        return f"{name}#{self._names[name]}" if numbered or self._names[name] > 1 else name

    def _static(self, part: StaticPart, name: str, several: bool = False) -> p.Static:
        at: StaticPattern | str
        if part.pattern is not None:
            at = part.pattern
        elif self.shared is not None and self.store.counted:
            at = self._of_all(part.relation, self.shared)
        else:
            at = str(self.folder / f"relation{self._made}")
            self._made += 1
            part.relation.save(Path(at), [(v,) for v in part.relation.variables])
        if part.recipe and isinstance(at, str):
            self._recipes[part.recipe] = at
        variables = tuple(part.relation.variables)
        return p.Static(self._unique(name, several), variables, at, part.relation.rows, part.patterns, of=part.of)

    def _of_all(self, relation: Relation, shared: Path) -> str:
        """Where a relation lies that queries have in common: by its content."""
        columns = [*relation.columns.values(), *([] if relation.n is None else [relation.n])]
        digest = hashlib.sha256(repr((relation.rows, relation.n is None, relation.variables)).encode())
        for column in columns:
            digest.update(np.ascontiguousarray(column).tobytes())
        indexes = [(v,) for v in relation.variables]
        found, _ = find_or_compute(shared, self.store.fingerprint, digest.hexdigest(), indexes, lambda: relation)
        return str(found.folder / RELATION)

    # -------------------------------------------------------------- evaluated once
    def _materialised(self, draft: LogicalBlock, outside: set[str]) -> StaticPart:
        assert not draft.units, "units are no part of a relation"
        parts = self._parts(draft)
        if len(parts) == 1 and not draft.filters:
            return parts[0]
        needed = outside | {v for condition in draft.filters for v in read_by(condition)}
        patterns = sum(part.patterns for part in parts)
        if not self.store.counted:
            return StaticPart("static", void_store.joined([part.relation for part in parts], outside), None, patterns)
        relation = join_all(choose_parts(parts, needed, upkeep=self.upkeep), needed)
        rows = as_rows(relation, relation.variables)
        for condition in draft.filters:
            rows = rows.take(truth(rows, condition, self.terms))
        return StaticPart("static", _relation(rows, outside), None, patterns)

    def _unit_part(self, unit: OuterJoinUnit, needed: set[str]) -> StaticPart:
        """The static side of a unit, with no more variables than are looked at."""
        looked_at = set(unit.on | (read_by(unit.condition) if unit.condition is not None else set()))
        wanted = (looked_at | (needed if unit.kind == "optional" else set())) & unit.right.variables
        names = [*(name_of(pattern.p) for pattern, _ in unit.right.patterns), *(part.name for part in unit.right.statics)]
        part = self._materialised(unit.right, wanted)
        return replace(restricted(part, wanted) if self.store.counted else part, name="_".join(names))

    def evaluated(self, normal: Normal, name: str, needed: set[str]) -> Normal:
        """What is static: evaluated now, for the variables that are ``needed``; a draft where it binds those on every row."""
        if not self.store.counted:
            raise InputError(
                f"the query evaluates a {name} over static data beforehand, whose size no description tells: load the data, and explain it "
                "over the store"
            )
        tree = self.finished(normal, needed)
        instants = np.array([NOWHEN, 0], np.int64)
        rows = evaluate(
            tree, Scope({}, self.store_folder, self.terms, instants, 1, Schema({}), most=PAIRS, for_each_row=for_each_row)
        )
        part = StaticPart(name, _relation(rows, needed), None, 0)
        if all((column != 0).all() for column in part.relation.columns.values()):
            return LogicalBlock(statics=[part])
        return p.StaticNode(replace(self._static(part, name), partial=True))


def _whole_row(node: p.Tree, below: Normal) -> set[str]:
    """The variables that RAND(), BNODE() and their like hang on, if a BIND calls one: all that a query can write."""
    if not isinstance(node, p.ExtendNode) or not seeded(node.expression):
        return set()
    return {v for v in mentioned(below) if is_nameable(v)}


def _relation(rows: Rows, needed: set[str]) -> Relation:
    """Rows as a relation of the needed variables; rows that become equal are counted."""
    columns = {v: np.ascontiguousarray(c) for v, c in rows.columns.items() if not v.startswith(HIDDEN)}
    return restrict(Relation.build(columns, rows.n), [v for v in columns if v in needed])
