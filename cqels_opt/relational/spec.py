"""The specification of a join: relations, some of them windows over the stream, join equalities, and filters.

Columns that are equal to each other are one *variable* of the query graph, so that the optimizer can join on any two of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cqels_opt.errors import InputError
from cqels_opt.plans import FilterNode as GraphFilter
from cqels_opt.plans import QueryGraph
from cqels_opt.plans import RelationNode as GraphRelation
from cqels_opt.query.durations import milliseconds
from cqels_opt.relational.conditions import ColumnReference, JoinFilter, equalities, filters

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
TIME = "time"
"""The column of the answers with the event time."""

NOW = 1
"""Validity of a row in the window NOW, in milliseconds."""


@dataclass(frozen=True, slots=True)
class JoinInput:
    """A relation. One over the stream has a ``window`` in milliseconds (None: the micro-batch alone) and a column of ``time``."""

    name: str
    static: bool
    window: int | None = None
    time: str | None = None

    @property
    def key(self) -> str:
        """The name in lower case, because Spark ignores case."""
        return self.name.lower()


def window_of(text: str | None) -> int | None:
    """Milliseconds of ``30s`` and the like; ``now`` is the instant of the row itself."""
    if text is None:
        return None
    if text.strip().lower() == "now":
        return NOW
    try:
        found = milliseconds(text)
    except ValueError as error:
        raise InputError(f"window={text!r}: {error}") from error
    if found < NOW:
        raise InputError(f"window={text!r}: a window is at least 1 ms; 'now' holds the rows of one instant")
    return found


@dataclass(frozen=True)
class JoinSpec:
    """Relations in order of declaration, and conditions. Immutable: each addition returns a new specification."""

    relations: tuple[JoinInput, ...] = ()
    equal: tuple[tuple[ColumnReference, ColumnReference], ...] = ()
    filters: tuple[JoinFilter, ...] = ()

    # ------------------------------------------------------------------ building
    def relation(self, relation: JoinInput) -> JoinSpec:
        """Adds a relation."""
        if not _NAME.fullmatch(relation.name):
            raise InputError(f"relation({relation.name!r}): a name is a letter or _, then letters, digits and _")
        if relation.key == TIME:
            raise InputError(
                f"relation({relation.name!r}): the column {TIME} of the answers is their event time; use another name"
            )
        if any(relation.key == other.key for other in self.relations):
            raise InputError(f"relation({relation.name!r}): there is a relation of this name already")
        return replace(self, relations=(*self.relations, relation))

    def on(self, text: str) -> JoinSpec:
        """Adds join equalities."""
        found = equalities(text)
        for column in (side for pair in found for side in pair):
            self._known(column.relation, f"on({text!r})")
        return replace(self, equal=(*self.equal, *found))

    def where(self, text: str) -> JoinSpec:
        """Adds conditions on columns of any relations."""
        found = filters(text)
        for condition in found:
            for name in sorted(condition.relations):
                self._known(name, f"where({text!r})")
        return replace(self, filters=(*self.filters, *found))

    def checked(self) -> JoinSpec:
        """Returns this specification if it can run; raises InputError otherwise."""
        if not self.streams:
            raise InputError("none of the relations is over the stream: relation(name) without a DataFrame is")
        windows = [r for r in self.streams if r.window is not None]
        if windows and len(windows) < len(self.streams):
            bare = next(r.name for r in self.streams if r.window is None)
            raise InputError(f"relation({bare!r}) needs a window, as {windows[0].name} has one: 'now' for the row's own instant")
        if other := next((r for r in self.streams if r.time != self.streams[0].time), None):
            raise InputError(
                f"relation({other.name!r}): its time is {other.time}, that of {self.streams[0].name} is {self.streams[0].time}; "
                "all windows over a stream read one column of times"
            )
        return self

    @property
    def time(self) -> str | None:
        """The stream's column of event times."""
        return self.streams[0].time

    @property
    def widest(self) -> int:
        """The width of the widest window in milliseconds."""
        return max(relation.window or 0 for relation in self.streams)

    def _known(self, name: str, where: str) -> None:
        if all(name != relation.key for relation in self.relations):
            known = ", ".join(relation.name for relation in self.relations) or "none yet"
            raise InputError(f"{where}: there is no relation {name}; there are {known}")

    # ------------------------------------------------------------------ derived properties
    @property
    def streams(self) -> tuple[JoinInput, ...]:
        """The relations over the stream."""
        return tuple(relation for relation in self.relations if not relation.static)

    @property
    def statics(self) -> tuple[JoinInput, ...]:
        """All other relations."""
        return tuple(relation for relation in self.relations if relation.static)

    @property
    def stateful(self) -> bool:
        """Whether rows of the stream join with each other, so that the rows of windows must be retained."""
        return len(self.streams) > 1

    @cached_property
    def variables(self) -> dict[str, dict[str, tuple[ColumnReference, ...]]]:
        """The variables, each with its columns by relation key; equal columns are one variable."""
        classes: list[list[ColumnReference]] = []
        for left, right in self.equal:
            touched = [c for c in classes if left in c or right in c]
            merged = list(dict.fromkeys([*(x for c in touched for x in c), left, right]))
            classes = [c for c in classes if c not in touched] + [merged]
        order = {relation.key: number for number, relation in enumerate(self.relations)}
        found: dict[str, dict[str, tuple[ColumnReference, ...]]] = {}
        for columns in classes:
            columns.sort(key=lambda column: (order[column.relation], column.path))
            name = base = "_".join(columns[0].path)
            number = 1
            while name in found:
                number += 1
                name = f"{base}_{number}"
            of: dict[str, tuple[ColumnReference, ...]] = {}
            for column in columns:
                of[column.relation] = (*of.get(column.relation, ()), column)
            found[name] = of
        return found

    def joins_on(self, key: str) -> tuple[str, ...]:
        """The variables of a relation, by its key."""
        return tuple(name for name, columns in self.variables.items() if key in columns)

    def own_filters(self, key: str) -> tuple[str, ...]:
        """The conditions on a relation's rows alone: its filters, and equalities between its own columns."""
        alone = [condition.text for condition in self.filters if condition.relations <= {key}]
        return (*alone, *(f"{a.sql} = {b.sql}" for a, b in self._inside(key)))

    def _inside(self, key: str) -> Iterator[tuple[ColumnReference, ColumnReference]]:
        for columns in self.variables.values():
            first, *others = columns.get(key, ()) or (None,)
            for other in others:
                if first is not None and other is not None:
                    yield first, other

    @cached_property
    def graph(self) -> QueryGraph:
        """The query graph. A filter of several relations reads one more variable of each, so that it applies after their join."""
        between = {f"where {c.text}": c for c in self.filters if len(c.relations) > 1}
        read = {name for condition in between.values() for name in condition.relations}
        relations = [
            GraphRelation(r.name, frozenset([*self.joins_on(r.key), *([_rows_of(r.key)] if r.key in read else [])]), not r.static)
            for r in self.relations
        ]
        conditions = [GraphFilter(name, frozenset(map(_rows_of, c.relations))) for name, c in between.items()]
        return QueryGraph(relations, conditions)

    @property
    def between(self) -> dict[str, str]:
        """The conditions of the graph's filters, by name."""
        return {condition.name: condition.name.removeprefix("where ") for condition in self.graph.filters}

    def equality(self, variable: str, left: Sequence[str], right: Sequence[str]) -> str:
        """The join condition on a variable between two parts, given as relation keys."""
        of = self.variables[variable]
        one = next(of[key][0] for key in left if key in of)
        other = next(of[key][0] for key in right if key in of)
        return f"{one.sql} = {other.sql}"


def _rows_of(key: str) -> str:
    return f"{key}.*"
