"""Plans: the join tree of one delta source. Its text is defined in ``plan_text.py``; a tree prints itself as that text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from cqels_opt.errors import InputError
from cqels_opt.plans.cycles import multiway_keys
from cqels_opt.plans.query_graph import QueryGraph, RelationNode
from cqels_opt.plans.relation_set import RelationSet, members


class PlanError(InputError, ValueError):
    """The text of a plan is wrong, or the plan does not fit the query."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Reads a relation from its beginning: the delta at the left end of a plan, or the start of a bushy part."""

    relation: str

    def __str__(self) -> str:
        return self.relation


@dataclass(frozen=True, slots=True)
class Probe:
    """Looks every row of ``input`` up in one relation, on the variables ``on`` (none: a cross product)."""

    input: Plan
    relation: str
    on: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.input} » {self.relation}{brackets(self.on)}"


@dataclass(frozen=True, slots=True)
class Join:
    """Joins ``input`` with the result of another plan, which is built first (the bushy case)."""

    input: Plan
    build: Plan
    on: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.input} » ({self.build}){brackets(self.on)}"


@dataclass(frozen=True, slots=True)
class Multiway:
    """Joins ``input`` with several relations at once, each on its own variables; all of them bind the same new variables.

    For each row the relation with the fewest matches proposes values of the new variables, and the others verify them (Generic Join; Ngo,
    Ré & Rudra 2013, §3). ``keys`` has the variables of each relation; the relations are in alphabetical order.
    """

    input: Plan
    relations: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, input: Plan, keys: Mapping[str, tuple[str, ...]]) -> Multiway:
        """The join with some relations, each on its ``keys``."""
        names = tuple(sorted(keys))
        return cls(input, names, tuple(keys[name] for name in names))

    @property
    def on(self) -> tuple[str, ...]:
        """The variables of ``input`` that some relation is joined on."""
        return tuple(sorted({variable for key in self.keys for variable in key}))

    @property
    def sides(self) -> str:
        """The text of its relations."""
        return " & ".join(name + brackets(key) for name, key in zip(self.relations, self.keys))

    def __str__(self) -> str:
        return f"{self.input} » {self.sides}"


Plan: TypeAlias = Scan | Probe | Join | Multiway


class Cut(NamedTuple):
    """Separates the rows with ``at_least`` matches in a relation on a variable from the others."""

    relation: str
    variable: str
    at_least: int

    def __str__(self) -> str:
        return f"{self.relation}{brackets((self.variable,))} >= {self.at_least}"


@dataclass(frozen=True, slots=True)
class Split:
    """Two plans for one delta: ``many`` for the rows beyond the cut, ``few`` for the others."""

    few: Plan
    cut: Cut
    many: Plan

    def __str__(self) -> str:
        return f"{self.few} | {self.cut}: {self.many}"


@dataclass(frozen=True, slots=True)
class PlanOperator:
    """One operator of a plan: ``op`` is scan, probe, hash, multiway or cross, or the kind of a unit: optional, anti, semi or filter.

    ``relation`` is a relation's name, the text of a bushy part in brackets, or the text of the relations of a multiway join; ``covers``
    names the relations joined so far.
    """

    op: str
    relation: str
    on: tuple[str, ...]
    covers: frozenset[str]


def parts(plan: Plan | Split) -> tuple[Plan, ...]:
    """The join trees of a plan: two if the delta is split."""
    return (plan.few, plan.many) if isinstance(plan, Split) else (plan,)


def brackets(on: tuple[str, ...]) -> str:
    """The text of a join's variables."""
    return "[" + " ".join("?" + variable for variable in on) + "]"


def relations(plan: Plan) -> list[str]:
    """The relations of a plan from left to right."""
    match plan:
        case Scan(relation):
            return [relation]
        case Probe(before, relation, _):
            return [*relations(before), relation]
        case Join(before, build, _):
            return [*relations(before), *relations(build)]
        case Multiway(before, joined, _):
            return [*relations(before), *joined]


def operators(plan: Plan, graph: QueryGraph | None = None) -> list[PlanOperator]:
    """The operators in the order they run, the delta's scan first; a bushy part runs just before it is joined.

    The graph knows which relations are units; without it every relation counts as joined by an inner join.
    """
    match plan:
        case Scan(relation):
            return [PlanOperator("scan", relation, (), frozenset([relation]))]
        case Probe(before, relation, on):
            steps = operators(before, graph)
            kind = graph.relations[graph.index[relation]].kind if graph else "inner"
            op = kind if kind != "inner" else "probe" if on else "cross"
            return [*steps, PlanOperator(op, relation, on, steps[-1].covers | {relation})]
        case Join(before, build, on):
            steps, built = operators(before, graph), operators(build, graph)
            covers = steps[-1].covers | built[-1].covers
            return [*steps, *built, PlanOperator("hash" if on else "cross", f"({build})", on, covers)]
        case Multiway(before, joined, _):
            steps = operators(before, graph)
            return [*steps, PlanOperator("multiway", plan.sides, plan.on, steps[-1].covers.union(joined))]


def filters(plan: Plan, graph: QueryGraph) -> list[tuple[str, ...]]:
    """For each of :func:`operators`, the filters that are evaluated on its rows: as soon as their variables are bound.

    The filters of a relation that is probed are evaluated after the probe, because an index holds the relation as it is.
    """

    def placed(part: Plan) -> tuple[list[int], int]:
        """The filters at each operator of a part, as bits, and all of them together."""
        covered = graph.covered_filters(relation_set(part, graph))
        match part:
            case Scan(_):
                return [covered], covered
            case Probe(before, _, _) | Multiway(before, _, _):
                steps, done = placed(before)
                return [*steps, covered & ~done], covered
            case Join(before, build, _):
                (steps, left), (built, right) = placed(before), placed(build)
                return [*steps, *built, covered & ~left & ~right], covered

    return [tuple(graph.filters[i].name for i in members(bits)) for bits in placed(plan)[0]]


def right_side(plan: Probe | Join) -> Plan:
    """The right side of the last join of a plan; for a probe the :class:`Scan` of its relation."""
    return Scan(plan.relation) if isinstance(plan, Probe) else plan.build


def joins(plan: Plan) -> Iterator[Probe | Join | Multiway]:
    """Every join of a plan, innermost first."""
    if not isinstance(plan, Scan):
        yield from joins(plan.input)
        if isinstance(plan, Join):
            yield from joins(plan.build)
        yield plan


def right_relations(plan: Probe | Join | Multiway) -> list[str]:
    """The relations that the last join of a plan adds."""
    return list(plan.relations) if isinstance(plan, Multiway) else relations(right_side(plan))


def probed_keys(join: Probe | Join | Multiway) -> list[tuple[str, tuple[str, ...]]]:
    """The relations that a join probes, each with the variables; none: all variables of a relation that verifies candidates."""
    match join:
        case Probe(_, relation, on):
            return [(relation, on)] if on else []
        case Multiway(_, names, keys):
            return [*zip(names, keys), *((name, ()) for name in names)]
        case Join(_, _, _):
            return []


def relation_set(plan: Plan, graph: QueryGraph) -> RelationSet:
    """The relations of a plan as a set of the graph."""
    return graph.set_of(relations(plan))


def pairs(plan: Plan, graph: QueryGraph) -> list[tuple[RelationSet, RelationSet]]:
    """The (left, right) sets of a plan's joins, innermost first."""
    return [(relation_set(join.input, graph), graph.set_of(right_relations(join))) for join in joins(plan)]


def pairs_with_builds(plan: Plan, graph: QueryGraph) -> list[tuple[RelationSet, RelationSet]]:
    """:func:`pairs`, after those that join the relations of each multiway join: a memo has a node for them."""
    found = []
    for join in joins(plan):
        if isinstance(join, Multiway):
            sets = [graph.set_of(join.relations[: i + 1]) for i in range(len(join.relations))]
            found += [(before, after & ~before) for before, after in pairwise(sets)]
    return [*found, *pairs(plan, graph)]


def join_plans(left: Plan, right: Plan, on: tuple[str, ...]) -> Plan:
    """The plan that joins two plans; a single relation on the right is probed."""
    return Probe(left, right.relation, on) if isinstance(right, Scan) else Join(left, right, on)


def written_order(graph: QueryGraph, source: str) -> Plan:
    """The plan ``first``: from the delta the relations in the order written, connected ones before cross products.

    A unit follows as soon as the variables that it requires are bound; filters come last.
    """
    return in_order(graph, source, graph.relations)


def heuristic_order(graph: QueryGraph, source: str) -> Plan:
    """The plan of heuristics without statistics: by the relations' ranks, equal ones in the order written."""
    return in_order(graph, source, sorted(graph.relations, key=lambda relation: relation.rank))


def in_order(graph: QueryGraph, source: str, relations: Sequence[RelationNode]) -> Plan:
    """A plan with the relations in a given order, except that cross products are avoided."""
    plan: Plan = Scan(source)
    waiting = [relation for relation in relations if relation.name != source]
    bound = graph.relations[graph.index[source]].variables
    while waiting:
        able = [relation for relation in waiting if relation.kind == "inner" or relation.requires <= bound]
        able = [relation for relation in able if relation.kind != "filter"] or able
        chosen = next((relation for relation in able if relation.variables & bound), able[0])
        waiting.remove(chosen)
        plan = Probe(plan, chosen.name, tuple(sorted(chosen.variables & bound)))
        bound |= chosen.binds
    return plan


# ------------------------------------------------------------------ checks
def check(plan: Plan | Split, graph: QueryGraph, source: str) -> None:
    """Raise :class:`PlanError` unless the plan fits the graph.

    It must begin with its delta source, have every relation once, and join each on exactly what both sides bind. A split must be by
    a relation that shares its variable with the delta source.
    """
    if isinstance(plan, Split):
        for part in (plan.few, plan.many):
            check(part, graph, source)
        name, variable, _ = plan.cut
        by = graph.index.get(name)
        if by is None or name == source or variable not in graph.shared(1 << by, 1 << graph.index[source]):
            raise PlanError(f"plan of {source}: a split is by a relation that {source} joins with, not by {name}[?{variable}]")
        return
    names = relations(plan)
    known = ", ".join(relation.name for relation in graph.relations)
    for name in names:
        if name not in graph.index:
            raise PlanError(f"plan of {source}: there is no relation {name!r}; the query has {known}")
        if names.count(name) > 1:
            raise PlanError(f"plan of {source}: relation {name!r} occurs twice")
    if names[0] != source:
        raise PlanError(f"plan of {source}: it begins with {names[0]!r} but must begin with its delta source {source!r}")
    for relation in graph.relations:
        if relation.name not in names:
            raise PlanError(f"plan of {source}: relation {relation.name!r} is missing; the query has {known}")
    for join in joins(plan):
        if isinstance(join, Multiway):
            _check_multiway(join, graph, source)
            continue
        _check_units(join, graph, source)
        shared = graph.shared(relation_set(join.input, graph), relation_set(right_side(join), graph))
        if shared != join.on:
            added = join.relation if isinstance(join, Probe) else f"({join.build})"
            raise PlanError(f"plan of {source}: {added}{brackets(join.on)} must join on {brackets(shared)}, what both sides bind")


def plans_of_mode(mode: str | Mapping[str, Plan], graph: QueryGraph, sources: Sequence[str]) -> dict[str, Plan]:
    """The plans that an optimizer's mode keeps from the start; none if it chooses. PlanError if a given plan does not fit the graph."""
    if not isinstance(mode, str):
        return check_all(mode, graph, sources)
    order = {"first": written_order, "heuristic": heuristic_order}.get(mode)
    return {} if order is None else {source: order(graph, source) for source in sources}


def check_all(plans: Mapping[str, Plan], graph: QueryGraph, sources: Sequence[str]) -> dict[str, Plan]:
    """The plans, one per delta source; raises :class:`PlanError` if one is missing, unknown, or does not fit the graph."""
    for source in plans:
        if source not in sources:
            raise PlanError(f"there is no delta source {source!r}; the query has {', '.join(sources)}")
    for source in sources:
        if source not in plans:
            raise PlanError(f"delta source {source!r} has no plan")
        check(plans[source], graph, source)
    return dict(plans)


def _check_multiway(join: Multiway, graph: QueryGraph, source: str) -> None:
    """A multiway join must close a cycle, each relation on what both sides bind."""
    keys = multiway_keys(graph, relation_set(join.input, graph), graph.set_of(join.relations))
    if keys is None:
        raise PlanError(
            f"plan of {source}: {join.sides} is no multiway join: its relations must bind the same new variables, and none of them"
            " may be joined on all variables that the others are joined on"
        )
    if keys != dict(zip(join.relations, join.keys)):
        expected = Multiway.of(join.input, keys).sides
        raise PlanError(f"plan of {source}: {join.sides} must be {expected}: each relation joins on what both sides bind")


def _check_units(join: Probe | Join, graph: QueryGraph, source: str) -> None:
    """A unit must be probed by a part that binds all variables that it requires."""
    first = [relations(join.input)[0], *([relations(join.build)[0]] if isinstance(join, Join) else [])]
    for name in first:
        if (kind := graph.relations[graph.index[name]].kind) != "inner":
            raise PlanError(f"plan of {source}: a part begins with {name!r}, but {kind} needs rows to be joined to")
    if isinstance(join, Probe):
        unit = graph.relations[graph.index[join.relation]]
        if unbound := sorted(unit.requires - graph.bound(relation_set(join.input, graph))):
            raise PlanError(f"plan of {source}: {unit.kind} {unit.name!r} needs ?{unbound[0]}, which is not bound before it")
