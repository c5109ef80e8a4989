"""A run switches to another version of the static store, between two batches (SEMANTICS §2; docs/static-updates.md).

From the first instant of the batch on, the content of the windows is joined with the new static data. The answers at the last
reported instant are kept in a file, because the next instant is compared with them. The result slots are computed again from the
windows' content, like those of a query that is added to a running job (:mod:`cqels_opt.runtime.backfill`), and everything above
them starts again, as at the first instant of a run. A query whose static relations are the same in both versions continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

import numpy as np

from cqels_opt.operators.algebra.operator import inputs_first
from cqels_opt.operators.algebra.static import StaticNode
from cqels_opt.operators.blocks import PatternOccurrence, Static
from cqels_opt.operators.compiled_query import CompiledProgram, Instances
from cqels_opt.operators.rows import Rows
from cqels_opt.state import worker_cache
from cqels_opt.state.materialized_answers import MaterializedAnswers
from cqels_opt.state.result_store import ResultFiles

T = TypeVar("T")


def answers_before(program: CompiledProgram) -> MaterializedAnswers:
    """The files of the answers at the last instant before another version."""
    return MaterializedAnswers(ResultFiles(f"{program.id}/before", program.columns, ()))


def at_first(rows: Rows) -> Rows:
    """Rows that hold at the first place of a step, and at no other."""
    size = len(rows)
    return Rows(rows.columns, np.zeros(size, np.int64), np.ones(size, np.int64), rows.n)


def only(rows: Rows, program: CompiledProgram) -> Rows:
    """The columns of a program's answers."""
    return Rows(dict(zip(program.columns, rows.values(program.columns))), rows.start, rows.end, rows.n)


# ------------------------------------------------------------------ is anything different?
def has_windows_of(after: CompiledProgram, before: CompiledProgram) -> bool:
    """Whether the blocks of two programs have the same occurrences, so that their statistics are the same."""
    found = [{block.name: tuple(_without_places(o) for o in block.occurrences) for block in p.blocks} for p in (before, after)]
    return found[0] == found[1]


def keeps_state(before: CompiledProgram, after: CompiledProgram) -> bool:
    """Whether a query has the same plans and static relations over two versions of the store: then its state is right for both."""
    if _without_places(before) != _without_places(after):
        return False
    pairs = zip(_statics(before), _statics(after))
    return all(_same(one, before.store, other, after.store) for one, other in pairs)


def _same(one: Static, store: str, other: Static, other_store: str) -> bool:
    """Whether a static relation has the same rows in both versions."""
    if isinstance(one.at, str) or isinstance(other.at, str):
        found = [worker_cache.relation(place, static.at).checksum for place, static in ((store, one), (other_store, other))]
        return found[0] is not None and found[0] == found[1]
    return one.at == other.at and worker_cache.store(store).partitions_of(one.at) == worker_cache.store(
        other_store
    ).partitions_of(other.at)


def _statics(program: CompiledProgram) -> Iterator[Static]:
    for block in program.blocks:
        yield from (*block.statics, *block.parts)
        yield from (o.static for o in block.occurrences if o.static is not None)
    yield from (operator.static for operator in inputs_first(program.tree) if isinstance(operator, StaticNode))


def _without_places(value: T) -> T:
    """A program, or a part of one, without the places and row counts of its relations."""
    if isinstance(value, tuple):
        return cast("T", tuple(map(_without_places, value)))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    found = {field.name: _without_places(getattr(value, field.name)) for field in fields(value)}
    match value:
        case Static():
            found |= {"at": "", "rows": 0}
        case CompiledProgram() | PatternOccurrence():
            found["store"] = ""
        case Instances():
            found["names"] = ""
    return cast("T", replace(value, **found))
