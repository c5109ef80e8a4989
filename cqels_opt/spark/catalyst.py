"""Access to Catalyst, Spark's optimizer: the logical plan of a DataFrame, and DataFrames of logical plans.

The classes belong to Spark's internal interface, which is stable in practice but not promised, so this module has all uses of them.
Plans and expressions are Java objects; each call of a method takes about 0.1 ms.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from itertools import count
from typing import Any, Final, Literal, TypeAlias

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.relational.column_names import quoted
from cqels_opt.relational.planner import Side
from cqels_opt.spark.versions import BEFORE_4, columns, datasets

LogicalPlan: TypeAlias = Any
"""A node of Catalyst's logical plans (``org.apache.spark.sql.catalyst.plans.logical``)."""
Expression: TypeAlias = Any
"""An expression of Catalyst (``org.apache.spark.sql.catalyst.expressions``)."""
JoinType: TypeAlias = Literal["Inner", "LeftOuter", "LeftSemi", "LeftAnti"]

_identities = count(1 << 40)
"""Numbers of observed plans, above those that Spark gives to its own DataFrames."""


def analyzed(frame: DataFrame) -> LogicalPlan:
    """The analyzed plan of a DataFrame: names are resolved, casts inserted, nothing is optimized."""
    return frame._jdf.queryExecution().analyzed()


def same_session(one: SparkSession | None, other: SparkSession) -> bool:
    """Whether two objects are one session of the JVM: PySpark makes a new object for each micro-batch."""
    return one is other or (one is not None and bool(one._jsparkSession == other._jsparkSession))


def in_session(frame: DataFrame, session: SparkSession) -> DataFrame:
    """The DataFrame in another session of its JVM, such as the one that a streaming query has cloned."""
    if frame.sparkSession is session:
        return frame
    return DataFrame(datasets(session._jvm).ofRows(session._jsparkSession, analyzed(frame)), session)


def children(node: Any) -> list[Any]:
    """The children of a plan or an expression."""
    return items(node.children())


def items(sequence: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [sequence.apply(i) for i in range(sequence.size())]


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """The operands of a conjunction, of any depth."""
    if condition.nodeName() == "And":
        yield from conjuncts(condition.left())
        yield from conjuncts(condition.right())
    else:
        yield condition


def relations_of(plan: LogicalPlan, known: frozenset[str] = frozenset()) -> Iterator[LogicalPlan]:
    """The relations that a parsed query names, those of subqueries included; ``known`` are the names of its common table expressions."""
    kind = plan.nodeName()
    if kind == "UnresolvedRelation":
        if plan.multipartIdentifier().size() > 1 or str(plan.multipartIdentifier().apply(0)).lower() not in known:
            yield plan
        return
    recursive = kind == "UnresolvedWith" and not BEFORE_4 and plan.allowRecursion()
    for inner in items(plan.innerChildren()):  # subqueries, and the definitions of WITH
        own = {str(inner.alias()).lower()} if kind == "UnresolvedWith" else set[str]()
        yield from relations_of(inner, known | own if recursive else known)
        known |= own
    for child in children(plan):
        yield from relations_of(child, known)


def is_table(plan: LogicalPlan) -> bool:
    """Whether a plan has all rows and columns of one leaf, under any names: its size is theirs."""
    while plan.nodeName() in ("SubqueryAlias", "View", "ResolvedHint"):
        (plan,) = children(plan)
    return not children(plan)


def has_hint(plan: LogicalPlan) -> bool:
    """Whether the user has given a hint to a side of a join, where Spark finds it: below operators with one child, or on their left."""
    while (kind := plan.nodeName()) != "ResolvedHint":
        below = children(plan)
        if len(below) != 1 and kind not in ("Intersect", "Except"):
            return False
        plan = below[0]
    return True


def is_statement(spark: SparkSession, plan: LogicalPlan) -> bool:
    """Whether a parsed text is a statement such as CREATE or INSERT, and no query."""
    assert spark._jvm is not None
    logical = "org.apache.spark.sql.catalyst.plans.logical."
    return any(spark._jvm.java.lang.Class.forName(logical + name).isInstance(plan) for name in ("Command", "ParsedStatement"))


_VIEWS: Final = threading.RLock()
"""Threads of one session share its views."""


@contextmanager
def temporary_view(frame: DataFrame, name: str) -> Iterator[None]:
    """A temporary view of a DataFrame, one at a time. A view that had the name before gets it back."""
    catalog = frame.sparkSession._jsparkSession.sessionState().catalog()
    with _VIEWS:
        before = catalog.getRawTempView(name)
        frame.createOrReplaceTempView(quoted(name))
        try:
            yield
        finally:
            if before.isDefined():
                catalog.createTempView(name, before.get(), True)
            else:
                catalog.dropTempView(name)


class Catalyst:
    """Catalyst in the JVM of a session. Classes are looked up once, because each part of a class's name is a call."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        jvm = spark._jvm
        assert jvm is not None
        sql, scala = jvm.org.apache.spark.sql, jvm.scala
        expressions, logical, plans = sql.catalyst.expressions, sql.catalyst.plans.logical, sql.catalyst.plans
        self._dataset, self._column = datasets(jvm), columns(jvm)
        self._has_subquery = expressions.SubqueryExpression.hasSubquery
        self._equal, self._and = expressions.EqualTo, expressions.And
        self._filter, self._project, self._join = logical.Filter, logical.Project, logical.Join
        self._hint, self._collect_metrics = logical.JoinHint, logical.CollectMetrics
        self._types = {kind: _object(plans, kind) for kind in ("Inner", "LeftOuter", "LeftSemi", "LeftAnti")}
        self._some, self._none = scala.Some, scala.Option.empty()
        self._broadcast = logical.HintInfo(self._some(_object(logical, "BROADCAST")))
        self._one_row, self._no_map = logical.OneRowRelation, _object(scala.collection.immutable, "Map").empty()
        self.sequence = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self._observation = sql.Observation
        pattern, self._dataset_id = sql.catalyst.trees.TreePattern, sql.catalyst.trees.TreeNodeTag("dataset_id")
        self._hidden, self._conf = logical.Project.hiddenOutputTag(), spark._jsparkSession.sessionState().conf()
        self._changing = [pattern.PLAN_EXPRESSION(), pattern.PYTHON_UDF(), pattern.SCALA_UDF()]
        for name in ("VARIABLE_REFERENCE", "SQL_SCALAR_FUNCTION", "SQL_FUNCTION_EXPRESSION"):
            with suppress(Py4JError):  # earlier versions of Spark have no such pattern
                self._changing.append(getattr(pattern, name)())
        self._inline, self._push = (
            sql.catalyst.optimizer.InlineCTE,
            _object(sql.catalyst.optimizer, "PushPredicateThroughNonJoin"),
        )
        self._cache = spark._jsparkSession.sharedState().cacheManager()
        self._counting: Any = f.count(f.lit(1)).alias("rows")
        template = spark.range(0).observe("rows", self._counting)
        self._count = analyzed(template).metrics()  # the expressions of a count are the same in all plans

    # ------------------------------------------------------------------ DataFrames
    def frame(self, plan: LogicalPlan) -> DataFrame:
        """The DataFrame of an analyzed plan."""
        return DataFrame(self._dataset.ofRows(self.spark._jsparkSession, plan), self.spark)

    def column(self, expression: Expression) -> Column:
        """An expression as a column of a DataFrame whose plan has its attributes."""
        return Column(self._column(expression))

    # ------------------------------------------------------------------ expressions
    def movable(self, condition: Expression) -> bool:
        """Whether a condition may be evaluated at another place of the plan: it is deterministic and has no subquery."""
        return bool(condition.deterministic()) and not self._has_subquery(condition)

    def equal(self, left: Expression, right: Expression) -> Expression:
        """``left = right``; both have one type."""
        return self._equal(left, right)

    def all_of(self, conditions: Sequence[Expression]) -> Expression:
        """The conjunction of at least one condition."""
        return reduce(self._and, conditions)

    def qualified(self, column: Expression, relation: str) -> Expression:
        """A column that expressions reference by the name of a relation."""
        return column.withQualifier(self.sequence([relation]))

    # ------------------------------------------------------------------ plans
    def is_cached(self, plan: LogicalPlan) -> bool:
        """Whether the user has persisted the rows of a plan; the session's cache is empty in most jobs."""
        if self._cache.isEmpty():
            return False
        session = [] if BEFORE_4 else [self.spark._jsparkSession]
        return bool(self._cache.lookupCachedData(*session, plan).isDefined())

    def repeatable(self, plan: LogicalPlan) -> bool:
        """Whether a plan means the same in later micro-batches: it draws no random numbers, and has no functions of the user, subqueries
        or variables, which may be other ones by then."""
        found = any(plan.containsPattern(pattern) for pattern in self._changing) or "variablereference(" in str(plan.toString())
        return bool(plan.deterministic()) and not found

    def forget_datasets(self, plan: LogicalPlan) -> LogicalPlan:
        """The plan without the set of Datasets that were made of it, which Spark shares with copies of the plan and never empties."""
        plan.unsetTagValue(self._dataset_id)
        return plan

    def filtered(self, plan: LogicalPlan, conditions: Sequence[Expression]) -> LogicalPlan:
        """The rows of a plan that satisfy all conditions."""
        return self._filter(self.all_of(conditions), plan) if conditions else plan

    @property
    def settings(self) -> int:
        """A hash of the session's settings: plans that were analyzed with others may have other answers."""
        return int(self._conf.getAllConfs().hashCode())

    def projected(self, plan: LogicalPlan, output: Any) -> LogicalPlan:
        """The rows of a plan with the attributes of ``output``, a Scala sequence."""
        return self._project(output, plan)

    def in_place_of(self, root: LogicalPlan, plan: LogicalPlan) -> LogicalPlan:
        """The rows of a plan with the attributes of ``root``, and with those that it hides but can name, as a join with USING does."""
        found, hidden = self.projected(plan, root.output()), root.getTagValue(self._hidden)
        if hidden.isDefined():
            found.setTagValue(self._hidden, hidden.get())
        return found

    def joined(
        self, left: LogicalPlan, right: LogicalPlan, kind: JoinType, conditions: Sequence[Expression], broadcast: Side | None
    ) -> LogicalPlan:
        """A join of two plans; ``broadcast`` is the side that gets a broadcast hint, unless a side has a hint of the user, which Spark
        would not read then."""
        if broadcast is not None and (has_hint(left) or has_hint(right)):
            broadcast = None
        condition = self._some(self.all_of(conditions)) if conditions else self._none
        hints = [self._some(self._broadcast) if broadcast == side else self._none for side in ("left", "right")]
        return self._join(left, right, self._types[kind], condition, self._hint(*hints))

    def counted(self, plan: LogicalPlan, name: str) -> tuple[LogicalPlan, Any]:
        """The plan with a metric that counts its rows, and the observation that gets it from the first action on a DataFrame of it.

        The name gets a number, because a user may combine several counted plans in one DataFrame, in which names are unique.
        """
        identity = next(_identities)
        name = f"{name} #{identity - (1 << 40)}"
        observation = self._observation(name)
        if BEFORE_4:
            frame = self._dataset.ofRows(self.spark._jsparkSession, plan)
            return observation.on(frame, self._counting._jc, self.sequence([])).queryExecution().analyzed(), observation
        self.spark._jsparkSession.observationManager().register(observation, identity)
        return self._collect_metrics(name, self._count, plan, identity), observation

    def inlined(self, plan: LogicalPlan) -> LogicalPlan:
        """The plan with its common table expressions where they are read; those that are nondeterministic and read twice stay.

        The number of options of the rule depends on Spark's version; all are off by default.
        """
        jvm: Any = self.spark._jvm
        (constructor,) = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.optimizer.InlineCTE").getConstructors()
        return self._inline(*[False] * constructor.getParameterCount()).apply(plan)

    def empty(self, output: Any) -> LogicalPlan:
        """A relation with the attributes of ``output``, a Scala sequence, for comparisons of plans: it cannot run."""
        return self._project(output, self._one_row())

    def substituted(self, plan: LogicalPlan, parts: Sequence[LogicalPlan], others: Sequence[LogicalPlan]) -> LogicalPlan:
        """A plan with each of ``others`` in all places of the part that it replaces, which has the same attributes; not within subqueries.

        A map from plans to plans is a rule of Catalyst, because Scala's maps are partial functions.
        """
        rule = self._no_map
        for part, other in zip(parts, others, strict=True):
            rule = rule.updated(part, other)
        return plan.transformUp(rule)  # what has been replaced is not searched

    def over(self, leaf: LogicalPlan, other: LogicalPlan) -> LogicalPlan:
        """A relation of files with the attributes of ``leaf``, over the files of another one with the same columns.

        Both are a ``LogicalRelation``, or both a ``DataSourceV2Relation``; the first argument of either has the files.
        """
        jvm: Any = self.spark._jvm
        gateway: Any = self.spark.sparkContext._gateway
        size = leaf.productArity()
        arguments = gateway.new_array(jvm.java.lang.Object, size)
        arguments[0] = other.productElement(0)
        for i in range(1, size):
            arguments[i] = leaf.productElement(i)
        return leaf.makeCopy(arguments)

    def pushed(self, conditions: Sequence[Expression], node: LogicalPlan) -> list[Expression]:
        """The conditions on the input of an operator with one child which Spark derives from conditions on its output."""
        kind = node.nodeName()
        is_distinct = kind == "Distinct" or (kind == "Deduplicate" and node.keys().size() == node.output().size())
        if not conditions or is_distinct or kind == "SubqueryAlias":
            return list(conditions)
        operator = node.withNewChildren(self.sequence([self.empty(node.child().output())]))
        plan, found = self._push.apply(self.filtered(operator, conditions)), list[Expression]()
        while below := children(plan):
            found = list(conjuncts(plan.condition())) if plan.nodeName() == "Filter" else []
            (plan,) = below
        return found

    def replaced(self, path: Sequence[tuple[LogicalPlan, int]], plan: LogicalPlan) -> LogicalPlan:
        """A plan with a new descendant. ``path`` has its ancestors, the root first, each with the index of the child that is next."""
        for parent, place in reversed(path):
            below = children(parent)
            plan = parent.withNewChildren(self.sequence([*below[:place], plan, *below[place + 1 :]]))
        return plan


def _object(package: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(package, name + "$"), "MODULE$")


def count_of(observation: Any) -> int | None:
    """The count that an observation has got; None if no action has finished yet."""
    future = observation.future()
    if not future.isCompleted() or future.value().get().isFailure():
        return None
    found = observation.getAsJava().get("rows")
    return None if found is None else int(found)
