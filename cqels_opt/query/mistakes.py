"""Error messages for syntax errors: what was found, what was expected, and a suggestion."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from cqels_opt.errors import option
from cqels_opt.query.functions import ARITIES

_WORDS: Final = {
    "VAR": "a variable",
    "IRIREF": "an IRI",
    "PNAME_LN": "an IRI",
    "PNAME_NS": "an IRI",
    "BLANK_NODE_LABEL": "a blank node",
    "STRING": "a string",
    "STRING_LONG": "a string",
    "LANGTAG": "a language tag",
    "FUNCTION": "a function",
    "AGGREGATE": "an aggregate",
    "DURATION": "a duration",
    "A": "'a'",
    "COMPARISON": "a comparison",
    **dict.fromkeys(("INTEGER", "DECIMAL", "DOUBLE", "SIGNED_INTEGER", "SIGNED_DECIMAL", "SIGNED_DOUBLE"), "a number"),
    **dict.fromkeys(("OR", "AND", "PLUS", "MINUS", "STAR", "SLASH", "QUESTION", "NOT_SIGN"), "an operator"),
    "OUTPUT": "ISTREAM, DSTREAM or RSTREAM",
    "NAME": "a name",
    **dict.fromkeys(("OPEN_QUOTED", "OPEN_TRIPLE"), "a quoted triple"),
    "_DASH": "'-'",
    "$END": "the end of the query",
}
_KEYWORDS_OF: Final = {
    "OUTPUT": ("ISTREAM", "DSTREAM", "RSTREAM"),
    "AGGREGATE": ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"),
}
"""The keywords of a terminal that matches several."""
_UPDATES: Final = {"INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH"}
_NOT_NAMED: Final = {"KIND", "_ODD_COMMA"}
"""Accepted, but no advice: a window kind of another package, which few readers have, and the comma that RSP-QL does not define."""
_LOGIC: Final = {"AND": "&&", "OR": "||"}
_SIGNS: Final = {"==": "=", "<>": "!=", "=>": ">=", "=<": "<=", "&": "&&"}
_NEAR: Final = 0.65
_MOST: Final = 6
_LONGEST: Final = 60
_WORD = re.compile(r"[^\W\d]\w*")
_ITEM = re.compile(r'[?$]?[\w:]+|<[^\s<>]*>?|"[^"\n]*"?|\S')
_BARE_ITEM = re.compile(
    r"""\bSELECT\b (?:(?!\b(?:FROM|WHERE|SELECT)\b)[^{}])*? (?<![\w?$])
        ( [?$]\w+ | (?:[A-Z_][\w.-]*:?[\w.-]*|<[^<>\s]*>) \s* \( (?:[^(){}]|\((?:[^(){}]|\([^(){}]*\))*\))* \) ) \s* $""",
    re.IGNORECASE | re.VERBOSE,
)
"""A variable or a call at the end of the text, in the head of a SELECT."""
_STREAM_OF = re.compile(r"(?:\bON|(?<!REGISTER )\bSTREAM)$", re.IGNORECASE)
"""The words before the name of a window's stream, with one space between words."""
_FILE_NAME = re.compile(r"\s*[^\s{}]*\.\w+\s*")
"""A text that is no query but one word with a suffix."""
_PREFIXED = re.compile(r"[\w.-]*:[\w.-]+$")
_NAME = re.compile(r"AS\s+([?$]\w+)", re.IGNORECASE)


def explain(unexpected: UnexpectedInput, text: str, grammar: Lark) -> tuple[str, int]:
    """The message for a syntax error and its offset in the text."""
    accepted = _accepted(unexpected) - _NOT_NAMED
    if isinstance(unexpected, UnexpectedToken) and unexpected.token.type == "$END":
        return f"the query ends too early; expected {_listed(accepted, grammar)}", len(text.rstrip())
    at = unexpected.pos_in_stream or 0
    rest = text[at:]
    special = _known_mistake(text, at, accepted)
    if special is not None:
        return special, at
    word = _WORD.match(rest)
    item = _ITEM.match(rest)
    shown = item[0] if item else rest[:1]
    shown = shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"
    message = f"unexpected {shown if word or shown[:1] in '?$' else repr(shown)}"
    guess = nearest(word[0], _keywords(accepted, grammar)) if word is not None else ""
    if not guess and word is not None and "VAR" in accepted and word[0].islower() and shown == word[0]:
        return f"{message}: a variable is written ?{word[0]}", at
    return f"{message}{guess or '; expected ' + _listed(accepted, grammar)}", at


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean …?`` with the most similar known word, or ``""``."""
    by_upper = {name.upper(): name for name in known}
    near = difflib.get_close_matches(word.upper(), by_upper, 1, _NEAR)
    return f"; did you mean {by_upper[near[0]]}?" if near and near[0] != word.upper() else ""


def _accepted(unexpected: UnexpectedInput) -> set[str]:
    parser = getattr(unexpected, "interactive_parser", None)
    if parser is not None:
        return set(parser.accepts())
    return set(unexpected.allowed or ()) if isinstance(unexpected, UnexpectedCharacters) else set()


def _spelt(name: str, grammar: Lark) -> str:
    """A terminal for a message: its keyword, its sign in quotes, or a description."""
    if name in _WORDS:
        return _WORDS[name]
    pattern = grammar.get_terminal(name).pattern
    return f"'{pattern.value}'" if isinstance(pattern, PatternStr) else name


def _keywords(accepted: set[str], grammar: Lark) -> list[str]:
    words = [spelt for name in accepted if (spelt := _spelt(name, grammar)) == name]
    if "FUNCTION" in accepted:
        words += (name for name in ARITIES if name[0].isalpha() and " " not in name)
    return [*words, *(word for name in accepted for word in _KEYWORDS_OF.get(name, ()))]


def _listed(accepted: set[str], grammar: Lark) -> str:
    """At most six expected items, the most useful first: a variable or an IRI, brackets, other terms, keywords, operators."""
    words = {_spelt(name, grammar) for name in accepted}
    if "STAR" in accepted and "SLASH" not in accepted:  # SELECT * and the like: no path, no product
        words = (words - {"an operator"}) | {"'*'"}
    first = {"a variable", "an IRI"} if "a variable" in words else set()
    order = sorted(words, key=lambda w: (w == "an operator", w not in first, not w.startswith("'"), w.isupper(), w))
    shown = order[:_MOST]
    text = ", ".join(shown[:-1]) + f" or {shown[-1]}" if len(shown) > 1 else "".join(shown)
    return text + (" …" if len(order) > _MOST else "")


def _known_mistake(text: str, at: int, accepted: set[str]) -> str | None:
    """The message for a common mistake, where the text at the position says more than a list of expected items."""
    rest = text[at:]
    word = _WORD.match(rest)
    upper = word[0].upper() if word is not None else ""
    if _FILE_NAME.fullmatch(text):
        return f"{text.strip()!r} looks like the name of a file: give {option('its text, open(…).read()', 'it as an argument, without -e')}"
    if upper in _UPDATES:
        return f"{upper} changes data, and is not supported: a continuous query is a SELECT, CONSTRUCT, ASK or DESCRIBE"
    if rest.startswith("<<") and "IRIREF" in accepted:
        return "a quoted triple cannot stand here: in expressions and VALUES write a triple term, <<( ?s ?p ?o )>>"
    if upper == "GROUP" and "RBRACE" in accepted:
        return "GROUP BY belongs after the '}' of the WHERE that it groups; in a sub-select, before the brace that closes it"
    if re.match(r"https?:", rest) or re.search(r"(?<![\w<])https?:/?$", text[:at]):
        return "an IRI stands in angle brackets: write <http://…>"
    if rest[:1] in "?$" and "VAR" not in accepted and _STREAM_OF.search(" ".join(text[max(0, at - _LONGEST) : at].split())):
        return (
            "a variable cannot name the stream of a window, because it has no value before the query runs: write the stream's IRI"
        )
    if rest[:1] == "/" and "SLASH" not in accepted and (name := _PREFIXED.search(text[:at])) is not None:
        return f"a '/' in a prefixed name is written \\/: write {name[0]}\\/…, or the whole IRI in angle brackets"
    for sign, right in _SIGNS.items():
        if "COMPARISON" in accepted and rest.startswith(sign):
            return f"unexpected {sign}: write {right}"
        if rest[:1] == sign[1:] and text[at - 1 : at + 1] == sign:
            return f"unexpected {sign}: write {right}"
    if upper == "AS" and (item := _BARE_ITEM.search(text[:at])) is not None and (name := _NAME.match(rest)) is not None:
        written = f"{item[1]} AS {name[1]}"
        return f"{written} in SELECT needs brackets around it: write ({written})"
    if upper in _LOGIC and "AND" in accepted:
        return f"unexpected {word[0] if word else upper}: write {_LOGIC[upper]}"
    return _unclosed(rest)


def _unclosed(rest: str) -> str | None:
    if rest[:1] in "\"'":
        if not re.match(r'"""|\'\'\'', rest):
            inside = re.match(r"(.)((?!\1)[^\n\\]|\\.)*(\1|\n|\Z)", rest)
            if inside is not None and inside[3] == rest[0]:
                bad = re.search(r"\\[^tbnrf\"'\\]", inside[0])
                return f"unknown escape {bad[0]} in a string" if bad else None
        return "a string is not closed"
    if re.match(r"<[A-Za-z][A-Za-z0-9+.-]*:[^>\n]*$", rest, re.MULTILINE):
        return "an IRI is not closed with '>'"
    bad_iri = re.match(r'<[A-Za-z][A-Za-z0-9+.-]*:[^\s<>"{}|^`\\]*([\s"{}|^`\\])[^<>\n]*>', rest)
    return f"an IRI cannot contain {bad_iri[1]!r}" if bad_iri else None
