"""Observed rows correct estimates: one factor per (delta source, sub-pattern), as in LEO (Stillger et al. 2001).

After a batch the rows that each operator produced are compared with the estimate for that sub-pattern from the statistics alone.
The ratio, smoothed over batches, multiplies the estimate of the sub-pattern and of every larger one without a correction of
its own. A sub-pattern that the current plan does not compute is not observed any more, so its correction decays to that
of the largest sub-pattern inside it. A plan that was rejected because of old observations can therefore be chosen again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from cqels_opt.plans.relation_set import RelationSet, contains, size

WEIGHT = 0.5
"""The weight of the newest observation, in the logarithm."""

FADE = 0.9
"""The share of the difference to the inherited correction, in the logarithm, that remains after a batch without an observation."""

NEGLIGIBLE = 0.01
"""A correction closer to the inherited one than this, in the logarithm, is dropped."""


LEAST = 1e-9
"""The rows that an estimate of fewer counts as where it is corrected: no factor could correct an estimate of 0."""


def ratio(observed: float, estimated: float) -> float:
    """The factor that corrects an estimate from the statistics alone; numbers of rows below 1 are equal."""
    return max(observed, 1.0) / max(estimated, LEAST if observed > 1.0 else 1.0)


def inherited(corrections: Mapping[RelationSet, float], relations: RelationSet, neutral: float) -> float:
    """The correction of a sub-pattern: that of the largest one inside it (of equals, with the later relations); none: ``neutral``."""
    inside = [inner for inner in corrections if contains(relations, inner)]
    return corrections[max(inside, key=lambda s: (size(s), s))] if inside else neutral


@dataclass(slots=True)
class Feedback:
    """The corrections of one delta source, as logarithms."""

    _logs: dict[RelationSet, float] = field(default_factory=dict)

    def observe(self, observations: Iterable[tuple[RelationSet, float, float]], refuted: Collection[RelationSet] = ()) -> None:
        """Adds one batch: (relations, estimate from the statistics alone, observed rows).

        Earlier observations of the ``refuted`` sub-patterns do not count any more.
        """
        seen = {relations: math.log(ratio(observed, estimated)) for relations, estimated, observed in observations}
        before, self._logs = {relations: log for relations, log in self._logs.items() if relations not in refuted}, {}
        for relations in sorted({*before, *seen}, key=lambda s: (size(s), s)):
            otherwise = inherited(self._logs, relations, 0.0)
            if relations in seen:
                log = (1 - WEIGHT) * before.get(relations, seen[relations]) + WEIGHT * seen[relations]
            else:
                log = otherwise + (before[relations] - otherwise) * FADE
                if abs(log - otherwise) < NEGLIGIBLE:
                    continue
            self._logs[relations] = log

    def corrections(self) -> dict[RelationSet, float]:
        """The factor of each sub-pattern that has one."""
        return {relations: math.exp(log) for relations, log in self._logs.items()}

    def state(self) -> list[tuple[RelationSet, float]]:
        """The logarithms, for a checkpoint."""
        return list(self._logs.items())

    @classmethod
    def of(cls, state: Iterable[tuple[RelationSet, float]]) -> Feedback:
        """From a :meth:`state`."""
        return cls(dict(state))
