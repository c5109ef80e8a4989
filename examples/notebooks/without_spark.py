"""The engine without Spark over a small world, for the notebooks next to this file. Only this file names the runner that they use.

The world is that of the CQELS report: the stream reports who is in which room. In its first half people without papers stand in one room;
in its second half the most prolific authors are in all rooms. So the best join order changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.bench.local import Prepared, joins_of, prepare, small_world
from cqels_opt.bench.social import DRIFT, STREAM
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import parse_plans
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.replay import BatchSize


@dataclass(frozen=True)
class Run:
    """The trace records of a run, one per micro-batch, and its answers as lines of JSON."""

    records: Sequence[TraceRecord]
    answers: Sequence[str]

    @property
    def rows(self) -> list[int]:
        """The rows that all joins produce, by micro-batch."""
        return [sum(one.observed or 0 for delta in record.deltas for one in joins_of(delta)) for record in self.records]


def prepared(query: str, folder: Path, elements: int = 3_000, batch: int = 250) -> Prepared:
    """A query compiled over the world, whose stream is cut into micro-batches of ``batch`` elements."""
    store, stream = small_world(folder / "world", seed=1, places=40, elements=elements, phases=DRIFT, quick=True)
    return prepare("q", query, store, {STREAM: stream}, folder / "query", BatchSize(count=batch))


def run(query: Prepared, state: Path, plan: str | Sequence[str] = "adaptive", trace: Path | None = None) -> Run:
    """Runs the query from the first micro-batch to the last.

    ``plan`` is ``adaptive``, ``static``, ``first``, ``worst``, or fixed plans as text, ``"source: plan; source: plan"``. With a list,
    the k-th micro-batch has the k-th plan: a driver stops after each batch, and the next one resumes from the state on disk.
    """
    chunks = list(query.chunks())
    plans = [plan] * len(chunks) if isinstance(plan, str) else list(plan)
    records: list[TraceRecord] = []
    sink, driver, before = LocalSink(), None, None
    for number, (rows, chosen) in enumerate(zip(chunks, plans, strict=True)):
        if driver is None or chosen != before:
            driver = query.driver(state, sink, mode=_mode(chosen))
        records += driver.batch(number, rows)
        before = chosen
    if trace is not None:
        trace.write_text("".join(record.line() for record in records), encoding="utf-8")
    return Run(records, sink.lines)


def _mode(plan: str) -> PlannerOptions:
    return PlannerOptions("fixed", parse_plans(plan)) if ":" in plan else PlannerOptions(plan)


def plans(record: TraceRecord) -> Mapping[str, str]:
    """The plan of each delta source in a micro-batch."""
    return {delta.source: delta.plan for delta in record.deltas}


def text(plans: Mapping[str, str]) -> str:
    """Plans as ``--plan fixed:`` reads them."""
    return "; ".join(f"{source}: {plan}" for source, plan in plans.items())


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table."""
    lines = [list(heads), *([f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
