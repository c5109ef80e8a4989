"""The delta rule: which part of each window's content the plan of a delta source reads (DESIGN §3).

The new rows of a block are the union over its delta sources i of *old and delta of the occurrences before i ⋈ delta of i ⋈ old of those
after i ⋈ static relations*. The optimizer estimates these terms, join sampling reads them and the executors evaluate them, all by one
:class:`DeltaRule`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cqels_opt.plans.reoptimization_budget import is_surprising

Part: TypeAlias = Literal["old", "delta"]
Content: TypeAlias = "tuple[Part, ...]"
"""What a plan reads of an occurrence: the rows from before the batch, the rows of the batch, or both."""

OLD: Content = ("old",)
DELTA: Content = ("delta",)
BOTH: Content = ("old", "delta")


@dataclass(frozen=True, slots=True)
class DeltaRule:
    """The delta sources of a block in the order in which the rule takes them. Every order gives the same rows."""

    order: tuple[str, ...] = ()

    @classmethod
    def largest_first(cls, rows: Mapping[str, float | None]) -> DeltaRule:
        """The rule that takes the occurrences by the rows that they had before the batch, largest first.

        The term of a source meets only the old part of the occurrences after it, so the small windows come last: a ``[NOW]`` window has
        hardly an old part. After a 30-second window, the term of the large window's delta finds next to nothing, and the term of the small
        window, which runs against old and delta of the large one, does the work once. None (not observed) counts as large; equal contents
        keep their order.
        """
        return cls(tuple(sorted(rows, key=lambda source: -(float("inf") if (known := rows[source]) is None else known))))

    def adjusted(self, rows: Mapping[str, float]) -> DeltaRule:
        """This rule, or :meth:`largest_first` if an occurrence has far more rows than one before it.

        Plans read other contents under another order, so it does not follow the few rows by which windows of equal size differ.
        """
        fewest = float("inf")
        for source in self.order:
            if rows[source] > fewest and is_surprising(fewest, rows[source]):
                return DeltaRule.largest_first({each: rows[each] for each in self.order})
            fewest = min(fewest, rows[source])
        return self

    def resumed(self, order: Sequence[str]) -> DeltaRule:
        """The rule in the order of an earlier run; this one if that was of other sources, or had none."""
        return DeltaRule(tuple(order)) if {*order} == {*self.order} else self

    def before(self, source: str) -> frozenset[str]:
        """The occurrences that the term of a source reads with their delta."""
        return frozenset(self.order[: self.order.index(source)])

    def content_of(self, occurrence: str, source: str) -> Content:
        """What the term of a source reads of an occurrence."""
        if occurrence == source:
            return DELTA
        return BOTH if occurrence in self.before(source) else OLD

    def contents(self, source: str) -> dict[str, Content]:
        """What the term of a source reads of every occurrence."""
        return {occurrence: self.content_of(occurrence, source) for occurrence in self.order}
