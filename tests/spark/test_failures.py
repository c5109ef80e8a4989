"""Why a job of Spark failed is one sentence, with the topics if Kafka is the cause."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from cqels_opt.errors import CheckpointError, CqelsOptError, InputError, RunError
from cqels_opt.spark.failures import reason, topics_failed
from cqels_opt.spark.kafka_topic import KafkaTopic
from cqels_opt.spark.messages import Messages

ONE = [KafkaTopic("broker:9092", "readings")]
TWO = [*ONE, KafkaTopic("broker:9092", "places")]
HEAD = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
MISSING = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic-partition."
TIMEOUT = "org.apache.kafka.common.errors.TimeoutException: Topic alarms not present in metadata after 60000 ms."
SENT = f"""An error occurred while calling o123.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times: {TIMEOUT}
\tat org.apache.spark.sql.kafka010.KafkaWriter
Caused by: {TIMEOUT}
Caused by: {MISSING}
"""
WORKER = """
  An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    found = function(x)
            ^^^^^^^^^^^
RuntimeError: no such sensor: 7
"""
LOST = "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by Kafka or"


class JvmError(Py4JError):  # type: ignore[misc]  # py4j has no types
    """An exception of the JVM as its text alone."""

    def __str__(self) -> str:
        return str(self.args[0])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (JvmError(SENT), "Topic alarms not present in metadata after 60000 ms: This server does not host this topic-partition"),
        (
            JvmError(
                "An error occurred while calling o1.save.\n: java.io.IOException: oh\n\tat a.b\nCaused by: x.Y: why\n\tat c"
            ),
            "why",
        ),
        (JvmError("An error occurred while calling o1.save.\n: java.io.IOException: oh\n\tat a.b"), "oh"),
        (JvmError("Answer from Java side is empty"), "Answer from Java side is empty"),
        (PySparkException("x is no column\n== plan =="), "x is no column"),
        (PySparkException(WORKER), "RuntimeError: no such sensor: 7"),
        (ValueError("Caused by: a.b: not of the JVM"), "Caused by: a.b: not of the JVM"),
    ],
)
def test_the_reason(error: Exception, said: str) -> None:
    assert reason(error) == said


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: KafkaTopic(None, "t"), "None names no brokers of Kafka: write host:port, several with commas"),  # type: ignore[arg-type]
        (lambda: KafkaTopic("b:1", 3), "3 is no name of a topic: it has letters, digits, "),  # type: ignore[arg-type]
        (lambda: KafkaTopic("b:1", "t", options=3), "options=3: give the connector's options by name, "),  # type: ignore[arg-type]
        (lambda: KafkaTopic("b:1", "t", 3).reading(), "'3' is no payload: known are json, nt, "),  # type: ignore[arg-type]
        (lambda: Messages("in", "nq"), "Messages(…) expects a DataFrame and a payload, not str"),  # type: ignore[arg-type]
    ],
)
def test_topics_and_messages_of_wrong_types(make: Callable[[], object], said: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(said)}"):
        make()


@pytest.mark.parametrize(
    ("topics", "text", "kind", "said"),
    [
        (ONE, HEAD + MISSING, InputError, "topic readings on broker:9092: there is no such topic"),
        (TWO, HEAD + MISSING, InputError, "topics places, readings on broker:9092: one of them does not exist"),
        (ONE, HEAD + LOST, CheckpointError, "topic readings on broker:9092: messages that this run has yet to read are gone: "),
        (
            ONE,
            f"{HEAD}{TIMEOUT}",
            RunError,
            "the run failed: topic readings on broker:9092: Topic alarms not present in metadata",
        ),
    ],
)
def test_what_ends_a_run_over_topics(topics: Any, text: str, kind: type[CqelsOptError], said: str) -> None:
    found = topics_failed(topics, PySparkException(text))
    assert type(found) is kind
    assert str(found).startswith(said)


def test_what_does_not_come_from_kafka() -> None:
    assert topics_failed(ONE, PySparkException(f"{HEAD}[DIVIDE_BY_ZERO] Division by zero")) is None
