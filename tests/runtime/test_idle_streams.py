"""Streams that are idle: let go after some time of wall clock, by a decision that a batch which runs again takes over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from local_runs import Registered, Settings, World, register

from cqels_opt.errors import CheckpointError
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.idle_streams import IdleStreams
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.frontier import Frontier

EX = "http://ex.org/"
QUERY = f"""PREFIX : <{EX}> SELECT ?p ?q FROM NAMED :S [RANGE 5s] AS ?u FROM NAMED :T [RANGE 5s] AS ?w
{{ {{ GRAPH ?u {{ ?p :at ?x }} }} UNION {{ GRAPH ?w {{ ?q :at ?x }} }} }}"""


class Clock:
    """Wall clock by hand, in seconds."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def rows(*told: tuple[int, int, str]) -> pa.Table:
    """(stream, second, person): elements of a live source; each stream is one partition."""
    place = {0: 0, 1: 0}
    found = []
    for stream, second, person in told:
        place[stream] += 1
        found.append(
            {
                "stream": stream,
                "partition": stream,
                "offset": second * 10 + place[stream],
                "s": f"<{EX}{person}>",
                "p": f"<{EX}at>",
                "o": f"<{EX}x>",
                "g": None,
                "t": second * 1000,
                "late": False,
                "line": 1,
            }
        )
    return pa.Table.from_pylist(found, schema=ELEMENT_ROWS)


def driver(query: Registered, folder: Path, sink: LocalSink, clock: Clock, timeout: int | None) -> Driver:
    made = Driver(
        folder,
        [query.program],
        LocalRunner(),
        sink,
        Frontier(query.program.streams),
        DriverOptions(idle_timeout=timeout),
    )
    if timeout is not None:
        made.idle = IdleStreams(timeout, folder, made.streams, clock)
    return made


def registered(folder: Path) -> Registered:
    return register(QUERY, World({f"{EX}S": [[]], f"{EX}T": [[]]}), folder, Settings())


def run(made: Driver, clock: Clock, batches: Sequence[tuple[float, pa.Table]]) -> list[int]:
    """The frontier in seconds after each batch."""
    found = []
    for number, (now, table) in enumerate(batches):
        clock.now = now
        made.batch(number, table)
        found.append(made.frontier.value // 1000)
    return found


BATCHES = [
    (100.0, rows((0, 1, "a"), (1, 1, "b"))),
    (105.0, rows((0, 4, "c"))),
    (111.0, rows((0, 8, "d"))),
    (112.0, rows((0, 9, "e"), (1, 5, "late"), (1, 12, "f"))),
    (113.0, rows((0, 15, "g"))),
]


def test_an_idle_stream_is_let_go_and_taken_up_again(tmp_path: Path) -> None:
    """T brings nothing for 11 s before the third batch; it comes back in the fourth, and what is behind the frontier is late."""
    clock, sink = Clock(), LocalSink()
    made = driver(registered(tmp_path), tmp_path / "state", sink, clock, 10_000)
    assert run(made, clock, BATCHES) == [0, 0, 7, 8, 11]
    assert made.state.totals["late"] == 1
    assert sum('"late"' in line for line in sink.lines) == 0


def test_without_a_timeout_it_holds_the_frontier_back(tmp_path: Path) -> None:
    clock = Clock()
    made = driver(registered(tmp_path), tmp_path / "state", LocalSink(), clock, None)
    assert run(made, clock, BATCHES) == [0, 0, 0, 8, 11]


def test_a_stream_of_which_nothing_ever_came_is_let_go(tmp_path: Path) -> None:
    clock, sink = Clock(), LocalSink()
    made = driver(registered(tmp_path), tmp_path / "state", sink, clock, 3000)
    assert run(made, clock, [(101.0, rows((0, 1, "a"))), (104.0, rows((0, 3, "b")))]) == [-(1 << 61) // 1000, 2]
    assert len(sink.lines) == 1


def test_a_batch_that_runs_again_takes_the_decision_that_was_made(tmp_path: Path) -> None:
    """Killed after the decision and before the commit; after the restart no time has passed, yet T is let go in this batch."""
    clock, sink = Clock(), LocalSink()
    query = registered(tmp_path)
    made = driver(query, tmp_path / "state", sink, clock, 10_000)
    run(made, clock, BATCHES[:3])
    told = list(sink.lines)
    sorted((tmp_path / "state" / "commits").iterdir())[-1].unlink()
    again = driver(query, tmp_path / "state", sink, Clock(), 10_000)
    again.batch(2, BATCHES[2][1])
    assert again.frontier.value // 1000 == 7
    assert sink.lines == told


def test_a_damaged_decision_is_refused(tmp_path: Path) -> None:
    clock = Clock()
    made = driver(registered(tmp_path), tmp_path / "state", LocalSink(), clock, 10_000)
    (tmp_path / "state" / "idle" / "00000000.json").write_text("{", encoding="utf-8")
    try:
        made.batch(0, BATCHES[0][1])
    except CheckpointError as error:
        assert "the checkpoint is damaged" in str(error)
    else:
        raise AssertionError("a damaged decision was taken")


def test_old_decisions_go(tmp_path: Path) -> None:
    idle = IdleStreams(1000, tmp_path, ("a",), Clock())
    for number in range(50):
        idle.decide(number, {"a"}, {})
    assert len(list((tmp_path / "idle").iterdir())) < 6
