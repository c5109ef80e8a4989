"""The window statistics of a run: blocks that read the same pattern in the same window share one, and one pair for each join.

The statistics of a window depend on the stream, the shape of the pattern and the window, not on the query: variables are the binding
columns of the shape. So a window is advanced once per micro-batch, and a join size of two windows is computed once, whatever the number
of queries. The registry holds both weakly. They live as long as a block that reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TypeAlias
from weakref import WeakValueDictionary

from cqels_opt.stats.frequencies import Fanout, Ints
from cqels_opt.stats.join_statistics import StaticPair, WindowPair
from cqels_opt.stats.relations import WindowedRelation
from cqels_opt.stats.slots import SlotCounts
from cqels_opt.stats.window import WindowStatistics

Side: TypeAlias = "tuple[int, str]"
"""The identity of a window's statistics in this process, and a variable."""


class SharedWindows:
    """Window statistics by :attr:`WindowedRelation.identity`, and their join sizes.

    ``elements`` has the sorted times (ms) of each stream's elements, at which rows of moving windows end. ``begun`` has, by stream and
    shape, the counts of slots of which the frontier has passed some elements only: their rows are read, and enter the statistics later
    (None: unknown; None for all: counts were lost).
    """

    def __init__(self) -> None:
        self.elements: dict[str, Ints] = {}
        self.begun: Mapping[str, Sequence[SlotCounts] | None] | None = {}
        self._windows: WeakValueDictionary[str, WindowStatistics] = WeakValueDictionary()
        self._pairs: WeakValueDictionary[tuple[Side, Side], WindowPair] = WeakValueDictionary()
        self._static_pairs: WeakValueDictionary[tuple[Side, str], StaticPair] = WeakValueDictionary()

    def window(self, relation: WindowedRelation, budget: int) -> WindowStatistics:
        """The statistics of an occurrence's window; a relation without identity has its own."""
        found = self._windows.get(relation.identity) if relation.identity else None
        if found is None:
            found = WindowStatistics(relation.counted, relation.intervals, moving=relation.moving, budget=budget)
            if relation.identity:
                self._windows[relation.identity] = found
        return found

    def pair(self, left: WindowStatistics, left_column: str, right: WindowStatistics, right_column: str) -> WindowPair:
        """The join of two windows, or of a window with itself, where the columns are equal."""
        key = (id(left), left_column), (id(right), right_column)
        found = self._pairs.get(key)
        if found is None:
            found = self._pairs[key] = WindowPair(left, right, left_column, right_column)
        return found

    def static_pair(self, window: WindowStatistics, column: str, fanout: Fanout, name: str) -> StaticPair:
        """The join of a window with a static relation; ``name`` identifies the relation and its variable."""
        key = (id(window), column), name
        found = self._static_pairs.get(key)
        if found is None:
            found = self._static_pairs[key] = StaticPair(window, column, fanout, f"{column} {name}")
        return found

    def retain(self, windows: Iterable[WindowStatistics], sizes: Set[str]) -> None:
        """Forgets all windows but these, and the sizes of joins with static relations that their slots keep under other names.

        Windows of removed queries no longer advance, so a later query must not find them.
        """
        kept = {id(window): window for window in windows}
        for identity, window in [*self._windows.items()]:
            if id(window) not in kept:
                del self._windows[identity]
        for window in kept.values():
            window.forget_sizes(sizes)

    def __len__(self) -> int:
        """The number of windows."""
        return len(self._windows)
