"""A block as the optimizer sees it: the query graph of its relations and filters, and the statistics of each relation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import sqrt

import numpy as np

from cqels_opt.lod.store import StaticPattern
from cqels_opt.operators.blocks import Block, PatternOccurrence, Static
from cqels_opt.operators.outer_joins import rows_of_each
from cqels_opt.operators.rows import Ints
from cqels_opt.planner.predicate_costs import is_uncertain, weight
from cqels_opt.planner.relation_heuristics import ranks
from cqels_opt.planner.row_expressions import written
from cqels_opt.planner.union_statistics import summands
from cqels_opt.plans import FilterNode, QueryGraph, RelationNode
from cqels_opt.state import worker_cache
from cqels_opt.stats import DegreeNorms, StaticRelation
from cqels_opt.stats import WindowedRelation as StatisticsOccurrence
from cqels_opt.storage.checksum import digest
from cqels_opt.windows.intervals import FOREVER
from cqels_opt.windows.kinds import kind_of
from cqels_opt.windows.window_kind import CountWindowKind


def graph_of(block: Block, graphs: bool = True, as_written: bool = True, window_indexes: float = 1.0) -> QueryGraph:
    """The query graph of a block; ``graphs``: ranks are those of H2, not only of H1.

    A look-up in a window with time slices costs as much as ``window_indexes`` look-ups in one index. The relations are in the order of
    the query (``as_written``), or in an order that does not depend on how the query is written.
    """
    rank = ranks(block, graphs)
    relations = {
        **{o.name: _window(o, window_indexes, rank[o.name]) for o in block.occurrences},
        **{s.name: replace(_relation(s), rank=rank[s.name]) for s in block.statics},
    }
    filters = [
        FilterNode(f.name, f.variables, weight=weight(f.condition), uncertain=is_uncertain(f.condition)) for f in block.filters
    ]
    if as_written:
        return QueryGraph([relations[n] for n in block.written], filters)
    streams = sorted(block.occurrences, key=what_it_is)
    conditions = {f.name: written(f.condition) for f in block.filters}
    names = [*(o.name for o in streams), *(s.name for s in block.statics)]
    return QueryGraph(
        [relations[name] for name in names], sorted(filters, key=lambda f: (sorted(f.variables), conditions[f.name]))
    )


def what_it_is(o: PatternOccurrence) -> tuple[str, str, tuple[int, ...], tuple[str, ...]]:
    """What distinguishes an occurrence from others, independent of its position in the query."""
    return o.window.stream, repr((o.window.kind, o.window.width, o.window.slide)), o.shape.constants, o.variables


def occurrences_of(block: Block, elements: Mapping[str, Ints]) -> list[StatisticsOccurrence]:
    """The windows of the occurrences of a block, each with its own name."""
    momentary = block.momentary
    return [
        _occurrence(replace(part, name=name), elements, o in momentary)
        for o in block.occurrences
        for name, part in zip(summands(o), o.parts)
    ]


def _occurrence(o: PatternOccurrence, elements: Mapping[str, Ints], momentary: bool) -> StatisticsOccurrence:
    kind = kind_of(o.window)
    identity = f"{o.shape.stream} {o.shape.key} {replace(o.window, name='')} {o.t0} {o.since}{' momentary' if momentary else ''}"
    counts_elements = isinstance(kind, CountWindowKind)

    def intervals(t: Ints) -> tuple[Ints, Ints]:
        if isinstance(kind, CountWindowKind):
            times = elements.get(o.window.stream, np.empty(0, np.int64))
            _, end = kind.ranks(np.searchsorted(times, t, "right") - 1)
            start, end = t, np.append(times, FOREVER)[np.minimum(end, len(times))]
        else:
            start, end = kind.validity(t, o.t0)
        return start, np.where(t > o.since, end, start)  # the query does not see the elements before it

    late = counts_elements and o.window.every > 1
    return StatisticsOccurrence(
        o.name, o.variables, intervals, moving=counts_elements, identity=identity, momentary=momentary, late=late
    )


def static_of(s: Static, store: str) -> StaticRelation:
    """The statistics of a static relation: counted, or as far as its VoID description has them."""
    relation, counted = worker_cache.relation(store, s.at), worker_cache.store(store).counted
    variables = s.variables if s.kind == "inner" else s.on

    def norms(variable: str) -> DegreeNorms:
        found = worker_cache.fan_out(store, s.at, variable)
        return DegreeNorms(float(found.rows), sqrt(found.squares), float(found.maximum))

    return StaticRelation(
        s.name,
        variables,
        relation.rows,
        {v: relation.distinct(v) for v in variables},
        {} if not counted else {v: rows_of_each(s.kind, relation.index((v,)).fanout) for v in variables},
        _identity(s, store, variables),
        {v: partial(norms, v) for v in variables} if counted else {},
        counted,
    )


def _identity(s: Static, store: str, variables: Sequence[str]) -> str:
    """Equal for relations of equal rows, whatever their variables are called."""
    at = s.at
    if isinstance(at, StaticPattern):
        nodes = (at.s, at.p, at.o, at.graph)
        names = at.variables
        at = str([names.index(node) if isinstance(node, str) else f"{node}" for node in nodes])
        variables = [str(names.index(v)) for v in variables]
    return digest(f"{store} {at} {s.kind} {[*variables]}".encode())


def _window(o: PatternOccurrence, window_indexes: float, rank: tuple[int, ...]) -> RelationNode:
    kinds = [kind_of(part.window) for part in o.parts]
    one_index = sum(kind.counts_elements or kind.extent <= 1.0 for kind in kinds)  # such windows have no time slices
    indexes = one_index + window_indexes * (len(kinds) - one_index) + (o.static is not None)
    return RelationNode(o.name, frozenset(o.variables), True, rank=rank, indexes=indexes)


def _relation(s: Static) -> RelationNode:
    if s.kind == "inner":
        return RelationNode(s.name, frozenset(s.variables), False)
    return RelationNode(
        s.name, frozenset(s.variables if s.kind == "optional" else s.on), False, s.kind, frozenset(s.on + s.reads)
    )


def static_joins(statics: Sequence[Static], store: str) -> dict[tuple[str, str, str], float]:
    """The join size of each pair of static relations (or of one and a unit) on each shared variable: exact, and the same in every batch.

    Empty for data that are described but not loaded.
    """
    found: dict[tuple[str, str, str], float] = {}
    if len(statics) < 2 or not worker_cache.store(store).counted:
        return found
    for left, right in combinations(statics, 2):  # units come last
        if left.kind != "inner":
            break
        for variable in sorted(set(left.variables) & set(right.variables if right.kind == "inner" else right.on)):
            size = worker_cache.join_size(store, left.at, right.at, variable, right.kind)
            found[left.name, right.name, variable] = float(size)
    return found
