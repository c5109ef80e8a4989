"""A query that an engine has registered: its text, plans and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cqels_opt.compiler.dialect_profile import QuerySemantics
from cqels_opt.compiler.multi_query_sharing import Member, alone
from cqels_opt.compiler.registration import Programs
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.query_forms import answer_variables
from cqels_opt.operators.stream_output import column_names
from cqels_opt.planner.explain import explained
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.plans.explain import Format
from cqels_opt.query.algebra import Query
from cqels_opt.query.printing import to_text
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.trace import display


class QueryEngine(Protocol):
    """The engine that a query is registered with."""

    programs: Programs
    left_out: int

    @property
    def store(self) -> Path | str:
        """The version of the store that was opened for the programs."""

    def under_key_of(self, checkpoint: Path) -> Programs:
        """The programs over static data with the term ids of a checkpoint."""


@dataclass(frozen=True, slots=True, repr=False)
class RegisteredQuery:
    """A registered query: parsed, with its static sub-results computed and its plans retained.

    A query that differs from another only in constants is compiled together with it, or when its plans are requested.
    """

    engine: QueryEngine
    member: Member

    @property
    def id(self) -> str:
        """The query's name."""
        return self.member.id

    @property
    def query(self) -> Query:
        """The parsed query."""
        return self.member.query

    @property
    def meaning(self) -> QuerySemantics:
        """The report policies, the output operator, and set or bag semantics."""
        return self.member.meaning

    @property
    def program(self) -> CompiledProgram:
        """The query compiled separately."""
        return self.engine.programs.of(alone(self.member))

    @property
    def columns(self) -> dict[str, str]:
        """The DataFrame column of each variable (the names differ if variables are equal ignoring case).

        For a CONSTRUCT or DESCRIBE the columns are ``s``, ``p`` and ``o``, for an ASK ``boolean``.
        """
        return {name.removeprefix("."): column for name, column in column_names(answer_variables(self.query)).items()}

    def explain(self, format: Format = "text", alternatives: int = 0) -> str:
        """The current plans: before a run, from the statistics of the static data and documented assumptions."""
        return explained([self.program], plan_mode("adaptive"), format, alternatives)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.query.dialect}, columns={list(self.columns.values())})"

    def _repr_html_(self) -> str:
        return display.plans(self.id, self.explain("json", display.ALTERNATIVES))

    def to_text(self, dialect: str) -> str:
        """The query in a dialect; raises QueryError with the reason if the dialect cannot express it."""
        return to_text(self.query, dialect)


def catalog_of(queries: Sequence[RegisteredQuery], folder: Path) -> QueryCatalog:
    """The queries of a run with a checkpoint, including those that were added and removed during the run."""
    return QueryCatalog([query.member for query in queries], folder, queries[0].engine.under_key_of(folder))
