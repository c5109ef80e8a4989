"""Upper bounds of joins next to their true sizes: underestimates (there may be none), and the ratio by number of relations.

Each operator of each executed plan counts once per micro-batch, except the scans of deltas: its rows, before equal ones are merged and
without semi-join reduction, and the bound of its relations (``plans/size_bounds.py``). Operators without rows count as underestimates only,
because their ratio is not defined. The queries are those of the report over its two streams, and joins of the flights of one day; each
runs under the adaptive plans and in the order written, and its answers must be the same.

``python -m cqels_opt.bench.bound_quality [--quick]``
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cqels_opt.bench import flights
from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import Prepared, load, prepare
from cqels_opt.bench.q_errors import report_queries
from cqels_opt.bench.screen import console, table
from cqels_opt.errors import RunError
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.operators.reducing_probe import ReducingProbe
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import Split, operators
from cqels_opt.rdf.static import StaticSource
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.windows.batch_size import BatchSize

HOURS = BatchSize(duration=2 * 3_600_000)
MODES = ("adaptive", "first")


class Compared(NamedTuple):
    """An operator in a micro-batch: the number of its relations without filters, its rows, and its bound."""

    relations: int
    rows: int
    bound: float


@contextmanager
def rows_apart() -> Iterator[None]:
    """Equal rows are not merged, and rows are not reduced, so that the rows of operators are counted and not derived from others."""
    DeltaJoin.merges_equal = ReducingProbe.REDUCES = False
    try:
        yield
    finally:
        DeltaJoin.merges_equal = ReducingProbe.REDUCES = True


def compared(block: BlockPlanner) -> Iterator[Compared]:
    """The operators that ran in the last micro-batch, without the scans of deltas. Their observations are taken: to be called once."""
    observed, block.observed_rows = block.observed_rows, {}
    graph = block.optimizer.graph
    for source, counts in observed.items():
        bounds, plan = block.size_bounds(source), block.delta_plans[source].plan
        parts = (plan.few, plan.many) if isinstance(plan, Split) else (plan,)
        steps = [step for part in parts for step in operators(part, graph)]
        for step, seen in zip(steps, counts, strict=True):
            covered = graph.set_of(step.covers)
            if bounds is not None and step.covers != {source}:
                filters = sum(graph.relations[graph.index[name]].kind == "filter" for name in step.covers)
                yield Compared(len(step.covers) - filters, seen, bounds.rows(covered))


def run(query: Prepared, folder: Path, mode: str) -> tuple[list[Compared], list[str]]:
    """The operators of all micro-batches of a query, and its answers, sorted."""
    sink = LocalSink()
    driver = query.driver(folder, sink, mode=PlannerOptions(mode))
    found: list[Compared] = []
    with rows_apart():
        for number, rows in enumerate(query.chunks()):
            driver.batch(number, rows)
            found += [one for planner in driver.planners.values() for block in planner.blocks.values() for one in compared(block)]
    return found, sorted(sink.lines)


def study(quick: bool) -> dict[str, list[Compared]]:
    """The operators by world."""
    found: dict[str, list[Compared]] = defaultdict(list)
    for workload, query in report_queries(quick):
        found[f"report, {workload}"] += _both(query, query.folder.parent)
    with scratch_folder() as folder:
        world = flights.lift(folder / "flights", days=1 if quick else 3)
        graphs = [StaticSource(file, iri) for iri, file in world.graphs.items()]
        store = load(folder / "store", [StaticSource(world.static), *graphs])
        for file in sorted(flights.QUERIES.glob("*.rq")):
            query = prepare(file.stem, file.read_text(encoding="utf-8"), store, world.streams, folder / file.stem, HOURS)
            found["flights"] += _both(query, folder)
    return found


def _both(query: Prepared, folder: Path) -> list[Compared]:
    runs = [run(query, folder / f"{query.name}-{mode}", mode) for mode in MODES]
    if runs[0][1] != runs[1][1]:
        raise RunError(f"{query.name}: plans {' and '.join(MODES)} give different answers: this is a bug")
    return [one for some, _ in runs for one in some]


def ratios(found: Iterable[Compared]) -> Mapping[int, list[float]]:
    """Bound over true size of operators with rows, by number of relations."""
    by_size: dict[int, list[float]] = defaultdict(list)
    for one in found:
        if one.rows:
            by_size[one.relations].append(one.bound / one.rows)
    return dict(sorted(by_size.items()))


def underestimates(found: Iterable[Compared]) -> int:
    """The operators that gave more rows than their bound."""
    return sum(one.rows > one.bound for one in found)


def show(found: Mapping[str, list[Compared]]) -> None:
    """A table by world and number of relations."""
    shown = table(
        "queries", "relations", "operators with rows", "median", "95th percentile", "greatest", title="bound over true size"
    )
    for world, some in {**found, "all": [one for part in found.values() for one in part]}.items():
        for relations, factors in ratios(some).items():
            figures = (np.median(factors), np.quantile(factors, 0.95), max(factors))
            shown.add_row(world, str(relations), f"{len(factors):,}", *(f"{figure:,.2f}" for figure in figures))
    screen = console()
    screen.print(shown)
    every = [one for some in found.values() for one in some]
    screen.print(f"underestimates: {underestimates(every)} of {len(every):,} operators")


if __name__ == "__main__":
    show(study("--quick" in sys.argv))
