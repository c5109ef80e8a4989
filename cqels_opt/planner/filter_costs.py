"""The measured costs of filters: seconds per distinct combination of arguments, as weights of the cost model.

Measured times are noisy, and plans should not follow the noise. So old batches fade slowly, a filter needs a minimum of evidence, and a
weight changes only if the measured one differs from it by a factor. The weights are part of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cqels_opt.operators.observed import FilterWork
from cqels_opt.plans.memo import EACH_ROW

FADE = 0.8  # the weight of a batch after the next one
EVIDENCE = 2e-3  # seconds that a filter must have taken before its cost counts as measured
DIFFERS = 1.5  # the factor by which a measured weight must differ from the one in use to replace it
PIECE = 3e-4  # seconds that a piece of rows takes, whatever its content
ENOUGH = 64  # combinations in a piece; with fewer, the measured time is mostly that of the piece itself


@dataclass(slots=True)
class _Measured:
    combinations: float = 0.0
    seconds: float = 0.0


@dataclass(slots=True)
class MeasuredCosts:
    """The measured weights of a block's filters; ``evaluate`` is the seconds that a filter of weight 1 takes."""

    evaluate: float
    weights: dict[str, float] = field(default_factory=dict)
    _measured: dict[str, _Measured] = field(default_factory=dict)

    def observe(self, evaluated: Mapping[str, FilterWork], declared: Mapping[str, float]) -> bool:
        """Adds the evaluations of a batch; returns whether a weight has changed. Filters that are not ``declared`` keep theirs."""
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
        """The state for a checkpoint."""
        return [(name, self.weights.get(name), m.combinations, m.seconds) for name, m in self._measured.items()]

    def resume(self, state: Iterable[tuple[str, float | None, float, float]]) -> None:
        """Restores what :meth:`state` returned."""
        for name, weight, combinations, seconds in state:
            self._measured[name] = _Measured(combinations, seconds)
            if weight is not None:
                self.weights[name] = weight
