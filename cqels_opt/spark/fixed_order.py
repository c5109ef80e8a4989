"""Executes a chosen plan with Spark's joins, in the plan's order: shuffle-hash if one side fits a hash table, else sort-merge.

It does not broadcast: each broadcast is an additional Spark job, and the number of jobs must not grow with the number of
patterns. With one partition Spark joins without a shuffle, so a small batch is one task, as with our own operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from pyspark.sql import functions as f

from cqels_opt.lod.multiplicities import product_in_sql
from cqels_opt.operators.blocks import BlockFilter
from cqels_opt.plans import Join, Plan, Probe, Scan, Split
from cqels_opt.plans.join_methods import BROADCAST, SHUFFLE_HASH, SORT_MERGE, JoinMethod
from cqels_opt.plans.plan import relations as names
from cqels_opt.plans.plan import right_relations
from cqels_opt.spark.relations import Columns, Relations, Side, filtered

Metric: TypeAlias = tuple[str, int]
"""A metric's name, and the index of its column."""

HASHED = 1_000_000  # maximum rows per partition of a hash table


class FixedOrder:
    """The plan of one delta source. Metrics named ``<prefix>:<place>`` count the output rows of each operator."""

    def __init__(self, relations: Relations, source: str, with_new: frozenset[str], prefix: str) -> None:
        self.relations, self.source, self.with_new, self.prefix = relations, source, with_new, prefix
        self.operators: list[Metric] = []  # the metric of each operator, by index
        self.filters: list[tuple[str, Metric, Metric]] = []  # filters with the metrics of their input and output rows
        self.placed: dict[str, BlockFilter] = {}

    def run(self, planned: Plan | Split) -> Side:
        """The rows of a whole plan (the first of a split plan); filters that the plan names are operators of it."""
        plan = planned.few if isinstance(planned, Split) else planned
        self.placed = {x.name: x for x in self.relations.block.filters if x.name in names(plan)}
        return self.side(plan)

    def side(self, plan: Plan) -> Side:
        """The rows of a plan. Operators are numbered in execution order, as in operators/delta_join.py."""
        if isinstance(plan, Scan):
            return self._emit(self._relation(plan.relation), frozenset())
        left = self.side(plan.input)
        if isinstance(plan, Probe) and plan.relation in self.placed:
            return self._emit(left, left.variables, [self.placed[plan.relation]])
        if isinstance(plan, Join):
            rights = [self.side(plan.build)]
        else:
            rights = [self._relation(name) for name in right_relations(plan)]
        joined = left
        for right in rights:
            joined = join(joined, right, self.relations.columns, self.relations.parts, self.how(plan))
        return self._emit(joined, left.variables)

    def how(self, plan: Plan) -> JoinMethod | None:
        """The join method of a join; None: chosen by the sizes of its sides."""
        return None

    def _relation(self, name: str) -> Side:
        return self.relations.get(name, self.source, name in self.with_new)

    def _emit(self, side: Side, before: frozenset[str], first: Sequence[BlockFilter] = ()) -> Side:
        place, name = len(self.operators), f"{self.prefix}:{len(self.operators)}"
        block = self.relations.block
        applicable = [*first, *(x for x in block.filters if x.name not in self.placed and _bound_now(x, before, side.variables))]
        if applicable:
            counted = f"{self.prefix}:f{place}"
            side = filtered(side, applicable, self.relations.columns, self.relations.task, counted)
            self.filters += [(x.name, (counted, i), (counted, i + 1)) for i, x in enumerate(applicable)]
        self.operators.append((name, 0))
        return replace(side, frame=side.frame.observe(name, f.count(f.lit(1)).alias("rows")))


def _bound_now(x: BlockFilter, before: frozenset[str], after: frozenset[str]) -> bool:
    return x.variables <= after and not (before and x.variables <= before)


def join(left: Side, right: Side, columns: Columns, parts: int, how: JoinMethod | None = None) -> Side:
    """Joins the rows of both sides that agree in all shared variables; intersects their intervals."""
    of = columns.of
    on = sorted(of[v] for v in left.variables & right.variables)
    conditions = [f"l.{c} = r.{c}" for c in on]
    if left.timed and right.timed:
        conditions += ["l.a < r.z", "r.a < l.z"]
    a, b = left.frame, right.frame
    if how is None:
        how = SHUFFLE_HASH if min(left.rows, right.rows) <= HASHED * parts else SORT_MERGE
    if not on:
        b = b.hint("shuffle_replicate_nl")
    elif how == SORT_MERGE:
        b = b.hint("merge")
    elif how == BROADCAST:
        b = b.hint("broadcast")
    elif right.rows <= left.rows:
        b = b.hint("shuffle_hash")
    else:
        a = a.hint("shuffle_hash")
    both = a.alias("l").join(b.alias("r"), f.expr(" AND ".join(conditions)) if conditions else None, "inner")
    chosen = [f"l.{of[v]}" for v in sorted(left.variables)] + [f"r.{of[v]}" for v in sorted(right.variables - left.variables)]
    chosen += [_either(of[r], r in left.ranks, r in right.ranks, "least(l.{0}, r.{0})") for r in sorted(left.ranks | right.ranks)]
    if left.timed or right.timed:
        chosen.append(_either("a", left.timed, right.timed, "greatest(l.{0}, r.{0})"))
        chosen.append(_either("z", left.timed, right.timed, "least(l.{0}, r.{0})"))
    if left.counted or right.counted:
        chosen.append(_either("n", left.counted, right.counted, product_in_sql(["l.{0}", "r.{0}"])))
    frame = both.selectExpr(*chosen) if chosen else both.selectExpr("1L AS n")
    return Side(
        frame if on and parts > 1 else frame.coalesce(parts),  # a product has too many partitions; Spark must see that it is one
        left.variables | right.variables,
        left.ranks | right.ranks,
        left.timed or right.timed,
        left.counted or right.counted or not chosen,
        max(left.rows, right.rows) if left.timed == right.timed else left.rows if left.timed else right.rows,
    )


def _either(column: str, in_left: bool, in_right: bool, both: str) -> str:
    text = both.format(column) if in_left and in_right else f"{'l' if in_left else 'r'}.{column}"
    return f"{text} AS {column}"
