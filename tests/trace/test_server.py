"""A running job over HTTP on loopback: the page, its data as batches end, the metrics, and rejected requests."""

from __future__ import annotations

import errno
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cqels_opt.errors import InputError
from cqels_opt.trace import http_server
from cqels_opt.trace import server as page_server
from cqels_opt.trace.live import LiveTrace
from cqels_opt.trace.records import Delta, Lag, Milliseconds, OperatorRecord, TraceRecord
from cqels_opt.trace.server import is_loopback, served, shown

RECORD = TraceRecord(
    0,
    "q 1",
    (1000, 2000),
    1500,
    10,
    late=2,
    rejected=1,
    windows={"w": 3},
    deltas=(Delta("w", "w » a[?x]", 0.25, operators=(OperatorRecord("scan", "w", (), 5.0, 20),)),),
    ms=Milliseconds(ingest=100.0, execute=300.0),
    jobs=2,
    lag=Lag(500, 7),
)
SWITCHED = replace(RECORD, batch=1, deltas=(Delta("w", "w » b[?x]", 0.5, switched=True),))


class Client:
    """Sends requests to a server on loopback."""

    def __init__(self, trace: LiveTrace, address: str) -> None:
        self.trace, self.host = trace, address.removeprefix("http://").removesuffix("/")

    def ask(self, path: str, **headers: str) -> tuple[int, str, str]:
        connection = http.client.HTTPConnection(self.host, timeout=10)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, answer.headers.get("Content-Type", ""), body

    def json(self, path: str) -> dict[str, Any]:
        status, kind, body = self.ask(path)
        assert (status, kind) == (200, "application/json")
        found = json.loads(body)
        assert isinstance(found, dict)
        return found

    def put(self, *records: TraceRecord) -> None:
        """Adds records, and waits until they are drawn."""
        version = self.trace.after(-1, 0).version
        self.trace.add(records)
        assert self.trace.after(version, 10).version > version


@pytest.fixture
def client() -> Iterator[Client]:
    trace = LiveTrace("q.rq")
    with served(trace, "127.0.0.1", 0) as address:
        yield Client(trace, address)


def test_the_page_and_its_data(client: Client) -> None:
    status, kind, page = client.ask("/")
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert "<title>q.rq</title>" in page and '"live":true' in page
    assert client.json("/trace.json")["queries"] == []
    client.put(RECORD, replace(RECORD, query="r&/"))
    assert client.json("/trace.json")["queries"] == ["q 1", "r&/"]
    assert client.json("/trace.json?query=q%201")["batches"] == 1
    assert client.json("/trace.json?query=r%26%2F")["query"] == "r&/"
    client.put(SWITCHED)
    assert client.json("/trace.json?query=q%201")["switched"] == 1


def test_what_is_not_there(client: Client) -> None:
    assert client.ask("/trace.json?query=none")[0] == 404
    assert client.ask("/../page.py")[0] == 404
    assert client.ask("/favicon.ico")[0] == 404


def test_events_tell_of_batches_and_of_the_end(client: Client) -> None:
    connection = http.client.HTTPConnection(client.host, timeout=10)
    connection.request("GET", "/events")
    events = connection.getresponse()
    assert events.headers["Content-Type"] == "text/event-stream"

    def told() -> tuple[str, Any]:
        event, data, _ = (events.readline().decode().rstrip("\n") for _ in range(3))
        return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    assert told() == ("batch", {"batch": None})
    client.put(RECORD)
    assert told() == ("batch", {"batch": 0})
    client.put(SWITCHED)
    assert told() == ("batch", {"batch": 1})
    client.trace.end()
    assert told() == ("batch", {"batch": 1})
    assert told() == ("end", {})
    assert events.read() == b""


def test_metrics(client: Client) -> None:
    client.put(RECORD)
    client.put(SWITCHED)
    status, kind, text = client.ask("/metrics")
    assert status == 200 and kind.startswith("text/plain; version=0.0.4")
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    by_query = {
        "cqels_opt_elements_total": 20,
        "cqels_opt_late_elements_total": 4,
        "cqels_opt_rejected_elements_total": 2,
        "cqels_opt_spark_jobs_total": 4,
        "cqels_opt_batch_duration_seconds_count": 2,
        "cqels_opt_batch_duration_seconds_sum": 0.8,
        "cqels_opt_last_batch": 1,
        "cqels_opt_frontier_timestamp_seconds": 1.5,
        "cqels_opt_lag_seconds": 0.5,
        "cqels_opt_input_waiting": 7,
    }
    assert {name: float(found[f'{name}{{query="q 1"}}']) for name in by_query} == by_query
    assert float(found['cqels_opt_plan_switches_total{query="q 1",source="w"}']) == 1
    assert float(found['cqels_opt_phase_seconds_total{phase="execute",query="q 1"}']) == pytest.approx(0.6)
    assert float(found['cqels_opt_window_rows{query="q 1",window="w"}']) == 3
    assert float(found['cqels_opt_plan_cost{query="q 1",source="w"}']) == 0.5
    assert float(found['cqels_opt_plan_q_error{query="q 1",source="w"}']) == 4
    assert all(line.startswith(("# HELP cqels_opt", "# TYPE cqels_opt", "cqels_opt_")) for line in text.splitlines())


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "10.0.0.1"])
def test_another_name_for_this_machine_is_not_answered(client: Client, host: str) -> None:
    for path in ("/", "/trace.json", "/metrics", "/events"):
        assert client.ask(path, Host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:4050", "127.0.0.1:1", "[::1]:4050"])
def test_names_of_loopback_are(client: Client, host: str) -> None:
    assert client.ask("/trace.json", Host=host)[0] == 200


@pytest.mark.parametrize(
    "request_head",
    ["GET / HTTP/1.0\r\nHost: [\r\n\r\n", "GET http://[ HTTP/1.0\r\nHost: localhost\r\n\r\n"],
    ids=["host", "address"],
)
def test_an_open_bracket_is_a_bad_request(client: Client, request_head: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = raw(client, request_head)
    assert answer.startswith(b"HTTP/1.0 400 ") and b"malformed" in answer
    assert client.ask("/")[0] == 200  # the thread of the request has ended by now
    assert capsys.readouterr().err == ""


# ------------------------------------------------------------------ connections
def connected(client: Client) -> socket.socket:
    host, _, port = client.host.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def raw(client: Client, request_head: str) -> bytes:
    """The server's complete answer to these bytes."""
    with connected(client) as connection:
        connection.sendall(request_head.encode())
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_idle_connections_make_room(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit: the page is served, and the oldest idle connections are closed."""
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 8)
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(client)) for _ in range(30)]
        assert client.ask("/trace.json")[0] == 200
        assert [connection.recv(1) for connection in idle[:23]] == [b""] * 23
        for connection in idle[23:]:
            connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.0 200"


def test_a_connection_that_reads_events_is_not_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 2)
    with connected(client) as first, connected(client) as second:
        for connection in (first, second):
            connection.sendall(b"GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.0 200"
        with connected(client) as third:
            assert third.recv(1) == b""
        received = b""
        while b"event: batch" not in received and (more := first.recv(1 << 16)):  # the head may come alone
            received += more
        assert b"event: batch" in received


def test_a_slow_request_is_not_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server._Handler, "timeout", 0.01)
    assert raw(client, "GET / HT") == b""


def test_without_file_descriptors_there_is_no_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that cannot be accepted stays in the queue."""
    server = page_server._Server(LiveTrace("q"), "127.0.0.1", 0)
    waited: list[float] = []

    def refuse(_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with server:
        monkeypatch.setattr(http_server.ThreadingHTTPServer, "get_request", refuse)
        monkeypatch.setattr(server._stopping, "wait", waited.append)
        server._handle_request_noblock()
    assert waited == [http_server.PAUSE]


def test_what_is_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "0.0.0.0", "::", "node7", "")] == [
        *(True, True, True, True),
        *(False, False, False, False),
    ]


def test_a_port_in_use_is_one_sentence(client: Client) -> None:
    port = int(client.host.rpartition(":")[2])
    message = rf"--ui: 127\.0\.0\.1:{port}: Address already in use; give another port"
    trace = LiveTrace("second")
    with pytest.raises(InputError, match=message), served(trace, "127.0.0.1", port):
        pytest.fail("two servers have one port")
    assert not trace._thread.is_alive()


def test_the_address_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with shown("q", None) as nothing:
        assert nothing is None
    assert capsys.readouterr().err == ""
    with shown("q", ("127.0.0.1", 0)) as trace:
        assert trace is not None
        assert capsys.readouterr().err.startswith("page: http://127.0.0.1:")


# ------------------------------------------------------------------ resumed jobs
def drawn(trace: LiveTrace, query: str = "q 1") -> dict[str, Any]:
    found = json.loads(trace.json(query))
    assert isinstance(found, dict)
    return found


def test_a_job_that_goes_on_shows_what_was_before(tmp_path: Path) -> None:
    """Its first new batch is already in the file when it is reported: it counts once."""
    file = tmp_path / "t.jsonl"
    file.write_text("".join(replace(RECORD, batch=number).line() for number in range(5)))
    trace = LiveTrace("q", file)
    trace.add([replace(RECORD, batch=4)])
    trace.add([replace(RECORD, batch=5)])
    trace.end()
    assert (drawn(trace)["batches"], drawn(trace)["points"]["batches"]) == (6, [0, 1, 2, 3, 4, 5])
    assert b'cqels_opt_last_batch{query="q 1"} 5.0' in trace.metrics.text()
    assert b'cqels_opt_elements_total{query="q 1"} 20.0' in trace.metrics.text()  # of this process


def test_what_was_before_may_be_damaged(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text(RECORD.line() + "no json\n")
    trace = LiveTrace("q", file)
    trace.add([replace(RECORD, batch=1)])
    trace.end()
    assert drawn(trace)["batches"] == 2
    assert json.loads(trace.json(None))["problem"].startswith("what was traced before is not shown whole: ")


def test_a_trace_that_begins_anew_is_drawn_anew() -> None:
    trace = LiveTrace("q")
    trace.add([RECORD, SWITCHED])
    trace.restart()
    trace.add([RECORD])
    trace.end()
    assert drawn(trace)["batches"] == 1
    metrics = trace.metrics.text().decode()
    assert 'cqels_opt_elements_total{query="q 1"} 10.0' in metrics, "the batches of before are not counted twice"
    assert 'cqels_opt_plan_switches_total{query="q 1",source="w"} 0.0' in metrics
