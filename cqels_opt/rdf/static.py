"""Readers of static RDF files: yield quads of canonical terms.

Line-based formats are read in byte ranges, so that executors share a file; other formats are read as whole files through
pyoxigraph. Blank nodes are scoped to their file. Errors go to :class:`Failures` with file and line, which raises or counts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final, Literal, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as ox

from cqels_opt.errors import DataError
from cqels_opt.rdf import nquads
from cqels_opt.rdf.documents import RDF_STAR, LineByLine, TermTexts
from cqels_opt.rdf.entities import BoundedEntities
from cqels_opt.rdf.lines import BYTE_ORDER_MARK, LONGEST_LINE, TOO_LONG, UNREADABLE, format_of, open_bytes, rest_of_line
from cqels_opt.rdf.nquads import scoped
from cqels_opt.rdf.quads import Quad, Quads
from cqels_opt.rdf.terms import TermError, canonical, iri, is_iri, is_triple

Format: TypeAlias = Literal["nt", "nq", "ttl", "trig", "rdf", "parquet"]
Compression: TypeAlias = Literal["gz", "zst"]

_SUFFIXES: Final[dict[Format, str]] = {
    "nt": ".nt .ntriples",
    "nq": ".nq .nquads",
    "ttl": ".ttl .turtle .ttls .ttlstar .n3",
    "trig": ".trig .trigs .trigstar",
    "rdf": ".rdf .xml .owl",
    "parquet": ".parquet",
}
FORMATS: Final = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
COMPRESSIONS: Final[dict[str, Compression]] = {".gz": "gz", ".zst": "zst"}
#: The assumed ratio of uncompressed to compressed size.
EXPANSION: Final = 8
#: Bytes per block of lines and, for other formats, quads per batch.
BLOCK: Final = 1 << 22
BATCH: Final = 1 << 16

_OXIGRAPH = {"ttl": ox.RdfFormat.TURTLE, "trig": ox.RdfFormat.TRIG, "rdf": ox.RdfFormat.RDF_XML}


@dataclass(frozen=True, slots=True)
class StaticSource:
    """A file of static RDF. With ``graph`` (an IRI without angle brackets) its triples go to that named graph."""

    path: Path
    graph: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """The input of one task: bytes ``[start, end)`` of a line-based file, or a whole file (``end`` None).

    ``path`` is absolute, ``name`` is the path as the user wrote it; ``scope`` distinguishes the blank nodes of the load's files.
    """

    path: str
    name: str
    format: Format
    compression: Compression | None
    graph: str | None
    scope: int
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Failure:
    """A read error. ``line`` counts from 1 (in Parquet: rows); 0 if the parser does not report it."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


MOST_FAILURES: Final = 100
"""Read errors that are kept of a file or of several."""


class Failures:
    """Read errors. With ``skip`` they are counted and the first ones kept; without, the first one is raised as a DataError."""

    def __init__(self, skip: bool) -> None:
        self._skip = skip
        self.count = 0
        self.first: list[Failure] = []

    def add(self, failure: Failure) -> None:
        """Records a failure, or raises it."""
        if not self._skip:
            raise DataError(str(failure))
        self.count += 1
        if len(self.first) < MOST_FAILURES:
            self.first.append(failure)


# ------------------------------------------------------------------ files
def file_format(path: Path) -> tuple[Format, Compression | None]:
    """Format and compression by the file's name; DataError for an unknown name."""
    compression = COMPRESSIONS.get(path.suffix.lower())
    found = FORMATS.get(format_of(path))
    if found is None:
        known = " ".join(FORMATS)
        raise DataError(f"{path}: unknown format; static data are read from {known}, the text formats also with .gz or .zst")
    if found == "parquet" and compression:
        raise DataError(f"{path}: Parquet is compressed inside; give the .parquet file itself")
    return found, compression


def source_size(source: StaticSource) -> int:
    """The bytes to read of a source; an estimate if it is compressed."""
    _, compression = file_format(source.path)
    return sum(path.stat().st_size for path in _files(source)) * (EXPANSION if compression else 1)


def pieces(source: StaticSource, scope: int, size: int) -> list[Piece]:
    """Splits a source into pieces of about ``size`` bytes where its format allows; DataError if the file does not exist."""
    kind, compression = file_format(source.path)
    result = []
    for path in _files(source):
        whole = Piece(str(path.absolute()), str(path), kind, compression, source.graph, scope)
        length = path.stat().st_size
        if kind in ("nt", "nq") and compression is None and length > size:
            cuts = [*range(0, length, size), length]
            result += [replace(whole, start=start, end=end) for start, end in pairwise(cuts)]
        else:
            result.append(whole)
    return result


def _files(source: StaticSource) -> list[Path]:
    """The file itself, or the files in a folder named ``….parquet``."""
    path = source.path
    if path.is_dir() and path.suffix == ".parquet":
        return sorted(part for part in path.rglob("*.parquet") if part.is_file())
    if not path.is_file():
        raise DataError(f"{path}: is a folder, name the files in it" if path.is_dir() else f"{path}: no such file")
    return [path]


def _open(piece: Piece) -> BinaryIO:
    # a piece can begin anywhere in a plain file, so the file must be seekable
    return open_bytes(Path(piece.path)) if piece.compression else Path(piece.path).open("rb")


# ------------------------------------------------------------------ reading
def read(piece: Piece, failures: Failures) -> Iterator[Quads]:
    """The quads of a piece, in batches. Errors go to ``failures``, and the affected quads are omitted."""
    reader = _read_lines if piece.format in ("nt", "nq") else _read_parquet if piece.format == "parquet" else _read_document
    try:
        yield from reader(piece, failures)
    except (*UNREADABLE, pa.ArrowException, UnicodeDecodeError) as error:
        failures.add(Failure(piece.name, 0, f"cannot be read: {' '.join(str(error).split())}"))


def read_all(sources: Iterable[StaticSource], failures: Failures) -> Iterator[Quads]:
    """The quads of whole files, in batches."""
    for scope, source in enumerate(sources):
        for piece in pieces(source, scope, 1 << 62):
            yield from read(piece, failures)


def graph_term(source: StaticSource | Piece) -> str | None:
    """The canonical name of the graph for triples without a graph; DataError if it is not an IRI."""
    if source.graph is None:
        return None
    try:
        return iri(source.graph)
    except TermError as error:
        raise DataError(f"the name of a graph is {error}") from error


# -------------------------------------------------------------- N-Triples, N-Quads
def _read_lines(piece: Piece, failures: Failures) -> Iterator[Quads]:
    graph, before, number = graph_term(piece), None, 0
    with _open(piece) as file:
        first = 0
        if piece.start:
            # the line that contains the byte before this piece belongs to the previous piece
            file.seek(piece.start - 1)
            rest_of_line(file, 0)
            first = file.tell()
        offset = first
        while piece.end is None or offset < piece.end:
            block, error = _up_to(file, BLOCK if piece.end is None else min(BLOCK, piece.end - offset))
            if error is not None:  # truncated compression: the lines before are good
                block = block[: block.rfind(b"\n") + 1]
            if not block and error is None:
                break
            at_start, too_long = not offset, False
            if block and not block.endswith(b"\n"):
                begun = len(block) - block.rfind(b"\n") - 1
                rest = rest_of_line(file, LONGEST_LINE - begun)
                too_long = rest is None
                block = block[: len(block) - begun] + b"\n" if rest is None else block + rest
            offset = file.tell()
            if at_start:
                block = block.removeprefix(BYTE_ORDER_MARK)
            quads, wrong = nquads.parse_block(block, piece.scope, graph, piece.format == "nq")
            for line, message in wrong:
                before = _lines_before(piece, first) if before is None else before
                failures.add(Failure(piece.name, before + number + line, message))
            number += block.count(b"\n")
            if too_long:
                before = _lines_before(piece, first) if before is None else before
                failures.add(Failure(piece.name, before + number, TOO_LONG))
            yield quads
            if error is not None:
                raise error


def _up_to(file: BinaryIO, size: int) -> tuple[bytes, Exception | None]:
    """The next bytes of a file, at most ``size``, and the error that ended reading, if any."""
    parts, left = list[bytes](), size
    try:
        while left and (part := file.read1(left)):  # type: ignore[attr-defined]
            parts.append(part)
            left -= len(part)
    except UNREADABLE as error:
        return b"".join(parts), error
    return b"".join(parts), None


def _lines_before(piece: Piece, offset: int) -> int:
    """The number of lines that end before a byte of the file; computed only for error messages."""
    if not offset:
        return 0
    lines = 0
    with Path(piece.path).open("rb") as file:
        while offset > 0 and (block := file.read(min(offset, 1 << 20))):
            lines += block.count(b"\n")
            offset -= len(block)
    return lines


# -------------------------------------------------------------- Turtle, TriG, RDF/XML
def _read_document(piece: Piece, failures: Failures) -> Iterator[Quads]:
    graph = graph_term(piece)
    scope = piece.scope
    star = format_of(Path(piece.path)) in RDF_STAR
    namer = TermTexts(star, lambda label: f"_:f{scope}_{label}", lambda number: f"_:f{scope}-{number}")
    quads: list[Quad] = []
    with _open(piece) as opened:
        file = LineByLine(BoundedEntities(opened) if piece.format == "rdf" else opened)
        parser = iter(ox.parse(cast("BinaryIO", file), format=_OXIGRAPH[piece.format], base_iri=Path(piece.path).as_uri()))
        while True:
            try:
                quad = next(parser, None)
                quads += [(s, p, o, g or graph) for s, p, o, g in namer.quads(quad)]
                if quad is None:
                    break
            except SyntaxError as error:
                failures.add(Failure(piece.name, error.lineno or file.line, file.reason(_message(error))))
                if piece.format == "rdf":
                    break  # after a well-formedness error XML cannot continue; Turtle continues after the next full stop
            if len(quads) >= BATCH:
                yield Quads.of(quads)
                quads = []
    yield Quads.of(quads)


def _message(error: SyntaxError) -> str:
    text = " ".join(str(error.msg).split())
    return re.sub(r"^Parser error (?:at line \d+ (?:between columns? \d+ and (?:column )?\d+|column \d+))?[^:]*: ", "", text)


# -------------------------------------------------------------- Parquet
def _read_parquet(piece: Piece, failures: Failures) -> Iterator[Quads]:
    graph = graph_term(piece)
    file = pq.ParquetFile(piece.path)
    missing = [name for name in "spo" if name not in file.schema_arrow.names]
    if missing:
        failures.add(Failure(piece.name, 0, f"has no column {', '.join(missing)}; columns s, p, o and optionally g are expected"))
        return
    names = [name for name in "spog" if name in file.schema_arrow.names]
    known: dict[str, str | TermError] = {}
    row = 0
    for batch in file.iter_batches(BATCH, columns=names):
        quads: list[Quad] = []
        columns = [batch.column(name).cast(pa.string()).to_pylist() for name in names]
        if len(known) > 4 * BATCH:
            known.clear()
        for values in zip(*columns):
            row += 1
            try:
                s, p, o = (_parquet_term(value, piece.scope, known) for value in values[:3])
                g = _parquet_term(values[3], piece.scope, known) if len(values) > 3 and values[3] is not None else graph
                _check_positions(s, p, g)
                quads.append((s, p, o, g))
            except TermError as error:
                failures.add(Failure(piece.name, row, str(error)))
        yield Quads.of(quads)


def _parquet_term(text: str | None, scope: int, known: dict[str, str | TermError]) -> str:
    if text is None:
        raise TermError("a term is missing")
    found = known.get(text)
    if found is None:
        try:
            found = scoped(canonical(text), scope)
        except TermError as error:
            found = error
        known[text] = found
    if isinstance(found, TermError):
        raise found
    return found


def _check_positions(s: str, p: str, g: str | None) -> None:
    if s[0] == '"':
        raise TermError(f"a literal cannot be a subject: {s[:80]}")
    if is_triple(s):
        raise TermError(f"a triple term cannot be a subject: give a node that rdf:reifies it, not {s[:80]}")
    if not is_iri(p):
        raise TermError(f"a predicate is an IRI, not {p[:80]}")
    if g is not None and (g[0] == '"' or is_triple(g)):
        raise TermError(f"an IRI or a blank node names a graph, not {g[:80]}")
