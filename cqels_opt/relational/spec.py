"""The specification of a join: relations, some of them windows over the stream, join equalities, and filters.

Keys that are equal to each other are one *variable* of the query graph, so that the optimizer can join on any two of them. The right
side of a left, semi or anti join is a *unit* of the graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from cqels_opt.errors import InputError
from cqels_opt.plans import FilterNode, QueryGraph, RelationNode
from cqels_opt.plans.query_graph import JoinKind
from cqels_opt.query.durations import duration_of
from cqels_opt.relational.column_names import plan_name
from cqels_opt.relational.conditions import Condition, JoinKey, parsed
from cqels_opt.relational.planner import JoinLayout
from cqels_opt.relational.progress import EventTime

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
TIME = "time"
"""The column of the answers with the event time."""

NOW = 1
"""Validity of a row in the window NOW, in milliseconds."""


HOWS: Mapping[str, JoinKind] = {
    "inner": "inner",
    "left": "optional",
    "leftouter": "optional",
    "left_outer": "optional",
    "semi": "semi",
    "leftsemi": "semi",
    "left_semi": "semi",
    "anti": "anti",
    "leftanti": "anti",
    "left_anti": "anti",
}
"""The kinds of joins, by their names in PySpark."""


@dataclass(frozen=True, slots=True)
class JoinInput:
    """A relation. One over the stream has a ``window`` in milliseconds (None: the micro-batch alone) and a column of ``time``.

    ``lateness`` and ``idle`` are those of the stream with this time, in milliseconds; None: not given here.
    """

    name: str
    static: bool
    window: int | None = None
    time: str | None = None
    kind: JoinKind = "inner"
    lateness: int | None = None
    idle: int | None = None

    @property
    def key(self) -> str:
        """The name in lower case, because Spark ignores case."""
        return self.name.lower()


def window_of(text: int | str | None) -> int | None:
    """Milliseconds of ``30s`` and the like; ``now`` is the instant of the row itself."""
    if text is None:
        return None
    if isinstance(text, str) and text.strip().lower() == "now":
        return NOW
    found = duration_of(text, "window")
    if found < NOW:
        raise InputError(f"window={text!r}: a window is at least 1 ms; 'now' holds the rows of one instant")
    return found


@dataclass(frozen=True)
class JoinSpec:
    """Relations in order of declaration, and conditions. Immutable: each addition returns a new specification.

    ``joined`` has the conditions of :meth:`on` that read a unit, by its key; ``conditions`` all others.
    """

    relations: tuple[JoinInput, ...] = ()
    conditions: tuple[Condition, ...] = ()
    joined: Mapping[str, tuple[Condition, ...]] = field(default_factory=dict)

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
        if relation.kind != "inner" and not relation.static:
            raise InputError(f"relation({relation.name!r}): how is for a relation with a DataFrame; the stream is the left side")
        return replace(self, relations=(*self.relations, relation))

    def on(self, text: str) -> JoinSpec:
        """Adds join conditions.

        If the text reads the right side of a left, semi or anti join, its conditions decide which rows of that side match, as in the ON of
        SQL: also those on the left side alone. Only equalities between two other relations join these.
        """
        found, where = self, f"on({text!r})"
        conditions = parsed(text, "on")
        sides = sorted({name for c in conditions for name in c.relations if self._known(name, where).kind != "inner"})
        for condition in conditions:
            own = [name for name in sides if name in condition.relations]
            if len(own) > 1:
                raise InputError(
                    f"{where}: {condition.text} reads {' and '.join(own)}, which are both right sides of joins; "
                    "cq.adaptive and cq.adaptive_sql take such joins in the order in which they are written"
                )
            if sides and not own and condition.keys is None:
                if len(sides) > 1:
                    raise InputError(
                        f"{where}: {condition.text} can belong to the join of {' or of '.join(sides)}: give each an on(…) of its own"
                    )
                own = sides
            if own:
                found = replace(found, joined={**found.joined, own[0]: (*found.joined.get(own[0], ()), condition)})
            else:
                found = replace(found, conditions=(*found.conditions, condition))
        return found

    def where(self, text: str) -> JoinSpec:
        """Adds conditions on columns of any relations. Equalities between two relations are join conditions."""
        found, where = parsed(text, "where"), f"where({text!r})"
        for condition in found:
            for name in sorted(condition.relations):
                if (kind := self._known(name, where).kind) in ("semi", "anti"):
                    raise InputError(
                        f"{where}: the answers of {kind} joins have no columns of {name}; give the condition to on(…)"
                    )
        return replace(self, conditions=(*self.conditions, *found))

    def checked(self) -> JoinSpec:
        """Returns this specification if it can run; raises InputError otherwise."""
        if not self.streams:
            raise InputError("none of the relations is over the stream: relation(name) without a DataFrame is")
        for relation in self.relations:
            if relation.kind != "inner" and not any(c.relations - {relation.key} for c in self.joined.get(relation.key, ())):
                raise InputError(f"relation({relation.name!r}): on(…) must compare it with another relation")
        windows = [r for r in self.streams if r.window is not None]
        if windows and len(windows) < len(self.streams):
            bare = next(r.name for r in self.streams if r.window is None)
            raise InputError(f"relation({bare!r}) needs a window, as {windows[0].name} has one: 'now' for the row's own instant")
        self.event_times(0)
        return self

    def unconnected(self) -> tuple[str, ...]:
        """The relations that no conditions connect with the stream: each of their rows joins with each row of the others."""
        reached, before = {self.streams[0].key}, 0
        while len(reached) > before:
            before = len(reached)
            for condition in self.every_condition:
                if condition.relations & reached:
                    reached |= condition.relations
        return tuple(relation.name for relation in self.relations if relation.key not in reached)

    def event_times(self, lateness: int) -> tuple[EventTime, ...]:
        """The streams by their columns of times, in order of declaration; ``lateness`` is that of streams that have none of their own.

        Raises InputError if two relations with one time differ in its lateness or its idle time-out.
        """
        found: dict[str | None, EventTime] = {}
        for time in dict.fromkeys(r.time for r in self.streams):
            given = {
                name: dict.fromkeys(getattr(r, name) for r in self.streams if r.time == time and getattr(r, name) is not None)
                for name in ("lateness", "idle")
            }
            for name, values in given.items():
                if len(values) > 1:
                    what, of = (
                        {"lateness": "lateness", "idle": "idle_timeout"}[name],
                        " and ".join(r.name for r in self.streams if r.time == time),
                    )
                    raise InputError(
                        f"the relations {of} read the time {time} and differ in {what}: give it once, or use another column of times"
                    )
            found[time] = EventTime(time, next(iter(given["lateness"]), lateness), next(iter(given["idle"]), None))
        return tuple(found.values())

    @property
    def widest(self) -> int:
        """The width of the widest window in milliseconds."""
        return max(relation.window or 0 for relation in self.streams)

    def _known(self, name: str, where: str) -> JoinInput:
        found = next((relation for relation in self.relations if name == relation.key), None)
        if found is None:
            known = ", ".join(relation.name for relation in self.relations) or "none yet"
            raise InputError(f"{where}: there is no relation {name}; there are {known}")
        return found

    # ------------------------------------------------------------------ derived properties
    @property
    def every_condition(self) -> tuple[Condition, ...]:
        """All conditions, those of units last."""
        return (*self.conditions, *(condition for of_unit in self.joined.values() for condition in of_unit))

    @property
    def streams(self) -> tuple[JoinInput, ...]:
        """The relations over the stream."""
        return tuple(relation for relation in self.relations if not relation.static)

    @property
    def statics(self) -> tuple[JoinInput, ...]:
        """All other relations."""
        return tuple(relation for relation in self.relations if relation.static)

    @property
    def windowed(self) -> bool:
        """Whether rows of the stream have event times. They expire, and are late, only by those of windows."""
        return self.streams[0].window is not None or self.streams[0].time is not None

    @property
    def stateful(self) -> bool:
        """Whether rows of the stream join with each other, so that the rows of windows must be retained."""
        return len(self.streams) > 1

    @cached_property
    def units(self) -> frozenset[str]:
        """The keys of the right sides of left, semi and anti joins."""
        return frozenset(relation.key for relation in self.relations if relation.kind != "inner")

    @cached_property
    def variables(self) -> dict[str, dict[str, tuple[JoinKey, ...]]]:
        """The variables, each with its keys by relation; equal keys are one variable, and a unit has those that it is compared with."""
        classes: list[list[JoinKey]] = []
        for left, right in (condition.keys for condition in self.conditions if self._equates(condition) and condition.keys):
            touched = [c for c in classes if left in c or right in c]
            merged = list(dict.fromkeys([*(x for c in touched for x in c), left, right]))
            classes = [c for c in classes if c not in touched] + [merged]
        for unit, conditions in self.joined.items():
            for one, other in (condition.keys for condition in conditions if condition.keys):
                own, with_it = (one, other) if one.relation == unit else (other, one)
                found = next((c for c in classes if with_it in c), None)
                if found is None:
                    found = [with_it]
                    classes.append(found)
                found.append(own)
        order = {relation.key: number for number, relation in enumerate(self.relations)}
        variables: dict[str, dict[str, tuple[JoinKey, ...]]] = {}
        for keys in classes:
            keys.sort(key=lambda key: (order[key.relation], key.label))
            of: dict[str, tuple[JoinKey, ...]] = {}
            for key in keys:
                of[key.relation] = (*of.get(key.relation, ()), key)
            variables[plan_name("_".join(keys[0].label), "key", variables)] = of
        return variables

    def _equates(self, condition: Condition) -> bool:
        """Whether a condition is an equality of inner relations, so that equal keys are one variable."""
        return condition.keys is not None and not condition.relations & self.units

    def joins_on(self, key: str) -> tuple[str, ...]:
        """The variables of a relation, by its key."""
        return tuple(name for name, columns in self.variables.items() if key in columns)

    def own_filters(self, key: str) -> tuple[str, ...]:
        """The conditions on a relation's rows alone: its filters, and equalities between its own keys. A unit has none of its own."""
        if key in self.units:
            return ()
        first = next(relation.key for relation in self.relations if relation.key not in self.units)  # has those on no relation
        alone = [c.text for c in self.conditions if c.relations <= {key} and (c.relations or key == first)]
        return (*alone, *(f"{a.sql} = {b.sql}" for a, b in self._inside(key)))

    def _inside(self, key: str) -> Iterator[tuple[JoinKey, JoinKey]]:
        for columns in self.variables.values():
            first, *others = columns.get(key, ()) or (None,)
            for other in others:
                if first is not None and other is not None:
                    yield first, other

    @cached_property
    def between(self) -> dict[str, str]:
        """The conditions of several relations, and those after a unit's join, by the name of their filter in the graph."""
        found = (c for c in self.conditions if not self._equates(c) and (len(c.relations) > 1 or c.relations & self.units))
        return {f"where {c.text}": c.text for c in found}

    @cached_property
    def graph(self) -> QueryGraph:
        """The query graph. Filters and units read one more variable of each relation that they read, so that they come after its join."""
        between = {name: next(c.relations for c in self.conditions if c.text == text) for name, text in self.between.items()}
        required = {unit: frozenset().union(*(c.relations for c in some)) - {unit} for unit, some in self.joined.items()}
        read = frozenset().union(*between.values(), *required.values())
        nodes = []
        for r in self.relations:
            joins, rows = frozenset(self.joins_on(r.key)), {_rows_of(r.key)} if r.key in read else set[str]()
            if r.kind == "inner":
                nodes.append(RelationNode(r.name, joins | rows, not r.static))
            else:
                needs = frozenset(map(_rows_of, required.get(r.key, ())))
                reads = joins or needs  # without a key, it shares the rows of what it is compared with
                bound = reads | rows if r.kind == "optional" else reads
                nodes.append(RelationNode(r.name, bound, False, r.kind, joins | needs))
        return QueryGraph(nodes, [FilterNode(name, frozenset(map(_rows_of, relations))) for name, relations in between.items()])

    @cached_property
    def layout(self) -> JoinLayout:
        """The join as the planner reads it; without a window, the micro-batch's number is the time of its rows."""
        keys = {r.name: self.joins_on(r.key) for r in self.relations}
        return JoinLayout(self.graph, {r.name: r.window or 1 for r in self.streams}, keys)

    def equality(self, variable: str, left: Sequence[str], right: Sequence[str]) -> str:
        """The join condition on a variable between two parts, given as relation keys."""
        of = self.variables[variable]
        one = next(of[key][0] for key in left if key in of and key not in self.units)
        other = next(of[key][0] for key in right if key in of)
        return f"{one.sql} = {other.sql}"


def _rows_of(key: str) -> str:
    return f"{key}.*"
