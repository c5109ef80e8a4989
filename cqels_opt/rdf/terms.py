r"""RDF terms as text: the canonical N-Triples form of a term, and its components.

The whole package represents a term by its *canonical text*: ``<iri>``, ``_:label``, ``"text"``, ``"text"@en`` (the tag in lower
case; with a base direction ``"text"@ar--rtl``) or ``"text"^^<iri>`` (xsd:string omitted). Inside a literal only ``\\``, ``"``,
newline, carriage return and tab are escaped. Lexical forms are kept: ``"007"^^<…integer>`` stays unchanged. A triple term (RDF
1.2) is ``<<( s p o )>>``, with single blanks, nested up to :data:`MAX_DEPTH` levels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias, cast

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD_STRING: Final = XSD + "string"
XSD_BOOLEAN: Final = XSD + "boolean"
XSD_INTEGER: Final = XSD + "integer"
XSD_DECIMAL: Final = XSD + "decimal"
XSD_FLOAT: Final = XSD + "float"
XSD_DOUBLE: Final = XSD + "double"
XSD_DATETIME: Final = XSD + "dateTime"
XSD_DAYTIME_DURATION: Final = XSD + "dayTimeDuration"
RDF_LANG_STRING: Final = RDF + "langString"
RDF_DIR_LANG_STRING: Final = RDF + "dirLangString"
RDF_TYPE: Final = RDF + "type"
RDF_REIFIES: Final = RDF + "reifies"

TermKind: TypeAlias = Literal["iri", "blank", "literal", "triple"]

MAX_DEPTH: Final = 100
"""The maximum nesting of triple terms: deeper ones are rejected when read, so that no later step overflows the stack."""

ABSOLUTE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")
"""The text of an absolute IRI, without angle brackets."""
_NAME_START = (
    "A-Za-z_:\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = _NAME_START + "0-9\u00b7\u0300-\u036f\u203f-\u2040-"
_IRI_CHARACTER = r'[^\x00-\x20<>"{}|^`\\]'
_NUMBERED = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"

#: Sources of regular expressions for one N-Triples term, without groups. Blank-node labels do not end in a full stop.
PLAIN_IRI_PATTERN: Final = rf"<{_IRI_CHARACTER}*>"
IRI_PATTERN: Final = rf"<{_IRI_CHARACTER}*(?:(?:{_NUMBERED}){_IRI_CHARACTER}*)*>"
BLANK_PATTERN: Final = rf"_:[{_NAME_START}0-9](?:[{_NAME}.]*[{_NAME}])?"
STRING_PATTERN: Final = rf"\"[^\"\\\n\r]*(?:(?:\\[tbnrf\"'\\]|{_NUMBERED})[^\"\\\n\r]*)*\""
LANGUAGE_PATTERN: Final = r"@[A-Za-z]+(?:-[A-Za-z0-9]+)*(?:--(?:ltr|rtl))?"
LITERAL_PATTERN: Final = rf"{STRING_PATTERN}(?:\^\^{IRI_PATTERN}|{LANGUAGE_PATTERN})?"

#: The delimiters of a triple term.
OPENING: Final = "<<("
CLOSING: Final = ")>>"

_IRI = re.compile(IRI_PATTERN)
_PLAIN_IRI = re.compile(PLAIN_IRI_PATTERN)
_BLANK = re.compile(BLANK_PATTERN)
_LITERAL = re.compile(rf"(?P<string>{STRING_PATTERN})(?:\^\^(?P<datatype>{IRI_PATTERN})|(?P<language>{LANGUAGE_PATTERN}))?")
_TRIPLE_TOKEN = re.compile(rf"[ \t]*(?:(<<\()|(\)>>)|({IRI_PATTERN}|{BLANK_PATTERN}|{LITERAL_PATTERN}))")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ECHAR = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_IRI_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_BARE_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]+')
_SURROGATE = re.compile("[\ud800-\udfff]")


class TermError(ValueError):
    """The text is not exactly one N-Triples term."""


def canonical(text: str) -> str:
    r"""The canonical text of one term in N-Triples syntax.

    >>> canonical('"caf\\u00E9"@FR')
    '"café"@fr'
    """
    text = text.strip(" \t\r\n")
    if text.startswith(OPENING):
        return _canonical_triple(text)
    if text.startswith("<"):
        return _canonical_iri(text)
    if text.startswith('"'):
        return _canonical_literal(text)
    if text.startswith("_:") and _BLANK.fullmatch(text):
        return text
    raise TermError(f"not a term in N-Triples syntax: {_shown(text)}")


def how_to_write(text: str, *, as_literal: bool) -> str:
    """How a plain text is written as a term; ``as_literal``: it may be a literal.

    >>> how_to_write("http://ex.org/a", as_literal=True)
    'write <http://ex.org/a>'
    >>> how_to_write("alice", as_literal=True)
    'write "alice" for a text, or <http://…> for an IRI'
    """
    if _BARE_IRI.fullmatch(text):
        return f"write <{text}>"
    short = text if len(text) <= 80 else f"{text[:77]}..."
    return f"write {literal(short)} for a text, or <http://…> for an IRI" if as_literal else "write <http://…>"


def _canonical_iri(text: str) -> str:
    if _PLAIN_IRI.fullmatch(text):
        if not text.isascii() and _SURROGATE.search(text):
            raise TermError(f"a surrogate is not a character: {_shown(text)}")
        return text
    if not _IRI.fullmatch(text):
        raise TermError(f"not an IRI in N-Triples syntax: {_shown(text)}")
    resolved = unescape(text[1:-1])
    if _IRI_FORBIDDEN.search(resolved):
        raise TermError(f"an IRI cannot contain this character, escaped or not: {_shown(text)}")
    return f"<{resolved}>"


def _canonical_literal(text: str) -> str:
    match = _LITERAL.fullmatch(text)
    if match is None:
        raise TermError(f"not a literal in N-Triples syntax: {_shown(text)}")
    string, datatype, language = match["string"], match["datatype"], match["language"]
    if "\\" in string or "\t" in string:
        string = f'"{escape(unescape(string[1:-1]))}"'
    if not string.isascii() and _SURROGATE.search(string):
        raise TermError(f"a surrogate is not a character: {_shown(text)}")
    if language is not None:
        return string + language.lower()
    if datatype is None:
        return string
    datatype = _canonical_iri(datatype)
    return string if datatype == f"<{XSD_STRING}>" else f"{string}^^{datatype}"


def _canonical_triple(text: str) -> str:
    """The canonical text of a triple term; without recursion, because the input is arbitrary."""
    open_: list[list[str]] = []
    at, whole = 0, ""
    while not whole:
        token = _TRIPLE_TOKEN.match(text, at)
        if token is None:
            raise TermError(f"not a triple term in N-Triples syntax: {_shown(text)} (column {at + 1})")
        at = token.end()
        if token[1]:
            open_.append([])
            if len(open_) > MAX_DEPTH:
                raise TermError(f"triple terms are nested deeper than {MAX_DEPTH} levels: {_shown(text)}")
            continue
        found = canonical(token[3]) if token[3] else _triple_of(open_.pop())
        if open_:
            open_[-1].append(found)
        else:
            whole = found
    if text[at:].strip(" \t"):
        raise TermError(f"more than a triple term: {_shown(text[at:])} follows it")
    return whole


def _triple_of(parts: list[str]) -> str:
    if len(parts) != 3:
        raise TermError(f"a triple term has {len(parts)} parts, not 3: {_shown(' '.join(parts))}")
    s, p, o = parts
    if is_literal(s):
        raise TermError(f"the subject of a triple term is a literal: {_shown(s)}")
    if not is_iri(p):
        raise TermError(f"the predicate of a triple term is not an IRI: {_shown(p)}")
    return triple(s, p, o)


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:77] + "...")


def unescape(text: str) -> str:
    r"""Resolves the escapes of an N-Triples string or IRI (``\n``, ``\uXXXX`` …)."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_unescape_one, text)


def _unescape_one(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    if digits is None:
        character = _ECHAR.get(match[3])
        if character is None:
            raise TermError(f"unknown escape {match[0]}")
        return character
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise TermError(f"{match[0]} is not a character")
    return chr(code)


def escape(text: str) -> str:
    """Escapes a lexical form as in canonical text, inside the quotation marks."""
    return text.translate(_ESCAPED)


# ------------------------------------------------------------------ canonical terms
def is_iri(term: str) -> bool:
    """Whether a canonical term is an IRI."""
    return term.startswith("<") and not term.startswith(OPENING)


def is_blank(term: str) -> bool:
    """Whether a canonical term is a blank node."""
    return term.startswith("_:")


def is_literal(term: str) -> bool:
    """Whether a canonical term is a literal."""
    return term.startswith('"')


def is_triple(term: str) -> bool:
    """Whether a canonical term is a triple term."""
    return term.startswith(OPENING)


def triple(s: str, p: str, o: str) -> str:
    """The triple term of canonical terms."""
    return f"{OPENING} {s} {p} {o} {CLOSING}"


def triple_parts(term: str) -> tuple[str, str, str]:
    """Subject, predicate and object of a canonical triple term.

    >>> triple_parts('<<( <urn:a> <urn:p> <<( <urn:b> <urn:q> "x y" )>> )>>')[2]
    '<<( <urn:b> <urn:q> "x y" )>>'
    """
    if not term.startswith(OPENING):
        raise TermError(f"not a triple term: {_shown(term)}")
    parts: list[str] = []
    at = len(OPENING)
    while len(parts) < 3:
        end = term_end(term, at)
        parts.append(term[at:end].strip())
        at = end
    return cast("tuple[str, str, str]", tuple(parts))


def term_end(text: str, at: int) -> int:
    """The end of the term that begins at ``at``, after optional blanks; a triple term includes its components."""
    depth = 0
    while True:
        token = _TRIPLE_TOKEN.match(text, at)
        if token is None or (token[2] and not depth):
            raise TermError(f"not a term in N-Triples syntax: {_shown(text[at:])}")
        depth += 1 if token[1] else -1 if token[2] else 0
        at = token.end()
        if not depth:
            return at


def depth(term: str) -> int:
    """The nesting depth of triple terms in a canonical term; 0 if it is not a triple term."""
    deepest = current = 0
    for token in _TRIPLE_TOKEN.finditer(term) if term.startswith(OPENING) else ():
        current += 1 if token[1] else -1 if token[2] else 0
        deepest = max(deepest, current)
    return deepest


def relabelled(term: str, label: Callable[[str], str]) -> str:
    """A canonical term with blank nodes replaced by ``label(_:b)``, also inside triple terms."""
    if term.startswith("_:"):
        return label(term)
    if not term.startswith(OPENING) or "_:" not in term:
        return term

    def renamed(token: re.Match[str]) -> str:
        found = token[3]
        return token[0] if found is None or not found.startswith("_:") else token[0].replace(found, label(found))

    return _TRIPLE_TOKEN.sub(renamed, term)


def iri(value: str) -> str:
    """The canonical term of an IRI without angle brackets; TermError if it has a character that no IRI can have."""
    if _IRI_FORBIDDEN.search(value) or _SURROGATE.search(value):
        raise TermError(f"not an IRI: {_shown(value)}")
    return f"<{value}>"


def iri_value(term: str) -> str:
    """The IRI inside a canonical IRI term."""
    if not is_iri(term):
        raise TermError(f"not an IRI: {_shown(term)}")
    return term[1:-1]


def literal(lexical: str, datatype: str = XSD_STRING, language: str | None = None) -> str:
    """The canonical literal of a lexical form (unescaped) with a datatype IRI or a language tag."""
    string = f'"{escape(lexical)}"'
    if language is not None:
        return f"{string}@{language.lower()}"
    return string if datatype == XSD_STRING else f"{string}^^<{datatype}>"


def literal_parts(term: str) -> tuple[str, str, str | None]:
    """Lexical form (unescaped), datatype IRI (without angle brackets) and language tag of a canonical literal.

    The tag of a literal with a base direction contains it after two hyphens (RDF 1.2); :func:`tag_parts` splits them.

    >>> literal_parts('"chat"@fr')
    ('chat', 'http://www.w3.org/1999/02/22-rdf-syntax-ns#langString', 'fr')
    """
    if not term.startswith('"'):
        raise TermError(f"not a literal: {_shown(term)}")
    end = term.rfind('"')
    lexical, rest = unescape(term[1:end]), term[end + 1 :]
    if not rest:
        return lexical, XSD_STRING, None
    if rest.startswith("@"):
        return lexical, RDF_DIR_LANG_STRING if "--" in rest else RDF_LANG_STRING, rest[1:]
    return lexical, rest[3:-1], None


def tag_parts(tag: str) -> tuple[str, str]:
    """The language and the base direction (``ltr``, ``rtl`` or ``""``) of a literal's tag."""
    language, _, direction = tag.partition("--")
    return language, direction
