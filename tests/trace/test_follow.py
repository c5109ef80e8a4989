"""A running job in the terminal: one line per batch in a pipe, a compact view on a screen."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cqels_opt.trace.follow import BACKLOG, Compact, follow, sparkline
from cqels_opt.trace.records import Delta, Milliseconds, Moved, TraceRecord, read_trace
from cqels_opt.trace.tail import News, Tail

FIXTURE = Path(__file__).parent / "q2.jsonl"
RECORD = TraceRecord(0, "q", (1000, 2000), 1999, 10, deltas=(Delta("w", "w » a[?x]", 1.0),), ms=Milliseconds(execute=30.0))


def steps(*todo: Callable[[], object]) -> Callable[[], bool]:
    """The steps to take each time there are no new records; then the trace ends."""
    left = list(todo)

    def wait() -> bool:
        if left:
            left.pop(0)()
            return True
        return False

    return wait


def append(file: Path, *records: TraceRecord) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.writelines(record.line() for record in records)


def piped(file: Path, wait: Callable[[], bool]) -> list[str]:
    out = io.StringIO()
    follow(Tail(file), Console(file=out, width=40), wait)
    return out.getvalue().splitlines()


def test_a_pipe_gets_a_line_a_batch_as_it_ends(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    switch = Delta(
        "w", "w » b[?x]", switched=True, reason=(Moved("card(w)", None, 3.0), Moved("b", 1.0, 2.0), Moved("c", 1.0, 2.0))
    )
    wait = steps(
        lambda: append(file, RECORD),
        lambda: None,
        lambda: append(file, replace(RECORD, batch=1, deltas=(switch,)), replace(RECORD, batch=1, query="r", time_range=None)),
        lambda: file.write_text(RECORD.line()),
    )
    assert piped(file, wait) == [
        "batch 0, q, 1970-01-01 00:00:02, 10 elements, 30 ms, w:A",
        "batch 1, q, 1970-01-01 00:00:02, 10 elements, 30 ms, w:B, "
        "delta w switched (card(w): unknown -> 3; b: 1 -> 2; and 1 more)",
        "batch 1, r, 1970-01-01 00:00:01.999, 10 elements, 30 ms, w:A",
        "the trace begins again",
        "batch 0, q, 1970-01-01 00:00:02, 10 elements, 30 ms, w:A",
    ]


def test_of_what_is_there_a_pipe_gets_the_last_lines(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    append(file, *(replace(RECORD, batch=number) for number in range(30)))
    lines = piped(file, steps(lambda: append(file, replace(RECORD, batch=30))))
    assert [line.split(",")[0] for line in lines] == [f"batch {number}" for number in range(30 - BACKLOG, 31)]


def shown(view: Compact, width: int = 80) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width)
    console.print(view.render(width))
    return out.getvalue()


def test_the_compact_view_says_what_the_last_batch_did() -> None:
    view = Compact("q2.jsonl")
    assert "waiting for the first batch" in shown(view)
    view.add(News(list(read_trace(FIXTURE))[:12], False, False))
    text = shown(view, 120)
    assert "q2  batch 11, 2007-12-28 00:00:11.999, 111 elements, 266 ms (most of it execute)" in text
    assert "lsnow A cost 21.5 lsnow » loc_name[?loc] » ls30[?loc]" in " ".join(text.split())
    assert "batch 9, delta lsnow: B -> A, rows of lsnow joined with ls30 on ?loc: 87,000 -> 270" in text
    assert len(text.splitlines()) == 6


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_compact_view_fits_the_terminal(width: int) -> None:
    view = Compact("q2.jsonl")
    view.add(News([replace(record, query=f"q{n}") for record in read_trace(FIXTURE) for n in range(20)], False, False))
    lines = shown(view, width).splitlines()
    assert max(map(len, lines)) <= width
    assert "and 16 more queries" in " ".join(lines)


def test_a_trace_that_begins_anew_forgets_what_was() -> None:
    view = Compact("t")
    view.add(News([RECORD], False, False))
    view.add(News([], True, False))
    assert "waiting for the first batch" in shown(view)


def test_a_screen_is_drawn_anew(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    append(file, RECORD)
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True)
    follow(Tail(file), console, steps(lambda: append(file, replace(RECORD, batch=41))))
    assert "batch 0" in out.getvalue() and "batch 41" in out.getvalue()


def test_times_as_blocks() -> None:
    assert sparkline([0.0, 5.0, 10.0]) == "▁▅█"
    assert sparkline([]) == ""
    assert sparkline([0.0, 0.0]) == "▁▁"
