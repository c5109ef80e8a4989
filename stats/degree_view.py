"""Upper bounds of the degree sequences that a plan reads: how many rows each value of a variable has in a relation.

The counts of whole slots are exact, so are their norms. A slot of which some rows have expired counts with all its rows, because its counts
do not say which values they had. Rows of values that the budget dropped count as if they were of one value. So no bound is below the norm
of the rows that the plan can read; where nothing is known (described data), it is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cqels_opt.stats.block_statistics import BlockStatistics, Contents
from cqels_opt.stats.frequencies import EMPTY, FrequencyTable, Ints, ValueCounts, tally
from cqels_opt.stats.frequency_sketch import BoundedCounts, DegreeNorms
from cqels_opt.stats.relations import StaticRelation, WindowedRelation
from cqels_opt.stats.slot_statistics import SlotStatistics
from cqels_opt.stats.slots import SlotCounts
from cqels_opt.stats.window import BOTH, Part

MOST_LOOKED_UP = 4096
"""If a delta has more distinct values, they are not looked up in other relations."""

MOST_MERGED = 1 << 15
"""If slots have more counters, their norms are added up (Minkowski's inequality) instead of the norms of the sum of their counts taken:
a bound that may be greater, and that does not sort the values of a large delta."""


@dataclass(frozen=True, slots=True)
class DegreeView:
    """The degree sequences as a plan reads them that reads these ``contents`` of each occurrence. The view is live.

    ``begun`` has for each occurrence the counts of slots that are read in part and are not in the statistics yet (None: unknown).
    """

    block: BlockStatistics
    contents: Contents
    begun: Mapping[str, Sequence[SlotCounts] | None] = field(default_factory=dict)

    def most_rows(self, relation: str) -> float | None:
        """The rows that have not expired."""
        found = self.block.relations[relation]
        if isinstance(found, StaticRelation):
            return float(found.rows) if found.counted else None
        begun = self.begun.get(relation, ())
        if begun is None:
            return None
        window, contents = self.block.windows[relation], self._read(found)
        mixed = window.begun_before() if "delta" not in contents else []
        return float(window.card(*contents) + sum(held.spans.rows for held in mixed) + sum(slot.total for slot in begun))

    def degree_norms(self, relation: str, variable: str) -> DegreeNorms | None:
        """The norms of a variable's degree sequence."""
        found = self.block.relations[relation]
        if isinstance(found, StaticRelation):
            norms = found.norms.get(variable)
            return None if norms is None else norms()
        rows = self.most_rows(relation)
        if rows is None:
            return None
        window, column = self.block.windows[relation], found.column(variable)
        contents = self._read(found)
        exact, reduced = self._apart(relation, column, contents)
        if len(exact) > 1 and sum(map(len, exact)) <= MOST_MERGED:
            exact = [ValueCounts(_summed(exact))]
        total = DegreeNorms(0.0, 0.0, 0.0)
        for counts in (*map(BoundedCounts, exact), *reduced):
            total = total.plus(counts.norms)
        if "old" in contents:
            total = total.plus(window.whole[column].norms)
        greatest = min(total.greatest, rows)
        return DegreeNorms(rows, min(total.l2, math.sqrt(rows * greatest)), greatest)

    def static_join_rows(self, left: str, right: str, variable: str) -> float | None:
        """The rows of the join of two static relations on a variable, exact; None for others."""
        return self.block.static_join_rows(left, right, variable)

    def delta_norms(self, source: str, relation: str, variable: str) -> tuple[float, DegreeNorms] | None:
        """Σ f·g over the values of a source's delta, and the norms of g there; f has the rows of the delta, g those of the relation.

        None if the delta has too many values, or the counts of the relation are not exact.
        """
        own = self.block.relations[source]
        assert not isinstance(own, StaticRelation)
        if own.late or self.begun.get(source, ()) is None:
            return None
        parts, _ = self._apart(source, own.column(variable), ("delta",))  # counts of a delta are exact
        if any(part.distinct > MOST_LOOKED_UP for part in parts):
            return None
        delta = _summed(parts)
        if len(delta.values) > MOST_LOOKED_UP:
            return None
        degrees = self._degrees(relation, variable, delta.values)
        if degrees is None:
            return None
        rows, squares, greatest = float(degrees.sum()), float(degrees @ degrees), float(degrees.max(initial=0.0))
        return float(delta.counts @ degrees), DegreeNorms(rows, math.sqrt(squares), greatest)

    # ------------------------------------------------------------------ inside
    def _read(self, relation: WindowedRelation) -> tuple[Part, ...]:
        """The contents in which the rows that are read of an occurrence can be."""
        contents = tuple(self.contents[relation.name])
        return BOTH if relation.late and "delta" in contents else contents

    def _slots(self, relation: str, contents: tuple[Part, ...]) -> list[SlotStatistics]:
        """The slots of a content that are not whole, with those of the delta that may have old rows."""
        window = self.block.windows[relation]
        return [*window.apart(*contents), *(window.begun_before() if "delta" not in contents else ())]

    def _apart(self, relation: str, column: str, contents: tuple[Part, ...]) -> tuple[list[ValueCounts], list[BoundedCounts]]:
        """The counts of what is not in the whole slots: those that are exact, and the others."""
        found = [held.counts[column] for held in self._slots(relation, contents)]
        exact = [counts.counts for counts in found if counts.exact]
        exact += [ValueCounts(slot.values[column]) for slot in self.begun.get(relation, ()) or ()]
        return exact, [counts for counts in found if not counts.exact]

    def _degrees(self, relation: str, variable: str, values: Ints) -> NDArray[np.float64] | None:
        """At least the rows of each of some values."""
        found = self.block.relations[relation]
        if isinstance(found, StaticRelation):
            fanout = found.fanouts.get(variable)
            return None if fanout is None else np.asarray(fanout(values), np.float64)
        window, column, contents = self.block.windows[relation], found.column(variable), self.contents[relation]
        exact, reduced = self._apart(relation, column, contents)
        if window.is_bounded or reduced or self.begun.get(relation, ()) is None:
            return None
        degrees = np.zeros(len(values))
        for counts in exact:
            degrees += counts.get(values)
        return degrees + window.count_whole(column, values) if "old" in contents else degrees


def _summed(parts: Sequence[ValueCounts]) -> FrequencyTable:
    tables = [part.tally() for part in parts]
    if len(tables) == 1:
        return tables[0]
    values, rows = (np.concatenate([EMPTY, *arrays]) for arrays in zip(*tables)) if tables else (EMPTY, EMPTY)
    return tally(values, rows)
