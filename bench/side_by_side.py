"""One query in several plan modes over the same micro-batches, in turn: what the choice of plans is worth.

Each mode has a driver of its own with its own windows. Their answers are compared after each micro-batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.bench.local import Prepared, rows_produced
from cqels_opt.errors import RunError
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.runtime.interfaces import Runner
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.trace.records import TraceRecord
from cqels_opt.trace.writer import TraceFile


@dataclass(frozen=True, slots=True)
class Step:
    """A micro-batch in each mode: its trace records by mode, and the number of answers, which are the same."""

    records: Mapping[str, TraceRecord]
    answers: int

    @property
    def time(self) -> int | None:
        """The latest time of its elements; without elements, that up to which answers are final."""
        record = next(iter(self.records.values()))
        return record.stream_time

    def ms(self, mode: str) -> float:
        """The milliseconds of the whole micro-batch."""
        return self.records[mode].ms.total

    def rows(self, mode: str) -> int:
        """The rows that the joins produced."""
        return rows_produced([self.records[mode]])


def side_by_side(query: Prepared, modes: Sequence[str], folder: Path, runner: Callable[[], Runner], out: Path) -> Iterator[Step]:
    """Runs each micro-batch in each mode, in the order of ``modes`` and, in every other batch, in the reverse order.

    State goes to ``folder``; the trace of each mode to ``out/MODE.jsonl``, and the answers to ``out/answers.jsonl``.

    Raises:
        RunError: answers differ.
    """
    sinks = {mode: LocalSink() for mode in modes}
    drivers = {
        mode: query.driver(folder / mode, sink, TraceFile(out / f"{mode}.jsonl"), PlannerOptions(mode), runner=runner())
        for mode, sink in sinks.items()
    }
    with (out / "answers.jsonl").open("w", encoding="utf-8") as answers:
        for number in range(len(query.replay.chunks)):
            records = {}
            for mode in modes if number % 2 == 0 else modes[::-1]:
                (records[mode],) = drivers[mode].batch(number, query.replay.path(number))
            lines = [sink.lines for sink in sinks.values()]
            for mode, others in zip(modes[1:], lines[1:], strict=True):
                if Counter(others) != Counter(lines[0]):
                    raise RunError(f"batch {number}: the plan mode {mode} gives other answers than {modes[0]}: this is a bug")
            answers.writelines(f"{line}\n" for line in lines[0])
            yield Step(records, len(lines[0]))
            for sink in sinks.values():
                sink.lines.clear()
