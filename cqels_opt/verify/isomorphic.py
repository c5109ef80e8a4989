"""Graphs whose triples are equal but for the labels of blank nodes: are they one graph?"""

from __future__ import annotations

from collections.abc import Iterable

from rdflib import BNode, Graph, URIRef
from rdflib.compare import isomorphic as rdflib_isomorphic

from cqels_opt.verify.model import Triple


def isomorphic(one: Iterable[Triple], other: Iterable[Triple]) -> bool:
    """Whether some renaming of blank nodes makes two graphs equal. Other terms are equal if their texts are."""
    return bool(rdflib_isomorphic(_graph(one), _graph(other)))


def _graph(triples: Iterable[Triple]) -> Graph:
    graph = Graph()
    for s, p, o in triples:
        graph.add((_node(s), _node(p), _node(o)))
    return graph


def _node(term: str) -> BNode | URIRef:
    # A literal must not be taken for another of equal value: each text is a name of its own.
    return BNode(term[2:]) if term.startswith("_:") else URIRef(f"urn:{term.encode().hex()}")
