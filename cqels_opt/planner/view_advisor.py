"""View selection at run time: other designs of a block are priced while it runs; one that has paid for itself is used (CQELS report, §4.2).

A design is a choice of sub-results (materialized views of static sub-patterns). Whenever batches have cost as much as a few pricings take,
the best plans of neighbouring designs are priced from the statistics of that batch, which represents the batches since the last pricing.
The savings add up (``plans/view_selection.py``). When they exceed the cost of building, the missing sub-results are built next to the
batches, and the first batch after they are complete runs under the new design. No answer depends on this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cqels_opt.compiler.static_subpatterns import ROW_BUDGET
from cqels_opt.lod.open_store import open_store
from cqels_opt.operators.blocks import Block, Static
from cqels_opt.planner import view_candidates
from cqels_opt.planner.background_jobs import BackgroundJobs, Failed
from cqels_opt.planner.statistics_adapters import CandidateStatistics
from cqels_opt.planner.view_candidates import Measured
from cqels_opt.plans import Optimizer, Plan, Statistics
from cqels_opt.plans.cost import Constants
from cqels_opt.plans.estimate_corrections import ObservedRows
from cqels_opt.plans.relation_set import RelationSet, size
from cqels_opt.plans.reoptimization_budget import SURPRISE
from cqels_opt.plans.view_selection import Design, ViewBenefits, design_of, neighbours, saving, suggested
from cqels_opt.state import worker_cache
from cqels_opt.trace.records import SubResults

T = TypeVar("T")

PRICED = 4  # designs that are priced at a time, at most one of them for the first time; more take turns

FIRST_INTERVAL = 0.3
"""Estimated seconds of batches before the first pricing. A pricing takes 5 to 50 milliseconds."""

LONGEST_INTERVAL = 3.2
"""Estimated seconds of batches between two pricings at most: each one that finds no design that saves time doubles the interval."""


class ViewCatalogue:
    """The relations of which designs of a block consist: parts, compiled sub-results, and those built since."""

    def __init__(self, block: Block, store: str, folder: Path | None) -> None:
        self.block, self.store, self.folder = block, store, folder
        self.adjacent = view_candidates.adjacency(block)
        self.default = view_candidates.default_design(block)
        self.statics: dict[RelationSet, Static] = {s.of: s for s in (*block.parts, *block.inner)}
        self.measured: dict[RelationSet, Measured] = {}

    @property
    def names(self) -> list[str]:
        """The names of the compiled relations and of the parts."""
        return [static.name for static in (*self.block.statics, *self.block.parts)]

    def missing(self, design: Design) -> list[RelationSet]:
        """The sub-results of a design that are not built."""
        return [group for group in design if group not in self.statics]

    def block_of(self, design: Design) -> Block:
        """The block under a design whose sub-results are built."""
        return self.block if design == self.default else view_candidates.redesigned(self.block, [self.statics[g] for g in design])

    def sketch(self, design: Design) -> Block:
        """The block under a design as the optimizer sees it; missing sub-results have no folder yet."""
        coming = {g: self._sketched(g) for g in self.missing(design)}
        return view_candidates.redesigned(self.block, [coming.get(g) or self.statics[g] for g in design])

    def sizes_to_build(self, design: Design) -> dict[str, Measured]:
        """The measured sizes of the missing sub-results of a design, by relation name."""
        return {view_candidates.relation_name(self.block, g): self.measured[g] for g in self.missing(design)}

    def _sketched(self, group: RelationSet) -> Static:
        variables = view_candidates.kept_variables(self.block, group)
        return Static(view_candidates.relation_name(self.block, group), variables, "", round(self.measured[group].rows), of=group)

    def size_of(self, group: RelationSet) -> Measured:
        """The size of a sub-result or a part, counted or measured on a sample."""
        if group not in self.measured:
            self.measured[group] = view_candidates.as_made(worker_cache.relation(self.store, self.statics[group].at))
        return self.measured[group]

    def bytes(self, design: Design) -> float:
        """The bytes of the sub-results of a design, including those to be built."""
        return sum(self.size_of(group).bytes for group in design if size(group) > 1)

    def make(self, group: RelationSet, folder: Path) -> Static:
        """Builds the sub-result of a group; may run in another thread."""
        return view_candidates.make(folder, self.block, open_store(self.store), group)

    def add(self, static: Static) -> None:
        """Adds a sub-result that has been built."""
        self.statics[static.of] = static
        self.measured.pop(static.of, None)

    def find(self, design: Design) -> bool:
        """Whether all sub-results of a design are built; also finds those of an earlier run."""
        if self.folder is not None:
            for group in self.missing(design):
                found = view_candidates.find_made(self.folder, self.block, open_store(self.store), group)
                if found is not None:
                    self.add(found)
        return not self.missing(design)


def translated(observed: ObservedRows, catalogue: ViewCatalogue, before: Block, after: Block) -> dict[frozenset[str], float]:
    """Observed rows of sets of relations, translated to the sets of another design that join the same parts.

    Sub-results that count rows with multiplicities have fewer rows for the same bag, on average.
    """
    old, new = ({s.name: s.of for s in block.inner} for block in (before, after))
    groups = list(new.items())
    found: dict[frozenset[str], float] = {}
    for names, rows in observed.items():
        covered = sum(old.get(name, 0) for name in names)
        inside = [(name, group) for name, group in groups if group & ~covered == 0]
        if sum(group for _, group in inside) == covered:
            bag = rows
            for name in names:
                bag *= catalogue.size_of(old[name]).repeated if name in old else 1.0
            for _, group in inside:
                bag /= max(catalogue.size_of(group).repeated, 1.0)
            found[frozenset([*(n for n in names if n not in old), *(n for n, _ in inside)])] = bag
    return found


class ViewAdvisor:
    """Prices the designs of one block and chooses among them. ``optimizer_of`` makes an optimizer for a block under a design."""

    def __init__(
        self,
        catalogue: ViewCatalogue,
        background_jobs: BackgroundJobs,
        optimizer_of: Callable[[Block], Optimizer],
        constants: Constants,
    ) -> None:
        self.catalogue, self.background_jobs, self.optimizer_of = catalogue, background_jobs, optimizer_of
        self.constants = constants
        self.current = catalogue.default
        self.benefits = ViewBenefits()
        self.cost_since_pricing = 0.0  # estimated seconds of the batches since the last pricing
        self.interval = FIRST_INTERVAL  # estimated seconds of batches from the last pricing to the next
        self.cost_at_pricing = 0.0  # of the batch of the last pricing; one that costs much more shortens the interval again
        self.failed: set[RelationSet] = set()
        self.events: list[SubResults] = []
        self._target: Design | None = None
        self._next_design = 0
        self._batch = 0
        self._priced: dict[Design, int] = {}
        self._optimizers: dict[Design, Optimizer] = {}
        self._costs: dict[Design, float] = {}
        self._cost = 0.0

    # ------------------------------------------------------------------ a batch
    def due(self) -> Design | None:
        """The design to change to now: it has paid for itself and is built."""
        self.events = []
        if self._target is None:
            return None
        for group in self.catalogue.missing(self._target):
            made = self._built(group)
            if isinstance(made, Failed):
                self._target = None
                return None
            if made is None:
                return None
            self.catalogue.add(made)
        return self._target

    def record_change(self, design: Design) -> None:
        """Records that the design is in use from this batch on."""
        names = [[s.name for s in self.catalogue.block_of(d).statics] for d in (self.current, design)]
        seconds = self.benefits.saved.get(design, 0.0)
        cost = self._costs.get(design)
        self.events.append(SubResults(self.catalogue.block.name, tuple(names[0]), tuple(names[1]), self._cost, cost, seconds))
        self.current, self._target, self.interval = design, None, FIRST_INTERVAL
        self.benefits.take(design)
        self._priced, self._optimizers, self._costs = {}, {}, {}

    def should_price(self, cost: float) -> bool:
        """Adds the cost of a planned batch; returns whether :meth:`price_designs` is due."""
        self._batch += 1
        self._cost = cost
        self.cost_since_pricing += cost
        if cost > SURPRISE * self.cost_at_pricing:
            self.interval, self.cost_at_pricing = FIRST_INTERVAL, cost
        if self.cost_since_pricing < self.interval:
            return False
        self.cost_since_pricing, self.cost_at_pricing = 0.0, cost
        return True

    def price_designs(
        self,
        statistics: Mapping[str, Statistics],
        cost: float,
        observed: Mapping[str, ObservedRows],
        block: Block,
        plans: Iterable[Plan],
    ) -> None:
        """Prices neighbouring designs for a batch that was planned at this cost, and decides whether to build one."""
        found = self._others(block, plans)
        self._optimizers = {design: optimizer for design, optimizer in self._optimizers.items() if design in found}
        fresh = False
        for i in range(min(PRICED, len(found))):
            design = found[(self._next_design + i) % len(found)]
            first = design not in self._priced
            if not (fresh and first) and self._known(design):
                fresh |= first
                self._price(design, statistics, cost, observed, block)
        self._next_design += PRICED
        self.interval = FIRST_INTERVAL if any(self.benefits.saved.values()) else min(2 * self.interval, LONGEST_INTERVAL)
        if self._target is None:
            builds = {d: self.building(d) for d in found if self._saves_now(d, cost) and self._measured(d)}
            self._target = self.benefits.due(builds, cost)

    def _saves_now(self, design: Design, cost: float) -> bool:
        """Whether a design was priced for this batch and saves time in it: what it saved in others, a first batch for example that is
        many times as large, does not come again.
        """
        return self._priced.get(design) == self._batch and saving(self._costs[design], cost) > 0

    def _others(self, block: Block, plans: Iterable[Plan]) -> list[Design]:
        """The designs to price: one step away, or suggested by the current plans."""
        groups = {static.name: static.of for static in block.inner}
        found = dict.fromkeys(neighbours(self.current, self.catalogue.adjacent))
        for plan in plans:
            found |= dict.fromkeys(suggested(self.current, plan, groups, self.catalogue.adjacent))
        return list(found)

    def _measured(self, design: Design) -> bool:
        """Whether the missing sub-results of a design have been measured, and none of them failed."""
        return not self.failed & set(design) and all(g in self.catalogue.measured for g in self.catalogue.missing(design))

    def building(self, design: Design) -> float:
        """Seconds to build the missing sub-results of a design."""
        return sum(self.catalogue.measured[g].seconds(self.constants) for g in self.catalogue.missing(design))

    def _known(self, design: Design) -> bool:
        """Whether a design can be priced: its missing sub-results are measured and can be built, and it is within the budget."""
        if self.failed & set(design):
            return False
        for group in self.catalogue.missing(design):
            if group in self.catalogue.measured:
                continue
            found = self._measurement(group)
            if not isinstance(found, Measured):
                return False
            self.catalogue.measured[group] = found
        passed = [self.catalogue.measured[g].passed for g in self.catalogue.missing(design)]
        return max(passed, default=0.0) <= ROW_BUDGET and self.catalogue.bytes(design) <= self.catalogue.block.budget

    def _price(
        self,
        design: Design,
        statistics: Mapping[str, Statistics],
        cost: float,
        observed: Mapping[str, ObservedRows],
        block: Block,
    ) -> None:
        sketch = self.catalogue.sketch(design)
        if design not in self._optimizers:
            self._optimizers[design] = self.optimizer_of(sketch)
        coming = self.catalogue.sizes_to_build(design)
        known = {s: translated(rows, self.catalogue, block, sketch) for s, rows in observed.items()}
        price = self._optimizers[design].price(
            {s: CandidateStatistics(of_source, coming) for s, of_source in statistics.items()}, known
        )
        if price is not None:
            since = self._batch - self._priced.get(design, self._batch - 1)
            self._priced[design], self._costs[design] = self._batch, price
            self.benefits.record(design, price, cost, since)

    def _built(self, group: RelationSet) -> Static | Failed | None:
        """The sub-result of a group, built in the background; None until then."""
        return self._job("make", group, partial(self.catalogue.make, group, self.background_jobs.folder))

    def _measurement(self, group: RelationSet) -> Measured | Failed | None:
        """The size of a group, measured in the background on a sample; None until then."""
        block, store = self.catalogue.block, self.catalogue.store
        return self._job("measure", group, lambda: view_candidates.measure(block, open_store(store), group))

    def _job(self, what: str, group: RelationSet, work: Callable[[], T]) -> T | Failed | None:
        catalogue = self.catalogue
        name = (what, catalogue.store, *view_candidates.contents(catalogue.block, group))
        found = self.background_jobs.ask(name, work)
        if isinstance(found, Failed):
            self.failed.add(group)
            relation = view_candidates.relation_name(catalogue.block, group)
            names = tuple(s.name for s in catalogue.block_of(self.current).statics)
            self.events.append(SubResults(catalogue.block.name, names, names, failed=f"{relation}: {found.reason}"))
        return found

    # ------------------------------------------------------------------ a restart
    def state(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {
            "design": list(self.current),
            "saved": [[list(design), seconds] for design, seconds in self.benefits.saved.items()],
            "taken": [[list(design), times] for design, times in self.benefits.taken.items()],
            "unseen": [self.cost_since_pricing, self.interval, self.cost_at_pricing],
            "target": self._target,
            "turn": [self._next_design, self._batch, self._cost],
            "priced": [[list(design), batch, self._costs[design]] for design, batch in self._priced.items()],
        }

    def resume(self, state: Mapping[str, Any]) -> bool:
        """Restores :meth:`state`. Returns False if a sub-result of its design was deleted; the compiled design is then used."""
        design = design_of(state["design"])
        if "saved" not in state:  # saved by a run without an advisor
            return design == self.current
        self.cost_since_pricing, self.interval, self.cost_at_pricing = state["unseen"]
        if not self.catalogue.find(design) or self.catalogue.bytes(design) > self.catalogue.block.budget:
            return False
        self.current = design
        saved = {design_of(other): float(seconds) for other, seconds in state["saved"]}
        self.benefits = ViewBenefits(saved, {design_of(other): int(times) for other, times in state["taken"]})
        self._target = design_of(state["target"]) if state["target"] else None
        self._next_design, self._batch, self._cost = state["turn"]
        self._priced = {design_of(other): batch for other, batch, _ in state["priced"]}
        self._costs = {design_of(other): cost for other, _, cost in state["priced"]}
        return True
