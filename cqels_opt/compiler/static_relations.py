"""The static relations of a query: what its patterns match in the store, evaluated static blocks, and where these are saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cqels_opt.compiler.logical_blocks import LogicalBlock, OuterJoinUnit, pattern_variables, quotes
from cqels_opt.compiler.query_terms import QueryTerms
from cqels_opt.compiler.static_subpatterns import StaticPart, choose_parts, join_all, name_of, restricted
from cqels_opt.compiler.view_maintenance import ViewMaintenance, write_recipes
from cqels_opt.lod import void_store
from cqels_opt.lod.materialized_views import RELATION, find_or_compute
from cqels_opt.lod.relation import Relation, restrict
from cqels_opt.lod.store import StaticPattern, Store
from cqels_opt.lod.triple_terms import PARTS, TERMS_GRAPH
from cqels_opt.operators.expressions import truth
from cqels_opt.operators.interval_join import as_rows
from cqels_opt.operators.rows import HIDDEN, Rows
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import variables as read_by
from cqels_opt.storage.checksum import Hasher


class StaticRelations:
    """The static relations of one query. Those that are computed are saved to ``folder``, or to the ``shared`` folder by their content.

    With ``maintenance`` a sub-result is updated from that of the previous version of the store, where this is less work.
    """

    def __init__(
        self, store: Store, terms: QueryTerms, folder: Path, shared: Path | None, maintenance: ViewMaintenance | None
    ) -> None:
        self.store, self._terms, self._folder, self._shared, self._maintenance = store, terms, folder, shared, maintenance
        self._recipes: dict[str, str] = {}
        self._saved = 0
        self._quoted = 0
        self._joined_terms: dict[tuple[a.TriplePattern, a.Source], StaticPart] = {}
        self._matched: dict[StaticPattern, Relation] = {}  # merged sources need the relation of a pattern more than once

    # -------------------------------------------------------------- patterns
    def rows(self, pattern: a.TriplePattern, source: a.Source) -> int:
        """How many triples of a static graph match a pattern."""
        return self.part(pattern, source).relation.rows

    def part(self, pattern: a.TriplePattern, source: a.Source) -> StaticPart:
        """The triples of a static graph that match a pattern, as a relation of its variables."""
        if quotes(pattern):
            if (pattern, source) not in self._joined_terms:
                block = LogicalBlock(self.without_triple_terms(pattern, source))
                self._joined_terms[pattern, source] = self.evaluated(block, set(pattern_variables(pattern, source)))
            return replace(self._joined_terms[pattern, source], name=name_of(pattern.p))
        at = StaticPattern(self.id(pattern.s), self.id(pattern.p), self.id(pattern.o), self._graph(source))
        if isinstance(source, a.GraphsMerged) and len(source.names) != 1:
            matched = self.store.match_merged(at, [int(self.id(name)) for name in source.names])
            return StaticPart(name_of(pattern.p), matched, None, 1)
        if at not in self._matched:
            self._matched[at] = self.store.match(at)
        found = self._matched[at]
        change = self._maintenance.of_pattern(at, found) if self._maintenance is not None else None
        return StaticPart(name_of(pattern.p), found, at, 1, recipe=repr(at) if at.variables else "", change=change)

    def parts(self, block: LogicalBlock) -> list[StaticPart]:
        """The static relations of a block: those that are evaluated already, then those of its static patterns."""
        matched = [self.part(t, source) for t, source in block.patterns if not isinstance(source, a.InWindow | a.Merged)]
        return [*block.statics, *matched]

    def without_triple_terms(self, pattern: a.TriplePattern, source: a.Source) -> list[tuple[a.TriplePattern, a.Source]]:
        """A static pattern as patterns without triple terms: further patterns match the parts of each triple term with variables."""
        found: list[tuple[a.TriplePattern, a.Source]] = []

        def plain(node: a.Node) -> a.Node:
            if not isinstance(node, a.TripleTerm):
                return node
            self._quoted += 1
            term = a.Variable(f"_:quoted~{self._quoted}")
            for name, part in zip(PARTS, (node.s, node.p, node.o)):
                found.append((a.TriplePattern(term, name, plain(part)), a.NamedGraph(TERMS_GRAPH)))
            return term

        first = a.TriplePattern(plain(pattern.s), pattern.p, plain(pattern.o))
        return [(first, source), *found]

    def id(self, node: a.Node) -> int | str:
        """The name of a variable, or the id of a term."""
        assert not isinstance(node, a.TripleTerm)
        return node.name if isinstance(node, a.Variable) else self._terms.id(node)

    def _graph(self, source: a.Source) -> int | str | None:
        match source:
            case a.NamedGraph(name) | a.GraphsMerged((name,)):
                return self.id(name)
        return None

    # -------------------------------------------------------------- other relations
    def inline(self, name: str, variables: Sequence[str], rows: Sequence[Sequence[a.Term | None]]) -> StaticPart:
        """Inline data as a relation, which plans join like any other."""
        ids = [self._terms.ids(column) for column in zip(*rows)]
        return StaticPart(name, Relation.build({v: np.asarray(column, np.int64) for v, column in zip(variables, ids)}), None, 0)

    def named_graphs(self, name: a.Node) -> StaticPart:
        """``GRAPH name {}``: the names of all named graphs, or one row where the store has the named one."""
        there = self.store.named_graphs()
        if isinstance(name, a.Variable):
            return StaticPart("graphs", Relation.build({name.name: np.asarray(there, np.int64)}), None, 0)
        rows = int((np.asarray(there) == self.id(name)).any())
        return StaticPart("graphs", Relation.build({}, np.ones(rows, np.int64)), None, 0)

    def of_unit(self, unit: OuterJoinUnit, needed: set[str]) -> StaticPart:
        """The right side of a unit, with the variables that the join and its condition read and, of an OPTIONAL, the ``needed`` ones."""
        read = set(unit.on | (read_by(unit.condition) if unit.condition is not None else set()))
        wanted = (read | (needed if unit.kind == "optional" else set())) & unit.right.variables
        names = [*(name_of(pattern.p) for pattern, _ in unit.right.patterns), *(part.name for part in unit.right.statics)]
        part = self.evaluated(unit.right, wanted)
        return replace(restricted(part, wanted) if self.store.counted else part, name="_".join(names))

    def evaluated(self, block: LogicalBlock, needed: set[str]) -> StaticPart:
        """A static block without units as one relation of the ``needed`` variables."""
        assert not block.units, "a unit is not part of a relation"
        parts = self.parts(block)
        if len(parts) == 1 and not block.filters:
            return parts[0]
        read = needed | {v for condition in block.filters for v in read_by(condition)}
        patterns = sum(part.patterns for part in parts)
        if not self.store.counted:
            return StaticPart("static", void_store.joined([part.relation for part in parts], needed), None, patterns)
        relation = join_all(choose_parts(parts, read, maintenance=self._maintenance), read)
        rows = as_rows(relation, relation.variables)
        for condition in block.filters:
            rows = rows.take(truth(rows, condition, self._terms))
        return StaticPart("static", relation_of(rows, needed), None, patterns)

    # -------------------------------------------------------------- where they are saved
    def saved(self, part: StaticPart) -> StaticPattern | str:
        """Where the program finds a relation: the pattern in the store, or the folder to which it is saved."""
        if part.pattern is not None:
            return part.pattern
        if self._shared is not None and self.store.counted:
            folder = self._saved_by_content(part.relation, self._shared)
        else:
            folder = str(self._folder / f"relation{self._saved}")
            self._saved += 1
            part.relation.save(Path(folder), [(v,) for v in part.relation.variables])
        if part.recipe:
            self._recipes[part.recipe] = folder
        return folder

    def _saved_by_content(self, relation: Relation, shared: Path) -> str:
        columns = [*relation.columns.values(), *([] if relation.n is None else [relation.n])]
        digest = Hasher()
        digest.update(repr((relation.rows, relation.n is None, relation.variables)).encode())
        for column in columns:
            digest.update(np.ascontiguousarray(column).tobytes())
        indexes = [(v,) for v in relation.variables]
        found, _ = find_or_compute(shared, self.store.fingerprint, digest.text, indexes, lambda: relation)
        return str(found.folder / RELATION)

    def save_recipes(self) -> None:
        """Writes what the saved relations are made of, for updates after the next version of the store."""
        write_recipes(self._folder, self._recipes)


def relation_of(rows: Rows, needed: set[str]) -> Relation:
    """Rows as a relation of the needed variables; equal rows are counted."""
    columns = {v: np.ascontiguousarray(c) for v, c in rows.columns.items() if not v.startswith(HIDDEN)}
    return restrict(Relation.build(columns, rows.n), [v for v in columns if v in needed])
