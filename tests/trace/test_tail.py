"""Reads a growing trace: whole lines, once each, also after it was truncated, replaced, or deleted."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from cqels_opt.errors import DataError
from cqels_opt.trace import tail as module
from cqels_opt.trace.records import TraceRecord
from cqels_opt.trace.tail import News, Tail

RECORD = TraceRecord(0, "q", None, None, 1)


def line(batch: int, elements: int = 1) -> bytes:
    return replace(RECORD, batch=batch, elements=elements).line().encode()


def batches(news: News) -> list[int]:
    return [record.batch for record in news.records]


def append(file: Path, *lines: bytes) -> None:
    with file.open("ab") as out:
        out.write(b"".join(lines))


def test_what_comes_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    tail = Tail(file)
    assert tail.news() == News([], False, False)  # does not exist yet
    append(file, line(0), line(1))
    assert batches(tail.news()) == [0, 1]
    assert tail.news() == News([], False, False)
    append(file, line(2))
    assert batches(tail.news()) == [2]


@pytest.mark.parametrize("cut", [1, 20, len(line(1)) - 1])
def test_half_a_line_waits_for_its_other_half(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "t.jsonl"
    append(file, line(0), line(1)[:cut])
    tail = Tail(file)
    assert batches(tail.news()) == [0]
    assert batches(tail.news()) == []
    append(file, line(1)[cut:], line(2)[:5])
    assert batches(tail.news()) == [1]


def test_a_job_that_was_killed_and_goes_on_is_read_anew(tmp_path: Path) -> None:
    """The last batch was not committed: its record is truncated and rewritten between two reads."""
    file = tmp_path / "t.jsonl"
    append(file, line(0), line(1, 10))
    tail = Tail(file)
    assert batches(tail.news()) == [0, 1]
    file.write_bytes(line(0) + line(1, 99) + line(2))
    news = tail.news()
    assert news.restarted and [(record.batch, record.elements) for record in news.records] == [(0, 1), (1, 99), (2, 1)]


def test_a_file_that_was_cut_back_to_what_was_read_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    append(file, line(0), line(1)[:9])
    tail = Tail(file)
    assert batches(tail.news()) == [0]
    file.write_bytes(line(0))
    append(file, line(1, 7))
    news = tail.news()
    assert (news.restarted, batches(news)) == (False, [1])


def test_a_file_that_is_shorter_another_or_gone(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    append(file, line(0), line(1))
    tail = Tail(file)
    tail.news()
    file.write_bytes(line(0))
    assert tail.news() == News([replace(RECORD, batch=0)], True, False)
    (tmp_path / "new").write_bytes(line(0))
    (tmp_path / "new").replace(file)
    assert tail.news().restarted
    file.unlink()
    assert tail.news() == News([], True, False)
    assert tail.news() == News([], False, False)


def test_a_long_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    file = tmp_path / "t.jsonl"
    append(file, *(line(number) for number in range(50)))
    tail, found = Tail(file), list[int]()
    while (news := tail.news()).more:
        assert 0 < len(news.records) < 10
        found += batches(news)
    assert found + batches(news) == list(range(50))


def test_any_writes_and_looks_in_between_give_every_record_once(tmp_path: Path) -> None:
    draw = random.Random(7)
    whole = b"".join(line(number) for number in range(40))
    file = tmp_path / "t.jsonl"
    tail, found, written = Tail(file), list[int](), 0
    while written < len(whole):
        step = draw.randint(1, 400)
        append(file, whole[written : written + step])
        written += step
        found += batches(tail.news())
    assert found == list(range(40))


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    append(file, line(0), b"no json\n")
    tail = Tail(file)
    for _ in range(2):  # who continues gets the same line again, and no record is lost
        with pytest.raises(DataError, match=r"t\.jsonl:2: not a trace record: not JSON"):
            tail.news()
    file.write_bytes(line(0) + line(1))
    assert batches(tail.news()) == [0, 1]
