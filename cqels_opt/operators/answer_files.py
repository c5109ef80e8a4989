"""Answers as files: rows for a user's DataFrame, and parts of an answer folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from cqels_opt.operators.forms import TRUTH
from cqels_opt.operators.output import PIECE, Answers, column_names, columns_of, pieces
from cqels_opt.operators.terms import TermTable


def write_arrow(path: Path, found: Answers, terms: TermTable, queries: Any = None) -> None:
    """The answers as rows for a DataFrame; ``queries`` names the query of each, where they are of several."""
    named = [] if queries is None else ["query"]
    fields = ["op", *named, *(f"v{i}" for i in range(len(found.columns)))]
    texts: dict[str, pa.DataType] = dict.fromkeys(fields, pa.string())
    schema = pa.schema({"time": pa.int64(), **texts})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for (time, terms_of), which in zip(columns_of(found, terms), pieces(found, PIECE)):
            queried = [] if queries is None else [queries.take(pa.array(which))]
            arrays: list[Any] = [time, [found.op] * len(time), *queried, *terms_of.values()]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def write_parquet(path: Path, found: Answers, terms: TermTable, queries: Any = None) -> None:
    """The answers as a file of an answer folder; where they are of several queries, the column ``instance`` names that of each."""
    names = column_names([*found.columns], ("instance",) if queries is not None else ())
    instant: pa.DataType = pa.timestamp("ms", "UTC")
    terms_as: dict[str, pa.DataType] = dict.fromkeys(
        ("op", *(["instance"] if queries is not None else []), *names.values()), pa.string()
    )
    if TRUTH in names:
        terms_as[names[TRUTH]] = pa.bool_()
    schema = pa.schema({"time": instant, **terms_as})
    made = path.with_name(
        f".{path.name}"
    )  # a file of that name may be linked to where readers are: it is replaced, not written to
    with pa_parquet.ParquetWriter(made, schema) as file:
        for (time, terms_of), which in zip(columns_of(found, terms), pieces(found, PIECE)):
            queried = [] if queries is None else [queries.take(pa.array(which))]
            cells = [pc.starts_with(terms_of[v], '"true"') if v == TRUTH else terms_of[v] for v in names]
            arrays: list[Any] = [pa.array(time, instant), [found.op] * len(time), *queried, *cells]
            file.write_batch(pa.record_batch(arrays, schema=schema))
    made.replace(path)
