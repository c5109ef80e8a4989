"""A Kafka topic: its location and payload, as a stream of a query or as a sink for answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cqels_opt.errors import InputError

if TYPE_CHECKING:
    from cqels_opt.rdf.payloads import Payload

SCHEME: Final = "kafka://"
ANSWERS: Final = "answers"
ANSWER_PAYLOADS: Final = (ANSWERS, "json", "nq")
"""The payloads of a topic of answers: lines of answers as in ``--out``, or elements that can be read as ``json`` or ``nq``."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVERS = re.compile(r"[^\s/,]+:\d+(,[^\s/,]+:\d+)*")


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic on the brokers ``servers`` (``host:port``, comma-separated).

    As a stream, ``payload`` is one of ``json``, ``nt``, ``ttl``, ``nq``, ``trig`` and ``jsonld``, or the file of a mapping
    (``NAME.toml``); it is read from its earliest message by default; ``options`` can change that. As a sink, ``payload`` is
    ``answers``, ``json`` or ``nq``. ``options`` are those of Spark's Kafka connector (``maxOffsetsPerTrigger``,
    ``kafka.security.protocol``, …).
    """

    servers: str
    topic: str
    payload: str | Payload = "json"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.servers, str) or not _SERVERS.fullmatch(self.servers):
            raise InputError(f"{self.servers!r} names no brokers of Kafka: write host:port, several with commas")
        if not isinstance(self.topic, str) or not _NAME.fullmatch(self.topic):
            raise InputError(f"{self.topic!r} is no name of a topic: it has letters, digits, full stops, underscores and hyphens")
        if not isinstance(self.options, Mapping):
            raise InputError(
                f"options={self.options!r}: give the connector's options by name, such as {{'maxOffsetsPerTrigger': '100'}}"
            )

    def reading(self) -> Payload:
        """The payload of its messages as a stream; ``InputError`` if there is no such payload."""
        from cqels_opt.rdf.payloads import Payload, payload_of  # not needed for the command line's help

        return self.payload if isinstance(self.payload, Payload) else payload_of(self.payload)

    def writing(self) -> str:
        """The payload of its messages as a sink; ``InputError`` if there is no such payload."""
        if self.payload not in ANSWER_PAYLOADS:
            raise InputError(f"answers do not go to a topic as {self.payload!r}: choose from {', '.join(ANSWER_PAYLOADS)}")
        return str(self.payload)


def parse_topic(text: str, payload: str | Payload) -> KafkaTopic:
    """Parses ``kafka://host:port/topic``."""
    servers, slash, topic = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or not slash:
        raise InputError(f"{text!r} is no topic of Kafka: write {SCHEME}host:port/topic")
    return KafkaTopic(servers, topic, payload)
