"""Evaluates sub-selects that read no window once, since their rows are the same at every instant, and stores them as triples.

This is only for speed: SPARQL evaluates a sub-select independently, before it is joined with its context. Before and after::

    { SELECT ?a (COUNT(*) AS ?n) { ?p :by ?a } GROUP BY ?a }
    { GRAPH <urn:cqels-opt:window:rows#1> { ?_bag_row1 <urn:cqels-opt:a> ?a . ?_bag_row1 <urn:cqels-opt:n> ?n . } }

Every row is a separate node, which preserves multiplicities. The variable of the node would appear only in ``DISTINCT *``: such
queries stay unchanged, as do sub-selects inside GRAPH and EXISTS, with NOW(), with unbound results, or with too many rows.
"""

from __future__ import annotations

from itertools import pairwise

from cqels_opt.verify.dialects import WINDOW
from cqels_opt.verify.heads import PREFIX
from cqels_opt.verify.model import Triple
from cqels_opt.verify.rewrite import NOW_MARK, Plain
from cqels_opt.verify.sparql_engine import SparqlEngine
from cqels_opt.verify.tokens import Token, apply, closing, solid, tokens

_MOST = 2_000_000
"""The maximum number of values stored for one sub-select."""


def evaluated_once(engine: SparqlEngine, plain: Plain) -> str:
    """The text with its static sub-selects replaced by graphs of their rows, which are added to the engine."""
    found = solid(tokens(plain.text))
    if plain.merged:  # patterns outside GRAPH also match windows
        return plain.text
    if any(t.word() == "DISTINCT" and n.text == "*" for t, n in pairwise(found)):
        return plain.text
    edits = []
    for number, (start, end) in enumerate(_static(found, plain.text), 1):
        pattern = _rows(engine, f"{plain.prologue} {plain.text[start:end]}", number)
        if pattern:
            edits.append((start, end, pattern))
    return apply(plain.text, edits)


def _static(found: list[Token], text: str) -> list[tuple[int, int]]:
    """The positions of the outermost sub-selects that can be evaluated independently, without their braces."""
    spans: list[tuple[int, int]] = []
    place = next(p for p, t in enumerate(found) if t.text == "{")
    while place < len(found):
        token = found[place]
        if token.word() in ("GRAPH", "EXISTS"):  # another graph, or other variables, would be visible there
            place = closing(found, next(p for p in range(place, len(found)) if found[p].text == "{"))
        elif token.text == "{" and found[place + 1].word() == "SELECT":
            end = closing(found, place)
            inner = text[found[place + 1].start : found[end].start]
            if WINDOW not in inner and NOW_MARK not in inner:
                spans.append((found[place + 1].start, found[end].start))
                place = end
        place += 1
    return spans


def _rows(engine: SparqlEngine, text: str, number: int) -> str:
    """Stores the rows of a sub-select in a graph; returns the pattern that matches them, or "" if it cannot."""
    graph, node = f"{WINDOW}rows#{number}", f"?{PREFIX}row{number}"
    rows = engine.select(text)
    names = sorted({name for row in rows for name, _ in row})
    if not names or any(len(row) < len(names) for row in rows) or sum(rows.values()) * len(names) > _MOST:
        return ""
    triples: list[Triple] = []
    for row, count in rows.items():
        for _ in range(count):
            subject = f"<{graph}:{len(triples)}>"
            triples += [(subject, f"<urn:cqels-opt:{name}>", term) for name, term in sorted(row)]
    engine.add(graph, triples)
    return f"GRAPH <{graph}> {{ " + " ".join(f"{node} <urn:cqels-opt:{name}> ?{name} ." for name in names) + " } "
