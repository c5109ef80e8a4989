"""Exact join sizes of pairs of relations on a variable x: Σ_c f1(c)·f2(c), kept incrementally (DESIGN §6).

When slots enter or leave, only their values are looked up in the other side. Of a slot with many values a sample is looked up
(:meth:`BoundedCounts.sampled`). Against a static relation, f2 is the fan-out of its index, and the sum of a slot is computed once. Between
two windows the sum counts all pairs with equal values, so it is multiplied by the share of pairs of rows whose intervals overlap. That
share is exact; the assumption is that value and time are independent. The report (§5) has card and sel of single mapping sets only, and
leaves the size of a join to assumptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cqels_opt.stats.frequencies import Fanout
from cqels_opt.stats.frequency_sketch import SAMPLE, BoundedCounts, RetainedFrequencies
from cqels_opt.stats.interval_overlap import overlapping
from cqels_opt.stats.slot_statistics import SlotStatistics, together, weighted
from cqels_opt.stats.slots import timed
from cqels_opt.stats.window import BOTH, Part, WindowStatistics


class StaticPair:
    """A stream occurrence joined with a static relation on ``variable``; exact except for the rows of partial slots.

    ``name`` identifies the pair among those of the window. ``keeps_nulls``: see :class:`StaticRelation`.
    """

    def __init__(self, window: WindowStatistics, variable: str, fanout: Fanout, name: str, keeps_nulls: bool = False) -> None:
        self.window, self.variable, self.fanout, self.name, self.keeps_nulls = window, variable, fanout, name, keeps_nulls
        self._whole = 0.0
        window.update()
        self._changed(window.held("whole"), 1)
        window.listen(self._changed)

    def close(self) -> None:
        """Stops counting."""
        self.window.ignore(self._changed)
        for held in (*self.window.held("old"), *self.window.held("delta")):
            held.known.pop(self.name, None)

    def size(self, *contents: Part, since: int | None = None) -> float:
        """The rows of the join with the contents (a static row is always valid), without rows that have ended at ``since``."""
        contents = contents or BOTH
        size = 0.0
        if "old" in contents:
            entered, left = self.window.waiting
            size = self._whole + sum(map(self._slot, entered)) - sum(map(self._slot, left))
        gone = dict(self.window.ended(since, *contents)) if since is not None else {}
        for held in self.window.apart(*contents):  # one product per slot: none is left of a slot whose rows have all ended
            size += self._slot(held) * ((held.spans.rows - gone.pop(held, 0)) / held.total)
        size -= sum(self._slot(held) * rows / held.total for held, rows in gone.items())
        return max(0.0, size)  # what is added and removed is rounded

    def _slot(self, held: SlotStatistics) -> float:
        found = held.known.get(self.name)
        if found is None:
            counts = held.counts[self.variable]
            nulls = held.total - counts.rows if self.keeps_nulls else 0
            found = held.known[self.name] = _size(counts, self.fanout) + nulls
        return found

    def _changed(self, slots: Sequence[SlotStatistics], sign: int) -> None:
        self._whole += sign * sum(map(self._slot, slots))


class WindowPair:
    """Two stream occurrences joined on ``variable``, which may have another name in the right one. Both may be the same window.

    Of rows that are valid for an instant, those with equal values and times are counted; only for others value and time are taken to be
    independent. The triples of an RDF graph arrive at one instant and share subjects. Rows of an instant end together, so that pairs with
    equal times are all counted or none are.
    """

    def __init__(self, left: WindowStatistics, right: WindowStatistics, variable: str, right_variable: str = "") -> None:
        self.left, self.right, self.variable = left, right, variable
        self.right_variable = right_variable or variable
        self._whole: float | None = None  # of the counted slots of both sides; None until it is read first
        self._kept = self._retained()
        columns = timed(variable), timed(self.right_variable)
        known = columns[0] in left.variables and columns[1] in right.variables
        self._timed = WindowPair(left, right, *columns) if known else None  # pairs with equal values and equal times
        self._known: dict[tuple[Part, Part, int | None], float] = {}
        self._products: dict[tuple[Part, Part], float] = {}  # the same whatever has ended
        self._epochs = (-1, -1)

    def product(self, left: Part, right: Part) -> float:
        """Σ_c f1(c)·f2(c) whatever the times; exact within the budget except for the rows of partial slots."""
        x, y = self.variable, self.right_variable
        lefts, rights = weighted(self.left.apart(left), x), weighted(self.right.apart(right), y)
        size = self._both_whole() if (left, right) == ("old", "old") else 0.0
        if right == "old":
            size += sum(weight * self._with_whole(counts, self.right, y) for weight, counts in lefts)
        if left == "old":
            size += sum(weight * self._with_whole(counts, self.left, x) for weight, counts in rights)
        return size + sum(one * two * _size(mine, other) for one, mine in lefts for two, other in rights)

    def overlap(self, left: Part, right: Part, since: int | None) -> float:
        """The share of pairs of rows, in [0, 1], whose intervals overlap and neither of which has ended at ``since``; exact."""
        pairs = self.left.card(left) * self.right.card(right)
        if not pairs:
            return 0.0
        return overlapping(self.left.lasting_chunks(since, left), self.right.lasting_chunks(since, right)) / pairs

    def size(self, left: Iterable[Part], right: Iterable[Part], since: int | None = None) -> float:
        """The rows of the join of the left contents with the right ones: for each combination, product times overlap.

        With ``since``, rows that have ended then are not counted.
        """
        if self._epochs != (self.left.epoch, self.right.epoch):
            self._epochs = (self.left.epoch, self.right.epoch)
            self._known.clear()
            self._products.clear()
        right = tuple(right)
        return sum(self._atom(one, other, since) for one in left for other in right)

    def _atom(self, left: Part, right: Part, since: int | None) -> float:
        if self.left is self.right and self.variable == self.right_variable and right < left:  # both sides are the same
            left, right = right, left
        found = self._known.get((left, right, since))
        if found is None:
            share = self.overlap(left, right, since)
            if share and (left, right) not in self._products:
                self._products[left, right] = self.product(left, right)
            found = share * self._products[left, right] if share else 0.0
            if share and self._timed is not None:
                found += (1 - share) * min(self._timed.product(left, right), self._products[left, right])
            self._known[left, right, since] = found
        return found

    def _retained(self) -> tuple[RetainedFrequencies, RetainedFrequencies]:
        return self.left.counted[self.variable].kept, self.right.counted[self.right_variable].kept

    def _with_whole(self, counts: BoundedCounts, window: WindowStatistics, variable: str) -> float:
        """Σ_c f(c)·g(c) of the value counts of some rows and those of a window's whole slots."""
        if not counts.exact or window.is_bounded:
            return counts.dot(window.whole[variable])
        values, weights = counts.sampled()
        return float(weights @ window.count_whole(variable, values))

    def _both_whole(self) -> float:
        """The sum for the whole slots of both sides; incremental once it has been read, unless either side now retains other values."""
        self.left.update()
        self.right.update()
        if self._whole is None:
            self.left.listen(self._left_changed)
            if self.left is not self.right:
                self.right.listen(self._right_changed)
        if self._whole is None or self._kept != self._retained():
            self._whole = self.left.whole[self.variable].dot(self.right.whole[self.right_variable])
            self._kept = self._retained()
        return self._whole

    def _left_changed(self, slots: Sequence[SlotStatistics], sign: int) -> None:
        """Keeps the sum that of the counted slots of both sides."""
        if not sign or self._whole is None or self._kept != self._retained():
            return
        mine = together(slots, self.variable)
        self._whole += sign * mine.dot(self.right.counted[self.right_variable])
        if self.left is self.right:  # (f ± d)·(g ± e) = f·g ± d·g ± f·e + d·e
            theirs = together(slots, self.right_variable)
            self._whole += sign * theirs.dot(self.left.counted[self.variable]) + mine.dot(theirs)

    def _right_changed(self, slots: Sequence[SlotStatistics], sign: int) -> None:
        if sign and self._whole is not None and self._kept == self._retained():
            self._whole += sign * together(slots, self.right_variable).dot(self.left.counted[self.variable])


def _size(counts: BoundedCounts, other: BoundedCounts | Fanout) -> float:
    """Σ_c f(c)·g(c); a side with many values is represented by a sample of them."""
    if isinstance(other, BoundedCounts) and len(other.counts) < len(counts.counts):
        counts, other = other, counts
    exact = counts.exact and (other.exact if isinstance(other, BoundedCounts) else True)
    if not exact or len(counts.counts) <= SAMPLE:
        return counts.dot(other)
    values, weights = counts.sampled()
    return float(weights @ (other.get(values) if isinstance(other, BoundedCounts) else other(values)))
