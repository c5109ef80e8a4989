"""Plans with different join operators have the answers and counts of single-stage plans, in the same number of jobs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from local_runs import Cut, Outcome, Registered, force_plans, register
from pyspark.sql import SparkSession

from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.plans import Join, Plan, Scan, operators
from cqels_opt.plans.join_methods import BROADCAST, LOOP, PARTITIONED, REPLICATED, SHUFFLE_HASH, SORT_MERGE, JoinMethod, Machine
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.ingest import IngestReport, IngestTask, ingest
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.spark.mixed import MixedRunner, machine_of

from .test_joins import BODIES, MERGED, PREFIXES, QUERIES, WINDOW, merged, people

PROBED = (REPLICATED, PARTITIONED, SHUFFLE_HASH, SORT_MERGE)
BUILT = (REPLICATED, SHUFFLE_HASH, SORT_MERGE)
OPTIONAL = (
    "GRAPH ?u {?a loc:at ?l} GRAPH ?z {?b loc:at ?l} OPTIONAL {?b foaf:name ?n FILTER(?n != 'P2')} FILTER(STRLEN(STR(?b)) > 3)"
)


class Mixed(MixedRunner):
    """Rows of a batch come as a table, and this process writes the slots: only the second stage runs on Spark."""

    def ingest(self, rows: pa.Table, task: IngestTask) -> list[IngestReport]:  # type: ignore[override]
        return [ingest(rows, task, "t")]


def by_lot(plan: Plan, op: Callable[[], str], rng: random.Random, inside: bool = False) -> tuple[JoinMethod | None, ...]:
    """Random operators for a plan; ``op`` returns the operator of a node, ``inside`` whether a task computes it locally."""
    if isinstance(plan, Scan):
        op()
        return (None,)
    left = by_lot(plan.input, op, rng, inside)
    held = inside or rng.random() < 0.5
    built = by_lot(plan.build, op, rng, held) if isinstance(plan, Join) else ()
    kind = op()
    if kind not in ("probe", "hash"):
        mine: JoinMethod | None = LOOP if kind == "cross" else None
        if isinstance(plan, Join) and not held:  # a product is made in the task: so is its right side
            built = tuple(None if by is None else LOOP if by == LOOP else REPLICATED for by in built)
    elif isinstance(plan, Join):
        mine = REPLICATED if held else rng.choice(BUILT[1:])
    else:
        mine = REPLICATED if inside else rng.choice(PROBED)
    return (*left, *built, mine)


def force_joins(driver: Driver, rng: random.Random) -> None:
    """Random operators, sometimes for whole plans."""

    def physical(block: BlockPlanner) -> Callable[[int], dict[str, tuple[JoinMethod | None, ...]]]:
        def choose(tasks: int) -> dict[str, tuple[JoinMethod | None, ...]]:
            found = {}
            for source, decision in block.delta_plans.items():
                if decision.split is None and rng.random() < 0.9:
                    kinds = iter([step.op for step in operators(decision.whole.plan, block.optimizer.graph)])
                    found[source] = by_lot(decision.whole.plan, lambda kinds=kinds: next(kinds), rng)  # type: ignore[misc]
                    if len(found[source]) == len(decision.whole.operators):  # otherwise the trace has the optimizer's own plan
                        block.delta_plans[source] = replace(decision, by=found[source])
            return found

        return choose

    for planner in driver.planners.values():
        for block in planner.blocks.values():
            block.physical = physical(block)  # type: ignore[method-assign]


def ran(spark: SparkSession, query: Registered, how: Cut, prepare: Callable[[Driver, random.Random], None]) -> Outcome:
    sink, rng = LocalSink(), random.Random(how.seed)
    driver = query.driver(how, runner=Mixed(spark, 2), sink=sink)
    records = []
    for number, rows in enumerate(query.chunks(how)):
        if how.plan == "random":
            force_plans(driver, rng)
        prepare(driver, rng)
        records += driver.batch(number, rows)
    return Outcome(query.answers(sink.lines), records, driver, sink.lines)


def used(outcome: Outcome) -> set[str]:
    return {operator.by for record in outcome.records for delta in record.deltas for operator in delta.operators if operator.by}


CASES = {
    **{name: (QUERIES / f"{name}.rq").read_text(encoding="utf-8") for name in ("q2", "q4")},
    **{
        name: f"{PREFIXES}SELECT *\n{WINDOW.format(u, 'u')}\n{WINDOW.format(z, 'z')}\nWHERE {{ {body} }}"
        for name, (u, z, body) in {
            **{name: BODIES[name] for name in ("last-n", "filters")},
            "optional": ("NOW", "RANGE 20 seconds", OPTIONAL),
        }.items()
    },
}


def same(spark: SparkSession, query: Registered, how: Cut) -> Outcome:
    expected = query.run(Cut("7")).answers
    assert expected
    got = ran(spark, query, how, force_joins)
    assert got.answers == expected
    assert all(record.jobs <= 1 for record in got.records)
    return got


@pytest.mark.long
@pytest.mark.parametrize("name", MERGED)
def test_merged_relations(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Probed locally, after a shuffle, or joined as frames."""
    same(spark, merged(name, tmp_path), Cut("100", plan="random", parts=2, seed=len(name)))


@pytest.mark.parametrize("name", ["q2", "last-n", "optional"])
def test_operators_by_lot(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """In random plans, left-deep and bushy."""
    same(spark, register(CASES[name], people(), tmp_path), Cut("100", plan="random", parts=2, seed=len(name)))


@pytest.mark.long
def test_what_operators_put_out_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    query, how = register(CASES["filters"], people(), tmp_path), Cut("100", plan="first", seed=3)
    plain, got = query.run(how).records, same(spark, query, how).records
    counted = [
        [[(o.op, o.relation, o.observed) for d in r.deltas for o in d.operators] for r in records] for records in (plain, got)
    ]
    assert counted[0] == counted[1]


def of_machine(machine: Machine, joins: tuple[JoinMethod, ...] | None = None) -> Callable[[Driver, random.Random], None]:
    def prepare(driver: Driver, rng: random.Random) -> None:
        for planner in driver.planners.values():
            for block in planner.blocks.values():
                block.options = replace(block.options, machine=machine, joins=joins or block.options.joins)

    return prepare


@pytest.mark.long
def test_indexes_that_do_not_fit_are_shared_out(spark: SparkSession, tmp_path: Path) -> None:
    """The optimizer's choice where an executor has too little memory, and where it has enough."""
    query = register(CASES["q2"], people(), tmp_path)
    how = Cut("100", parts=2)
    expected = query.run(how).answers
    tight = Machine(slots=2, executors=1000, memory=1.0)
    prices = {"stage": 1e-9, "shuffle": 1e-9, "operator": 0.0}

    def prepare(driver: Driver, rng: random.Random) -> None:
        of_machine(tight)(driver, rng)
        for planner in driver.planners.values():
            for block in planner.blocks.values():
                model = block.optimizer.model
                block.optimizer.model = replace(model, constants=replace(model.constants, **prices))  # type: ignore[type-var, attr-defined]

    got = ran(spark, query, how, prepare)
    assert got.answers == expected
    assert PARTITIONED.name in used(got)
    assert all(record.jobs <= 1 for record in got.records)
    assert used(ran(spark, query, how, of_machine(Machine(2, 1, 1e12)))) == set()


def test_a_broadcast_is_a_job_and_only_made_where_it_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    query = register(CASES["q4"], people(), tmp_path)
    how = Cut("100")
    got = ran(spark, query, how, of_machine(Machine(2), (BROADCAST,)))
    assert got.answers == query.run(how).answers
    assert used(got) == {BROADCAST.name}
    assert max(record.jobs for record in got.records) > 1


def test_the_machine_of_a_session(spark: SparkSession) -> None:
    machine = machine_of(spark)
    assert (machine.slots, machine.executors) == (spark.sparkContext.defaultParallelism, 1)
    assert machine.memory is not None
    assert machine.memory > 1 << 20
