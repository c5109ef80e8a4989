"""Randomly changed and endlessly nested messages: each fails alone, and never ends the process."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

from cqels_opt.rdf.graphs import GENERATED_AT
from cqels_opt.rdf.mapping import mapping_of
from cqels_opt.rdf.payloads import DOCUMENTS, Decoded, Payload, decode, payload_of

XSD = "http://www.w3.org/2001/XMLSchema#"
MAPPING = """
time = "at"
[[triples]]
subject = "http://ex.org/{id}"
[triples.properties]
"http://ex.org/v" = { column = "v" }
"""
AS_CSV = 'format = "csv"\ncolumns = ["id", "v", "at"]\n'
TOO_DEEP = "deeper than 100 levels"


def read(payload: Payload, *values: bytes) -> Decoded:
    return decode(payload, values, [7] * len(values), [f"m{i}" for i in range(len(values))])


def refused(name: str, value: str) -> list[str]:
    return [r.reason for r in read(payload_of(name), value.encode()).refused]


# ------------------------------------------------------------------ depth
def test_brackets_in_strings_and_beside_each_other_are_no_nesting() -> None:
    wide = [{"s": "<a:a>", "p": "<a:p>", "o": '"' + "[{" * 200 + '\\""'}] * 300
    assert not refused("json", json.dumps(wide))
    assert not refused("jsonld", json.dumps({"@id": "a:a", "a:p": [{"@id": "a:b"}] * 300}))
    assert not refused("ttl", "<a:a> <a:p> " + "[ <a:p> " * 300 + "1" + "]" * 300 + " .")  # its parser needs no stack


def test_nesting_is_found_behind_strings_and_escapes() -> None:
    (reason,) = refused("jsonld", '{"@id":"a:a\\"","a:p":' + "[" * 101)
    assert TOO_DEEP in reason
    (reason,) = refused("ttl", "PREFIX a: <a:> a:a a:p " + "<<( a:a a:p\\# " * 101)  # this # begins no comment
    assert TOO_DEEP in reason
    (reason,) = refused("trig", "PREFIX a: <a:> a:a a:p " + "<<( a:a a:p\\' " * 101)  # nor this quote a string
    assert TOO_DEEP in reason


@pytest.mark.parametrize(
    "value", ['"' + '\\"' * 500_000 + "[" * 200, "[" * 101 + '"' + "\\" * 1_000_001], ids=["quotes", "escapes"]
)
def test_a_string_that_never_ends_is_scanned_once(value: str) -> None:
    """A scan that restarts at every quote would take hours."""
    assert len(refused("jsonld", value)) == 1


DEEP = r"""
from cqels_opt.rdf.payloads import DOCUMENTS, decode, payload_of
depth = 5_000
deep = {
    "json": "[" * depth + "]" * depth,
    "jsonld": '{"@id":"a:a","a:p":' + '{"a:p":' * depth + "1" + "}" * depth + "}",
    "nt": "<a:a> <a:p> " + "<<( <a:a> <a:p> " * 20 * depth + "<a:o>" + " )>>" * 20 * depth + " .",
    "ttl": "@prefix a: <a:> . a:a a:p " + "<<( a:a a:p\\# " * 20 * depth + "a:o" + " )>>" * 20 * depth + " .",
    "nq": "<a:a> <a:p> " + "<<( <a:a> <a:p> " * 20 * depth + "<a:o>" + " )>>" * 20 * depth + " <a:g> .",
    "trig": "<a:g> { <a:a> <a:p> " + "<< <a:a> <a:p> " * 20 * depth + "<a:o>" + " >>" * 20 * depth + " }",
}
assert set(deep) == {"json", *DOCUMENTS}
for name, value in deep.items():
    found = decode(payload_of(name), [value.encode()], [0], ["m"])
    print(name, len(found.t), found.refused[0].reason.partition(";")[0])
"""


def test_depth_ends_no_process() -> None:
    """In a separate process: a stack overflow ends the process with a signal, which no test could report."""
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    said = [line.split(" ", 2) for line in done.stdout.splitlines()]
    assert [name for name, *_ in said] == ["json", "jsonld", "nt", "ttl", "nq", "trig"]
    assert all(count == "0" and TOO_DEEP in reason for _, count, reason in said), said


# ------------------------------------------------------------------ times
@pytest.mark.parametrize("time", ['"\\ud800"', "1e999999999", "[1]", '"+ 5"', '"Infinity"', '"NaN"', "9" * 5_000, "1e400"])
@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_a_mapping_refuses_a_time_that_is_none_alone(time: str, unit: str) -> None:
    payload = Payload("mapping", mapping_of(f'time_unit = "{unit}"' + MAPPING))
    good = b'{"id": "a", "v": 1, "at": 3}'
    found = read(payload, good, f'{{"id": "a", "v": 1, "at": {time}}}'.encode(), good)
    assert set(found.message.tolist()) == {0, 2}
    assert [r.message for r in found.refused] == [1]


# ------------------------------------------------------------------ mutations
_ROW = r'{"s": "<a:a>", "p": "<a:p>", "o": "\"x\"@en", "g": "<a:g>", "t": "+2007-12-28T09:00:00.5Z"}'
_GRAPH = rf'<a:a> <a:p> "x\n"^^<{XSD}string> , [ <a:q> ( 1 2.5e3 true ) ] .'
_TIMED = f'<a:g> <{GENERATED_AT}> "2007-12-28T09:00:00Z" .'
_CONTEXT = {"b": "http://b/", "l": {"@id": "a:l", "@container": "@list"}}
WHOLE = {
    "json": [_ROW, f"[{_ROW}, {_ROW}]"],
    "nt": ['<a:a> <a:p> "\\u00e9"@en .\n', '_:x <a:p> <<( <a:a> <a:p> "1" )>> .\n'],
    "ttl": [f"@prefix a: <a:> . a:x a:p\\#y 'z' . {_GRAPH}", '<a:a> <a:p> """x""" . << <a:a> <a:p> 1 >> <a:q> 2 .'],
    "nq": [f'<a:a> <a:p> "x" <a:g> .\n{_TIMED}'],
    "trig": [f"{_TIMED} <a:g> {{ {_GRAPH} }}"],
    "jsonld": [json.dumps({"@context": _CONTEXT, "@id": "a:g", "l": [1, {"a:p": 2.5}]})],
    "mapping": ['{"id": "a", "v": 1.5e3, "at": 3}', '{"id": {"a": ["b"]}, "v": "x", "at": "2007-12-28"}'],
    "csv": ['a,"x,y",3'],
}
_PIECES = [
    r"\ud800",
    r"\udfff",
    "\x00",
    "\\",
    '"',
    "'''",
    "#",
    "+",
    "-",
    "e999999",
    "1e999999999",
    "9" * 40,
    "null",
    "<",
    ">",
    "_:",
    ",",
]
_PIECES += ["[" * 150, "{" * 150, '{"@id":' * 150, "<<(" * 150, "(" * 150, "@context", "@list", "\ufeff", ".", "\u2028"]
INSERTED = [piece.encode() for piece in _PIECES] + [b"\xff", b"\xed\xa0\x80"]


def mutated(rng: random.Random, value: bytes) -> bytes:
    """One to four changes: insert, delete or duplicate a piece, or replace a byte; of bounded size."""
    for _ in range(rng.randint(1, 4)):
        at, to = sorted((rng.randint(0, len(value)), rng.randint(0, len(value))))
        change = rng.randrange(4)
        if change == 0:
            value = value[:at] + rng.choice(INSERTED) + value[at:]
        elif change == 1:
            value = value[:at] + value[to:]
        elif change == 2:
            value = value[:to] + value[at:to] + value[to:]
        else:
            value = value[:at] + bytes([rng.randrange(256)]) + value[at + 1 :]
    return value[:4096]


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("seed", range(3))
def test_a_mutation_fails_its_message_alone(name: str, seed: int) -> None:
    """It gives rows or a reason, and the neighbouring messages give the same rows as alone."""
    assert set(WHOLE) == {"json", *DOCUMENTS, "mapping", "csv"}
    rng = random.Random(f"{name} {seed}")
    form = {"mapping": "", "csv": AS_CSV}.get(name)
    payload = payload_of(name) if form is None else Payload("mapping", mapping_of(form + MAPPING))
    good = WHOLE[name][0].encode()
    values = [good if i % 10 == 0 else mutated(rng, rng.choice(WHOLE[name]).encode()) for i in range(401)]
    alone = read(payload, good)
    found = read(payload, *values)
    bad = {r.message for r in found.refused}
    assert 0 < len(bad) < len(values) - 41
    assert set(found.message.tolist()) == set(range(len(values))) - bad
    for number in range(0, len(values), 10):
        mine = found.message == number
        assert (found.t[mine].tolist(), found.element[mine].tolist()) == (alone.t.tolist(), alone.element.tolist())
    for reason in (r.reason for r in found.refused):
        assert len(reason.encode()) < 1_000
