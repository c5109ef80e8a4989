"""Which queries of a run share a program: those that differ only in constants, and have the same semantics (DESIGN §9).

The grouping is recomputed whenever queries are added or removed, and is deterministic: a run that restarts from its checkpoint has the
same programs with the same names, and the same number for each query.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from cqels_opt.compiler.dialect_profile import QuerySemantics
from cqels_opt.operators.typed_columns import ColumnTypes
from cqels_opt.query.algebra import Query
from cqels_opt.query.outlines import Outline
from cqels_opt.query.templates import Template, template_of

Record: TypeAlias = "dict[str, Any]"
"""The registration of a query, as JSON."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Member:
    """A query of a run: its name, semantics and outline (None: it shares no program). ``budget`` limits the bytes of its sub-results.

    ``record`` is its registration.
    """

    id: str
    query: Query
    meaning: QuerySemantics
    outline: Outline | None
    budget: int
    record: Record
    types: ColumnTypes = ()

    def __repr__(self) -> str:
        return f"Member({self.id!r}, {self.query.dialect})"

    @property
    def kind(self) -> Hashable:
        """Queries with equal kinds can share a program."""
        return (self.id,) if self.outline is None else (self.outline.query, repr(self.meaning), self.budget, self.types)


@dataclass(frozen=True, slots=True, eq=False)
class SharedProgram:
    """Queries with one program: a single one, or the numbered instances of a ``template``.

    ``since`` is the lowest number that the last change added, ``following`` the number of the next query.
    """

    id: str
    members: tuple[tuple[int, Member], ...]
    template: Template | None = None
    since: int = 1
    following: int = 1

    @property
    def first(self) -> Member:
        """The first query: what is common to all can be read from it."""
        return self.members[0][1]

    @property
    def query(self) -> Query:
        """The query that is compiled for all of them."""
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
        """Whether a query is an instance of the template."""
        if self.template is None or member.outline is None or member.kind != self.first.kind:
            return False
        return self.template.values(member.outline) is not None

    def continues(self, before: SharedProgram | None) -> bool:
        """Whether this is a program from before, perhaps with other queries, and not another one under the name of a removed one."""
        return self is before or (before is not None and self.template is not None and self.template is before.template)

    def with_members(self, members: Sequence[Member], since: int) -> SharedProgram:
        """The program with more queries; those from number ``since`` on are new in this change."""
        numbered = tuple(enumerate(members, self.following))
        return replace(
            self,
            members=(*self.members, *numbered),
            since=since,
            following=self.following + len(members),
        )

    def without_members(self, names: set[str], since: int) -> SharedProgram:
        """The program without some queries; those from number ``since`` on are new in this change."""
        left = tuple((number, member) for number, member in self.members if member.id not in names)
        return replace(self, members=left, since=since)


def alone(member: Member) -> SharedProgram:
    """The program of a query that shares it with no other."""
    return SharedProgram(member.id, ((1, member),))


@dataclass(slots=True)
class Sharing:
    """The programs of a run, in the order in which they were added.

    Each change is of a copy, which notes the next number of each program: the steps of a change agree on which instances are new.
    """

    units: list[SharedProgram] = field(default_factory=list)
    _began: dict[str, int] = field(default_factory=dict)  # the number of the next query of each program, before the change

    @property
    def members(self) -> list[Member]:
        """All queries."""
        return [member for unit in self.units for _, member in unit.members]

    def copy(self) -> Sharing:
        """An independent copy."""
        return Sharing([*self.units], {unit.id: unit.following for unit in self.units})

    def add(self, members: Iterable[Member]) -> None:
        """Adds queries: to a template that they fit, else to a new template with others of their kind, else as single queries."""
        waiting: dict[Hashable, list[Member]] = {}
        for member in members:
            waiting.setdefault(member.kind, []).append(member)
        for some in waiting.values():
            for place, unit in enumerate(self.units):
                if fitting := [member for member in some if unit.takes(member)]:
                    self.units[place] = unit.with_members(fitting, self._began.get(unit.id, 1))
                    taken = {member.id for member in fitting}
                    some = [member for member in some if member.id not in taken]
            if some:
                self._found(some)

    def _found(self, some: Sequence[Member]) -> None:
        """Adds a program for queries of one kind. An existing query of this kind keeps its program, but helps to find where they differ."""
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
        """Removes queries."""
        gone = set(names)
        changed = []
        for unit in self.units:
            if not any(member.id in gone for _, member in unit.members):
                changed.append(unit)
            elif (left := unit.without_members(gone, self._began.get(unit.id, 1))).members:
                changed.append(left)
            else:
                self._began.pop(unit.id, None)  # another program may have its name
        self.units = changed
