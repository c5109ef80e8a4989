"""Answers as messages for a broker: in order of time, and in the same order when a batch is emitted again."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import quote

from cqels_opt.query.temporal import from_milliseconds
from cqels_opt.rdf.graphs import GENERATED_AT
from cqels_opt.rdf.terms import XSD_DATETIME, literal
from cqels_opt.storage import checksum, disk

Kind: TypeAlias = Literal["answers", "json", "nq"]
GRAPH = "urn:cqels-opt:"


@dataclass(frozen=True, slots=True)
class AnswerLines:
    """A file of a query's answers as lines: by instant in turn its time and how many bytes its lines have."""

    query: str
    path: str
    times: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A message: the id of its query, its index among that query's messages of the batch, and its text."""

    query: str
    index: int
    time: int
    op: str
    value: bytes


def answer_messages(files: Iterable[AnswerLines], kind: Kind) -> Iterator[Message]:
    """The messages of a batch, by time and query.

    The lines of one instant are sorted, so that they do not depend on the tasks that wrote them. A message that is sent again has
    its old ``index``, by which readers detect the duplicate.
    """
    index: dict[str, int] = {}
    instants = heapq.merge(*map(_instants, files), key=lambda found: found[:2])
    for (time, query), parts in groupby(instants, key=lambda found: found[:2]):
        for line in sorted(line for _, _, lines in parts for line in lines):
            answer = json.loads(line)
            number = index[query] = index.get(query, -1) + 1
            value = line if kind == "answers" else _element(kind, query, time, answer["op"], answer["triples"])
            yield Message(query, number, time, answer["op"], value)


def _instants(file: AnswerLines) -> Iterator[tuple[int, str, list[bytes]]]:
    with disk.opened(checksum.verify_name(Path(file.path))) as source:
        for time, size in file.times:
            yield time, file.query, source.read(size).splitlines()


def _element(kind: Kind, query: str, time: int, op: str, triples: Sequence[Sequence[str]]) -> bytes:
    """The graph of an instant as one element, which the payload ``json`` or ``nq`` reads again."""
    if kind == "json":
        return json.dumps([{"s": s, "p": p, "o": o, "t": time} for s, p, o in triples], ensure_ascii=False).encode()
    graph = f"<{GRAPH}{quote(query, safe='')}/{time}{'/left' if op == '-' else ''}>"
    stamp = literal(str(from_milliseconds(time)), XSD_DATETIME)
    quads = [f"{graph} <{GENERATED_AT}> {stamp} .\n", *(f"{s} {p} {o} {graph} .\n" for s, p, o in triples)]
    return "".join(quads).encode()
