"""Limits entities in RDF/XML files: they abbreviate namespaces and must not expand a small file to a large one.

The parser replaces ``&name;`` by the value of ``<!ENTITY name "value">``, also within later values, so 20 declarations can expand
to gigabytes. With at most :data:`MOST` characters per entity, a file expands at most :data:`MOST` / 3 times (``&a;`` has three
bytes).
"""

from __future__ import annotations

import re
from typing import BinaryIO, Final

MOST: Final = 256
"""The maximum number of characters of an expanded entity; the longest namespaces in use have about 100."""
LONGEST: Final = 4096
"""The maximum length of a declaration in bytes."""

_BEGIN: Final = b"<!ENTITY"
_DECLARATION: Final = re.compile(rb'<!ENTITY[ \t\r\n]+(?:%[ \t\r\n]+)?([\w:.-]+)[ \t\r\n]+"([^"<]*)"[ \t\r\n]*>')
_REFERENCE: Final = re.compile(r"&([^;&]*);")


class BoundedEntities:
    """A file of XML that raises SyntaxError, with the line, for a declaration of an entity that expands to too much.

    It searches for declarations everywhere, including comments, because the parser reads them from there.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.line = 0
        self._file, self._rest = file, b""
        self._open = b""  # an unfinished declaration, continued in the next line
        self._sizes: dict[str, int] = {}

    def readline(self, size: int = -1, /) -> bytes:
        """The next line, at most ``size`` bytes, checked."""
        line = self._file.readline(size)
        self.line += bool(line)
        if line.endswith(b"\r\n"):  # one line feed for XML (§2.11), also within a literal
            line = line[:-2] + b"\n"
        if self._open or _BEGIN in line:
            self._check(self._open + line)
        return line

    def read(self, size: int = -1) -> bytes:
        """The next line, or its next ``size`` bytes."""
        self._rest = self._rest or self.readline()
        size = len(self._rest) if size < 0 else size
        given, self._rest = self._rest[:size], self._rest[size:]
        return given

    def _check(self, text: bytes) -> None:
        self._open = b""
        at = text.find(_BEGIN)
        while at >= 0:
            found = _DECLARATION.match(text, at)
            if found is not None:
                self._declare(found[1].decode(), found[2].decode("utf-8", "replace"))
            elif b">" not in text[at : at + LONGEST] and len(text) - at < LONGEST:
                self._open = text[at:]
                return
            else:
                self._refuse('a declaration of an entity cannot be read: write <!ENTITY name "value">')
            at = text.find(_BEGIN, at + 1)

    def _declare(self, name: str, value: str) -> None:
        """Records the expanded size of an entity; of several declarations the largest."""
        size = len(_REFERENCE.sub("", value)) + sum(self._sizes.get(used, 1) for used in _REFERENCE.findall(value))
        if size > MOST:
            self._refuse(
                f"the entity {name[:80]} stands for {size:,} characters, and may stand for {MOST}: "
                "entities are for abbreviations of namespaces; write the text itself"
            )
        self._sizes[name] = max(size, self._sizes.get(name, 0))

    def _refuse(self, message: str) -> None:
        error = SyntaxError(message)
        error.lineno = self.line
        raise error
