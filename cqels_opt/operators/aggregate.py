"""GROUP BY over rows with intervals: for each group a step function, a new value wherever a member begins or ends.

Times are places in the list of instants of the step (see :mod:`cqels_opt.operators.algebra.operator`). COUNT, SUM and AVG
are running sums over the members that enter and leave; MIN, MAX and SAMPLE compare the ranks of terms. Both work on whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cqels_opt.lod.multiplicities import by_group, summed
from cqels_opt.lod.order import run_starts
from cqels_opt.operators.expressions import values
from cqels_opt.operators.interval_join import disjoint, visible
from cqels_opt.operators.memory import check
from cqels_opt.operators.rows import Ints, Rows, group_ids
from cqels_opt.operators.term_table import TermTable
from cqels_opt.query.aggregates import Total, aggregate
from cqels_opt.query.algebra import Aggregate
from cqels_opt.query.values import order_key
from cqels_opt.rdf.ids import KIND_IRI, LARGEST_INTEGER, in_order_of_terms, integer_ids, kinds, numeric_parts
from cqels_opt.stats.frequencies import distinct_values

ARGUMENT = "#argument"
NEVER = np.iinfo(np.int64).max
MANY_IRIS = 256
"""From this number of IRIs on they are sorted as a column; to make a column of fewer takes longer than to compare them."""

MOST_EXPANDED = 8
"""The most pairs of a run and an interval that are made, per run and interval."""


@dataclass(frozen=True, slots=True)
class GroupIntervals:
    """Elementary intervals: ``group[k]`` has constant members during ``[start[k], end[k])``; ordered by (group, start)."""

    group: Ints
    start: Ints
    end: Ints
    span: int

    def at(self, group: Ints, time: Ints) -> Ints:
        """The interval of a group that begins at a time."""
        return np.searchsorted(self.group * self.span + self.start, group * self.span + time)


def group_intervals(group: Ints, rows: Rows, groups: int, low: int, high: int, whole: bool) -> GroupIntervals:
    """The intervals of all groups; with ``whole`` each group's intervals fill ``[low, high)``."""
    span = high + 1
    points = [group * span + rows.start, group * span + rows.end]
    if whole:
        every = np.arange(groups, dtype=np.int64) * span
        points += [every + low, every + high]
    edges = distinct_values(np.concatenate(points))
    owner, time = edges // span, edges % span
    inner = owner[1:] == owner[:-1]
    return GroupIntervals(owner[:-1][inner], time[:-1][inner], time[1:][inner], span)


@dataclass(frozen=True, slots=True)
class Members:
    """Rows as members of groups, in runs: neighbours of one group with equal intervals, as a join leaves them.

    Run ``k`` begins at row ``runs[k]`` and is valid from interval ``first[k]`` to the one before ``last[k]``.
    """

    intervals: GroupIntervals
    runs: Ints
    first: Ints
    last: Ints

    @classmethod
    def of(cls, intervals: GroupIntervals, group: Ints, rows: Rows) -> Members:
        """The rows of the groups with these numbers."""
        runs = run_starts((group, rows.start, rows.end))
        owner = group[runs]
        return cls(intervals, runs, intervals.at(owner, rows.start[runs]), intervals.at(owner, rows.end[runs]))

    def running(self, *amounts: Ints) -> list[Ints]:
        """Σ amount over the members of each interval. (What lies at or behind a group's last edge belongs to no interval.)"""

        def added_up(amount: Ints) -> Ints:
            of_run = np.add.reduceat(amount, self.runs)
            change = np.zeros(len(self.intervals.group) + 1, np.int64)
            np.add.at(change, self.first, of_run)
            np.subtract.at(change, self.last, of_run)
            return np.cumsum(change)[:-1]

        return [summed(amount, added_up) for amount in amounts]

    def expand(self) -> tuple[Ints, Ints]:
        """(run, interval) for every interval during which a run is valid. LimitError if they take too much memory."""
        count = self.last - self.first
        check(int(count.sum()), 1)
        run = np.repeat(np.arange(len(self.runs)), count)
        offset = np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)
        return run, np.repeat(self.first, count) + offset

    def least(self, amounts: Ints, otherwise: int) -> Ints:
        """The least amount over the members of each interval."""
        found, least = np.full(len(self.intervals.group), otherwise), np.minimum.reduceat(amounts, self.runs)
        if int((self.last - self.first).sum()) > MOST_EXPANDED * (len(self.runs) + len(found)):
            return self._least_in_order(least, otherwise)
        run, interval = self.expand()
        np.minimum.at(found, interval, least[run])
        return found

    def _least_in_order(self, least: Ints, otherwise: int) -> Ints:
        """The same where runs are valid during many intervals: the least run gives its amount to each of its intervals, the next one to
        those that have none yet, and so on. Each interval is visited once.
        """
        found = [otherwise] * len(self.intervals.group)
        following = list(range(len(found) + 1))  # of each interval the next one without an amount, or one that knows it
        for k in np.argsort(least, kind="stable").tolist():
            amount, last = min(int(least[k]), otherwise), int(self.last[k])
            at = _unvisited(following, int(self.first[k]))
            while at < last:
                found[at], following[at] = amount, at + 1
                at = _unvisited(following, at + 1)
        return np.array(found, np.int64)


def _unvisited(following: list[int], at: int) -> int:
    """The first interval from ``at`` on that has no amount; halves the path to it."""
    while following[at] != at:
        following[at] = following[following[at]]
        at = following[at]
    return at


def grouped(
    rows: Rows,
    keys: Sequence[str],
    aggregates: Sequence[tuple[str, Aggregate]],
    implicit: bool,
    terms: TermTable,
    low: int,
    high: int,
    whole: Sequence[str] = (),
) -> Rows:
    """The groups' rows: keys and aggregates, with multiplicity 1. An ``implicit`` group exists even without members.

    ``whole`` names the variables whose values COUNT(DISTINCT *) compares.
    """
    columns = rows.values(keys)
    group, first = group_ids(columns, len(rows))
    groups = len(first)
    if implicit and not groups:
        groups = 1
    intervals = group_intervals(group, rows, groups, low, high, implicit)
    members = Members.of(intervals, group, rows)
    (present,) = members.running(rows.n)
    out = {k: c[first][intervals.group] for k, c in zip(keys, columns)} if len(first) else {}
    for variable, spec in aggregates:
        out[variable] = _column(spec, rows, group, members, terms, whole)
    result = Rows(out, intervals.start, intervals.end, np.ones(len(intervals.group), np.int64))
    return result if implicit else result.take(present > 0)


def earliest(rows: Rows, order: str) -> Rows:
    """Equal rows once at a time, each with the least of its ``order`` column (DISTINCT after ORDER BY)."""
    if not len(rows):
        return rows
    names = visible(rows)
    group, first = group_ids([rows.columns[v] for v in names], len(rows))
    intervals = group_intervals(group, rows, len(first), 0, int(rows.end.max()), False)
    best = Members.of(intervals, group, rows).least(rows.columns[order], NEVER)
    columns = {v: rows.columns[v][first][intervals.group] for v in names} | {order: best}
    return Rows(columns, intervals.start, intervals.end, np.ones(len(best), np.int64)).take(best < NEVER)


def _column(spec: Aggregate, rows: Rows, group: Ints, members: Members, terms: TermTable, whole: Sequence[str]) -> Ints:
    """The aggregate's value in each interval, as ids."""
    argument = values(rows, spec.argument, terms) if spec.argument is not None else np.ones(len(rows), np.int64)
    if spec.distinct and spec.function not in ("MIN", "MAX", "SAMPLE"):
        names = [v for v in whole if v in rows.columns] if spec.argument is None else []
        kept = {"#group": group, ARGUMENT: argument, **{v: rows.columns[v] for v in names}}
        once = disjoint(Rows({f"g{i}": c for i, c in enumerate(kept.values())}, rows.start, rows.end, rows.n))
        rows, group, argument = once, once.columns["g0"], once.columns["g1"]
        members = Members.of(members.intervals, group, rows)
    if spec.function == "COUNT":
        (count,) = members.running(np.where(argument != 0, rows.n, 0))
        return counts(count, terms)
    if spec.function in ("SUM", "AVG"):
        return _sums(spec.function, rows, group, argument, members, terms)
    if spec.function == "GROUP_CONCAT":
        return _lists(spec, rows, argument, members, terms)
    return _extremes(spec.function, rows, group, argument, members.intervals, terms)


def counts(numbers: Ints, terms: TermTable) -> Ints:
    """Numbers of bound members as ids of integers."""
    if int(numbers.max(initial=0)) <= LARGEST_INTEGER:
        return integer_ids(numbers)
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return terms.ids([Total(members=c, bound=c).count() for c in distinct.tolist()])[inverse]


def _sums(function: str, rows: Rows, group: Ints, argument: Ints, members: Members, terms: TermTable) -> Ints:
    """SUM and AVG: by the column where all members are small integers and decimals, else a running total for each group."""
    mantissa, scale = numeric_parts(argument)
    plain = np.isin(kinds(argument), (4, 5))
    deepest = int(scale.max(initial=0))
    bound = np.abs(mantissa).astype(float) * 10.0 ** (deepest - scale) * rows.n
    if not plain.all() or bound.sum() >= 2.0**62:
        return _totals(function, rows, group, argument, members.intervals, terms)
    amount = mantissa * 10 ** (deepest - scale)
    of_decimals = np.where(kinds(argument) == 5, rows.n, 0)
    total, count, decimals = members.running(amount * rows.n, rows.n, of_decimals)
    return sum_terms(function, count, decimals, np.zeros_like(total), total, deepest, terms)


def sum_terms(function: str, count: Ints, decimals: Ints, whole: Ints, fraction: Ints, digits: int, terms: TermTable) -> Ints:
    """SUM or AVG of ``count`` integers and decimals that add up to ``whole + fraction / 10**digits``, as ids."""
    kind, first = group_ids([whole, fraction, count, decimals], len(count))
    made = []
    for n, kept, integer, rest in zip(*(column[first].tolist() for column in (count, decimals, whole, fraction))):
        exact = Decimal(integer * 10**digits + rest).scaleb(-digits)
        state = Total(members=n, bound=n, decimals=kept, exact=exact)
        made.append(state.sum() if function == "SUM" else state.average())
    return terms.ids(made)[kind]


def _totals(function: str, rows: Rows, group: Ints, argument: Ints, intervals: GroupIntervals, terms: TermTable) -> Ints:
    """A running total for each group. A join makes many equal members: those that enter and leave at the same instants are one."""
    enters, leaves = intervals.at(group, rows.start), intervals.at(group, rows.end)
    alike, first = group_ids([argument, enters, leaves], len(rows))
    times = by_group(rows.n, alike, len(first))
    texts, enters, leaves = terms.texts(argument[first]), enters[first], leaves[first]
    events = sorted([(int(s), i, 1) for i, s in enumerate(enters)] + [(int(s), i, -1) for i, s in enumerate(leaves)])
    state, made, at = Total(), [], 0
    for interval in range(len(intervals.group)):
        while at < len(events) and events[at][0] == interval:
            _, i, sign = events[at]
            state.add(texts[i], sign * int(times[i]))
            at += 1
        made.append(state.sum() if function == "SUM" else state.average())
    return terms.ids(made)


def _lists(spec: Aggregate, rows: Rows, argument: Ints, members: Members, terms: TermTable) -> Ints:
    run_of = aggregate(spec.function, spec.distinct, spec.separator)
    found = list(zip(terms.texts(argument), rows.n.tolist()))
    begins = [*members.runs.tolist(), len(rows)]
    lists: list[list[tuple[str | None, int]]] = [[] for _ in members.intervals.group]
    for run, interval in zip(*(column.tolist() for column in members.expand())):
        lists[interval] += found[begins[run] : begins[run + 1]]
    return terms.ids([run_of(some) for some in lists])


def ranks(ids: Ints, terms: TermTable, key: Callable[[str | None], Any] = order_key) -> tuple[Ints, Ints]:
    """Each id's place in the order of terms, and the ids in that order. Ids of equal ``key`` share a place."""
    distinct, inverse = np.unique(ids, return_inverse=True)
    if (by_text := _order_of_iris(distinct, terms)) is not None:
        places = np.empty(len(distinct), np.int64)
        places[by_text] = np.arange(len(distinct))
        return places[inverse], distinct[by_text]
    keys = [key(text) for text in terms.texts(distinct)]
    order = sorted(range(len(distinct)), key=keys.__getitem__)
    rank = np.empty(len(distinct), np.int64)
    rank[order] = np.cumsum([i > 0 and keys[order[i]] != keys[order[i - 1]] for i in range(len(order))])
    return rank[inverse], distinct[order]


def places_as_terms(ids: Ints, terms: TermTable) -> Ints:
    """Numbers in the order of some ids as terms: their :func:`ranks`, or of most inline numbers what they contain."""
    places = in_order_of_terms(ids)
    return ranks(ids, terms)[0] if places is None else places


def _order_of_iris(distinct: Ints, terms: TermTable) -> Ints | None:
    """The places of many distinct IRIs in the order of their texts, none of which becomes a text of Python; None if they are few, or if
    there are other terms."""
    if len(distinct) < MANY_IRIS or (kinds(distinct) != KIND_IRI).any():
        return None
    texts = terms.column(distinct).cast(pa.binary())  # bytes of UTF-8 have the order of code points
    return np.asarray(pc.sort_indices(pc.binary_slice(texts, 1, -1))).astype(np.int64)


def _extremes(function: str, rows: Rows, group: Ints, argument: Ints, intervals: GroupIntervals, terms: TermTable) -> Ints:
    """MIN, SAMPLE (the least) and MAX. Of the members that are valid all the time, only the best can be the result."""
    result = np.zeros(len(intervals.group), np.int64)
    bound = argument != 0
    if not bound.all():
        rows, group, argument = rows.take(bound), group[bound], argument[bound]
    if not len(rows):
        return result
    place = places_as_terms(argument, terms)
    place = -place if function == "MAX" else place
    runs = run_starts((group, rows.start, rows.end))
    best = np.minimum.reduceat(place, runs)
    shown = np.flatnonzero(place == np.repeat(best, np.diff(runs, append=len(place))))
    places, first = np.unique(place[shown], return_index=True)
    rows, group, place = rows.take(runs), group[runs], best
    whole = (rows.start == rows.start.min()) & (rows.end == rows.end.max())
    order = np.lexsort((place, ~whole, group))
    keep = ~whole
    keep[order[run_starts((group[order],))]] = True
    rows, group, place = rows.take(keep), group[keep], place[keep]
    best = Members.of(intervals, group, rows).least(place, NEVER)
    found = best < NEVER
    result[found] = argument[shown[first]][np.searchsorted(places, best[found])]
    return result
