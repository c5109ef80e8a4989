"""Measured execution times compared with estimated costs, with the committed constants and with this machine's.

The report's Q1 to Q4 and their primed forms run without Spark over the generated world, under several plan modes. Each block of
joins of a batch is repeated and timed, with the least CPU time of a few runs; its cost was estimated when the plans were chosen.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import load, prepare
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.social import DRIFT, STREAM, social
from cqels_opt.operators.blocks import Block
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.operators.observed import Observed
from cqels_opt.planner import predicate_costs
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.calibration import measure
from cqels_opt.planner.calibration_store import seconds_text
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import Constants, Join, JoinOperator, Multiway, Optimizer, Plan, Scan, SecondsCost
from cqels_opt.plans.plan import right_relations
from cqels_opt.plans.plan_pricing import cost_of
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.file_streams import finite_frontier
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.windows.batch_size import BatchSize

NAMES = tuple(f"q{i}{prime}" for i in range(1, 5) for prime in ("", "-prime"))
MODES = ("adaptive", "first", "worst")
REPEATS = 3


@dataclass(frozen=True, slots=True)
class Timed:
    """The joins of one block in one batch: their measured seconds, and their costs by the name of the constants.

    ``estimated`` is from the estimated rows when the plans were chosen; ``seen`` from the operators' observed rows.
    """

    query: str
    mode: str
    seconds: float
    estimated: Mapping[str, float]
    seen: Mapping[str, float]


class _TimingRunner(LocalRunner):
    """Times the joins of each block before it runs the batch."""

    repeats = False

    def __init__(self, query: str, mode: str, contenders: Mapping[str, Constants]) -> None:
        super().__init__()
        self.query, self.mode, self.contenders = query, mode, contenders
        self.driver: Driver | None = None
        self.found: list[Timed] = []

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """See :meth:`LocalRunner.evaluate`."""
        assert self.driver is not None
        for task in tasks:
            planner = self.driver.planners[task.program.id]
            for block in task.program.blocks:

                def joins(task: EvaluateTask = task, block: Block = block) -> Observed:
                    step = DeltaJoin(block, task.program.store, task.step, task.terms())
                    for _ in step.rows():
                        continue
                    return step.observed

                seconds, observed = _least_seconds(joins)
                costs = [_costs(planner.blocks[block.name], observed, constants) for constants in self.contenders.values()]
                estimated, seen = (dict(zip(self.contenders, of)) for of in zip(*costs))
                self.found.append(Timed(self.query, self.mode, seconds, estimated, seen))
        return super().evaluate(tasks, parts)


def _costs(planner: BlockPlanner, observed: Observed, constants: Constants) -> tuple[float, float]:
    """The cost of a block's plans under other constants, summed over delta sources: with estimated and with observed rows."""
    memo, model = planner.optimizer.memo, SecondsCost(constants)
    own, memo.model = memo.model, model
    memo.recost_everything()
    estimated = sum(cost_of(memo, source, choice.plan) or 0.0 for source, choice in planner.choices.items())
    memo.model = own
    memo.recost_everything()
    seen = 0.0
    for source, choice in planner.choices.items():
        after = {step.covers: float(rows) for step, rows in zip(choice.operators, observed.operators[source])}
        verified = {step.covers: float(work.candidates) for step, work in zip(choice.operators, observed.work[source])}
        seen += _priced(choice.plan, after, verified, planner.optimizer, source, model)[0]
    return estimated, seen


def _priced(
    plan: Plan,
    after: Mapping[frozenset[str], float],
    verified: Mapping[frozenset[str], float],
    optimizer: Optimizer,
    source: str,
    model: SecondsCost,
) -> tuple[float, frozenset[str], float]:
    """(cost, covered relations, rows) of a part of a plan, from the observed rows and ``verified`` candidates of its operators."""
    if isinstance(plan, Scan):
        covers = frozenset([plan.relation])
        rows = after[covers]
        return float(model.scan(np.array(rows), np.array(0.0))), covers, rows
    cost, covers, left = _priced(plan.input, after, verified, optimizer, source, model)
    candidates = 0.0
    if isinstance(plan, Join):
        inner, covered, right = _priced(plan.build, after, verified, optimizer, source, model)
        cost, covers, operator = cost + inner, covers | covered, JoinOperator.HASH
    else:
        added = right_relations(plan)
        covers = covers.union(added)
        right = max(optimizer.memo.rows(source, 1 << optimizer.graph.index[name]) for name in added)
        operator = JoinOperator.MULTIWAY if isinstance(plan, Multiway) else JoinOperator.PROBE
        candidates = verified[covers]  # 0 for a probe
        indexes = optimizer.graph.relations[optimizer.graph.index[added[0]]].indexes if len(added) == 1 else 1.0
        left = left * len(added) * indexes + candidates * (len(added) - 1)
    if not plan.on:
        operator = JoinOperator.LOOP
    rows = after[covers]
    return cost + float(model.join(operator, *(np.array(x) for x in (left, right, rows + candidates, 0.0)))), covers, rows


def _least_seconds(run: Callable[[], Observed]) -> tuple[float, Observed]:
    observed = run()
    taken = []
    for _ in range(REPEATS):
        began = time.process_time()
        run()
        taken.append(time.process_time() - began)
    return min(taken), observed


def timed(folder: Path, contenders: Mapping[str, Constants], authors: int, rate: int, seconds: int) -> Iterator[Timed]:
    """All blocks of all batches of the queries, over a world with this number of authors and of elements per second."""
    files = social(folder, authors=authors, elements=rate * seconds, rate=float(rate), phases=DRIFT, stream_format="parquet")
    store = load(folder / "store", files.sources)
    for name in NAMES:
        text = re.sub(r"\$[^$\n]+\$", "Author 0", (QUERIES / f"{name}.rq").read_text(encoding="utf-8"))
        query = prepare(name, text, store, {STREAM: files.stream}, folder / name, BatchSize(duration=1000))
        for mode in MODES:
            runner, options = _TimingRunner(name, mode, contenders), DriverOptions(plan=PlannerOptions(mode))
            frontier, state = finite_frontier(query.replay, 0, eager=False), folder / f"{name}-{mode}"
            runner.driver = Driver(state, [query.program], runner, LocalSink(), frontier, options, pages=query.pages())
            for number, rows in enumerate(query.chunks()):
                runner.driver.batch(number, rows)
            yield from runner.found


def study(quick: bool) -> dict[str, Any]:
    """Estimated over measured seconds, with the committed constants and with those of this machine."""
    began = time.perf_counter()
    measured = measure()
    taken = time.perf_counter() - began
    contenders = {"default": Constants(), "measured": replace(Constants(), **measured)}
    with scratch_folder() as folder:
        found = list(timed(folder, contenders, *((300, 100, 6) if quick else (3000, 1000, 12))))
    return {
        "constants": measured,
        "seconds to measure them": taken,
        "weights": predicate_costs.measure(),
        "blocks": len(found),
        "estimated over measured": {
            f"{name}, {rows}": {
                part: _summary([getattr(t, rows)[name] / t.seconds for t in found if part in ("all", t.query, t.mode)])
                for part in ("all", *MODES, *NAMES)
            }
            for rows in ("estimated", "seen")
            for name in contenders
        },
    }


def _summary(found: Sequence[float]) -> dict[str, float]:
    """The summary of ratios; ``error`` is the median factor of the estimation error in either direction."""
    ratios = np.array(found)
    off = np.maximum(ratios, 1 / ratios)
    return {
        "median": float(np.median(ratios)),
        "error": float(np.median(off)),
        "95th percentile": float(np.quantile(off, 0.95)),
    }


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    title = (
        f"Estimated over measured seconds of the joins of a block in a batch ({found['blocks']:,} of them)\n"
        f"median; median factor off; 95th percentile of that (constants measured in {found['seconds to measure them']:.1f} s)"
    )
    rows = found["estimated over measured"]
    shown = table("", *numbers(*(f"{name} rows" for name in rows)), title=title)
    for part in next(iter(rows.values())):
        cells = [f"{s['median']:.2f}; {s['error']:.2f}×; {s['95th percentile']:.2f}×" for s in (rows[n][part] for n in rows)]
        shown.add_row(part, *cells)
    console().print(shown)
    for name, seconds in found["constants"].items():
        print(f"{name}: {seconds_text(seconds)} (default {seconds_text(getattr(Constants(), name))})")
    measured = ", ".join(f"{name} {value:.1f} ({predicate_costs.WEIGHTS[name]:g})" for name, value in found["weights"].items())
    print(f"weights of expressions, measured (committed): {measured}")
