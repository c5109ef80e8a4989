"""Texts of queries that differ in IRIs and strings only are parsed once: thousands of instances of one query come in seconds.

A text is taken apart into IRIs, plain strings and what stands between them. The first text of an outline is parsed a second time with
marks in their places, which says where in the algebra each of them comes to stand; what comes to stand where a constant makes another query
(a stream's name, a graph, a predicate) has to be the same. Where anything is in doubt a text is parsed as ever.
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

KEPT = 256  # texts without their constants
OUTLINES = 16  # of a text without its constants: they differ in what has to be the same

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
    """A text in pieces: the constants, where they stand, and what is between them."""

    between: tuple[str, ...]
    constants: tuple[str, ...]
    ends: tuple[int, ...]

    def marked(self, which: Sequence[int]) -> str:
        """The text with marks in the place of some constants."""
        shown = list(self.constants)
        for place in which:
            shown[place] = _mark(place, shown[place])
        return "".join(part for pair in zip(self.between, (*shown, "")) for part in pair)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of the texts of one outline: a query, its pieces, and for each hole of the outline a constant or its place in a text.

    ``fixed`` are the places of constants that have to be the same.
    """

    query: a.Query
    pieces: _Pieces
    outline: a.Query
    holes: tuple[a.Term | int, ...]
    fixed: tuple[int, ...]

    def read(self, text: str, pieces: _Pieces, file: str) -> tuple[a.Query, Outline] | None:
        """Another text of the outline."""
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
    """Reads queries, and remembers the outlines of their texts."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, tuple[str, ...]], list[_Known]] = OrderedDict()

    def read(self, text: str, dialect: str = "auto", file: str = "query") -> tuple[a.Query, Outline | None]:
        """The query of a text, and its outline. Raises QueryError with line and column."""
        text = text.removeprefix(BYTE_ORDER_MARK)
        pieces = _pieces(text)
        key = (dialect, pieces.between)
        for known in self._known.get(key, ()):
            if (found := known.read(text, pieces, file)) is not None:
                return found
        query = parse(text, dialect, file)
        check_levels(query)
        outlined = outline(query)
        if outlined is not None and pieces.constants and (learnt := _learnt(query, outlined, pieces, dialect)) is not None:
            self._known[key] = [*self._known.pop(key, []), learnt][-OUTLINES:]
            if len(self._known) > KEPT:
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


def _learnt(query: a.Query, outlined: Outline, pieces: _Pieces, dialect: str) -> _Known | None:
    """Where the constants of a text come to stand; None where that cannot be told."""
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
