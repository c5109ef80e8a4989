"""A DataFrame over files whose plan is kept for later micro-batches: the same operators over other files.

Each operation on a DataFrame analyzes its plan, and an expression takes several calls of the JVM; to replace the relations that a plan
reads takes a few calls for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from cqels_opt.spark.catalyst import Catalyst, LogicalPlan, analyzed, items
from cqels_opt.spark.join_inputs import varying


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place of a plan where rows of files are read: those of ``kind``, and of them those whose ``column`` is at least ``age`` before
    a bound, if these are given."""

    plan: LogicalPlan
    kind: str
    column: str | None = None
    age: int = 0


@dataclass(slots=True)
class Leaves:
    """The places of a plan where files are read. ``files`` has a DataFrame over files by kind."""

    catalyst: Catalyst
    files: Mapping[str, DataFrame]
    made: list[Leaf] = field(default_factory=list)

    def make(self, kind: str, column: str | None = None, age: int = 0) -> DataFrame:
        """A DataFrame over the files of a kind with columns of its own, for one place of a plan."""
        plan = analyzed(self.files[kind]).newInstance()
        self.made.append(Leaf(plan, kind, column, age))
        return self.catalyst.frame(plan)


@dataclass(frozen=True, slots=True)
class PlanOverFiles:
    """The plan of a DataFrame, and the places where it reads files.

    ``complete``: all places are in the plan as they were made. An extension of Spark's analyzer may have replaced them.
    """

    catalyst: Catalyst
    plan: LogicalPlan
    leaves: Sequence[Leaf]
    complete: bool

    @classmethod
    def of(cls, frame: DataFrame, leaves: Leaves) -> PlanOverFiles:
        """The plan of ``frame``, which reads files at ``leaves``."""
        plan, catalyst = leaves.catalyst.forget_datasets(analyzed(frame)), leaves.catalyst
        found = [catalyst.forget_datasets(leaf) for leaf in items(plan.collectLeaves())]
        return cls(catalyst, plan, tuple(leaves.made), all(leaf.plan in found for leaf in leaves.made))

    def over(self, files: Mapping[str, DataFrame], bound: int = 0) -> DataFrame:
        """The same operators over other files with the same columns; rows of a leaf with a column are above ``bound`` minus its age."""
        read = {kind: analyzed(frame) for kind, frame in files.items()}
        others = []
        for leaf in self.leaves:
            plan = self.catalyst.over(leaf.plan, read[leaf.kind])
            if leaf.column is not None:
                plan = analyzed(self.catalyst.frame(plan).where(f.col(leaf.column) > varying(bound - leaf.age, leaf.column)))
            others.append(plan)
        return self.catalyst.frame(self.catalyst.substituted(self.plan, [leaf.plan for leaf in self.leaves], others))
