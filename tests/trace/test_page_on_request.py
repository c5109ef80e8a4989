"""The page of a growing trace, made on request: what it reads, who may ask for it, and when its server ends."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cqels_opt.trace import page_on_request as module
from cqels_opt.trace.page import page_script
from cqels_opt.trace.page_on_request import PageOnRequest, PageServer
from cqels_opt.trace.records import Milliseconds, TraceRecord

RECORD = TraceRecord(0, "q <1>", (1000, 2000), 1500, 10, ms=Milliseconds(ingest=1.0))


def lines(*batches: int) -> str:
    return "".join(replace(RECORD, batch=batch).line() for batch in batches)


def batches(page: str) -> int:
    """The number of batches in the data of a page."""
    data: dict[str, Any] = json.loads(re.findall(r'id="data">(.*?)</script>', page)[0])
    return sum(query["batches"] for query in data["queries"])


@contextmanager
def serving(trace: Path) -> Iterator[PageServer]:
    ended = threading.Event()
    with PageServer(trace) as server:
        thread = threading.Thread(target=server.answer_while, args=(lambda: not ended.is_set(),))
        thread.start()
        yield server
        ended.set()
        thread.join()


def ask(server: PageServer, path: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(module.LOOPBACK, server.server_port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers.get("Content-Type", ""), body


def test_the_page_is_that_of_the_file_as_of_each_request(tmp_path: Path) -> None:
    """Before the file exists, as it grows, with a line that is being written, and cut back by a job that resumes."""
    trace = tmp_path / "t.jsonl"
    page = PageOnRequest(trace)
    assert batches(page.html()) == 0
    trace.write_text(lines(0, 1), encoding="utf-8")
    assert batches(page.html()) == 2
    trace.write_text(lines(0, 1, 2) + '{"batch"', encoding="utf-8")
    assert batches(page.html()) == 3
    trace.write_text(lines(0), encoding="utf-8")
    assert batches(page.html()) == 1


def test_a_long_trace_is_read_to_its_end(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("cqels_opt.trace.tail.MOST_BYTES", 1_000)
    trace = tmp_path / "t.jsonl"
    trace.write_text(lines(*range(50)), encoding="utf-8")
    assert batches(PageOnRequest(trace).html()) == 50


def test_the_page_runs_only_the_script_next_to_it(tmp_path: Path) -> None:
    """Spark's UI forbids scripts within a page."""
    html = PageOnRequest(tmp_path / "t.jsonl").html()
    assert re.findall(r"<script[^>]*>", html) == ['<script type="application/json" id="data">', '<script src="page.js">']
    assert "script-src 'self'; style-src 'sha256-" in html


def test_only_those_who_know_the_address_are_answered(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text(lines(0), encoding="utf-8")
    with serving(trace) as server:
        assert server.address == f"http://127.0.0.1:{server.server_port}{server.secret}" and len(server.secret) > 20
        status, kind, page = ask(server, f"{server.secret}/")
        assert (status, kind, batches(page)) == (200, "text/html; charset=utf-8", 1)
        assert ask(server, f"{server.secret}/page.js") == (200, "text/javascript; charset=utf-8", page_script())
        for path in ("/", "/page.js", "/x/", server.secret, f"{server.secret}/t.jsonl", f"{server.secret}/../t.jsonl"):
            assert ask(server, path)[0] == 404


def test_a_damaged_trace_is_one_sentence(tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text(lines(0) + "no record\n", encoding="utf-8")
    with serving(trace) as server:
        status, kind, text = ask(server, f"{server.secret}/")
    assert (status, kind) == (500, "text/plain; charset=utf-8")
    assert text.startswith(f"{trace}:2: ") and "\n" not in text
