"""Gateways: messages are durable before they are acknowledged; a kill at any point loses none; bad messages are separated."""

from __future__ import annotations

import http.server
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.sync.server import ServerConnection, basic_auth, serve

from cqels_opt.cli.main import main
from cqels_opt.errors import InputError
from cqels_opt.gateway import GatewayCounts, LiveFolder, gateway, make_source, sources
from cqels_opt.gateway.sources import Put, Received
from cqels_opt.rdf.payloads import payload_of
from cqels_opt.rdf.streams import read_stream

EX = "http://ex.org/"


def message(number: int) -> bytes:
    return json.dumps({"s": f"<{EX}{number}>", "p": f"<{EX}p>", "o": f'"{number}"', "t": number}).encode()


def found(folder: Path) -> list[tuple[str, int]]:
    """(subject, time) of the elements of a live folder, in the order of file names."""
    files = sorted(file for file in folder.iterdir() if file.name[0] not in "._")
    return [(row["s"], row["t"]) for file in files for batch in read_stream(file) for row in batch.to_pylist()]


class Broker:
    """Keeps messages until they are acknowledged, as a broker does for a persistent session."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self.kept = dict(enumerate(values))
        self.acknowledged: list[int] = []
        self.counts: list[str | None] = []

    def read(self, put: Put, position: str | None, stop: threading.Event) -> None:
        self.counts.append(position)
        for number, value in list(self.kept.items()):
            put(Received(value, 1000 + number, lambda n=number: self._done(n), f"at {number}"))  # type: ignore[misc]

    def _done(self, number: int) -> None:
        self.acknowledged.append(number)
        del self.kept[number]

    def close(self) -> None:
        """Does nothing."""


def moved(broker: Broker, folder: LiveFolder) -> GatewayCounts:
    return gateway(broker, folder, threading.Event(), every=0.01)


def test_what_comes_is_written_then_acknowledged(tmp_path: Path) -> None:
    broker = Broker([message(i) for i in range(50)])
    folder = LiveFolder(tmp_path / "live", payload_of("json"))
    counts = moved(broker, folder)
    assert (counts.messages, counts.elements, counts.refused) == (50, 50, 0)
    assert found(folder.path) == [(f"<{EX}{i}>", i) for i in range(50)]
    assert broker.acknowledged == list(range(50))
    assert folder.position == "at 49"


def test_bad_messages_are_kept_with_their_reason(tmp_path: Path) -> None:
    broker = Broker([message(1), b"junk\xff", message(2)])
    folder = LiveFolder(tmp_path / "live", payload_of("json"))
    counts = moved(broker, folder)
    assert (counts.messages, counts.elements, counts.refused) == (3, 2, 1)
    assert [s for s, _ in found(folder.path)] == [f"<{EX}1>", f"<{EX}2>"]
    (line,) = (tmp_path / "live" / "_refused.jsonl").read_text().splitlines()
    said = json.loads(line)
    assert (said["received"], said["value"]) == (1001, "junk\\xff")
    assert said["reason"].startswith("is not ")
    assert broker.kept == {}  # it would be redelivered forever


class Killed(BaseException):
    """Simulates the death of the process."""


@pytest.mark.parametrize("at", ["before", "half", "written"])
def test_a_kill_anywhere_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """A kill before, during or after the file is written: the next gateway has all; duplicates only in the last case."""
    broker = Broker([message(i) for i in range(5)])
    folder = LiveFolder(tmp_path / "live", payload_of("json"))
    write = LiveFolder.write

    def dying(self: LiveFolder, values: Sequence[bytes], times: Sequence[int], position: str | None = None) -> tuple[int, int]:
        if at == "half":
            (self.path / ".00000000000000000007.ndjson.part").write_bytes(message(0)[:20])
        if at == "written":
            write(self, values, times, position)
        raise Killed

    monkeypatch.setattr(LiveFolder, "write", dying)
    with pytest.raises(Killed):
        moved(broker, folder)
    monkeypatch.undo()
    assert broker.acknowledged == []
    again = LiveFolder(tmp_path / "live", payload_of("json"))
    assert moved(broker, again).elements == 5
    assert found(again.path) == [(f"<{EX}{i}>", i) for i in range(5)] * (2 if at == "written" else 1)
    assert not list(again.path.glob(".*.part"))
    assert broker.counts == [None, "at 4" if at == "written" else None]


def test_names_rise_also_where_the_clock_does_not_and_files_were_cleared_away(tmp_path: Path) -> None:
    folder = LiveFolder(tmp_path, payload_of("json"), clock=lambda: 5.0)
    for number in range(3):
        folder.write([message(number)], [0])
    names = sorted(file.name for file in tmp_path.glob("*.ndjson"))
    assert names == [f"{n:020}.ndjson" for n in (5_000_000, 5_000_001, 5_000_002)]
    later = LiveFolder(tmp_path, payload_of("json"), clock=lambda: 1.0)
    later.write([message(3)], [0])
    assert found(tmp_path) == [(f"<{EX}{i}>", i) for i in range(4)]


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([None, "g", "h"]), st.integers(0, 2)), max_size=4), max_size=5)
)
def test_an_element_stays_one(
    tmp_path_factory: pytest.TempPathFactory, messages: list[list[tuple[int, str | None, int]]]
) -> None:
    """The triples of a message with one graph and time are one element of the file, without those of others."""
    path = tmp_path_factory.mktemp("live")
    values = [
        json.dumps(
            [
                {"s": f"<{EX}{s}>", "p": f"<{EX}p>", "o": f"<{EX}{i}>", "t": t, **({"g": f"<{EX}{g}{i}>"} if g else {})}
                for s, g, t in rows
            ]
        ).encode()
        for i, rows in enumerate(messages)
    ]
    elements, refused = LiveFolder(path, payload_of("json")).write(values, [0] * len(values))
    expected: dict[tuple[int, str | None, int], list[str]] = {}
    for i, rows in enumerate(messages):
        for s, g, t in rows:
            expected.setdefault((i, g, t), []).append(f"<{EX}{s}>")
    assert (elements, refused) == (len(expected), sum(not rows for rows in messages))
    got: dict[int, list[str]] = {}
    for file in path.glob("*.ndjson"):
        for batch in read_stream(file):
            for row in batch.to_pylist():
                got.setdefault(row["element"], []).append(row["s"])
    assert sorted(map(sorted, got.values())) == sorted(map(sorted, expected.values()))


def test_other_files_of_a_folder_have_no_number(tmp_path: Path) -> None:
    (tmp_path / "2024-01.ndjson").write_text("")
    assert LiveFolder(tmp_path, payload_of("json")).write([message(1)], [1]) == (1, 0)


def test_a_damaged_position_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / ".position.json").write_text("{")
    with pytest.raises(InputError, match=r"\.position\.json: it is damaged"):
        _ = LiveFolder(tmp_path, payload_of("json")).position


# ------------------------------------------------------------------ protocols without a broker
def until(folder: LiveFolder, url: str, elements: int, send: str | None = None) -> GatewayCounts:
    """Runs a gateway until it has written this number of elements."""
    stop = threading.Event()

    def enough(counts: GatewayCounts) -> None:
        if counts.elements >= elements:
            stop.set()

    return gateway(make_source(url, send=send), folder, stop, 0.05, enough)


def test_a_web_socket_that_closes_is_opened_again(tmp_path: Path) -> None:
    heard: list[str] = []

    def serves(socket: ServerConnection) -> None:
        heard.append(str(socket.recv()))
        first = len(heard) * 10
        for number in range(first, first + 3):
            socket.send(message(number).decode() if number % 2 else message(number))
        if len(heard) > 1:
            socket.recv()  # stays open

    with serve(serves, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        folder = LiveFolder(tmp_path, payload_of("json"))
        counts = until(folder, f"ws://127.0.0.1:{server.socket.getsockname()[1]}/", 6, send="hello")
    assert counts.elements == 6
    assert heard == ["hello", "hello"]
    assert [t for _, t in found(tmp_path)] == [10, 11, 12, 20, 21, 22]


def test_a_web_socket_asks_for_a_password_which_nobody_sees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def serves(socket: ServerConnection) -> None:
        socket.send(message(1))
        socket.recv()

    asks = basic_auth(credentials=("me", "pass word"))
    with serve(serves, "127.0.0.1", 0, process_request=asks) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.socket.getsockname()[1]}/"
        counts = until(LiveFolder(tmp_path, payload_of("json")), f"ws://me:pass%20word@{place}", 1)
    assert counts.elements == 1
    said = capsys.readouterr().err
    assert f"connected to ws://{place}" in said and "pass" not in said


@contextmanager
def served(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A server of HTTP on this machine that answers GET; its host, port and path."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}/events"
        server.shutdown()


def respond(request: http.server.BaseHTTPRequestHandler, status: int, kind: str, body: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Type", kind)
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def events(total: int, at_once: int) -> Iterator[tuple[str, list[str | None]]]:
    """An event server with ids, which resumes after the requested one, and ends each answer after some events."""
    asked: list[str | None] = []

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        last = request.headers.get("Last-Event-ID")
        asked.append(last)
        begin = int(last) + 1 if last else 0
        numbers = range(begin, min(total, begin + at_once))
        respond(request, 200, "text/event-stream", b"".join(b"id: %d\ndata: %s\n\n" % (n, message(n)) for n in numbers))

    with served(answer) as place:
        yield f"http://{place}", asked


def test_events_go_on_after_the_last_one_that_was_written(tmp_path: Path) -> None:
    with events(total=9, at_once=2) as (url, asked):
        until(LiveFolder(tmp_path, payload_of("json")), url, 4)
        before = len(found(tmp_path))
        asked.clear()
        until(LiveFolder(tmp_path, payload_of("json")), url, 9 - before)
        assert asked[0] == str(before - 1)
    assert [t for _, t in found(tmp_path)] == list(range(9))


@contextmanager
def one_answer(status: int, kind: str, body: bytes) -> Iterator[tuple[str, list[str]]]:
    """A server with one answer to each request, and the paths that it was asked for."""
    asked: list[str] = []

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        respond(request, status, kind, body)

    with served(answer) as place:
        yield place, asked


def test_events_are_utf8_whatever_the_server_says(tmp_path: Path) -> None:
    """Broken ones are refused and not replaced, and ids may have any character."""
    asked: list[str | None] = []

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        asked.append(request.headers.get("Last-Event-ID"))
        messages = message(1).replace(b"/1>", "/é>".encode()), message(2).replace(b"/2>", b"/\xff>")
        body = b"id: \xc3\xa9\ndata: %s\n\ndata: %s\n\n" % messages
        respond(request, 200, "text/event-stream; charset=iso-8859-1", b"" if len(asked) > 1 else body)

    with served(answer) as place:
        counts = until(LiveFolder(tmp_path, payload_of("json")), f"http://{place}", 1)
        assert (counts.elements, counts.refused) == (1, 1)
        assert "/é" in found(tmp_path)[0][0]
        assert "is not UTF-8" in (tmp_path / "_refused.jsonl").read_text()
        events = make_source(f"http://{place}")
        stop = threading.Event()
        reader = threading.Thread(
            target=events.read, args=(lambda _: None, LiveFolder(tmp_path, payload_of("json")).position, stop)
        )
        reader.start()
        while len(asked) < 2:
            time.sleep(0.01)
        stop.set()
        reader.join()
    assert asked[1] is not None and asked[1].encode("iso-8859-1") == "é".encode()


def test_one_gateway_writes_to_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = """if True:
        import pathlib, sys
        from cqels_opt.state.checkpoint_lock import hold_file
        held = hold_file(pathlib.Path(sys.argv[1]), ValueError)
        held.write("7")
        print("held", flush=True)
        input()"""
    lock = tmp_path / "live" / ".gateway.lock"
    lock.parent.mkdir()
    with subprocess.Popen([sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"held\n"
        assert main(["gateway", "http://127.0.0.1:9/x", str(tmp_path / "live")]) == 2
        other.communicate(b"\n")
    assert "another gateway (process 7) writes to it" in capsys.readouterr().err


def test_events_without_data_are_none(tmp_path: Path) -> None:
    """Comments keep a connection alive; by the standard neither they nor ids alone are events."""
    body = b"".join(b"id: %d\ndata: %s\n\n: ping\n\nretry: 1000\n\ndata:\n\n" % (n, message(n)) for n in range(3))
    with one_answer(200, "text/event-stream; charset=utf-8", body) as (place, _):
        counts = until(LiveFolder(tmp_path, payload_of("json")), f"http://{place}", 3)
    assert (counts.messages, counts.elements, counts.refused) == (3, 3, 0)


@pytest.mark.parametrize(
    ("status", "kind", "why"),
    [
        (200, "text/html", "the server sends text/html, not text/event-stream"),
        (500, "text/event-stream", "500 Internal Server Error"),
    ],
)
def test_a_server_without_events_is_an_error_at_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, kind: str, why: str
) -> None:
    with one_answer(status, kind, b"") as (place, asked):
        assert main(["gateway", f"http://me:s3cret@{place}", str(tmp_path / "live")]) == 2
    said = capsys.readouterr().err
    assert why in said and "s3cret" not in said and said.count("\n") == 1
    assert len(asked) == 1


def test_a_server_that_ends_each_answer_is_asked_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    stop = threading.Event()

    def wait(seconds: float | None = None) -> bool:
        waited.append(seconds or 0.0)
        if len(waited) == 4:
            stop.set()
        return True

    monkeypatch.setattr(stop, "wait", wait)
    with one_answer(200, "text/event-stream", b"") as (place, _):
        make_source(f"http://{place}").read(lambda _: None, None, stop)
    assert waited == [0.5, 1.0, 2.0, 4.0]


def test_a_broker_may_refuse_a_later_connection(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is starting, or has too much to do. The first refusal is an error, because the user may be wrong."""
    monkeypatch.setattr(sources, "MAX_RETRY_DELAY", 1.0)
    accept, refuse = b"\x20\x02\x00\x00", b"\x20\x02\x00\x03"  # the answers to CONNECT (MQTT 3.1.1, §3.2)
    stop, answers = threading.Event(), [accept, refuse, accept]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serves() -> None:
            for number, answer in enumerate(answers):
                connection, _ = server.accept()
                with connection:
                    connection.recv(1024)
                    connection.sendall(answer)
                    if number == 2:
                        connection.recv(1024)
                        stop.set()

        threading.Thread(target=serves, daemon=True).start()
        source = make_source(f"mqtt://127.0.0.1:{server.getsockname()[1]}/topic")
        source.read(lambda _: None, None, stop)
        source.close()
    said = capsys.readouterr().err
    assert "the broker refuses the connection: Server unavailable; trying again" in said


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://host/x", "is no source of a gateway: write mqtt://"),
        ("mqtt://127.0.0.1:1", "it names no topic"),
        ("ws://127.0.0.1:abc/x", "is no source of a gateway: write mqtt://"),
        ("http://[::1/x", "Invalid IPv6 URL"),
        ("mqtt://127.0.0.1:1/topic", "Connection refused"),
        ("ws://127.0.0.1:1/", "Connection refused"),
        ("http://127.0.0.1:1/", "Connection refused"),
        ("http://me:secret@127.0.0.1:1/", "http://127.0.0.1:1/"),
    ],
)
def test_a_wrong_place_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str, complaint: str) -> None:
    assert main(["gateway", url, str(tmp_path / "live")]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert "secret" not in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["mqtt://127.0.0.1:1/topic", "--send", "x"], "--send: it is a message to a WebSocket server; leave it out"),
        (["ws://127.0.0.1:1/", "--client", "x"], "--client: it is an id at a broker of MQTT; leave it out"),
        (["http://127.0.0.1:1/", "--client", "x"], "--client: it is an id at a broker of MQTT; leave it out"),
    ],
)
def test_options_of_other_protocols(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str) -> None:
    assert main(["gateway", *words, str(tmp_path / "live")]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("topic", "answer", "complaint"),
    [
        ("a/%23/b", b"\x20\x02\x00\x00", "'a/#/b' is no filter of topics: Invalid subscription filter."),
        ("topic", b"", "the connection ends before the broker accepts it"),
    ],
)
def test_a_broker_that_cannot_be_used_is_an_error_at_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], topic: str, answer: bytes, complaint: str
) -> None:
    """The gateway waited for ever."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serves() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(answer)
                if answer:
                    connection.recv(1024)  # until the gateway ends it

        threading.Thread(target=serves, daemon=True).start()
        assert main(["gateway", f"mqtt://me:s3cret@127.0.0.1:{server.getsockname()[1]}/{topic}", str(tmp_path / "live")]) == 2
    said = capsys.readouterr().err
    assert complaint in said and "s3cret" not in said and said.count("\n") == 1


def test_the_reader_of_events_ends_with_the_gateway(tmp_path: Path) -> None:
    """Also while it waits for an event that does not come."""
    over = threading.Event()

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        respond(request, 200, "text/event-stream", b"data: %s\n\n" % message(1))
        over.wait(60)

    with served(answer) as place:
        until(LiveFolder(tmp_path, payload_of("json")), f"http://{place}", 1)
        assert not [thread for thread in threading.enumerate() if thread.name == "gateway"]
        over.set()
