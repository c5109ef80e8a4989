"""Statistics of merged relations (several windows and static data as one): the sums over their parts (DESIGN §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cqels_opt.operators.blocks import PatternOccurrence
from cqels_opt.planner.statistics_adapters import ForwardedStatistics


def summands(occurrence: PatternOccurrence) -> tuple[str, ...]:
    """The names of an occurrence's windows in the statistics, one per part. The first is the occurrence's own name."""
    return (occurrence.name, *(f"{occurrence.name} {part.window.name}" for part in occurrence.others))


def static_summand(occurrence: PatternOccurrence) -> str:
    """The name of the static part in the statistics."""
    return f"{occurrence.name} static"


def parts_for(source: str, occurrences: Sequence[PatternOccurrence]) -> dict[str, tuple[str, ...]]:
    """The parts of each merged relation in the plans of a source; the source's own delta has no static part."""
    return {
        o.name: (*summands(o), *([static_summand(o)] if o.static is not None and o.name != source else []))
        for o in occurrences
        if o.merged
    }


@dataclass(frozen=True, slots=True)
class UnionStatistics(ForwardedStatistics):
    """Statistics in which a merged relation is the sum of its ``parts``. Values that two parts share are counted in each."""

    parts: Mapping[str, tuple[str, ...]]

    def cardinality(self, relation: str) -> float | None:
        """Rows of all parts."""
        return _sum([self.view.cardinality(part) for part in self._of(relation)])

    def distinct(self, relation: str, variable: str) -> float | None:
        """Values of all parts."""
        return _sum([self.view.distinct(part, variable) for part in self._of(relation)])

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """The joins of each part with each."""
        pairs = [(one, other) for one in self._of(left) for other in self._of(right)]
        return _sum([self.view.join_size(one, other, variable) for one, other in pairs])

    def _of(self, relation: str) -> tuple[str, ...]:
        return self.parts.get(relation, (relation,))


def _sum(found: Sequence[float | None]) -> float | None:
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None
