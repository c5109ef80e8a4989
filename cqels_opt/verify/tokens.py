"""Tokenizes SPARQL text; white space and comments are tokens too, so that the concatenated tokens equal the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cqels_opt.errors import QueryError

_LOCAL = r"(?:[\w:]|%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%])"
_LOCAL_INNER = r"(?:[\w:.-]|%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%])"
_LOCAL_LAST = r"(?:[\w:-]|%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%])"
_TOKEN = re.compile(
    rf"""
    (?P<space>\s+|\#[^\n\r]*)
  | (?P<iri><(?:[^<>"{{}}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{{4}}|\\U[0-9A-Fa-f]{{8}})*>)
  | (?P<string>\"{{3}}(?:[^"\\]|\\.|"(?!""))*\"{{3}}|'{{3}}(?:[^'\\]|\\.|'(?!''))*'{{3}}
        |"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*')
  | (?P<variable>[?$]\w+)
  | (?P<blank>_:\w(?:[\w.-]*[\w-])?)
  | (?P<name>(?:[^\W\d_](?:[\w.-]*[\w-])?)?:(?:{_LOCAL}(?:{_LOCAL_INNER}*{_LOCAL_LAST})?)?)
  | (?P<number>(?:\d+\.?\d*|\.\d+)[eE][+-]?\d+|\d*\.\d+|\d+)
  | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*(?:--(?:ltr|rtl))?)
  | (?P<word>[^\W\d]\w*)
  | (?P<mark>\^\^|&&|\|\||!=|<=|>=|<<|>>|\{{\||\|\}}|.)
    """,
    re.VERBOSE | re.DOTALL,
)


_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text at ``[start, end)``.

    ``kind`` is space, iri, string, variable, blank, name, number, language, word or mark.
    """

    kind: str
    text: str
    start: int
    end: int

    def word(self) -> str:
        """The keyword in capitals, "" for other tokens."""
        return self.text.upper() if self.kind == "word" else ""


def tokens(text: str) -> list[Token]:
    """All tokens of a text, in order."""
    found = [Token(m.lastgroup or "", m.group(), m.start(), m.end()) for m in _TOKEN.finditer(text)]
    if "".join(t.text for t in found) != text:
        raise QueryError("the text cannot be cut into SPARQL tokens", text, 1, 1)
    return found


def solid(found: list[Token]) -> list[Token]:
    """The tokens without white space and comments."""
    return [t for t in found if t.kind != "space"]


def string_of(token: Token) -> str:
    """The characters of a string, without its quotation marks and with its escapes replaced."""
    marks = 3 if token.text[:3] in ('"""', "'''") and len(token.text) >= 6 else 1
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1]) or chr(int(found[1][1:], 16)), token.text[marks:-marks])


def closing(found: Sequence[Token], opening: int) -> int:
    """The position of the ``}`` or ``)`` that closes the ``{`` or ``(`` at position ``opening``."""
    depth, opens = 0, found[opening].text
    levels = {opens: 1, {"{": "}", "(": ")"}[opens]: -1}
    for place in range(opening, len(found)):
        depth += levels.get(found[place].text, 0) if found[place].kind == "mark" else 0
        if depth == 0:
            return place
    raise QueryError(f"a {opens} is not closed", "".join(t.text for t in found), 1, 1)


def apply(text: str, edits: list[tuple[int, int, str]]) -> str:
    """The text with each ``[start, end)`` replaced; insertions at one position keep their order."""
    pieces, at = [], 0
    for start, end, new in sorted(edits, key=lambda e: (e[0], e[1])):
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])
