"""The version of the static store with which each batch of a run works (DESIGN §4.7).

The time of a store update is no function of the elements. Therefore the first batch with a version records it in the checkpoint
before anything else is done for it; a batch that runs again takes the same version, and a restarted run continues with its own. The
run registers the versions that its records may still need with the store, which keeps them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.errors import CheckpointError, RunWarning, StoreError
from cqels_opt.lod.files import HEADER
from cqels_opt.lod.snapshots import StoreVersion, hold, store_of, version_at
from cqels_opt.storage import disk, documents

FOLDER = "static"
START = "start.json"


@dataclass(frozen=True, slots=True)
class StoreChange:
    """A version that took the place of another one with a batch."""

    was: int
    now: int


class VersionedStore:
    """The versions of a run's store, batch by batch.

    ``place`` is the version opened at the start of the run, ``state`` its checkpoint.

    A store with one version only, as in an object store, never changes.
    """

    def __init__(self, place: Path | str, state: Path) -> None:
        self.store, self.state = store_of(place), state
        self.folder = state / FOLDER
        self._opened = version_at(place)
        self.current = self._newest = self._opened
        self._held: list[Path | str] = []
        self._oldest = -1  # the first batch whose record is kept
        self._warned, self._refused = False, 0
        if self.store is not None and not (self.folder / START).exists():
            self._hold([self._opened.place])
            disk.make_folder(self.folder)
            self._log(self.folder / START, self._opened)

    def before(self, batch: int, oldest: int) -> StoreVersion:
        """The version that a batch finds; ``oldest`` is the first batch whose record is kept (-1: none)."""
        self._oldest = oldest
        if self.store is not None:
            files = [path for path in self._logged() if int(path.stem) < batch]
            self.current = self._read(files[-1] if files else self.folder / START)
            self._hold(self._needed())
        return self.current

    def decided(self, batch: int) -> bool:
        """Whether it has been noted that a batch is the first with a version."""
        return self._path(batch).exists()

    def has_newer(self) -> bool:
        """Whether there is a newer version, which the next batch may take."""
        self._newest = self.current if self.store is None else version_at(self.store)
        return self._newest.number != self._refused and self.current.followed_by(self._newest)

    def begin(self, batch: int, take: bool, fits: Callable[[Path | str], bool]) -> StoreChange | None:
        """Switches the batch to a newer version: the recorded one, or the one that :meth:`has_newer` has found if the batch is to
        ``take`` it and it ``fits`` the ids of the run. The switch is on disk then.
        """
        if self.store is None:
            return None
        path, was = self._path(batch), self.current
        if path.exists():
            newest = self._read(path)
            if not was.followed_by(newest):
                return None
        else:
            newest = self._newest
            if not take or not was.followed_by(newest) or any(int(later.stem) > batch for later in self._logged()):
                return None
            try:
                self._hold([*self._needed(), newest.place])
                if not fits(newest.place):
                    self._refuse(newest)
                    self._hold(self._needed())
                    return None
            except StoreError:  # it has been replaced since then: the next batch tries again
                return None
            self._log(path, newest)
        self.current = newest
        return StoreChange(was.number, newest.number)

    def _refuse(self, version: StoreVersion) -> None:
        if self._refused != version.number:
            self._refused = version.number
            warnings.warn(
                f"{self.store}: version {version.number} is not taken while the windows hold a term whose id it has for another one; "
                f"the run continues with version {self.current.number}",
                RunWarning,
                stacklevel=2,
            )

    def committed(self, oldest: int) -> list[Path | str] | None:
        """A batch is done, and ``oldest`` is the first batch whose record is kept (-1: none): releases versions that only records before it
        need.

        Returns the versions that stay; None if there is only one.
        """
        self._oldest = oldest
        if self.store is None or len(self._held) <= 1:
            return None
        self._hold(self._needed())
        passed = [path for path in self._logged() if int(path.stem) <= oldest]
        for path in passed[:-1]:
            disk.delete(path)
        return self._held

    # -------------------------------------------------------------- files
    def _needed(self) -> list[Path | str]:
        """The versions with which a batch may start that runs again, or that follows this one."""
        logged = self._logged()
        first = max((path for path in logged if int(path.stem) <= self._oldest), default=self.folder / START)
        wanted = [first, *(path for path in logged if int(path.stem) > self._oldest)]
        return list(dict.fromkeys(self._read(path).place for path in wanted))

    def _hold(self, places: list[Path | str]) -> None:
        if places == self._held:
            return
        try:
            disk.make_folder(self.state)
            hold(self.state, places)
        except OSError as error:
            if not self._warned:
                warnings.warn(
                    f"{self.store}: cannot note there that this run reads it ({error.strerror}): updates may remove what it needs",
                    RunWarning,
                    stacklevel=2,
                )
                self._warned = True
        self._held = places

    def _logged(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.json"))

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch:012d}.json"

    def _log(self, path: Path, version: StoreVersion) -> None:
        document = {"data": Path(version.place).name, "fingerprint": version.fingerprint}
        disk.write_atomically(path, documents.encode(path.name, document))

    def _read(self, path: Path) -> StoreVersion:
        assert self.store is not None
        try:
            document = documents.decode(path.name, disk.read(path))
            name, fingerprint = str(document["data"]), str(document["fingerprint"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: the checkpoint is damaged ({error}); use another folder") from error
        if (self.store / name / HEADER).is_file():
            return version_at(self.store / name)
        for found in (self._opened, version_at(self.store)):
            if found.fingerprint == fingerprint:
                return found  # loaded again, from the same data, and perhaps updated since
        raise CheckpointError(
            f"{self.state}: the checkpoint belongs to another run: its static data differs: the version of {self.store} "
            "that it works with is not there; use another folder"
        )


__all__ = ["StoreChange", "VersionedStore"]
