"""Reads the expected result of a test from any of the W3C's result formats, and compares results.

Blank nodes are equal if some renaming makes them so. Numbers are equal if datatype and value are equal: these tests do not check
lexical forms. Results in CSV have no types, so their texts are compared.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from pyoxigraph import QueryBoolean, QueryResultsFormat, RdfFormat, parse_query_results
from pyoxigraph import parse as parse_rdf
from rdflib import Graph, Namespace
from rdflib.term import Node

from cqels_opt.errors import InputError
from cqels_opt.query.values import NUMERIC_TYPES, is_number, value
from cqels_opt.rdf.documents import TermTexts
from cqels_opt.rdf.terms import canonical, is_triple, literal_parts, triple_parts

Solution = Mapping[str, str]
Triple = tuple[str, str, str]
_RESULT = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/result-set#")
_SOLUTIONS = {".srx": QueryResultsFormat.XML, ".srj": QueryResultsFormat.JSON, ".tsv": QueryResultsFormat.TSV}
RDF_FORMATS = {
    ".ttl": RdfFormat.TURTLE,
    ".rdf": RdfFormat.RDF_XML,
    ".nt": RdfFormat.N_TRIPLES,
    ".nq": RdfFormat.N_QUADS,
    ".trig": RdfFormat.TRIG,
}


@dataclass(frozen=True, slots=True)
class Result:
    """Solutions in order, a boolean, or a graph. ``texts``: solutions whose terms have lost their types (CSV)."""

    solutions: tuple[Solution, ...] | None = None
    boolean: bool | None = None
    graph: frozenset[Triple] | None = None
    texts: bool = False


def read_quads(file: Path) -> list[tuple[str, str, str, str | None]]:
    """A file's quads as canonical terms; the graph is None for the default graph."""
    found = parse_rdf(path=str(file), format=RDF_FORMATS[file.suffix], base_iri=file.as_uri(), rename_blank_nodes=True)
    texts = TermTexts()
    return [quad for read in found for quad in texts.quads(read)]


def read_result(file: Path) -> Result:
    """The result in a file."""
    if file.suffix == ".csv":
        with file.open(encoding="utf-8", newline="") as lines:
            rows = [{name: text for name, text in row.items() if text} for row in csv.DictReader(lines)]
        return Result(solutions=tuple(rows), texts=True)
    if file.suffix in _SOLUTIONS:
        found = parse_query_results(path=str(file), format=_SOLUTIONS[file.suffix])
        if isinstance(found, QueryBoolean):
            return Result(boolean=bool(found))
        names = [variable.value for variable in found.variables]
        texts = TermTexts()
        return Result(tuple({n: texts.text(t) for n in names if (t := row[n]) is not None} for row in found))
    if file.suffix in RDF_FORMATS:
        quads = read_quads(file)
        if any(o == f"<{_RESULT.ResultSet}>" for _, _, o, _ in quads):
            return _result_set(Graph().parse(file, publicID=file.as_uri()))
        return Result(graph=frozenset((s, p, o) for s, p, o, _ in quads))
    raise InputError(f"{file.name}: no format of results is written so")


def _result_set(graph: Graph) -> Result:
    """A result set in RDF; its solutions may be numbered."""
    for boolean in graph.objects(None, _RESULT.boolean):
        return Result(boolean=str(boolean) == "true")

    def place(solution: Node) -> int:
        return int(str(graph.value(solution, _RESULT["index"]) or 0))

    found = []
    for solution in sorted(graph.objects(None, _RESULT.solution), key=place):
        pairs = (
            (graph.value(b, _RESULT.variable), graph.value(b, _RESULT.value)) for b in graph.objects(solution, _RESULT.binding)
        )
        found.append({str(name): canonical(term.n3()) for name, term in pairs if term is not None})
    return Result(tuple(found))


# ------------------------------------------------------------------ comparison
def difference(got: Result, wanted: Result, ordered_by: Sequence[str] = (), lax: bool = False) -> str | None:
    """Describes how a result differs from the wanted one; None if they are equal.

    ``ordered_by``: variables by whose values the solutions are ordered. ``lax``: duplicates may be dropped, except one.
    """
    if wanted.boolean is not None:
        return None if got.boolean is wanted.boolean else f"is {got.boolean}, not {wanted.boolean}"
    if wanted.graph is not None:
        if got.graph is None:
            return "is no graph"
        as_rows = [[dict(zip("spo", triple)) for triple in graph] for graph in (got.graph, wanted.graph)]
        return _unmatched([_normal(r, False) for r in as_rows[0]], [_normal(r, False) for r in as_rows[1]])
    if got.solutions is None or wanted.solutions is None:
        return "is no table of solutions"
    ours, theirs = ([_normal(row, wanted.texts, part is got) for row in part.solutions or ()] for part in (got, wanted))
    if lax:
        counts = Counter(map(_shape, ours)), Counter(map(_shape, theirs))
        if set(counts[0]) == set(counts[1]) and all(counts[0][row] <= counts[1][row] for row in counts[0]):
            return None
    orders = [[tuple(_plain(row.get(name)) for name in ordered_by) for row in rows] for rows in (ours, theirs)]
    return _unmatched(ours, theirs) or ("has another order" if orders[0] != orders[1] else None)


Normal = dict[str, object]
_BLANK = "_:"


def _normal(row: Solution, texts: bool, typed: bool = True) -> Normal:
    if texts:
        return {name: _text(term, typed) for name, term in row.items() if term != '""'}
    return {place: found for name, term in row.items() for place, found in _cells(name, term)}


def _cells(name: str, term: str) -> Iterator[tuple[str, object]]:
    """A term, or the components of a triple term, in which blank nodes are renamed like others."""
    if not is_triple(term):
        yield name, _value(term)
        return
    yield name, "<<( )>>"
    for part, found in zip(("subject", "predicate", "object"), triple_parts(term)):
        yield from _cells(f"{name} {part}", found)


def _value(term: str) -> object:
    """A number as its datatype and value, any other term unchanged."""
    if term.startswith('"') and (datatype := literal_parts(term)[1]) in NUMERIC_TYPES:
        found = value(term)
        if is_number(found):
            return datatype, float(found) if isinstance(found, float) else Decimal(found).normalize()
    return term


def _text(term: str, typed: bool) -> object:
    """The text of a term in CSV."""
    if typed:
        term = literal_parts(term)[0] if term.startswith('"') else term.removeprefix("<").removesuffix(">")
    try:
        return Decimal(term)
    except ArithmeticError:
        return term


def _is_blank(found: object) -> bool:
    return isinstance(found, str) and found.startswith(_BLANK)


def _plain(found: object) -> object:
    return _BLANK if _is_blank(found) else found


def _shape(row: Normal) -> frozenset[tuple[str, object]]:
    return frozenset((name, _plain(found)) for name, found in row.items())


def _unmatched(ours: list[Normal], theirs: list[Normal]) -> str | None:
    """Describes the difference of two bags of rows; None if some renaming of blank nodes makes them equal."""
    counts = Counter(map(_shape, ours)), Counter(map(_shape, theirs))
    if counts[0] != counts[1]:
        lacks, has = (sorted(map(_shown, part)) for part in (counts[1] - counts[0], counts[0] - counts[1]))
        return "; ".join(
            f"{word} {', '.join(rows[:3])}{' …' * (len(rows) > 3)}" for word, rows in (("lacks", lacks), ("has", has)) if rows
        )
    return None if _renamed(ours, theirs) else "shares its blank nodes differently"


def _shown(row: frozenset[tuple[str, object]]) -> str:
    cells = (
        f"{name} {' '.join(map(str, found)) if isinstance(found, tuple) else found}"
        for name, found in sorted(row, key=lambda c: c[0])
    )
    return "{" + ", ".join(cells) + "}"


def _renamed(ours: list[Normal], theirs: list[Normal]) -> bool:
    """Whether a renaming of blank nodes makes two bags of rows with equal shapes equal, by backtracking row by row."""
    free: defaultdict[frozenset[tuple[str, object]], list[Normal]] = defaultdict(list)
    for row in theirs:
        free[_shape(row)].append(row)
    pending = sorted((row for row in ours if any(map(_is_blank, row.values()))), key=lambda row: len(free[_shape(row)]))
    return _assign(pending, 0, free, {}, {})


def _assign(
    pending: list[Normal],
    at: int,
    free: Mapping[frozenset[tuple[str, object]], list[Normal]],
    there: dict[object, object],
    back: dict[object, object],
) -> bool:
    if at == len(pending):
        return True
    row, candidates = pending[at], free[_shape(pending[at])]
    for number, other in enumerate(candidates):
        pairs = [(found, other[name]) for name, found in row.items() if _is_blank(found)]
        forth, backwards = {**there, **dict(pairs)}, {**back, **{b: a for a, b in pairs}}
        if all(there.get(a, b) == b and back.get(b, a) == a and forth[a] == b and backwards[b] == a for a, b in pairs):
            del candidates[number]
            if _assign(pending, at + 1, free, forth, backwards):
                return True
            candidates.insert(number, other)
    return False
