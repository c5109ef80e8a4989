"""Literals as canonical N-Triples texts, and their parts."""

from __future__ import annotations

import re

_XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNESCAPES = {written: char for char, written in _ESCAPES.items()}


def literal(value: str, datatype: str | None, language: str | None) -> str:
    """The canonical N-Triples text of a literal."""
    quoted = '"' + re.sub(r'[\\"\n\r\t]', lambda m: _ESCAPES[m.group()], value) + '"'
    if language:
        return f"{quoted}@{language.lower()}"
    return quoted if datatype in (None, _XSD_STRING) else f"{quoted}^^<{datatype}>"


def literal_parts(term: str) -> tuple[str, str | None, str | None]:
    """The lexical form, the datatype (None: xsd:string) and the language of a canonical literal."""
    end = term.rindex('"')
    raw, rest = term[1:end], term[end + 1 :]
    value = re.sub(r"\\.", lambda m: _UNESCAPES[m.group()], raw)
    if rest.startswith("@"):
        return value, None, rest[1:]
    return value, rest[3:-1] if rest else None, None
