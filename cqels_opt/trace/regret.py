"""What switches have saved, and what they have cost more: the plans after and before them, compared in the same batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Outcome: TypeAlias = Literal["saved", "regret"]
"""Of a switch."""


@dataclass(frozen=True, slots=True)
class Regret:
    """Plans after switches, compared with the plans before them in the same batches.

    ``cost`` is the total cost of the new plans in these ``batches``, ``saved`` what the old plans would have cost more, and ``lost`` what
    switches that did not save have cost more. ``gained`` of ``switches`` saved. Costs have the unit of the cost model.
    """

    batches: int = 0
    cost: float = 0.0
    saved: float = 0.0
    lost: float = 0.0
    switches: int = 0
    gained: int = 0

    @classmethod
    def of_switch(cls, batches: int, cost: float, regret: float) -> Regret:
        """Of one switch, which has the ``regret`` over all of its batches."""
        if not batches:
            return cls()
        return cls(batches, cost, max(-regret, 0.0), max(regret, 0.0), 1, int(regret < 0))

    def __add__(self, other: Regret) -> Regret:
        return Regret(*(getattr(self, part) + getattr(other, part) for part in self.__slots__))

    @property
    def outcome(self) -> tuple[Outcome, float]:
        """Of one switch, whether it saved, and how much: the saving as a share of what the old plan would have cost, or :attr:`share`."""
        return ("saved", self.saved / (self.cost + self.saved)) if self.gained else ("regret", self.share)

    @property
    def share(self) -> float:
        """The regret: the losses as a share of the costs of the new plans."""
        return self.lost / self.cost if self.cost else 0.0
