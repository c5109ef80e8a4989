"""Drift: the rows that all operators produce under adaptive plans, compared with the best fixed plans of each phase in hindsight.

Hindsight is exact over all left-deep plans without cross products, and includes every bushy plan that the adaptive run used. The
rows that an operator of a left-deep plan produces depend only on the set of relations joined so far. So a few fixed plans that
together reach every set measure all sets, batch by batch, and a shortest path through the sets is the best order of any phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import Prepared, Ran, check_same, prepare, rows_of, rows_produced, small_world
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.social import CONGRESS, DRIFT, STREAM, Phase
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.plans import Join, Multiway, Plan, QueryGraph, Scan, Split, parse_plan, parse_planned
from cqels_opt.plans.plan import join_plans, joins, pairs
from cqels_opt.plans.relation_set import RelationSet, members, size
from cqels_opt.trace.history import histories
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.batch_size import BatchSize

SEED = 1
MODES = ("adaptive", "static", "worst")
COMPARED = [("adaptive", "best by phase"), *((name, "adaptive") for name in ("static", "worst", "best throughout"))]

Rows = NDArray[np.int64]
"""Rows per batch."""

Order = tuple[RelationSet, ...]
"""A left-deep plan as the sequence of joined sets, starting with the delta source."""


@dataclass(frozen=True, slots=True)
class Drifting:
    """A workload of phases: the number of elements in total and per micro-batch."""

    phases: Sequence[Phase]
    elements: int
    batch: int

    def slices(self) -> list[slice]:
        """The batches of each phase."""
        ends = np.cumsum([phase.share for phase in self.phases]) / sum(phase.share for phase in self.phases)
        places = [0, *np.round(ends * self.elements / self.batch).astype(int).tolist()]
        return [slice(begin, end) for begin, end in pairwise(places)]


# ------------------------------------------------------------------ every left-deep plan
def connected_sets(graph: QueryGraph, source: str) -> list[RelationSet]:
    """The connected sets that contain the delta source, by size: the prefixes of left-deep plans without cross products."""
    start = 1 << graph.index[source]
    found, fresh = {start}, {start}
    while fresh:
        fresh = {relations | 1 << i for relations in fresh for i in members(graph.neighbourhood(relations))} - found
        found |= fresh
    return sorted(found, key=lambda relations: (size(relations), relations))


def covering_orders(graph: QueryGraph, source: str) -> list[Order]:
    """Left-deep orders that together reach every connected set; each greedily covers the most new sets."""
    sets = connected_sets(graph, source)
    waiting, orders = set(sets), []
    while waiting:
        most: dict[RelationSet, tuple[int, Order]] = {sets[0]: (0, (sets[0],))}
        for relations in sets[1:]:
            before = [relations & ~(1 << i) for i in members(relations)]
            count, way = max((most[b] for b in before if b in most), key=lambda found: found[0])
            most[relations] = (count + (relations in waiting), (*way, relations))
        orders.append(most[sets[-1]][1])
        waiting -= set(orders[-1])
    return orders


def plan_of(order: Order, graph: QueryGraph) -> Plan:
    """The plan of an order."""

    def scan(relations: RelationSet) -> Plan:
        return Scan(graph.relations[next(members(relations))].name)

    plan = scan(order[0])
    for before, after in pairwise(order):
        plan = join_plans(plan, scan(after & ~before), graph.shared(before, after & ~before))
    return plan


def cheapest(sets: Mapping[RelationSet, float]) -> tuple[float, Order]:
    """The order with the fewest rows over its joins, given the rows of each set."""
    ordered = sorted(sets, key=lambda relations: (size(relations), relations))
    best: dict[RelationSet, tuple[float, Order]] = {ordered[0]: (0.0, (ordered[0],))}
    for relations in ordered[1:]:
        before = [best[b] for i in members(relations) if (b := relations & ~(1 << i)) in best]
        rows, way = min(before, key=lambda found: found[0])
        best[relations] = (rows + sets[relations], (*way, relations))
    return best[ordered[-1]]


@dataclass(frozen=True, slots=True)
class Measured:
    """The rows per batch of every set of each delta source and of its bushy plans, and the runs that measured them."""

    graphs: Mapping[str, QueryGraph]
    rows: Mapping[str, Mapping[RelationSet, Rows]]
    bushy: Mapping[str, Mapping[str, Rows]]
    runs: Sequence[Ran]

    def hindsight(self, batches: slice) -> dict[str, str]:
        """The fixed plans with the fewest rows in some batches."""
        plans = {}
        for source, sets in self.rows.items():
            least, order = cheapest({relations: float(rows[batches].sum()) for relations, rows in sets.items()})
            found = {text: float(rows[batches].sum()) for text, rows in self.bushy[source].items()}
            plans[source] = min({str(plan_of(order, self.graphs[source])): least, **found}.items(), key=lambda item: item[1])[0]
        return plans

    def given(self, plans: Mapping[str, str], batches: slice) -> int:
        """The rows of fixed plans in some batches."""
        return sum(int(self._given(source, text)[batches].sum()) for source, text in plans.items())

    def _given(self, source: str, text: str) -> Rows:
        if text in self.bushy[source]:
            return self.bushy[source][text]
        graph = self.graphs[source]
        steps = [left | right for left, right in pairs(parse_plan(text), graph)]
        total: Rows = np.stack([self.rows[source][relations] for relations in steps]).sum(axis=0)
        return total


def plans_of(run: Ran) -> dict[str, list[str]]:
    """The distinct plans of each delta source in a run."""
    deltas = [delta for record in run.records for delta in record.deltas]
    return {d.source: list(dict.fromkeys(other.plan for other in deltas if other.source == d.source)) for d in deltas}


def measure(query: Prepared, taken: Mapping[str, Sequence[str]]) -> Measured:
    """Runs fixed plans that reach every set, and the bushy plans in ``taken``.

    One run measures all delta sources, because the plan of one does not affect the rows of another.
    """
    blocks = QueryPlanner(query.program, PlannerOptions()).blocks.values()
    graphs = {source: block.optimizer.graph for block in blocks for source in block.sources}
    orders = {source: covering_orders(graph, source) for source, graph in graphs.items()}
    bushy = {source: [plan for text in taken[source] if _is_bushy(plan := parse_planned(text))] for source in graphs}
    plans = {source: [*(plan_of(order, graphs[source]) for order in orders[source]), *bushy[source]] for source in graphs}
    runs = []
    for number in range(max(map(len, plans.values()))):
        fixed = {source: found[min(number, len(found) - 1)] for source, found in plans.items()}
        runs.append(query.run(f"fixed {number}", PlannerOptions("fixed", fixed)))
    rows = {
        source: {
            relations: _observed(runs[number].records, source)[:, place]
            for number, order in enumerate(found)
            for place, relations in enumerate(order)
        }
        for source, found in orders.items()
    }
    return Measured(
        graphs,
        rows,
        {
            source: {
                str(plan): _observed(runs[len(orders[source]) + number].records, source)[:, 1:].sum(axis=1)
                for number, plan in enumerate(found)
            }
            for source, found in bushy.items()
        },
        runs,
    )


def _is_bushy(plan: Plan | Split) -> TypeGuard[Plan]:
    """Whether a plan is for the whole delta and has a join of two composite inputs, or of several relations at once."""
    return not isinstance(plan, Split) and any(isinstance(join, Join | Multiway) for join in joins(plan))


def _observed(records: Iterable[TraceRecord], source: str) -> Rows:
    """The rows of a delta source's operators, one line per batch."""
    deltas = [next(delta for delta in record.deltas if delta.source == source) for record in records]
    return np.array([[rows_of(operator) for operator in delta.operators] for delta in deltas], np.int64)


# ------------------------------------------------------------------ the study
def study(quick: bool) -> dict[str, Any]:
    """Runs queries that join two windows over streams whose people and places change."""
    found = []
    for name, query, work in drifting_queries(quick):
        found.append({"workload": name, "query": query.name, **compared(query, work)})
    return {"seed": SEED, "elements": work.elements, "batch": work.batch, "results": found}


def drifting_queries(quick: bool) -> Iterator[tuple[str, Prepared, Drifting]]:
    """The queries over both workloads, with the name of the workload. Their files exist until the next one is asked for."""
    for name, phases in (("drift", DRIFT), ("congress", CONGRESS)):
        work = Drifting(phases, 3_000 if quick else 12_000, 250 if quick else 500)
        with scratch_folder() as folder:
            store, stream = small_world(folder, SEED, 100 if quick else 200, work.elements, phases, quick)
            for query_name in ("Q2",) if quick else ("Q2", "Q3"):
                text = (QUERIES / f"{query_name.lower()}.rq").read_text(encoding="utf-8")
                yield (
                    name,
                    prepare(query_name, text, store, {STREAM: stream}, folder / query_name, BatchSize(count=work.batch)),
                    work,
                )


def compared(query: Prepared, work: Drifting) -> dict[str, Any]:
    """The rows of each mode and of hindsight, by phase and in total; sub-results are fixed, so that all plans are comparable."""
    runs = [query.run(mode, PlannerOptions(mode, view_selection=False)) for mode in MODES]
    measured = measure(query, plans_of(runs[0]))
    check_same([*runs, *measured.runs])
    slices, everything = work.slices(), slice(None)
    best, one = [measured.hindsight(batches) for batches in slices], measured.hindsight(everything)
    rows = {run.name: [rows_produced(run.records[batches]) for batches in slices] for run in runs}
    rows["best by phase"] = [measured.given(plans, batches) for plans, batches in zip(best, slices)]
    rows["best throughout"] = [measured.given(one, batches) for batches in slices]
    totals = {name: sum(parts) for name, parts in rows.items()}
    (history,) = histories(runs[0].records)
    return {
        "answers": runs[0].answers,
        "rows by phase": rows,
        "rows": totals,
        "switched": history.switched,
        "switches": asdict(history.regret) | {"regret": history.regret.share},
        "best plans": best,
        "ratios": {f"{one} / {other}": totals[one] / totals[other] for one, other in COMPARED},
    }


def show(found: Mapping[str, Any]) -> None:
    """A study as tables."""
    screen = console()
    for one in found["results"]:
        title = f"{one['query']} under {one['workload']}: rows that all operators produce, {found['elements']:,} elements"
        phases = (f"phase {i + 1}" for i in range(len(one["rows by phase"]["adaptive"])))
        shown = table("plans", *numbers(*phases, "in all", "over adaptive"), title=title)
        for contender, parts in one["rows by phase"].items():
            over = one["rows"][contender] / one["rows"]["adaptive"]
            shown.add_row(contender, *(f"{rows:,}" for rows in (*parts, one["rows"][contender])), f"{over:.2f}×")
        screen.print(shown)
        screen.print(", ".join(f"{name} {ratio:.2f}×" for name, ratio in one["ratios"].items()))
        switches = one["switches"]
        compared = (
            f"{one['switched']} switches; {switches['gained']} of {switches['switches']} that can be compared gain in hindsight"
        )
        screen.print(f"{compared}, regret {switches['regret']:.1%} of the costs after them")
