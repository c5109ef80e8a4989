"""A disk with faults: the calls of ``cqels_opt.storage.disk``, one of which fails, tears, or is the last before a kill or a power loss.

A *kill* ends a process: what it wrote is there. A *power loss* ends the machine: of the changes of names that nothing made durable a
prefix is left, as a journaling file system has it; content that nothing flushed is there, as it was before, cut off, or filled with zeros.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pytest

from cqels_opt.storage import disk

Kind = Literal["fail", "tear", "kill", "power loss"]
KINDS: tuple[Kind, ...] = ("fail", "tear", "kill", "power loss")
CODES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES)
READS = frozenset({"read", "mapped", "opened"})
CALLS = (
    *("create", "append", "modify", "copy", "flush", "sync", "sync_file_system", "rename", "delete", "make_folder"),
    *("delete_folder", "link", "truncate", *sorted(READS)),
)


class KilledError(BaseException):
    """Stands for the end of a process: nothing after it reaches the disk."""


@dataclass(frozen=True)
class Fault:
    """What happens at the ``at``-th call of a name, counted from 0 since the fault was set."""

    kind: Kind
    call: str
    at: int


def random_fault(kind: Kind, rng: random.Random) -> Fault:
    """A fault at any call: each sort of call is as likely as another."""
    call = rng.choice([*CALLS, "write"])
    return Fault(kind, call, rng.randint(0, 60 if call == "write" else 8))


@dataclass
class _Change:
    """A change of names that is not durable yet, and how it is undone."""

    folders: tuple[Path, ...]
    undo: Callable[[], object]


class FaultyDisk:
    """Passes calls on to the disk, with at most one fault at a time. ``seen`` names the call at which the last fault happened."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.root, self.rng = root, rng
        self.fault: Fault | None = None
        self.calls, self.seen, self.dead = 0, "", False
        self._names: list[_Change] = []
        self._contents: dict[Path, bytes] = {}  # files with content that is not durable, and what is
        self._real = {name: getattr(disk, name) for name in CALLS}

    @contextmanager
    def installed(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """While the engine uses this disk."""
        with patch.context() as patched:
            for name in CALLS:
                patched.setattr(disk, name, self._call(name))
            yield

    def set(self, fault: Fault | None) -> None:
        """The next fault. A process that was killed is started again."""
        if self.dead and self.fault is not None and self.fault.kind == "power loss":
            self._lose()
        self.fault, self.calls, self.dead = fault, 0, False

    # -------------------------------------------------------------- faults
    def _call(self, name: str) -> Callable[..., Any]:
        real, remember = self._real[name], getattr(self, f"_before_{name}", None)

        def call(*arguments: Any) -> Any:
            self.point(name, arguments[0])
            inner = tuple(a.file if isinstance(a, _File) else a for a in arguments)
            after = remember(*arguments) if remember is not None else None
            result = real(*inner)
            if after is not None:
                after()
            return _File(self, Path(arguments[0]), result) if name in ("create", "append", "modify") else result

        return call

    def point(self, name: str, place: object, torn: Callable[[], object] | None = None) -> None:
        """A call is about to happen; ``torn`` does a part of it."""
        if self.dead:
            raise KilledError
        if self.fault is None or self.fault.call != name:
            return
        number, self.calls = self.calls, self.calls + 1
        if number != self.fault.at:
            return
        self.seen = name
        if self.fault.kind != "fail" and torn is not None:
            torn()
        if self.fault.kind in ("kill", "power loss"):
            self.dead = True
            raise KilledError
        code = errno.EIO if name in READS else self.rng.choice(CODES)
        raise OSError(code, f"injected at {name}", str(place))

    # -------------------------------------------------------------- what a power loss undoes
    def _keep(self, path: Path) -> None:
        """Remembers the durable content of a file that is about to change."""
        if path not in self._contents:
            self._contents[path] = path.read_bytes() if path.exists() else b""

    def _named(self, undo: Callable[[], object], *paths: Path) -> None:
        self._names.append(_Change(tuple(path.parent for path in paths), undo))

    def _opened(self, path: Path) -> None:
        self._keep(path)
        if not path.exists():
            self._named(lambda: path.unlink(missing_ok=True), path)

    _before_create = _before_append = _opened

    def _before_modify(self, path: Path) -> None:
        self._keep(path)

    def _before_truncate(self, path: Path, length: int) -> Callable[[], object]:
        return lambda: self._contents.pop(path, None)

    def _before_flush(self, file: Any) -> Callable[[], object]:
        return lambda: self._synced(Path(file.name))

    def _before_sync(self, path: Path) -> Callable[[], object]:
        return lambda: self._synced(path)

    def _synced(self, path: Path) -> None:
        if not path.is_dir():
            for same in [p for p in self._contents if p.exists() and p.samefile(path)]:  # a file may have several names
                del self._contents[same]
            return
        last = max((i for i, change in enumerate(self._names) if path in change.folders), default=-1)
        del self._names[: last + 1]

    def _before_sync_file_system(self, folder: Path) -> Callable[[], object]:
        def done() -> None:
            self._names.clear()
            self._contents.clear()

        return done

    def _before_rename(self, source: Path, target: Path) -> Callable[[], object]:
        before = target.read_bytes() if target.is_file() else None

        def undo() -> None:
            with suppress(FileNotFoundError):
                target.rename(source)
            if before is not None:
                target.write_bytes(before)
            self._move(target, source)

        def done() -> None:
            self._contents.pop(target, None)
            self._move(source, target)
            self._named(undo, source, target)

        return done

    def _move(self, source: Path, target: Path) -> None:
        for path in [p for p in self._contents if p == source or source in p.parents]:
            self._contents[target / path.relative_to(source)] = self._contents.pop(path)

    def _before_delete(self, path: Path) -> None:
        if path.is_file():
            content = path.read_bytes()
            self._named(lambda: path.parent.is_dir() and path.write_bytes(content), path)

    def _before_delete_folder(self, path: Path) -> None:
        files = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} if path.is_dir() else {}

        def undo() -> None:
            for file, content in files.items():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)

        if files:
            self._named(undo, path)

    def _before_make_folder(self, path: Path) -> None:
        if not path.exists():
            first = next(p for p in (*reversed(path.parents), path) if not p.exists())
            self._named(lambda: self._real["delete_folder"](first), first)

    def _before_link(self, source: Path, target: Path) -> Callable[[], object]:
        def done() -> None:
            if source in self._contents:
                self._contents[target] = self._contents[source]
            self._named(lambda: target.unlink(missing_ok=True), target)

        return done

    def _lose(self) -> None:
        """The machine starts again: a prefix of the changes of names is there, and of content whatever had reached the disk."""
        left = self.rng.randint(0, len(self._names))
        for change in reversed(self._names[left:]):
            change.undo()
        for path, durable in self._contents.items():
            if path.is_file():
                now = path.read_bytes()
                grown = now.startswith(durable)  # what was flushed before an append stays
                cut = self.rng.randint(len(durable) if grown else 0, len(now))
                path.write_bytes(self.rng.choice([now, durable, now[:cut], now[:cut] + bytes(len(now) - cut)]))
        self._names.clear()
        self._contents.clear()


class _File:
    """An open file whose writes are calls as well."""

    def __init__(self, disk_: FaultyDisk, path: Path, file: BinaryIO) -> None:
        self.disk, self.path, self.file = disk_, path, file

    def write(self, data: Any) -> int:
        half = bytes(data)[: len(bytes(data)) // 2]
        self.disk.point("write", self.path, lambda: (self.file.write(half), self.file.flush()))
        written = self.file.write(data)
        self.file.flush()  # what is written is in the system's memory: a kill does not lose it
        return written

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)
