"""Stores in object stores, on a filesystem of this process: what is fetched, kept, shared, and what a failure leaves."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from cqels_opt.errors import InputError, StoreError
from cqels_opt.lod import locations, object_store_cache
from cqels_opt.lod.build import build_store
from cqels_opt.lod.check import check, info
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.store import StaticPattern, Store
from cqels_opt.rdf.ids import PUBLIC, encode_one
from cqels_opt.state import worker_cache
from cqels_opt.storage.cache_folder import CACHE_VARIABLE

OLD = [(f"<http://old/{i}>", "<http://p>", "<http://o>", None) for i in range(3)]
NEW = [(f"<http://new/{i}>", f"<http://p/{i % 2}>", f'"text {i}"', None) for i in range(5)]
URI = "test://bucket/deep/store"
KNOWN = StaticPattern("s", encode_one("<http://p/1>", PUBLIC), "o")


class Bucket:
    """A local folder as a remote filesystem: it notes what is read, and breaks off where it is told to."""

    type_name = "test"

    def __init__(self, folder: Path) -> None:
        self.local = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
        self.read: list[str] = []
        self.break_off: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)

    def open_input_stream(self, path: str) -> Any:
        self.read.append(path.rpartition("/")[2])
        with self.local.open_input_stream(path) as file:
            content = file.read()
        if self.break_off is not None and path.endswith(self.break_off):
            return Broken(content)
        return pa.BufferReader(content)


class Broken(io.BytesIO):
    """Half of what was asked for, and then an error."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 56")
        return super().read(len(self.getvalue()) // 2)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    (tmp_path / "remote").mkdir()
    found = Bucket(tmp_path / "remote")
    monkeypatch.setattr(object_store_cache, "filesystem", lambda uri: (found, uri.removeprefix("test://").rstrip("/")))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return found


def put(folder: Path, quads: list[Any], uri: str = URI) -> Store:
    """Build a store and upload it, as a load does."""
    store = build_store(folder, quads)
    object_store_cache.check_remote_target(uri)
    names = [file.relative_to(store.data).as_posix() for file in store.data.rglob("*") if file.is_file()]
    object_store_cache.upload(store.data, names, uri, store.fingerprint)
    object_store_cache.publish(folder / "store.json", uri, store.fingerprint)
    return store


def rows(store: Store) -> list[tuple[str | None, ...]]:
    found = store.match(StaticPattern("s", "p", "o"))
    return sorted(zip(*(store.decode(found.columns[v]) for v in "spo")))


def test_what_was_uploaded_is_what_is_opened(bucket: Bucket, tmp_path: Path) -> None:
    local = put(tmp_path / "s", NEW)
    store = open_store(URI)
    assert (store.triples, store.fingerprint, store.terms) == (5, local.fingerprint, local.terms)
    assert rows(store) == rows(local)
    assert check(URI) == []
    assert info(URI).predicates == info(tmp_path / "s").predicates


def test_files_are_fetched_when_they_are_used_and_once(bucket: Bucket, tmp_path: Path) -> None:
    put(tmp_path / "s", NEW)
    bucket.read.clear()
    store = open_store(URI)
    assert bucket.read == ["store.json"]
    assert store.match(KNOWN).rows == 2
    assert sorted(bucket.read[2:]) == ["c0.npy", "c1.npy", "i0.keys.npy", "i0.starts.npy", "i1.keys.npy", "i1.starts.npy"]
    assert open_store(URI).match(KNOWN).rows == 2
    assert bucket.read[8:] == ["store.json"]


def test_a_pinned_store_that_is_here_needs_no_server(bucket: Bucket, tmp_path: Path) -> None:
    put(tmp_path / "s", NEW)
    place = object_store_cache.pinned(URI)
    rows(open_store(place))
    bucket.read.clear()
    assert rows(open_store(place)) == rows(worker_cache.store(place))
    assert bucket.read == []


def test_a_store_that_is_replaced_is_another_one(bucket: Bucket, tmp_path: Path) -> None:
    put(tmp_path / "old", OLD)
    place = object_store_cache.pinned(URI)
    used = open_store(place)
    assert used.match(StaticPattern("s", encode_one("<http://p>", PUBLIC), "o")).rows == 3
    put(tmp_path / "new", NEW)
    assert open_store(URI).triples == 5
    assert open_store(place).match(StaticPattern("s", encode_one("<http://p>", PUBLIC), "o")).rows == 3
    assert [info.base_name for info in bucket.get_file_info(fs.FileSelector("bucket/deep/store"))].count("store.json") == 1
    assert len(bucket.get_file_info(fs.FileSelector("bucket/deep/store"))) == 2
    for file in sorted((tmp_path / "cache").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    with pytest.raises(StoreError, match="was replaced by another one"):
        open_store(place)


def test_a_download_that_breaks_off_is_no_file(bucket: Bucket, tmp_path: Path) -> None:
    put(tmp_path / "s", NEW)
    bucket.break_off = "c1.npy"
    store = open_store(URI)
    with pytest.raises(StoreError, match=r"test://bucket/deep/store: the server does not answer") as caught:
        store.match(KNOWN)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache").rglob("c1.npy"))
    bucket.break_off = None
    assert store.match(KNOWN).rows == 2
    assert not list((tmp_path / "cache").rglob("*.part"))


@pytest.mark.parametrize("name", ["c0.npy", "relation.json", "0.text.npy", "store.json"])
def test_what_was_changed_over_there_is_not_taken(bucket: Bucket, tmp_path: Path, name: str) -> None:
    put(tmp_path / "s", NEW)
    for file in (tmp_path / "remote").rglob(name):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    with pytest.raises(StoreError, match="damaged") as caught:
        rows(open_store(URI))
    assert "\n" not in str(caught.value) and "test://bucket" in str(caught.value)
    assert not list((tmp_path / "cache").rglob(name))


def test_what_is_missing_is_said(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"^test://bucket/deep/store: there is no store"):
        open_store(URI)
    put(tmp_path / "s", NEW)
    next((tmp_path / "remote").rglob("c0.npy")).unlink()
    with pytest.raises(StoreError, match=r"c0\.npy is missing"):
        rows(open_store(URI))


def test_many_at_once_fetch_a_file_once(bucket: Bucket, tmp_path: Path) -> None:
    put(tmp_path / "s", NEW)
    place = object_store_cache.pinned(URI)
    bucket.read.clear()
    together = threading.Barrier(8)

    def one(_: int) -> list[tuple[str | None, ...]]:
        together.wait()
        return rows(open_store(place))

    with ThreadPoolExecutor(8) as pool:
        assert len({tuple(found) for found in pool.map(one, range(8))}) == 1
    assert bucket.read.count("c0.npy") == 2  # of two predicates
    assert bucket.read.count("0.text.npy") == 1


def test_where_a_store_may_be_written(bucket: Bucket, tmp_path: Path) -> None:
    object_store_cache.check_remote_target(URI)
    put(tmp_path / "s", NEW)
    object_store_cache.check_remote_target(URI)
    with pytest.raises(StoreError, match="other files lie there"):
        object_store_cache.check_remote_target("test://bucket/deep")
    with pytest.raises(StoreError, match="name a place in the bucket"):
        object_store_cache.check_remote_target("test://bucket")


def test_an_upload_that_was_killed_leaves_the_old_store(bucket: Bucket, tmp_path: Path) -> None:
    """Its files stay for a day, for nobody can tell them from those of an upload that is under way."""
    put(tmp_path / "old", OLD)
    half = build_store(tmp_path / "half", NEW)
    object_store_cache.upload(half.data, ["dictionary/0.text.npy"], URI, half.fingerprint)
    assert open_store(URI).triples == 3
    put(tmp_path / "third", OLD[:1])
    assert len(list((tmp_path / "remote").rglob("0.text.npy"))) == 2
    assert open_store(URI).triples == 1


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("When reading information for key 'x': AWS Error NO_SUCH_BUCKET during GetObject", "there is no such bucket"),
        ("AWS Error ACCESS_DENIED during GetObject operation: Access Denied.", "access is denied; check the credentials"),
        ("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7", "the server does not answer"),
        ("Something\nelse", "Something else"),
    ],
)
def test_errors_are_one_sentence(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, said: str, sentence: str) -> None:
    def fails(path: str) -> Any:
        raise OSError(said)

    monkeypatch.setattr(bucket, "open_input_stream", fails, raising=False)
    with pytest.raises(StoreError, match=f"^test://bucket/deep/store: {sentence}") as caught:
        open_store("test://key:secret@bucket/deep/store?scheme=http")
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_scheme_that_nobody_knows() -> None:
    with pytest.raises(StoreError, match=r"^nowhere://bucket/x: "):
        open_store("nowhere://bucket/x")


def test_places() -> None:
    assert locations.is_uri("s3://bucket/x") and locations.is_uri("gs://bucket/x")
    assert not locations.is_uri("folder/x") and not locations.is_uri("/a/b") and not locations.is_uri(Path("s3://bucket/x"))
    assert locations.shown("s3://key:secret@bucket/x?region=here") == "s3://bucket/x"
    assert locations.place_of("file:///mnt/a%20store") == Path("/mnt/a store")
    for wrong in ("file://rel/x", "file://"):
        with pytest.raises(InputError, match=f"^{wrong}: this names no folder of this machine: write a path, or file:///path"):
            locations.place_of(wrong)
    assert locations.place_of("s3://bucket/x") == "s3://bucket/x"
    with pytest.raises(InputError, match=r"^--checkpoint: s3://bucket/x: the state of a run needs a folder"):
        locations.state_folder("s3://key:secret@bucket/x", "--checkpoint")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/mnt/x", "/mnt/x"),
        ("state", "state"),
        (Path("a/b"), "a/b"),
        ("file:///mnt/a%20b", "/mnt/a b"),
        ("file:/mnt/x", "/mnt/x"),
        ("file://localhost/mnt/x", "/mnt/x"),
        ("file:///mnt/x#1?y", "/mnt/x#1?y"),
        (Path("file:///mnt/x"), "/mnt/x"),
        ("C:/x", "C:/x"),
        ("a/b:/c", "a/b:/c"),
    ],
)
def test_local_paths(given: str | Path, path: str) -> None:
    assert locations.local_path(given, "trace") == Path(path)
    assert locations.state_folder(given, "state") == Path(path)


@pytest.mark.parametrize(
    "given", ["dbfs:/x", "s3://b/x", "hdfs://name:8020/x", Path("s3://b/x"), "file://server/x", "abfss://c@a/x"]
)
def test_places_that_are_no_local_paths(given: str | Path) -> None:
    with pytest.raises(InputError, match=r"^state: \w+:/\S*: the state of a run needs a folder .*: give a path") as caught:
        locations.state_folder(given, "state")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"^trace: \w+:/\S*: a local file or folder is expected: give a path"):
        locations.local_path(given, "trace")
