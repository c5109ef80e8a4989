"""Parses texts of queries that differ only in IRIs and strings once, so that thousands of instances of a query are read in
seconds.

A text is split into IRIs, plain strings and the text between them. The first text of an outline is parsed again with markers in
place of the constants, which shows where each constant occurs in the algebra. A constant whose position makes another query (a
stream's name, a graph, a predicate) must be the same in all texts. If any check fails, the text is parsed normally.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cqels_opt.errors import QueryError
from cqels_opt.query import algebra as a
from cqels_opt.query.chains import check_levels
from cqels_opt.query.outlines import Outline, filled, outline
from cqels_opt.query.parser import BYTE_ORDER_MARK, parse

MOST_TEXTS = 256  # cached texts without constants
MOST_OUTLINES = 16  # per text without constants; they differ in the constants that must be the same

_PIECES = re.compile(
    r"""
    (?P<passed> \#[^\n\r]* | \b(?:PREFIX|BASE)\b[^<]*<[^<>]*> | "{3}.*?"{3} | '{3}.*?'{3} | "(?:[^"\\\n\r]|\\.)*"(?:@|\^\^) )
  | (?P<iri> <[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*> )
  | (?P<string> "[^"\\\x00-\x1f\x7f]*" )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_MARK = "urn:x-cqels-opt:constant:"


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A text in pieces: the constants, their end positions, and the text between them."""

    between: tuple[str, ...]
    constants: tuple[str, ...]
    ends: tuple[int, ...]

    def marked(self, which: Sequence[int]) -> str:
        """The text with markers in place of the given constants."""
        shown = list(self.constants)
        for place in which:
            shown[place] = _mark(place, shown[place])
        return "".join(part for pair in zip(self.between, (*shown, "")) for part in pair)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is cached about the texts of one outline.

    ``holes`` has, for each hole of the outline, a constant or the index of a constant in the text. ``fixed`` are the indexes of
    the constants that must be the same in every text.
    """

    query: a.Query
    pieces: _Pieces
    outline: a.Query
    holes: tuple[a.Term | int, ...]
    fixed: tuple[int, ...]

    def read(self, text: str, pieces: _Pieces, file: str) -> tuple[a.Query, Outline] | None:
        """Another text of the outline; None if a fixed constant differs."""
        if any(pieces.constants[place] != self.pieces.constants[place] for place in self.fixed):
            return None
        values = tuple(hole if isinstance(hole, str) else pieces.constants[hole] for hole in self.holes)
        moved = [len(new) - len(old) for new, old in zip(pieces.constants, self.pieces.constants)]

        def at(place: int) -> int:
            return place + sum(by for end, by in zip(self.pieces.ends, moved) if end <= place)

        clauses = tuple(replace(c, start=at(c.start), end=at(c.end)) for c in self.query.clauses)
        query = replace(self.query, text=text, file=file, clauses=clauses, body=filled(self.outline, values))
        return query, Outline(self.outline, values)


class Reader:
    """Parses queries and caches the outlines of their texts."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, tuple[str, ...]], list[_Known]] = OrderedDict()

    def read(self, text: str, dialect: str = "auto", file: str = "query") -> tuple[a.Query, Outline | None]:
        """The query of a text and its outline. Raises QueryError with line and column."""
        text = text.removeprefix(BYTE_ORDER_MARK)
        pieces = _pieces(text)
        key = (dialect, pieces.between)
        for known in self._known.get(key, ()):
            if (found := known.read(text, pieces, file)) is not None:
                return found
        query = parse(text, dialect, file)
        check_levels(query)
        outlined = outline(query)
        if outlined is not None and pieces.constants and (added := _known_text(query, outlined, pieces, dialect)) is not None:
            self._known[key] = [*self._known.pop(key, []), added][-MOST_OUTLINES:]
            if len(self._known) > MOST_TEXTS:
                self._known.popitem(last=False)
        return query, outlined


def _pieces(text: str) -> _Pieces:
    between, constants, ends, last = [], [], [], 0
    for match in _PIECES.finditer(text):
        if match.lastgroup != "passed":
            between.append(text[last : match.start()])
            constants.append(match.group())
            last = match.end()
            ends.append(last)
    return _Pieces((*between, text[last:]), tuple(constants), tuple(ends))


def _mark(place: int, constant: str) -> str:
    return f"<{_MARK}{place}>" if constant.startswith("<") else f'"{_MARK}{place}"'


def _known_text(query: a.Query, outlined: Outline, pieces: _Pieces, dialect: str) -> _Known | None:
    """The positions of a text's constants in the algebra; None if they cannot be determined."""
    marks = {_mark(place, constant): place for place, constant in enumerate(pieces.constants)}
    found = _outline_of(pieces.marked(range(len(marks))), dialect)
    free = sorted({marks[value] for value in found.values if value in marks}) if found is not None else []
    again = _outline_of(pieces.marked(free), dialect) if free else None
    if again is None or again.query != outlined.query:
        return None
    holes = tuple(marks.get(value, value) for value in again.values)
    if tuple(hole if isinstance(hole, str) else pieces.constants[hole] for hole in holes) != outlined.values:
        return None
    fixed = tuple(place for place in range(len(marks)) if place not in free)
    return _Known(query, pieces, outlined.query, holes, fixed)


def _outline_of(text: str, dialect: str) -> Outline | None:
    try:
        return outline(parse(text, dialect))
    except QueryError:
        return None
