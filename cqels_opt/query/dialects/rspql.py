"""RSP-QL: windows named by IRIs, ``FROM NAMED WINDOW <w> ON <stream> [RANGE PT5S STEP PT2S]``, matched with ``WINDOW <w> { … }``.

``COMPUTED EVERY`` makes its windows those of RSP-QL* (SEMANTICS §1): its period is their ``step``.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import Final

from cqels_opt.query.algebra import Algebra, InWindow, Join, Source, Union, Values, Variable, Window
from cqels_opt.query.dialects.called_windows import CALLED, read_called, written_call
from cqels_opt.query.dialects.clauses import DURATIONS, HEADER, OPERATORS, read_count, read_duration, read_length, register
from cqels_opt.query.formulas import read_iri
from cqels_opt.query.groups import graph_name
from cqels_opt.query.mistakes import nearest
from cqels_opt.query.names import UnresolvedError
from cqels_opt.query.printing.style import Style, duration, static_graph
from cqels_opt.query.printing.writing import Writing
from cqels_opt.query.reading import Branch, Dialect, Profile, Reading, branches, only, span, tokens

_GRAMMAR: Final = r"""
registration: "REGISTER"i OUTPUT registered_name computed_every? "AS"i
OUTPUT: /[RID]?STREAM(?![A-Za-z0-9_])/i

%extend unit: prologue (registration prologue)? dataset_clause+ query
    | prologue (registration prologue)? dataset_clause* select_query dataset_clause+

%extend dataset_clause: "FROM"i "NAMED"i "WINDOW"i iri "ON"i "STREAM"i? iri "[" window "]"      -> window_on
    | "FROM"i "NAMED"i "WINDOW"i iri "[" window "]" "ON"i "STREAM"i? iri                        -> window_before
    | "FROM"i "NAMED"i "STREAM"i? iri "[" window "]" "AS"i iri                                  -> window_as
%extend _pattern: window_block
// SPARQL*, the language of RSP-QL*, writes a triple term in an expression as it does in a pattern.
%extend primary: triple_quoted
triple_quoted: OPEN_QUOTED (variable | iri) plain_verb _quoted_object CLOSE_QUOTED               -> triple_expression
_quoted_object: variable | iri | literal | triple_quoted | triple_expression
window_block: "WINDOW"i var_or_iri group

window: "RANGE"i duration ("STEP"i | "SLIDE"i) duration                                         -> range
    | "RANGE"i duration _ODD_COMMA ("STEP"i | "SLIDE"i) duration                                -> range_with_comma
    | "ELEMENTS"i INTEGER ("STEP"i INTEGER)?                                                    -> elements
    | called_window                                                                             -> called
_ODD_COMMA: ","
"""


_LOCAL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def _registration(reading: Reading, tree: Branch) -> None:
    register(reading, tree)
    reading.operator = OPERATORS.get(tokens(tree)[0].upper())
    every = only(tree, "computed_every")
    if every is not None:
        reading.every = read_duration(reading, branches(every)[0])


def _length(reading: Reading, tree: Branch) -> int:
    """The milliseconds of a duration; of a number without a unit, as RSP-JS and Kolibrie write it, with a note."""
    token = tokens(tree)[0]
    if token.type == "INTEGER":
        reading.note(f"{token} has no unit: it is read as {token} ms")
    return read_length(reading, tree)[0]


def _window_name(reading: Reading, tree: Branch) -> tuple[str, str]:
    """The IRI of a window's name, and a note. A name that no BASE or PREFIX resolves is local to the query (Kolibrie, RSPLab)."""
    token = tokens(tree)[0]
    try:
        return reading.names.iri(token), ""
    except UnresolvedError:
        local = token.strip("<>").rpartition(":")[2]
        if not _LOCAL.fullmatch(local):
            return read_iri(reading, tree), ""
        return f"<urn:window:{local}>", f"{token} is local to the query: no PREFIX or BASE resolves it"


def _declare(reading: Reading, tree: Branch, name: Branch, stream: Branch, window: Branch) -> None:
    iri, note = _window_name(reading, name)
    if note:
        reading.note(note)
    if iri in reading.window_of:
        reading.fail(name, f"the window {reading.source(name)} is declared twice")
    called, source = reading.free_window_name(iri), read_iri(reading, stream)
    if window.data == "elements":
        count, *every = read_count(reading, window)
        declared = Window(called, source, "last", count=count, every=every[0] if every else 0, step=reading.every)
    elif window.data == "called":
        if reading.every:
            reading.fail(window, "COMPUTED EVERY is for windows of RSP-QL*, and this window is of another kind")
        declared = read_called(reading, branches(window)[0], called, source)
    else:
        width, slide = (_length(reading, part) for part in branches(window))
        if window.data == "range_with_comma":
            reading.note("the comma in the window is ignored")
        declared = Window(called, source, "star" if reading.every else "open-closed", width, slide, step=reading.every)
    reading.declare(declared, iri, name, *span(tree))


_PARTS: Final = {"window_on": (0, 1, 2), "window_before": (0, 2, 1), "window_as": (2, 0, 1)}
"""The places of name, stream and window in the clauses that declare windows."""


def _window_clause(reading: Reading, tree: Branch) -> None:
    parts = branches(tree)
    _declare(reading, tree, *(parts[place] for place in _PARTS[tree.data]))


def _window_block(reading: Reading, tree: Branch, source: Source) -> Algebra:
    named, group = branches(tree)
    name = _window_name(reading, named)[0] if named.data == "iri" else graph_name(reading, named)
    if isinstance(name, Variable):
        return _any_window(reading, tree, name, group)
    if name not in reading.window_of:
        known = {iri: iri for iri in reading.window_of if isinstance(iri, str)}
        guess = nearest(name, known) or "; declare it with FROM NAMED WINDOW … ON <stream> [RANGE … STEP …]"
        reading.fail(named, f"the window {reading.source(named)} is not declared{guess}")
    return reading.read_group(reading, group, InWindow(reading.window_of[name]))


def _any_window(reading: Reading, tree: Branch, name: Variable, group: Branch) -> Algebra:
    # WINDOW ?w ranges over the declared windows, as GRAPH ?g does over the named graphs.
    if not reading.window_of:
        reading.fail(tree, "WINDOW needs a window: declare it with FROM NAMED WINDOW … ON <stream> [RANGE … STEP …]")
    found: list[Algebra] = []
    labels = dict(reading.labels)
    for iri, window in reading.window_of.items():
        reading.labels = dict(labels)
        found.append(Join(Values((name,), ((str(iri),),)), reading.read_group(reading, group, InWindow(window))))
    return reduce(Union, found)


def _written(writing: Writing, window: Window) -> str:
    match window:
        case Window(_, _, "open-closed" | "star", width, slide):
            text = f"RANGE {duration(width)} STEP {duration(slide)}"
        case Window(_, _, "last", count=count, every=every):
            text = f"ELEMENTS {count}" + (f" STEP {every}" if every else "")
        case _:
            text = written_call(writing, window)
    return f"FROM NAMED WINDOW <urn:window:{window.name}> ON {window.stream} [{text}]"


def _opened(writing: Writing, source: Source) -> str:
    return f"WINDOW <urn:window:{source.window}>" if isinstance(source, InWindow) else static_graph(writing, source)


def _header(writing: Writing) -> str:
    query = writing.query
    every = max((w.step for w in query.windows if w.kind in ("star", "last")), default=0)
    if not (query.operator or query.output or every):
        return ""
    others = (w.name for w in query.windows if w.step != every or w.kind == "open-closed")
    if every and (other := next(others, None)) is not None:
        writing.fail("its COMPUTED EVERY holds for all windows of a query", other)
    name = query.output or "<urn:answers>"
    return f"REGISTER {(query.operator or 'stream').upper()} {name}{f' COMPUTED EVERY {duration(every)}' * bool(every)} AS"


DIALECT = Dialect(
    name="rspql",
    grammar=DURATIONS + HEADER + CALLED + _GRAMMAR,
    recognise=re.compile(
        r"\bNAMED WINDOW\b|\bREGISTER [RID]STREAM\b|\bWINDOW ?(<>|[?$]\w+|[\w.-]*:[\w.-]*) ?\{|\] ?AS (<>|[\w.-]*:)",
        re.IGNORECASE,
    ),
    clauses={"registration": _registration, **dict.fromkeys(_PARTS, _window_clause)},
    patterns={"window_block": _window_block},
    window="FROM NAMED WINDOW <w> ON <stream> [RANGE 10s STEP 5s]",
    profile=Profile("wc", "rstream", "set"),
    style=Style(_written, _opened, header=_header, operator=lambda writing: ""),
    element_graphs=True,
)
