"""Bushy parts of plans over static relations alone: a worker joins and indexes them once, not in each step.

A plan builds such a part where joining it first makes fewer rows than probing its relations one by one. Large ones that pay off for long
are materialized views; this cache holds what the plans of a while build again and again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from cqels_opt.operators.block_relations import BlockRelations
from cqels_opt.operators.executed_operators import ExecutedOperator
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.operator_work import OperatorWork
from cqels_opt.operators.rows import Rows
from cqels_opt.plans.plan import relations
from cqels_opt.state.worker_cache import stamp_of_relation
from cqels_opt.storage.shared_cache import SharedCache

WORDS: Final = 1 << 22
"""The most ids, times and multiplicities that a worker keeps."""


class _Built(NamedTuple):
    """The rows of a part, indexed, and for each of its operators the rows of its plan, those that it made, and its work."""

    side: Indexed
    given: tuple[tuple[int, float, OperatorWork], ...]


_BUILT: SharedCache[Hashable, _Built] = SharedCache(WORDS, getsizeof=lambda built: _words(built.side))


def _words(side: Indexed) -> int:
    return 1 + side.rows * (len(side.names) + 3)


def static_key(build: ExecutedOperator, join: BlockRelations) -> Hashable:
    """What the rows of a bushy part depend on if it has static relations only, joined by inner joins without filters; else None."""
    names = relations(build.plan)
    if not all(name in join.statics and not join.is_unit(name) for name in names):
        return None
    if any(f.variables <= build.bound for f in join.filters.values()) or any(part.given is not None for part in _of_part(build)):
        return None  # of a part that other tasks have computed, this task has a share
    statics = tuple(join.statics[name] for name in names)
    stamps = tuple(stamp_of_relation(join.store, static.at) for static in statics)
    return join.store, statics, stamps, build.plan, build.read


def known(key: Hashable, build: ExecutedOperator) -> Indexed | None:
    """The part from an earlier step: its operators count the rows as if they had made them, in no time. None where they may not give
    as many: they stop then, as without this cache."""
    built: _Built | None = _BUILT.get(key)
    if built is None:
        return None
    if any(op.limit is not None and made > op.limit.most for op, (_, made, _) in zip(_of_part(build), built.given)):
        return None
    for operator, (count, made, work) in zip(_of_part(build), built.given):
        operator.count, operator.made, operator.finished = count, made, True
        operator.work.add(work)
    return built.side


def remember(key: Hashable, build: ExecutedOperator, rows: Rows) -> Indexed:
    """Indexes the rows of a part, for later steps as well if they are not too many."""
    side = Indexed.of_rows(rows)
    if key is not None and _words(side) <= WORDS:
        _BUILT[key] = _Built(side, tuple((op.count, op.made, replace(op.work, seconds=0.0)) for op in _of_part(build)))
    return side


def _of_part(operator: ExecutedOperator) -> Iterator[ExecutedOperator]:
    for below in (operator.input, operator.build):
        if below is not None:
            yield from _of_part(below)
    yield operator
