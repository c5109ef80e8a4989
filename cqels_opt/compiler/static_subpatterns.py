"""Which static sub-patterns of a block are joined in advance, and how (CQELS report §4.2; DESIGN §3, §7).

Two static relations are joined in advance where the join drops a variable that no other part reads (``?paper`` of two co-authors: the
pairs are kept with their multiplicities), or where it has no more rows than the smaller relation. A star whose join would be large stays
separate relations, which are probed one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from cqels_opt.compiler.view_maintenance import Change, ViewMaintenance, joined_text, projected_text
from cqels_opt.lod.changes import change_of_join, projected
from cqels_opt.lod.relation import Relation, join, join_restrict, join_rows, restrict
from cqels_opt.lod.store import StaticPattern
from cqels_opt.query.algebra import Node

ROW_BUDGET = 50_000_000  # joined rows that the computation of a sub-result may produce
GROWTH = 16  # a sub-result may have this many times the rows of its inputs
BYTES_BUDGET = 4 << 30  # of the sub-results of a block


@dataclass(frozen=True, slots=True, eq=False)
class StaticPart:
    """A static relation of a block: a matched pattern, or (``pattern`` None) a sub-result of ``patterns`` of them.

    ``of`` has a bit for each base relation of the block that it covers, see :func:`numbered`. ``recipe`` describes how it is computed
    (empty: unknown), and ``change`` gives its difference to the previous version of the store (None: unknown).
    """

    name: str
    relation: Relation
    pattern: StaticPattern | None
    patterns: int
    of: int = 0
    recipe: str = ""
    change: Change | None = None


def name_of(predicate: Node) -> str:
    """A readable name for a pattern's relation: the local name of its predicate."""
    if not isinstance(predicate, str):
        return "triples"
    local = re.split(r"[/#:]", predicate.rstrip(">/#"))[-1]
    return re.sub(r"[^\w.-]", "_", local) or "relation"


def numbered(parts: list[StaticPart], needed: set[str]) -> list[StaticPart]:
    """The base relations of a block, without unread variables, each with a bit of its own: all designs are joins of these."""
    return [replace(restricted(part, needed | _elsewhere(parts, (part,))), of=1 << i) for i, part in enumerate(parts)]


def choose_parts(
    parts: list[StaticPart], needed: set[str], budget: int = BYTES_BUDGET, maintenance: ViewMaintenance | None = None
) -> list[StaticPart]:
    """The static relations of a block, some of them joined in advance; these have at most ``budget`` bytes.

    ``needed``: variables that are read outside the parts. With ``maintenance`` a join is updated from that over the store's previous
    version, where this is less work.
    """
    parts = [restricted(part, needed | _elsewhere(parts, (part,))) for part in parts]
    refused: set[tuple[int, int]] = set()
    while True:
        pairs = [(a, b) for a, b in combinations(parts, 2) if (id(a), id(b)) not in refused]
        found = [(rows, a, b) for a, b in pairs if (rows := _worth(a, b, parts, needed)) is not None]
        if not found:
            return parts
        _, a, b = min(found, key=lambda f: (f[0], f[1].name, f[2].name))
        kept = needed | _elsewhere(parts, (a, b))
        both = _joined(a, b, kept, maintenance)
        whole = both.relation
        others = sum(bytes_of(p.relation) for p in parts if p.of.bit_count() > 1 and p is not a and p is not b)
        if whole.rows > GROWTH * (a.relation.rows + b.relation.rows) or bytes_of(whole) + others > budget:
            refused.add((id(a), id(b)))
            continue
        parts = [part for part in parts if part is not a and part is not b]
        parts.append(both)


def _joined(a: StaticPart, b: StaticPart, kept: set[str], maintenance: ViewMaintenance | None) -> StaticPart:
    """The join of two parts, projected to the kept variables."""
    one, other = a.relation, b.relation
    names = dict.fromkeys((*one.variables, *other.variables))
    variables = [v for v in names if v in kept]
    recipe, change, whole = joined_text(a.recipe, b.recipe, variables), None, None
    if maintenance is not None and recipe and a.change is not None and b.change is not None:
        changes = a.change, b.change
        change = cache(lambda: change_of_join(one, other, changes[0](), changes[1](), variables))
        whole = maintenance.joined(recipe, one, other, change, lambda: (changes[0](), changes[1]()))
    if whole is None:
        whole = join(one, other)
        whole = restrict(whole, variables) if len(variables) < len(names) else whole
    return StaticPart(f"{a.name}_{b.name}", whole, None, a.patterns + b.patterns, a.of | b.of, recipe, change)


def bytes_of(relation: Relation) -> int:
    """The bytes of a sub-result: its columns and multiplicities, and an index on each variable."""
    indexes = [relation.index((v,)) for v in relation.variables]
    orders = sum(index.rows.nbytes for index in indexes if index.rows is not None)
    return relation.nbytes + sum(index.keys.nbytes + index.starts.nbytes for index in indexes) + orders


def join_all(parts: list[StaticPart], needed: set[str]) -> Relation:
    """The join of all parts, projected to the ``needed`` variables."""
    relations = [part.relation for part in parts]
    return joined(relations, [v for v in dict.fromkeys(v for r in relations for v in r.variables) if v in needed])


def joined(parts: Sequence[Relation], kept: Sequence[str]) -> Relation:
    """The join of all relations, projected to the kept variables: connected relations first, each variable dropped after its last join."""
    waiting = sorted(parts, key=lambda relation: relation.rows)
    whole = waiting.pop(0)
    while waiting:
        following = next_joined(whole.variables, waiting)
        later = {v for relation in waiting for v in relation.variables} | set(kept)
        variables = dict.fromkeys((*whole.variables, *following.variables))
        whole = join_restrict(whole, following, [v for v in variables if v in later])
    return restrict(whole, list(kept))


def next_joined(bound: Iterable[str], waiting: list[Relation]) -> Relation:
    """Removes from the waiting relations the smallest connected one, or else the smallest, and returns it."""
    place = next((i for i, relation in enumerate(waiting) if set(relation.variables) & set(bound)), 0)
    return waiting.pop(place)


def _elsewhere(parts: Iterable[StaticPart], but: tuple[StaticPart, ...]) -> set[str]:
    return {v for part in parts if part not in but for v in part.relation.variables}


def restricted(part: StaticPart, needed: set[str]) -> StaticPart:
    """A part projected to the needed variables, with multiplicities."""
    variables = [v for v in part.relation.variables if v in needed]
    if len(variables) == len(part.relation.variables):
        return part
    change = part.change
    return StaticPart(
        part.name,
        restrict(part.relation, variables),
        None,
        part.patterns,
        part.of,
        projected_text(part.recipe, variables),
        None if change is None else cache(lambda: projected(change(), variables)),
    )


def _worth(a: StaticPart, b: StaticPart, parts: list[StaticPart], needed: set[str]) -> int | None:
    """The rows of the join where it pays off to compute it in advance, else None."""
    shared = set(a.relation.variables) & set(b.relation.variables)
    if not shared:
        return None
    rows = join_rows(a.relation, b.relation)
    if rows <= min(a.relation.rows, b.relation.rows):
        return rows
    drops = shared - needed - _elsewhere(parts, (a, b))
    return rows if drops and rows <= ROW_BUDGET else None
