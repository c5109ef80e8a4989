"""A library of any size as N-Triples: papers with authors, titles, years and references, generated at disk speed.

Seeded, vectorised, and generated in blocks of papers, so that memory does not depend on the size. Each paper has ten triples, and
every fourth one more: three authors in both directions (six triples of one predicate, as in the CQELS report's DBLP), a class, a
title, a year (a small number with an inline id), a reference to another paper; and the name of a person. The distribution of
authors is skewed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cqels_opt.bench.social import CREATOR, NAME, REFERENCES

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
TITLE = "http://purl.org/dc/elements/1.1/title"
YEAR = "http://purl.org/dc/elements/1.1/date"
PAPER, PERSON = "http://dblp.l3s.de/paper/", "http://dblp.l3s.de/person/"

AUTHORS = 3
PER_PERSON = 4
"""Papers per person."""
BLOCK = 100_000
"""Papers per generated block."""

_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


def papers_for(triples: int) -> int:
    """The number of papers with about this number of triples."""
    return max(PER_PERSON, round(triples / (2 * AUTHORS + 4 + 1 / PER_PERSON)))


def write_papers(file: Path, papers: int, seed: int = 1, skew: float = 2.0) -> int:
    """Writes the triples of ``papers`` papers, and returns their number (including duplicates)."""
    persons, triples = max(1, papers // PER_PERSON), 0
    with file.open("wb") as out:
        for start in range(0, papers, BLOCK):
            count = min(BLOCK, papers - start)
            random = np.random.default_rng([seed, start])
            paper = _texts(np.arange(start, start + count))
            # lower numbers write more
            authors = [_texts((persons * random.random(count) ** skew).astype(np.int64)) for _ in range(AUTHORS)]
            cited = _texts(random.integers(0, papers, count))
            lines: list[Any] = [f"<{PAPER}", paper, f"> <{TYPE}> <http://swrc.ontoware.org/ontology#Article> .\n"]
            lines += [f"<{PAPER}", paper, f'> <{TITLE}> "On the joins of streams with number ', paper, '" .\n']
            lines += [f"<{PAPER}", paper, f'> <{YEAR}> "', _texts(random.integers(1950, 2011, count)), f'"^^<{_INTEGER}> .\n']
            lines += [f"<{PAPER}", paper, f"> <{REFERENCES}> <{PAPER}", cited, "> .\n"]
            for author in authors:
                lines += [f"<{PAPER}", paper, f"> <{CREATOR}> <{PERSON}", author, "> .\n"]
                lines += [f"<{PERSON}", author, f"> <{CREATOR}> <{PAPER}", paper, "> .\n"]
            named = np.arange(-(-start // PER_PERSON), -(-(start + count) // PER_PERSON))
            person = _texts(named)
            out.write(_bytes(lines))
            out.write(_bytes([f"<{PERSON}", person, f'> <{NAME}> "Author ', person, '" .\n']))
            triples += (2 * AUTHORS + 4) * count + len(named)
    return triples


def _texts(numbers: np.ndarray[Any, Any]) -> Any:
    return pa.array(numbers).cast(pa.string())


def _bytes(parts: list[Any]) -> memoryview:
    """The concatenated rows of columns and constants."""
    columns: list[Any] = [pa.scalar(part, pa.string()) if isinstance(part, str) else part for part in parts]
    joined: Any = pc.binary_join_element_wise(*columns, pa.scalar("", pa.string()))
    return memoryview(joined.buffers()[2])
