"""What was observed while plans ran: the share of rows that a filter keeps, newer observations weighing more (DESIGN §6)."""

from __future__ import annotations

from dataclasses import dataclass, field

HALF_LIFE = 8.0
"""After how many further observations one weighs half."""


@dataclass(slots=True)
class DecayedRatio:
    """Decayed counts of rows in and rows out."""

    rows_in: float = 0.0
    rows_out: float = 0.0
    observations: int = 0

    def observe(self, rows_in: float, rows_out: float, decay: float) -> None:
        """One more observation, after which all earlier ones weigh ``decay`` times as much as before."""
        self.rows_in = self.rows_in * decay + rows_in
        self.rows_out = self.rows_out * decay + rows_out
        self.observations += 1

    @property
    def value(self) -> float | None:
        """Rows out a row in; None where no row was ever seen (unknown is not zero)."""
        return self.rows_out / self.rows_in if self.rows_in > 0 else None


@dataclass(slots=True)
class Observations:
    """Ratios by name: filters, and whatever else has rows in and rows out."""

    half_life: float = HALF_LIFE
    ratios: dict[str, DecayedRatio] = field(default_factory=dict)

    def observe(self, name: str, rows_in: float, rows_out: float) -> None:
        """Rows went into the operator ``name`` and came out. ValueError for negative numbers; no rows in say nothing."""
        if rows_in < 0 or rows_out < 0:
            raise ValueError(f"{name}: {rows_in} rows in, {rows_out} rows out")
        if rows_in:
            self.ratios.setdefault(name, DecayedRatio()).observe(rows_in, rows_out, 0.5 ** (1.0 / self.half_life))

    def ratio(self, name: str) -> float | None:
        """The decayed ratio; None where nothing was observed."""
        found = self.ratios.get(name)
        return None if found is None else found.value
