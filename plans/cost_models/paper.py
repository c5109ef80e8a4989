"""The cost functions of the CQELS report (§5): the cost model ``paper``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cqels_opt.plans.cost import JoinOperator, JoinShape, Rows, halvings


@dataclass(frozen=True, slots=True)
class PaperCost:
    """The report's Φ: card·card for a nested loop, card·log2 card for an index join. No unit.

    An index exists on a single relation and on a static pattern, which the report pre-computes and indexes (§4.2).
    """

    name: str = "paper"
    unit: str = ""
    static_is_free: bool = True

    def operators(self, shape: JoinShape) -> tuple[JoinOperator, ...]:
        """An index join if there is an index, and always a nested loop. Filters have no price, so they are no operators."""
        if shape.kind != "inner":
            return () if shape.kind == "filter" else (JoinOperator[shape.kind.upper()],)
        if shape.connected and (shape.single or shape.static):
            return (JoinOperator.PROBE, JoinOperator.LOOP)
        return (JoinOperator.LOOP,)

    def scan(self, rows: Rows, filtered: Rows) -> Rows:
        """Nothing: Ψ of a triple pattern is 0 (rules 2 and 3)."""
        return np.zeros_like(rows)

    def join(self, operator: JoinOperator, left: Rows, right: Rows, produced: Rows, filtered: Rows) -> Rows:
        """Φ as the report defines it; the rows that a join produces count only as the input of the next join."""
        if operator not in (JoinOperator.HASH, JoinOperator.LOOP):
            return left * halvings(right)
        return left * right
