"""The joins of a DataFrame, read from its logical plan: relations, join keys and conditions as a query graph; and written back.

The part of the plan that is read is its topmost tree of inner joins, and of left outer, left semi and left anti joins with one relation
on the right. Filters and projections to columns inside it belong to it. All operators above it (aggregates, DISTINCT, computed columns)
stay as they are, because Catalyst identifies columns by number, not by name or place. Filters among them hold for the joined rows as well
where Spark would push them down, which it does not do past the operators that count rows. Everything below the tree is a relation, and so
is a part of it whose rows the user has persisted: Spark reads them from its cache only where it finds the plan that they were made of.

Equal keys are one variable. Catalyst has already cast both sides of an equality to one type, so equality is transitive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from cqels_opt.plans import FilterNode, Plan, QueryGraph, RelationNode, Scan
from cqels_opt.plans.plan import Join, Multiway, Probe
from cqels_opt.plans.query_graph import GraphError, JoinKind
from cqels_opt.relational.column_names import plan_name
from cqels_opt.relational.planner import Side
from cqels_opt.spark.catalyst import Catalyst, Expression, JoinType, LogicalPlan, analyzed, children, conjuncts, items

KINDS: Mapping[str, JoinKind] = {"LeftOuter": "optional", "LeftSemi": "semi", "LeftAnti": "anti"}
_WORDS: Mapping[JoinKind, str] = {"optional": "LEFT JOIN", "semi": "LEFT SEMI JOIN", "anti": "LEFT ANTI JOIN"}
TYPES: Mapping[JoinKind, JoinType] = {kind: name for name, kind in KINDS.items()}  # type: ignore[misc]


class NotReadableError(Exception):
    """The reason why a plan has no joins that could be done in another order."""


@dataclass(slots=True)
class Relation:
    """A relation: its plan, and how it is joined. ``own`` are the conditions on its columns alone, ``on`` those of a unit's join."""

    name: str
    plan: LogicalPlan
    kind: JoinKind = "inner"
    own: list[Expression] = field(default_factory=list)
    on: list[Expression] = field(default_factory=list)
    columns: Any = None
    """The set of its attributes, in the JVM."""

    def __post_init__(self) -> None:
        self.columns = self.plan.outputSet()


@dataclass(frozen=True, slots=True)
class Key:
    """An expression over one relation that is equal to those of other relations."""

    relation: str
    expression: Expression
    text: str


class JoinQuery:
    """The joins of a plan. ``stream`` names the relation that has the rows of the micro-batch."""

    def __init__(
        self,
        catalyst: Catalyst,
        path: Sequence[tuple[LogicalPlan, int]],
        root: LogicalPlan,
        found: Sequence[Relation],
        conditions: Sequence[Expression],
        stream: str,
    ) -> None:
        self.catalyst, self.stream = catalyst, stream
        self._path, self._root = path, root
        self.relations = {relation.name: relation for relation in found}
        self._classes: list[list[Key]] = []
        self._unit_keys: dict[str, list[tuple[Key, Expression]]] = {}
        self._between: dict[str, tuple[Expression, frozenset[str]]] = {}
        self._texts: dict[str, list[Expression]] = {}
        for condition in conditions:
            self._add(condition)
        for relation in found:
            if relation.kind != "inner":
                self._unit_keys[relation.name] = list(self._keys_of(relation))
        self._order = {name: place for place, name in enumerate(self.relations)}
        self.graph = self._graph()

    # ------------------------------------------------------------------ reading
    def _reads(self, expression: Expression) -> frozenset[str]:
        """The relations whose columns an expression reads."""
        columns = expression.references()
        if columns.isEmpty():
            return frozenset()
        for relation in self.relations.values():
            if columns.subsetOf(relation.columns):
                return frozenset([relation.name])
        return frozenset(r.name for r in self.relations.values() if not columns.intersect(r.columns).isEmpty())

    def _sides(self, condition: Expression) -> tuple[Key, Key] | None:
        """The keys of an equality between two relations; None for any other condition."""
        if condition.nodeName() != "EqualTo":
            return None
        found = []
        for expression in (condition.left(), condition.right()):
            reads = self._reads(expression)
            if len(reads) != 1:
                return None
            found.append(Key(next(iter(reads)), expression, self._text(expression)))
        one, other = found
        return None if one.relation == other.relation else (one, other)

    def _text(self, expression: Expression) -> str:
        """A text that only equal expressions share: Catalyst prints two lambdas of Python, or two long calls, alike."""
        canonical = expression.canonicalized()
        text = str(canonical.toString())
        alike = self._texts.setdefault(text, [])
        place = next((i for i, other in enumerate(alike) if canonical.equals(other)), len(alike))
        if place == len(alike):
            alike.append(canonical)
        return f"{text} #{place}"

    def _add(self, condition: Expression) -> None:
        sides = self._sides(condition)
        if sides is not None and all(self.relations[key.relation].kind == "inner" for key in sides):
            touched = [c for c in self._classes if any(key.text in (k.text for k in c) for key in sides)]
            merged = {key.text: key for key in (*(key for c in touched for key in c), *sides)}
            self._classes = [c for c in self._classes if c not in touched] + [list(merged.values())]
            return
        reads = self._reads(condition)
        if len(reads) == 1 and self.relations[next(iter(reads))].kind == "inner":
            self.relations[next(iter(reads))].own.append(condition)
        else:
            self._between[f"where {len(self._between) + 1}: {condition.sql()}"] = (condition, reads)

    def _keys_of(self, unit: Relation) -> Iterator[tuple[Key, Expression]]:
        """The keys of the unit's equalities: that of the other side, and its own expression."""
        for condition in unit.on:
            sides = self._sides(condition)
            if sides is None or unit.name not in (sides[0].relation, sides[1].relation):
                continue
            other, own = sides if sides[1].relation == unit.name else sides[::-1]
            if self.relations[other.relation].kind == "inner":
                if not any(other.text in (key.text for key in c) for c in self._classes):
                    self._classes.append([other])
                yield other, own.expression

    # ------------------------------------------------------------------ the graph
    @cached_property
    def variables(self) -> dict[str, dict[str, list[Key]]]:
        """The variables, each with its keys by relation."""
        found: dict[str, dict[str, list[Key]]] = {}
        for keys in self._classes:
            keys.sort(key=lambda key: self._order[key.relation])
            of = found[plan_name(_label(keys[0].expression), "key", found)] = dict[str, list[Key]]()
            for key in keys:
                of.setdefault(key.relation, []).append(key)
        return found

    @cached_property
    def keys(self) -> dict[str, dict[str, Expression]]:
        """The expression of each join key of each relation, by relation and variable."""
        found: dict[str, dict[str, Expression]] = {name: {} for name in self.relations}
        for variable, of in self.variables.items():
            for name, keys in of.items():
                found[name][variable] = keys[0].expression
        for unit, pairs in self._unit_keys.items():
            for other, own in pairs:
                found[unit].setdefault(self._variable(other), own)
        return found

    def _variable(self, key: Key) -> str:
        return next(name for name, of in self.variables.items() if any(key.text == k.text for ks in of.values() for k in ks))

    def _graph(self) -> QueryGraph:
        """Filters and units read a variable of each relation whose columns they read, so that they come after its join."""
        for of in self.variables.values():  # equal columns of one relation
            for name, keys in of.items():
                first, *others = keys
                self.relations[name].own += [self.catalyst.equal(first.expression, key.expression) for key in others]
        required = {
            unit.name: frozenset().union(*(self._reads(condition) for condition in unit.on)) - {unit.name}
            for unit in self.relations.values()
            if unit.kind != "inner"
        }
        read = frozenset().union(*(names for _, names in self._between.values()), *required.values())
        nodes = []
        for relation in self.relations.values():
            own, joined = [_rows_of(relation.name)] if relation.name in read else [], frozenset(self.keys[relation.name])
            if relation.kind == "inner":
                nodes.append(RelationNode(relation.name, joined | {*own}, relation.name == self.stream))
                continue
            if not required[relation.name]:
                raise NotReadableError(f"the {_WORDS[relation.kind]} of {relation.name} has no condition on another relation")
            needs = frozenset(_rows_of(name) for name in required[relation.name])
            reads = joined or needs
            bound = reads | {*own} if relation.kind == "optional" else reads
            nodes.append(RelationNode(relation.name, bound, False, relation.kind, needs | joined))
        filters = [FilterNode(name, frozenset(map(_rows_of, reads))) for name, (_, reads) in self._between.items()]
        try:
            return QueryGraph(nodes, filters)
        except GraphError as error:
            units = {unit.name for unit in self.relations.values() if unit.kind != "inner"}
            after = [name for name, names in required.items() if names & units]
            why = f"the condition of the join of {after[0]} reads the right side of another one" if after else str(error)
            raise NotReadableError(why) from error

    # ------------------------------------------------------------------ parts as DataFrames
    def rows(self, name: str) -> DataFrame:
        """The rows of a relation that satisfy its own conditions."""
        relation = self.relations[name]
        return self.catalyst.frame(self.catalyst.filtered(relation.plan, relation.own))

    # ------------------------------------------------------------------ writing back
    def rebuilt(
        self, plan: Plan, filters: Sequence[Sequence[str]], broadcast: Callable[[int], Side | None], counted: bool = True
    ) -> tuple[DataFrame, list[Any]]:
        """The DataFrame with its joins in the order of a plan, and an observation of the rows of each operator, in the plan's order.

        ``filters`` are the conditions between relations that each operator evaluates; ``broadcast`` gives the side that the join with an
        index broadcasts. Unless the rows are ``counted``, the observations are None.
        """
        built = _Rebuilt(self, filters, broadcast, counted)
        tree = self.catalyst.in_place_of(self._root, built.part(plan)[0])
        return self.catalyst.frame(self.catalyst.replaced(self._path, tree)), built.observations

    def conditions(self, names: Sequence[str]) -> list[Expression]:
        """The conditions of filters of the graph."""
        return [self._between[name][0] for name in names]

    def equalities(self, on: Sequence[str], left: Sequence[str], right: Sequence[str]) -> list[Expression]:
        """The join condition on variables between two parts of a plan, given as relations."""
        found = []
        for variable in on:
            of = self.variables.get(variable, {})
            one, other = (next((of[name][0] for name in part if name in of), None) for part in (left, right))
            if one is not None and other is not None:
                found.append(self.catalyst.equal(one.expression, other.expression))
        return found


class _Rebuilt:
    """A plan under construction. Operators are numbered in execution order, as in ``plans.plan.operators``."""

    def __init__(
        self, query: JoinQuery, filters: Sequence[Sequence[str]], broadcast: Callable[[int], Side | None], counted: bool
    ) -> None:
        self.query, self.filters, self.broadcast, self.counted = query, filters, broadcast, counted
        self.observations: list[Any] = []

    def part(self, plan: Plan) -> tuple[LogicalPlan, list[str]]:
        """A part of the plan, and its relations."""
        if isinstance(plan, Scan):
            conditions = self.query.conditions(self.filters[len(self.observations)])
            return self._emit(self.query.catalyst.filtered(self._relation(plan.relation), conditions)), [plan.relation]
        assert not isinstance(plan, Multiway)  # Spark's cost model has none
        left, before = self.part(plan.input)
        if isinstance(plan, Join):
            right, added = self.part(plan.build)
        else:
            right, added = self._relation(plan.relation), [plan.relation]
        return self._emit(self._join(plan, left, right, before, added)), [*before, *added]

    def _relation(self, name: str) -> LogicalPlan:
        relation = self.query.relations[name]
        return self.query.catalyst.filtered(relation.plan, relation.own)

    def _join(
        self, plan: Probe | Join, left: LogicalPlan, right: LogicalPlan, before: list[str], added: list[str]
    ) -> LogicalPlan:
        """A join, with the conditions that all its columns are known for; those of an inner join belong to its own condition."""
        catalyst, place = self.query.catalyst, len(self.observations)
        unit = self.query.relations[added[0]] if len(added) == 1 else None
        if unit is not None and unit.kind != "inner":
            side: Side | None = "right" if self.broadcast(place) == "right" else None
            joined = catalyst.joined(left, right, TYPES[unit.kind], unit.on, side)
            return catalyst.filtered(joined, self.query.conditions(self.filters[place]))
        conditions = self.query.equalities(plan.on, before, added) + self.query.conditions(self.filters[place])
        return catalyst.joined(left, right, "Inner", conditions, self.broadcast(place))

    def _emit(self, plan: LogicalPlan) -> LogicalPlan:
        name, observation = f"rows after operator {len(self.observations)}", None
        if self.counted:
            plan, observation = self.query.catalyst.counted(plan, name)
        self.observations.append(observation)
        return plan


# ------------------------------------------------------------------ reading a plan
class _Reader:
    """Collects the relations and conditions of a tree of joins."""

    def __init__(self, catalyst: Catalyst) -> None:
        self.catalyst = catalyst
        self.relations: list[Relation] = []
        self.conditions: list[Expression] = []

    def part(self, node: LogicalPlan, name: str = "") -> None:
        """A part of the tree; ``name`` is the outermost alias above it."""
        kind = node.nodeName()
        if kind == "SubqueryAlias":
            self.part(node.child(), name or str(node.alias()))
        elif kind in ("Project", "Filter", "Join") and self.catalyst.is_cached(node):
            self.relations.append(Relation(self._name(name or "cached"), node))
        elif kind == "Project" and node.outputSet().subsetOf(node.child().outputSet()):
            self.part(node.child(), name)
        elif kind == "Filter" and self.catalyst.movable(node.condition()):
            self.part(node.child(), name)
            self.conditions += conjuncts(node.condition())
        elif kind == "Join" and self._is_readable(node):
            self._join(node)
        else:
            self.relations.append(Relation(self._name(name or _table(node)), node))

    def _is_readable(self, join: LogicalPlan) -> bool:
        kind = str(join.joinType().toString())
        movable = join.condition().isEmpty() or self.catalyst.movable(join.condition().get())
        return movable and kind in ("Inner", "Cross", *KINDS)

    def _join(self, join: LogicalPlan) -> None:
        kind = KINDS.get(str(join.joinType().toString()), "inner")
        conditions = [] if join.condition().isEmpty() else list(conjuncts(join.condition().get()))
        self.part(join.left())
        if kind == "inner":
            self.part(join.right())
            self.conditions += conditions
        else:
            right, name = join.right(), ""
            while right.nodeName() == "SubqueryAlias":
                right, name = right.child(), name or str(right.alias())
            self.relations.append(Relation(self._name(name or _table(right)), right, kind, on=conditions))

    def _name(self, wanted: str) -> str:
        """A name of a relation that no other has, as plans write it."""
        return plan_name(wanted, "relation", {relation.name for relation in self.relations})


def read(catalyst: Catalyst, frame: DataFrame, stream: DataFrame) -> JoinQuery:
    """The joins of a DataFrame that reads a micro-batch, ``stream``. Raises :class:`NotReadableError`."""
    node, path, above = analyzed(frame), list[tuple[LogicalPlan, int]](), list[Expression]()
    sources = items(analyzed(stream).collectLeaves())
    while True:
        if catalyst.is_cached(node):
            raise NotReadableError("the query has persisted the rows of its joins")
        reader = _Reader(catalyst)
        reader.part(node)
        if len(reader.relations) > 1:
            break
        if node.nodeName() == "WithCTE" and (inlined := catalyst.inlined(node)).nodeName() != "WithCTE":
            node = inlined
            continue
        below = children(node)
        if len(below) != 1:
            raise NotReadableError("there are no joins, or an operator other than a join combines the relations")
        path.append((node, 0))
        own = [one for one in conjuncts(node.condition()) if catalyst.movable(one)] if node.nodeName() == "Filter" else None
        above = catalyst.pushed(above, node) if own is None else above + own
        node = below[0]
    found = reader.relations
    dynamic = [r.name for r in found if any(leaf.sameResult(one) for leaf in items(r.plan.collectLeaves()) for one in sources)]
    if len(dynamic) != 1:
        raise NotReadableError(f"{len(dynamic)} of the joined relations read the micro-batch, and plans begin with exactly one")
    if any(not a.columns.intersect(b.columns).isEmpty() for i, a in enumerate(found) for b in found[:i]):
        raise NotReadableError(
            "one DataFrame is joined twice and its columns have been dropped in between; give each use an alias"
        )
    if next(r.kind for r in found if r.name == dynamic[0]) != "inner":
        raise NotReadableError("the micro-batch is the right side of an outer, semi or anti join")
    return JoinQuery(catalyst, path, node, found, reader.conditions + above, dynamic[0])


def _table(node: LogicalPlan) -> str:
    """The name of the table or folder that a relation reads, if it is one."""
    if node.nodeName() == "LogicalRelation":
        if not node.catalogTable().isEmpty():
            return str(node.catalogTable().get().identifier().table())
        with suppress(Py4JError):  # the relation is not over files, but over JDBC, for example
            roots = node.relation().location().rootPaths()
            if roots.size():
                return str(roots.apply(0).getName())
    return "relation"


def _rows_of(name: str) -> str:
    return f"{name}.*"


def _label(expression: Expression) -> str:
    """The name of a key: its column, without a cast."""
    while (kind := expression.nodeName()) == "Cast":
        expression = expression.child()
    if kind in ("AttributeReference", "Alias"):
        return str(expression.name())
    if kind == "GetStructField":
        return f"{_label(expression.child())}_{expression.extractFieldName()}"
    return str(expression.sql())
