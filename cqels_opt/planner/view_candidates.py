"""The designs of a block: which of its static parts are joined in advance, and the size of sub-results that are not built yet.

Under every design a block has the same occurrences, filters and output, and gives the same bag: a sub-result is projected to the variables
read outside its group, with multiplicities. So executors receive another block with the same name, and no state moves.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cqels_opt.compiler.static_subpatterns import bytes_of, joined, next_joined
from cqels_opt.lod.materialized_views import RELATION, SubResult, find, find_or_compute
from cqels_opt.lod.relation import Relation, join_restrict, join_rows, restrict
from cqels_opt.lod.store import Store
from cqels_opt.operators.blocks import Block, Static
from cqels_opt.plans import system_r
from cqels_opt.plans.cost import Constants
from cqels_opt.plans.relation_set import RelationSet, members
from cqels_opt.plans.view_selection import Design, design_of

KEYS = 512  # distinct keys in the sample that measures a sub-result
SAMPLE_ROWS = 500_000  # joined rows that a measurement passes through at most
FILES = 0.05  # seconds to write and open the files of a sub-result
SORT = 1.5e-7  # seconds per row and column that is sorted


# ------------------------------------------------------------------ blocks
def default_design(block: Block) -> Design:
    """The design that was compiled."""
    return design_of([static.of for static in block.inner])


def adjacency(block: Block) -> list[RelationSet]:
    """For each part the set of parts that share a variable with it."""
    found = []
    for i, one in enumerate(block.parts):
        shares = [j for j, other in enumerate(block.parts) if j != i and set(one.variables) & set(other.variables)]
        found.append(sum(1 << j for j in shares))
    return found


def kept_variables(block: Block, group: RelationSet) -> tuple[str, ...]:
    """The variables of a sub-result: those that are read outside of it."""
    inside = dict.fromkeys(v for i in members(group) for v in block.parts[i].variables)
    outside = {v for i, part in enumerate(block.parts) if not group >> i & 1 for v in part.variables}
    return tuple(v for v in inside if v in block.needed or v in outside)


def relation_name(block: Block, group: RelationSet) -> str:
    """The name of a group's relation in plans: the compiled one, or the names of its parts."""
    there = next((static.name for static in (*block.inner, *block.parts) if static.of == group), None)
    name = there or "+".join(block.parts[i].name for i in members(group))
    merged = {occurrence.name for occurrence in block.occurrences}  # those of merged windows are made in the same way
    return name if there or name not in merged else f"{name}#static"


def contents(block: Block, group: RelationSet) -> tuple[Hashable, ...]:
    """All that a group's relation is made from. Blocks of several queries can have the same names for other relations."""
    return relation_name(block, group), group, tuple(block.parts[i] for i in members(group)), kept_variables(block, group)


def redesigned(block: Block, statics: Sequence[Static]) -> Block:
    """The block with other static relations, in the order of their parts."""
    chosen = (*sorted(statics, key=lambda s: s.of & -s.of), *block.units)
    return replace(block, statics=chosen, written=(*(o.name for o in block.occurrences), *(s.name for s in chosen)))


def part_relations(block: Block, store: Store, group: RelationSet) -> list[Relation]:
    """The parts of a group, with the block's variable names. They are opened again, so a thread shares nothing with the batches."""
    found = []
    for i in members(group):
        part = block.parts[i]
        relation = Relation.open(Path(part.at)) if isinstance(part.at, str) else store.match(part.at)
        found.append(relation.rename(dict(zip(relation.variables, part.variables))))
    return found


# ------------------------------------------------------------------ sizes of sub-results
@dataclass(frozen=True, slots=True)
class Measured:
    """The size of a sub-result: before it is built from a sample of its keys, afterwards as counted.

    ``rows`` are distinct rows, ``total`` counts them with multiplicities, ``passed`` are the rows that joining the parts passes through.
    ``carriers`` names for each variable a part that has it, and that part's rows. Until there is an index, a window's join with the
    sub-result is estimated as its exact join with that part, times the rows of the sub-result per row of the part.
    """

    rows: float
    total: float
    passed: float
    bytes: float
    columns: int
    distincts: Mapping[str, float]
    carriers: Mapping[str, tuple[str, int]]

    @property
    def repeated(self) -> float:
        """The average multiplicity of a row."""
        return self.total / self.rows if self.rows else 1.0

    def seconds(self, constants: Constants) -> float:
        """Seconds to build it: joined rows are sorted by all columns and written, then each column is sorted for its index."""
        c, columns = constants, max(self.columns, 1)
        joined = self.passed * (c.look_up(self.passed) + c.produce + columns * SORT)
        return FILES + float(joined) + self.rows * columns * (SORT + c.scan)


def measure(block: Block, store: Store, group: RelationSet) -> Measured:
    """The size of a group's sub-result, from a sample.

    Some keys of one kept variable are drawn, evenly over its index; their rows are joined with the other parts and projected. The sample
    has all rows of a drawn key, so its distinct rows and multiplicities scale to the whole (up to the draw).
    """
    parts, kept = part_relations(block, store, group), kept_variables(block, group)
    carried = [(len(r.index((v,)).keys), i, v) for i, r in enumerate(parts) for v in r.variables if v in kept]
    if not carried:
        made = joined(parts, kept)
        return _described(block, group, parts, kept, made.rows, made.total)
    keys, place, variable = max(carried)
    drawn = min(KEYS, keys)
    sample, least = _sample(parts, place, variable, drawn, kept)
    while sample is None and drawn > 1:
        drawn = max(1, drawn // 8)
        sample, least = _sample(parts, place, variable, drawn, kept)
    scale = keys / drawn if drawn else 0.0
    if sample is None:
        return _described(block, group, parts, kept, least * scale, least * scale)
    return _described(block, group, parts, kept, sample.rows * scale, sample.total * scale)


def _sample(parts: Sequence[Relation], place: int, variable: str, drawn: int, kept: Sequence[str]) -> tuple[Relation | None, int]:
    """The sub-result of some keys, or None if it is too large; with its least number of rows before projection."""
    index = parts[place].index((variable,))
    keys = np.asarray(index.keys)[np.linspace(0, len(index.keys) - 1, drawn).astype(np.int64)] if drawn else index.keys[:0]
    whole = parts[place].take(index.lookup(keys)[1])
    waiting = sorted((r for i, r in enumerate(parts) if i != place), key=lambda relation: relation.rows)
    while waiting:
        following = next_joined(whole.variables, waiting)
        rows = join_rows(whole, following)
        if rows > SAMPLE_ROWS:
            return None, rows
        later = {v for relation in waiting for v in relation.variables} | set(kept)
        variables = dict.fromkeys((*whole.variables, *following.variables))
        whole = join_restrict(whole, following, [v for v in variables if v in later])
    return restrict(whole, list(kept)), whole.rows


def _passed(parts: Sequence[Relation], total: float) -> float:
    """The rows that :func:`joined` passes through: the last join as measured, earlier joins by distinct values (System R)."""
    waiting = sorted(parts, key=lambda relation: relation.rows)
    whole = waiting.pop(0)
    rows = passed = float(whole.rows)
    values: dict[str, float] = {v: whole.distinct(v) for v in whole.variables}
    while waiting:
        following = next_joined(values, waiting)
        rows = system_r.join_rows(rows, values, following.rows, {v: following.distinct(v) for v in following.variables})
        passed += rows if waiting else total
    return passed


def _described(
    block: Block, group: RelationSet, parts: Sequence[Relation], kept: Sequence[str], rows: float, total: float
) -> Measured:
    names = [block.parts[i].name for i in members(group)]
    distincts, carriers = {}, {}
    for v in kept:
        having = [(r.distinct(v), name, r.rows) for name, r in zip(names, parts) if v in r.variables]
        fewest, name, length = min(having)
        distincts[v], carriers[v] = min(float(fewest), rows), (name, length)
    size = 8 * rows * (len(kept) + 1) + sum(16 * distincts[v] + 4 * rows for v in kept)
    return Measured(rows, total, _passed(parts, total), size, len(kept), distincts, carriers)


def as_made(relation: Relation) -> Measured:
    """The size of a sub-result that is built; its build time is estimated from its rows."""
    total = float(relation.total)
    distincts = {v: float(relation.distinct(v)) for v in relation.variables}
    return Measured(float(relation.rows), total, total, float(bytes_of(relation)), len(relation.variables), distincts, {})


# ------------------------------------------------------------------ files
def _description(block: Block, group: RelationSet, parts: Sequence[Relation]) -> str:
    """The text that identifies a group's sub-result over a store."""
    described = [
        (repr(block.parts[i].at) if r.checksum is None else r.checksum, r.variables) for i, r in zip(members(group), parts)
    ]
    return repr((sorted(described), kept_variables(block, group)))


def make(root: Path, block: Block, store: Store, group: RelationSet) -> Static:
    """Builds the sub-result of a group in a folder below ``root``, completely or not at all; an existing one is used."""
    parts, kept = part_relations(block, store, group), kept_variables(block, group)
    at, indexes = _description(block, group, parts), [(v,) for v in kept]
    found, _ = find_or_compute(root, store.fingerprint, at, indexes, lambda: joined(parts, kept))
    return _static(block, group, found)


def find_made(root: Path, block: Block, store: Store, group: RelationSet) -> Static | None:
    """The sub-result of a group, if it is built."""
    parts, kept = part_relations(block, store, group), kept_variables(block, group)
    found = find(root, store.fingerprint, _description(block, group, parts), [(v,) for v in kept])
    return None if found is None else _static(block, group, found)


def _static(block: Block, group: RelationSet, found: SubResult) -> Static:
    patterns = sum(block.parts[i].patterns for i in members(group))
    at = str(found.folder / RELATION)
    return Static(relation_name(block, group), found.relation.variables, at, found.relation.rows, patterns, of=group)
