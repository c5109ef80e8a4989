"""Graph isomorphism: whether two graphs are equal except for the labels of blank nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import networkx as nx
from rdflib import BNode, Graph, URIRef
from rdflib.compare import to_isomorphic

from cqels_opt.verify.model import Triple


def isomorphic(one: Iterable[Triple], other: Iterable[Triple]) -> bool:
    """Whether some renaming of blank nodes makes two graphs equal. Other terms are equal if their texts are equal.

    Connected components of blank nodes are compared separately: the graph of a CONSTRUCT has similar blank nodes for each of
    hundreds of solutions, for which a search for one renaming of the whole graph would not terminate in reasonable time.
    """
    one_set, others = set(one), set(other)
    if _ground(one_set) != _ground(others):
        return False
    return Counter(map(_digest, _parts(one_set))) == Counter(map(_digest, _parts(others)))


def _blank(triple: Triple) -> list[str]:
    return [term for term in triple if term.startswith("_:")]


def _ground(triples: Iterable[Triple]) -> set[Triple]:
    return {triple for triple in triples if not _blank(triple)}


def _parts(triples: Iterable[Triple]) -> Iterator[list[Triple]]:
    """The triples with blank nodes, grouped by connected components of blank nodes."""
    found = [(triple, blank) for triple in triples if (blank := _blank(triple))]
    together: nx.Graph[str] = nx.Graph()
    for _, (first, *others) in found:
        together.add_node(first)
        together.add_edges_from((first, blank) for blank in others)
    part_of = {blank: number for number, part in enumerate(nx.connected_components(together)) for blank in part}
    parts: dict[int, list[Triple]] = {}
    for triple, (first, *_) in found:
        parts.setdefault(part_of[first], []).append(triple)
    yield from parts.values()


def _digest(triples: Iterable[Triple]) -> int:
    graph = Graph()
    for s, p, o in triples:
        graph.add((_node(s), _node(p), _node(o)))
    return int(to_isomorphic(graph).internal_hash())  # type: ignore[no-untyped-call]


def _node(term: str) -> BNode | URIRef:
    # Literals of equal value must stay distinct: each text becomes its own IRI.
    return BNode(term[2:]) if term.startswith("_:") else URIRef(f"urn:{term.encode().hex()}")
