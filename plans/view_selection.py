"""View selection: which static sub-patterns are pre-computed (CQELS report, §4.2).

The static *parts* of a block are its patterns. A *design* partitions the parts; each group of two or more is joined before the run and is a
sub-result (a materialized view of a static sub-pattern). The best plans of a design and of its neighbours are priced with every batch, and
:class:`ViewBenefits` adds up the savings of each other design. A design is taken once its savings exceed the cost of building it. This is
online index selection (Bruno & Chaudhuri 2007, *An Online Approach to Physical Design Tuning*), with the rule of the ski rental problem:
the cost is at most a constant times that of an optimal decision in hindsight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from cqels_opt.plans.plan import Multiway, Plan, Scan, relations, right_side
from cqels_opt.plans.relation_set import RelationSet, members, size

Design: TypeAlias = "tuple[RelationSet, ...]"
"""Groups of parts in the order of their bits; together they are all parts."""

MARGIN = 0.1
"""Only savings beyond this share of the current cost count, so that near ties never add up."""

PATIENCE = 2.0
"""A switch, also one without anything to build, must have saved the cost of this many batches."""


def design_of(groups: Sequence[RelationSet]) -> Design:
    """The groups as a design."""
    return tuple(sorted(groups))


def neighbours(design: Design, adjacent: Sequence[RelationSet]) -> list[Design]:
    """The designs one step away: two joined groups as one, one group taken apart, or one part taken out of a group.

    ``adjacent`` has for each part those that it shares a variable with.
    """
    found: dict[Design, None] = {}
    for one, other in combinations(design, 2):
        if _reach(one, adjacent) & other:
            found[_with(design, (one, other), (one | other,))] = None
    for group in design:
        single = [1 << i for i in members(group)]
        if len(single) > 1:
            found[_with(design, (group,), single)] = None
        for part in single if len(single) > 2 else ():
            if _connected(group & ~part, adjacent):
                found[_with(design, (group,), (group & ~part, part))] = None
    return list(found)


def suggested(design: Design, plan: Plan, group_of: Mapping[str, RelationSet], adjacent: Sequence[RelationSet]) -> list[Design]:
    """The designs that pre-compute a join of static relations that the plan repeats with every batch, in sequence or in a bushy part.

    They can be several steps away, where :func:`neighbours` finds no single step that pays off. ``group_of`` has the static relations.
    """
    found: dict[Design, None] = {}
    for run in _runs(plan, group_of):
        for first in range(len(run)):
            for last in range(first + 1, len(run) + 1):
                groups = [group for part in run[first:last] for group in part]
                whole = sum(groups)
                if len(groups) > 1 and _connected(whole, adjacent):
                    found[_with(design, groups, (whole,))] = None
    return list(found)


def _runs(plan: Plan, group_of: Mapping[str, RelationSet]) -> list[list[list[RelationSet]]]:
    """The runs of consecutive static relations in a plan: for each step, the groups that it joins."""
    runs: list[list[list[RelationSet]]] = [[]]
    inner: list[list[list[RelationSet]]] = []
    for part in _spine(plan):
        names = relations(part)
        if all(name in group_of for name in names):
            runs[-1].append([group_of[name] for name in names])
        else:
            runs.append([])
        if not isinstance(part, Scan):
            inner += _runs(part, group_of)
    return [run for run in (*runs, *inner) if run]


def _spine(plan: Plan) -> list[Plan]:
    """The right sides along the left spine of a plan, and the relation that it begins with."""
    spine: list[Plan] = []
    while not isinstance(plan, Scan):
        spine += map(Scan, reversed(plan.relations)) if isinstance(plan, Multiway) else [right_side(plan)]
        plan = plan.input
    return [plan, *reversed(spine)]


def _with(design: Design, gone: Sequence[RelationSet], come: Sequence[RelationSet]) -> Design:
    return design_of([*(group for group in design if group not in gone), *come])


def _reach(group: RelationSet, adjacent: Sequence[RelationSet]) -> RelationSet:
    reached = 0
    for i in members(group):
        reached |= adjacent[i]
    return reached


def _connected(group: RelationSet, adjacent: Sequence[RelationSet]) -> bool:
    seen, front = 0, group & -group
    while front:
        seen |= front
        front = _reach(front, adjacent) & group & ~seen
    return seen == group


def saving(cost: float, current: float) -> float:
    """What a batch saves with a design in which it costs ``cost`` instead of ``current``, beyond the margin; negative if it loses."""
    return current * (1 - MARGIN) - cost


@dataclass(slots=True)
class ViewBenefits:
    """The savings of each other design since the current one was taken; at least 0.

    A design that was taken and given up before must save twice as much each time.
    """

    saved: dict[Design, float] = field(default_factory=dict)
    taken: dict[Design, int] = field(default_factory=dict)

    def record(self, design: Design, cost: float, current: float, batches: int = 1) -> None:
        """A design would have cost this in a batch where the current one cost ``current``; the costs hold for several ``batches``."""
        self.saved[design] = max(0.0, self.saved.get(design, 0.0) + saving(cost, current) * batches)

    def due(self, builds: Mapping[Design, float], current: float) -> Design | None:
        """Among designs with the cost of building each, the one with the highest net savings; None if no design has any."""
        asked = {d: build + PATIENCE * current * 2 ** self.taken.get(d, 0) for d, build in builds.items()}
        ahead = {d: self.saved[d] - seconds for d, seconds in asked.items() if self.saved.get(d)}
        best = max(ahead, key=lambda d: (ahead[d], -max(map(size, d))), default=None)
        return best if best is not None and ahead[best] > 0 else None

    def take(self, design: Design) -> None:
        """The design is the current one from now on."""
        self.saved = {}
        self.taken[design] = self.taken.get(design, 0) + 1
