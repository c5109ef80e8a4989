"""Files that grow: the answers are those of a replay, wherever the file was cut by the reader."""

from __future__ import annotations

import json
import queue
import random
from pathlib import Path

import pytest
from spark.small_world import CROWDS, MAP, MET, STREAM, Files, write_world

import cqels_opt as cq
from cqels_opt.errors import CheckpointError
from cqels_opt.local.jobs import interval
from cqels_opt.runtime import growing_files
from cqels_opt.runtime.growing_files import GrowingFiles, LinesBatch, ReadLog
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.frontier import Frontier


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_world(tmp_path / "world", 60)


def query(files: Files, text: str = MET) -> cq.local.CompiledQuery:
    return cq.local.Engine(static=files.static, graphs={MAP: files.places}).register(text)


def lines_of_graphs(files: Files, seed: int) -> None:
    """Every other time, elements of two triples, which have a graph each."""
    draw, found = random.Random(seed), []
    for number, line in enumerate(files.stream.read_text().splitlines()):
        row = json.loads(line)
        graph = {"g": f"<http://ex.org/g{number}>"} if draw.random() < 0.5 else {}
        found += [{**row, **graph}, {**row, **graph, "o": f"<http://ex.org/x{draw.randrange(4)}>"}]
    files.stream.write_text("".join(json.dumps(row) + "\n" for row in found))


@pytest.mark.parametrize("seed", range(12))
def test_answers_do_not_depend_on_the_reads(seed: int, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines_of_graphs(files, seed)
    text = CROWDS if seed % 2 else MET
    monkeypatch.setattr(growing_files, "MOST_BYTES", random.Random(seed).choice([150, 300, 1_000, 5_000]))
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    query(files, text).start({STREAM: files.stream}, whole, tmp_path / "c").await_termination()
    run = query(files, text).start({STREAM: files.stream}, out, tmp_path / "c2", follow=True, to_the_end=True, commit_every="1h")
    run.await_termination()
    assert run.driver.log.written == run.driver.state.batch  # all is committed at the end
    assert out.read_text() and whole.read_text().startswith(out.read_text())  # the latest time of a live stream may go on


@pytest.mark.parametrize("again", [False, True])
def test_another_file_in_its_place_is_refused(again: bool, files: Files, tmp_path: Path) -> None:
    """Also a longer one, whose first lines would never be read: while the run is there, and at the next start."""
    content, live, out, state = files.stream.read_bytes(), tmp_path / "live.ndjson", tmp_path / "out.jsonl", tmp_path / "c"
    half = content.index(b"\n", len(content) // 2) + 1
    live.write_bytes(content[:half])

    def follow(to_the_end: bool) -> cq.local.LocalRun:
        return query(files).start(
            {STREAM: live}, out, state, follow=True, to_the_end=to_the_end, commit_every="1ms", listener=batches.put
        )

    batches: queue.Queue[TraceRecord] = queue.Queue()
    run = follow(again)
    batches.get(timeout=60)
    if again:
        run.await_termination()
    other = tmp_path / "other.ndjson"
    other.write_bytes(content[half:] + content)
    other.replace(live)  # at once: a run that reads a file which is written again may find it empty
    with pytest.raises(
        cq.CqelsOptError, match=r"live\.ndjson: the file has other content before byte [\d,]+ than what was read of it"
    ):
        (follow(True) if again else run).await_termination()
    live.write_bytes(content)
    follow(True).await_termination()
    whole = tmp_path / "whole.jsonl"
    query(files).start({STREAM: files.stream}, whole, tmp_path / "w").await_termination()
    assert out.read_text() and whole.read_text().startswith(out.read_text())


def test_lines_that_are_written_later(files: Files, tmp_path: Path) -> None:
    content, live = files.stream.read_bytes(), tmp_path / "live.ndjson"
    half = content.index(b"\n", len(content) // 2) + 1
    live.write_bytes(content[: half + 10])
    batches: queue.Queue[TraceRecord] = queue.Queue()
    run = query(files).start({STREAM: live}, tmp_path / "out.jsonl", tmp_path / "c", follow=True, listener=batches.put)
    first = batches.get(timeout=60)
    assert first.elements == content[:half].count(b"\n")
    with live.open("ab") as file:
        file.write(content[half + 10 :] + b"{}\n")
    second = batches.get(timeout=60)
    assert (first.elements + second.elements, second.rejected) == (60, 1)
    assert second.notices == (f"rejected: <{STREAM}>:61: live.ndjson: s is missing",)
    run.stop()


def test_a_file_that_is_cut(files: Files, tmp_path: Path) -> None:
    query(files).start(
        {STREAM: files.stream}, tmp_path / "o.jsonl", tmp_path / "c", follow=True, to_the_end=True
    ).await_termination()
    files.stream.write_text("")
    run = query(files).start({STREAM: files.stream}, tmp_path / "o.jsonl", tmp_path / "c", follow=True, to_the_end=True)
    with pytest.raises(cq.CqelsOptError, match=r"stream\.ndjson: the file has 0 bytes, but .* were read of it"):
        run.await_termination()


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(cq.InputError, match=r"a\.csv: a file that grows has lines of JSON"):
        GrowingFiles([(0, tmp_path / "a.csv")])
    (tmp_path / "empty.jsonl").touch()
    assert GrowingFiles([(0, tmp_path / "empty.jsonl")]).batch(Frontier(("s",))) is None


# ------------------------------------------------------------------ idle streams: answers depend on what is in a batch
@pytest.mark.parametrize("seed", range(8))
def test_a_batch_that_runs_again_reads_as_far_as_before(
    seed: int, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines_of_graphs(files, seed)
    draw, content = random.Random(seed), files.stream.read_bytes()
    monkeypatch.setattr(growing_files, "MOST_BYTES", draw.choice([150, 1_000, 20_000]))
    live, log, upto, read = tmp_path / "live.ndjson", ReadLog(tmp_path), 0, GrowingFiles([(0, tmp_path / "live.ndjson")])
    live.touch()
    for number in range(20):
        upto += draw.randrange(600)
        live.write_bytes(content[:upto])
        before = read.put()
        first = read.batch(Frontier(("s",)))
        log.write(number, read.seen)
        live.write_bytes(content[: upto + draw.randrange(600)])
        killed = GrowingFiles([(0, live)])
        killed.restore(before)
        again = killed.batch(Frontier(("s",)), log.of(number))
        assert log.of(number + 1) is None and texts(again) == texts(first)
        read.take(())
        killed.take(())
        assert killed.put() == read.put()


def texts(batch: LinesBatch | None) -> list[object]:
    return [] if batch is None else [part.to_pylist() for new in batch.files for part in new.parts]


def test_a_run_that_lets_streams_go_writes_a_record_per_batch(files: Files, tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "out.jsonl")
    assert interval(sink, live=True, growing=True) > 0 == interval(sink, live=True, growing=True, timeout=500)
    with pytest.raises(cq.InputError, match="commit_every: with idle_timeout a run writes a commit record per micro-batch"):
        query(files).start(
            {STREAM: files.stream}, tmp_path / "o.jsonl", tmp_path / "c", follow=True, commit_every="1s", idle_timeout="1s"
        )


def test_a_damaged_log_of_reads(tmp_path: Path) -> None:
    (tmp_path / "read.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"read\.json: the checkpoint is damaged"):
        ReadLog(tmp_path).of(1)
