"""A topic of Kafka: where it is, and what its messages hold. It is a stream that a query reads, or where answers go."""

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
GIVEN_OUT: Final = (ANSWERS, "json", "nq")
"""What a topic of answers may hold: lines of answers as ``--out`` has them, or elements that are read again as ``json`` or ``nq``."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SERVERS = re.compile(r"[^\s/,]+:\d+(,[^\s/,]+:\d+)*")


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic on the brokers ``servers`` (``host:port``, several with commas).

    As a stream, ``payload`` is one of ``json``, ``nt``, ``ttl``, ``nq``, ``trig`` and ``jsonld``, or the file of a mapping (``NAME.toml``);
    it is read from its earliest message on unless ``options`` say otherwise. As a sink, ``payload`` is ``answers``, ``json`` or ``nq``.
    ``options`` are those of Spark's Kafka connector (``maxOffsetsPerTrigger``, ``kafka.security.protocol``, …).
    """

    servers: str
    topic: str
    payload: str | Payload = "json"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _SERVERS.fullmatch(self.servers):
            raise InputError(f"{self.servers!r} names no brokers of Kafka: write host:port, several with commas")
        if not _NAME.fullmatch(self.topic):
            raise InputError(f"{self.topic!r} is no name of a topic: it has letters, digits, full stops, underscores and hyphens")

    def reading(self) -> Payload:
        """How its messages are read; ``InputError`` if they cannot be."""
        from cqels_opt.rdf.payloads import payload_of  # which the command line's help does without

        return payload_of(self.payload) if isinstance(self.payload, str) else self.payload

    def writing(self) -> str:
        """What answers are put into it as; ``InputError`` if they cannot be."""
        if self.payload not in GIVEN_OUT:
            raise InputError(f"answers do not go to a topic as {self.payload!r}: choose from {', '.join(GIVEN_OUT)}")
        return str(self.payload)


def parse_topic(text: str, payload: str | Payload = "json") -> KafkaTopic:
    """``kafka://host:port/topic`` as people type it."""
    servers, slash, topic = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or not slash:
        raise InputError(f"{text!r} is no topic of Kafka: write {SCHEME}host:port/topic")
    return KafkaTopic(servers, topic, payload)
