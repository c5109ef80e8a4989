"""What Spark ran for a micro-batch: the nodes of its executed plans with Spark's own metrics, read when EXPLAIN ANALYZE is asked for.

Spark keeps the plans and metrics of its last queries (``spark.sql.ui.retainedExecutions``) also where its web page is off. Measuring
costs nothing more than Spark's own accounting. The classes belong to Spark's internal interface; this module has all uses of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from cqels_opt.plans.figures import milliseconds, nbytes, ratio, rows
from cqels_opt.spark.catalyst import items
from cqels_opt.spark.job_descriptions import without_link

ROWS = ("number of output rows", "records read", "shuffle records written")
TIMES = ("duration", "sort time", "time to build", "time to collect", "time to broadcast", "scan time", "shuffle write time")
SIZES = ("data size", "size of files read", "partition data size")
SPREAD = ("shuffle records written", "data size", "partition data size", "duration")
"""Metrics whose largest task is compared with the median task."""

SHOWN = ("WholeStageCodegen", "InputAdapter", "AdaptiveSparkPlan", "AQEShuffleRead", "CollectMetrics", "ResultQueryStage")
"""Nodes that are no operators: they are not listed, and their inputs take their places."""

_UNITS = {"ms": 1.0, "s": 1e3, "m": 60e3, "h": 3600e3} | {
    unit: 1024.0**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))
}
_VALUE = re.compile(r"(-?\d+(?:,\d{3})*(?:\.\d+)?)\s*([A-Za-z]*)")


@dataclass(frozen=True, slots=True)
class Metric:
    """The value of a metric of all tasks together: rows, milliseconds or bytes. ``skew``: the largest task over the median one."""

    total: float
    skew: float | None = None


@dataclass(frozen=True, slots=True)
class ExecutedNode:
    """A node of an executed plan, with its depth in the tree.

    ``ms`` of the topmost node of a stage of generated code are those of the whole stage, of all tasks together: Spark fuses the nodes.
    """

    depth: int
    node: str
    rows: float | None
    ms: float | None
    bytes: float | None
    skew: float | None

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class ExecutedPlan:
    """A query that Spark ran: its number, as on Spark's web page, what it is described as, its duration and its nodes, the root first."""

    number: int
    description: str
    ms: float | None
    nodes: tuple[ExecutedNode, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        nodes = [node.to_json() for node in self.nodes]
        return {"execution": self.number, "description": self.description, "ms": self.ms, "nodes": nodes}

    def text(self) -> str:
        """As text: the tree, each node with its figures."""
        took = "" if self.ms is None else f", {milliseconds(self.ms)} ms"
        cells = [["operator", "rows", "ms", "bytes", "skew"]]
        for n in self.nodes:
            label = n.node if len(n.node) <= LONGEST else n.node[: LONGEST - 1] + "…"
            tree = ("  " * (n.depth - 1) + "└ " if n.depth else "") + label
            cells.append([tree, rows(n.rows), milliseconds(n.ms), nbytes(n.bytes), ratio(n.skew)])
        widths = [max(len(line[i]) for line in cells) for i in range(5)]
        lines = ["  ".join([f"{line[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(line[1:], widths[1:]))]) for line in cells]
        return "\n".join(
            [
                f"Spark ran (SQL query {self.number}{took}): {self.description}".removesuffix(": "),
                *(f"  {line.rstrip()}" for line in lines),
            ]
        )


LONGEST = 60
"""Characters of a node's label."""


def executed(spark: SparkSession, tag: str) -> list[ExecutedPlan]:
    """The queries that ran in jobs with a tag and that have a join; if none has one, all of them."""
    scala: Any = spark.sparkContext._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    jobs = set(scala.statusTracker().getJobIdsForTag(tag))
    store = spark._jsparkSession.sharedState().statusStore()
    recent = list(items(store.executionsList()))[-MOST:]
    plans = [_plan(store, execution) for execution in recent if jobs & _jobs(execution)]
    joined = [plan for plan in plans if any("Join" in node.node for node in plan.nodes)]
    return joined or plans


MOST = 64
"""The queries that are looked through, the latest ones: those of a micro-batch are among them."""


def _jobs(execution: Any) -> set[int]:
    return {int(key) for key in items(execution.jobs().keySet().toSeq())}


def _plan(store: Any, execution: Any) -> ExecutedPlan:
    number = execution.executionId()
    values, graph = store.executionMetrics(number), store.planGraph(number)
    nodes = {int(node.id()): node for node in items(graph.allNodes())}
    below: dict[int, list[int]] = {}
    for edge in items(graph.edges()):
        below.setdefault(int(edge.toId()), []).append(int(edge.fromId()))
    stages = {}  # the time of a stage of generated code, by its topmost node
    for node in nodes.values():
        if node.getClass().getSimpleName() == "SparkPlanGraphCluster":
            inside = [int(inner.id()) for inner in items(node.nodes())]
            children = {child for name in inside for child in below.get(name, ())}
            top = next((name for name in inside if name not in children), None)
            if top is not None:
                stages[top] = _metrics(node, values)
    heads = [
        name for name, node in nodes.items() if not any(name in of for of in below.values()) and name not in _clusters(nodes)
    ]
    found = [step for name in heads for step in _listed(name, nodes, below, stages, values, 0)]
    done = execution.completionTime()
    took = float(done.get().getTime() - execution.submissionTime()) if done.isDefined() else None
    return ExecutedPlan(int(number), without_link(str(execution.description()).split("\n")[0]), took, tuple(found))


def _clusters(nodes: Mapping[int, Any]) -> set[int]:
    return {name for name, node in nodes.items() if node.getClass().getSimpleName() == "SparkPlanGraphCluster"}


def _listed(
    name: int,
    nodes: Mapping[int, Any],
    below: Mapping[int, Sequence[int]],
    stages: Mapping[int, Mapping[str, Metric]],
    values: Any,
    depth: int,
    above: Mapping[str, Metric] | None = None,
) -> Iterator[ExecutedNode]:
    """A node and those below it. ``above`` are the metrics of a stage whose topmost node is not listed."""
    node = nodes[name]
    stage = stages.get(name) or above or {}
    if str(node.name()).startswith(SHOWN):
        for child in below.get(name, ()):
            yield from _listed(child, nodes, below, stages, values, depth, stage)
        return
    found = {**_metrics(node, values), **stage}
    rows, ms, size = (_total(found, names) for names in (ROWS, TIMES, SIZES))
    yield ExecutedNode(depth, _label(node), rows, ms, size, _skew(found))
    for child in below.get(name, ()):
        yield from _listed(child, nodes, below, stages, values, depth + 1)


def _label(node: Any) -> str:
    """The node's first line, without the numbers of columns and of the plan."""
    return re.sub(r"#\d+L?|, \[plan_id=\d+\]", "", str(node.desc()).split("\n")[0]).strip() or str(node.name())


def _metrics(node: Any, values: Any) -> dict[str, Metric]:
    found = {}
    for metric in items(node.metrics()):
        value = values.get(metric.accumulatorId())
        if value.isDefined() and (read := read_metric(str(value.get()))) is not None:
            found[str(metric.name())] = read
    return found


def read_metric(text: str) -> Metric | None:
    """A metric as Spark writes it.

    >>> read_metric("1,000"), read_metric("2.2 s")
    (Metric(total=1000.0, skew=None), Metric(total=2200.0, skew=None))
    >>> read_metric("total (min, med, max (stageId: taskId))\\n30 B (2 B, 4 B, 24 B (stage 0.0: task 1))")
    Metric(total=30.0, skew=6.0)
    """
    found = [float(n.replace(",", "")) * _UNITS.get(unit, 1.0) for n, unit in _VALUE.findall(text.split("\n")[-1])]
    if not found:
        return None
    return Metric(found[0], found[3] / found[2] if len(found) > 3 and found[2] > 0 else None)


def _total(found: Mapping[str, Metric], names: Collection[str]) -> float | None:
    return next((found[name].total for name in names if name in found), None)


def _skew(found: Mapping[str, Metric]) -> float | None:
    return next((found[name].skew for name in SPREAD if name in found and found[name].skew is not None), None)
