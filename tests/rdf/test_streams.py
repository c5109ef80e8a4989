"""Stream files to elements: formats agree, bad lines are reported with their position, elements are never split."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import DataError
from cqels_opt.rdf import lines
from cqels_opt.rdf.streams import STREAM_ROWS, read_stream
from cqels_opt.rdf.tabular import Reject

ROWS = [
    {"s": "<http://e/a>", "p": "<http://e/at>", "o": "<http://e/x>", "t": 1000},
    {"s": "_:b", "p": "<http://e/says>", "o": '"a, \\"b\\"\\n"@en', "t": 3000},
    {"s": "<http://e/a>", "p": "<http://e/n>", "o": '"5"^^<http://www.w3.org/2001/XMLSchema#integer>', "t": 3000},
]


def ndjson(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def as_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    out = io.StringIO()
    writer = csv.DictWriter(out, ["t", "p", "s", "g", "o", "note"], restval="")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(out.getvalue(), encoding="utf-8")
    return path


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], Path]] = {
    ".ndjson": ndjson,
    ".jsonl": ndjson,
    ".csv": as_csv,
    ".parquet": parquet,
}


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    batches = list(read_stream(path, **options))
    assert all(batch.schema == STREAM_ROWS for batch in batches)
    edges = [(a.column("element")[-1].as_py(), b.column("element")[0].as_py()) for a, b in itertools.pairwise(batches)]
    assert all(last < first for last, first in edges)
    return [row for batch in batches for row in batch.to_pylist()]


def refused(path: Path, **options: Any) -> tuple[list[dict[str, Any]], list[Reject]]:
    rejects: list[Reject] = []
    return read(path, on_error="skip", rejected=rejects.append, **options), rejects


@pytest.mark.parametrize("extension", WRITERS)
def test_the_formats_say_the_same(tmp_path: Path, extension: str) -> None:
    rows = read(WRITERS[extension](tmp_path / f"s{extension}", ROWS))
    assert [{k: row[k] for k in "spot"} for row in rows] == ROWS
    assert [row["g"] for row in rows] == [None] * 3
    assert [row["element"] for row in rows] == [0, 1, 2]


@pytest.mark.parametrize("extension", [".ndjson", ".csv"])
@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_text_may_be_compressed(tmp_path: Path, extension: str, compression: str) -> None:
    plain = WRITERS[extension](tmp_path / f"s{extension}", ROWS)
    packed = plain.with_name(plain.name + compression)
    packed.write_bytes({".gz": gzip.compress, ".zst": zstandard.compress}[compression](plain.read_bytes()))
    assert read(packed) == read(plain)


def test_a_file_that_was_cut_off_is_said(tmp_path: Path) -> None:
    whole = gzip.compress("".join(json.dumps({**ROWS[0], "t": i}) + "\n" for i in range(20000)).encode())
    (tmp_path / "s.ndjson.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"s\.ndjson\.gz:\d+: cannot be read on"):
        read(tmp_path / "s.ndjson.gz")


def test_rows_of_one_graph_and_time_are_one_element(tmp_path: Path) -> None:
    rows = [
        {**ROWS[0], "t": 1, "g": "<http://e/g1>"},
        {**ROWS[0], "t": 1, "g": "<http://e/g2>"},
        {**ROWS[1], "t": 1, "g": "<http://e/g1>"},
        {**ROWS[1], "t": 1},
        {**ROWS[1], "t": 1},
        {**ROWS[2], "t": 2, "g": "<http://e/g1>"},
    ]
    for extension, write in WRITERS.items():
        found = read(write(tmp_path / f"s{extension}", rows))
        assert [row["element"] for row in found] == [0, 0, 1, 2, 3, 4], extension
        assert [row["g"] and row["g"][-2] for row in found] == ["1", "1", "2", None, None, "1"]


@pytest.mark.long
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "<g:1>", "<g:2>"])), max_size=40), size=st.integers(60, 400)
)
def test_blocks_decide_nothing(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str]], size: int) -> None:
    path = tmp_path_factory.mktemp("blocks") / "s.ndjson"
    ndjson(path, [{**ROWS[0], "t": t, **({"g": g} if g else {})} for t, g in sorted(rows, key=lambda row: row[0])])
    whole = read(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", size)
        assert read(path) == whole
    elements: dict[tuple[int, object], int] = {}
    for row in whole:
        if row["g"]:
            assert elements.setdefault((row["t"], row["g"]), row["element"]) == row["element"]


TIMES = [
    (5, 5),
    ("5", 5),
    ("2019-04-30T09:51:01", 1556617861000),
    ("2019-04-30T09:51:01.2349Z", 1556617861234),
    ("2019-04-30 11:51:01+02:00", 1556617861000),
    ("1969-12-31T23:59:59.9999Z", -1),
]


@pytest.mark.parametrize("extension", [".ndjson", ".csv"])
def test_times_of_every_kind_may_be_mixed(tmp_path: Path, extension: str) -> None:
    path = WRITERS[extension](tmp_path / f"s{extension}", [{**ROWS[0], "t": text} for text, _ in TIMES])
    assert [row["t"] for row in read(path)] == [ms for _, ms in TIMES]


@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns"])
def test_parquet_has_timestamps(tmp_path: Path, kind: str) -> None:
    table = pa.Table.from_pylist([{**ROWS[0], "t": 0}])
    ticks = {"s": -1, "ms": -1000, "us": -1_000_000, "ns": -1_000_000_000}[kind]
    stamp = pa.array([ticks], pa.timestamp(kind, "UTC" if kind == "us" else None))
    pq.write_table(table.set_column(table.schema.get_field_index("t"), "t", stamp), tmp_path / "s.parquet")
    assert [row["t"] for row in read(tmp_path / "s.parquet")] == [-1000]


GOOD = json.dumps(ROWS[0])
BAD_LINES = [
    ("{", "not one JSON object"),
    (GOOD + GOOD, "not one JSON object"),
    ("[1, 2]", "not a JSON object"),
    (json.dumps({**ROWS[0], "o": None}), "o is missing"),
    (json.dumps({k: v for k, v in ROWS[0].items() if k != "t"}), "t is missing"),
    (json.dumps({**ROWS[0], "t": "yesterday"}), "t is not a time: 'yesterday'"),
    (json.dumps({**ROWS[0], "t": 1.5}), r"t is 1\.5, not an integer"),
    (json.dumps({**ROWS[0], "t": True}), "t is true"),
    (json.dumps({**ROWS[0], "t": 10**18}), "t is not a time"),
    (json.dumps({**ROWS[0], "t": -(2**63)}), "t is not a time: '?-9223372036854775808'?; expected integer milliseconds, at most"),
    (json.dumps({**ROWS[0], "s": 7}), "s is 7, not a string"),
    (json.dumps({**ROWS[0], "o": "x"}), "o is not an N-Triples term: 'x'"),
    (json.dumps({**ROWS[0], "s": '"x"'}), "s is .* must be an IRI or a blank node"),
    (json.dumps({**ROWS[0], "p": "_:p"}), "p is _:p"),
    (json.dumps({**ROWS[0], "g": "x"}), "g is not an N-Triples term"),
    ('{"s": "\\ud800"}', "surrogate"),
    ("null", "not a JSON object"),
]


@pytest.mark.parametrize(("line", "reason"), BAD_LINES)
@pytest.mark.parametrize("neighbour", [GOOD, json.dumps({**ROWS[0], "t": "2019-04-30T09:51:01"})])
def test_a_bad_line_is_found_at_its_place(tmp_path: Path, line: str, reason: str, neighbour: str) -> None:
    path = tmp_path / "s.ndjson"
    path.write_text(f"{neighbour}\n\n{neighbour}\n{line}\n{neighbour}", encoding="utf-8")
    with pytest.raises(DataError, match=rf"s\.ndjson:4: .*{reason}.*on_error=\"skip\"") as error:
        read(path)
    assert "\n" not in str(error.value)
    rows, rejects = refused(path)
    assert [row["line"] for row in rows] == [1, 3, 5]
    assert [reject.line for reject in rejects] == [4]


@pytest.mark.parametrize("first", ["null", "  null", "nul", "3", '"a"', "[", "true"])
def test_a_stream_may_begin_with_a_bad_line(tmp_path: Path, first: str) -> None:
    (tmp_path / "s.ndjson").write_text(f"\n{first}\n {GOOD}\n", encoding="utf-8")
    rows, rejects = refused(tmp_path / "s.ndjson")
    assert [row["line"] for row in rows] == [3]
    assert [reject.line for reject in rejects] == [2]


# ------------------------------------------------------------------ lines that are too long
def short_lines(monkeypatch: pytest.MonkeyPatch, longest: int = 1 << 20) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", longest)
    monkeypatch.setattr(lines, "BLOCK", longest // 4)


@pytest.mark.parametrize("size", [1000, 1100, 1 << 14])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_line_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, end: str) -> None:
    """For any length above the limit, also as the last line; the other lines are read."""
    short_lines(monkeypatch, 999)
    others = f"{GOOD}\n" * 20 if end else ""
    path = tmp_path / "s.ndjson"
    path.write_text(f"{GOOD}\n{'x' * size}{end}{others}")
    rows, rejects = refused(path)
    assert [row["line"] for row in rows] == [1, *range(3, 23 if end else 3)]
    assert [(reject.line, reject.reason) for reject in rejects] == [(2, lines.TOO_LONG)]
    with pytest.raises(DataError, match=r"s\.ndjson:2: is longer than 64 MiB"):
        read(path)


def test_a_record_of_csv_that_is_too_long_is_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unclosed quote makes one record of the rest of a file."""
    short_lines(monkeypatch, 999)
    path = tmp_path / "s.csv"
    row = "<a:a>,<b:b>,<c:c>,1\n"
    path.write_text(f's,p,o,t\n{row}<a:a>,<b:b>,"""x\n{row * 1000}')
    rows, rejects = refused(path)
    assert [row["line"] for row in rows] == [2]
    assert [(reject.line, reject.reason) for reject in rejects] == [(3, lines.TOO_LONG)]
    path.write_text("s,p,o,t," * 1000)
    with pytest.raises(DataError, match=r"s\.csv:1: the header is longer than 64 MiB"):
        read(path)


def test_a_line_that_is_too_long_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 MB from 64 kB, where the limit of a line is 1 MiB."""
    short_lines(monkeypatch)
    path = tmp_path / "s.ndjson.gz"
    path.write_bytes(gzip.compress(b"x" * (64 << 20) + f"\n{GOOD}\n".encode(), 1))
    tracemalloc.start()
    try:
        rows, rejects = refused(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ([row["line"] for row in rows], [reject.line for reject in rejects]) == ([2], [1])
    assert peak < 8 << 20


def test_bytes_that_are_no_text_are_found(tmp_path: Path) -> None:
    path = tmp_path / "s.ndjson"
    path.write_bytes(GOOD.encode() + b'\n{"s": "<http://e/\xff>", "p": "<p:p>", "o": "<o:o>", "t": 1}\n')
    with pytest.raises(DataError, match=r":2: cannot be read as JSON"):
        read(path)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("s,p,o,t\n<a:a>,<b:b>,<c:c>\n", 2, "3 columns, not 4"),
        ('s,p,o,t\n<a:a>,<b:b>,<c:c>,1\n<a:a>,<b:b>,"x",1\n', 3, "o is not an N-Triples term: 'x'.*doubled"),
        ('s,p,o,t\n<a:a>,<b:b>,"""x\ny""",1\n<a:a>,<b:b>,<c:c>,x\n', 4, "t is not a time"),
        ('s,p,o,t\n<a:a>,<b:b>,"""x,1\n', 2, "not one row"),
        ("s,p,t\n", 1, "column o is missing"),
        ("s,p,o,t,s\n", 1, "several columns have the name s: rename all but one"),
    ],
)
def test_bad_csv_is_found_at_its_place(tmp_path: Path, text: str, line: int, reason: str) -> None:
    (tmp_path / "s.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=rf"s\.csv:{line}: .*{reason}"):
        read(tmp_path / "s.csv")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.ndjson: no such file"):
        read(tmp_path / "none.ndjson")
    with pytest.raises(DataError, match="not a file"):
        read(tmp_path)
    (tmp_path / "s.txt").write_text("")
    with pytest.raises(DataError, match=r"s\.txt: unknown kind.*\.ndjson"):
        read(tmp_path / "s.txt")
    (tmp_path / "s.parquet").write_text("no")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read(tmp_path / "s.parquet")
    pq.write_table(pa.table({"s": ["<a:a>"], "p": ["<a:a>"], "o": [1.5], "t": [1]}), tmp_path / "s.parquet")
    with pytest.raises(DataError, match="column o is double"):
        read(tmp_path / "s.parquet")


@pytest.mark.parametrize("extension", [".ndjson", ".csv", ".nq", ".trig"])
def test_an_empty_file_is_an_empty_stream(tmp_path: Path, extension: str) -> None:
    (tmp_path / f"s{extension}").write_text("\n\n")
    assert read(tmp_path / f"s{extension}") == []
    (tmp_path / f"s{extension}").write_text("")
    assert read(tmp_path / f"s{extension}") == []
