"""Why a job of Spark failed, in one sentence: Spark's own messages contain its classes, the plan, and the traces of two languages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from cqels_opt.errors import CheckpointError, CqelsOptError, InputError, RunError, first_line
from cqels_opt.spark.kafka_topic import KafkaTopic

_OF_KAFKA: Final = re.compile(r"org\.apache\.kafka\.[\w.$]*?(\w+): ([^\n]+)")
_OF_JAVA: Final = re.compile(r"^(?:Caused by)?: [\w.$]+: ([^\n]+)", re.MULTILINE)
_OF_PYTHON: Final = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)", re.MULTILINE)
_LOST: Final = re.compile(r"data may have been lost|KAFKA_DATA_LOSS")
_NO_TOPIC: Final = "UnknownTopicOrPartitionException"


def reason(error: BaseException) -> str:
    """What Kafka says, if it is the cause; the exception of a worker, as of a user's function; the cause of an exception of the JVM; the
    first line of the message of any other.
    """
    if of_kafka := _said_by_kafka(error):
        return ": ".join(dict.fromkeys(of_kafka.values()))
    if isinstance(error, PySparkException) and (of_python := _OF_PYTHON.findall(str(error))):
        return str(of_python[-1])
    causes = _OF_JAVA.findall(str(error)) if isinstance(error, Py4JError) else []
    return causes[-1].strip() if causes else first_line(error)


def topics_failed(topics: Sequence[KafkaTopic], error: BaseException) -> CqelsOptError | None:
    """The error of a run that reads these topics, if Kafka is the cause of an exception."""
    of_kafka, place = _said_by_kafka(error), _place(topics)
    if _LOST.search(_text(error)):
        return CheckpointError(
            f"{place}: messages that this run has yet to read are gone: the topic was created again, or its retention time is over; "
            "start with another checkpoint"
        )
    if [*of_kafka] == [_NO_TOPIC]:
        return InputError(f"{place}: there is no such topic" if len(topics) == 1 else f"{place}: one of them does not exist")
    return RunError(f"the run failed: {place}: {reason(error)}") if of_kafka else None


def _said_by_kafka(error: BaseException) -> dict[str, str]:
    """The messages of Kafka's exceptions by their type, the cause last."""
    return {kind: message.strip().rstrip(".") for kind, message in _OF_KAFKA.findall(_text(error))}


def _text(error: BaseException) -> str:
    return f"{error}\n{getattr(error, '_stackTrace', None) or ''}"


def _place(topics: Sequence[KafkaTopic]) -> str:
    names = ", ".join(sorted(topic.topic for topic in topics))
    servers = ", ".join(sorted({topic.servers for topic in topics}))
    return f"{'topic' if len(topics) == 1 else 'topics'} {names} on {servers}"
