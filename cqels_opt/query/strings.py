"""The string functions of SPARQL 1.1 §17.4.3 and the hashes of §17.4.6, from items to items."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from urllib.parse import quote

from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.regex import compile_pattern, replace
from cqels_opt.query.values import Item, Text, number, simple, string, text


def strlen(item: Item) -> Item:
    """STRLEN: characters, not bytes."""
    return len(text(item).lexical)


def substr(item: Item, start: Item, length: Item | None = None) -> Item:
    """SUBSTR: positions count from 1; start and length must be integers."""
    source = text(item)
    first = _whole(start)
    end = len(source.lexical) + 1 if length is None else first + _whole(length)
    return string(source.lexical[max(first, 1) - 1 : max(end, 1) - 1], source.language)


def _whole(item: Item) -> int:
    found = number(item)
    if not isinstance(found, int):
        raise ExpressionError("not an integer")
    return found


def ucase(item: Item) -> Item:
    """UCASE."""
    source = text(item)
    return string(source.lexical.upper(), source.language)


def lcase(item: Item) -> Item:
    """LCASE."""
    source = text(item)
    return string(source.lexical.lower(), source.language)


def concat(*items: Item) -> Item:
    """CONCAT: keeps the language tag if all arguments have the same."""
    pieces = [text(item) for item in items]
    languages = {piece.language for piece in pieces}
    return string("".join(piece.lexical for piece in pieces), languages.pop() if len(languages) == 1 else "")


def compatible(a: Item, b: Item) -> tuple[Text, Text]:
    """Two strings with compatible languages (§17.4.3.1.2): the second has no language, or the first's."""
    x, y = text(a), text(b)
    if y.language and y.language != x.language:
        raise ExpressionError("strings of different languages")
    return x, y


def testing(test: Callable[[str, str], bool]) -> Callable[[Item, Item], Item]:
    """STRSTARTS, STRENDS and CONTAINS: a test of two strings with compatible languages."""

    def run(a: Item, b: Item) -> Item:
        x, y = compatible(a, b)
        return test(x.lexical, y.lexical)

    return run


def strbefore(a: Item, b: Item) -> Item:
    """STRBEFORE: ``""`` without language if the second string does not occur."""
    x, y = compatible(a, b)
    at = x.lexical.find(y.lexical)
    return string("") if at < 0 else string(x.lexical[:at], x.language)


def strafter(a: Item, b: Item) -> Item:
    """STRAFTER: ``""`` without language if the second string does not occur."""
    x, y = compatible(a, b)
    at = x.lexical.find(y.lexical)
    return string("") if at < 0 else string(x.lexical[at + len(y.lexical) :], x.language)


def encode_for_uri(item: Item) -> Item:
    """ENCODE_FOR_URI: percent-encodes all characters except RFC 3986's unreserved ones."""
    return string(quote(text(item).lexical, safe=""))


def langmatches(tag: Item, wanted: Item) -> Item:
    """LANGMATCHES: basic filtering of RFC 4647."""
    have, want = simple(tag).lower(), simple(wanted).lower()
    return have != "" if want == "*" else have == want or have.startswith(want + "-")


def regex(item: Item, pattern: Item, flags: Item = '""') -> Item:
    """REGEX."""
    return compile_pattern(simple(pattern), simple(flags)).search(text(item).lexical) is not None


def replaced(item: Item, pattern: Item, replacement: Item, flags: Item = '""') -> Item:
    """REPLACE."""
    source = text(item)
    return string(replace(source.lexical, simple(pattern), simple(replacement), simple(flags)), source.language)


def hashing(algorithm: str) -> Callable[[Item], Item]:
    """MD5, SHA1, SHA256, SHA384 or SHA512 of a simple string's UTF-8, in lower-case hexadecimal."""

    def run(item: Item) -> Item:
        return string(hashlib.new(algorithm, simple(item).encode(), usedforsecurity=False).hexdigest())

    return run
