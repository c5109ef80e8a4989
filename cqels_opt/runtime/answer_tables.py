"""The answers of a micro-batch as an Arrow table with a column per variable; Spark's executors make their shares of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cqels_opt.errors import InputError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.query_forms import TRUTH
from cqels_opt.operators.stream_output import column_names
from cqels_opt.operators.typed_columns import arrow_type
from cqels_opt.runtime.evaluate_task import FinishReport
from cqels_opt.state.task_files import task_path
from cqels_opt.storage.columns import read_table

TERMS = "N-Triples terms"


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


@dataclass(frozen=True, slots=True)
class AnswerColumns:
    """The columns of variables, ``names`` with their Spark SQL ``types``. ``truths`` are those of ASK queries alone."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    truths: tuple[str, ...]

    @classmethod
    def of(cls, programs: Sequence[CompiledProgram]) -> AnswerColumns:
        """Queries share a column if Spark considers their names for it equal, that is, ignoring case."""
        shared: dict[str, str] = {}
        for program in programs:
            for name in column_names(program.variables).values():
                shared.setdefault(name.lower(), name)
        types = types_of_columns(programs)
        truths = {column_names(program.variables)[TRUTH] for program in programs if TRUTH in program.variables}
        terms = {name.lower() for program in programs for v, name in column_names(program.variables).items() if v != TRUTH}
        found = tuple(shared.values())
        return cls(found, tuple(types[name.lower()] for name in found), tuple(n for n in found if n in truths - terms))

    def files(self, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> list[AnswerFile]:
        """The files of answers of a batch."""
        found = []
        for program, report in chunks:
            own = [name.lower() for name in column_names(program.variables).values()]
            places = tuple(f"v{own.index(n.lower())}" if n.lower() in own else "" for n in self.names)
            found.append(AnswerFile(task_path(folder / report.path), program.id, places))
        return found


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """A file of answers of a query, and the name in it of each column; empty: the query has no such variable."""

    path: str
    query: str
    places: tuple[str, ...]

    def read(self, columns: AnswerColumns) -> pa.Table:
        """The answers: ``time`` (milliseconds), ``op``, ``query`` and the columns of variables."""
        table = read_table(Path(self.path))
        shared = "query" in table.column_names  # by queries that differ only in constants
        named: Any = table.column("query") if shared else pa.array([self.query] * table.num_rows, pa.string())
        found: list[Any] = [table.column("time"), table.column("op"), named]
        for place, type_of in zip(self.places, columns.types):
            found.append(table.column(place) if place else pa.array([None] * table.num_rows, arrow_type(type_of)))
        return pa.Table.from_arrays(found, ["time", "op", "query", *columns.names])


def answers_table(
    programs: Sequence[CompiledProgram],
    chunks: Sequence[tuple[CompiledProgram, FinishReport]],
    folder: Path,
    with_query: bool,
) -> pa.Table:
    """The answers of a batch: ``time`` (timestamp), ``op``, a column per variable, and with several queries ``query``.

    A column has strings of N-Triples terms, unless the query has been registered with its type. The column of an ASK is boolean, or
    a term if a SELECT shares it.
    """
    columns = AnswerColumns.of(programs)
    table = pa.concat_tables(file.read(columns) for file in columns.files(chunks, folder))
    time = table.column("time").cast(pa.int64()).cast(pa.timestamp("ms", tz="UTC"))
    table = table.set_column(0, "time", time)
    for name in columns.truths:
        truth: Any = pc.starts_with(table.column(name), '"true"')
        table = table.set_column(table.column_names.index(name), name, truth)
    return table if with_query else table.drop_columns(["query"])
