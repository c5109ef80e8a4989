"""Checkpoints on a real S3-compatible server: killed runs that another machine continues, and what is said where something is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import dataset
from spark.command import Command, call, lines
from spark.small_world import MET, write_query, write_world

from cqels_opt.storage.cache_folder import CACHE_VARIABLE
from cqels_opt.storage.object_store import ObjectStore

if TYPE_CHECKING:
    from services.conftest import S3


def rows(folder: Path) -> list[str]:
    """The answers in a folder."""
    return sorted(map(str, dataset.dataset(folder, format="parquet").to_table().to_pylist()))


def test_an_object_is_created_once(s3: S3, tmp_path: Path) -> None:
    place = f"{s3.bucket('once')}/deep/state"
    store = ObjectStore(place, place)
    assert store.names("log") == []
    assert store.create("log/1", b"one") and not store.create("log/1", b"two")
    assert store.read("log/1") == b"one"
    assert store.names("log") == ["log/1"]
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * 150_000)  # more than one request takes
    store.upload("files/a", file)
    assert store.download("files/a", tmp_path / "copy") and not store.download("files/b", tmp_path / "other")
    assert (tmp_path / "copy").read_bytes() == file.read_bytes()
    assert (tmp_path / "copy").stat().st_mtime_ns == file.stat().st_mtime_ns
    store.delete(["files/a", "files/b"])
    assert store.names("files") == []


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_another_machine_continues(engine: str, s3: S3, tmp_path: Path) -> None:
    """Killed after some batches, and started again where nothing is left of the local copy."""
    files = write_world(tmp_path / "world", 80)
    query, trace, place = write_query(tmp_path, MET), tmp_path / "trace.jsonl", f"{s3.bucket(engine)}/deep/state"
    words = ["run", str(query), *files.words, "--engine", engine, "--batch", "2"]
    assert call([*words, "--out", f"{tmp_path}/calm/"]).code == 0
    words += ["--out", f"{tmp_path}/answers/", "--trace", str(trace), "--checkpoint", place]
    command = Command(words, {CACHE_VARIABLE: str(tmp_path / "machine1")})
    command.until(lambda: lines(trace) >= 3)
    command.kill()
    assert lines(trace) < 40
    done = call(words, {CACHE_VARIABLE: str(tmp_path / "machine2")})
    assert (done.code, done.out) == (0, ""), done.err
    assert lines(trace) == 40
    assert rows(tmp_path / "answers") == rows(tmp_path / "calm") != []
    read = call(["checkpoint", "check", place, "--out", f"{tmp_path}/answers"], {CACHE_VARIABLE: str(tmp_path / "machine3")})
    assert (read.code, read.out) == (0, f"{place}: whole\n"), read.err


def test_what_is_wrong_is_one_sentence(s3: S3, tmp_path: Path) -> None:
    files = write_world(tmp_path / "world", 20)
    words = ["run", str(write_query(tmp_path, MET)), *files.words, "--engine", "local", "--out", str(tmp_path / "out.jsonl")]
    for place, variables, message in (
        ("s3://no-such-bucket/state", {}, "s3://no-such-bucket/state: The specified bucket does not exist."),
        (
            f"{s3.bucket('wrong')}/state",
            {"AWS_SECRET_ACCESS_KEY": "another"},
            "s3://wrong/state/condition: access is denied; check the credentials, for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
    ):
        done = call([*words, "--checkpoint", place], variables)
        assert done.code == 2 and message in done.err and len(done.err.splitlines()) == 1, done.err
