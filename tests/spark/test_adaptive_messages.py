"""``engine.adaptive`` where the micro-batches hold messages, with the columns of Spark's Kafka source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cqels_opt as cq
from cqels_opt.errors import DataError, InputError
from cqels_opt.query.parser import parse
from cqels_opt.rdf.payloads import Payload
from cqels_opt.spark.sources import Incoming
from cqels_opt.verify import Answers, Element, Inputs, Options, evaluate

from .small_world import EX
from .test_engine import Collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

S, T = f"{EX}S", f"{EX}T"
MET = f"""PREFIX : <{EX}> SELECT ?p ?q FROM NAMED :S [RANGE 3s] AS ?w {{ GRAPH ?w {{ ?p :at ?x . ?q :at ?x }} }}"""
BOTH = f"""PREFIX : <{EX}> SELECT ?p ?c FROM NAMED :S [RANGE 3s] AS ?v FROM NAMED :T [RANGE 2s] AS ?w
{{ GRAPH ?v {{ ?p :at ?x }} GRAPH ?w {{ ?x :celsius ?c }} }}"""
KAFKA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
MAPPING = f"""
[[triples]]
subject = "{EX}{{room}}"
[triples.properties]
"{EX}celsius" = {{ column = "c", datatype = "xsd:decimal" }}
"""
Record = tuple[str, int, int, int, bytes]  # topic, partition, offset, t, value


def frame_of(spark: SparkSession, records: Sequence[Record]) -> DataFrame:
    rows = [
        (None, value, topic, partition, offset, datetime.fromtimestamp(t / 1000, UTC), 0)
        for topic, partition, offset, t, value in records
    ]
    return spark.createDataFrame(rows, KAFKA)


def at(i: int) -> Element:
    """People who move; every other element has a duplicate."""
    who = [f"<{EX}p{i % 5}>", f"<{EX}twin{i % 5}>"][: 1 + i % 2]
    return Element(1000 + 400 * i, tuple((p, f"<{EX}at>", f"<{EX}x{i % 3}>") for p in who))


def value(element: Element, payload: str) -> bytes:
    """An element as a message: N-Triples are TriG, and in JSON-LD each triple is a node."""
    if payload == "jsonld":
        nodes = [{"@id": s[1:-1], p[1:-1]: {"@id": o[1:-1]}} for s, p, o in element.triples]
        return json.dumps({"@graph": nodes}).encode()
    graph = f"<{EX}g{element.t}>"
    inside = "".join(f"{s} {p} {o} {graph + ' ' if payload == 'nq' else ''}.\n" for s, p, o in element.triples)
    return (inside if payload == "nq" else f"{graph} {{ {inside} }}").encode()


def answers(text: str, streams: dict[str, list[Element]], upto: int) -> Answers:
    found = evaluate(parse(text), Inputs(streams, [], {}), Options())
    return Counter({key: count for key, count in found.items() if key[0] <= upto})


@pytest.mark.long
@pytest.mark.parametrize("payload", ["jsonld", "nq", "trig"])
def test_messages_poison_and_a_restart(spark: SparkSession, tmp_path: Path, payload: str) -> None:
    """Repeated batches of the checkpoint add no duplicates; an invalid message is kept with its reason, and the job continues."""
    elements = [at(i) for i in range(24)]
    records = [("people", i % 2, i // 2, e.t, value(e, payload)) for i, e in enumerate(elements)]
    batches = [records[:9], [*records[9:16], ("people", 1, 100, 1, b"{ junk")], records[16:]]
    sink = Collected()
    for first in (0, 1):  # the second process repeats the last batch of the first
        adaptive = cq.Engine(spark).adaptive(MET, sink, tmp_path / "state", payload=payload)
        for number, batch in list(enumerate(batches))[first : 2 + first]:
            adaptive(frame_of(spark, batch), number)
        assert adaptive.rejects == tmp_path / "state" / "rejected.jsonl"
    (kept,) = [json.loads(line) for line in adaptive.rejects.read_text().splitlines()]
    assert (kept["file"].strip("<>"), kept["line"]) == (S, 100) and kept["reason"].startswith("partition 1: the message is not")
    upto = min(e.t for e in elements[-2:]) - 1  # each partition advances time by itself
    found = sink.answers(adaptive.query.columns)
    assert found and found == answers(MET, {S: elements}, upto)
    assert adaptive.run.driver.state.totals["rejected"] == 1 and set(adaptive.plans()) == {"w#1", "w#2"}


@pytest.mark.long
def test_topics_are_streams_with_payloads_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    """One DataFrame with several topics, whose partitions and offsets are equal; messages of other topics are ignored."""
    people = [at(i) for i in range(12)]
    rooms = [
        Element(1100 + 700 * i, ((f"<{EX}x{i % 3}>", f"<{EX}celsius>", f'"{i}.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'),))
        for i in range(7)
    ]
    records: list[Record] = [("people", 0, i, e.t, value(e, "nq")) for i, e in enumerate(people)]
    records += [("rooms", 0, i, e.t, json.dumps({"room": f"x{i % 3}", "c": i + 0.5}).encode()) for i, e in enumerate(rooms)]
    records += [("other", 0, 0, 1, b"junk")]
    records.sort(key=lambda record: record[3])
    (tmp_path / "rooms.toml").write_text(MAPPING)
    sink = Collected()
    adaptive = cq.Engine(spark).adaptive(
        BOTH, sink, tmp_path / "state", stream={"people": S, "rooms": T}, payload={S: "nq", T: str(tmp_path / "rooms.toml")}
    )
    for number, part in enumerate((records[:8], records[8:])):
        adaptive(frame_of(spark, part), number)
    found = sink.answers(adaptive.query.columns)
    assert found and found == answers(BOTH, {S: people, T: rooms}, min(people[-1].t, rooms[-1].t) - 1)
    assert adaptive.rejects is None


def test_poison_may_end_the_job_and_a_frame_without_messages_does(spark: SparkSession, tmp_path: Path) -> None:
    strict = cq.Engine(spark).adaptive(MET, Collected(), tmp_path / "strict", payload="nq", on_error="fail")
    with pytest.raises(DataError, match="partition 3: the message is not N-Quads"):
        strict(frame_of(spark, [("people", 3, 7, 1000, b"junk")]), 0)
    with pytest.raises(InputError, match="needs the column value"):
        strict(spark.createDataFrame([("a",)], "s string"), 0)
    routed = cq.Engine(spark).adaptive(MET, Collected(), tmp_path / "routed", payload="nq", stream={"people": S})
    with pytest.raises(InputError, match="the column topic, which tells messages of people apart, is missing"):
        routed(spark.createDataFrame([(b"",)], "value binary"), 0)
    mixed = cq.Engine(spark).adaptive(MET, Collected(), tmp_path / "mixed", payload="nq")
    with pytest.raises(InputError, match="messages of the topics people, rooms come as one stream"):
        mixed(frame_of(spark, [("people", 0, 0, 1000, b""), ("rooms", 0, 0, 1000, b"")]), 0)


@pytest.mark.parametrize(
    ("stream", "payload", "order", "said"),
    [
        (None, None, None, "say with stream= which of them this DataFrame is"),
        ({"a": S}, None, None, "say with payload= how these are read"),
        (None, "nq", None, "say with stream={TOPIC: 'http://ex.org/S', TOPIC: 'http://ex.org/T'} which topic is which"),
        ({"a": S, "b": S}, "nq", None, "two topics are in no common order"),
        ({"a": f"{EX}U"}, "nq", None, f"the query does not read {EX}U; it reads"),
        (S, {f"{EX}U": "nq"}, None, f"the query does not read {EX}U"),
        (S, "nq", "offset", "leave order= out"),
        (S, "xml", None, "'xml' is no payload"),
    ],
)
def test_what_does_not_say_whose_the_messages_are(stream: Any, payload: Any, order: str | None, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("{", r"\{").replace("}", r"\}")):
        Incoming.of((f"<{S}>", f"<{T}>"), stream, payload, order)


def test_a_stream_of_several_may_be_all_there_is() -> None:
    assert Incoming.of((f"<{S}>", f"<{T}>"), T, "trig", None) == Incoming(1, None, (Payload("trig"), Payload("trig")))
    assert Incoming.of((f"<{S}>",), None, None, "offset") == Incoming(0, "offset")
