"""VoID: reads and writes the sizes in the description of a dataset (W3C Interest Group Note "Describing Linked Datasets with the
VoID Vocabulary", 2011, §4).

Of a ``void:Dataset`` these are read: ``void:triples``, ``void:distinctSubjects``, ``void:distinctObjects``,
``void:propertyPartition`` with ``void:property``, and ``void:classPartition`` with ``void:class`` and ``void:entities``. A
dataset that describes no partitions of its own is the sum of its ``void:subset``. Named graphs are described as in SPARQL 1.1
Service Description: ``sd:namedGraph`` with ``sd:name`` and ``sd:graph``, next to ``sd:defaultGraph``. Several datasets in one
file add up.

An invalid count is ignored and reported in :attr:`Description.faults`. Answers never depend on a description.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import Final

import pyoxigraph as ox

from cqels_opt.errors import DataError, first_of
from cqels_opt.rdf.static import Failures, StaticSource, read_all
from cqels_opt.rdf.terms import RDF_TYPE

VOID: Final = "http://rdfs.org/ns/void#"
SD: Final = "http://www.w3.org/ns/sparql-service-description#"

_COUNT = re.compile(r'"\+?(\d{1,18})"(?:\^\^<[^>]*>)?')
_TYPE: Final = f"<{RDF_TYPE}>"


def _void(name: str) -> str:
    return f"<{VOID}{name}>"


def _sd(name: str) -> str:
    return f"<{SD}{name}>"


TRIPLES, SUBJECTS, OBJECTS = _void("triples"), _void("distinctSubjects"), _void("distinctObjects")
PROPERTY_PARTITION, PROPERTY, CLASS_PARTITION = _void("propertyPartition"), _void("property"), _void("classPartition")
CLASS, ENTITIES, SUBSET, DATASET = _void("class"), _void("entities"), _void("subset"), _void("Dataset")
DEFAULT_GRAPH, NAMED_GRAPH, NAME, GRAPH = _sd("defaultGraph"), _sd("namedGraph"), _sd("name"), _sd("graph")

#: The predicates of a description: data without any of them describe nothing.
PREDICATES: Final = (
    *(TRIPLES, SUBJECTS, OBJECTS, PROPERTY_PARTITION, PROPERTY, CLASS_PARTITION, CLASS, ENTITIES, SUBSET),
    *(DEFAULT_GRAPH, NAMED_GRAPH, NAME, GRAPH),
)


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of triples, distinct subjects and distinct objects; None: unknown."""

    triples: int | None = None
    subjects: int | None = None
    objects: int | None = None

    def __add__(self, other: Counts) -> Counts:
        """The counts of two disjoint sets together."""
        return Counts(*(_sum(a, b) for a, b in zip(self, other)))

    def __iter__(self) -> Iterator[int | None]:
        return iter((self.triples, self.subjects, self.objects))


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """The counts of a graph: in total, per property and per class (entities); keys are the canonical texts of IRIs."""

    whole: Counts = Counts()
    properties: Mapping[str, Counts] = field(default_factory=dict)
    classes: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: GraphCounts) -> GraphCounts:
        """The counts of two disjoint graphs together."""
        properties, classes = dict(self.properties), dict(self.classes)
        for name, counts in other.properties.items():
            properties[name] = properties[name] + counts if name in properties else counts
        for name, entities in other.classes.items():
            classes[name] = classes.get(name, 0) + entities
        return GraphCounts(self.whole + other.whole, properties, classes)

    def __bool__(self) -> bool:
        return bool(self.properties or self.classes or self.whole.triples is not None)


@dataclass(frozen=True, slots=True)
class Description:
    """The sizes of the default graph and of named graphs in a VoID description. ``faults`` describe its unusable parts."""

    default: GraphCounts = field(default_factory=GraphCounts)
    named: Mapping[str, GraphCounts] = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.default) or any(self.named.values())

    def warning(self, where: str) -> str | None:
        """All faults in one sentence; None without faults."""
        if not self.faults:
            return None
        return f"{where}: {first_of(self.faults)}: left out of the VoID description"


def read_description(path: Path) -> Description:
    """The description in an RDF file; DataError if it cannot be read or contains no sizes."""
    found = described(t for quads in read_all([StaticSource(path)], Failures(skip=False)) for t in zip(quads.s, quads.p, quads.o))
    if not found:
        because = f": {found.faults[0]}" if found.faults else ""
        raise DataError(
            f"{path}: no VoID description in it (a void:Dataset with void:triples or void:propertyPartition){because}"
        )
    return found


def described(triples: Iterable[tuple[str, str, str]]) -> Description:
    """The description in triples of canonical terms; empty if they contain none."""
    return _Reader(triples).description()


class _Reader:
    def __init__(self, triples: Iterable[tuple[str, str, str]]) -> None:
        self.values: dict[str, dict[str, set[str]]] = {}
        for s, p, o in triples:
            if p in _READ:
                self.values.setdefault(s, {}).setdefault(p, set()).add(o)
        self.faults: list[str] = []

    def description(self) -> Description:
        inside = {o for of in self.values.values() for p in _INSIDE for o in of.get(p, ())}
        default: list[GraphCounts] = []
        named: dict[str, list[GraphCounts]] = {}
        for node in sorted(set(self.values) - inside):
            default += [self._graph(part) for part in self._all(node, DEFAULT_GRAPH) or [node]]
            for entry in self._all(node, NAMED_GRAPH):
                for name in self._all(entry, NAME):
                    named.setdefault(name, []).extend(self._graph(graph) for graph in self._all(entry, GRAPH))
        return Description(_total(default), {name: _total(graphs) for name, graphs in named.items()}, tuple(self.faults))

    def _all(self, node: str, predicate: str) -> list[str]:
        return sorted(self.values.get(node, {}).get(predicate, ()))

    def _graph(self, node: str, within: frozenset[str] = frozenset()) -> GraphCounts:
        """The counts of a dataset; stops at a dataset that is its own subset."""
        properties: dict[str, Counts] = {}
        for part in self._all(node, PROPERTY_PARTITION):
            for name in self._all(part, PROPERTY):
                counts = self._counts(part, f"of property {name}")
                properties[name] = properties[name] + counts if name in properties else counts
        classes: dict[str, int] = {}
        for part in self._all(node, CLASS_PARTITION):
            for name in self._all(part, CLASS):
                if (entities := self._count(part, ENTITIES, f"of class {name}")) is not None:
                    classes[name] = classes.get(name, 0) + entities
        whole = self._counts(node, f"of {node}")
        subsets = [] if properties else [part for part in self._all(node, SUBSET) if part not in within | {node}]
        below = _total([self._graph(part, within | {node}) for part in subsets])
        return GraphCounts(
            whole if whole.triples is not None else below.whole, properties or below.properties, classes or below.classes
        )

    def _counts(self, node: str, what: str) -> Counts:
        triples = self._count(node, TRIPLES, what)
        ends = [self._count(node, of, what, triples) for of in (SUBJECTS, OBJECTS)]
        return Counts(triples, *ends)

    def _count(self, node: str, predicate: str, what: str, most: int | None = None) -> int | None:
        values = self._all(node, predicate)
        name = f"void:{predicate[len(VOID) + 1 : -1]}"
        if len(values) > 1:
            self.faults.append(f"{name} {what} is said {len(values)} times: {', '.join(values[:3])}")
            return None
        for text in values:
            found = _COUNT.fullmatch(text)
            if found is None:
                self.faults.append(f"{name} {what} is {text}, which is no count")
                return None
            if most is not None and int(found[1]) > most:
                self.faults.append(f"{name} {what} is {int(found[1])}, of {most} triples")
                return None
            return int(found[1])
        return None


_INSIDE = (PROPERTY_PARTITION, CLASS_PARTITION, SUBSET, DEFAULT_GRAPH, NAMED_GRAPH, GRAPH)
_READ = frozenset(PREDICATES)


def _total(graphs: Iterable[GraphCounts]) -> GraphCounts:
    """The sum of the graphs that have any counts."""
    described_graphs = [graph for graph in graphs if graph]
    return reduce(add, described_graphs) if described_graphs else GraphCounts()


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


# ------------------------------------------------------------------ writing
def turtle(description: Description) -> str:
    """A description in Turtle, readable by :func:`read_description`. Partitions are in descending order of size."""
    triples = list(_dataset(description))
    text = ox.serialize(triples, format=ox.RdfFormat.TURTLE, prefixes={"void": VOID, "sd": SD})
    assert text is not None  # bytes, because no file was given
    return text.decode()


def _dataset(description: Description) -> Iterator[ox.Triple]:
    root = ox.BlankNode("dataset")
    yield _triple(root, _TYPE, DATASET)
    yield _triple(root, _TYPE, _sd("Dataset"))
    if description.named:
        default = ox.BlankNode("default")
        yield _triple(root, DEFAULT_GRAPH, default)
        yield from _described_graph(default, description.default)
    else:
        yield from _described_graph(root, description.default)
    for number, (name, counts) in enumerate(sorted(description.named.items())):
        entry, graph = ox.BlankNode(f"named{number}"), ox.BlankNode(f"graph{number}")
        yield from (_triple(root, NAMED_GRAPH, entry), _triple(entry, NAME, name), _triple(entry, GRAPH, graph))
        yield from _described_graph(graph, counts)


def _described_graph(node: ox.BlankNode, graph: GraphCounts) -> Iterator[ox.Triple]:
    yield from _counted(node, graph.whole)
    largest = sorted(graph.properties.items(), key=lambda item: (-(item[1].triples or 0), item[0]))
    for number, (name, counts) in enumerate(largest):
        part = ox.BlankNode(f"{node.value}p{number}")
        yield from (_triple(node, PROPERTY_PARTITION, part), _triple(part, PROPERTY, name))
        yield from _counted(part, counts)
    for number, (name, entities) in enumerate(sorted(graph.classes.items(), key=lambda item: (-item[1], item[0]))):
        part = ox.BlankNode(f"{node.value}c{number}")
        yield from (_triple(node, CLASS_PARTITION, part), _triple(part, CLASS, name), _triple(part, ENTITIES, entities))


def _counted(node: ox.BlankNode, counts: Counts) -> Iterator[ox.Triple]:
    for predicate, count in zip((TRIPLES, SUBJECTS, OBJECTS), counts):
        if count is not None:
            yield _triple(node, predicate, count)


def _triple(s: ox.BlankNode, p: str, o: ox.BlankNode | str | int) -> ox.Triple:
    value = ox.Literal(o) if isinstance(o, int) else ox.NamedNode(o[1:-1]) if isinstance(o, str) else o
    return ox.Triple(s, ox.NamedNode(p[1:-1]), value)
