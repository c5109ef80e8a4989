"""Plans that were stopped in mid-batch and what they had given: a sum over the records of a trace."""

from __future__ import annotations

from dataclasses import dataclass

from cqels_opt.trace.figures import plural
from cqels_opt.trace.records import Delta


@dataclass(frozen=True, slots=True)
class StoppedPlans:
    """How often a delta was planned again in mid-batch, and the rows that operators gave before, with those of plans that ran twice."""

    stops: int = 0
    rows: int = 0

    @classmethod
    def of_delta(cls, delta: Delta) -> StoppedPlans:
        """Of one choice."""
        rows = sum(operator.observed or 0 for plan in delta.stopped for operator in plan.operators)
        return cls(sum(plan.at is not None for plan in delta.stopped), rows)

    def __add__(self, other: StoppedPlans) -> StoppedPlans:
        return StoppedPlans(self.stops + other.stops, self.rows + other.rows)

    @property
    def sentence(self) -> str:
        """The sums in words; empty if no plan was stopped."""
        if not self.stops:
            return ""
        times = "Once" if self.stops == 1 else f"{self.stops:,} times"
        return f"{times} a delta was planned again in mid-batch, after its operators had given {plural(self.rows, 'row')}."
