"""Commit records: what a run had done when a batch was complete, written last and renamed into place (DESIGN, invariant 7).

Record N says everything that batch N + 1 needs: the files that count, where the frontier stands, how long the answers and the trace
are. A batch that runs again starts from the record before it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cqels_opt.errors import CheckpointError
from cqels_opt.operators.running.hold import Hold, hold
from cqels_opt.windows.slots import SlotFile

VERSION = 2
NAME = "cqels-opt.json"
KEEP = 3  # records (and the files that only they name) that stay for a replayed batch


@dataclass(slots=True)
class Commit:
    """The state after a batch."""

    batch: int
    files: list[SlotFile] = field(default_factory=list)
    frontier: dict[str, Any] = field(default_factory=dict)
    first: int | None = None
    reported: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    ended: bool = False
    knowledge: str = ""  # the file of what the planners know
    firsts: dict[str, int] = field(default_factory=dict)  # the first time of each stream
    since: dict[str, int] = field(default_factory=dict)  # of programs that came later: elements up to this time they do not see
    renewed: list[str] = field(default_factory=list)  # programs whose last answers were over another version of the static store
    displaced: list[tuple[str, int]] = field(default_factory=list)  # terms with a second id, see cqels_opt.rdf.ids.IdScheme
    query: str = ""  # the digest of the query whose result slots and knowledge these are


def durable_write(path: Path, text: str) -> None:
    """Writes a small file so that it is there whole or not at all, also after a crash."""
    temporary = path.with_name(f".{path.name}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a checkpoint is the state of.

    ``query`` may change where its user says so and ``windows`` stay; binding slots are kept for its ``patterns`` (how the slot is named,
    and how the query names it). All of ``others`` must stay: static data, lateness, and what else answers hang on. Of several queries
    those ``feeding`` others must stay as well, for the windows hold their graphs.
    """

    query: Any = None
    windows: Any = None
    patterns: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)
    feeding: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Tells one query from another in commit records."""
        return hashlib.sha256(json.dumps(self.query).encode()).hexdigest()[:16]


ANONYMOUS = Identity()
"""Of a run whose query nobody compares."""


class CommitLog:
    """The records of a checkpoint, and the identity of the run that it belongs to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = folder / "commits"
        self.records.mkdir(parents=True, exist_ok=True)
        self._other: dict[str, Any] | None = None
        self._held: Hold | None = None
        self._begun = False  # a batch, which has not been committed: what is in memory may be half of it

    def claim(self, identity: Identity, changed: bool = False, key: str = "") -> str:
        """The name of this checkpoint's run. Another version's checkpoint, or that of other data or options, is a :class:`CheckpointError`.

        So is another query, unless ``changed`` says that it is meant to be one and the state is what it needs; and a checkpoint that
        another process works with, for what that one has in hand looks like what a killed one left. The ``key`` of the ids of terms is
        kept for :func:`key_of`.
        """
        self._held = hold(self.folder)
        path, mine = self.folder / NAME, json.loads(json.dumps(asdict(identity)))
        if not path.exists():
            if any(self.records.iterdir()):
                raise CheckpointError(f"{self.folder}: the checkpoint is damaged: {NAME} is missing; use another folder")
            run = os.urandom(6).hex()
            durable_write(path, json.dumps({"version": VERSION, "run": run, "identity": mine, "key": key}, indent=1))
            return run
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            version, run, before = found["version"], str(found["run"]), Identity(**found["identity"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: the checkpoint is damaged ({error}); use another folder") from error
        if version != VERSION:
            raise CheckpointError(f"{self.folder}: the checkpoint is of version {version}, this is {VERSION}; use another folder")
        now = Identity(**mine)
        if (differs := _difference(before, now, changed)) is not None:
            raise CheckpointError(f"{self.folder}: the checkpoint belongs to another run: {differs}")
        self._other = {**found, "identity": mine} if now != before else None
        return run

    def adopt(self) -> None:
        """From now on the checkpoint is that of the query that claimed it: what is kept from the next batch on is what that one needs."""
        if self._other is not None:
            durable_write(self.folder / NAME, json.dumps(self._other, indent=1))
            self._other = None

    def write(self, commit: Commit) -> None:
        """Puts a record in place and forgets old ones."""
        record = {name: getattr(commit, name) for name in Commit.__slots__}
        record["files"] = [f.as_json() for f in commit.files]
        durable_write(self._path(commit.batch), json.dumps(record))
        self._begun = False
        for path in sorted(self.records.glob("[0-9]*.json"))[:-KEEP]:
            path.unlink()

    def before(self, batch: int) -> Commit | None:
        """The last record before a batch; None at the very start."""
        found = [path for path in sorted(self.records.glob("[0-9]*.json")) if int(path.stem) < batch]
        return self.read(found[-1]) if found else None

    @property
    def newest(self) -> int:
        """The batch of the last record; -1 where there is none."""
        return max((int(path.stem) for path in self.records.glob("[0-9]*.json")), default=-1)

    def begin(self, batch: int, known: int) -> bool:
        """A batch is about to run over the state after the batch ``known``; whether that must be read anew.

        It must where the batch was done already (Spark may not yet have noted that), where another object has gone on, and where a batch
        was begun and not committed.
        """
        newest, begun, self._begun = self.newest, self._begun, True
        return begun or newest >= batch or newest != known

    def check_back(self, batch: int) -> None:
        """A job may go back by a few batches, or to its beginning. CheckpointError where the record before a batch is kept no longer."""
        records = sorted(self.records.glob("[0-9]*.json"))
        if batch <= 0 or not records or int(records[0].stem) < batch:
            return
        if self.read(records[0]).totals.get("batches", 0) > 1:
            raise CheckpointError(
                f"{self.folder}: the job goes back to batch {batch}, but the state of before is kept no longer; "
                "start it with another checkpoint and another state folder"
            )

    def last(self) -> Commit | None:
        """The last record."""
        return self.before(1 << 62)

    def read(self, path: Path) -> Commit:
        """A record; a damaged one is a :class:`CheckpointError`."""
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            files = [SlotFile(**f) for f in fields["files"]]
            displaced = [(str(text), int(term_id)) for text, term_id in fields.get("displaced", ())]
            return Commit(**{**fields, "files": files, "displaced": displaced})
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: the checkpoint is damaged ({error}); use another folder") from error

    def sweep(self, folders: Sequence[str]) -> None:
        """Deletes the files of these folders that no record names: what a process had not committed, or not yet deleted, when it died."""
        named = self.named()
        for path in (path for name in folders for path in (self.folder / name).iterdir()):
            if path.is_file() and path.relative_to(self.folder).as_posix() not in named:
                path.unlink()

    def named(self) -> set[str]:
        """The files that a record names."""
        records = [self.read(path) for path in self.records.glob("[0-9]*.json")]
        return {name for record in records for name in (record.knowledge, *(f.path for f in record.files))}

    def _path(self, batch: int) -> Path:
        return self.records / f"{batch:012d}.json"


def key_of(folder: Path) -> str | None:
    """The key of the ids of terms in a checkpoint; None where there is no checkpoint, or one that has none."""
    try:
        return json.loads((folder / NAME).read_text(encoding="utf-8")).get("key") or None
    except (OSError, ValueError, AttributeError):  # whoever claims the checkpoint says what is wrong with it
        return None


def _difference(before: Identity, now: Identity, changed: bool) -> str | None:
    """Why a run cannot go on from the state of another one; None: it can."""
    for key, value in now.others.items():
        if before.others.get(key) != value:
            return f"its {key} differs; use another folder"
    if before.query == now.query:
        return None
    if before.windows != now.windows:
        return "its query differs, and has other windows; use another folder"
    if lacking := [name for pattern, name in now.patterns.items() if pattern not in before.patterns]:
        return f"its query differs, and nothing was kept for {', '.join(lacking)}; use another folder"
    if other := [name for name in now.feeding if before.query.get(name) != now.query.get(name)]:
        return f"the query {other[0]} differs, whose graphs others read; use another folder"
    if not changed:
        return (
            "its query differs; --continue-changed goes on with the changed one (its windows are the same), or use another folder"
        )
    return None
