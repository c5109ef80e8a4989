"""RDF documents parsed by pyoxigraph (Turtle, TriG, N-Quads, RDF/XML): their quads as term texts, and the parser's position.

RDF 1.2 defines ``<< s p o >>`` as a *reifier*, a new blank node, with the triple ``_:r rdf:reifies <<( s p o )>>``; this module
does the same. In RDF-star, the language of ``.trigs`` and ``.ttls`` files (``rsp-ql-star-2019`` §5), it is the triple itself.
There the quoted triple is *its own reifier*: one term, equal wherever the triple is quoted, with
``<<( s p o )>> rdf:reifies <<( s p o )>>``. Then one pattern matches both.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

import pyoxigraph as ox

from cqels_opt.rdf.lines import BYTE_ORDER_MARK, TOO_LONG
from cqels_opt.rdf.terms import MAX_DEPTH, RDF_REIFIES, XSD_STRING, escape, triple

#: File types in RDF-star: a quoted triple is a term and its own reifier.
RDF_STAR: Final = frozenset((".trigs", ".trigstar", ".ttls", ".ttlstar"))
TOO_DEEP: Final = f"quoted triples are nested deeper than {MAX_DEPTH} levels"

_ANONYMOUS = re.compile(r"[0-9a-f]{20,32}")
_NESTING = re.compile(  # the first alternative: an escaped quote or # in a prefixed name begins nothing
    rb'\\.|"""|\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|<<\(?|\)?>>|<[^\x00-\x20<>"{}|^`]*>|#[^\n]*|\.(?=\s|$)'
)
_LONG_STRING = {quotes: re.compile(rb"(?:[^\\]|\\.)*?" + quotes, re.DOTALL) for quotes in (b'"""', b"'''")}


def is_anonymous(label: str) -> bool:
    """Whether pyoxigraph generated a blank node's label: for ``[]``, a list, or a reifier without a name."""
    return _ANONYMOUS.fullmatch(label) is not None


class Lines(Protocol):
    """A source of lines of bytes: a binary file, or a wrapper of one."""

    def readline(self, size: int = -1, /) -> bytes:
        """The next line, at most ``size`` bytes; empty at the end."""


class LineByLine:
    """A file that returns one line per read, so that ``line`` is the position of its parser.

    A line in which triples are quoted too deeply is truncated there, because the parser's recursion would overflow the stack: the
    parser then rejects the statement, and :meth:`reason` returns the cause. A line of more than ``longest`` bytes raises OSError,
    because the parser would hold all of it in memory.
    """

    def __init__(self, file: Lines, longest: int = sys.maxsize - 1) -> None:
        self.line, self._longest = 0, longest
        self._file, self._rest = file, b""
        self._depth, self._string, self._deep = 0, b"", False

    def read(self, size: int = -1) -> bytes:
        """The next line, or its next ``size`` bytes."""
        if not self._rest:
            self._rest = self._file.readline(self._longest + 1)
            if not self.line:
                self._rest = self._rest.removeprefix(BYTE_ORDER_MARK)
            self.line += bool(self._rest)
            if len(self._rest) > self._longest:
                raise OSError(f"the line {TOO_LONG}")
            if self._string or b"<<" in self._rest or b'"""' in self._rest or b"'''" in self._rest or self._depth:
                self._rest = self._shallow(self._rest)
        if size < 0:
            size = len(self._rest)
        given, self._rest = self._rest[:size], self._rest[size:]
        return given

    def reason(self, otherwise: str) -> str:
        """Why a statement was rejected: it is nested too deeply, or else the parser's message."""
        deep, self._deep = self._deep, False
        return TOO_DEEP if deep else otherwise

    def _shallow(self, text: bytes) -> bytes:
        """The line, truncated where it is nested too deeply. ``_depth`` and ``_string`` (an open long string) carry over."""
        at = 0
        while at < len(text):
            if self._string:
                end = _LONG_STRING[self._string].match(text, at)
                if end is None:
                    return text
                self._string, at = b"", end.end()
                continue
            token = _NESTING.search(text, at)
            if token is None:
                return text
            at, found = token.end(), token[0]
            if found in _LONG_STRING:
                self._string = found
            elif found.startswith(b"<<"):
                self._depth += 1
            elif found.endswith(b">>"):
                self._depth = max(0, self._depth - 1)
            elif found == b".":
                self._depth = 0  # an error inside a quoted triple, after which the parser restarts
            if self._depth > MAX_DEPTH:
                self._depth, self._deep = 0, True
                return text[:at] + b" .\n"
        return text


Texts = tuple[str, str, str, "str | None"]


class TermTexts:
    """Texts of pyoxigraph's terms. With ``star`` a quoted triple is its own reifier.

    ``label`` names a blank node with a label. ``made`` names one without a label by its number in the document, because
    pyoxigraph's generated names differ in each run (None: keep them).
    """

    def __init__(
        self, star: bool = False, label: Callable[[str], str] = "_:{}".format, made: Callable[[int], str] | None = None
    ) -> None:
        self._star, self._label, self._made = star, label, made
        self._count = 0
        self._numbers: dict[str, int] = {}  # of blank nodes without a label; a label of hexadecimal digits looks like none
        self._reified: dict[str, str] = {}  # generated reifiers in the current graph, with the triple that each reifies
        self._graph = ""
        self._pending: Any = None  # a quad whose object may be a quoted triple; the next quad decides

    def quads(self, quad: Any) -> list[Texts]:
        """The quads (subject, predicate, object, graph or None) that this quad completes; ``None`` flushes the last one."""
        if quad is None or not self._star:
            found = [part for part in (self._pending, quad) if part is not None]
            self._pending = None
            return [self._quad(part) for part in found]
        pending, self._pending = self._pending, None
        reifier = self._reifier(quad)
        if reifier and pending is not None and pending.object == quad.subject:
            self._reified[reifier] = self.text(quad.object)
        found = [] if pending is None else [self._quad(pending)]
        self._in_graph(quad)
        if reifier:
            self._reified[reifier] = self.text(quad.object)
        if isinstance(quad.object, ox.BlankNode) and is_anonymous(quad.object.value) and quad.object.value not in self._reified:
            self._pending = quad
            return found
        return [*found, self._quad(quad)]

    def _reifier(self, quad: Any) -> str:
        """The label of the quad's subject if it is a generated reifier, else ""."""
        made = isinstance(quad.object, ox.Triple) and isinstance(quad.subject, ox.BlankNode) and is_anonymous(quad.subject.value)
        return quad.subject.value if made and quad.predicate.value == RDF_REIFIES else ""

    def _in_graph(self, quad: Any) -> str | None:
        graph = None if isinstance(quad.graph_name, ox.DefaultGraph) else self.text(quad.graph_name)
        if (graph or "") != self._graph:
            self._reified.clear()  # a reifier without a label occurs in one graph only
            self._graph = graph or ""
        return graph

    def _quad(self, quad: Any) -> Texts:
        graph = self._in_graph(quad)
        return self.text(quad.subject), f"<{quad.predicate.value}>", self.text(quad.object), graph

    def _named(self, label: str) -> str:
        if self._made is None or not is_anonymous(label):
            return self._label(label)
        if label not in self._numbers:
            self._count += 1
            self._numbers[label] = self._count
        return self._made(self._numbers[label])

    def text(self, term: Any) -> str:
        """The canonical text of a term."""
        if isinstance(term, ox.NamedNode):
            return f"<{term.value}>"
        if isinstance(term, ox.BlankNode):
            return self._reified.get(term.value) or self._named(term.value)
        if isinstance(term, ox.Triple):
            return triple(self.text(term.subject), f"<{term.predicate.value}>", self.text(term.object))
        string = f'"{escape(term.value)}"'
        if term.language is not None:
            return f"{string}@{term.language.lower()}{'' if term.direction is None else f'--{term.direction.value}'}"
        datatype = term.datatype.value
        return string if datatype == XSD_STRING else f"{string}^^<{datatype}>"
