"""What the plans that ran cost over the cheapest retained plans in hindsight: a sum over the records of a trace."""

from __future__ import annotations

from dataclasses import dataclass

from cqels_opt.trace.figures import duration
from cqels_opt.trace.records import Delta


@dataclass(frozen=True, slots=True)
class ExcessCost:
    """The plans of delta sources in batches whose rows were observed, in the unit of the cost model.

    ``cost`` is the total cost of the plans that ran in these ``choices``, ``least`` that of the cheapest retained plan of each, both under
    the rows that the batch produced.
    """

    choices: int = 0
    cost: float = 0.0
    least: float = 0.0

    @classmethod
    def of_delta(cls, delta: Delta) -> ExcessCost:
        """Of one choice."""
        return cls() if delta.hindsight is None else cls(1, delta.hindsight.cost, delta.hindsight.least)

    def __add__(self, other: ExcessCost) -> ExcessCost:
        return ExcessCost(self.choices + other.choices, self.cost + other.cost, self.least + other.least)

    @property
    def excess(self) -> float:
        """What the plans cost more than the cheapest ones."""
        return self.cost - self.least

    def sentence(self, unit: str | None) -> str:
        """The excess in words; empty if nothing was observed."""
        if not self.cost:
            return ""
        share = f"{100 * self.excess / self.cost:.1f} %"
        amount = f"{duration(1000 * self.excess)}, {share}" if unit == "s" else share
        return f"In hindsight, the cheapest retained plans of each batch would have saved {amount} of the plans' cost."
