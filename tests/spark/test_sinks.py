"""Files of answers merged by instant, for any number of parts."""

from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from local_runs import Cut, World, register

from cqels_opt.errors import CheckpointError, RunError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime import line_sinks as sinks
from cqels_opt.runtime.evaluate_task import FinishReport
from cqels_opt.runtime.line_sinks import FileSink, StreamSink, in_order_of_time
from cqels_opt.storage import checksum, disk
from cqels_opt.trace.writer import TraceFile
from cqels_opt.verify import Element

PROGRAM = cast(CompiledProgram, None)


def chunk(folder: Path, name: str, lines: dict[int, list[str]], in_memory: bool = False) -> tuple[CompiledProgram, FinishReport]:
    """Lines of answers as a task reports them: a file of them, or themselves."""
    text = "".join(line + "\n" for of in lines.values() for line in of).encode()
    by_instant = [(time, sum(len(line.encode()) + 1 for line in of)) for time, of in lines.items()]
    answers, times = sum(map(len, lines.values())), np.array(by_instant, np.int64).reshape(-1, 2)
    if in_memory:
        return PROGRAM, FinishReport(answers, times=times, lines=pa.py_buffer(text))
    path = folder / f"{name}.jsonl"
    path.write_bytes(text)
    return PROGRAM, FinishReport(answers, checksum.name_after_content(path).name, times)


def some_chunks(folder: Path, seed: int) -> tuple[list[tuple[CompiledProgram, FinishReport]], list[str]]:
    """Chunks, and their merged lines: by time, then by chunk."""
    rng = random.Random(seed)
    chunks, wanted = [], []
    for number in range(rng.randint(0, 4)):
        times = sorted(rng.sample(range(20), rng.randint(1, 8)))
        lines = {time: [f"{time} {number} é{i}" for i in range(rng.randint(1, 3))] for time in times}
        chunks.append(chunk(folder, str(number), lines, in_memory=rng.random() < 0.5))
        wanted += [(time, number, line) for time, of in lines.items() for line in of]
    return chunks, [line for *_, line in sorted(wanted, key=lambda found: found[:2])]


@pytest.mark.parametrize("seed", range(20))
def test_by_time_and_then_by_part(seed: int, tmp_path: Path) -> None:
    chunks, wanted = some_chunks(tmp_path, seed)
    sink, stream = FileSink(tmp_path / "out.jsonl"), StringIO()
    sink.restore({}, {})
    first = sink.put(0, chunks, tmp_path)
    second = sink.put(1, chunks, tmp_path)
    assert sink.path.read_text(encoding="utf-8").splitlines() == wanted * 2
    assert second == {"out": 2 * first["out"]} == {"out": sink.path.stat().st_size}
    StreamSink(stream).put(0, chunks, tmp_path)
    assert stream.getvalue().splitlines() == wanted


def test_neighbours_are_copied_at_once(tmp_path: Path) -> None:
    chunks = [chunk(tmp_path, "a", {1: ["x"], 2: ["y"], 5: ["z"]}), chunk(tmp_path, "b", {3: ["u"], 4: ["v"]})]
    assert [(s.of.name[0], s.start, s.size) for s in in_order_of_time(chunks, tmp_path)] == [
        ("a", 0, 4),
        ("b", 0, 4),
        ("a", 4, 2),
    ]


def test_files_that_follow_each_other_are_copied_whole(tmp_path: Path) -> None:
    chunks = [chunk(tmp_path, "b", {3: ["u"], 4: ["v"]}), chunk(tmp_path, "a", {1: ["x"], 2: ["y"]})]
    assert [(s.of.name[0], s.start, s.size) for s in in_order_of_time(chunks, tmp_path)] == [("a", 0, 4), ("b", 0, 4)]


@pytest.mark.parametrize("large", [1, 6, 1 << 18])
@pytest.mark.parametrize("seed", [5, 6])
def test_small_and_large_ranges_mixed(large: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges from a size on are copied by the kernel, others are buffered; the file and its digest are the same."""
    monkeypatch.setattr(sinks, "LARGE", large)
    chunks, wanted = some_chunks(tmp_path, seed)
    assert len({report.lines is None for _, report in chunks}) == 2  # files, and lines in memory
    sink = FileSink(tmp_path / "out.jsonl")
    sink.restore({}, {})
    length = [sink.put(batch, chunks, tmp_path) for batch in range(2)][-1]
    assert sink.path.read_text(encoding="utf-8").splitlines() == wanted * 2
    assert sink.digests == {"out": checksum.file_digest(sink.path)} and length == {"out": sink.path.stat().st_size}


def test_a_file_of_answers_that_is_cut_off(tmp_path: Path) -> None:
    (program, report), sink = chunk(tmp_path, "a", {1: ["x"]}), FileSink(tmp_path / "out.jsonl")
    sink.restore({}, {})
    with pytest.raises(RunError, match=r"a\.[0-9a-f]+\.jsonl: the answers are cut off"):
        sink.put(0, [(program, replace(report, times=np.array([[1, 3]])))], tmp_path)


def test_back_to_the_committed_length(tmp_path: Path) -> None:
    chunks, wanted = some_chunks(tmp_path, 5)
    sink = FileSink(tmp_path / "new" / "out.jsonl")
    sink.restore({}, {})
    length, digests = sink.put(0, chunks, tmp_path), sink.digests
    with sink.path.open("ab") as file:
        file.write(b"half a li")
    sink.restore(length, digests)
    sink.put(1, chunks, tmp_path)
    assert sink.path.read_text(encoding="utf-8").splitlines() == wanted * 2


def test_what_a_run_leaves_out_once_is_there_for_the_next_one(tmp_path: Path) -> None:
    """Answers in a file, then on standard output, then in the file again; also the trace and rejected elements."""
    query = register(
        "SELECT * FROM NAMED <http://x.org/S> [NOW] AS ?w { GRAPH ?w { ?s ?p ?o } }",
        World({"http://x.org/S": [[Element(t, ((f"<urn:s{t}>", "<urn:p>", "<urn:o>"),)) for t in range(1, 13)]]}),
        tmp_path / "q",
    )
    chunks, out, printed = query.chunks(Cut("3")), tmp_path / "out.jsonl", StringIO()
    rejects = tmp_path / "rejected.jsonl", tmp_path / "trace.jsonl.rejected"

    def go(numbers: Sequence[int], traced: bool, sink: FileSink | StreamSink) -> None:
        driver = query.driver(
            Cut("3"), tmp_path / "state", sink=sink, trace=TraceFile(tmp_path / "trace.jsonl") if traced else None
        )
        driver.rejects = replace(driver.rejects, path=rejects[traced])
        driver.restore(None)
        for number in numbers:
            driver.rejects.path.touch()  # type: ignore[union-attr]
            driver.batch(number, chunks[number])

    go([0], True, FileSink(out))
    before = out.read_text()
    rejects[0].write_text('{"reason": "of a run without a trace"}\n')
    go([1, 2], False, StreamSink(printed))
    assert out.read_text() == before
    go([3], True, FileSink(out))
    in_file, on_screen = (
        [json.loads(line)["time"] for line in said.splitlines()] for said in (out.read_text(), printed.getvalue())
    )
    assert (in_file, on_screen) == ([1, 2, 9, 10, 11, 12], [3, 4, 5, 6, 7, 8])
    assert [json.loads(line)["batch"] for line in (tmp_path / "trace.jsonl").read_text().splitlines()] == [0, 3]
    assert not any(b"\0" in path.read_bytes() for path in rejects)


def test_where_the_system_cannot_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call does not exist, or not for these files; then this process copies the bytes piece by piece."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, "across devices")

    monkeypatch.setattr(disk, "_PIECE", 7)
    chunks, wanted = some_chunks(tmp_path, 4)
    changes = (
        lambda: monkeypatch.setattr(os, "copy_file_range", refuse),
        lambda: monkeypatch.delattr(os, "copy_file_range"),
    )
    for name, change in zip("ab", changes):
        change()
        sink = FileSink(tmp_path / name)
        sink.restore({}, {})
        sink.put(0, chunks, tmp_path)
        assert sink.path.read_text(encoding="utf-8").splitlines() == wanted


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    chunks: list[Any] = [chunk(tmp_path, "a", {1: ["x"]})]
    (tmp_path / chunks[0][1].path).write_bytes(b"")
    sink = FileSink(tmp_path / "out.jsonl")
    sink.restore({}, {})
    with pytest.raises(CheckpointError, match=r"does not have its checksum"):
        sink.put(0, chunks, tmp_path)
