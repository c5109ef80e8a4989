"""Writes streams whose elements are small graphs with the same predicates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Terms = NDArray[np.str_]
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


def numbered(prefix: str, numbers: Ints) -> Terms:
    """The IRIs of numbered things, as N-Triples terms."""
    return np.strings.add(np.strings.add(f"<{prefix}", numbers.astype(np.str_)), ">")


def integers(numbers: Ints) -> Terms:
    """Numbers as N-Triples literals of type xsd:integer."""
    return np.strings.add(np.strings.add('"', numbers.astype(np.str_)), f'"^^<{INTEGER}>')


def texts(prefix: str, numbers: Ints) -> Terms:
    """Numbered plain literals."""
    return np.strings.add(np.strings.add(f'"{prefix}', numbers.astype(np.str_)), '"')


def write_graphs(path: Path, graphs: Terms, triples: Sequence[tuple[Terms, str, Terms]], times: Ints) -> int:
    """Writes one element per graph; returns the number of triples.

    ``triples`` are those of each element: subjects, the IRI of the predicate, and objects, by element. ``times`` are in milliseconds and
    ascending.
    """
    width, count = len(triples), len(graphs)
    subjects = np.stack([s.astype(np.str_) for s, _, _ in triples], axis=1).ravel()
    predicates = np.tile(np.array([f"<{p}>" for _, p, _ in triples]), count)
    objects = np.stack([o.astype(np.str_) for _, _, o in triples], axis=1).ravel()
    columns = {"s": pa.array(subjects), "p": pa.array(predicates), "o": pa.array(objects)}
    each = {"t": pa.array(np.repeat(times, width)), "g": pa.array(np.repeat(graphs, width))}
    parquet.write_table(pa.table({**columns, **each}), path)
    return width * count
