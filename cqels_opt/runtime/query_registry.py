"""The static data and the registered queries of an engine, on Spark or without it."""

from __future__ import annotations

import hashlib
import tempfile
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, Unpack, cast

from cqels_opt.compiler.multi_query_sharing import Member, Record, alone
from cqels_opt.compiler.registration import Do, Programs, QueryOptions, check_name, member_of, record_of
from cqels_opt.errors import EngineWarning, InputError, check_choice
from cqels_opt.lod.load import LoadReport
from cqels_opt.lod.locations import is_uri, local_path, new_folder
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.snapshots import store_of
from cqels_opt.lod.update import UpdateReport, update
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.query.never_bound import likely_mistakes
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.rdf.terms import ABSOLUTE_IRI
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.registered_query import RegisteredQuery
from cqels_opt.runtime.start_options import keywords_of
from cqels_opt.runtime.static_data import STATIC, Load, extended, leased_store, static_sources, static_store
from cqels_opt.state.run_identity import key_of

PathLike = str | Path
Q = TypeVar("Q", bound=RegisteredQuery)
ON_ERROR = ("fail", "skip")


class QueryRegistry(ABC, Generic[Q]):
    """The part of an engine that needs no machine: a subclass says how static data are loaded, queries compiled, and runs started.

    ``static`` is a file (or several) for the default graph, ``graphs`` maps the IRI of each named graph to a file (or several), ``store``
    is a store that ``cqels-opt load`` wrote; files are added to a copy of it, which shares what does not change. ``folder`` stores the
    output of registration, by default a temporary folder.
    """

    def __init__(
        self,
        load: Load,
        static: PathLike | Sequence[PathLike] | None,
        graphs: Mapping[str, PathLike | Sequence[PathLike]] | None,
        store: PathLike | None,
        folder: PathLike | None,
        on_error: Literal["fail", "skip"],
    ) -> None:
        check_choice("on_error", on_error, ON_ERROR)
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="cqels-opt-")
            folder = self._temporary.name
        self.folder = new_folder(local_path(folder, "folder").absolute(), "folder")
        paths = _paths(() if static is None else static, "static")
        sources = static_sources(paths, _graphs(graphs))
        self.left_out = 0
        """The lines of its files that ``on_error="skip"`` has left out."""

        def loaded(*given: Any, **how: Any) -> LoadReport:
            report = load(*given, **how) if store is None else extended(store, *given, **how)
            self.left_out = report.skipped
            return report

        self._load: Callable[..., Path] | None = None
        if store is None:
            self._load = partial(static_store, loaded, sources=sources, on_error=on_error)
            place: PathLike = self._load(folder=self.folder / STATIC)
        elif not sources:
            place = store
        else:
            if is_uri(store):
                raise InputError(
                    f"{store}: files are combined with a store in a folder: load them into this one with cqels-opt load"
                )
            place = static_store(loaded, self.folder / STATIC, sources, on_error, store=store)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.programs = self._programs("queries", place)
        self._of_keys = {} if self._load is None else {open_store(self.store).scheme.key: self.programs}
        self._queries: dict[str, Q] = {}
        self._kinds: set[Hashable] = set()
        self._registering = threading.RLock()

    @abstractmethod
    def _compiling(self, store: Path | str) -> Do:
        """How queries over a store are compiled."""

    @abstractmethod
    def _registered(self, member: Member) -> Q:
        """A query of this engine."""

    @abstractmethod
    def _check_sink(self, sink: Sink, query: Q, others: Sequence[CompiledProgram]) -> None:
        """InputError if the sink of a run cannot take the answers of a query with those of others."""

    def _register_and_add(
        self, sink: Sink, queries: Sequence[object], options: Mapping[str, Any], add: Callable[[Sequence[Member]], None]
    ) -> list[Member]:
        """Registers queries (texts, or queries of this engine) and adds them to a run; a text that cannot be added is not registered."""
        with self._registering:
            before, found = dict(self._queries), []
            try:
                for given in queries:
                    known = isinstance(given, RegisteredQuery)
                    query = cast("Q", given) if known else self.register(cast("str", given), **options)
                    self._check_sink(sink, query, [other.program for other in self.queries if other.id != query.id])
                    found.append(query.member)
                add(found)
            except BaseException:
                self._queries = before
                raise
        return found

    def _programs(self, name: str, store: PathLike) -> Programs:
        place = leased_store(self.folder, store)
        return Programs(place, self.folder / name, self._compiling(place))

    @property
    def store(self) -> Path | str:
        """The version of the store that was opened for the programs."""
        return self.programs.store

    def __repr__(self) -> str:
        return f"{type(self).__name__}(store={str(self.store)!r}, queries={list(self._queries)})"

    def update(
        self,
        add: PathLike | Sequence[PathLike] = (),
        remove: PathLike | Sequence[PathLike] = (),
        graphs: Mapping[str, PathLike | Sequence[PathLike]] | None = None,
        on_error: Literal["fail", "skip"] = "fail",
    ) -> UpdateReport:
        """Writes the next version of the engine's store, as ``cqels-opt load --update``; runs switch to it in their next batch.

        First the triples (quads) of ``remove`` are removed, then those of ``add`` are added; ``graphs`` maps the IRIs of named
        graphs to files to add. Raises DataError with file and line, and StoreError if the store cannot be updated.
        """
        check_choice("on_error", on_error, ON_ERROR)
        added = static_sources(_paths(add, "add"), _graphs(graphs))
        removed = static_sources(_paths(remove, "remove"), [])
        others = [programs.store for programs in self._of_keys.values() if programs is not self.programs]
        *_, report = [update(store_of(place) or place, added, removed, on_error=on_error) for place in (*others, self.store)]
        return report

    def under_key_of(self, checkpoint: Path) -> Programs:
        """The programs over static data with the term ids of a checkpoint.

        Data that the engine has loaded with another key are loaded again with the checkpoint's key; a store contains its own key.
        """
        key = key_of(checkpoint)
        if self._load is not None and key is not None:
            if key not in self._of_keys:
                name = hashlib.sha256(key.encode()).hexdigest()[:8]
                place = self._load(folder=self.folder / f"{STATIC}-{name}", scheme=IdScheme(key))
                self._of_keys[key] = self._programs(f"queries-{name}", place)
            self.programs = self._of_keys[key]
        return self.programs

    @property
    def queries(self) -> list[Q]:
        """The registered queries, in order of registration."""
        return list(self._queries.values())

    def known(self, text: str, options: Mapping[str, Any]) -> Q | None:
        """The query that has been registered with a text and these options; without an ``id``, under any name."""
        names = self._queries if options.get("id") is None else self._queries.keys() & {options["id"]}
        return next((self._queries[n] for n in names if self._queries[n].member.record == _record(text, n, options)), None)

    @keywords_of(QueryOptions, record_of)
    def register(self, text: str, **options: Unpack[QueryOptions]) -> Q:
        """Parses a query, computes its static sub-results, and retains its plans. Raises QueryError with line and column.

        Likely mistakes, such as a variable of SELECT that nothing binds, are an EngineWarning.

        :class:`QueryOptions` describes the keywords; ``report`` is for example ``"wc,nc"``, or ``{"w": "p:10s"}`` by window.
        """
        if not isinstance(text, str):
            raise InputError(f"a query is a text, not {type(text).__name__}")
        with self._registering:
            if (name := options.get("id")) is None:
                name = next(free for n in count(len(self._queries) + 1) if (free := f"q{n}") not in self._queries)
            record = _record(text, name, options)
            check_name(name)
            if name in self._queries:
                raise InputError(f"there is a query {name!r} already")
            found = self._registered(member_of(record))
            if found.member.kind not in self._kinds:  # a query that differs only in constants is known to compile
                self.programs.of(alone(found.member))
                self._kinds.add(found.member.kind)
            for sentence in likely_mistakes(found.query):
                warnings.warn(f"{name}: {sentence}", EngineWarning, stacklevel=3)
            self._queries[name] = found
            return found


def _record(text: str, name: str, options: Mapping[str, Any]) -> Record:
    """The registration of a query under a name, with options of :class:`QueryOptions`."""
    return record_of(**{**options, "text": text, "id": name})


def _paths(given: PathLike | Sequence[PathLike], what: str) -> list[Path]:
    several: Iterable[PathLike] = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    return [local_path(path, what) for path in several]


def _graphs(given: Mapping[str, PathLike | Sequence[PathLike]] | None) -> list[tuple[str, Path]]:
    if not isinstance(given or {}, Mapping):
        raise InputError(
            f'graphs={given!r}: give files by the IRI of their graph, such as {{"http://example.org/map": "map.ttl"}}'
        )
    for iri in given or {}:
        if not isinstance(iri, str) or not ABSOLUTE_IRI.fullmatch(iri.removeprefix("<").removesuffix(">")):
            raise InputError(f"graphs: {iri!r} is no absolute IRI, like http://example.org/map")
    return [(iri, path) for iri, files in (given or {}).items() for path in _paths(files, f"graphs: {iri}")]
