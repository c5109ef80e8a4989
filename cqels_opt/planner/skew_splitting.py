"""Skew splitting: a delta is split by fan-out, and each part has its own plan, where one plan is not the best for all rows.

With skewed keys a join order is good for most rows and bad for a few heavy ones. How many rows of a relation each row of the delta
matches is known exactly before anything runs; a threshold on it splits the delta in two. Each part has its own statistics (its rows, and
its own join sizes with the relations around), is sampled separately, and gets its own cheapest plan. The two plans are used if they are
cheaper together than the one plan for all. (Compare eddies, Avnur & Hellerstein 2000, which route single rows, and selectivity-based
partitioning, Polyzotis 2005.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cqels_opt.operators.block_relations import BlockRelations
from cqels_opt.operators.outer_joins import made_of_each
from cqels_opt.operators.rows import Ints, Rows
from cqels_opt.planner.join_sampling import JoinSampler
from cqels_opt.plans import CostModel, Cut, Optimizer, PlanChoice, QueryGraph, ReoptimizationBudget, Split, Statistics
from cqels_opt.plans.base_estimates import number_of
from cqels_opt.plans.steady import is_steady_share, row_factors
from cqels_opt.stats.frequencies import distinct_values

SEARCH_SECONDS = 0.01
"""Seconds that the search for a split takes."""

SECOND_PLAN_SECONDS = 0.003
"""Seconds that the choice and the operators of a second plan take in each batch that is split; a split must save more."""

GAIN = 0.1
"""The share of the whole plan's cost that a new split must save; a split that is in use only has to be cheaper."""

SPREAD = 1.0
"""The variance between two parts, of the fan-outs' binary logarithm, below which the parts are too similar."""

CUTS = 2
"""Cuts that are tried per delta: those with the greatest variance between their parts."""

SAMPLE = 20_000
"""Rows of a larger delta that are searched for a cut, at equal distances: they have rows of both parts if these differ enough."""

Fans = Mapping[tuple[str, str], Ints]
"""For each relation and variable that the delta joins with, the number of matches of each row of the delta."""


@dataclass(frozen=True, slots=True)
class SplitChoice:
    """A delta in two parts: the cut, the number of rows in the heavier part (of a large delta an estimate), and the plan of each part."""

    cut: Cut
    heavy: int
    few: PlanChoice
    many: PlanChoice

    @property
    def plan(self) -> Split:
        """The plan of both."""
        return Split(self.few.plan, self.cut, self.many.plan)

    @property
    def cost(self) -> float:
        """The cost of both."""
        return self.few.cost + self.many.cost


class FoundCut(NamedTuple):
    """When the parts were planned: the cut, the rows in the heavier part, the rows of the relations, and the shares that filters keep, with
    their weights."""

    cut: Cut
    heavy: int
    rows: Sequence[float]
    filters: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class PartStatistics:
    """The statistics of a part of a delta: rows and join sizes of the source are the part's, all others those of the whole.

    ``rows`` are the part's among ``delta``, the delta or a sample of it, each of whose rows represents ``each`` of them.
    """

    whole: Statistics
    source: str
    rows: Rows
    shares: Mapping[tuple[str, str], float]
    delta: Rows
    each: float

    def cardinality(self, relation: str) -> float | None:
        """The rows of the part, for the source."""
        return len(self.rows) * self.each if relation == self.source else self.whole.cardinality(relation)

    def distinct(self, relation: str, variable: str) -> float | None:
        """The values in the part, for the source; of a sample its share of those in the whole."""
        whole = self.whole.distinct(relation, variable)
        if relation != self.source or variable not in self.rows.columns:
            return whole
        found = float(len(distinct_values(self.rows.columns[variable])))
        if self.each == 1.0 or whole is None:
            return found
        return max(found, whole * found / len(distinct_values(self.delta.columns[variable])))

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """The part's share of the matches, for joins with the source."""
        size = self.whole.join_size(left, right, variable)
        if size is None or self.source not in (left, right):
            return size
        return size * self.shares.get((right if left == self.source else left, variable), 1.0)

    def selectivity(self, filter_name: str) -> float | None:
        """That of the whole."""
        return self.whole.selectivity(filter_name)


class Splitter:
    """Decides for the delta sources of a block whether a delta is split. It keeps the cuts in use, so that near ties do not alternate.

    ``weights`` are the measured weights of filters, which change later. ``sampling_seconds`` per relation is what sampling a plan takes.
    """

    def __init__(self, graph: QueryGraph, model: CostModel, weights: Mapping[str, float], sampling_seconds: float) -> None:
        self.graph, self.model, self.weights, self.sampling_seconds = graph, model, weights, sampling_seconds
        self._optimizers: dict[tuple[str, int], Optimizer] = {}
        self.cuts: dict[str, Cut] = {}
        self.budget = ReoptimizationBudget()
        self._found: dict[str, FoundCut] = {}  # for the last choices of the parts
        self._last: dict[str, SplitChoice] = {}  # these; none after a restart

    def state(self) -> dict[str, Any]:
        """For a checkpoint: the budget, the cuts in use, and the optimizers of the parts."""
        parts = [[source, number, optimizer.state()] for (source, number), optimizer in self._optimizers.items()]
        return {
            "since": self.budget.since,
            "parts": parts,
            "cuts": self.cuts,
            "found": self._found,
            "confirmations": self.budget.confirmations,
        }

    def resume(self, state: Mapping[str, Any], cuts: Mapping[str, Cut]) -> None:
        """Continues from a :meth:`state`. Older ones have no cuts; ``cuts`` are those of the plans that ran last."""
        self.budget.resume(state["since"], state.get("confirmations", {}))
        self.cuts = {source: Cut(*cut) for source, cut in state.get("cuts", cuts).items()}
        for source, number, known in state["parts"]:
            self._optimizer(source, number).resume(known)
        self._found = {source: FoundCut(Cut(*cut), *more) for source, (cut, *more) in state.get("found", {}).items()}

    def choose(
        self,
        whole: PlanChoice,
        view: Statistics,
        relations_of_step: Callable[[], BlockRelations],
        sorting_seconds: float,
        stays: bool = False,
    ) -> SplitChoice | None:
        """The two plans of a source's delta if they pay off; ``whole`` is the plan for all of it, ``view`` its statistics.

        A search takes ``sorting_seconds`` longer if there are many new rows, which may have to be sorted for look-ups. If the plan for all
        of it ``stays``, and relations have about the rows that they had, the last two stay as well until a search is due.
        """
        source, current = whole.source, self.cuts.pop(whole.source, None)
        if self.model.unit != "s" or whole.fallback or whole.retained < 2:
            return None
        if whole.switched:
            self.budget.note(source, False)
        due = self.budget.due(source, whole.cost, SEARCH_SECONDS + sorting_seconds)
        if not due and current is None:
            return None
        now = [number_of(view.cardinality(relation.name)) for relation in self.graph.relations]
        filters = [number_of(view.selectivity(name)) for name in self.weights] + [*self.weights.values()]
        if stays and not due and current is not None and (kept := self._kept(source, current, now, filters)) is not None:
            self.cuts[source] = current
            return kept
        self._found.pop(source, None)
        self._last.pop(source, None)
        relations = relations_of_step()
        places = relations.delta_places(source)
        picked = np.arange(0, places, max(1, places // SAMPLE))
        rows, each = relations.delta_at(source, picked), places / max(1, len(picked))
        fans = self._fans(source, rows, relations)
        best: SplitChoice | None = None
        chosen = 0
        others = cuts(self._joined(fans)) if due or current is None or current[:2] not in fans else []
        for cut in dict.fromkeys([*([current] if current and current[:2] in fans else []), *others]):
            heavy = fans[cut.relation, cut.variable] >= cut.at_least
            if not 0 < int(heavy.sum()) < len(rows):
                continue
            parts = [(rows, np.flatnonzero(heavy == bool(number)), each) for number in (0, 1)]
            least = whole.cost * (1.0 if cut == current else 1.0 - GAIN)
            # a cut in use is not given up for estimates that may be false
            for at_once in (False, True) if cut == current else (False,):
                few, many = (
                    self._part(number, source, view, part, fans, relations, at_once) for number, part in enumerate(parts)
                )
                chosen += 1
                found = SplitChoice(cut, round(heavy.sum() * each), few, many)
                if few.plan != many.plan and found.cost + SECOND_PLAN_SECONDS < least:
                    best = found if best is None or found.cost < best.cost else best
                    break
        if due:
            self.budget.note(source, (best and best.cut) == current)
        if best is not None:
            self.cuts[source] = best.cut
            if chosen == 1:
                self._found[source], self._last[source] = FoundCut(best.cut, best.heavy, now, filters), best
        return best

    def _kept(self, source: str, cut: Cut, now: Sequence[float], filters: Sequence[float]) -> SplitChoice | None:
        """The last choices for a cut, with the rows that relations have ``now``; None if these are others, ``filters`` differ, or the parts
        have been planned for another cut since."""
        found = self._found.get(source)
        if found is None or found.cut != cut or len(found.filters) != len(filters):
            return None
        factors = row_factors(np.array([found.rows]), np.array([now]))
        if factors is None or not all(map(is_steady_share, found.filters, filters)):
            return None
        if source not in self._last:
            few, many = (self._optimizer(source, number).last_choice(source) for number in (0, 1))
            if few is None or many is None:
                return None
            self._last[source] = SplitChoice(cut, found.heavy, few, many)
        last, changed = self._last[source], dict(zip(self.graph.index, factors[0].tolist()))
        return SplitChoice(cut, round(found.heavy * changed[source]), last.few.scaled(changed), last.many.scaled(changed))

    def _fans(self, source: str, rows: Rows, relations: BlockRelations) -> Fans:
        """The matches of each row of a delta in the relations around it."""
        found = {}
        for relation in self.graph.relations:
            for variable in sorted(relation.joined_on & rows.columns.keys()) if relation.name != source else []:
                fans = relations.fan_out(rows, variable, relation.name, source)
                found[relation.name, variable] = made_of_each(relation.kind, fans)
        return found

    def _joined(self, fans: Fans) -> Fans:
        """Those of inner joins: units do not separate heavy rows from light ones."""
        return {key: fan for key, fan in fans.items() if self.graph.relations[self.graph.index[key[0]]].kind == "inner"}

    def _part(
        self,
        number: int,
        source: str,
        view: Statistics,
        part: tuple[Rows, Ints, float],
        fans: Fans,
        relations: BlockRelations,
        at_once: bool,
    ) -> PlanChoice:
        """The cheapest plan for a part of a delta: rows, the places of the part among them, and how many rows each of them represents.

        Plans are sampled when that is due, or ``at_once``.
        """
        rows, places, each = part
        optimizer = self._optimizer(source, number)
        optimizer.set_filter_weights(self.weights)
        shares = {key: float(fan[places].sum()) / max(1.0, float(fan.sum())) for key, fan in fans.items()}
        taken = rows.take(places)
        sampler = JoinSampler(relations, only=(source, taken, each))
        statistics = PartStatistics(view, source, taken, shares, rows, each)
        at_once |= not optimizer.current
        seconds = 0.0 if at_once else self.sampling_seconds * len(self.graph.relations)
        return optimizer.choose({source: statistics}, sampler=sampler, sampling_seconds=seconds)[source]

    def _optimizer(self, source: str, number: int) -> Optimizer:
        """The optimizer of one of the two parts of a delta."""
        if (source, number) not in self._optimizers:
            self._optimizers[source, number] = Optimizer(self.graph, [source], self.model)
        return self._optimizers[source, number]


def cuts(fans: Fans) -> list[Cut]:
    """The cuts of a delta into few and many matches that separate their parts best (Otsu 1979, on binary logarithms)."""
    found = []
    for (relation, variable), fan in fans.items():
        levels = np.bincount(np.frexp(fan.astype(np.float64))[1])  # level k > 0: 2**(k-1) to 2**k - 1 matches
        variance, level = _otsu(levels.astype(np.float64))
        if variance >= SPREAD:
            found.append((-variance, relation, variable, level))
    return [Cut(relation, variable, 1 << (level - 1)) for _, relation, variable, level in sorted(found)[:CUTS]]


def _otsu(levels: np.ndarray) -> tuple[float, int]:
    """(variance between the parts, first level of the upper one) of the best cut of a histogram."""
    total, places = levels.sum(), np.arange(len(levels))
    best, where = 0.0, 1
    for level in range(1, len(levels)):
        below, above = levels[:level].sum(), levels[level:].sum()
        if below and above:
            means = (levels[:level] @ places[:level]) / below, (levels[level:] @ places[level:]) / above
            variance = below * above / total**2 * math.pow(means[1] - means[0], 2)
            if variance > best:
                best, where = variance, level
    return best, where
