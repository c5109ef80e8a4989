"""The queries of a run while it goes on: which come and go with which batch (DESIGN §4.7, §9).

When somebody asks for a change is no function of the elements. So what a batch takes in and lets go is written to the checkpoint before
anything else is done for it; a batch that runs again does the same, and a run that starts again over the checkpoint has the queries that
were there. What is asked for during a batch waits for the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from cqels_opt.compiler.multi_query_sharing import Member, Sharing, alone
from cqels_opt.compiler.registration import Programs, member_of
from cqels_opt.errors import CheckpointError, InputError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.store_versions import StoreChange, VersionedStore
from cqels_opt.storage import disk, documents
from cqels_opt.storage.checksum import text_digest
from cqels_opt.windows.binding_slots import SlotFile

FOLDER = "queries"

Change: TypeAlias = "Member | str"
"""A query that comes, or the name of one that goes."""


class QueryCatalog:
    """The queries of a run over a checkpoint, batch by batch, and each batch's version of the store.

    ``started`` are the queries that the run began with.
    """

    def __init__(self, started: Sequence[Member], state: Path, compiled: Programs) -> None:
        self.state, self._first = state, compiled
        self.living = VersionedStore(compiled.store, state)
        self._owner = text_digest(str(state.absolute()))[:12]
        self._compiled = compiled.over(self.living.current.place, self._owner)
        self.folder = state / FOLDER
        self._lock = threading.Lock()
        self._waiting: list[Change] = []
        self._ids: tuple[Sequence[tuple[str, int]], Sequence[Path]] = (), ()
        self._names: dict[str, None] = {}  # of the queries that the next batch will have
        self._pages: dict[str, SlotFile] = {}
        self.refreshed: StoreChange | None = None  # in the batch of now
        self.started = _changed(Sharing(), started)
        self.sharing, self._programs = self.started, list[CompiledProgram]()
        self._have(self.started)

    # -------------------------------------------------------------- asked for from outside
    def add(self, members: Sequence[Member]) -> None:
        """Asks for queries from the next batch on. InputError where a name is taken."""
        with self._lock:
            coming: dict[str, None] = {}
            for member in members:
                if member.id in self._names or member.id in coming:
                    raise InputError(f"there is a query {member.id!r} already")
                coming[member.id] = None
            self._names |= coming
            self._waiting += members

    def fits(self, member: Member) -> bool:
        """Whether a query is one of a template that is there."""
        return any(unit.takes(member) for unit in self.sharing.units)

    def alone(self, member: Member) -> CompiledProgram:
        """A query compiled by itself."""
        return self._compiled.of(alone(member))

    def remove(self, name: str) -> None:
        """Asks for a query to go with the next batch. InputError where there is none of that name, and of the last one."""
        with self._lock:
            if name not in self._names:
                raise InputError(f"there is no query {name!r}")
            if len(self._names) == 1:
                raise InputError(f"{name!r} is the only query that is left: stop the run instead")
            del self._names[name]
            self._waiting.append(name)

    def names(self) -> list[str]:
        """The queries that the next batch will have, in the order in which they came."""
        with self._lock:
            return list(self._names)

    # -------------------------------------------------------------- batch by batch
    def know(self, displaced: Sequence[tuple[str, int]], pages: Sequence[Path]) -> None:
        """Which ids the run has given to terms: constants of queries that come must have others."""
        self._ids = displaced, pages

    def before(self, batch: int) -> list[CompiledProgram]:
        """The programs that a batch finds, as those before it have left them."""
        place = self.living.before(batch).place
        if Path(place) != Path(self._compiled.store):
            self._compiled = self._first.over(place, self._owner)
        sharing = self.started
        for path in sorted(self.folder.glob("[0-9]*.json")) if self.folder.exists() else []:
            if int(path.stem) < batch:
                sharing = _changed(sharing, self._stored(path))
        return self._have(sharing)

    def begin(self, batch: int) -> list[CompiledProgram] | None:
        """The programs of a batch, where they are others than those that it finds: what comes and goes is on disk then."""
        path = self._path(batch)
        with self._lock:
            changes: Sequence[Change] = self._stored(path)
            if not path.exists() and self._waiting:
                disk.make_folder(self.folder)
                told = [change if isinstance(change, str) else change.record for change in self._waiting]
                disk.write_atomically(path, documents.encode(path.name, told))
                changes, self._waiting = self._waiting, []
        return self._have(_changed(self.sharing, changes)) if changes else None

    def refresh(self, batch: int, fits: Callable[[Path | str], bool]) -> list[CompiledProgram] | None:
        """The programs of a batch that goes over to a newer version of the store, if it ``fits``: that it does so is on disk then."""
        self.refreshed = self.living.begin(batch, fits)
        if self.refreshed is None:
            return None
        self._compiled = self._first.over(self.living.current.place, self._owner, self._compiled)
        programs = self._have(self.sharing)
        self._compiled.earlier = None  # what comes later was not there before
        return programs

    def decided(self, batch: int) -> bool:
        """Whether it is on disk what comes and goes with a batch."""
        return self._path(batch).exists()

    def programs(self) -> list[CompiledProgram]:
        """The programs of now."""
        return self._programs

    def committed(self, batch: int) -> None:
        """A batch is done: what only batches long before it needed goes."""
        needed = self.living.committed(batch)
        if needed is not None:
            self._first.forget(self._owner, {Path(place).name for place in needed})

    @property
    def changed(self) -> bool:
        """Whether queries have come or gone since the run was first started."""
        return self.folder.exists() and any(self.folder.iterdir())

    @property
    def pages(self) -> list[SlotFile]:
        """The pages of the terms that compiling made."""
        return list(self._pages.values())

    def _have(self, sharing: Sharing) -> list[CompiledProgram]:
        with self._lock:
            self.sharing = sharing
            self._names = dict.fromkeys(member.id for member in sharing.members)
            for change in self._waiting:
                if isinstance(change, str):
                    self._names.pop(change, None)
                else:
                    self._names[change.id] = None
        known = {id(program) for program in self._programs}
        self._programs = [self._compiled.of(unit) for unit in sharing.units]
        if self._compiled.clashes(*self._ids):
            self._compiled = self._compiled.apart(self._owner, *self._ids)
            self._programs = [self._compiled.of(unit) for unit in sharing.units]
        for program, unit in zip(self._programs, sharing.units):
            if id(program) not in known and (page := self._compiled.page(unit, self.state)) is not None:
                self._pages[page.path] = page
        return self._programs

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch:08d}.json"

    def _stored(self, path: Path) -> list[Change]:
        """What came and went with a batch."""
        try:
            found = documents.decode(path.name, disk.read(path)) if path.exists() else []
            return [change if isinstance(change, str) else member_of(change) for change in found]
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: the checkpoint is damaged ({error}); use another folder") from error


def _changed(sharing: Sharing, changes: Iterable[Change]) -> Sharing:
    """What shares after some changes, in turn. Queries that come together are looked at together, so that they find each other."""
    found = sharing.copy()
    for going, some in groupby(changes, key=lambda change: isinstance(change, str)):
        if going:
            found.remove(change for change in some if isinstance(change, str))
        else:
            found.add(change for change in some if not isinstance(change, str))
    return found
