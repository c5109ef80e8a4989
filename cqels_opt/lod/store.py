"""The static store: which bindings does a triple pattern have in the static graphs?

A store is a folder: ``store.json`` (format version, hash seed, counts, fingerprint, sources), ``dictionary/`` and a vertical
partition a graph and predicate, ``graphs/<default or graph id>/<predicate id>/``, a saved :class:`Relation` of ``s`` and ``o``
indexed both ways. Everything is memory-mapped when it is first used. Each graph is a set of triples.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.errors import StoreError
from cqels_opt.lod.dictionary import Dictionary, PartEntry
from cqels_opt.lod.files import read_header
from cqels_opt.lod.index import Ids
from cqels_opt.lod.relation import HEADER as RELATION_HEADER
from cqels_opt.lod.relation import Relation

FORMAT: Final = "cqels-opt store"
VERSION: Final = 1
HEADER: Final = "store.json"
DICTIONARY: Final = "dictionary"
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
        """Where it lies in the store."""
        return Path(GRAPHS) / graph_name(self.graph) / f"{self.predicate:016x}"


def array_bytes(folder: Path) -> int:
    """The bytes of the arrays in a folder; 0 if there is no folder."""
    if not folder.is_dir():
        return 0
    with os.scandir(folder) as files:
        return sum(file.stat().st_size for file in files if file.name.endswith(".npy"))


def graph_name(graph: int) -> str:
    """The folder name of a graph."""
    return "default" if graph == DEFAULT_GRAPH else f"{graph:016x}"


class Store:
    """An open store. :meth:`open` maps it; :meth:`match` answers triple patterns."""

    def __init__(self, path: Path, header: Mapping[str, Any], dictionary: Dictionary, entries: list[PartitionEntry]) -> None:
        self.path = path
        self.seed: int = header["seed"]
        self.triples: int = header["triples"]
        self.fingerprint: str = header["fingerprint"]
        self.sources: list[dict[str, Any]] = header["sources"]
        self.dictionary = dictionary
        self.entries = {(entry.graph, entry.predicate): entry for entry in entries}
        self._named: Ids = np.array(sorted(graph for graph in header["graphs"] if graph != DEFAULT_GRAPH), np.int64)
        self._relations: dict[tuple[int, int], Relation] = {}

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open a store; StoreError if it is absent, damaged or of a newer version. Its data are read when they are used."""
        if not path.is_dir():
            raise StoreError(
                f"{path} is not a folder: there is no store" if path.exists() else f"{path} does not exist: there is no store"
            )
        header = read_header(path / HEADER, FORMAT, VERSION)
        try:
            entries = [PartitionEntry(*entry) for entry in header["partitions"]]
            dictionary = Dictionary.open(path / DICTIONARY, [PartEntry(**entry) for entry in header["dictionary"]])
            store = cls(path, header, dictionary, entries)
        except (KeyError, TypeError) as error:
            raise StoreError(f"{path / HEADER} is damaged: {error!r}") from error
        for entry in entries:
            if array_bytes(path / entry.folder) != entry.size:
                store.partition(entry.graph, entry.predicate)
                raise StoreError(
                    f"{path / entry.folder} does not have its {entry.size} bytes: the store is damaged, load it again"
                )
        return store

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
        """The canonical texts of ids; None where neither the dictionary nor the id itself has it."""
        return self.dictionary.decode(ids)

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        """Which ids :meth:`decode` knows."""
        return self.dictionary.contains(ids)

    def partition(self, graph: int, predicate: int) -> Relation:
        """The triples of a graph (0: the default graph) and predicate as a relation of ``s`` and ``o``, sorted and indexed."""
        relation = self._relations.get((graph, predicate))
        if relation is None:
            entry = self.entries[graph, predicate]
            folder = self.path / entry.folder
            relation = Relation.open(folder)
            if relation.checksum != entry.checksum:
                raise StoreError(
                    f"{folder / RELATION_HEADER} is not the one that was loaded: the store was changed, open it again"
                )
            self._relations[graph, predicate] = relation
        return relation

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

    def _chosen(self, pattern: StaticPattern) -> Iterator[tuple[int, int]]:
        """The partitions that a pattern can match in."""
        if isinstance(pattern.p, int) and not isinstance(pattern.graph, str):
            key = (DEFAULT_GRAPH if pattern.graph is None else pattern.graph, pattern.p)
            if key in self.entries:
                yield key
            return
        for graph, predicate in self.entries:
            if isinstance(pattern.graph, str):
                right_graph = graph != DEFAULT_GRAPH
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
    """The rows where a variable has a value, by the index or by looking at every row."""
    if scan:
        return relation.take(relation.columns[variable] == value)
    return relation.take(relation.index((variable,)).lookup(np.array([value], np.int64))[1])
