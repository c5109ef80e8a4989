"""Observed selectivities: the share of rows that a filter kept, recent observations weighing more (DESIGN §6)."""

from __future__ import annotations

from dataclasses import dataclass, field

HALF_LIFE = 8.0
"""The number of further observations after which one has half its weight."""
NO_ROW = 0.5
"""What no row out counts as: half a row."""


@dataclass(slots=True)
class DecayedRatio:
    """Decayed counts of rows in and rows out."""

    rows_in: float = 0.0
    rows_out: float = 0.0
    observations: int = 0

    def observe(self, rows_in: float, rows_out: float, decay: float) -> None:
        """Adds an observation; the weight of all earlier ones is multiplied by ``decay``."""
        self.rows_in = self.rows_in * decay + rows_in
        self.rows_out = self.rows_out * decay + rows_out
        self.observations += 1

    @property
    def value(self) -> float | None:
        """Rows out per row in; None before the first row (unknown is not zero). No row out counts as half a row: few rows that
        were dropped do not prove that all are, and no factor could correct an estimate of zero.
        """
        return min(max(self.rows_out, NO_ROW) / self.rows_in, 1.0) if self.rows_in > 0 else None


@dataclass(slots=True)
class Observations:
    """Ratios by name, of filters and other operators."""

    ratios: dict[str, DecayedRatio] = field(default_factory=dict)

    def observe(self, name: str, rows_in: float, rows_out: float) -> None:
        """Adds the rows that an operator received and kept. ValueError for negative numbers; without rows nothing changes."""
        if rows_in < 0 or rows_out < 0:
            raise ValueError(f"{name}: {rows_in} rows in, {rows_out} rows out")
        if rows_in:
            self.ratios.setdefault(name, DecayedRatio()).observe(rows_in, rows_out, 0.5 ** (1.0 / HALF_LIFE))

    def ratio(self, name: str) -> float | None:
        """The decayed ratio; None if nothing was observed."""
        found = self.ratios.get(name)
        return None if found is None else found.value
