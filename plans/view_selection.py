"""Which static sub-patterns are pre-computed, as a search beside that for plans (CQELS report, §4.2).

The static *parts* of a block are its patterns. A *design* says which of them are joined beforehand: it partitions the parts, and each
group of two or more is a sub-result. The best plans of a design and of its neighbours are priced with every batch, and a
:class:`ViewBenefits` adds up what another design would have saved. It is taken once it would have paid for its making. This is online
index selection: "An Online Approach to Physical Design Tuning" (Bruno and Chaudhuri, ICDE 2007), whose rule is that of the ski
rental: the cost is at most a constant times that of knowing the future.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from cqels_opt.plans.plan import Plan, Scan, relations, right_side
from cqels_opt.plans.relation_set import RelationSet, members, size

Design: TypeAlias = "tuple[RelationSet, ...]"
"""Groups of parts in the order of their bits; together they are all parts."""

MARGIN = 0.1
"""Only what a design saves beyond this share of the current cost counts: near ties never add up."""

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
    """What a plan joins, one static relation after the other or in a bushy part, with every batch again, as a sub-result.

    One step leads nowhere where a bushy part does at run time what two steps would do beforehand. ``group_of`` has the static relations.
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
    """The stretches of a plan without a stream: of each step there, the groups that it joins."""
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
        spine.append(right_side(plan))
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


@dataclass(slots=True)
class ViewBenefits:
    """What each other design would have saved since the current one was taken; never below nothing.

    A design that was taken before, and did not keep what it promised, must show twice as much each time.
    """

    saved: dict[Design, float] = field(default_factory=dict)
    taken: dict[Design, int] = field(default_factory=dict)

    def note(self, design: Design, cost: float, current: float, batches: int = 1) -> None:
        """A design would have cost this in a batch where the current one cost ``current``; it stands for several batches."""
        gain = (current * (1 - MARGIN) - cost) * batches
        self.saved[design] = max(0.0, self.saved.get(design, 0.0) + gain)

    def due(self, builds: Mapping[Design, float], current: float) -> Design | None:
        """Of these designs, with what it costs to build each, the one that has paid for itself best; None where none has."""
        asked = {d: build + PATIENCE * current * 2 ** self.taken.get(d, 0) for d, build in builds.items()}
        ahead = {d: self.saved[d] - seconds for d, seconds in asked.items() if self.saved.get(d)}
        best = max(ahead, key=lambda d: (ahead[d], -max(map(size, d))), default=None)
        return best if best is not None and ahead[best] > 0 else None

    def take(self, design: Design) -> None:
        """The design is the current one from now on."""
        self.saved = {}
        self.taken[design] = self.taken.get(design, 0) + 1
