"""The Spark plans of a declared join: what counts the keys of a micro-batch, and the rows that it adds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import types as t

from cqels_opt.relational.planner import JoinDecision
from cqels_opt.relational.spec import JoinSpec
from cqels_opt.spark.catalyst import Catalyst, same_session
from cqels_opt.spark.join_counts import Counting, counting_of
from cqels_opt.spark.join_rows import AddedRows, Joined, Windows
from cqels_opt.spark.plan_over_files import Leaves, PlanOverFiles

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _CachedPlan(Generic[T]):
    """The plan of a DataFrame, the ``key`` of all that it was made of, and its description."""

    key: Hashable
    plan: PlanOverFiles
    description: T


class JoinPlans:
    """Makes the plans of a join. The rows of windows are in files, so their plans are kept while all else stays as it is."""

    def __init__(self, spec: JoinSpec, projection: Sequence[str]) -> None:
        self._spec, self._projection = spec, projection
        self._catalyst: Catalyst | None = None
        self._counting: _CachedPlan[Counting] | None = None
        self._added: _CachedPlan[Joined] | None = None

    def counting(self, windows: Windows, columns: Sequence[str], types: Mapping[str, t.DataType], number: int) -> Counting:
        """The counting of the keys of the new rows of windows; ``columns`` are those of the stream.

        It takes a sample by the places of rows, which is no random number.
        """

        def build(leaves: Leaves | None) -> tuple[DataFrame, Counting]:
            rows = windows.new if leaves is None else leaves.make("new")
            counting = counting_of(rows, columns, windows.times, self._spec, types, number)
            return counting.frame, counting

        key = (tuple(windows.new.dtypes), tuple(columns), tuple(types.items()))
        frame, counting, self._counting = self._made(windows, key, self._counting, build, always=True)
        return counting.of(frame)

    def added(
        self,
        windows: Windows,
        columns: Sequence[str],
        statics: Mapping[str, DataFrame],
        decisions: Mapping[str, JoinDecision],
        order: Sequence[str],
    ) -> AddedRows:
        """The rows that a micro-batch adds, by the plans of ``decisions`` and the order of the delta rule."""

        def build(leaves: Leaves | None) -> tuple[DataFrame, Joined]:
            joined = Joined(self._spec, statics, windows, columns, self._projection, leaves)
            return joined.rows(decisions, order), joined

        chosen = tuple((s, str(d.choice.plan), str(d.choice.filters), d.methods) for s, d in decisions.items())
        key = (tuple(windows.new.dtypes), tuple(columns), tuple(statics.items()), windows.old is None, chosen, tuple(order))
        frame, joined, self._added = self._made(windows, key, self._added, build)
        return AddedRows.of(frame, joined, decisions)

    def _made(
        self,
        windows: Windows,
        key: Hashable,
        cached: _CachedPlan[T] | None,
        build: Callable[[Leaves | None], tuple[DataFrame, T]],
        always: bool = False,
    ) -> tuple[DataFrame, T, _CachedPlan[T] | None]:
        """A DataFrame over windows, its description, and its plan for later micro-batches, if it means the same in them."""
        files = {"new": windows.new} | ({"old": windows.old} if windows.old is not None else {})
        if not self._spec.stateful:
            return *build(None), None
        if self._catalyst is None or not same_session(self._catalyst.spark, windows.new.sparkSession):
            self._catalyst, cached = Catalyst(windows.new.sparkSession), None
        key = key, self._catalyst.settings
        if cached is not None and cached.key == key:
            return cached.plan.over(files, windows.frontier or 0), cached.description, cached
        leaves = Leaves(self._catalyst, files)
        frame, description = build(leaves)
        plan = PlanOverFiles.of(frame, leaves)
        if not plan.complete:
            return *build(None), None
        repeatable = always or self._catalyst.repeatable(plan.plan)
        made = _CachedPlan(key, plan, description) if repeatable else None
        return plan.over(files, windows.frontier or 0), description, made
