"""The statistics of one occurrence of a stream pattern in a window, as its slots enter and leave (CQELS report, §5; DESIGN §6).

An occurrence's content is its *old* slots, those before this step, and its *delta*, the slots of this step (DESIGN §3). Old slots
are *whole* (no row has expired; their value counts are summed into one counter a variable) or *partial* (some rows have expired;
few slots at any time, kept apart and weighted with the share of their rows that still lives).

Memory: at most ``budget`` counters a variable over all old slots, and ``most_slots`` slots. Beyond the first, counters become
heavy hitters and a sketch (``frequency_sketch.py`` has the error bounds); beyond the second, neighbours are merged and expire together, in
proportion. Rows stay exact as long as a slot has at most ``budget // 64`` distinct times; see :func:`coarsened` for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedKeyList

from cqels_opt.stats.frequencies import FrequencyTable, Ints
from cqels_opt.stats.frequency_sketch import HIGHEST_LEVEL, BoundedCounts, RetainedFrequencies, heaviest, risen
from cqels_opt.stats.interval_overlap import IntervalSet, spans
from cqels_opt.stats.slot_statistics import Intervals, SlotStatistics, hold, merged
from cqels_opt.stats.slots import SlotCounts

Content: TypeAlias = Literal["old", "delta"]
BOTH: tuple[Content, Content] = ("old", "delta")
BUDGET = 1 << 20
MOST_SLOTS = 256

Change: TypeAlias = Literal["counted", "enters", "leaves"]
Listener: TypeAlias = Callable[[SlotStatistics, Change], None]
"""Told of a slot that becomes old (its counts are still exact), then joins the whole slots or leaves them."""


def _next_end(held: SlotStatistics) -> int:
    return held.next_end


class WindowStatistics:
    """card(Ω) and card(Ω_{x=c}) of one occurrence, changed by ± a slot at a time.

    ``intervals`` is the window's interval function. ``moving=True`` says that ends may still change (TRIPLES n: an end hangs on
    later elements): the function is then asked anew at every expiry. ``epoch`` rises with every change.
    """

    def __init__(
        self,
        variables: Iterable[str],
        intervals: Intervals,
        *,
        moving: bool = False,
        budget: int = BUDGET,
        most_slots: int = MOST_SLOTS,
    ) -> None:
        self.variables = tuple(variables)
        self.intervals, self.moving = intervals, moving
        self.budget, self.most_slots = budget, most_slots
        self.whole: dict[str, BoundedCounts] = {variable: BoundedCounts() for variable in self.variables}
        self.listeners: list[Listener] = []
        self.epoch = 0
        self.frontier: int | None = None
        self._whole: SortedKeyList = SortedKeyList(key=_next_end)
        self._whole_rows = 0
        self._partial: list[SlotStatistics] = []
        self._delta: list[SlotStatistics] = []

    # ------------------------------------------------------------------ slots enter and leave
    def arrive(self, slots: Iterable[SlotCounts]) -> None:
        """These slots are the delta of this step; :meth:`settle` that of the step before first."""
        if self._delta:
            raise ValueError("the delta of the step before has not been settled")
        self._delta = self._hold(slots)
        self.epoch += bool(self._delta)

    def settle(self, frontier: int) -> None:
        """The delta becomes old content, so far as it lives beyond ``frontier``."""
        delta, self._delta = self._delta, []
        for held in delta:
            held.spans = held.spans.after(frontier)
            self._place(held)
        self.epoch += bool(delta)

    def retract(self, slots: Iterable[int]) -> bool:
        """Slots of the delta go, as they are about to be told again: a micro-batch is replayed. Whether there were any."""
        again, before = set(slots), len(self._delta)
        self._delta = [held for held in self._delta if not again & set(held.slots)]
        return len(self._delta) < before

    def add(self, slot: SlotCounts) -> None:
        """A slot enters the old content."""
        for held in self._hold([slot]):
            self._place(held)
            self.epoch += 1

    def expire(self, frontier: int) -> int:
        """The old rows whose validity has ended at ``frontier`` leave; how many did."""
        before = self.card("old")
        self.frontier = frontier
        if self.moving:
            self._ask_ends()
        while self._whole and self._whole[0].next_end <= frontier:
            held: SlotStatistics = self._whole.pop(0)
            self._withdraw(held)
            self._partial.append(held)
        for held in self._partial:
            held.spans = held.spans.after(frontier)
        self._partial = [held for held in self._partial if held.spans.rows]
        if not self._whole and not self._partial:
            self.whole = {variable: BoundedCounts() for variable in self.variables}
        gone = before - self.card("old")
        self.epoch += bool(gone)
        return gone

    def drop(self, slot: int) -> int:
        """The old rows of a slot leave at once, with those of the slots that it was merged with; how many did."""
        before = self.card("old")
        for held in [held for held in self._whole if slot in held.slots]:
            self._whole.remove(held)
            self._withdraw(held)
        self._partial = [held for held in self._partial if slot not in held.slots]
        gone = before - self.card("old")
        self.epoch += bool(gone)
        return gone

    # ------------------------------------------------------------------ what is asked
    def card(self, *contents: Content) -> int:
        """card(Ω): the rows that have not expired; exact. Without ``contents``, of both."""
        contents = contents or BOTH
        rows = self._whole_rows if "old" in contents else 0
        return rows + sum(held.spans.rows for held in self.apart(*contents))

    def ended(self, since: int, *contents: Content) -> list[tuple[SlotStatistics, int]]:
        """The slots with rows that have ended at an instant, and how many those are: nothing that begins then meets them; exact."""
        slots = list(takewhile(lambda held: held.next_end <= since, self._whole)) if "old" in contents else []
        slots += [held for held in self.apart(*contents) if held.spans.rows and held.next_end <= since]
        return [(held, int(held.spans.ended_by(np.array([since]))[0])) for held in slots]

    def at(self, instant: int) -> int:
        """The rows that are valid at an instant which is not before the last expiry; exact."""
        return sum(int(chunk.n[(chunk.starts <= instant) & (instant < chunk.ends)].sum()) for chunk in self.chunks())

    def count(self, variable: str, values: Ints, *contents: Content) -> NDArray[np.float64]:
        """card(Ω_{x=c}) for each value c; exact within the budget but for partial slots, whose rows are a share of the slot's."""
        contents = contents or BOTH
        found = np.zeros(len(values))
        if "old" in contents:
            found += self.whole[variable].get(values)
        for held in self.apart(*contents):
            found += held.weight * held.counts[variable].get(values)
        return found

    def selectivity(self, variable: str, values: Ints, *contents: Content) -> NDArray[np.float64]:
        """sel_{x=c}(Ω) = card(Ω_{x=c}) / card(Ω) for each value c (report §5); 0 where Ω is empty."""
        return self.count(variable, values, *contents) / max(self.card(*contents), 1)

    def distinct(self, variable: str, *contents: Content) -> float:
        """The distinct values; exact within the budget but for partial slots: a value of k rows stays with 1 − (1 − share)^k."""
        contents = contents or BOTH
        whole = self.whole[variable] if "old" in contents else BoundedCounts()
        values, gone = [], []
        for held in self.apart(*contents):
            mine, counts = held.counts[variable].tally()
            new = whole.kept.holds(mine) & (whole.counts.get(mine) == 0)
            values.append(mine[new])
            gone.append((1 - held.weight) ** counts[new])
        if not values:
            return whole.distinct
        found, group = np.unique(np.concatenate(values), return_inverse=True)
        absent = np.ones(len(found))
        np.multiply.at(absent, group, np.concatenate(gone))
        return min(whole.distinct + float(((1 - absent) / whole.kept.chance(found)).sum()), float(self.card(*contents)))

    def heaviest(self, variable: str, most: int) -> FrequencyTable:
        """The values of the whole slots with the most rows, and their counts; fewest first."""
        values = heaviest(self.whole[variable].tally(), most)
        counts = self.whole[variable].counts.get(values)
        order = np.argsort(counts, kind="stable")
        return FrequencyTable(values[order], counts[order])

    def apart(self, *contents: Content) -> list[SlotStatistics]:
        """The slots that are not in :attr:`whole`: the partial ones of the old content, and the delta."""
        return (self._partial if "old" in contents else []) + (self._delta if "delta" in contents else [])

    def chunks(self, *contents: Content) -> list[IntervalSet]:
        """The intervals of the rows that have not expired, a chunk a slot."""
        contents = contents or BOTH
        return [held.spans for held in ([*self._whole] if "old" in contents else []) + self.apart(*contents)]

    def held(self, content: Content | Literal["whole"]) -> list[SlotStatistics]:
        """The slots that are held; ``whole`` are the old ones of which no row has expired."""
        if content == "whole":
            return [*self._whole]
        return self._delta if content == "delta" else [*self._whole, *self._partial]

    def resume(
        self,
        old: Iterable[SlotStatistics],
        delta: Iterable[SlotStatistics],
        kept: Mapping[str, RetainedFrequencies],
        frontier: int | None,
    ) -> None:
        """Into an empty window: the slots of another's :meth:`held`, what they hold of the values, and its last expiry."""
        self.whole = {variable: BoundedCounts(kept=kept[variable]) for variable in self.variables}
        for held in old:
            self._admit(held)
        self._delta, self.frontier = [*delta], frontier

    # ------------------------------------------------------------------ inside
    def _hold(self, slots: Iterable[SlotCounts]) -> list[SlotStatistics]:
        """Slots as they are held; those without a row that is ever in the window are left out."""
        found = (hold(slot, self.variables, self.intervals, self._most_times) for slot in slots)
        return [held for held in found if held.spans.rows]

    @property
    def _most_times(self) -> int:
        return max(self.budget // 64, 1)

    def _place(self, held: SlotStatistics) -> None:
        if not held.spans.rows:
            return
        for listener in self.listeners:
            listener(held, "counted")
        for variable, counts in self.whole.items():
            self._bound(held, variable, counts)
        self._admit(held)
        if len(self._whole) > self.most_slots:
            self._merge_neighbours()
        for variable in self.variables:
            self._shrink(variable)

    def _admit(self, held: SlotStatistics) -> None:
        if held.spans.rows < held.total:
            self._partial.append(held)
            return
        for listener in self.listeners:
            listener(held, "enters")
        for variable, counts in self.whole.items():
            counts.add(held.counts[variable])
        self._whole_rows += held.total
        self._whole.add(held)

    def _withdraw(self, held: SlotStatistics) -> None:
        for listener in self.listeners:
            listener(held, "leaves")
        for variable, counts in self.whole.items():
            counts.remove(held.counts[variable])
        self._whole_rows -= held.total

    def _ask_ends(self) -> None:
        """The ends of all old rows anew. What has expired stays expired: its end is behind the frontier and does not move."""
        for held in (*self._whole, *self._partial):
            held.spans = spans(*self.intervals(held.times), held.rows)
        self._whole = SortedKeyList(self._whole, key=_next_end)

    def _merge_neighbours(self) -> None:
        """Half as many whole slots, but that the ones next to expire stay as they are."""
        slots: Sequence[SlotStatistics] = [*self._whole]
        first = self.most_slots // 4
        pairs = zip(slots[first::2], slots[first + 1 :: 2])
        odd = slots[-1:] if (len(slots) - first) % 2 else []
        together = [merged(one, other, self.intervals, self._most_times) for one, other in pairs]
        self._whole = SortedKeyList([*slots[:first], *together, *odd], key=_next_end)

    # ------------------------------------------------------------------ the budget
    def _bound(self, held: SlotStatistics, variable: str, whole: BoundedCounts) -> None:
        """A slot that comes after the budget was exceeded holds what the others do, and may make values heavy."""
        if whole.exact:
            return
        mine = held.counts[variable]
        rising = risen(mine, whole)
        if len(rising):
            self._keep(variable, RetainedFrequencies(np.union1d(whole.kept.heavy, rising), whole.kept.level), narrower=False)
        mine.keep(self.whole[variable].kept)

    def _shrink(self, variable: str) -> None:
        """Too many heavy values are reduced to the heaviest; then the level rises until the counters are within the budget."""
        whole = self.whole[variable]
        if len(whole.kept.heavy) > self._most_heavy:
            self._keep(variable, self._chosen(variable, whole.kept.level))
        while self._entries(variable) > self.budget and whole.kept.level < HIGHEST_LEVEL:
            self._keep(variable, self._chosen(variable, whole.kept.level + 1))

    def _entries(self, variable: str) -> int:
        old = [held.counts[variable] for held in (*self._whole, *self._partial)]
        return sum(bounded.counts.distinct for bounded in (self.whole[variable], *old))

    @property
    def _most_heavy(self) -> int:
        """So many that they take half of the budget if they are in every slot."""
        return max(self.budget // (2 * (len(self._whole) + len(self._partial) + 1)), 1)

    def _chosen(self, variable: str, level: int) -> RetainedFrequencies:
        """What to hold at a level. Fewer heavy values than there may be: what is held changes in all slots, so it must not with each."""
        return RetainedFrequencies(heaviest(self.whole[variable].tally(), max(self._most_heavy // 2, 1)), level)

    def _keep(self, variable: str, kept: RetainedFrequencies, *, narrower: bool = True) -> None:
        old = [held.counts[variable] for held in (*self._whole, *self._partial)]
        for counts in (self.whole[variable], *old):
            if narrower:
                counts.keep(kept)
            else:
                counts.kept = kept
