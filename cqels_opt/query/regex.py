r"""XPath regular expressions (REGEX, REPLACE), translated to RE2 or to the backtracking matcher.

Patterns run on RE2, whose time is linear in the length of the text. Patterns that RE2 does not support (back-references, counts
above 1,000, ``\b``) run on :mod:`cqels_opt.query.backtracking`, which limits the steps of a call.

Translated: ``$`` (only the end, never before a last newline), ``\p{Lu}`` and ``\P{…}`` (general categories), ``\i`` and ``\c``,
class subtraction ``[a-z-[aeiou]]``, the flags ``s m i x q``. ``\w`` is Python's (letters, digits, underscore), as in other
engines; XPath's also has symbols and no underscore. ``(?`` other than ``(?:`` is an error.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import re2

from cqels_opt.query.backtracking import BoundedPattern
from cqels_opt.query.numeric import ExpressionError

_FLAGS = {"s": re.DOTALL, "m": re.MULTILINE, "i": re.IGNORECASE, "x": re.NOFLAG, "q": re.NOFLAG}
_NAME_START = (
    "A-Za-z_:\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = _NAME_START + "\\-.0-9\u00b7\u0300-\u036f\u203f-\u2040"
_CLASSES = {"i": _NAME_START, "c": _NAME}
_REPLACEMENT = re.compile(r"\\([\\$])|\$([0-9]+)|([\\$])")
_DIGITS = frozenset("0123456789")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")

# RE2 supports these classes for ASCII only; here they match what Python's match, outside and inside a class (W and S cannot be
# inside).
_SPACE = r"\t-\r\x1c-\x1f\x{85}\p{Z}"
_OUTSIDE = {
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "w": r"[\p{L}\p{N}_]",
    "W": r"[^\p{L}\p{N}_]",
    "s": f"[{_SPACE}]",
    "S": f"[^{_SPACE}]",
}
_INSIDE = {"d": r"\p{Nd}", "D": r"\P{Nd}", "w": r"\p{L}\p{N}_", "s": _SPACE}


class Match(Protocol):
    """A match: the text of each group, None for a group without a match; group 0 is the whole match."""

    def __getitem__(self, group: int, /) -> str | None:
        """The text of a group."""


class Pattern(Protocol):
    """A compiled pattern."""

    @property
    def groups(self) -> int:
        """The number of groups."""

    def search(self, text: str) -> Match | None:
        """The first match."""

    def sub(self, expand: Callable[[Match], str], text: str) -> str:
        """The text with all matches replaced."""


@dataclass(frozen=True, slots=True)
class LinearMatch:
    """A match of RE2, which works on UTF-8."""

    found: Any

    def __getitem__(self, group: int) -> str | None:
        text: bytes | None = self.found[group]
        return None if text is None else text.decode()


@dataclass(frozen=True, slots=True)
class LinearPattern:
    """A pattern compiled by RE2."""

    compiled: Any

    @property
    def groups(self) -> int:
        """See :class:`Pattern`."""
        return int(self.compiled.groups)

    def search(self, text: str) -> Match | None:
        """See :class:`Pattern`."""
        found = self.compiled.search(_utf8(text))
        return None if found is None else LinearMatch(found)

    def sub(self, expand: Callable[[Match], str], text: str) -> str:
        """See :class:`Pattern`. The pattern does not match the empty string."""
        replaced: bytes = self.compiled.sub(lambda found: expand(LinearMatch(found)).encode(), _utf8(text))
        return replaced.decode()


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ExpressionError(f"no Unicode text: {error.reason}") from error


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str, flags: str) -> Pattern:
    """The compiled pattern; raises ExpressionError."""
    if set(flags) - set(_FLAGS):
        raise ExpressionError(f"unknown flag in {flags!r}")
    options = re.NOFLAG
    for flag in flags:
        options |= _FLAGS[flag]
    try:
        tokens = [_plain(c) for c in pattern] if "q" in flags else _Translator(pattern, flags).tokens()
        re.compile("".join(token.python for token in tokens), options)
        return _linear(tokens, options) or BoundedPattern([token.python for token in tokens], options)
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise ExpressionError(f"bad regular expression {pattern!r}: {error}") from error


def _linear(tokens: list[Token], options: re.RegexFlag) -> LinearPattern | None:
    """The pattern for RE2, or None if RE2 does not support it."""
    parts = []
    for token in tokens:
        part = token.re2 if token.re2 is not None else _scanned(token.python, options) if token.is_class else None
        if part is None:
            return None
        parts.append(part)
    set_flags = "".join(flag for flag in "ims" if options & _FLAGS[flag])
    settings = re2.Options()
    settings.log_errors = False
    try:
        return LinearPattern(re2.compile(_utf8((f"(?{set_flags})" if set_flags else "") + "".join(parts)), settings))
    except re2.error:
        return None


def replace(text: str, pattern: str, replacement: str, flags: str) -> str:
    """fn:replace; an error if the pattern matches the empty string or the replacement has a stray ``$`` or backslash."""
    compiled = compile_pattern(pattern, flags)
    if compiled.search("") is not None:
        raise ExpressionError("the pattern of REPLACE matches the empty string")
    if "q" in flags:
        return compiled.sub(lambda match: replacement, text)
    return compiled.sub(_template(replacement, compiled.groups), text)


@lru_cache(maxsize=1024)
def _template(replacement: str, groups: int) -> Callable[[Match], str]:
    parts: list[str | int] = []
    end = 0
    for found in _REPLACEMENT.finditer(replacement):
        parts.append(replacement[end : found.start()])
        end = found.end()
        if found[3]:
            raise ExpressionError("a stray $ or backslash in the replacement")
        if found[1]:
            parts.append(found[1])
            continue
        digits = found[2]
        used = min(len(digits), len(str(groups)) + 1)
        while used > 1 and int(digits[:used]) > groups:
            used -= 1
        parts += [int(digits[:used]), digits[used:]]
    parts.append(replacement[end:])

    def expand(match: Match) -> str:
        return "".join(p if isinstance(p, str) else (match[p] or "") if p <= groups else "" for p in parts)

    return expand


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a pattern in Python's syntax and in RE2's (None: RE2 does not support it, or only as a list of characters)."""

    python: str
    re2: str | None
    is_class: bool = False


def _plain(character: str) -> Token:
    escaped = re.escape(character)
    return Token(escaped, escaped if character.isascii() else character)


class _Translator:
    """One left-to-right pass over a pattern."""

    def __init__(self, pattern: str, flags: str) -> None:
        self.pattern, self.at = _without_spaces(pattern) if "x" in flags else pattern, 0
        self.multiline = "m" in flags
        self.groups = 0  # opened so far

    def tokens(self) -> list[Token]:
        out = []
        while self.at < len(self.pattern):
            if found := _QUANTIFIER.match(self.pattern, self.at):
                self.at = found.end()
                if _QUANTIFIER.match(self.pattern, self.at):
                    raise ExpressionError("two quantifiers, one behind the other")
                out.append(Token(found[0], found[0]))
                continue
            character = self._next()
            if character == "\\":
                out.append(self._escape())
            elif character == "[":
                out.append(self._class())
            elif character == "$":
                out.append(Token(r"(?=\n|\Z)", "$") if self.multiline else Token(r"\Z", r"\z"))
            elif character == "(":
                out.append(self._bracket())
            elif character == "{" and self._peek() == ",":
                raise ExpressionError("a quantifier begins with a number")
            else:
                out.append(_plain(character) if character in "#&~ " or not character.isascii() else Token(character, character))
        return out

    def _next(self) -> str:
        if self.at >= len(self.pattern):
            raise ExpressionError("the regular expression ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _escape(self, inside: bool = False) -> Token:
        character = self._next()
        if character in "pP":
            return _ranged(_category(self._property(), negated=character == "P"), inside)
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            return _ranged(_complement(ranges) if character.isupper() else ranges, inside)
        if character.isascii() and character.isalpha() and character not in "nrtdDsSwWbB":
            raise ExpressionError(f"unknown escape \\{character}")
        if character in "dDsSwW":
            return Token("\\" + character, (_INSIDE if inside else _OUTSIDE).get(character))
        if character in _DIGITS and not inside:
            return self._reference(character)
        if character in _DIGITS or character in "bB":
            return Token("\\" + character, None)
        return Token("\\" + character, "\\" + character if character.isascii() else character)

    def _bracket(self) -> Token:
        if self._peek() != "?":
            self.groups += 1
            return Token("(", "(")
        if not self.pattern.startswith("?:", self.at):
            raise ExpressionError("only (?: may follow an opening bracket")
        self.at += 2
        return Token("(?:", "(?:")

    def _reference(self, digits: str) -> Token:
        """A reference to a group; takes as many digits as form the number of an existing group."""
        if digits == "0":
            raise ExpressionError("unknown escape \\0")
        while self._peek() in _DIGITS and int(digits + self._peek()) <= self.groups:
            digits += self._next()
        return Token(f"(?:\\{digits})", None)

    def _property(self) -> str:
        close = self.pattern.find("}", self.at)
        if self._peek() != "{" or close < 0:
            raise ExpressionError("\\p needs a category in braces")
        name = self.pattern[self.at + 1 : close]
        self.at = close + 1
        return name

    def _class(self) -> Token:
        out, subtracted = [Token("[", "[")], ""
        if self._peek() == "^":
            self._next()
            out.append(Token("^", "^"))
        first = True
        while True:
            character = self._next()
            if character == "]" and not first:
                break
            first = False
            if character == "\\":
                out.append(self._escape(inside=True))
            elif character == "-" and self._peek() == "[":
                self._next()
                subtracted = f"(?!{self._class().python})"
                if self._next() != "]":
                    raise ExpressionError("a subtraction must end its character class")
                break
            else:
                escaped = "\\" + character if character in "[&~|]" else character
                out.append(Token(escaped, escaped))
        python = "".join(token.python for token in out) + "]"
        if subtracted:
            return Token(f"(?:{subtracted}{python})", None, is_class=True)
        if any(token.re2 is None for token in out):
            return Token(python, None, is_class=True)
        return Token(python, "".join(token.re2 or "" for token in out) + "]", is_class=True)


def _without_spaces(pattern: str) -> str:
    """A pattern without its white space, except for that in character classes: what the flag ``x`` means (XPath F&O §7.6.1.1)."""
    kept: list[str] = []
    depth = 0  # of character classes
    escaped = begins = minus = (
        False  # what is before: a backslash; the begin of a class; a hyphen, after which a class is subtracted
    )
    for character in pattern:
        if character in " \t\r\n" and not depth:
            continue
        kept.append(character)
        opens = character == "[" and not escaped and (not depth or minus)
        if opens:
            depth += 1
        elif character == "]" and not escaped and depth and not begins:
            depth -= 1
        begins = opens or (begins and character == "^" and kept[-2] == "[")
        minus = character == "-" and not escaped
        escaped = character == "\\" and not escaped
    return "".join(kept)


def _ranged(ranges: str, inside: bool) -> Token:
    """Character ranges as a class, or as a part of one."""
    body = ranges if inside else f"[{ranges}]"
    return Token(body, re.sub(r"\\U([0-9a-f]{8})", r"\\x{\1}", body))


@lru_cache(maxsize=64)
def _scanned(one: str, options: re.RegexFlag) -> str:
    """A class for RE2 that lists all characters of a class in Python's syntax."""
    return f"[{_hexadecimal(_ranges(re.compile(one, options).match))}]"


def _ranges(has: Callable[[str], object]) -> list[tuple[int, int]]:
    """The ranges of characters for which a predicate is true."""
    found, start = [], -1
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and bool(has(chr(code)))
        if inside and start < 0:
            start = code
        elif not inside and start >= 0:
            found.append((start, code - 1))
            start = -1
    return found


def _hexadecimal(ranges: list[tuple[int, int]]) -> str:
    return "".join(rf"\x{{{a:x}}}-\x{{{b:x}}}" for a, b in ranges) or r"^\x{0}-\x{10ffff}"


@lru_cache(maxsize=64)
def _category(name: str, negated: bool) -> str:
    """The characters of a general category as ranges of a Python character class."""
    if name not in _categories():
        raise ExpressionError(f"unknown category {name!r}")
    return _escaped(_ranges(lambda character: unicodedata.category(character).startswith(name) != negated))


@lru_cache(maxsize=1)
def _categories() -> frozenset[str]:
    found = {unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1)}
    return frozenset(found | {name[0] for name in found})


@lru_cache(maxsize=4)
def _complement(ranges: str) -> str:
    member = re.compile(f"[{ranges}]")
    return _escaped(_ranges(lambda character: member.match(character) is None))


def _escaped(ranges: list[tuple[int, int]]) -> str:
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in ranges)
