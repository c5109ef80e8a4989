"""Degree sequences of merged relations (several windows and static data as one): at most the sums of those of their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cqels_opt.stats import DegreeNorms, DegreeView


@dataclass(frozen=True, slots=True)
class MergedDegrees:
    """The degree sequences of a block's relations; those with ``parts`` are the sum of these."""

    view: DegreeView
    parts: Mapping[str, tuple[str, ...]]

    def most_rows(self, relation: str) -> float | None:
        """See :class:`~cqels_opt.plans.size_bounds.DegreeStatistics`."""
        found = [self.view.most_rows(part) for part in self._of(relation)]
        known = [rows for rows in found if rows is not None]
        return sum(known) if len(known) == len(found) else None

    def degree_norms(self, relation: str, variable: str) -> DegreeNorms | None:
        """See :class:`~cqels_opt.plans.size_bounds.DegreeStatistics`."""
        total = DegreeNorms(0.0, 0.0, 0.0)
        for part in self._of(relation):
            norms = self.view.degree_norms(part, variable)
            if norms is None:
                return None
            total = total.plus(norms)
        return total

    def static_join_rows(self, left: str, right: str, variable: str) -> float | None:
        """See :class:`~cqels_opt.plans.size_bounds.DegreeStatistics`."""
        if left in self.parts or right in self.parts:
            return None
        return self.view.static_join_rows(left, right, variable)

    def delta_norms(self, source: str, relation: str, variable: str) -> tuple[float, DegreeNorms] | None:
        """See :class:`~cqels_opt.plans.size_bounds.DegreeStatistics`."""
        size, total = 0.0, DegreeNorms(0.0, 0.0, 0.0)
        for own in self._of(source):
            for part in self._of(relation):
                found = self.view.delta_norms(own, part, variable)
                if found is None:
                    return None
                size, total = size + found[0], total.plus(found[1])
        return size, total

    def _of(self, relation: str) -> tuple[str, ...]:
        return self.parts.get(relation, (relation,))
