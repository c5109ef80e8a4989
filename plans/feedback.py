"""Observed rows correct estimates: one factor per (delta source, sub-pattern), as in LEO (Stillger et al. 2001).

After a batch the rows that each operator produced are compared with the estimate for that sub-pattern from the statistics alone.
The ratio, smoothed over batches, multiplies the estimate of the sub-pattern and of every larger one without a correction of
its own. A sub-pattern that the current plan does not compute is not observed any more, so its correction decays to that
of the largest sub-pattern inside it. A plan that was rejected because of old observations can therefore be chosen again.

No factor corrects an estimate of zero, and none that was computed from it may multiply another estimate. The observed rows then replace
the estimate, in the sub-pattern and in larger ones, for as long as these are estimated as zero.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.relation_set import RelationSet, contains, size

WEIGHT = 0.5
"""The weight of the newest observation, in the logarithm."""

FADE = 0.9
"""The share of the difference to the inherited correction, in the logarithm, that remains after a batch without an observation."""

NEGLIGIBLE = 0.01
"""A correction closer to the inherited one than this, in the logarithm, is dropped."""


LEAST = 1e-9
"""An estimate of fewer rows is one of zero."""


def ratio(observed: float, estimated: float) -> float:
    """The factor that corrects an estimate from the statistics alone; numbers of rows below 1 are equal."""
    return max(observed, 1.0) / max(estimated, LEAST if observed > 1.0 else 1.0)


def correction_of(observed: float, estimated: float) -> float:
    """The :func:`ratio`; of an estimate of zero the negative of the observed rows, which replace it."""
    return -observed if estimated < LEAST and observed > 1.0 else ratio(observed, estimated)


def corrected(estimated: NDArray[np.float64], corrections: NDArray[np.float64]) -> NDArray[np.float64]:
    """Estimates with their corrections."""
    factored = np.where(corrections == 1.0, estimated, np.maximum(estimated, LEAST) * corrections)
    return np.where(corrections < 0.0, np.where(estimated < LEAST, -corrections, estimated), factored)


def inherited(corrections: Mapping[RelationSet, float], relations: RelationSet, neutral: float) -> float:
    """The correction of a sub-pattern: that of the largest one inside it (of equals, with the later relations); none: ``neutral``."""
    inside = [inner for inner in corrections if contains(relations, inner)]
    return corrections[max(inside, key=lambda s: (size(s), s))] if inside else neutral


@dataclass(slots=True)
class Feedback:
    """The corrections of one delta source, as logarithms: ``_logs`` of factors, ``_rows`` of rows that replace estimates of zero."""

    _logs: dict[RelationSet, float] = field(default_factory=dict)
    _rows: dict[RelationSet, float] = field(default_factory=dict)

    def observe(
        self,
        observations: Iterable[tuple[RelationSet, float, float]],
        refuted: Collection[RelationSet] = (),
        batches: int = 1,
    ) -> None:
        """Adds one batch, or several that were alike: (relations, estimate from the statistics alone, observed rows).

        Earlier observations of the ``refuted`` sub-patterns do not count any more.
        """
        earlier, fade = (1 - WEIGHT) ** batches, FADE**batches
        found = {relations: correction_of(observed, estimated) for relations, estimated, observed in observations}
        seen = {relations: math.log(factor) for relations, factor in found.items() if factor > 0}
        faded = {
            relations: log * fade for relations, log in self._rows.items() if relations not in seen and log * fade > NEGLIGIBLE
        }
        self._rows = faded | {relations: math.log(-rows) for relations, rows in found.items() if rows < 0}
        kept = self._logs.keys() - refuted - self._rows.keys()
        before, self._logs = {relations: log for relations, log in self._logs.items() if relations in kept}, {}
        for relations in sorted({*before, *seen}, key=lambda s: (size(s), s)):
            otherwise = next(
                (log for inner, log in reversed(self._logs.items()) if contains(relations, inner)), 0.0
            )  # the largest
            if relations in seen:
                log = earlier * before.get(relations, seen[relations]) + (1 - earlier) * seen[relations]
            else:
                log = otherwise + (before[relations] - otherwise) * fade
                if abs(log - otherwise) < NEGLIGIBLE:
                    continue
            self._logs[relations] = log

    def corrections(self) -> dict[RelationSet, float]:
        """The correction of each sub-pattern that has one, as :func:`correction_of` has it."""
        factors = {relations: math.exp(log) for relations, log in self._logs.items()}
        return factors | {relations: -math.exp(log) for relations, log in self._rows.items()}

    def state(self) -> list[tuple[RelationSet, float]]:
        """The logarithms, for a checkpoint; those of rows have the complement of their relations."""
        return [*self._logs.items(), *((~relations, log) for relations, log in self._rows.items())]

    @classmethod
    def of(cls, state: Iterable[tuple[RelationSet, float]]) -> Feedback:
        """From a :meth:`state`."""
        known = dict(state)
        logs = {relations: log for relations, log in known.items() if relations >= 0}
        return cls(logs, {~relations: log for relations, log in known.items() if relations < 0})
