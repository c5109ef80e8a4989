"""Rewrites the window syntax of the dialects to GRAPH: removes headers and window clauses, replaces window names by graph names.

Before and after, in RSP-QL::

    REGISTER RSTREAM <out> AS SELECT ?p FROM NAMED WINDOW :w ON :S [RANGE PT5S STEP PT2S] WHERE { WINDOW :w { ?p :at ?l } }
    SELECT ?p  WHERE { GRAPH <urn:cqels-opt:window:w> { ?p :at ?l } }

In C-SPARQL, SPARQLstream and Streaming SPARQL patterns outside GRAPH stay unchanged: windows and static data are merged into the
default graph. A group with its own WINDOW begins with a marker that names the graph of its patterns; bags.py interprets it::

    { { ?p :at ?l . WINDOW RANGE 2 SECOND FIXED } }
    { { GRAPH <urn:cqels-opt:here> { } GRAPH <urn:cqels-opt:window:+1> { } ?p :at ?l . } }
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from urllib.parse import urljoin

from cqels_opt.query.algebra import Merged, Query
from cqels_opt.verify.model import bare
from cqels_opt.verify.tokens import Token, apply, closing, solid, tokens

WINDOW = "urn:cqels-opt:window:"
_LOCAL_WINDOW = "urn:window:"
"""Before the name of a window that nothing resolves: other names of a query have a PREFIX or a BASE where they need one."""
HERE = "urn:cqels-opt:here"
NAME = "urn:cqels-opt:name"
GRAPHS = WINDOW + "graphs"
"""The graph that lists the IRIs of all graphs: ``<g> <NAME> <g>``."""
OF_ELEMENTS = "_bag_graph"
"""The prefix of variables that range over the graphs of a window's elements."""
DEFAULT = WINDOW + "+0"
"""The name of the default graph if it has copies; copy 1 is the default graph itself."""

FORMS = ("SELECT", "CONSTRUCT", "ASK", "DESCRIBE")


def window_graph(window: str) -> str:
    """The IRI of the graph of a window's content."""
    return WINDOW + re.sub(r"\W", lambda m: f"%{ord(m.group()):02X}", window.lstrip("?$"))


def element_graph(window: str, name: str = "") -> str:
    """The IRI of the graph of the window's elements with this graph name; without a name, of the graph that lists them."""
    return f"{window_graph(window)}/graph/{name.encode().hex()}"


def graph_copy(graph: str, copy: int) -> str:
    """The name of a graph's copy; copy i holds the triples that occur at least i times."""
    return graph if copy == 1 else f"{graph}#{copy}"


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A text without window clauses.

    ``merged`` maps the name of a graph to the windows merged with the static default graph in it. ``element_graphs``: whether the
    query matches the graphs of elements by name.
    """

    text: str
    merged: dict[str, tuple[str, ...]] = field(default_factory=dict)
    element_graphs: bool = False


def rewritten(query: Query) -> Rewritten:
    """The text without headers and window clauses; each window name is replaced by the name of its graph."""
    found = solid(tokens(query.text))
    edits: list[tuple[int, int, str]] = [*_header(found)]
    own: dict[tuple[int, int], list[str]] = {}  # several streams may share the WINDOW of a group
    for clause in query.clauses:
        own.setdefault((clause.start, clause.end), []).append(clause.window)
    names, merged = _names(query, found, own), list[str]()
    groups: dict[str, tuple[str, ...]] = {}
    for (start, end), windows in own.items():
        words = [t.word() for t in found if start <= t.start < end]
        if words[0] == "STREAM":
            edits.append((start, end, f"GRAPH <{window_graph(windows[0])}> "))
            continue
        edits.append((start, end, " "))
        if words[0] == "FROM":
            if _merged_with_static(query, windows[0], words[1]):
                merged += windows
            continue
        opening, within = _enclosing_group(found, start, names)
        graph = window_graph(windows[0]) if within else f"{WINDOW}+{len(groups) + 1}"
        if not within:
            groups[graph] = tuple(windows)
        edits.append((opening, opening, f" GRAPH <{HERE}> {{ }} GRAPH <{graph}> {{ }} "))
    text = apply(query.text, edits)
    while (again := _over_windows(text, names)) is not None:
        text = again
    found = solid(tokens(text))
    inside = [*_element_graphs(found, names)] if query.dialect == "rspql" else []
    inner = {start for start, _, _ in inside}
    outside = [edit for edit in _named(found, names, query) if edit[0] not in inner]
    text = apply(text, [*outside, *inside])
    return Rewritten(text, ({DEFAULT: tuple(merged)} if merged else {}) | groups, bool(inside))


def _merged_with_static(query: Query, window: str, after_from: str) -> bool:
    """Whether the window of a FROM clause is merged with the static default graph."""
    match query.dialect:
        case "csparql" | "sparqlstream":
            return True
        case "streaming-sparql":
            return after_from == "STREAM"
        case "cqels" | "rspql":
            return False
    waiting: list[object] = [query.body]  # a dialect of another package: its own reading decides
    while waiting:
        part = waiting.pop()
        if isinstance(part, Merged) and window in part.windows:
            return True
        waiting += (
            part if isinstance(part, tuple) else [getattr(part, f.name) for f in fields(part)] if is_dataclass(part) else ()
        )
    return False


def _header(found: list[Token]) -> Iterator[tuple[int, int, str]]:
    """Edits that remove REGISTER … AS, and RSTREAM, ISTREAM or DSTREAM after the form."""
    registered = next((p for p, t in enumerate(found) if t.word() == "REGISTER"), None)
    begin = 0
    if registered is not None:  # REGISTER QUERY name …: a name may be a keyword
        begin = next(p for p in range(registered + 3, len(found)) if found[p].word() == "AS")
        yield found[registered].start, found[begin].end, " "
    form = next((p for p in range(begin, len(found)) if found[p].word() in FORMS), len(found))
    if form + 1 < len(found) and found[form + 1].word() in ("RSTREAM", "ISTREAM", "DSTREAM"):
        yield found[form + 1].start, found[form + 1].end, " "


def _names(query: Query, found: list[Token], own: dict[tuple[int, int], list[str]]) -> dict[str, str]:
    """The windows by their names in the body: an IRI, or a variable with its question mark."""
    iri_of, names = _Iris(found), dict[str, str]()
    for (start, end), windows in own.items():
        part = [t for t in found if start <= t.start < end]
        words = [t.word() for t in part]
        if words[:2] != ["FROM", "NAMED"]:
            continue
        if words[2] == "WINDOW":
            names[iri_of(part[3])] = windows[0]
        elif "AS" in words:
            name = part[words.index("AS") + 1]
            names["?" + name.text[1:] if name.kind == "variable" else iri_of(name)] = windows[0]
        else:  # a stream without AS is called by its own name
            names[next(bare(w.stream) for w in query.windows if w.name == windows[0])] = windows[0]
    return names


class _Iris:
    """Resolves IRIs of a text: relative, or with a prefix."""

    def __init__(self, found: list[Token]) -> None:
        self.base, self.prefixes = "", dict[str, str]()
        for place, token in enumerate(found):
            if token.word() == "BASE":
                self.base = urljoin(self.base, found[place + 1].text[1:-1])
            elif token.word() == "PREFIX":
                self.prefixes[found[place + 1].text] = urljoin(self.base, found[place + 2].text[1:-1])

    def __call__(self, token: Token) -> str:
        if token.kind == "iri":
            found = urljoin(self.base, token.text[1:-1])
            return found if self.base or ":" in found else _LOCAL_WINDOW + found
        prefix, colon, local = token.text.partition(":")
        return self.prefixes.get(prefix + colon, _LOCAL_WINDOW) + re.sub(r"\\(.)", r"\1", local)


def _enclosing_group(found: list[Token], at: int, names: dict[str, str]) -> tuple[int, bool]:
    """The end of the ``{`` of the innermost group around a position, and whether the group is matched in a named window."""
    open_groups: list[tuple[Token, bool]] = []
    iri_of = _Iris(found)
    for place, token in enumerate(found):
        if token.start >= at:
            break
        if token.kind == "mark" and token.text == "{":
            before = found[place - 2] if place > 1 else token
            within = bool(open_groups) and open_groups[-1][1]
            if before.word() == "GRAPH":
                within = found[place - 1].kind != "variable" and iri_of(found[place - 1]) in names
            open_groups.append((token, within))
        elif token.kind == "mark" and token.text == "}":
            open_groups.pop()
    return open_groups[-1][0].end, open_groups[-1][1]


def _named(found: list[Token], names: dict[str, str], query: Query) -> Iterator[tuple[int, int, str]]:
    """Edits that replace ``GRAPH <stream>`` and ``WINDOW <w>`` of a window by its graph."""
    iri_of = _Iris(found)
    keywords = ("WINDOW", "GRAPH") if query.dialect == "rspql" else ("GRAPH",)
    for place, token in enumerate(found[:-2]):
        name = found[place + 1]
        if token.word() in keywords and found[place + 2].text == "{" and name.kind in ("iri", "name") and iri_of(name) in names:
            yield token.start, name.end, f"GRAPH <{window_graph(names[iri_of(name)])}>"


def _element_graphs(found: list[Token], names: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    """Edits of GRAPH inside WINDOW: the graphs of that window's elements, which a separate graph lists."""
    iri_of = _Iris(found)
    for place, token in enumerate(found[:-2]):
        if token.word() != "WINDOW" or found[place + 2].text != "{" or iri_of(found[place + 1]) not in names:
            continue
        window = names[iri_of(found[place + 1])]
        for p in range(place + 2, closing(found, place + 2)):
            graph = found[p + 1]
            if found[p].word() != "GRAPH":
                continue
            if graph.kind != "variable":
                yield found[p].start, graph.end, f"GRAPH <{element_graph(window, iri_of(graph))}>"
                continue
            of = f"?{OF_ELEMENTS}{p}"
            listed = f"GRAPH <{element_graph(window)}> {{ {of} <{NAME}> {graph.text} }}"
            end = found[closing(found, p + 2)].end
            yield found[p].start, graph.end, f"{{ {listed} GRAPH {of} "
            yield end, end, " }"


def _over_windows(text: str, names: dict[str, str]) -> str | None:
    """Replaces the last ``WINDOW ?w { … }`` by a UNION over the declared windows; None if there is none."""
    found = solid(tokens(text))
    for place in range(len(found) - 3, -1, -1):
        if found[place].word() == "WINDOW" and found[place + 1].kind == "variable":
            end = found[closing(found, place + 2)].end
            group, variable = text[found[place + 2].start : end], found[place + 1].text
            each = (f"{{ VALUES {variable} {{ <{iri}> }} WINDOW <{iri}> {group} }}" for iri in names)
            return f"{text[: found[place].start]}{{ {' UNION '.join(each)} }}{text[end:]}"
    return None
