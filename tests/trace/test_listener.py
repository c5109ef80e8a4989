"""Listeners and the log: what they get of each batch, and that they cannot fail it."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import cqels_opt as cq
from cqels_opt.errors import InputError, LimitError
from cqels_opt.trace.listener import BatchReporter, summary
from cqels_opt.trace.records import Delta, Milliseconds, Moved, RunnerUp, TraceRecord

RECORD = TraceRecord(
    12,
    "q1",
    (1000, 2000),
    1999,
    1_200,
    deltas=(Delta("departures", "departures » planes[?tail]", 1.0),),
    ms=Milliseconds(ingest=50.0, execute=190.0, sink=1_200.0, commit=10.0),
    jobs=1,
    answers=34,
)
SWITCHED = replace(
    RECORD,
    batch=13,
    deltas=(
        Delta(
            "departures",
            "departures » weather[?hour] » planes[?tail]",
            switched=True,
            reason=(Moved("rows of weather", 150_000.0, 1_500.0),),
            former=(RunnerUp("departures » planes[?tail] » weather[?hour]", 9.0),),
        ),
    ),
)


class Events(cq.Listener):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[tuple[Any, ...]] = []

    def on_batch(self, record: TraceRecord) -> None:
        self.got.append(("batch", record.batch))

    def on_switch(self, record: TraceRecord, delta: Delta) -> None:
        self.got.append(("switch", record.batch, delta.source))

    def on_failure(self, query: str | None, batch: int, error: Exception) -> None:
        self.got.append(("failure", query, batch, str(error)))


def test_an_object_gets_all_events() -> None:
    events = Events()
    reporter = BatchReporter(events)
    reporter.batches([RECORD])
    reporter.batches([SWITCHED])
    reporter.failure("q1", 14, LimitError("too many rows"))
    assert events.got == [("batch", 12), ("batch", 13), ("switch", 13, "departures"), ("failure", "q1", 14, "too many rows")]


def test_a_function_gets_the_records_and_a_list_is_several() -> None:
    records: list[TraceRecord] = []
    events = Events()
    reporter = BatchReporter([records.append, events])
    reporter.batches([RECORD])
    reporter.failure(None, 13, ValueError("boom"))
    assert records == [RECORD]
    assert events.got == [("batch", 12), ("failure", None, 13, "boom")]


def test_a_listener_that_overrides_nothing_does_not_fail(caplog: pytest.LogCaptureFixture) -> None:
    reporter = BatchReporter(cq.Listener())
    reporter.batches([SWITCHED])
    reporter.failure("q1", 1, ValueError())
    assert caplog.messages == ["q1 batch 1: ValueError"]  # and no warning of a listener that failed


@pytest.mark.parametrize("wrong", ["t.jsonl", 7, [print, "x"]])
def test_what_is_no_listener(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"give a function of a trace record, a cqels_opt\.Listener, or a list of these"):
        BatchReporter(wrong)


def test_a_failing_listener_is_a_warning_and_the_others_are_called(caplog: pytest.LogCaptureFixture) -> None:
    def failing(record: TraceRecord) -> None:
        raise ValueError("the page is down")

    events = Events()
    BatchReporter([failing, events]).batches([RECORD])
    assert events.got == [("batch", 12)]
    (warning,) = caplog.records
    assert (warning.levelname, warning.name) == ("WARNING", "cqels_opt.trace.listener")
    assert warning.message == "the listener's on_batch failed; the batch is not affected"
    assert "the page is down" in caplog.text


# ------------------------------------------------------------------ the log
@pytest.fixture
def info(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, logger="cqels_opt"):
        yield caplog


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.message) for record in caplog.records]


def test_a_batch_and_a_switch_are_a_line_each(info: pytest.LogCaptureFixture) -> None:
    BatchReporter().batches([SWITCHED])
    assert lines(info) == [
        (
            "INFO",
            "q1 batch 13: 1,200 elements, 34 answers, 1.4 s (ingest 50 ms, execute 190 ms, sink 1.2 s, commit 10 ms), 1 Spark job, "
            "plan departures » weather[?hour] » planes[?tail]",
        ),
        (
            "INFO",
            "q1 batch 13: the plan of departures has changed: departures » planes[?tail] » weather[?hour] -> "
            "departures » weather[?hour] » planes[?tail] (rows of weather: 150,000 -> 1,500)",
        ),
    ]


def test_fallbacks_and_notices_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """Also where INFO is off, as by default."""
    notices = ("rejected: a.nt:3: no term",)
    BatchReporter().batches([replace(SWITCHED, fallback="more than 100 relations", notices=notices)])
    assert lines(caplog) == [
        ("WARNING", "q1 batch 13: fallback: more than 100 relations"),
        ("WARNING", "q1 batch 13: rejected: a.nt:3: no term"),
    ]


def test_sparks_own_plan_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Its rows are not counted, so that their number is not shown."""
    record = TraceRecord(3, "q1", None, None, 0, notices=("Spark's own plan: the order does not matter",))
    with caplog.at_level(logging.INFO, "cqels_opt"):
        BatchReporter().batches([record])
    assert lines(caplog) == [
        ("INFO", "q1 batch 3: 0 ms, 0 Spark jobs"),
        ("INFO", "q1 batch 3: Spark's own plan: the order does not matter"),
    ]


def test_failures_are_errors(caplog: pytest.LogCaptureFixture) -> None:
    reporter = BatchReporter()
    reporter.failure("q1", 3, LimitError("11 rows, more than the limit of 10"))
    reporter.failure(None, 4, ValueError())
    assert lines(caplog) == [
        ("ERROR", "q1 batch 3: 11 rows, more than the limit of 10"),
        ("ERROR", "all queries batch 4: ValueError"),
    ]


def test_a_batch_of_which_little_is_known() -> None:
    assert summary(TraceRecord(0, "q", None, None, 0, late=2, rejected=1)) == "0 elements, 2 late, 1 rejected, 0 ms, 0 Spark jobs"


def test_the_library_prints_nothing_by_itself() -> None:
    """Without the null handler, Python prints warnings of loggers that have no handler."""
    code = "import logging, cqels_opt; logging.getLogger('cqels_opt.trace.listener').error('x'); print(logging.root.handlers)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
