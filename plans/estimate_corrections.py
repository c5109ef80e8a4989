"""What corrects the estimates of a memo: the rows that operators produced (feedback), and those of the last sample of each delta source.

With feedback a sample counts for its own delta. Then the sampled rows of sets that no operator gave become feedback as well, which decays:
without them a plan that was sampled and not chosen would be chosen for the next delta that is not sampled. Without feedback a sample counts
until the next one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from cqels_opt.plans.feedback import LEAST, Feedback, corrected, correction_of
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.relation_set import RelationSet, contains, size
from cqels_opt.plans.sampling import Corrections, SampledCardinality

Logs: TypeAlias = "list[tuple[RelationSet, float]]"
"""The feedback, or the last sample, of a delta source, as a checkpoint keeps it."""

ObservedRows: TypeAlias = "Mapping[frozenset[str], float]"
"""Observed rows of sets of relations, by the names of these."""


class EstimateCorrections:
    """The corrections of the delta sources of one memo. Every change is applied to the memo's table of rows."""

    def __init__(self, memo: Memo, sources: Sequence[str], feedback: bool) -> None:
        self.memo = memo
        self._numbers = {source: number for number, source in enumerate(sources)}
        self._feedback = {source: Feedback() for source in sources} if feedback else None
        self._sampled: dict[str, Corrections] = {}

    # ------------------------------------------------------------------ samples
    def expire_samples(self) -> None:
        """Before the next delta: with feedback, drops the samples."""
        if self._feedback is not None:
            for source in self._sampled:
                self._apply(source, self._feedback[source].corrections())
            self._sampled = {}

    def start_sample(self, source: str) -> None:
        """Starts a new sample of a source's delta, from what feedback has observed."""
        self._sampled[source] = Corrections(self._factors(source))

    def add_sample(self, source: str, rows: Iterable[tuple[RelationSet, SampledCardinality | None]]) -> None:
        """Adds the rows of the operators of one sampled plan, in their order (None: unknown)."""
        counted = {relations: found for relations, found in rows if found is not None}
        for (relations, found), alone in zip(counted.items(), self.memo.uncorrected_rows(source, counted), strict=True):
            self._sampled[source].learn(relations, alone, found)
        self._apply(source, self._observed(source) | self._sampled[source].known)

    def correct_delta(self, source: str, rows: Iterable[tuple[RelationSet, float]]) -> None:
        """Adds the rows that operators gave before the delta was stopped. They count like a sample of it, and are exact."""
        sampled = self._sampled.setdefault(source, Corrections(self._factors(source)))
        given = dict(rows)
        for (relations, seen), alone in zip(given.items(), self.memo.uncorrected_rows(source, given), strict=True):
            sampled.observe(relations, alone, seen)
        self._apply(source, self._observed(source) | sampled.known)

    def sampled_rows(self, source: str) -> dict[RelationSet, float]:
        """The rows of the sets that were sampled, or counted, of a source's delta."""
        sampled = self._sampled[source]
        alone = self.memo.uncorrected_rows(source, sampled.counted)
        return {s: max(rows, LEAST) * sampled.known[s] for s, rows in zip(sampled.counted, alone, strict=True)}

    # ------------------------------------------------------------------ feedback
    def observe(
        self,
        source: str,
        rows: Iterable[tuple[RelationSet, float]],
        refuted: Collection[RelationSet] = (),
        batches: int = 1,
    ) -> None:
        """Adds the rows that operators produced in a batch, or in each of several, and those of the last sample of sets that they do not
        give; without feedback it has no effect. ``refuted`` are sets whose estimates were so false that a delta was stopped."""
        if self._feedback is not None:
            seen = (self.sampled_rows(source) if source in self._sampled else {}) | dict(rows)
            observed = zip(seen, self.memo.uncorrected_rows(source, seen), seen.values(), strict=True)
            self._feedback[source].observe(observed, refuted, batches)
            self._sampled.pop(source, None)
            self._apply(source, self._observed(source))

    def assume_observed(self, observed: Mapping[str, Iterable[tuple[RelationSet, float]]]) -> None:
        """Prices the memo with exactly these rows, until :meth:`forget_assumed`.

        Feedback counts only for patterns without a join that was observed: it is of earlier batches, in which that join gave other rows.
        """
        for source, rows in observed.items():
            exact = self._ratios(source, dict(rows))
            joined = [s for s in exact if size(s) > 1]
            earlier = {s: factor for s, factor in self._observed(source).items() if not any(contains(s, z) for z in joined)}
            self._apply(source, earlier | exact)
        self.memo.refresh()

    def forget_assumed(self, sources: Iterable[str]) -> None:
        """Back to what feedback has observed; the memo is priced with it at its next refresh."""
        for source in sources:
            self._apply(source, self._observed(source))

    def seed_feedback(self, observed: Mapping[str, ObservedRows]) -> None:
        """Starts with rows that were observed in another memo."""
        if self._feedback is not None:
            for source, rows in observed.items():
                found = self._ratios(source, self._rows_of(rows))
                logs = ((s, math.log(factor)) if factor > 0 else (~s, math.log(-factor)) for s, factor in found.items())
                self._feedback[source] = Feedback.of(logs)
                self._apply(source, found)

    def _observed(self, source: str) -> dict[RelationSet, float]:
        return self._feedback[source].corrections() if self._feedback is not None else {}

    def _factors(self, source: str) -> dict[RelationSet, float]:
        """What feedback has observed, without rows that replace estimates of zero: a sample corrects these itself."""
        return {relations: factor for relations, factor in self._observed(source).items() if factor > 0}

    # ------------------------------------------------------------------ rows in place of factors
    def cardinalities(self, source: str, *, sampled: bool) -> ObservedRows:
        """The observed (or last sampled, if ``sampled``) rows of sets of relations."""
        known = self._sampled[source].known if sampled and source in self._sampled else self._observed(source)
        names, alone = self.memo.graph.names, self.memo.uncorrected_rows(source, known)
        found = corrected(np.array(alone), np.array([*known.values()])).tolist()
        return {frozenset(names(s)): rows for s, rows in zip(known, found)}

    def assume(self, observed: Mapping[str, ObservedRows]) -> None:
        """Replaces the estimates of these sets by rows that were observed in another memo, and drops all other corrections."""
        for source in self._numbers:
            self._apply(source, self._ratios(source, self._rows_of(observed.get(source, {}))))

    def _rows_of(self, observed: ObservedRows) -> dict[RelationSet, float]:
        """The rows of the sets that the memo has, smaller ones first."""
        memo = self.memo
        sets = {memo.graph.set_of(names): rows for names, rows in observed.items() if names <= memo.graph.index.keys()}
        known = sorted(filter(memo.has, sets), key=lambda s: (size(s), s))
        return {s: sets[s] for s in known}

    def _ratios(self, source: str, rows: Mapping[RelationSet, float]) -> dict[RelationSet, float]:
        """The corrections that turn estimates from the statistics alone into these rows."""
        alone = self.memo.uncorrected_rows(source, rows)
        return {s: correction_of(seen, estimate) for (s, seen), estimate in zip(rows.items(), alone, strict=True)}

    # ------------------------------------------------------------------ a restart
    def state(self, source: str) -> Logs:
        """The feedback; without it the factors of the last sample."""
        if self._feedback is not None:
            return self._feedback[source].state()
        return [*self._sampled[source].known.items()] if source in self._sampled else []

    def resume(self, source: str, state: Logs) -> None:
        """Continues from the :meth:`state` of a memo of the same block; sets that this memo does not have are dropped."""
        if self._feedback is not None:
            self._feedback[source] = Feedback.of((s, log) for s, log in state if self.memo.has(s if s >= 0 else ~s))
            self._apply(source, self._observed(source))
        elif state:
            self._sampled[source] = Corrections({s: factor for s, factor in state if self.memo.has(s)})
            self._apply(source, self._sampled[source].known)

    def _apply(self, source: str, factors: Mapping[RelationSet, float]) -> None:
        self.memo.table.correct(self._numbers[source], factors)
