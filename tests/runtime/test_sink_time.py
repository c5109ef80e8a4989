"""The time in which the sink takes the answers is a phase of its own, and records have the number of answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime import phase_timer
from cqels_opt.runtime.evaluate_task import FinishReport
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.trace.records import Milliseconds

from .answer_folder_process import HOW, prepared


def test_sink_time_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still except in the sink, which takes 2 s per batch."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(phase_timer, "time", SimpleNamespace(perf_counter=lambda: clock.now))

    class SlowSink(LocalSink):
        def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
            clock.now += 2.0
            return super().put(batch, chunks, folder)

    query, sink = prepared(tmp_path), SlowSink()
    driver = query.driver(HOW, tmp_path / "state", sink=sink)
    records = [record for number, rows in enumerate(query.chunks(HOW)) for record in driver.batch(number, rows)]
    assert {record.ms for record in records} == {Milliseconds(sink=2_000.0)}
    assert sum(record.answers or 0 for record in records) == len(sink.lines) > 0
    assert sum(record.answers or 0 for record in records) == driver.state.totals["answers"]
