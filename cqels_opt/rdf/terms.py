"""RDF terms as text: what is the canonical N-Triples form of a term, and what are its parts?

A term travels through the whole package as its *canonical text*: ``<iri>``, ``_:label``, ``"text"``, ``"text"@en`` (the tag in
lower case; with a base direction ``"text"@ar--rtl``) or ``"text"^^<iri>`` (xsd:string left out). Inside a literal only ``\\``,
``"``, newline, carriage return and tab are escaped; every other character is itself. Lexical forms are kept: ``"007"^^<…integer>``
stays as it is.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD_STRING: Final = XSD + "string"
XSD_BOOLEAN: Final = XSD + "boolean"
XSD_INTEGER: Final = XSD + "integer"
XSD_DECIMAL: Final = XSD + "decimal"
XSD_FLOAT: Final = XSD + "float"
XSD_DOUBLE: Final = XSD + "double"
XSD_DATE: Final = XSD + "date"
XSD_TIME: Final = XSD + "time"
XSD_DATETIME: Final = XSD + "dateTime"
XSD_DAYTIME_DURATION: Final = XSD + "dayTimeDuration"
RDF_LANG_STRING: Final = RDF + "langString"
RDF_DIR_LANG_STRING: Final = RDF + "dirLangString"
RDF_TYPE: Final = RDF + "type"

TermKind: TypeAlias = Literal["iri", "blank", "literal"]

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

_IRI = re.compile(IRI_PATTERN)
_PLAIN_IRI = re.compile(PLAIN_IRI_PATTERN)
_BLANK = re.compile(BLANK_PATTERN)
_LITERAL = re.compile(rf"(?P<string>{STRING_PATTERN})(?:\^\^(?P<datatype>{IRI_PATTERN})|(?P<language>{LANGUAGE_PATTERN}))?")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ECHAR = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_IRI_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_SURROGATE = re.compile("[\ud800-\udfff]")


class TermError(ValueError):
    """A text is not one N-Triples term."""


def canonical(text: str) -> str:
    r"""The canonical text of one term in N-Triples syntax.

    >>> canonical('"caf\\u00E9"@FR')
    '"café"@fr'
    """
    text = text.strip(" \t\r\n")
    if text.startswith("<"):
        return _canonical_iri(text)
    if text.startswith('"'):
        return _canonical_literal(text)
    if text.startswith("_:") and _BLANK.fullmatch(text):
        return text
    raise TermError(f"not a term in N-Triples syntax: {_shown(text)}")


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


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:77] + "...")


def unescape(text: str) -> str:
    r"""Resolve the escapes of an N-Triples string or IRI (``\n``, ``\uXXXX`` …)."""
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
    """Escape a lexical form as canonical text has it inside the quotation marks."""
    return text.translate(_ESCAPED)


# ------------------------------------------------------------------ of canonical terms
def kind(term: str) -> TermKind:
    """What a canonical term is."""
    return "iri" if term.startswith("<") else "literal" if term.startswith('"') else "blank"


def is_iri(term: str) -> bool:
    """Whether a canonical term is an IRI."""
    return term.startswith("<")


def is_blank(term: str) -> bool:
    """Whether a canonical term is a blank node."""
    return term.startswith("_:")


def is_literal(term: str) -> bool:
    """Whether a canonical term is a literal."""
    return term.startswith('"')


def iri(value: str) -> str:
    """The canonical term of an IRI without angle brackets; TermError if it has a character that no IRI can have."""
    if _IRI_FORBIDDEN.search(value) or _SURROGATE.search(value):
        raise TermError(f"not an IRI: {_shown(value)}")
    return f"<{value}>"


def iri_value(term: str) -> str:
    """The IRI inside a canonical IRI term."""
    if not term.startswith("<"):
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

    The tag of a literal with a base direction has it after two hyphens (RDF 1.2); :func:`tag_parts` parts them.

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
