"""Relation-to-stream operators: which answers a query emits at each instant of E, as bags (RSP-QL 2014, Definitions 20–22).

Other packages add operators through the entry points ``cqels_opt.stream_operators`` (docs/extending.md); ``--output-operator NAME`` or
``output_operator=NAME`` then selects them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from cqels_opt import plugins
from cqels_opt.lod.key_search import mix
from cqels_opt.lod.multiplicities import summed
from cqels_opt.lod.order import packed, sorted_order
from cqels_opt.operators.algebra.expression_rows import at_each_instant
from cqels_opt.operators.algebra.order import ORDER
from cqels_opt.operators.instant_ranges import InstantRange
from cqels_opt.operators.rows import Ints, Rows
from cqels_opt.operators.stream_output import Answers

HASHED: Final = 1 << 15
"""From this number on, rows are ordered by a hash, which costs no sort per column."""
HASH_BITS: Final = 24
"""The fewest bits of a hash. With many instants fewer are left, and different rows would often have equal hashes."""


class StreamOperator(ABC):
    """A relation-to-stream operator. ``sign`` is the ``op`` of its answers.

    Rows come with intervals of places in the sequence of instants. Place 0 is the instant that was reported before.
    """

    sign: ClassVar[str]
    whole: ClassVar[bool]
    """Whether :meth:`emit` needs all rows that are valid at an instant; else it needs those that begin or end there."""

    @abstractmethod
    def emit(self, rows: Rows, columns: Sequence[Ints], low: int, high: int) -> tuple[Ints, Ints, Ints]:
        """What is emitted at the places in ``[low, high)``, by place: (place, how often, number of the row)."""


class ChangeOperator(StreamOperator):
    """An operator that reads by how much the number of equal answers differs from that at the previous instant."""

    whole = False

    @abstractmethod
    def emitted(self, change: Ints) -> Ints:
        """How often an answer is emitted whose number has changed by so much, which is never 0. Below 1: it is not emitted."""

    def emit(self, rows: Rows, columns: Sequence[Ints], low: int, high: int) -> tuple[Ints, Ints, Ints]:
        """By place, and then by the columns, or by a hash of these where there are many rows. A row that ends and an equal one that begins
        at the same place cancel out.
        """
        at = np.concatenate([rows.start, rows.end])
        shown = np.flatnonzero((at >= low) & (at < high))
        of = np.where(shown < len(rows), shown, shown - len(rows))
        bits = 63 - high.bit_length()
        if hashed := bool(columns) and len(rows) >= HASHED and bits >= HASH_BITS:
            hashes, count = (mix(columns).view(np.uint64) >> np.uint64(64 - bits)).view(np.int64), 1 << bits
            event, order = _in_order(at.take(shown), hashes.take(of), count)
            hashed = _agree(columns, event, of.take(order))
        if not hashed:
            values, count = packed(columns[::-1], high) if columns else (np.zeros(len(rows), np.int64), 1)
            event, order = _in_order(at.take(shown), values.take(of), count)
        edges = np.flatnonzero(np.append(len(event) > 0, event[1:] != event[:-1]))
        change = np.where(shown < len(rows), 1, -1) * rows.n.take(of)
        change = summed(change.take(order), lambda some: np.add.reduceat(some, edges)) if len(edges) else change
        n = summed(self.emitted(change), lambda some: some)  # refuses what is too many rows
        kept = np.flatnonzero((change != 0) & (n > 0))
        edges = edges.take(kept)
        return event.take(edges) // count, n.take(kept), of.take(order.take(edges))


def _in_order(place: Ints, value: Ints, count: int) -> tuple[Ints, Ints]:
    """The places and the values, of which there are ``count``, as single numbers in rising order, and this order."""
    event = place * count + value
    order = np.argsort(event)
    return event.take(order), order


def _agree(columns: Sequence[Ints], event: Ints, rows: Ints) -> bool:
    """Whether rows with equal neighbouring numbers are equal, so that no two different rows have one hash."""
    same = np.flatnonzero(event[1:] == event[:-1])
    return all(bool((column[rows[same]] == column[rows[same + 1]]).all()) for column in columns)


class IStream(ChangeOperator):
    """ISTREAM: what the bag has at an instant and had not at the previous one."""

    sign = "+"

    def emitted(self, change: Ints) -> Ints:
        """The increase."""
        return change


class DStream(ChangeOperator):
    """DSTREAM: what the bag had at the previous instant and has not at this one."""

    sign = "-"

    def emitted(self, change: Ints) -> Ints:
        """The decrease."""
        return -change


class RStream(StreamOperator):
    """RSTREAM: the whole bag at each instant."""

    sign = "="
    whole = True

    def emit(self, rows: Rows, columns: Sequence[Ints], low: int, high: int) -> tuple[Ints, Ints, Ints]:
        """By place, then in the order of ORDER BY, then by the columns."""
        numbered = rows.with_column("#row", np.arange(len(rows)))
        each = at_each_instant(numbered.with_interval(np.maximum(rows.start, low), np.minimum(rows.end, high)))
        order = each.columns.get(ORDER, np.zeros(len(each), np.int64))
        row = each.columns["#row"]
        by_place = sorted_order([each.start, order, *(column[row] for column in columns[::-1])])
        return each.start[by_place], each.n[by_place], row[by_place]


OPERATORS: Final[Mapping[str, StreamOperator]] = {"istream": IStream(), "dstream": DStream(), "rstream": RStream()}
"""The built-in operators by the names that queries and options use."""


def stream_operator(name: str) -> StreamOperator:
    """An operator by its name. Raises InputError where neither this package nor an installed one has it."""
    if name in OPERATORS:
        return OPERATORS[name]
    added: type[StreamOperator] = plugins.load_class("stream_operators", name, StreamOperator)
    return added()


def answers(rows: Rows, variables: Sequence[str], operator: str, instants: Ints, places: InstantRange | None = None) -> Answers:
    """What is emitted at the instants of a range; without one, at all instants after the first."""
    chosen, columns = stream_operator(operator), rows.values(variables)
    place, n, row = chosen.emit(rows, columns, *(places or (1, len(instants))))
    return Answers(instants.take(place), n, {v: column.take(row) for v, column in zip(variables, columns)}, chosen.sign)
