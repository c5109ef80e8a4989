"""How much the order of joins matters: random orders and the chosen plan over the same delta, by rows touched and CPU seconds.

All orders run in the step of the frontier for which the engine has just chosen its plan, over the same indexes. The rows touched are those
that the operators give, with the scan of the delta, and those that semi-join reductions read. Every order must give the same bag, and
the answers of the run must be those of the independent evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from cqels_opt.bench.acyclic_queries import AcyclicQuery, acyclic_query
from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.drift import Order, plan_of
from cqels_opt.errors import RunError
from cqels_opt.lod.key_search import mix
from cqels_opt.operators.blocks import Block
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.planner.block_graph import graph_of
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import Plan, QueryGraph, Split
from cqels_opt.plans.relation_set import members
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.verify import read_answers

REPEATS = 2
"""Runs of each order, of which the fastest counts."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What a plan did with a delta: the rows that its operators gave, its CPU seconds, and a digest of the bag of its rows."""

    rows: int
    seconds: float
    digest: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Spread:
    """A delta: what the chosen plan and each of the random orders did with it. ``first``: it is the first delta of its query."""

    seed: int
    relations: int
    skew: float
    first: bool
    chosen: Touched
    orders: tuple[Touched, ...]

    def ratio(self, what: str, of: str) -> float:
        """The worst order over the best one (``of`` is "worst"), or the chosen plan over it, by ``rows`` or ``seconds``."""
        found = [getattr(order, what) for order in self.orders]
        over = max(found) if of == "worst" else getattr(self.chosen, what)
        return float(over / min(found))


class OrdersRunner(LocalRunner):
    """Runs batches, and in each that has a delta also random orders."""

    repeats = False

    def __init__(self, query: AcyclicQuery, orders: int) -> None:
        super().__init__()
        self.query, self._orders = query, orders
        self.spreads: list[Spread] = []

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """Runs the orders of each delta, and then the batch."""
        for task in tasks:
            self._measure(task)
        return super().evaluate(tasks, parts)

    def _measure(self, task: EvaluateTask) -> None:
        (block,), (source,) = task.program.blocks, task.program.blocks[0].occurrences
        chosen = task.step.plans[block.name][source.name]
        graph, rng = graph_of(block), np.random.default_rng(self.query.seed)
        orders = [plan_of(random_order(rng, graph, source.name), graph) for _ in range(self._orders)]
        touched(task, block, chosen)  # so that the first measured plan does not open the indexes
        spread = [fastest(task, block, plan) for plan in (chosen, *orders)]
        if not spread[0].rows:
            return
        if len({found.digest for found in spread}) > 1:
            raise RunError(f"orders of the acyclic query {self.query.seed} give other rows than the chosen plan: this is a bug")
        place = self.query.seed, len(graph.relations), self.query.skew, not self.spreads
        self.spreads.append(Spread(*place, spread[0], tuple(spread[1:])))


def random_order(rng: np.random.Generator, graph: QueryGraph, source: str) -> Order:
    """A random left-deep order without cross products that begins with the delta source."""
    order = [1 << graph.index[source]]
    while order[-1] != graph.everything:
        order.append(order[-1] | 1 << int(rng.choice([*members(graph.neighbourhood(order[-1]))])))
    return tuple(order)


def touched(task: EvaluateTask, block: Block, plan: Plan | Split) -> Touched:
    """Runs a plan of the block's only delta source."""
    (source,) = block.occurrences
    step = replace(task.step, plans={block.name: {source.name: plan}})
    began = process_time()
    join = DeltaJoin(block, task.program.store, step, task.terms())
    found = list(join.rows())
    seconds = process_time() - began
    count = digest = 0
    for rows in found:
        count += int(rows.n.sum())
        columns = [*rows.values(block.output), rows.start, rows.end]
        digest += int((mix(columns).view(np.uint64) * rows.n.astype(np.uint64)).sum())
    observed, work = join.observed.operators[source.name], join.observed.work[source.name]
    given = sum(observed) - sum(one.spared - one.looked_up for one in work)
    return Touched(given, seconds, (count, digest % (1 << 64)))


def fastest(task: EvaluateTask, block: Block, plan: Plan | Split) -> Touched:
    """The fastest of some runs of a plan."""
    return min((touched(task, block, plan) for _ in range(REPEATS)), key=lambda found: found.seconds)


def measured(query: AcyclicQuery, orders: int, folder: Path) -> list[Spread]:
    """Runs a query; the spread of each of its deltas."""
    prepared, runner, sink = query.prepared(folder / "world"), OrdersRunner(query, orders), LocalSink()
    driver = prepared.driver(folder / "state", sink, mode=PlannerOptions(view_selection=False), runner=runner)
    for number, rows in enumerate(prepared.chunks()):
        driver.batch(number, rows)
    (folder / "answers.jsonl").write_text("".join(line + "\n" for line in sink.lines), encoding="utf-8")
    if found := query.differences(read_answers(folder / "answers.jsonl")):
        raise RunError(f"{found} rows of the acyclic query {query.seed} differ from the independent evaluation: this is a bug")
    return runner.spreads


def study(quick: bool) -> dict[str, Any]:
    """The ratios over all deltas of random acyclic queries."""
    queries, orders = (16, 10) if quick else (200, 50)
    spreads: list[Spread] = []
    for query in map(acyclic_query, range(queries)):
        with scratch_folder() as folder:
            spreads += measured(query, orders, folder)
    return {
        "queries": queries,
        "orders": orders,
        "deltas": len(spreads),
        "spreads": [
            {
                "seed": one.seed,
                "relations": one.relations,
                "skew": one.skew,
                "first": one.first,
                **{f"{of}, {what}": one.ratio(what, of) for of in ("worst", "chosen") for what in ("rows", "seconds")},
            }
            for one in spreads
        ],
    }
