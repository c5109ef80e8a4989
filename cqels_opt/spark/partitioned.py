"""``--joins partitioned``: each probe runs in the task that owns its part of the index (DESIGN §8).

Before a probe the rows are shuffled by the join key, so that all rows of a key are in one task, and a task touches only the pages
of its keys in the memory-mapped index: for an index that is too large for each executor's memory. Indexes are sorted by id, so
the shuffle key is not the id but its *granule*, the ids that share their upper bits: the keys of a task are adjacent, on pages
that no other task needs. The plan and the single job stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from cqels_opt.operators.block_relations import indexes_of
from cqels_opt.operators.rows import RANK, Rows
from cqels_opt.plans import Plan, Probe
from cqels_opt.rdf.ids import INLINE, KIND_SHIFT
from cqels_opt.spark.fixed_order import FixedOrder
from cqels_opt.spark.ingest_rows import Batches
from cqels_opt.spark.relations import Side
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER

GRANULES: Final = 64
"""Minimum granules per task among the hashed ids of each kind: enough to balance tasks, few enough to span many pages each."""


def granule_bits(parts: int) -> int:
    """The number of bits of an id below its granule."""
    return KIND_SHIFT - (GRANULES * parts - 1).bit_length()


def granule(column: str, parts: int) -> str:
    """The SQL expression of the granule of an id; an inline id, whose values are not uniform, is its own granule."""
    inline = ", ".join(str(kind) for kind in INLINE)
    return f"IF(shiftright({column}, {KIND_SHIFT}) IN ({inline}), {column}, shiftright({column}, {granule_bits(parts)}))"


class PartitionedOrder(FixedOrder):
    """The plan of one delta source, with a shuffle by key before each probe. Spark joins bushy parts."""

    def side(self, plan: Plan) -> Side:
        """See :meth:`FixedOrder.side`."""
        if not isinstance(plan, Probe) or not plan.on or plan.relation in self.placed:
            return super().side(plan)
        left = self.side(plan.input)
        return self._emit(self._probed(left, plan.relation), left.variables)

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
                    sides = indexes_of(block, task.program.store, task.step, name, with_new)
                rows = columns.rows(batch)
                if not timed:
                    rows = Rows(rows.columns, np.full(len(rows), BEFORE_TIME), np.full(len(rows), FOREVER), rows.n)
                for side in sides:
                    for joined in side.probe(rows, on):
                        arrays = [*joined.values(names), joined.start, joined.end, joined.n]
                        yield pa.RecordBatch.from_arrays([pa.array(a, pa.int64()) for a in arrays], names=schema)

        if len(on) == 1:
            with_granule = left.frame.selectExpr("*", f"{granule(of[on[0]], relations.parts)} AS granule")
            shuffled = with_granule.repartition(relations.parts, "granule")
        else:  # an index on several variables may be sorted by any of them, or by a mix
            shuffled = left.frame.repartition(relations.parts, *(of[v] for v in on))
        frame = shuffled.mapInArrow(run, ", ".join(f"{c} long" for c in schema))
        return Side(frame, left.variables | own, frozenset(ranks), timed=True, counted=True, rows=left.rows)
