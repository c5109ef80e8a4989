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

from cqels_opt.lod.multiplicities import by_group, summed
from cqels_opt.operators.expressions import values
from cqels_opt.operators.interval_join import disjoint, visible
from cqels_opt.operators.rows import Ints, Rows, group_ids
from cqels_opt.operators.term_table import TermTable
from cqels_opt.query.aggregates import Total, aggregate
from cqels_opt.query.algebra import Aggregate
from cqels_opt.query.values import order_key
from cqels_opt.rdf.ids import LARGEST_INTEGER, integer_ids, kinds, numeric_parts
from cqels_opt.stats.frequencies import distinct_values

ARGUMENT = "#argument"


@dataclass(frozen=True, slots=True)
class GroupIntervals:
    """Elementary segments: ``group[k]`` has constant members during ``[start[k], end[k])``; ordered by (group, start)."""

    group: Ints
    start: Ints
    end: Ints
    span: int

    def at(self, group: Ints, time: Ints) -> Ints:
        """The segment of a group that begins at a time."""
        return np.searchsorted(self.group * self.span + self.start, group * self.span + time)


def group_intervals(group: Ints, rows: Rows, groups: int, low: int, high: int, whole: bool) -> GroupIntervals:
    """The segments of all groups; with ``whole`` each group's segments fill ``[low, high)``."""
    span = high + 1
    points = [group * span + rows.start, group * span + rows.end]
    if whole:
        every = np.arange(groups, dtype=np.int64) * span
        points += [every + low, every + high]
    edges = distinct_values(np.concatenate(points))
    owner, time = edges // span, edges % span
    inner = owner[1:] == owner[:-1]
    return GroupIntervals(owner[:-1][inner], time[:-1][inner], time[1:][inner], span)


def running(segments: GroupIntervals, group: Ints, rows: Rows, *amounts: Ints) -> list[Ints]:
    """Σ amount over the members of each segment. (What lies at or behind a group's last edge belongs to no segment.)"""
    places = np.concatenate([segments.at(group, rows.start), segments.at(group, rows.end)])

    def added_up(changes: Ints) -> Ints:
        change = np.zeros(len(segments.group) + 1, np.int64)
        np.add.at(change, places, changes)
        return np.cumsum(change)[:-1]

    return [summed(np.concatenate([amount, -amount]), added_up) for amount in amounts]


def _expand(segments: GroupIntervals, group: Ints, rows: Rows) -> tuple[Ints, Ints]:
    """(row, segment) for every segment during which a row is valid."""
    first, last = segments.at(group, rows.start), segments.at(group, rows.end)
    count = last - first
    row = np.repeat(np.arange(len(rows)), count)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, np.repeat(first, count) + offset


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
    segments = group_intervals(group, rows, groups, low, high, implicit)
    (members,) = running(segments, group, rows, rows.n)
    out = {k: c[first][segments.group] for k, c in zip(keys, columns)} if len(first) else {}
    for variable, spec in aggregates:
        out[variable] = _column(spec, rows, group, segments, terms, whole)
    result = Rows(out, segments.start, segments.end, np.ones(len(segments.group), np.int64))
    return result if implicit else result.take(members > 0)


def earliest(rows: Rows, order: str) -> Rows:
    """Equal rows once at a time, each with the least of its ``order`` column (DISTINCT after ORDER BY)."""
    if not len(rows):
        return rows
    names = visible(rows)
    group, first = group_ids([rows.columns[v] for v in names], len(rows))
    segments = group_intervals(group, rows, len(first), 0, int(rows.end.max()), False)
    row, segment = _expand(segments, group, rows)
    best = np.full(len(segments.group), np.iinfo(np.int64).max)
    np.minimum.at(best, segment, rows.columns[order][row])
    columns = {v: rows.columns[v][first][segments.group] for v in names} | {order: best}
    found = Rows(columns, segments.start, segments.end, np.ones(len(best), np.int64))
    return found.take(np.bincount(segment, minlength=len(best)) > 0)


def _column(spec: Aggregate, rows: Rows, group: Ints, segments: GroupIntervals, terms: TermTable, whole: Sequence[str]) -> Ints:
    """The aggregate's value in each segment, as ids."""
    argument = values(rows, spec.argument, terms) if spec.argument is not None else np.ones(len(rows), np.int64)
    if spec.distinct:
        names = [v for v in whole if v in rows.columns] if spec.argument is None else []
        kept = {"#group": group, ARGUMENT: argument, **{v: rows.columns[v] for v in names}}
        once = disjoint(Rows({f"g{i}": c for i, c in enumerate(kept.values())}, rows.start, rows.end, rows.n))
        rows, group, argument = once, once.columns["g0"], once.columns["g1"]
    if spec.function == "COUNT":
        (count,) = running(segments, group, rows, np.where(argument != 0, rows.n, 0))
        return counts(count, terms)
    if spec.function in ("SUM", "AVG"):
        return _sums(spec.function, rows, group, argument, segments, terms)
    if spec.function == "GROUP_CONCAT":
        return _lists(spec, rows, group, argument, segments, terms)
    return _extremes(spec.function, rows, group, argument, segments, terms)


def counts(numbers: Ints, terms: TermTable) -> Ints:
    """Numbers of bound members as ids of integers."""
    if int(numbers.max(initial=0)) <= LARGEST_INTEGER:
        return integer_ids(numbers)
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return terms.ids([Total(members=c, bound=c).count() for c in distinct.tolist()])[inverse]


def _sums(function: str, rows: Rows, group: Ints, argument: Ints, segments: GroupIntervals, terms: TermTable) -> Ints:
    """SUM and AVG: by the column where all members are small integers and decimals, else a running total for each group."""
    mantissa, scale = numeric_parts(argument)
    plain = np.isin(kinds(argument), (4, 5))
    deepest = int(scale.max(initial=0))
    bound = np.abs(mantissa).astype(float) * 10.0 ** (deepest - scale) * rows.n
    if not plain.all() or bound.sum() >= 2.0**62:
        return _totals(function, rows, group, argument, segments, terms)
    amount = mantissa * 10 ** (deepest - scale)
    of_decimals = np.where(kinds(argument) == 5, rows.n, 0)
    total, count, decimals = running(segments, group, rows, amount * rows.n, rows.n, of_decimals)
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


def _totals(function: str, rows: Rows, group: Ints, argument: Ints, segments: GroupIntervals, terms: TermTable) -> Ints:
    """A running total for each group. A join makes many equal members: those that enter and leave at the same instants are one."""
    enters, leaves = segments.at(group, rows.start), segments.at(group, rows.end)
    alike, first = group_ids([argument, enters, leaves], len(rows))
    times = by_group(rows.n, alike, len(first))
    texts, enters, leaves = terms.texts(argument[first]), enters[first], leaves[first]
    events = sorted([(int(s), i, 1) for i, s in enumerate(enters)] + [(int(s), i, -1) for i, s in enumerate(leaves)])
    state, made, at = Total(), [], 0
    for segment in range(len(segments.group)):
        while at < len(events) and events[at][0] == segment:
            _, i, sign = events[at]
            state.add(texts[i], sign * int(times[i]))
            at += 1
        made.append(state.sum() if function == "SUM" else state.average())
    return terms.ids(made)


def _lists(spec: Aggregate, rows: Rows, group: Ints, argument: Ints, segments: GroupIntervals, terms: TermTable) -> Ints:
    run = aggregate(spec.function, spec.distinct, spec.separator)
    texts = terms.texts(argument)
    row, segment = _expand(segments, group, rows)
    members: list[list[tuple[str | None, int]]] = [[] for _ in segments.group]
    for r, s in zip(row.tolist(), segment.tolist()):
        members[s].append((texts[r], int(rows.n[r])))
    return terms.ids([run(m) for m in members])


def ranks(ids: Ints, terms: TermTable, key: Callable[[str | None], Any] = order_key) -> tuple[Ints, Ints]:
    """Each id's place in the order of terms, and the ids in that order. Ids of equal ``key`` share a place."""
    distinct, inverse = np.unique(ids, return_inverse=True)
    keys = [key(text) for text in terms.texts(distinct)]
    order = sorted(range(len(distinct)), key=keys.__getitem__)
    rank = np.empty(len(distinct), np.int64)
    rank[order] = np.cumsum([i > 0 and keys[order[i]] != keys[order[i - 1]] for i in range(len(order))])
    return rank[inverse], distinct[order]


def _extremes(function: str, rows: Rows, group: Ints, argument: Ints, segments: GroupIntervals, terms: TermTable) -> Ints:
    """MIN, SAMPLE (the least) and MAX. Of the members that are valid all the time, only the best can be the result."""
    bound = argument != 0
    rows, group, argument = rows.take(bound), group[bound], argument[bound]
    result = np.zeros(len(segments.group), np.int64)
    if not len(rows):
        return result
    rank, ordered = ranks(argument, terms)
    if function == "MAX":
        rank = len(ordered) - 1 - rank
        ordered = ordered[::-1]
    whole = (rows.start == rows.start.min()) & (rows.end == rows.end.max())
    order = np.lexsort((rank, ~whole, group))
    lead = np.ones(len(order), bool)
    lead[1:] = group[order][1:] != group[order][:-1]
    keep = np.zeros(len(rows), bool)
    keep[order[lead]] = True
    keep |= ~whole
    rows, group, rank = rows.take(keep), group[keep], rank[keep]
    row, segment = _expand(segments, group, rows)
    best = np.full(len(segments.group), len(ordered), np.int64)
    np.minimum.at(best, segment, rank[row])
    found = best < len(ordered)
    result[found] = ordered[best[found]]
    return result
