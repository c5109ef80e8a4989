"""Triple terms in a store: what they consist of is asked like any other relation, and is in nobody's way."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cqels_opt.lod import loading
from cqels_opt.lod.build import build_store, encode_quads
from cqels_opt.lod.check import check, info
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.store import StaticPattern
from cqels_opt.lod.triple_terms import PARTS, TERMS_GRAPH
from cqels_opt.rdf.ids import PUBLIC, encode_one
from cqels_opt.rdf.quads import Quad, Quads
from cqels_opt.rdf.static import StaticSource, pieces

INNER = '<<( <urn:b> <urn:q> "x" )>>'
OUTER = f"<<( <urn:a> <urn:p> {INNER} )>>"
QUADS: list[Quad] = [
    ("_:r", "<urn:says>", OUTER, None),
    ("_:r", "<urn:says>", INNER, "<urn:g>"),
    (INNER, "<urn:since>", "<urn:x>", None),
]


def ids(*terms: str) -> list[int]:
    return [encode_one(term, PUBLIC) for term in terms]


def test_parts_are_relations_indexed_both_ways(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", QUADS)
    (graph,) = ids(TERMS_GRAPH)
    for name, outer, inner in zip(PARTS, ("<urn:a>", "<urn:p>", INNER), ("<urn:b>", "<urn:q>", '"x"')):
        found = store.match(StaticPattern("term", encode_one(name, PUBLIC), "part", graph))
        assert set(zip(found.columns["term"].tolist(), found.columns["part"].tolist())) == set(
            zip(ids(OUTER, INNER), ids(outer, inner))
        )
        assert {("term",), ("part",)} <= set(found.indexes)
        assert store.decode(np.array(ids(outer, inner))) == [outer, inner]


def test_no_pattern_meets_them_by_chance(tmp_path: Path) -> None:
    """Neither GRAPH ?g, nor ?s ?p ?o, nor the number of triples or graphs, knows of them."""
    store = build_store(tmp_path / "store", QUADS)
    assert store.triples == 3
    assert store.named_graphs().tolist() == ids("<urn:g>")
    assert store.match(StaticPattern("s", "p", "o", "g")).rows == 1
    assert store.match(StaticPattern("s", "p", "o")).rows == 2
    assert check(tmp_path / "store") == []
    assert info(tmp_path / "store").graphs == ("<urn:g>",)


def test_a_load_in_two_stages_cuts_them_as_it_cuts_others(tmp_path: Path) -> None:
    file = tmp_path / "a.nt"
    file.write_text("".join(f"{s} {p} {o} .\n" for s, p, o, _ in QUADS if not s.startswith("<<")), encoding="utf-8")
    (piece,) = pieces(StaticSource(file), 0, 1 << 30)
    spill = loading.spill_pieces([piece], tmp_path, PUBLIC, False, loading.Cuts(buckets=2, subjects=2, terms=2)).spill
    assert spill is not None
    partitions = [p for b in range(2) for p in loading.gather_quads([[cut] for cut in spill.quads(b)], tmp_path).partitions]
    parts = {encode_one(name, PUBLIC): 2 for name in PARTS}
    assert {entry.predicate: entry.triples for entry in partitions} == parts | {encode_one("<urn:says>", PUBLIC): 2}
    ends = [spill.terms(number) for number in range(loading.dictionary_ranges(2))]
    texts = encode_quads(Quads.of([quad for quad in QUADS if not quad[0].startswith("<<")]), PUBLIC).term_texts.to_pylist()
    assert sum(part.end - part.start for part in ends) == len({text for text in texts if text != "<urn:g>"})


def test_a_store_without_triple_terms_has_no_such_graph(tmp_path: Path) -> None:
    store = open_store(build_store(tmp_path / "store", [("<urn:a>", "<urn:p>", "<urn:b>", None)]).path)
    assert {graph for graph, _ in store.entries} == {0}
