"""Sealed files that stay in memory until a commit record names them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from local_runs import Cut, World, commit_records, register
from spark.small_world import MAP, MET, STREAM, rows, write_rows, write_world

import cqels_opt as cq
from cqels_opt.errors import CheckpointError
from cqels_opt.runtime import batch_commits, growing_files
from cqels_opt.runtime.checkpoint_check import check
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.state.commit_log import COMMITS
from cqels_opt.storage import columns, disk, documents, sealed_files
from cqels_opt.verify import Element


def content(path: Path) -> bytes:
    return bytes(sealed_files.opened_whole(path))


def test_readers_find_files_that_are_not_written_yet(tmp_path: Path) -> None:
    one, other, gone = (tmp_path / name for name in ("one", "other", "gone"))
    sealed_files.hold(tmp_path)
    for path in (one, other, gone):
        sealed_files.write(path, path.name.encode())
    first = sealed_files.stamp(one)
    sealed_files.write(one, b"again")
    assert sealed_files.stamp(one) != first
    assert (content(one), content(other)) == (b"again", b"other")
    assert not [*tmp_path.iterdir()]
    sizes = [sealed_files.size(path) for path in (one, other)]
    sealed_files.delete(gone)
    sealed_files.settle(tmp_path, {"one"})
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
    sealed_files.settle(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]
    assert (content(one), content(other)) == (b"again", b"other")
    assert [sealed_files.size(path) for path in (one, other)] == sizes == [path.stat().st_size for path in (one, other)]
    with pytest.raises(CheckpointError, match="gone"):
        content(gone)
    sealed_files.delete(one)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_arrays_in_memory_become_bytes_when_they_are_written(tmp_path: Path) -> None:
    sealed_files.hold(tmp_path)
    path, whole = tmp_path / "arrays", np.arange(10)
    columns.write_arrays(path, {"a": whole, "part": whole[2:4]}, {"of": "ten"})
    arrays, said = columns.read_arrays(path)
    assert arrays["a"] is whole
    assert arrays["part"].base is None  # or all of the whole array would stay in memory
    size, stamp = sealed_files.size(path), sealed_files.stamp(path)
    in_bytes = content(path)
    sealed_files.settle(tmp_path)
    assert sealed_files.value(path) is None
    assert (content(path), path.stat().st_size) == (in_bytes, size)
    again, also_said = columns.read_arrays(path)
    assert {name: array.tolist() for name, array in again.items()} == {"a": [*range(10)], "part": [2, 3]}
    assert also_said == said == {"of": "ten"}
    assert sealed_files.stamp(path) == stamp  # what readers have of it stays valid


def test_a_file_in_place_of_one_that_was_in_memory_has_another_stamp(tmp_path: Path) -> None:
    sealed_files.hold(tmp_path)
    path = tmp_path / "one"
    sealed_files.write(path, b"one")
    stamps = [sealed_files.stamp(path)]
    sealed_files.settle(tmp_path)
    with sealed_files.sealing(path) as file:
        file.write(b"two")
    stamps.append(sealed_files.stamp(path))
    sealed_files.delete(path)
    sealed_files.write(path, b"one")
    sealed_files.settle(tmp_path)
    stamps.append(sealed_files.stamp(path))
    assert len({*stamps}) == 3


def test_what_was_in_memory_ends_with_the_run(tmp_path: Path) -> None:
    sealed_files.hold(tmp_path)
    sealed_files.write(tmp_path / "a", b"a")
    sealed_files.hold(tmp_path)  # the next run over the folder
    with pytest.raises(CheckpointError, match=r"/a: the checkpoint is damaged \(No such file"):
        content(tmp_path / "a")
    sealed_files.release(tmp_path)
    sealed_files.write(tmp_path / "a", b"b")
    assert (tmp_path / "a").exists()


def test_a_run_that_could_not_begin_leaves_nothing_in_memory_for_the_next_one(tmp_path: Path) -> None:
    """The records of a run that writes one per batch named files that were in memory alone, and were lost with the process."""
    elements = [Element(1000 * n, ((f"<urn:{n}>", "<urn:at>", "<urn:x>"),)) for n in range(12)]
    text = "SELECT ?p FROM NAMED <http://x.org/S> [RANGE 9s] AS ?w { GRAPH ?w { ?p ?at ?l } }"
    query = register(text, World({"http://x.org/S": [elements]}), tmp_path / "q")
    rare = Cut("2", commit_every=math.inf)
    out, state = tmp_path / "out", tmp_path / "state"
    first = query.driver(rare, state, sink=FileSink(out))
    chunks = query.chunks(rare)
    for number in range(3):
        first.batch(number, chunks[number])
    first.commits.write_record()
    first.close()
    out.write_text("")
    with pytest.raises(CheckpointError, match="are gone"):
        query.driver(rare, state, sink=FileSink(out))
    second = query.driver(Cut("2"), state)
    for number in range(3, len(chunks)):
        second.batch(number, chunks[number])
    second.close()
    assert check(state) == []


def test_batches_between_two_records_write_only_what_the_next_record_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and the last batch have one. Otherwise each batch writes files, most of which are deleted soon."""
    files = write_world(tmp_path / "world", 60)
    live, state = tmp_path / "live.ndjson", tmp_path / "state"
    write_rows(live, rows(60))
    monkeypatch.setattr(growing_files, "MOST_BYTES", 500)
    created: list[str] = []
    create = disk.create

    def noted(path: Path) -> object:
        if path.parent.name in ("slots", "results"):
            created.append(path.name.removeprefix(".").rpartition(".")[0])
        return create(path)

    monkeypatch.setattr(disk, "create", noted)
    query = cq.local.Engine(static=files.static, graphs={MAP: files.places}).register(MET)
    run = query.start({STREAM: live}, tmp_path / "out.jsonl", state, follow=True, to_the_end=True, commit_every="1h")
    run.await_termination()
    records = [documents.decode(path.name, path.read_bytes())["state"] for path in sorted((state / COMMITS).glob("[0-9]*.json"))]
    assert (records[0]["batch"], len(records)) == (0, 2) and records[1]["batch"] > 5
    named = {Path(file["path"]).name for record in records for file in record["files"]}
    assert set(created) <= named
    assert created


def test_a_record_is_written_earlier_if_much_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, written = write_world(tmp_path / "world", 60), commit_records(monkeypatch)
    query = cq.local.Engine(static=files.static, graphs={MAP: files.places}).register(MET)
    numbers = {}
    for most in (1, 1 << 30):
        monkeypatch.setattr(batch_commits, "MOST_KEPT", most)
        query.start({STREAM: files.stream}, tmp_path / f"{most}.jsonl", tmp_path / f"state{most}", batch=5).await_termination()
        numbers[most] = [*written]
        written.clear()
    batches = max(numbers[1]) + 1
    assert (numbers[1], numbers[1 << 30]) == ([*range(batches)], [0, batches - 1]) and batches > 5
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / f"{1 << 30}.jsonl").read_bytes()
