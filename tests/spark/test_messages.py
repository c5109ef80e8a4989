"""Messages to answers without Spark: for any batches and tasks, the answers are those of their elements."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from local_runs import Registered, World, register

from cqels_opt.errors import InputError
from cqels_opt.rdf.ids import PUBLIC
from cqels_opt.rdf.payloads import Payload, payload_of
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.ingest import IngestReport, IngestTask, RejectSpool, ingest
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.spark.messages import PARTITION_BITS, MessageReading, check_topics, read_messages, topics_of
from cqels_opt.verify import Element, Options, evaluate
from cqels_opt.windows.admission import Admission
from cqels_opt.windows.frontier import Frontier

EX = "http://ex.org/"
QUERY = f"""PREFIX : <{EX}> SELECT ?p ?q FROM NAMED :S [RANGE 3s] AS ?w {{ GRAPH ?w {{ ?p :at ?x . ?q :at ?x }} }}"""
SCHEMA = pa.schema(
    {
        "stream": pa.int32(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "t": pa.int64(),
        "value": pa.binary(),
        "topic": pa.string(),
    }
)


class Runner(LocalRunner):
    """Reads messages as the first stage on Spark does: a task has whole partitions."""

    def __init__(self, payload: Payload, frontier: Frontier, tasks: int) -> None:
        super().__init__()
        self.payload, self.frontier, self.tasks = payload, frontier, tasks

    def ingest(self, rows: Any, task: IngestTask) -> list[IngestReport]:
        reading = MessageReading((self.payload,), task.batch, self.frontier.admission())
        reports = []
        for number in range(self.tasks):
            mine = [row for row in rows if row["partition"] % self.tasks == number]
            rejected = task.rejects(f"t{number}")
            table, judged = read_messages(pa.Table.from_pylist(mine, SCHEMA), reading, task, number, rejected)
            reports.append(ingest(table, task, f"t{number}", rejected))
            reports[-1].suspects = {partition: found.suspect for partition, found in judged.items()}
        return reports


def elements(rng: random.Random, count: int) -> list[Element]:
    """Of one to three triples, some of them late."""
    t, found = 1000, []
    for _ in range(count):
        t += rng.choice([0, 200, 900])
        triples = {(f"<{EX}p{rng.randrange(4)}>", f"<{EX}at>", f"<{EX}x{rng.randrange(2)}>") for _ in range(rng.randint(1, 3))}
        found.append(Element(max(1, t - rng.choice([0, 0, 0, 2500])), tuple(sorted(triples))))
    return found


def message(element: Element, payload: str, own: bool) -> bytes:
    """An element as a message; with ``own`` the message's time is its time."""
    if payload == "nt":
        return "".join(f"{s} {p} {o} .\n" for s, p, o in element.triples).encode()
    return json.dumps([{"s": s, "p": p, "o": o, **({} if own else {"t": element.t})} for s, p, o in element.triples]).encode()


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Registered:
    return register(QUERY, World({f"{EX}S": []}), tmp_path_factory.mktemp("registered"))


@pytest.mark.parametrize("payload", ["json", "nt"])
@pytest.mark.parametrize("seed", range(6))
def test_answers_hang_on_the_elements_alone(registered: Registered, tmp_path: Path, payload: str, seed: int) -> None:
    rng = random.Random(seed)
    lateness = rng.choice([0, 2000])
    partitions = [elements(rng, 25), elements(rng, 25)]
    own = payload == "nt" or rng.random() < 0.5
    messages = [
        {"stream": 0, "partition": p, "offset": 10 * i, "t": e.t if own else None, "value": message(e, payload, own)}
        for p, found in enumerate(partitions)
        for i, e in enumerate(found)
    ]
    poison = [{"stream": 0, "partition": p, "offset": 10 * i + 1, "t": 1, "value": b"junk"} for p, i in ((0, 3), (1, 9), (1, 10))]
    queues = [sorted((m for m in messages + poison if m["partition"] == p), key=lambda m: m["offset"]) for p in (0, 1)]
    batches: list[list[dict[str, Any]]] = []
    while any(queues):
        sizes = [rng.randint(1 if not batches else 0, 8) for _ in queues]
        batches.append([m for queue, size in zip(queues, sizes) for m in queue[:size]])
        queues = [queue[size:] for queue, size in zip(queues, sizes)]
    sink, frontier = LocalSink(), Frontier(registered.program.streams, lateness)
    options = DriverOptions(skip_bad=True, rejects=tmp_path / "rejected.jsonl")
    runner = Runner(payload_of(payload), frontier, rng.randint(1, 2))
    driver = Driver(tmp_path / "state", [registered.program], runner, sink, frontier, options)
    for number, rows in enumerate(batches):
        driver.batch(number, rng.sample(rows, len(rows)))
    inputs = World({f"{EX}S": partitions}).inputs(lateness)
    expected = evaluate(registered.query, inputs, Options())
    assert registered.answers(sink.lines) == Counter({k: n for k, n in expected.items() if k[0] <= frontier.value})
    assert sink.lines
    rejected = [json.loads(line) for line in (tmp_path / "rejected.jsonl").read_text().splitlines()]
    assert sorted((r["line"], r["reason"][:36]) for r in rejected) == sorted(
        (m["offset"], f"partition {m['partition']}: the message is not {'JSON' if payload == 'json' else 'N-Tr'}"[:40])
        for m in poison
    )
    assert driver.state.totals["rejected"] == 3
    assert driver.state.totals["elements"] + driver.state.totals["late"] == 50


def read(payload: Payload, rows: Sequence[dict[str, Any]], batch: int = 0, number: int = 0) -> pa.Table:
    task = IngestTask("", batch, (f"{EX}S", f"{EX}T"), (), "", PUBLIC, 0, frozenset())
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    return read_messages(table, MessageReading((payload, payload), batch, Admission()), task, number, RejectSpool())[0]


def test_messages_of_very_many_batches_have_places() -> None:
    """Five batches a second make 2²³ in three weeks."""
    rows = [{"stream": 0, "partition": 0, "offset": None, "t": 1, "value": b"<urn:s> <urn:p> <urn:o> ."}]
    places = [read(payload_of("nt"), rows, batch, 1).column("offset").to_pylist() for batch in (0, 1, (1 << 23) - 1, 1 << 23)]
    assert places[0] == places[3] < places[1] < places[2]


def test_messages_without_numbers_are_numbered_by_batch_task_and_place() -> None:
    one = json.dumps({"s": "_:a", "p": "<a:p>", "o": "<a:o>"}).encode()
    two = json.dumps([{"s": "<a:s>", "p": "<a:p>", "o": f"<a:{t}>", "t": t} for t in (1, 2, 1)]).encode()
    rows = [
        {"stream": s, "partition": s << PARTITION_BITS, "offset": None, "t": 5, "value": v} for s in (0, 1) for v in (one, two)
    ]
    seen: set[int] = set()
    for batch, number in ((0, 0), (0, 1), (1, 0)):
        found = read(Payload(), rows, batch, number).to_pylist()
        offsets = {row["offset"] for row in found if row["stream"] == 0}
        assert len(offsets) == 3
        assert not offsets & seen
        assert min(offsets) > max(seen, default=-1)
        seen |= offsets
        by_time = [row["offset"] for row in found if row["stream"] == 0 and row["t"] in (1, 2)]
        assert by_time[0] == by_time[2] != by_time[1]  # rows of one time are one element
    assert read(Payload(), rows).equals(read(Payload(), rows))


def test_topics_that_come_as_one_stream_are_refused() -> None:
    """Partition 0 of one is not partition 0 of the other, and the same offset is another message; also in two tasks."""
    task = IngestTask("", 0, (f"{EX}S", f"{EX}T"), (), "", PUBLIC, 0, frozenset())

    def report(*rows: tuple[int, str | None]) -> IngestReport:
        messages = [{"stream": stream, "partition": 0, "offset": 0, "topic": topic} for stream, topic in rows]
        return IngestReport(topics=topics_of(pa.Table.from_pylist(messages, SCHEMA), task))

    check_topics([report((0, "a"), (0, "a"), (1, "b")), report((0, "a"), (0, None)), report()])
    for reports in ([report((0, "b"), (0, "a"))], [report((0, "a"), (1, "b")), report((0, "b"))]):
        with pytest.raises(InputError, match=f"messages of the topics a, b come as one stream, {EX}S: read each topic"):
            check_topics(reports)


def test_messages_without_an_order_are_not_ahead_of_anything() -> None:
    table = pa.Table.from_pylist([{"stream": 0, "partition": 0, "offset": None, "t": 1, "value": b"{}"}], SCHEMA)
    task = IngestTask("", 0, (f"{EX}S",), (), "", PUBLIC, 0, frozenset())
    with pytest.raises(InputError, match=r"^max_ahead is of elements in an order: give order="):
        read_messages(table, MessageReading((payload_of("nt"),), 0, Admission(max_ahead=1)), task, 0, RejectSpool())
