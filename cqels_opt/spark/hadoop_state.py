"""The state of an adaptive join on a file system of Hadoop, such as ``s3a://``, ``hdfs://`` or ``dbfs:/``.

Spark writes and reads the rows there. The small files are kept in a temporary folder of the driver, as for a local state, and copied
after each commit: a commit record appears by a rename after all files that it names, and files are deleted after that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from cqels_opt.errors import CheckpointError, FileError, InputError
from cqels_opt.lod.locations import shown
from cqels_opt.relational.retained_rows import OPTIMIZER, ROWS, RetainedRows
from cqels_opt.spark.drop_in import FAILED
from cqels_opt.state.commit_log import COMMITS, Commit
from cqels_opt.state.run_identity import NAME, Identity
from cqels_opt.storage import disk

TEMPORARY = ".tmp"


class HadoopFolder:
    """A folder below a URI. ``folder`` is the driver's copy of its small files."""

    def __init__(self, session: SparkSession, uri: str, folder: Path) -> None:
        self.folder, self._shown, self._jvm = folder, shown(uri), session._jvm
        self._copied: dict[str, tuple[int, int]] = {}  # the versions of the small files that are at the URI
        try:
            root = self._path(uri)
            self._files = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
            self._root = str(self._files.makeQualified(root).toString()).rstrip("/")
        except Py4JJavaError as error:
            raise InputError(
                f"state: {self._shown}: Spark cannot open this file system ({_reason(error)}): add its connector to the session, such as "
                "org.apache.hadoop:hadoop-aws in spark.jars.packages for s3a://, or give a folder that all executors see"
            ) from error

    def _get(self, name: str) -> None:
        """Copies a file to the driver."""
        target = self.folder / name
        self._files.copyToLocalFile(False, self._at(name), self._path(f"file://{target.absolute()}"), True)
        self._copied[name] = _version(target)

    def _names(self, part: str, folders: bool = False) -> list[str]:
        """The files, or the folders, in a part of the state at the URI."""
        if not self._files.exists(self._at(part)):
            return []
        names = (
            str(found.getPath().getName()) for found in self._files.listStatus(self._at(part)) if found.isDirectory() == folders
        )
        return [f"{part}/{name}" if part else name for name in names if not name.endswith(TEMPORARY)]

    def _put(self, name: str) -> None:
        """Copies a file, which appears as a whole."""
        target, temporary = self._at(name), self._at(name + TEMPORARY)
        self._files.copyFromLocalFile(False, True, self._path(f"file://{(self.folder / name).absolute()}"), temporary)
        if self._files.exists(target) or not self._files.rename(temporary, target):
            self._files.delete(temporary, False)
            raise CheckpointError(f"{self._shown}: {name} exists: another job works with this state; give each its own")

    def _delete(self, name: str) -> None:
        """Deletes a file if this object has copied it."""
        if name in self._copied:
            self._files.delete(self._at(name), False)
            del self._copied[name]

    def _at(self, name: str) -> Any:
        return self._path(f"{self._root}/{name}")

    def _path(self, text: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(text)  # type: ignore[union-attr]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Errors name the URI instead of the driver's folder."""
        try:
            yield
        except Py4JJavaError as error:
            raise FileError(f"{self._shown}: {_reason(error)}") from error
        except CheckpointError as error:
            raise CheckpointError(str(error).replace(str(self.folder), self._shown)) from error


class HadoopFailure(HadoopFolder):
    """The state of a join that keeps no rows: whether it has failed."""

    def __init__(self, session: SparkSession, uri: str, folder: Path) -> None:
        super().__init__(session, uri, folder)
        with self._errors():
            if FAILED in self._names(""):
                self._get(FAILED)

    def publish(self) -> None:
        """Copies the failure, if there is one."""
        if (self.folder / FAILED).exists() and FAILED not in self._copied:
            with self._errors():
                self._put(FAILED)


class HadoopRetainedRows(HadoopFolder, RetainedRows):
    """The retained rows below a URI."""

    def __init__(self, session: SparkSession, uri: str, folder: Path, identity: Identity) -> None:
        HadoopFolder.__init__(self, session, uri, folder)
        self._attempt = ""
        self._checked: set[str] = set()
        with self._errors():
            self._fetch()
            RetainedRows.__init__(self, folder, identity)

    # ------------------------------------------------------------------ a batch
    def begin(self, number: int, allow_gap: bool = False) -> bool:
        """See :class:`RetainedRows`; the state is also reloaded if the commit records at the URI are not those of this object."""
        self._attempt = os.urandom(4).hex()
        with self._errors():
            if changed := {*self._names(COMMITS)} != {name for name in self._copied if name.startswith(COMMITS)}:
                self._fetch()
                self.log.check()
                self.state = self.log.last() or Commit(-1)
            return super().begin(number, allow_gap) or changed

    def _check(self, path: str, written: Mapping[str, int]) -> None:
        """See :class:`RetainedRows`; once for each folder, because it takes a request."""
        if path not in self._checked:
            super()._check(path, written)
            self._checked.add(path)

    def _sizes(self, path: str) -> dict[str, int]:
        """See :class:`RetainedRows`."""
        with self._errors():
            if not self._files.exists(self._at(path)):
                return {}
            found = {str(one.getPath().getName()): int(one.getLen()) for one in self._files.listStatus(self._at(path))}
        return {name: size for name, size in found.items() if not name.startswith(("_", "."))}

    def check_columns(self, columns: Sequence[Sequence[str]], internal: Sequence[str]) -> None:
        """See :class:`RetainedRows`."""
        with self._errors():
            super().check_columns(columns, internal)

    def path(self, number: int, shape: str = "") -> str:
        """Each attempt at a batch has its own folder, so rows that a record names are never overwritten, not even by another job."""
        return f"{super().path(number, shape)}-{self._attempt}"

    def place(self, path: str) -> str:
        """The URI of a folder of rows."""
        return f"{self._root}/{path}"

    @property
    def bytes(self) -> int:
        """The bytes of the valid rows."""
        with self._errors():
            return sum(int(self._files.getContentSummary(self._at(chunk.path)).getLength()) for chunk in self.state.files)

    # ------------------------------------------------------------------ the small files
    def publish(self) -> None:
        """Copies the small files that have changed: records last, in order, and none over a record of another job."""
        versions = {name: _version(self.folder / name) for name in self._local()}
        changed = [name for name, version in versions.items() if self._copied.get(name) != version]
        first = min((name for name in changed if name.startswith(COMMITS)), default="~")
        for name in sorted((name for name in self._copied if name.startswith(COMMITS) and name >= first), reverse=True):
            self._delete(name)  # a batch runs again: first, its record and those after it
        for name in changed:
            self._delete(name)
            self._put(name)
            self._copied[name] = versions[name]
        for name in [name for name in self._copied if name not in versions]:
            self._delete(name)

    def _sweep(self) -> set[str]:
        """Publishes the commit, then deletes what no record names."""
        named = super()._sweep()
        with self._errors():
            self.publish()
            for name in self._names(ROWS, folders=True):
                if name not in named:
                    self._files.delete(self._at(name), True)
        return named

    def _local(self) -> list[str]:
        """The small files in the driver's folder, in the order in which they are copied."""
        folders = (self.folder / part for part in (OPTIMIZER, COMMITS))
        optimizer, records = (sorted(f"{path.name}/{file.name}" for file in path.iterdir()) for path in folders)
        return [*optimizer, *(name for name in (NAME, FAILED) if (self.folder / name).exists()), *records]

    def _fetch(self) -> None:
        """Replaces the small files in the driver's folder by those at the URI."""
        self._copied.clear()
        for part in (OPTIMIZER, COMMITS):
            disk.make_folder(self.folder / part)
            for path in (self.folder / part).iterdir():
                disk.delete(path)
        names = [name for name in self._names("") if name in (NAME, FAILED)]
        for name in (*names, *self._names(OPTIMIZER), *self._names(COMMITS)):
            self._get(name)


def _version(path: Path) -> tuple[int, int]:
    """Distinguishes the contents of a name: a replaced file has another inode."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def _reason(error: Any) -> str:
    """The first line of an error of Java."""
    return str(error.java_exception.toString()).splitlines()[0]
