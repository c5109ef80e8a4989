"""Writes a stream whose elements are small graphs: one subject with one triple per property."""

from __future__ import annotations

from collections.abc import Mapping
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


def write_graphs(path: Path, subjects: Terms, properties: Mapping[str, Terms], times: Ints) -> int:
    """Writes one element per subject, named after it, with a triple per property; returns the number of triples.

    ``properties`` has the object of each subject by predicate IRI, ``times`` are in milliseconds and ascending.
    """
    width, count = len(properties), len(subjects)
    predicates = np.tile(np.array([f"<{name}>" for name in properties]), count)
    objects = np.stack([values.astype(np.str_) for values in properties.values()], axis=1).ravel()
    each = np.repeat(subjects, width)
    columns = {"s": pa.array(each), "p": pa.array(predicates), "o": pa.array(objects)}
    parquet.write_table(pa.table({**columns, "t": pa.array(np.repeat(times, width)), "g": pa.array(each)}), path)
    return width * count
