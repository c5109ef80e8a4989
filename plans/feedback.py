"""What was observed corrects what is estimated: a factor a (delta source, sub-pattern), as in LEO (Stillger et al. 2001).

After a batch the rows that each operator gave are compared with what the statistics alone had said of that sub-pattern.
The ratio, smoothed over batches, multiplies the estimate of the sub-pattern and of every larger one without a correction of
its own. A sub-pattern that the current plan does not compute is not observed any more, so its correction fades: a plan
that was once disappointing gets another chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from cqels_opt.plans.relation_set import RelationSet

WEIGHT = 0.5
"""The weight of the newest observation, in the logarithm."""

FADE = 0.9
"""What is left, in the logarithm, of a correction after a batch that did not observe it."""

NEGLIGIBLE = 0.01
"""A correction closer to 1 than this, in the logarithm, is dropped."""


@dataclass(slots=True)
class Feedback:
    """The corrections of one delta source, as logarithms."""

    _logs: dict[RelationSet, float] = field(default_factory=dict)

    def observe(self, observations: Iterable[tuple[RelationSet, float, float]]) -> None:
        """Take in one batch: (relations, estimated from the statistics alone, observed); counts below 1 are taken as 1."""
        seen = {relations: math.log(max(observed, 1.0) / max(estimated, 1.0)) for relations, estimated, observed in observations}
        faded = {relations: log * FADE for relations, log in self._logs.items() if relations not in seen}
        fresh = {relations: (1 - WEIGHT) * self._logs.get(relations, log) + WEIGHT * log for relations, log in seen.items()}
        self._logs = {relations: log for relations, log in (faded | fresh).items() if abs(log) >= NEGLIGIBLE or relations in seen}

    def corrections(self) -> dict[RelationSet, float]:
        """The factor of each sub-pattern that has one."""
        return {relations: math.exp(log) for relations, log in self._logs.items()}
