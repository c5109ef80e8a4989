"""Where answers go: a file, standard output, or a function of the user that is given a DataFrame a batch."""

from __future__ import annotations

import heapq
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, TextIO

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.errors import RunError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.query_forms import TRUTH
from cqels_opt.operators.stream_output import column_names
from cqels_opt.runtime.evaluate import FinishReport, Format
from cqels_opt.runtime.output_owner import Owner, claim_file
from cqels_opt.storage import checksum, disk
from cqels_opt.storage.checksum import Hasher, cut_back
from cqels_opt.storage.columns import read_table
from cqels_opt.storage.file_errors import naming

BatchFunction = Callable[[DataFrame, int], object]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of a file of answers."""

    path: Path
    start: int
    size: int


def in_order_of_time(chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> Iterator[Stretch]:
    """The stretches of several files of answers, by instant. Nothing is read for it: the tasks have reported where each begins."""

    def stretches(number: int, report: FinishReport) -> Iterator[tuple[int, int, Stretch]]:
        start = 0
        for time, size in report.times.tolist():
            yield time, number, Stretch(folder / report.path, start, size)
            start += size

    some = sorted((report for _, report in chunks if len(report.times)), key=lambda report: int(report.times[0, 0]))
    if all(one.times[-1, 0] < other.times[0, 0] for one, other in pairwise(some)):  # the parts of one query's answers
        yield from (Stretch(folder / report.path, 0, int(report.times[:, 1].sum())) for report in some)
        return
    last: Stretch | None = None
    for _, _, now in heapq.merge(*(stretches(i, report) for i, (_, report) in enumerate(chunks)), key=lambda found: found[:2]):
        if last is not None and last.path == now.path and last.start + last.size == now.start:
            last = Stretch(last.path, last.start, last.size + now.size)
            continue
        if last is not None:
            yield last
        last = now
    if last is not None:
        yield last


def append(to: BinaryIO, stretches: Iterable[Stretch], hasher: Hasher) -> None:
    """Copies stretches to the end of a file, verified. The system does it, where it can: this process only hashes the mapped rows."""
    to.seek(0, os.SEEK_END)
    for stretch in stretches:
        content = disk.mapped(checksum.verify_name(stretch.path))
        hasher.update(content.slice(stretch.start, stretch.size))
        with disk.opened(stretch.path) as source:
            place, end = stretch.start, stretch.start + stretch.size
            while place < end:
                copied = disk.copy(source, to, place, end - place)
                if not copied:
                    raise RunError(f"{stretch.path}: the file of answers is cut off")
                place += copied
    to.seek(0, os.SEEK_END)


class FileSink:
    """Lines of JSON in a file that is cut back to its committed length before a batch runs again."""

    format: Format = "jsonl"

    def __init__(self, path: Path) -> None:
        self.path, self._hasher = path, Hasher()

    def claim(self, owner: Owner, lengths: Mapping[str, int]) -> None:
        """Takes the file for a run. InputError where it is that of another one, or no run has written it."""
        self._held = claim_file(self.path, owner, lengths.get("out", 0))

    @property
    def digests(self) -> Mapping[str, str]:
        """Of the file as far as it was written."""
        return {"out": self._hasher.text}

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Back to the committed length."""
        self._hasher = cut_back(self.path, lengths.get("out", 0), digests.get("out", ""))

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Appends. It is durable with the commit, or now where that is on another file system."""
        with naming(self.path), disk.modify(self.path) as file:
            append(file, in_order_of_time(chunks, folder), self._hasher)
            disk.flush_for(file, folder)
            return {"out": file.tell()}


class StreamSink:
    """Lines of JSON to standard output. What has been printed stays printed: after a crash a batch may come twice."""

    format: Format = "jsonl"
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(self, to: TextIO | None = None) -> None:
        self.to = to or sys.stdout

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Printed lines cannot be taken back."""

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
    """A user's ``f(df, batch_id)``. A batch that runs again brings the same rows under the same id.

    The rows are made once, before the function sees them; what it does with the DataFrame computes nothing again.
    """

    format: Format = "arrow"
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, spark: SparkSession, function: BatchFunction, programs: Callable[[], Sequence[CompiledProgram]], with_query: bool
    ) -> None:
        """``programs`` says which there are: their variables are the columns."""
        self.spark, self.function, self.programs, self.with_query = spark, function, programs, with_query

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """What the function did is the function's."""

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Calls the function where there are answers."""
        if chunks:
            self.function(answers_frame(self.spark, self.programs(), chunks, folder, self.with_query), batch)
        return {}


def answers_frame(
    spark: SparkSession,
    programs: Sequence[CompiledProgram],
    chunks: Sequence[tuple[CompiledProgram, FinishReport]],
    folder: Path,
    with_query: bool,
) -> DataFrame:
    """The answers of a batch: ``time`` (timestamp), ``op``, a string column a variable, and with several queries ``query``.

    Queries share a column where their names for it are the same to Spark, that is, without regard to case. The column of an ASK is a
    truth value; where a SELECT shares it, a term like others.
    """
    shared: dict[str, str] = {}
    for program in programs:
        for name in column_names(program.variables).values():
            shared.setdefault(name.lower(), name)
    names = list(shared.values())
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
                missing = pa.nulls(table.num_rows, pa.string())
                shared = "query" in table.column_names  # by queries that differ in constants only
                named: Any = table.column("query") if shared else pa.array([query] * table.num_rows, pa.string())
                columns: list[Any] = [table.column("time"), table.column("op"), named]
                columns += [table.column(place) if place else missing for place in places]
                yield from pa.Table.from_arrays(columns, ["time", "op", "query", *names]).to_batches(65_536)

    schema = ", ".join(["time long", "op string", "query string", *(f"`{name}` string" for name in names)])
    frame = spark.range(0, len(files), 1, len(files)).mapInArrow(read, schema)
    frame = frame.withColumn("time", f.timestamp_millis("time"))
    truths = {column_names(program.variables)[TRUTH] for program in programs if TRUTH in program.variables}
    terms = {name.lower() for program in programs for v, name in column_names(program.variables).items() if v != TRUTH}
    for name in truths - terms:
        frame = frame.withColumn(name, f.col(name).startswith('"true"'))
    return frame if with_query else frame.drop("query")
