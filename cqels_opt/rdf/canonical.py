"""Canonical texts of many terms at once: one regular expression recognizes terms that are already canonical, which most are."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cqels_opt.rdf.terms import PLAIN_IRI_PATTERN, XSD_STRING, TermError, canonical

_STRING: Final = r'"[^"\\\n\r\t]*"'
_PLAIN: Final = rf"^(?:{PLAIN_IRI_PATTERN}|_:[A-Za-z0-9_]+|{_STRING}(?:\^\^{PLAIN_IRI_PATTERN}|@[a-z]+(?:-[a-z0-9]+)*)?)$"
_OF_STRING: Final = f'"^^<{XSD_STRING}>'

_KNOWN: dict[str, str | None] = {}  # cache per process: raw term -> canonical text (None: not a term)
_KNOWN_LIMIT: Final = 1_000_000


def are_plain(raw: pa.StringArray) -> Any:
    """Whether each text is a canonical term of the forms that one regular expression recognizes."""
    matches: Any = pc.match_substring_regex(raw, _PLAIN)
    return pc.fill_null(pc.and_not(matches, pc.ends_with(raw, _OF_STRING)), False)


def canonical_texts(raw: pa.StringArray) -> pa.StringArray:
    """:func:`~cqels_opt.rdf.terms.canonical` of each term; null where a text is not exactly one term in N-Triples syntax."""
    plain = are_plain(raw)
    if pc.all(plain).as_py():
        return raw
    others: Any = pc.invert(plain)
    texts: pa.StringArray = pc.replace_with_mask(
        raw, others, pa.array(map(_canonical, raw.filter(others).to_pylist()), pa.string())
    )
    return texts


def _canonical(raw: str | None) -> str | None:
    if raw is None:
        return None
    if raw not in _KNOWN:
        if len(_KNOWN) >= _KNOWN_LIMIT:
            _KNOWN.clear()
        try:
            _KNOWN[raw] = canonical(raw)
        except TermError:
            _KNOWN[raw] = None
    return _KNOWN[raw]
