"""``--joins partitioned``: each probe goes to the task that owns its part of the index (DESIGN §8).

Before a probe the rows are shuffled by the join key, so that all rows of a key meet in one task, and of the memory-mapped index a task
touches the pages of its keys alone: for an index that is too large for each executor to hold. The plan and the one job stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cqels_opt.operators.block import indexed_sides
from cqels_opt.operators.rows import RANK, Rows
from cqels_opt.plans import Plan, Probe
from cqels_opt.spark.fixed_order import FixedOrder
from cqels_opt.spark.relations import Side
from cqels_opt.spark.runner import Batches
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER


class PartitionedOrder(FixedOrder):
    """The plan of one delta source, its probes behind shuffles by their keys. Bushy parts are joined by Spark."""

    def side(self, plan: Plan) -> Side:
        """See :meth:`FixedOrder.side`."""
        if not isinstance(plan, Probe) or not plan.on or plan.relation in self.placed:
            return super().side(plan)
        left = self.side(plan.input)
        return self._put_out(self._probed(left, plan.relation), left.variables)

    def _probed(self, left: Side, name: str) -> Side:
        relations, with_new = self.relations, name in self.with_new
        own, of = relations.variables(name), relations.columns.of
        on = sorted(left.variables & own)
        occurrence = relations.occurrences.get(name)
        ranks = left.ranks | ({RANK + stream for stream in occurrence.ranked} if occurrence else set())
        names = [*sorted(left.variables | own), *sorted(ranks)]
        schema = [*(of[v] for v in names), "a", "z", "n"]
        columns, task, block, timed = relations.columns, relations.task, relations.block, left.timed

        def run(batches: Batches) -> Iterator[pa.RecordBatch]:
            sides = None
            for batch in batches:
                if sides is None:
                    sides = indexed_sides(block, task.program.store, task.step, name, with_new)
                rows = columns.rows(batch)
                if not timed:
                    rows = Rows(rows.columns, np.full(len(rows), BEFORE_TIME), np.full(len(rows), FOREVER), rows.n)
                for side in sides:
                    for joined in side.probe(rows, on):
                        arrays = [*joined.values(names), joined.start, joined.end, joined.n]
                        yield pa.RecordBatch.from_arrays([pa.array(a, pa.int64()) for a in arrays], names=schema)

        shuffled = left.frame.repartition(relations.parts, *(of[v] for v in on))
        frame = shuffled.mapInArrow(run, ", ".join(f"{c} long" for c in schema))
        return Side(frame, left.variables | own, frozenset(ranks), timed=True, counted=True, rows=left.rows)
