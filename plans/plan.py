"""Plans: the join tree of one delta source, and its canonical text.

The text is the same in EXPLAIN, in the trace and for ``--plan fixed:``. Its grammar::

    plans    :  source ':' plan (';' source ':' plan)* ';'?
    plan     :  relation step*
    step     :  '»' relation on            index probe into one relation (a cross product if ``on`` is empty)
             |  '»' '(' plan ')' on        the plan in brackets is evaluated first, then joined (a bushy part)
    on       :  '[' (variable ' ')* ']'    the variables joined on, each with its question mark; '[]' is a cross product
    relation, source : any characters but white space and  : ; » ( ) [ ] ? ,

so ``lsnow » loc_name[?loc] » (name#2 » ls30[?person2])[?loc ?person1]`` scans the delta of ``lsnow``, probes ``loc_name``,
and joins with what ``name#2 » ls30`` gives. White space is free, and ``>>`` may be typed for ``»``. A plan begins with its
delta source. The canonical text has the variables in alphabetical order and single spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from cqels_opt.errors import InputError
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import RelationSet, members, of


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
        return f"{self.input} » {self.relation}{_brackets(self.on)}"


@dataclass(frozen=True, slots=True)
class Join:
    """Joins ``input`` with the result of another plan, which is built first (the bushy case)."""

    input: Plan
    build: Plan
    on: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.input} » ({self.build}){_brackets(self.on)}"


Plan: TypeAlias = Scan | Probe | Join


@dataclass(frozen=True, slots=True)
class PlanOperator:
    """One operator of a plan: ``op`` is scan, probe, hash or cross; or of a unit its kind: optional, anti, semi or filter.

    ``relation`` is a relation's name, or for a bushy part its text in brackets; ``covers`` names the relations joined so far.
    """

    op: str
    relation: str
    on: tuple[str, ...]
    covers: frozenset[str]


def _brackets(on: tuple[str, ...]) -> str:
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
            case Probe(before, _, _):
                steps, done = placed(before)
                return [*steps, covered & ~done], covered
            case Join(before, build, _):
                (steps, left), (built, right) = placed(before), placed(build)
                return [*steps, *built, covered & ~left & ~right], covered

    return [tuple(graph.filters[i].name for i in members(bits)) for bits in placed(plan)[0]]


def right_side(plan: Probe | Join) -> Plan:
    """What the last join of a plan adds; for a probe the :class:`Scan` of its relation."""
    return Scan(plan.relation) if isinstance(plan, Probe) else plan.build


def joins(plan: Plan) -> Iterator[Probe | Join]:
    """Every join of a plan, innermost first."""
    if not isinstance(plan, Scan):
        yield from joins(plan.input)
        yield from joins(right_side(plan))
        yield plan


def relation_set(plan: Plan, graph: QueryGraph) -> RelationSet:
    """The relations of a plan as a set of the graph."""
    return of(graph.index[name] for name in relations(plan))


def pairs(plan: Plan, graph: QueryGraph) -> list[tuple[RelationSet, RelationSet]]:
    """The (left, right) sets of a plan's joins, innermost first."""
    return [(relation_set(join.input, graph), relation_set(right_side(join), graph)) for join in joins(plan)]


def join_plans(left: Plan, right: Plan, on: tuple[str, ...]) -> Plan:
    """The plan that joins two plans; a single relation on the right is probed."""
    return Probe(left, right.relation, on) if isinstance(right, Scan) else Join(left, right, on)


def written_order(graph: QueryGraph, source: str) -> Plan:
    """The plan ``first``: from the delta the relations in the order written, connected ones before cross products.

    A unit comes in its turn, once what it requires is bound.
    """
    plan: Plan = Scan(source)
    waiting = [relation for relation in graph.relations if relation.name != source]
    bound = graph.relations[graph.index[source]].variables
    while waiting:
        able = [relation for relation in waiting if relation.kind == "inner" or relation.requires <= bound]
        chosen = next((relation for relation in able if relation.variables & bound), able[0])
        waiting.remove(chosen)
        plan = Probe(plan, chosen.name, tuple(sorted(chosen.variables & bound)))
        bound |= chosen.binds
    return plan


# ------------------------------------------------------------------ text
_TOKEN = re.compile(r"\s*(?:(»|>>)|([:;()\[\]])|(\?[^\s:;»()\[\]?,]+)|((?:(?!>>)[^\s:;»()\[\]?,])+))")


class _Tokens:
    """The tokens of a text, with the column of each for messages."""

    def __init__(self, text: str) -> None:
        self.text, self.found = text, list[tuple[str, int]]()
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                place = position + len(text[position:]) - len(text[position:].lstrip())
                raise PlanError(
                    f"plan, column {place + 1}: {text[place]!r} is not expected here; a plan reads like 'w » a[?x] » b[?y]'"
                )
            token = "»" if match[1] else match[0].strip()
            self.found.append((token, match.end() - len(match[0].strip())))
            position = match.end()
        self.next = 0

    def peek(self) -> str:
        return self.found[self.next][0] if self.next < len(self.found) else ""

    def take(self) -> str:
        token = self.peek()
        self.next += 1
        return token

    def fail(self, wanted: str) -> PlanError:
        at = self.found[self.next][1] if self.next < len(self.found) else len(self.text)
        got = repr(self.peek()) if self.peek() else "the end"
        return PlanError(f"plan, column {at + 1}: {wanted} expected, but {got} found in {self.text.strip()!r}")

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.fail(repr(token))
        self.take()

    def name(self, what: str) -> str:
        if self.peek() in set("»:;()[]") | {""} or self.peek().startswith("?"):
            raise self.fail(what)
        return self.take()


def _parse_plan(tokens: _Tokens) -> Plan:
    plan: Plan = Scan(tokens.name("the name of a relation"))
    while tokens.peek() == "»":
        tokens.take()
        if tokens.peek() == "(":
            tokens.take()
            build = _parse_plan(tokens)
            tokens.expect(")")
            plan = Join(plan, build, _parse_on(tokens))
        else:
            relation = tokens.name("the name of a relation or '('")
            plan = Probe(plan, relation, _parse_on(tokens))
    return plan


def _parse_on(tokens: _Tokens) -> tuple[str, ...]:
    tokens.expect("[")
    on = []
    while tokens.peek().startswith("?"):
        on.append(tokens.take()[1:])
    if tokens.peek() != "]":
        raise tokens.fail("a variable or ']'")
    tokens.take()
    return tuple(sorted(set(on)))


def parse_plan(text: str) -> Plan:
    """The plan of one delta source from its text. Raises :class:`PlanError` that names the column."""
    tokens = _Tokens(text)
    plan = _parse_plan(tokens)
    if tokens.peek():
        raise tokens.fail("'»' or the end of the plan")
    return plan


def parse_plans(text: str) -> dict[str, Plan]:
    """The plans of ``source: plan; source: plan``. Raises :class:`PlanError` that names the column."""
    tokens = _Tokens(text)
    plans: dict[str, Plan] = {}
    while tokens.peek() or not plans:
        source = tokens.name("the name of a delta source")
        tokens.expect(":")
        if source in plans:
            raise PlanError(f"plans: delta source {source!r} has two plans")
        plans[source] = _parse_plan(tokens)
        if tokens.peek():
            if tokens.peek() != ";":
                raise tokens.fail("'»', ';' or the end of the plan")
            tokens.take()
    return plans


def plans_text(plans: Mapping[str, Plan]) -> str:
    """The canonical text of several plans, in the mapping's order; :func:`parse_plans` reads it."""
    return "; ".join(f"{source}: {plan}" for source, plan in plans.items())


# ------------------------------------------------------------------ validity
def check(plan: Plan, graph: QueryGraph, source: str) -> None:
    """Raise :class:`PlanError` unless the plan fits the graph.

    It must begin with its delta source, have every relation once, and join each on exactly what both sides bind.
    """
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
        _check_units(join, graph, source)
        shared = graph.shared(relation_set(join.input, graph), relation_set(right_side(join), graph))
        if shared != join.on:
            added = join.relation if isinstance(join, Probe) else f"({join.build})"
            raise PlanError(
                f"plan of {source}: {added}{_brackets(join.on)} must join on {_brackets(shared)}, what both sides bind"
            )


def _check_units(join: Probe | Join, graph: QueryGraph, source: str) -> None:
    """A unit is probed, by what binds all that it requires."""
    first = [relations(join.input)[0], *([relations(join.build)[0]] if isinstance(join, Join) else [])]
    for name in first:
        if (kind := graph.relations[graph.index[name]].kind) != "inner":
            raise PlanError(f"plan of {source}: a part begins with {name!r}, but {kind} needs rows to be joined to")
    if isinstance(join, Probe):
        unit = graph.relations[graph.index[join.relation]]
        if unbound := sorted(unit.requires - graph.bound(relation_set(join.input, graph))):
            raise PlanError(f"plan of {source}: {unit.kind} {unit.name!r} needs ?{unbound[0]}, which is not bound before it")
