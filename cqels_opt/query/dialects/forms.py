"""What several dialects have in common: durations, counts, headers, and streams whose windows are merged with the static data."""

from __future__ import annotations

from importlib import resources

from cqels_opt.query import durations
from cqels_opt.query.algebra import DefaultGraph, GraphsMerged, Merged, Window
from cqels_opt.query.formulas import read_iri
from cqels_opt.query.reading import Branch, Reading, branches, tokens

_PART = r"[0-9]+(?:\.[0-9]+)?[ \t\r\n]*(?!(?:SLIDE|STEP|TUMBLING|FIXED|TO|AS|FROM|WHERE|ON)\b)[A-Za-z\u00B5\u03BC]+"
_DURATIONS = rf"""
duration: DURATION | INTEGER | DECIMAL
DURATION.4: /P[0-9T][0-9A-Z.]*|{_PART}(?:[ \t\r\n]*{_PART})*/i
"""
_HEADER = """
%extend unit: prologue registration prologue query
computed_every: "COMPUTED"i "EVERY"i duration
registered_name: iri | NAME
NAME: /[A-Za-z_][A-Za-z0-9_.-]*/
"""


def grammar(dialect: str, header: bool = True) -> str:
    """A dialect's addition to the grammar: its own file, and the rules that every dialect with windows has."""
    own = resources.files(__package__).joinpath(f"{dialect}.lark").read_text(encoding="utf-8")
    return _DURATIONS + (_HEADER if header else "") + own


def read_duration(reading: Reading, tree: Branch, least: int = 1) -> int:
    """The milliseconds of a ``duration`` rule."""
    token = tokens(tree)[0]
    try:
        found = durations.milliseconds(token)
    except ValueError as problem:
        reading.fail(token, str(problem))
    if found < least:
        reading.fail(token, "a duration of zero: a window needs a width and a slide of at least 1 ms")
    return found


def read_count(reading: Reading, tree: Branch) -> list[int]:
    """The numbers of elements directly below."""
    found = []
    for token in tokens(tree):
        if not (count := reading.whole(token)):
            reading.fail(token, "an element window holds at least one element")
        found.append(count)
    return found


def stream_of(reading: Reading, tree: Branch) -> str:
    """The IRI of a clause's stream, the first ``iri`` below it."""
    return read_iri(reading, next(child for child in branches(tree) if child.data == "iri"))


def merge(reading: Reading, window: Window) -> None:
    """Match patterns outside GRAPH in this window too, merged with the static default graph and what was merged before."""
    match reading.default:
        case Merged(windows, default):
            reading.default = Merged((*windows, window.name), default)
        case DefaultGraph() | GraphsMerged() as default:
            reading.default = Merged((window.name,), default)


def register(reading: Reading, tree: Branch) -> None:
    """A header: the name of the query and of its answers. C-SPARQL's COMPUTED EVERY decides nothing (the closings decide)."""
    for name in tree.find_data("registered_name"):
        reading.output = read_iri(reading, branches(name)[0]) if branches(name) else str(tokens(name)[0])
    for every in tree.find_data("duration"):
        read_duration(reading, every)
