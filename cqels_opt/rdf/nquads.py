"""Lines of N-Triples and N-Quads: which quads of canonical terms do they hold, and what is wrong with a line?

A block of lines goes through one regular expression that knows the plain forms (no escapes, one blank between terms). If any line
of a block is different, the block goes through the whole grammar line by line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import cast

from cqels_opt.rdf.terms import BLANK_PATTERN, IRI_PATTERN, LITERAL_PATTERN, PLAIN_IRI_PATTERN, XSD_STRING, TermError, canonical

_PLAIN_NODE = rf"{PLAIN_IRI_PATTERN}|_:[A-Za-z0-9_]+"
_PLAIN_LITERAL = rf'"[^"\\\n\r\t]*"(?:\^\^(?!<{re.escape(XSD_STRING)}>){PLAIN_IRI_PATTERN}|@[a-z]+(?:-[a-z0-9]+)*)?'
_PLAIN_LINE = re.compile(
    rf"^({_PLAIN_NODE}) ({PLAIN_IRI_PATTERN}) ({_PLAIN_NODE}|{_PLAIN_LITERAL}) (?:({_PLAIN_NODE}) )?\.\r?\n", re.MULTILINE
)
_NODE = rf"(?:{IRI_PATTERN}|{BLANK_PATTERN})"
_LINE = re.compile(
    rf"[ \t]*(?:({_NODE})[ \t]*({IRI_PATTERN})[ \t]*({_NODE}|{LITERAL_PATTERN})[ \t]*({_NODE})?[ \t]*\.)?"
    r"[ \t]*(?:#[^\n]*)?\r?\n?"
)


@dataclass(slots=True)
class Quads:
    """Columns of canonical terms; None in ``g`` is the default graph."""

    s: list[str] = field(default_factory=list)
    p: list[str] = field(default_factory=list)
    o: list[str] = field(default_factory=list)
    g: list[str | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.s)

    def add(self, s: str, p: str, o: str, g: str | None) -> None:
        """Append one quad."""
        self.s.append(s)
        self.p.append(p)
        self.o.append(o)
        self.g.append(g)


def parse_block(block: bytes, scope: int, graph: str | None, quads: bool) -> tuple[Quads, list[tuple[int, str]]]:
    """The quads of whole lines, and for each line that is none its number in the block (from 1) and what is wrong.

    Triples without a graph go to ``graph``. Blank nodes are renamed into ``scope``. ``quads`` allows a fourth term.
    """
    plain = _plain(block, scope, graph, quads)
    if plain is not None:
        return plain, []
    result = Quads()
    wrong: list[tuple[int, str]] = []
    for number, raw in enumerate(block.split(b"\n"), 1):
        if raw:
            try:
                quad = parse_line(raw, scope, quads)
            except TermError as error:
                wrong.append((number, str(error)))
                continue
            if quad is not None:
                s, p, o, g = quad
                result.add(s, p, o, g or graph)
    return result, wrong


def _plain(block: bytes, scope: int, graph: str | None, quads: bool) -> Quads | None:
    """The quads of a block whose every line has the plain form, or None."""
    try:
        text = block.decode()
    except UnicodeDecodeError:
        return None
    found = cast("list[tuple[str, str, str, str]]", _PLAIN_LINE.findall(text if text.endswith("\n") else text + "\n"))
    if not found or len(found) != text.count("\n") + (not text.endswith("\n")):
        return None
    s, p, o, g = (list(column) for column in zip(*found))
    if any(g):
        if not quads:
            return None
        named = [name or graph for name in g]
    else:
        named = [graph] * len(found)
    if "_:" in text:
        s = [scoped(term, scope) if term[0] == "_" else term for term in s]
        o = [scoped(term, scope) if term[0] == "_" else term for term in o]
        named = [scoped(name, scope) if name and name[0] == "_" else name for name in named]
    return Quads(s, p, o, named)


def parse_line(raw: bytes, scope: int, quads: bool = True) -> tuple[str, str, str, str | None] | None:
    """The quad of one line of N-Quads (or N-Triples), None for an empty line or comment; TermError says what is wrong."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise TermError(f"not UTF-8: {error.reason} at byte {error.start + 1} of the line") from error
    match = _LINE.fullmatch(text)
    if match is None:
        raise TermError(_what_is_wrong(text.rstrip("\r\n"), quads))
    s, p, o, g = cast("tuple[str, str, str, str | None]", match.groups())
    if s is None:
        return None
    if g is not None and not quads:
        raise TermError("a fourth term; a file of quads is named .nq")
    if "\\" in text:
        s, p, o = canonical(s), canonical(p), canonical(o)
        g = g and canonical(g)
    elif o[0] == '"' and (o[-1] != '"' or "\t" in o):
        o = canonical(o)
    if s[0] == "_":
        s = scoped(s, scope)
    if o[0] == "_":
        o = scoped(o, scope)
    if g is not None and g[0] == "_":
        g = scoped(g, scope)
    return s, p, o, g


def scoped(blank: str, scope: int) -> str:
    """A blank node of one file of the load, told apart from those of the others."""
    return f"_:f{scope}_{blank[2:]}"


_STEPS = (
    (re.compile(rf"[ \t]*({_NODE})[ \t]*"), "a subject (an IRI in angle brackets or a blank node)"),
    (re.compile(rf"({IRI_PATTERN})[ \t]*"), "a predicate (an IRI in angle brackets)"),
    (re.compile(rf"({_NODE}|{LITERAL_PATTERN})[ \t]*"), "an object (an IRI, a blank node or a literal)"),
    (re.compile(rf"(?:({_NODE})[ \t]*)?\."), "a full stop at the end of the statement"),
    (re.compile(r"[ \t]*(?:#.*)?$", re.DOTALL), "nothing but a comment after the full stop"),
)


def _what_is_wrong(text: str, quads: bool) -> str:
    at = 0
    for pattern, expected in _STEPS:
        match = pattern.match(text, at)
        if match is None:
            found = ascii(text[at : at + 40]) if at < len(text) else "the end of the line"
            return f"column {at + 1}: expected {expected}, found {found}"
        at = match.end()
    return "not a statement of N-Quads" if quads else "not a statement of N-Triples"
