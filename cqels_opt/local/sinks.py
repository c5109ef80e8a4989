"""The sink that is a user's function, called with an Arrow table per batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.answer_tables import answers_table, types_of_columns
from cqels_opt.runtime.evaluate import FinishReport, Format

TableFunction = Callable[[pa.Table, int], object]


class TableSink:
    """A user's ``f(table, batch_id)``. A repeated batch has the same rows under the same id."""

    format: Format = "arrow"
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(self, function: TableFunction, programs: Callable[[], Sequence[CompiledProgram]], with_query: bool) -> None:
        """``programs`` returns the current programs, whose variables are the columns."""
        self.function, self.programs, self.with_query = function, programs, with_query
        self.check(programs())

    def check(self, programs: Sequence[CompiledProgram]) -> None:
        """InputError if queries that share a column give it different types."""
        types_of_columns(programs)

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Does nothing: the function is responsible for its effects."""

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Calls the function if there are answers."""
        if chunks:
            self.function(answers_table(self.programs(), chunks, folder, self.with_query), batch)
        return {}
