"""Rewrites the query's own text to plain SPARQL 1.1: only window clauses and window names change.

Before, in the language of the CQELS report and in CQELS-QL::

    SELECT ?q FROM NAMED <s> [RANGE 30 seconds] AS ?ls30 WHERE { GRAPH ?ls30 { ?q :at ?l } }
    SELECT ?q WHERE { STREAM <s> [RANGE 30s] { ?q :at ?l } }

After (the window's content is a named graph)::

    SELECT ?q  WHERE { GRAPH <urn:cqels-opt:window:ls30> { ?q :at ?l } }
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from cqels_opt.errors import QueryError, RunError
from cqels_opt.query.algebra import Query
from cqels_opt.verify.blank_nodes import with_blank_nodes
from cqels_opt.verify.dialects import FORMS, WINDOW, rewritten, window_graph
from cqels_opt.verify.heads import SELECT, Form, form_and_edit, hidden
from cqels_opt.verify.paths import expand_paths
from cqels_opt.verify.quoted import quoted_in_binds, with_our_functions
from cqels_opt.verify.ties import with_ties
from cqels_opt.verify.tokens import Token, apply, closing, solid, string_of, tokens

NOW_MARK = '"urn:cqels-opt:now"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
"""The placeholder of NOW() in the rewritten text, until the instant is known."""

_NOT_A_WINDOW = '!STRSTARTS(STR({variable}), "' + WINDOW + '")'
_SEEDED = ("RAND", "UUID", "STRUUID")


@dataclass(frozen=True, slots=True)
class Plain:
    """Plain SPARQL 1.1: the text, and the IRIs of its FROM clauses as written.

    FROM clauses are removed from the text, because they would hide the windows; the evaluation makes their graphs the default
    graph. FROM NAMED clauses that declare no window are also removed: all named graphs are visible, except in a query without
    streams (``named``; None: all). ``merged`` maps the name of a graph to the windows that are merged with the default graph in
    it; ``element_graphs`` says whether the query matches the graphs of elements by name. A query of another form than SELECT is
    rewritten to return its solutions; ``form`` is the original form.
    """

    text: str
    prologue: str
    default: tuple[str, ...]
    named: tuple[str, ...] | None
    merged: Mapping[str, tuple[str, ...]]
    element_graphs: bool
    form: Form = SELECT


def plain_sparql(query: Query) -> Plain:
    """The query's text with its window clauses rewritten and ``NOW()`` marked."""
    changed = rewritten(query)
    text = changed.text
    windows = {w.name.lstrip("?$"): window_graph(w.name) for w in query.windows}
    found = solid(tokens(text))
    edits: list[tuple[int, int, str]] = []
    default: list[str] = []
    named_graphs: list[str] = []
    if own := next((t.text for t in tokens(query.text) if t.kind == "variable" and hidden(t.text[1:])), None):
        raise QueryError(f"verify cannot check a query with the variable {own}: it gives such names itself", query.text, 1, 1)
    place_of_form = next(p for p, t in enumerate(found) if t.word() in FORMS)
    form, edit = form_and_edit(found, place_of_form, query)
    made = (edit[0], edit[1]) if edit is not None else (0, 0)  # the range of the edit, in which no other edit is allowed
    edits += [edit] if edit is not None else []
    edits += [e for e in (*with_our_functions(found), *with_blank_nodes(found)) if not made[0] <= e[0] < made[1]]
    for place, token in enumerate(found):
        after = found[place + 1] if place + 1 < len(found) else token
        if made[0] <= token.start < made[1]:
            continue
        if token.word() == "GRAPH":
            edits += _graph_edits(found, place, windows)
        elif token.word() == "FROM":
            named = after.word() == "NAMED"
            (named_graphs if named else default).append(found[place + 1 + named].text)
            edits.append((token.start, found[place + 1 + named].end, " "))
        elif token.word() == "NOW" and after.text == "(":
            edits.append((token.start, found[place + 2].end, NOW_MARK))
        elif token.word() == "SAMPLE" and after.text == "(":  # SEMANTICS §6: the first in term order
            edits.append((token.start, token.end, "MIN"))
        elif token.word() == "GROUP_CONCAT":  # a simple literal; pyoxigraph keeps a language that all members share
            edits += [(token.start, token.start, "STR("), (end := found[closing(found, place + 1)].end, end, ")")]
        elif token.word() in _SEEDED and after.text == "(":
            raise QueryError(f"verify cannot check {token.word()}(): its values are the run's own", query.text, 1, 1)
    if query.dialect == "rspql":
        edits += quoted_in_binds(found)
    prologue = text[: found[place_of_form].start]
    plain = expand_paths(with_ties(apply(text, edits)))
    only = tuple(named_graphs) if (default or named_graphs) and not query.windows else None
    return Plain(plain, prologue, tuple(default), only, changed.merged, changed.element_graphs, form)


def concatenations(query: Query) -> dict[str, str]:
    """The variables computed by a GROUP_CONCAT, with their separators: SPARQL does not define the order of the parts.

    Raises QueryError if anything is computed from a concatenation.
    """
    found = solid(tokens(query.text))
    names: dict[str, str] = {}
    for place, token in enumerate(found):
        if token.word() != "GROUP_CONCAT":
            continue
        end = closing(found, place + 1)
        separator = next((p + 2 for p in range(place, end) if found[p].word() == "SEPARATOR"), None)
        if found[end + 1].word() != "AS":
            raise QueryError(
                "verify cannot check what is computed from a GROUP_CONCAT: the order of its parts is open", query.text, 1, 1
            )
        names[found[end + 2].text[1:]] = " " if separator is None else string_of(found[separator])
    if computed := next(_read_below_select(found, names), None):
        raise QueryError(
            f"verify cannot check what is computed from {computed}, a GROUP_CONCAT: the order of its parts is open",
            query.text,
            1,
            1,
        )
    return names


def _read_below_select(found: Sequence[Token], names: Collection[str]) -> Iterator[str]:
    """Those of some variables that stand elsewhere than in the list of a SELECT or behind AS."""
    listed, depth = False, 0
    for before, token in pairwise(found):
        if token.kind == "mark":
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            listed = listed and token.text != "{"
        elif token.word() in FORMS:
            listed, depth = True, 0
        elif token.word() in ("FROM", "WHERE"):
            listed = False
        elif token.kind == "variable" and token.text[1:] in names and before.word() != "AS" and not (listed and depth == 0):
            yield token.text


def at_instant(plain: str, at: int) -> str:
    """The plain text at an instant, the value of NOW(). RunError if it has a NOW() and no date."""
    if NOW_MARK not in plain:
        return plain
    try:
        moment = datetime(1970, 1, 1) + timedelta(milliseconds=at)
    except OverflowError as error:
        raise RunError(f"verify cannot check NOW() at {at} ms: it knows the years 1 to 9999 alone") from error
    text = moment.replace(microsecond=0).isoformat() + (f".{at % 1000:03d}".rstrip("0") if at % 1000 else "") + "Z"
    return plain.replace(NOW_MARK, f'"{text}"^^<http://www.w3.org/2001/XMLSchema#dateTime>')


def _hidden_in_selects(found: Sequence[Token], begin: int, end: int) -> set[str]:
    """The variables of sub-selects that these do not select: engines confuse them with outer ones of the same name within GRAPH ?g."""
    hidden_here = set[str]()
    for place in range(begin, end):
        if found[place].word() == "SELECT":
            opening = next(p for p in range(place, end) if found[p].text == "{")
            inside = {t.text for t in found[opening : closing(found, opening)] if t.kind == "variable"}
            items = [t for t in found[place + 1 : opening] if t.word() not in ("DISTINCT", "REDUCED", "WHERE")]
            depth, selected = 0, set[str]()
            for before, token in zip([found[place], *items], items):
                depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
                if token.kind == "variable" and (depth == 0 or before.word() == "AS"):
                    selected.add(token.text)
            hidden_here |= inside - selected if items[0].text != "*" else set()
    return hidden_here


def _graph_edits(found: list[Token], place: int, windows: dict[str, str]) -> list[tuple[int, int, str]]:
    """``GRAPH ?w`` of a window becomes its graph; any other ``GRAPH ?g`` matches all named graphs except those of windows."""
    keyword, name = found[place], found[place + 1]
    if name.kind != "variable" or name.text.startswith("?_bag_"):
        return []
    window = windows.get(name.text[1:])
    if window:
        return [(keyword.start, name.end, f"GRAPH <{window}>")]
    last = closing(found, place + 2)
    end = found[last].end
    outside = {t.text for t in (*found[:place], *found[last:]) if t.kind == "variable"} - {name.text}
    if (both := sorted(outside & _hidden_in_selects(found, place, last))) != []:
        raise QueryError(
            f"verify cannot check a sub-select in GRAPH {name.text} that hides {both[0]}, which stands outside as well: rename one of them",
            "".join(t.text for t in found),
            1,
            1,
        )
    return [(keyword.start, keyword.start, "{ "), (end, end, f" FILTER({_NOT_A_WINDOW.format(variable=name.text)}) }}")]
