"""Semi-join reduction: it drops the rows without a match and no others, counts what it spared, and each row that is left has an answer."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from by_definition import difference
from local_runs import Cut, register
from random_cases import SIX_RELATIONS, make, seeds_with_answers

from cqels_opt.bench.acyclic_queries import acyclic_query
from cqels_opt.bench.drift import plan_of
from cqels_opt.bench.order_spread import random_order
from cqels_opt.operators import reducing_probe, semijoin_reduction
from cqels_opt.operators import rows as row_sets
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.multiway_join import fan_out
from cqels_opt.operators.operator_work import OperatorWork
from cqels_opt.operators.reducing_probe import ReducingProbe
from cqels_opt.operators.rows import concat, empty
from cqels_opt.operators.semijoin_reduction import Reduced, reduced
from cqels_opt.planner.block_graph import graph_of
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import QueryGraph, RelationNode, parse_plan
from cqels_opt.plans.join_tree import JoinTree, ProbedRelation, described, join_tree, written
from cqels_opt.plans.plan import relations
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.verify import read_answers

from .interval_rows import Plain, rows_of


# ------------------------------------------------------------------ against brute force
@dataclass(frozen=True, slots=True)
class Case:
    """Rows, and relations in the order of a plan, each of which has one variable of a part before it and new ones; by indexes."""

    rows: list[Plain]
    variables: str
    relations: dict[str, tuple[str, str, list[list[Plain]]]]  # name: the variable that it is joined on, its variables, its rows

    @property
    def tree(self) -> JoinTree:
        probed = [ProbedRelation(name, (on,), frozenset(names)) for name, (on, names, _) in self.relations.items()]
        return join_tree(frozenset(self.variables), probed)

    def sides(self) -> dict[str, list[Indexed]]:
        """The indexes of the relations."""
        return {
            name: [Indexed.of_rows(rows_of(names, part)) for part in parts if part]
            for name, (_, names, parts) in self.relations.items()
        }

    def joins(self) -> list[list[dict[str, int]]]:
        """By brute force, by key alone: the rows, and the rows of the join up to each relation, with the numbers of their parts."""
        found = [{"#": i, **dict(zip(self.variables, row[0]))} for i, row in enumerate(self.rows)]
        steps = [found]
        for name, (on, names, parts) in self.relations.items():
            whole = [{name: i, **dict(zip(names, row[0]))} for i, row in enumerate(row for part in parts for row in part)]
            found = [{**one, **other} for one in found for other in whole if one[on] == other[on]]
            steps.append(found)
        return steps


def random_rows(rng: random.Random, width: int, most: int, values: int) -> list[Plain]:
    """Rows with skewed values and some intervals."""
    value = lambda: min(rng.randint(1, values), rng.randint(1, values))  # noqa: E731
    return [
        (tuple(value() for _ in range(width)), rng.randrange(3), 4 + rng.randrange(3), rng.randint(1, 2)) for _ in range(most)
    ]


def random_case(seed: int) -> Case:
    rng = random.Random(seed)
    values = rng.randint(3, 8)
    variables = "ab"[: rng.randint(1, 2)]
    bound, relations = [*variables], dict[str, tuple[str, str, list[list[Plain]]]]()
    for number in range(rng.randint(2, 6)):
        on, new = rng.choice(bound), "cdefghij"[number]
        parts = [random_rows(rng, 2, rng.randint(0, 6), values) for _ in range(rng.choice([1, 1, 2, 3]))]
        relations[f"r{number}"] = (on, on + new, parts)
        bound.append(new)
    return Case(random_rows(rng, len(variables), rng.randint(1, 9), values), variables, relations)


def reduced_star(seed: int) -> tuple[Case, Reduced]:
    """The first case of some seeds in which several relations have a variable of the rows and counts are made; without the others."""
    for number in count(1_000 * seed):
        case = random_case(number)
        star = {name: found for name, found in case.relations.items() if found[0] in case.variables}
        case = Case(case.rows, case.variables, star)
        if len(star) > 1 and (found := reduce(case)) is not None and found.sizes:
            return case, found
    raise AssertionError("there is always another number")


def reduce(case: Case, multiplies: bool = True) -> Reduced | None:
    left, sides, tree = rows_of(case.variables, case.rows), case.sides(), case.tree
    matches = fan_out(left, sides["r0"], tree[0].relation.on)
    return reduced(left, tree, sides.__getitem__, matches, multiplies)


@pytest.fixture
def reads_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look-up counts as useless."""
    monkeypatch.setattr(semijoin_reduction, "USELESS", 2.0)


@pytest.mark.usefixtures("reads_everything")
@pytest.mark.parametrize("seed", range(400))
def test_exactly_the_rows_with_a_match_everywhere_are_left(seed: int) -> None:
    """And what is left of the relations joins to exactly the rows that all of them join to, of which none is left out on the way."""
    case = random_case(seed)
    steps, found = case.joins(), reduce(case)
    assert found is not None
    kept = sorted({row["#"] for row in steps[-1]})
    left = rows_of(case.variables, case.rows)
    assert sorted(zip(*(c.tolist() for c in found.rows.columns.values()))) == sorted(case.rows[i][0] for i in kept)
    assert len(found.rows.start) == len(kept)
    if found.sizes:
        counted = [of_all for of_all, _ in found.sizes]
        assert [alive for _, alive in found.sizes] == pytest.approx([joined_rows(case, found, i) for i in range(len(counted))])
        assert counted[-1] == pytest.approx(len(steps[-1]))
        assert counted[0] == pytest.approx(len(steps[1])), "the first relation is looked up for all rows"
    else:
        assert len(kept) == len(left)
    whole = list(map(len, steps))
    for number, size in enumerate(joined_rows(case, found, i) for i in range(len(case.relations))):
        assert size <= whole[number + 1]
        assert size <= whole[-1], "each row that is left on the way is a part of one of the join of all"


def joined_rows(case: Case, found: Reduced, upto: int) -> int:
    """The number of rows of the join up to a relation by key, over what a reduction has left."""
    sides = case.sides() | dict(found.sides)
    rows = found.rows.with_interval(np.zeros(len(found.rows), np.int64), np.full(len(found.rows), 9))
    for name, (on, _, _) in list(case.relations.items())[: upto + 1]:
        parts = [part for side in sides[name] for part in without_intervals(side).probe(rows, [on])]
        rows = concat(parts) if parts else rows.take(np.zeros(len(rows), bool))
    return len(rows)


def without_intervals(side: Indexed) -> Indexed:
    return Indexed(side.relation, side.names, None)


@pytest.mark.usefixtures("reads_everything")
@pytest.mark.parametrize("seed", range(200))
def test_of_a_star_the_rows_without_a_reduction_are_counted_exactly(seed: int) -> None:
    case, found = reduced_star(seed)
    assert [of_all for of_all, _ in found.sizes] == pytest.approx([len(step) for step in case.joins()[1:]])


def test_rows_with_matches_are_not_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read below a relation of which a sample has matches; rows that do not multiply and have matches are left as they are."""
    monkeypatch.setattr(semijoin_reduction, "SAMPLE", 8)
    rows: list[Plain] = [((i,), 0, 4, 1) for i in range(1, 41)]
    chain: list[Plain] = [((i, 100 + i), 0, 4, 1) for i in range(1, 41) for _ in range(3)]
    ends: list[Plain] = [((100 + i, 1), 0, 4, 1) for i in range(1, 41)]
    case = Case(rows, "a", {"r0": ("a", "ac", [chain]), "r1": ("c", "cd", [ends])})
    assert written(case.tree) == "r0 (r1)"
    found = reduce(case)
    assert found is not None and not found.sizes and found.looked_up == 8
    assert reduce(case, multiplies=False) is None
    dead = Case(rows, "a", {"r0": ("a", "ac", [chain]), "r1": ("c", "cd", [ends[:4]])})
    found = reduce(dead)
    assert found is not None and len(found.rows) == 4
    assert found.looked_up == len(chain) + 8
    assert found.sizes == [(120.0, 12.0), (12.0, 12.0)]


# ------------------------------------------------------------------ in plans
@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are reduced wherever they can be, few as they are."""
    for module in (reducing_probe, semijoin_reduction):
        monkeypatch.setattr(module, "LEAST", 1)
    monkeypatch.setattr(reducing_probe, "GROWTH", 0)
    monkeypatch.setattr(semijoin_reduction, "USELESS", 2.0)


@dataclass(frozen=True, slots=True)
class Compared:
    """A plan of a delta without and with reductions: the rows that its operators gave, as its plan has them, and with what was spared."""

    names: list[str]
    without: list[int]
    observed: list[int]
    work: list[OperatorWork]
    same_bag: bool

    @property
    def given(self) -> list[int]:
        """The rows that the operators gave with reductions."""
        return [rows - one.spared for rows, one in zip(self.observed, self.work, strict=True)]


class OrdersRunner(LocalRunner):
    """Runs random orders of each delta without and with reductions, and then the batch."""

    repeats = False  # limits are of the plans that were chosen

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = np.random.default_rng(seed)
        self.found: list[Compared] = []

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """The orders, and then the batch."""
        for task in tasks:
            self.found += [self._compared(task) for _ in range(4)]
        return super().evaluate(tasks, parts)

    def _compared(self, task: EvaluateTask) -> Compared:
        (block,), (source,) = task.program.blocks, task.program.blocks[0].occurrences
        graph, joins, bags = graph_of(block), list[DeltaJoin](), list[Counter[tuple[int, ...]]]()
        plan = plan_of(random_order(self._rng, graph, source.name), graph)
        step = replace(task.step, plans={block.name: {source.name: plan}})
        for reduces in (False, True):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ReducingProbe, "REDUCES", reduces)
                joins.append(DeltaJoin(block, task.program.store, step, task.terms()))
                rows = concat([empty(block.output), *joins[-1].rows()])
            columns = [c.tolist() for c in (*rows.values(block.output), rows.start, rows.end, rows.n)]
            bags.append(Counter(zip(*columns)))
        one, other = (join.observed.operators[source.name] for join in joins)
        return Compared(relations(plan), one, other, joins[1].observed.work[source.name], bags[0] == bags[1])


def orders(seed: int, folder: Path, most: int = 7) -> list[Compared]:
    """Random orders of a random acyclic query, whose answers are those of the independent evaluation."""
    query, runner, sink = acyclic_query(seed, delta=40, batches=2, most=most), OrdersRunner(seed), LocalSink()
    prepared = query.prepared(folder / "w")
    driver = prepared.driver(folder / "state", sink, mode=PlannerOptions(view_selection=False), runner=runner)
    for number, rows in enumerate(prepared.chunks()):
        driver.batch(number, rows)
    (folder / "answers.jsonl").write_text("".join(line + "\n" for line in sink.lines), encoding="utf-8")
    assert not query.differences(read_answers(folder / "answers.jsonl"))
    return runner.found


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(24))
def test_operators_touch_at_most_the_delta_what_it_meets_and_the_answers(seed: int, tmp_path: Path) -> None:
    """The guarantee (docs/guarantees.md), for any order; and an operator counts the rows of its plan as without reductions."""
    found = orders(seed, tmp_path)
    assert any(one.given != one.without for one in found) or not any(one.without[-1] for one in found)
    for one in found:
        assert one.same_bag
        delta, answers = one.without[0], one.without[-1]
        assert all(rows <= answers for rows in one.given[1:])
        assert sum(work.looked_up for work in one.work) <= sum(one.without[1:])
        assert one.observed[:2] == one.without[:2] and one.observed[-1] == answers
        assert sum(one.given) <= delta + (len(one.names) - 1) * answers


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("chunk", [50, 1 << 20])
@pytest.mark.parametrize("seed", seeds_with_answers(16))
def test_windows_filters_and_units_under_any_plan(seed: int, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_sets, "CHUNK", chunk)
    case, rng = make(seed), random.Random(seed)
    for number, text in enumerate((case.query(), SIX_RELATIONS)):
        query = register(text, case.world, tmp_path / str(number), case.settings)
        outcome = query.run(Cut(rng.choice(["2", "7", "700ms"]), "random", parts=rng.choice([1, 2]), seed=seed))
        assert difference(query, outcome.answers) is None, text


# ------------------------------------------------------------------ EXPLAIN
E1, E2 = ProbedRelation("e1", ("a",), frozenset("ab")), ProbedRelation("e2", ("b",), frozenset("bc"))


def test_a_join_tree_has_the_relations_that_one_part_binds_the_keys_of() -> None:
    closing = ProbedRelation("e3", ("a", "c"), frozenset("ac"))
    below = ProbedRelation("e4", ("d",), frozenset("de"))
    wide = ProbedRelation("e5", ("x", "y"), frozenset("xyd"))
    tree = join_tree(frozenset("axy"), [E1, wide, E2, closing, below])
    assert written(tree) == "e1 (e2), e5", "e3 closes a cycle; e5 is probed on two variables, so nothing is looked up below it"


def test_explain_has_the_guarantee_of_stars_over_static_data() -> None:
    graph = QueryGraph(
        [
            RelationNode("w", frozenset("ab"), True),
            RelationNode("r", frozenset("ac"), False),
            RelationNode("s", frozenset("bd"), False),
        ]
    )
    plan = parse_plan("w » r[?a] » s[?b]")
    text = "rows that multiply are looked up in r, s first; then each operator gives at most as many rows as the last one"
    assert described(plan, graph) == text
    two = QueryGraph([*graph.relations[:2], RelationNode("s", frozenset("cd"), False)])
    assert described(parse_plan("w » r[?a] » s[?c]"), two) == "rows that multiply are looked up in r (s) first"
    assert described(parse_plan("w » r[?a]"), QueryGraph(graph.relations[:2])) is None
