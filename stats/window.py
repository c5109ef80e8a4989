"""The statistics of one occurrence of a stream pattern in a window, as its slots enter and leave (CQELS report, §5; DESIGN §6).

An occurrence's content is its *old* slots, those before this step, and its *delta*, the slots of this step (DESIGN §3). Old slots
are *whole* or *partial*. Of a whole slot no row has expired, and its value counts are summed into one counter per variable. Of a partial
slot some rows have expired. There are few of those at any time; they are kept apart and weighted with the share of rows that remain.

Numbers of rows follow each step. Value counts are brought up to date when all of them are read (:meth:`WindowStatistics.update`), for all
slots that have entered or left since together; a slot that has done both is never counted. To read the counts of a few values, these are
looked up in the slots that wait (:meth:`WindowStatistics.count_whole`).

Memory: at most ``budget`` counters per variable over all old slots, and ``most_slots`` slots. Beyond the first limit, counters become
heavy hitters and a sketch (``frequency_sketch.py`` has the error bounds). Beyond the second, neighbouring slots are merged and expire
together, in proportion. Rows stay exact as long as a slot has at most ``budget // 64`` distinct times; see :func:`coarsened` for more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from itertools import takewhile
from typing import Literal, TypeAlias
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedKeyList

from cqels_opt.stats.frequencies import EMPTY, Ints, distinct_values
from cqels_opt.stats.frequency_sketch import HIGHEST_LEVEL, LEAST_RISE, BoundedCounts, RetainedFrequencies, heaviest, risen
from cqels_opt.stats.interval_overlap import IntervalSet, spans
from cqels_opt.stats.slot_statistics import Intervals, SlotStatistics, hold, merged, together
from cqels_opt.stats.slots import SlotCounts

Part: TypeAlias = Literal["old", "delta"]
"""Of an occurrence's content: the slots from before the step, or those of the step."""
BOTH: tuple[Part, Part] = ("old", "delta")
BUDGET = 1 << 20
MOST_SLOTS = 256
MOST_WAITING = 16
"""If more slots than this wait to be added to the value counts, or removed from them, reading a few values updates the counts."""

Listener: TypeAlias = Callable[[Sequence[SlotStatistics], int], None]
"""Called with the slots whose counts are about to enter the whole slots (1), to leave them (-1), or to lose values (0)."""


def _next_end(held: SlotStatistics) -> int:
    return held.next_end


class WindowStatistics:
    """card(Ω) and card(Ω_{x=c}) of one occurrence, changed by ± one slot at a time.

    ``intervals`` is the window's interval function. ``moving=True`` means that ends may still change (TRIPLES n: an end depends on later
    elements): the function is then evaluated again at every expiry. ``epoch`` rises with every change.
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
        self.counted: dict[str, BoundedCounts] = {variable: BoundedCounts() for variable in self.variables}
        self._entered: dict[SlotStatistics, None] = {}  # whole, and not in counted yet
        self._left: dict[SlotStatistics, None] = {}  # not whole any more, and still in counted
        self._listeners: list[WeakMethod[Listener]] = []
        self.epoch = 0
        self._step: tuple[int, int, tuple[int, ...]] | None = None  # the last micro-batch: its frontiers, and its slots
        self.frontier: int | None = None
        self._ended: dict[Part, list[tuple[SlotStatistics, int]]] = {}
        self._lasting: dict[tuple[Part, ...], int] = {}
        self._chunks: dict[tuple[Part, ...], list[IntervalSet]] = {}
        self._ended_at: tuple[int, int | None] = (-1, 0)  # the epoch and the instant of these three
        self._whole: SortedKeyList = SortedKeyList(key=_next_end)
        self._whole_rows = 0
        self._partial: list[SlotStatistics] = []
        self._delta: list[SlotStatistics] = []

    def listen(self, listener: Listener) -> None:
        """Calls a method from now on, as long as its object exists: joins of a removed query end with the query."""
        self._listeners.append(WeakMethod(listener))

    def ignore(self, listener: Listener) -> None:
        """Does not call a method any more."""
        self._listeners.remove(WeakMethod(listener))

    def _notify(self, slots: Sequence[SlotStatistics], sign: int) -> None:
        for reference in [*self._listeners]:
            listener = reference()
            if listener is None:
                self._listeners.remove(reference)
            else:
                listener(slots, sign)

    # ------------------------------------------------------------------ slots enter and leave
    def advance(self, slots: Sequence[SlotCounts], frontier_before: int, frontier: int) -> None:
        """Moves to a micro-batch up to ``frontier``: rows that ended by ``frontier_before`` leave, the last delta becomes old, ``slots``
        are the delta.

        Only the first call for a micro-batch changes anything, so each of the blocks that share the window may call it.
        """
        step = (frontier_before, frontier, tuple(slot.slot for slot in slots))
        if step == self._step:
            return
        self._step = step
        self.retract(step[2])
        self.absorb_delta(frontier_before)
        self.expire(frontier_before)
        self.add_delta(slots)

    def add_delta(self, slots: Iterable[SlotCounts]) -> None:
        """Sets the delta of this step. :meth:`absorb_delta` comes first."""
        if self._delta:
            raise ValueError("the delta of the step before has not been absorbed")
        self._delta = self._hold(slots)
        self.epoch += bool(self._delta)

    def absorb_delta(self, frontier: int) -> None:
        """Makes the delta old content, as far as it is valid after ``frontier``."""
        delta, self._delta = self._delta, []
        for held in delta:
            held.spans = held.spans.after(frontier)
        self._place(delta)
        self.epoch += bool(delta)

    def retract(self, slots: Iterable[int]) -> None:
        """Removes slots of the delta that arrive again, because a micro-batch is replayed."""
        again, before = set(slots), len(self._delta)
        self._delta = [held for held in self._delta if not again & set(held.slots)]
        self.epoch += len(self._delta) < before

    def add(self, slot: SlotCounts) -> None:
        """Adds a slot to the old content."""
        self._place(held := self._hold([slot]))
        self.epoch += len(held)

    def expire(self, frontier: int) -> int:
        """Removes the old rows that have ended at ``frontier``; returns how many."""
        before = self.card("old")
        self.frontier = frontier
        if self.moving:
            self._update_ends()
        while self._whole and self._whole[0].next_end <= frontier:
            held: SlotStatistics = self._whole.pop(0)
            self._withdraw(held)
            self._partial.append(held)
        for held in self._partial:
            held.spans = held.spans.after(frontier)
        self._partial = [held for held in self._partial if held.spans.rows]
        if not self._whole and not self._partial and self.is_bounded:
            self.update()
            self.counted = {variable: BoundedCounts() for variable in self.variables}
        gone = before - self.card("old")
        self.epoch += bool(gone)
        return gone

    # ------------------------------------------------------------------ the numbers
    @property
    def whole(self) -> Mapping[str, BoundedCounts]:
        """The value counts of the whole slots, by variable, up to date."""
        self.update()
        return self.counted

    def update(self) -> None:
        """Brings :attr:`counted` up to date."""
        left, entered = [*self._left], [*self._entered]
        self._left, self._entered = {}, {}
        for slots, sign in ((left, -1), (entered, 1)):
            if slots:
                self._notify(slots, sign)
            for variable, counts in self.counted.items() if slots else ():
                mine = together(slots, variable)
                counts.add(mine) if sign > 0 else counts.remove(mine)

    def card(self, *contents: Part) -> int:
        """card(Ω): the rows that have not expired; exact. Without ``contents``, of both parts."""
        contents = contents or BOTH
        rows = self._whole_rows if "old" in contents else 0
        return rows + sum(held.spans.rows for held in self.apart(*contents))

    def ended(self, since: int, *contents: Part) -> list[tuple[SlotStatistics, int]]:
        """The slots with rows that have ended at an instant, and the number of these rows, exact. Rows that begin then do not meet them."""
        self._forget_ended(since)
        for part in contents:
            if part not in self._ended:
                slots = list(takewhile(lambda held: held.next_end <= since, self._whole)) if part == "old" else []
                slots += [held for held in self.apart(part) if held.spans.rows and held.next_end <= since]
                self._ended[part] = [(held, int(held.spans.ended_by(np.array([since]))[0])) for held in slots]
        return [found for part in contents for found in self._ended[part]]

    def lasting(self, since: int | None, *contents: Part) -> int:
        """:meth:`card` without the rows that have ended at an instant."""
        self._forget_ended(since)
        found = self._lasting.get(contents)
        if found is None:
            ended = self.ended(since, *contents) if since is not None else []
            found = self._lasting[contents] = self.card(*contents) - sum(rows for _, rows in ended)
        return found

    def _forget_ended(self, since: int | None) -> None:
        if self._ended_at != (self.epoch, since):
            self._ended, self._lasting, self._chunks, self._ended_at = {}, {}, {}, (self.epoch, since)

    def count(self, variable: str, values: Ints, *contents: Part) -> NDArray[np.float64]:
        """card(Ω_{x=c}) for each value c; exact within the budget, except that a partial slot counts a share of its rows."""
        contents = contents or BOTH
        found = np.zeros(len(values))
        if "old" in contents:
            found += self.count_whole(variable, values)
        for held in self.apart(*contents):
            found += held.weight * held.counts[variable].get(values)
        return found

    def count_whole(self, variable: str, values: Ints) -> NDArray[np.float64]:
        """The rows with each value in the whole slots; exact within the budget."""
        if self.is_bounded or len(self._entered) + len(self._left) > MOST_WAITING:
            self.update()
        found = self.counted[variable].get(values)
        for held in self._entered:
            found += held.counts[variable].get(values)
        for held in self._left:
            found -= held.counts[variable].get(values)
        return found

    @property
    def waiting(self) -> tuple[Collection[SlotStatistics], Collection[SlotStatistics]]:
        """The slots that have entered the whole slots, and those that have left them, since the listeners were last called."""
        return self._entered.keys(), self._left.keys()

    def distinct(self, variable: str, *contents: Part) -> float:
        """The distinct values; exact within the budget, except that a value of k rows in a partial slot remains with 1 − (1 − share)^k."""
        contents = contents or BOTH
        whole = self.whole[variable] if "old" in contents else BoundedCounts()
        values, gone, apart = [], [], self.apart(*contents)
        if not whole.rows and all(held.weight == 1.0 and held.counts[variable].exact for held in apart):
            return float(len(distinct_values(np.concatenate([EMPTY, *(held.counts[variable].tally().values for held in apart)]))))
        for held in apart:
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

    def apart(self, *contents: Part) -> list[SlotStatistics]:
        """The slots that are not in :attr:`whole`: the partial ones of the old content, and the delta."""
        return (self._partial if "old" in contents else []) + (self._delta if "delta" in contents else [])

    def begun_before(self) -> list[SlotStatistics]:
        """The slots of the delta that may have rows from before the step, because the frontier had passed only some of their elements then.
        These rows are old content, although their slots are counted with the delta."""
        frontier, most = self.frontier, self._most_times
        return [held for held in self._delta if frontier is None or held.times[0] <= frontier or len(held.times) >= most]

    def chunks(self, *contents: Part) -> list[IntervalSet]:
        """The intervals of the rows that have not expired, one set per slot."""
        contents = contents or BOTH
        return [held.spans for held in ([*self._whole] if "old" in contents else []) + self.apart(*contents)]

    def lasting_chunks(self, since: int | None, *contents: Part) -> list[IntervalSet]:
        """:meth:`chunks` without the rows that have ended at an instant, and without the slots of which none is left."""
        self._forget_ended(since)
        found = self._chunks.get(contents)
        if found is None:
            chunks = self.chunks(*contents)
            lasting = chunks if since is None else (chunk.after(since) for chunk in chunks)
            found = self._chunks[contents] = [chunk for chunk in lasting if chunk.rows]
        return found

    def held(self, content: Part | Literal["whole"]) -> list[SlotStatistics]:
        """The slots of a part; ``whole`` are the old ones of which no row has expired."""
        if content == "whole":
            return [*self._whole]
        return self._delta if content == "delta" else [*self._whole, *self._partial]

    def forget_sizes(self, names: Set[str]) -> None:
        """Forgets the join sizes of slots, except those with these names."""
        for held in (*self.held("old"), *self._delta):
            if not held.known.keys() <= names:
                held.known = {name: size for name, size in held.known.items() if name in names}

    def resume(
        self,
        old: Iterable[SlotStatistics],
        delta: Iterable[SlotStatistics],
        kept: Mapping[str, RetainedFrequencies],
        frontier: int | None,
    ) -> None:
        """Restores an empty window from the slots of another's :meth:`held`, the values that they retain, and its last expiry."""
        self.counted = {variable: BoundedCounts(kept=kept[variable]) for variable in self.variables}
        for held in old:
            self._admit(held)
        self._delta, self.frontier = [*delta], frontier

    # ------------------------------------------------------------------ inside
    def _hold(self, slots: Iterable[SlotCounts]) -> list[SlotStatistics]:
        """The statistics of slots; without those that have no row which is ever in the window."""
        found = (hold(slot, self.variables, self.intervals, self._most_times) for slot in slots)
        return [held for held in found if held.spans.rows]

    @property
    def _most_times(self) -> int:
        return max(self.budget // 64, 1)

    def _place(self, slots: Iterable[SlotStatistics]) -> None:
        """Adds slots to the old content, and keeps the limits of both slots and counters."""
        for held in slots:
            if held.spans.rows:
                if self.is_bounded:
                    self._note_sizes((held,))
                    for variable in self.variables:
                        self._bound(held, variable)
                self._admit(held)
        while len(self._whole) > self.most_slots:
            self._merge_neighbours()
        if self.is_bounded or 2 * (self._whole_rows + sum(held.total for held in self._partial)) > self.budget:
            self._note_sizes(self._partial)
            for variable in self.variables:
                self._shrink(variable)

    def _admit(self, held: SlotStatistics) -> None:
        if held.spans.rows < held.total:
            self._partial.append(held)
            return
        self._entered[held] = None
        self._whole_rows += held.total
        self._whole.add(held)

    def _withdraw(self, held: SlotStatistics) -> None:
        if held in self._entered:
            del self._entered[held]
        else:
            self._left[held] = None
        self._whole_rows -= held.total

    def _update_ends(self) -> None:
        """Evaluates the ends of all old rows again. Expired rows stay expired: their ends are behind the frontier and do not move."""
        for held in (*self._whole, *self._partial):
            held.spans = spans(*self.intervals(held.times), held.rows)
        self._whole = SortedKeyList(self._whole, key=_next_end)
        self.epoch += 1  # also if no row leaves: the rows that have ended at an instant differ

    def _merge_neighbours(self) -> None:
        """Merges the two neighbours among the whole slots that have the fewest rows. The slots that expire next stay as they are."""
        later = [*self._whole.islice(self.most_slots // 4)]
        rows = np.array([held.total for held in later])
        at = int(np.argmin(rows[1:] + rows[:-1]))
        one, other = later[at : at + 2]
        if (one in self._entered) != (other in self._entered):
            self.update()
        both = merged(one, other, self.intervals, self._most_times)
        if one in self._entered:
            del self._entered[one], self._entered[other]
            self._entered[both] = None
        self._whole.remove(one)
        self._whole.remove(other)
        self._whole.add(both)

    # ------------------------------------------------------------------ the budget
    @property
    def is_bounded(self) -> bool:
        """Whether some counts are restricted to retained values; reading a few values then updates the counts."""
        return not all(counts.exact for counts in self.counted.values())

    def _note_sizes(self, slots: Sequence[SlotStatistics]) -> None:
        """Lets the listeners read the counts of slots while they are exact."""
        self._notify(slots, 0)

    def _bound(self, held: SlotStatistics, variable: str) -> None:
        """Reduces a slot that arrives after the budget was exceeded to the retained values; its own heavy values become retained."""
        mine, counted = held.counts[variable], self.counted[variable]
        if counted.exact:
            return
        if mine.counts.greatest >= LEAST_RISE and len(rising := risen(mine, self.whole[variable])):
            heavy, level = counted.kept.heavy, counted.kept.level
            self._keep(variable, RetainedFrequencies(np.union1d(heavy, rising), level), narrower=False)
        mine.keep(counted.kept)

    def _shrink(self, variable: str) -> None:
        """Reduces too many heavy values to the heaviest, then raises the level until the counters are within the budget."""
        counted = self.counted[variable]
        if len(counted.kept.heavy) > self._most_heavy:
            self._keep(variable, self._chosen(variable, counted.kept.level))
        if self._entries(variable) > self.budget:
            self.update()
            while self._entries(variable) > self.budget and counted.kept.level < HIGHEST_LEVEL:
                self._keep(variable, self._chosen(variable, counted.kept.level + 1))

    def _entries(self, variable: str) -> int:
        """The counters of a variable; if slots wait to be counted, no fewer than there will be then."""
        slots: tuple[SlotStatistics, ...] = (*self._entered, *self._whole, *self._partial)
        return self.counted[variable].counts.distinct + sum(held.counts[variable].counts.distinct for held in slots)

    @property
    def _most_heavy(self) -> int:
        """As many as take half of the budget if they occur in every slot."""
        return max(self.budget // (2 * (len(self._whole) + len(self._partial) + 1)), 1)

    def _chosen(self, variable: str, level: int) -> RetainedFrequencies:
        """The values to retain at a level. Fewer heavy values than allowed, because each change of these values touches all slots."""
        return RetainedFrequencies(heaviest(self.whole[variable].tally(), max(self._most_heavy // 2, 1)), level)

    def _keep(self, variable: str, kept: RetainedFrequencies, *, narrower: bool = True) -> None:
        old = [held.counts[variable] for held in (*self._whole, *self._partial)]
        for counts in (self.whole[variable], *old):
            if narrower:
                counts.keep(kept)
            else:
                counts.kept = kept
