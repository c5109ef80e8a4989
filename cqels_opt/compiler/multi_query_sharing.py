"""Which of a run's queries share a program: those that differ in constants only, and mean the same (DESIGN §9).

What shares is found again whenever queries come or go, and always alike: a run that starts again over its checkpoint has the same programs
with the same names, and the same number for each query.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from cqels_opt.compiler.dialect_profile import QuerySemantics
from cqels_opt.query.algebra import Query
from cqels_opt.query.outlines import Outline
from cqels_opt.query.templates import Template, template_of

Record: TypeAlias = "dict[str, Any]"
"""What registers a query, as JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A query of a run: its name, what it means, and its outline (None: it is on its own). ``budget`` bounds its sub-results.

    ``record`` is what registered it.
    """

    id: str
    query: Query
    meaning: QuerySemantics
    outline: Outline | None
    budget: int
    record: Record = field(repr=False)

    @property
    def kind(self) -> Hashable:
        """What queries must have in common to share."""
        return (self.id,) if self.outline is None else (self.outline.query, repr(self.meaning), self.budget)


@dataclass(frozen=True, slots=True, eq=False)
class SharedProgram:
    """Queries with one program: one alone, or, under a ``template``, several by their numbers.

    ``since`` is the least number of the queries that the last change brought, ``following`` the one that the next query gets.
    """

    id: str
    members: tuple[tuple[int, Member], ...]
    template: Template | None = None
    since: int = 1
    following: int = 1

    @property
    def first(self) -> Member:
        """One of the queries, which stands for the others."""
        return self.members[0][1]

    @property
    def query(self) -> Query:
        """What is compiled."""
        if self.template is None:
            return self.first.query
        values = {}
        for number, member in self.members:
            assert member.outline is not None
            mine = self.template.values(member.outline)
            assert mine is not None
            values[number] = mine
        return replace(self.template.shared(values), file=self.first.query.file)

    def takes(self, member: Member) -> bool:
        """Whether a query is one of the template's."""
        if self.template is None or member.outline is None or member.kind != self.first.kind:
            return False
        return self.template.values(member.outline) is not None

    def having(self, members: Sequence[Member]) -> SharedProgram:
        """The unit with more queries."""
        numbered = tuple(enumerate(members, self.following))
        return replace(
            self,
            members=(*self.members, *numbered),
            since=self.following,
            following=self.following + len(members),
        )

    def without(self, names: set[str]) -> SharedProgram:
        """The unit without some queries."""
        left = tuple((number, member) for number, member in self.members if member.id not in names)
        return replace(self, members=left, since=self.following)


def alone(member: Member) -> SharedProgram:
    """A query with a program of its own."""
    return SharedProgram(member.id, ((1, member),))


@dataclass(slots=True)
class Sharing:
    """The units of a run, in the order in which they came."""

    units: list[SharedProgram] = field(default_factory=list)

    @property
    def members(self) -> list[Member]:
        """All queries."""
        return [member for unit in self.units for _, member in unit.members]

    def copy(self) -> Sharing:
        """The same units; what happens to one of the two does not happen to the other."""
        return Sharing([*self.units])

    def add(self, members: Iterable[Member]) -> None:
        """Takes queries in: into the template that they fit, else into one with others of their kind, else each on its own."""
        waiting: dict[Hashable, list[Member]] = {}
        for member in members:
            waiting.setdefault(member.kind, []).append(member)
        for some in waiting.values():
            for place, unit in enumerate(self.units):
                if fitting := [member for member in some if unit.takes(member)]:
                    self.units[place] = unit.having(fitting)
                    taken = {member.id for member in fitting}
                    some = [member for member in some if member.id not in taken]
            if some:
                self._found(some)

    def _found(self, some: Sequence[Member]) -> None:
        """A new unit for queries of one kind. One that is there already says in what they differ, but stays as it is."""
        there = next((unit.first for unit in self.units if unit.first.kind == some[0].kind), None)
        outlines = [member.outline for member in (*some, *([there] if there is not None else [])) if member.outline is not None]
        if len(outlines) < 2:
            self.units += map(alone, some)
            return
        names = {unit.id for unit in self.units} | {member.id for member in (*self.members, *some)}
        name = f"like-{some[0].id}"
        while name in names:
            name += "_"
        numbered = tuple(enumerate(some, 1))
        self.units.append(SharedProgram(name, numbered, template_of(outlines), following=len(some) + 1))

    def remove(self, names: Iterable[str]) -> None:
        """Takes queries out."""
        gone = set(names)
        changed = []
        for unit in self.units:
            if not any(member.id in gone for _, member in unit.members):
                changed.append(unit)
            elif (left := unit.without(gone)).members:
                changed.append(left)
        self.units = changed
