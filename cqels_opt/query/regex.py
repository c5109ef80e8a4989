r"""XPath regular expressions (REGEX, REPLACE) as Python's: what does a pattern with its flags mean?

Translated: ``$`` (the end only, never before a last newline), ``\p{Lu}`` and ``\P{…}`` (general categories), ``\i`` and ``\c``,
class subtraction ``[a-z-[aeiou]]``, the flags ``s m i x q``. ``\w`` is Python's (letters, digits, underscore), as other engines
have it; XPath's also has symbols and has no underscore. ``(?`` other than ``(?:`` is an error.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from cqels_opt.query.numeric import ExpressionError

_FLAGS = {"s": re.DOTALL, "m": re.MULTILINE, "i": re.IGNORECASE, "x": re.NOFLAG, "q": re.NOFLAG}
_NAME_START = (
    "A-Za-z_:\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = _NAME_START + "\\-.0-9\u00b7\u0300-\u036f\u203f-\u2040"
_CLASSES = {"i": _NAME_START, "c": _NAME}
_REPLACEMENT = re.compile(r"\\([\\$])|\$([0-9]+)|([\\$])")


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str, flags: str) -> re.Pattern[str]:
    """A pattern ready to search with, or ExpressionError."""
    if set(flags) - set(_FLAGS):
        raise ExpressionError(f"unknown flag in {flags!r}")
    options = re.NOFLAG
    for flag in flags:
        options |= _FLAGS[flag]
    try:
        return re.compile(re.escape(pattern) if "q" in flags else _Translator(pattern, flags).translate(), options)
    except (re.error, OverflowError, RecursionError) as error:
        raise ExpressionError(f"bad regular expression {pattern!r}: {error}") from error


def replace(text: str, pattern: str, replacement: str, flags: str) -> str:
    """fn:replace; an error if the pattern matches the empty string or the replacement has a stray ``$`` or backslash."""
    compiled = compile_pattern(pattern, flags)
    if compiled.search("") is not None:
        raise ExpressionError("the pattern of REPLACE matches the empty string")
    if "q" in flags:
        return compiled.sub(lambda match: replacement, text)
    return compiled.sub(_template(replacement, compiled.groups), text)


@lru_cache(maxsize=1024)
def _template(replacement: str, groups: int) -> Callable[[re.Match[str]], str]:
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
        used = len(digits)
        while used > 1 and int(digits[:used]) > groups:
            used -= 1
        parts += [int(digits[:used]), digits[used:]]
    parts.append(replacement[end:])

    def expand(match: re.Match[str]) -> str:
        return "".join(p if isinstance(p, str) else (match[p] or "") if p <= groups else "" for p in parts)

    return expand


class _Translator:
    """A pass over one pattern, from left to right."""

    def __init__(self, pattern: str, flags: str) -> None:
        self.pattern, self.at = pattern, 0
        self.extended, self.multiline = "x" in flags, "m" in flags

    def translate(self) -> str:
        out = []
        while self.at < len(self.pattern):
            character = self._next()
            if character == "\\":
                out.append(self._escape(inside=False))
            elif character == "[":
                out.append(self._class())
            elif character == "$":
                out.append(r"(?=\n|\Z)" if self.multiline else r"\Z")
            elif character == "(" and self._peek() == "?" and self.pattern[self.at : self.at + 2] != "?:":
                raise ExpressionError("only (?: may follow an opening bracket")
            elif not (self.extended and character in " \t\r\n"):
                out.append(re.escape(character) if character in "#&~ " else character)
        return "".join(out)

    def _next(self) -> str:
        if self.at >= len(self.pattern):
            raise ExpressionError("the regular expression ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _escape(self, inside: bool) -> str:
        character = self._next()
        if character in "pP":
            return _category(self._property(), negated=character == "P", inside=inside)
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            if character.isupper():
                ranges = _complement(ranges)
            return ranges if inside else f"[{ranges}]"
        if character.isascii() and character.isalpha() and character not in "nrtdDsSwWbB":
            raise ExpressionError(f"unknown escape \\{character}")
        return "\\" + character

    def _property(self) -> str:
        close = self.pattern.find("}", self.at)
        if self._peek() != "{" or close < 0:
            raise ExpressionError("\\p needs a category in braces")
        name = self.pattern[self.at + 1 : close]
        self.at = close + 1
        return name

    def _class(self) -> str:
        out, subtracted = ["["], ""
        if self._peek() == "^":
            out.append(self._next())
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
                subtracted = f"(?!{self._class()})"
                if self._next() != "]":
                    raise ExpressionError("a subtraction must end its character class")
                break
            elif character == "[":
                out.append(r"\[")
            elif not (self.extended and character in " \t\r\n"):
                out.append("\\" + character if character in "&~|]" else character)
        return f"(?:{subtracted}{''.join(out)}])" if subtracted else "".join(out) + "]"


@lru_cache(maxsize=64)
def _category(name: str, negated: bool, inside: bool) -> str:
    """The characters of a general category as ranges of a Python character class."""
    ranges, start, last = [], -1, -2
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(name) != negated:
            if code != last + 1:
                if start >= 0:
                    ranges.append((start, last))
                start = code
            last = code
    if not name or start < 0 or (not negated and name not in _categories()):
        raise ExpressionError(f"unknown category {name!r}")
    ranges.append((start, last))
    body = "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in ranges)
    return body if inside else f"[{body}]"


@lru_cache(maxsize=1)
def _categories() -> frozenset[str]:
    found = {unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1)}
    return frozenset(found | {name[0] for name in found})


def _complement(ranges: str) -> str:
    member = re.compile(f"[^{ranges}]")
    out, start = [], -1
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and member.match(chr(code)) is not None
        if inside and start < 0:
            start = code
        elif not inside and start >= 0:
            out.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = -1
    return "".join(out)
