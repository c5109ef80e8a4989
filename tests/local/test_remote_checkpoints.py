"""Checkpoints at URIs on the local engine: the answers of a folder, also after kills and on other machines, and one driver at a time."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import remote_folder
from killed_process import died
from spark.small_world import MAP, MET, STREAM, rows, write_rows, write_world

import cqels_opt as cq
from cqels_opt.cli.main import main
from cqels_opt.errors import CheckpointError, FileError, InputError
from cqels_opt.local.run import LocalRun
from cqels_opt.operators import rows as rows_of_plans
from cqels_opt.runtime import growing_files
from cqels_opt.state import remote_checkpoint
from cqels_opt.state.remote_checkpoint import RemoteCheckpoint
from cqels_opt.state.spilled_results import apart
from cqels_opt.state.task_files import TaskFiles, task_path
from cqels_opt.storage import disk, sealed_files
from cqels_opt.storage.cache_folder import CACHE_VARIABLE
from cqels_opt.storage.object_store import ObjectStore


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "place" / "machine0"))


def start(place: Path, checkpoint: str | Path, stream: Path, **options: object) -> LocalRun:
    world = place.parent / "world"
    engine = cq.local.Engine(static=world / "static.nt", graphs={MAP: world / "places.nt"}, folder=place.parent / "registered")
    query = engine.register(MET)
    return query.start({STREAM: stream}, place / "out.jsonl", checkpoint, place / "t.jsonl", **options)  # type: ignore[arg-type]


def uri(place: Path) -> str:
    return f"{remote_folder.PROTOCOL}://{place}/bucket/deep/state"


def answers(place: Path) -> list[str]:
    return (place / "out.jsonl").read_text().splitlines()


def replay(tmp_path: Path) -> tuple[Path, Path]:
    """The stream of a small world, and the place of a run."""
    place = tmp_path / "place"
    place.mkdir()
    return write_world(tmp_path / "world", 60).stream, place


@pytest.mark.parametrize("seed", range(12))
def test_killed_and_started_again_here_or_on_another_machine(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill at any change of a file, of the object store too. Afterwards the local copy may be lost."""
    draw = random.Random(seed)
    stream, place = replay(tmp_path)
    options: dict[str, object] = {"batch": draw.choice([5, 9, 20]), "commit_every": 0}
    if seed % 3 == 1:  # a live folder, whose log the checkpoint has
        stream.unlink()
        stream, written = tmp_path / "live", rows(60, seed=seed)
        stream.mkdir()
        for number in range(4):
            write_rows(stream / f"{number}.ndjson", written[15 * number : 15 * number + 15])
        options = {"to_the_end": True, "commit_every": 0}
    if seed % 3 == 2:
        monkeypatch.setattr(growing_files, "MOST_BYTES", 1_000)
        options = {"follow": True, "to_the_end": True, "commit_every": draw.choice([0, "1h"])}
    (tmp_path / "calm").mkdir()
    start(tmp_path / "calm", tmp_path / "calm" / "state", stream, **options).await_termination()
    kills = 0
    while died(place, draw.randrange(1, 300), lambda: start(place, uri(place), stream, **options).await_termination()):
        kills += 1
        assert kills < 60, "a run that makes no progress"
        if draw.random() < 0.5:
            monkeypatch.setenv(CACHE_VARIABLE, str(place / f"machine{kills}"))
    assert answers(place) == answers(tmp_path / "calm")
    monkeypatch.setenv(CACHE_VARIABLE, str(place / "last"))
    start(place, uri(place), stream, **options).await_termination()  # after the end: nothing is added
    assert answers(place) == answers(tmp_path / "calm")


@pytest.mark.parametrize("seed", range(6))
def test_requests_that_fail(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any request may fail, before or after the object store has done what was asked. The next start continues, here or elsewhere."""
    draw = random.Random(seed)
    stream, place = replay(tmp_path)
    (tmp_path / "calm").mkdir()
    start(tmp_path / "calm", tmp_path / "calm" / "state", stream, batch=9, commit_every=0).await_termination()

    def unreliable(method: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object) -> object:
            if (fate := draw.random()) < 0.03:
                raise FileError("no connection")
            found = method(*given)
            if fate < 0.06:
                raise FileError("no connection")
            return found

        return call

    for name in ("names", "create", "read", "upload", "download", "delete"):
        monkeypatch.setattr(ObjectStore, name, unreliable(getattr(ObjectStore, name)))
    ended, failures = False, 0
    while not ended:
        try:
            ended = start(place, uri(place), stream, batch=9, commit_every=0).await_termination()
        except FileError:
            failures += 1
            assert failures < 60, "a run that makes no progress"
            if draw.random() < 0.3:
                monkeypatch.setenv(CACHE_VARIABLE, str(place / f"machine{failures}"))
    assert failures
    assert answers(place) == answers(tmp_path / "calm")


def noted_uploads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of objects that are uploaded from now on."""
    uploads: list[str] = []
    upload = ObjectStore.upload
    monkeypatch.setattr(ObjectStore, "upload", lambda store, name, path: (uploads.append(name), upload(store, name, path)))
    return uploads


def test_objects_that_are_not_needed_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, place = replay(tmp_path)
    uploads = noted_uploads(monkeypatch)
    start(place, uri(place), stream, batch=3, commit_every=0).await_termination()
    start(place, uri(place), stream, batch=3, commit_every=0).await_termination()
    bucket = place / "bucket" / "deep" / "state"
    entries = [json.loads(path.read_text())["content"] for path in (bucket / "log").iterdir()]
    (files,) = [entry["files"] for entry in entries if "files" in entry]
    assert len(entries) == 3  # with those of the two starts
    named = {f"{writer}/{name}" for name, writer in files.items()}
    stored = {path.relative_to(bucket / "files").as_posix() for path in (bucket / "files").rglob("*") if path.is_file()}
    assert named == {name for name in stored if "/replay/" not in name}
    assert len(stored - named) == 21  # chunks and their record
    uploaded = [name for name in uploads if "/slots/" in name]
    assert len([name for name in named if "/slots/" in name]) < len(uploaded) / 2


def test_of_two_drivers_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, place = replay(tmp_path)
    live = tmp_path / "live"
    live.mkdir()
    first = start(place, uri(place), live, commit_every=0)
    monkeypatch.setenv(CACHE_VARIABLE, str(place / "machine1"))
    (tmp_path / "second").mkdir()
    done = threading.Event()
    second = start(tmp_path / "second", uri(place), live, commit_every=0, listener=lambda record: done.set())
    stream.rename(live / "a.ndjson")
    with pytest.raises(CheckpointError, match="another process has taken this checkpoint over"):
        first.await_termination(60)
    assert done.wait(60)
    second.stop()
    assert answers(tmp_path / "second")


def saved(checkpoint: RemoteCheckpoint, number: int) -> None:
    """Saves a commit record in place of the one before."""
    disk.make_folder(checkpoint.folder / "commits")
    disk.write_atomically(checkpoint.folder / f"commits/{number}.json", str(number).encode())
    disk.delete(checkpoint.folder / f"commits/{number - 1}.json")
    checkpoint.save(())


def before_first(monkeypatch: pytest.MonkeyPatch, method: str, start_of_name: str, act: Callable[[], object]) -> None:
    """Acts before the first call of a method of object stores with such a name."""
    call, waiting = getattr(ObjectStore, method), [act]

    def patched(store: ObjectStore, name: str, *given: object) -> object:
        if name.startswith(start_of_name) and waiting:
            waiting.pop()()
        return call(store, name, *given)

    monkeypatch.setattr(ObjectStore, method, patched)


@pytest.mark.parametrize(("method", "name"), [("create", "log/"), ("names", "files"), ("read", "log/"), ("download", "files/")])
def test_the_driver_that_starts_last_wins(method: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the first one saves while the second one starts; and nothing that it has saved is lost."""
    place = tmp_path / "place"
    refused: list[int] = []
    first = RemoteCheckpoint(uri(place))
    saved(first, 0)

    def save() -> None:
        try:
            saved(first, 1)
        except CheckpointError:
            refused.append(1)

    monkeypatch.setenv(CACHE_VARIABLE, str(place / "machine1"))
    before_first(monkeypatch, method, name, save)
    second = RemoteCheckpoint(uri(place))
    assert refused == ([1] if method == "download" else [])
    last = 0 if refused else 1
    assert [path.name for path in (second.folder / "commits").iterdir()] == [f"{last}.json"]
    with pytest.raises(CheckpointError, match="another process has taken this checkpoint over"):
        saved(first, 2)
    saved(second, last + 1)


def test_a_start_keeps_what_a_later_one_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that waits in the middle of its start, while another one starts and saves, deletes nothing of that one."""
    place = tmp_path / "place"
    others: list[RemoteCheckpoint] = []
    first = RemoteCheckpoint(uri(place))
    saved(first, 0)

    def start_another() -> None:
        monkeypatch.setenv(CACHE_VARIABLE, str(place / "machine2"))
        others.append(RemoteCheckpoint(uri(place)))
        saved(others[0], 1)

    monkeypatch.setenv(CACHE_VARIABLE, str(place / "machine1"))
    before_first(monkeypatch, "names", "files", start_another)
    RemoteCheckpoint(uri(place))
    monkeypatch.setenv(CACHE_VARIABLE, str(place / "machine3"))
    assert (RemoteCheckpoint(uri(place)).folder / "commits/1.json").read_bytes() == b"1"


def test_a_task_uploads_only_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    driver = RemoteCheckpoint(uri(place))
    disk.make_folder(driver.folder / "slots")
    disk.write_atomically(driver.folder / "slots/a", b"of the driver")
    driver.save(("slots/a",))
    monkeypatch.setenv(CACHE_VARIABLE, str(place / "machine1"))
    files = TaskFiles(uri(place), driver.driver)
    disk.add_replica(files.folder, files)
    assert disk.opened(files.folder / "slots/a").read() == b"of the driver"
    uploads = noted_uploads(monkeypatch)
    files.send()
    assert not uploads
    disk.write_atomically(files.folder / "slots/b", b"of the task")
    disk.write_atomically(files.folder / "slots/c", b"deleted again")
    disk.delete(files.folder / "slots/c")
    monkeypatch.setattr(rows_of_plans, "CHUNK", 2)
    ids = np.arange(9)
    parts = [rows_of_plans.Rows({"x": ids[at : at + 3]}, *[ids[:3]] * 3) for at in (0, 3, 6)]
    assert len(list(apart(parts, ["x"], files.folder / "results/a"))) > 1
    files.send()
    assert {name.rpartition("slots/")[2] for name in uploads if "slots/" in name} == {"b"} and driver.get("slots/b")
    disk.write_atomically(files.folder / "slots/d", b"lost")
    (files.folder / "slots/d").unlink()
    with pytest.raises(FileNotFoundError, match="slots/d"):
        files.send()


def test_a_file_that_is_deleted_during_a_save_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    driver = RemoteCheckpoint(uri(place))
    saved(driver, 0)
    for name in ("slots/a", "slots/b"):
        disk.make_folder(driver.folder / "slots")
        disk.write_atomically(driver.folder / name, b"content")
    upload = ObjectStore.upload

    def late(store: ObjectStore, name: str, path: Path) -> None:
        (driver.folder / "slots/a").unlink(missing_ok=True)
        upload(store, name, path)

    monkeypatch.setattr(ObjectStore, "upload", late)
    driver.save(())
    assert driver.files.keys() == {"commits/0.json", "slots/b"}
    disk.write_atomically(driver.folder / "slots/a", b"content")
    with pytest.raises(FileNotFoundError, match="slots/a"):  # a commit record names it
        driver.save(("slots/a",))


@pytest.mark.parametrize("harm", ["missing", "changed", "entry"])
def test_a_missing_or_damaged_object_is_named(harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream, place = replay(tmp_path)
    start(place, uri(place), stream, batch=9, commit_every=0).await_termination()
    bucket = place / "bucket" / "deep" / "state"
    (identity,) = (bucket / "files").rglob("cqels-opt.json")
    entry = max((bucket / "log").iterdir())
    if harm == "missing":
        identity.unlink()
    else:
        path = entry if harm == "entry" else identity
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    monkeypatch.setenv(CACHE_VARIABLE, str(place / "machine1"))
    name = entry.name if harm == "entry" else "cqels-opt.json"
    with pytest.raises(CheckpointError, match=rf"{name}.*the checkpoint is damaged") as found:
        start(place, uri(place), stream, batch=9, commit_every=0)
    assert "\n" not in str(found.value)


def test_file_systems_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    stream, place = replay(tmp_path)
    with pytest.raises(InputError, match="no conditional writes"):
        start(place, f"local://{tmp_path}/state", stream)
    with pytest.raises(InputError, match="Protocol not known"):
        start(place, "nothing://x/state", stream)


def test_a_server_that_ignores_the_condition_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And loses nothing that was saved."""
    place = tmp_path / "place"
    saved(RemoteCheckpoint(uri(place)), 0)
    log = place / "bucket" / "deep" / "state" / "log"
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    pipe_file = remote_folder.RemoteFolder.pipe_file
    monkeypatch.setattr(remote_folder.RemoteFolder, "pipe_file", lambda fs, path, value, mode="": pipe_file(fs, path, value))
    with pytest.raises(CheckpointError, match="no conditional writes"):
        RemoteCheckpoint(uri(place))
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before


def test_a_lost_copy_costs_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same machine reads nothing but the newest entries; another one what it needs, and no slot that no batch reads."""
    stream, place = replay(tmp_path)
    start(place, uri(place), stream, batch=9, commit_every=0).await_termination()
    downloads: list[str] = []
    download = ObjectStore.download

    def counted(store: ObjectStore, name: str, path: Path) -> bool:
        downloads.append(name)
        return download(store, name, path)

    monkeypatch.setattr(ObjectStore, "download", counted)
    start(place, uri(place), stream, batch=9, commit_every=0).await_termination()
    assert downloads == []
    monkeypatch.setenv(CACHE_VARIABLE, str(place / "machine1"))
    start(place, uri(place), stream, batch=9, commit_every=0).await_termination()
    assert len([name for name in downloads if "/replay/chunks/" in name]) == 7
    assert not [name for name in downloads if "/slot-" in name]


def test_processes_of_the_pool_fetch_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is sent to another process there names its copy, and a missing file of it is fetched, verified and counted."""
    stream, place = replay(tmp_path)
    start(place, uri(place), stream, batch=9, commit_every=0).await_termination()
    for name, value in remote_folder.installed(tmp_path / "installed").items():
        monkeypatch.setenv(name, value)
    checkpoint = RemoteCheckpoint(uri(place))
    remote_checkpoint.opened[checkpoint.folder] = checkpoint
    slot = max(name for name in checkpoint.files if "/slot-" in name)
    sent = pickle.dumps(task_path(checkpoint.folder / slot))
    program = """
import pickle, sys
from pathlib import Path
from cqels_opt.storage import sealed_files

path = pickle.loads(sys.stdin.buffer.read())
print(path, sealed_files.opened_whole(Path(path)).size)
"""
    for cache in ("machine0", "machine1", "machine1"):
        monkeypatch.setenv(CACHE_VARIABLE, str(place / cache))
        done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, check=True)
        path, size = done.stdout.decode().split()
        assert path.startswith(str(place / cache))
        assert int(size) == sealed_files.opened_whole(checkpoint.folder / slot).size
    reads = [line.split(" ", 2) for line in (tmp_path / "installed" / "reads").read_text().splitlines()]
    assert [Path(path).name for _, _, path in reads if "/slots/" in path] == [Path(slot).name]  # once, by machine1
    assert all(int(count) > int(size) for _, count, path in reads if "/slots/" in path)


def test_a_folder_needs_no_object_store(tmp_path: Path) -> None:
    """A run with a checkpoint in a folder does not load fsspec, and does nothing to find files elsewhere."""
    stream, place = replay(tmp_path)
    program = """
import sys
from pathlib import Path
from cqels_opt.storage import disk
sys.path += [sys.argv[4]]
from local.test_remote_checkpoints import start

called = []
disk.fetched = lambda path: called.append(path)
disk.add_replica = lambda *given: called.append(given)
start(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), batch=9, commit_every=0).await_termination()
print(called, "s3fs" in sys.modules)
"""
    words = [str(place), str(place / "state"), str(stream), str(Path(__file__).parents[1])]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=True)
    assert done.stdout.decode().split("\n")[0] == "[] False"


def test_the_check_reads_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stream, place = replay(tmp_path)
    start(place, uri(place), stream, batch=9, commit_every=0).await_termination()
    monkeypatch.setenv(CACHE_VARIABLE, str(place / "machine1"))
    assert main(["checkpoint", "check", uri(place)]) == 0
    assert capsys.readouterr().out == f"{uri(place)}: whole\n"
    slot = max((place / "bucket").rglob("slot-*"))
    slot.write_bytes(slot.read_bytes()[:-1])
    monkeypatch.setenv(CACHE_VARIABLE, str(place / "machine2"))
    assert main(["checkpoint", "check", uri(place)]) == 2
    assert f"{slot.name} does not have its checksum" in capsys.readouterr().err
