"""What the operators and filters of a block did in a batch, for the optimizer and for the trace."""

from __future__ import annotations

from dataclasses import dataclass, field

from cqels_opt.operators.operator_work import OperatorWork, added


@dataclass(slots=True)
class FilterWork:
    """Evaluations of a filter: pieces of rows, rows, distinct combinations of arguments among them, and seconds."""

    pieces: int = 0
    rows: int = 0
    combinations: int = 0
    seconds: float = 0.0

    def add(self, other: FilterWork) -> None:
        """Adds the evaluations of another task."""
        self.pieces += other.pieces
        self.rows += other.rows
        self.combinations += other.combinations
        self.seconds += other.seconds


@dataclass(slots=True)
class Observed:
    """For each delta source the rows after each operator of its plan, and the work of these operators where it was measured; for each
    filter the rows before and after it, and their cost.
    """

    operators: dict[str, list[int]] = field(default_factory=dict)
    filters: dict[str, tuple[int, int]] = field(default_factory=dict)
    evaluated: dict[str, FilterWork] = field(default_factory=dict)
    work: dict[str, list[OperatorWork]] = field(default_factory=dict)

    def tasks(self, source: str) -> list[int]:
        """The tasks in which each operator of a source's plan ran; 1 where that was not measured."""
        work = self.work.get(source, [])
        return [work[i].tasks if i < len(work) else 1 for i in range(len(self.operators[source]))]

    def add(self, other: Observed) -> None:
        """Adds the observations of another task."""
        for source, counts in other.operators.items():
            mine = self.operators.setdefault(source, [0] * len(counts))
            self.operators[source] = [a + b for a, b in zip(mine, counts)]
        for name, (before, after) in other.filters.items():
            b, a = self.filters.get(name, (0, 0))
            self.filters[name] = (b + before, a + after)
        for name, evaluated in other.evaluated.items():
            self.evaluated.setdefault(name, FilterWork()).add(evaluated)
        for source, works in other.work.items():
            self.work[source] = added(self.work.get(source, []), works)
