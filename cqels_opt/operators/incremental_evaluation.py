"""A tree of operators in a step: its changing rows a bounded number at a time, and the groups that are kept as sums.

:mod:`cqels_opt.operators.algebra.operator` describes what changing rows are and how each kind of operator finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from cqels_opt.operators import rows as rows_module
from cqels_opt.operators.accumulators import Accumulated, folded, members
from cqels_opt.operators.algebra.group import GroupNode
from cqels_opt.operators.algebra.operator import Operator, changing, evaluate
from cqels_opt.operators.algebra.scope import Scope
from cqels_opt.operators.instant_ranges import InstantRange
from cqels_opt.operators.rows import Rows, chunks, gathered
from cqels_opt.operators.semijoin_filter import EVERY, KeyFilter
from cqels_opt.state.result_store import ResultRun

Run: TypeAlias = Callable[[Operator, Scope, KeyFilter], Rows]


def in_chunks(
    tree: Operator, scope: Scope, share: KeyFilter = EVERY, run: Run = changing, places: InstantRange | None = None
) -> Iterator[Rows]:
    """The changing rows of a tree, or all rows with ``run=evaluate``; of a row-wise tree, a bounded number of rows at a time.

    With ``places`` a row-wise tree gives those that concern a range of the instants.
    """
    blocks = {name: scope.blocks[name] for name in tree.blocks} if tree.row_wise else {}
    parts = {name: block.parts(whole=run is evaluate or scope.low > 0) for name, block in blocks.items()}
    if places is None and sum(len(part) for found in parts.values() for part in found) <= rows_module.CHUNK:
        yield run(tree, scope, share)
        return
    nothing = {name: block.alone(()) for name, block in blocks.items()}
    for name, found in parts.items():
        some = (
            _pieces(found) if places is None else (places.rows(rows, scope.instants, run is evaluate) for rows in _pieces(found))
        )
        for rows in chunks(some):
            piece = blocks[name].alone([rows])
            yield run(tree, replace(scope, blocks={**nothing, name: piece}), share)
            blocks[name].read += piece.read


def _pieces(parts: Iterable[Rows]) -> Iterator[Rows]:
    for part in parts:
        for at in range(0, len(part), rows_module.CHUNK):
            yield part.between(at, at + rows_module.CHUNK)


def accumulate(
    tree: Operator, scope: Scope, held: Mapping[GroupNode, Sequence[ResultRun]], share: KeyFilter = EVERY
) -> list[Accumulated]:
    """Brings the groups of a tree that are kept as sums to the step. ``held`` are their sums before it."""
    found = []
    for inner, below in zip(tree.inputs, tree.shares(share, scope.schema)):
        found += accumulate(inner, scope, held, below)
    if isinstance(tree, GroupNode) and tree in held and tree not in scope.groups:
        (below,) = tree.shares(share, scope.schema)
        with scope.work.running(tree):
            chunks = in_chunks(tree.input, scope, below)
            new = gathered(folded(members(tree, below.within(rows), scope.terms), tree.keys) for rows in chunks)
            scope.groups[tree] = done = Accumulated(tree, scope, new, held[tree])
        found.append(done)
    return found
