"""Kafka through Spark's connector and a real broker: messages in, answers out as a stream; broker and run are killed in mid-run."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from services.conftest import Broker
from spark.command import LONGEST, Command, processes

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
ROUNDS = max(3, int(os.environ.get("CQELS_OPT_KILLS", "4")) // 10)
#: Where the connector's jars, and a PySpark that they are of, lie; `make test-services` sets them.
SPARK, CONNECTOR = "CQELS_OPT_PYSPARK_4_0", "CQELS_OPT_KAFKA_CONNECTOR"


def produce(broker: Broker, topic: str, values: list[tuple[int, bytes]]) -> None:
    """Messages, each to a partition and in order also where sending is repeated; the broker has them when this returns."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{broker.port}", "enable.idempotence": True, "log_level": 0})
    failures: list[Any] = []
    for partition, value in values:
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None] * len(values)


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


class MeetingRun:
    """People who meet in rooms: messages to one topic, answers of one query to another, and what the definition says of them."""

    def __init__(self, folder: Path, kafka: Broker, topics: tuple[str, str], elements: int) -> None:
        (folder / "q.rq").write_text(QUERY)
        (folder / "people.toml").write_text(MAPPING)
        self.kafka, (self.people, self.met) = kafka, topics
        self.sightings = [{"who": i % 7, "room": i % 3, "t": 1000 + 100 * i} for i in range(elements)]
        self.values = [(i % 2, json.dumps(row).encode()) for i, row in enumerate(self.sightings)]
        self.trace = folder / "trace.jsonl"
        at = f"kafka://127.0.0.1:{kafka.port}"
        words = [
            "run",
            str(folder / "q.rq"),
            "--stream",
            f"{EX}S",
            f"{at}/{self.people}",
            "--payload",
            str(folder / "people.toml"),
        ]
        words += ["--out", f"{at}/{self.met}", "--out-payload", "nq", "--trace", str(self.trace)]
        self.words = [*words, "--checkpoint", str(folder / "checkpoint"), "--packages", "none", "--master", "local[2]"]
        self.environment = {
            "PYTHONPATH": os.pathsep.join([os.environ[SPARK], str(Path(__file__).resolve().parents[2])]),
            "PYSPARK_SUBMIT_ARGS": f"--jars {','.join(map(str, sorted(Path(os.environ[CONNECTOR]).glob('*.jar'))))} pyspark-shell",
        }

    def start(self) -> Command:
        """The run, new or from its checkpoint."""
        return Command(self.words, self.environment)

    def resume_until(self, seen: int, run: Command) -> Command:
        """The run once it has seen so many elements; it is started again where it has ended."""
        latest = time.monotonic() + LONGEST
        while self.seen() < seen:
            assert time.monotonic() < latest
            if run.process.poll() is not None:
                assert run.finish().code in (3, -signal.SIGKILL)
                with suppress(ProcessLookupError):
                    os.killpg(run.process.pid, signal.SIGKILL)  # what the dead driver has left
                run = self.start()
            time.sleep(0.002)
        return run

    def seen(self) -> int:
        """Elements of the batches that are committed. A line without its end is still being written."""
        lines = self.trace.read_text().splitlines(keepends=True) if self.trace.exists() else []
        return sum(json.loads(line)["elements"] for line in lines if line.endswith("\n"))

    def check_answers(self) -> None:
        """The answers, each message once by its headers, are those of the definition."""
        sent = messages(self.kafka, self.met)
        headers = [{key: value.decode() for key, value in message.headers()} for message in sent]
        named = {(h["cqels-batch"], h["cqels-index"]): message.value() for h, message in zip(headers, sent)}
        assert len({message.partition() for message in sent}) == 1  # in order
        found = decode(payload_of("nq"), list(named.values()), [None] * len(named), [f"m{i}" for i in range(len(named))])
        assert not found.refused
        elements = [
            Element(row["t"], ((f"<{EX}p{row['who']}>", f"<{EX}at>", f"<{EX}x{row['room']}>"),)) for row in self.sightings
        ]
        expected = evaluate(parse(QUERY), Inputs({f"{EX}S": elements}, [], {}), Options())
        until = self.sightings[-2]["t"]  # the two partitions' greatest times, but for the last instant of the lesser
        triples = Counter(
            (int(t), s, p, o)
            for t, s, p, o in zip(found.t.tolist(), found.s.to_pylist(), found.p.to_pylist(), found.o.to_pylist())
        )
        assert triples == Counter(
            {
                (time, *(dict(row)[name] for name in (".s", ".p", ".o"))): n
                for (time, _, row), n in expected.items()
                if time < until
            }
        )


def test_nothing_is_lost_or_doubled_when_the_broker_is_killed(tmp_path: Path, kafka: Broker) -> None:
    meeting = MeetingRun(tmp_path, kafka, ("people", "met"), 120)
    produce(kafka, "people", [*meeting.values[:40], (0, b"not JSON")])
    produce(kafka, "met", [])
    run = meeting.start()
    run.until(lambda: meeting.seen() >= 40)
    kafka.kill()
    kafka.start()
    produce(kafka, "people", meeting.values[40:80])
    run.until(lambda: meeting.seen() >= 80)
    run.kill()  # and the run itself, which the next start resumes from its checkpoint
    run = meeting.start()
    produce(kafka, "people", meeting.values[80:])
    run.until(lambda: meeting.seen() >= 120)
    run.interrupt()
    done = run.finish()
    assert done.code == 0, done.err
    assert meeting.seen() == 120
    assert "1 rejected" in done.err
    assert "is not JSON" in (tmp_path / "trace.jsonl.rejected").read_text()
    meeting.check_answers()


def test_any_process_of_a_run_over_kafka_may_be_killed(tmp_path: Path, kafka: Broker) -> None:
    """Driver, JVM, a worker or the broker, at a random moment of each round."""
    meeting = MeetingRun(tmp_path, kafka, ("people-in-rounds", "met-in-rounds"), 20 * (ROUNDS + 1))
    produce(kafka, meeting.met, [])
    rng = random.Random(23)
    run = meeting.start()
    victims: Counter[str] = Counter()
    for number in range(1, ROUNDS + 1):
        produce(kafka, meeting.people, meeting.values[20 * number - 20 : 20 * number])
        run = meeting.resume_until(rng.randint(20 * number - 19, 20 * number), run)
        produce(kafka, meeting.people, [(0, b"not JSON")])  # one more batch, without an element
        time.sleep(rng.random() * 0.5)  # a random moment of it
        found: dict[str, list[int]] = {"broker": []}
        for process, what in processes(run.process.pid):
            found.setdefault(what, []).append(process)
        what = rng.choice(sorted(found))
        victims[what] += 1
        if what == "broker":
            kafka.kill()
            kafka.start()
        else:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(found[what]), signal.SIGKILL)
    produce(kafka, meeting.people, meeting.values[20 * ROUNDS :])
    run = meeting.resume_until(len(meeting.values), run)
    run.interrupt()
    done = run.finish()
    assert done.code == 0, done.err
    assert meeting.seen() == len(meeting.values)
    meeting.check_answers()
    print(dict(victims))
