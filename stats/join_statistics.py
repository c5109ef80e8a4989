"""Exact join sizes of pairs of relations on a variable x: Σ_c f1(c)·f2(c), kept incrementally (DESIGN §6).

When slots enter or leave, only their values are looked up in the other side. Against a static relation, f2 is the fan-out of its
index, and the sum of a slot is computed once, from exact counts. Between two windows the sum counts all pairs with equal values, so it
is multiplied by the share of pairs of rows whose intervals overlap. That share is exact as well; the assumption is that value and
time are independent. The report (§5) has card and sel of single mapping sets only, and leaves the size of a join to assumptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cqels_opt.stats.frequencies import Fanout
from cqels_opt.stats.frequency_sketch import RetainedFrequencies
from cqels_opt.stats.interval_overlap import overlapping
from cqels_opt.stats.slot_statistics import SlotStatistics, together, weighted
from cqels_opt.stats.window import BOTH, Part, WindowStatistics


class StaticPair:
    """A stream occurrence joined with a static relation on ``variable``; exact except for the rows of partial slots.

    ``name`` identifies the pair among those of the window.
    """

    def __init__(self, window: WindowStatistics, variable: str, fanout: Fanout, name: str) -> None:
        self.window, self.variable, self.fanout, self.name = window, variable, fanout, name
        self._whole = 0.0
        window.update()
        self._changed(window.held("whole"), 1)
        window.listeners.append(self._changed)

    def close(self) -> None:
        """Stops counting."""
        self.window.listeners.remove(self._changed)
        for held in (*self.window.held("old"), *self.window.held("delta")):
            held.known.pop(self.name, None)

    def size(self, *contents: Part, since: int | None = None) -> float:
        """The rows of the join with the contents (a static row is always valid), without rows that have ended at ``since``."""
        contents = contents or BOTH
        if "old" in contents:
            self.window.update()
        size = self._whole if "old" in contents else 0.0
        size += sum(held.weight * self._slot(held) for held in self.window.apart(*contents))
        gone = self.window.ended(since, *contents) if since is not None else []
        return size - sum(self._slot(held) * rows / held.total for held, rows in gone)

    def _slot(self, held: SlotStatistics) -> float:
        found = held.known.get(self.name)
        if found is None:
            found = held.known[self.name] = held.counts[self.variable].dot(self.fanout)
        return found

    def _changed(self, slots: Sequence[SlotStatistics], sign: int) -> None:
        self._whole += sign * sum(map(self._slot, slots))


class WindowPair:
    """Two stream occurrences joined on ``variable``."""

    def __init__(self, left: WindowStatistics, right: WindowStatistics, variable: str) -> None:
        self.left, self.right, self.variable = left, right, variable
        self._whole = 0.0
        self._kept = self._retained()
        self._known: dict[tuple[Part, Part, int | None], float] = {}
        self._epochs = (-1, -1)
        left.listeners.append(lambda slots, sign: self._changed(slots, sign, right))
        right.listeners.append(lambda slots, sign: self._changed(slots, sign, left))

    def product(self, left: Part, right: Part) -> float:
        """Σ_c f1(c)·f2(c) whatever the times; exact within the budget except for the rows of partial slots."""
        x = self.variable
        lefts, rights = weighted(self.left.apart(left), x), weighted(self.right.apart(right), x)
        size = self._both_whole() if (left, right) == ("old", "old") else 0.0
        if right == "old":
            size += sum(weight * counts.dot(self.right.whole[x]) for weight, counts in lefts)
        if left == "old":
            size += sum(weight * counts.dot(self.left.whole[x]) for weight, counts in rights)
        return size + sum(one * two * mine.dot(other) for one, mine in lefts for two, other in rights)

    def overlap(self, left: Part, right: Part, since: int | None = None) -> float:
        """The share of pairs of rows, in [0, 1], whose intervals overlap and neither of which has ended at ``since``; exact."""
        pairs = self.left.card(left) * self.right.card(right)
        if not pairs:
            return 0.0
        lefts, rights = self.left.chunks(left), self.right.chunks(right)
        if since is not None:
            lefts, rights = ([chunk.after(since) for chunk in chunks] for chunks in (lefts, rights))
        return overlapping(lefts, rights) / pairs

    def size(self, left: Iterable[Part], right: Iterable[Part], since: int | None = None) -> float:
        """The rows of the join of the left contents with the right ones: for each combination, product times overlap.

        With ``since``, rows that have ended then are not counted.
        """
        if self._epochs != (self.left.epoch, self.right.epoch):
            self._epochs = (self.left.epoch, self.right.epoch)
            self._known.clear()
        right = tuple(right)
        return sum(self._atom(one, other, since) for one in left for other in right)

    def _atom(self, left: Part, right: Part, since: int | None) -> float:
        found = self._known.get((left, right, since))
        if found is None:
            share = self.overlap(left, right, since)
            found = self._known[left, right, since] = share * self.product(left, right) if share else 0.0
        return found

    def _retained(self) -> tuple[RetainedFrequencies, RetainedFrequencies]:
        return self.left.counted[self.variable].kept, self.right.counted[self.variable].kept

    def _both_whole(self) -> float:
        """The incremental sum, or a new one if either side now retains other values."""
        self.left.update()
        self.right.update()
        if self._kept != self._retained():
            self._whole = self.left.whole[self.variable].dot(self.right.whole[self.variable])
            self._kept = self._retained()
        return self._whole

    def _changed(self, slots: Sequence[SlotStatistics], sign: int, other: WindowStatistics) -> None:
        """Keeps the sum that of the counted slots of both sides."""
        if sign and self._kept == self._retained():
            self._whole += sign * together(slots, self.variable).dot(other.counted[self.variable])
