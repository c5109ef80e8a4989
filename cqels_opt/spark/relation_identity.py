"""By what the counts of a relation are kept: the plan of its rows and keys, and the version of each table that it reads.

Catalyst's plans are equal whatever the files of a folder are, and tables of Delta and Iceberg are read in their newest version by a
DataFrame that was made before. So a relation also has the sizes of its tables, and their versions.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from cqels_opt.spark.catalyst import LogicalPlan, items
from cqels_opt.spark.join_query import JoinQuery

DELTA = "org.apache.spark.sql.delta.files.TahoeLogFileIndex"
ICEBERG = "org.apache.iceberg.spark.source.SparkTable"


@dataclass(frozen=True, slots=True)
class Identity:
    """Equal for equal rows and keys, as far as Spark can see. ``rows`` and ``keys`` identify the query, ``version`` its tables' content."""

    rows: int
    keys: tuple[tuple[str, int], ...]
    version: tuple[object, ...]

    def is_version_of(self, other: Identity) -> bool:
        """Whether both are one query over one set of tables, at different times."""
        return self.rows == other.rows and self.keys == other.keys


def identity_of(query: JoinQuery, name: str) -> Identity:
    """The identity of a relation: its plan with its own conditions, its keys, its size, and its tables."""
    relation, catalyst = query.relations[name], query.catalyst
    filtered = catalyst.filtered(relation.plan, relation.own)
    keys = sorted(
        (variable, int(catalyst.filtered(relation.plan, [catalyst.equal(key, key)]).semanticHash()))
        for variable, key in query.keys[name].items()
    )
    return Identity(int(filtered.semanticHash()), tuple(keys), _size_and_versions(relation.plan))


def content_of(plan: LogicalPlan) -> tuple[object, ...]:
    """Equal for plans of equal rows, as far as Spark can see: the plan, its size, and the versions of its tables."""
    return (int(plan.semanticHash()), *_size_and_versions(plan))


def _size_and_versions(plan: LogicalPlan) -> tuple[object, ...]:
    return (int(plan.stats().sizeInBytes()), *versions(plan))


def versions(plan: LogicalPlan) -> tuple[int | None, ...]:
    """The version of each table that a plan reads in its newest version, where the table has one.

    It is the one that this driver has read last, so no file is read for it.
    """
    return tuple(_version(leaf) for leaf in items(plan.collectLeaves()))


def _version(leaf: LogicalPlan) -> int | None:
    kind = leaf.nodeName()
    if kind not in ("LogicalRelation", "DataSourceV2Relation"):
        return None
    with suppress(Py4JError):  # the relation is not over files, or this version of Delta or Iceberg has other methods
        if kind == "LogicalRelation":
            files = leaf.relation().location()
            if files.getClass().getName() == DELTA and not files.isTimeTravelQuery():
                return int(files.deltaLog().unsafeVolatileSnapshot().version())
        elif leaf.table().getClass().getName() == ICEBERG and leaf.table().snapshotId() is None:
            snapshot = leaf.table().table().currentSnapshot()
            return None if snapshot is None else int(snapshot.snapshotId())
    return None
