"""Runs one W3C test on the engine without Spark: as a query over static data, and with its data as one element of a stream.

As a static query it has a window over all elements that its body does not use; a single element provides the instant of the
answer. As a stream, the default graph *is* that window's content: patterns over the static default graph match the window
instead, and the element contains the whole data graph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.parse import urljoin

from cqels_opt.bench.local import Prepared
from cqels_opt.bench.w3c.manifest import W3CTest
from cqels_opt.bench.w3c.results import Result, Solution, difference, read_quads, read_result
from cqels_opt.compiler.compile import Compiler
from cqels_opt.errors import CqelsOptError, QueryError
from cqels_opt.lod.build import build_store
from cqels_opt.query.algebra import DefaultGraph, Distinct, InWindow, OrderBy, Project, Query, Slice, Variable, Window
from cqels_opt.query.parser import parse
from cqels_opt.rdf.terms import XSD_STRING, TermError, literal, triple
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.instants import Policy, Report
from cqels_opt.windows.replay import ReplaySource, cut

Way = Literal["static", "stream"]
WAYS: tuple[Way, ...] = ("static", "stream")
TICKS, ELEMENTS = "urn:w3c:ticks", "urn:w3c:elements"
"""The stream whose element provides the instant, and the stream whose element is the default graph."""
_FROM = re.compile(r"\bFROM\s+(NAMED\s+)?<([^<>]*)>", re.IGNORECASE)
_UNSUPPORTED = ("not supported",)

Quads = list[tuple[str, str, str, str | None]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a test; ``way`` is None for a syntax test, ``problem`` is None if it passes."""

    test: W3CTest
    way: Way | None
    problem: str | None

    @property
    def passes(self) -> bool:
        """Whether the test passes."""
        return self.problem is None


def check_syntax(test: W3CTest) -> Outcome:
    """A good query must parse; a bad one must be rejected, and not because a feature is unsupported."""
    try:
        parse(test.text, "cqels", test.query.name, any_function=True)
    except QueryError as error:
        if test.kind == "good syntax":
            return Outcome(test, None, f"refused: {error.message}")
        told = any(words in error.message for words in _UNSUPPORTED)
        return Outcome(test, None, f"refused for another reason: {error.message}" if told else None)
    return Outcome(test, None, "accepted" if test.kind == "bad syntax" else None)


def check(test: W3CTest, way: Way) -> Outcome:
    """Whether the engine's result equals the W3C's."""
    try:
        query = parse(test.text, "cqels", test.query.name)
        if test.result is None:
            return Outcome(test, way, None)
        quads = data_of(test)
        with TemporaryDirectory(prefix="cqels-opt-w3c-") as folder:
            got = run(query, quads, way, Path(folder))
        return Outcome(test, way, difference(got, read_result(test.result), ordered_by(query), test.lax))
    except CqelsOptError as error:
        return Outcome(test, way, error.message if isinstance(error, QueryError) else str(error))
    except TermError as error:
        return Outcome(test, way, str(error))


def data_of(test: W3CTest) -> Quads:
    """A test's data: its default graph, its named graphs, and the files of its FROM clauses."""
    quads = [quad for file in test.data for quad in read_quads(file)]
    graphs = dict(test.graphs)
    if not test.data and not test.graphs:
        for _, written in _FROM.findall(test.query.read_text(encoding="utf-8")):
            iri = urljoin(test.query.as_uri(), written)
            graphs[iri] = Path(iri.removeprefix("file://"))
    for iri, file in graphs.items():
        quads += [(s, p, o, f"<{iri}>") for s, p, o, _ in read_quads(file)]
    return quads


def run(query: Query, quads: Quads, way: Way, folder: Path) -> Result:
    """The result of a query over data, at the only instant."""
    moved = [quad[:3] for quad in quads if quad[3] is None] if way == "stream" else []
    changed = replace(query, windows=(Window("ticks", f"<{TICKS}>", "all"),))
    if way == "stream":
        changed = replace(
            changed, **{f.name: over_window(getattr(query, f.name)) for f in fields(query) if f.name not in _UNAFFECTED}
        )
        changed = replace(changed, windows=(*changed.windows, Window("elements", f"<{ELEMENTS}>", "all")))
    build_store(folder / "store", [quad for quad in quads if way == "static" or quad[3] is not None], durable=False)
    (folder / "query").mkdir()
    report = Report(Policy(content_change=True))
    program = Compiler(changed, str(folder / "store"), folder / "query", report).compile("q", "rstream")
    elements = {TICKS: [("<urn:w3c:tick>", "<urn:w3c:tick>", literal("tick"))], ELEMENTS: moved}
    sources: list[ReplaySource] = []
    for stream in program.streams:
        file = folder / f"stream{len(sources)}.ndjson"
        file.write_text("".join(map(_line, elements[stream[1:-1]])), encoding="utf-8")
        sources.append(ReplaySource(stream, (file,)))
    prepared = Prepared("q", program, cut(sources, folder / "replay", BatchSize(count=10)), folder / "query")
    _, lines = prepared.finish(folder / "state")
    return result_of([json.loads(line) for line in lines])


_UNAFFECTED = frozenset(("text", "dialect", "windows", "clauses", "operator", "base", "file"))
"""Fields of a query that do not affect where its patterns are matched."""


def _line(triple: tuple[str, str, str]) -> str:
    s, p, o = triple
    return json.dumps({"s": s, "p": p, "o": o, "t": 1000, "g": "<urn:w3c:element>"}, ensure_ascii=False) + "\n"


def over_window(node: Any) -> Any:
    """A part of the algebra with patterns over the default graph replaced by patterns over the window."""
    if isinstance(node, DefaultGraph):
        return InWindow("elements")
    if isinstance(node, tuple):
        return tuple(over_window(part) for part in node)
    if is_dataclass(node) and not isinstance(node, type):
        return replace(node, **{f.name: over_window(getattr(node, f.name)) for f in fields(node)})
    return node


def ordered_by(query: Query) -> tuple[str, ...]:
    """The projected variables that order the answer, up to the first other sort key."""
    node: Any = query.body
    while isinstance(node, (Slice, Distinct, Project)):
        node = node.input
    names: list[str] = []
    for key, _ in node.keys if isinstance(node, OrderBy) else ():
        if not isinstance(key, Variable) or key not in query.variables:
            break
        names.append(key.name)
    return tuple(names)


# ------------------------------------------------------------------ from lines of answers
def result_of(lines: list[Mapping[str, Any]]) -> Result:
    """The answers of one instant as a result."""
    if any("boolean" in line for line in lines):
        return Result(boolean=bool(lines[-1]["boolean"]))
    if any("triples" in line for line in lines):
        return Result(graph=frozenset((s, p, o) for line in lines for s, p, o in line["triples"]))
    return Result(tuple(_solution(line["bindings"]) for line in lines))


def _solution(bindings: Mapping[str, Mapping[str, Any]]) -> Solution:
    return {name: _term(found) for name, found in bindings.items()}


def _term(found: Mapping[str, Any]) -> str:
    text = found["value"]
    match found["type"]:
        case "triple":
            return triple(*(_term(text[name]) for name in ("subject", "predicate", "object")))
        case "uri":
            return f"<{text}>"
        case "bnode":
            return f"_:{text}"
        case _:
            direction = f"--{found['its:dir']}" if "its:dir" in found else ""
            tag = f"{found['xml:lang']}{direction}" if "xml:lang" in found else None
            return literal(text, found.get("datatype") or XSD_STRING, tag)
