"""The declarations of a block's relations for the statistics, and the names of statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from cqels_opt.stats.frequencies import Fanout
from cqels_opt.stats.slot_statistics import Intervals

Kind: TypeAlias = Literal["cardinality", "distinct", "join_size", "selectivity"]


class Key(NamedTuple):
    """The name of a statistic: its kind, and a relation, a relation and a variable, two and a variable, or a filter."""

    kind: Kind
    names: tuple[str, ...]

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations that it describes; none for a filter."""
        return self.names[: {"cardinality": 1, "distinct": 1, "join_size": 2, "selectivity": 0}[self.kind]]

    def __str__(self) -> str:
        """As in traces: ``join_size(lsnow, ls30, ?loc)``."""
        names = list(self.names)
        if self.kind in ("distinct", "join_size"):
            names[-1] = "?" + names[-1]
        return f"{self.kind}({', '.join(names)})"


@dataclass(frozen=True, slots=True)
class StaticRelation:
    """A static relation: ``rows``; for each variable its distinct values, and the fan-out of its index where it has one."""

    name: str
    variables: tuple[str, ...]
    rows: int
    distincts: Mapping[str, int] = field(default_factory=dict)
    fanouts: Mapping[str, Fanout] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WindowedRelation:
    """An occurrence of a stream pattern: its variables and its window's interval function, see :class:`WindowStatistics`."""

    name: str
    variables: tuple[str, ...]
    intervals: Intervals
    moving: bool = False
