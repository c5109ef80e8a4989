"""A query that has been read, kept for later micro-batches: while the query stays the same, only its sample is taken again.

Reading a plan takes hundreds of calls of the JVM; comparing it with the plan of an earlier micro-batch takes one. What is kept is used for
estimates only: the rows come from the user's DataFrame, or from a plan that has been read in the same micro-batch.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from cqels_opt.spark.catalyst import Catalyst, LogicalPlan, analyzed, items
from cqels_opt.spark.join_counts import Sampling
from cqels_opt.spark.relation_identity import versions


class KeptQuery:
    """The plan of a query and that of its sample. An empty relation with the same columns replaces the micro-batch, so that no former
    micro-batch is kept.
    """

    def __init__(self, catalyst: Catalyst, plain: DataFrame, stream: DataFrame, sampling: Sampling) -> None:
        """``plain`` reads the micro-batch ``stream``, of which ``sampling`` takes the sample."""
        rows, sample = analyzed(stream), analyzed(sampling.frame)
        self._catalyst, self._sampling = catalyst, sampling
        self._columns = rows.output()
        self._empty = catalyst.empty(self._columns)
        self._plan = catalyst.substituted(analyzed(plain), [rows], [self._empty])
        self._sample = catalyst.substituted(sample, [rows], [self._empty])
        self._usable = self._sample != sample  # not if the sample reads a part of the micro-batch's own plan
        self._sizes, self._versions = _sizes(self._plan), versions(self._plan)

    def sampling(self, plain: DataFrame, stream: DataFrame) -> Sampling | None:
        """The sample of another micro-batch; None if the query is another one, or if a relation has another size or version.

        Queries are the same if their plans are equal after Catalyst has normalized them, which compares functions and data as well.
        """
        rows, catalyst = analyzed(stream), self._catalyst
        if not self._usable or rows.output() != self._columns:
            return None
        plan = catalyst.substituted(analyzed(plain), [rows], [self._empty])
        if not plan.sameResult(self._plan) or _sizes(plan) != self._sizes:
            return None
        if any(version is not None for version in self._versions) and versions(plan) != self._versions:
            return None
        return self._sampling.of(catalyst.frame(catalyst.substituted(self._sample, [self._empty], [rows])))


def _sizes(plan: LogicalPlan) -> tuple[str, ...]:
    """The sizes of the relations that a plan reads: plans are equal whatever the files of a folder are."""
    return tuple(str(leaf.stats().simpleString()) for leaf in items(plan.collectLeaves()))
