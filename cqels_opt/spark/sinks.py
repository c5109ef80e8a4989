"""Sinks for answers: a file, standard output, or a user's function that is called with a DataFrame per batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, TextIO

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.errors import InputError, RunError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.query_forms import TRUTH
from cqels_opt.operators.stream_output import column_names
from cqels_opt.operators.typed_columns import arrow_type
from cqels_opt.runtime.evaluate import FinishReport, Format
from cqels_opt.runtime.output_owner import Owner, claim_file
from cqels_opt.storage import checksum, disk
from cqels_opt.storage.checksum import Hasher, cut_back
from cqels_opt.storage.columns import read_table
from cqels_opt.storage.file_errors import naming

BatchFunction = Callable[[DataFrame, int], object]
TERMS = "N-Triples terms"
LARGE = 1 << 18  # bytes of a range of answers that the kernel copies


@dataclass(frozen=True, slots=True)
class Stretch:
    """A byte range of a file of answers."""

    path: Path
    start: int
    size: int


def in_order_of_time(chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> Iterator[Stretch]:
    """The byte ranges of several files of answers, by instant. Reads no file: tasks report where each instant begins."""

    some = sorted((report for _, report in chunks if len(report.times)), key=lambda report: int(report.times[0, 0]))
    if all(one.times[-1, 0] < other.times[0, 0] for one, other in pairwise(some)):  # the parts of one query's answers
        yield from (Stretch(folder / report.path, 0, int(report.times[:, 1].sum())) for report in some)
        return
    reports = [report for _, report in chunks if len(report.times)]
    paths, number = (
        [folder / report.path for report in reports],
        np.repeat(np.arange(len(reports)), [len(r.times) for r in reports]),
    )
    time, size = np.concatenate([report.times for report in reports]).T
    start = np.concatenate([np.cumsum(report.times[:, 1]) - report.times[:, 1] for report in reports])
    order = np.lexsort((number, time))  # stable: the instants of a file stay in their order
    number = number[order]
    first = np.flatnonzero(np.append(True, number[1:] != number[:-1]))  # neighbours of one file are one stretch
    sizes = np.add.reduceat(size[order], first)
    for of, begin, length in zip(number[first].tolist(), start[order][first].tolist(), sizes.tolist()):
        yield Stretch(paths[of], begin, length)


def append(to: BinaryIO, stretches: Iterable[Stretch], hasher: Hasher) -> None:
    """Appends byte ranges to a file, verified. Each file is mapped once; small ranges, of which many queries give many, are joined.

    The kernel copies large ranges where possible: this process only hashes them.
    """
    to.seek(0, os.SEEK_END)
    contents: dict[Path, memoryview] = {}
    small: list[memoryview] = []
    held = 0

    def write_small() -> None:
        nonlocal held
        joined = b"".join(small)
        hasher.update(joined)
        to.write(joined)
        small.clear()
        held = 0

    for stretch in stretches:
        content = contents.get(stretch.path)
        if content is None:
            content = contents[stretch.path] = memoryview(disk.mapped(checksum.verify_name(stretch.path)))
        piece = content[stretch.start : stretch.start + stretch.size]
        if len(piece) < stretch.size:
            raise _cut_off(stretch.path)
        if stretch.size < LARGE:
            small.append(piece)
            held += stretch.size
            if held >= LARGE:
                write_small()
            continue
        write_small()
        hasher.update(piece)
        to.flush()
        with disk.opened(stretch.path) as source:
            place, end = stretch.start, stretch.start + stretch.size
            while place < end:
                copied = disk.copy(source, to, place, end - place)
                if not copied:
                    raise _cut_off(stretch.path)
                place += copied
        to.seek(0, os.SEEK_END)  # the kernel moved the position of the file, not that of its buffer
    write_small()


def _cut_off(path: Path) -> RunError:
    return RunError(f"{path}: the file of answers is cut off")


class FileSink:
    """JSON lines in a file that is truncated to its committed length before a batch is repeated."""

    format: Format = "jsonl"

    def __init__(self, path: Path) -> None:
        self.path, self._hasher = path, Hasher()

    def claim(self, owner: Owner, lengths: Mapping[str, int]) -> None:
        """Claims the file for a run. InputError if it belongs to another run, or was not written by a run."""
        self._held = claim_file(self.path, owner, lengths.get("out", 0))

    @property
    def digests(self) -> Mapping[str, str]:
        """The digest of the file so far."""
        return {"out": self._hasher.text}

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Truncates to the committed length."""
        self._hasher = cut_back(self.path, lengths.get("out", 0), digests.get("out", ""))

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Appends. Durable with the commit, or at once if the file is on another file system."""
        with naming(self.path), disk.modify(self.path) as file:
            append(file, in_order_of_time(chunks, folder), self._hasher)
            disk.flush_for(file, folder)
            return {"out": file.tell()}


class StreamSink:
    """JSON lines on standard output. Printed lines cannot be withdrawn: after a crash a batch may be printed twice."""

    format: Format = "jsonl"
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(self, to: TextIO | None = None) -> None:
        self.to = to or sys.stdout

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Does nothing: printed lines cannot be withdrawn."""

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Prints."""
        for stretch in in_order_of_time(chunks, folder):
            with disk.opened(checksum.verify_name(stretch.path)) as source:
                source.seek(stretch.start)
                lines = source.read(stretch.size).decode()
            with naming("standard output"):
                self.to.write(lines)
        with naming("standard output"):
            self.to.flush()
        return {}


class FunctionSink:
    """A user's ``f(df, batch_id)``. A repeated batch has the same rows under the same id.

    The rows are materialized before the call; the function's use of the DataFrame recomputes nothing.
    """

    format: Format = "arrow"
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, spark: SparkSession, function: BatchFunction, programs: Callable[[], Sequence[CompiledProgram]], with_query: bool
    ) -> None:
        """``programs`` returns the current programs, whose variables are the columns."""
        self.spark, self.function, self.programs, self.with_query = spark, function, programs, with_query
        self.check(programs())

    def check(self, programs: Sequence[CompiledProgram]) -> None:
        """InputError if queries that share a column give it different types."""
        types_of_columns(programs)

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Does nothing: the function is responsible for its effects."""

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Calls the function if there are answers."""
        if chunks:
            self.function(answers_frame(self.spark, self.programs(), chunks, folder, self.with_query), batch)
        return {}


def types_of_columns(programs: Sequence[CompiledProgram]) -> dict[str, str]:
    """The Spark SQL type of each column, by its name in lower case. InputError if queries give one column different types."""
    found: dict[str, tuple[str, str]] = {}
    for program in programs:
        types = dict(program.types)
        for variable, name in column_names(program.variables).items():
            type_of, (query, other) = (
                types.get(variable, TERMS),
                found.setdefault(name.lower(), (program.id, types.get(variable, TERMS))),
            )
            if type_of != other:
                raise InputError(
                    f"the queries {query} and {program.id} share the column {name}, which is {other} in one and {type_of} in the other: "
                    "give both the same types="
                )
    return {name: "string" if type_of == TERMS else type_of for name, (_, type_of) in found.items()}


def answers_frame(
    spark: SparkSession,
    programs: Sequence[CompiledProgram],
    chunks: Sequence[tuple[CompiledProgram, FinishReport]],
    folder: Path,
    with_query: bool,
) -> DataFrame:
    """The answers of a batch: ``time`` (timestamp), ``op``, a column per variable, and with several queries ``query``.

    A column is a string of N-Triples terms, unless the query has been registered with its type.

    Queries share a column if Spark considers their names for it equal, that is, ignoring case. The column of an ASK is boolean,
    or a term if a SELECT shares it.
    """
    shared: dict[str, str] = {}
    for program in programs:
        for name in column_names(program.variables).values():
            shared.setdefault(name.lower(), name)
    names, types = list(shared.values()), types_of_columns(programs)
    kinds = [arrow_type(types[name.lower()]) for name in names]
    files = []
    for program, report in chunks:
        own = [name.lower() for name in column_names(program.variables).values()]
        files.append(
            (str(folder / report.path), program.id, [f"v{own.index(n.lower())}" if n.lower() in own else "" for n in names])
        )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_numpy():
                path, query, places = files[number]
                table = read_table(Path(path))
                shared = "query" in table.column_names  # by queries that differ only in constants
                named: Any = table.column("query") if shared else pa.array([query] * table.num_rows, pa.string())
                columns: list[Any] = [table.column("time"), table.column("op"), named]
                for place, kind in zip(places, kinds):
                    column: Any = table.column(place) if place else pa.array([None] * table.num_rows, kind)
                    columns.append(column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column)
                yield from pa.Table.from_arrays(columns, ["time", "op", "query", *names]).to_batches(65_536)

    declared = {name: "long" if types[name.lower()] == "timestamp" else types[name.lower()] for name in names}
    schema = ", ".join(["time long", "op string", "query string", *(f"`{name}` {declared[name]}" for name in names)])
    frame = spark.range(0, len(files), 1, len(files)).mapInArrow(read, schema)
    frame = frame.withColumn("time", f.timestamp_millis("time"))
    for name in names:
        if types[name.lower()] == "timestamp":  # as a number between processes, which agree on no time zone
            frame = frame.withColumn(name, f.timestamp_micros(f.col(f"`{name}`")))
    truths = {column_names(program.variables)[TRUTH] for program in programs if TRUTH in program.variables}
    terms = {name.lower() for program in programs for v, name in column_names(program.variables).items() if v != TRUTH}
    for name in truths - terms:
        frame = frame.withColumn(name, f.col(name).startswith('"true"'))
    return frame if with_query else frame.drop("query")
