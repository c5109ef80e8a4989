"""Rows of windows of the last n elements: they end at a rank, whose time later elements determine."""

from __future__ import annotations

import numpy as np

from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.rows import RANK, Rows
from cqels_opt.windows.binding_slots import rank_elements
from cqels_opt.windows.intervals import FOREVER


def ended(step: EvaluationStep, rows: Rows) -> Rows:
    """Rows with the ends that the elements up to the frontier determine."""
    end = rows.end
    for column in [c for c in rows.columns if c.startswith(RANK)]:
        stream = column.removeprefix(RANK)
        ranks = rank_elements(step.path, step.select("elements", stream), step.dropped.get(stream, 0), step.upto)
        end = np.minimum(end, ranks.time_of(rows.columns[column], int(FOREVER)))
    return rows.with_interval(rows.start, end)
