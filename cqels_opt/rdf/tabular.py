"""Rows of stream files with columns ``s p o t`` and optionally ``g``: newline-delimited JSON, CSV and Parquet, read in blocks.

Arrow parses a whole block. If that fails, or the number of rows differs from the number of records, the block is parsed again
record by record, so that each bad record is reported with its line.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from cqels_opt.errors import DataError
from cqels_opt.rdf.lines import TOO_LONG, Block, blocks

COLUMNS = ("s", "p", "o", "g", "t")
REQUIRED = ("s", "p", "o", "t")


@dataclass(frozen=True, slots=True)
class Reject:
    """An unusable line and the reason."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as in the file: terms as text, times as int64 milliseconds or still as text; and the lines rejected so far.

    ``times`` has, by element of a file of named graphs, the graph and the line of its time.
    """

    s: Any
    p: Any
    o: Any
    g: Any
    t: Any
    line: NDArray[np.int64]
    rejects: Sequence[Reject] = ()
    times: Mapping[int, tuple[str, int]] = field(default_factory=dict)


def read_ndjson(path: Path) -> Iterator[Rows]:
    """The rows of a file with one JSON object per line; other keys are ignored."""
    return map(ndjson_rows, blocks(path))


def ndjson_rows(block: Block) -> Rows:
    """The rows of a block of lines, each a JSON object."""
    table = None
    for time_type in (pa.int64(), pa.string()):
        table = table or _parse_json(block, time_type)
    return _rows(block, table, _json_record)


def read_csv(path: Path) -> Iterator[Rows]:
    """The rows of a comma-separated file with a header; other columns are ignored."""
    header: list[str] | None = None
    for block in blocks(path, quoted=True):
        if header is None:
            if block.too_long:
                raise DataError(f"{path}:{block.too_long[0]}: the header {TOO_LONG}")
            if not len(block.lines):
                continue
            header = _header(path, block)
            block = Block(block.text, block.begins[1:], block.ends[1:], block.lines[1:])
        if len(block.lines) or block.too_long:
            table = _parse_csv(block, header) if len(block.lines) else None
            yield _rows(block, table, _csv_record(header))


def read_parquet(path: Path) -> Iterator[Rows]:
    """The rows of a Parquet file; ``line`` counts rows from 1, and ``t`` is an integer, a timestamp or text."""
    try:
        file = pa_parquet.ParquetFile(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {error}") from error
    with file:
        names = file.schema_arrow.names
        _require(str(path), names)
        row = 0
        wanted = [name for name in COLUMNS if name in names]
        try:
            for batch in file.iter_batches(1 << 16, columns=wanted):
                columns: dict[str, Any] = {name: _column(path, name, batch.column(name)) for name in wanted}
                columns.setdefault("g", pa.nulls(len(batch), pa.string()))
                yield Rows(**columns, line=np.arange(row + 1, row + 1 + len(batch)))
                row += len(batch)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}:{row + 1}: cannot be read on: {error}; check that the file is whole") from error


def _require(place: str, names: Sequence[str]) -> None:
    if twice := [name for name in COLUMNS if names.count(name) > 1]:
        raise DataError(f"{place}: several columns have the name {', '.join(twice)}: rename all but one")
    if lacking := [name for name in REQUIRED if name not in names]:
        have = ", ".join(names) or "none"
        raise DataError(f"{place}: column {', '.join(lacking)} is missing (found: {have}); a stream has s, p, o, t and maybe g")


def _rows(block: Block, table: pa.Table | None, parse: Callable[[bytes], dict[str, str | int | None]]) -> Rows:
    """The rows of a block: from its table, or without one record by record; and its lines that are too long."""
    return _record_by_record(block, parse) if table is None or block.too_long else _from_table(table, block.lines)


def _from_table(table: pa.Table, lines: NDArray[np.int64]) -> Rows:
    columns: dict[str, Any] = {name: table.column(name).combine_chunks() for name in COLUMNS if name in table.column_names}
    columns.setdefault("g", pa.nulls(len(table), pa.string()))
    return Rows(**columns, line=lines)


def _parse_json(block: Block, time_type: pa.DataType) -> pa.Table | None:
    """The block's table, or None if Arrow does not parse exactly one row per record, all with this type of time."""
    schema = pa.schema([(name, time_type if name == "t" else pa.string()) for name in COLUMNS])
    options = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    if not len(block.lines):
        return schema.empty_table()
    if not _begin_as_objects(block):
        return None
    try:
        table = pa_json.read_json(io.BytesIO(block.text), parse_options=options)
        table.validate(full=True)  # Arrow's JSON reader accepts invalid UTF-8
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return table if len(table) == len(block.lines) else None


def _begin_as_objects(block: Block) -> bool:
    """Whether each record begins as an object: Arrow's reader ends the process if the first of a block is ``null``."""
    first = np.frombuffer(block.text, np.uint8)[block.begins]
    return all(block.record(i).lstrip().startswith(b"{") for i in np.flatnonzero(first != ord("{")).tolist())


def _parse_csv(block: Block, header: list[str]) -> pa.Table | None:
    wanted = [name for name in COLUMNS if name in header]
    text = block.text[int(block.begins[0]) :]
    try:
        table = pa_csv.read_csv(
            io.BytesIO(text),
            read_options=pa_csv.ReadOptions(column_names=header, block_size=len(text) + 1),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string())),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return table if len(table) == len(block.lines) else None


def _header(path: Path, block: Block) -> list[str]:
    line = int(block.lines[0])
    try:
        names = next(csv.reader([block.record(0).decode()], strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}:{line}: cannot be read as a header of CSV: {error}") from error
    _require(f"{path}:{line}", [name.strip() for name in names])
    return [name.strip() for name in names]


Record = dict[str, str | int | None]


def _record_by_record(block: Block, parse: Callable[[bytes], Record]) -> Rows:
    """The block record by record; ``parse`` raises ``ValueError`` with the reason if a record is unusable."""
    records: list[Record] = []
    lines: list[int] = []
    rejects = [Reject(line, TOO_LONG) for line in block.too_long]
    for i, line in enumerate(block.lines.tolist()):
        try:
            records.append(parse(block.record(i)))
            lines.append(line)
        except ValueError as error:
            rejects.append(Reject(line, str(error)))
    terms: dict[str, Any] = {
        name: pa.array([record.get(name) for record in records], pa.string()) for name in ("s", "p", "o", "g")
    }
    times = pa.array([None if (t := record.get("t")) is None else str(t) for record in records], pa.string())
    return Rows(**terms, t=times, line=np.array(lines, np.int64), rejects=rejects)


def _json_record(text: bytes) -> Record:
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not one JSON object: {error.msg} (column {error.colno})") from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"cannot be read as JSON: {error}") from error
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object with s, p, o and t")
    for name in COLUMNS:
        value = record.get(name)
        if value is None or (name == "t" and isinstance(value, int) and not isinstance(value, bool)):
            continue
        if not isinstance(value, str):
            kind = "an integer or an ISO 8601 time" if name == "t" else "a string with an N-Triples term"
            raise ValueError(f"{name} is {json.dumps(value)[:80]}, not {kind}")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError(f"{name} has half of a surrogate pair, which is no character")
    return {name: record.get(name) for name in COLUMNS}


def csv_rows(text: bytes, **options: Any) -> list[list[str]]:
    """The rows of a CSV text; ``ValueError`` gives the reason if it is none."""
    try:
        return list(csv.reader(io.StringIO(text.decode(), newline=""), **options))
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8: {error.reason}") from error
    except csv.Error as error:
        raise ValueError(f"is not CSV: {error}") from error


def _csv_record(header: list[str]) -> Callable[[bytes], Record]:
    csv.field_size_limit(1 << 30)

    def parse(text: bytes) -> Record:
        rows = csv_rows(text)
        if len(rows) != 1 or text.count(b'"') % 2:
            raise ValueError("is not one row: a double quote is not closed")
        if len(rows[0]) != len(header):
            raise ValueError(f"has {len(rows[0])} columns, not {len(header)} as the header has; quote values that hold a comma")
        return dict(zip(header, rows[0]))

    return parse


def _column(path: Path, name: str, array: Any) -> Any:
    """A Parquet column as strings; the times as int64 milliseconds or as strings."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if name == "t" and pa.types.is_timestamp(kind):
        unit = {"s": 1000, "ms": 1, "us": 1000, "ns": 1_000_000}[kind.unit]
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        ticks = array.cast(pa.int64()).fill_null(0).to_numpy()
        times = ticks * unit if kind.unit == "s" else ticks // unit
        return pa.array(times, pa.int64(), mask=~valid)
    if name == "t" and kind == pa.uint64() and len(array) and (pc.max(array).as_py() or 0) >= 1 << 63:
        return array.cast(pa.string())  # which is refused as a time, with a reason
    if name == "t" and pa.types.is_integer(kind):
        return array.cast(pa.int64(), safe=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_null(kind):
        return array.cast(pa.string())
    wanted = "integers (milliseconds), timestamps or text" if name == "t" else "text"
    raise DataError(f"{path}: column {name} is {kind}, not {wanted}")
