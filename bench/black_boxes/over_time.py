"""Answers from rows with intervals: aggregates as step functions of time, and the new rows of each instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from cqels_opt.bench.answers import Answer, value_of
from cqels_opt.bench.black_boxes.relation import XSD, Terms, numbers_of
from cqels_opt.bench.black_boxes.split import Grouped
from cqels_opt.bench.contenders import UnsupportedError
from cqels_opt.operators.rows import Ints, Rows, group_ids
from cqels_opt.query.algebra import Aggregate, Variable


def stepped(rows: Rows, grouped: Grouped, terms: Terms) -> Rows:
    """The groups over time: a group has a new row wherever one of its members begins or expires (SEMANTICS §2)."""
    group, first = group_ids([rows.columns[v] for v in grouped.keys], len(rows))
    low = int(rows.start.min(initial=0))
    span = int(rows.end.max(initial=0)) - low + 1
    begin, end = group * span + (rows.start - low), group * span + (rows.end - low)
    bounds = np.unique(np.concatenate([begin, end]))
    place, stop = np.searchsorted(bounds, begin), np.searchsorted(bounds, end)
    count = stop - place
    member = np.repeat(np.arange(len(rows)), count)
    moment = np.repeat(place - (np.cumsum(count) - count), count) + np.arange(len(member))
    cells, cell = np.unique(moment, return_inverse=True)
    owner = bounds[cells] // span
    columns = {v: rows.columns[v][first][owner] for v in grouped.keys}
    n = rows.n[member]
    for name, aggregate in grouped.aggregates.items():
        columns[name] = _aggregated(aggregate, rows, member, cell, len(cells), n, terms)
    start, until = bounds[cells] % span + low, bounds[np.minimum(cells + 1, len(bounds) - 1)] % span + low
    return Rows(columns, start, until, np.ones(len(cells), np.int64))


def _aggregated(aggregate: Aggregate, rows: Rows, member: Ints, cell: Ints, cells: int, n: Ints, terms: Terms) -> Ints:
    if aggregate.distinct or aggregate.function not in ("COUNT", "MAX", "MIN"):
        raise UnsupportedError(f"System X has COUNT, MAX and MIN, not {'DISTINCT ' * aggregate.distinct}{aggregate.function}")
    if aggregate.function == "COUNT":
        counts = np.bincount(cell, weights=n, minlength=cells).astype(np.int64)
        distinct, inverse = np.unique(counts, return_inverse=True)
        made = np.array([terms.number(f'"{count}"^^<{XSD}integer>') for count in distinct.tolist()], np.int64)
        return made[inverse]
    assert isinstance(aggregate.argument, Variable)
    ids = rows.columns[aggregate.argument.name]
    distinct, inverse = np.unique(ids, return_inverse=True)
    values = numbers_of(terms, distinct.tolist())
    if np.isnan(values).any():
        raise UnsupportedError(f"System X has {aggregate.function} of numbers only")
    sign = 1 if aggregate.function == "MAX" else -1
    order = np.lexsort((sign * values[inverse][member], cell))
    last = np.append(np.flatnonzero(np.diff(cell[order])), len(order) - 1)
    found: Ints = ids[member[order[last]]]
    return found


def new_rows(rows: Rows, after: int, upto: int) -> tuple[Rows, Ints]:
    """The new rows at the instants in ``(after, upto]``, with these instants; a row that follows an equal one is not new."""
    names = list(rows.columns)
    events, change = [], []
    for times, sign in ((rows.start, 1), (rows.end, -1)):
        inside = (times > after) & (times <= upto)
        events.append(rows.take(inside).with_column("#t", times[inside]))
        change.append(sign * rows.n[inside])
    columns = {v: np.concatenate([e.columns[v] for e in events]) for v in (*names, "#t")}
    total, length = np.concatenate(change), sum(map(len, events))
    group, first = group_ids(list(columns.values()), length)
    net = np.zeros(len(first), np.int64)
    np.add.at(net, group, total)
    kept = net > 0
    times, n = columns["#t"][first][kept], net[kept]
    fresh = {v: columns[v][first][kept] for v in names}
    return Rows(fresh, times, times, n), times


def answers(rows: Rows, times: Ints, output: Mapping[str, str], terms: Terms) -> Iterator[Answer]:
    """The rows as answers."""
    columns = [(name, rows.columns[of].tolist()) for name, of in output.items()]
    for i, (time, n) in enumerate(zip(times.tolist(), rows.n.tolist())):
        values = {name: value_of(terms.texts[column[i]] or "") for name, column in columns if column[i]}
        yield from [(time, values)] * n
