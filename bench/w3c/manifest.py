"""The W3C's SPARQL query tests from their manifests: a query, its data, and the expected result.

Update tests are omitted: this is a query engine.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rdflib import RDF, RDFS, Graph, Namespace
from rdflib.collection import Collection
from rdflib.term import Node

ARCHIVE = "sparql-tests.tar.gz"
VERSIONS = ("1.0", "1.1", "1.2")
_MANIFEST = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#")
_QUERY = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-query#")

Kind = Literal["evaluation", "good syntax", "bad syntax"]
_KINDS: dict[str, Kind] = {
    "QueryEvaluationTest": "evaluation",
    "CSVResultFormatTest": "evaluation",
    "PositiveSyntaxTest": "good syntax",
    "PositiveSyntaxTest11": "good syntax",
    "NegativeSyntaxTest": "bad syntax",
    "NegativeSyntaxTest11": "bad syntax",
}


@dataclass(frozen=True, slots=True)
class W3CTest:
    """One entry of a manifest. ``graphs`` maps IRIs of named graphs to files; ``lax``: REDUCED may drop any duplicates."""

    version: str
    category: str
    name: str
    kind: Kind
    query: Path
    data: tuple[Path, ...] = ()
    graphs: tuple[tuple[str, Path], ...] = ()
    result: Path | None = None
    lax: bool = False

    @property
    def label(self) -> str:
        """Its name in reports."""
        return f"{self.version} {self.category}/{self.query.name}"

    @property
    def text(self) -> str:
        """The query, with the IRI of its file as BASE, as the manifests assume."""
        return f"BASE <{self.query.as_uri()}>\n" + self.query.read_text(encoding="utf-8", errors="surrogateescape")


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpacks the tests; returns the folder with ``sparql10``, ``sparql11`` and ``sparql12``."""
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # missing in the first releases of Python 3.11
        tar.extractall(folder)
    return folder / "sparql"


def read_tests(folder: Path, *versions: str) -> list[W3CTest]:
    """The query tests of some versions of SPARQL (default: all), in manifest order."""
    found = []
    for version in versions or VERSIONS:
        for file in sorted((folder / f"sparql{version.replace('.', '')}").glob("*/manifest.ttl")):
            found += list(_entries(file, version))
    return found


def _entries(file: Path, version: str) -> Iterator[W3CTest]:
    manifest = Graph().parse(file, format="turtle", publicID=file.as_uri())
    for head in manifest.objects(None, _MANIFEST.entries):
        for test in Collection(manifest, head):
            kinds = [_KINDS[name] for kind in manifest.objects(test, RDF.type) if (name := str(kind).split("#")[-1]) in _KINDS]
            action = manifest.value(test, _MANIFEST.action)
            query = manifest.value(action, _QUERY["query"]) or action
            if not kinds or query is None or not str(query).endswith(".rq"):
                continue
            result = manifest.value(test, _MANIFEST.result)
            yield W3CTest(
                version,
                file.parent.name,
                str(manifest.value(test, _MANIFEST.name)),
                kinds[0],
                _path(query),
                tuple(sorted(_path(node) for node in manifest.objects(action, _QUERY.data))),
                tuple(sorted(_graph(manifest, node) for node in manifest.objects(action, _QUERY.graphData))),
                None if result is None else _path(result),
                (test, _MANIFEST.resultCardinality, _MANIFEST.LaxCardinality) in manifest,
            )


def _graph(manifest: Graph, node: Node) -> tuple[str, Path]:
    """A named graph: its label, or else its file, is its name."""
    file = manifest.value(node, _QUERY.graph)
    if file is None:
        return str(node), _path(node)
    return str(manifest.value(node, RDFS.label) or file), _path(file)


def _path(node: Node) -> Path:
    return Path(str(node).removeprefix("file://"))
