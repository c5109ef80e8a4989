"""The declarations of a block's relations for the statistics, and the names of statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from cqels_opt.stats.frequencies import Fanout
from cqels_opt.stats.frequency_sketch import DegreeNorms
from cqels_opt.stats.slot_statistics import Intervals
from cqels_opt.stats.slots import timed

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
    """A static relation: ``rows``; for each variable its distinct values, and the fan-out of its index where it has one.

    Relations with equal ``identity`` have the same rows, with variables in the same order. An empty one equals no other. ``norms`` has the
    norms of each variable's degree sequence; ``counted``: the rows are counted, not taken from a description. ``keeps_nulls``: rows of a
    stream without a value are rows of the join too, as in left and anti joins on a nullable key.
    """

    name: str
    variables: tuple[str, ...]
    rows: int
    distincts: Mapping[str, int] = field(default_factory=dict)
    fanouts: Mapping[str, Fanout] = field(default_factory=dict)
    identity: str = ""
    norms: Mapping[str, Callable[[], DegreeNorms]] = field(default_factory=dict)
    counted: bool = True
    keeps_nulls: bool = False


@dataclass(frozen=True, slots=True)
class WindowedRelation:
    """An occurrence of a stream pattern: its variables and its window's interval function, see :class:`WindowStatistics`.

    Occurrences with equal ``identity`` have the same rows, in columns ``v0``, ``v1``, … in the order of the variables. One without has
    columns that are named like its variables. ``momentary``: its rows are valid for an instant, and other such relations are joined with
    it, so that rows with equal values and times are counted as well (:func:`with_instants`). ``late``: a row may begin in a later
    micro-batch than it arrives in (``[ELEMENTS 10 STEP 5]``), so that the rows of a delta are among the old ones too.
    """

    name: str
    variables: tuple[str, ...]
    intervals: Intervals
    moving: bool = False
    identity: str = ""
    momentary: bool = False
    late: bool = False

    @property
    def counted(self) -> tuple[str, ...]:
        """The columns whose values are counted."""
        return (*self.columns, *map(timed, self.columns)) if self.momentary else self.columns

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its rows, in the order of the variables."""
        return tuple(f"v{i}" for i in range(len(self.variables))) if self.identity else self.variables

    def column(self, variable: str) -> str:
        """The column of a variable."""
        return self.columns[self.variables.index(variable)]
