"""Commit records: the state after each complete batch, written last and renamed into place (DESIGN, invariant 7).

Record N has everything that batch N + 1 needs: the files that count, the frontier, the lengths of the answers and of the trace. A
batch that runs again starts from the record before it.

Records form a chain: each has a digest of its own content, the digest of the record before it and the run of the identity. So a
changed byte, a missing record, and a record of another checkpoint are found when the log is opened. The end of the chain is
compared with the job's batches: a batch that does not follow the newest record is refused (:meth:`CommitLog.begin`), and so are
records that do not fit the log of a Spark job in the same folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cqels_opt.errors import CheckpointError
from cqels_opt.state import remote_checkpoint
from cqels_opt.state.checkpoint_lock import CheckpointLock, lock_checkpoint
from cqels_opt.state.claim import Claim
from cqels_opt.state.remote_checkpoint import REACHED
from cqels_opt.state.run_identity import NAME, VERSION, Identity, difference, read_identity
from cqels_opt.storage import checksum, disk, documents
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.intervals import BEFORE_TIME

COMMITS = "commits"  # the records
SPARK = "spark"  # the log of the Spark job of a run, next to the records
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
    optimizer: str = ""  # the file of the optimizer's state
    firsts: dict[str, int] = field(default_factory=dict)  # the first time of each stream
    since: dict[str, int] = field(default_factory=dict)  # of programs that were added later: they see no elements up to this time
    began: dict[str, int] = field(default_factory=dict)  # of these, the time of the first element that they see
    renewed: list[str] = field(default_factory=list)  # programs whose last answers were over another version of the static store
    displaced: list[tuple[str, int]] = field(default_factory=list)  # terms with a second id, see cqels_opt.rdf.ids.IdScheme
    query: str = ""  # the digest of the query whose result slots and optimizer state these are
    digests: dict[str, str] = field(default_factory=dict)  # of the committed ``lengths`` of the sinks and the trace
    statistics: list[str] = field(default_factory=list)  # files of earlier batches that ``optimizer`` refers to


class CommitLog:
    """The records of a checkpoint, and the identity of the run that it belongs to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = folder / COMMITS
        disk.make_folder(self.records)
        self._run = ""
        self._other: dict[str, Any] | None = None
        self._held: CheckpointLock | None = None
        self._claim = Claim(None)
        self._begun = False  # a batch that is not committed: memory may hold half of it
        self._noted = -1  # the last batch, where its record is not written yet
        self._reached: int | None = None  # None: not read yet
        self._oldest: int | None = None  # None: not read yet
        self._remote = remote_checkpoint.of_folder(folder)

    def claim(self, identity: Identity, changed: bool | None = False, key: str = "") -> str:
        """Takes the checkpoint; returns the name of its run.

        CheckpointError if it is of another version, or of other data or options.

        CheckpointError also for another query, unless ``changed`` allows one that can use the state (None: the caller has no such
        option), and for a checkpoint that another process uses, because its uncommitted work looks like that of a killed process. The
        ``key`` of the ids of terms is kept for :func:`key_of`.
        """
        run = self._claimed(identity, changed, key)
        self.save()  # the run keeps its name, with which it marks its outputs
        return run

    def _claimed(self, identity: Identity, changed: bool | None, key: str) -> str:
        self._held = lock_checkpoint(self.folder)
        self._claim = Claim(self.records, refusal="a newer run of this process works with the checkpoint: this run ends")
        path, mine = self.folder / NAME, json.loads(json.dumps(asdict(identity)))
        if not path.exists():
            if any(self.records.iterdir()):
                raise CheckpointError(f"{self.folder}: the checkpoint is damaged: {NAME} is missing; use another folder")
            self._check_spark()
            run = self._run = os.urandom(6).hex()
            disk.write_atomically(path, documents.encode(NAME, {"version": VERSION, "run": run, "identity": mine, "key": key}))
            return run
        found, before = read_identity(self.folder)
        run = self._run = str(found["run"])
        now = Identity(**mine)
        self._check_chain()
        self._check_spark()
        if (differs := difference(before, now, changed)) is not None:
            raise CheckpointError(f"{self.folder}: the checkpoint belongs to another run: {differs}")
        self._other = {**found, "identity": mine} if now != before else None
        return run

    def check(self) -> None:
        """CheckpointError if the identity is damaged or missing, or the records are not those of its run."""
        self._run = str(read_identity(self.folder)[0]["run"])
        self._check_chain()
        self._check_spark()

    def persist_identity(self) -> None:
        """The checkpoint now belongs to the query that claimed it: the files kept from the next batch on are those that it needs."""
        if self._other is not None:
            disk.write_atomically(self.folder / NAME, documents.encode(NAME, self._other))
            self._other = None

    @property
    def is_newest(self) -> bool:
        """Whether no other run of this process has claimed the checkpoint since."""
        return self._claim.is_newest

    @contextmanager
    def working(self) -> Iterator[None]:
        """While a run works on a batch, no other run of this process takes the checkpoint. CheckpointError if one has taken it."""
        with self._claim.lock:
            self._claim.check()
            yield

    def write(self, commit: Commit) -> None:
        """Publishes a record after its files are durable; deletes old records, and later ones if the job has gone back."""
        record = {name: getattr(commit, name) for name in Commit.__slots__}
        record["files"] = [f.as_json() for f in commit.files]
        paths = self._paths()
        earlier = [path for path in paths if int(path.stem) < commit.batch]
        for path in reversed(paths[len(earlier) :]):
            if int(path.stem) > commit.batch:
                disk.delete(path)
        before = checksum.digest(disk.read(earlier[-1])) if earlier else ""
        chained = {"run": self._run, "before": before, "state": record}
        path = self._path(commit.batch)
        disk.publish(path, documents.encode(path.name, chained))
        self.save()
        self._begun = False
        self._noted = -1
        for path in earlier[: -KEEP + 1]:
            disk.delete(path)
        self._oldest = min((int(path.stem) for path in earlier[-KEEP + 1 :]), default=commit.batch)

    def save(self, removed: bool = False) -> None:
        """Saves the changes since the last save, if the checkpoint is in an object store; ``removed``: also if files are only gone."""
        if self._remote is not None:
            self._remote.save(self.named(), removed)

    def note(self, batch: int) -> None:
        """A batch is done whose record will be written with a later one."""
        self._noted, self._begun = batch, False

    @property
    def has_waiting_record(self) -> bool:
        """Whether the last batch is done and its record can be written."""
        return self._noted >= 0 and not self._begun

    @property
    def is_written(self) -> bool:
        """Whether the last batch has its record, so that no batch before the next one runs again after a kill."""
        return self._noted < 0

    @property
    def reached(self) -> int:
        """The frontier that batches have reached which may run again; BEFORE_TIME if there are none."""
        if self._reached is None:
            content = disk.read(self.folder / REACHED) if (self.folder / REACHED).exists() else b""
            self._reached = int(content) if content.strip(b"- ").isdigit() else int(BEFORE_TIME)
        return self._reached

    def forget_reached(self) -> None:
        """Nothing is left that ran before: the next batch is a new one, whatever has been reached."""
        self._reached = int(BEFORE_TIME)

    def note_reached(self, frontier: int) -> None:
        """Notes the frontier that a batch reaches, before its answers leave: batches up to it run again without changes that came later.

        The note outlives a kill. It is not synced, so a crash of the machine may lose it.
        """
        if frontier > self.reached:
            self._reached = frontier
            with disk.overwritten(self.folder / REACHED) as file:
                file.write(f"{frontier:>20}".encode())

    def before(self, batch: int) -> Commit | None:
        """The last record before a batch; None at the start."""
        found = [path for path in self._paths() if int(path.stem) < batch]
        return self.read(found[-1]) if found else None

    @property
    def oldest(self) -> int:
        """The batch of the oldest record that is kept; -1 if there is none."""
        if self._oldest is None:
            self._oldest = min((int(path.stem) for path in self._paths()), default=-1)
        return self._oldest

    @property
    def newest(self) -> int:
        """The batch of the last record; -1 if there is none."""
        return max(self.written, self._noted)

    def check_job(self) -> None:
        """CheckpointError if there are records of batches after the first, but the log of the Spark job in the same folder is missing:
        the job would start again. The first batch may run again.
        """
        if _last(self.folder / SPARK / "offsets") < 0 < (newest := self.newest):
            raise CheckpointError(
                f"{self.folder}: the checkpoint is damaged: there are commit records up to batch {newest}, but the job's log in {SPARK}/ "
                "is missing; use another folder"
            )

    @property
    def written(self) -> int:
        """The batch of the last record on the disk; -1 if there is none."""
        return max((int(path.stem) for path in self._paths()), default=-1)

    @property
    def ahead_of_job(self) -> bool:
        """Whether batches are committed that the log of the Spark job does not have: they ran without Spark."""
        return _last(self.folder / SPARK / "offsets") < self.newest

    def begin(self, batch: int, known: int, allow_gap: bool | None = None) -> bool:
        """A batch is about to run over the state after the batch ``known``; returns whether the state must be read again.

        It must if the batch was done already (Spark may not have recorded that), if another object has committed since, and if a
        batch was begun and not committed. A batch that does not follow the newest record is a CheckpointError, because the batches
        between are missing from the state. ``allow_gap`` accepts it; None: the user has no such option.
        """
        newest = self.newest
        if batch > newest + 1 and not allow_gap:
            last = f"the last commit record is that of batch {newest}" if newest >= 0 else "there is no commit record"
            otherwise = "; allow_gap=True continues without the batches between" if allow_gap is False else ""
            raise CheckpointError(
                f"{self.folder}: the job continues at batch {batch}, but {last}: the state is older than the job's checkpoint, or damaged; "
                f"bring back the state of that batch, or start again with another checkpoint and another state folder{otherwise}"
            )
        begun, self._begun = self._begun, True
        return begun or newest >= batch or newest != known

    def check_back(self, batch: int) -> None:
        """A job may go back by a few batches, or to its start. CheckpointError if the record before a batch has been deleted."""
        records = self._paths()
        if batch <= 0 or not records or int(records[0].stem) < batch:
            return
        if self.read(records[0]).totals.get("batches", 0) > 1:
            raise CheckpointError(
                f"{self.folder}: the job goes back to batch {batch}, but the state of before is kept no longer; "
                "start it with another checkpoint and another state folder"
            )

    def forget_from(self, batch: int) -> None:
        """Deletes the records of a batch that runs again, and of those after it, durably."""
        self._noted, self._oldest = -1, None
        later = [path for path in self._paths() if int(path.stem) >= batch]
        for path in reversed(later):
            disk.delete(path)
        if later:
            disk.sync(self.records)
            self.save(removed=True)

    def last(self) -> Commit | None:
        """The last record."""
        return self.before(1 << 62)

    def read(self, path: Path) -> Commit:
        """A record; a damaged one is a :class:`CheckpointError`."""
        with documents.naming_damage(path):
            return self._commit(documents.decode(path.name, disk.read(path)))

    def _commit(self, record: dict[str, Any]) -> Commit:
        fields = record["state"]
        files = [SlotFile(**f) for f in fields["files"]]
        displaced = [(str(text), int(term_id)) for text, term_id in fields["displaced"]]
        return Commit(**{**fields, "files": files, "displaced": displaced})

    def _check_chain(self) -> None:
        """CheckpointError if records are of another run, or do not follow each other."""
        before: str | None = None
        for path in self._paths():
            content = disk.read(path)
            with documents.naming_damage(path):
                found = documents.decode(path.name, content)
                if found["run"] != self._run:
                    raise ValueError(f"it is of another run than {NAME}")
                if before is None and self._commit(found).totals.get("batches", 0) == 1:
                    before = ""  # the first record of all
                if before is not None and found["before"] != before:
                    raise ValueError("the record before it is missing, or another one")
            before = checksum.digest(content)

    def _check_spark(self) -> None:
        """CheckpointError if the Spark job in the same folder has committed batches without a record."""
        newest, committed = self.newest, _last(self.folder / SPARK / "commits")
        if committed > newest:
            has = f"the last commit record is that of batch {newest}" if newest >= 0 else "there is no commit record"
            raise CheckpointError(
                f"{self.folder}: the checkpoint is damaged: the job has committed batch {committed}, but {has}; use another folder"
            )

    def _paths(self) -> list[Path]:
        """The records in order."""
        return sorted(self.records.glob("[0-9]*.json"))

    def sweep(self, folders: Sequence[str]) -> set[str]:
        """Deletes files of these folders that no record names: uncommitted or undeleted files of a process that died. Returns the names
        that records have.
        """
        named = self.named()
        for path in (path for name in folders for path in (self.folder / name).iterdir()):
            if path.is_file() and path.relative_to(self.folder).as_posix() not in named:
                disk.delete(path)
        return named

    def named(self) -> set[str]:
        """The files that a record names."""
        records = [self.read(path) for path in self._paths()]
        found = {name for record in records for name in (record.optimizer, *record.statistics, *(f.path for f in record.files))}
        return found - {""}

    def _path(self, batch: int) -> Path:
        return self.records / f"{batch:012d}.json"


def _last(log: Path) -> int:
    """The greatest batch in a folder of a Spark job's log; -1 if there is none."""
    return max((int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit()), default=-1)
