"""The static store: the bindings of a triple pattern in the static graphs.

A store is a folder. ``store.json`` (format version, key and second ids of terms, counts, fingerprint, sources) names the folder of
the data: ``dictionary/`` and one vertical partition per graph and predicate, ``graphs/<default or graph id>/<predicate id>/``, each
a saved :class:`Relation` of ``s`` and ``o`` with indexes in both directions. Files are memory-mapped when they are first used. Each
graph is a set of triples.

A load replaces ``store.json`` in one step when the data are complete. The files of a store in an object store
(:mod:`cqels_opt.lod.object_store_cache`) are fetched to a local folder and mapped there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cqels_opt.errors import StoreError
from cqels_opt.lod import object_store_cache
from cqels_opt.lod.dictionary import DICTIONARY, Dictionary, PartEntry
from cqels_opt.lod.files import FORMAT, HEADER, VERSION, file_sizes, read_header
from cqels_opt.lod.order import Ids
from cqels_opt.lod.relation import FORMAT as RELATION_FORMAT
from cqels_opt.lod.relation import HEADER as RELATION_HEADER
from cqels_opt.lod.relation import VERSION as RELATION_VERSION
from cqels_opt.lod.relation import Relation, compact
from cqels_opt.lod.triple_terms import TERMS_GRAPH
from cqels_opt.rdf.ids import IdScheme, encode_one

GRAPHS: Final = "graphs"
DEFAULT_GRAPH: Final = 0

Node: TypeAlias = "int | str"


@dataclass(frozen=True, slots=True)
class StaticPattern:
    """A triple pattern over static data: each of ``s``, ``p``, ``o`` is an id or a variable's name.

    ``graph`` is None for the default graph, the id of a named graph, or a variable that ranges over all named graphs.
    """

    s: Node
    p: Node
    o: Node
    graph: Node | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The different variables in the order s, p, o, graph."""
        nodes = (self.s, self.p, self.o, self.graph)
        return tuple(dict.fromkeys(node for node in nodes if isinstance(node, str)))


class PartitionEntry(NamedTuple):
    """One vertical partition in the store's header: ``size`` is the bytes of its arrays, ``checksum`` that of its own header."""

    graph: int
    predicate: int
    triples: int
    size: int
    checksum: str

    @property
    def folder(self) -> Path:
        """Its folder in the store."""
        return Path(GRAPHS) / graph_name(self.graph) / f"{self.predicate:016x}"


def array_bytes(folder: Path) -> int:
    """The bytes of the arrays in a folder; 0 if there is no folder."""
    return sum(size for name, size in file_sizes(folder).items() if name.endswith(".npy"))


def graph_name(graph: int) -> str:
    """The folder name of a graph."""
    return "default" if graph == DEFAULT_GRAPH else f"{graph:016x}"


class Store:
    """An open store. :meth:`match` answers triple patterns.

    ``counted``: it has the triples, and so their exact counts; else it is no more than a description (:mod:`cqels_opt.lod.void_store`).
    """

    counted = True

    def __init__(self, path: Path, header: Mapping[str, Any], source: object_store_cache.RemoteStore | None = None) -> None:
        self.path = path
        #: The ids of terms: all that is joined with this store has them from the same scheme.
        self.scheme = IdScheme.from_header(header)
        self.triples: int = header["triples"]
        self.fingerprint: str = header["fingerprint"]
        self.sources: list[dict[str, Any]] = header["sources"]
        #: The folder of the data, or the one into which they are fetched.
        self.data = path if source is not None else path / header.get("data", "")
        self.source = source
        self._checksum: str = header["checksum"]
        self.entries = {(entry.graph, entry.predicate): entry for entry in (PartitionEntry(*e) for e in header["partitions"])}
        parts = [PartEntry(**entry) for entry in header["dictionary"]]
        self.dictionary = Dictionary.open(self.data / DICTIONARY, parts, source.fetch if source is not None else None)
        self._named: Ids = np.array(sorted(graph for graph in header["graphs"] if graph != DEFAULT_GRAPH), np.int64)
        #: The graph of the parts of triple terms (:mod:`cqels_opt.lod.triple_terms`); it is none of the named graphs.
        self.quoted = encode_one(TERMS_GRAPH, self.scheme)
        self._relations: dict[tuple[int, int], Relation] = {}

    @property
    def terms(self) -> int:
        """How many terms the dictionary has."""
        return self.dictionary.terms

    def named_graphs(self) -> Ids:
        """The ids of the named graphs, in order."""
        return self._named

    def predicates(self, graph: int = DEFAULT_GRAPH) -> dict[int, int]:
        """The predicates of a graph (0: the default graph) with their numbers of triples."""
        return {predicate: entry.triples for (of, predicate), entry in self.entries.items() if of == graph}

    def decode(self, ids: Ids) -> list[str | None]:
        """The canonical texts of ids; None for an unknown id."""
        return self.dictionary.decode(ids)

    def texts(self, ids: Ids) -> tuple[Ids, pa.StringArray]:
        """The places of the ids that are in the dictionary, and their canonical texts."""
        return self.dictionary.found(ids)

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        """Which ids :meth:`decode` knows."""
        return self.dictionary.contains(ids)

    def compare(self, ids: Ids, texts: pa.StringArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which ids :meth:`decode` knows, and which of them have another text than the given one."""
        return self.dictionary.compare(ids, texts)

    def partition(self, graph: int, predicate: int) -> Relation:
        """The triples of a graph (0: the default graph) and predicate as a relation of ``s`` and ``o``, sorted and indexed."""
        relation = self._relations.get((graph, predicate))
        if relation is None:
            entry = self.entries[graph, predicate]
            folder = self.data / entry.folder
            if self.source is not None:
                self._fetch_partition(entry)
            try:
                relation = Relation.open(folder)
            except StoreError as error:
                if self.source is None and self._replaced():
                    raise StoreError(f"{self.path}: the store was changed by another load: open it again") from error
                raise
            if relation.checksum != entry.checksum:
                raise StoreError(f"{folder / RELATION_HEADER} is not the one that was loaded: load the store again")
            self._relations[graph, predicate] = relation
        return relation

    def _replaced(self) -> bool:
        """Whether the header on disk has changed."""
        return bool(read_header(self.path / HEADER, FORMAT, VERSION)["checksum"] != self._checksum)

    def _fetch_partition(self, entry: PartitionEntry) -> None:
        assert self.source is not None
        folder = entry.folder.as_posix()
        self.source.fetch_header(f"{folder}/{RELATION_HEADER}", RELATION_FORMAT, RELATION_VERSION, entry.checksum)
        described = read_header(self.data / entry.folder / RELATION_HEADER, RELATION_FORMAT, RELATION_VERSION)
        self.source.fetch({f"{folder}/{name}": file for name, file in described["files"].items()})

    def fetch_all(self) -> None:
        """Fetch all files of a remote store."""
        if self.source is not None:
            for part in self.dictionary.parts:
                self.source.fetch({f"{DICTIONARY}/{name}": file for name, file in part.entry.files.items()})
            for entry in self.entries.values():
                self._fetch_partition(entry)

    def match(self, pattern: StaticPattern) -> Relation:
        """The bindings of a pattern. Those of ``?s <p> ?o`` are the mapped partition with both its indexes, not a copy."""
        chosen = list(self._chosen(pattern))
        two = isinstance(pattern.s, str) and isinstance(pattern.o, str) and pattern.s != pattern.o
        if two and isinstance(pattern.p, int) and not isinstance(pattern.graph, str) and chosen:
            return self.partition(*chosen[0]).rename({"s": str(pattern.s), "o": str(pattern.o)})
        found = [_bindings(pattern, graph, predicate, self.partition(graph, predicate)) for graph, predicate in chosen]
        if not pattern.variables:
            return Relation.build({}, np.ones(sum(relation.rows for relation in found), np.int64))
        if len(found) == 1:
            return found[0]
        empty = np.empty(0, np.int64)
        columns = {v: np.concatenate([empty, *(relation.columns[v] for relation in found)]) for v in pattern.variables}
        return Relation.build(columns)

    def match_merged(self, pattern: StaticPattern, graphs: Sequence[int]) -> Relation:
        """The bindings of a pattern in the merge of named graphs: a triple that several of them have is one row."""
        found = [self.match(replace(pattern, graph=graph)) for graph in graphs]
        if not pattern.variables:
            return Relation.build({}, np.ones(int(any(relation.rows for relation in found)), np.int64))
        empty = np.empty(0, np.int64)
        columns = {v: np.concatenate([empty, *(relation.columns[v] for relation in found)]) for v in pattern.variables}
        return Relation.build(compact(columns)[0])

    def partitions_of(self, pattern: StaticPattern) -> dict[tuple[int, int], str]:
        """The partitions in which a pattern can match, with the checksums of their content."""
        return {key: self.entries[key].checksum for key in self._chosen(pattern)}

    def _chosen(self, pattern: StaticPattern) -> Iterator[tuple[int, int]]:
        """The partitions that a pattern can match in."""
        if isinstance(pattern.p, int) and not isinstance(pattern.graph, str):
            key = (DEFAULT_GRAPH if pattern.graph is None else pattern.graph, pattern.p)
            if key in self.entries:
                yield key
            return
        for graph, predicate in self.entries:
            if isinstance(pattern.graph, str):
                right_graph = graph not in (DEFAULT_GRAPH, self.quoted)
            else:
                right_graph = graph == (DEFAULT_GRAPH if pattern.graph is None else pattern.graph)
            if right_graph and (isinstance(pattern.p, str) or pattern.p == predicate):
                yield graph, predicate


def _bindings(pattern: StaticPattern, graph: int, predicate: int, partition: Relation) -> Relation:
    """The bindings of a pattern in one partition. A row without variables becomes a row without columns that counts once."""
    found = partition
    if isinstance(pattern.s, int) and isinstance(pattern.o, int):
        found = _equal_to(_equal_to(found, "s", pattern.s), "o", pattern.o, scan=True)
    elif isinstance(pattern.s, int):
        found = _equal_to(found, "s", pattern.s)
    elif isinstance(pattern.o, int):
        found = _equal_to(found, "o", pattern.o)
    columns: dict[str, Ids] = {}
    mask: NDArray[np.bool_] | None = None
    for node, values in (
        (pattern.s, found.columns["s"]),
        (pattern.p, predicate),
        (pattern.o, found.columns["o"]),
        (pattern.graph, graph),
    ):
        if not isinstance(node, str):
            continue
        if node in columns:
            equal = columns[node] == values
            mask = equal if mask is None else mask & equal
        else:
            columns[node] = np.full(found.rows, values, np.int64) if isinstance(values, int) else values
    result = Relation(columns, None if columns else np.ones(found.rows, np.int64), found.rows)
    return result if mask is None else result.take(mask)


def _equal_to(relation: Relation, variable: str, value: int, scan: bool = False) -> Relation:
    """The rows with a value of a variable, by the index or by a scan."""
    if scan:
        return relation.take(relation.columns[variable] == value)
    return relation.take(relation.index((variable,)).lookup(np.array([value], np.int64))[1])
