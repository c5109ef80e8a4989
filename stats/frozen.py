"""Statistics as plain numbers, to travel with a task: what a delta plan is expected to see before its delta has been counted.

A batch that fits one task is counted, planned and probed there (DESIGN §8), away from the counters. The task gets a
:class:`FrozenStatistics` with the driver's numbers, and puts in what it counts itself: the rows of the delta, and its join sizes
with the indexes that it maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cqels_opt.stats.relations import Key


@dataclass(frozen=True, slots=True)
class FrozenStatistics:
    """Statistics by name, as the optimizer reads them; what has no entry, or None, is not known. Small, and can be pickled."""

    values: Mapping[Key, float | None] = field(default_factory=dict)

    def cardinality(self, relation: str) -> float | None:
        """card(Ω) (report §5)."""
        return self.values.get(Key("cardinality", (relation,)))

    def distinct(self, relation: str, variable: str) -> float | None:
        """The distinct values of a variable in a relation."""
        return self.values.get(Key("distinct", (relation, variable)))

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """Σ_c f1(c)·f2(c), between windows times the share of pairs whose intervals overlap; symmetric."""
        size = self.values.get(Key("join_size", (left, right, variable)))
        return self.values.get(Key("join_size", (right, left, variable))) if size is None else size

    def selectivity(self, filter_name: str) -> float | None:
        """The share of rows that a filter keeps."""
        return self.values.get(Key("selectivity", (filter_name,)))

    def counted(self, source: str, rows: float, joins: Mapping[tuple[str, str], float] | None = None) -> FrozenStatistics:
        """With the delta of ``source`` counted: its rows, and its join sizes by other relation and variable.

        Join sizes that were not counted are taken to be as large a row as they were expected to be.
        """
        before, values = self.cardinality(source), dict(self.values)
        for key, size in self.values.items():
            if source not in key.relations:
                continue
            if key.kind == "join_size":
                scaled = size * rows / before if size is not None and before else None
                values[key] = (joins or {}).get((key.other(source), key.names[2]), scaled if rows else 0.0)
            elif key.kind == "distinct" and size is not None:
                values[key] = min(size, rows)
        values[Key("cardinality", (source,))] = float(rows)
        return FrozenStatistics(values)
