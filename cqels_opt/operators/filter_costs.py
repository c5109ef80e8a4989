"""What filters really cost, from batches: seconds for each distinct combination of arguments, as weights of the cost model.

Times are noisy and plans should not be. So old batches fade slowly, little evidence counts for nothing, and a weight in use is
replaced only where what was measured differs from it by a factor; weights are part of what a restart takes up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cqels_opt.plans.memo import EACH_ROW

FADE = 0.8  # what a batch weighs after the next one
EVIDENCE = 2e-3  # seconds that must have been spent on a filter before it is thought to be measured
DIFFERS = 1.5  # by this factor a measured weight differs from the one in use
PIECE = 3e-4  # seconds that a piece of rows takes whatever is in it
ENOUGH = 64  # combinations in a piece; of fewer the piece itself is what is measured


@dataclass(slots=True)
class Evaluated:
    """Evaluations of a filter: pieces of rows, rows, distinct combinations of arguments among them, and seconds."""

    pieces: int = 0
    rows: int = 0
    combinations: int = 0
    seconds: float = 0.0

    def add(self, other: Evaluated) -> None:
        """Adds what was evaluated elsewhere."""
        self.pieces += other.pieces
        self.rows += other.rows
        self.combinations += other.combinations
        self.seconds += other.seconds


@dataclass(slots=True)
class _Measured:
    combinations: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True)
class MeasuredCosts:
    """The weights of a block's filters that were measured; ``evaluate`` is the seconds of one of weight 1."""

    evaluate: float
    weights: dict[str, float] = field(default_factory=dict)
    _measured: dict[str, _Measured] = field(default_factory=dict)

    def observe(self, evaluated: Mapping[str, Evaluated], declared: Mapping[str, float]) -> bool:
        """Takes a batch in; whether a weight is another now. Filters that are not ``declared`` are not weighed."""
        changed = False
        for name, seen in evaluated.items():
            if name not in declared or seen.combinations < ENOUGH * max(seen.pieces, 1):
                continue
            known = self._measured.setdefault(name, _Measured())
            own = seen.seconds - seen.pieces * PIECE - seen.rows * EACH_ROW * self.evaluate
            known.combinations = known.combinations * FADE + seen.combinations
            known.seconds = known.seconds * FADE + max(own, 0.0)
            if known.seconds < EVIDENCE:
                continue
            weight = max(known.seconds / known.combinations / self.evaluate, 1.0)
            used = self.weights.get(name, declared[name])
            if not used / DIFFERS <= weight <= used * DIFFERS:
                self.weights[name] = float(f"{weight:.2g}")
                changed = True
        return changed

    def state(self) -> list[tuple[str, float | None, float, float]]:
        """What a restart needs to know."""
        return [(name, self.weights.get(name), m.combinations, m.seconds) for name, m in self._measured.items()]

    def resume(self, state: Iterable[tuple[str, float | None, float, float]]) -> None:
        """Takes up what :meth:`state` gave."""
        for name, weight, combinations, seconds in state:
            self._measured[name] = _Measured(combinations, seconds)
            if weight is not None:
                self.weights[name] = weight
