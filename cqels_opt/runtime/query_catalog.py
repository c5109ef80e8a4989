"""The queries of a running job, and the batches that add and remove them (DESIGN §4.7, §9).

The time of a request is no function of the elements. Therefore the changes of a batch are written to the checkpoint before anything
else is done for it; a batch that runs again does the same, and a restarted run has the queries of its checkpoint. Requests wait for the
next batch that no batch before a kill has reached.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from cqels_opt.compiler.multi_query_sharing import Member, Sharing, alone
from cqels_opt.compiler.registration import Programs, member_of
from cqels_opt.errors import InputError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.store_versions import StoreChange, VersionedStore
from cqels_opt.state.run_identity import queries_of
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
        self.store_versions = VersionedStore(compiled.store, state)
        self._owner = text_digest(str(state.absolute()))[:12]
        self._compiled = compiled.over(self.store_versions.current.place, self._owner)
        self.folder = state / FOLDER
        self._lock = threading.Lock()
        self._waiting: list[Change] = []
        self._recorded: list[tuple[int, Change]] = []  # by batch, of batches that have begun and will run again
        self._ids: tuple[Sequence[tuple[str, int]], Sequence[Path]] = (), ()
        self._next: dict[str, Member] = {}  # the queries that the next batch will have
        self._page_of: dict[str, SlotFile] = {}  # by program: the terms that its compilation created
        self._pages: dict[str, SlotFile] = {}  # these by path, and those of programs before that the current batch may read
        self.refreshed: StoreChange | None = None  # in the current batch
        self.continued = frozenset[
            str
        ]()  # the programs before the last change that are still there, perhaps with other instances
        order = {name: place for place, name in enumerate(queries_of(state))}  # which determines names and numbers of instances
        ordered: list[Member] = sorted(started, key=lambda member: order.get(member.id, len(order)))
        self.started = _changed(Sharing(), ordered)
        self.sharing, self._programs = self.started, list[CompiledProgram]()
        self._have(self.started)

    # -------------------------------------------------------------- requests
    def add(self, members: Sequence[Member]) -> None:
        """Adds queries from the next batch on. InputError if a name is taken."""
        with self._lock:
            coming: dict[str, Member] = {}
            for member in members:
                if member.id in self._next or member.id in coming:
                    raise InputError(f"there is a query {member.id!r} already")
                coming[member.id] = member
            self._next |= coming
            self._waiting += members

    def fits(self, member: Member) -> bool:
        """Whether a query is an instance of a registered template."""
        return any(unit.takes(member) for unit in self.sharing.units)

    def alone(self, member: Member) -> CompiledProgram:
        """A query compiled by itself."""
        return self._compiled.of(alone(member))

    def remove(self, *names: str) -> None:
        """Removes queries with the next batch. InputError, and none is removed, if one of them does not exist, or none would be left."""
        with self._lock:
            for name in names:
                if name not in self._next:
                    raise InputError(f"there is no query {name!r}")
            if self._next.keys() <= {*names}:
                raise InputError(f"{names[-1]!r} is the only query that is left: stop the run instead")
            for name in dict.fromkeys(names):
                del self._next[name]
                self._waiting.append(name)

    def names(self) -> list[str]:
        """The names of the queries of the next batch, in the order of their requests."""
        return [member.id for member in self.members()]

    def members(self) -> list[Member]:
        """The queries of the next batch, in the order of their requests."""
        with self._lock:
            return list(self._next.values())

    # -------------------------------------------------------------- batch by batch
    def know(self, displaced: Sequence[tuple[str, int]], pages: Sequence[Path]) -> None:
        """Sets the ids that the run has given to terms: constants of new queries must have others."""
        self._ids = displaced, pages
        if self._compiled is not self._first:  # they are for this run alone
            self._compiled.see(pages)

    def before(self, batch: int, oldest: int) -> list[CompiledProgram]:
        """The programs that a batch finds, as those before it have left them; ``oldest`` is the first batch whose record is kept."""
        place = self.store_versions.before(batch, oldest).place
        if Path(place) != Path(self._compiled.store):
            self._compiled = self._first.over(place, self._owner)
        sharing, recorded = self.started, list[tuple[int, Change]]()
        for path in sorted(self.folder.glob("[0-9]*.json")) if self.folder.exists() else []:
            if int(path.stem) < batch:
                sharing = _changed(sharing, self._stored(path))
            else:
                recorded += [(int(path.stem), change) for change in self._stored(path)]
        self._recorded = recorded
        return self._have(sharing)

    def has_changes(self) -> bool:
        """Whether the next batch may take changes that it has not recorded."""
        newer = self.store_versions.has_newer()
        with self._lock:
            return newer or bool(self._waiting)

    def begin(self, batch: int, take: bool) -> list[CompiledProgram] | None:
        """The programs of a batch, if they differ from those before: by recorded changes, or by those that wait if it is to ``take`` them.
        The change is on disk then.
        """
        path = self._path(batch)
        with self._lock:
            changes: Sequence[Change] = self._stored(path)
            self._recorded = [(later, change) for later, change in self._recorded if later > batch]
            if not path.exists() and self._waiting and take and not self._recorded:
                disk.make_folder(self.folder)
                records = [change if isinstance(change, str) else change.record for change in self._waiting]
                disk.write_atomically(path, documents.encode(path.name, records))
                changes, self._waiting = self._waiting, []
        if not changes:
            return None
        before, sharing = {unit.id: unit for unit in self.sharing.units}, _changed(self.sharing, changes)
        self.continued = frozenset(unit.id for unit in sharing.units if unit.continues(before.get(unit.id)))
        return self._have(sharing)

    def refresh(self, batch: int, take: bool, fits: Callable[[Path | str], bool]) -> list[CompiledProgram] | None:
        """The programs of a batch that switches to a newer version of the store, see :meth:`VersionedStore.begin`."""
        self.refreshed = self.store_versions.begin(batch, take, fits)
        if self.refreshed is None:
            return None
        self._compiled = self._first.over(self.store_versions.current.place, self._owner, self._compiled)
        programs = self._have(self.sharing)
        self._compiled.earlier = None  # later queries were not there before
        return programs

    def decided(self, batch: int) -> bool:
        """Whether the changes of a batch are on disk."""
        return self._path(batch).exists()

    def programs(self) -> list[CompiledProgram]:
        """The current programs."""
        return self._programs

    def text(self, program: str) -> str | None:
        """The text of the query of a program, of one of them where several share it."""
        units = zip(self._programs, self.sharing.units)
        return next((unit.members[0][1].query.text for found, unit in units if found.id == program), None)

    def program_of(self, query: str) -> str:
        """The name of the program that answers a query, which several queries may share; that of another one is its own."""
        units = zip(self._programs, self.sharing.units)
        return next((found.id for found, unit in units if any(member.id == query for _, member in unit.members)), query)

    def committed(self, oldest: int) -> None:
        """A batch is done, and ``oldest`` is the first one whose record is kept: deletes files that only batches before it need."""
        needed = self.store_versions.committed(oldest)
        if needed is not None:
            self._first.forget(self._owner, {Path(place).name for place in needed})

    @property
    def changed(self) -> bool:
        """Whether queries have been added or removed since the run was first started."""
        return self.folder.exists() and any(self.folder.iterdir())

    @property
    def pages(self) -> list[SlotFile]:
        """The pages of the terms that compilation created."""
        return list(self._pages.values())

    def forget_pages(self) -> set[str]:
        """Forgets the pages of removed programs, once the batch that removed them is done; returns their files."""
        pages = {page.path: page for page in self._page_of.values()}
        gone, self._pages = self._pages.keys() - pages.keys(), pages
        return gone

    def _have(self, sharing: Sharing) -> list[CompiledProgram]:
        with self._lock:
            self.sharing = sharing
            self._next = {member.id: member for member in sharing.members}
            for change in (*(change for _, change in self._recorded), *self._waiting):
                if isinstance(change, str):
                    self._next.pop(change, None)
                else:
                    self._next[change.id] = change
        before, page_of = {id(program): program for program in self._programs}, dict[str, SlotFile]()
        self._programs = [self._compiled.of(unit, self._owner) for unit in sharing.units]
        if self._compiled.clashes(*self._ids):
            self._compiled = self._compiled.apart(self._owner, *self._ids)
            self._programs = [self._compiled.of(unit, self._owner) for unit in sharing.units]
        for program, unit in zip(self._programs, sharing.units):
            page = self._page_of.get(program.id) if id(program) in before else self._compiled.page(unit, self.state, self._owner)
            if page is not None:
                page_of[program.id] = self._pages[page.path] = page
        self._page_of = page_of
        return self._programs

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch:08d}.json"

    def _stored(self, path: Path) -> list[Change]:
        """The queries that a batch adds and removes."""
        with documents.naming_damage(path):
            found = documents.decode(path.name, disk.read(path)) if path.exists() else []
            return [change if isinstance(change, str) else member_of(change) for change in found]


def _changed(sharing: Sharing, changes: Iterable[Change]) -> Sharing:
    """The sharing after some changes, one by one. Queries that are added together are compiled together, so that they share."""
    found = sharing.copy()
    for going, some in groupby(changes, key=lambda change: isinstance(change, str)):
        if going:
            found.remove(change for change in some if isinstance(change, str))
        else:
            found.add(change for change in some if not isinstance(change, str))
    return found
