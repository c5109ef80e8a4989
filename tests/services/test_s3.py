"""Stores on a real S3-compatible server: loaded, opened, fetched by workers, replaced, and what is said where something is wrong."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from spark.small_world import MAP, MET, STREAM, Files, write_query, write_world

from cqels_opt.cli.commands import in_session
from cqels_opt.cli.options import RunOptions
from cqels_opt.cli.values import parse_batch
from cqels_opt.errors import StoreError
from cqels_opt.lod.check import check, info
from cqels_opt.lod.locations import cache_folder
from cqels_opt.lod.object_store_cache import check_remote_target, pinned
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.store import StaticPattern, Store
from cqels_opt.rdf.static import StaticSource
from cqels_opt.spark.load import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from services.conftest import S3

pytestmark = pytest.mark.usefixtures("s3")  # before Spark, whose workers have the environment that it began with


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_world(tmp_path / "world", elements=60)


def sources(files: Files) -> list[StaticSource]:
    return [StaticSource(files.static), StaticSource(files.places, MAP)]


def rows(store: Store) -> list[tuple[str | None, ...]]:
    found = store.match(StaticPattern("s", "p", "o"))
    return sorted(zip(*(store.decode(found.columns[v]) for v in "spo")))


def objects(s3: S3, bucket: str) -> set[str]:
    """The first names below the store."""
    return {path.name[:5] for path in (s3.folder / bucket / "deep" / "store").iterdir()}


def test_a_store_is_loaded_opened_and_replaced(spark: SparkSession, tmp_path: Path, s3: S3, files: Files) -> None:
    place = f"{s3.bucket('one')}/deep/store"
    told: list[int] = []
    report = load(spark, sources(files), place, progress=lambda done, of: told.append(done))
    assert report.path == place
    assert told == sorted(told)
    load(spark, sources(files), tmp_path / "local")
    local = open_store(tmp_path / "local")
    assert rows(open_store(place)) == rows(local)
    assert open_store(place).fingerprint == local.fingerprint == report.fingerprint
    assert check(place) == []
    assert info(place).predicates == info(tmp_path / "local").predicates
    before = pinned(place)
    load(spark, sources(files)[:1], place)
    assert open_store(place).triples == local.triples - 4
    assert rows(open_store(before)) == rows(local)  # from the cache: what was fetched stays
    assert objects(s3, "one") == {"data-", "store"}
    assert len(list((s3.folder / "one" / "deep" / "store").iterdir())) == 2
    assert not cache_folder().with_name("loading").exists()


def test_a_query_over_it_answers_as_over_a_folder(spark: SparkSession, tmp_path: Path, s3: S3, files: Files) -> None:
    """Workers fetch what they need into the cache; the answers are the same."""
    place = f"{s3.bucket('two')}/deep/store"
    load(spark, sources(files), place)
    load(spark, sources(files), tmp_path / "local")
    query, answers = write_query(tmp_path, MET), []
    for name, store in (("there", place), ("here", tmp_path / "local")):
        out = tmp_path / f"{name}.jsonl"
        options = RunOptions(query, ((STREAM, files.stream),), store=store, batch=parse_batch("20"), out=out)
        in_session(spark, options, tmp_path / f"state-{name}")
        answers.append(sorted(out.read_text().splitlines()))
    assert answers[0] == answers[1] != []


def test_a_killed_load_leaves_the_old_store(tmp_path: Path, s3: S3) -> None:
    """Killed when it has uploaded some of its files: the header still names the old ones."""
    place = f"{s3.bucket('three')}/deep/store"
    script = """
import os, signal, sys
from pathlib import Path
from cqels_opt.lod import object_store_cache
from cqels_opt.lod.build import build_store
store = build_store(Path(sys.argv[1]), [("<http://a>", "<http://p>", f'"{i}"', None) for i in range(int(sys.argv[3]))])
names = [file.relative_to(store.data).as_posix() for file in store.data.rglob("*") if file.is_file()]
object_store_cache.upload(store.data, names[:-1] if len(sys.argv) > 4 else names, sys.argv[2], store.fingerprint)
if len(sys.argv) > 4:
    os.kill(os.getpid(), signal.SIGKILL)
object_store_cache.publish(store.path / "store.json", sys.argv[2], store.fingerprint)
"""
    subprocess.run([sys.executable, "-c", script, tmp_path / "a", place, "3"], check=True)
    killed = subprocess.run([sys.executable, "-c", script, tmp_path / "b", place, "5", "die"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert check(place) == []
    assert open_store(place).triples == 3


def test_what_is_wrong_is_one_sentence(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3.bucket("four")

    def said(place: str) -> str:
        with pytest.raises(StoreError) as caught:
            rows(open_store(place))
        assert "\n" not in str(caught.value) and "only-for-tests" not in str(caught.value)
        return str(caught.value)

    assert said(f"{bucket}/nothing") == "s3://four/nothing: there is no store"
    assert said("s3://no-such-bucket/store") == "s3://no-such-bucket/store: there is no such bucket"
    with pytest.raises(StoreError, match=r"^s3://no-such-bucket/store: there is no such bucket$"):
        check_remote_target("s3://no-such-bucket/store")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    assert said(f"{bucket}/store").startswith("s3://four/store: access is denied; check the credentials")
    monkeypatch.undo()


def test_a_damaged_object_is_not_taken(spark: SparkSession, s3: S3, files: Files) -> None:
    place = f"{s3.bucket('five')}/deep/store"
    load(spark, sources(files)[1:], place)
    shutil.rmtree(cache_folder())
    file = next((s3.folder / "five").rglob("c0.npy"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match=r"the store is damaged, load it again"):
        check(place)
    assert not list(cache_folder().rglob("c0.npy"))
