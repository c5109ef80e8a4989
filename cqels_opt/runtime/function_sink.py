"""The sink that is a user's function, called with the answers of each batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.answer_tables import types_of_columns
from cqels_opt.runtime.evaluate_task import FinishReport, Format

T = TypeVar("T")


class FunctionSink(Generic[T]):
    """A user's ``f(answers, batch_id)``. A repeated batch has the same rows under the same id. Over files that grow it may have those of
    several batches.
    """

    format: Format = "arrow"
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        function: Callable[[T, int], object],
        programs: Callable[[], Sequence[CompiledProgram]],
        answers: Callable[[Sequence[CompiledProgram], Sequence[tuple[CompiledProgram, FinishReport]], Path], T],
    ) -> None:
        """``programs`` returns the current programs, whose variables are the columns; ``answers`` reads the answers of a batch."""
        self._function, self._programs, self._answers = function, programs, answers
        self.check(programs())

    def check(self, programs: Sequence[CompiledProgram]) -> None:
        """InputError if queries that share a column give it different types."""
        types_of_columns(programs)

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Does nothing: the function is responsible for its effects."""

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Calls the function if there are answers."""
        if chunks:
            self._function(self._answers(self._programs(), chunks, folder), batch)
        return {}
