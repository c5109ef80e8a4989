"""Mutated files of streams and static data, in a process with limits: they are read, or one sentence names the place.

``CQELS_OPT_FUZZ=5000 make test TESTS=tests/faults`` tries more.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import resource
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from cqels_opt.errors import CqelsOptError
from cqels_opt.rdf.static import Failures, StaticSource, read_all
from cqels_opt.rdf.streams import read_stream

CASES = int(os.environ.get("CQELS_OPT_FUZZ", "80"))
MEMORY, SECONDS = 4 << 30, 120

_ROWS = [
    {"s": "<http://e/a>", "p": "<http://e/at>", "o": "<http://e/x>", "t": 1_000, "g": "<http://e/g>"},
    {"s": "_:b", "p": "<http://e/says>", "o": '"a \\"b\\""@en', "t": 3_000, "g": None},
    {"s": "<http://e/a>", "p": "<http://e/n>", "o": '"5"^^<http://www.w3.org/2001/XMLSchema#integer>', "t": 3_000, "g": None},
    {"s": "<http://e/c>", "p": "<http://e/q>", "o": "<<( <http://e/a> <http://e/p> <http://e/b> )>>", "t": 4_000, "g": None},
] * 4
_QUADS = (
    b'<http://e/g1> <http://www.w3.org/ns/prov#generatedAtTime> "2020-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n'
    b"<http://e/a> <http://e/at> <http://e/x> <http://e/g1> .\n"
    b'_:b <http://e/says> "text"@en <http://e/g1> .\n'
) * 3
_TURTLE = b'@prefix : <http://e/> .\n:a :at :x ; :says "text"@en , 5 , 1.5 , true .\n[] :knows ( :a [ :b :c ] ) .\n' * 3
_TRIG = b"@prefix : <http://e/> .\n:g1 { :a :at :x . _:b :says 'text' }\n" + (
    b':g1 <http://www.w3.org/ns/prov#generatedAtTime> "2020-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n'
)
_RDF_XML = (
    b'<?xml version="1.0"?>\n<!DOCTYPE rdf:RDF [ <!ENTITY e "http://e/"> ]>\n'
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">\n'
    b'<rdf:Description rdf:about="&e;a"><e:at rdf:resource="&e;x"/><e:says xml:lang="en">text</e:says></rdf:Description>\n</rdf:RDF>\n'
)


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(_ROWS), out)
    return out.getvalue()


def _csv() -> bytes:
    cells = [["s", "p", "o", "t"], *([str(row[name]) for name in "spot"] for row in _ROWS)]
    return "".join(",".join('"' + cell.replace('"', '""') + '"' for cell in line) + "\n" for line in cells).encode()


NDJSON = "".join(json.dumps(row) + "\n" for row in _ROWS).encode()
STREAMS = {
    ".ndjson": NDJSON,
    ".ndjson.gz": gzip.compress(NDJSON),
    ".ndjson.zst": zstandard.compress(NDJSON),
    ".csv": _csv(),
    ".parquet": _parquet(),
    ".nq": _QUADS,
    ".trig": _TRIG,
}
STATIC = {
    ".nt": b"<http://e/a> <http://e/at> <http://e/x> .\n" * 5,
    ".nq": _QUADS,
    ".nq.gz": gzip.compress(_QUADS),
    ".ttl": _TURTLE,
    ".trig": _TRIG,
    ".rdf": _RDF_XML,
    ".parquet": _parquet(),
}
PIECES = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"<",
    b">",
    b'"',
    b"\\",
    b"\\ud800",
    b"{",
    b"[",
    b"_:",
    b"&e;",
    b"\n",
    b"9" * 40,
    b"<<",
)


def mutated(rng: random.Random, content: bytes) -> bytes:
    """A few bytes changed, doubled, cut out or put in; or the end is missing."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content) + 1)
        to = min(len(content), at + rng.choice([0, 1, 1, 7, 60]))
        match rng.randrange(5):
            case 0:
                content = content[:at] + rng.choice(PIECES) + content[to:]
            case 1:
                content = content[:at] + content[to:]
            case 2:
                content = content[:to] + content[at:to] * rng.choice([1, 3, 500]) + content[to:]
            case 3:
                content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
            case _:
                content = content[: rng.randrange(len(content) + 1)] if rng.random() < 0.3 else content
    return content


def in_limits(work: Callable[[], None]) -> str:
    """Works in a process with limits of memory and time; what it says when it fails, and nothing where it ends well."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - what a child process met is said by its parent
            os.write(writer, traceback.format_exc().encode()[-60_000:])
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return said or ("" if code == 0 else f"the process ended with {code}")


def read_as_stream(path: Path) -> None:
    for _ in read_stream(path):
        pass


def read_as_static(path: Path) -> None:
    for _ in read_all([StaticSource(path, None)], Failures(skip=False)):
        pass


@pytest.mark.parametrize(
    ("suffix", "content", "read"),
    [
        *(pytest.param(suffix, content, read_as_stream, id=f"stream{suffix}") for suffix, content in STREAMS.items()),
        *(pytest.param(suffix, content, read_as_static, id=f"static{suffix}") for suffix, content in STATIC.items()),
    ],
)
def test_mutated_files(suffix: str, content: bytes, read: Callable[[Path], None], tmp_path: Path) -> None:
    place = tmp_path / f"file{suffix}"
    place.write_bytes(content)
    read(place)

    def work() -> None:
        rng = random.Random(suffix)
        for number in range(CASES):
            place.write_bytes(mutated(rng, content))
            try:
                read(place)
            except CqelsOptError as error:
                assert place.name in str(error), error
                assert "\n" not in str(error), error
            except BaseException as error:
                (tmp_path / f"found{suffix}").write_bytes(place.read_bytes())
                raise AssertionError(f"case {number}") from error

    assert in_limits(work) == ""
