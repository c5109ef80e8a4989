"""Join sampling: the number of rows that the operators of a plan give for the delta at hand, from a sample of it (DESIGN §5, §6).

The delta is known when its plan is chosen, and so are the indexes that the plan would probe. Each operator is done for a bounded sample
of its input. The matches of the sample are counted in the index, exactly and without building them, and a sample of the matches is the
input of the next operator (index-based join sampling, Leis et al. 2017, after the wander join, Li et al. 2016). While all rows fit into
the sample, the counts are exact. Samples are systematic: rows at equal distances, from a start that the batch's number determines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import numpy as np

from cqels_opt.operators.block_relations import BlockRelations
from cqels_opt.operators.interval_join import Indexed, Matches
from cqels_opt.operators.multiway_join import fan_out, multiway_join
from cqels_opt.operators.row_limit import RowLimit
from cqels_opt.operators.rows import Ints, Rows, concat, unit
from cqels_opt.plans import Join, Multiway, Plan, Probe, SampledCardinality, Sampler, Scan
from cqels_opt.plans.plan import operators, relations, right_relations
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER

Sample: TypeAlias = "tuple[Rows, float]"
"""Rows, and how many rows of the whole each of them represents."""

SAMPLE = 1024
"""Rows that an operator passes to the next."""

FILTERED = 512
"""Rows of a sample for which an expensive filter (one that is an operator) is evaluated."""

VERIFIED = 16
"""Matches per row of the sample that are read where they must be verified on a second variable."""

MOST_CLOSED = 1 << 17
"""Rows of a multiway join that are made for a sample; a window may have a triple many times."""

SORTED_AT_ONCE = 1 << 20
"""Rows that are sorted for the candidates of a sample, if they have no index on the variables that these share."""

SECONDS = 0.001
"""Seconds per relation that sampling a delta's plan takes."""

NEW_ROWS = 10_000
"""New rows of windows that take as long as a relation: they may have to be sorted by the variables of a look-up. To read statistics takes
twice as long with as many: their values are counted, and looked up elsewhere."""


def on_demand(relations: Callable[[], BlockRelations]) -> Sampler:
    """A :class:`JoinSampler` that is made when a plan is first sampled."""
    sampler = cache(lambda: JoinSampler(relations()))
    return lambda source, plan: sampler()(source, plan)


class JoinSampler:
    """Samples plans of one block in one step.

    ``only`` are rows of a source's delta that are sampled instead of all of it, and how many rows of the delta each represents.
    """

    def __init__(self, relations: BlockRelations, sample: int = SAMPLE, only: tuple[str, Rows, float] | None = None) -> None:
        self.relations, self.sample, self._only = relations, sample, only
        self._samples: dict[tuple[str, str], Sample | None] = {}
        self._placed: frozenset[str] = frozenset()

    def __call__(self, source: str, plan: Plan) -> list[SampledCardinality | None]:
        """The rows of each of :func:`cqels_opt.plans.operators`; None once no row is left, or where an operator would make too many.

        A bushy part is sampled from its own first relation, and its contribution to the rest relation by relation.
        """
        found: list[SampledCardinality | None] = []
        self._placed |= self.relations.filters.keys() & set(relations(plan))
        path: list[Plan] = [plan]
        while not isinstance(path[-1], Scan):
            path.append(path[-1].input)
        for part in reversed(path):
            if isinstance(part, Join):
                found += self(source, part.build)
            step = self._step(source, self._left_deep(part))
            if step is None:
                break
            rows, scale = step
            found.append(SampledCardinality(len(rows), scale))
            if not len(rows):
                break
        return [*found, *[None] * (len(operators(plan)) - len(found))]

    def _left_deep(self, plan: Plan) -> Plan:
        """A plan without bushy parts that gives the same rows: their relations one by one, connected ones first."""
        if isinstance(plan, Scan):
            return plan
        deep = self._left_deep(plan.input)
        if isinstance(plan, Multiway):
            return replace(plan, input=deep)
        bound = self.relations.bound(deep)
        waiting = right_relations(plan)
        while waiting:
            able = [name for name in waiting if self.relations.needs(name) <= bound]
            name = next((name for name in able if self.relations.variables[name] & bound), able[0])
            waiting.remove(name)
            deep = Probe(deep, name, tuple(sorted(self.relations.variables[name] & bound)))
            bound |= self.relations.variables[name]
        return deep

    def _step(self, source: str, plan: Plan) -> Sample | None:
        """A sample of a left-deep plan's rows; None where it cannot be sampled."""
        key = (source, str(plan))
        if key not in self._samples:
            self._samples[key] = self._scanned(source, plan.relation) if isinstance(plan, Scan) else self._added(source, plan)
        return self._samples[key]

    def _scanned(self, source: str, name: str) -> Sample | None:
        """A sample of the delta, or of the relation with which a bushy part begins."""
        bound = self.relations.variables[name]
        if name == source:
            rows, each = self._given(source)
            return self.relations.filtered(rows, frozenset(), bound, self._placed), each
        return self._joined(source, (unit(int(BEFORE_TIME), int(FOREVER)), 1.0), Probe(Scan(name), name, ()), frozenset())

    def _given(self, source: str) -> Sample:
        """A sample of the delta of a source, or of the rows that are sampled instead, and how many rows of its delta each represents."""
        if self._only is not None and self._only[0] == source:
            _, rows, each = self._only
            picked = self._pick(len(rows), self.sample)
            return rows.take(picked), each * _each(len(rows), picked)
        places = self.relations.delta_places(source)
        picked = self._pick(places, self.sample)
        return self.relations.delta_at(source, picked), _each(places, picked)

    def _added(self, source: str, plan: Plan) -> Sample | None:
        """A sample of a join: of the matches of a sample of its input."""
        assert isinstance(plan, Probe | Multiway)
        before = self._step(source, plan.input)
        if before is None or not len(before[0]):
            return before
        bound = self.relations.bound(plan.input)
        if isinstance(plan, Multiway):
            return self._closed(source, before, plan, bound)
        return self._joined(source, before, plan, bound)

    def _closed(self, source: str, before: Sample, plan: Multiway, bound: frozenset[str]) -> Sample | None:
        """A sample joined with the relations of a multiway join: all matches of as many of its rows as have few candidates and few
        matches; None where one row has too many."""
        left, scale = before
        closing = self.relations.closing(plan, bound, source)
        joined = [relation._replace(sides=[*map(VerifyingSide, relation.sides)]) for relation in closing]
        candidates = int(np.minimum.reduce([fan_out(left, relation.sides, relation.on) for relation in joined]).sum())
        picked = self._pick(len(left), max(1, len(left) * self.sample * VERIFIED // max(1, candidates)))
        while (found := _at_most(multiway_join(left.take(picked), joined), MOST_CLOSED)) is None:
            if len(picked) == 1:
                return None
            picked = picked[::2]
        after = bound.union(*map(self.relations.variables.__getitem__, plan.relations))
        rows = concat([left.take(picked[:0]), *found])
        return self._kept(source, rows, scale * _each(len(left), picked), plan, bound, after)

    def _joined(self, source: str, before: Sample, plan: Probe, bound: frozenset[str]) -> Sample | None:
        """A sample joined with one more relation. In a bushy part, rows that no row of the delta can meet are left out."""
        sides, name, on = self.relations.indexes(plan.relation, source), plan.relation, plan.on
        left, scale = before
        if self.relations.is_unit(name):
            return self._with_unit(left, scale, name, sides, bound)
        matches = [side.matches(left, on) for side in sides]
        ends = np.cumsum([m.total for m in matches])
        total = int(ends[-1]) if len(ends) else 0
        places = self._pick(total, self.sample * (VERIFIED if len(on) > 1 else 1))
        cuts = np.searchsorted(places, ends)
        starts = [0, *cuts[:-1].tolist()]
        parts = [m.rows(places[a:b] - (end - m.total)) for m, a, b, end in zip(matches, starts, cuts.tolist(), ends.tolist())]
        joined = concat(parts) if parts else left.take(np.empty(0, np.int64))
        return self._kept(source, joined, scale * _each(total, places), plan, bound, bound | self.relations.variables[name])

    def _kept(self, source: str, joined: Rows, scale: float, plan: Plan, before: frozenset[str], after: frozenset[str]) -> Sample:
        """A sample of joined rows, under the filters that the join can evaluate."""
        if relations(plan)[0] != source:
            joined = self.relations.meeting(joined, source)
        rows = self.relations.filtered(joined, before, after, self._placed)
        kept = self._pick(len(rows), self.sample)
        return (rows.take(kept) if len(kept) < len(rows) else rows), scale * _each(len(rows), kept)

    def _with_unit(self, left: Rows, scale: float, name: str, sides: Sequence[Indexed], bound: frozenset[str]) -> Sample | None:
        """A sample under a unit, with all matches of each row; None where an OPTIONAL would make too many rows."""
        unit = self.relations.statics.get(name)
        if unit is None:
            few = self._pick(len(left), FILTERED)
            left, scale = left.take(few), scale * _each(len(left), few)
        expands = unit is not None and (unit.kind == "optional" or unit.condition is not None)
        if unit is not None and expands and sides[0].matches(left, unit.on).total > self.sample * VERIFIED:
            return None
        found = concat(list(self.relations.joined(left, name, (), sides)))
        rows = self.relations.filtered(found, bound, bound | self.relations.variables[name], self._placed)
        kept = self._pick(len(rows), self.sample)
        return rows.take(kept) if len(kept) < len(rows) else rows, scale * _each(len(rows), kept)

    def _pick(self, total: int, sample: int) -> Ints:
        """Places of a sample among ``total``: all of them, or at equal distances."""
        if total <= sample:
            return np.arange(total)
        start = np.random.default_rng((self.relations.step.batch, total)).random()
        return ((np.arange(sample) + start) * (total / sample)).astype(np.int64)


class VerifyingSide(Indexed):
    """A side that verifies the candidates of a sample. It needs no index on several variables: to sort all rows of a large relation for
    one takes longer than to look few candidates up by one variable, and to compare the others."""

    def __init__(self, side: Indexed) -> None:
        super().__init__(side.relation, side.names, side.intervals)

    def probe(self, left: Rows, on: Sequence[str], limit: RowLimit | None = None) -> Iterator[Rows]:
        """See :meth:`Indexed.probe`."""
        found = self._by_one(left, on)
        return super().probe(left, on, limit) if found is None else found.all_rows(limit)

    def fan_out(self, left: Rows, on: Sequence[str]) -> Ints:
        """See :meth:`Indexed.fan_out`."""
        if (found := self._by_one(left, on)) is None:
            return super().fan_out(left, on)
        return sum((np.bincount(probe, minlength=len(left)) for probe, _ in found.pairs()), np.zeros(len(left), np.int64))

    def _by_one(self, left: Rows, on: Sequence[str]) -> Matches | None:
        """The matches on one of several variables; None if an index on all of them exists, or costs less."""
        if len(on) < 2 or self.rows < SORTED_AT_ONCE or self.has_index(on) or not all(self.has_index([v]) for v in on):
            return None
        found = self.matches(left, on)
        return found if found.total < self.rows else None


def _at_most(parts: Iterable[Rows], most: int) -> list[Rows] | None:
    """All parts; None if they have more rows, of which no more are made."""
    found, rows = list[Rows](), 0
    for part in parts:
        found.append(part)
        rows += len(part)
        if rows > most:
            return None
    return found


def _each(total: int, places: Ints) -> float:
    """How many of ``total`` each of the picked places represents."""
    return total / len(places) if len(places) else 1.0
