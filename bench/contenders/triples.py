"""Engines of RDF streams in processes of their own: CQELS 1.0, C-SPARQL 0.9, YASPER and Kolibrie.

They are installed, started and asked as the engines of typed rows (:mod:`cqels_opt.bench.contenders.typed_rows`), with two tables: the
files of the static data, and the triples of all streams. Terms are in N-Triples syntax.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from cqels_opt.bench.contenders import Task, elements, limit
from cqels_opt.bench.contenders.typed_rows import JVM, NULL, Engine, Session, Table, binary, java

FILES = Table("files", True, (("graph", "text"), ("path", "text")))
TRIPLES = Table("triples", False, (*((name, "text") for name in ("stream", "g", "s", "p", "o")), ("t", "integer")))


class TripleSession(Session):
    """A process of an engine that reads RDF itself."""

    def load(self, task: Task) -> Sequence[Table]:
        """The engine loads the files itself."""
        self._files = [*((NULL, path) for path in task.static), *task.graphs.items()]
        return FILES, TRIPLES

    def rows(self, table: Table) -> Iterable[str]:
        """The files, with the graph of each."""
        return (f"{graph}\t{path}" for graph, path in self._files)

    def lines(self, task: Task) -> Iterator[Iterable[str]]:
        """The triples of each micro-batch."""
        names = task.stream_names
        for chunk in task.chunks:
            columns = elements(chunk).to_pydict()
            rows = zip(*(columns[name] for name in ("stream", "g", "s", "p", "o", "t")))
            yield [
                f"triples\t{names[stream]}\t{NULL if g is None else g}\t{s}\t{p}\t{o}\t{t}\n" for stream, g, s, p, o, t in rows
            ]

    def pieces(self, batch: str) -> Sequence[str]:
        """One time first, then twice as many triples in each piece: some engines need the limit of a query for a few elements."""
        *rows, end = batch.splitlines(keepends=True)
        number, before = end.split("\t")[1], ""
        found, piece, size = list[str](), list[str](), 1
        for row in rows:
            time = row.rstrip("\n").rpartition("\t")[2]
            if len(piece) >= size and time != before:
                found.append("".join(piece) + f"#end\t{number}\t{before}\n")
                piece, size = [], 2 * size
            piece.append(row)
            before = time
        return [*found, "".join(piece) + end]

    def limit(self, task: Task) -> float:
        """The option ``rdf-engines.cpu_seconds``."""
        return limit(task.options, "rdf-engines.cpu_seconds")


def set_clock(jar: Path) -> None:
    """Makes the time windows of CQELS follow the stream: two classes get their time from the class ``ClockOfTheStream``.

    They ask ``java.lang.System``, whose name has as many characters, so that the name can be replaced in the compiled classes.
    """
    with zipfile.ZipFile(jar) as old:
        classes = {name: old.read(name) for name in old.namelist()}
    for name in ("org/deri/cqels/data/EnQuad.class", "org/deri/cqels/engine/RangeWindow.class"):
        classes[name] = classes[name].replace(b"java/lang/System", b"ClockOfTheStream")
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as new:
        for name, content in classes.items():
            new.writestr(name, content)


_OLD_JVM = (*JVM, "--add-opens=java.base/java.lang=ALL-UNNAMED")
CQELS = Engine("cqels", "cqels", partial(java, "Cqels", "jars", _OLD_JVM), TripleSession)
CSPARQL = Engine("csparql", "csparql", partial(java, "Csparql", "jars", _OLD_JVM), TripleSession)
YASPER = Engine("yasper", "rspql", partial(java, "Yasper", "jars", JVM), TripleSession)
KOLIBRIE = Engine("kolibrie", "rspql", binary("arena"), TripleSession)

CONTENDERS = (
    CQELS.contender("CQELS over RDF, with the clock of the stream, in a JVM of its own"),
    CSPARQL.contender("C-SPARQL over RDF, evaluated again for each triple, in a JVM of its own"),
    YASPER.contender("YASPER over RDF, evaluated again for each element, with hash joins, in a JVM of its own"),
    KOLIBRIE.contender("Kolibrie over RDF, evaluated again for each element, in one thread of a process of its own"),
)

if __name__ == "__main__":
    set_clock(Path(sys.argv[1]))
