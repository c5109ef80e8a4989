"""Kafka through Spark's connector and a real broker: messages in, answers out as a stream; broker and run are killed in mid-run."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from services.conftest import Broker
from spark.command import Command

from cqels_opt.query.parser import parse
from cqels_opt.rdf.payloads import decode, payload_of
from cqels_opt.verify import Element, Inputs, Options, evaluate

EX = "http://ex.org/"
QUERY = (
    f"""PREFIX : <{EX}> CONSTRUCT {{ ?p :with ?q }} FROM NAMED :S [RANGE 5s] AS ?w {{ GRAPH ?w {{ ?p :at ?x . ?q :at ?x }} }}"""
)
MAPPING = f"""
time = "t"
[[triples]]
subject = "{EX}p{{who}}"
[triples.properties]
"{EX}at" = "{EX}x{{room}}"
"""
#: Where the connector's jars, and a PySpark that they are of, lie; `make test-services` sets them.
SPARK, CONNECTOR = "CQELS_OPT_PYSPARK_4_0", "CQELS_OPT_KAFKA_CONNECTOR"


def produce(broker: Broker, topic: str, values: list[tuple[int, bytes]]) -> None:
    """Messages, each to a partition; the broker has them when this returns."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 0})
    for partition, value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(60) == 0


def messages(broker: Broker, topic: str) -> list[Any]:
    """All messages of a topic so far."""
    settings = {"bootstrap.servers": f"127.0.0.1:{broker.port}", "group.id": os.urandom(4).hex(), "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "log_level": 0})
    consumer.subscribe([topic])
    found, ended = [], set[int]()
    while len(ended) < 2:  # the broker makes topics of two partitions
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            ended.add(message.partition())
        else:
            found.append(message)
    consumer.close()
    return found


def test_nothing_is_lost_or_doubled_when_the_broker_is_killed(tmp_path: Path, kafka: Broker) -> None:
    (tmp_path / "q.rq").write_text(QUERY)
    (tmp_path / "people.toml").write_text(MAPPING)
    told = [{"who": i % 7, "room": i % 3, "t": 1000 + 100 * i} for i in range(120)]
    values = [(i % 2, json.dumps(row).encode()) for i, row in enumerate(told)]
    produce(kafka, "people", [*values[:40], (0, b"not JSON")])
    produce(kafka, "met", [])
    trace = tmp_path / "trace.jsonl"
    at = f"kafka://127.0.0.1:{kafka.port}"
    words = ["run", str(tmp_path / "q.rq"), "--stream", f"{EX}S", f"{at}/people", "--payload", str(tmp_path / "people.toml")]
    words += ["--out", f"{at}/met", "--out-payload", "nq", "--trace", str(trace), "--checkpoint", str(tmp_path / "checkpoint")]
    environment = {
        "PYTHONPATH": os.pathsep.join([os.environ[SPARK], str(Path(__file__).resolve().parents[2])]),
        "PYSPARK_SUBMIT_ARGS": f"--jars {','.join(map(str, sorted(Path(os.environ[CONNECTOR]).glob('*.jar'))))} pyspark-shell",
    }
    run = Command([*words, "--packages", "none", "--master", "local[2]"], environment)

    def seen() -> int:
        return sum(json.loads(line)["elements"] for line in trace.read_text().splitlines()) if trace.exists() else 0

    run.until(lambda: seen() >= 40)
    kafka.kill()
    kafka.start()
    produce(kafka, "people", values[40:80])
    run.until(lambda: seen() >= 80)
    run.kill()  # and the run itself, which the next start takes up from its checkpoint
    run = Command([*words, "--packages", "none", "--master", "local[2]"], environment)
    produce(kafka, "people", values[80:])
    run.until(lambda: seen() >= 120)
    run.interrupt()
    done = run.finish()
    assert done.code == 0, done.err
    assert seen() == 120
    assert "1 rejected" in done.err
    assert "is not JSON" in (tmp_path / "trace.jsonl.rejected").read_text()
    sent = messages(kafka, "met")
    headers = [{key: value.decode() for key, value in message.headers()} for message in sent]
    named = {(h["cqels-batch"], h["cqels-index"]): message.value() for h, message in zip(headers, sent)}
    assert len({message.partition() for message in sent}) == 1  # in order
    found = decode(payload_of("nq"), list(named.values()), [None] * len(named), [f"m{i}" for i in range(len(named))])
    assert not found.refused
    elements = [Element(row["t"], ((f"<{EX}p{row['who']}>", f"<{EX}at>", f"<{EX}x{row['room']}>"),)) for row in told]
    expected = evaluate(parse(QUERY), Inputs({f"{EX}S": elements}, [], {}), Options())
    until = told[-2]["t"]  # the two partitions' greatest times, but for the last instant of the lesser
    triples = Counter(
        (int(t), s, p, o) for t, s, p, o in zip(found.t.tolist(), found.s.to_pylist(), found.p.to_pylist(), found.o.to_pylist())
    )
    assert triples == Counter(
        {(time, *(dict(row)[name] for name in (".s", ".p", ".o"))): n for (time, _, row), n in expected.items() if time < until}
    )
