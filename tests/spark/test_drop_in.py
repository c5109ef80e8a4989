"""A drop-in for any query: one owner of a state folder, limits that end it and not the job, no Spark Connect."""

from __future__ import annotations

import json
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import cqels_opt as cq
from cqels_opt.errors import CheckpointError, InputError, LimitError
from cqels_opt.runtime.limits import NO_LIMITS
from cqels_opt.spark.drop_in import DropIn, at_most, check_classic, together
from cqels_opt.state.claim import Claim
from cqels_opt.trace.listener import ListenerLike
from cqels_opt.trace.records import TraceRecord

FORGOTTEN = 99


class Fake(DropIn):
    """A drop-in whose batches do what the test sets."""

    def __init__(self, state: Path | None = None, limits: cq.Limits = NO_LIMITS, listener: ListenerLike | None = None) -> None:
        super().__init__("q1", Claim(state), limits, listener)
        self.done: list[int] = []

    def _check(self, frame: Any) -> None:
        """Without a session."""

    def _batch(self, frame: Any, batch_id: int) -> None:
        if why := self.limits.broken(rows=frame.rows, bytes=frame.bytes):
            raise LimitError(why)
        if batch_id == FORGOTTEN:
            raise ValueError("a batch that is forgotten")
        self.done.append(batch_id)
        self._recorded(TraceRecord(batch_id, self.name, None, None, frame.rows))

    def _cancel(self) -> None:
        raise AssertionError("nothing takes long here")


def frame(rows: int = 1, bytes: int = 0) -> Any:
    return SimpleNamespace(rows=rows, bytes=bytes, sparkSession=None)


def test_spark_connect_is_refused_in_one_sentence() -> None:
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(InputError, match="this is a Spark Connect session, which cannot reach the driver"):
        check_classic(connect)
    with pytest.raises(InputError, match="Spark Connect"):
        cq.Engine(connect)
    with pytest.raises(InputError, match="Spark Connect"):
        cq.AdaptiveJoin(connect)
    with pytest.raises(InputError, match="a SparkSession is expected, not str"):
        cq.AdaptiveJoin("local[2]")  # type: ignore[arg-type]


def test_a_session_that_is_stopped() -> None:
    stopped: Any = object.__new__(SparkSession)
    stopped._sc = SimpleNamespace(_jsc=None)
    for use in (cq.Engine, cq.AdaptiveJoin, lambda spark: cq.adaptive_sql(spark, "SELECT 1")):
        with pytest.raises(InputError, match=r"^this SparkSession is stopped: make another one"):
            use(stopped)


@pytest.mark.parametrize(
    ("limits", "given", "reason"),
    [
        (cq.Limits(rows=10), frame(rows=11), "11 rows of answers in a micro-batch, more than the limit of 10"),
        (cq.Limits(bytes=1_000), frame(bytes=2_000), "2,000 bytes of state, more than the limit of 1,000"),
    ],
)
def test_a_limit_ends_the_query_and_not_the_job(tmp_path: Path, limits: cq.Limits, given: Any, reason: str) -> None:
    query = Fake(tmp_path, limits)
    query(frame(), 0)
    with pytest.warns(RuntimeWarning, match=f"q1 failed at batch 1, and the job continues without it: {reason}"):
        query(given, 1)
    query(frame(), 2)
    assert query.done == [0]
    assert reason in str(query.failure)
    with pytest.warns(RuntimeWarning, match="to start again, use another state folder"):
        again = Fake(tmp_path, limits)
    again(frame(), 3)
    assert again.done == []
    assert isinstance(again.failure, LimitError)


def test_what_is_within_the_limits_goes_on() -> None:
    query = Fake(limits=cq.Limits(rows=10, bytes=10, seconds=60))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query(frame(rows=10, bytes=10), 0)
    assert query.done == [0]


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"seconds": -1.0}, {"bytes": 0}])
def test_limits_that_allow_nothing(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="allows nothing; None is no limit"):
        cq.Limits(**wrong)


def test_what_takes_too_long_is_cancelled_until_it_ends() -> None:
    cancelled = threading.Semaphore(0)

    def work() -> None:
        for _ in range(2):  # a query may be between two jobs when it is cancelled first
            cancelled.acquire()
        raise RuntimeError("job cancelled")

    with (
        pytest.raises(LimitError, match=r"a micro-batch took longer than the limit of 0\.001 seconds"),
        at_most(0.001, cancelled.release),
    ):
        work()


def test_other_failures_stay_what_they_are() -> None:
    with pytest.raises(ValueError, match="mine"), at_most(3_600, lambda: None):
        raise ValueError("mine")


def test_a_damaged_note_of_a_failure(tmp_path: Path) -> None:
    (tmp_path / "failed.json").write_text(json.dumps({"batch": "x"}))
    with pytest.raises(CheckpointError, match="the state is damaged"):
        Fake(tmp_path)


def test_the_newest_owns_the_state(tmp_path: Path) -> None:
    """A notebook cell that is run again."""
    old = Fake(tmp_path)
    old(frame(), 0)
    new = Fake(tmp_path / "." / "")
    new(frame(), 1)
    with pytest.raises(CheckpointError, match="another query of this process works with this state folder by now"):
        old(frame(), 1)
    assert (old.done, new.done) == ([0], [1])
    Fake(tmp_path / "other")(frame(), 0)


def test_who_takes_a_state_over_waits_for_the_batch_in_hand(tmp_path: Path) -> None:
    """Its rows would otherwise be in no window: the state would be read before it has the batch."""
    begun, may_end, order = threading.Event(), threading.Event(), []

    class Slow(Fake):
        def _batch(self, frame: Any, batch_id: int) -> None:
            begun.set()
            may_end.wait(60)
            order.append("the batch is done")

    def take_over() -> None:
        Fake(tmp_path)
        order.append("another has the state")

    old = Slow(tmp_path)
    batch, cell = threading.Thread(target=old, args=(frame(), 0)), threading.Thread(target=take_over)
    batch.start()
    assert begun.wait(60)
    cell.start()
    cell.join(0.2)  # does not end
    may_end.set()
    for thread in (batch, cell):
        thread.join(60)
    assert order == ["the batch is done", "another has the state"]
    newest = Fake(tmp_path)
    with pytest.raises(CheckpointError, match="works with this state folder by now"):
        old(frame(), 1)
    assert newest.done == []


def test_several_functions_on_one_stream() -> None:
    told: list[str] = []

    class Frame:
        def persist(self) -> None:
            told.append("kept")

        def unpersist(self) -> None:
            told.append("let go")

    def failing(frame: Any, batch_id: int) -> None:
        raise ValueError("the second")

    both = together(lambda frame, n: told.append(f"one {n}"), lambda frame, n: told.append(f"two {n}"))
    both(Frame(), 4)  # type: ignore[arg-type]
    assert told == ["kept", "one 4", "two 4", "let go"]
    with pytest.raises(ValueError, match="the second"):
        together(failing)(Frame(), 5)  # type: ignore[arg-type]
    assert told[-1] == "let go"


# ------------------------------------------------------------------ listeners
class Events(cq.Listener):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.batches: list[TraceRecord] = []
        self.failures: list[tuple[str | None, int, str]] = []

    def on_batch(self, record: TraceRecord) -> None:
        self.batches.append(record)

    def on_failure(self, query: str | None, batch: int, error: Exception) -> None:
        self.failures.append((query, batch, str(error)))


def test_a_listener_gets_batches_and_failures(tmp_path: Path) -> None:
    events = Events()
    query = Fake(tmp_path, cq.Limits(rows=10), events)
    query(frame(rows=3), 0)
    with pytest.raises(ValueError, match="a batch that is forgotten"):
        query(frame(), FORGOTTEN)
    with pytest.warns(RuntimeWarning, match="q1 failed at batch 1"):
        query(frame(rows=11), 1)
    query(frame(), 2)
    assert [(record.query, record.batch, record.elements) for record in events.batches] == [("q1", 0, 3)]
    (wrong, over) = events.failures
    assert wrong == ("q1", FORGOTTEN, "a batch that is forgotten")
    assert over[:2] == ("q1", 1) and "11 rows of answers in a micro-batch, more than the limit of 10" in over[2]


def test_a_failing_listener_does_not_fail_the_batch(caplog: pytest.LogCaptureFixture) -> None:
    def failing(record: TraceRecord) -> None:
        raise ValueError("the page is down")

    query = Fake(listener=failing)
    query(frame(), 0)
    assert query.done == [0] and query.failure is None
    assert "the page is down" in caplog.text
