"""What a pass over the algebra may read besides the tree."""

from __future__ import annotations

from dataclasses import dataclass

from cqels_opt.query.algebra import Query, StreamOperator


@dataclass(frozen=True, slots=True)
class Context:
    """The query whose body is rewritten, and its relation-to-stream operator."""

    query: Query
    operator: StreamOperator
