"""VoID and stores: the description of a loaded store, its differences from a description in the data, and planning from a
description alone.

The optimizer reads the exact counts of a loaded store, never a description. Before a load there is only the description:
:func:`describe` makes a store without triples from it, whose relations have the described numbers of rows and distinct values, so
that plans can be explained. It gives no answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from cqels_opt.errors import first_of
from cqels_opt.lod.files import FORMAT, HEADER, VERSION, write_header
from cqels_opt.lod.order import Ids
from cqels_opt.lod.relation import Relation
from cqels_opt.lod.store import DEFAULT_GRAPH, StaticPattern, Store
from cqels_opt.plans import system_r
from cqels_opt.rdf.ids import IdScheme, encode, encode_one
from cqels_opt.rdf.terms import RDF_TYPE
from cqels_opt.rdf.void import PREDICATES, VOID, Counts, Description, GraphCounts, described
from cqels_opt.storage.checksum import text_digest

SHARE: Final = 0.1
"""Distinct values per triple, where a description does not say: as the optimizer assumes elsewhere (``plans/base_estimates.py``)."""

APART: Final = 1.1
"""A description is stale where a count is off by more than this factor; its own triples are seldom among those it counts."""


# ------------------------------------------------------------------ of a store
def of_store(store: Store) -> Description:
    """The exact description of a store: from its headers, and of ``rdf:type`` from the index."""
    names = _names(store, {predicate for _, predicate in store.entries} | set(store.named_graphs().tolist()))
    default = _of_graph(store, DEFAULT_GRAPH, names)
    return Description(default, {names[graph]: _of_graph(store, graph, names) for graph in store.named_graphs().tolist()})


def _of_graph(store: Store, graph: int, names: Mapping[int, str]) -> GraphCounts:
    properties, classes, predicates = dict[str, Counts](), dict[str, int](), store.predicates(graph)
    for predicate in predicates:
        partition = store.partition(graph, predicate)
        properties[names[predicate]] = Counts(partition.rows, partition.distinct("s"), partition.distinct("o"))
        if names[predicate] == f"<{RDF_TYPE}>":
            index = partition.index(("o",))
            texts = store.decode(np.asarray(index.keys))
            sizes = np.diff(index.starts).tolist()
            classes = {text: size for text, size in zip(texts, sizes) if text is not None and text.startswith("<")}
    return GraphCounts(Counts(sum(predicates.values())), properties, classes)


def _names(store: Store, ids: Iterable[int]) -> dict[int, str]:
    found = np.array(sorted(ids), np.int64)
    return {number: text or "" for number, text in zip(found.tolist(), store.decode(found))}


def in_store(store: Store) -> Description:
    """The description in the data of a store itself; an empty one if there is none."""
    return described(_about(store))


def _about(store: Store) -> Iterator[tuple[str, str, str]]:
    wanted = dict(zip(encode(PREDICATES, store.scheme).tolist(), PREDICATES))
    for graph, predicate in store.entries:
        if predicate in wanted:
            partition = store.partition(graph, predicate)
            for s, o in zip(*(store.decode(np.asarray(partition.columns[end])) for end in "so")):
                if s is not None and o is not None:
                    yield s, wanted[predicate], o


def disagreement(store: Store, description: Description, where: str) -> str | None:
    """One sentence on the differences of a description from the store, and on its unusable parts; None if it is right."""
    found = [*description.faults, *_stale(store, description)]
    if not found:
        return None
    return f"{where}: {first_of(found)}; plans are made with what the store has counted"


def _stale(store: Store, description: Description) -> Iterator[str]:
    graphs = [(DEFAULT_GRAPH, "", description.default)]
    graphs += [(encode_one(name, store.scheme), f" in {name}", counts) for name, counts in description.named.items()]
    for graph, place, counts in graphs:
        there = store.predicates(graph)
        for name, count in counts.properties.items():
            real = there.get(encode_one(name, store.scheme), 0)
            if count.triples is not None and not name.startswith(f"<{VOID}") and _apart(count.triples, real):
                yield f"VoID says {count.triples:,} triples of {name}{place}, there are {real:,}"
        if counts.whole.triples is not None and _apart(counts.whole.triples, sum(there.values())):
            yield f"VoID says {counts.whole.triples:,} triples{place}, there are {sum(there.values()):,}"


def _apart(one: int, other: int) -> bool:
    return max(one, other) > APART * min(one, other)


# ------------------------------------------------------------------ instead of a store
def describe(folder: Path, description: Description) -> Path:
    """A store that has no triples, only a description of them."""
    scheme = IdScheme.new()
    content = {"default": asdict(description.default), "named": {name: asdict(g) for name, g in description.named.items()}}
    folder.mkdir(parents=True)
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        **scheme.as_header(),
        "triples": sum(graph.whole.triples or 0 for graph in (description.default, *description.named.values())),
        "graphs": [DEFAULT_GRAPH, *encode(list(description.named), scheme).tolist()],
        "partitions": [],
        "dictionary": [],
        "fingerprint": (fingerprint := text_digest(repr(content))),
        "number": 1,
        "lineage": fingerprint,
        "sources": [],
        "described": content,
    }
    write_header(folder / HEADER, header)
    return folder


class Described(Store):
    """A store made by :func:`describe`. Its relations have estimated rows and distinct values, and no columns of ids."""

    counted = False

    def __init__(self, path: Path, header: Mapping[str, Any], source: None = None) -> None:
        super().__init__(path, header, source)
        content = header["described"]
        self._graphs = {DEFAULT_GRAPH: _Sizes(content["default"], self.scheme)}
        for name, counts in content["named"].items():
            self._graphs[encode_one(name, self.scheme)] = _Sizes(counts, self.scheme)

    def match(self, pattern: StaticPattern) -> Relation:
        """The estimated size of the matches."""
        if isinstance(pattern.graph, str):
            graphs = [graph for graph in self._graphs if graph != DEFAULT_GRAPH]
        else:
            graphs = [DEFAULT_GRAPH if pattern.graph is None else pattern.graph]
        found = [self._graphs[graph].of(pattern) for graph in graphs if graph in self._graphs]
        rows = sum(rows for rows, _ in found)
        values = {v: sum(distinct.get(v, 0) for _, distinct in found) for v in pattern.variables}
        if isinstance(pattern.graph, str):
            values[pattern.graph] = len(found)
        return sized(rows, values)

    def match_merged(self, pattern: StaticPattern, graphs: Sequence[int]) -> Relation:
        """The estimated size of the matches in any of the graphs, assuming that they share no triple."""
        found = [self._graphs[graph].of(pattern) for graph in graphs if graph in self._graphs]
        return sized(
            sum(rows for rows, _ in found), {v: sum(distinct.get(v, 0) for _, distinct in found) for v in pattern.variables}
        )


def sized(rows: float, distinct: Mapping[str, float]) -> Relation:
    """A relation with a number of rows and distinct values only. Rows above zero count as at least one."""
    whole = round(rows) or int(rows > 0)
    empty: Ids = np.empty(0, np.int64)
    columns = dict.fromkeys(distinct, empty)
    return Relation(
        columns,
        None if columns else np.ones(whole, np.int64),
        whole,
        (),
        {v: min(whole, max(1, round(d))) if whole else 0 for v, d in distinct.items()},
    )


def joined(parts: Iterable[Relation], kept: Iterable[str]) -> Relation:
    """The estimated join of such relations, projected."""
    rows, values = 1.0, dict[str, float]()
    for part in parts:
        rows = system_r.join_rows(rows, values, part.rows, {v: part.distinct(v) for v in part.variables})
    return sized(rows, {v: values[v] for v in kept if v in values})


class _Sizes:
    """A described graph, by ids."""

    def __init__(self, content: Mapping[str, Any], scheme: IdScheme) -> None:
        properties, classes = content["properties"], content["classes"]
        known = {name: Counts(**counts) for name, counts in properties.items()}
        self.properties = dict(zip(encode(list(known), scheme).tolist(), (_ends(counts) for counts in known.values())))
        self.classes = dict(zip(encode(list(classes), scheme).tolist(), map(float, classes.values())))
        self.type = encode_one(f"<{RDF_TYPE}>", scheme)
        listed = sum(triples for triples, _, _ in self.properties.values())
        whole = Counts(**content["whole"])
        stated = whole.triples or 0
        self.rest = _ends(Counts(max(0, stated - listed)))
        self.whole = _ends(Counts(max(stated, listed), whole.subjects, whole.objects))

    def of(self, pattern: StaticPattern) -> tuple[float, dict[str, float]]:
        """The rows that match a pattern, and the distinct values of its variables except the graph's.

        Values are assumed to be equally frequent.

        A predicate that is not listed is estimated from the triples that the listed ones leave, and so is a class.
        """
        s, p, o = pattern.s, pattern.p, pattern.o
        if isinstance(p, int):
            rows, subjects, objects = self.properties.get(p, self.rest)
        else:
            rows, subjects, objects = self.whole
        if p == self.type and isinstance(o, int) and self.classes:
            rows = subjects = self.classes.get(
                o, max(0.0, rows - sum(self.classes.values())) / max(1.0, objects - len(self.classes))
            )
            objects = 1.0
        if isinstance(s, int):
            rows, subjects = rows / max(subjects, 1.0), 1.0
        if isinstance(o, int):
            rows, objects = rows / max(objects, 1.0), 1.0
        values: dict[str, float] = {}
        for node, distinct in ((s, subjects), (p, float(len(self.properties)) or 1.0), (o, objects)):
            if isinstance(node, str):
                if node in values:
                    rows /= max(values[node], distinct, 1.0)
                values[node] = min(distinct, values.get(node, distinct))
        return rows, {v: min(distinct, rows) for v, distinct in values.items()}


def _ends(counts: Counts) -> tuple[float, float, float]:
    """Rows, and distinct subjects and objects: described, or a share of the rows."""
    triples = float(counts.triples or 0)
    assumed = max(1.0, SHARE * triples) if triples else 0.0
    ends = [float(assumed if end is None else min(end, triples)) for end in (counts.subjects, counts.objects)]
    return triples, ends[0], ends[1]


__all__ = ["Described", "describe", "disagreement", "in_store", "joined", "of_store", "sized"]
