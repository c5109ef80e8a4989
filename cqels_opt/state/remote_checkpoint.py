"""A checkpoint in an object store. Each process works in a folder of its own machine, the local copy; what is missing there is fetched.

The object store has

- ``files/WRITER/PATH``: a file of the checkpoint. Objects never change: no two saves, of any driver, have the same WRITER.
- ``condition``: an empty object, with which each start tests conditional writes.
- ``log/N.json``: an entry of a save, the files of the checkpoint and the WRITER of each; or of a start, which names the save before it. The
  entry with the greatest number counts. It is written last, with a conditional write, so that of two drivers one gets the number N and the
  other one is refused.

A driver begins with the entry of its start, which is never deleted: the driver before it finds it where its next save would be, and can
write no more. Then nothing that the last save names is deleted. Objects that were there before the start and that the last save does not
name are not needed. The driver continues a local copy that has the last save. It deletes any other one and fetches the small files at
once, slots and results when they are read. A save is to the object store what making
files durable is to a disk: a driver that starts on another machine finds the checkpoint as it was at the last save.

Tasks on the driver's machine use its local copy. Tasks on other machines have one of their own for each driver, and upload what they write
before they report it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from cqels_opt.errors import CheckpointError, FileError
from cqels_opt.lod.locations import is_uri, shown, state_folder
from cqels_opt.state.checkpoint_lock import NAME as LOCK
from cqels_opt.state.checkpoint_lock import lock_checkpoint
from cqels_opt.storage import checksum, disk, documents
from cqels_opt.storage.cache_folder import fetched_folder
from cqels_opt.storage.object_store import ObjectStore, no_conditional_writes

FOLDER: Final = "checkpoints"
COPY: Final = ".copy.json"  # of a driver's local copy: the save that it has, the driver, and its files when they were saved
ON_DEMAND: Final = ("slots/", "results/", "optimizer/")
"""Folders whose files are fetched when they are read, and kept as long as a commit record names them."""
AS_A_WHOLE: Final = ("registered/", "subresults/")
"""Folders that a task reads as a whole: the output of registration, with static data, and sub-results."""
NOT_SAVED: Final = ("answers/",)
REPLAY: Final = "replay/"
REACHED: Final = "reached"
"""A note that changes with each batch (:meth:`CommitLog.note_reached`): it is saved with other files, not for its own sake."""
SPARK: Final = "spark/"
CONDITION: Final = "condition"
THREADS: Final = 8

Stamp = tuple[int, int, int]
"""Inode, time of modification and length of a file."""


class RemoteFiles:
    """The files of a checkpoint in the object store, as the newest entry that was read has them."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.uri, self.folder = uri, folder
        self.number, self.driver = -1, ""
        self.last_save = -1  # its number
        self.files: dict[str, str] = {}
        self.replay = ""  # the writer of the replay, all of whose files are written once

    @cached_property
    def store(self) -> ObjectStore:
        """The objects; most tasks on the driver's machine need none."""
        return ObjectStore(self.uri, shown(self.uri).rstrip("/"))

    def read(self) -> bool:
        """Reads the newest entry; False if there is no newer one."""
        newest = self._newest()
        if newest <= self.number:
            return False
        name = _entry(newest)
        try:
            found = documents.decode(name, self.store.read(name))
            driver, last = str(found["driver"]), newest if "files" in found else int(found["after"])
            if last not in (newest, -1):
                name = _entry(last)
                found = documents.decode(name, self.store.read(name))
            self.files, self.replay = dict(found.get("files", {})), str(found.get("replay", ""))
        except FileNotFoundError as error:
            if self._newest() > newest:
                return self.read()
            raise CheckpointError(f"{self.store.name}/{name} is missing: the checkpoint is damaged; use another place") from error
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.store.name}/{name}: the checkpoint is damaged ({error}); use another place") from error
        self.number, self.driver, self.last_save = newest, driver, last
        return True

    def _newest(self) -> int:
        return max((_number(name) for name in self.store.names("log")), default=-1)

    def name(self, path: Path) -> str:
        """The name in the checkpoint of a file in the local copy."""
        return path.relative_to(self.folder).as_posix()

    def get(self, name: str) -> bool:
        """Fetches a file to the local copy; False if there is none. One that no entry names may be by a task of the current driver."""
        return self.store.download(self._object_of(name), self.folder / name)

    def _object_of(self, name: str) -> str:
        return object_name(self.replay if name.startswith(REPLAY) else self.files.get(name, self.driver), name)

    def names(self) -> list[str]:
        """All files of the checkpoint."""
        if not self.replay:
            return list(self.files)
        start = len(object_name(self.replay, ""))
        return [*self.files, *(name[start:] for name in self.store.names(object_name(self.replay, "replay")))]

    def get_all(self, names: Iterable[str]) -> None:
        """Fetches files that an entry names. CheckpointError if one is missing."""
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self.required, names))

    def required(self, name: str) -> None:
        """Fetches a file that an entry names."""
        if not self.get(name):
            raise CheckpointError(
                f"{self.store.name}/{self._object_of(name)} is missing: the checkpoint is damaged; use another place"
            )


class RemoteCheckpoint(RemoteFiles):
    """The driver's side, which alone writes entries. This process becomes the driver, unless it is to ``only_read`` the checkpoint."""

    def __init__(self, uri: str, only_read: bool = False) -> None:
        super().__init__(uri, copy_of(uri))
        disk.make_folder(self.folder)
        self._lock = lock_checkpoint(self.folder)  # before a copy is deleted that another process works in
        self._saved: dict[str, Stamp] = {}
        self._elsewhere = False  # whether tasks run on other machines
        if only_read:
            self.read()
        else:
            not_needed = self._claim()
        copy = known(self.folder)
        if copy.get("save") == self.last_save:
            self._saved = {name: (stamp[0], stamp[1], stamp[2]) for name, stamp in copy["files"].items()}
            self._forget_unsaved()
        else:
            self._clear()
            self.get_all(name for name in self.names() if not name.startswith(ON_DEMAND))
        if not only_read:
            self._keep_copy()
            self.store.delete(not_needed)

    def _claim(self) -> list[str]:
        """Makes this the driver, after the last save of the one before; returns the objects that are not needed."""
        if self.store.create(CONDITION, b"") and self.store.create(CONDITION, b""):
            raise CheckpointError(f"{self.store.name}: {no_conditional_writes()}")
        stored = self.store.names("files")  # before the entry: later ones may be of a driver that starts after this one
        self._read_for_start()
        while not self._created({"after": self.last_save}):
            self._read_for_start()
        named = {self._object_of(name) for name in self.names()}
        return [name for name in stored if name not in named]

    def _read_for_start(self) -> None:
        self.read()
        self.driver = _writer(self.number + 1)

    def save(self, named: Collection[str], removed: bool = False) -> None:
        """Uploads what has changed, then writes an entry, unless nothing has changed; ``removed``: also if files are gone.

        Of the folders :data:`ON_DEMAND` the entry has the files in the local copy and those that are ``named``. CheckpointError if another
        driver has taken the checkpoint.
        """
        is_replay, local = (self.folder / REPLAY).is_dir(), dict(self._local())
        changed = [name for name, stamp in local.items() if self._saved.get(name) != stamp]
        files = {name: self.files.get(name, self.driver) for name in (*local, *named)}
        if not {*changed} - {REACHED} and not (removed and files.keys() != self.files.keys()):
            return
        writer = _writer(self.number + 1)
        replay = self.replay or (writer if is_replay else "")
        once = [self.name(path) for path in (self.folder / REPLAY).rglob("*") if path.is_file()] if replay == writer else []

        def upload(name: str) -> bool:
            try:
                self.store.upload(object_name(writer, name), self.folder / name)
            except FileNotFoundError:
                if name in named or name in once or (self.folder / name).exists():
                    raise
                return False  # deleted meanwhile
            return True

        with ThreadPoolExecutor(THREADS) as pool:
            uploaded = dict(zip([*changed, *once], pool.map(upload, [*changed, *once]), strict=True))
        for name in changed:
            if uploaded[name]:
                files[name] = writer
            else:
                del files[name], local[name]
        before = self.files
        self._write({"files": files, "replay": replay})
        last = self.last_save
        self.replay = replay
        self.files, self.last_save, self._saved = files, self.number, local
        self._keep_copy()
        gone = [object_name(by, name) for name, by in before.items() if files.get(name) != by]
        self._discard([_entry(last), *gone] if last >= 0 else gone)

    def get(self, name: str) -> bool:
        """See :class:`RemoteFiles`; what was fetched is saved already."""
        found = super().get(name)
        if found:
            self._saved[name] = _stamp((self.folder / name).stat())
        return found

    def fetch(self, path: Path) -> bool:
        """Fetches a file that is missing in the local copy; False if the checkpoint does not have it."""
        name = self.name(path)
        if name in self.files or (self.replay and name.startswith(REPLAY)):
            self.required(name)
            return True
        found = self.get(name)
        self._elsewhere |= found
        return found

    def deleted(self, names: Iterable[str]) -> None:
        """Deletes what tasks on other machines have written and no entry names."""
        if self._elsewhere:
            self._discard([object_name(self.driver, name) for name in names if name not in self.files])

    def wrote(self, path: Path) -> None:
        """Nothing: saves find what has changed."""

    def gone(self, path: Path) -> None:
        """Nothing, see :meth:`wrote`."""

    def send(self) -> None:
        """Nothing: saves upload it."""

    def _write(self, content: Mapping[str, Any]) -> None:
        """Writes the next entry. CheckpointError if another driver has taken the checkpoint."""
        if not self._created(content):
            raise CheckpointError(
                f"{self.store.name}: another process has taken this checkpoint over: give each run its own, or start this one again"
            )

    def _created(self, content: Mapping[str, Any]) -> bool:
        """Writes the next entry; False if another driver has written it."""
        name = _entry(self.number + 1)
        entry = documents.encode(name, {"driver": self.driver, "by": os.urandom(8).hex(), **content})
        if not self.store.create(name, entry):
            try:
                found = self.store.read(name)
                driver = documents.decode(name, found)["driver"]
            except (FileNotFoundError, ValueError, KeyError):
                found, driver = b"", ""
            if driver != self.driver:
                return False
            if found != entry:  # of a save that seemed to have failed
                self.number = self.last_save = self.number + 1
                return self._created(content)
        self.number += 1
        return True

    def _discard(self, names: Sequence[str]) -> None:
        """Deletes objects that are not needed; the next start deletes those for which that fails."""
        with suppress(FileError):
            self.store.delete(names)

    def _forget_unsaved(self) -> None:
        """Deletes commit records that were not saved: what they name may be in an object store alone."""
        for path in sorted((self.folder / "commits").glob("*.json"), reverse=True):
            if self._saved.get(self.name(path)) != _stamp(path.stat()):
                disk.delete(path)

    def _local(self) -> Iterator[tuple[str, Stamp]]:
        """The files of the local copy that belong to the checkpoint."""
        # the log of Spark for a replay names the chunks by their paths on this machine; without it the run reads the chunks by itself
        left_out = {*NOT_SAVED, REPLAY, *([SPARK] if (self.folder / REPLAY).is_dir() else [])}
        waiting = [path for path in self.folder.iterdir() if f"{path.name}/" not in left_out]
        while waiting:
            path = waiting.pop()
            if path.name.startswith("."):  # locks, temporary files, checksums of Spark
                continue
            with suppress(FileNotFoundError):  # deleted meanwhile
                if path.is_dir():
                    waiting += path.iterdir()
                else:
                    yield self.name(path), _stamp(path.stat())

    def _keep_copy(self) -> None:
        content = {"save": self.last_save, "driver": self.driver, "files": self._saved}
        disk.write_atomically(self.folder / COPY, documents.encode(COPY, content))

    def _clear(self) -> None:
        """Deletes the local copy, but for the lock."""
        disk.delete(self.folder / COPY)  # first
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK:
                disk.delete(path)


def whole_copy(place: str) -> Path:
    """The local copy of a checkpoint at a URI, with all of its files."""
    checkpoint = RemoteCheckpoint(place, only_read=True)
    if checkpoint.last_save < 0:
        raise CheckpointError(f"{checkpoint.store.name}: there is no checkpoint")
    checkpoint.get_all(name for name in checkpoint.files if not (checkpoint.folder / name).exists())
    return checkpoint.folder


# ------------------------------------------------------------------ the checkpoints of this process
opened: Final[dict[Path, RemoteCheckpoint]] = {}


def checkpoint_folder(place: str | os.PathLike[str], what: str) -> Path:
    """The folder of a checkpoint; of one at a URI the local copy, up to date, with this process as the driver."""
    if not is_uri(place) or str(place).lower().startswith("file:"):
        return state_folder(place, what).absolute()
    checkpoint = RemoteCheckpoint(str(place))
    disk.add_replica(checkpoint.folder, checkpoint)
    opened[checkpoint.folder] = checkpoint
    return checkpoint.folder


def of_folder(folder: Path) -> RemoteCheckpoint | None:
    """The checkpoint at a URI of which a folder is the local copy."""
    return opened.get(folder)


def copy_of(uri: str) -> Path:
    """The folder of a driver's local copy."""
    place = uri.rstrip("/")
    return fetched_folder() / FOLDER / f"{place.rpartition('/')[2]}-{checksum.text_digest(place)[:12]}"


def known(folder: Path) -> dict[str, Any]:
    """What is known of a driver's local copy; nothing if that cannot be read."""
    try:
        found: dict[str, Any] = documents.decode(COPY, disk.read(folder / COPY))
    except (OSError, ValueError):
        return {}
    return found


def _writer(number: int) -> str:
    return f"{number:012d}-{os.urandom(4).hex()}"


def _entry(number: int) -> str:
    return f"log/{number:012d}.json"


def _number(entry: str) -> int:
    return int(entry.split("/")[1].removesuffix(".json"))


def object_name(writer: str, name: str) -> str:
    """The name of the object of a file."""
    return f"files/{writer}/{name}"


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_mtime_ns, found.st_size
