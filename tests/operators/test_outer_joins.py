"""OPTIONAL, MINUS and EXISTS with a static right side within blocks: any plan gives the answers of the independent evaluation."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from local_runs import Cut, Registered, World, force_plans, random_plan, register
from planted_answers import planted
from random_cases import EX, FIXED, MOVING, NAMED, Maker, Nested, make, seeds_with_answers
from random_cases import Group as Braces

from cqels_opt.lod.relation import Relation
from cqels_opt.operators.blocks import Static
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.outer_joins import with_unit
from cqels_opt.operators.rows import Rows
from cqels_opt.operators.term_table import TermTable
from cqels_opt.plans import check, parse_plans
from cqels_opt.rdf.ids import PUBLIC
from cqels_opt.verify import Element


def random_body(maker: Maker) -> Braces:
    """Windows and static patterns with units between them; filters that read what an OPTIONAL may leave unbound."""
    rng = maker.rng
    parts: list[str | Nested] = [Nested("GRAPH ?u", (Braces(("?a :at ?x .", *maker.patterns(MOVING, 1).parts)),))]
    for _ in range(rng.choice([2, 3, 3, 4])):
        static = FIXED if rng.random() < 0.8 else NAMED
        inside: list[str | Nested] = [*maker.patterns(static, rng.choice([1, 1, 2])).parts]
        if static is NAMED:
            inside = [Nested("GRAPH :g1", (Braces(tuple(inside)),))]
        if rng.random() < 0.35:
            inside.append(f"FILTER({maker.condition()})")
        kind = rng.choice(["OPTIONAL"] * 3 + ["MINUS", "FILTER EXISTS", "FILTER NOT EXISTS", "inner", "window", "filter", "bind"])
        match kind:
            case "inner":
                parts.append(maker.static())
            case "window":
                parts.append(Nested("GRAPH ?z", (maker.patterns(MOVING, 1),)))
            case "filter":
                parts.append(f"FILTER({maker.condition()})")
            case "bind":
                parts.append(f"BIND({maker.number()} AS ?k{len(parts)})")
            case _:
                parts.append(Nested(kind, (Braces(tuple(inside)),)))
    return Braces(tuple(parts))


def registered(seed: int, folder: Path) -> Registered:
    """A query of a seed over its world."""
    maker = Maker(seed)
    windows = (("u", "S", "RANGE 2000 ms"), ("z", "T", "RANGE 1000 ms SLIDE 500 ms"))
    case = replace(make(seed), select="*", windows=windows, body=random_body(maker), modifiers=(), replaced={})
    case = planted(case, maker.rng)
    return register(case.query(), case.world, folder)


def units(query: Registered) -> list[Static]:
    return [s for block in query.program.blocks for s in block.statics if s.kind != "inner"]


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_any_plan_gives_the_answers_of_the_independent_evaluation(first: int, tmp_path: Path) -> None:
    seen = answers = 0
    for seed in range(first, first + 10):
        query = registered(seed, tmp_path / str(seed))
        seen += len(units(query))
        whole = query.run(Cut("100"))
        verdict = query.judged(whole.answers)
        assert verdict.equal, f"{seed}: {query.query.text}\n{verdict.text()}"
        answers += len(whole.answers)
        for how in (Cut("7", "random", 3, 3, seed), Cut("5", "first"), Cut("9", "worst", seed=seed)):
            assert query.run(how).answers == whole.answers, f"{seed} {how}: {query.query.text}"
    assert seen >= 5 and answers > 0


@pytest.mark.parametrize("seed", seeds_with_answers(12))
def test_filters_may_be_operators_anywhere_in_a_plan(seed: int, tmp_path: Path) -> None:
    query = registered(seed, tmp_path)
    expected = query.run(Cut("100")).answers
    rng = random.Random(seed)
    plans = {}
    for planner in query.driver().planners.values():
        for block in planner.blocks.values():
            graph = block.optimizer.graph
            lifted = graph.with_filter_units([f.name for f in graph.filters if f.variables])
            for source in block.sources:
                plans[source] = str(random_plan(rng, lifted, source))
                check(parse_plans(f"{source}: {plans[source]}")[source], lifted, source)
    outcome = query.run(Cut("6", "fixed:" + "; ".join(f"{s}: {p}" for s, p in plans.items()), 3, 3))
    assert outcome.answers == expected, plans
    assert {d.source: d.plan for r in outcome.records for d in r.deltas} == plans


def test_units_are_planned_and_counted_like_other_operators(tmp_path: Path) -> None:
    text = """PREFIX : <http://ex.org/> SELECT * FROM NAMED :S [RANGE 2 s] AS ?u
    WHERE { GRAPH ?u { ?a :at ?x } OPTIONAL { ?a :name ?n } MINUS { ?x :near ?y } FILTER EXISTS { ?a :knows ?b } }"""
    query = register(text, make(3).world, tmp_path)
    (block,) = query.program.blocks
    assert [(s.kind, s.on) for s in block.statics] == [("optional", ("a",)), ("anti", ("x",)), ("semi", ("a",))]
    assert query.program.row_wise
    outcome = query.run(Cut("5"))
    ops = {operator.op for r in outcome.records for d in r.deltas for operator in d.operators}
    assert ops == {"scan", "optional", "anti", "semi"}
    for record in outcome.records:
        for delta in record.deltas:
            # a window and static sides on one variable: every first step is known exactly
            first, second = delta.operators[:2]
            assert (first.estimated, second.estimated) == pytest.approx((first.observed or 0, second.observed or 0), rel=1e-6)
    driver = query.driver(Cut("5"))
    force_plans(driver, random.Random(1))
    plans = set()
    for number, rows in enumerate(query.chunks(Cut("5"))):
        plans |= {d.plan for r in driver.batch(number, rows) for d in r.deltas}
    assert len(plans) > 1


def rows_of(**columns: list[int]) -> Rows:
    size = len(next(iter(columns.values())))
    named = {name: np.array(column, np.int64) for name, column in columns.items()}
    return Rows(named, np.zeros(size, np.int64), np.full(size, 9), np.arange(1, size + 1))


def outcome(kind: str, **right: list[int]) -> list[tuple[int, ...]]:
    unit = Static("s", tuple(right), "", 0, kind=kind, on=("a",))  # type: ignore[arg-type]
    relation = Relation.build({v: np.array(c, np.int64) for v, c in right.items()}, np.array([5] * len(right["a"]), np.int64))
    side = Indexed.of_static(relation, tuple(right))
    found = list(with_unit(rows_of(a=[1, 2, 3], q=[7, 7, 7]), unit, side, TermTable(PUBLIC, None)))  # type: ignore[arg-type]
    return sorted((*(int(part.columns[v][i]) for v in part.columns), int(part.n[i])) for part in found for i in range(len(part)))


def test_multiplicities_of_units() -> None:
    assert outcome("optional", a=[1, 1, 2], z=[10, 11, 12]) == [(1, 7, 10, 5), (1, 7, 11, 5), (2, 7, 12, 10), (3, 7, 0, 3)]
    assert outcome("semi", a=[1, 1, 2]) == [(1, 7, 1), (2, 7, 2)]
    assert outcome("anti", a=[1, 1, 2]) == [(3, 7, 3)]


def test_an_empty_right_side() -> None:
    assert outcome("optional", a=[], z=[]) == [(1, 7, 0, 1), (2, 7, 0, 2), (3, 7, 0, 3)]
    assert outcome("semi", a=[]) == []
    assert outcome("anti", a=[]) == [(1, 7, 1), (2, 7, 2), (3, 7, 3)]


def test_a_dear_filter_is_evaluated_after_the_join_that_leaves_few_rows(tmp_path: Path) -> None:
    stream = [Element(1000 + i * 10, ((f"<{EX}p{i % 50}>", f"<{EX}says>", f'"text {i}"'),)) for i in range(400)]
    static = [(f"<{EX}p{i}>", f"<{EX}vip>", '"y"') for i in range(2)]
    text = f"""PREFIX : <{EX}> SELECT * FROM NAMED :S [NOW] AS ?u
    WHERE {{ GRAPH ?u {{ ?a :says ?t }} ?a :vip ?v FILTER(REGEX(?t, "[0-4]$")) }}"""
    outcome = register(text, World({f"{EX}S": [stream]}, static, {}), tmp_path).run(Cut("50"))
    operators = [operator for r in outcome.records for d in r.deltas for operator in d.operators]
    assert {d.plan for r in outcome.records for d in r.deltas} == {"u » vip[?a] » b0.filter0[?t]"}
    assert sum(o.observed or 0 for o in operators if o.op == "probe") == 16  # what the filter sees, of 400 elements
    assert sum(o.observed or 0 for o in operators if o.op == "filter") == len(outcome.answers) == 16
