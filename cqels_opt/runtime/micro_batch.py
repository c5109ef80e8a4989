"""A micro-batch in progress: what the driver has read, planned and evaluated of it so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.observed import Observed
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.runtime.evaluate_task import FinishReport
from cqels_opt.runtime.ingest import IngestReport, IngestTask, RejectSpool
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.phase_timer import PhaseTimer
from cqels_opt.stats import SlotCounts
from cqels_opt.windows.binding_slots import SlotFile


@dataclass
class MicroBatch:
    """``after`` is the frontier before the batch; ``files`` are those of the state and those that ingestion has added."""

    number: int
    after: int
    task: IngestTask
    files: list[SlotFile]
    clock: PhaseTimer
    reports: list[IngestReport] = field(default_factory=list)
    rejected: list[RejectSpool] = field(default_factory=list)
    refused: Mapping[str, int] = field(default_factory=dict)  # while the replay was prepared, by stream
    # of what the frontier has released, by stream and Shape.key
    counts: dict[str, list[SlotCounts]] = field(default_factory=dict)
    steps: dict[str, EvaluationStep] = field(default_factory=dict)  # by program
    done: StageReports = field(default_factory=StageReports)
    lengths: dict[str, int] = field(default_factory=dict)  # of the outputs, to commit

    @property
    def rows(self) -> int:
        """The rows of the delta, over all shapes."""
        return sum(c.total for parts in self.counts.values() for c in parts)

    @property
    def finished(self) -> list[FinishReport]:
        """The reports of all files of answers."""
        return [report for reports in self.done.finished.values() for report in reports]

    def untyped(self) -> dict[tuple[str, str], int]:
        """The number of values of the answers that are not of the type of their column, by program and variable."""
        found: Counter[tuple[str, str]] = Counter()
        for program, reports in self.done.finished.items():
            for report in reports:
                found.update({(program, variable): count for variable, count in report.untyped.items()})
        return found

    def observed(self, planners: Mapping[str, QueryPlanner]) -> dict[str, dict[str, Observed]]:
        """What the operators of each program's blocks gave, over all tasks."""
        found: dict[str, dict[str, Observed]] = {}
        for program in planners:
            blocks = found.setdefault(program, {})
            for report in self.done.shares.get(program, []):
                for block, observed in report.observed.items():
                    blocks.setdefault(block, Observed()).add(observed)
        return found

    def totals(self, planners: Mapping[str, QueryPlanner], streams: frozenset[str]) -> dict[str, int]:
        """What the batch adds to the run's totals; ``streams`` are those that are read from outside."""
        seen = [seen for report in self.reports for stream, seen in report.streams.items() if stream in streams]
        plans = [
            plan for planner in planners.values() for block in planner.blocks.values() for plan in block.delta_plans.values()
        ]
        return {
            "elements": sum(s.elements for s in seen),
            "late": sum(s.late for s in seen),
            "rejected": sum(map(len, self.rejected)),
            "answers": sum(report.answers for report in self.finished),
            "switches": sum(plan.switched for plan in plans),
            "batches": 1,
        }
