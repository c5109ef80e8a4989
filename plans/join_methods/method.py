"""What a physical join method is, and what its cost may depend on.

Rows lie either in a Python task (``python``), where consecutive joins are one stage, or in Spark's rows (``spark``). A method states where
it takes its left rows and where it leaves the joined ones; ``plans/physical.py`` adds the cost of moving rows between the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

from cqels_opt.plans.cost import Constants, JoinConstants, build_factor

Place: TypeAlias = Literal["python", "spark"]

COLUMN = 16
"""Bytes per row of an index for each column: the column, and the order of the rows by it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What runs the tasks: task slots in all, executors, and the bytes of indexes that each executor can hold (None: no limit)."""

    slots: int = 1
    executors: int = 1
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class RelationPlacement:
    """The rows and the number of columns of a relation that is probed."""

    rows: float
    columns: int

    @property
    def bytes(self) -> float:
        """The size of its columns and of the order of its rows by each column."""
        return COLUMN * (self.columns + 1) * self.rows


@dataclass(frozen=True, slots=True)
class JoinInputs:
    """One join of a plan. ``operator`` is its :attr:`PlanOperator.op`: ``probe`` into a relation, ``hash`` with a bushy right side, or
    ``cross``. ``relation`` is the right side's name, None for a bushy one. ``left``, ``right`` and ``produced`` are estimated rows.
    """

    operator: str
    relation: str | None
    left: float
    right: float
    produced: float


@dataclass(frozen=True, slots=True)
class PhysicalCostModel:
    """The machine, the constants and the relations of one plan, and the seconds of work that its joins share between ``tasks``."""

    machine: Machine
    tasks: int
    constants: Constants = field(default_factory=Constants)
    joins: JoinConstants = field(default_factory=JoinConstants)
    relations: Mapping[str, RelationPlacement] = field(default_factory=dict)

    def rows(self, name: str) -> float:
        """The rows of a relation; 1 for a unit without statistics."""
        return self.relations[name].rows if name in self.relations else 1.0

    def missing(self, name: str, executors: int = 1) -> float:
        """The share of a relation's index that does not fit the memory of these executors; smaller indexes are held first."""
        memory, own = self.machine.memory, self.relations[name].bytes if name in self.relations else 0.0
        if memory is None or not own:
            return 0.0
        before = sum(r.bytes for other, r in self.relations.items() if (r.bytes, other) < (own, name))
        return min(1.0, max(0.0, 1 - (executors * memory - before) / own))

    def probe(self, left: float, name: str, produced: float, executors: int = 1) -> float:
        """Index look-ups by tasks that share the left rows."""
        c = self.constants
        each = c.look_up(self.rows(name)) + self.joins.miss * self.missing(name, executors)
        return c.operator + (left * each + produced * c.produce) / self.tasks

    def looped(self, left: float, produced: float) -> float:
        """A cross product with a relation, a unit or a filter, on rows that tasks share."""
        return self.constants.operator + (left * self.constants.scan + produced * self.constants.produce) / self.tasks

    def held(self, left: float, right: float, produced: float) -> float:
        """A join with a right side that every task has built in its own memory."""
        c = self.constants
        return c.operator + right * c.build * build_factor(right) + (left * c.match + produced * c.produce) / self.tasks

    def moved(self, rows: float) -> float:
        """Rows from Python to Spark, or back."""
        return rows * self.joins.convert / self.tasks


class JoinMethod(ABC):
    """One physical join method. Methods of one class with equal attributes are equal, also after a trip to an executor."""

    name: ClassVar[str]
    """As the trace and EXPLAIN show it."""
    takes: ClassVar[Place] = "python"
    """Where its left rows must lie."""
    gives: ClassVar[Place] = "python"
    """Where it leaves the joined rows. In Spark, its right side must lie there as well; in Python it is an index."""

    @abstractmethod
    def applicable(self, join: JoinInputs) -> bool:
        """Whether the method can do a join."""

    @abstractmethod
    def cost(self, join: JoinInputs, prices: PhysicalCostModel) -> float:
        """The estimated seconds of the join, without those of its inputs."""

    def join(self, left: Any, right: Any, on: Sequence[str]) -> Iterable[Any]:
        """The rows of ``left`` joined with an index on variables, in a Python task; the default probes the index.

        ``left`` and the result are :class:`cqels_opt.operators.rows.Rows`, ``right`` is a
        :class:`cqels_opt.operators.interval_join.Indexed`. Every method must produce the same rows, in any order.
        """
        joined: Iterable[Any] = right.probe(left, on)
        return joined

    @property
    def in_task(self) -> bool:
        """Whether the method runs in the Python task that has the left rows, so that it can be fused with its neighbours."""
        return self.takes == self.gives == "python"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"<{self.name}>"
