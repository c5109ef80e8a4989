"""Answers as files: rows for a user's DataFrame, and parts of an answer folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from cqels_opt.operators.query_forms import TRUTH
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.stream_output import PIECE, Answers, column_names, columns_of, pieces
from cqels_opt.operators.term_table import TermTable
from cqels_opt.operators.typed_columns import ColumnTypes, arrow_type, typed_columns
from cqels_opt.storage import checksum, disk, sealed_files
from cqels_opt.storage.columns import read_table, write_table

ROW_GROUP = 1 << 19
"""The rows of a row group of an answer folder."""
_TEXTS: Final = pa.dictionary(pa.int32(), pa.string())


def write_arrow(
    path: Path, found: Answers, terms: TermTable, queries: Any, types: ColumnTypes, lost: Counter[str] | None
) -> None:
    """Writes answers as rows for a DataFrame; ``queries`` names the query of each answer, where several share the program.

    ``types`` are those of some columns; ``lost`` counts the values that are not of their type.
    """
    named = [] if queries is None else ["query"]
    fields = ["op", *named, *(f"v{i}" for i in range(len(found.columns)))]
    columns: dict[str, pa.DataType] = dict.fromkeys(fields, pa.string())
    columns |= {f"v{[*found.columns].index(name)}": arrow_type(type_of) for name, type_of in types}
    schema = pa.schema({"time": pa.int64(), **columns})
    with sealed_files.sealing(path) as sink, pa.ipc.new_file(sink, schema) as writer:
        for (time, terms_of), which in zip(columns_of(found, terms), pieces(found, PIECE)):
            queried = [] if queries is None else [queries.take(pa.array(which))]
            cells = typed_columns({v: column.dictionary_decode() for v, column in terms_of.items()}, types, lost)
            arrays: list[Any] = [time, [found.op] * len(time), *queried, *cells.values()]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def write_parquet(
    path: Path, found: Answers, terms: TermTable, queries: Any, types: ColumnTypes, lost: Counter[str] | None
) -> Path:
    """Writes answers as a file of an answer folder; the column ``instance`` names the query of each, where several share the program.
    ``types`` and ``lost`` are as in :func:`write_arrow`.

    Returns the file, whose name contains its digest. A file of the same name may be linked into the answer folder: it is replaced, not
    overwritten in place.
    """
    names = column_names([*found.columns], ("instance",) if queries is not None else ())
    columns: dict[str, pa.DataType] = {"time": pa.timestamp("ms", "UTC")}
    columns |= dict.fromkeys(("op", *(["instance"] if queries is not None else []), *names.values()), _TEXTS)
    columns |= {names[name]: arrow_type(type_of) for name, type_of in types}
    if TRUTH in names:
        columns[names[TRUTH]] = pa.bool_()
    schema = pa.schema(columns)
    # the least and the greatest of many texts exclude no rows
    ordered: Any = [field.name for field in schema if field.type != _TEXTS]

    def write(to: Any) -> None:
        # the dictionaries are those of the file; without its own schema in the file Arrow reads texts
        with pa_parquet.ParquetWriter(to, schema, store_schema=False, write_statistics=ordered) as file:
            for (time, terms_of), which in zip(columns_of(found, terms, ROW_GROUP), pieces(found, ROW_GROUP)):
                op = pa.DictionaryArray.from_arrays(np.zeros(len(time), np.int32), pa.array([found.op]))
                queried = [] if queries is None else [queries.take(pa.array(which)).dictionary_encode()]
                cells = typed_columns(terms_of, types, lost)
                if TRUTH in names:
                    cells[TRUTH] = pc.starts_with(terms_of[TRUTH].dictionary_decode(), '"true"')
                arrays: list[Any] = [pa.array(time, columns["time"]), op, *queried, *(cells[name] for name in names)]
                file.write_batch(pa.record_batch(arrays, schema=schema))

    return checksum.write_named(path, write)


# ------------------------------------------------------------------ of several queries with one program
def rows_by_query(paths: Iterable[Path], format: str) -> Counter[str]:
    """The number of answers of each query in such files."""
    found: Counter[str] = Counter()
    for path in paths:
        found.update(_queries(path, format))
    return found


def without_queries(path: Path, format: str, queries: Collection[str]) -> tuple[Path, int, Ints]:
    """Removes the answers of some queries from such a file.

    Returns the file, the number of answers left, and for each instant its time and the bytes of its lines.
    """
    keep = np.array([query not in queries for query in _queries(path, format)], bool)
    made = path.with_name(path.name.replace(f".{checksum.digest_in_name(path)}.", "."))
    times: Ints = np.empty((0, 2), np.int64)
    if format == "jsonl":
        left = [line for line, kept in zip(disk.read(path).splitlines(keepends=True), keep) if kept]
        named = checksum.write_named(made, lambda file: file.write(b"".join(left)))
        by_time: Counter[int] = Counter()
        for line in left:
            by_time[json.loads(line)["time"]] += len(line)
        times = np.array(list(by_time.items()), np.int64).reshape(-1, 2)
    elif format == "parquet":
        table = pa_parquet.ParquetFile(pa.BufferReader(disk.read(path))).read()
        named = checksum.write_named(made, lambda file: pa_parquet.write_table(table.filter(pa.array(keep)), file))
    else:
        write_table(path, read_table(path).filter(pa.array(keep)))
        return path, int(keep.sum()), times
    if named != path:
        disk.delete(path)
    return named, int(keep.sum()), times


def _queries(path: Path, format: str) -> list[str]:
    if format == "jsonl":
        return [json.loads(line)["query"] for line in disk.read(checksum.verify_name(path)).splitlines()]
    table = (
        pa_parquet.ParquetFile(checksum.verify_name(path)).read(columns=["instance"])
        if format == "parquet"
        else read_table(path).select(["query"])
    )
    names: list[Any] = table.column(0).to_pylist()
    return names
