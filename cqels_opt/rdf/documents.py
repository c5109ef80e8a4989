"""RDF documents that pyoxigraph reads (Turtle, TriG, N-Quads, RDF/XML): their quads as texts of terms, and where the parser stands.

RDF 1.2 reads ``<< s p o >>`` as a *reifier*, a new blank node, with the triple ``_:r rdf:reifies <<( s p o )>>``; so do we. RDF-star,
the language of ``.trigs`` and ``.ttls`` files (``rsp-ql-star-2019`` §5), means the triple itself. There the quoted triple is *its own
reifier*: one term, equal wherever the triple is quoted, with ``<<( s p o )>> rdf:reifies <<( s p o )>>``. Then one pattern finds both.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

import pyoxigraph as ox

from cqels_opt.rdf.lines import TOO_LONG
from cqels_opt.rdf.terms import MAX_DEPTH, RDF_REIFIES, XSD_STRING, escape, triple

#: Files of these kinds are RDF-star: a quoted triple is a term, and its own reifier.
RDF_STAR: Final = frozenset((".trigs", ".trigstar", ".ttls", ".ttlstar"))
TOO_DEEP: Final = f"quoted triples are nested deeper than {MAX_DEPTH} levels"

_ANONYMOUS = re.compile(r"[0-9a-f]{20,32}")
_NESTING = re.compile(  # the first: a prefixed name may have an escaped quote or #, which begins nothing
    rb'\\.|"""|\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|<<\(?|\)?>>|<[^\x00-\x20<>"{}|^`]*>|#[^\n]*|\.(?=\s|$)'
)
_LONG_STRING = {quotes: re.compile(rb"(?:[^\\]|\\.)*?" + quotes, re.DOTALL) for quotes in (b'"""', b"'''")}


def is_anonymous(label: str) -> bool:
    """Whether pyoxigraph has made a blank node's label: of ``[]``, of a list, or of a reifier without a name."""
    return _ANONYMOUS.fullmatch(label) is not None


class Lines(Protocol):
    """What gives lines of bytes: a binary file, or something that reads one."""

    def readline(self, size: int = -1, /) -> bytes:
        """The next line, of at most so many bytes; empty at the end."""


class LineByLine:
    """A file that gives its parser one line at a time, so that ``line`` is where the parser stands.

    A line in which triples are quoted too deeply is cut there, since the parser's own stack has an end: the statement is then refused,
    and :meth:`reason` says why. A line of more than ``longest`` bytes is an OSError: the parser would have all of it in memory.
    """

    def __init__(self, file: Lines, longest: int = sys.maxsize - 1) -> None:
        self.line, self._longest = 0, longest
        self._file, self._rest = file, b""
        self._depth, self._string, self._deep = 0, b"", False

    def read(self, size: int = -1) -> bytes:
        """The next line, or as much of it as is asked for."""
        if not self._rest:
            self._rest = self._file.readline(self._longest + 1)
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
        """Why a statement was refused: that it is nested too deeply, or else what the parser says."""
        deep, self._deep = self._deep, False
        return TOO_DEEP if deep else otherwise

    def _shallow(self, text: bytes) -> bytes:
        """The line up to where it is nested too deeply; ``_depth`` and ``_string`` (an open long string) go on to the next line."""
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
                self._depth = 0  # within a quoted triple it is an error, behind which the parser begins anew
            if self._depth > MAX_DEPTH:
                self._depth, self._deep = 0, True
                return text[:at] + b" .\n"
        return text


Texts = tuple[str, str, str, "str | None"]


class TermTexts:
    """Texts of pyoxigraph's terms. With ``star`` a quoted triple is its own reifier.

    ``label`` names a blank node by its label, ``made`` one without a label by its number in the document, since pyoxigraph's own names are
    others each time (None: keep them).
    """

    def __init__(
        self, star: bool = False, label: Callable[[str], str] = "_:{}".format, made: Callable[[int], str] | None = None
    ) -> None:
        self._star, self._label, self._made = star, label, made
        self._count = 0
        self._numbers: dict[str, int] = {}  # of blank nodes without a label, of the graph in hand
        self._own: dict[str, str] = {}  # reifiers that the parser has made, and what they reify; of the graph in hand
        self._graph = ""
        self._held: Any = None  # a quad whose object may be a quoted triple: the parser says so with the next one

    def quads(self, quad: Any) -> list[Texts]:
        """Subject, predicate, object and graph (None: the default graph) of the quads that are known with this one; None: the last."""
        if quad is None or not self._star:
            found = [part for part in (self._held, quad) if part is not None]
            self._held = None
            return [self._quad(part) for part in found]
        held, self._held = self._held, None
        reifier = self._reifier(quad)
        if reifier and held is not None and held.object == quad.subject:
            self._own[reifier] = self.text(quad.object)
        found = [] if held is None else [self._quad(held)]
        self._in_graph(quad)
        if reifier:
            self._own[reifier] = self.text(quad.object)
        if isinstance(quad.object, ox.BlankNode) and is_anonymous(quad.object.value) and quad.object.value not in self._own:
            self._held = quad
            return found
        return [*found, self._quad(quad)]

    def _reifier(self, quad: Any) -> str:
        """The label of a quad's subject where it is a reifier that the parser has made."""
        made = isinstance(quad.object, ox.Triple) and isinstance(quad.subject, ox.BlankNode) and is_anonymous(quad.subject.value)
        return quad.subject.value if made and quad.predicate.value == RDF_REIFIES else ""

    def _in_graph(self, quad: Any) -> str | None:
        graph = None if isinstance(quad.graph_name, ox.DefaultGraph) else self.text(quad.graph_name)
        if (graph or "") != self._graph:
            self._own.clear()  # no blank node without a label goes from one graph to another
            self._numbers.clear()
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
            return self._own.get(term.value) or self._named(term.value)
        if isinstance(term, ox.Triple):
            return triple(self.text(term.subject), f"<{term.predicate.value}>", self.text(term.object))
        string = f'"{escape(term.value)}"'
        if term.language is not None:
            return f"{string}@{term.language.lower()}{'' if term.direction is None else f'--{term.direction.value}'}"
        datatype = term.datatype.value
        return string if datatype == XSD_STRING else f"{string}^^<{datatype}>"
