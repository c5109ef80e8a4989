"""Statistics with something left out or added: before the first element, without join sizes, or with sub-results not yet built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cqels_opt.planner.view_candidates import Measured
from cqels_opt.plans import Statistics


@dataclass(frozen=True, slots=True)
class ForwardedStatistics:
    """The statistics of a ``view``, as they are; subclasses change some."""

    view: Statistics

    def cardinality(self, relation: str) -> float | None:
        """See :class:`Statistics`."""
        return self.view.cardinality(relation)

    def distinct(self, relation: str, variable: str) -> float | None:
        """See :class:`Statistics`."""
        return self.view.distinct(relation, variable)

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """See :class:`Statistics`."""
        return self.view.join_size(left, right, variable)

    def selectivity(self, filter_name: str) -> float | None:
        """See :class:`Statistics`."""
        return self.view.selectivity(filter_name)


@dataclass(frozen=True, slots=True)
class BeforeElements(ForwardedStatistics):
    """Statistics before the first element: nothing is known of streams, which is not zero (DESIGN, invariant 8)."""

    streams: frozenset[str]

    def cardinality(self, relation: str) -> float | None:
        """Known of static relations."""
        return None if relation in self.streams else self.view.cardinality(relation)

    def distinct(self, relation: str, variable: str) -> float | None:
        """Known of static relations."""
        return None if relation in self.streams else self.view.distinct(relation, variable)

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """Known between static relations."""
        return None if {left, right} & self.streams else self.view.join_size(left, right, variable)

    def selectivity(self, filter_name: str) -> float | None:
        """Not observed yet."""
        return None


@dataclass(frozen=True, slots=True)
class PerBinding(ForwardedStatistics):
    """Statistics without the join sizes of pairs, as in the report (§5); for comparison."""

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """Not kept."""
        return None


@dataclass(frozen=True, slots=True)
class CandidateStatistics(ForwardedStatistics):
    """Statistics that include sub-results which are not built yet, as measured on a sample; see :class:`Measured`."""

    coming: Mapping[str, Measured]

    def cardinality(self, relation: str) -> float | None:
        """Rows, by the sample."""
        found = self.coming.get(relation)
        return self.view.cardinality(relation) if found is None else found.rows

    def distinct(self, relation: str, variable: str) -> float | None:
        """At most the distinct values of the part that has the fewest."""
        found = self.coming.get(relation)
        return self.view.distinct(relation, variable) if found is None else found.distincts.get(variable)

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """The join with a part that has the variable, times the rows of the sub-result per row of that part."""
        if left not in self.coming and right not in self.coming:
            return self.view.join_size(left, right, variable)
        if left in self.coming and right in self.coming:
            return None
        name, other = (left, right) if left in self.coming else (right, left)
        part, rows = self.coming[name].carriers[variable]
        found = self.view.join_size(part, other, variable)
        return None if found is None else found * self.coming[name].rows / max(rows, 1)
