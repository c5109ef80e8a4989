"""How the optimizer reads statistics: a protocol that ``cqels_opt.stats`` satisfies without importing this room.

There is one :class:`Statistics` object for each delta source. For that source its own relation means its delta (the rows
of this batch); every other relation means its content. ``None`` is "not observed", never zero (DESIGN §4.8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeAlias

Kind: TypeAlias = Literal["cardinality", "join_size", "distinct", "selectivity"]

Key: TypeAlias = "tuple[Kind, tuple[str, ...]]"
"""The name of a statistic: a :class:`StatisticKey`, or an equal tuple."""


class Statistics(Protocol):
    """The current statistics, for one delta source."""

    def cardinality(self, relation: str) -> float | None:
        """card(Ω): the rows of the relation's content as the plan will see it (report §5)."""

    def distinct(self, relation: str, variable: str) -> float | None:
        """The number of distinct values of a variable in the relation. Read only if a join size is unknown."""

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """Σ over c of card(Ωleft, x=c)·card(Ωright, x=c), with the share of pairs whose intervals overlap; symmetric."""

    def selectivity(self, filter_name: str) -> float | None:
        """The share of rows that a filter keeps."""


class StatisticKey(NamedTuple):
    """The name of one leaf statistic: ``names`` are a relation, a relation and a variable, two and a variable, or a filter.

    Any ``(kind, names)`` tuple is accepted as a key, so that a source of statistics can have a type of its own.
    """

    kind: Kind
    names: tuple[str, ...]

    def read(self, statistics: Statistics) -> float | None:
        """Its value now."""
        match self.kind, self.names:
            case "cardinality", (relation,):
                return statistics.cardinality(relation)
            case "distinct", (relation, variable):
                return statistics.distinct(relation, variable)
            case "join_size", (left, right, variable):
                return statistics.join_size(left, right, variable)
            case "selectivity", (name,):
                return statistics.selectivity(name)
        raise ValueError(f"no statistic has the key {self!r}")

    def __str__(self) -> str:
        """As in traces: ``join_size(lsnow, ls30, ?loc)``."""
        names = list(self.names)
        if self.kind in ("distinct", "join_size"):
            names[-1] = "?" + names[-1]
        return f"{self.kind}({', '.join(names)})"


@dataclass(frozen=True, slots=True)
class KnownStatistics:
    """Statistics from mappings: for tests, and for values that are read from a file or known in advance.

    ``join_sizes`` has one entry per pair, in either order.
    """

    cardinalities: Mapping[str, float] = field(default_factory=dict)
    join_sizes: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    distincts: Mapping[tuple[str, str], float] = field(default_factory=dict)
    selectivities: Mapping[str, float] = field(default_factory=dict)

    def cardinality(self, relation: str) -> float | None:
        """See :class:`Statistics`."""
        return self.cardinalities.get(relation)

    def distinct(self, relation: str, variable: str) -> float | None:
        """See :class:`Statistics`."""
        return self.distincts.get((relation, variable))

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        """See :class:`Statistics`."""
        size = self.join_sizes.get((left, right, variable))
        return self.join_sizes.get((right, left, variable)) if size is None else size

    def selectivity(self, filter_name: str) -> float | None:
        """See :class:`Statistics`."""
        return self.selectivities.get(filter_name)
